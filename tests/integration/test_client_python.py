# SPDX-License-Identifier: Apache-2.0
"""The Python client over all its ways to berth: a child, berthd's unix socket, a URL with a token."""
import ast
import asyncio
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import zipfile

import berthtest as b
import daemon
import proc
from managed import FAST, POOL, Managed
from netlab import need_bridge
from zygotebox import PYTHON, needs_zygotes

sys.path.insert(0, os.path.join(b.TOP, "clients/python"))
sys.dont_write_bytecode = True
import berth  # noqa: E402
from berth import errors  # noqa: E402

COST = 30
README = os.path.join(b.TOP, "clients/python/README.md")


def child(kind=berth.Berth):
    return kind(program=b.BERTH, env=b.environment())


def over_all(test):
    """The test by each way."""
    def run():
        with child() as client:
            test(client)
        with daemon.Daemon(tcp=True) as d:
            with berth.Berth("unix://" + d.socket) as client:
                test(client)
            with berth.Berth(f"http://127.0.0.1:{d.port}", token=daemon.TOKEN) as client:
                test(client)
    run.__name__ = test.__name__
    return run


def fails(kind, call, *words):
    try:
        got = call()
    except errors.BerthError as e:
        assert type(e) is kind and e.code == kind.code, repr(e)
        assert all(word in str(e) for word in words), (words, str(e))
        return e
    raise AssertionError(f"no {kind.__name__} but {got!r}")


@b.deadline(120)
@over_all
def test_a_command_has_output_status_and_cause(client):
    with client.create("host", memory="100m", env={"A": "b"}, label={"of": "test"}, allow_host=None) as box:
        r = box.run(["sh", "-c", "echo out $A; echo err >&2; exit 3"])
        assert (r.out, r.err, r.exit_status, r.cause, r.ok) == ("out b\n", "err\n", 3, "exit", False), r
        assert box.run("echo $((6 * 7)) $B; pwd", env={"B": "x y"}, workdir="/tmp").out == "42 x y\n/tmp\n"
        assert box.run(["cat"], stdin="é\0").stdout == "é\0".encode()
        big = os.urandom(3 << 20)
        assert box.run("cat", stdin=big).stdout == big
        r = box.run("head -c 100000 /dev/zero; echo kept >&2", max_output_bytes=1000)
        assert (len(r.stdout), r.stdout_dropped, r.err) == (1000, 99000, "kept\n"), (len(r.stdout), r.stdout_dropped)
        r = box.run("sleep 1000", timeout_ms=100)
        assert (r.cause, r.exit_status) == ("timeout", 124), r
        e = fails(errors.CommandFailed, lambda: box.run("echo why >&2; false", check=True), "status 1", "why")
        assert e.result.exit_status == 1
        fails(errors.CommandNotFound, lambda: box.run(["nosuch"]), "nosuch")
        assert box.id in [j["id"] for j in client.list(filter=["label=of=test"])]
        assert client.list(filter=["label=of=other"]) == []
        assert box.inspect()["status"] == "running" and box.stats()["pids"] >= 1
        assert any(p["pid"] == 1 for p in box.top())
        gone = box.id
    fails(errors.NotFound, lambda: client.attach(gone))
    assert client.run("host", ["echo", "alone"]).out == "alone\n"
    assert client.list(all=True) == []


@b.deadline(120)
@over_all
def test_output_comes_as_it_is_written_and_a_kill_ends_the_tree(client):
    with client.create("host") as box:
        with box.popen("echo ready; read line; echo got $line; cat", stdin_open=True) as p:
            assert next(p) == berth.Output("stdout", b"ready\n")
            p.send("one\n")
            assert next(p).data == b"got one\n"
            p.send(b"two\n", eof=True)
            r = p.wait()
        assert (r.out, r.exit_status) == ("two\n", 0), r
        with box.popen("sleep 1001 & sleep 1002 & echo up; wait") as p:
            assert next(p).text == "up\n"
            b.wait_for(lambda: len([x for x in box.top() if x["command"].startswith("sleep 100")]) == 2, 10, "two processes")
        b.wait_for(lambda: not [x for x in box.top() if x["command"].startswith("sleep 100")], 10, "the end of the tree")
        seen = []
        box.run("echo a; echo b >&2", on_output=seen.append)
        assert sorted((o.stream, o.text) for o in seen) == [("stderr", "b\n"), ("stdout", "a\n")], seen

        def interrupt(piece):
            raise KeyboardInterrupt
        try:
            box.run("echo up; sleep 1003", on_output=interrupt)
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            pass
        b.wait_for(lambda: not [x for x in box.top() if x["command"].startswith("sleep 100")], 10, "the end of the command")


