# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that live: made, stopped, started, removed; their files, names and number."""
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import threading

import berthtest as b
import box
import leak
from box import Box

COST = 34


def listed(*options):
    return {s["id"]: s for s in json.loads(b.berth("ps", "--json", *options, ok=True).out)}


def test_create_prints_an_id_that_ps_and_inspect_know():
    with Box("--name", "one") as x:
        assert x.id in listed() and listed()[x.id]["name"] == "one"
        for ref in (x.id, x.id[:6], "one"):
            assert json.loads(b.berth("inspect", ref, ok=True).out)["id"] == x.id
            assert b.berth("exec", ref, "echo", "hi", ok=True).out == "hi\n"
        b.one_line_error(b.berth("create", "--name", "one", "host"), 125, "one", "taken")
    assert not listed("-a")


def test_files_last_over_five_stops_and_starts():
    with Box("--name", "keeps") as x:
        for i in range(5):
            x.exec("sh", "-c", f"echo {i} >>/workspace/log; chmod 640 /workspace/log; sleep 300 >/dev/null 2>&1 &", ok=True)
            b.berth("stop", "keeps", ok=True)
            assert x.id not in listed() and listed("-a")[x.id]["status"] == "stopped"
            b.one_line_error(x.exec("true"), 125, "not running")
            b.berth("stop", "keeps", ok=True)  # again: nothing to do
            b.berth("start", "keeps", ok=True)
            b.berth("start", "keeps", ok=True)
            r = x.exec("sh", "-c", "cat /workspace/log; stat -c %a /workspace/log; pgrep -c sleep", ok=None)
            b.expect(r.out == "".join(f"{n}\n" for n in range(i + 1)) + "640\n0\n", r, f"after stop {i}")
        b.berth("restart", "keeps", ok=True)
        assert x.exec("wc", "-l", "/workspace/log", ok=True).out.startswith("5 ")
        b.berth("kill", "keeps", ok=True)
        assert x.exec("cat", "/workspace/log", options=("--start",), ok=True).out == "0\n1\n2\n3\n4\n"


def test_a_start_changes_neither_the_environment_nor_the_age():
    path = b.write(b.tmp("vars"), "# comment\nONE=1\nTWO=two words\n\nOVER=file\nQUOTE=\"'\n")
    with Box("--env", "ONE=0", "--env-file", path, "--env", "OVER=option") as x:
        def told():
            return x.exec("sh", "-c", "echo $ONE,$TWO,$OVER,$QUOTE", ok=True).out

        assert told() == "1,two words,option,\"'\n", told()
        record = f"{b.root()}/state/sandboxes/{x.id}/record.json"
        with open(record) as f:
            old = dict(json.load(f), created="2001-02-03T04:05:06Z")
        b.write(path, "ONE=changed\n")
        b.berth("stop", x.id, ok=True)
        b.write(record, json.dumps(old), 0o600)     # as if it had been made long ago
        for _ in range(2):
            b.berth("start", x.id, ok=True)
            assert told() == "1,two words,option,\"'\n", told()
            assert listed()[x.id]["created"] == json.loads(b.berth("inspect", x.id, ok=True).out)["created"] == "2001-02-03T04:05:06Z"
            os.path.exists(path) and os.unlink(path)    # nor is it needed any more
            b.berth("stop", x.id, ok=True)
        assert listed("-a")[x.id]["created"] == "2001-02-03T04:05:06Z"
    for text in ("novalue\n", "A=1\nB C=2\n", "=x\n"):
        b.one_line_error(b.berth("create", "--env-file", b.write(path, text), "host"), 2, "is not NAME=VALUE", "vars:")
    b.one_line_error(b.berth("create", "--env-file", b.tmp("nowhere"), "host"), 125, "nowhere")


def test_the_callers_limit_on_files_is_not_the_keepers():
    r = b.berth("create", "host", prefix=("prlimit", "--nofile=48:4096"), ok=True)
    box_id = r.out.strip()
    try:
        p = [b.start("exec", box_id, "sh", "-c", "echo up; read x", stdin=subprocess.PIPE) for _ in range(16)]
        assert all(x.stdout.readline() == b"up\n" for x in p), [x.stderr.read() for x in p if x.poll() is not None]
        assert b.berth("exec", box_id, "sh", "-c", "ulimit -n", ok=True).out == "1024\n"
        for x in p:
            x.communicate(b"\n")
    finally:
        b.berth("rm", "-f", box_id, ok=True)


