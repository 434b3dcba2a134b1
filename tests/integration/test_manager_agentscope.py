# SPDX-License-Identifier: Apache-2.0
"""
What agentscope-runtime's own client relies on: its remote SandboxManager takes whatever is not 200 for a result, a string
that is true; SandboxService.connect() finds the class of a living sandbox by its version; BaseSandboxAsync asks for base_async.
"""
import contextlib
import json
import os
import sqlite3
import subprocess

import berthtest as b
import daemon
from managed import BOX, FAST, POOL, Managed, refused

COST = 15
SMALL = 'options = ["disk=16m", "disk-inodes=1024"]\n'


class RemoteClient:
    """The requests of SandboxManager._make_request() with its handling of answers, byte for byte a string for an error."""

    def __init__(self, d, token=daemon.TOKEN):
        self.http, self.base_url = d.client(token).http, d.manager.base_url

    def __getattr__(self, function):
        def call(**arguments):
            response = self.http.request("POST", f"{self.base_url}/{function}", json=arguments, timeout=120 * b.SLOW)
            if not response.ok:
                return f"Error: HTTP {response.status_code} Error: {response.json()['detail']}"
            return response.json().get("data")
        return call


def test_what_nobody_knows_is_false_or_null_and_so_is_a_full_house():
    with Managed(BOX + "[manager]\nmax_sandboxes = 1\n") as d:
        client, tenant = RemoteClient(d), RemoteClient(d, daemon.TENANT)
        name = client.create(sandbox_type="base")
        for who, identity in ((client, "nosuch"), (tenant, name)):
            for suffix in ("", "_async"):
                assert getattr(who, "start" + suffix)(identity=identity) is False
                assert getattr(who, "stop" + suffix)(identity=identity) is False
                assert getattr(who, "get_status" + suffix)(identity=identity) is None
                assert getattr(who, "release" + suffix)(identity=identity) is True
        assert client.get_status(identity=name) == "running"
        for function in (client.create, client.create_from_pool, tenant.create_async, tenant.create_from_pool_async):
            assert function(sandbox_type="base") is None
        # why is told beside it, and in the audit line
        r = client.http.post(client.base_url + "/create", json={}).json()
        assert r["data"] is None and r["code"] == "limit" and "max_sandboxes" in r["detail"], r
        audits = [line for line in d.log().splitlines() if '"POST /create"' in line and '"failed"' in line]
        assert audits and "max_sandboxes" in json.loads(audits[-1][audits[-1].index("{"):])["failed"], d.log()
        # a request that is wrong in itself is an error as before
        assert client.create(sandbox_type="nosuch").startswith("Error: HTTP 400")
        assert client.get_info(identity="nosuch").startswith("Error: HTTP 404")


def test_each_type_is_there_for_the_asynchronous_client_too():
    config = f'[pool.base]\nimage = "host"\nsize = 1\n{SMALL}[pool.browser]\nimage = "host"\n{SMALL}' + \
        f'[pool.own_async]\nimage = "host"\nmemory_limit = "32m"\n{SMALL}' + FAST
    with Managed(config) as d:
        d.warm(1)
        client = RemoteClient(d)
        name = client.create_from_pool_async(sandbox_type="base_async")
        assert client.get_info_async(identity=name)["sandbox_type"] == "base" and d.manager.stats()["counts"]["claimed"] == 1
        for asked, got in (("browser_async", "browser"), ("browser", "browser"), ("own_async", "own_async")):
            assert client.get_info(identity=client.create_async(sandbox_type=asked))["sandbox_type"] == got
        for bad in ("own", "_async", "nosuch_async", "base_async_async"):
            assert client.create(sandbox_type=bad).startswith("Error: HTTP 400"), bad


def test_a_living_session_is_connected_to_by_its_version():
    """SandboxService.connect(): the first type whose name is in the version."""
    types = ("dummy", "base", "browser", "filesystem", "gui")
    config = f'[pool.base]\nimage = "host"\n{SMALL}[pool.browser]\nimage = "host"\n{SMALL}'
    with Managed(config) as d:
        client = RemoteClient(d)
        for box in ("base", "browser"):
            client.create_from_pool(sandbox_type=box, meta={"session_ctx_id": "chat"})
        found = []
        for name in client.get_session_mapping(session_ctx_id="chat"):
            info = client.get_info(identity=name)
            found += [next(t for t in types if t in info["version"])]
            assert info["image"] == "host"
            # the model wants an address, too: it is where the workspace is
            port = int(d.manager.base_url.rpartition(":")[2])
            assert info["url"] == f"{d.manager.base_url}/proxy/{name}" and info["ports"] == [port], info
            assert client.http.get(info["url"] + "/workspace/exists", params={"path": "/workspace"}).ok
        assert found == ["base", "browser"]
        listed = d.get("/v1/manager/sandboxes").json["sandboxes"]
        assert sorted(r["version"] for r in listed) == found and all(r["ports"] and r["url"] for r in listed), listed


def test_a_mount_dir_that_is_not_allowed_falls_back_to_the_default():
    with Managed(BOX) as d:
        mine = b.tmpdir("mine", 0o755)
        for token in (daemon.TOKEN, daemon.TENANT):
            client = RemoteClient(d, token)
            name = client.create(sandbox_type="base", mount_dir=mine)
            info = client.get_info(identity=name)
            assert info["mount_dir"] != mine and info["mount_dir"].startswith(b.root()), info
            assert d.manager.shell(name, "echo there > /workspace/file")[0]["returncode"] == "0"
            assert os.listdir(mine) == [] and os.listdir(info["mount_dir"]) == ["file"]
        assert d.log().count("which is not allowed, and gets the default") == 2, d.log()


