# SPDX-License-Identifier: Apache-2.0
"""berth events and berth logs: what is written down, and that a reader who comes back misses nothing."""
import json
import os
import select
import subprocess
import threading

import berthtest as b
from box import Box

COST = 15


def events(*args, **kw):
    return [json.loads(line) for line in b.berth("events", "--json", *args, ok=True, **kw).out.splitlines()]


def test_events_of_a_life():
    x = Box("--name", "life")
    with x:
        b.berth("exec", x.id, "sh", "-c", "exit 3", ok=3)
        b.berth("sh", x.id, "--", "echo hi", ok=True)
        b.berth("sh", "--timeout", "100ms", x.id, "--", "sleep 9", ok=124)
        b.berth("exec", "--memory", "32m", x.id, "python3", "-c", "bytearray(100 << 20)")
        b.berth("pause", x.id, ok=True)
        b.berth("resume", x.id, ok=True)
        b.berth("update", "--pids", "50", x.id, ok=True)
        b.berth("rename", x.id, "other", ok=True)
        b.berth("stop", x.id, ok=True)
        b.berth("start", x.id, ok=True)
        b.berth("cp", "/etc/hostname", x.id + ":/tmp", ok=True)  # berth's own work is not an event
    # the keeper writes once its client has the answer
    b.wait_for(lambda: len(events(x.id)) >= 16, 5, "the events")
    all_of_them = events()
    assert [v["event"] for v in all_of_them] == ["create", "start", "exec", "exit", "sh", "timeout", "exec", "oom", "pause", "resume",
                                               "update", "rename", "stop", "start", "stop", "rm"], all_of_them
    assert {v["id"] for v in all_of_them} == {x.id} and events(x.id) == all_of_them
    assert all_of_them[3]["exit_status"] == 3 and all_of_them[5]["text"] == "sleep 9"
    assert [v["time"] for v in all_of_them] == sorted(v["time"] for v in all_of_them)
    # by time and by cursor
    assert events("--since", "1h") == all_of_them and events("--since", all_of_them[4]["time"])[-12:] == all_of_them[4:]
    for i in (0, 7, 15):
        assert events("--from", all_of_them[i]["cursor"]) == all_of_them[i + 1:]
    assert events("nosuchbox") == []
    b.one_line_error(b.berth("events", "--since", "yesterday"), 2, "yesterday")
    b.one_line_error(b.berth("events", "--from", "99999999"), 2, "beyond the end")


def test_a_killed_keeper_is_an_event():
    with Box() as x:
        b.proc.kill(x.keeper)
        b.wait_for(lambda: not b.proc.alive(x.keeper) if os.path.exists(x.dir + "/record.json") else True, 5, "its end")
        b.gc()
        assert events(x.id)[-1]["event"] == "die", events(x.id)


def test_nothing_is_lost_over_readers_that_come_and_go():
    """Three sandboxes make events; readers die in the middle and come back with their cursor; the files turn meanwhile."""
    state = os.path.join(b.root(), "state")
    with open(os.path.join(state, "events"), "w") as f:
        # nearly full, so that the files turn in the middle
        f.write('{"base":5000}\n' + '{"event":"old","id":"filler","time":"2026-01-01T00:00:00.000Z"}\n' * 15600)
    cursor = 5000 + os.path.getsize(os.path.join(state, "events"))
    with Box() as w, Box() as x, Box() as y:
        def work(box_of):
            with box_of.client() as c:
                for i in range(150):
                    c.exec("true", f"{i}", "x" * 180)
        threads = [threading.Thread(target=work, args=(t,)) for t in (w, x, y)]
        for t in threads:
            t.start()
        got, rounds = [], 0
        done = False
        while not done:
            p = b.start("events", "--json", "--follow", "--from", str(cursor), bufsize=0)
            lines, part = [], bytes()
            while len(lines) < 100 and not done:
                over = not any(t.is_alive() for t in threads)
                if select.select([p.stdout], [], [], 0.3)[0]:
                    part += os.read(p.stdout.fileno(), 4096)
                    *whole, part = part.split(bytes([10]))
                    lines += map(json.loads, whole)
                else:
                    done = over
            b.stop(p)
            rounds += 1
            got += lines
            cursor = lines[-1]["cursor"] if lines else cursor
        for t in threads:
            t.join()
        assert not [v for v in got if v["event"] == "lost"], "a reader in time lost something"
        for sandbox in (w, x, y):
            mine = [v for v in got if v["id"] == sandbox.id]
            assert [v["event"] for v in mine] == ["create", "start"] + ["exec", "exit"] * 150, (sandbox.id, len(mine))
        assert rounds > 5
    sizes = [os.path.getsize(os.path.join(state, f)) for f in ("events", "events.1")]
    assert all(s < (1 << 20) + 4096 for s in sizes), sizes
    assert got[-1]["cursor"] > 5000 + (1 << 20), "the files did not turn"
    # who comes too late is told what is gone
    late = events("--from", "1")
    assert late[0]["event"] == "lost" and late[0]["bytes"] > 0, late[0]
    b.wait_for(lambda: "bytes of events were too old" in b.berth("events", "--from", "1", ok=True).err, 1, "the note")