@b.deadline(120)
@over_all
def test_shells_code_and_detached_commands(client):
    with client.create("host") as box:
        sh = box.shell()
        assert sh.run("cd /tmp; x=5; echo hi").out == "hi\n"
        r = sh.run("pwd; echo $x; false")
        assert (r.out, r.exit_status, r.status, r.fresh_shell) == ("/tmp\n5\n", 1, "done", False), r
        assert box.shell("split").run("echo warn >&2; echo fine", split=True).out == "fine\n"
        assert sh.run("sleep 1000", timeout_ms=100).cause == "timeout"
        sh.run("until [ -e /tmp/go ]; do sleep 0.01; done; echo late", timeout_ms=50, on_timeout="detach")
        box.run("touch /tmp/go")
        assert sh.wait().out.endswith("late\n")
        assert sorted(s["session"] for s in box.shells()) == ["main", "split"]
        box.shell("split").close()
        assert box.shell("other").run("echo $x").out == "\n"
        sh.close()
        assert [s["session"] for s in box.shells()] == ["other"]
        r = box.code("open('made', 'w').write('1'); print('hi')")
        assert (r.out, r.language, [(f["path"], f["change"]) for f in r.files]) == ("hi\n", "python", [("made", "added")]), r
        assert box.code("echo $A", lang="sh", env={"A": "x"}).out == "x\n"
        c = box.spawn("echo one; cat; echo two >&2", name="job")
        c.send("in\n", eof=True)
        assert b"".join(o.data for o in c.follow() if o.stream == "stdout") == b"one\nin\n"
        assert c.wait()["exit_status"] == 0 and box.command(c.id).output(offset=4)["data"] == b"in\n"
        assert [j["command"] for j in box.commands() if j["detached"]] == [c.id]
        c.forget()
        c = box.spawn(["sleep", "1000"])
        c.signal("KILL")
        assert c.wait()["signal"] == 9


@b.deadline(120)
@over_all
def test_files_go_in_and_out(client):
    with client.create("host") as box:
        f = box.files
        data = bytes(range(256)) * 5000
        assert f.write("a/b", "text ü\n", parents=True, mode="600") == 8 and f.write("a/b", "more", append=True) == 4
        assert f.read_text("a/b") == "text ü\nmore" and f.stat("a/b")["mode"] == "0600"
        assert f.write("bin", data) == len(data) and f.read("bin") == data and f.write("empty", "") == 0 and f.read("empty") == b""
        fails(errors.Limit, lambda: f.read("bin", max=100))
        fails(errors.NotFound, lambda: f.read("none"))
        f.mkdir("d/e", parents=True)
        f.move("a/b", "d/moved")
        assert [(e["name"], e["type"]) for e in f.list("d")] == [("e", "directory"), ("moved", "file")]
        f.remove("d", "a", recursive=True)
        assert [e["name"] for e in f.list()] == ["bin", "empty"]
        src = b.tmp("src")
        subprocess.run(["rm", "-rf", src, b.tmp("back"), b.tmp("one"), b.tmp("into"), b.tmp("by-a-link")], check=True)
        b.write(src + "/sub/x", data, 0o640)
        os.symlink("sub/x", src + "/link")
        os.link(src + "/sub/x", src + "/hard")
        f.copy_in(src, "tree")
        f.copy_in(src + "/sub/x", "one")
        assert f.read("one") == data and f.read("tree/link") == data and f.stat("tree/link")["type"] == "symlink"
        box.run("truncate -s 1G tree/sparse; printf end >> tree/sparse", check=True)
        f.copy_out("tree", b.tmp("back"))
        sparse = os.stat(b.tmp("back/sparse"))
        assert sparse.st_size == (1 << 30) + 3 and sparse.st_blocks * 512 < 1 << 24, sparse
        f.copy_out("one", b.tmp("one"))
        f.copy_out("tree/.", b.tmp("into"))
        assert open(b.tmp("back/hard"), "rb").read() == open(b.tmp("one"), "rb").read() == open(b.tmp("into/sub/x"), "rb").read() == data
        assert os.readlink(b.tmp("back/link")) == "sub/x" and os.stat(b.tmp("back/sub/x")).st_mode & 0o777 == 0o640
        os.symlink(b.tmp("into"), b.tmp("by-a-link"))
        f.copy_out("tree/.", b.tmp("by-a-link"))
        fails(errors.NotFound, lambda: f.copy_in("/nosuch", "x"))
        fails(errors.NotFound, lambda: f.copy_out("nosuch", b.tmp("x")))


