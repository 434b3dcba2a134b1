# SPDX-License-Identifier: Apache-2.0
"""Answers of the Engine API that Docker's clients decide by, as dockerd gives them."""
import berthtest as b
from dockerlab import Engine

COST = 20


@b.deadline(60)
def test_swarm_nodes_services_secrets_and_configs_answer_as_an_engine_in_no_swarm():
    with Engine() as d:
        def said(method, path, body=None):
            status, answer, _ = d.api(method, path, body)
            return status, answer["message"]
        manager = (503, 'This node is not a swarm manager. Use "docker swarm init" or "docker swarm join" to connect this node to swarm and try again.')
        for kind in ("nodes", "services", "tasks", "secrets", "configs"):
            assert said("GET", f"/{kind}") == manager, kind
            assert said("GET", f"/v1.41/{kind}/abc") == manager, kind
        assert said("GET", "/services/abc/logs") == manager
        assert said("POST", "/secrets/create", {"Name": "s", "Data": ""}) == manager
        assert said("POST", "/services/create", {"Name": "s"}) == manager
        assert said("DELETE", "/nodes/abc") == manager
        assert said("GET", "/swarm") == manager and said("POST", "/swarm/update?version=1", {}) == manager
        assert said("POST", "/swarm/leave?force=1") == (503, "This node is not part of a swarm")
        for verb in ("init", "join"):
            status, text = said("POST", f"/swarm/{verb}", {})
            assert status == 503 and "swarm mode is not served here" in text, text
