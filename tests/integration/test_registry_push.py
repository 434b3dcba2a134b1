# SPDX-License-Identifier: Apache-2.0
"""Pushes: in parts, at once, and going on where they broke.

Attacks S15 of SECURITY.md.
"""
import json
import os
import threading

import berthtest as b
import ocilayout as oci
import registry as reg
from dockerdoor import door

COST = 12

CHUNK = 1 << 20


def imported(name, sizes):
    """An image of the store with layers of noise of these sizes; returns its blobs by digest."""
    tars = [oci.tar_bytes([(f"f{i}", {}, reg.random.Random(i).randbytes(n))]) for i, n in enumerate(sizes)]
    lay = oci.Layout(b.tmp(name))
    lay.image(tars, compress="none")
    b.berth("image", "import", b.tmp(name), f"{name}:1", ok=True)
    return {oci.digest(t): t for t in tars}


def push(m, name, ok=True, **conf):
    env = reg.config(insecure=[m.host], upload_chunk=conf.pop("upload_chunk", "1m"), **conf)
    return b.berth("push", "--json", f"{name}:1", f"{m.host}/team/{name}:1", env=env, ok=ok or None)


def events(result):
    return [json.loads(x) for x in result.out.splitlines()]


def arrived(m, blobs):
    """All of it is there, byte for byte, and so is the manifest that names it."""
    assert all(m.kept.get(d) == data for d, data in blobs.items()), {d: len(x) for d, x in m.kept.items()}
    (text,) = m.manifests.values()
    assert all(x["digest"] in m.kept for x in [json.loads(text)["config"], *json.loads(text)["layers"]])


def test_large_layers_go_in_parts_and_small_ones_in_one():
    blobs = imported("a", [CHUNK * 3 + 12345, 1000])
    with reg.Keeper() as m:
        done = events(push(m, "a"))[-1]
        arrived(m, blobs)
        assert done["sent_bytes"] >= sum(map(len, blobs.values())), done
        parts = [r.headers["content-range"] for r in m.seen if r.method == "PATCH"]
        large = len(max(blobs.values(), key=len))
        ends = [*range(CHUNK, large, CHUNK), large]
        assert parts == [f"{max(0, e - 1) // CHUNK * CHUNK}-{e - 1}" for e in ends], parts
        # the small layer and the config: one PUT each; the large one: an empty one
        sizes = sorted(len(r.body) for r in m.seen if r.method == "PUT" and "/uploads/" in r.path)
        assert len(sizes) == 3 and sizes[0] == 0 and sizes[-1] == len(min(blobs.values(), key=len)), sizes
    with reg.Keeper() as m:
        push(m, "a", upload_chunk="0")
        arrived(m, blobs)
        assert not [r for r in m.seen if r.method == "PATCH"]

    def least(r):
        if r.method == "POST":
            with m.lock:
                m.sessions["/v2/up"] = b""
            r.reply(202, Location="/v2/up", OCI_Chunk_Min_Length=str(2 * CHUNK))
        return r.method == "POST"

    with reg.Keeper(evil=least) as m:
        push(m, "a", parallel=1)
        parts = [len(r.body) for r in m.seen if r.method == "PATCH"]
        assert parts == [2 * CHUNK, large - 2 * CHUNK], parts
        arrived(m, blobs)


def test_a_broken_upload_goes_on_where_it_broke():
    blobs = imported("a", [CHUNK * 4])
    size = sum(map(len, blobs.values()))
    breaks = iter([500000, 1, 0, 300000])
    with reg.Keeper(cut=lambda r: next(breaks, None) if r.method == "PATCH" else None) as m:
        p = push(m, "a", retries=4)
        arrived(m, blobs)
        sent = sum(len(r.body) for r in m.seen if r.method == "PATCH")
        assert sent == size, (sent, size)       # no byte came twice
        asked = [r for r in m.seen if r.method == "GET" and "/uploads/" in r.path]
        assert len(asked) == 4, asked
        assert sum(x["event"] == "retry" for x in events(p)) == 4, p.out
        shown = [x["bytes"] for x in events(p) if x["event"] == "layer" and x["total_bytes"] == size]
        assert shown == sorted(shown), shown
    # what a PUT brought before it broke stays, too
    breaks = iter([700])
    with reg.Keeper(cut=lambda r: next(breaks, None) if r.method == "PUT" and "/uploads/" in r.path else None) as m:
        push(m, "a", upload_chunk="0", parallel=1)
        arrived(m, blobs)
        assert [len(r.body) for r in m.seen if r.method == "PATCH"][0] == size - 700, [len(r.body) for r in m.seen]


