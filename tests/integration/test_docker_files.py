# SPDX-License-Identifier: Apache-2.0
"""Files of containers that do not run, export, and archives that attack, by the Engine API."""
import base64
import io
import json
import os
import tarfile
import threading
import urllib.parse

import berthtest as b
from dockerlab import Cli, Engine, python_docker

COST = 20


def tar_of(*entries):
    """A tar of (name, kind, data or target)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, kind, more in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.mode = 0o755
            data = more if isinstance(more, bytes) else b""
            if isinstance(more, str):
                info.linkname = more
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        return {m.name: t.extractfile(m).read() if m.isfile() else None for m in t}


def archive(path, name="box"):
    return f"/containers/{name}/archive?path=" + urllib.parse.quote(path)


def status(d, name="box"):
    return d.good("GET", f"/containers/{name}/json")["State"]["Status"]


@b.deadline(90)
def test_a_container_takes_files_before_its_start_and_gives_them_after_its_end():
    reg = tarfile.REGTYPE
    with Engine() as d:
        cid = d.create("sh", "-c", "cat /srv/in > /srv/out; exit 3", name="box")
        assert d.api("PUT", archive("/srv"), tar_of(("in", reg, b"copied in")))[0] == 200
        assert status(d) == "created"
        assert members(d.good("GET", archive("/srv/in"))) == {"in": b"copied in"}
        _, _, headers = d.api("HEAD", archive("/srv/in"))
        stat = json.loads(base64.b64decode(headers["X-Docker-Container-Path-Stat"]))
        assert (stat["name"], stat["size"]) == ("in", 9), stat
        assert d.api("GET", archive("/nosuch"))[0] == 404 and d.api("PUT", archive("/srv/in"), tar_of())[0] == 400
        assert {"Path": "/srv/in", "Kind": 1} in d.good("GET", "/containers/box/changes")
        assert d.api("POST", "/containers/box/start")[0] == 204
        assert d.good("POST", f"/containers/{cid}/wait")["StatusCode"] == 3
        b.wait_for(lambda: status(d) == "exited", 30, "its end")
        assert members(d.good("GET", archive("/srv/out"))) == {"out": b"copied in"}
        j = d.good("GET", "/containers/box/json")["State"]
        assert (j["Status"], j["ExitCode"], j["Running"]) == ("exited", 3, False), j
        assert d.api("DELETE", "/containers/box")[0] == 204
        d.create("true", name="ro", StopSignal="9", HostConfig={"ReadonlyRootfs": True})
        no = d.api("PUT", archive("/srv", "ro"), tar_of(("in", reg, b"x")))
        assert no[:2] == (400, {"message": "container rootfs is marked read-only"}), no
        assert d.good("GET", "/containers/ro/json")["Config"]["StopSignal"] == "9"
        assert d.api("GET", archive("/srv"))[0] == 404


@b.deadline(90)
def test_export_has_the_files_and_not_what_is_mounted():
    with Engine() as d:
        b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
        d.create("sh", "-c", "echo new > /new; echo x > /vol/f; sleep 1000", name="box", image="box:1", HostConfig={"Binds": ["data:/vol"]})
        assert d.api("GET", "/containers/nosuch/export")[0] == 404
        made = members(d.good("GET", "/containers/box/export"))
        assert "bin/busybox" in made and "new" not in made, sorted(made)[:20]
        d.api("POST", "/containers/box/start")
        b.wait_for(lambda: "new" in members(d.good("GET", "/containers/box/export")), 30, "what it wrote")
        made = members(d.good("GET", "/containers/box/export"))
        assert made["new"] == b"new\n" and "proc" in made and "vol" in made, sorted(made)
        assert not [n for n in made if n.startswith(("proc/", "sys/", "dev/", "vol/"))], sorted(made)
        # and what was exported makes an image
        docker = Cli(d)
        docker.run("export", "-o", b.tmp("all.tar"), "box", ok=True)
        docker.run("import", b.tmp("all.tar"), "again:1", ok=True)
        assert docker.run("run", "--rm", "--network", "none", "again:1", "cat", "/new", ok=True).stdout == "new\n"
        assert d.api("DELETE", "/containers/box?force=1")[0] == 204 and d.api("DELETE", "/volumes/data")[0] == 204


@b.deadline(120)
def test_archives_that_attack_reach_nothing_of_the_host():
    """Into one that does not run as into one that does: links, FIFOs, devices, absolute names."""
    v = b.victim()
    before = b.seal(v)
    reg, link, hard, fifo, dev = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE
    attacks = [
        [("l", link, v), ("l/secret", reg, b"evil")],
        [("l", link, "../" * 20 + v), ("l/open", reg, b"evil")],
        [("/" + v.lstrip("/") + "/secret", reg, b"evil")],
        [("../" * 30 + v.lstrip("/") + "/secret", reg, b"evil")],
        [("h", hard, v + "/secret"), ("h", reg, b"evil")],
        [("f", fifo, None), ("f", reg, b"evil")],
        [("d", dev, None), ("d", reg, b"evil")],
        [("proc", link, "/proc/1/root"), ("proc/" + v.lstrip("/") + "/secret", reg, b"evil")],
    ]
    with Engine() as d:
        for runs in (False, True):
            name = f"box{runs}".lower()
            d.create("sleep", "1000", name=name)
            if runs:
                assert d.api("POST", f"/containers/{name}/start")[0] == 204
            for entries in attacks:
                d.api("PUT", archive("/srv", name), tar_of(*entries))
                assert b.seal(v) == before, (runs, entries)
                d.api("GET", archive("/srv", name))
            # one whose path is itself a link out, and a FIFO where a file would be read
            d.api("PUT", archive("/srv", name), tar_of(("way", link, v)))
            assert d.api("PUT", archive("/srv/way", name), tar_of(("secret", reg, b"evil")))[0] in (404, 400, 200)
            assert b.seal(v) == before
            for path in ("/srv/way/secret", "/srv/f", "/srv/../../../.." + v + "/secret"):
                code, data, _ = d.api("GET", archive(path, name))
                assert code != 200 or b"canary" not in data, (path, code)
            assert d.api("GET", archive("/a\0b", name))[0] == 400
            assert d.api("GET", archive("/srv/f" + "x" * 5000, name))[0] in (400, 404)
        assert d.api("DELETE", "/containers/boxfalse")[0] == 204


@b.deadline(90)
def test_tmp_and_run_are_the_images_and_stay():
    reg = tarfile.REGTYPE
    with Engine() as d:
        rootfs = b.busybox_rootfs()
        os.mkdir(rootfs + "/run/sshd")
        b.berth("image", "import", rootfs, "box:1", ok=True)
        d.create("sh", "-c", "cat /tmp/in > /tmp/out; ls /run > /run/seen", name="box", image="box:1")
        assert d.api("PUT", archive("/tmp"), tar_of(("in", reg, b"before the start")))[0] == 200
        assert d.api("POST", "/containers/box/start")[0] == 204
        assert d.good("POST", "/containers/box/wait")["StatusCode"] == 0
        assert members(d.good("GET", archive("/tmp/out"))) == {"out": b"before the start"}
        assert b"sshd\n" in members(d.good("GET", archive("/run/seen")))["seen"]
        changed = {c["Path"] for c in d.good("GET", "/containers/box/changes")}
        assert changed == {"/tmp", "/tmp/in", "/tmp/out", "/run", "/run/seen"}, changed


@b.deadline(120)
def test_clients_that_race_on_one_container_that_does_not_run():
    reg = tarfile.REGTYPE
    with Engine() as d:
        d.create("sleep", "1000", name="box")
        codes = []

        def put(i):
            codes.append(d.api("PUT", archive("/srv"), tar_of((f"f{i}", reg, b"x" * 1000)))[0])

        def begin():
            codes.append(d.api("POST", "/containers/box/start")[0])

        threads = [threading.Thread(target=put, args=(i,)) for i in range(6)] + [threading.Thread(target=begin)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(codes) == [200] * 6 + [204], codes
        assert status(d) == "running"
        there = members(d.good("GET", archive("/srv")))
        assert {f"srv/f{i}" for i in range(6)} <= set(there), there


@b.deadline(90)
def test_python3_docker_puts_files_into_one_that_is_created():
    python_docker()
    with Engine() as d:
        c = d.client()
        try:
            b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
            x = c.containers.create("box:1", ["cat", "/root/script"], network_mode="none")
            assert x.put_archive("/root", tar_of(("script", tarfile.REGTYPE, b"from outside\n")))
            x.start()
            assert x.wait()["StatusCode"] == 0 and x.logs() == b"from outside\n"
            assert "etc" in members(b"".join(x.export()))
            chunks, info = x.get_archive("/root/script")
            assert members(b"".join(chunks)) == {"script": b"from outside\n"} and info["name"] == "script"
        finally:
            c.close()
    assert not os.listdir(os.path.join(b.root(), "run", "sandboxes"))
