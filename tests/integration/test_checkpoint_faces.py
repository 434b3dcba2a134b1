# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, undo and fork by berth stdio, by berthd, by berth --host; tenants have only their own."""
import concurrent.futures
import contextlib
import fcntl
import itertools
import json
import os
import struct
import subprocess

import berthtest as b
import daemon
import proc
from box import Box
from daemon import Daemon
from proc import children
from test_checkpoint import ids, needs_file, snapshot_of
from test_remote import far
from test_stdio import stdio

COST = 12
F_OFD_SETLKW = 38
TENANTS = "[tenant]\nsandboxes = 3\nmemory_total = \"1g\"\n"


def as_tenant(token):
    return {"tcp": True, "token": token}


def text_of(d, box, path="/f", **who):
    return d.exec(box, "cat", path, **who)["stdout"]


def put(d, box, text, **who):
    d.exec(box, "sh", "-c", f"echo {text} > /f", **who)


def kept():
    return sorted(os.listdir(os.path.join(b.root(), "state", "sandboxes")))


class Id:
    """What needs_file() wants."""

    def __init__(self, box):
        self.id = box


@stdio()
def test_stdio_makes_checkpoints_goes_back_and_forks(s, box):
    needs_file(Id(box))
    s.exec(box, "sh", "-c", "echo one > /f")
    a = s.call(op="checkpoint", sandbox=box, name="clean")
    assert (a["checkpoint"], a["name"], a["sandbox"], a["exit_status"]) == ("k1", "clean", box, 0), a
    s.exec(box, "sh", "-c", "echo two > /f", checkpoint=True)
    assert s.call(op="sh", sandbox=box, text="echo three > /f; echo said", checkpoint=True)["output"] == "said\n"
    a = s.call(op="checkpoints", sandbox=box)
    assert [(c["id"], c["before_command"]) for c in a["checkpoints"]] == [("k1", False), ("k2", True), ("k3", True)], a
    assert a["head"] == "k3" and a["sandbox"] == box
    a = s.call(op="undo", sandbox=box)
    assert a["checkpoint"] == "k3" and a["sandbox"] == box, a
    # the connection to the sandbox that ended is not used again
    assert s.exec(box, "cat", "/f")[0] == b"two\n"
    assert s.call(op="undo", sandbox=box, to="clean")["checkpoint"] == "k1"
    assert s.exec(box, "cat", "/f")[0] == b"one\n"
    a = s.call(op="fork", sandbox=box, checkpoint="k3", count=2)
    forks = [f["id"] for f in a["forks"]]
    assert len(forks) == 2 and a["checkpoint"] == "k3", a
    for one in forks:
        assert s.exec(one, "cat", "/f")[0] == b"two\n"
        s.remove(one)
    a = s.call(op="diff", sandbox=box, **{"from": "k2", "to": "k3"})
    assert [c["path"] for c in a["changes"]] == ["/f"] and "patch" not in a["changes"][0], a
    assert "+two" in json.dumps(s.call(op="diff", sandbox=box, patch=True, **{"from": "k2", "to": "k3"})["changes"])
    file = b.tmp("stdio.tar")
    a = s.call(op="checkpoint-export", sandbox=box, checkpoint="k3", file=file)
    assert a["checkpoint"] == "k3" and a["digest"].startswith("sha256:") and a["file"] == file, a
    a = s.call(op="checkpoint-import", file=file, name="there", drop=True)
    assert a["name"] == "there" and a["dropped"] == [], a
    assert s.exec(a["sandbox"], "cat", "/f")[0] == b"two\n"
    s.remove(a["sandbox"])
    a = s.call(op="checkpoint-import", file=file, no_start=True)
    assert json.loads(b.berth("inspect", a["sandbox"], ok=True).out)["status"] == "created"
    s.remove(a["sandbox"])
    assert s.call(op="checkpoint-rm", sandbox=box, checkpoints=["k2", "clean"])["removed"] == ["k2", "k1"]
    for request, code, word in ((dict(op="undo", sandbox=box, steps=2, to="k3"), "usage", "--to"),
                                (dict(op="undo", sandbox=box, steps="2"), "invalid", "whole number"),
                                (dict(op="undo", sandbox=box, to="k9"), "not-found", "k9"),
                                (dict(op="undo"), "invalid", "sandbox"),
                                (dict(op="fork", sandbox=box, checkpoint="k" * 300), "not-found", "no checkpoint"),
                                (dict(op="fork", sandbox=box, steps=1), "invalid", "steps"),
                                (dict(op="checkpoint-rm", sandbox=box), "invalid", "checkpoints"),
                                (dict(op="diff", sandbox=box, **{"from": "k9"}), "not-found", "k9"),
                                (dict(op="diff", sandbox=box, patch=True), "usage", "--from"),
                                (dict(op="diff", sandbox=box, patch="yes"), "invalid", "patch"),
                                (dict(op="checkpoint-export", sandbox=box, checkpoint="k3"), "invalid", "file"),
                                (dict(op="checkpoint-export", sandbox=box, checkpoint="k3", file="-"), "invalid", "path"),
                                (dict(op="checkpoint-export", sandbox=box, checkpoint="k3", file=file), "exists", "exists"),
                                (dict(op="checkpoint-export", sandbox=box, file=file), "invalid", "checkpoint"),
                                (dict(op="checkpoint-export", checkpoint="k3", file=file), "invalid", "sandbox"),
                                (dict(op="checkpoint-import", file="/etc/passwd"), "corrupt", "no file of berth"),
                                (dict(op="checkpoint-import", file="-"), "invalid", "path"),
                                (dict(op="checkpoint-import", file=file, trust=True, drop=True), "usage", "--drop"),
                                (dict(op="checkpoint-rm", checkpoints=["k1"]), "invalid", "sandbox"),
                                (dict(op="exec", sandbox=box, argv=["true"], checkpoint=1), "invalid", "true or false")):
        a = s.call(**request)
        assert a["error"]["code"] == code and word in a["error"]["message"], (request, a)


