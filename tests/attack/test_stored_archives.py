# SPDX-License-Identifier: Apache-2.0
"""S55: whoever writes the bucket is not believed; an archive is taken back as the ledger knows it, or not at all."""
import contextlib
import hashlib
import json
import os
import sqlite3
import subprocess

import berthtest as b
import s3server
from managed import BOX, FAST, Managed, s3_config


class Folder:
    def __init__(self, where):
        self.where = where

    def read(self):
        found = {}
        for top, _, files in os.walk(self.where):
            for name in files:
                path = os.path.join(top, name)
                with open(path, "rb") as f:
                    found[os.path.relpath(path, self.where)] = f.read()
        return found

    def write(self, objects):
        for name, data in objects.items():
            path = os.path.join(self.where, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(data)


class Bucket:
    def __init__(self, s3):
        self.s3 = s3

    def read(self):
        return {k[2:]: v for k, v in self.s3.objects.items()}

    def write(self, objects):
        for name, data in objects.items():
            self.s3.objects["p/" + name] = data


def zstd(data, *how):
    return subprocess.run(["zstd", "-q", "-c", *how], input=data, stdout=subprocess.PIPE, check=True).stdout


def flipped(data):
    return data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:]


def byte_of_manifest(objects, one, _):
    key = f"archives/{one}/sandbox/manifest.json"
    assert b'"mode":384' in objects[key]
    return {key: objects[key].replace(b'"mode":384', b'"mode":511', 1)}


def byte_of_a_piece(objects, one, _):
    return {k: flipped(v) for k, v in objects.items() if k.startswith(f"archives/{one}/sandbox/chunks/")}


def swapped(objects, one, two):
    ret = {}
    for a, other in ((one, two), (two, one)):
        ret.update({f"archives/{other}/{k.split('/', 2)[2]}": v for k, v in objects.items() if k.startswith(f"archives/{a}/")})
    return ret


def other_spec(objects, one, _):
    """A piece and a manifest that agree with each other."""
    top = f"archives/{one}/sandbox"
    manifest = json.loads(objects[f"{top}/manifest.json"])
    spec = [x for x in manifest["entries"] if x.get("path") == "spec.json"][0]
    text = zstd(objects[f"{top}/chunks/{spec['chunks'][0]}"], "-d")
    doc = json.loads(text)
    doc["options"].append(["volume", "/etc:/host"])
    text = json.dumps(doc).encode()
    name = hashlib.sha256(text).hexdigest() + "." + manifest["upload"]
    spec["chunks"], spec["size"] = [name], len(text)
    return {f"{top}/chunks/{name}": zstd(text), f"{top}/manifest.json": json.dumps(manifest).encode()}


def use(m, name):
    return m.http.post(m.base_url + "/call_tool", json={"identity": name, "tool_name": "run_shell_command", "arguments": {"command": "true"}},
                       timeout=60 * b.SLOW)


def forget_digest(name):
    with contextlib.closing(sqlite3.connect(f"{b.root()}/state/manager/records.db", timeout=20 * b.SLOW, isolation_level=None)) as db:
        assert db.execute("UPDATE kv SET value = json_remove(value, '$.berth.archive_sandbox_sha256') WHERE key = ? AND value LIKE "
                          "'%archive_sandbox_sha256%'", ("sandbox/" + name,)).rowcount == 1


def attack(d, store):
    m = d.manager
    one, two = m.create(), m.create()
    for name in (one, two):
        assert not m.shell(name, f"echo {name} > file")[1]
        assert m.native(f"sandboxes/{name}/archive").ok
    good = store.read()
    kept = [k for k in good if k.startswith("archives/")]
    assert kept
    for how in (byte_of_manifest, byte_of_a_piece, swapped, other_spec):
        store.write(how(good, one, two))
        answer = use(m, one)
        assert not answer.ok and f"archives/{one}/sandbox" in answer.text, (how.__name__, answer.status_code, answer.text)
        left = subprocess.run(["find", f"{b.root()}/state", "-name", "*.part"],
                              stdout=subprocess.PIPE, check=True).stdout
        assert not left, (how.__name__, left)
        assert m.get_status(identity=one) == "archived", how.__name__
        store.write(good)
    for name in (one, two):
        assert m.shell(name, "cat file")[0]["stdout"] == name + "\n"


