# SPDX-License-Identifier: Apache-2.0
"""No name of a sandbox stands in front of another's id (S40 of SECURITY.md): not for the command line, not for berthd, not for stdio."""
import json
import os

import berthtest as b
from daemon import Daemon


def state(*path):
    return os.path.join(b.environment()["BERTH_STATE_DIR"], *path)


def force_name(box, name):
    """As an older berth gave names: the link and the record."""
    os.symlink(box, state("names", name))
    for record in (state("sandboxes", box, "record.json"), os.path.join(b.environment()["BERTH_RUN_DIR"], "sandboxes", box, "record.json")):
        if os.path.exists(record):
            with open(record) as f:
                j = json.load(f)
            j["name"] = name
            b.write(record, json.dumps(j), 0o600)


def ids():
    return set(b.berth("ps", "-a", "-q", ok=True).out.split())


def test_S40_a_name_that_could_be_an_id_is_refused():
    victim = b.berth("create", "host", ok=True).out.strip()
    for name in (victim, victim[:4], victim[:11], "dead", "0123", "c0ffee", "deadbeef0123"):
        r = b.berth("create", "--name", name, "host")
        b.one_line_error(r, 2, "could be the id of a sandbox", "hint:")
        b.one_line_error(b.berth("rename", victim, name), 2, "could be the id of a sandbox")
        b.one_line_error(b.berth("run", "--name", name, "host", "true"), 2, "could be the id of a sandbox")
    assert ids() == {victim}
    # too short and too long for an id, or with a letter that no id has
    for name in ("abc", "0123456789abc", "box-dead", "deadbeefz"):
        b.berth("create", "--name", name, "host", ok=True)
        b.berth("rm", "--force", name, ok=True)
    b.berth("rm", "--force", victim, ok=True)


def test_S40_a_whole_id_is_meant_before_a_namesake():
    victim = b.berth("create", "--name", "victim", "host", ok=True).out.strip()
    evil = b.berth("create", "host", ok=True).out.strip()
    force_name(evil, victim)
    assert b.berth("exec", victim, "sh", "-c", "echo > /tmp/was-here", ok=True)
    assert b.berth("exec", "victim", "test", "-e", "/tmp/was-here", ok=True)
    assert json.loads(b.berth("inspect", victim, ok=True).out)["id"] == victim
    asked = b.berth("stdio", input=json.dumps({"id": 1, "op": "exec", "sandbox": victim, "argv": ["test", "-e", "/tmp/was-here"]}) + "\n",
                    ok=True).out
    assert '"exit_status":0' in asked, asked
    b.berth("stop", victim, ok=True)
    assert {r["id"]: r["status"] for r in json.loads(b.berth("ps", "-a", "--json", ok=True).out)} == {victim: "stopped", evil: "running"}
    with Daemon() as d:
        assert d.good("GET", f"/v1/sandboxes/{victim}")["id"] == victim
        assert d.good("POST", f"/v1/sandboxes/{victim}/start")["id"] == victim
        b.berth("rm", "--force", victim, ok=True)
        assert ids() == {evil}
        # one of such a name is still there by its id, and can be given another
        b.berth("exec", evil, "true", ok=True)
        b.berth("rename", evil, "mended", ok=True)
        b.berth("rm", "--force", "mended", ok=True)
        assert not ids()


def test_S40_an_id_whose_record_is_not_there_is_not_its_namesake():
    victim = b.berth("create", "host", ok=True).out.strip()
    evil = b.berth("create", "host", ok=True).out.strip()
    b.berth("stop", victim, ok=True)
    force_name(evil, victim)
    os.rename(state("sandboxes", victim, "record.json"), state("sandboxes", victim, "away"))
    r = b.berth("exec", victim, "true")
    b.one_line_error(r, 125, "no sandbox")
    b.berth("rm", "--force", victim)
    assert ids() == {evil}
    b.berth("rm", "--force", evil, ok=True)
    b.berth("gc", ok=True)      # what has no record is the rest of a removal