@b.deadline(120)
def test_removals_at_once_all_succeed():
    """Whoever wants it gone has what he wanted, whatever another does at the same moment."""
    for n in range(12):
        name = f"gone{n}"
        b.berth("create", "--name", name, "host", ok=True)
        several = [b.start("rm", "--force", name) for _ in range(4)] + [b.start("stop", name)]
        said = [(p.wait(60 * b.SLOW), p.communicate()[1]) for p in several]
        assert all(code == 0 for code, _ in said[:4]), said
        assert said[4][0] == 0 or any(w in said[4][1] for w in (b"no sandbox", b"not running", b"is gone", b"the sandbox ended")), said
        assert b.berth("ps", "-a", "-q", ok=True).out == ""


def test_a_seccomp_file_is_kept_as_it_was():
    """A start after it was changed, or has gone, has the filter that the sandbox was made with."""
    where = b.tmpdir("profiles")
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
               "syscalls": [{"names": ["symlink", "symlinkat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95}]}
    b.write(where + "/p.json", json.dumps(profile))
    with Box("--seccomp", where + "/p.json") as x:
        for then in ("as it was", "changed", "gone"):
            if then == "changed":
                b.write(where + "/p.json", "{")
            elif then == "gone":
                os.unlink(where + "/p.json")
            b.berth("restart", x.id, ok=True)
            r = x.exec("ln", "-s", "a", "/tmp/x")
            b.expect(r.code == 1 and "not supported" in r.err, r, f"another filter, {then}")
    for text, word in (("{", "p.json"), ("\0", "not text")):
        b.write(where + "/p.json", text)
        r = b.berth("create", "--seccomp", "./p.json", "host", cwd=where)
        b.expect(r.code in (2, 125), r, "accepted")
        b.one_line_error(r, r.code, word)
    assert b.berth("ps", "-a", "-q").out == ""


def test_an_idle_sandbox_is_small_from_the_start():
    """Keeper and init: what they wrote, which each sandbox has of its own, and what they map of the program, which all share."""
    b.needs_the_lean_program()
    with Box() as x:
        record = listed()[x.id]

        def kib(*kinds):
            total = 0
            for who in ("supervisor_pid", "init_pid"):
                with open(f"/proc/{record[who]}/smaps_rollup") as f:
                    total += sum(int(line.split()[1]) for line in f if line.startswith(kinds))
            return total

        b.wait_for(lambda: kib("Private_Dirty:") < 350, what=lambda: f"{kib('Private_Dirty:')} KiB, not less than 350")
        b.wait_for(lambda: kib("Private_Clean:", "Shared_Clean:") < 512, what=lambda: "less than 512 KiB of the program")


def test_pause_and_resume():
    with Box() as x:
        n = x.main.detach("sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done")
        b.wait_for(lambda: x.main.output(n)[1]["total"] > 10, 5, "output")
        b.berth("pause", x.id, ok=True)
        before = x.main.output(n)[1]["total"]
        leak.time.sleep(0.3)  # time in which a running one would print
        assert x.main.output(n)[1]["total"] == before, "it runs on"
        b.berth("resume", x.id, ok=True)
        b.wait_for(lambda: x.main.output(n)[1]["total"] > before, 5, "output")
        b.berth("pause", x.id, ok=True)
        b.berth("stop", x.id, ok=True, timeout=10)  # a frozen one ends too


def test_a_reboot_leaves_what_is_needed_to_start():
    with Box("--name", "boot") as x:
        x.exec("sh", "-c", "echo kept >/workspace/f", ok=True)
        keeper = x.keeper
        b.proc.kill(keeper)
        b.wait_for(lambda: not b.proc.alive(keeper), 5, "the keeper's end")
        leak.remove_cgroups(b.TEST_PID)
        shutil.rmtree(os.path.join(b.root(), "run"))
        os.mkdir(os.path.join(b.root(), "run"), 0o700)
        assert listed("-a")[x.id]["status"] == "stopped"
        b.berth("start", "boot", ok=True)
        assert x.exec("cat", "/workspace/f", ok=True).out == "kept\n"


def test_rm_of_one_whose_keeper_was_killed():
    x = Box()
    b.proc.kill(x.keeper)
    b.wait_for(lambda: not b.proc.alive(x.keeper), 5, "the keeper's end")
    b.proc.reap_orphans(os.getpid())
    b.berth("rm", "--force", x.id, ok=True)
    assert x.id not in b.berth("ps", "-a", ok=True).out


def test_rm_of_what_is_not_there():
    b.one_line_error(b.berth("rm", "nosuch"), 125, "nosuch")
    b.berth("rm", "-f", "nosuch", ok=True)
    with Box() as x:
        b.one_line_error(b.berth("rm", x.id), 125, "running")
        assert x.exec("true").code == 0


def test_an_empty_name_is_that_of_no_sandbox():
    """As of an unset variable of a script: it is neither a sandbox without a name nor the start of an id."""
    x = b.berth("create", "host", ok=True).out.strip()
    try:
        for args in (["rm", "-f", ""], ["exec", "", "true"], ["stop", ""], ["fork", ""], ["inspect", ""]):
            b.one_line_error(b.berth(*args), 2, "the name of the sandbox is empty", "hint:")
        assert b.berth("exec", x, "true").code == 0
    finally:
        b.berth("rm", "-f", x, ok=True)


def test_a_failed_create_leaves_nothing():
    for args in (["nosuchimage"], ["--memory", "abc", "host"], ["/nonexistent"], ["--name", "../x", "host"], ["--tenant", "", "host"]):
        r = b.berth("create", *args)
        b.expect(r.code in (2, 125) and len(r.err.splitlines()) == 1, r, "one clear error")
    assert not listed("-a")


@b.deadline(120)
def test_200_creates_at_once_never_exceed_the_limit():
    config = b.write(b.tmp("berth.toml"), "[manager]\nmax_sandboxes = 20\n")
    env = {"BERTH_CONFIG": config}
    made, refused, bad, most = [], [], [], [0]
    todo = list(range(200))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                if not todo:
                    return
                todo.pop()
            r = b.berth("create", "--memory", "32m", "host", env=env, timeout=60)
            with lock:
                if r.code == 0:
                    made.append(r.out.strip())
                elif "limit" in r.err and len(r.err.splitlines()) == 1 and not r.out:
                    refused.append(r)
                else:
                    bad.append(b.describe(r))
                most[0] = max(most[0], len(leak.names(os.path.join(b.root(), "state", "sandboxes"))))
    threads = [threading.Thread(target=work) for _ in range(40)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    try:
        assert not bad, "\n".join(bad[:5])
        assert len(made) == 20 and len(refused) == 180 and most[0] <= 20, (len(made), len(refused), most)
        assert sorted(listed()) == sorted(made)
        # one goes, one may come
        b.berth("rm", "-f", made.pop(), ok=True, env=env)
        made.append(b.berth("create", "host", ok=True, env=env).out.strip())
        b.expect_code(b.berth("create", "host", env=env), 125)
    finally:
        b.berth("rm", "-f", *made, env=env, timeout=60)


def test_stop_asks_first_and_then_kills():
    with Box("--grace", "1h") as x:
        polite = x.main.detach("sh", "-c", "trap 'echo bye >/workspace/bye; exit 0' TERM; echo up; while :; do sleep 0.02; done")
        b.wait_for(lambda: x.main.output(polite)[0] == b"up\n", 5, "the trap")
        # all have ended: no need to wait for the grace
        b.berth("stop", "--grace", "1h", x.id, ok=True)
        assert x.exec("cat", "/workspace/bye", options=("--start",), ok=True).out == "bye\n"
        c = x.client()
        deaf = c.detach("sh", "-c", "trap '' TERM HUP; echo up; while :; do sleep 0.02; done")
        b.wait_for(lambda: c.output(deaf)[0] == b"up\n", 5, "the trap")
        r = b.berth("stop", "--grace", "300ms", x.id, ok=True)
        b.expect(0.3 <= r.seconds, r, "the grace")
        b.berth("start", x.id, ok=True)
        c = x.client()
        deaf = c.detach("sh", "-c", "trap '' TERM HUP; echo up; while :; do sleep 0.02; done")
        b.wait_for(lambda: c.output(deaf)[0] == b"up\n", 5, "the trap")
        b.berth("kill", x.id, ok=True)      # does not ask, nor wait


def test_a_paused_sandbox_says_so_instead_of_hanging():
    with Box() as x:
        x.sh("kept=1")
        b.berth("pause", x.id, ok=True)
        assert listed()[x.id]["status"] == "paused"
        for r in (x.exec("true", timeout=5), b.berth("sh", x.id, "--", "echo", timeout=5),
                  b.berth("file", "read", x.id, "/etc/hostname", timeout=5), b.berth("cp", "/etc/hostname", x.id + ":/tmp", timeout=5)):
            b.one_line_error(r, 125, "paused", f"berth resume {x.id}")
        r = b.berth("exec", "--json", x.id, "true", timeout=5)
        assert json.loads(r.err)["error"]["code"] == "busy", b.describe(r)
        b.berth("resume", x.id, ok=True)
        box.expect(x.sh("echo $kept"), "1\n", 0)
        assert listed()[x.id]["status"] == "running"


def test_wait_for_a_sandbox():
    with Box("--name", "w") as x:
        p = b.start("wait", "--json", "w")
        b.wait_for(lambda: len(os.listdir(f"/proc/{x.keeper}/fd")) and p.poll() is None, 5, "the wait")
        assert p.poll() is None
        b.berth("stop", "w", ok=True)
        out, err = p.communicate(timeout=10 * b.SLOW)
        assert (p.returncode, err) == (0, b"") and json.loads(out) == {"id": x.id, "status": "stopped"}, (out, err)
        assert b.berth("wait", "w", ok=True).out == ""  # it does not run: at once
        b.berth("start", "w", ok=True)
        p = b.start("wait", "--json", "w")
        b.proc.kill(x.init)
        out, _ = p.communicate(timeout=10 * b.SLOW)
        # the client may come just when it is over: the record says why, all the same
        b.wait_for(lambda: json.loads(b.berth("wait", "--json", "w", ok=True).out).get("reason") == "its init ended", 5, "the reason")
    b.one_line_error(b.berth("wait", "nosuch"), 125, "nosuch")


@b.long_proof("waits for deadlines of berth to pass")
def test_a_stopped_keeper_holds_up_nobody():
    with Box("--name", "other") as other:
        x = Box("--name", "stuck")
        keeper = x.keeper
        os.kill(keeper, signal.SIGSTOP)
        pile = []
        try:
            # a full backlog: the next connect(2) would wait for ever
            for _ in range(200):
                s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
                pile.append(s)
                try:
                    s.connect(x.dir + "/sock")
                except BlockingIOError:
                    break
            else:
                raise AssertionError("the backlog has no end")
            r = b.berth("ps", "--json", ok=True, timeout=5)
            b.expect({s["id"] for s in json.loads(r.out)} == {x.id, other.id}, r, "ps")
            assert other.exec("echo", "here", ok=True).out == "here\n"
            b.berth("gc", ok=True, timeout=5)
            r = b.berth("kill", "stuck", ok=True, timeout=20)
            assert listed("-a")[x.id]["status"] == "stopped" and not b.proc.alive(keeper)
        finally:
            for s in pile:
                s.close()
            if b.proc.alive(keeper):
                os.kill(keeper, signal.SIGCONT)
        b.berth("start", "stuck", ok=True)
        os.kill(x.keeper, signal.SIGSTOP)
        b.berth("rm", "-f", "stuck", ok=True, timeout=20)
        assert list(listed("-a")) == [other.id]


def test_a_lock_of_the_events_that_is_not_given_back_holds_up_nobody():
    """A keeper that was stopped while it wrote an event holds it."""
    with Box("--name", "one") as x:
        x.exec("true", ok=True)
        with open(os.path.join(b.root(), "state/events"), "rb") as events:
            fcntl.flock(events, fcntl.LOCK_EX)
            for _ in range(3):
                assert x.exec("echo", "here", ok=True, timeout=20).out == "here\n"
            b.berth("stop", "one", ok=True, timeout=20)
            b.berth("start", "one", ok=True, timeout=20)
            b.berth("rm", "-f", b.berth("create", "host", ok=True, timeout=20).out.strip(), ok=True, timeout=20)
        b.berth("rename", "one", "two", ok=True)
        b.wait_for(lambda: "two" in b.berth("events", ok=True).out, 10, "an event again")


def test_who_takes_the_lock_of_a_place_that_is_gone_does_not_clear_the_next_one():
    """A sandbox is started again at the moment when another command looks whether its last keeper is dead."""
    with Box("--name", "one") as x:
        b.berth("stop", "one", ok=True)
        place, gone = (os.path.join(b.root(), "run", "sandboxes", x.id + more) for more in ("", ".gone"))
        os.mkdir(place, 0o700)
        old = os.open(place, os.O_RDONLY)
        fcntl.flock(old, fcntl.LOCK_SH)
        p = b.start("gc")

        def waits():
            with open("/proc/locks") as f:
                return any("->" in line and str(p.pid) in line.split() for line in f)
        b.wait_for(waits, 30, "berth gc at the lock")
        os.rename(place, gone)
        os.mkdir(place, 0o700)
        new = os.open(place, os.O_RDONLY)
        fcntl.flock(new, fcntl.LOCK_EX)
        os.close(old)
        assert p.communicate(timeout=30 * b.SLOW) == (b"", b"") and p.returncode == 0
        assert os.path.isdir(place), "the place of the new keeper was cleared"
        os.rmdir(gone)
        os.close(new)
        b.berth("start", "one", ok=True)
        assert x.exec("echo", "on", ok=True).out == "on\n"


def test_one_that_its_keeper_removes_is_gone_for_an_update():
    """The keeper's record of the run goes last."""
    with Box("--name", "one", "--auto-remove") as x:
        kept = os.path.join(b.root(), "state", "sandboxes", x.id)
        for name in ("record.json", "spec.json"):
            os.rename(os.path.join(kept, name), b.tmp(name))
        b.one_line_error(b.berth("update", "--memory", "64m", "one"), 125, "is gone")
        for name in ("record.json", "spec.json"):
            os.rename(b.tmp(name), os.path.join(kept, name))
        b.berth("update", "--memory", "64m", "one", ok=True)


def test_filters():
    with Box("--name", "build-1") as one, Box("--name", "build-2") as two, Box("--name", "other") as other:
        b.berth("stop", two.id, ok=True)
        b.berth("pause", other.id, ok=True)

        def ids(*options):
            return sorted(b.berth("ps", "-aq", *options, ok=True).out.split())
        assert ids("--filter", "name=build-*") == sorted((one.id, two.id))
        assert ids("--filter", "name=build-*", "-f", "status=stopped") == [two.id]
        assert ids("-f", "status=paused") == [other.id]
        assert ids("-f", f"id={one.id[:6]}*") == [one.id] and ids("-f", "image=host") == sorted((one.id, two.id, other.id))
        assert ids("-f", "image=nosuch") == []
    b.one_line_error(b.berth("ps", "--filter", "color=red"), 2, "KEY=VALUE", "label=")


def test_AS_what_could_not_be_removed_is_told():
    """agentscope's release says True even when stop or remove failed."""
    for name in ("held", "a", "zz", "mnt", "0", "tree"):    # what is removed before it is the file system's choice
        x = Box()
        held = os.path.join(b.root(), "state", "sandboxes", x.id, name)
        os.mkdir(held)
        b.proc.bind(b.tmpdir("elsewhere-" + name), held)
        try:
            for args in (["rm", "-f", x.id], ["rm", "--json", x.id]):
                r = b.berth(*args, timeout=20)
                b.expect(r.code == 125 and "removed" not in r.out and len(r.err.splitlines()) == 1, r, "told as done")
        finally:
            b.subprocess.run(["umount", held], check=True)
        b.berth("rm", "-f", x.id, ok=True)
        assert not listed("-a") and not os.path.exists(os.path.dirname(held))


def test_gc_removes_what_a_killed_import_unpacked():
    tmp = os.path.join(b.root(), "state", "store", "tmp")
    os.makedirs(tmp + "/77-dead/layer", mode=0o700)
    os.makedirs(tmp + "/78-alive", mode=0o700)
    with open(tmp + "/77-dead/layer/file", "w") as f:
        f.write("x")
    alive = os.open(tmp + "/78-alive", os.O_RDONLY)
    fcntl.flock(alive, fcntl.LOCK_EX)
    b.berth("gc", ok=True)
    assert os.listdir(tmp) == ["78-alive"]
    os.close(alive)
    b.berth("gc", ok=True)
    assert os.listdir(tmp) == []
    shutil.rmtree(os.path.dirname(tmp))
    b.berth("gc", ok=True)
