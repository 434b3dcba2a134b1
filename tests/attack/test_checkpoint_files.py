# SPDX-License-Identifier: Apache-2.0
"""
S49: the file of a checkpoint that a tenant sends to berthd is hostile input.  It makes a sandbox of that tenant, within its
bounds, or nothing at all; it asks nothing of the host, of others, or of the importer.
"""
import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import tarfile

import berthtest as b
import daemon
from daemon import Daemon
from portable import entry, made, packed
from proc import children

COST = 10
ALICE, BOB = {"tcp": True, "token": daemon.TENANT}, {"tcp": True, "token": daemon.OTHER}
MAY = "[tenant]\nimport = true\n"
GOOD = packed([entry("d", tarfile.DIRTYPE, mode=0o755), entry("d/f", data=b"one\n", uid=5, gid=6)])


def kept():
    return sorted(os.listdir(os.path.join(b.root(), "state", "sandboxes")))


def needs_file(box):
    if os.path.isdir(os.path.join(b.root(), "state/sandboxes", box, "writable")):
        raise b.skip("the state directory has project quotas: a running sandbox has no checkpoints there")


def text_of(d, box, path="/f", **who):
    return d.exec(box, "cat", path, **who)["stdout"]


def put(d, box, text, **who):
    d.exec(box, "sh", "-c", f"echo {text} > /f", **who)


def data_of(*args, **members):
    with open(made(*args, **members), "rb") as f:
        return f.read()


def with_options(*pairs, layer=GOOD, **more):
    return data_of(layer, spec={"version": 1, "image": "host", "options": list(map(list, pairs)), **more})


def send(d, data, query="", **who):
    return d.request("POST", "/v1/checkpoints/import" + query, data, **who)


def programs_end(d):
    b.wait_for(lambda: not children(d.p.pid), 30, "the programs of berthd")


def nothing_is_left(d, before):
    programs_end(d)
    assert kept() == before, (kept(), before)
    state = os.path.join(b.root(), "state")
    assert not [n for n in os.listdir(state) if "tmp" in n or "part" in n], os.listdir(state)


@b.deadline(120)
def test_a_checkpoint_goes_to_a_file_and_becomes_a_sandbox_of_the_importer():
    with Daemon(MAY, tcp=True) as d:
        box = d.create("work", memory="64m", env=["WHO=first"], **ALICE)
        needs_file(box)
        put(d, box, "one", **ALICE)
        d.good("POST", f"/v1/sandboxes/{box}/checkpoints", {"name": "clean"}, **ALICE)
        put(d, box, "two", **ALICE)
        path = f"/v1/sandboxes/{box}/checkpoints/clean/export"
        r = d.get(path, **ALICE)
        assert r.status == 200 and r.headers["content-type"] == "application/x-tar", r
        assert d.get(path, **BOB).status == 404
        assert d.get(path.replace("clean", "none"), **ALICE).status == 404
        assert d.get(path.replace("clean", "k" * 300), **ALICE).status == 404
        with tarfile.open(fileobj=io.BytesIO(r.body)) as t:
            doc = json.load(t.extractfile("checkpoint.json"))
        assert dict(map(tuple, doc["spec"]["options"]))["memory"] == "64m", doc
        got = send(d, r.body, "?name=twin", **BOB)
        assert got.status == 201 and (got.json["name"], got.json["dropped"]) == ("twin", []), got
        one = got.json["id"]
        assert text_of(d, one, **BOB) == "one\n"
        assert d.exec(one, "sh", "-c", "echo $WHO", **BOB)["stdout"] == "first\n"
        assert d.get(f"/v1/sandboxes/{one}", **ALICE).status == 404
        assert d.get(f"/v1/sandboxes/{one}", **BOB).json["memory_limit_bytes"] == 64 << 20
        # the name of another's sandbox is taken, without words about it
        got = send(d, r.body, "?name=work", **BOB)
        assert got.status == 409 and box not in got.json["error"]["message"], got
        got = send(d, r.body, "?name=rest&no_start=true", **BOB)
        assert got.status == 201 and d.get(f"/v1/sandboxes/{got.json['id']}", **BOB).json["status"] != "running", got
        for query in ("?name=--json", "?name=" + "n" * 200, "?trust=true&drop=true", "?nope=1", "?trust=maybe"):
            assert send(d, r.body, query, **BOB).status == 400, query
        programs_end(d)