@b.deadline(120)
def test_berthd_makes_checkpoints_goes_back_and_forks():
    with Daemon() as d:
        box = d.create("work")
        needs_file(Id(box))
        path = f"/v1/sandboxes/{box}"
        put(d, box, "one")
        r = d.post(path + "/checkpoints", {"name": "clean"})
        assert r.status == 201 and (r.json["id"], r.json["checkpoint"], r.json["name"]) == (box, "k1", "clean"), r
        d.exec(box, "sh", "-c", "echo two > /f", checkpoint=True)
        d.good("POST", path + "/sessions/main/run", {"text": "echo three > /f", "checkpoint": True})
        got = d.good("GET", path + "/checkpoints")
        assert got["head"] == "k3" and [c["before_command"] for c in got["checkpoints"]] == [False, True, True], got
        d.exec(box, "sleep", "1000", detach=True)
        undone = d.good("POST", path + "/undo")
        assert undone["checkpoint"] == "k3" and any("sleep 1000" in e["text"] for e in undone["ended"]), undone
        assert text_of(d, box) == "two\n"
        assert d.good("POST", path + "/undo", {"steps": 2})["checkpoint"] == "k1"    # nothing has changed since
        assert text_of(d, box) == "one\n"
        made = d.good("POST", path + "/fork", {"checkpoint": "k3", "count": 2, "name": "twin"})
        assert [f["name"] for f in made["forks"]] == ["twin-1", "twin-2"] and made["from"] == box, made
        assert [text_of(d, f["id"]) for f in made["forks"]] == ["two\n", "two\n"]
        changed = d.good("GET", path + "/diff?from=k2&to=k3&patch=true")["changes"]
        assert [c["path"] for c in changed] == ["/f"] and "-one" in json.dumps(changed) and "+two" in json.dumps(changed), changed
        put(d, box, "now")
        assert [c["path"] for c in d.good("GET", path + "/diff?from=k3")["changes"]] == ["/f"]
        assert d.get(path + "/diff?from=k9").status == 404 and d.get(path + "/diff?patch=true").status == 400
        r = d.post(path + "/commit", {"image": "made:1", "checkpoint": "k9"})
        assert r.status == 404 and "k9" in r.json["error"]["message"], r
        assert d.post(path + "/commit", {"image": "made:1", "checkpoint": "k2"}).status == 201
        # of one that does not run
        d.good("POST", path + "/stop")
        assert d.post(path + "/checkpoints").json["checkpoint"] == "k6"     # undo and diff made one each for themselves
        assert d.good("POST", path + "/undo", {"to": "k2"})["checkpoint"] == "k2"
        assert d.get(path).json["status"] == "stopped"
        one = d.good("POST", path + "/fork")["forks"][0]["id"]
        assert text_of(d, one) == "one\n"
        assert d.good("DELETE", path + "/checkpoints/clean") == {"id": box, "removed": ["k1"]}
        for method, rest, body, status, word in (
                ("DELETE", "/checkpoints/k9", None, 404, "k9"), ("POST", "/undo", {"to": "k9"}, 404, "k9"),
                ("POST", "/undo", {"steps": 0}, 400, "steps"), ("POST", "/undo", {"steps": 2, "to": "k2"}, 400, "--to"),
                ("POST", "/checkpoints", {"name": "k7"}, 400, "name"), ("POST", "/checkpoints", {"keep": 257}, 400, "keep"),
                ("POST", "/checkpoints", {"nope": 1}, 400, "nope"), ("POST", "/fork", {"checkpoint": "none"}, 404, "none"),
                ("POST", "/fork", {"count": 1001}, 400, "count"), ("POST", "/fork", {"name": "twin-1"}, 409, "twin-1"),
                ("POST", "/fork", {"name": "--json"}, 400, "name")):
            r = d.request(method, path + rest, body)
            assert r.status == status and word in r.json["error"]["message"], (rest, body, r)
        assert d.post("/v1/sandboxes/nosuch/undo").status == 404
        assert len(kept()) == 4


