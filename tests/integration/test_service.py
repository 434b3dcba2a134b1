# SPDX-License-Identifier: Apache-2.0
"""Sandboxes with a main command: create IMAGE COMMAND and run -d, their log, attach, signals, stop, wait."""
import json
import os
import pty
import re
import signal
import subprocess
import time

import berthtest as b
import box
import ocilayout
import proc

COST = 20
NAME = "svc"


def service(*command, options=(), name=NAME, ok=True, image="host"):
    return b.berth("create", "--name", name, *options, image, *command, ok=ok)


def inspect(name=NAME):
    return json.loads(b.berth("inspect", name, ok=True).out)


def logs(*options, name=NAME):
    return b.berth("logs", *options, name, ok=True)


def remove(*names):
    b.berth("rm", "-f", *(names or (NAME,)), ok=True)


def wait_log(word, name=NAME):
    b.wait_for(lambda: word in logs(name=name).out, what=f"{word!r} in the log")


def test_the_end_of_the_main_command_is_the_end_of_the_sandbox():
    service("sh", "-c", "echo out; echo err >&2; read x; exit 7", options=("-i",))
    j = inspect()
    assert (j["status"], j["service"], j["command"][0]) == ("running", True, "sh"), j
    wait_log("out")
    r = logs()
    b.expect((r.out, r.err) == ("out\n", "err\n"), r, "the streams are not apart")
    waiting = b.start("wait", "--json", NAME)
    b.berth("send", NAME, "main", "go", ok=True)
    out = waiting.communicate(timeout=20 * b.SLOW)[0]
    assert waiting.returncode == 7, (waiting.returncode, out)
    said = json.loads(out)
    assert (said["status"], said["verdict"]["cause"], said["verdict"]["exit_status"]) == ("exited", "exit", 7), said
    j = inspect()
    assert (j["status"], j["verdict"]["exit_status"], j["stopped_by_hand"]) == ("exited", 7, False), j
    listed = b.berth("ps", "-a", ok=True).out.splitlines()[1]
    assert "exited" in listed and "exit 7" in listed and "sh -c echo out" in listed, listed
    b.berth("wait", NAME, ok=7)
    r = logs()
    b.expect((r.out, r.err) == ("out\n", "err\n"), r, "the log went with the sandbox")
    remove()


def test_a_signal_and_a_limit_are_told_as_the_cause_of_the_end():
    for options, command, code, cause in (
            ((), ["sh", "-c", "kill -USR1 $$"], 138, "signal"),
            (("--timeout", "200ms", "--grace", "0"), ["sleep", "100"], 124, "timeout"),
            (("-m", "16m"), ["sh", "-c", "x=0123456789; while :; do x=$x$x; done"], 137, "oom")):
        service(*command, options=options)
        b.berth("wait", NAME, ok=code)
        v = inspect()["verdict"]
        assert (v["cause"], v["exit_status"]) == (cause, code), v
        remove()


def test_run_detached_prints_the_id_of_a_service():
    r = b.berth("run", "-d", "--name", NAME, "host", "sh", "-c", "echo here; exec sleep 100", ok=True)
    assert r.out.strip() == inspect()["id"], r
    b.berth("exec", NAME, "true", ok=True)
    remove()
    r = b.berth("run", "--detach", "--rm", "--json", "host", "sh", "-c", "exec sleep 100", ok=True)
    said = json.loads(r.out)
    assert said["service"] is True, said
    b.berth("stop", said["id"], ok=True)
    assert b.berth("ps", "-aq", ok=True).out == ""


def test_the_image_says_what_a_service_runs_and_what_stops_it():
    tar = subprocess.run(["tar", "-C", box.dash_rootfs(), "-c", "."], stdout=subprocess.PIPE, check=True).stdout
    text = "trap 'echo hup; exit 5' HUP; echo up; while :; do sleep 0.01; done"
    ocilayout.Layout(b.tmp("layout")).image([tar], Entrypoint=["sh", "-c"], Cmd=[text], StopSignal="SIGHUP")
    b.berth("image", "import", b.tmp("layout"), "own:1", ok=True)
    service(options=("--service",), image="own:1")
    wait_log("up")
    assert inspect()["stop_signal"] == "SIGHUP", inspect()
    b.berth("stop", NAME, ok=True)
    v = inspect()
    assert (v["status"], v["verdict"]["exit_status"], v["stopped_by_hand"]) == ("stopped", 5, True), v
    assert logs().out == "up\nhup\n", logs()
    remove()
    service(options=("--service", "--entrypoint", "/bin/false"), image="own:1")
    b.berth("wait", NAME, ok=1)
    remove()
    b.berth("image", "rm", "own:1", ok=True)