@b.deadline(120)
def test_what_the_operator_gave_a_tenants_sandbox_is_not_in_the_tenants_file():
    with Daemon(MAY, tcp=True) as d:
        share = b.tmpdir("share")
        profile = b.write(b.tmp("profile.json"), json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["swapon"], "action": "SCMP_ACT_ERRNO"}]}))
        box = b.berth("create", "--tenant", "alice", "--volume", f"{share}:/share", "--cap-drop", "CHOWN", "--memory", "64m",
                      "--seccomp", profile, "host", ok=True).out.strip()
        needs_file(box)
        b.berth("checkpoint", box, ok=True)
        path = f"/v1/sandboxes/{box}/checkpoints/k1/export"
        r = d.get(path, **ALICE)
        assert r.status == 200 and share.encode() not in r.body and b"SCMP" not in r.body and b"64m" in r.body, r
        b.one_line_error(b.berth("checkpoint", "export", "--tenant", "bob", "-o", b.tmp("bobs.tar"), f"{box}@k1"), 125, "tenant bob has no")
        # the operator has it
        assert share.encode() in d.get(path).body
        assert send(d, r.body, **ALICE).status == 201


@b.deadline(180)
def test_options_of_a_strangers_file_reach_nothing():
    with Daemon(MAY + 'memory_limit = "256m"\n', tcp=True) as d:
        assert d.post("/v1/volumes", {"name": "data"}, **ALICE).status == 201
        assert d.post("/v1/networks", {"name": "mine", "internal": True}, **ALICE).status == 201
        before = kept()
        reaching = [("volume", "/etc:/x"), ("volume", "data:/x"), ("mount", "type=bind,src=/etc,dst=/x"), ("device", "/dev/kvm"),
                    ("gpus", "all"), ("cap-add", "SYS_ADMIN"), ("network", "host"), ("network", "bridge"), ("network", "mine"),
                    ("network", "mine@alice"), ("network", "container:work"), ("publish", "80:80"), ("seccomp", "unconfined"),
                    ("seccomp", "/etc/passwd"), ("env", "HOME"), ("env-file", "/etc/passwd"), ("label-file", "/etc/passwd"),
                    ("label", "berth.managed-by=berthd"), ("label", "berth.face=e2b"), ("owner-pid", "1"), ("io-rate", "/dev/vda:1m"),
                    ("cpuset", "0"), ("add-host", "a:1.2.3.4"), ("alias", "db"), ("tenant", "bob"), ("name", "x"), ("pull", "always")]
        for pair in reaching:
            r = send(d, with_options(pair), **ALICE)
            assert r.status == 403 and pair[0] in r.json["error"]["message"], (pair, r)
            assert kept() == before, pair
            r = send(d, with_options(pair, ("memory", "64m")), "?drop=true", **ALICE)
            assert r.status == 201 and r.json["dropped"] == [pair[0]], (pair, r)
            one = json.loads(b.berth("inspect", r.json["id"], ok=True).out)
            assert one["limits"]["memory_bytes"] == 64 << 20 and one["labels"] == {} and one["network"]["mode"] == "none", (pair, one)
            assert one["owner"] == "alice" if "owner" in one else True
            d.good("DELETE", f"/v1/sandboxes/{r.json['id']}?force=true", **ALICE)
        # trust gives a tenant what it may ask for itself, and no more
        for pair in reaching:
            r = send(d, with_options(pair), "?trust=true", **ALICE)
            own = pair in (("volume", "data:/x"), ("network", "mine"))
            if pair[0] == "alias":
                assert r.status in (400, 403), r
                continue
            assert r.status == (201 if own else 403), (pair, r)
            if own:
                d.good("DELETE", f"/v1/sandboxes/{r.json['id']}?force=true", **ALICE)
        assert send(d, with_options(("volume", "data:/x"), ("network", "mine")), "?trust=true", **BOB).status in (403, 404)
        # a profile of its own, a directory as the image, and more than the tenant may have
        for data, status in ((with_options(seccomp="{}"), 403), (data_of(GOOD, image="/"), 403), (data_of(GOOD, image="/", spec={
                "version": 1, "image": "/", "options": []}), 403), (with_options(("memory", "1g")), 429), (with_options(("memory", "-1")), 400)):
            for query in ("", "?trust=true"):
                r = send(d, data, query, **ALICE)
                assert r.status == status, (query, r)
        nothing_is_left(d, before)
        assert d.delete("/v1/networks/mine", **ALICE).status == 200 and d.delete("/v1/volumes/data", **ALICE).status == 200