def test_logs_of_commands_and_sessions():
    with Box("--name", "l") as x:
        b.berth("sh", "l", "--", "echo one; printf 'no newline'", ok=True)
        c = b.berth("exec", "-d", "l", "sh", "-c", "echo out; echo err >&2", ok=True).out.strip()
        b.berth("wait", "l", c, ok=True)
        b.berth("exec", "l", "echo", "straight to the caller", ok=True)
        b.berth("sh", "--session", "two", "l", "--", "printf '\\377\\000\\n'; echo ü", ok=True)

        def log(*args):
            return subprocess.run([b.BERTH, "logs", *args, "l"], env=b.environment(), stdout=subprocess.PIPE, check=True).stdout
        b.wait_for(lambda: "ü".encode() in log(), 5, "the log")
        want = b"one\nno newlineout\nerr\n\xff\x00\n\xc3\xbc\n"
        assert log() in (want, want.replace(b"out\nerr", b"err\nout")), log()
        assert log("--tail", "1") == "ü\n".encode() and log("-n", "2") == b"\xff\x00\n\xc3\xbc\n" and log("-n", "0") == b""
        assert log("--source", "main") == b"one\nno newline" and log("-s", "two") == b"\xff\x00\n\xc3\xbc\n"
        assert sorted(log("-s", c).split()) == [b"err", b"out"]
        entries = [json.loads(line) for line in log("--json").splitlines()]
        assert [e["source"] for e in entries] == ["session main", c, c, "session two"] and "time" in entries[0], entries
        b.berth("stop", "l", ok=True)
        assert b"one\n" in log()
        follower = b.start("logs", "--follow", "--tail", "0", "l")  # of a stopped one: ends at once
        assert follower.communicate(timeout=10 * b.SLOW)[0] == b""
        b.berth("start", "l", ok=True)
        follower = b.start("logs", "--follow", "--tail", "0", "--source", "c1", "l")
        follower.stdout.flush()
        b.wait_for(lambda: any("inotify" in os.readlink(f"/proc/{follower.pid}/fd/{f}") for f in os.listdir(f"/proc/{follower.pid}/fd")
                               if os.path.lexists(f"/proc/{follower.pid}/fd/{f}")), 5, "the watch")
        c = x.client()
        n = c.detach("sh", "-c", "echo now; read x; echo then")
        b.read_until(follower.stdout, b"now\n")
        c.call("send", command=n, text="go\n")
        b.read_until(follower.stdout, b"then\n")
        b.berth("stop", "l", ok=True)
        assert follower.wait(10 * b.SLOW) == 0
        b.stop(follower)
        assert b"then\n" in log()
    b.one_line_error(b.berth("logs", "l"), 125, "no sandbox")


def test_the_log_is_bounded_and_counts_what_it_leaves_out():
    env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), '[manager]\nlog_size = "256k"\n')}
    with Box(env=env) as x:
        n = x.main.detach("sh", "-c", "seq 200000")
        x.main.wait(n)
        a = x.sh("seq 200000")
        assert a.code == 0
        directory = os.path.join(b.root(), "state", "sandboxes", x.id)
        b.wait_for(lambda: b.berth("logs", x.id, ok=True).out.endswith("\n200000\n"), what="the last of the log")
        assert sum(os.path.getsize(os.path.join(directory, f)) for f in ("log", "log.1")) < 400 << 10
        out = b.berth("logs", x.id, ok=True).out
        assert "bytes of session main were not kept" in out and out.endswith("\n200000\n"), (out[:200], out[-200:])
    env = {"BERTH_CONFIG": b.write(b.tmp("none.toml"), "[manager]\nlog_size = 0\n")}
    with Box(env=env) as x:
        x.sh("echo hi")
        assert b.berth("logs", x.id, ok=True).out == "" and not os.path.exists(os.path.join(b.root(), "state", "sandboxes", x.id, "log"))