def test_stop_sends_the_stop_signal_and_kills_after_the_stop_timeout():
    text = "trap 'echo usr1' USR1; echo up; while :; do sleep 0.01; done"
    service("sh", "-c", text, options=("--stop-signal", "USR1", "--stop-timeout", "5s"))
    wait_log("up")
    began = time.monotonic()
    b.berth("stop", NAME, ok=True)
    took = time.monotonic() - began
    assert 5 <= took, took
    v = inspect()["verdict"]
    assert (v["cause"], v["exit_status"]) == ("killed-by", 137), v
    assert logs().out == "up\nusr1\n", logs()
    b.berth("start", NAME, ok=True)
    b.wait_for(lambda: logs().out.count("up\n") == 2, what="the second start in the log")
    assert "verdict" not in inspect(), inspect()
    b.berth("restart", "--grace", "0", NAME, ok=True)
    b.wait_for(lambda: logs().out.count("up\n") == 3, what="the third start in the log")
    remove()


def test_a_stop_may_name_another_signal_than_the_services_own():
    text = "trap 'echo usr1; exit 3' USR1; trap 'echo hang; exit 4' HUP; echo up; while :; do sleep 0.01; done"
    service("sh", "-c", text, options=("--stop-signal", "USR1"))
    wait_log("up")
    b.berth("stop", "--signal", "HUP", NAME, ok=True)
    assert logs().out == "up\nhang\n", logs()
    assert inspect()["verdict"]["exit_status"] == 4, inspect()
    b.berth("start", NAME, ok=True)
    b.wait_for(lambda: logs().out.count("up\n") == 2, what="the second start in the log")
    # the signal was that of one stop
    b.berth("stop", NAME, ok=True)
    assert logs().out == "up\nhang\nup\nusr1\n", logs()
    r = b.berth("stop", "--signal", "NOSUCH", NAME)
    assert r.code == 2 and "NOSUCH" in r.err, r
    remove()


def test_a_stop_beside_another_sends_the_signal_that_it_names():
    """It was dropped, and the main command was killed at the end of the first one's grace."""
    service("sh", "-c", "trap 'echo term' TERM; trap 'echo hang; exit 4' HUP; echo up; while :; do sleep 0.01; done", options=("--stop-timeout", "30s"))
    wait_log("up")
    first = b.start("stop", NAME)
    wait_log("term")
    b.berth("stop", "--signal", "HUP", NAME, ok=True)
    assert first.wait() == 0
    assert logs().out == "up\nterm\nhang\n" and inspect()["verdict"]["exit_status"] == 4, logs()
    remove()


def test_a_start_beside_a_stop_waits_for_it_and_then_starts():
    """It returned 0 for the run that was ending, and then the sandbox was stopped."""
    service("sh", "-c", "trap 'echo asked' TERM; echo up; while :; do sleep 0.01; done", options=("--stop-timeout", "3s"))
    wait_log("up")
    stop = b.start("stop", NAME)
    wait_log("asked")
    b.berth("start", NAME, ok=True)
    assert stop.wait() == 0
    assert inspect()["status"] == "running", inspect()
    b.wait_for(lambda: logs().out.count("up\n") == 2, what="the second start in the log")
    remove()


def test_a_start_beside_a_keeper_that_does_not_answer_says_so():
    """It waited for ever."""
    service("sleep", "1000")
    keeper = inspect()["supervisor_pid"]
    os.kill(keeper, signal.SIGSTOP)
    try:
        b.one_line_error(b.berth("start", NAME), 124, "does not answer", "hint: berth kill")
    finally:
        os.kill(keeper, signal.SIGCONT)
    b.berth("start", NAME, ok=True)
    remove()
    # a run has no keeper; it runs, which is what is asked for
    run = b.start("run", "--name", NAME, "host", "sh", "-c", "echo up; exec sleep 1000")
    assert run.stdout.readline() == b"up\n"
    b.berth("start", NAME, ok=True)
    remove()
    run.communicate(timeout=20 * b.SLOW)


