# SPDX-License-Identifier: Apache-2.0
"""Labels of sandboxes, and what finds sandboxes by them."""
import json
import os
import tarfile

import berthtest as b
import ocilayout
import daemon
from box import Box
from daemon import Daemon

COST = 10


def labels_of(ref):
    return json.loads(b.berth("inspect", "--json", ref, ok=True).out)["labels"]


def found(*options):
    return sorted(b.berth("ps", "-aq", *options, ok=True).out.split())


def test_labels_stand_in_the_record_and_outlive_a_restart():
    path = b.write(b.tmp("labels"), "# a comment\n\nfrom=file\napp=overridden by what comes later\n")
    with Box("--label-file", path, "-l", "app=web=1", "--label", "flag", "--label", "text=a b\tc é") as x:
        want = {"from": "file", "app": "web=1", "flag": "", "text": "a b\tc é"}
        assert labels_of(x.id) == want
        listed, = json.loads(b.berth("ps", "--json", ok=True).out)
        assert listed["labels"] == want
        assert b.berth("ps", "--format", "{{.labels.app}}", ok=True).out == "web=1\n"
        os.unlink(path)
        b.berth("restart", x.id, ok=True)
        assert labels_of(x.id) == want
        b.berth("stop", x.id, ok=True)
        assert labels_of(x.id) == want


def test_a_run_that_is_kept_has_its_labels():
    b.berth("run", "--keep", "--name", "k", "-l", "app=run", "host", "true", ok=True)
    assert labels_of("k") == {"app": "run"} and len(found("-f", "label=app=run")) == 1
    b.berth("rm", "k", ok=True)


def test_an_image_gives_its_labels_and_the_user_s_count_more():
    labels = {"a": "image", "b": "image", "no key": "x", "huge": "x" * 5000}
    layout = ocilayout.Layout(b.tmpdir("layout"))
    layout.image([ocilayout.tar_bytes([("bin", {"type": tarfile.DIRTYPE, "mode": 0o755}, None)])], Labels=labels)
    b.berth("image", "import", layout.path, "labelled:1", ok=True)
    with Box("--label", "a=mine", image="labelled:1") as x:
        assert labels_of(x.id) == {"a": "mine", "b": "image"}
        assert found("-f", "label=b=image") == [x.id]
        # the image's record goes with its name, not the sandbox's labels
        b.berth("image", "rm", "--force", "labelled:1", ok=True)
        b.berth("restart", x.id, ok=True)
        assert labels_of(x.id) == {"a": "mine", "b": "image"}


def test_ps_finds_by_labels_and_by_what_docker_s_users_expect():
    with Box("--name", "web", "--label", "app=web", "--label", "tier=1") as web, Box("--label", "app=db", "--label", "tier=1") as db, \
         Box() as bare:
        b.berth("stop", db.id, ok=True)
        assert found("-f", "label=app") == sorted((web.id, db.id))
        assert found("-f", "label=app=web") == [web.id]
        assert found("-f", "label=tier=1", "-f", "label=app=db") == [db.id]
        assert found("-f", "label!=app") == [bare.id]
        assert found("-f", "status=stopped", "-f", "status=paused") == [db.id]
        assert found("-f", "label=tier", "-f", "status=running") == [web.id]
        assert found("-f", "ancestor=host", "-f", "network=none") == sorted((web.id, db.id, bare.id))
        assert found("-f", f"id={bare.id[:8]}") == [bare.id]
        assert found("-f", "until=1h") == [] and len(found("-f", "until=2999-01-01")) == 3
        assert [r["id"] for r in json.loads(b.berth("ps", "--json", "--filter", "label=app=web", ok=True).out)] == [web.id]


def test_what_is_no_label_makes_no_sandbox():
    many = b.write(b.tmp("many"), "".join(f"k{i}={'v' * 300}\n" for i in range(120)))
    for option, word in (("--label==v", "not a label"), ("--label=a b=c", "not a label"), ("--label=", "not a label"),
                         ("--label=k=\udcff", "UTF-8"), ("--label=k=" + "v" * 5000, "5000 bytes"), (f"--label-file={many}", "one too many"), ("--label-file=/nonexistent", "/nonexistent")):
        for verb in "create", "run":
            r = b.berth(verb, option, "host")
            b.expect(r.code in (2, 125) and word in r.err and len(r.err.splitlines()) == 1, r, f"not refused with {word!r}")
    assert found() == []


def lines(*args, **kw):
    return sorted(b.berth(*args, **kw).out.split())


def status(x):
    return json.loads(b.berth("inspect", "--json", x.id, ok=True).out)["status"]


def test_bulk_verbs_take_what_a_filter_finds_and_what_they_would_change():
    with Box("--label", "job=1") as one, Box("--label", "job=1", "--label", "b") as two, Box("--label", "job=2") as other:
        both = sorted((one.id, two.id))
        assert lines("pause", "--filter", "label=job=1", ok=True) == both
        assert lines("pause", "--filter", "label=job", ok=True) == [other.id], "those that are paused already are left alone"
        assert lines("resume", "--filter", "status=paused", "--filter", "label!=b", ok=True) == sorted((one.id, other.id))
        assert lines("stop", "--grace", "0", "--filter", "label=job=1", ok=True) == both
        assert [status(x) for x in (one, two, other)] == ["stopped", "stopped", "running"]
        assert lines("stop", "--filter", "label=job=1", ok=True) == []
        assert lines("start", "--filter", "label=job", ok=True) == both
        assert lines("restart", "--grace", "0", "--filter", "label=b", ok=True) == [two.id]
        done = b.berth("kill", "--json", "--filter", "label=job=2", ok=True).out
        assert json.loads(done) == {"id": other.id, "done": "kill"}
        b.one_line_error(b.berth("stop", "--filter", "label=job", one.id), 2, "do not go together")


