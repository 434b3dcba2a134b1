# SPDX-License-Identifier: Apache-2.0
"""
T3, E02-E14, E19: a root file system made by an enemy.

Whatever stands in it, the answer comes within 5 s, a host directory outside it (the victim)
stays as it was, its secret is not read, the tree itself is not written to, and (the leak
check) the host's mounts are the same afterwards.

Attacks S2 of SECURITY.md.
"""
import ctypes
import multiprocessing
import os
import shutil
import socket
import stat
import subprocess
import time

import berthtest as b

COST = 25
ANSWER = 5
SECRET = "host-secret-canary"


class Enemy:
    """A busybox tree in which entries are replaced, one case at a time."""

    def __init__(self):
        self.top = b.busybox_rootfs()
        self.victim = b.victim()
        self.sealed = b.seal(self.victim)
        self.bad = []

    def at(self, name):
        return os.path.join(self.top, name)

    def put(self, name, kind):
        """Replaces the entry; returns what undoes it."""
        path = self.at(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        aside = self.top + ".aside"
        had = os.path.lexists(path)
        if had:
            os.rename(path, aside)
        KINDS[kind](path, self)

        def undo():
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
            if had:
                os.rename(aside, path)
        return undo

    def attack(self, label, *options, command=None, refused_ok=True, **kw):
        """One run; notes what it must not have done.  Returns the result, or None after a hang."""
        before = b.seal(self.top)
        script = ("for d in / /dev /dev/pts /dev/shm /proc /sys /tmp /run /workspace /etc /root /data; do"
                  "  echo pwn >$d/pwn; mkdir $d/pwned; cat $d/secret $d/victim/secret; rm $d/open; chmod 777 $d/sub/file;"
                  f" done; cat {self.victim}/secret; exit 0")
        try:
            r = b.run(*options, self.top, *(command or ["/bin/sh", "-c", script]), timeout=ANSWER, **kw)
        except AssertionError as late:
            self.bad.append(f"{label}: {str(late).splitlines()[0]}")
            r = None
        if b.seal(self.victim) != self.sealed:
            self.bad.append(f"{label}: the victim changed: {os.listdir(self.victim)}")
            self.sealed = b.seal(self.victim)
        if b.seal(self.top) != before:
            self.bad.append(f"{label}: the tree was written to")
        if r and SECRET in r.out + r.err:
            self.bad.append(f"{label}: the secret was read")
        if r and r.code not in (0, 2, 125, 126, 127) and not command:
            self.bad.append(f"{label}: exit status {r.code}: {r.err!r}")
        if r and r.code == 125 and (len(r.err.splitlines()) != 1 or not r.err.startswith("berth")):
            self.bad.append(f"{label}: not one clear line: {r.err!r}")
        if r and r.code and not refused_ok:
            self.bad.append(f"{label}: refused: {r.err!r}")
        return r

    def done(self):
        assert not self.bad, "\n".join(self.bad)


def socket_at(path, _):
    with socket.socket(socket.AF_UNIX) as s:
        here = os.getcwd()
        os.chdir(os.path.dirname(path))
        s.bind(os.path.basename(path))
        os.chdir(here)


KINDS = {
    "absolute link to the victim": lambda p, e: os.symlink(e.victim, p),
    "relative link to the victim": lambda p, e: os.symlink("../" * 12 + e.victim.lstrip("/"), p),
    "relative link beside the tree": lambda p, e: os.symlink("../victim", p),
    "link to /": lambda p, e: os.symlink("/", p),
    "link to ..": lambda p, e: os.symlink("../../../..", p),
    "dangling link": lambda p, e: os.symlink("/nowhere/at/all", p),
    "link to itself": lambda p, e: os.symlink(os.path.basename(p), p),
    "link to the root of pid 1": lambda p, e: os.symlink("/proc/1/root" + e.victim, p),
    "link to an fd": lambda p, e: os.symlink("/proc/self/fd/3", p),
    "link to its own cwd": lambda p, e: os.symlink("/proc/self/cwd/../victim", p),
    "link to core_pattern": lambda p, e: os.symlink("/proc/sys/kernel/core_pattern", p),
    "regular file": lambda p, e: b.write(p, "a file\n"),
    "FIFO": lambda p, e: os.mkfifo(p),
    "socket": socket_at,
    "character device": lambda p, e: os.mknod(p, 0o666 | stat.S_IFCHR, os.makedev(1, 5)),
    "block device": lambda p, e: os.mknod(p, 0o666 | stat.S_IFBLK, os.makedev(7, 200)),
    "directory of mode 0": lambda p, e: os.mkdir(p, 0),
    "full directory": lambda p, e: b.write(p + "/sub/pwn", "x"),
}


def every_kind(*names, options=()):
    e = Enemy()
    for name in names:
        for kind in KINDS:
            undo = e.put(name, kind)
            e.attack(f"/{name} is a {kind}", *options)
            undo()
    e.done()


def test_a_tree_without_malice_runs():
    e = Enemy()
    r = e.attack("plain", command=["/bin/sh", "-c", "echo $0 works; id -u; pwd; cat /etc/passwd | head -1"], refused_ok=False)
    assert r.out == "/bin/sh works\n0\n/workspace\nroot:x:0:0:root:/root:/bin/sh\n", r
    e.done()


def test_E08_dev_replaced():
    every_kind("dev")


def test_E08_entries_of_dev_replaced():
    every_kind("dev/pts", "dev/shm", "dev/null")


def test_E07_terminal_entries_replaced():
    every_kind("dev/mqueue", "dev/ptmx", "dev/console")


def test_E05_proc_and_sys_replaced():
    every_kind("proc", "sys")


def test_E09_tmp_and_run_replaced():
    every_kind("tmp", "run")


def test_E14_workspace_and_root_replaced():
    every_kind("workspace", "root")


def test_E12_etc_replaced():
    every_kind("etc", options=("-u", "user"))


def test_E12_files_of_etc_replaced():
    every_kind("etc/hosts", "etc/resolv.conf", "etc/hostname", "etc/mtab")


def test_E12_user_databases_replaced():
    every_kind("etc/passwd", "etc/group", options=("-u", "user:staff"))


def test_E09_mount_targets_replaced():
    every_kind("data", options=("-v", "/usr/share/doc:/data"))


def test_E09_mount_targets_below_what_was_replaced():
    source = b.tmpdir("source", 0o777)
    every_kind("data", options=("-v", source + ":/data/new/sub:rw", "--tmpfs", "/data/t"))


def test_E09_mount_targets_of_every_form():
    e = Enemy()
    source = b.tmpdir("source", 0o777)
    os.symlink(e.victim, e.at("out"))
    os.symlink("out/sub", e.at("chain"))
    os.symlink("/oldroot" + e.victim, e.at("oldroot-link"))
    os.symlink("../" * 30 + e.victim.lstrip("/"), e.at("up"))
    for target in ("/out", "/out/sub", "/out/new", "/chain", "/chain/x", "/oldroot-link/pwn", "/up/pwn", "/" + "../" * 30 + "x",
                   "/data/../out/x", "/oldroot/.." + e.victim, "/proc/self/root/x", "/proc/1/root" + e.victim, "/dev/x", "/dev/pts/x",
                   "/sys/x", "/proc/sys/kernel", "/.", "//", "/data/" + "d/" * 300, "/" + "n" * 300, "/bin", "/bin/sh", "/dev", "/proc",
                   "/dev/null", "/proc/1", "/etc/passwd", "/etc", e.victim, e.victim + "/pwn"):
        for option in (["-v", f"{source}:{target}:rw"], ["--tmpfs", target]):
            e.attack(f"mount on {target[:60]}", *option)
    assert os.listdir(source) in ([], ["pwn", "pwned"], ["pwned", "pwn"]), os.listdir(source)
    e.done()


def test_E09_a_mount_below_a_shared_directory_goes_nowhere_else():
    """The share was prepared by an earlier sandbox: its entries are links."""
    e = Enemy()
    share = b.tmpdir("share", 0o777)
    source = b.tmpdir("source")
    os.symlink(e.victim, share + "/link")
    os.symlink("../victim", share + "/rel")
    os.mkfifo(share + "/fifo")
    for target in ("/s/link", "/s/link/new", "/s/rel", "/s/rel/new", "/s/fifo", "/s/fifo/x", "/s/link/sub"):
        for mode in ("", ":rw"):
            e.attack(f"{target} in a share", "-v", f"{share}:/s{mode}", "-v", f"{source}:{target}")
    e.done()


def test_E12_huge_and_odd_user_databases():
    e = Enemy()
    passwd, group = e.at("etc/passwd"), e.at("etc/group")
    good = open(passwd, "rb").read()

    def sparse(path):
        with open(path, "wb") as f:
            f.truncate(8 << 30)

    cases = {
        "8 GiB sparse passwd": lambda: sparse(passwd),
        "8 GiB sparse group": lambda: sparse(group),
        "one line of 16 MiB": lambda: b.write(passwd, b"user:x:1000:1000:" + b"a" * (16 << 20)),
        "a million lines": lambda: b.write(passwd, b"a:x:1:1::/:/bin/sh\n" * 1_000_000 + good),
        "NUL bytes": lambda: b.write(passwd, b"\0" * 100_000 + good),
        "no newline": lambda: b.write(passwd, b"user:x:1000:1000"),
        "control bytes in the home": lambda: b.write(passwd, b"user:x:1000:1000::/home/\x1b]0;x\x07\x01:/bin/sh\n"),
    }
    seal_of = b.seal
    b.seal = lambda top: seal_of(top) if top == e.victim else ""  # not 8 GiB at each look
    for label, prepare in cases.items():
        prepare()
        for user in ("user", "1000", "nosuch", "user:staff"):
            e.attack(f"{label}, -u {user}", "-u", user, command=["/bin/true"])
        b.write(passwd, good)
        b.write(group, "root:x:0:\nstaff:x:50:user\n")
    b.seal = seal_of
    e.done()


def test_E13_ids_in_passwd_do_not_wrap():
    e = Enemy()
    for number in ("4294967296", "-1", "0x0", " 0", "+0", "", "65536", "18446744073709551616", "1000000", "0 ", "00000000000000000000",
                   "4294967295", "2147483648", "1e3", "0\t"):
        b.write(e.at("etc/passwd"), f"root:x:0:0::/root:/bin/sh\nevil:x:{number}:{number}::/:/bin/sh\n")
        r = e.attack(f"uid {number!r} in passwd", "-u", "evil", command=["/bin/sh", "-c", "id -u; id -g"])
        if r and r.code == 0 and "0" in r.out.split() and number not in ("00000000000000000000",):
            e.bad.append(f"uid {number!r} in passwd gives root: {r.out!r}")
    e.done()


# (what -u is given, "uid:gid" that must come of it, or None: must be refused)
USERS = [
    ("0", "0:0"), ("root", "0:0"), ("1", "1:1"), ("user", "1000:1000"), ("1000", "1000:1000"), ("daemon", "1:1"),
    ("0:0", "0:0"), ("1000:0", "1000:0"), ("1000:1000", "1000:1000"), ("user:staff", "1000:50"), ("user:0", "1000:0"),
    ("root:staff", "0:50"), ("1000:staff", "1000:50"), ("4242", "4242:any"), ("4242:4242", "4242:4242"), ("65535", "65535:any"),
    ("65535:65535", "65535:65535"), ("0day", "5:5"), ("with.dot", "6:6"), ("with-dash_x", "7:7"),
    ("4294967296", None), ("4294967295", None), ("2147483648", None), ("65536", None), ("-1", None), ("+0", None), ("0x0", None),
    (" 0", None), ("0 ", None), ("0:", None), (":0", None), (":", None), ("root\n", None), ("\nroot", None), ("root:", None),
    ("1000:65536", None), ("1000:-1", None), ("1000:4294967296", None), ("1000: 0", None), ("1000:+0", None), ("1000:0x0", None),
    ("1:2:3", None), ("0:0:0", None), ("18446744073709551616", None), ("18446744073709551615", None), ("1e3", None), ("0.0", None),
    ("١", None), ("root\t", None), ("root\x1b[0m", None), ("ROOT", None), ("nosuch", None), ("root:nosuch", None), ("nosuch:root", None),
    ("roo", None), ("root:x:0:0", None), ("x", None), ("../root", None), ("/root", None), ("root/", None), ("*", None),
    ("$(id)", None), ("00", "0:0 or refused"), ("007", "7:7 or refused"), ("0000000000000000000000001", "1:1 or refused"), ("a" * 5000, None),
]


def test_E13_the_table_of_user_strings():
    e = Enemy()
    with open(e.at("etc/passwd"), "a") as f:
        f.write("0day:x:5:5::/:/bin/sh\nwith.dot:x:6:6::/:/bin/sh\nwith-dash_x:x:7:7::/:/bin/sh\n")
    bad = []
    for user, want in USERS:
        r = b.run(f"--user={user}", e.top, "/bin/sh", "-c", "echo $(id -u):$(id -g)", timeout=ANSWER)
        got = r.out.strip()
        if want is None or (want.endswith("refused") and r.code):
            if r.code not in (2, 125) or r.out or len(r.err.splitlines()) != 1 or not r.err.strip().replace("\t", "").isprintable():
                bad.append(f"{user[:40]!r} should be refused: exit {r.code}, {r.out!r} {r.err!r}")
            continue
        want = want.split()[0]
        if r.code or not (got == want or want.endswith(":any") and got.split(":")[0] == want.split(":")[0]):
            bad.append(f"{user!r} should be {want}: exit {r.code}, {got!r} {r.err!r}")
    assert not bad, "\n".join(bad)


def test_E03_a_working_directory_by_descriptor():
    e = Enemy()
    fd = os.open(e.victim, os.O_RDONLY | os.O_DIRECTORY)
    opened = [os.dup(fd) for _ in range(8)]
    for n in opened:
        os.set_inheritable(n, True)
    escape = ["/bin/sh", "-c", f"pwd; ls; cat secret; cat {'../' * 12}{e.victim.lstrip('/')}/secret; echo pwn >pwn; mkdir pwned"]
    for n in range(0, 33):
        for place in (f"/proc/self/fd/{n}", f"/proc/1/fd/{n}", f"/dev/fd/{n}"):
            r = e.attack(f"workdir {place}", "-w", place, command=escape, pass_fds=opened)
            if r and ("(unreachable)" in r.out or "victim" in r.out):
                e.bad.append(f"workdir {place}: {r.out!r}")
    for n in opened + [fd]:
        os.close(n)
    e.done()


def test_E14_a_working_directory_by_link():
    e = Enemy()
    links = {"abs": e.victim, "up": "../" * 20 + e.victim.lstrip("/"), "fd": "/proc/self/fd/5", "pid1": "/proc/1/cwd", "self": "self",
             "exe": "/proc/self/root", "long": "x" * 4000, "beside": "../victim"}
    for name, to in links.items():
        os.symlink(to, e.at(name))
    for place in list(links) + ["abs/new", "up/new/deep", "beside/new", "..", "../../..", "proc/self/root", "proc/1/root", "proc/self/cwd",
                                "proc/1/cwd", "etc/passwd", "dev/null", "nonexist/" * 100, "x" * 300, "proc/nope", "sys/nope", ".", "abs/../new"]:
        e.attack(f"workdir /{place[:50]}", "-w", "/" + place,
                 command=["/bin/sh", "-c", "pwd; cat secret; echo pwn >pwn; mkdir pwned; cat ../victim/secret"])
    e.done()


def test_E02_the_program_is_not_rewritten():
    e = Enemy()
    before = subprocess.run(["sha256sum", b.BERTH], capture_output=True).stdout
    b.write(e.at("bin/reexec"), "#!/proc/self/exe\n", 0o755)
    for command in (["/proc/self/exe"], ["/proc/self/exe", "run", "host", "true"], ["/bin/reexec"], ["/proc/1/exe"],
                    ["/proc/self/fd/3"], ["/proc/self/fd/4"],
                    ["/bin/sh", "-c", "for p in /proc/*/exe; do echo pwn >$p; done; for f in /proc/1/fd/*; do cat $f </dev/null; done"]):
        e.attack(f"command {command}", command=command)
    assert subprocess.run(["sha256sum", b.BERTH], capture_output=True).stdout == before
    e.done()


def test_E06_masked_paths_are_ours():
    e = Enemy()
    os.symlink("/proc/sys/kernel/core_pattern", e.at("dev/null"))
    r = e.attack("dev/null is a link", command=["/bin/sh", "-c",
                 "for f in kcore keys timer_list interrupts iomem kallsyms slabinfo vmallocinfo zoneinfo; do"
                 " [ -e /proc/$f ] && echo $f $(cat /proc/$f 2>/dev/null | wc -c); echo x 2>/dev/null >/proc/$f; done; stat -c %t:%T /dev/null"],
                 refused_ok=False)
    assert r and r.out.endswith("1:3\n"), r
    for line in r.out.splitlines()[:-1]:
        assert line.split()[1] == "0", r.out
    e.done()


def test_K12_devices_and_setuid_files_of_the_tree_are_dead():
    e = Enemy()
    os.mknod(e.at("zero"), 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    os.mknod(e.at("disk"), 0o666 | stat.S_IFBLK, os.stat(b.root()).st_dev)
    os.mkdir(e.at("suid"))
    shutil.copy(b.BUSYBOX, e.at("suid/busybox"))
    os.chmod(e.at("suid/busybox"), 0o6755)
    r = e.attack("nodes", "-u", "1000", command=["/bin/sh", "-c", "head -c 1 /zero && echo opened; head -c 1 /disk && echo opened;"
                                                 "/suid/busybox id -u; /suid/busybox id -g"], refused_ok=False)
    assert r and r.out == "1000\n1000\n", r
    e.done()


def test_I23_overlay_attributes_of_the_tree_lead_nowhere():
    e = Enemy()
    for name, value in (("redirect", e.victim.encode()), ("redirect", b"/../../../.." + e.victim.encode()), ("opaque", b"y"), ("metacopy", b"")):
        d = e.at(f"d-{len(value)}")
        os.mkdir(d)
        b.write(d + "/f", "x")
        try:
            os.setxattr(d, "trusted.overlay." + name, value)
            os.setxattr(d + "/f", "trusted.overlay." + name, value)
        except OSError as no:
            raise b.skip(f"no trusted xattrs here: {no}")
        e.attack(f"trusted.overlay.{name}={value!r}", command=["/bin/sh", "-c", f"ls {'/d-%d' % len(value)}; cat /d-*/secret /d-*/f; echo pwn >/d-{len(value)}/pwn"])
    e.done()


def test_E19_what_the_payload_leaves_is_removed_as_data():
    """It replaces what it can by links to the victim; taking the sandbox down follows none."""
    e = Enemy()
    script = (f"for d in /workspace /etc /root /data /bin2 /tmp/x /run/x /dev/shm/x /var; do rm -rf $d; ln -s {e.victim} $d; done;"
              f"mkdir -p /deep; cd /deep; i=0; while [ $i -lt 600 ]; do mkdir d && cd d || break; i=$((i+1)); done; ln -s {e.victim} v;"
              "mv /tmp /tmp2; mv /dev /dev2; cd /; mkdir 'a\nb'; echo ok")
    r = e.attack("links", command=["/bin/sh", "-c", script], refused_ok=False)
    assert r and "ok" in r.out, r
    r = e.attack("links, kept", "--keep", "--name", "kept", command=["/bin/sh", "-c", script], refused_ok=False)
    b.berth("rm", "kept", ok=True, timeout=20)
    assert b.seal(e.victim) == e.sealed
    e.done()


RESTARTS = {  # what the payload makes of the files that berth seeds anew at each start; what /etc/hosts is then
    "/etc is a link out of the tree": ("mv /etc /e; ln -s {victim} /etc", None),
    "/etc is gone": ("rm -rf /etc", None),
    "/etc is a file": ("rm -rf /etc; echo x >/etc", None),
    "/etc is a FIFO": ("rm -rf /etc; mkfifo /etc", None),
    "the files are links": ("for f in hosts hostname resolv.conf; do rm -f /etc/$f; ln -s {victim}/secret /etc/$f; done", "localhost"),
    "the files are FIFOs": ("for f in hosts hostname resolv.conf; do rm -f /etc/$f; mkfifo /etc/$f; done", "localhost"),
    "the files are gone": ("rm -f /etc/hosts /etc/hostname /etc/resolv.conf", "localhost"),
    "the files are directories": ("for f in hosts hostname resolv.conf; do rm -f /etc/$f; mkdir -p /etc/$f/sub; done", None),
    "the files are one with another": ("for f in hosts hostname resolv.conf; do ln -f /etc/passwd /etc/$f; done", "localhost"),
    "the files are open to all": ("chmod 777 /etc/hosts; chmod 777 /etc", "localhost"),
}


def test_E19_what_the_payload_leaves_is_not_followed_at_the_next_start():
    """A start seeds /etc of the writable layer as the host's root, before there is a sandbox around it."""
    e = Enemy()
    b.write(e.at("etc/hosts"), "of the image\n")
    for n, (label, (script, hosts)) in enumerate(RESTARTS.items()):
        name = f"again{n}"
        b.berth("create", "--name", name, e.top, ok=True)
        b.berth("exec", name, "/bin/sh", "-c", script.format(victim=e.victim), ok=True)
        b.berth("stop", name, ok=True)
        try:
            r = b.berth("start", name, timeout=ANSWER)
            b.expect(r.code == 0, r, label)
            r = b.berth("exec", name, "/bin/sh", "-c", "cat /etc/hosts; stat -c %a /etc/hosts; head -1 /etc/passwd", timeout=ANSWER)
            b.expect(hosts is None or hosts in r.out and "644" in r.out and "root:" in r.out, r, label)
        except AssertionError as bad:
            e.bad.append(f"{label}: {bad}")
        if b.seal(e.victim) != e.sealed:
            e.bad.append(f"{label}: the victim changed: {sorted(os.listdir(e.victim))}")
            e.sealed = b.seal(e.victim)
        b.berth("rm", "-f", name, ok=True, timeout=20)
    e.done()


def test_a_full_disk_does_not_keep_a_sandbox_from_its_next_start():
    """What it holds could not be had out of it otherwise."""
    for what, options, fill in (("bytes", (), "cat /dev/zero >/z"), ("inodes", ("--disk-inodes", "300"), "while echo >/z$((i=i+1)); do :; done")):
        name = "full-" + what
        b.berth("create", "--name", name, "--disk", "16m", *options, b.busybox_rootfs("rootfs-" + what), ok=True)
        for seeds in ("", "rm -f /etc/hosts /etc/hostname /etc/resolv.conf;"):
            r = b.berth("exec", name, "/bin/sh", "-c", f"{seeds} echo kept >/kept; i=0; {fill}")
            b.expect("No space left" in r.err, r, f"no end of {what}")
            b.berth("stop", name, ok=True)
            b.berth("start", name, ok=True)
            b.expect(b.berth("exec", name, "cat", "/kept", ok=True).out == "kept\n", r, f"what was kept, {what}")
            b.berth("exec", name, "/bin/sh", "-c", "rm -f /z*", ok=True)
        b.berth("rm", "-f", name, ok=True)


def test_the_tree_itself_may_be_no_plain_directory():
    e = Enemy()
    os.symlink(e.top, b.tmp("link"))
    r = b.run(b.tmp("link"), "/bin/true", timeout=ANSWER)
    b.expect(r.code in (0, 125), r, "a link to a tree")
    for kind in ("regular file", "FIFO", "socket", "character device", "link to itself", "dangling link"):
        KINDS[kind](b.tmp("root-" + kind.replace(" ", "-")), e)
        b.one_line_error(b.run(b.tmp("root-" + kind.replace(" ", "-")), "/bin/true", timeout=ANSWER), 125)
    empty = b.tmpdir("empty")
    b.one_line_error(b.run(empty, "/bin/true", timeout=ANSWER), 127)
    assert os.listdir(empty) == []


# ---- races ----------------------------------------------------------------

def exchange_forever(one, other):
    """RACE(a, b) of the security notes."""
    libc = ctypes.CDLL(None)
    one, other = one.encode(), other.encode()
    while True:
        libc.renameat2(-100, one, -100, other, 2)


def race(e, one, other, runs, *options):
    racer = multiprocessing.get_context("fork").Process(target=exchange_forever, args=(one, other), daemon=True)
    racer.start()
    try:
        least = min(runs, 10 if b.SANITIZED else 50)
        end = time.monotonic() + 15
        done = 0
        while done < least or done < runs and time.monotonic() < end:
            try:
                r = b.run(*options, e.top, "/bin/sh", "-c", "echo pwn >/s/a/pwn; echo pwn >/data/pwn; cat /s/a/secret /data/secret; exit 0",
                          timeout=ANSWER)
            except AssertionError as late:
                e.bad.append(str(late).splitlines()[0])
                break
            if SECRET in r.out + r.err:
                e.bad.append("the secret was read")
                break
            done += 1
    finally:
        racer.kill()
        racer.join()
        racer.close()
    if b.seal(e.victim) != e.sealed:
        e.bad.append(f"the victim changed: {os.listdir(e.victim)}")
    e.done()


def test_E09_race_on_a_mount_target_in_the_tree():
    e = Enemy()
    os.mkdir(e.at("data"))
    os.symlink(e.victim, e.at("evil"))
    source = b.tmpdir("source")
    race(e, e.at("data"), e.at("evil"), b.times(80, 300), "-v", f"{source}:/data/sub:rw")


def test_E09_race_on_a_shared_directory():
    e = Enemy()
    share = b.tmpdir("share", 0o777)
    os.mkdir(share + "/a", 0o777)
    os.symlink(e.victim, share + "/evil")
    source = b.tmpdir("source")
    race(e, share + "/a", share + "/evil", b.times(80, 300), "-v", f"{share}:/s:rw", "-v", f"{source}:/s/a/sub", "-w", "/s/a/work")


def test_E08_race_on_dev():
    e = Enemy()
    os.symlink(e.victim, e.at("evil"))
    race(e, e.at("dev"), e.at("evil"), b.times(80, 200))


def test_E05_race_on_proc():
    e = Enemy()
    os.symlink(e.victim, e.at("evil"))
    race(e, e.at("proc"), e.at("evil"), b.times(80, 200))


def test_E12_race_on_passwd():
    e = Enemy()
    os.mkfifo(e.at("etc/evil"))
    race(e, e.at("etc/passwd"), e.at("etc/evil"), b.times(80, 200), "-u", "user")
