# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in the storage of the manager, a directory or S3: their bounds (S41), and what is left of those cut short."""
import os
import signal
import threading

import berthtest as b
import daemon
import s3server
from daemon import Daemon
from managed import FAST, s3_config
from proc import children
from s3server import Held
from test_checkpoint import needs_file
from test_checkpoint_faces import Id, as_tenant, kept, put, text_of

COST = 15
ALICE, BOB = as_tenant(daemon.TENANT), as_tenant(daemon.OTHER)


def directory():
    place = b.tmpdir("stored")
    os.chmod(place, 0o700)
    return f'[storage]\nurl = "file:{place}"\n' + FAST


def pieces(s3):
    return sorted(k for k in s3.objects if "/checkpoints/" in k)


def files():
    return sorted(f for d, _, names in os.walk(b.tmp("stored")) for f in names)


def with_checkpoint(d, mib=0, **who):
    box = d.create(**who)
    needs_file(Id(box))
    put(d, box, "one", **who)
    if mib:
        d.exec(box, "sh", "-c", f"head -c {mib << 20} /dev/urandom > /big", **who)
    d.good("POST", f"/v1/sandboxes/{box}/checkpoints", {"name": "clean"}, **who)
    put(d, box, "two", **who)
    return box


def store(d, box, name=None, checkpoint="k1", **who):
    return d.request("POST", f"/v1/sandboxes/{box}/checkpoints/{checkpoint}/store", {"name": name} if name else {}, **who)


def listed(d, query="", **who):
    return d.good("GET", "/v1/checkpoints" + query, **who)["checkpoints"]


def stored_and_restored(d, left):
    box = with_checkpoint(d, 5, **ALICE)
    one = store(d, box, "base", "clean", **ALICE)
    assert one.status == 201 and (one.json["name"], one.json["tenant"], one.json["state"]) == ("base", "alice", "stored"), one
    assert one.json["digest"].startswith("sha256:") and one.json["image"] == "host" and one.json["bytes"] > 5 << 20, one
    assert listed(d, **ALICE) == [one.json] and listed(d, **BOB) == []
    assert listed(d) == [one.json] == listed(d, "?tenant=alice") and listed(d, "?tenant=bob") == []
    assert len(left()) == 3
    # another's is not there, by its name neither; a name is taken once by each
    for method, rest in (("POST", "/restore"), ("DELETE", "")):
        r = d.request(method, f"/v1/checkpoints/base{rest}", {} if rest else None, **BOB)
        assert r.status == 404 and "no checkpoint is stored" in r.json["error"]["message"], r
        assert d.request(method, f"/v1/checkpoints/base{rest}?tenant=alice", {} if rest else None, **BOB).status == 403
    assert d.get("/v1/checkpoints?tenant=alice", **BOB).status == 403
    assert store(d, box, "base", **BOB).status == 404
    r = store(d, box, "base", **ALICE)
    assert r.status == 409 and "another name" in r.json["error"]["message"] + r.json["error"].get("remedy", ""), r
    assert len(left()) == 3
    assert store(d, box, "base").status == 201 and len(listed(d)) == 2      # the operator's
    d.good("DELETE", f"/v1/sandboxes/{box}?force=true", **ALICE)
    r = d.request("POST", "/v1/checkpoints/base/restore", {"name": "again"}, **ALICE)
    assert r.status == 201 and (r.json["name"], r.json["dropped"]) == ("again", []), r
    assert text_of(d, r.json["id"], **ALICE) == "one\n" and d.get(f"/v1/sandboxes/{r.json['id']}", **BOB).status == 404
    r = d.request("POST", "/v1/checkpoints/base/restore?tenant=alice", {"no_start": True, "drop": True})
    assert r.status == 201 and d.get(f"/v1/sandboxes/{r.json['id']}", **ALICE).status == 404, r
    for name, status in (("base", 200), ("base", 404), ("none", 404), ("a/../b", 404), ("A%20b", 400), ("%2e%2e", 400)):
        assert d.request("DELETE", f"/v1/checkpoints/{name}", **ALICE).status == status, name
    for body, status in (({"name": "x/y"}, 400), ({"name": "n" * 65}, 400), ({"name": ""}, 400), ({"nope": 1}, 400)):
        assert d.request("POST", f"/v1/sandboxes/{r.json['id']}/checkpoints/k1/store", body).status == status, body
    assert d.request("DELETE", "/v1/checkpoints/base").status == 200
    assert listed(d) == [] and left() == []


