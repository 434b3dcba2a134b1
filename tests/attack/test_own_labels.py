# SPDX-License-Identifier: Apache-2.0
"""
S52.  Labels that begin with berth. are the host's: nobody who makes a sandbox, a volume or a network gives one, and what berth
decides by them no client can choose.
"""
import json

import berthtest as b
from daemon import TENANT, Daemon
from dockerlab import Engine

OWN = ("berth.face=e2b", "berth.face=e2b-snapshot", "berth.managed-by=berthd", "berth.zygote=x", "berth.anything")


def record(box):
    return json.loads(b.berth("inspect", "--json", box, ok=True).out)


@b.deadline(120)
def test_no_tenant_and_no_administrator_gives_one_over_http():
    with Daemon("", tcp=True) as d:
        mine = d.post("/v1/sandboxes", {"image": "host", "options": {"label": ["a=b"]}}, token=TENANT, tcp=True).json["id"]
        for who in ({"token": TENANT, "tcp": True}, {}):
            for label in OWN:
                for path, body in (("/v1/sandboxes", {"image": "host", "options": {"label": [label]}}),
                                   ("/v1/sandboxes", {"image": "host", "options": {"mark": [label]}}),
                                   (f"/v1/sandboxes/{mine}/fork", {"options": {"label": [label]}}),
                                   (f"/v1/sandboxes/{mine}/fork", {"options": {"mark": [label]}}),
                                   ("/v1/volumes", {"name": "v", "label": [label]}),
                                   ("/v1/networks", {"name": "n", "internal": True, "label": [label]})):
                    r = d.post(path, body, **who)
                    assert r.status in (400, 403), (who, path, body, r)
        # so it is no sandbox of E2B's, whose rules its owner could change
        r = d.request("PUT", f"/sandboxes/{mine}/network", {}, token=TENANT, tcp=True)
        assert r.status == 404, r
        assert record(mine)["labels"] == {"a": "b"}
        b.berth("rm", "--force", mine, ok=True)


@b.deadline(120)
def test_none_comes_with_an_image_or_the_command_line():
    for words in (("create", "--label", "berth.face=e2b", "host"), ("run", "-l", "berth.zygote=x", "host", "true"),
                  ("zygote", "create", "--label", "berth.face=e2b", "host", "python3")):
        b.one_line_error(b.berth(*words), 125, "berth's own", "hint")
    box = b.berth("create", "host", ok=True).out.strip()
    b.berth("exec", box, "sh", "-c", "echo x > /workspace/f", ok=True)
    b.berth("commit", "--label", "berth.face=e2b", "--label", "own=1", box, "labelled", ok=True)
    made = b.berth("create", "--no-start", "labelled", ok=True).out.strip()
    assert record(made)["labels"] == {"own": "1"}, record(made)["labels"]
    b.berth("rm", "--force", box, made, ok=True)
    b.berth("image", "rm", "labelled", ok=True)


@b.deadline(120)
def test_docker_is_told_that_one_was_left_out():
    with Engine() as d:
        status, made, _ = d.api("POST", "/containers/create?name=one", {"Image": "host", "Cmd": ["true"], "Labels": {
            "berth.docker.name": "two", "berth.zygote": "x", "mine": "1"}, "HostConfig": {"NetworkMode": "none"}})
        assert status == 201 and sum("berth's own" in w for w in made["Warnings"]) == 2, made
        assert d.api("GET", "/containers/two/json")[0] == 404
        assert d.api("GET", "/containers/one/json")[1]["Config"]["Labels"] == {"mine": "1"}
        for path, body in (("/volumes/create", {"Name": "v", "Labels": {"berth.docker.name": "w"}}),
                           ("/networks/create", {"Name": "n", "Internal": True, "Labels": {"berth.docker.name": "m"}})):
            status, said, _ = d.api("POST", path, body)
            assert status in (400, 403) and "berth's own" in said["message"], (path, status, said)
