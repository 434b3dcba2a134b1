# SPDX-License-Identifier: Apache-2.0
"""berth-docker: containers from their making to their removal, in docker's words and exit statuses."""
import json
import os
import pty
import re
import signal
import subprocess

import berthtest as b
from dockerdoor import PROGRAM, Doors, box, door, environment, run, start
from dockerlab import Engine, frames

COST = 20


@b.deadline(90)
def test_run_has_the_commands_streams_and_exit_status_and_leaves_nothing():
    with Doors():
        r = run("--rm", "host", "sh", "-c", "echo out; echo err >&2; exit 7", ok=7)
        assert (r.stdout, r.stderr) == ("out\n", "err\n"), r
        assert run("--rm", "-i", "host", "cat", input="one\ntwo\n", ok=True).stdout == "one\ntwo\n"
        # without -i there is no stdin
        assert run("--rm", "host", "cat", input="unread", ok=True).stdout == ""
        assert run("--rm", "-a", "stderr", "host", "sh", "-c", "echo out; echo err >&2", ok=True).stdout == ""
        run("--rm", "host", "sh", "-c", "kill -9 $$", ok=137)
        big = run("--rm", "host", "sh", "-c", "yes 0123456789 | head -c 3000000", ok=True).stdout
        assert len(big) == 3000000 and big.endswith("0123456789\n"[: 3000000 % 11 or 11])
        assert door("ps", "-a", "-q", ok=True).stdout == ""


@b.deadline(60)
def test_a_run_whose_output_goes_nowhere_says_its_id():
    with Doors():
        cid = run("-i", "-a", "stdin", "host", "cat", input="word", ok=True).stdout.strip()
        assert len(cid) == 64 and door("wait", cid, ok=True).stdout == "0\n"
        assert door("logs", cid, ok=True).stdout == "word"
        assert "Conflicting options: -a and -d" in run("-d", "-a", "stdout", "host", "true", ok=1).stderr
        assert "valid streams are STDIN, STDOUT and STDERR" in run("-a", "stdot", "host", "true", ok=125).stderr
        assert door("ps", "-a", "-q", ok=True).stdout == cid[:12] + "\n"


@b.deadline(60)
def test_values_without_effect_are_checked_and_told_once():
    with Doors():
        for flag, wrong, said in (("--oom-score-adj", "1001", "range for oom score adj"), ("--memory-swappiness", "101", "swappiness range is 0-100"),
                                  ("--memory-reservation", "1k", "Minimum memory reservation"), ("--log-opt", "nosuch=1", "unknown log opt"),
                                  ("--log-driver", "nosuch", "error looking up logging plugin")):
            assert said in run("--rm", flag, wrong, "host", "true", ok=125).stderr, flag
        r = run("--rm", "--oom-score-adj", "5", "--dns", "127.0.0.1", "-v", b.tmp("w") + ":/srv", "-v", b.tmp("w") + ":/srv", "host", "true", ok=True)
        assert r.stderr.count("OomScoreAdj") == 1 and r.stderr.count("--dns=127.0.0.1") == 1, r
        assert "invalid reference format" in run("host@foo", "true", ok=125).stderr
        assert "invalid empty volume spec" in run("-v", "", "host", "true", ok=125).stderr
        assert "empty section between colons" in run("-v", ":/v", "host", "true", ok=125).stderr


@b.deadline(60)
def test_a_format_that_no_event_fits_is_told_at_once():
    with Doors():
        assert "badField" in door("events", "--format", "{{.badField}}", ok=1).stderr
        run("--name", "seen", "host", "true", ok=True)
        line = "{{.Type}} {{.Action}} {{.Actor.Attributes.name}} {{index .Actor.Attributes \"image\"}}"
        assert "container start seen host" in door("events", "--since", "1h", "--until", "0s", "--format", line, ok=True).stdout