@b.deadline(180)
def test_an_archive_that_was_changed_in_a_directory_is_refused():
    where = b.tmpdir("storage", 0o700)
    with Managed(BOX + f'[storage]\nurl = "file:{where}"\n' + FAST) as d:
        attack(d, Folder(where))


@b.deadline(180)
def test_an_archive_that_was_changed_in_a_bucket_is_refused():
    with s3server.S3() as s3, Managed(s3_config(s3)) as d:
        attack(d, Bucket(s3))


@b.deadline(120)
def test_an_archive_without_a_digest_is_taken_only_where_the_operator_says_so():
    where = b.tmpdir("storage", 0o700)
    config = BOX + f'[storage]\nurl = "file:{where}"\n'
    for said, accept in (("", False), ("accept_unsigned = true\n", True)):
        with Managed(config + said + FAST) as d:
            m = d.manager
            name = m.create()
            m.shell(name, "echo kept > file")
            assert m.native(f"sandboxes/{name}/archive").ok
            forget_digest(name)
            answer = use(m, name)
            assert answer.ok == accept and (accept or "accept_unsigned" in answer.text), answer.text
            if accept:
                assert m.shell(name, "cat file")[0]["stdout"] == "kept\n"


def checkpoint_pieces(store):
    return sorted(k for k in store.read() if k.startswith("checkpoints/"))


@b.deadline(120)
def test_a_piece_of_a_stored_checkpoint_that_is_not_its_own_is_refused():
    where = b.tmpdir("bucket", 0o700)
    store = Folder(where)
    with Managed(BOX + f'[storage]\nurl = "file:{where}"\n' + FAST) as d:
        box = d.good("POST", "/v1/sandboxes", {"image": "host", "options": {"disk": "32m"}})["id"]
        d.exec(box, "sh", "-c", "head -c 5M /dev/urandom > /root/f")
        d.good("POST", f"/v1/sandboxes/{box}/checkpoints", {"name": "clean"})
        for name in ("a", "b"):
            d.good("POST", f"/v1/sandboxes/{box}/checkpoints/clean/store", {"name": name})
        whole = store.read()
        one, two = ([k for k in checkpoint_pieces(store) if k.startswith(f"checkpoints/o/{n}/")] for n in "ab")
        assert len(one) == len(two) > 2
        assert whole[one[0]][:-32] == whole[two[0]][:-32] and whole[one[0]] != whole[two[0]]

        def ids():
            return sorted(s["id"] for s in d.good("GET", "/v1/sandboxes")["sandboxes"])

        def attack(changed):
            before = ids()
            store.write({**whole, **changed})
            r = d.request("POST", "/v1/checkpoints/a/restore", {})
            assert r.status == 422 and r.json["error"]["code"] == "corrupt", r
            assert ids() == before

        data = bytearray(whole[one[1]])
        data[100] ^= 1
        attack({one[1]: bytes(data)})                                   # a byte
        attack({one[0]: whole[one[0]][:-32]})                           # without its seal
        attack({one[0]: b""})
        attack({one[1]: whole[one[2]], one[2]: whole[one[1]]})          # two pieces swapped
        attack({k: whole[other] for k, other in zip(one, two)})         # the pieces of another
        attack({one[-1]: whole[one[0]]})                                # one twice
        store.write(whole)
        assert d.good("POST", "/v1/checkpoints/a/restore", {})
        # of an older berth: nothing says what it was
        with contextlib.closing(sqlite3.connect(f"{b.root()}/state/manager/records.db", timeout=20 * b.SLOW, isolation_level=None)) as db:
            assert db.execute("UPDATE kv SET value = json_remove(value, '$.seal_key') WHERE key = 'stored/o/a'").rowcount == 1
        r = d.request("POST", "/v1/checkpoints/a/restore", {})
        assert r.status == 422 and "accept_unsigned" in str(r.json["error"]), r
