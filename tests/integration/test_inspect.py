# SPDX-License-Identifier: Apache-2.0
"""berth inspect tells what a sandbox was made with, and --format prints the part that is asked for."""
import json

import berthtest as b
from box import Box


def inspect(ref, *options):
    return json.loads(b.berth("inspect", *options, ref, ok=True).out)


def formatted(text, *args, command="inspect"):
    return b.berth(command, "--format", text, *args, ok=True).out


OPTIONS = ("--memory", "128m", "--swap", "0", "--cpus", "0.5", "--pids", "77", "--disk", "64m", "--timeout", "9s", "--grace", "3s",
           "--volume", "/usr/share:/srv/share", "--tmpfs", "/cache:size=16m", "--env", "SECRET=hunter2", "--env", "OTHER=x",
           "--user", "1000", "--hostname", "box", "--network", "egress", "--allow-host", "x.test")


def check(j):
    limits = j["limits"]
    assert (limits["memory_bytes"], limits["swap_bytes"], limits["cpu_milli"], limits["pids"], limits["disk_bytes"]) == \
        (128 << 20, 0, 500, 77, 64 << 20), limits
    assert j["timeouts"] == {"timeout_ms": 9000, "grace_ms": 3000, "max_silent_ms": 0, "cpu_time_ms": 0}, j["timeouts"]
    bind, tmpfs = j["mounts"]
    assert (bind["type"], bind["source"], bind["target"], bind["writable"]) == ("bind", "/usr/share", "/srv/share", False), bind
    assert (tmpfs["type"], tmpfs["target"], tmpfs["size_bytes"]) == ("tmpfs", "/cache", 16 << 20), tmpfs
    assert j["network"]["mode"] == "egress" and j["network"]["policy"]["allow_host"] == ["x.test"], j["network"]
    assert "SECRET" in j["env"] and "OTHER" in j["env"] and "hunter2" not in json.dumps(j), j["env"]
    assert (j["user"], j["hostname"], j["seccomp"]) == ("1000", "box", "standard"), j


def test_inspect_shows_what_a_sandbox_was_made_with():
    with Box("--name", "made", *OPTIONS) as x:
        check(inspect("made"))
        b.berth("update", "--memory", "64m", "--pids", "unlimited", "made", ok=True)
        limits = inspect("made")["limits"]
        assert limits["memory_bytes"] == 64 << 20 and limits["pids"] == "unlimited", limits
        b.berth("stop", "made", ok=True)
        j = inspect("made")
        assert j["status"] == "stopped" and j["limits"] == limits and j["env"] and j["id"] == x.id, j
    b.run("--keep", "--name", "ran", *OPTIONS, "host", "true", ok=True)
    check(inspect("ran"))
    b.berth("rm", "ran", ok=True)


def test_the_environment_of_an_image_is_named_too():
    b.berth("image", "import", b.busybox_rootfs("fs"), "small:1", ok=True)
    with Box(image="small:1") as x:
        b.berth("image", "rm", "--force", "small:1", ok=True)
        assert "PATH" in inspect(x.id)["env"], inspect(x.id)
    with Box() as x:
        assert inspect(x.id)["limits"]["memory_bytes"] == 512 << 20


def test_format_prints_what_a_template_makes():
    with Box("--name", "one", "--memory", "64m") as x, Box("--name", "two"):
        assert formatted("{{.id}}", "one") == formatted("{{.ID}}", "one") == x.id + "\n"
        assert formatted("{{.name}} {{.limits.memory_bytes}}{{if eq .status \"running\"}} up{{end}}", "one") == "one 67108864 up\n"
        assert "PATH\n" in formatted("{{range .env}}{{println .}}{{end}}", "one")
        assert json.loads(formatted("json", "one"))["id"] == x.id and json.loads(formatted("{{json .limits}}", "one"))["memory_bytes"] == 64 << 20
        assert formatted("{{index . \"nothing\"}}", "one") == "<no value>\n"
        assert sorted(formatted("{{.name}}", command="ps").split()) == ["one", "two"]
        assert formatted("{{.name}}={{.status}}", "-f", "name=one", command="ps") == "one=running\n"
        assert b.berth("ps", "--format", "{{.name}}", "-f", "name=none", ok=True).out == ""
        assert formatted(r'{{.name}}\t{{println `a}}\t` "\t"}}\n\x', "one") == "one\ta}}\\t \t\n\n\\x\n"
        assert formatted(r"{{.name}}\t{{.status}}", "-f", "name=one", command="ps") == "one\trunning\n"
        assert b.berth("inspect", "-f", "{{.name}}", "one", ok=True).out == "one\n"
        for text, code, words in (("{{.id", 2, ("byte", "closed")), ("{{foo .id}}", 2, ("unknown function 'foo'", "hint")),
                                  ("{{.IDS}}", 125, ("no field .IDS", "{{json .}}")), ("table {{.id}}", 2, ("tables", "hint")),
                                  ("{{range .env}}", 2, ("without end",))):
            b.one_line_error(b.berth("inspect", "--format", text, "one"), code, *words)
            b.one_line_error(b.berth("ps", "--format", text), code, *words)
        r = b.berth("inspect", "--format", "a\x1b[31m{{.id}}\x7f\u009b", "one", ok=True)
        assert r.out == f"a?[31m{x.id}???\n", repr(r.out)
