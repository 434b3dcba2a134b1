# SPDX-License-Identifier: Apache-2.0
"""
D11 and on: what the kernel counts once for all of the host, and one sandbox could use up.  The floods here are small:
each asks whether the first grain is refused or bounded, and none comes near the limit of the machine.

Attacks S24 of SECURITY.md.
"""
import berthtest as b

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
