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
        r = d.post("/v1/sandboxes", {"name": "snapshot.tool", "image": "host", "options": FACE}, token=TENANT, tcp=True)
        made = [r.json["id"]] if r.status == 201 else []
        try:
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