def test_a_lost_upload_begins_again_and_not_for_ever():
    blobs = imported("a", [CHUNK * 3])
    breaks = iter([None, 1000])
    with reg.Keeper(cut=lambda r: next(breaks, None) if r.method == "PATCH" else None, resumes=False) as m:
        push(m, "a", parallel=1)
        arrived(m, blobs)
        assert len([r for r in m.seen if r.method == "POST"]) == 3      # twice the layer, once the config
    # the answer to the last request is lost, but the blob is there: found, not sent again
    lost = []

    def swallow(r):
        if r.method == "PUT" and "/uploads/" in r.path and not lost:
            lost.append(r)
            r.reply = lambda *words, **headers: None
            m.upload(r)
            r.hang_up()
        return False

    with reg.Keeper(evil=swallow) as m:
        push(m, "a", parallel=1)
        arrived(m, blobs)
        assert lost and sum(len(r.body) for r in m.seen if r.method == "PATCH") == len(next(iter(blobs.values())))
    for resumes in (True, False):
        with reg.Keeper(cut=lambda r: 0 if r.method == "PATCH" else None, resumes=resumes) as m:
            p = push(m, "a", ok=False, retries=2)
            b.expect(p.code == 125 and p.err.count("\n") == 1 and "push blob" in p.err, p, "one error")
            tries = [r for r in m.seen if r.method == "PATCH"]
            assert 1 <= len(tries) <= 3 and not m.manifests, tries


def test_a_registry_without_parts_gets_layers_whole():
    blobs = imported("a", [CHUNK * 2])
    for status in (400, 404, 405, 413, 415, 501):
        def refuse(r, status=status):
            return r.method == "PATCH" and (r.reply(status) or True)

        with reg.Keeper(evil=refuse) as m:
            push(m, "a", parallel=1)
            arrived(m, blobs)
            assert len([r for r in m.seen if r.method == "PATCH"]) == 1


def test_blobs_go_at_once_as_many_as_are_allowed():
    blobs = imported("a", [200000 + i for i in range(8)])
    for most in (1, 3):
        there, met, come = [], [], threading.Condition()

        def wait(r, most=most, there=there, met=met, come=come):
            if r.method == "POST":
                with come:
                    there.append(r)
                    met.append(len(there))
                    come.notify_all()
                    # the first wait for each other: were there only one at a time, they would wait in vain
                    come.wait_for(lambda: max(met) >= most, 20 * b.SLOW)
                    there.remove(r)
            return False

        with reg.Keeper(evil=wait) as m:
            push(m, "a", parallel=most)
            arrived(m, blobs)
            assert max(met) == most and m.most <= most, (met, m.most)


def test_a_registry_that_lies_about_an_upload():
    imported("a", [CHUNK * 3])

    def lie(method, answer):
        return lambda r: r.method == method and (answer(r) or True)

    for name, evil, words in (
            ("keeps more than was sent", lie("PATCH", lambda r: r.reply(202, Range="0-99999999")), "of which"),
            ("nonsense", lie("PATCH", lambda r: r.reply(202, Range="bytes 5-7/x")), "of which"),
            ("keeps nothing", lie("PATCH", lambda r: r.reply(202, Range="0-0")), "keeps"),
            ("416 for ever", lie("PATCH", lambda r: r.reply(416)), "416"),
            ("moves to the metadata address", lie("PATCH", lambda r: r.reply(202, Location="http://169.254.169.254/x")),
             "link-local"),
            ("moves to a file", lie("PATCH", lambda r: r.reply(202, Location="file:///etc/passwd")), "neither http"),
            ("redirects the part", lie("PATCH", lambda r: r.reply(307, Location="/v2/y")), "not followed"),
            ("has more than was sent", lambda r: r.hang_up() if r.method == "PATCH" else
             r.method == "GET" and (r.reply(204, Range="0-3000000") or True), "of which"),
            ("forbids", lie("PATCH", lambda r: r.reply(403)), "forbids")):
        with reg.Keeper(evil=evil) as m:
            p = push(m, "a", ok=False, retries=2, parallel=1)
            b.expect(p.code == 125 and p.err.count("\n") == 1 and words in p.err and not m.manifests, p, name)


def test_parts_and_passwords():
    """The session is elsewhere: it gets the bytes and no password."""
    blobs = imported("a", [CHUNK * 2])
    with reg.Keeper() as other:
        def elsewhere(r):
            if r.method != "POST":
                return False
            with other.lock:
                other.opened += 1
                where = f"/up{other.opened}"
                other.sessions[where] = b""
            r.reply(202, Location=f"http://{other.host}{where}")
            return True

        with reg.Keeper(evil=lambda r: bool(r.authorization) and elsewhere(r), basic="canary:canary-secret") as m:
            reg.log_in(m.host)
            p = push(m, "a", parallel=2)
            assert events(p)[-1]["event"] == "done" and m.manifests
            assert all(other.kept.get(d) == x for d, x in blobs.items()) and not other.credentials_seen()
    os.unlink(os.path.join(b.root(), "state", "auth.json"))


@b.deadline(60)
def test_the_drop_in_tells_a_push_as_docker_does():
    with reg.Keeper() as m:
        imported("told", [1000])
        env = reg.config(insecure=[m.host])
        door("tag", "told:1", f"{m.host}/team/told:1", ok=True, env=env)
        said = door("push", f"{m.host}/team/told:1", ok=True, env=env).stdout.splitlines()
        assert said[0] == f"The push refers to repository [{m.host}/team/told]", said
        assert said[-1].startswith("1: digest: sha256:") and int(said[-1].split(" size: ")[1]) > 0, said
