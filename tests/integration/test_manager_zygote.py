# SPDX-License-Identifier: Apache-2.0
"""
[pool.X] zygote: types of berthd's sandboxes that are forks of a zygote.

Attacks S19 of SECURITY.md: a tenant's zygote that has the name of such a type's.
"""
import json

import berthtest as b
from managed import FAST, Managed, refused
from zygotebox import PYTHON, needs_zygotes

COST = 20
TYPE = '[pool.py]\nzygote = "py"\nsize = 2\n[pool.base]\nimage = "host"\noptions = ["disk=16m", "disk-inodes=1024"]\n'


def make(preload, *options):
    needs_zygotes()
    return b.berth("zygote", "create", "--name", "py", "--memory", "96m", *options, "host", PYTHON, "-c", preload, ok=True, timeout=60).out.strip()


def code(d, record, text):
    return b.berth("code", "--quiet", record["container_id"], input=text, ok=True).out


@b.deadline(120)
def test_a_claimed_session_gets_a_fork_with_a_workspace_of_its_own():
    with Managed(TYPE + FAST) as d:
        m = d.manager
        zygote = make("import json\nx = 41", "--user", "1000")
        d.warm(pool="py")
        told = json.loads(b.berth("zygote", "inspect", "py", ok=True).out)
        first = m.create_from_pool(sandbox_type="py", meta={"session_ctx_id": "a"})
        record = m.get_info(identity=first)
        assert record["container_id"] in told["alive"], (record, told)
        i = json.loads(b.berth("inspect", record["container_id"], ok=True).out)
        assert i["labels"] == {"berth.managed-by": "berthd", "berth.zygote": zygote} and i["limits"]["memory_bytes"] == 96 << 20, i
        assert code(d, record, "x += 1; print(x, open('mine', 'w').write('me'))") == "42 2\n"
        assert m.shell(first, "cat mine; stat -c %u mine")[0]["stdout"] == "me1000\n", "tools see the same workspace"
        d.warm(pool="py")
        second = m.create_from_pool(sandbox_type="py", meta={"session_ctx_id": "b"})
        other = m.get_info(identity=second)
        assert second != first and code(d, other, "import os; print(x, os.listdir())") == "41 []\n", "nothing of another session"
        made = m.get_info(identity=m.create(sandbox_type="py"))
        assert code(d, made, "print(x)") == "41\n", "one that was not warm"
        m.release(identity=first)
        assert record["container_id"] not in b.berth("ps", "-aq", ok=True).out
        refused(400, m.create_from_pool, sandbox_type="py", memory="32m")
        refused(400, m.create_from_pool, sandbox_type="py", environment={"A": "b"})
        b.berth("zygote", "rm", "py", ok=True, timeout=60)


@b.deadline(120)
def test_a_pool_follows_its_zygote():
    with Managed(TYPE + FAST) as d:
        m = d.manager
        refused(404, m.create_from_pool, sandbox_type="py")
        assert m.shell(m.create(sandbox_type="base"), "echo ok")[0]["stdout"] == "ok\n", "other types are served"
        make("x = 1")
        d.warm(pool="py")
        b.berth("zygote", "rm", "py", ok=True, timeout=60)
        make("x = 2")
        b.wait_for(lambda: len(json.loads(b.berth("zygote", "inspect", "py", ok=True).out)["alive"]) >= 3, 60, "a pool of the new one")
        record = m.get_info(identity=m.create_from_pool(sandbox_type="py"))
        assert code(d, record, "print(x)") == "2\n"
        b.berth("zygote", "rm", "py", ok=True, timeout=60)


@b.deadline(120)
def test_a_tenants_zygote_of_that_name_gets_no_sandbox_but_the_tenants():
    with Managed(TYPE + FAST) as d:
        m = d.manager
        theirs = make("x = 'theirs'", "--tenant", "mallory", "--pool", "0")
        refused(404, m.create_from_pool, sandbox_type="py")
        refused(404, m.create, sandbox_type="py")
        assert json.loads(b.berth("zygote", "inspect", theirs, ok=True).out)["alive"] == []
        b.one_line_error(b.berth("create", "--zygote", "py"), 125, "py")
        b.berth("create", "--zygote", theirs, "--tenant", "mallory", "--name", "own", ok=True)
        b.berth("stop", "own", ok=True)
        b.berth("start", "own", ok=True)
        b.berth("rm", "-f", "own", ok=True)
        b.berth("zygote", "rm", theirs, ok=True, timeout=60)
        make("x = 'ours'")
        b.berth("create", "--zygote", "py", "--name", "stays", ok=True)
        record = m.get_info(identity=m.create_from_pool(sandbox_type="py"))
        assert code(d, record, "print(x)") == "ours\n"
        b.berth("zygote", "rm", "py", ok=True, timeout=60)
        theirs = make("x = 'theirs'", "--tenant", "mallory", "--pool", "0")
        b.wait_for(lambda: "stopped" in b.berth("ps", "-a", "--filter", "name=stays", ok=True).out, 20, "its end")
        b.one_line_error(b.berth("start", "stays"), 125, "zygote")
        b.berth("rm", "-f", "stays", ok=True)
        b.berth("zygote", "rm", theirs, ok=True, timeout=60)