def test_a_stop_waits_for_the_report_of_the_end_that_it_asked_for():
    """The last process has ended, and init, which gets no processor at this moment, has not said how."""
    text = "trap 'echo got; until [ -e /tmp/go ]; do sleep 0.05; done; exit 5' TERM; echo up; while :; do sleep 0.05; done"
    service("sh", "-c", text, options=("--stop-timeout", "60s"))
    wait_log("up")
    init = inspect()["init_pid"]
    main = [pid for pid in proc.descendants(init) if "echo got" in proc.cmdline(pid)][0]
    p = b.start("stop", NAME)
    b.wait_for(lambda: "got" in logs().out, 20, "the signal")
    os.kill(init, signal.SIGSTOP)
    try:
        b.write(f"/proc/{main}/root/tmp/go")
        b.wait_for(lambda: proc.stat(main)[0] in "ZX", 20, "the end of the main command")
        time.sleep(0.3)     # some looks of the keeper's
    finally:
        os.kill(init, signal.SIGCONT)
    assert p.wait(30 * b.SLOW) == 0, p.stderr.read()
    b.stop(p)
    v = inspect()["verdict"]
    assert (v["cause"], v["exit_status"]) == ("exit", 5), v
    remove()


def test_real_time_signals_have_the_numbers_that_every_shell_gives_them():
    for word, number in (("RTMIN+3", 37), ("SIGRTMIN", 34), ("rtmax-1", 63), ("SIGRTMAX", 64)):
        service("sh", "-c", f"trap 'exit 5' {number}; echo up; while :; do sleep 0.01; done", options=("--stop-signal", word))
        wait_log("up")
        b.berth("stop", NAME, ok=True)
        b.berth("wait", NAME, ok=5)
        remove()
    for word in ("RTMIN+31", "RTMAX+1", "RTMIN-1", "RTMIN+", "RTMINX"):
        b.one_line_error(b.berth("create", "--stop-signal", word, "host", "true"), 2, "signal")


def test_kill_with_a_signal_reaches_the_main_command_only():
    service("sh", "-c", "trap 'echo hup' HUP; echo up; while :; do sleep 0.01; done")
    wait_log("up")
    b.berth("kill", "-s", "HUP", NAME, ok=True)
    wait_log("hup")
    assert inspect()["status"] == "running"
    b.berth("kill", "--signal", "KILL", NAME, ok=True)
    assert inspect()["verdict"]["exit_status"] == 137, inspect()
    b.one_line_error(b.berth("kill", "-s", "HUP", NAME), 125, "not running", "berth start")
    remove()
    plain = b.berth("create", "host", ok=True).out.strip()
    b.one_line_error(b.berth("kill", "-s", "HUP", plain), 125, "no main command")
    remove(plain)


def test_attach_joins_the_main_command():
    service("sh", "-c", "echo before; while read x; do echo got $x; echo e >&2; done", options=("-i",))
    wait_log("before")
    p = b.start("attach", NAME, stdin=subprocess.PIPE)
    p.stdin.write(b"one\n")
    p.stdin.flush()
    b.read_until(p.stdout, b"got one\n")
    p.stdin.close()
    assert p.poll() is None
    b.berth("send", "--eof", NAME, "main", "last", ok=True)
    assert p.wait(20 * b.SLOW) == 0
    p.stdin = None
    assert b.stop(p) == 0
    remove()


def test_attach_passes_signals_on_unless_told_not_to():
    service("sh", "-c", "trap 'echo int; exit 4' INT; echo up; while :; do sleep 0.01; done")
    wait_log("up")
    p = b.start("attach", "--sig-proxy", "false", "--from", "0", NAME)
    b.read_until(p.stdout, b"up\n")
    assert b.stop(p, signal.SIGINT) != 0
    assert inspect()["status"] == "running"
    p = b.start("attach", "--from", "0", NAME)
    b.read_until(p.stdout, b"up\n")
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=20 * b.SLOW)
    assert p.returncode == 4, (p.returncode, out, err)
    remove()