@b.deadline(60)
def test_a_paused_container_is_not_joined():
    with Doors():
        door("run", "-d", "--name", "still", "--network", "none", "host", "sleep", "1000", ok=True)
        cid = door("inspect", "-f", "{{.Id}}", "still", ok=True).stdout.strip()
        door("pause", "still", ok=True)
        assert f"Container {cid} is paused, unpause the container before exec" in door("exec", "still", "true", ok=1).stderr
        assert "You cannot attach to a paused container, unpause it first" in door("attach", "still", ok=1).stderr
        door("unpause", "still", ok=True)


@b.deadline(60)
def test_a_copy_that_has_no_place_is_told_in_dockers_words():
    with Doors():
        os.makedirs(b.tmp("d"))
        for name in ("f", "d/x"):
            with open(b.tmp(name), "w") as f:
                f.write("x")
        door("run", "--name", "ended", "--network", "none", "host", "sh", "-c", "mkdir /srv/d; echo x > /srv/f", ok=True)
        for source, dest, said in (("ended:/srv/f", b.tmp("none/"), "no such directory"), (b.tmp("f"), "ended:/srv/none/", "no such directory"),
                                   ("ended:/srv/d", b.tmp("f"), "cannot copy directory"), (b.tmp("d"), "ended:/srv/f", "cannot copy directory"),
                                   ("ended:/srv/no", b.tmp("g"), "Could not find the file /srv/no in container ended")):
            assert said in door("cp", source, dest, ok=1).stderr, (source, dest)
        door("run", "-d", "--name", "fixed", "--read-only", "--network", "none", "host", "sleep", "1000", ok=True)
        assert "marked read-only" in door("cp", b.tmp("f"), "fixed:/srv", ok=1).stderr


@b.deadline(60)
def test_a_command_that_is_not_there_ends_with_126_or_127_and_leaves_nothing_with_rm():
    with Doors():
        r = run("--rm", "host", "nosuch", ok=127)
        assert "executable file not found in $PATH" in r.stderr, r
        r = run("--rm", "host", "/etc/passwd", ok=126)
        assert "permission denied" in r.stderr, r
        assert door("ps", "-a", "-q", ok=True).stdout == ""
        box("live")
        assert "executable file not found" in door("exec", "live", "nosuch", ok=127).stderr
        assert "permission denied" in door("exec", "live", "/etc/passwd", ok=126).stderr


@b.deadline(90)
def test_one_with_rm_keeps_its_files_over_a_restart_and_goes_at_its_end():
    with Doors():
        run("-d", "--rm", "--name", "kept", "host", "sleep", "1000", ok=True)
        for i in range(2):
            door("exec", "kept", "sh", "-c", "dd if=/dev/zero of=/dev/null count=1", ok=True)
            door("exec", "kept", "sh", "-c", f"echo {i} >> /srv/file; sync /srv/file", ok=True)
            door("restart", "-t", "0", "kept", ok=True)
        assert door("exec", "kept", "cat", "/srv/file", ok=True).stdout == "0\n1\n"
        assert door("diff", "kept", ok=True).stdout.count("/srv/file") == 1
        door("stop", "-t", "0", "kept", ok=True)
        b.wait_for(lambda: door("ps", "-a", "-q", ok=True).stdout == "", 30, "its removal")


@b.deadline(90)
def test_a_run_whose_keeper_is_killed_ends_and_leaves_nothing():
    with Doors():
        p = start("run", "--rm", "--network", "none", "--name", "lost", "host", "sleep", "1000", stderr=subprocess.PIPE, text=True)
        b.wait_for(lambda: '"running"' in door("inspect", "lost").stdout, 30, "its start")
        os.kill(json.loads(b.berth("inspect", "lost", ok=True).out)["supervisor_pid"], signal.SIGKILL)
        said = p.communicate(timeout=30 * b.SLOW)[1]
        assert p.returncode == 125 and said, (p.returncode, said)
        # gc leaves it alone until the kernel has done with its processes
        b.wait_for(lambda: b.berth("gc", ok=True) and door("ps", "-a", "-q", ok=True).stdout == "", 30, "its removal")


