# SPDX-License-Identifier: Apache-2.0
"""
Tenants make images of their own: what each may have is bounded while the bytes arrive, and neither names nor layers
nor waiting tell one what another has (S44 of SECURITY.md).
"""
import concurrent.futures
import contextlib
import fcntl
import http.client
import io
import json
import os
import random
import subprocess
import tarfile

import berthtest as b
import daemon
import ocilayout as oci
import registry as reg
from daemon import Daemon

MIB = 1 << 20
MAY = "[tenant]\nimport = true\n"
RAW = {"Content-Type": "application/octet-stream"}


def rootfs(word, filler=b"", entries=()):
    """A root file system that runs, with a word of its own."""
    with open(b.BUSYBOX, "rb") as f:
        return oci.tar_bytes([("bin", {"type": tarfile.DIRTYPE, "mode": 0o755}, None), ("bin/busybox", {"mode": 0o755}, f.read()),
                              ("word", {}, word.encode()), ("filler", {}, filler), *entries])


def send(d, body, name="app", token=daemon.TENANT, what="import"):
    query = f"?name={name}" if name and what == "import" else ""
    return d.request("POST", f"/v1/images/{what}{query}", body, RAW, token=token)


def made(r):
    assert r.status == 201, r
    return r.json["images"][0]


def names(d, token):
    return sorted(i["name"] for i in d.good("GET", "/v1/images", token=token)["images"])


def word(d, image, token):
    r = d.good("POST", "/v1/run", {"image": image, "argv": ["/bin/busybox", "cat", "/word"]}, token=token)
    return r["stdout"]


def refused(r, code, *words):
    status = {"denied": 403, "limit": 429, "not-found": 404, "invalid": 400, "corrupt": 422}[code]
    text = r.body.decode()
    assert r.status == status and r.json["error"]["code"] == code and all(w in text for w in words), r


def store():
    return os.path.join(b.environment()["BERTH_STATE_DIR"], "store")


def taken():
    out = subprocess.run(["du", "-s", "--block-size=1", store()], capture_output=True, text=True, check=True).stdout
    return int(out.split()[0])


@contextlib.contextmanager
def begun(d, token, data=b"", name="stalled"):
    """An import of a body that stops coming."""
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60 * b.SLOW)
    c.putrequest("POST", f"/v1/images/import?name={name}")
    for k, v in {**RAW, "Authorization": "Bearer " + token, "Content-Length": str(64 * MIB)}.items():
        c.putheader(k, v)
    c.endheaders(data)
    try:
        yield c
    finally:
        c.close()


