# SPDX-License-Identifier: Apache-2.0
"""An image that holds what a tenant did is that tenant's, and others see what the operator shares (S44 of SECURITY.md)."""
import json
import os

import berthtest as b
import daemon
from daemon import Daemon


def names(d, token):
    return sorted(i["name"] for i in d.good("GET", "/v1/images", token=token)["images"])


def unseen(d, token, ref):
    """As a name that nobody has, but for the name."""
    for path in ("/v1/images/inspect", "/v1/images/history"):
        there, absent = d.get(f"{path}?ref={ref}", token=token), d.get(f"{path}?ref=nosuch", token=token)
        assert there.status == absent.status == 404, (there, absent)
        assert there.body.decode().replace(ref, "nosuch") == absent.body.decode(), (there, absent)
    for path, more in (("/v1/sandboxes", {}), ("/v1/run", {"argv": ["true"]})):
        there, absent = (d.post(path, {"image": name, **more}, token=token) for name in (ref, "nosuch"))
        assert there.status == absent.status == 404, (there, absent)
        assert there.body.decode().replace(ref, "nosuch") == absent.body.decode(), (there, absent)


def test_S44_what_a_tenant_did_stays_the_tenants_when_it_is_committed():
    with Daemon(tcp=True) as d:
        b.berth("image", "import", b.busybox_rootfs(), "tiny", ok=True)
        box = d.good("POST", "/v1/sandboxes", {"image": "tiny"}, token=daemon.TENANT)["id"]
        d.exec(box, "/bin/busybox", "sh", "-c", "echo secret > /secret", token=daemon.TENANT)
        made = d.good("POST", f"/v1/sandboxes/{box}/commit", {"image": "work"})
        assert names(d, daemon.TENANT) == ["tiny:latest", "work:latest"] and names(d, daemon.OTHER) == ["tiny:latest"]
        assert names(d, None) == ["tiny:latest", "work:latest"]
        digest = made["digest"]
        for ref in ("work", "work:latest", digest, digest[:30]):
            unseen(d, daemon.OTHER, ref)
        r = d.good("POST", "/v1/run", {"image": "work", "argv": ["/bin/busybox", "cat", "/secret"]}, token=daemon.TENANT)
        assert r["stdout"] == "secret\n"
        d.good("GET", "/v1/images/history?ref=work", token=daemon.TENANT)
        # neither a further name nor a commit by root of a sandbox of it makes it everybody's
        b.berth("image", "tag", "work", "public", ok=True)
        own = b.berth("create", "work", ok=True).out.strip()
        b.berth("commit", own, "again", ok=True)
        assert names(d, daemon.OTHER) == ["tiny:latest"]
        for ref in ("public", "again"):
            unseen(d, daemon.OTHER, ref)
        # an older berth, which knows no owners, must not show it
        images = os.path.join(b.environment()["BERTH_STATE_DIR"], "store/images")
        for name, version in (("work:latest", 2), ("again:latest", 2), ("tiny:latest", 1)):
            with open(os.path.join(images, name + ".json")) as f:
                record = json.load(f)
            assert (record["version"], record.get("owner")) == (version, "alice" if version == 2 else None), record


def test_S44_the_operator_says_which_images_tenants_share():
    config = '[tenant]\nimages = ["tools/*"]\n[tenant.bob]\nimages = []\n'
    with Daemon(tcp=True, config=config) as d:
        tree = b.busybox_rootfs()
        for name in ("tools/a", "private"):
            b.berth("image", "import", tree, name, ok=True)
        assert (names(d, daemon.TENANT), names(d, daemon.OTHER), len(names(d, None))) == (["tools/a:latest"], [], 2)
        unseen(d, daemon.TENANT, "private")
        unseen(d, daemon.OTHER, "tools/a")
        run = {"image": "tools/a", "argv": ["/bin/busybox", "true"]}
        assert d.good("POST", "/v1/run", run, token=daemon.TENANT)["verdict"]["exit_status"] == 0
        # "host" is not an image of the store
        d.create(token=daemon.OTHER)
    with Daemon(tcp=True, config='[sandbox]\nimage = "private"\n[tenant]\nimages = []\n') as d:
        assert d.good("POST", "/v1/run", {"argv": ["/bin/busybox", "true"]}, token=daemon.TENANT)["verdict"]["exit_status"] == 0
        assert names(d, daemon.TENANT) == ["private:latest"]