@b.deadline(180)
def test_a_checkpoint_goes_to_a_directory_and_comes_back():
    with Daemon(directory(), tcp=True) as d:
        stored_and_restored(d, files)


@b.deadline(180)
def test_a_checkpoint_goes_to_s3_and_comes_back():
    with s3server.S3() as s3, Daemon(s3_config(s3), tcp=True) as d:
        stored_and_restored(d, lambda: pieces(s3))


def test_without_a_storage_it_is_refused_with_what_to_do():
    with Daemon() as d:
        box = with_checkpoint(d)
        for r in (store(d, box), d.get("/v1/checkpoints"), d.delete("/v1/checkpoints/x"), d.post("/v1/checkpoints/x/restore", {})):
            assert r.status == 501 and "[storage] url" in str(r.json["error"]), r


@b.deadline(180)
def test_bytes_of_a_tenant_and_of_all_are_bounded_and_come_back():
    with Daemon('[tenant]\nstored_bytes = "6m"\n' + directory().replace("[storage]\n", '[storage]\ncheckpoint_bytes = "10m"\n'), tcp=True) as d:
        box, small, other = with_checkpoint(d, 9, **ALICE), with_checkpoint(d, **ALICE), with_checkpoint(d, **BOB)
        r = store(d, box, "big", **ALICE)
        assert r.status == 429 and "[tenant] stored_bytes" in str(r.json["error"]), r
        assert listed(d) == [] and files() == []
        for n in range(3):
            assert store(d, small, f"s{n}", **ALICE).status == 201
        assert store(d, small, "s3", **ALICE).status == 429
        assert [c["name"] for c in listed(d, **ALICE)] == ["s0", "s1", "s2"]
        assert store(d, other, "a", **BOB).status == 201 and store(d, other, "b", **BOB).status == 201
        r = store(d, other, "c", **BOB)
        assert r.status == 429 and "[storage] checkpoint_bytes" in str(r.json["error"]), r
        assert store(d, other, "mine").status == 429
        d.good("DELETE", "/v1/checkpoints/s1", **ALICE)
        assert store(d, small, "s3", **ALICE).status == 201
        assert len(files()) == 5
        # a checkpoint that is not there counts for nothing
        assert store(d, small, "none", "k9", **ALICE).status == 404
        for c in listed(d):
            d.good("DELETE", f"/v1/checkpoints/{c['name']}?tenant={c['tenant']}")
        assert files() == []
        for n in range(3):
            assert store(d, small, f"s{n}", **ALICE).status == 201


def is_second_piece(method, path):
    return method == "PUT" and path.endswith("/000001")