@b.deadline(120)
@over_all
def test_large_files_and_output_come_whole(client):
    """What a line of berth stdio has no room for goes in pieces."""
    with client.create("host") as box:
        data = os.urandom(50_000_000)
        assert box.files.write("big", data, mode="640") == len(data) and box.files.stat("big")["mode"] == "0640"
        assert box.files.read("big") == data
        assert box.files.write("big", data[:20_000_000], append=True) == 20_000_000 and box.files.stat("big")["size"] == 70_000_000
        fails(errors.NotFound, lambda: box.files.write("no/where", data), "no/where")
        result = box.run("head -c 40000000 big")
        assert result.stdout == data[:40_000_000] and result.stdout_dropped == 0
        fails(errors.NotFound, lambda: berth.Files(client._link, "nosuch").write("x", data))


@over_all
def test_cwd_is_another_name_of_workdir(client):
    with client.create("host") as box:
        for given in ({"cwd": "/tmp"}, {"workdir": "/tmp"}, {"workdir": "/tmp", "cwd": "/tmp"}):
            assert box.run("pwd", **given).out == "/tmp\n"
            command = box.spawn("pwd", **given)
            assert command.wait()["exit_code"] == 0 and command.output()["data"] == b"/tmp\n"
        fails(errors.Usage, lambda: box.run("pwd", cwd="/tmp", workdir="/"), "another name")


@over_all
def test_a_sandbox_lives_and_tells(client):
    box = client.create("host", name="work")
    assert client.attach("work").id == box.id and box.name == "work"
    fails(errors.Exists, lambda: client.create("host", name="work"), "work")
    with client.attach("work") as again:
        again.files.write("kept", "x")
    box.stop(grace_ms=0)
    assert error_of(lambda: box.run("true")).code in ("not-found", "invalid", "busy")
    assert box.inspect()["status"] == "stopped"
    box.start()
    assert box.files.read("kept") == b"x"
    box.pause()
    box.resume()
    box.update(memory="64m", pids=50)
    assert box.stats()["memory_limit_bytes"] == 64 << 20
    box.rename("other")
    assert box.network()["mode"] == "none" and any(c["path"] == "/workspace/kept" for c in box.diff())
    box.spawn("echo logged").wait()
    assert "logged\n" in [j.get("data") for j in box.logs()]
    with box.events(since=0) as events:
        box.run("true")
        told = [e for e, _ in zip(events, range(4))]
    assert all(e["event"] and e["time"] for e in told) and {e["sandbox"] for e in told} == {box.id}, told
    with box.events(since=told[2]["cursor"]) as events:
        assert next(events) == told[3]
    client.create_volume("v", size="16m", label={"a": "b"})
    assert [v["name"] for v in client.volumes()] == ["v"] and client.volume("v")["name"] == "v"
    client.remove_volume("v")
    assert client.volumes() == [] and isinstance(client.images(), list) and client.version()
    server = box.spawn("echo starting; sleep 0.1; echo it is up; exec python3 -m http.server 8001")
    assert box.wait_ready(port=8001, log="is up$", timeout_ms=30000) < 30000
    fails(errors.Timeout, lambda: box.wait_ready(port=8002, timeout_ms=50), "8002")
    server.signal("KILL")
    box.remove()
    fails(errors.NotFound, box.inspect)