@b.deadline(120)
def test_the_events_of_berthd_tell_of_them():
    with Daemon() as d:
        box = d.create("work")
        needs_file(Id(box))
        with d.raw_socket() as s:
            s.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
            reply = s.makefile("rb")
            while reply.readline() != b"\r\n":
                pass
            d.good("POST", f"/v1/sandboxes/{box}/checkpoints", {"name": "clean"})
            put(d, box, "one")
            d.good("POST", f"/v1/sandboxes/{box}/undo")
            fork = d.good("POST", f"/v1/sandboxes/{box}/fork")["forks"][0]["id"]
            d.good("DELETE", f"/v1/sandboxes/{box}/checkpoints/k1")
            seen = {}
            while not {"checkpoint", "undo", "fork", "checkpoint-rm"} <= set(seen):
                line = reply.readline()
                assert line, seen
                if line.startswith(b"{"):
                    event = json.loads(line)
                    seen[event["type"]] = event
        assert (seen["checkpoint"]["sandbox"], seen["undo"]["checkpoint"]) == (box, "k1"), seen
        assert (seen["fork"]["sandbox"], seen["fork"]["from"]) == (fork, box), seen["fork"]


@b.deadline(180)
def test_tenants_have_only_their_own_and_forks_count_before_they_are_made():
    alice, bob = as_tenant(daemon.TENANT), as_tenant(daemon.OTHER)
    with Daemon(TENANTS, tcp=True) as d:
        box = d.create("work", memory="64m", **alice)
        needs_file(Id(box))
        path = f"/v1/sandboxes/{box}"
        put(d, box, "one", **alice)
        assert d.post(path + "/checkpoints", {"name": "clean"}, **alice).status == 201
        for method, rest, body in (("GET", "/checkpoints", None), ("POST", "/checkpoints", {}), ("DELETE", "/checkpoints/k1", None),
                                   ("POST", "/undo", {}), ("POST", "/fork", {}), ("POST", "/fork", {"checkpoint": "k1"})):
            r = d.request(method, path + rest, body, **bob)
            assert r.status == 404 and "no sandbox" in r.json["error"]["message"], (rest, r)
        put(d, box, "two", **alice)
        assert d.good("POST", path + "/undo", **alice)["checkpoint"] == "k1"
        assert text_of(d, box, **alice) == "one\n"
        # all or none of them, before a byte is copied
        before = kept()
        r = d.post(path + "/fork", {"checkpoint": "k1", "count": 3}, **alice)
        assert r.status == 429 and "may have 3" in r.json["error"]["message"], r
        assert kept() == before
        assert len(d.good("GET", path + "/checkpoints", **alice)["checkpoints"]) == 1
        # without a checkpoint none is made for it either
        assert d.post(path + "/fork", {"count": 3}, **alice).status == 429
        assert len(d.good("GET", path + "/checkpoints", **alice)["checkpoints"]) == 1
        made = d.good("POST", path + "/fork", {"checkpoint": "clean", "count": 2}, **alice)
        for f in made["forks"]:
            assert text_of(d, f["id"], **alice) == "one\n"
            assert d.get(f"/v1/sandboxes/{f['id']}", **bob).status == 404
        r = d.post("/v1/sandboxes", {"image": "host"}, **alice)
        assert r.status == 429, r
        # the operator's fork belongs to the tenant, too, and counts
        r = d.post(path + "/fork", {"checkpoint": "k1"})
        assert r.status == 429 and "alice" in r.json["error"]["message"], r
        d.good("DELETE", f"/v1/sandboxes/{made['forks'][0]['id']}?force=true", **alice)
        one = d.good("POST", path + "/fork", {"checkpoint": "k1"})["forks"][0]["id"]
        assert d.get(f"/v1/sandboxes/{one}", **alice).status == 200
        d.good("DELETE", f"/v1/sandboxes/{one}?force=true", **alice)
        # what a tenant may not say of a new sandbox, it may not say of a fork; the bounds hold for what it may
        for options, status, word in (({"network": "egress"}, 403, "admin"), ({"allow-host": ["x"]}, 403, "admin"), ({"volume": "/etc:/x"}, 403, "admin"),
                                      ({"memory": "100g"}, 429, "memory"), ({"count": 9}, 403, "admin"), ({"nope": 1}, 403, "admin")):
            r = d.post(path + "/fork", {"checkpoint": "k1", "options": options}, **alice)
            assert r.status == status and word in r.json["error"]["message"], (options, r)
        one = d.good("POST", path + "/fork", {"checkpoint": "k1", "options": {"memory": "80m", "env": ["X=1"], "label": "a=b"}}, **alice)["forks"][0]["id"]
        seen = d.get(f"/v1/sandboxes/{one}", **alice).json
        assert (seen["memory_limit_bytes"], seen["labels"]) == (80 << 20, {"a": "b"}), seen