@b.deadline(60)
def test_misuse_ends_with_125_and_says_what_is_wrong():
    bad = [(("run", "--nosuch", "host"), 125, "unknown flag: --nosuch"), (("run", "-Z", "host"), 125, "unknown shorthand flag: 'Z' in -Z"),
           (("run", "--name"), 125, "flag needs an argument: --name"), (("run",), 1, "'docker run' requires at least 1 argument"),
           (("exec", "x"), 1, "'docker exec' requires at least 2 arguments"), (("ps", "x"), 1, "accepts no arguments"),
           (("run", "--rm=maybe", "host"), 125, "strconv.ParseBool"), (("nosuch",), 1, "unknown command: docker nosuch"),
           (("checkpoint", "create", "x", "y"), 1, "berth checkpoint keeps the files"), (("start", "--checkpoint", "y", "x"), 125, "memory is not kept"),
           (("run", "--memory", "x", "host"), 125, "memory"), (("run", "--name", "a/b", "host"), 125, "Invalid container name"),
           (("run", "-p", "99999:1", "host"), 125, "port"), (("run", "--mount", "type=bind", "host"), 125, "target is required"),
           (("run", "--mount", "x=1,target=/x", "host"), 125, "unexpected key"), (("run", "--ulimit", "nofile", "host"), 125, "ulimit"),
           (("run", "--restart", "always", "--rm", "host"), 125, "conflicting options"), (("run", "--pull", "x", "host"), 125, "pull"),
           (("run", "--blkio-weight", "5", "host"), 125, "from 10 to 1000"), (("run", "--link-local-ip", "169.254.1.2", "host"), 125, "is refused"),
           (("run", "--privileged", "host"), 125, "is refused here"), (("run", "--network", "host", "host"), 125, "is refused here"),
           (("run", "--pid", "host", "host"), 125, "is refused"), (("run", "-v", "/etc:/x", "host"), 125, "is refused here"),
           (("run", "--pull", "never", "nosuch:1"), 125, "No such image: nosuch:1"), (("-H", "tcp://x:1", "ps"), 1, "another engine"),
           (("--context", "other", "ps"), 1, "another engine"), (("ps", "--filter", "x"), 1, "bad format of filter"),
           (("ps", "--filter", "x=1"), 1, "invalid filter 'x'"), (("ps", "--format", "{{.Nosuch}}"), 1, "Nosuch"),
           (("ps", "--format", "{{foo .ID}}"), 1, "unknown function"), (("kill", "-s", "NONSENSE", "x"), 1, "Invalid signal")]
    with Doors():
        for words, code, text in bad:
            r = door(*words)
            assert (r.returncode, text in r.stderr) == (code, True), (words, r)
        assert "another engine" in door("ps", env={"DOCKER_HOST": "tcp://127.0.0.1:1"}, ok=1).stderr
        assert door("ps", "-a", "-q", ok=True).stdout == ""


@b.deadline(60)
def test_a_container_that_is_not_there_or_does_not_run_is_told_in_dockers_words():
    with Doors():
        for verb in (("start", "no"), ("stop", "no"), ("kill", "no"), ("rm", "no"), ("logs", "no"), ("exec", "no", "true"),
                     ("wait", "no"), ("pause", "no"), ("rename", "no", "name2"), ("attach", "no"), ("restart", "no")):
            assert "No such container: no" in door(*verb, ok=1).stderr, verb
        r = door("inspect", "no", ok=1)
        assert (r.stdout.strip(), r.stderr) == ("[]", "Error: No such object: no\n"), r
        assert "No such container: no" in door("inspect", "--type", "container", "no", ok=1).stderr
        assert "No such image: no" in door("image", "inspect", "no", ok=1).stderr
        assert "No such image: no" in door("inspect", "--type=image", "no", ok=1).stderr
        cid = door("create", "--name", "idle", "--network", "none", "host", "sleep", "9", ok=True).stdout.strip()
        assert f"Container {cid} is not running" in door("exec", "idle", "true", ok=1).stderr
        assert "is not running" in door("kill", "idle", ok=1).stderr
        assert "is not running" in door("pause", "idle", ok=1).stderr
        r = door("run", "--name", "idle", "host", ok=125)
        assert f'Conflict. The container name "/idle" is already in use by container "{cid}"' in r.stderr, r
        # with --force an absent container is not an error
        door("rm", "-f", "no", ok=True)


