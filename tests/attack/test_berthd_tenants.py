# SPDX-License-Identifier: Apache-2.0
"""
What a tenant may name and learn.  Its image is one of the store or of the configuration: never a directory of the host,
which berthd would read as root (S19 of SECURITY.md).
"""
import json
import os
import shutil

import berthtest as b
import daemon
from daemon import Daemon


def test_S19_no_directory_of_the_host_is_a_tenants_image():
    with Daemon(tcp=True) as d:
        for image in ("/", "/etc", "//", "/tmp/../", "../", "./x", ".", "..", "../" * 12 + "etc", b.root()):
            for path, body in (("/v1/sandboxes", {"image": image}), ("/v1/run", {"image": image, "argv": ["/bin/cat", "/shadow"]})):
                r = d.post(path, body, token=daemon.TENANT)
                assert r.status == 403, (image, path, r.status, r.body)
        for ref in ("/etc", "../etc", "./"):
            for path in ("/v1/images/inspect", "/v1/images/history"):
                assert d.get(f"{path}?ref={ref}", token=daemon.TENANT).status in (400, 404), (path, ref)
        assert not d.good("GET", "/v1/sandboxes")["sandboxes"]
        # an admin may, and both may have what has a name
        tree = b.busybox_rootfs()
        assert d.good("POST", "/v1/run", {"image": tree, "argv": ["/bin/busybox", "echo", "x"]})["verdict"]["exit_status"] == 0
        b.berth("image", "import", tree, "tiny", ok=True)
        assert d.good("POST", "/v1/run", {"image": "tiny", "argv": ["/bin/busybox", "true"]}, token=daemon.TENANT)["verdict"]["exit_status"] == 0


def test_S19_an_image_of_the_configuration_may_be_a_directory():
    tree = b.busybox_rootfs()
    with Daemon(tcp=True, config=f'[sandbox]\nimage = "{tree}"\n') as d:
        assert d.good("POST", "/v1/run", {"argv": ["/bin/busybox", "true"]}, token=daemon.TENANT)["verdict"]["exit_status"] == 0
        assert d.post("/v1/run", {"image": tree, "argv": ["/bin/busybox", "true"]}, token=daemon.TENANT).status == 403


def test_S19_a_taken_name_tells_nothing_of_whose_it_is():
    with Daemon(tcp=True) as d:
        theirs, mine = d.create("taken", token=daemon.OTHER), d.create(token=daemon.TENANT)
        asked = [d.post(path, body, token=daemon.TENANT) for path, body in (
            ("/v1/sandboxes", {"image": "host", "name": "taken"}), (f"/v1/sandboxes/{mine}/rename", {"name": "taken"}),
            ("/create", {"name": "taken"}), ("/create_from_pool", {"name": "taken"}))]
        for r in asked:
            assert theirs not in r.body.decode() and "taken" in r.body.decode(), r
        assert [r.status for r in asked] == [409, 409, 200, 200] and [r.json["code"] for r in asked[2:]] == ["exists"] * 2, asked
        assert len(d.good("GET", "/v1/sandboxes")["sandboxes"]) == 2


def twin(box):
    """A sandbox with the owner of box, whose id begins as that of box."""
    kept = os.path.join(b.environment()["BERTH_STATE_DIR"], "sandboxes")
    digits = box[:11] + ("0" if box[11] != "0" else "1")
    shutil.copytree(os.path.join(kept, box), os.path.join(kept, digits), symlinks=True)
    path = os.path.join(kept, digits, "record.json")
    with open(path) as f:
        record = json.load(f)
    record.update(id=digits, name="")
    b.write(path, json.dumps(record), 0o600)
    return digits


def test_S19_what_another_has_is_answered_as_what_nobody_has():
    with Daemon(tcp=True) as d:
        theirs, mine = d.create("named", token=daemon.OTHER), d.create(token=daemon.TENANT)
        other = twin(theirs)
        absent = next(h for h in ("0000", "ffff", "1111") if h not in (theirs[:4], mine[:4]))
        said = {}
        for ref in ("nosuch", absent, absent * 3, "named", theirs, other, theirs[:4], theirs[:11]):
            r = d.get(f"/v1/sandboxes/{ref}", token=daemon.TENANT)
            assert r.status == 404, r
            said[ref] = r.body.decode().replace(ref, "REF")
        assert len(set(said.values())) == 1 and "GET /v1/sandboxes" in said["nosuch"], said
        # whose start is that of two is told to who has both, or may see all
        for token in (daemon.OTHER, daemon.TOKEN):
            r = d.get(f"/v1/sandboxes/{theirs[:4]}", token=token)
            assert r.status == 400 and "more than one" in r.body.decode(), r


def test_S19_the_id_of_another_does_not_make_ones_own_ambiguous():
    with Daemon(tcp=True) as d:
        mine = d.create(token=daemon.TENANT)
        path = os.path.join(b.environment()["BERTH_STATE_DIR"], "sandboxes", twin(mine), "owner.json")
        assert os.path.exists(path), os.listdir(os.path.dirname(path))
        b.write(path, '{"name":"bob"}', 0o600)
        assert d.good("GET", f"/v1/sandboxes/{mine[:6]}", token=daemon.TENANT)["id"] == mine
        assert d.get(f"/v1/sandboxes/{mine[:6]}").status == 400