@b.deadline(120)
def test_a_tenants_fork_has_copies_of_its_volumes_within_its_bound():
    alice = as_tenant(daemon.TENANT)
    with Daemon("[tenant]\nvolumes = 2\n", tcp=True) as d:
        assert d.post("/v1/volumes", {"name": "data", "size": "16m"}, **alice).status == 201
        box = d.create("work", volume=["data:/x:rw"], **alice)
        needs_file(Id(box))
        d.exec(box, "sh", "-c", "echo first > /x/f", **alice)
        fork = d.good("POST", f"/v1/sandboxes/{box}/fork", {"options": {"volume-copy": True}}, **alice)["forks"][0]["id"]
        d.exec(fork, "sh", "-c", "echo more >> /x/f", **alice)
        assert text_of(d, box, "/x/f", **alice) == "first\n" and text_of(d, fork, "/x/f", **alice) == "first\nmore\n"
        names = {v["name"] for v in d.good("GET", "/v1/volumes", **alice)["volumes"]}
        assert len(names) == 2, names
        before = kept()
        r = d.post(f"/v1/sandboxes/{box}/fork", {"options": {"volume-copy": True}}, **alice)
        assert r.status == 429 and "may have 2" in r.json["error"]["message"], r
        assert kept() == before
        for one in (box, fork):
            assert d.request("DELETE", f"/v1/sandboxes/{one}?force=true", **alice).status == 200
        for name in names:
            assert d.request("DELETE", f"/v1/volumes/{name}", **alice).status == 200