@b.deadline(90)
def test_the_life_of_a_container():
    with Doors():
        cid = box("first", "sh", "-c", "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.05; done")
        assert len(cid) == 64
        b.wait_for(lambda: door("logs", "first", ok=True).stdout == "up\n", 20, "its first word")
        assert "is already paused" not in door("pause", "first", ok=True).stderr
        assert "is already paused" in door("pause", cid[:12], ok=1).stderr
        assert "paused" in door("exec", "first", "true", ok=1).stderr
        assert "Paused" in door("ps", "--format", "{{.Status}}", ok=True).stdout
        door("unpause", "first", ok=True)
        assert door("rename", "first", "second", ok=True).stdout == ""
        assert "container is running" in door("rm", "second", ok=1).stderr
        assert door("kill", "--signal", "USR1", "second", ok=True).stdout == "second\n"
        assert door("wait", "second", ok=True).stdout == "5\n"
        # one that is missing does not end the wait for the others
        r = door("wait", "nosuch", "second", "gone", ok=1)
        assert r.stdout == "5\n" and "container: nosuch" in r.stderr and "container: gone" in r.stderr, r
        assert door("logs", "second", ok=True).stdout == "up\ngot\n"
        assert door("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}} {{.Name}}", "second", ok=True).stdout == "exited 5 /second\n"
        assert door("restart", "second", ok=True).stdout == "second\n"
        assert door("inspect", "-f", "{{.State.Running}}", "second", ok=True).stdout == "true\n"
        assert door("stop", "-t", "0", "second", ok=True).stdout == "second\n"
        assert door("stop", "second", ok=True).stdout == "second\n"
        assert door("start", "second", ok=True).stdout == "second\n"
        assert door("rm", "--force", cid, ok=True).stdout == cid + "\n"
        assert door("start", "-a", door("create", "--network", "none", "host", "sh", "-c", "echo hi; exit 4", ok=True).stdout.strip(),
                    ok=4).stdout == "hi\n"


@b.deadline(90)
def test_exec_has_dockers_flags():
    with Doors():
        box("box")
        r = door("exec", "-e", "A=1", "-e", "FROM_ME", "-e", "NOT_THERE", "-w", "/tmp", "-u", "65534:65534", "box", "sh", "-c",
                 "echo $A $FROM_ME $(pwd) $(id -u) ${NOT_THERE-unset}", env={"FROM_ME": "mine"}, ok=True)
        assert r.stdout == "1 mine /tmp 65534 unset\n", r
        env = b.write(b.tmp("env"), "# nothing\nB=two words\nFROM_ME\n")
        r = door("exec", "--env-file", env or b.tmp("env"), "box", "sh", "-c", "echo $B $FROM_ME", env={"FROM_ME": "mine"}, ok=True)
        assert r.stdout == "two words mine\n", r
        assert door("exec", "-i", "box", "cat", input="in\n", ok=True).stdout == "in\n"
        assert door("exec", "box", "cat", input="in\n", ok=True).stdout == ""
        assert door("exec", "-it", "box", "true", ok=1).stderr == "the input device is not a TTY\n"
        assert "Usage:" in door("exec", "--help", ok=True).stdout
        # detached: nothing is said, it has no stdin, and lives on
        assert door("exec", "-d", "box", "sh", "-c", "cat; touch /tmp/done; sleep 300", ok=True).stdout == ""
        b.wait_for(lambda: door("exec", "box", "test", "-e", "/tmp/done").returncode == 0, 20, "the detached command")
        door("exec", "--privileged", "box", "true", ok=True)
        door("exec", "box", "sh", "-c", "exit 9", ok=9)


@b.deadline(60)
def test_a_terminal_is_one_inside_too():
    with Doors():
        box("box")
        for words in (("exec", "-it", "box"), ("run", "-it", "--rm", "--network", "none", "host")):
            master, slave = pty.openpty()
            p = start(*words, "sh", "-c", "test -t 0 && test -t 1 && echo yes; read x; echo got-$x; exit 3", stdin=slave, stdout=slave,
                      stderr=slave)
            os.close(slave)
            try:
                with os.fdopen(master, "rb+", buffering=0) as f:
                    b.read_until(f, b"yes", 30)
                    f.write(b"line\n")
                    b.read_until(f, b"got-line", 30)
                    assert p.wait(30 * b.SLOW) == 3, words
            finally:
                b.stop(p)


