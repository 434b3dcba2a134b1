# SPDX-License-Identifier: Apache-2.0
"""update changes all that it is given, or nothing."""
import glob
import json
import os

import berthtest as b
from test_oci import HYBRID, SLEEP, Bundle


def limits(c):
    """Every file of the container's cgroups that holds a limit."""
    found = {}
    for place in glob.glob("/sys/fs/cgroup/*" + c.linux["cgroupsPath"]) if HYBRID else ["/sys/fs/cgroup" + c.linux["cgroupsPath"]]:
        for name in os.listdir(place):
            if name.split(".")[0] in ("cpu", "cpuset", "memory", "pids", "blkio", "io", "hugetlb") and \
                    name.endswith((".max", ".low", ".weight", ".shares", "_us", "limit_in_bytes", ".cpus", ".mems", "_device", "cpu.idle")):
                with open(os.path.join(place, name)) as f:
                    found[place + "/" + name] = f.read()
    return found


def change(c, resources, ok=True):
    return c.call("update", "--resources", "-", c.id, input=json.dumps(resources).encode(), ok=ok)


# each is fine but for the last, which the kernel refuses: a period has to be 1 ms
WRONG = {"cpu": {"shares": 512, "period": 1, "quota": 1}}


def test_an_update_that_fails_changes_nothing():
    with Bundle(*SLEEP) as c:
        c.linux["resources"].update(memory={"limit": 256 << 20, "reservation": 64 << 20}, cpu={"shares": 2048}, pids={"limit": 100})
        c.detached()
        before = limits(c)
        for memory in ({"limit": 128 << 20, "reservation": 32 << 20}, {"limit": 512 << 20}, {"limit": -1}):
            r = change(c, {"memory": memory, **WRONG}, ok=1)
            b.expect("cpu" in r.err and "not all what they were" not in r.err, r, "another failure")
            after = limits(c)
            assert after == before, {k: (before[k], v) for k, v in after.items() if v != before[k]}
        change(c, {"memory": {"limit": 128 << 20}, "cpu": {"shares": 512}, "pids": {"limit": 50}})
        assert limits(c) != before


def test_an_update_that_fails_takes_back_lines_of_devices_too():
    device = [{"major": 7, "minor": 0, "rate": 1 << 20}]
    with Bundle(*SLEEP) as c:
        c.detached()
        r = change(c, {"blockIO": {"throttleReadBpsDevice": device}}, ok=None)
        if r.code:
            raise b.skip(f"no throttling of loop devices here: {r.err}")
        for rate in (2 << 20, 3 << 20):
            before = limits(c)
            # the second device of a list is none, so the first one's line is taken back
            r = change(c, {"blockIO": {"throttleReadBpsDevice": [{**device[0], "rate": rate}, {**device[0], "major": 4000}]}}, ok=1)
            assert limits(c) == before, r
        before = limits(c)
        change(c, {"blockIO": {"throttleWriteBpsDevice": [device[0], {**device[0], "major": 4000}]}}, ok=1)
        assert limits(c) == before


def test_an_update_refused_for_its_device_rules_changes_no_limit():
    with Bundle(*SLEEP) as c:
        c.detached()
        before = limits(c)
        r = change(c, {"pids": {"limit": 7}, "devices": [{"allow": True, "type": "x", "access": "r"}]}, ok=1)
        assert limits(c) == before, r


def test_exec_gives_up_what_the_container_gave_up():
    for wanted in (True, False):
        with Bundle(*SLEEP, noNewPrivileges=wanted) as c:
            c.detached()
            said = c.exec(c.id, "grep", "NoNewPrivs", "/proc/self/status").out
            assert said.split()[1] == str(int(wanted))
            assert c.exec("--no-new-privs", c.id, "grep", "NoNewPrivs", "/proc/self/status").out.split()[1] == "1"