def test_a_sandbox_goes_by_the_name_it_was_given():
    with Managed(POOL.replace("size = 2", "size = 1") + FAST) as d:
        d.warm(1)
        client, tenant, other = RemoteClient(d), RemoteClient(d, daemon.TENANT), RemoteClient(d, daemon.OTHER)
        made, claimed = tenant.create(name="mine"), tenant.create_from_pool(name="claimed", meta={"session_ctx_id": "s"})
        assert d.manager.stats()["counts"]["claimed"] == 1
        assert tenant.get_info(identity="mine")["container_name"] == made and other.get_status(identity="mine") is None
        assert client.get_info(identity="claimed")["container_name"] == claimed
        # it is another's, so unknown, and taken
        assert other.release(identity="mine") is True and tenant.get_status(identity="mine") == "running"
        assert other.create(name="mine") is None and d.manager.stats()["states"]["running"] == 2
        # a session that comes back has it still
        assert d.manager.native("sessions/s/reap").ok and d.manager.native("sessions/s/restore").ok
        again = tenant.get_info(identity="claimed")["container_name"]
        assert again != claimed and tenant.get_session_mapping(session_ctx_id="s") == [again]
        b.expect("claimed" in b.berth("ps").out, b.berth("ps"), "its name on the host")
        for given in ("mine", "claimed"):
            work = tenant.get_info(identity=given)["mount_dir"]
            assert tenant.stop(identity=given) is True and tenant.get_status(identity=given) == "exited"
            assert tenant.release(identity=given) is True and tenant.get_status(identity=given) is None
            assert not os.path.exists(work)
        assert "running" not in d.manager.stats()["states"]
        # and then it is anybody's
        assert other.get_info(identity=other.create(name="mine"))["state"] == "running"
        assert other.get_status(identity="mine") == "running" and tenant.get_status(identity="mine") is None


def over(change=None, **keys):
    with contextlib.closing(sqlite3.connect(f"{b.root()}/state/manager/records.db", timeout=20 * b.SLOW, isolation_level=None)) as db:
        if change:
            assert db.execute(f"UPDATE kv SET value = {change} WHERE key = ?", ("over/" + keys["name"],)).rowcount == 1
        return {k.removeprefix("over/"): json.loads(v) for k, v in db.execute("SELECT key, value FROM kv WHERE key LIKE 'over/%'")}


@b.deadline(120)
def test_a_redirect_lives_as_long_as_it_is_used():
    with Managed(BOX + FAST + 'released_ttl = "100s"\n') as d:
        m = d.manager
        first = m.create(meta={"session_ctx_id": "s"})
        names = [first]
        for _ in range(3):
            assert m.native("sessions/s/reap").ok and m.native("sessions/s/restore").ok
            names.append(m.get_session_mapping(session_ctx_id="s")[0])
        assert len(set(names)) == 4 and set(over()) == set(names[:3])
        # all are long over, but the first is in use: it leads straight to the last, and those between go
        assert m.shell(first, "echo used")[0]["stdout"] == "used\n"
        assert over()[first]["redirect_to"] == names[3]
        for name in names[:3]:
            over("json_set(value, '$.released_at', json_extract(value, '$.released_at') - 1000)", name=name)

        def only_the_first():
            assert m.get_info(identity=first)["container_name"] == names[3]
            return set(over()) == {first}
        b.wait_for(only_the_first, 30, "the end of those that nobody uses")
        # then nobody uses it
        over("json_set(value, '$.berth.used_ms', json_extract(value, '$.berth.used_ms') - 1000000)", name=first)
        b.wait_for(lambda: not over(), 30, "the end of the first")
        refused(404, m.call_tool, identity=first, tool_name="run_shell_command", arguments={"command": "true"})
        assert m.get_status(identity=names[3]) == "running"


def has_ipython():
    return subprocess.run(["/usr/bin/python3", "-c", "import IPython"], capture_output=True).returncode == 0


@b.deadline(180)
def test_cells_are_those_of_ipython_where_the_image_has_it():
    if not has_ipython():
        b.skip("/usr/bin/python3 has no IPython (Debian's python3-ipython)")
    with Managed(BOX) as d:
        m = d.manager
        name = m.create()
        assert m.cell(name, "x = 20\nprint('first')") == ({"stdout": "first\n"}, False)
        assert m.cell(name, "x + 22") == ({"stdout": "Out[2]: 42\n"}, False)
        assert m.cell(name, "x;") == ({"stdout": ""}, False)
        # it is not loaded before a cell needs it
        assert m.cell(name, "import sys; 'IPython' in sys.modules")[0]["stdout"] == "Out[4]: False\n"
        assert m.cell(name, "%pwd") == ({"stdout": "Out[5]: '/workspace'\n"}, False)
        assert m.cell(name, "%%bash\nfor i in 1 2; do echo $i; done") == ({"stdout": "1\n2\n"}, False)
        assert m.cell(name, "display({'a': x})") == ({"stdout": "{'a': 20}\n"}, False)
        assert m.cell(name, "y = !echo taken\ny") == ({"stdout": "Out[8]: ['taken']\n"}, False)
        assert m.cell(name, "!echo shell; echo wrong >&2") == ({"stdout": "shell\n", "stderr": "wrong\n"}, True)
        out, failed = m.cell(name, "1 / 0")
        assert failed and out["stdout"] == "" and "ZeroDivisionError" in out["stderr"] and "\x1b" not in out["stderr"], out
        out, failed = m.cell(name, "%nosuch")
        assert failed and "%nosuch" in out["stderr"], out
        assert m.cell(name, "import sys; sys.exit(3)") == m.cell(name, "exit()") == ({"stdout": ""}, False)
        assert m.cell(name, "import asyncio\nawait asyncio.sleep(0)\nx") == ({"stdout": "Out[14]: 20\n"}, False)