@b.deadline(60)
def test_ps_filters_and_formats_as_docker_does():
    with Doors():
        cid = run("-d", "--name", "one", "--label", "app=web", "--label", "n=1", "host", "sleep", "1000", ok=True).stdout.strip()
        door("create", "--name", "two", "--network", "none", "--label", "app=db", "host", "true", ok=True)
        head, row = door("ps", ok=True).stdout.splitlines()
        assert re.split(r"  +", head) == ["CONTAINER ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS", "NAMES"], head
        assert row.split()[0] == cid[:12] and '"sleep 1000"' in row and row.endswith("one"), row
        assert sorted(door("ps", "-a", "--format", "{{.Names}}|{{.Label \"app\"}}|{{.State}}", ok=True).stdout.split()) == \
            ["one|web|running", "two|db|created"]
        assert door("ps", "-aq", "--filter", "label=app=db", "--no-trunc", ok=True).stdout.strip().startswith(
            door("inspect", "-f", "{{.Id}}", "two", ok=True).stdout.strip())
        assert door("ps", "-q", "--filter", "status=created", "--filter", "name=two", ok=True).stdout.strip()
        assert door("ps", "-q", "--filter", "name=nosuch", ok=True).stdout == ""
        assert door("ps", "--format", "table {{.ID}}\\t{{.Names}}", ok=True).stdout.splitlines() == \
            ["CONTAINER ID   NAMES", f"{cid[:12]}   one"]
        j = json.loads(door("ps", "--format", "json", ok=True).stdout)
        assert (j["Names"], j["State"], j["Labels"]) == ("one", "running", "app=web,n=1"), j
        assert door("container", "ls", "-lq", ok=True).stdout.strip() == door("ps", "-n", "1", "-q", ok=True).stdout.strip()


@b.deadline(60)
def test_inspect_takes_the_templates_that_callers_use():
    with Doors():
        run("-d", "--name", "box", "-e", "A=1", "--label", "k=v", "host", "sleep", "1000", ok=True)
        rows = [("{{.State.Running}}", "true"), ('{{ index .Config.Labels "k" }}', "v"), ('{{ index .Config.Labels "no" }}', ""),
                ("{{range .Config.Env}}{{println .}}{{end}}", "A=1\n"), ("{{.State.FinishedAt}}", "0001-01-01T00:00:00Z"),
                ("{{.HostConfig.NetworkMode}}", "none"), ("{{json .Config.Entrypoint}}", "null"), ("{{.Config.Image}}", "host"),
                ('{{printf "%s-%d" .Name .State.ExitCode}}', "/box-0"), ("{{len .Mounts}}", "0"), ("{{upper .State.Status}}", "RUNNING"),
                ('{{join .Config.Cmd "+"}}', "sleep+1000"), ("{{if .State.Paused}}p{{else}}r{{end}}", "r")]
        for text, said in rows:
            assert door("inspect", "--format", text, "box", ok=True).stdout == said + "\n", text
        state = json.loads(door("inspect", "-f", "{{json .State}}", "box", ok=True).stdout)
        assert state["Status"] == "running" and state["Pid"] > 0, state
        one = json.loads(door("inspect", "box", ok=True).stdout)
        assert len(one) == 1 and one[0]["Name"] == "/box" and one[0]["Config"]["Cmd"] == ["sleep", "1000"], one
        # maps of Go's have members that are missing, and structures have not
        for text, said in (("{{.Config.Labels.no}}", "<no value>"), ("{{.Config.Labels.k}}", "v"), ("{{if .NetworkSettings.Networks.no}}y{{end}}", ""),
                           ("{{.HostConfig.Sysctls.no}}", "<no value>")):
            assert door("inspect", "-f", text, "box", ok=True).stdout == said + "\n", text
        assert door("inspect", "-f", "{{.HostConfig.Dns}}", "box", ok=True).stdout == "[]\n"
        # one that is missing does not keep the others from being shown
        r = door("inspect", "-f", "{{.Name}}", "no1", "box", "no2", ok=1)
        assert r.stdout == "/box\n" and [line.split()[-1] for line in r.stderr.splitlines()] == ["no1", "no2"], r
        r = door("inspect", "no1", "box", ok=1)
        assert [c["Name"] for c in json.loads(r.stdout)] == ["/box"] and r.stderr.count("No such object") == 1, r
        assert door("inspect", "-f", "{{.Id", "box", "box", ok=1).stderr.count("parsing") == 1
        for text, word in (("{{.Nosuch}}", "Nosuch"), ("{{html .Id}}", "unknown function"), ("{{.Id", "template")):
            assert word in door("inspect", "-f", text, "box", ok=1).stderr, text