def test_S44_an_image_is_its_makers_and_names_of_two_tenants_do_not_collide():
    with Daemon(tcp=True, config=MAY) as d:
        first, second = made(send(d, rootfs("alice"))), made(send(d, rootfs("bob"), token=daemon.OTHER))
        assert first["name"] == second["name"] == "app:latest" and first["digest"] != second["digest"], (first, second)
        assert names(d, daemon.TENANT) == names(d, daemon.OTHER) == ["app:latest"]
        b.berth("image", "import", b.write(b.tmp("root.tar"), rootfs("root")), "app", ok=True)
        assert names(d, None) == ["app:latest", "app:latest@alice", "app:latest@bob"]
        assert (word(d, "app", daemon.TENANT), word(d, "app", daemon.OTHER), word(d, "app", None)) == ("alice", "bob", "root")
        assert word(d, first["digest"], daemon.TENANT) == "alice"
        box = d.good("POST", "/v1/sandboxes", {"image": "app"}, token=daemon.TENANT)["id"]
        assert d.exec(box, "/bin/busybox", "cat", "/word", token=daemon.TENANT)["stdout"] == "alice"
        # what another has is as what nobody has, by every route
        gone = "no-such-image"
        for ref in (first["digest"], first["digest"][7:40], "app@alice", "app:latest@alice"):
            for method, path in (("GET", "inspect?"), ("GET", "history?"), ("GET", "save?"), ("GET", "export?"),
                                 ("GET", "export?format=rootfs&"), ("DELETE", "?")):
                path = f"/v1/images/{path}".replace("/?", "?") + "ref="
                there, absent = (d.request(method, path + r, token=daemon.OTHER) for r in (ref, gone))
                assert there.status == absent.status == 404, (there, absent)
                assert there.body.decode().replace(ref, gone) == absent.body.decode(), (there, absent)
        refused(d.post("/v1/run", {"image": "app@alice", "argv": ["true"]}, token=daemon.OTHER), "not-found")
        # a name of another's is not a name for an image
        for name in ("app@bob", "app:latest@bob", "x@alice"):
            refused(send(d, rootfs("evil"), name), "invalid", "malformed")
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as t:
            lo = oci.Layout(b.tmp("evil"))
            lo.image([rootfs("evil")], ref="app:latest@bob")
            t.add(lo.path, ".")
        assert send(d, archive.getvalue(), None, what="load").status != 201
        b.one_line_error(b.berth("image", "import", lo.path), 2, "malformed")
        assert word(d, "app", daemon.OTHER) == "bob"
        # saved, it has the name that its tenant knows; taken away it is gone for that one only
        saved = d.request("GET", "/v1/images/save?ref=app", token=daemon.TENANT)
        assert saved.status == 200 and b"@alice" not in saved.body and b"app:latest" in saved.body
        shared = d.request("DELETE", "/v1/images?ref=app", token=daemon.TENANT)
        assert shared.status == 200, shared
        refused(d.delete("/v1/images?ref=app", token=daemon.TENANT), "denied", "shared")
        assert names(d, daemon.OTHER) == ["app:latest"] and word(d, "app", daemon.OTHER) == "bob"
        # its sandbox still stands on it
        d.good("POST", f"/v1/sandboxes/{box}/restart", token=daemon.TENANT)
        assert d.exec(box, "/bin/busybox", "cat", "/word", token=daemon.TENANT)["stdout"] == "alice"


def test_S44_a_tenant_makes_only_what_the_operator_allows():
    with reg.Mock() as r:
        pull = {"ref": f"{r.host}/team/app:1"}
        with Daemon(tcp=True, config=f'[registry]\ninsecure = ["{r.host}"]\n[tenant]\n') as d:
            refused(send(d, rootfs("x")), "denied", "[tenant] import")
            refused(send(d, rootfs("x"), what="load"), "denied", "[tenant] import")
            refused(d.post("/v1/images/pull", pull, token=daemon.TENANT), "denied", "[tenant] pull")
            assert not r.seen and names(d, daemon.TENANT) == []
            b.berth("image", "import", b.write(b.tmp("root.tar"), rootfs("root")), "base", ok=True)
            box = d.good("POST", "/v1/sandboxes", {"image": "base"}, token=daemon.TENANT)["id"]
            commit = f"/v1/sandboxes/{box}/commit"
            for options in ({"tenant": "bob"}, {"store": "/tmp"}):
                refused(d.post(commit, {"image": "x", "options": options}, token=daemon.TENANT), "denied")
            assert d.post(commit, {"image": "work"}, token=daemon.OTHER).status == 404
            d.good("POST", commit, {"image": "work", "options": {"message": "mine"}}, token=daemon.TENANT)
            assert names(d, daemon.TENANT) == ["base:latest", "work:latest"] and names(d, daemon.OTHER) == ["base:latest"]
            assert names(d, None) == ["base:latest", "work:latest@alice"]
        config = (f'[registry]\ninsecure = ["{r.host}"]\n[tenant]\ncommit = false\npull = ["{r.host}/team/*"]\n'
                  f'[tenant.bob]\npull = ["{r.host}/other/*"]\n')
        with Daemon(tcp=True, config=config) as d:
            box = d.good("POST", "/v1/sandboxes", {"image": "base"}, token=daemon.TENANT)["id"]
            refused(d.post(f"/v1/sandboxes/{box}/commit", {"image": "more"}, token=daemon.TENANT), "denied", "[tenant] commit")
            for ref in (f"{r.host}/secret/app:1", "debian", f"{r.host}/team@sha256:{'0' * 64}"):
                refused(d.post("/v1/images/pull", {"ref": ref}, token=daemon.TENANT), "denied", "[tenant] pull")
            refused(d.post("/v1/images/pull", pull, token=daemon.OTHER), "denied")
            refused(d.post("/v1/images/pull", {**pull, "options": {"insecure": True}}, token=daemon.TENANT), "denied", "insecure")
            refused(d.post("/v1/images/pull", {**pull, "options": {"tenant": "bob"}}, token=daemon.TENANT), "denied", "tenant")
            assert not r.seen
            # the operator's password for the registry is not the tenant's to use
            b.write(os.path.join(b.environment()["BERTH_STATE_DIR"], "auth.json"),
                    json.dumps({"auths": {r.host: {"auth": "dXNlcjpzZWNyZXQ="}}}), 0o600)
            try:
                done = d.good("POST", "/v1/images/pull", pull, token=daemon.TENANT)
            finally:
                os.unlink(os.path.join(b.environment()["BERTH_STATE_DIR"], "auth.json"))
            assert done["name"] == f"{r.host}/team/app:1", done
            assert r.seen and not any(q.authorization for q in r.seen), r.seen
            assert names(d, daemon.TENANT) == [f"{r.host}/team/app:1", "base:latest", "work:latest"]
            assert names(d, daemon.OTHER) == ["base:latest"]


