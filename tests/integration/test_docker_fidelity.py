# SPDX-License-Identifier: Apache-2.0
"""Small things that clients of dockerd rely on, by the Engine API and by berth-docker."""
import json
import urllib.parse

import berthtest as b
from dockerdoor import Doors, box, door, run
from dockerlab import Cli, Engine, frames, read_all

COST = 20


def exec_of(d, cid, **body):
    """(exit code, stdout) of an exec by the API."""
    eid = d.good("POST", f"/containers/{cid}/exec", {"AttachStdout": True, "AttachStderr": True, **body})["Id"]
    s, head = d.hijack(f"/exec/{eid}/start", {"Detach": False, "Tty": False})
    assert head.startswith("HTTP/1.1 101 "), head
    out = frames(read_all(s))[1].decode()
    s.close()
    return d.good("GET", f"/exec/{eid}/json")["ExitCode"], out


@b.deadline(60)
def test_an_exec_takes_a_variable_without_a_value_and_tells_why_it_fails_in_its_stream():
    with Engine() as d:
        cid = d.create("sleep", "1000", name="box")
        d.good("POST", "/containers/box/start")
        # docker exec -e NAME, where the client has no such variable
        code, out = exec_of(d, cid, Cmd=["sh", "-c", "echo ${X-unset} $Y"], Env=["X", "Y=y"])
        assert (code, out) == (0, "unset y\n"), (code, out)
        code, out = exec_of(d, cid, Cmd=["true"], User="nosuch")
        assert code == 126 and "nosuch" in out and out.startswith("OCI runtime exec failed: exec failed: "), (code, out)
        code, out = exec_of(d, cid, Cmd=["true"], WorkingDir="relative")
        assert code == 126 and "absolute" in out, (code, out)
        cli = Cli(d)
        r = cli.run("exec", "-u", "nosuch", "box", "true", ok=126)
        assert "nosuch" in r.stdout, r
        assert cli.run("exec", "-e", "NOT_THERE", "box", "sh", "-c", "echo ${NOT_THERE-unset}", ok=True).stdout == "unset\n"


