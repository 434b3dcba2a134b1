# SPDX-License-Identifier: Apache-2.0
"""--timing of create, run and exec, and --create-timeout, which leaves nothing."""
import json
import re

import berthtest as b
from box import Box

COST = 10


def phases(err, prog):
    return dict(re.findall(rf"^{prog}: (\w+) +([0-9.]+) ms$", err, re.M))


def test_each_phase_is_told_where_it_is_asked_for():
    r = b.berth("create", "--timing", "--name", "timed", "host", ok=True)
    told = phases(r.err, "berth create")
    assert {"claim", "process", "mounts", "init", "total"} <= set(told) and float(told["total"]) > 0, r.err
    told = phases(b.berth("exec", "--timing", "timed", "true", ok=True).err, "berth exec")
    assert {"connect", "command", "total"} == set(told), told
    b.berth("rm", "-f", "timed", ok=True)
    told = phases(b.berth("run", "--timing", "host", "true", ok=True).err, "berth run")
    assert {"claim", "mounts", "command", "remove", "total"} <= set(told), told
    assert "total" not in b.berth("run", "host", "true", ok=True).err


def test_json_has_the_times_as_an_object():
    made = json.loads(b.berth("create", "--timing", "--json", "--name", "timed", "host", ok=True).out)
    parts = [v for k, v in made["timing"].items() if k != "total_ms"]
    assert abs(sum(parts) - made["timing"]["total_ms"]) < 0.01 and made["timing"]["mounts_ms"] > 0
    r = b.berth("exec", "--timing", "--json", "timed", "true", ok=True)
    assert json.loads(r.out)["timing"]["command_ms"] > 0 and r.err == ""
    b.berth("rm", "-f", "timed", ok=True)
    r = b.berth("run", "--timing", "--json", "host", "true", ok=True)
    assert json.loads(r.out)["timing"]["command_ms"] > 0 and json.loads(r.out)["exit_status"] == 0


def test_a_create_that_takes_too_long_names_its_phase_and_leaves_nothing():
    for ms in 1, 2, 4, 8, 16:
        r = b.berth("create", "--create-timeout", f"{ms}ms", "--name", "late", "host")
        if r.code:
            b.expect(re.search(r"within \d+ ms: its phase '\w+' was under way; hint:", r.err), r, "the phase is not named")
            assert b.berth("ps", "-aq", ok=True).out == ""
        else:
            b.berth("rm", "-f", "late", ok=True)
    with Box("--create-timeout", "1m", "--name", "late") as x:
        assert x.exec("echo", "hi", ok=True).out == "hi\n"
        b.berth("restart", "late", ok=True)
    r = b.berth("create", "--create-timeout", "1m", "nosuch:1", "--pull=never")
    b.expect(r.code != 0 and len(r.err.splitlines()) == 1, r, "the child's own error is not told")