@b.deadline(90)
def test_what_run_is_asked_for_holds_in_the_container():
    with Doors():
        there = b.tmpdir("there")
        b.write(os.path.join(there, "file"), "content\n")
        r = run("--rm", "--memory", "100m", "--cpus", "0.5", "--pids-limit", "50", "--hostname", "hosty", "-w", "/tmp", "-u", "1000:1000",
                "-v", f"{there}:/data:ro", "--tmpfs", "/cache:size=1m", "--ulimit", "nofile=99:99", "--shm-size", "1m", "--init",
                "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--stop-timeout", "1", "--log-driver", "json-file",
                "host", "sh", "-c", "hostname; pwd; id -u; cat /data/file; ulimit -n; grep CapEff /proc/self/status; "
                "touch /data/x 2>/dev/null || echo read-only; df -k /cache | tail -1 | tr -s ' ' | cut -d' ' -f2", ok=True)
        assert r.stdout.split() == ["hosty", "/tmp", "1000", "content", "99", "CapEff:", "0" * 16, "read-only", "1024"], r
        cid = run("-d", "--memory", "100m", "--pids-limit", "50", "--mount", f"type=bind,source={there},target=/m,readonly", "--cidfile",
                  b.tmp("cid"), "host", "sleep", "1000", ok=True).stdout.strip()
        with open(b.tmp("cid")) as f:
            assert f.read() == cid
        j = json.loads(door("inspect", cid, ok=True).stdout)[0]
        assert (j["HostConfig"]["Memory"], j["HostConfig"]["PidsLimit"]) == (100 << 20, 50), j["HostConfig"]
        assert door("exec", cid, "cat", "/m/file", ok=True).stdout == "content\n"
        assert "container ID file found" in run("--cidfile", b.tmp("cid"), "host", "true", ok=125).stderr
        assert run("--rm", "--entrypoint", "echo", "host", "a", "b", ok=True).stdout == "a b\n"
        assert run("--rm", "--read-only", "host", "sh", "-c", "touch /srv/x 2>&1 || true", ok=True).stdout.strip().endswith("system")


@b.deadline(120)
def test_logs_follow_to_the_end_and_know_tails_and_times():
    with Doors():
        box("talk", "sh", "-c", "for i in 1 2 3; do echo line $i; done; while [ ! -e /tmp/go ]; do sleep 0.05; "
            "done; echo last")
        b.wait_for(lambda: "line 3" in door("logs", "talk", ok=True).stdout, 20, "its lines")
        assert door("logs", "--tail", "2", "talk", ok=True).stdout == "line 2\nline 3\n"
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z line 1\n", door("logs", "-t", "talk", ok=True).stdout)
        assert door("logs", "--since", "1h", "talk", ok=True).stdout.startswith("line 1")
        assert door("logs", "--until", "1h", "talk", ok=True).stdout == ""
        with start("logs", "-f", "talk", stdout=subprocess.PIPE, text=True) as p:
            assert p.stdout.readline() == "line 1\n"
            # the end of the container may take this one along
            assert door("exec", "talk", "touch", "/tmp/go").returncode in (0, 137)
            assert p.stdout.read() == "line 2\nline 3\nlast\n" and p.wait(30 * b.SLOW) == 0


