# SPDX-License-Identifier: Apache-2.0
"""Commands with as many arguments as the kernel takes, by every face that starts commands."""
import json

import berthtest as b
from dockerdoor import door
from dockerlab import Engine, frames
from test_docker_exec import Box

COST = 15
COUNT = 'echo $# "$(echo "$*" | wc -c)"'
LONG = ["x" * 120000] * 15                      # 1.8 MB
MANY = ["ab"] * 150000                          # 0.45 MB, and a pointer for each
SIZES = {"long": (LONG, "15 1800015"), "many": (MANY, "150000 450000")}


def words(argv):
    return ["sh", "-c", COUNT, "sh", *argv]


@b.deadline(120)
def test_a_command_takes_as_many_arguments_as_the_kernel_on_the_command_line():
    b.berth("create", "--name", "box", "host", ok=True)
    for argv, want in SIZES.values():
        assert b.berth("exec", "box", *words(argv), ok=True).out == want + "\n"
        assert b.berth("run", "host", *words(argv), ok=True).out == want + "\n"
        assert door("exec", "box", *words(argv), ok=True).stdout == want + "\n"
        assert door("run", "--rm", "--network", "none", "host", *words(argv), ok=True).stdout == want + "\n"
        b.berth("create", "--name", "main", "host", *words(argv), ok=True)
        b.wait_for(lambda: want in b.berth("logs", "main").out, 20, "the output of the command")
        b.berth("rm", "-f", "main", ok=True)
    asked = json.dumps({"id": 1, "op": "exec", "sandbox": "box", "argv": words(LONG)})
    told = [json.loads(line) for line in b.berth("stdio", input=asked + "\n", ok=True).out.splitlines()]
    assert SIZES["long"][1] + "\n" in [t.get("data") for t in told], told
    # the kernel refuses one of 128 KiB to this test's own child, too: a variable of a file is the way to have one
    b.write(b.tmp("env"), "A=" + "x" * 140000 + "\n")
    for said in (b.berth("exec", "--env-file", b.tmp("env"), "box", "true").err, door("exec", "--env-file", b.tmp("env"), "box", "true").stderr):
        assert "Argument list too long" in said and "permission" not in said, said
    b.berth("rm", "-f", "box", ok=True)


@b.deadline(120)
def test_a_command_takes_as_many_arguments_as_the_kernel_over_a_socket():
    with Engine() as d:
        x = Box(d)
        for argv, want in SIZES.values():
            out, code = x.run(*words(argv))
            assert (frames(out)[1].decode(), code) == (want + "\n", 0), (frames(out), code)
            made = d.create(*words(argv), name="main")
            d.good("POST", f"/containers/{made}/start")
            assert d.good("POST", f"/containers/{made}/wait", timeout=120)["StatusCode"] == 0
            out = d.api("GET", f"/containers/{made}/logs?stdout=1")[1]
            assert frames(out)[1].decode() == want + "\n", out
            d.good("DELETE", f"/containers/{made}?force=1")
            r = d.post("/v1/sandboxes/box/exec", {"argv": words(argv)})
            assert (r.status, r.json.get("stdout")) == (200, want + "\n"), r
            r = d.post("/v1/run", {"image": "host", "argv": words(argv)})
            assert (r.status, r.json.get("stdout")) == (200, want + "\n"), r
            made = d.post("/v1/sandboxes", {"image": "host", "command": words(argv)}).json["id"]
            b.wait_for(lambda: want in b.berth("logs", made).out, 20, "the output of the command")
            b.berth("rm", "-f", made, ok=True)
            assert b.berth("--host", f"unix://{d.socket}", "exec", "box", *words(argv), ok=True).out == want + "\n"
        # more than the kernel takes is told with its remedy, by each of them
        out, code = x.run("echo", "x" * 140000)
        assert code == 126 and b"Argument list too long; hint: one argument" in out and b"permission" not in out, (out, code)
        r = d.post("/v1/sandboxes/box/exec", {"argv": ["echo", *LONG, *LONG[:3]]})
        assert "too long" in r.json["error"]["message"] and "128 KiB" in r.json["error"]["remedy"], r