@b.deadline(120)
@over_all
def test_files_go_back_to_a_checkpoint_and_forks_begin_with_one(client):
    with client.create("host") as box:
        box.files.write("f", "one")
        if os.path.isdir(os.path.join(b.root(), "state", "sandboxes", box.id, "writable")):
            raise b.skip("the state directory has project quotas")
        assert box.checkpoint(name="clean") == "k1"
        assert box.run("echo -n two > f; rm f2", checkpoint=True).exit_status == 1
        box.shell().run("echo -n three > f", checkpoint=True)
        box.spawn("echo -n four > f; exec sleep 1000", checkpoint=True)
        b.wait_for(lambda: "sleep" in str(box.top()), what="the program of the command")
        made = box.checkpoints()
        assert [(c["id"], c["head"]) for c in made] == [("k1", False), ("k2", False), ("k3", False), ("k4", True)], made
        undone = box.undo()
        assert undone["checkpoint"] == "k4" and any("sleep" in e["text"] for e in undone["ended"]), undone
        assert box.files.read("f") == b"three"
        assert box.undo(to="clean")["checkpoint"] == "k1" and box.files.read("f") == b"one"
        box.shell().run("cd /; kept=yes")
        box.checkpoint()
        box.shell().run("cd /tmp; kept=no")
        assert box.undo()["sessions"] == [{"session": "main", "restored": True}]
        assert box.shell().run("echo $kept in $PWD").out == "yes in /\n"
        assert box.undo(to="clean")["checkpoint"] == "k1"
        twins = box.fork(checkpoint="k3", count=2, name="twin")
        assert [t.name for t in twins] == ["twin-1", "twin-2"]
        with twins[0], twins[1]:
            assert [t.files.read("f") for t in twins] == [b"two", b"two"]
        file = b.tmp("client.tar")
        box.export_checkpoint("k3", file)
        with client.import_checkpoint(file, name="imported") as there:
            assert (there.name, there.files.read("f")) == ("imported", b"two")
            fails(errors.Exists, lambda: client.import_checkpoint(file, name="imported"), "imported")
        fails(errors.Exists, lambda: box.export_checkpoint("k3", file), "exists")
        fails(errors.NotFound, lambda: box.export_checkpoint("k99", b.tmp("none.tar")), "k99")
        assert not os.path.exists(b.tmp("none.tar"))
        fails(errors.NotFound, lambda: client.import_checkpoint(b.tmp("missing.tar")), "missing")
        fails(errors.Corrupt, lambda: client.import_checkpoint("/etc/passwd"), "no file of berth")
        os.unlink(file)
        with box.fork()[0] as one:
            assert one.files.read("f") == b"one" and one.name == ""
        assert [c["path"] for c in box.diff(from_checkpoint="clean", to_checkpoint="k3", patch=True)] == ["/workspace/f"]
        assert box.diff(from_checkpoint="clean") == []
        box.remove_checkpoint("clean")
        fails(errors.NotFound, lambda: box.undo(to="clean"), "clean")
        fails(errors.NotFound, lambda: box.remove_checkpoint("k9"), "k9")
        fails(errors.NotFound, lambda: box.fork(checkpoint="none"), "none")
        fails(errors.Invalid, lambda: box.checkpoint(name="k7"), "k7")
    assert client.list(all=True) == []


@b.deadline(180)
@over_all
def test_sandboxes_meet_on_networks(client):
    need_bridge()
    client.create_network("front", internal=True, label={"a": "b"})
    client.create_network("back", internal=True)
    with client.create("host", network="front", name="web") as web, client.create("host", network="back", name="db") as db:
        assert sorted(n["name"] for n in client.networks()) == ["back", "front"], client.networks()
        db.spawn(["python3", "-m", "http.server", "8000"])
        db.wait_ready(port=8000)
        look = "python3 -c 'import socket; socket.create_connection((\"store\", 8000), 5)'"
        assert not web.run(look).ok
        db.connect("front", alias=["store"])
        assert web.run(look, check=True).ok
        db.disconnect("front")
        assert not web.run(look).ok
        assert any("db" in str(m) for m in client.network("back")["members"]), client.network("back")
        fails(errors.NotFound, lambda: web.connect("nosuch"), "nosuch")
    client.remove_network("front")
    client.remove_network("back")
    assert client.networks() == []