@b.deadline(120)
def test_logs_of_a_container_that_never_stops_writing_end():
    with Engine() as d:
        run("-d", "--name", "busy", "host", "sh", "-c",
            "seq 1 20000; while :; do echo more; done", ok=True)
        b.wait_for(lambda: "more" in door("logs", "--tail", "1", "busy", ok=True).stdout, 40, "its last line")
        for tail in ("0", "1", "1000"):
            shown = door("logs", "--tail", tail, "busy", ok=True).stdout
            assert shown.count("\n") == int(tail) and shown.endswith("more\n" if shown else ""), (tail, len(shown), shown[-40:])
            status, raw = d.api("GET", f"/containers/busy/logs?stdout=1&tail={tail}")[:2]
            # a line may be in two frames, as it was in two writes of the log
            assert status == 200 and frames(raw).get(1, b"").count(b"more\n") == int(tail), (tail, len(raw))
        assert "more\n" in door("logs", "busy", ok=True).stdout
        assert b.berth("logs", "--tail", "3", "busy", ok=True).out == 3 * "more\n"


@b.deadline(60)
def test_a_signal_to_run_is_the_containers():
    with Doors():
        p = start("run", "--rm", "--name", "sig", "--network", "none", "host", "sh", "-c",
                  "trap 'echo got; exit 6' TERM; echo up; while :; do sleep 0.05; done", stdout=subprocess.PIPE, text=True)
        try:
            assert p.stdout.readline() == "up\n"
            p.send_signal(signal.SIGTERM)
            assert p.stdout.read() == "got\n" and p.wait(30 * b.SLOW) == 6
        finally:
            b.stop(p)
        assert door("ps", "-aq", ok=True).stdout == ""


@b.deadline(90)
def test_a_container_of_one_door_is_the_others():
    with Engine() as d:
        mine = run("-d", "--name", "mine", "--label", "by=b", "-e", "A=1", "host", "sleep", "1000", ok=True).stdout.strip()
        theirs = d.create("sleep", "1000", name="theirs", Env=["A=1"], Labels={"by": "a"})
        assert d.api("POST", f"/containers/{theirs}/start")[0] == 204
        assert sorted(c["Id"] for c in d.good("GET", "/containers/json")) == sorted([mine, theirs])
        assert sorted(door("ps", "-q", "--no-trunc", ok=True).stdout.split()) == sorted([mine, theirs])
        # both describe a container in the same way
        for name in ("mine", "theirs"):
            a, of_b = d.good("GET", f"/containers/{name}/json"), json.loads(door("inspect", name, ok=True).stdout)[0]
            assert a == of_b, (name, a, of_b)
        one, other = (json.loads(door("inspect", n, ok=True).stdout)[0] for n in ("mine", "theirs"))
        assert one.keys() == other.keys() and one["Config"].keys() == other["Config"].keys()
        # berth says by which protocol they were made; Docker's clients see the labels that they gave
        rows = {line.split()[1]: line for line in b.berth("ps", ok=True).out.splitlines()}
        assert " docker " in rows["mine"] and " docker " in rows["theirs"], rows
        assert one["Config"]["Labels"] == {"by": "b"} and d.good("GET", "/containers/json")[0]["Labels"] in ({"by": "a"}, {"by": "b"})
        door("exec", "theirs", "touch", "/tmp/x", ok=True)
        assert d.api("DELETE", "/containers/mine?force=1")[0] == 204 and "No such container" in door("inspect", "--type", "container", "mine", ok=1).stderr
        door("rm", "-f", "theirs", ok=True)
        assert d.good("GET", "/containers/json?all=1") == []


@b.deadline(60)
def test_a_restart_policy_holds_without_a_daemon():
    with Doors():
        box_id = run("-d", "--restart", "on-failure:2", "--name", "again", "host", "sh", "-c", "echo life; exit 1", ok=True).stdout.strip()
        b.wait_for(lambda: door("logs", "again", ok=True).stdout.count("life") == 3, 40, "three lives")
        b.wait_for(lambda: door("inspect", "-f", "{{.State.Status}}", box_id, ok=True).stdout == "exited\n", 40, "its end")


