# SPDX-License-Identifier: Apache-2.0
"""
The unit of berthd (T12 of the security notes): its score, and that berthd makes sandboxes under what the unit takes from
it.  There is no systemd to start it here: the capabilities, filters and umask that it names are set by hand.
"""
import ctypes
import errno
import os
import re
import shutil
import socket
import subprocess

import berthtest as b
import daemon

ALLOW, ERRNO_EPERM, EQUAL = 0x7FFF0000, 0x00050000 | errno.EPERM, 4
FAMILIES = 46


class Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def unit():
    with open(os.path.join(b.TOP, "systemd/berthd.service")) as f:
        return f.read()


def setting(name):
    found = re.search(rf"^{name}=(.*)$", unit(), re.M)
    assert found, f"the unit has no {name}"
    return found.group(1)


def need_systemd():
    if not shutil.which("systemd-analyze"):
        raise b.skip("needs systemd-analyze")


def group(name):
    out = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line.strip() for line in out.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]


def filters():
    """SystemCallFilter= and RestrictAddressFamilies= of the unit, ready to be loaded."""
    lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    lib.seccomp_init.restype = ctypes.c_void_p
    ctx = ctypes.c_void_p(lib.seccomp_init(ALLOW))
    denied = setting("SystemCallFilter")
    assert denied.startswith("~"), denied
    count = 0
    for call in [c for name in denied[1:].split() for c in group(name)]:
        nr = lib.seccomp_syscall_resolve_name(call.encode())
        count += nr >= 0 and lib.seccomp_rule_add(ctx, ERRNO_EPERM, nr, 0) == 0
    assert count > 10, count
    allowed = {getattr(socket, name) for name in setting("RestrictAddressFamilies").split()}
    nr = lib.seccomp_syscall_resolve_name(b"socket")
    for family in set(range(FAMILIES)) - allowed:
        rule = Compare(0, EQUAL, family, 0)
        assert lib.seccomp_rule_add_array(ctx, ERRNO_EPERM, nr, 1, ctypes.byref(rule)) == 0
    return lambda: lib.seccomp_load(ctx) == 0 or os._exit(99)


def test_t12_the_unit_is_scored_no_worse_than_promised():
    need_systemd()
    os.makedirs(b.tmp(""), exist_ok=True)
    path = b.write(b.tmp("berthd.service"), unit().replace("@SBINDIR@/berthd", "/bin/true"))
    r = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=67", path],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert r.returncode == 0 and "Overall exposure level" in r.stdout, r.stdout[-2000:]


@b.deadline(120)
def test_t12_sandboxes_are_made_under_what_the_unit_takes():
    need_systemd()
    caps = ",".join("+" + c.removeprefix("CAP_").lower() for c in setting("CapabilityBoundingSet").split())
    with daemon.Daemon(wait=False) as d:
        with open(d.log_path, "ab") as log:
            d.p = subprocess.Popen(["setpriv", "--no-new-privs", "--bounding-set", "-all," + caps, daemon.BERTHD], env=d.environment(),
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=filters(), umask=int(setting("UMask"), 8))
        b.wait_for(d.ready, 20, "berthd")
        with open(f"/proc/{d.p.pid}/status") as f:
            status = f.read()
        assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status, status
        box = d.create(memory="64m", disk="16m")
        answer = d.exec(box, "sh", "-c", "echo made > /root/f && cat /root/f && hostname")
        assert answer["exit_status"] == 0 and answer["stdout"].startswith("made\n"), answer
        d.good("POST", f"/v1/sandboxes/{box}/stop")
        d.good("POST", f"/v1/sandboxes/{box}/start")
        assert d.exec(box, "cat", "/root/f")["stdout"] == "made\n"
        # what the profile gives a sandbox is not less than without the unit
        assert d.exec(box, "python3", "-c", "import mmap,ctypes; mmap.mmap(-1, 4096, prot=7); import socket; socket.socket().close()")["exit_status"] == 0
        d.good("DELETE", f"/v1/sandboxes/{box}?force=true")