def test_rm_goes_on_after_one_that_runs():
    with Box("--label", "job=1") as runs, Box("--label", "job=1") as other:
        b.berth("stop", other.id, ok=True)
        r = b.berth("rm", "--filter", "label=job=1")
        b.expect(r.code == 125 and runs.id in r.err and len(r.err.splitlines()) == 1, r, "one that runs is not removed")
        assert found() == [runs.id]
        assert b.berth("rm", "-f", "--json", "--filter", "label=job=1", ok=True).out == '{"removed":true}\n'
        assert found() == []
        b.berth("rm", "--filter", "label=job=1", ok=True)


def test_prune_removes_what_does_not_run_and_asks_first():
    with Box("--label", "a") as runs, Box("--label", "a") as stopped, Box() as tenants, Box("--mark", "berth.managed-by=berthd") as managed:
        b.berth("run", "--keep", "--name", "kept", "-l", "a", "host", "true", ok=True)
        kept = json.loads(b.berth("inspect", "--json", "kept", ok=True).out)["id"]
        for x in stopped, tenants, managed:
            b.berth("stop", x.id, ok=True)
        b.write(os.path.join(b.root(), "state", "sandboxes", tenants.id, "owner.json"), '{"name":"bob"}')
        b.one_line_error(b.berth("prune", input=b""), 2, "--force")
        assert lines("prune", "--dry-run", ok=True) == sorted((stopped.id, kept))
        assert json.loads(b.berth("prune", "-n", "--json", "--filter", "name=kept", ok=True).out) == {"would_remove": [kept]}
        assert lines("prune", "--force", "--filter", "until=1h", ok=True) == []
        assert json.loads(b.berth("prune", "--force", "--json", "--filter", "label=a", ok=True).out)["removed"] in \
            ([stopped.id, kept], [kept, stopped.id])
        assert found() == sorted((runs.id, tenants.id, managed.id)), "what runs and what is berthd's stays"
        events = [json.loads(x) for x in b.berth("events", "--json", "--filter", "event=rm", ok=True).out.splitlines()]
        assert {(x["id"], x["reason"]) for x in events} == {(stopped.id, "prune"), (kept, "prune")}


def test_system_prune_clears_all_that_nothing_needs():
    with Box() as x:
        b.berth("stop", x.id, ok=True)
        r = b.berth("system", "prune", "--force", "--json", ok=True)
        assert [sorted(json.loads(line)) for line in r.out.splitlines()] == [["removed"], ["build_bytes", "builds", "cleared", "layers", "networks", "volumes"], ["freed", "removed"]]
        assert found() == []
        b.berth("system", "prune", "--force", ok=True)


def test_events_are_found_by_the_labels_of_their_sandbox():
    with Box("--name", "web", "--label", "app=web") as web, Box("--label", "app=db") as db:
        b.berth("stop", db.id, ok=True)
        b.berth("rm", db.id, ok=True)
        b.berth("rename", "web", "front", ok=True)

        def events(*options):
            return [(x["id"], x["event"]) for x in map(json.loads, b.berth("events", "--json", *options, ok=True).out.splitlines())]
        assert events("--filter", "label=app=db") == [(db.id, e) for e in ("create", "start", "stop", "rm")]
        assert events("--filter", "label=app", "--filter", "event=create") == [(web.id, "create"), (db.id, "create")]
        assert events("--filter", "container=front", "--filter", "event=rename") == [(web.id, "rename")]
        assert events("--filter", "event=rm", "--filter", "event=rename") == [(db.id, "rm"), (web.id, "rename")]
        assert events("--filter", f"id={web.id[:6]}", "--filter", "event!=start", web.id)[0] == (web.id, "create")
    b.one_line_error(b.berth("events", "--filter", "status=running"), 2, "event=")


def test_berthd_makes_and_lists_by_labels_and_a_tenant_sees_its_own():
    with Daemon(tcp=True) as d:
        web = d.create(label=["app=web", "tier=1"])
        mine = d.create(label="app=web", token=daemon.TENANT, tcp=True)

        def ids(query, **who):
            return {x["id"] for x in d.good("GET", "/v1/sandboxes?" + query, **who)["sandboxes"]}
        assert ids("label=app%3Dweb") == {web, mine} and ids("label=app&label=tier%3D1") == {web}
        assert ids("filter=label!%3Dtier&filter=status%3Drunning") == {mine}
        assert ids("label=app", token=daemon.TENANT, tcp=True) == {mine} and ids("label=tier", token=daemon.TENANT, tcp=True) == set()
        assert d.good("GET", f"/v1/sandboxes/{web}")["labels"] == {"app": "web", "tier": "1"}
        for query in ("label=", "label=%3Dx", "filter=color%3Dred", "label", "filter=until%3Dsoon"):
            assert d.get("/v1/sandboxes?" + query).status == 400, query
        many = {"image": "host", "options": {"label": [f"k{i}" for i in range(129)]}}
        assert d.post("/v1/sandboxes", many, token=daemon.TENANT, tcp=True).status == 429
        assert d.post("/v1/sandboxes", {"options": {"label-file": "/etc/passwd"}}, token=daemon.TENANT, tcp=True).status == 403
        there = b.berth("--host", "unix://" + d.socket, "ps", "-aq", "--filter", "label=app", "--filter", "label=tier", ok=True).out
        assert there.split() == [web]
