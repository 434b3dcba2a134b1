# SPDX-License-Identifier: Apache-2.0
"""What is decided when a warm sandbox is claimed, and what a pool keeps."""
import json
import os
import re

import berthtest as b
import daemon
from managed import FAST, POOL, Managed, refused
from traced import Traced

COST = 12
MOUNTS = POOL.replace("size = 2", "size = 1") + FAST + "allow_mount_dir = true\n"


def workspaces():
    return os.path.join(b.root(), "state/manager/workspaces")


def warm_ones(d):
    listed = d.manager.http.get(d.manager.base_url + "/v1/manager/sandboxes").json()["sandboxes"]
    return {j["container_name"] for j in listed if j["state"] == "warm"}


def test_a_mount_dir_takes_the_place_of_the_warm_ones_workspace():
    own = b.tmpdir("own", 0o700)
    b.write(os.path.join(own, "here"), "from the host\n")
    with Managed(MOUNTS) as d:
        m = d.manager
        d.warm(1)
        before = set(os.listdir(workspaces()))
        name = m.create_from_pool(mount_dir=own)
        assert m.stats()["counts"]["claimed"] == 1, "a new one instead of the warm one"
        # its own is gone at once, not when the sandbox is
        assert not before & set(os.listdir(workspaces())), before
        record = m.get_info(identity=name)
        assert record["mount_dir"] == own and "spare_workspace" not in record

        def works(word):
            out = m.shell(name, f"cat here; echo {word} > made; id -u; stat -c %u made; grep -c ' /workspace ' /proc/self/mountinfo; "
                                "grep ' /workspace ' /proc/self/mountinfo")[0]["stdout"].splitlines()
            assert out[:4] == ["from the host", "0", "0", "1"] and "nosuid" in out[4] and "nodev" in out[4] and "idmapped" in out[4], out
            made = os.path.join(own, "made")
            assert open(made).read() == word + "\n" and os.stat(made).st_uid == 0
            assert m.workspace("GET", name, "file", params={"path": "made", "format": "text"}).text == word + "\n"
            assert "written" not in os.listdir(own)
            b.berth("file", "write", record["container_id"], "/workspace/written", input="x", ok=True)
            assert open(os.path.join(own, "written")).read() == "x"
            os.unlink(os.path.join(own, "written"))

        works("claimed")
        attested = json.loads(b.berth("inspect", "--attest", record["container_id"], ok=True).out)
        assert not [x for x in attested["attest"]["mounts"] if "/workspaces/" in json.dumps(x)]
        # so do a stop and a start from what is on the disk
        assert m.stop(identity=name) is True and m.start(identity=name) is True
        works("started")
        assert m.release(identity=name) is True
        assert sorted(os.listdir(own)) == ["here", "made"], "a directory of the host's is not ours to remove"


def test_a_mount_dir_that_cannot_be_is_told_and_empties_no_pool():
    with Managed(MOUNTS) as d:
        m = d.manager
        d.warm(1)
        kept = warm_ones(d)
        b.write(b.tmp("file"), "")
        os.symlink("/nowhere", b.tmp("dangling"))
        for bad in (b.tmp("nosuch"), b.tmp("dangling")):
            refused(404, m.create_from_pool, mount_dir=bad)
        refused(400, m.create_from_pool, mount_dir="relative")
        assert warm_ones(d) == kept
        # nor one whose file system maps no ids: the warm one that found that out is replaced
        refused(501, m.create_from_pool, mount_dir="/proc")
        b.wait_for(lambda: not m.stats()["states"].get("error"), 20, "the end of that one")
        d.warm(1)
        assert m.create_from_pool() and m.stats()["counts"]["claimed"] == 1


def test_claims_are_a_histogram_of_their_own():
    with Managed(POOL.replace("size = 2", "size = 1") + FAST) as d:
        d.warm(1)
        d.manager.create_from_pool()
        # a request is counted after its last byte
        b.wait_for(lambda: daemon.metrics(d)["berth_create_seconds_count"] == 1, 20, "the end of the request")
        found = daemon.metrics(d)
        assert found["berth_claim_seconds_count"] == 1 == found['berth_claim_seconds_bucket{le="+Inf"}'], found
        assert found["berth_claim_seconds_sum"] > 0, found
        assert found['berth_manager_events_total{event="claimed"}'] == 1, found


def test_promtool_has_nothing_to_say_about_the_managers_metrics():
    daemon.need_promtool()
    with Managed(POOL.replace("size = 2", "size = 1") + FAST) as d:
        d.warm(1)
        d.manager.create_from_pool()
        daemon.promtool_is_content(d)


