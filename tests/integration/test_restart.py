# SPDX-License-Identifier: Apache-2.0
"""Restart policies of services: by their guardian, by hand, after a boot of the host."""
import fcntl
import json
import os
import signal
import time

import berthtest as b
import leak
import netlab
import proc

COST = 25
NAME = "svc"
# KiB; what the allocator takes from the kernel at once is more than this
MEMORY_SLACK = 64
STAYS = ("sh", "-c", "echo up; exec sleep 1000")


def service(policy, *command, options=(), name=NAME):
    return b.berth("create", "--name", name, "--restart", policy, *options, "host", *(command or STAYS), ok=True).out.strip()


def inspect(name=NAME):
    return json.loads(b.berth("inspect", name, ok=True).out)


def remove(name=NAME):
    b.berth("rm", "-f", name, ok=True)


def guardians(id):
    return [p for p in proc.descendants(os.getpid()) if proc.cmdline(p).find(f"berth guard {id}") >= 0]


def next_start(id):
    """When the guardian that waits starts it, or 0."""
    try:
        with open(os.path.join(b.root(), "state/sandboxes", id, "restart.json")) as f:
            return json.load(f)["at_ms"] / 1000
    except (FileNotFoundError, ValueError):
        return 0


def kill_keeper(name=NAME):
    j = inspect(name)
    os.kill(j["supervisor_pid"], signal.SIGKILL)
    return j


def await_run(count, name=NAME):
    def runs():
        j = inspect(name)
        return j["status"] == "running" and j["restarts"] == count and j
    return b.wait_for(runs, seconds=30, what=lambda: f"run {count} of {inspect(name)}")


def await_end(status, name=NAME):
    b.wait_for(lambda: inspect(name)["status"] == status, seconds=30, what=lambda: f"{status} of {inspect(name)}")


def test_a_service_that_fails_runs_again_and_is_counted():
    id = service("always", "sh", "-c", "echo up; exit 3")

    def restarts():
        events = [json.loads(l) for l in b.berth("events", "--json", ok=True).out.splitlines()]
        told = [e for e in events if e["event"] == "restart" and e["id"] == id]
        return len(told) >= 3 and told
    told = b.wait_for(restarts, seconds=30, what="three restarts")
    assert [e["restarts"] for e in told[:3]] == [1, 2, 3], told
    assert [e["after_ms"] for e in told[:3]] == [100, 200, 400], told
    assert b.berth("logs", NAME, ok=True).out.count("up\n") >= 3
    b.berth("stop", NAME, ok=True)
    b.wait_for(lambda: not guardians(id), what="the guardian's end")
    assert inspect()["status"] == "stopped", inspect()
    remove()


def test_a_restart_waits_while_another_command_clears_what_the_keeper_left():
    """As every ps, create and gc does.  Such a restart failed and was counted."""
    id = service("on-failure:1")
    b.wait_for(lambda: guardians(id), what="the guardian")
    guardian = guardians(id)[0]
    os.kill(guardian, signal.SIGSTOP)
    place = os.open(os.path.join(b.root(), "run/sandboxes", id), os.O_RDONLY)
    kill_keeper()
    fcntl.flock(place, fcntl.LOCK_EX)

    def told():
        events = [json.loads(l)["event"] for l in b.berth("events", "--json", ok=True).out.splitlines()]
        return "restart-failed" in events
    os.kill(guardian, signal.SIGCONT)
    b.wait_for(lambda: told() or [p for p in proc.descendants(os.getpid()) if f"berth guard again {id}" in proc.cmdline(p)], what="the restart")
    os.close(place)
    await_run(1)
    assert not told()
    remove()


def test_on_failure_ends_after_its_number_of_restarts_and_at_a_success():
    service("on-failure:2", "sh", "-c", "exit 3")
    b.wait_for(lambda: inspect()["restarts"] == 2 and inspect()["status"] == "exited" and not guardians(inspect()["id"]), seconds=30, what="the last restart")
    b.berth("wait", NAME, ok=3)
    remove()
    service("on-failure", "sh", "-c", "test -e /made && exit 0; echo > /made; exit 1")
    b.wait_for(lambda: inspect()["restarts"] == 1 and inspect()["status"] == "exited" and not guardians(inspect()["id"]), seconds=30, what="the success")
    b.berth("wait", NAME, ok=0)
    remove()


def test_a_service_whose_keeper_is_killed_comes_back_as_its_policy_says():
    for policy in ("always", "unless-stopped", "on-failure"):
        service(policy)
        before = kill_keeper()
        after = await_run(1)
        assert after["supervisor_pid"] != before["supervisor_pid"]
        b.berth("exec", NAME, "true", ok=True)
        remove()
    id = service("no")
    assert not guardians(id)
    kill_keeper()
    await_end("stopped")
    remove()