@b.deadline(120)
def test_berth_host_does_the_same():
    with Daemon() as d:
        box = d.create("far")
        needs_file(Id(box))
        put(d, box, "one")
        assert far(d, "checkpoint", "--name", "clean", "far", ok=True).out == "k1\n"
        assert far(d, "exec", "--checkpoint", "far", "sh", "-c", "echo two > /f; echo ok", ok=True).out == "ok\n"
        assert far(d, "sh", "--checkpoint", "far", "echo three > /f; echo ok", ok=True).out == "ok\n"
        there = far(d, "checkpoints", "far", ok=True).out.splitlines()
        here = b.berth("checkpoints", "far", ok=True).out.splitlines()
        assert [line.split()[:3] for line in there] == [line.split()[:3] for line in here] and len(there) == 5, there
        assert json.loads(far(d, "checkpoints", "--json", "far", ok=True).out) == json.loads(b.berth("checkpoints", "--json", "far", ok=True).out)
        b.berth("exec", "--detach", "far", "sleep", "1000", ok=True)
        p = far(d, "undo", "--to", "clean", "far", ok=True)
        assert p.out == "k1\n" and "sleep 1000" in p.err, p
        assert text_of(d, box) == "one\n"
        assert far(d, "undo", "--steps", "2", "--json", "far").code == 125      # k1 has no parent
        forks = far(d, "fork", "--count", "2", "--name", "twin", "--env", "X=1", "--memory", "90m", "far@k3", ok=True).out.split()
        assert d.exec(forks[0], "sh", "-c", "echo $X")["stdout"] == "1\n"
        assert [text_of(d, f) for f in forks] == ["two\n", "two\n"]
        assert json.loads(far(d, "diff", "--json", "--from", "k2", "--to", "k3", "--patch", "far", ok=True).out)["changes"][0]["path"] == "/f"
        words = ("diff", "--from", "k2", "--to", "k3", "--patch", "far")
        assert far(d, *words, ok=True).out == b.berth(*words, ok=True).out
        far(d, "commit", "far@k2", "made:1", ok=True)
        file, here = b.tmp("far.tar"), b.tmp("here.tar")
        digest = far(d, "checkpoint", "export", "-o", file, "far@k2", ok=True).out
        assert digest == b.berth("checkpoint", "export", "-o", here, "far@k2", ok=True).out
        with open(file, "rb") as f, open(here, "rb") as g:
            assert f.read() == g.read()
        b.one_line_error(far(d, "checkpoint", "export", "-o", file, "far@k2"), 125, "exists", "hint:")
        b.one_line_error(far(d, "checkpoint", "export", "-o", b.tmp("none.tar"), "far@none"), 125, "no checkpoint 'none'")
        b.one_line_error(far(d, "checkpoint", "export", "far"), 2, "which checkpoint", "hint:")
        assert not os.path.exists(b.tmp("none.tar"))
        got = json.loads(far(d, "checkpoint", "export", "--json", "-o", b.tmp("again.tar"), "far@k2", ok=True).out)
        assert (got["checkpoint"], got["digest"] + "\n") == ("k2", digest), got
        one = far(d, "checkpoint", "import", "--name", "near", file, ok=True).out.strip()
        assert text_of(d, one) == "one\n"
        got = json.loads(far(d, "checkpoint", "import", "--drop", "--no-start", "--json", file, ok=True).out)
        assert got["dropped"] == [] and json.loads(b.berth("inspect", got["id"], ok=True).out)["status"] == "created", got
        b.one_line_error(far(d, "checkpoint", "import", "--name", "near", file), 125, "near")
        b.one_line_error(far(d, "checkpoint", "import", b.tmp("missing")), 125, "missing")
        b.one_line_error(far(d, "checkpoint", "import", "/etc/passwd"), 125, "no file of berth checkpoint export")
        assert far(d, "checkpoint", "rm", "far", "k2", "k3", ok=True).out == "k2\nk3\n"
        b.one_line_error(far(d, "checkpoint", "rm", "far", "k2"), 125, "no checkpoint 'k2'")
        b.one_line_error(far(d, "undo", "--steps", "x", "far"), 2, "steps")
        b.one_line_error(far(d, "fork", "far@none"), 125, "no checkpoint 'none'")