def test_a_terminal_is_attached_and_left_by_the_detach_keys():
    service("sh", "-c", "tty; stty -echo; echo up; while read x; do echo got $x; done", options=("-t",))
    wait_log("up")
    assert "/dev/pts/" in logs().out, logs()
    master, slave = pty.openpty()
    p = b.start("attach", NAME, stdin=slave, stdout=slave)
    os.close(slave)
    os.write(master, b"one\n")
    seen = b""
    while b"got one" not in seen:
        seen += os.read(master, 4096)
    os.write(master, b"\x10\x11")
    assert p.wait(20 * b.SLOW) == 0
    b.stop(p)
    os.close(master)
    assert inspect()["status"] == "running"
    remove()


def test_the_init_command_ends_before_the_main_command_and_must_succeed():
    service("cat", "/made", options=("--init-command", "echo preparing; echo it > /made"))
    b.berth("wait", NAME, ok=0)
    assert logs().out == "preparing\nit\n", logs()
    remove()
    r = service("true", options=("--init-command", "echo some; echo why not >&2; exit 4"), ok=125)
    b.one_line_error(r, 125, "init command", "status 4", "why not")
    r = service("nonesuch", ok=127)
    b.one_line_error(r, 127, "main command", "nonesuch")
    assert b.berth("ps", "-aq", ok=True).out == ""


def test_who_waits_while_the_init_command_runs_hears_of_the_main_command():
    p = b.start("create", "--name", NAME, "--init-command", "echo there; until test -e /go; do sleep 0.01; done", "host", "sh", "-c", "exit 6")
    b.wait_for(lambda: "there" in b.berth("logs", NAME).out, what="the init command")
    waiting = b.start("wait", NAME)
    keeper = inspect()["supervisor_pid"]
    # its listening socket, its socket to init and the waiting client's
    b.wait_for(lambda: sum(os.readlink(f"/proc/{keeper}/fd/{fd}").startswith("socket") for fd in os.listdir(f"/proc/{keeper}/fd")) >= 3,
               what="the client that waits")
    b.one_line_error(b.berth("kill", "-s", "HUP", NAME), 125, "no main command")
    b.berth("exec", NAME, "touch", "/go", ok=True)
    assert waiting.wait(20 * b.SLOW) == 6
    assert p.wait(20 * b.SLOW) == 0
    b.stop(waiting)
    b.stop(p)
    remove()


def test_a_create_that_is_killed_while_its_init_command_runs_leaves_nothing():
    p = b.start("create", "--name", NAME, "--init-command", "echo there; sleep 100", "host", "true")
    b.wait_for(lambda: "there" in b.berth("logs", "--all", NAME).out, what="the init command")
    b.stop(p)
    b.wait_for(lambda: b.berth("ps", "-aq", ok=True).out == "", what="the end of the sandbox")


def test_what_only_a_service_has_is_refused_without_a_main_command():
    for options in (["--stop-signal", "HUP"], ["--stop-timeout", "1s"], ["--init-command", "true"]):
        b.one_line_error(b.berth("create", *options, "host"), 2, options[0], "main command")
        b.one_line_error(b.berth("run", *options, "host", "true"), 2, options[0], "--detach")
    b.one_line_error(b.berth("create", "--stop-signal", "NONE", "host", "true"), 2, "signal")
    b.one_line_error(b.berth("run", "-d", "--keep", "host", "true"), 2, "--detach")


def test_the_log_of_a_service_is_bounded_and_has_its_last_lines():
    config = b.write(b.tmp("berth.toml"), "[manager]\nlog_size = \"1m\"\n")
    env = {"BERTH_CONFIG": config}
    b.berth("create", "--name", NAME, "host", "sh", "-c", "i=0; while [ $i -lt 60000 ]; do echo line $i of them all; i=$((i+1)); done", ok=True, env=env)
    b.berth("wait", NAME, ok=0)
    place = os.path.join(b.root(), "state/sandboxes", inspect()["id"])
    size = sum(os.path.getsize(os.path.join(place, n)) for n in os.listdir(place) if n.startswith("log"))
    assert size < 1400000, size
    r = logs("--tail", "2")
    assert r.out == "line 59998 of them all\nline 59999 of them all\n", r.out[-200:]
    remove()


