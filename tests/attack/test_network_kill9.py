# SPDX-License-Identifier: Apache-2.0
"""kill -9 of berth, of its network helper and of a live change of rules at each step, then one berth gc (L08)."""
import contextlib
import json
import os
import socket
import subprocess
import time

import berthtest as b
import netlab
import proc
from box import Box
from netlab import BRIDGE, INSIDE, METADATA, Lab, need_bridge

COST = 45

RUN = ("run", "--network", "bridge", "-p", "8080:80", "--allow-net", "10.0.0.0/8", "host", "sh", "-c", "sleep 0.05; exit 3")


def left_over():
    found = []
    try:
        b.wait_for(lambda: not netlab.ports(), 5)  # they go with the namespace, a moment later
    except AssertionError:
        found = [f"interface {n}" for n in netlab.ports()]
    if netlab.elements():
        found.append(f"{netlab.elements()} elements in nftables")
    top = os.path.join(b.root(), "state", "network")
    found += [f"state/network/{n}" for n in os.listdir(top) if n != "lock"]
    out = subprocess.run(["ip", "neigh", "show", "nud", "permanent"], stdout=subprocess.PIPE, text=True).stdout
    found += [f"neighbour {line}" for line in out.splitlines() if "10.203." in line]
    found += [f"process {proc.cmdline(p)}" for p in proc.descendants(os.getpid())]
    return found


def settle(label, bad):
    me = os.getpid()
    try:
        b.wait_for(lambda: not [p for p in proc.descendants(me) if proc.alive(p)], 20)
    except AssertionError:
        bad.append(f"{label}: alive: {[proc.cmdline(p) for p in proc.descendants(me)]}")
        b.kill_tree(me)
    proc.reap()
    r = b.berth("gc", timeout=30)
    if r.code:
        bad.append(f"{label}: berth gc says {r.err.strip()}")
    if netlab.ruleset() or "berth0" in [n for _, n in socket.if_nameindex()]:
        bad.append(f"{label}: the bridge or its rules are left")
    left = left_over()
    if left:
        bad.append(f"{label}: left after gc: {left[:5]}")


@b.deadline(400)
@b.long_proof("kills at one step a run")
def test_L08_kill_9_of_the_helper_at_each_step():
    """By strace, the n-th of each of its telling calls; the sandbox is refused, and nothing of it is left even before gc."""
    need_bridge()
    bad, killed = [], 0
    with Lab(forwarding=True):
        b.run(*BRIDGE, "host", "true", ok=True)
        for call in ("sendto", "flock", "renameat", "setns", "pwrite64", "fsync"):
            for nth in range(1, 40, b.times(3, 1)):
                r = b.berth(*RUN, prefix=("strace", "-f", "-qq", "-o", b.tmp("trace"), "-e", f"trace={call}", "-e",
                                          f"inject={call}:signal=SIGKILL:when={nth}"), timeout=60)
                with open(b.tmp("trace")) as f:
                    hit = "killed by SIGKILL" in f.read()
                if r.code == 3 and not hit:
                    break
                killed += 1
                if r.code != 3 and r.code > 0 and "network" not in r.err and "berth" in r.err:
                    bad.append(f"{call} {nth}: {r.code} {r.err.strip()}")
                settle(f"{call} {nth}", bad)
                b.run(*BRIDGE, "host", "true", ok=True)
    assert not bad, "\n".join(bad)
    assert killed >= b.times(5, 15), killed


@b.deadline(300)
def test_L08_kill_9_of_berth_at_any_time():
    need_bridge()
    bad = []
    with Lab(forwarding=True):
        began = time.monotonic()
        b.run(*BRIDGE, "host", "true", ok=True)
        whole = time.monotonic() - began
        for i in range(14):
            p = b.start(*RUN)
            time.sleep(whole * 1.2 * i / 14)  # the point to hit
            b.stop(p)
            settle(f"after {whole * 1.2 * i / 14 * 1000:.0f} ms", bad)
        for i in range(3):
            x = b.berth("create", *BRIDGE, "host", ok=True).out.strip()
            keeper = json.loads(b.berth("inspect", x, ok=True).out)["supervisor_pid"]
            proc.kill(keeper)
            b.wait_for(lambda: not proc.alive(keeper), 5, "the keeper's end")
            proc.reap_orphans(os.getpid())
            settle(f"keeper {i}", bad)
            b.berth("rm", "-f", x, ok=True)
    assert not bad, "\n".join(bad)


@contextlib.contextmanager
def strace_children(keeper, trace, call, nth):
    """The nth call of that name that the keeper, or what it starts, makes is its last."""
    p = subprocess.Popen(["strace", "-f", "-qq", "-o", trace, "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={nth}", "-p",
                          str(keeper)], stderr=subprocess.DEVNULL)
    try:
        b.wait_for(lambda: "TracerPid:\t0\n" not in open(f"/proc/{keeper}/status").read(), 20, "strace")
        yield
    finally:
        p.terminate()
        p.wait()


@b.deadline(300)
@b.long_proof("kills at one step a run")
def test_L08_kill_9_of_a_live_update_at_each_step():
    """Whatever is cut off where, the kernel has the old rules or the new ones, whole; then the sandbox goes and leaves nothing."""
    need_bridge()
    bad, killed = [], 0
    private, private2 = INSIDE[0], INSIDE[2]
    with Lab(forwarding=True) as lab:
        for call in ("sendto", "renameat", "fsync", "execve", "recvmsg"):
            misses = 0
            for nth in range(1, 12):
                with Box("--name", "live", *BRIDGE, "--allow-net", f"{private}/32") as x:
                    trace = b.tmp("trace")
                    with strace_children(x.keeper, trace, call, nth):
                        r = b.berth("update", "--allow-net", f"{private2}/32", "--deny-net", f"{private}/32", "--network-connections", "9",
                                    "live", timeout=60)
                    with open(trace) as f:
                        hit = "killed by SIGKILL" in f.read()
                    killed += hit
                    if proc.alive(x.keeper):
                        got = [x.exec("curl", "-s", "-m", "20", "-o", "/dev/null", f"http://{a}/").code for a in (private, private2, METADATA)]
                        if got not in ([0, 7, 7], [7, 0, 7]):
                            bad.append(f"{call} {nth}: rules of neither: {got}")
                        if r.code == 0 and got != [7, 0, 7]:
                            bad.append(f"{call} {nth}: said to be done, and is not: {got}")
                        # and another change goes through
                        r = b.berth("update", "--allow-net", f"{private2}/32", "--network-connections", "8", "live")
                        if r.code:
                            bad.append(f"{call} {nth}: not to be changed any more: {r.err}")
                    else:
                        b.berth("gc", ok=True, timeout=30)  # a sandbox whose keeper was killed is stopped then, and can be removed
                settle(f"{call} {nth}", bad)
                # one more, as which process makes which of them is not the same each time
                misses += not hit
                if misses == 2:
                    break
    assert not bad, "\n".join(bad)
    assert killed >= 6, killed