@b.deadline(120)
def test_a_fork_has_other_options_where_they_are_given():
    with Box("--memory", "64m", "--env", "A=1", "--env", "B=1", "--label", "of=first", "--label", "x=1", "--ttl", "1h",
             "--network", "egress", "--allow-host", "a.example", "--allow-host", "b.example") as x:
        needs_file(x)
        made = []

        def fork(*options):
            made.append(json.loads(b.berth("fork", "--json", *options, x.id, ok=True).out)["forks"][0]["id"])
            return json.loads(b.berth("inspect", made[-1], ok=True).out)

        def hosts(one):
            return one["network"]["policy"]["allow_host"]

        try:
            as_first = fork()
            assert (as_first["limits"]["memory_bytes"], as_first["labels"]) == (64 << 20, {"of": "first", "x": "1"}), as_first
            assert "expires_ms" in as_first and hosts(as_first) == ["a.example", "b.example"], (as_first, hosts(as_first))
            one = fork("--memory", "80m", "--env", "B=2", "--env", "C=3", "--label", "of=second", "--ttl", "0", "--allow-host", "c.example")
            assert (one["limits"]["memory_bytes"], one["labels"]) == (80 << 20, {"of": "second", "x": "1"}), one
            assert not one.get("expires_ms") and hosts(one) == ["c.example"], (one, hosts(one))
            assert b.berth("exec", one["id"], "sh", "-c", "echo $A $B $C", ok=True).out == "1 2 3\n"
            assert fork("--network", "none")["network"]["mode"] == "none"
            stopped = fork("--no-start")
            assert stopped["status"] == "created", stopped
            # forks of one that never ran need no checkpoint of each
            b.berth("fork", "--no-start", "--count", "2", "--name", "of", stopped["id"], ok=True)
            made.extend(["of-1", "of-2"])
            made.append(b.berth("fork", stopped["id"], ok=True).out.strip())
            assert ids(stopped["id"]) == ["k1"]
            before = kept()
            for options, word in ((["--memory", "1k"], "memory"), (["--volume", "./x:/x"], "absolute"), (["--label", "=x"], "label"),
                                  (["--ttl", "x"], "ttl"), (["--network", "near"], "network"), (["--network", "none", "--allow-host", "a"], "allow-host"),
                                  (["--disk", "1g"], "disk")):
                p = b.berth("fork", *options, x.id)
                assert p.code and word in p.err and "berth" in p.err, (options, p)
            assert kept() == before
        finally:
            b.berth("rm", "-f", *made, ok=True)


@b.deadline(120)
def test_forks_that_cannot_all_be_made_leave_none():
    with Box() as x, Box("--name", "pair-2"):
        needs_file(x)
        b.berth("checkpoint", x.id, ok=True)
        before = kept()
        p = b.berth("fork", "--count", "3", "--name", "pair", f"{x.id}@k1")
        b.one_line_error(p, 125, "pair-2", "fork 2 of 3")
        assert p.out == "" and kept() == before
        assert b.berth("ps", "-aq", ok=True).out.count("\n") == 2


@b.deadline(180)
def test_a_berthd_that_is_killed_leaves_each_as_before_or_after():
    """kill -9 while it waits for a checkpoint, an undo, a fork."""
    with Daemon() as d:
        box = d.create("work")
        needs_file(Id(box))
        put(d, box, "one")
        d.exec(box, "sh", "-c", "head -c 30000000 /dev/urandom > /big")
        d.good("POST", f"/v1/sandboxes/{box}/checkpoints")
        for n, rest in enumerate(("checkpoints", "undo", "fork") * b.times(2, 10)):
            put(d, box, f"new{n}")
            before = set(kept())
            curl = subprocess.Popen(["curl", "-s", "--unix-socket", d.socket, "-X", "POST", f"http://x/v1/sandboxes/{box}/{rest}"],
                                    stdout=subprocess.DEVNULL)
            programs = b.wait_for(lambda: children(d.p.pid) or rest == "checkpoints" or curl.poll() is not None, 20, "its program")
            d.p.kill()
            d.p.wait()
            d.connections.clear()
            curl.wait(30 * b.SLOW)
            # its background processes go on to their end
            for pid in programs if isinstance(programs, list) else ():
                b.wait_for(lambda: not proc.alive(int(pid)), 60, "the end of the program")
            d.start()
            assert d.post(f"/v1/sandboxes/{box}/start").status == 200
            files = ("one\n", f"new{n}\n") if rest == "undo" else (f"new{n}\n",)
            assert text_of(d, box) in files, (rest, text_of(d, box))
            assert d.exec(box, "sh", "-c", "wc -c < /big")["stdout"] == "30000000\n"
            for one in set(kept()) - before:
                assert text_of(d, one) in files
                b.berth("rm", "-f", one, ok=True)
            # and the next one finds nothing in its way
            put(d, box, "one")
            b.wait_for(lambda: d.post(f"/v1/sandboxes/{box}/checkpoints").status == 201, 60, "a checkpoint")