def test_a_wait_goes_on_between_the_death_of_a_keeper_and_the_next_run():
    id = service("always", options=("--health-cmd", "true", "--health-interval", "100ms"))
    b.berth("wait", "--healthy", NAME, ok=True)
    b.wait_for(lambda: guardians(id), what="the guardian")
    guardian = guardians(id)[0]
    os.kill(guardian, signal.SIGSTOP)	# the time between has no end until it is continued
    end, ready = b.start("wait", "--json", NAME), b.start("wait", "--healthy", "--log", "up", NAME)
    kill_keeper()
    late = [b.start("wait", *options, NAME) for options in ((), ("--healthy",), ("--log", "^up"))]
    b.one_line_error(b.berth("wait", "--healthy", "--timeout", "300ms", NAME), 124, "not ready in time")
    for p in [end, *late]:
        assert p.poll() is None, p.communicate()
    os.kill(guardian, signal.SIGCONT)
    for p in [ready, *late[1:]]:
        told = p.communicate(timeout=30 * b.SLOW)
        assert p.returncode == 0, told
    await_run(1)
    assert end.poll() is None and late[0].poll() is None
    b.berth("stop", NAME, ok=True)
    out, _ = end.communicate(timeout=30 * b.SLOW)
    assert json.loads(out)["status"] == "stopped", out
    late[0].communicate(timeout=30 * b.SLOW)
    # without a guardian nobody would start it
    b.berth("start", NAME, ok=True)
    b.wait_for(lambda: guardians(id), what="the guardian")
    os.kill(guardians(id)[0], signal.SIGKILL)
    kill_keeper()
    await_end("stopped")
    b.one_line_error(b.berth("wait", "--healthy", NAME), 125, "not running")
    b.berth("wait", NAME, timeout=30)
    remove()


def test_a_wait_for_a_service_that_fails_again_and_again_ends_with_its_last_run():
    service("on-failure:2", "sh", "-c", "exit 3")
    b.berth("wait", NAME, ok=3)
    assert inspect()["restarts"] == 2, inspect()
    remove()


def test_a_keeper_that_is_told_to_end_gives_its_service_the_time_and_comes_back():
    service("unless-stopped", "sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done")
    b.wait_for(lambda: "up" in b.berth("logs", NAME, ok=True).out, what="the main command")
    os.kill(inspect()["supervisor_pid"], signal.SIGTERM)
    await_run(1)
    assert b.berth("logs", NAME, ok=True).out.startswith("up\nbye\n"), b.berth("logs", NAME)
    remove()


def test_what_was_stopped_by_hand_stays_so_until_it_is_started():
    for policy in ("always", "unless-stopped"):
        for end in (["stop", NAME], ["kill", NAME], ["kill", "-s", "KILL", NAME], ["kill", "-s", "TERM", NAME]):
            id = service(policy)
            b.berth(*end, ok=True)
            # kill -s TERM returns when the signal is sent, and a guardian has its name a moment after create
            b.wait_for(lambda: inspect()["status"] == "stopped", what=f"the end after {end}")
            b.wait_for(lambda: not guardians(id), what=f"the guardian's end after {end}")
            assert inspect()["stopped_by_hand"] is True and inspect()["status"] == "stopped", inspect()
            b.berth("start", NAME, ok=True)
            kill_keeper()
            await_run(1)
            remove()


@b.long_proof("waits for the backoff to grow")
def test_a_stop_a_start_and_a_removal_end_a_guardian_that_waits():
    for verb in (["stop", NAME], ["start", NAME], ["rm", NAME]):
        id = service("always", "sh", "-c", "exit 3")
        b.wait_for(lambda: next_start(id) > time.time() + 2, seconds=30, what="a wait of more than two seconds")
        assert "restarting" in b.berth("ps", "-a", ok=True).out
        assert inspect()["status"] == "restarting", inspect()
        waiting = guardians(id)
        assert len(waiting) == 1, waiting
        b.berth(*verb, ok=True)
        # it was ended, and did not wake up to find that there is nothing to do
        _, status = os.waitpid(waiting[0], 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (verb, status)
        if verb[0] == "start":
            assert inspect()["restarts"] < 4, inspect()
        if verb[0] != "rm":
            remove()


def test_a_guardian_is_small_and_holds_no_descriptor():
    id = service("always")
    pid = b.wait_for(lambda: guardians(id), what="the guardian")[0]
    b.wait_for(lambda: proc.cmdline(pid).find("guard") >= 0 and not os.listdir(f"/proc/{pid}/fd"), what="a guardian without descriptors")
    with open(f"/proc/{pid}/status") as f:
        anonymous = int(next(l for l in f if l.startswith("RssAnon")).split()[1])
    assert anonymous < 300 or b.SANITIZED, f"{anonymous} KiB"
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGKILL)
    b.berth("exec", NAME, "true", ok=True)
    remove()


def test_a_start_that_fails_counts_and_is_tried_again():
    service("on-failure:3", options=("--init-command", "test ! -e /broken"))
    b.berth("exec", NAME, "touch", "/broken", ok=True)
    kill_keeper()
    b.wait_for(lambda: inspect()["restarts"] == 3 and not guardians(inspect()["id"]), seconds=30, what=lambda: f"the last try: {inspect()}")
    assert "init command" in inspect()["start_error"], inspect()
    events = [json.loads(l)["event"] for l in b.berth("events", "--json", ok=True).out.splitlines()]
    assert events.count("restart-failed") == 3, events
    remove()


