# SPDX-License-Identifier: Apache-2.0
"""
E2B's snapshots against tenants (S19 of SECURITY.md): no sandbox that a tenant names and labels as it likes becomes the
operator's template.
"""
import os

import berthtest as b
from daemon import TENANT, TOKEN, Daemon
from e2bwire import Client

FACE = {"label": ["berth.face=e2b-snapshot", "berth.managed-by=e2b"]}


def kept():
    return b.berth("ps", "-aq", ok=True).out.split()


@b.deadline(120)
def test_S19_no_sandbox_of_a_tenant_is_a_template_of_the_operator():
    """A fork belongs to the tenant of its source: the tenant would see all that the operator does in it."""
    with Daemon("[registry]\npull = \"never\"\n", tcp=True) as d:
        r = d.post("/v1/sandboxes", {"name": "tool", "image": "host", "options": FACE}, token=TENANT, tcp=True)
        made = [r.json["id"]] if r.status == 201 else []
        try:
            if made:    # as a berth of before this name was kept back let a tenant name it
                os.symlink(made[0], os.path.join(b.root(), "state", "names", "snapshot.tool"))
            if made and not os.path.isfile(os.path.join(b.root(), "state", "sandboxes", made[0], "writable.img")):
                raise b.skip("the state directory has project quotas")
            asked = {"templateID": "tool", "timeout": 60, "envVars": {"SECRET": "s3"}, "allow_internet_access": False}
            r = Client(d, TOKEN).ask("POST", "/v2/sandboxes", asked)
            assert r.status == 404 and "tool" in r.json["message"], r
            assert kept() == made
            assert Client(d, TOKEN).ask("DELETE", "/templates/tool").status == 404
            # what the operator says is a tenant's, by its id, is
            if made:
                r = Client(d, TOKEN).ask("DELETE", f"/templates/{made[0]}")
                assert r.status == 204, r
        finally:
            b.berth("rm", "-f", *kept()) if kept() else None
            if made:
                os.unlink(os.path.join(b.root(), "state", "names", "snapshot.tool"))


@b.deadline(120)
def test_S19_no_tenant_holds_the_name_of_anothers_snapshot():
    with Daemon("[registry]\npull = \"never\"\n", tcp=True) as d:
        bob = Client(d, TENANT)
        try:
            e = bob.create(allow_internet_access=False)
            mine = f"/v1/sandboxes/{e.id}"
            for who in ("ann", "other", "bob"):
                name = f"snapshot.{who}.state"
                for path, body in (("/v1/sandboxes", {"name": name, "image": "host"}), (mine + "/rename", {"name": name}),
                                   (mine + "/fork", {"options": {"name": name}})):
                    r = d.post(path, body, token=TENANT, tcp=True)
                    assert r.status in (400, 403) and not os.path.lexists(os.path.join(b.root(), "state", "names", name)), (path, r)
            assert kept() == [e.id]
            for words in (("create", "--name", "snapshot.state", "host"), ("rename", e.id, "snapshot.state"), ("fork", "--name", "snapshot.state", e.id)):
                b.one_line_error(b.berth(*words), 2, "E2B", "hint")
            r = bob.ask("POST", f"/sandboxes/{e.id}/snapshots", {"name": "state"})
            assert r.status == 201, r
            assert bob.ask("POST", f"/sandboxes/{e.id}/snapshots", {"name": "state"}).status == 201, "the newest has the name"
            assert len(kept()) == 2
        finally:
            b.berth("rm", "-f", *kept()) if kept() else None