@contextlib.contextmanager
def turn_of(tenant):
    """As if a copy of this tenant's took its time."""
    at = 14695981039346656037       # FNV-1a, as ranges.c has it
    for byte in tenant.encode():
        at = (at ^ byte) * 1099511628211 % (1 << 64)
    with open(os.path.join(b.root(), "run", "copies.lock"), "a+") as f:
        fcntl.fcntl(f, F_OFD_SETLKW, struct.pack("hhxxxxqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, at >> 2, 1, 0))
        yield


@b.deadline(120)
def test_copies_of_a_tenant_take_turns_and_hold_nobody_else_up():
    alice, bob = as_tenant(daemon.TENANT), as_tenant(daemon.OTHER)
    with Daemon(tcp=True) as d:
        one, two, other, ours = d.create("one", **alice), d.create("two", **alice), d.create("other", **bob), d.create("ours")
        needs_file(Id(one))
        d.good("POST", f"/v1/sandboxes/{one}/sessions/main/run", {"text": "cd /usr; x=1"}, **alice)

        def asks(box, route, pool, body=None):
            # a time of its own is a connection of its own
            return pool.submit(d.request, "POST", f"/v1/sandboxes/{box}/{route}", body or {}, timeout=60 + next(numbers), **alice)

        numbers = itertools.count(1)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            with turn_of("alice"):
                waiting = [asks(one, "checkpoints", pool), asks(two, "exec", pool, {"argv": ["true"], "checkpoint": True})]
                for box in (one, two):
                    snapshot_of(json.loads(b.berth("inspect", box, ok=True).out)["supervisor_pid"])
                # theirs go on, and those of others do not wait
                put(d, one, "meanwhile", **alice)
                d.good("POST", f"/v1/sandboxes/{one}/sessions/main/run", {"text": "x=2"}, **alice)
                assert d.good("POST", f"/v1/sandboxes/{other}/checkpoints", **bob)["checkpoint"] == "k1"
                assert d.good("POST", f"/v1/sandboxes/{ours}/checkpoints")["checkpoint"] == "k1"
                assert not any(w.done() for w in waiting)
                # one that stops while it waits is refused, and leaves nothing
                d.good("POST", f"/v1/sandboxes/{two}/kill", **alice)
                r = waiting[1].result()
                assert r.status == 409, r
                assert ids(two) == []
                assert not waiting[0].done()
            r = waiting[0].result()
            assert r.status == 201, r
            # the files and the shell of the moment when its turn came
            put(d, one, "after", **alice)
            d.good("POST", f"/v1/sandboxes/{one}/sessions/main/run", {"text": "x=3; cd /"}, **alice)
            with turn_of("alice"):
                undo = asks(one, "undo", pool)
                fork = asks(one, "fork", pool, {"checkpoint": "k1"})
                b.wait_for(lambda: len(children(d.p.pid)) == 2, 30, "both programs")
                assert text_of(d, one, **alice) == "after\n" and not undo.done() and not fork.done()
            assert undo.result().status == 200 and fork.result().status == 201, (undo.result(), fork.result())
        assert text_of(d, one, **alice) == text_of(d, fork.result().json["forks"][0]["id"], **alice) == "meanwhile\n"
        assert d.good("POST", f"/v1/sandboxes/{one}/sessions/main/run", {"text": "echo $x $PWD"}, **alice)["output"] == "2 /usr\n"
