# SPDX-License-Identifier: Apache-2.0
"""
S56.  What berth's own processes on the host may do: read from /proc and compared with the table of SECURITY.md, and tried from
inside of a keeper and of berthd, as an attacker who runs code there would.
"""
import contextlib
import errno
import json
import os
import re
import signal

import berthtest as b
import proc
from box import Box
from daemon import Daemon
from puppet import Puppet
from zygotebox import Zygote

CAPS = ("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST "
        "NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE "
        "SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM "
        "BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE").split()
KEPT_BY_BERTHD = ("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP SETFCAP NET_ADMIN NET_BIND_SERVICE "
                  "SYS_ADMIN SYS_CHROOT SYS_PTRACE SYS_RESOURCE MKNOD").split()


def status(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def names(mask):
    return {CAPS[i] for i in range(len(CAPS)) if int(mask, 16) >> i & 1}


def table():
    """process: (uid, capabilities, no_new_privs, filters), as SECURITY.md says."""
    with open(os.path.join(b.TOP, "SECURITY.md")) as f:
        text = f.read().split("## Processes on the host", 1)[1].split("\n## ", 1)[0]
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {r[0]: r[1:5] for r in rows[2:]}


def check(who, pid, base=None):
    """base: of a process whose rights are its starter's."""
    uid, caps, nnp, filters = table()[who]
    s = status(pid)
    own = status("self")
    ids = set(s["Uid"].split())
    if uid == "0":
        assert ids == {"0"}, (who, ids)
    else:
        assert "0" not in ids, (who, ids)
    wanted = {"none": set(), "all": names(own["CapBnd"])}.get(caps)
    if wanted is None:
        wanted = set(re.findall(r"[A-Z_]+", caps)) & names(own["CapBnd"])
        assert wanted, caps
    assert names(s["CapEff"]) == names(s["CapPrm"]) == wanted, (who, names(s["CapEff"]) ^ wanted)
    assert int(s["CapInh"], 16) == int(s["CapAmb"], 16) == 0, (who, s)
    if caps not in ("none", "all"):
        assert names(s["CapBnd"]) == wanted, (who, names(s["CapBnd"]) ^ wanted)
    assert s["NoNewPrivs"] == {"yes": "1", "no": own["NoNewPrivs"]}[nnp], (who, s["NoNewPrivs"])
    loaded = int(s["Seccomp_filters"]) - int(own["Seccomp_filters"]) - (int(base["Seccomp_filters"]) if base else 0)
    assert loaded == int(filters), (who, loaded)


def descendant(pid, name):
    def look():
        return next((p for p in proc.descendants(pid) if status(p)["Name"] == name), None)
    return b.wait_for(look, what=name)


@b.deadline(60)
def test_keepers_guardians_helpers_and_init_have_what_the_table_says():
    box = b.berth("create", "--network", "egress", "--allow-host", "example.com", "--restart", "always", "host", "sleep", "1000",
                  ok=True).out.strip()
    record = json.loads(b.berth("inspect", "--json", box, ok=True).out)
    keeper = record["supervisor_pid"]
    check("keeper", keeper)
    check("berth-net", descendant(keeper, "berth-net"))
    check("berth-init", record["init_pid"])
    guardian = proc.stat(keeper)[1]
    b.wait_for(lambda: b"guard" in open(f"/proc/{guardian}/cmdline", "rb").read(), what="the guardian")
    check("guardian", guardian)
    b.berth("rm", "--force", box, ok=True)


@b.deadline(60)
def test_the_supervisor_of_a_run_has_what_the_table_says():
    p = b.start("run", "host", "sleep", "60")
    try:
        b.wait_for(lambda: any(status(q)["Name"] == "sleep" for q in proc.descendants(p.pid)), what="the command")
        check("berth run", p.pid)
    finally:
        b.stop(p, signal.SIGTERM)


@b.deadline(60)
def test_the_supervisors_of_zygotes_and_forks_have_what_the_table_says():
    with Zygote() as z:
        top = z.supervisors()[0]
        check("zygote's supervisor", top)
        box = b.berth("create", "--zygote", z.name, ok=True).out.strip()
        keeper = json.loads(b.berth("inspect", "--json", box, ok=True).out)["supervisor_pid"]
        check("keeper", keeper)
        b.berth("rm", "--force", box, ok=True)


@b.deadline(60)
def test_berthd_and_the_keepers_it_starts_have_what_the_table_says():
    with Daemon() as d:
        check("berthd", d.p.pid)
        for thread in os.listdir(f"/proc/{d.p.pid}/task"):
            # one that served a connection ends with it
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                check("berthd", thread)
        box = d.good("POST", "/v1/sandboxes", {"image": "host"})["id"]
        keeper = json.loads(b.berth("inspect", "--json", box, ok=True).out)["supervisor_pid"]
        check("keeper", keeper, base=status(d.p.pid))
        d.good("DELETE", f"/v1/sandboxes/{box}?force=true")


def test_the_unit_of_systemd_bounds_berthd_to_the_same():
    with open(os.path.join(b.TOP, "systemd", "berthd.service")) as f:
        bounds = re.search(r"^CapabilityBoundingSet=(.*)$", f.read(), re.M)[1]
    said = set(re.findall(r"[A-Z_]+", table()["berthd"][1]))
    assert {c.removeprefix("CAP_") for c in bounds.split()} == said == set(KEPT_BY_BERTHD)


# (name, number, arguments): none of these does harm to the machine if it goes through
# what has gone with the capabilities, of berthd too
LOST = [
    ("init_module", 175, (0, 0, 0)), ("finit_module", 313, (-1, 0, 0)), ("delete_module", 176, (0, 0)),
    ("kexec_load", 246, (0, 1 << 40, 0, 0)), ("kexec_file_load", 320, (-1, -1, 0, 0, 0)), ("ioperm", 173, (0x80, 1, 1)),
    ("settimeofday", 164, (0, 0)), ("reboot", 169, (0, 0, 0, 0)),
]
KEEPERS = [
    ("iopl", 172, (0,)), ("modify_ldt", 154, (0, 0, 0)),
    ("swapon", 167, (0, 0)), ("swapoff", 168, (0,)), ("uselib", 134, (0,)), ("sysfs", 139, (3,)),
    ("clock_settime", 227, (0, 0)), ("clock_adjtime", 305, (0, 0)), ("adjtimex", 159, (0,)),
    ("syslog", 103, (10, 0, 0)), ("quotactl", 179, (0, 0, 0, 0)), ("sethostname", 170, (0, 65)),
    ("setdomainname", 171, (0, 65)), ("pivot_root", 155, (0, 0)), ("personality", 135, (0xffffffff,)),
    ("ptrace pid 1", 101, (3, 1, 0, 0)), ("process_vm_readv", 310, (1, 0, 0, 0, 0, 0)), ("process_vm_writev", 311, (1, 0, 0, 0, 0, 0)),
    ("kcmp", 312, (1, 1, 0, 0, 0)), ("pidfd_getfd", 438, (-1, 0, 0)), ("move_pages", 279, (1, 0, 0, 0, 0, 0)),
    ("bpf", 321, (0, 0, 0)), ("perf_event_open", 298, (0, 0, 0, 0, 0)), ("userfaultfd", 323, (0,)),
    ("io_uring_setup", 425, (1, 0)), ("io_uring_enter", 426, (-1, 0, 0, 0)), ("io_uring_register", 427, (-1, 0, 0, 0)),
    ("add_key", 248, (0, 0, 0, 0, 0)), ("request_key", 249, (0, 0, 0, 0)), ("keyctl", 250, (0, -3, 0)),
    ("fanotify_init", 300, (0, 0)), ("open_by_handle_at", 304, (-1, 0, 0)), ("name_to_handle_at", 303, (-100, 0, 0, 0, 0)),
    ("mprotect to code", 10, (0, 4096, 5)), ("mmap of writable code", 9, (0, 4096, 7, 0x22, -1, 0)),
]
SOCKETS = [("AF_PACKET", 17, 3), ("raw IPv4", 2, 3), ("raw IPv6", 10, 3), ("AF_VSOCK", 40, 1), ("AF_ALG", 38, 5), ("AF_XDP", 44, 3),
           ("AF_CAN", 29, 3), ("AF_BLUETOOTH", 31, 3), ("AF_KEY", 15, 3), ("SCTP", 2, 5)]


def refused(p, rows, *with_what):
    went = [(name, got) for name, number, args in rows for got in [p.call(number, *args)] if -got not in (with_what or (errno.EPERM,))]
    assert not went, went


@b.deadline(60)
def test_code_in_a_keeper_is_refused_what_no_verb_needs():
    with Box() as x:
        pid = x.keeper
        with Puppet(pid) as p:
            assert p.call(39) == pid  # getpid: the tries are made by the keeper
            refused(p, LOST + KEEPERS)
            refused(p, [(name, 41, (family, kind, 0)) for name, family, kind in SOCKETS], errno.EAFNOSUPPORT)
            at = p.text(b.tmp("node"))
            refused(p, [("a disk's node", 259, (-100, at, 0o60600, 0x700)), ("mknod", 133, (at, 0o20600, 0x103))])
            assert not os.path.exists(b.tmp("node"))
            # and none of it comes back: not by another user, by another set or by a program
            sets = p.text("\0" * 24)
            with open(f"/proc/{pid}/mem", "r+b", 0) as f:
                f.seek(sets)
                f.write((0x20080522).to_bytes(4, "little") + bytes(4))
                f.seek(sets + 64)
                f.write(b"\xff" * 24)
            assert p.call(126, sets, sets + 64) == -errno.EPERM, "capset"
            assert p.call(157, 24, CAPS.index("SYS_MODULE")) in (-errno.EPERM, 0), "PR_CAPBSET_DROP"
            assert p.call(157, 39) == 1, "no_new_privs stays"
        # it lives on, and serves
        assert x.exec("echo", "there", ok=True).out == "there\n"


@b.deadline(60)
def test_code_in_berthd_is_refused_what_none_of_its_children_needs():
    with Daemon() as d:
        with Puppet(d.p.pid) as p:
            assert p.call(39) == d.p.pid
            refused(p, LOST, errno.EPERM, errno.ENOSYS)     # a kernel without modules has no call for them
        assert d.get("/healthz").status == 200
