# SPDX-License-Identifier: Apache-2.0
"""Images and files of containers by the Engine API: docker cp, build's leavings, archives, tags."""
import base64
import hashlib
import io
import json
import os
import socket
import tarfile
import time
import urllib.parse

import berthtest as b
from dockerlab import Cli, Engine, frames, python_docker

COST = 20


def tar_of(files):
    """A tar of {name: bytes, or None for a directory}."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.mode, info.uid, info.gid = (0o755, 0, 0) if data is None else (0o640, 1000, 1000)
            info.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            info.size = len(data or b"")
            t.addfile(info, io.BytesIO(data or b""))
    return out.getvalue()


def members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        return {m.name: t.extractfile(m).read() if m.isfile() else None for m in t}


def start(d, name="box"):
    cid = d.create("sleep", "1000", name=name)
    assert d.api("POST", f"/containers/{name}/start")[0] == 204
    return cid


def box_image():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)


@b.deadline(90)
def test_files_go_in_and_out_as_tar():
    def path(p):
        return "/containers/box/archive?path=" + urllib.parse.quote(p)

    def stat(headers):
        return json.loads(base64.b64decode(headers["X-Docker-Container-Path-Stat"]))

    with Engine() as d:
        start(d)
        assert d.api("PUT", path("/tmp"), tar_of({"a": b"hello", "dir": None, "dir/b": b"x" * 200000}))[0] == 200
        status, data, headers = d.api("GET", path("/tmp/a"))
        assert status == 200 and members(data) == {"a": b"hello"}, headers
        j = stat(headers)
        assert (j["name"], j["size"], j["mode"], j["linkTarget"]) == ("a", 5, 0o640, ""), j
        assert set(members(d.api("GET", path("tmp/dir"))[1])) == {"dir", "dir/b"}
        status, said, headers = d.api("HEAD", path("/tmp/dir/"))
        j = stat(headers)
        assert status == 200 and said == b"" and (j["name"], j["mode"]) == ("dir", 1 << 31 | 0o755), j
        eid = d.good("POST", "/containers/box/exec", {"Cmd": ["sh", "-c", "ls -ln /tmp/a; ln -s /etc /tmp/link"], "AttachStdout": True})["Id"]
        s, _ = d.hijack(f"/exec/{eid}/start", {})
        with s:
            out = frames(b"".join(iter(lambda: s.recv(65536), b"")))[1]
        assert b" 1000 1000 " in out, out
        j = stat(d.api("HEAD", path("/tmp/link"))[2])
        assert (j["mode"] & 1 << 27, j["linkTarget"]) == (1 << 27, "/etc"), j
        for method, where, code in (("GET", "/nosuch", 404), ("HEAD", "/nosuch", 404), ("PUT", "/nosuch", 404), ("PUT", "/tmp/a", 400)):
            assert d.api(method, path(where), tar_of({"z": b""}) if method == "PUT" else None)[0] == code, (method, where)
        assert d.api("GET", "/containers/box/archive")[0] == 400
        # bytes that are not a tar are refused, and an entry that would leave the directory stays inside
        assert d.api("PUT", path("/tmp/dir"), b"x" * 2000)[0] >= 400
        d.api("PUT", path("/tmp/dir"), tar_of({"../../../../escape": b"x"}))
        assert not os.path.exists("/escape") and d.api("HEAD", path("/escape"))[0] == 404
        assert d.api("POST", "/containers/box/stop?t=0")[0] == 204
        assert d.api("HEAD", path("/tmp"))[0] == 200


@b.deadline(120)
def test_images_are_listed_tagged_saved_loaded_and_removed():
    with Engine() as d:
        box_image()
        digest = json.loads(b.berth("image", "ls", "--json", ok=True).out)[0]["digest"]
        assert d.api("POST", "/images/box:1/tag?repo=team/app&tag=v2")[0] == 201
        listed = d.good("GET", "/images/json")
        assert len(listed) == 1 and listed[0]["Id"] == digest and set(listed[0]["RepoTags"]) == {"box:1", "team/app:v2"}, listed
        where = urllib.parse.quote(json.dumps({"reference": ["team/*"]}))
        assert d.good("GET", f"/images/json?filters={where}")[0]["RepoTags"] == ["team/app:v2"]
        for name in ("box:1", "team/app:v2", digest, digest[7:19]):
            j = d.good("GET", f"/images/{name}/json")
            assert j["Id"] == digest and "box:1" in j["RepoTags"] and j["Config"]["Cmd"], j
        assert d.good("GET", "/images/box:1/history")[0]["Id"] == digest
        for method, path in (("GET", "/images/nosuch/json"), ("DELETE", "/images/nosuch"), ("POST", "/images/nosuch/tag?repo=x"),
                             ("GET", "/images/nosuch/get")):
            status, said, _ = d.api(method, path)
            assert (status, said) == (404, {"message": "No such image: nosuch:latest"}), (path, said)
        for path in ("/images/team/app:v2/get", "/images/get?names=team/app:v2&names=box:1"):
            archive = d.good("GET", path)
            assert "index.json" in members(archive), path
        assert d.good("DELETE", "/images/team/app:v2") == [{"Untagged": "team/app:v2"}]
        said = d.good("POST", "/images/load", archive)
        assert all(json.loads(line)["stream"].startswith("Loaded image: ") for line in said.splitlines()), said
        assert len(d.good("GET", "/images/json")[0]["RepoTags"]) == 2
        d.create("true", name="user", image="box:1")
        assert d.api("DELETE", "/images/team/app:v2")[0] == 200
        assert d.api("DELETE", "/images/box:1")[0] == 409
        assert d.api("DELETE", "/containers/user")[0] == 204
        gone = d.good("DELETE", "/images/box:1")
        assert {"Deleted": digest} in gone and d.good("GET", "/images/json") == [], gone


@b.deadline(90)
def test_archives_without_names_layers_or_bytes_are_images():
    """docker build of FROM scratch, docker save of an id, docker import of an empty stream."""
    def saved(*labels):
        files, rows = {}, []
        for label in labels:
            config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Labels": {"l": label}}, "history": [
                {"created_by": "LABEL", "empty_layer": True}], "rootfs": {"type": "layers", "diff_ids": None}}).encode()
            name = "blobs/sha256/" + hashlib.sha256(config).hexdigest()
            files[name] = config
            rows.append({"Config": name, "RepoTags": None, "Layers": None})
        return tar_of({**files, "manifest.json": json.dumps(rows).encode()})

    with Engine() as d:
        lines = [json.loads(line)["stream"] for line in d.good("POST", "/images/load", saved("one", "two")).splitlines()]
        ids = [line.removeprefix("Loaded image ID: ").strip() for line in lines]
        assert all(line.startswith("Loaded image ID: sha256:") for line in lines) and len(set(ids)) == 2, lines
        for cid, label in zip(ids, ("one", "two")):
            j = d.good("GET", f"/images/{cid}/json")
            assert j["Config"]["Labels"] == {"l": label} and j["RepoTags"] == [] and j["RepoDigests"] == [], j
            assert len(j["RootFS"]["Layers"]) == 1, j
        said = b.berth("load", input=saved("three"))
        assert said.code == 2 and "no name of its own" in said.err, said
        assert "unnamed" in b.berth("load", "--help").out
        b.berth("load", "--unnamed", "mine:1", input=saved("three"), ok=True)
        assert "three" in b.berth("image", "inspect", "mine:1", ok=True).out
        d.good("POST", "/images/create?fromSrc=-&repo=nothing", b"")
        assert d.good("GET", "/images/nothing/json")["RepoTags"] == ["nothing:latest"]


@b.deadline(90)
def test_commits_of_one_second_are_images_in_their_order_and_expand_variables():
    with Engine() as d:
        box_image()
        cid = d.create("true", image="box:1")
        made = [d.good("POST", f"/commit?container={cid}&repo=made&tag=v{i}", {})["Id"] for i in range(4)]
        assert len(set(made)) == 4, made

        def listed(**filters):
            return {x["Id"] for x in d.good("GET", "/images/json?filters=" + urllib.parse.quote(json.dumps(filters)))}

        assert listed(since=[made[0]], before=[made[3]]) == set(made[1:3])
        when = [d.good("GET", f"/images/{x}/json")["Created"] for x in made]
        assert listed(since=[made[0]], until=[when[2], when[3]]) == {made[1]}
        archive = d.good("GET", "/images/get?names=made")
        names = json.loads(members(archive)["manifest.json"])
        with tarfile.open(fileobj=io.BytesIO(archive)) as t:
            times = {time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t.getmember(row["Config"]).mtime)) for row in names}
        assert times == {x[:19] for x in when}, (times, when)
        assert sorted(t for row in names for t in row["RepoTags"]) == [f"made:v{i}" for i in range(4)], names
        changes = ["ENV A=1", "ENV B=$A${A:+2}${NO:-3} 'C=$A'", "WORKDIR /srv/$B", "LABEL l=${B}"]
        query = "&".join("changes=" + urllib.parse.quote(x) for x in changes)
        config = d.good("GET", "/images/" + d.good("POST", f"/commit?container={cid}&{query}", {})["Id"] + "/json")["Config"]
        assert {"A=1", "B=123", "C=$A"} <= set(config["Env"]) and config["WorkingDir"] == "/srv/123", config
        assert config["Labels"]["l"] == "123", config
        status, said, _ = d.api("POST", f"/commit?container={cid}&changes=" + urllib.parse.quote("ENV A=${B"), {})
        assert status == 400 and "${NAME}" in said["message"], (status, said)


@b.deadline(60)
def test_a_body_of_null_is_no_body():
    """As docker commit of 20.10 sends it."""
    with Engine() as d:
        box_image()
        d.create("true", name="c1", image="box:1")
        d.good("POST", "/containers/c1/start")
        d.good("POST", "/containers/c1/wait")
        for body in ("null", "null\n"):
            d.good("POST", "/commit?container=c1&repo=made&tag=1", body, headers={"Content-Type": "application/json"})
        for body in ("nul", "null x", "nullnull", "1"):
            assert d.api("POST", "/commit?container=c1&repo=made&tag=1", body, headers={"Content-Type": "application/json"})[0] == 400


@b.deadline(60)
def test_an_image_of_a_container_inherits_its_config():
    with Engine() as d:
        box_image()
        d.create("-c", "echo $A $B", name="Made.Here", image="box:1", Entrypoint=["/bin/sh"], Env=["A=1", "B=two words"],
                 Labels={"k": "v", "session": "s1"}, WorkingDir="/tmp", User="1000:1000")
        d.good("POST", "/containers/Made.Here/start")
        d.good("POST", "/containers/Made.Here/wait")
        d.good("POST", "/commit?container=Made.Here&repo=made&tag=1")
        c = d.good("GET", "/images/made:1/json")["Config"]
        assert (c["Entrypoint"], c["Cmd"], c["WorkingDir"], c["User"]) == (["/bin/sh"], ["-c", "echo $A $B"], "/tmp", "1000:1000"), c
        assert {"A=1", "B=two words"} <= set(c["Env"]) and c["Labels"] == {"k": "v", "session": "s1"}, c
        assert [i["RepoTags"] for i in d.good("GET", "/images/json?filters=" + urllib.parse.quote('{"label":["session=s1"]}'))] == [["made:1"]]
        x = d.create(image="made:1", name="again")
        d.good("POST", f"/containers/{x}/start")
        assert d.good("POST", f"/containers/{x}/wait") == {"StatusCode": 0}
        assert frames(d.api("GET", f"/containers/{x}/logs?stdout=1")[1])[1] == b"1 two words\n"
        # the request's config, and its changes, count more
        body = {"Labels": {"k": "other"}, "Env": ["A=3"]}
        # several instructions in one text, as podman's clients send them
        d.good("POST", "/commit?container=Made.Here&repo=made&tag=3&changes=" + urllib.parse.quote("CMD /bin/bar\nEXPOSE 9090\nENV A=b \\\n C=d\n"), body)
        config = d.good("GET", "/images/made:3/json")["Config"]
        assert config["Cmd"] == ["/bin/sh", "-c", "/bin/bar"] and config["ExposedPorts"] == {"9090/tcp": {}} and {"A=b", "C=d"} <= set(config["Env"]), config
        d.good("POST", "/commit?container=Made.Here&repo=made&tag=2&changes=" + urllib.parse.quote('CMD ["x"]') + "&changes=WORKDIR+/run", body)
        c = d.good("GET", "/images/made:2/json")["Config"]
        assert (c["Cmd"], c["WorkingDir"], c["Labels"]) == (["x"], "/run", {"k": "other", "session": "s1"}), c
        assert "A=3" in c["Env"] and "A=1" not in c["Env"] and "B=two words" in c["Env"], c


@b.deadline(90)
def test_an_image_of_a_container_that_runs_does_not_go_by_its_id():
    with Engine() as d:
        box_image()
        d.create("true", name="first", image="box:1")
        digest = d.good("POST", "/commit?container=first&repo=made&tag=1")["Id"]
        cid = d.create("sleep", "1000", image="made:1", name="user")
        assert d.api("POST", "/containers/user/start")[0] == 204
        for force in (0, 1):
            status, said, _ = d.api("DELETE", f"/images/{digest}?force={force}")
            assert status == 409 and f"(cannot be forced) - image is being used by running container {cid[:12]}" in said["message"], said
        status, said, _ = d.api("DELETE", "/images/made:1")
        assert status == 409 and f"(must force) - container {cid[:12]} is using its referenced image {digest[7:19]}" in said["message"], said
        assert d.api("POST", "/containers/user/stop?t=0")[0] == 204
        status, said, _ = d.api("DELETE", f"/images/{digest}")
        assert status == 409 and f"(must be forced) - image is being used by stopped container {cid[:12]}" in said["message"], said
        assert d.api("DELETE", f"/images/{digest}?force=1")[0] == 200
        assert d.api("GET", "/images/made:1/json")[0] == 404
        status, said, _ = d.api("DELETE", "/images/%20")
        assert status == 400 and "image name cannot be blank" in said["message"], said
        # a name that no image can have is that of none
        assert d.api("GET", "/images/FooBar/json")[0] == 404
        status, said, _ = d.api("POST", "/images/nosuch/push", headers={"X-Registry-Auth": "e30="})
        assert status == 404 and said["message"] == "An image does not exist locally with the tag: nosuch", said


@b.deadline(120)
def test_a_pull_that_fails_at_once_is_an_error_and_a_later_one_says_so_in_its_stream():
    with socket.create_server(("127.0.0.1", 0)) as mute, Engine(config="[registry]\nretries = 0\nstall_timeout = \"4s\"") as d:
        status, said, _ = d.api("POST", "/images/create?fromImage=localhost:1/x&tag=y")
        assert status >= 400 and "localhost:1" in said["message"], (status, said)
        name = f"localhost:{mute.getsockname()[1]}/x"
        status, said, _ = d.api("POST", f"/images/create?fromImage={name}&tag=y")
        assert status == 200, said
        lines = [json.loads(line) for line in said.splitlines()]
        assert lines[0]["status"] == f"Pulling {name}:y" and name in lines[-1]["error"], lines
        for bad in ("", "?fromSrc=http://x/y", "?fromImage=" + "x" * 500):
            assert d.api("POST", "/images/create" + bad)[0] == 400, bad


@b.deadline(120)
def test_dockers_command_line_copies_commits_and_imports():
    with Engine() as d:
        box_image()
        docker = Cli(d)
        docker.run("run", "-d", "--network", "none", "--name", "c1", "box:1", "sleep", "1000", ok=True)
        b.write(b.tmp("in/sub/f"), "content\n")
        docker.run("cp", b.tmp("in"), "c1:/tmp/new", ok=True)
        docker.run("cp", b.tmp("in") + "/.", "c1:/tmp", ok=True)
        assert docker.run("exec", "c1", "cat", "/tmp/new/sub/f", "/tmp/sub/f", ok=True).stdout == "content\ncontent\n"
        docker.run("cp", "c1:/tmp/new", b.tmp("out"), ok=True)
        with open(b.tmp("out/sub/f")) as f:
            assert f.read() == "content\n"
        assert "/nosuch" in docker.run("cp", "c1:/nosuch", b.tmp("x"), ok=1).stderr     # in words of the client's version
        docker.run("exec", "c1", "sh", "-c", "echo kept > /kept", ok=True)
        docker.run("commit", "-c", 'CMD ["cat", "/kept"]', "-m", "why", "c1", "made:1", ok=True)
        assert docker.run("run", "--rm", "--network", "none", "made:1", ok=True).stdout == "kept\n"
        docker.run("save", "-o", b.tmp("made.tar"), "made:1", ok=True)
        assert "Untagged: made:1" in docker.run("rmi", "made:1", ok=True).stdout
        assert "Loaded image: made:1" in docker.run("load", "-i", b.tmp("made.tar"), ok=True).stdout
        assert "made" in docker.run("images", ok=True).stdout
        assert "No such image: nosuch" in docker.run("image", "inspect", "nosuch", ok=1).stderr


@b.deadline(120)
def test_python3_docker_copies_and_finds_images():
    docker = python_docker()
    with Engine() as d:
        box_image()
        c = d.client()
        try:
            image = c.images.get("box:1")
            assert image.tags == ["box:1"] and [i.id for i in c.images.list()] == [image.id]
            assert image.tag("other", "2") and set(c.images.get("box:1").tags) == {"box:1", "other:2"}
            x = c.containers.run("box:1", "sleep 1000", detach=True, network_mode="none")
            assert x.image.id == image.id
            assert x.put_archive("/tmp", tar_of({"f": b"data"}))
            chunks, info = x.get_archive("/tmp/f")
            assert members(b"".join(chunks)) == {"f": b"data"} and info["size"] == 4, info
            x.remove(force=True)
            c.images.remove("other:2")
            try:
                c.images.get("other:2")
                raise AssertionError("it is there")
            except docker.errors.ImageNotFound as e:
                assert e.explanation == "No such image: other:2"
        finally:
            c.close()
