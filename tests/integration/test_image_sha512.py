# SPDX-License-Identifier: Apache-2.0
"""Images whose digests are of SHA-512: in, out, checked, and side by side with the others."""
import json
import os

import berthtest as b
import ocilayout as oci
import registry as reg

COST = 8

S512 = "sha512"


def tars():
    with open(b.BUSYBOX, "rb") as f:
        busybox = f.read()
    return [oci.tar_bytes([("bin/busybox", {"mode": 0o755}, busybox), ("one", {}, b"1")]), oci.tar_bytes([("two", {}, b"2")])]


def flip(path):
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 2)
        was = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([was ^ 1]))


def blobs(store):
    """algorithm/hex of all blobs, each compared with its name."""
    out = {}
    for name in (f"{a}/{h}" for a in ("sha256", S512) for h in os.listdir(f"{store}/blobs/{a}")):
        with open(f"{store}/blobs/{name}", "rb") as f:
            out[name] = f.read()
        assert oci.digest(out[name], name[:6])[7:] == name[7:], name
    return out


def test_a_layout_of_sha512_goes_in_runs_and_comes_out():
    lay = oci.Layout(b.tmp("lay"), S512)
    digest = lay.image(tars(), compress="zstd")["digest"]
    store = os.path.join(b.root(), "state", "store")
    done = json.loads(b.berth("image", "import", "--json", b.tmp("lay"), "big:1", ok=True).out)
    assert digest in json.dumps(done) and digest.startswith("sha512:"), done
    assert b.run("big:1", "/bin/busybox", "cat", "/one", "/two", ok=True).out == "12"
    # by digest, in all ways to write it
    for name in ("big@" + digest, "big:1@" + digest, digest, digest[:30], digest[7:40]):
        assert json.loads(b.berth("image", "inspect", "--json", name, ok=True).out)["digest"] == digest, name
    b.one_line_error(b.berth("image", "inspect", "big@sha512:" + "0" * 128), 125, "not in the store")
    record = json.loads(b.berth("image", "inspect", "--json", "big:1", ok=True).out)
    assert all(x["digest"].startswith("sha512:") and x["diff_id"].startswith("sha512:") for x in record["layers"])
    assert all(len(x) == 64 for x in os.listdir(store + "/layers"))
    # the same content under SHA-256 is another image
    other = oci.Layout(b.tmp("lay256")).image(tars(), compress="zstd")["digest"]
    b.berth("image", "import", b.tmp("lay256"), "big:256", ok=True)
    assert len(blobs(store)) == 8
    assert " 0 problems" in b.berth("image", "fsck", ok=True).out
    b.berth("image", "export", "big:1", b.tmp("out"), ok=True)
    b.berth("image", "save", "-o", b.tmp("out.tar"), "big:1", "big:256", ok=True)
    with open(b.tmp("out/index.json")) as f:
        assert [m["digest"] for m in json.load(f)["manifests"]] == [digest]
    assert set(os.listdir(b.tmp("out/blobs/sha512"))) == set(os.listdir(b.tmp("lay/blobs/sha512")))
    used = b.berth("system", "df", "--json", ok=True).out
    b.berth("image", "rm", "big:1", ok=True)
    b.berth("image", "prune", ok=True)
    b.berth("image", "gc", ok=True)
    assert not os.listdir(store + "/blobs/sha512") and len(blobs(store)) == 4 and used
    b.berth("image", "load", "-i", b.tmp("out.tar"), ok=True)
    b.berth("image", "inspect", "big@" + digest, ok=True)
    b.berth("image", "inspect", "big@" + other, ok=True)
    assert len(blobs(store)) == 8 and " 0 problems" in b.berth("image", "fsck", ok=True).out


def test_a_flipped_bit_of_a_sha512_blob_is_refused_and_found():
    lay = oci.Layout(b.tmp("lay"), S512)
    lay.image(tars())
    store = os.path.join(b.root(), "state", "store")
    top = b.tmp("lay/blobs/sha512/")
    for name in sorted(os.listdir(top)):
        flip(top + name)
        b.one_line_error(b.berth("image", "import", b.tmp("lay"), "bad:1"), 125)
        flip(top + name)
    b.berth("image", "import", b.tmp("lay"), "good:1", ok=True)
    layer = json.loads(b.berth("image", "inspect", "--json", "good:1", ok=True).out)["layers"][0]["digest"]
    flip(f"{store}/blobs/{layer.replace(':', '/')}")
    p = b.berth("image", "fsck")
    assert p.code == 125 and layer[7:] in p.out and "damaged" in p.out, p
    b.berth("image", "fsck", "--repair")
    b.berth("image", "import", b.tmp("lay"), "good:1", ok=True)
    assert " 0 problems" in b.berth("image", "fsck", ok=True).out


def test_an_algorithm_we_do_not_know_is_named():
    lay = oci.Layout(b.tmp("lay"))
    desc, diff = lay.layer(tars()[1])
    for change, words in ((dict(desc, digest="blake3:" + desc["digest"][7:]), "algorithm 'blake3'"),
                          (dict(desc, digest="sha512:" + desc["digest"][7:]), "128")):
        lay.index(lay.desc(json.dumps(lay.manifest(lay.config([diff]), [change])).encode(), oci.T_MANIFEST))
        b.one_line_error(b.berth("image", "import", b.tmp("lay"), "x:1"), 125, words)
    lay.index(lay.desc(json.dumps(lay.manifest(lay.config(["sha384:" + "a" * 96]), [desc])).encode(), oci.T_MANIFEST))
    b.one_line_error(b.berth("image", "import", b.tmp("lay"), "x:1"), 125, "algorithm 'sha384'", "sha512 are")


def test_a_registry_with_sha512():
    image = reg.Image(tars(), algorithm=S512)
    digest = oci.digest(image.manifest, S512)
    said = {}

    def documents(r):
        if "/manifests/" not in r.path or r.method != "GET":
            return False
        r.reply(200, image.manifest, Content_Type=oci.T_MANIFEST, **said)
        return True

    with reg.Mock(image, evil=documents) as m:
        env = reg.config(insecure=[m.host], retries=0)
        ref = f"{m.host}/team/app"
        # a tag is known by SHA-256, a digest by its own algorithm
        assert b.berth("pull", "-q", ref + ":1", env=env, ok=True).out.strip() == oci.digest(image.manifest)
        p = b.berth("pull", "-q", f"{ref}@{digest}", env=env, ok=True)
        assert p.out.strip() == digest, (p, digest)
        out = b.run("--pull", "never", f"{ref}@{digest}", "/bin/busybox", "cat", "/two", env=env, ok=True).out
        assert out == "2"
        said["Docker_Content_Digest"] = digest
        b.berth("pull", ref + ":2", env=env, ok=True)
        said["Docker_Content_Digest"] = "sha512:" + "0" * 128
        b.one_line_error(b.berth("pull", ref + ":3", env=env), 125, "digest")
        said.clear()
        b.one_line_error(b.berth("pull", f"{ref}@sha512:" + "0" * 128, env=env), 125, "digest")
        assert " 0 problems" in b.berth("image", "fsck", ok=True).out
    with reg.Keeper() as k:
        env = reg.config(insecure=[k.host])
        b.berth("push", f"{ref}@{digest}", f"{k.host}/x/y@{digest}", env=env, ok=True)
        assert set(k.kept) == set(image.blobs()) and k.manifests == {f"/v2/x/y/manifests/{digest}": image.manifest}