def begin_store(d, box):
    s = d.raw_socket(tcp=True)
    body = b'{"name":"half"}'
    s.sendall(f"POST /v1/sandboxes/{box}/checkpoints/k1/store HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {daemon.TENANT}\r\n"
              f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    return s


@b.deadline(180)
def test_an_upload_that_is_cut_short_leaves_nothing_and_gives_its_bytes_back():
    with s3server.S3() as s3, Daemon('[tenant]\nstored_bytes = "8m"\n' + s3_config(s3), tcp=True) as d:
        box = with_checkpoint(d, 5, **ALICE)
        # its client goes
        with Held(s3, is_second_piece) as held:
            s = begin_store(d, box)
            assert held.came.wait(30 * b.SLOW)
            assert [c["state"] for c in listed(d, **ALICE)] == ["storing"]
            r = d.request("POST", "/v1/checkpoints/half/restore", {}, **ALICE)
            assert r.status == 404 and "storing" in r.json["error"]["message"], r
            s.close()
        b.wait_for(lambda: listed(d) == [] and not pieces(s3), 30, "the end of one whose client has gone")
        # it is removed meanwhile
        with Held(s3, is_second_piece) as held:
            s = begin_store(d, box)
            assert held.came.wait(30 * b.SLOW)
            d.good("DELETE", "/v1/checkpoints/half", **ALICE)
        reply = s.recv(65536)
        s.close()
        assert b" 404 " in reply.split(b"\r\n")[0] and b"removed while" in reply, reply
        b.wait_for(lambda: listed(d) == [] and not pieces(s3), 30, "the end of one that was removed")
        # berthd is killed; the next one collects it
        with Held(s3, is_second_piece) as held:
            s = begin_store(d, box)
            assert held.came.wait(30 * b.SLOW)
            d.stop(signal.SIGKILL)
            s.close()
        assert pieces(s3)
        d.start()
        b.wait_for(lambda: listed(d) == [] and not pieces(s3), 30, "the next berthd to collect what the killed one left")
        # all of its bytes are there again
        assert store(d, box, "whole", **ALICE).status == 201
        d.good("DELETE", "/v1/checkpoints/whole", **ALICE)
        assert not pieces(s3)


@b.deadline(180)
def test_a_storage_that_fails_or_lies_makes_no_sandbox():
    with s3server.S3() as s3, Daemon(s3_config(s3).replace('retry = "5s"', 'retry = "0"'), tcp=True) as d:
        box = with_checkpoint(d, 5, **ALICE)
        assert store(d, box, "one", **ALICE).status == 201
        before, whole = kept(), dict(s3.objects)
        keys = pieces(s3)
        for key, change in ((keys[1], None), (keys[2], None), (keys[1], whole[keys[1]][:-1]), (keys[1], bytes(len(whole[keys[1]]))),
                            (keys[0], b"x" * 100), (keys[2], whole[keys[2]] + b"more")):
            if change is None:
                del s3.objects[key]
            else:
                s3.objects[key] = change
            r = d.request("POST", "/v1/checkpoints/one/restore", {}, **ALICE)
            assert r.status >= 400, (key, r)
            b.wait_for(lambda: not children(d.p.pid), 30, "the programs of berthd")
            assert kept() == before, (key, r)
            s3.objects[key] = whole[key]
        assert d.request("POST", "/v1/checkpoints/one/restore", {}, **ALICE).status == 201


@b.deadline(120)
def test_two_at_once_take_turns_and_one_name_is_stored_once():
    with Daemon(directory(), tcp=True) as d:
        box = with_checkpoint(d, 5, **ALICE)
        replies = []

        def one(n):
            replies.append(d.request("POST", f"/v1/sandboxes/{box}/checkpoints/k1/store", {"name": "same"}, timeout=100 + n, **ALICE).status)

        threads = [threading.Thread(target=one, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(replies) == [201, 409, 409, 409], replies
        assert len(listed(d)) == 1 and len(files()) == 3
        r = d.post("/create", {"sandbox_type": "base", "storage_path": "checkpoints/o"})
        assert "berthd's own" in r.body.decode() or r.status >= 400, r


def test_what_a_killed_berthd_had_not_written_to_its_end_goes_with_the_rest():
    with Daemon(directory(), tcp=True) as d:
        box = with_checkpoint(d, **ALICE)
        assert store(d, box, "one", **ALICE).status == 201
        place = next(p for p, _, names in os.walk(b.tmp("stored")) if names)
        with open(os.path.join(place, "..put-0123456789abcdef.1234.new"), "w") as f:
            f.write("half a piece")
        d.good("DELETE", "/v1/checkpoints/one", **ALICE)
        assert files() == [] and not os.path.exists(place), files()


def test_an_administrator_names_tenants_as_they_can_be_called():
    with Daemon(directory(), tcp=True) as d:
        box = with_checkpoint(d, **ALICE)
        for whose in ("a" * 65, "a" * 190, "../x", "a/b", "A"):
            for method, path, body in (("POST", f"sandboxes/{box}/checkpoints/k1/store", {"name": "one"}), ("DELETE", "checkpoints/one", None),
                                       ("POST", "checkpoints/one/restore", {})):
                r = d.request(method, f"/v1/{path}?tenant={whose}", body)
                assert r.status == 400 and "not a tenant's name" in r.json["error"]["message"], (whose, r)
        assert listed(d) == [] and files() == []


@b.deadline(180)
def test_a_removal_does_not_fail_since_a_piece_came_at_that_moment():
    with Daemon(directory(), tcp=True) as d:
        box = with_checkpoint(d, 60, **ALICE)
        for _ in range(12):
            ended, replies = threading.Event(), []

            def remove(n):
                while not ended.is_set():
                    replies.append(d.request("DELETE", "/v1/checkpoints/one", timeout=70 + n, **ALICE))

            threads = [threading.Thread(target=remove, args=(n,)) for n in range(3)]
            for t in threads:
                t.start()
            try:
                stored = store(d, box, "one", **ALICE)
            finally:
                ended.set()
                for t in threads:
                    t.join()
            assert stored.status in (201, 404), stored
            assert all(r.status == 200 or "no checkpoint is stored" in r.json["error"]["message"] for r in replies), replies
            d.request("DELETE", "/v1/checkpoints/one", **ALICE)      # one that came after all of them
            b.wait_for(lambda: listed(d) == [] and files() == [], 30, "the end of what was removed")