def error_of(call):
    try:
        call()
    except errors.BerthError as e:
        return e
    raise AssertionError("no error")


def test_each_error_code_has_a_class_with_cause_and_remedy():
    with open(os.path.join(b.TOP, "base/err.h")) as f:
        codes = re.findall(r'X\(ERR_\w+, "([a-z-]+)"', f.read())
    assert set(codes) - {"ok"} == set(errors.BY_CODE) - {"command-failed"}
    with child() as client:
        e = fails(errors.NotFound, lambda: client.attach("nosuch"), "nosuch")
        assert e.cause == "no sandbox 'nosuch'" and e.remedy == "berth ps -a lists them" and "hint: " in str(e)
        again = pickle.loads(pickle.dumps(e))
        assert (type(again), str(again), again.remedy) == (type(e), str(e), e.remedy)
        e = fails(errors.Unsupported, client.pools)
        assert "berthd" in e.remedy
    fails(errors.Usage, client.version, "closed")
    fails(errors.NotFound, lambda: berth.Berth(program="/nosuch/berth").version(), "/nosuch/berth")
    fails(errors.Network, lambda: berth.Berth("unix:///nosuch/berthd.sock").version(), "/nosuch/berthd.sock")
    for wrong in ("ftp://x", "http://", "unix://host/path", "http://h/path", "localhost", "http://127.0.0.1:99999", "http://127.0.0.1:x", "http://[::1", "http://example.org",
                  "http://127.evil.org", "http://1.2.3.4:80", "http://u:p@127.0.0.1", "https://h?x"):
        fails(errors.Invalid, lambda: berth.Berth(wrong), wrong)
    with daemon.Daemon(tcp=True) as d:
        for token in (None, "0" * 32):
            with berth.Berth(f"http://127.0.0.1:{d.port}", token=token) as client:
                assert error_of(client.list).code in ("denied", "usage"), token


def test_a_child_that_dies_fails_its_calls_and_the_next_call_starts_another():
    with child() as client:
        box = client.create("host")
        p = box.popen("echo up; sleep 1000")
        assert next(p).text == "up\n"
        [stdio] = [x for x in proc.descendants(os.getpid()) if b"stdio" in open(f"/proc/{x}/cmdline", "rb").read().split(b"\0")]
        proc.kill(stdio)
        fails(errors.Internal, lambda: next(p), "berth stdio ended")
        assert box.run(["echo", "again"]).out == "again\n"
        box.remove()


def test_output_that_nobody_reads_is_bounded():
    with child() as client, client.create("host") as box:
        p = box.popen("head -c 80000000 /dev/zero; sleep 1001")
        # another call goes on meanwhile; the command is killed once too much waits.  Its words are not looked at:
        # a command that has started is a copy of init until its execve
        b.wait_for(lambda: [x["pid"] for x in box.top()] == [1], 60, "the kill")
        fails(errors.Limit, p.wait, "not read")
        assert box.run(["echo", "on"]).out == "on\n"


@b.deadline(120)
def test_warm_sandboxes_are_claimed_and_given_back():
    with Managed(POOL.replace("size = 2", "size = 1") + FAST) as d, berth.Berth(f"http://127.0.0.1:{d.port}", token=daemon.TOKEN) as client:
        b.wait_for(lambda: client.pools()["pools"]["base"]["warm"] == 1, 30, "a warm one")
        with client.claim("base", session="S", env={"A": "b"}) as box:
            assert box.run("echo $A").out == "b\n" and box.files.write("f", "x") == 1
            client.heartbeat("S")
            assert client.pools()["counts"]["claimed"] == 1
        fails(errors.NotFound, lambda: client.attach(box.id))
        assert error_of(lambda: client.claim("nosuch")).code in ("not-found", "invalid")
        with client.claim("base", session="T", image="host", memory="40m", cpus=0.5, label={"a": "b"}, auto_stop="1h") as box:
            seen = box.inspect()
            assert seen["labels"]["a"] == "b" and seen["memory_limit_bytes"] == 40 << 20 and seen["cpu_limit_milli"] == 500, seen
            assert seen["manager"]["session_ctx_id"] == "T" and seen["manager"]["auto_stop_ms"] == 3600000, seen
        assert error_of(lambda: client.claim("base", nosuch="1")).code == "usage"


