# SPDX-License-Identifier: Apache-2.0
"""Pull and push by the Engine API, with docker-registry on loopback and the login that comes with a request."""
import base64
import json
import os

import berthtest as b
from dockerlab import Cli, Engine, python_docker
from registry import Registry

COST = 15


def auth(user, password):
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps({"username": user, "password": password}).encode()).decode()}


def lines(said):
    return [json.loads(line) for line in said.splitlines()]


def engine(registry):
    return Engine(config=f'[registry]\ninsecure = ["{registry.host}"]\nretries = 0')


@b.deadline(120)
def test_an_image_is_pushed_and_pulled_with_the_login_of_the_request():
    with Registry("me", "canary-secret") as registry, engine(registry) as d:
        b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
        name = registry.name("team/box")
        assert d.api("POST", f"/images/box:1/tag?repo={name}&tag=1")[0] == 201
        for headers in ({}, auth("me", "wrong")):
            status, said, _ = d.api("POST", f"/images/{name}/push?tag=1", headers=headers)
            assert status == 200 and "errorDetail" in lines(said)[-1], said
        status, said, _ = d.api("POST", f"/images/{name}/push?tag=1", headers=auth("me", "canary-secret"))
        told = lines(said)
        assert status == 200 and told[-1]["aux"]["Tag"] == "1" and "error" not in said.decode(), told
        assert told[-1]["aux"]["Digest"] == registry.digest("team/box:1")
        status, said, _ = d.api("GET", f"/distribution/{name}:1/json", headers=auth("me", "canary-secret"))
        assert status == 200 and said["Descriptor"]["digest"] == told[-1]["aux"]["Digest"], (status, said)
        assert said["Platforms"] == [{"os": "linux", "architecture": "amd64"}] and said["Descriptor"]["size"] > 0, said
        assert d.api("GET", f"/distribution/{name}:1/json")[0] in (401, 403, 404)
        assert d.api("GET", f"/distribution/{name}:none/json", headers=auth("me", "canary-secret"))[0] == 404
        for ref in (name + ":1", "box:1"):
            assert d.api("DELETE", f"/images/{ref}?force=1")[0] == 200
        status, said, _ = d.api("POST", f"/images/create?fromImage={name}&tag=1")
        assert status in (401, 403, 404) and name in said["message"], (status, said)
        told = lines(d.api("POST", f"/images/create?fromImage={name}&tag=1", headers=auth("me", "canary-secret"))[1])
        assert told[-1]["status"].startswith("Status: Downloaded"), told
        assert d.good("GET", f"/images/{name}:1/json")["RepoTags"] == [name + ":1"]
        # not ours to keep, and not to be read anywhere
        assert "errorDetail" in lines(d.api("POST", f"/images/{name}/push?tag=1")[1])[-1]
        assert "canary-secret" not in d.log()
        for bad in ("x", "a" * 20000, base64.b64encode(b"[]").decode(), base64.b64encode(b'{"username":1}').decode(),
                    base64.b64encode(b'{"auth":"!"}').decode()):
            status, said, _ = d.api("POST", f"/images/{name}/push?tag=1", headers={"X-Registry-Auth": bad})
            assert status in (400, 431) and (status == 431 or "X-Registry-Auth" in said["message"]), (bad[:20], status, said)
        assert d.api("POST", "/images/nosuch/push")[0] == 404


@b.deadline(120)
def test_clients_log_in_push_and_pull():
    docker = python_docker()
    with Registry("me", "canary-secret") as registry, engine(registry) as d:
        b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
        name = registry.name("box")
        c = d.client()
        try:
            c.images.get("box:1").tag(name, "py")
            said = list(c.images.push(name, tag="py", auth_config={"username": "me", "password": "canary-secret"}, stream=True, decode=True))
            assert said[-1]["aux"]["Tag"] == "py", said
            seen = c.images.get_registry_data(name + ":py", auth_config={"username": "me", "password": "canary-secret"})
            assert seen.id == said[-1]["aux"]["Digest"] and seen.has_platform("linux/amd64"), seen.attrs
            c.images.remove(name + ":py")
            assert name + ":py" in c.images.pull(name, tag="py", auth_config={"username": "me", "password": "canary-secret"}).tags
            try:
                c.images.pull(name, tag="nosuch", auth_config={"username": "me", "password": "canary-secret"})
                raise AssertionError("pulled")
            except docker.errors.APIError:
                pass
        finally:
            c.close()
        cli = Cli(d)
        cli.run("tag", "box:1", name + ":cli", ok=True)
        assert cli.run("push", name + ":cli").returncode != 0
        cli.run("login", "-u", "me", "--password-stdin", registry.host, input="canary-secret", ok=True)
        assert "digest: sha256:" in cli.run("push", name + ":cli", ok=True).stdout
        cli.run("rmi", name + ":cli", ok=True)
        assert not os.path.exists(os.path.join(b.root(), "state", "auth.json"))
        assert "Downloaded newer image" in cli.run("pull", name + ":cli", ok=True).stdout
        assert "canary-secret" not in d.log()