def test_a_pool_that_is_made_smaller_lets_go():
    with Managed(POOL.replace("size = 2", "size = 4") + FAST) as d:
        d.warm(4)
        d.reconfigure("size = 1")
        d.warm(1)
        left = warm_ones(d)
        name = d.manager.create_from_pool()
        assert name in left
        d.warm(1)


def test_a_container_id_names_its_sandbox_to_its_owner():
    """agentscope's manager asks its driver by either; a lookalike in another's record is not a name."""
    with Managed(POOL.replace("size = 2", "size = 0") + FAST) as d:
        m, alice, bob = d.manager, d.client(daemon.TENANT), d.client(daemon.OTHER)
        name = alice.create_from_pool()
        known = alice.get_info(identity=name)["container_id"]
        liar = bob.create_from_pool(meta={"container_id": known})
        for who in (m, alice):
            assert who.get_status(identity=known) == "running" and who.get_info(identity=known)["container_name"] == name
        refused(404, bob.get_status, identity=known)
        refused(404, m.get_status, identity="0123456789ab")
        assert m.release(identity=liar) is True
        assert alice.get_info(identity=known)["container_name"] == name
        assert alice.release(identity=known) is True and m.get_status(identity=name) == "released"


def test_each_sandbox_has_intervals_of_its_own():
    """What the request or a change says goes before [session]; null goes back to it."""
    def told(name, change=None):
        url = f"{m.base_url}/v1/manager/sandboxes/{name}/intervals"
        r = m.http.patch(url, json=change, timeout=60 * b.SLOW) if change else m.http.get(url, timeout=60 * b.SLOW)
        return [r.json()[k] for k in ("auto_stop_ms", "auto_archive_ms", "auto_delete_ms")] if r.ok else r.status_code

    with Managed(POOL.replace("size = 2", "size = 1") + FAST + 'auto_stop = "1h"\nauto_archive = "2h"\nauto_delete = "3h"\n') as d:
        m = d.manager
        d.warm(1)
        plain, never = m.create(), m.create(auto_stop=0, auto_delete="1h30m")
        short = m.create_from_pool(auto_stop="1h", auto_delete="1s", meta={"session_ctx_id": "s"})
        assert m.stats()["counts"]["claimed"] == 1
        assert told(plain) == [3600000, 7200000, 10800000] and told(never) == [0, 7200000, 5400000]
        assert told(short) == [3600000, 7200000, 1000]
        assert told(short, {"auto_stop": "200ms"}) == [200, 7200000, 1000]
        b.wait_for(lambda: m.get_status(identity=short) == "released", 30, "the end of the short one")
        assert m.get_status(identity=plain) == m.get_status(identity=never) == "running"
        assert told(plain, {"auto_stop": "100ms", "auto_archive": 9}) == [100, 9000, 10800000]
        b.wait_for(lambda: m.get_status(identity=plain) == "exited", 30, "a stop")
        assert told(plain, {"auto_stop": None}) == [3600000, 9000, 10800000] == told(plain)
        for bad in ({"auto_stop": "soon"}, {"auto_stop": -1}, {"auto_delete": 1.5}, {"auto_delete": "400d"}, {"auto_pause": 1}):
            assert told(plain, bad) == 400, bad
            if "auto_pause" not in bad:
                refused(400, m.create, **bad)
        assert told("nosuch", {"auto_stop": 1}) == 404
        # a tenant's is nobody else's to change; what is restored has what it had
        alice, bob = d.client(daemon.TENANT), d.client(daemon.OTHER)
        hers = alice.create(meta={"session_ctx_id": "hers"}, auto_archive=77)
        url = f"{m.base_url}/v1/manager/sandboxes/{hers}/intervals"
        assert bob.http.patch(url, json={"auto_delete": 1}, timeout=60 * b.SLOW).status_code == 404 == bob.http.get(url, timeout=60 * b.SLOW).status_code
        alice.native("sessions/hers/reap")
        alice.native("sessions/hers/restore")
        assert told(hers) == [3600000, 77000, 10800000] and m.get_status(identity=hers) == "running"


def test_a_claim_writes_its_record_once_and_reads_one_note_of_an_id_range():
    b.needs_the_lean_program()
    with Managed(POOL + FAST) as d:
        d.warm(2)
        with Traced(d, children=False) as t:
            d.manager.create_from_pool()
        text = t.of_thread("POST /create_from_pool")
        assert d.manager.stats()["counts"]["claimed"] == 1, text
    opens = re.findall(r'^openat\([^"]*"([^"]*)"', text, re.M)
    # the registry's lock, the range of the sandbox, its note, the socket of its keeper
    assert len(opens) == 4 and opens.count("slots") == 1, opens
    assert len(re.findall(r"l_type=F_WRLCK", text)) == 1, text
    assert not re.findall(r"^lseek\(.*SEEK_DATA", text, re.M), "all notes of id ranges were read"
