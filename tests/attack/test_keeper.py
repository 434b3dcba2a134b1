# SPDX-License-Identifier: Apache-2.0
"""The keeper under attack: killed at any moment, its socket abused (L02, L07, L13, E01, K19, D02)."""
import os
import random
import re
import subprocess
import threading
import time

import berthtest as b
import box
import proc
from box import Box

COST = 8


def settled(x):
    """The keeper's descriptors after a first command, once the next one's cgroup is made, in steps of its own."""
    x.main.wait(x.main.detach("true"))

    def made():
        x.main.call("ping")
        at = [f"{top}/{b.cgroup_parent_of(b.TEST_PID)}/{x.id}" for top in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")]
        return any(re.match(r"c\d+$", n) for top in at if os.path.isdir(top) for n in os.listdir(top))
    b.wait_for(made, what="the next command's cgroup")

    # the steps after that one open and close descriptors, too
    def same():
        before = fds(x.keeper)
        for _ in range(20):
            x.main.call("ping")
            if fds(x.keeper) != before:
                return None
        return before
    return b.wait_for(same, what="a keeper at rest")


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


KILLS = int(os.environ.get("BERTH_TEST_KILLS", b.times(60, 200)))


@b.deadline(240)
def test_L07_kill_9_of_client_keeper_and_init():
    """60 times (200 in make check-all), by four at once; each sandbox is intact or gone, nothing is left, and another answers throughout."""
    bad, answers, over = [], [0], threading.Event()

    def ask(other):
        with other.client() as c:
            while not over.is_set():
                c.exec("true", seconds=10)
                answers[0] += 1
                over.wait(0.02)

    def work(seed):
        try:
            kill_some(random.Random(seed), seed, KILLS // 4)
        except BaseException as e:
            bad.append(f"{type(e).__name__}: {e}")
    with Box("--name", "other") as other:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        asker = threading.Thread(target=ask, args=(other,))
        for t in (*threads, asker):
            t.start()
        for t in threads:
            t.join()
        over.set()
        asker.join()
        proc.reap_orphans(os.getpid())
        assert not bad, "\n".join(bad[:10])
        assert answers[0] > KILLS // 8, answers


def kill_some(rng, seed, count):
    for i in range(seed, seed + count):
        x = Box("--memory", "64m")
        x.exec("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & exit 0", ok=True)
        keeper, init = x.keeper, x.init
        p = b.start("exec", x.id, "sh", "-c", "sleep 1001 & sleep 1001")
        time.sleep(rng.random() * 0.03)  # the point to hit
        what = ("client", "keeper", "init")[i % 3]
        proc.kill({"client": p.pid, "keeper": keeper, "init": init}[what])
        b.stop(p)
        if what == "client":
            b.wait_for(lambda: not x.running("sleep 1001"), 10, "the end of the client's command")
            assert x.exec("echo", "ok", ok=True).out == "ok\n"
        else:
            b.wait_for(lambda: not proc.alive(init) and not proc.alive(keeper), 10, f"the end after kill of the {what}")
            b.gc()
            # (the gc of another hand may be at it)
            b.wait_for(lambda: x.id not in os.listdir(os.path.join(b.root(), "run", "sandboxes")), what="its removal")
        b.berth("rm", "-f", x.id, ok=True)


def test_slow_clients_hold_up_nobody():
    """One that never reads its answers, one that reads a packet a second, one that sends a byte a second: all are told apart."""
    with Box() as x:
        x.main.call("ping")
        deaf, late, drip = x.client(), x.client(), x.client()
        late.send("ping")
        drip.sock.setblocking(False)
        try:
            for byte in b'{"v":1':
                drip.raw(bytes([byte]))     # each is a packet, and no request
        except BrokenPipeError:
            pass    # it was told so, and cut off, at the first
        deaf.sock.setblocking(False)
        slow = 0
        for i in range(300):
            try:
                deaf.raw(b'{"v":1,"op":"commands"}')
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                slow += 1
            x.main.call("ping", seconds=5)
        assert slow, "the one that does not read is still served"
        # the one that is only late has its answer
        assert late.receive(5)[0]["state"] == "running"
        late.send("ping")
        assert late.receive(5)[0]["state"] == "running"
        # and so has one whose command's output is read a byte at a time
        n = x.main.detach("sh", "-c", "yes 123456789 | head -c 300000")
        x.main.wait(n)
        with x.client() as c:
            for start in range(0, 50):
                c.send("output", command=n, **{"from": start}, max=1)
                m, fds = c.receive(5)
                assert box.content(fds[0]) == b"123456789\n"[start % 10:start % 10 + 1], start
        p = b.start("output", x.id, n)
        got = b""
        for _ in range(3):
            got += os.read(p.stdout.fileno(), 1)
            x.main.call("ping", seconds=2)
            time.sleep(0.2)  # as slow as a reader may be
        rest, _ = p.communicate(timeout=10 * b.SLOW)
        assert len(got + rest) == 300000


def test_garbage_on_the_socket_ends_only_that_client():
    rng = random.Random(1)
    with Box() as x:
        x.main.call("ping")
        before = settled(x)
        for data in [b"{", b"[]", b"null", b'{"v":9,"op":"ping"}', b'{"v":0,"op":"ping"}', b'{"op":"ping"}', b"x" * (box.WIRE_MAX + 1), b"\0" * 100,
                     b"[" * 60000] + [rng.randbytes(rng.randrange(1, 3000)) for _ in range(200)]:
            with x.client() as c:
                try:
                    c.raw(data)
                    c.receive(5)
                    raise AssertionError(f"{data[:40]!r} was taken")
                except (box.Refused, box.Gone, BrokenPipeError):
                    pass
        x.main.call("ping")
        b.wait_for(lambda: fds(x.keeper) <= before, 5, lambda: f"no more descriptors than before ({before}, now {fds(x.keeper)})")


def test_K19_floods_of_descriptors_leave_none():
    with Box() as x:
        x.main.call("ping")
        before = settled(x)
        null = os.open(os.devnull, os.O_RDWR)
        for _ in range(300):
            with x.client() as c:
                try:
                    c.raw(b'{"v":1,"op":"ping"}', [null] * 253)
                    c.receive(5)
                except (box.Refused, box.Gone):
                    pass
        os.close(null)
        x.main.call("ping")
        b.wait_for(lambda: fds(x.keeper) <= before, 5, lambda: f"no more descriptors than before ({before}, now {fds(x.keeper)})")


def test_a_hundred_idle_clients_do_not_stop_it():
    with Box() as x:
        x.main.call("ping")
        before = settled(x)
        idle = []
        for _ in range(100):
            try:
                idle.append(box.Client(x.dir + "/sock"))
            except OSError:
                break
        x.main.call("ping", seconds=5)
        for c in idle:
            c.close()
        b.wait_for(lambda: fds(x.keeper) <= before, 5, "the idle ones' descriptors closed")
        assert x.exec("echo", "ok", ok=True).out == "ok\n"


def test_another_user_cannot_connect():
    with Box() as x:
        code = ("import os, socket, sys\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
                "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                "try:\n    s.connect(sys.argv[1])\nexcept PermissionError:\n    sys.exit(0)\nsys.exit(1)\n")
        assert subprocess.run(["python3", "-c", code, x.dir + "/sock"]).returncode == 0


def test_E01_a_command_sees_0_1_2_only():
    with Box() as x:
        null = os.open("/etc/shadow", os.O_RDONLY)
        r = x.exec("sh", "-c", "exec ls /proc/self/fd", pass_fds=(null,), ok=True)
        os.close(null)
        b.expect(r.out.split() == ["0", "1", "2", "3"], r, "more than 0, 1, 2 and the directory ls opens")


def test_L02_a_timeout_takes_its_whole_tree_and_nothing_else():
    with Box() as x:
        x.main.detach("sleep", "1002")
        r = x.exec("sh", "-c", "trap '' TERM HUP; (setsid sleep 1003 &); setsid sleep 1003 & sleep 1003",
                   options=("--timeout", "300ms", "--grace", "100ms"), verdict=True, ok=124)
        assert r.verdict["cause"] == "timeout"
        b.wait_for(lambda: not x.running("sleep 1003"), 3, "the end of the tree")
        assert len(x.running("sleep 1002")) == 1


def test_D02_oom_of_one_command_spares_the_others():
    with Box("--memory", "256m") as x:
        other = x.main.detach("sleep", "1004")
        r = x.exec("python3", "-c", "x = bytearray(200 << 20); print(len(x))", options=("--memory", "64m"), verdict=True)
        b.expect(r.verdict and r.verdict["cause"] == "oom", r, "no oom")
        assert len(x.running("sleep 1004")) == 1, other
        assert x.exec("echo", "ok", ok=True).out == "ok\n"