@b.deadline(180)
def test_hostile_files_are_refused_and_leave_nothing():
    with Daemon(MAY, tcp=True) as d:
        before = kept()
        whole, digest = data_of(GOOD), "sha256:" + hashlib.sha256(GOOD).hexdigest()
        zeros = subprocess.run("head -c 3000000000 /dev/zero | zstd -qc", shell=True, capture_output=True, check=True).stdout
        cases = [(whole[:n], "ends early") for n in (0, 1, 511, 512, 600, 1600, 2047, 2500) if n < len(whole)]
        cases += [
            (data_of(GOOD, layer={"digest": "sha256:" + "0" * 64, "size": len(GOOD)}), "digest"),
            (data_of(GOOD, layer={"digest": digest, "size": 1 << 62}), "size"),
            (data_of(GOOD, layer={"digest": digest, "size": -1}), "size"),
            (huge(1 << 50), "cannot hold"), (huge((1 << 63) - 1), "cannot hold"), (huge(1 << 63), ""),
            (data_of(GOOD, after=["checkpoint.json"]), "more in it"),
            (data_of(GOOD, names=("checkpoint.json", "checkpoint.json")), "no file of berth"),
            (data_of(GOOD, names=("../../checkpoint.json", "layer.tar.zst")), "no file of berth"),
            (data_of(GOOD, manifest=b'{"image": "host", "image": "/"}'), "checkpoint.json"),
            (data_of(GOOD, manifest=b"[" * 100000), "checkpoint.json"),
            (data_of(GOOD, manifest=b" " * (1 << 20) + b"{}"), "more than"),
            (whole + b"x", "more in it"), (whole + bytes(4 << 20), "more in it"),
            (data_of(zeros), ""), (data_of(packed([entry("z", data=b"\0" * (300 << 20))])), ""),
            (data_of(packed([entry("../../escape", data=b"x")])), ""),
            (data_of(packed([entry("l", tarfile.SYMTYPE, "/var/tmp"), entry("l/escape", data=b"x")])), ""),
            (data_of(packed([entry("h", tarfile.LNKTYPE, "../../../../etc/passwd")])), ""),
            (data_of(packed([entry("dev", tarfile.SYMTYPE, "/var/tmp")])), "not a directory"),
            (data_of(packed([entry("proc", data=b"")])), "not a directory"),
            (data_of(GOOD, image="no-such:1", image_digest="sha256:" + "1" * 64), "does not have"),
        ]
        for data, word in cases:
            r = send(d, data, "?no_start=true", **ALICE)
            assert r.status >= 400 and word in r.json["error"]["message"], (word, r)
            assert kept() == before, (word, r)
        assert not os.path.exists("/var/tmp/escape") and not os.path.exists(os.path.join(b.root(), "state", "escape"))
        assert send(d, whole, **ALICE).status == 201        # it is well after all that


def test_a_tenant_imports_only_where_the_operator_says_so():
    with Daemon(tcp=True) as d:
        before = kept()
        r = send(d, data_of(GOOD), **ALICE)
        assert r.status == 403 and "[tenant] import" in str(r.json["error"]), r
        assert kept() == before and not children(d.p.pid)
        assert send(d, data_of(GOOD)).status == 201


def huge(size):
    """The header of a layer says so many bytes, and so does the manifest."""
    manifest = json.dumps({"berth-checkpoint": 1, "checkpoint": {"id": "k1"}, "image": "host", "image_digest": None,
                           "spec": {"version": 1, "image": "host", "options": []},
                           "layer": {"digest": "sha256:" + "0" * 64, "size": min(size, (1 << 63) - 1)}}).encode()
    info = tarfile.TarInfo("checkpoint.json")
    info.size = len(manifest)
    layer = tarfile.TarInfo("layer.tar.zst")
    layer.size = size
    header = bytearray(layer.tobuf(tarfile.GNU_FORMAT))
    header[257:265], header[148:156] = b"ustar\x0000", b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return info.tobuf(tarfile.USTAR_FORMAT) + manifest + bytes(-len(manifest) % 512) + bytes(header) + b"x" * 4096


def begin(d, data, length=None, chunked=False):
    """A request whose body has begun."""
    s = d.raw_socket(tcp=True)
    how = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {length}"
    s.sendall(f"POST /v1/checkpoints/import?name=half HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {daemon.TENANT}\r\n"
              f"{how}\r\n\r\n".encode())
    s.sendall(f"{len(data):x}\r\n".encode() + data + b"\r\n" if chunked else data)
    return s


def begins(before):
    b.wait_for(lambda: kept() != before, 30, "the sandbox that is being made")


def big_file():
    """Whose layer does not fit into the pipes between."""
    return data_of(packed([entry("f", data=os.urandom(8 << 20))]))