def test_after_a_boot_what_the_policy_says_is_started():
    for name, policy, stop in (("a", "always", True), ("u", "unless-stopped", True), ("v", "unless-stopped", False),
                               ("f", "on-failure", False), ("n", "no", False)):
        id = service(policy, name=name)
        b.wait_for(lambda: len(guardians(id)) == (policy != "no"), what=lambda: f"a guardian: {guardians(id)}")
        for pid in guardians(id):
            os.kill(pid, signal.SIGKILL)
        if stop:
            b.berth("stop", name, ok=True)
        else:
            kill_keeper(name)
    done = service("on-failure", "true", name="d")
    b.wait_for(lambda: not guardians(done) and inspect("d")["status"] == "exited", what="the end of d")
    r = b.berth("start", "--boot", ok=True)
    started = {n for n in "auvfnd" if inspect(n)["status"] == "running"}
    b.expect(started == {"a", "v", "f"}, r, f"started are {started}")
    b.expect(len(r.out.split()) == 3, r, "it tells others")
    assert b.berth("start", "--boot", "--json", ok=True).out == ""
    for name in "auvfnd":
        remove(name)


def test_after_a_boot_a_network_is_there_before_those_who_join_it():
    """"always", stopped by hand: --boot starts these, and nobody else does."""
    names = ["web"] + [f"side{i}" for i in range(4)]
    for name in names:
        service("always", name=name, options=() if name == "web" else ("--network", "container:web"))
    for name in names:
        b.berth("stop", name, ok=True)
    b.berth("start", "--boot", ok=True)
    for name in names:
        assert inspect(name)["status"] == "running", name
    for name in names:
        remove(name)


def test_options_that_contradict_a_restart_are_refused():
    b.one_line_error(b.berth("create", "--restart", "sometimes", "host", "true"), 2, "restart policy", "unless-stopped")
    b.one_line_error(b.berth("create", "--restart", "on-failure:0", "host", "true"), 2, "restarts")
    b.one_line_error(b.berth("create", "--restart", "always", "--rm", "host", "true"), 2, "--auto-remove")
    b.one_line_error(b.berth("create", "--restart", "always", "host"), 2, "main command")
    b.one_line_error(b.berth("start", "--boot", "x"), 2, "--boot")


def heap(pid):
    """KiB of private memory that a process may write, its stack left out."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmData:"))


@b.deadline(240)
def test_a_hundred_restarts_leak_nothing():
    """Of a service with all that has to be made and taken back: a volume, a network, a health check."""
    netlab.need_bridge()
    b.berth("network", "create", "--internal", "net", ok=True)
    id = service("always", options=("--network", "net", "--volume", "data:/data", "--health-cmd", "true",
                                    "--health-interval", "1h", "--health-start-period", "1m", "--health-start-interval", "100ms"))

    def rests():
        """When the first check is over and the keeper has removed its cgroup."""
        b.berth("wait", "--healthy", NAME, ok=True)
        keeper = inspect()["supervisor_pid"]
        b.wait_for(lambda: len(guardians(id)) == 1, what=lambda: f"one guardian: {guardians(id)}")
        # that of the main command is left (the sandbox's own, its id, may begin with a c too)
        b.wait_for(lambda: len({d for d in map(os.path.basename, leak.snapshot(os.getpid())["cgroup"]) if d[0] == "c" and len(d) < 12}) == 1,
                   what="rest")
        return keeper, guardians(id)[0]

    def held():
        keeper, guardian = rests()
        seen = leak.snapshot(os.getpid())
        pids = [os.getpid(), *proc.descendants(os.getpid())]
        return {"fds of the keeper": len(os.listdir(f"/proc/{keeper}/fd")), "fds of the guardian": len(os.listdir(f"/proc/{guardian}/fd")),
                "KiB of the keeper": heap(keeper), "KiB of the guardian": heap(guardian),
                "network namespaces": len({os.stat(f"/proc/{p}/ns/net").st_ino for p in pids}),
                "elements of nftables": netlab.elements(), "processes": len(pids),
                "mounts": sum(b.root() in line for line in seen["mount"]),
                **{k: len(seen[k]) for k in ("cgroup", "loop device", "network interface", "state")}}

    def as_before():
        now = held()
        return all(now[k] == v if k[:3] != "KiB" else now[k] <= v + MEMORY_SLACK for k, v in before.items())
    # what the first end leaves for the next start, such as how much the network was used
    b.berth("restart", "--grace", "0", NAME, ok=True)
    before = held()
    for _ in range(100):
        b.berth("restart", "--grace", "0", NAME, ok=True)
    b.wait_for(as_before, what=lambda: f"{before}, not {held()}")
    kill_keeper()
    await_run(1)
    b.wait_for(as_before, what=lambda: f"{before}, not {held()}")
    remove()
    b.berth("network", "rm", "net", ok=True)
    b.berth("volume", "rm", "data", ok=True)
