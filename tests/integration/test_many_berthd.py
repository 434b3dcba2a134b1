# SPDX-License-Identifier: Apache-2.0
"""berthd beside many sandboxes: what it does about one does not grow with the others."""
import json
import os
import signal

import berthtest as b
from daemon import Daemon
from others import Others
from traced import Traced

FEW, OTHERS = 20, 500
LIMITS = f"[manager]\nmax_sandboxes = {2 * OTHERS}\nmax_stopped = {2 * OTHERS}\n"


def listen(s, query=b""):
    s.sendall(b"GET /v1/events" + query + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    f = s.makefile("rb")
    assert b" 200 " in f.readline()
    return f


def read_until(f, sandbox, kind):
    """The kinds of event of this sandbox, up to that one."""
    kinds = []
    while kind not in kinds:
        line = f.readline()
        assert line, "the stream of events ended"
        event = json.loads(line) if line.startswith(b"{") else {}
        if event.get("sandbox") == sandbox:
            kinds.append(event["type"])
    return kinds


def test_an_event_costs_nothing_for_the_sandboxes_that_do_not_change():
    b.needs_the_lean_program()
    others = Others(OTHERS)

    def cost(f):
        """Of a sandbox that is made and removed: the least of three, as whoever waits makes more calls."""
        counts = []
        for _ in range(3):
            with Traced(d) as t:
                box = b.berth("create", "host", ok=True, env=d.env).out.strip()
                assert read_until(f, box, "started") == ["created", "started"]
                b.berth("rm", "-f", box, ok=True)
                assert read_until(f, box, "removed") == ["stopped", "removed"]
            counts.append(len(t.calls))
        return min(counts)

    with Daemon(LIMITS) as d, d.raw_socket() as s:
        d.env = {"BERTH_CONFIG": d.config_path}
        f = listen(s)
        try:
            others.grow_to(FEW)
            assert read_until(f, f"{FEW - 1:012x}", "started") == ["created", "started"]
            few = cost(f)
            others.grow_to(OTHERS)
            read_until(f, f"{OTHERS - 1:012x}", "started")
            many = cost(f)
        finally:
            others.remove()
        read_until(f, f"{OTHERS - 1:012x}", "removed")
    print(f"system calls of berthd for a sandbox that comes and goes: {few} beside {FEW}, {many} beside {OTHERS}")
    assert many - few < (OTHERS - FEW) / 4, (few, many)


def test_events_after_more_changes_than_the_kernel_remembers():
    """The kernel drops what does not fit its queue; then berthd looks at all sandboxes."""
    with open("/proc/sys/fs/inotify/max_queued_events") as f:
        most = int(f.read())
    if most > 100000:
        raise b.skip(f"the queue of inotify holds {most} events")
    with Daemon(LIMITS) as d:
        with d.raw_socket() as s:
            f = listen(s)
            before = b.berth("create", "host", ok=True).out.strip()
            last = b.berth("create", "host", ok=True).out.strip()
            read_until(f, last, "started")
        # nobody listens, so nobody reads the queue
        others = Others(2)
        try:
            others.grow_to(1)
            # two names by turns: an event that is like the one before it is not queued
            for n in range(most + 2):
                os.close(os.open(f"{b.root()}/run/sandboxes/{0:012x}/new.{n % 2}", os.O_WRONLY | os.O_CREAT, 0o600))
            b.berth("rm", "-f", before, ok=True)
            others.grow_to(2)
            # berthd may hear late that the first listener has gone, and look for it
            with d.raw_socket() as s:
                f = listen(s, b"?since=0")
                assert read_until(f, f"{1:012x}", "started") == ["created", "started"]
        finally:
            others.remove()
        with d.raw_socket() as s:
            s.sendall(b"GET /v1/events?since=0 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_until(s.makefile("rb"), before, "removed") == ["created", "started", "stopped", "removed"]


def test_a_list_asks_no_keeper_again_of_a_sandbox_that_stands_still():
    b.needs_the_lean_program()
    idle = [b.berth("create", "host", ok=True).out.strip() for _ in range(8)]
    main = b.berth("create", "host", "sleep", "1000", ok=True).out.strip()
    with Daemon() as d:
        def look():
            """How many keepers berthd asks for its list, and the list by id."""
            with Traced(d) as t:
                listed = d.good("GET", "/v1/sandboxes")["sandboxes"]
            return t.calls.count("connect"), {x["id"]: x for x in listed}

        # a keeper notes it once it has had nothing to do for a moment, and the first answer is remembered
        n, said = b.wait_for(lambda: (lambda a: a[0] == 1 and a)(look()), 30)
        again = look()[1]
        for i in idle:
            assert said[i]["memory_bytes"] > 0 and said[i]["pids_limit"] and said[i]["commands"] == 0, said[i]
            assert again[i]["uptime_ms"] >= said[i]["uptime_ms"] and again[i]["idle_ms"] >= said[i]["idle_ms"], (said[i], again[i])
        assert said[main]["commands"] == 1 and said[main]["busy"] == "main command runs", said[main]
        # what changes is told at once, though nobody's work shows it
        b.berth("update", "--pids", "77", idle[0], ok=True)
        assert look()[1][idle[0]]["pids_limit"] == 77
        b.berth("exec", "-d", idle[1], "sleep", "1000", ok=True)
        assert look()[1][idle[1]]["busy"] == "command c1 runs"
        b.berth("pause", idle[2], ok=True)
        assert look()[1][idle[2]]["status"] == "running"
        n, said = look()
        assert said[idle[2]]["id"] == idle[2] and n >= 2, n


def test_a_list_costs_few_system_calls_for_each_sandbox():
    b.needs_the_lean_program()
    others = Others(OTHERS, "created")

    def cost():
        counts = []
        for _ in range(3):
            with Traced(d) as t:
                listed = d.good("GET", "/v1/sandboxes")["sandboxes"]
            assert len(listed) == len(others.held), len(listed)
            counts.append(len(t.calls))
        return min(counts)

    with Daemon(LIMITS) as d:
        try:
            others.grow_to(FEW)
            few = cost()
            others.grow_to(OTHERS)
            each = (cost() - few) / (OTHERS - FEW)
        finally:
            others.remove()
    # the directory is opened, the lock tried, and the record's file looked at, which has not changed
    assert each < 5, f"a list makes {each:.1f} system calls for each sandbox"


def test_a_list_comes_in_pieces():
    b.needs_the_lean_program()
    others = Others(7, "created")
    stopped = b.berth("create", "host", ok=True).out.strip()
    b.berth("stop", stopped, ok=True)
    with Daemon(LIMITS) as d:
        try:
            others.grow_to(7)
            whole = [x["id"] for x in d.good("GET", "/v1/sandboxes")["sandboxes"]]
            assert whole == sorted(whole) and len(whole) == 8 and stopped in whole, whole
            for size in (1, 3, 4, 8, 10000):
                got, query, pages = [], f"limit={size}", 0
                while True:
                    said = d.good("GET", f"/v1/sandboxes?{query}")
                    assert len(said["sandboxes"]) <= size
                    got += [x["id"] for x in said["sandboxes"]]
                    pages += 1
                    if "next" not in said:
                        break
                    query = f"limit={size}&after={said['next']}"
                assert got == whole and pages == -(-8 // size), (size, got)
            # those that a filter drops take no place in a piece
            said = d.good("GET", "/v1/sandboxes?limit=1&filter=status=stopped")
            assert [x["id"] for x in said["sandboxes"]] == [stopped] and "next" not in said
            for wrong in ("0", "10001"):
                assert d.request("GET", f"/v1/sandboxes?limit={wrong}").status == 400
        finally:
            others.remove()


def test_a_list_shows_at_once_what_changed():
    b.needs_the_lean_program()
    boxes = [b.berth("create", "--name", f"n{n}", "host", ok=True).out.strip() for n in range(3)]
    with Daemon() as d:
        def look():
            return {x["id"]: x for x in d.good("GET", "/v1/sandboxes")["sandboxes"]}

        b.wait_for(lambda: all("memory_bytes" in x for x in look().values()), 30)
        b.berth("rename", boxes[0], "other", ok=True)
        assert look()[boxes[0]]["name"] == "other"
        b.berth("stop", boxes[1], ok=True)
        assert look()[boxes[1]]["status"] == "stopped" and "uptime_ms" not in look()[boxes[1]]
        b.berth("start", boxes[1], ok=True)
        assert look()[boxes[1]]["status"] == "running"
        b.berth("rm", "-f", boxes[2], ok=True)
        assert sorted(look()) == sorted(boxes[:2])
        # a keeper that is killed takes its sandbox along
        os.kill(int(look()[boxes[0]]["supervisor_pid"]), signal.SIGKILL)
        b.wait_for(lambda: look()[boxes[0]]["status"] != "running", 30)