def test_many_threads_share_a_client():
    with child() as client, client.create("host") as box:
        got = {}

        def work(i):
            got[i] = box.run(["echo", str(i)]).out

        threads = [threading.Thread(target=work, args=(i,)) for i in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert got == {i: f"{i}\n" for i in range(20)}


# ---- asyncio ----------------------------------------------------------------------------------------


async def use(client):
    async with client.create("host") as box:
        r = await box.run(["echo", "hi"])
        assert r.out == "hi\n"
        rs = await asyncio.gather(*[box.run(["echo", str(i)]) for i in range(20)])
        assert [r.out for r in rs] == [f"{i}\n" for i in range(20)]
        async with box.popen("echo up; cat", stdin_open=True) as p:
            pieces = []
            async for piece in p:
                pieces.append(piece.text)
                if piece.text == "up\n":
                    await p.send("x", eof=True)
        assert pieces == ["up\n", "x"] and p.verdict["exit_status"] == 0
        assert (await box.shell().run("echo sh")).out == "sh\n"
        await box.files.write("f", "x")
        assert await box.files.read_text("f") == "x" and [e["name"] for e in await box.files.list()] == ["f"]
        command = await box.spawn("echo one")
        assert [o.text async for o in command.follow()] == ["one\n"]
        if os.path.isfile(os.path.join(b.root(), "state", "sandboxes", box.id, "writable.img")):
            assert await box.checkpoint() == "k1"
            async with (await box.fork(checkpoint="k1"))[0] as twin:
                assert await twin.files.read_text("f") == "x"
            assert (await box.undo(to="k1"))["checkpoint"] == "k1"
        await cancels(box)
        try:
            await box.files.read("none")
            raise AssertionError("no error")
        except errors.NotFound:
            pass
    assert await client.list(all=True) == []


async def cancels(box):
    async def sleeps():
        return [x for x in await box.top() if "sleep 10" in x["command"]]

    async def none():
        for _ in range(2000):
            if not await sleeps():
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"still there: {await sleeps()}")

    for start in (lambda: box.run("sleep 1001 & sleep 1002"), lambda: box.shell("c").run("sleep 1003"),
                  lambda: box.code("sleep 1004", lang="sh")):
        task = asyncio.create_task(start())
        while not await sleeps():
            assert not task.done(), task
        task.cancel()
        try:
            await task
            raise AssertionError("not cancelled")
        except asyncio.CancelledError:
            pass
        await none()
    command = await box.spawn("sleep 1005")
    try:
        await asyncio.wait_for(command.wait(), 0.05)
        raise AssertionError("no timeout")
    except asyncio.TimeoutError:
        pass
    await command.signal("KILL")
    assert (await command.wait())["signal"] == 9


@b.deadline(120)
def test_asyncio_has_the_same_and_a_cancelled_task_kills_its_tree():
    async def main():
        async with child(berth.AsyncBerth) as client:
            await use(client)
        with daemon.Daemon(tcp=True) as d:
            async with berth.AsyncBerth("unix://" + d.socket) as client:
                await use(client)
    asyncio.run(main())