@b.needs_speed("it is about how fast the keeper reads")
def test_a_service_that_writes_for_ever_costs_the_keeper_a_bounded_time():
    began = time.monotonic()
    service("yes")
    keeper = json.loads(b.berth("inspect", NAME, ok=True).out)["supervisor_pid"]

    def used():
        fields = open(f"/proc/{keeper}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    b.wait_for(lambda: used() > 0.9, seconds=60, what="a keeper that has worked")
    cpu, took = used(), time.monotonic() - began
    # 30 ms in each 100, half a second that it had saved, and what one read and the start took
    assert cpu <= 0.3 * took + 0.5 + 0.2, f"{cpu} s of CPU in {took:.2f} s"
    b.berth("exec", NAME, "true", ok=True)
    b.berth("stop", NAME, ok=True)
    remove()


def test_timestamps_stamp_lines_and_not_writes():
    pieces = ("import os, sys, time\n"
              "def w(fd, data): os.write(fd, data); time.sleep(0.05)\n"
              "w(1, b'one\\ntwo\\nth'); w(2, b'an error\\nha'); w(1, b'ree\\n\\n'); w(2, b'lf\\n'); w(1, b'no end')\n")
    b.berth("create", "--name", NAME, "host", "python3", "-c", pieces, ok=True)
    b.wait_for(lambda: "no end" in logs("--all").out, what="the end of the output")
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z main command "
    def lines(text):
        assert text.endswith("\n"), text
        assert all(re.match(stamp, line) for line in text[:-1].split("\n")), text
        return [re.sub(stamp, "", line, count=1) for line in text[:-1].split("\n")]
    r = logs("-t")
    assert lines(r.out) == ["one", "two", "three", "", "no end"], r
    assert lines(r.err) == ["an error", "half"], r
    # all in one: each line is whole
    assert sorted(lines(logs("-t", "--all").out)) == sorted(["one", "two", "three", "", "no end", "an error", "half"])
    assert lines(logs("-t", "--tail", "2").out)[-1:] == ["no end"]
    # the stamp is that of the line's first byte: half began before three ended
    times = {line.split(" ", 3)[3]: line.split(" ")[0] for line in logs("-t", "--all").out.splitlines()}
    assert times["two"] <= times["three"] <= times["half"] <= times["no end"], times
    b.berth("rm", "-f", NAME, ok=True)


def test_a_line_longer_than_a_piece_is_stamped_anew_and_loses_nothing():
    b.berth("create", "--name", NAME, "host", "python3", "-c", "print('x' * 150000)", ok=True)
    b.wait_for(lambda: len(logs().out) == 150001, what="the output")
    out = logs("-t").out
    assert 3 <= len(out.splitlines()) <= 4 and out.count("x") == 150000, len(out)
    b.berth("rm", "-f", NAME, ok=True)


def test_logs_follow_a_service_to_its_end():
    service("sh", "-c", "echo one; read x; echo two; echo three >&2", options=("-i",))
    b.berth("exec", "-d", NAME, "echo", "not of the service", ok=True)
    p = b.start("logs", "-f", NAME)
    b.read_until(p.stdout, b"one\n")
    b.berth("send", NAME, "main", "go", ok=True)
    out, err = p.communicate(timeout=20 * b.SLOW)
    assert (p.returncode, out, err) == (0, b"two\n", b"three\n"), (p.returncode, out, err)
    assert "not of the service" in logs("--all").out
    assert logs("--tail", "1").err == "three\n", logs("--tail", "1")
    remove()


def test_stdio_makes_a_service_and_waits_for_it():
    p = b.start("stdio", stdin=subprocess.PIPE)

    def ask(**rq):
        p.stdin.write(json.dumps(rq).encode() + b"\n")
        p.stdin.flush()
        while True:
            said = json.loads(p.stdout.readline())
            if said.get("id") == rq["id"] and "event" not in said:
                return said
    made = ask(id=1, op="create", image="host", options={"name": NAME, "interactive": True}, args=["sh", "-c", "read x; exit 6"])
    assert "error" not in made, made
    seen = ask(id=2, op="inspect", sandbox=NAME)
    assert "service" in json.dumps(seen), seen
    assert "error" not in ask(id=3, op="send", sandbox=NAME, command="main", data="x\n")
    ended = ask(id=4, op="wait", sandbox=NAME, command="main")
    print(made, ended)
    p.stdin.close()
    p.stdin = None
    b.stop(p)
    b.berth("wait", NAME, ok=6)
    remove()


# ---- clients that a start announces --------------------------------------------------------------

MANY = 3 << 20      # bytes: above what the keeper holds of a service's output


def started_for_one_client(*command):
    """A service whose start announces one client: its id."""
    made = b.berth("create", "--no-start", "--name", NAME, "host", *command, ok=True).out.strip()
    b.berth("start", "--await", "1", NAME, ok=True)
    return made


def at_rest(client, command=None):
    """How many bytes of the command's output the keeper has read, once it reads no more; more means all of them."""
    seen = [0, 0]

    def same():
        n = [c for c in client.call("commands")["commands"] if command in (None, c["command"])][0]["stdout_bytes"]
        seen[:] = [n, seen[1] + 1 if n and n == seen[0] else 0]
        return n >= MANY or seen[1] >= 100
    b.wait_for(same, 30, "the rest")
    return seen[0]


def followed(client, command="main"):
    """The command's output from its beginning."""
    got, at = b"", 0
    while True:
        client.send("follow", command=command, stream="stdout", hold=True, **{"from": at})
        answer, fds = client.receive()
        for fd in fds:
            got += box.content(fd)
        assert answer["stdout"]["from"] == at, (answer, at)
        at = answer["stdout"]["next"]
        if answer["ended"]:
            return got


def test_an_announced_client_that_comes_late_misses_no_output():
    made = started_for_one_client("sh", "-c", f"yes 0123456789 | head -c {MANY}")
    with box.Client(f"{b.root()}/run/sandboxes/{made}/sock") as looks, box.Client(f"{b.root()}/run/sandboxes/{made}/sock") as late:
        at = at_rest(looks)
        assert (256 << 10) < at < (512 << 10), f"the keeper read {at} bytes before its client came"
        got = followed(late)
    assert len(got) == MANY and got == (b"0123456789\n" * (MANY // 11 + 1))[:MANY], len(got)
    b.berth("wait", NAME, ok=0)
    remove()


def test_output_goes_on_when_the_announced_client_never_comes():
    started_for_one_client("sh", "-c", f"yes 0123456789 | head -c {MANY}; echo end >&2; exec sleep 1000")
    b.wait_for(lambda: "end" in logs("--tail", "1").err, 30, "the end of the output")
    remove()


def test_a_command_that_is_held_for_its_client_waits_with_its_output():
    """docker exec by the Engine API: the client begins to read some time after the start."""
    with box.Box() as x, x.client() as looks, x.client() as late:
        c = late.detach("sh", "-c", f"yes 0123456789 | head -c {MANY}", hold=True)
        at = at_rest(looks, c)
        assert (256 << 10) < at < (512 << 10), f"the keeper read {at} bytes before its client came"
        assert len(followed(late, c)) == MANY
        free = late.detach("sh", "-c", f"yes 0123456789 | head -c {MANY}")
        assert looks.wait(free)["cause"] == "exit"


def test_a_service_in_which_nobody_executes_anything_has_one_cgroup_of_commands():
    """
    The cgroup of the next command is made ahead only where a client has executed one; and a new one, which has no limit of
    processes, is not told so.
    """
    b.needs_the_lean_program()
    log = b.tmp("strace")
    # strace ends with the keeper; while the main command sleeps, the keeper has nothing else to do
    b.berth("create", "--auto-remove", "host", "sleep", "1", prefix=("strace", "-f", "-y", "-o", log, "-e", "trace=mkdir,openat"),
            ok=True)
    with open(log) as f:
        text = f.read()
    made = re.findall(r'mkdir\("/sys/fs/cgroup/\S*/c(\d+)"', text)
    assert made and set(made) == {"1"}, made
    assert not re.findall(r'openat\(\d+</sys/fs/cgroup/pids/\S*/c\d+>, "pids.max"', text), text