def test_S44_the_number_and_the_bytes_of_a_tenants_images_are_bounded():
    config = MAY + 'own_images = 2\nown_image_bytes = "32m"\n[tenant.bob]\nown_images = 3\n'
    noise = random.Random(1)
    with Daemon(tcp=True, config=config) as d:
        made(send(d, rootfs("1"), "one"))
        made(send(d, rootfs("2"), "two"))
        refused(send(d, rootfs("3"), "three"), "limit", "2 images", "[tenant] own_images")
        # a name that it has gets another image; five times, and nothing of the four before is left
        for _ in range(5):
            made(send(d, rootfs("2", noise.randbytes(2 * MIB)), "two"))
        assert taken() < 32 * MIB, taken()
        refused(send(d, rootfs("2", noise.randbytes(24 * MIB)), "two"), "limit", "own_image_bytes")
        for what in ([(f"{i}{'/d' * 50}/f", {}, b"") for i in range(200)], [(str(i), {}, b"") for i in range(6000)]):
            refused(send(d, rootfs("2", entries=what), "two"), "limit", "own_image_bytes")
        # one that is removed makes room
        for _ in range(5):
            d.good("DELETE", "/v1/images?ref=two", token=daemon.TENANT)
            made(send(d, rootfs("2", noise.randbytes(2 * MIB)), "two"))
        assert taken() < 32 * MIB, taken()
        # what another has counts for that one
        for n in range(3):
            made(send(d, rootfs("3"), f"n{n}", daemon.OTHER))
        refused(send(d, rootfs("3"), "n3", daemon.OTHER), "limit", "3 images")
        box = d.good("POST", "/v1/sandboxes", {"image": "one"}, token=daemon.TENANT)["id"]
        refused(d.post(f"/v1/sandboxes/{box}/commit", {"image": "three"}, token=daemon.TENANT), "limit", "own_images")
        d.exec(box, "/bin/busybox", "sh", "-c", "/bin/busybox head -c 28000000 /dev/urandom > /big", token=daemon.TENANT)
        refused(d.post(f"/v1/sandboxes/{box}/commit", {"image": "two"}, token=daemon.TENANT), "limit", "own_image_bytes")
        b.wait_for(lambda: not os.listdir(store() + "/tmp") or b.berth("image", "gc").code, 30, "tmp of the store to be empty")