@b.deadline(60)
def test_what_cannot_be_made_is_refused_and_no_image_is_pulled_for_it():
    with Engine() as d:
        def refused(host):
            status, said, _ = d.api("POST", "/containers/create?name=bad", {"Image": "host", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none", **host}})
            assert status == 400, (host, status, said)
            return said["message"]
        assert refused({"NetworkMode": "nosuch"}) == "network nosuch not found"
        assert refused({"Binds": ["v:/b", "w:/b/"]}).startswith("Duplicate mount point: /b")
        assert "200 > 100" in refused({"Ulimits": [{"Name": "nofile", "Soft": 200, "Hard": 100}]})
        assert d.good("GET", "/containers/json?all=1") == []
        r = Cli(d).run("run", "--rm", "--network", "nosuch", "host", "true")
        assert r.returncode == 125 and "network nosuch not found" in r.stderr and "Unable to find image" not in r.stderr, r
        r = door("run", "--rm", "--network", "nosuch", "host", "true", ok=125)
        assert "network nosuch not found" in r.stderr, r
        assert "200 > 100" in run("--ulimit", "nofile=200:100", "host", "true", ok=125).stderr
        # a volume that is gone may be removed by force, as ryuk and compose do
        assert d.api("DELETE", "/volumes/nosuch?force=1")[0] == 204 and d.api("DELETE", "/volumes/nosuch")[0] == 404
        assert d.good("GET", "/plugins") == []


@b.deadline(60)
def test_each_field_of_a_hostconfig_is_there_for_templates_whoever_made_the_container():
    fields = ("Binds", "Memory", "NanoCpus", "CpusetCpus", "ReadonlyRootfs", "PidsLimit", "ShmSize", "Dns", "ExtraHosts", "UsernsMode", "Devices",
              "Ulimits", "SecurityOpt", "PublishAllPorts", "OomKillDisable", "CgroupParent", "ConsoleSize")
    template = " ".join("{{json .HostConfig.%s}}" % f for f in fields)
    with Engine() as d:
        cid = d.good("POST", "/containers/create?name=bare", {"Image": "host", "Cmd": ["true"]})["Id"]
        box("byhand")
        b.berth("create", "--name", "own", "host", ok=True)
        for name in (cid, "byhand", "own"):
            shown = d.good("GET", f"/containers/{name}/json")["HostConfig"]
            assert not [f for f in fields if f not in shown], (name, shown)
            door("inspect", "-f", template, name, ok=True)
        assert door("inspect", "-f", "{{slice .Id 0 12}} {{len (slice .Config.Cmd 1)}}", "byhand", ok=True).stdout == \
            door("ps", "--filter", "name=byhand", "--format", "{{.ID}} 1", ok=True).stdout


@b.deadline(90)
def test_a_rename_is_an_event_and_not_to_the_same_name():
    with Engine() as d:
        d.create("true", name="before")
        status, said, _ = d.api("POST", "/containers/before/rename?name=before")
        assert (status, said["message"]) == (400, "Renaming a container with the same name as its current name"), said
        assert "same name as its current name" in door("rename", "before", "before", ok=1).stderr
        d.good("POST", "/containers/before/rename?name=after")
        door("rename", "after", "last", ok=True)
        unnamed = d.create("true")
        where = urllib.parse.quote(json.dumps({"event": ["rename", "create"]}))
        events = [json.loads(line) for line in d.good("GET", f"/events?since=1&until=1&filters={where}").splitlines()]
        # a time that is over ends the stream at once; the journal has them all for a later one
        assert events == []
        with d.stream(f"/events?since=1&filters={where}") as r:
            seen = [json.loads(r.readline()) for _ in range(4)]
        assert [(x["Action"], x["Actor"]["Attributes"]["name"]) for x in seen] == [
            ("create", "before"), ("rename", "after"), ("rename", "last"), ("create", unnamed[:12])], seen
        assert "one or more flags" in door("update", "last", ok=1).stderr
        assert "0B" in door("builder", "prune", "-f", ok=True).stdout


@b.deadline(90)
def test_hosts_and_the_directory_of_a_container_are_dockers():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
    with Engine() as d:
        run("--name", "base", "box:1", "true", ok=True)
        door("commit", "-c", "WORKDIR /tmp", "base", "there:1", ok=True)
        # berth's own default is [sandbox] work_dir; Docker's is the root, or what the image or the client says
        for image, words, want in (("box:1", (), "/"), ("there:1", (), "/tmp"), ("box:1", ("-w", "/made"), "/made"), ("there:1", ("-w", "/root"), "/root")):
            assert run("--rm", *words, image, "pwd", ok=True).stdout == want + "\n", (image, words)
            body = {"WorkingDir": words[1]} if words else {}
            cid = d.create("pwd", image=image, **body)
            d.good("POST", f"/containers/{cid}/start")
            d.good("POST", f"/containers/{cid}/wait")
            assert door("logs", cid, ok=True).stdout == want + "\n", (image, words)
        out = run("--rm", "--add-host", "db:10.1.2.3", "--add-host", "up:host-gateway", "box:1", "cat", "/etc/hosts", ok=True).stdout
        assert "10.1.2.3\tdb\n" in out and "up" not in out.split(), out


@b.deadline(60)
def test_the_network_of_the_host_takes_further_hosts():
    with Engine(docker='allow = ["host-network"]\n') as d:
        cid = d.create("cat", "/etc/hosts", HostConfig={"NetworkMode": "host", "ExtraHosts": ["db:10.1.2.3"]})
        d.good("POST", f"/containers/{cid}/start")
        d.good("POST", f"/containers/{cid}/wait")
        assert "10.1.2.3\tdb\n" in door("logs", cid, ok=True).stdout


@b.deadline(60)
def test_a_program_opens_its_outputs_once_more_as_each_user():
    """nginx's image has /dev/stderr as its error.log."""
    again = "echo out > /dev/stdout && echo err > /dev/stderr && cat < /dev/stdin"
    with Doors():
        box("full")
        for user in ("0", "33"):
            r = run("--rm", "-i", "-u", user, "host", "sh", "-c", again, input="in\n", ok=True)
            assert (r.stdout, r.stderr) == ("out\nin\n", "err\n"), r
            assert door("exec", "-u", user, "full", "sh", "-c", again, ok=True).stdout == "out\n"
            name = run("-d", "-u", user, "host", "sh", "-c", again, ok=True).stdout.strip()
            assert door("wait", name, ok=True).stdout == "0\n"
            r = door("logs", name, ok=True)
            assert (r.stdout, r.stderr) == ("out\n", "err\n"), r


@b.deadline(60)
def test_a_copy_says_which_file_of_which_container_is_missing():
    with Doors():
        box("full")
        assert "Could not find the file /no/such in container full" in door("cp", "full:/no/such", b.tmp("x"), ok=1).stderr
        assert "in container" not in door("cp", "/no/such", "full:/x", ok=1).stderr


@b.deadline(60)
def test_one_that_was_never_started_has_no_changes_and_can_be_committed():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
    with Doors():
        door("create", "--name", "idle", "--network", "none", "box:1", "cat", "/etc/hostname", ok=True)
        assert door("diff", "idle", ok=True).stdout == ""
        made = door("commit", "-c", 'CMD ["echo", "made"]', "idle", "made:1", ok=True).stdout
        assert made.startswith("sha256:") and run("--rm", "made:1", ok=True).stdout == "made\n"
        # its first start is one of a fresh layer
        assert door("start", "-a", "idle", ok=True).stdout.strip() == door("inspect", "-f", "{{.Config.Hostname}}", "idle", ok=True).stdout.strip()


@b.deadline(60)
def test_inspect_shows_what_berth_update_made_of_it():
    with Engine() as d:
        box = d.api("POST", "/containers/create", {"Image": "host", "Cmd": ["sleep", "999"], "HostConfig": {
            "NetworkMode": "none", "Memory": 256 << 20, "NanoCpus": 500000000, "PidsLimit": 64, "RestartPolicy": {"Name": "no"}}})[1]["Id"]
        d.api("POST", f"/containers/{box}/start")

        def host():
            h = d.api("GET", f"/containers/{box}/json")[1]["HostConfig"]
            return h["Memory"], h["NanoCpus"], h["PidsLimit"], h["RestartPolicy"]["Name"], h["RestartPolicy"].get("MaximumRetryCount", 0)

        assert host() == (256 << 20, 500000000, 64, "no", 0), host()
        b.berth("update", "--memory", "128m", "--cpus", "0.25", "--pids", "32", "--restart", "on-failure:3", box[:12], ok=True)
        assert host() == (128 << 20, 250000000, 32, "on-failure", 3), host()
