# SPDX-License-Identifier: Apache-2.0
"""Processes and namespaces, seen from the test."""
import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWNET = 0x00020000, 0x08000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE, MS_SHARED = 0x1000, 0x4000, 1 << 18, 1 << 20
PR_SET_CHILD_SUBREAPER = 36


def check(result, what):
    if result < 0:
        e = ctypes.get_errno()
        raise OSError(e, f"{what}: {os.strerror(e)}")
    return result


# The network that the tests' tools may need: packages come from a mirror.  own_namespaces() leaves it.
machine_network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def in_machine_network():
    """For preexec_fn: gives the command the machine's network instead of the test's."""
    check(libc.setns(machine_network, CLONE_NEWNET), "setns")


# Switches of a network namespace: the value on a machine that nobody set up, and on one where a firewall, a VPN or another
# container engine did.  A new namespace takes some of them from the machine's own, so each test sets all of them.
NETWORK_SWITCHES = {
    "ipv4/ip_forward": ("0", "1"),
    "ipv4/conf/all/rp_filter": ("0", "1"),
    "ipv4/conf/default/rp_filter": ("0", "1"),
    "ipv4/conf/all/route_localnet": ("0", "1"),
    "ipv4/conf/all/log_martians": ("0", "1"),
    "ipv4/conf/all/arp_ignore": ("0", "1"),
    "ipv4/ping_group_range": ("1\t0", "0\t2147483647"),
    "ipv4/ip_unprivileged_port_start": ("1024", "0"),
    "ipv4/tcp_syncookies": ("1", "2"),
    "ipv6/conf/all/forwarding": ("0", "1"),
    "ipv6/conf/default/forwarding": ("0", "1"),
    "ipv6/conf/all/disable_ipv6": ("0", "0"),
    "ipv6/conf/default/disable_ipv6": ("0", "0"),
}
# make BUSYNET=1: the second values instead of the first
BUSY_NETWORK = os.environ.get("BERTH_TEST_BUSYNET") == "1"


def set_network_switches():
    """In a new network namespace.  A kernel without IPv6 lacks its switches."""
    for name, values in NETWORK_SWITCHES.items():
        with contextlib.suppress(FileNotFoundError), open("/proc/sys/net/" + name, "w") as f:
            f.write(values[BUSY_NETWORK])


def own_namespaces():
    """
    A mount, IPC and network namespace for this test, so that two tests at once do not
    see each other's mounts.  The mounts are then shared within it, as on a host under
    systemd: a sandbox that forgets to make its own private is found by the leak check.
    """
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET), "unshare")
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "make / private")
    check(libc.mount(b"none", b"/", None, MS_REC | MS_SHARED, None), "make / shared")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        lo = struct.pack("16sh14x", b"lo", 1)  # IFF_UP
        fcntl.ioctl(s, 0x8914, lo)  # SIOCSIFFLAGS
    set_network_switches()


def bind(source, target):
    check(libc.mount(source.encode(), target.encode(), None, MS_BIND, None), f"bind {source}")


def subreaper():
    """Makes the orphans of our children our children, and not those of the machine's pid 1."""
    check(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def handles(pid, signo):
    """Whether the process has its own handler for this signal."""
    try:
        with open(f"/proc/{pid}/status") as f:
            caught = next(line for line in f if line.startswith("SigCgt:"))
    except (FileNotFoundError, ProcessLookupError):
        return False
    return bool(int(caught.split()[1], 16) >> (signo - 1) & 1)


def stat(pid):
    """(state, parent) of a process, or None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            rest = f.read().rsplit(b")", 1)[1].split()
        return rest[0].decode(), int(rest[1])
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return None


def pids():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def descendants(root):
    """Every living process below root; zombies are not alive."""
    children = {}
    states = {}
    for pid in pids():
        s = stat(pid)
        if s:
            states[pid] = s[0]
            children.setdefault(s[1], []).append(pid)
    found, todo = [], [root]
    while todo:
        for child in children.get(todo.pop(), ()):
            todo.append(child)
            if states[child] not in "ZX":
                found.append(child)
    return found


def alive(pid):
    s = stat(pid)
    return s is not None and s[0] not in "ZX"


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            args = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
        with open(f"/proc/{pid}/status") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        said = ", ".join(f"{k} {status[k]}" for k in ("State", "ShdPnd") if k in status)
        return f"{pid} ({status.get('Name')}: {said}) {args[:120]}"
    except (FileNotFoundError, ProcessLookupError):
        return f"{pid} (gone)"


def descriptors(pid):
    """The target of each of its descriptors."""
    return sorted(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))


def cgroups(pid):
    try:
        with open(f"/proc/{pid}/cgroup") as f:
            return [line.split(":", 2)[2].rstrip("\n") for line in f]
    except (FileNotFoundError, ProcessLookupError):
        return []


def kill(pid, sig=signal.SIGKILL):
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        pass


def reap():
    """Collects every child of ours that has ended."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except OSError as e:
            if e.errno == errno.ECHILD:
                return
            raise


def reap_orphans(root):
    """Collects ended children of root, our process, that it did not start itself (their sessions or comm differ)."""
    for pid in pids():
        s = stat(pid)
        if s and s[1] == root and s[0] == "Z":
            try:
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
            except ChildProcessError:
                pass


def children(pid):
    """Of all its threads."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as f:
            found += f.read().split()
    return found
