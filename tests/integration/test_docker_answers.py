# SPDX-License-Identifier: Apache-2.0
"""Answers of the Engine API that Docker's clients decide by, as dockerd gives them."""
import io
import json
import tarfile
import urllib.parse

import berthtest as b
from dockerdoor import door
from dockerlab import Engine

COST = 20


def tar_of(name, data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        t.addfile(info, io.BytesIO(data))
    return out.getvalue()


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


@b.deadline(90)
def test_an_image_is_committed_and_imported_without_a_name_and_with_each_instruction():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
    changes = ["CMD [\"one\", \"two\"]", "ENV A=b C='d e'", "ENV F g h", "EXPOSE 80 53/udp", "LABEL k=\"v w\"", "VOLUME /data", "USER 5:6", "WORKDIR /w",
               "STOPSIGNAL SIGINT", "ONBUILD RUN true", "HEALTHCHECK --interval=5s --retries=2 CMD curl x"]
    query = "&".join("changes=" + urllib.parse.quote(c) for c in changes)

    def check(d, found):
        run = d.good("GET", f"/images/{found}/json")
        assert run["RepoTags"] == [] and run["RepoDigests"] == [], run
        config = run["Config"]
        assert config["Cmd"] == ["one", "two"] and {"A=b", "C=d e", "F=g h"} <= set(config["Env"]), config
        assert config["ExposedPorts"] == {"80/tcp": {}, "53/udp": {}} and config["Labels"]["k"] == "v w" and config["Volumes"] == {"/data": {}}, config
        assert (config["User"], config["WorkingDir"], config["StopSignal"], config["OnBuild"]) == ("5:6", "/w", "SIGINT", ["RUN true"]), config
        assert config["Healthcheck"] == {"Test": ["CMD-SHELL", "curl x"], "Interval": 5000000000, "Retries": 2}, config

    with Engine() as d:
        d.create("true", image="box:1", name="box")
        one = d.good("POST", f"/commit?container=box&{query}", {})["Id"]
        check(d, one)
        said = d.good("POST", f"/images/create?fromSrc=-&message=hello&{query}", tar_of("a", b"1"))
        two = json.loads(said.splitlines()[-1])["status"]
        check(d, two)
        assert d.good("GET", f"/images/{two}/history")[0]["Comment"] == "hello"
        # nobody is told of the names that berth's store has for them
        listed = {i["Id"]: i["RepoTags"] for i in d.good("GET", "/images/json")}
        assert listed[one] == [] and listed[two] == [] and "box:1" in sum(listed.values(), []), listed
        dangling = d.good("GET", "/images/json?filters=" + urllib.parse.quote(json.dumps({"dangling": ["true"]})))
        assert {i["Id"] for i in dangling} == {one, two}, dangling
        assert "<none>" in door("images", ok=True).stdout
        # a name that it gets later is its last
        d.good("POST", f"/images/{one}/tag?repo=later&tag=1")
        gone = d.good("DELETE", "/images/later:1")
        assert gone == [{"Untagged": "later:1"}, {"Deleted": one}], gone
        pruned = d.good("POST", "/images/prune", {})
        assert d.api("GET", f"/images/{two}/json")[0] == 404 and d.api("GET", "/images/box:1/json")[0] == 200, pruned
        for change, text in (("FROM x", "FROM is not a valid change command"), ("NOPE x", "unknown instruction: NOPE"), ("EXPOSE x", "Invalid containerPort: x"),
                             ("CMD", "CMD requires at least one argument")):
            status, said, _ = d.api("POST", "/commit?container=box&changes=" + urllib.parse.quote(change), {})
            assert status == 400 and text in said["message"], (change, status, said)
