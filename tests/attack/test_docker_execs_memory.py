# SPDX-License-Identifier: Apache-2.0
"""S54.  Execs that a client of Docker makes and never starts take no memory without bound."""
import berthtest as b
from dockerlab import Engine


def resident(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS:"))


@b.deadline(180)
def test_execs_that_are_never_started_are_bounded_and_the_newest_can_be_started():
    many = {"Cmd": ["true"], "Env": [f"A{i}=" + "x" * 8 for i in range(40000)]}
    with Engine() as d:
        box = d.api("POST", "/containers/create", {"Image": "host", "Cmd": ["sleep", "999"], "HostConfig": {"NetworkMode": "none"}})[1]["Id"]
        d.api("POST", f"/containers/{box}/start")
        before = resident(d.p.pid)
        ids = []
        for _ in range(60):
            status, made, _ = d.api("POST", f"/containers/{box}/exec", many)
            assert status == 201, made
            ids.append(made["Id"])
        assert resident(d.p.pid) - before < 96 << 20, (before, resident(d.p.pid))
        assert d.api("GET", f"/exec/{ids[0]}/json")[0] == 404
        assert d.api("GET", f"/exec/{ids[-1]}/json")[0] == 200
        small = d.api("POST", f"/containers/{box}/exec", {"Cmd": ["true"]})[1]["Id"]
        assert d.api("POST", f"/exec/{small}/start", {"Detach": True})[0] == 200