@b.deadline(120)
@over_all
def test_code_runs_in_forks_of_a_warm_interpreter(client):
    needs_zygotes()
    with client.create_zygote("host", [PYTHON, "-c", "import sys, time\nmade = 6"], name="zc", memory="48m", forks=2, env={"A": "1"}) as zygote:
        assert [z["id"] for z in client.zygotes()] == [zygote.id] and client.zygote("zc").id == zygote.id
        got = zygote.run("import os; print(made * 7, sys.argv[1:], os.environ['A'], os.environ['B'], os.getcwd(), sys.stdin.read())\nsys.exit(3)",
                         args=["x"], env={"B": "2"}, workdir="/tmp", stdin="in")
        assert (got.out, got.exit_status, got.cause) == ("42 ['x'] 1 2 /tmp in\n", 3, "exit"), got
        fails(errors.CommandFailed, lambda: zygote.run("1/0", check=True), "ZeroDivisionError")
        assert zygote.run("time.sleep(900)", timeout_ms=200).cause == "timeout"
        big = b"x" * (1 << 20)
        assert zygote.run(b"print(len(sys.stdin.buffer.read()))", stdin=big).out == f"{1 << 20}\n"
        with zygote.popen("for line in sys.stdin: print('got', line, end='', flush=True)", stdin_open=True) as process:
            process.send("one\n")
            text = ""
            while not text.endswith("one\n"):
                text += next(process).text
            process.send("two\n", eof=True)
            assert process.wait().out == "got two\n"
        seen = zygote.inspect()
        assert seen["name"] == "zc" and seen["forks"] == 2, seen
        with zygote.popen("print('up', flush=True); time.sleep(900)") as process:
            next(process)
        b.wait_for(lambda: zygote.run("print(1)").out == "1\n", 20, "a fork after one that was killed")
    fails(errors.NotFound, zygote.inspect, "zygote")
    fails(errors.NotFound, lambda: client.remove_zygote("zc"), "zc")
    fails(errors.Invalid, lambda: client.create_zygote("host", [PYTHON, "-c", "1/0"], forks=1), "ZeroDivisionError")


@b.deadline(60)
def test_asyncio_has_warm_interpreters():
    needs_zygotes()

    async def main():
        async with child(berth.AsyncBerth) as client:
            async with client.create_zygote("host", [PYTHON, "-c", "import time"], memory="48m", forks=3) as zygote:
                got = await asyncio.gather(*[zygote.run(f"print({i})") for i in range(3)])
                assert [r.out for r in got] == ["0\n", "1\n", "2\n"]
                try:
                    await asyncio.wait_for(zygote.run("time.sleep(900)"), 0.3)
                    raise AssertionError("it was not cancelled")
                except asyncio.TimeoutError:
                    pass
                assert (await (await client.zygote(zygote.id)).inspect())["id"] == zygote.id
            assert await client.zygotes() == []
    asyncio.run(main())


# ---- what is installed, and what its manual says ----------------------------------------------------


def wheel(where):
    """The wheel, made as `make clients` does."""
    version = b.berth("--version", ok=True).out.split()[-1].strip()
    assert version == berth.__version__
    made = subprocess.run([sys.executable, "clients/wheel.py", where, version], cwd=b.TOP, capture_output=True, text=True, check=True)
    return made.stdout.strip()


def test_the_wheel_is_the_same_bytes_each_time_and_lists_all_it_has():
    one, two = wheel(b.tmp("one")), wheel(b.tmp("two"))
    with open(one, "rb") as f, open(two, "rb") as g:
        assert f.read() == g.read()
    with zipfile.ZipFile(one) as z:
        names = z.namelist()
        info = f"berth-{berth.__version__}.dist-info/"
        listed = [line.split(",")[0] for line in z.read(info + "RECORD").decode().splitlines()]
        assert sorted(listed) == sorted(names) and "berth/py.typed" in names, names
        sources = subprocess.run(["find", "berth", "-name", "*.py"], cwd=os.path.dirname(README), capture_output=True, text=True, check=True)
        assert sorted(sources.stdout.split()) == sorted(n for n in names if n.endswith(".py"))
        for name in names:
            if name.endswith(".py"):
                ast.parse(z.read(name), name, feature_version=(3, 9))
        metadata = z.read(info + "METADATA").decode()
        assert metadata.startswith("Metadata-Version: 2.1\nName: berth\n") and "Requires-Dist" not in metadata


USES = """
import asyncio
from typing import List
from berth import AsyncBerth, Berth, Output, Result

def waits() -> None:
    with Berth() as client, client.create("x", memory="1g", allow_host=["a"], env={"A": "b"}) as box:
        result: Result = box.run("x", timeout_ms=3)
        text: str = result.out
        pieces: List[Output] = list(box.popen(["x"]))
        box.run("x", nosuch=1)     # wrong
        client.create("x", nosuch=1)    # wrong

async def awaits() -> None:
    async with AsyncBerth() as client, client.create("x", memory="1g") as box:
        result: Result = await box.run("x", timeout_ms=3)
        data: bytes = await box.files.read("x")
        task = asyncio.create_task(box.run("x"))
        number: int = await box.files.read("x")     # wrong
        await box.run("x", nosuch=1)     # wrong
"""