@b.deadline(60)
def test_no_user_but_root_and_no_set_uid_program():
    with Doors():
        r = subprocess.run([PROGRAM, "ps"], env=environment(), capture_output=True, text=True, user=65534, group=65534)
        assert r.returncode == 1 and "needs root" in r.stderr, r
        assert "berth-docker is not berth" in subprocess.run(["berth", "ps"], executable=PROGRAM, env=environment(), capture_output=True,
                                                             text=True).stderr


@b.deadline(120)
def test_the_calls_of_agents_work_as_they_make_them():
    b.berth("image", "import", b.busybox_rootfs(), "app:1", ok=True)
    with Doors():
        # Hermes
        door("version", ok=True)
        assert door("image", "inspect", "app:1", "--format", "{{json .Config.Entrypoint}}", ok=True).stdout.strip() in ("null", "[]")
        door("run", "--rm", "--network=none", "--cpus", "0.5", "--memory", "64m", "--pids-limit", "32", "app:1", "sleep", "0", ok=True)
        cid = door("run", "-d", "--init", "--name", "hermes-1", "--label", "hermes-agent=1", "-w", "/root", "--cap-drop", "ALL", "--cap-add",
                   "DAC_OVERRIDE", "--cap-add", "CHOWN", "--cap-add", "FOWNER", "--tmpfs", "/tmp:rw,nosuid,size=64m", "--tmpfs",
                   "/run:rw,noexec,nosuid,size=64m", "--security-opt", "no-new-privileges", "--cpus", "1", "--memory", "512m",
                   "--pids-limit", "256", "--shm-size", "64m", "--storage-opt", "size=64m", "--network=none", "-e", "HERMES", "app:1",
                   "sleep", "infinity", env={"HERMES": "h"}, ok=True).stdout.strip()
        assert door("exec", "-i", "-e", "TERM_X=1", cid, "sh", "-c", "cat; echo $HERMES $TERM_X $PWD", input="in\n", ok=True).stdout == \
            "in\nh 1 /root\n"
        door("stop", "-t", "0", cid, ok=True)
        assert door("ps", "-a", "--filter", "label=hermes-agent=1", "--filter", "status=exited", "--format", "{{.ID}}",
                    ok=True).stdout.strip() == cid[:12]
        assert door("inspect", "--format", "{{.State.FinishedAt}}", cid, ok=True).stdout.startswith("20")
        door("start", cid, ok=True)
        door("rm", "-f", cid, ok=True)
        # OpenClaw
        assert "No such image" in door("image", "inspect", "nosuch:1", ok=1).stderr
        door("create", "--name", "claw", "--label", "k=v", "--read-only", "--tmpfs", "/tmp", "--tmpfs", "/run", "--network", "none",
             "--env", "A=1", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "100", "--memory", "256m",
             "--memory-swap", "256m", "--cpus", "1", "--ulimit", "nofile=64:128", "--workdir", "/root", "app:1", "sleep", "infinity", ok=True)
        door("start", "claw", ok=True)
        assert door("exec", "-i", "-w", "/tmp", "-e", "B=2", "claw", "/bin/sh", "-lc", "echo $A $B; pwd; ulimit -n", input="",
                    ok=True).stdout.split() == ["1", "2", "/tmp", "64"]
        assert door("inspect", "-f", '{{ index .Config.Labels "k" }}', "claw", ok=True).stdout == "v\n"
        assert "A=1" in door("inspect", "-f", "{{range .Config.Env}}{{println .}}{{end}}", "claw", ok=True).stdout.split()
        # mini-swe-agent
        one = door("run", "-d", "--name", "swe", "-w", "/root", "--rm", "--network", "none", "app:1", "sleep", "2h", ok=True).stdout.strip()
        door("exec", "-w", "/root", "-e", "K=V", one, "sh", "-lc", "echo $K > x", ok=True)
        assert door("exec", "-w", "/root", one, "sh", "-lc", "cat x", ok=True).stdout == "V\n"
        door("stop", "-t", "0", one, ok=True)
        b.wait_for(lambda: door("ps", "-aq", "--filter", "name=swe", ok=True).stdout == "", 20, "the removal")