def test_S44_two_images_at_once_do_not_both_take_what_is_left():
    noise = random.Random(2)
    bodies = [rootfs("x", noise.randbytes(7 * MIB)) for _ in range(4)]
    with Daemon(tcp=True, config=MAY + 'own_image_bytes = "32m"\n') as d:
        def one(n):
            c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=120 * b.SLOW)
            c.request("POST", f"/v1/images/import?name=n{n}", bodies[n], {**RAW, "Authorization": "Bearer " + daemon.TENANT})
            try:
                return c.getresponse().status
            finally:
                c.close()

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            got = sorted(pool.map(one, range(4)))
        assert got == [201, 429, 429, 429] and len(names(d, daemon.TENANT)) == 1 and taken() < 32 * MIB, (got, taken())


@b.deadline(120)
def test_S44_what_a_kill_leaves_is_not_more_than_the_tenant_may_have():
    """Else making, replacing and removing, each ended at its worst moment, would fill the disk."""
    noise = random.Random(3)
    env = {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), MAY + 'own_image_bytes = "32m"\n', 0o600)}
    own = ("--tenant", "alice")

    def archive():
        return b.write(b.tmp("a.tar"), rootfs("x", noise.randbytes(4 * MIB)))

    b.berth("image", "import", *own, archive(), "app", env=env, ok=True)
    for step in range(1, 16):
        words = ("import", *own, archive(), "app") if step % 3 else ("rm", *own, "app")
        p = b.start("image", *words, env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            p.wait(timeout=step * 0.02)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
    b.berth("image", "import", *own, archive(), "app", env=env, ok=True)
    assert taken() < 32 * MIB, taken()
    b.berth("image", "fsck", env=env, ok=True)
    assert b.run("app@alice", "/bin/busybox", "cat", "/word", env=env, ok=True).out == "x"
    b.berth("image", "rm", *own, "app", env=env, ok=True)
    assert not os.listdir(store() + "/layers"), "what was removed was not collected"
    # ended between the two it says so in its lock: the next image waits for the collection
    for said, left in ((b"", 1), (b"\0", 0)):
        b.write(f"{store()}/layers/{'ab' * 32}/f")
        with open(store() + "/tenants/alice", "wb") as f:
            f.write(said)
        b.berth("image", "import", *own, archive(), "app", env=env, ok=True)
        assert os.path.exists(f"{store()}/layers/{'ab' * 32}") == left, said
    assert not os.stat(store() + "/tenants/alice").st_size


@b.deadline(120)
def test_S44_the_bound_holds_while_the_bytes_arrive():
    """A bomb of 600 MiB on a file system of 512: the maximum ends it, before the disk does."""
    reg.need("zstd", "mkfs.ext4")
    image, where = b.tmp("fs.img"), b.tmpdir("mnt")
    with open(image, "wb") as f:
        f.truncate(512 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, where], check=True)
    try:
        os.mkdir(where + "/state", 0o700)
        header = tarfile.TarInfo("zeros")
        header.size = 600 * MIB
        with open(b.tmp("bomb"), "wb") as out, subprocess.Popen(["zstd", "-q", "-1", "-c"], stdin=subprocess.PIPE, stdout=out) as z:
            z.stdin.write(header.tobuf())
            for _ in range(600):    # a 64th of it is noise: not so small that it is told by that
                z.stdin.write(os.urandom(MIB // 64) + bytes(MIB - MIB // 64))
            z.stdin.write(bytes(1024))
        with open(b.tmp("bomb"), "rb") as f:
            bomb = f.read()
        with Daemon(tcp=True, config=MAY + 'own_image_bytes = "32m"\n', env={"BERTH_STATE_DIR": where + "/state"}) as d:
            refused(send(d, bomb), "limit", "own_image_bytes")
            # without a maximum for whoever is not a tenant, it is the disk that ends it
            full = send(d, bomb, token=daemon.TOKEN)
            assert full.status >= 500 and b"No space left" in full.body, full
    finally:
        subprocess.run(["umount", where], check=True)


def test_S44_to_know_the_digest_of_a_layer_is_not_to_have_it():
    with Daemon(tcp=True, config=MAY) as d:
        lo = oci.Layout(b.tmp("whole"))
        lo.image([rootfs("secret of alice")], ref="mine:1", compress="gzip")

        def archive(path):
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w") as t:
                t.add(path, ".")
            return out.getvalue()

        whole = archive(lo.path)
        theirs = made(send(d, whole, None, what="load"))
        layer = d.good("GET", "/v1/images/inspect?ref=mine:1", token=daemon.TENANT)["layers"][0]
        os.unlink(os.path.join(lo.path, "blobs", layer["digest"].replace(":", "/")))
        hollow = archive(lo.path)
        # whether somebody has the layer or nobody does is all the same to another
        there = send(d, hollow, "stolen", daemon.OTHER, "import")
        d.good("DELETE", "/v1/images?ref=mine:1", token=daemon.TENANT)
        b.berth("image", "gc", ok=True)
        absent = send(d, hollow, "stolen", daemon.OTHER, "import")
        assert there.status == absent.status == 422 and there.body == absent.body, (there, absent)
        assert names(d, daemon.OTHER) == []
        # with its bytes it has it, and both keep it as long as one of them does
        assert made(send(d, whole, None, daemon.OTHER, "load"))["digest"] == theirs["digest"]
        made(send(d, whole, None, what="load"))
        d.good("DELETE", "/v1/images?ref=mine:1", token=daemon.TENANT)
        assert word(d, "mine:1", daemon.OTHER) == "secret of alice"


def test_S44_a_body_that_stalls_keeps_only_its_own_tenant_waiting():
    data = rootfs("slow")[:300000]
    with Daemon(tcp=True, config=MAY) as d:
        made(send(d, rootfs("old"), "old", daemon.OTHER))
        with begun(d, daemon.TENANT, data):
            b.wait_for(lambda: any(os.listdir(f"{store()}/tmp/{t}") for t in os.listdir(store() + "/tmp")), 30, "the first bytes")
            # others make and remove, what was removed is collected, and the operator has the store
            d.good("DELETE", "/v1/images?ref=old", token=daemon.OTHER)
            assert not os.listdir(store() + "/layers"), "what was removed was not collected"
            made(send(d, rootfs("new"), "new", daemon.OTHER))
            b.berth("image", "gc", ok=True)
            assert word(d, "new", daemon.OTHER) == "new"
            # that is what keeps two images of one tenant from both having what is left
            with open(store() + "/tenants/alice", "rb") as f:
                try:
                    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    raise AssertionError("a collection took the tenant's lock away")
                except BlockingIOError:
                    pass
        # the body will never be whole: it is over, and the tenant's next is made
        made(send(d, rootfs("next"), "next"))
        assert names(d, daemon.TENANT) == ["next:latest"]


def test_S44_prune_and_gc_leave_what_tenants_have():
    with Daemon(tcp=True, config=MAY) as d:
        made(send(d, rootfs("kept"), "kept"))
        b.berth("image", "import", b.write(b.tmp("root.tar"), rootfs("root")), "unused", ok=True)
        b.berth("image", "prune", "--all", ok=True)
        b.berth("image", "gc", ok=True)
        assert names(d, None) == ["kept:latest@alice"] and word(d, "kept", daemon.TENANT) == "kept"
        assert b.berth("image", "fsck", ok=True)
        # the operator knows it by its whole name: runs it, shares it on purpose, takes it away
        assert b.run("kept@alice", "/bin/busybox", "cat", "/word", ok=True).out == "kept"
        b.berth("image", "tag", "kept@alice", "given@bob", ok=True)
        assert names(d, daemon.OTHER) == ["given:latest"] and word(d, "given", daemon.OTHER) == "kept"
        b.berth("image", "rm", "kept@alice", ok=True)
        assert names(d, daemon.TENANT) == [] and word(d, "given", daemon.OTHER) == "kept"