@b.deadline(120)
def test_a_client_that_goes_leaves_nothing():
    with Daemon(MAY, tcp=True) as d:
        before, data = kept(), big_file()
        for cut, chunked in ((len(data) // 2, False), (4000, False), (len(data) // 2, True), (len(data), True)):
            s = begin(d, data[:cut], len(data), chunked)
            if cut > 4000:
                begins(before)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.close()
            b.wait_for(lambda: kept() == before and not children(d.p.pid), 30, "the end of an import whose client has gone")
        r = send(d, data, "?name=half", **ALICE)
        assert r.status == 201, r


@b.deadline(120)
def test_a_berthd_that_is_killed_or_stopped_leaves_nothing():
    for sig in (signal.SIGKILL, signal.SIGTERM):
        with Daemon(MAY, tcp=True) as d:
            before, data = kept(), big_file()
            s = begin(d, data[:len(data) // 2], len(data))
            begins(before)
            d.stop(sig)
            s.close()
            b.wait_for(lambda: kept() == before, 30, "the end of an import whose berthd has gone")


@b.deadline(120)
def test_a_program_that_is_killed_leaves_what_the_next_one_collects():
    with Daemon(MAY, tcp=True) as d:
        before, data = kept(), big_file()
        s = begin(d, data[:-100000], len(data))
        begins(before)
        for pid in children(d.p.pid):
            os.kill(int(pid), signal.SIGKILL)
        s.sendall(data[-100000:])
        reply = s.recv(65536)
        s.close()
        assert not reply or b" 500 " in reply.split(b"\r\n")[0], reply     # what is on its way may be too much to read
        programs_end(d)
        b.berth("gc", ok=True)
        assert kept() == before


@b.deadline(120)
def test_an_export_whose_client_goes_leaves_no_file():
    with Daemon(MAY, tcp=True) as d:
        box = d.create("work", **ALICE)
        needs_file(box)
        d.exec(box, "sh", "-c", "head -c 30000000 /dev/urandom > /big", **ALICE)
        d.good("POST", f"/v1/sandboxes/{box}/checkpoints", **ALICE)
        request = (f"GET /v1/sandboxes/{box}/checkpoints/k1/export HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                   f"Authorization: Bearer {daemon.TENANT}\r\n\r\n").encode()
        with d.raw_socket(tcp=True) as slow:
            slow.sendall(request)
            assert slow.recv(1000).startswith(b"HTTP/1.1 200")
            # of a tenant there is one such file at a time; others, and checkpoints, do not wait for its reader
            with d.raw_socket(tcp=True) as second:
                second.sendall(request)
                b.wait_for(lambda: len(children(d.p.pid)) == 2, 30, "both programs")
                d.good("POST", f"/v1/sandboxes/{box}/checkpoints", **ALICE)
                assert d.get(f"/v1/sandboxes/{box}/checkpoints/k1/export").status == 200
                waiting = [p for p in children(d.p.pid) if not deleted_files(p)]
                assert len(waiting) == 1, waiting
            b.wait_for(lambda: len(children(d.p.pid)) == 1, 30, "the end of the second")
        programs_end(d)
        assert d.get(f"/v1/sandboxes/{box}/checkpoints/k1/export", **ALICE).status == 200


def deleted_files(pid):
    """Of the state directory, which the process has open without a name."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            path = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if path.endswith("(deleted)") and path.startswith(os.path.join(b.root(), "state")):
            found.append(path)
    return found


@b.deadline(120)
def test_imports_count_before_they_are_made():
    with Daemon(MAY + 'sandboxes = 1\n', tcp=True) as d:
        first = send(d, data_of(GOOD), **ALICE)
        assert first.status == 201, first
        before = kept()
        r = send(d, data_of(GOOD), **ALICE)
        assert r.status == 429 and "may have 1" in r.json["error"]["message"], r
        assert send(d, data_of(GOOD), **BOB).status == 201
        assert len(kept()) == len(before) + 1


@b.deadline(120)
def test_an_image_of_another_tenant_is_not_there_by_its_digest_either():
    with Daemon(MAY, tcp=True) as d:
        rootfs = io.BytesIO()
        with tarfile.open(fileobj=rootfs, mode="w") as t:
            for info, data in (entry("bin", tarfile.DIRTYPE, mode=0o755), entry("bin/x", data=b"x")):
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))
        r = d.request("POST", "/v1/images/import?name=base:1", rootfs.getvalue(), **BOB)
        assert r.status == 201, r
        digest = d.get("/v1/images/inspect?ref=base:1", **BOB).json["digest"]
        for ref in ("base:1", "base:1@bob", "host"):
            r = send(d, data_of(GOOD, image=ref, image_digest=digest), "?no_start=true", **ALICE)
            assert r.status == 404 and "does not have" in r.json["error"]["message"], (ref, r)
        r = send(d, data_of(GOOD, image="other:2", image_digest=digest), "?no_start=true", **BOB)
        assert r.status == 201, r
