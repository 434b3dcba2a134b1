# SPDX-License-Identifier: Apache-2.0
"""berth checkpoint store, stored, restore and discard: the storage of this host's berthd, and of another's."""
import json

import berthtest as b
import daemon
from daemon import Daemon
from test_checkpoint import needs_file
from test_checkpoint_faces import Id, put, text_of
from test_checkpoint_stored import directory, files
from test_remote import far


def here(d, *args, **kw):
    return b.berth(*args, env={"BERTH_CONFIG": d.config_path}, **kw)


def stored_and_restored(d, berth):
    box = d.create()
    needs_file(Id(box))
    put(d, box, "one")
    d.good("POST", f"/v1/sandboxes/{box}/checkpoints", {"name": "clean"})
    put(d, box, "two")
    assert berth(d, "checkpoint", "store", f"{box}@clean", ok=True).out == f"{box}-clean\n"
    one = json.loads(berth(d, "checkpoint", "store", "--json", "--name", "base", f"{box}@k1", ok=True).out)
    assert (one["name"], one["state"]) == ("base", "stored") and one["digest"].startswith("sha256:"), one
    b.one_line_error(berth(d, "checkpoint", "store", "--name", "base", f"{box}@k1"), 125, "stored under that name", "hint:")
    b.one_line_error(berth(d, "checkpoint", "store", box), 2, "which checkpoint", "hint:")
    b.one_line_error(berth(d, "checkpoint", "store", f"{box}@none"), 125, "none")
    told = json.loads(berth(d, "checkpoint", "stored", "--json", ok=True).out)["checkpoints"]
    assert sorted(c["name"] for c in told) == sorted(["base", f"{box}-clean"]), told
    table = berth(d, "checkpoint", "stored", ok=True).out.splitlines()
    assert len(table) == 3 and table[0].split() == ["NAME", "TENANT", "STATE", "MIB", "IMAGE"], table
    assert json.loads(berth(d, "checkpoint", "stored", "--tenant", "alice", "--json", ok=True).out)["checkpoints"] == []
    b.one_line_error(berth(d, "checkpoint", "restore", "--tenant", "alice", "base"), 125, "no checkpoint is stored")
    d.good("DELETE", f"/v1/sandboxes/{box}?force=true")
    again = berth(d, "checkpoint", "restore", "--name", "again", "base", ok=True).out.strip()
    assert text_of(d, again) == "one\n" and d.good("GET", "/v1/sandboxes/again")["id"] == again
    made = json.loads(berth(d, "checkpoint", "restore", "--drop", "--no-start", "--json", "base", ok=True).out)
    assert made["dropped"] == [] and json.loads(b.berth("inspect", made["id"], ok=True).out)["status"] == "created", made
    b.one_line_error(berth(d, "checkpoint", "restore", "--trust", "--drop", "base"), 2, "--drop", "hint:")
    assert berth(d, "checkpoint", "discard", "base", f"{box}-clean", ok=True).out == f"base\n{box}-clean\n"
    b.one_line_error(berth(d, "checkpoint", "discard", "base"), 125, "no checkpoint is stored")
    assert files() == []
    b.berth("rm", "-f", again, made["id"], ok=True)


@b.deadline(120)
def test_checkpoints_are_stored_by_the_berthd_of_this_host():
    with Daemon(directory()) as d:
        stored_and_restored(d, here)


@b.deadline(120)
def test_checkpoints_are_stored_by_the_berthd_of_another_host():
    with Daemon(directory()) as d:
        stored_and_restored(d, far)


def test_without_a_berthd_or_a_storage_that_is_said():
    for args in (["store", "x@k1"], ["stored"], ["restore", "x"], ["discard", "x"]):
        b.one_line_error(b.berth("checkpoint", *args), 125, "berthd, which has the storage", "hint: berth checkpoint export")
        b.one_line_error(b.berth("checkpoint", args[0], "--nothing"), 2, "--nothing")
        assert "--json" in b.berth("checkpoint", args[0], "--help", ok=True).out
    with Daemon() as d:
        b.one_line_error(here(d, "checkpoint", "stored"), 125, "no storage", "hint: [storage] url")
        refused = json.loads(here(d, "checkpoint", "discard", "--json", "x").err)
        assert "no storage" in refused["error"]["message"], refused