FIRST = """
import sys
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
import berth
with berth.Berth(program=sys.argv[2]) as client, client.create("host") as box:
    assert box.run(["echo", "x"]).out == "x\\n"
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))
"""
# what the first command takes; json needs re, and with it enum, functools and collections
NEEDED = {"berth", "__future__", "binascii", "threading", "_weakrefset", "_queue", "itertools", "json", "_json", "re", "_sre", "enum", "types", "operator",
          "_operator", "functools", "_functools", "collections", "_collections", "_collections_abc", "copyreg", "keyword", "reprlib", "os", "posixpath",
          "genericpath", "stat", "_stat", "sre_compile", "sre_constants", "sre_parse", "abc", "_abc", "heapq", "_heapq", "_thread", "errno"}


def test_the_first_command_imports_no_more_than_it_needs():
    """Each module is a part of what the client's first command takes longer than the command line's: asyncio alone is 40 ms."""
    p = subprocess.run([sys.executable, "-S", "-E", "-c", FIRST, os.path.dirname(README), b.BERTH], capture_output=True, text=True, env=b.environment(), timeout=60 * b.SLOW)
    assert p.returncode == 0, p.stderr
    more = set(p.stdout.split()) - NEEDED
    assert "json" in p.stdout and not more, f"the first command imports {sorted(more)} too"


@b.deadline(180)
def test_the_types_are_right_and_find_what_is_wrong():
    mypy = [sys.executable, "-m", "mypy"]
    if subprocess.run([*mypy, "--version"], capture_output=True).returncode:
        mypy = [shutil.which("mypy")]       # of another Python
    if not mypy[0]:
        raise b.skip("needs mypy (Debian: mypy)")
    b.write(b.tmp("uses.py"), USES)
    p = subprocess.run([*mypy, "--strict", "--python-version", "3.9", "--enable-incomplete-feature=Unpack",
                        "--cache-dir", b.tmp("cache"), os.path.join(os.path.dirname(README), "berth/__init__.py"),
                        os.path.join(os.path.dirname(README), "berth/_http.py"), os.path.join(os.path.dirname(README), "berth/_stdio.py"),
                        os.path.join(os.path.dirname(README), "berth/_tar.py"), b.tmp("uses.py")],
                       capture_output=True, text=True, env=dict(os.environ, MYPYPATH=os.path.dirname(README)), timeout=b.SLOW * 170)
    wrong = [line for line in p.stdout.splitlines() if ": error: " in line]
    expected = [str(n) for n, line in enumerate(USES.splitlines(), 1) if "# wrong" in line]
    assert all("uses.py" in line for line in wrong) and [line.split(":")[1] for line in wrong] == expected, p.stdout


def test_each_code_block_of_the_readme_runs():
    with open(README) as f:
        blocks = re.findall(r"```python\n(.*?)```", f.read(), re.S)
    assert len(blocks) >= 6
    said = ""
    env = b.environment({"PYTHONPATH": wheel(b.tmp("wheel")), "PATH": f"{b.BUILD}:{os.environ['PATH']}"})
    for block in blocks:
        p = subprocess.run([sys.executable, "-c", block], env=env, cwd=b.tmp(""), capture_output=True, text=True, timeout=b.SLOW * 60)
        assert p.returncode == 0 and not p.stderr, f"{block}\n{p.stdout}{p.stderr}"
        said += p.stdout
    # the second is a session: what the interpreter prints of it
    p = subprocess.run([sys.executable, "-i", "-q"], input=blocks[1], env=env, capture_output=True, text=True, timeout=b.SLOW * 60)
    assert p.stdout.splitlines() == ["'hello from sandbox\\nroot\\n'", "6", "'1\\n2\\n3\\n'", "True", "'42 in /tmp\\n'", "'timeout'", "'oom'"], (
        p.stdout, p.stderr)
    for line in ("hello\n", "1\n2\n3\n", "42 in /tmp\n", "got one\n", "stdout got two\n", "timeout\n", "berth ps -a lists them\n", "killed\n",
                 "['0\\n', '1\\n', '2\\n']\n", "['in.bin']\n"):
        assert line in said, (line, said)
