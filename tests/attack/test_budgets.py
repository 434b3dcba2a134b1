# SPDX-License-Identifier: Apache-2.0
"""
D11 and on: what the kernel counts once for all of the host, and one sandbox could use up.  The floods here are small:
each asks whether the first grain is refused or bounded, and none comes near the limit of the machine.

Attacks S24 of SECURITY.md.
"""
import berthtest as b
from box import Box

COST = 20

FILTERS = r"""
import ctypes, errno, os, socket, struct
L = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))	# return "allow", or "the whole packet"
prog = struct.pack("HxxxxxxQ", 1, ctypes.addressof(code))
def tried(*what):
    print(*what, flush=True)
"""


def inside(script, *options, **kw):
    return b.run(*options, "host", "python3", "-c", FILTERS + script, **kw)


def test_D11_no_program_is_attached_to_a_socket():
    """Its compiled code counts against net.core.bpf_jit_limit and against no sandbox."""
    script = r"""
for make in ((socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_INET6, socket.SOCK_STREAM),
             (socket.AF_NETLINK, socket.SOCK_RAW)):
    try:
        s = socket.socket(*make)
    except OSError:
        continue
    for level, option in ((1, 26), (1, 50), (1, 51), (1, 52), (263, 22)):
        try:
            s.setsockopt(level, option, prog)
            tried("attached", make, level, option)
        except OSError as e:
            if e.errno != errno.EPERM:
                tried(errno.errorcode[e.errno], make, level, option)
tried("end")
"""
    for profile in ("strict", "standard", "dev"):
        r = inside(script, "--seccomp", profile, ok=True)
        b.expect(r.out == "end\n", r, f"profile {profile}: a program was attached, or the kernel was asked")


def test_D11_a_filter_ends_with_its_task():
    """A listener would keep it: one descriptor for each 400 KB of compiled code, whatever --pids says."""
    r = inside(r"""
p = ctypes.create_string_buffer(prog)
L.prctl(38, 1, 0, 0, 0)
for flags in (8, 8 | 2, 8 | 16, 8 | 32):
    r = L.syscall({"x86_64": 317, "aarch64": 277}[os.uname().machine], 1, flags, p)
    tried(flags, r, errno.errorcode.get(ctypes.get_errno()))
""", ok=True)
    b.expect(r.out == "".join(f"{flags} -1 EINVAL\n" for flags in (8, 10, 24, 40)), r, "a filter got a listener")


def test_D11_programs_may_still_confine_themselves():
    """Browsers, file(1), man(1) and services load filters of their own."""
    r = inside(r"""
p = ctypes.create_string_buffer(prog)
L.prctl(38, 1, 0, 0, 0)
tried(L.syscall({"x86_64": 317, "aarch64": 277}[os.uname().machine], 1, 1, p))
tried(L.prctl(22, 2, p, 0, 0))
""", ok=True)
    b.expect(r.out == "0\n0\n", r, "a filter of the payload's own was refused")


def test_D11_a_used_up_limit_is_named_by_its_knob():
    for nth in (1, 2):
        r = b.run("host", "true", prefix=["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=seccomp",
                                          "-e", f"inject=seccomp:error=524:when={nth}"])
        b.one_line_error(r, 125, "ENOTSUPP (524)", "net.core.bpf_jit_limit", "hint:")


def test_D13_detached_commands_do_not_grow_the_keeper():
    """Its memory is the host's: 40 commands that print 6 MB each, at once and after each other."""
    with Box("--pids", "400") as x:
        commands = []
        for n in range(40):
            commands.append(x.main.detach("sh", "-c", f"echo begin {n}; head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; "
                                          f"echo end {n}; echo end {n} >&2"))
        for n, c in enumerate(commands):
            x.main.wait(c)
            with open(f"/proc/{x.keeper}/status") as f:
                status = dict(line.split(":", 1) for line in f)
            grown = int(status["VmHWM"].split()[0])
            assert grown < 64 << 10, f"the keeper took {grown} KiB after {n + 1} commands"
        # both ends of each are there, and the rest is counted
        for n, c in enumerate(commands):
            head, tail = x.main.output(c)[0], x.main.output(c, "stderr", 3000000)[0]
            assert head.startswith(b"begin %d\n" % n) and tail == b"end %d\n" % n, (n, head[:20], tail[-20:])


@b.deadline(120)
def test_D14_one_sandbox_cannot_open_all_files_of_a_small_host():
    """By default: the hard limit of open files times --pids, against a host with a million."""
    r = b.run("host", "sh", "-c", "ulimit -Hn", ok=True)
    assert int(r.out) * 512 <= 2100000, r.out


@b.deadline(90)
def test_L02_an_end_that_takes_the_kernel_longer_is_waited_for():
    """It closes 800,000 files for longer than 5 s.  Here each wait in turn is over at once, as if that time had passed."""
    hit = 0
    for nth in range(1, 12):
        r = b.run("--timeout", "200ms", "--grace", "0s", "host", "sleep", "1000",
                  prefix=["strace", "-qq", "-o", b.tmp("trace"), "-e", "trace=poll,ppoll",
                          "-e", f"inject=poll,ppoll:retval=0:when={nth}"])
        with open(b.tmp("trace")) as f:
            hit += "INJECTED" in f.read()
        b.expect("outlived" not in r.err and r.code == 124, r, f"wait {nth} was taken for the last")
    assert hit >= 3, f"only {hit} waits were cut short"
