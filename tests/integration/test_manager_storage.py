# SPDX-License-Identifier: Apache-2.0
"""Uploads to one storage path at once: who is last wins as a whole, and what is stored stays whole."""
import concurrent.futures
import contextlib
import gc
import json
import os
import shutil
import subprocess
import threading
import time

import berthtest as b
import daemon
import requests
import s3server
from managed import BOX, FAST, Managed, age, s3_config, two_berthds
from s3server import Held


COST = 50


def box_with(m, text, path="c/x"):
    """A sandbox whose workspace holds the file text, and text in the file "both"."""
    name = m.create(storage_path=path)
    assert not m.shell(name, f"rm -rf *; echo {text} > {text}; echo {text} > both")[1]
    return name


def stored(m, path="c/x"):
    """The names that a new sandbox finds, and what "both" says."""
    name = m.create(storage_path=path)
    out, failed = m.shell(name, "ls -A; cat both")
    assert not failed, out
    assert m.native(f"sandboxes/{name}/upload").ok
    return out["stdout"].split()


def whole(text):
    return sorted(["both", text]) + [text]


def test_an_upload_that_ends_last_wins_as_a_whole():
    with s3server.S3() as s3, Managed(s3_config(s3)) as d:
        m = d.manager
        one, two, three = [box_with(m, t) for t in ("one", "two", "three")]
        assert m.release(identity=three) is True
        with Held(s3, lambda method, path: method == "PUT" and path.endswith("/manifest.json")) as held:
            slow = threading.Thread(target=lambda: d.client(daemon.TOKEN).release(identity=one))
            slow.start()
            assert held.came.wait(30 * b.SLOW)
            # it has its pieces there and is about to name them; another comes and is done meanwhile
            assert m.release(identity=two) is True
            assert stored(m) == whole("two")
            held.go.set()
            slow.join(30 * b.SLOW)
        assert m.get_status(identity=one) == "released"
        assert stored(m) == whole("one")
        # and nothing stays of those that were replaced
        named = {c for e in json.loads(s3.objects["p/c/x/manifest.json"])["entries"] for c in e.get("chunks", [])}
        left = {k.rpartition("/")[2] for k in s3.objects if k.startswith("p/c/x/") and not k.endswith("manifest.json")}
        assert left == named and len(named) == 1, (left, named)


@b.deadline(120)
def test_two_berthds_upload_to_one_path():
    with s3server.S3() as s3:
        daemons = two_berthds(*[s3_config(s3)] * 2)
        one, two = (d.manager for d in daemons)
        first, other = box_with(one, "one"), box_with(two, "two")
        assert one.native(f"sandboxes/{first}/upload").ok
        # what is there already is named again, and what it names is not taken away by the other
        one.shell(first, "echo more > more")
        with Held(s3, lambda method, path: method == "PUT" and path.endswith("/manifest.json")) as held:
            slow = threading.Thread(target=lambda: daemons[0].client(daemon.TOKEN).release(identity=first))
            slow.start()
            assert held.came.wait(30 * b.SLOW)
            assert two.release(identity=other) is True and stored(two) == whole("two")
            held.go.set()
            slow.join(30 * b.SLOW)
        assert one.get_status(identity=first) == "released"
        name = two.create(storage_path="c/x")
        assert two.shell(name, "cat *")[0]["stdout"].split() == ["one", "more", "one"]
        for d in daemons:
            d.manager.cleanup()
            for m in (d.manager, *getattr(d, "clients", [])):
                m.http.close()
            assert d.stop() == 0 and b.berth("ps", "-aq", env=d.env).out == ""
        gc.collect()


def test_a_download_beside_an_upload_is_whole():
    with s3server.S3() as s3, Managed(s3_config(s3)) as d:
        m, got = d.manager, []
        one, two = box_with(m, "one"), box_with(m, "two")
        assert m.release(identity=one) is True
        with Held(s3, lambda method, path: method == "GET" and "/c/x/chunks/" in path) as held:
            slow = threading.Thread(target=lambda: got.append(d.client(daemon.TOKEN).create(storage_path="c/x")))
            slow.start()
            assert held.came.wait(30 * b.SLOW)
            assert m.release(identity=two) is True
            held.go.set()
            slow.join(30 * b.SLOW)
        assert m.shell(got[0], "ls -A; cat both")[0]["stdout"].split() == whole("one")
        assert stored(m) == whole("two")


def test_what_a_berthd_left_that_died_in_an_upload_is_collected_in_time():
    with s3server.S3() as s3, Managed(s3_config(s3)) as d:
        m = d.manager
        old, new = f"{1:016x}-{2:016x}", f"{1 << 50:016x}-{2:016x}"
        dead = "p/c/x/chunks/" + "0" * 64 + "." + "1" * 32
        for mark, stays in ((new, True), (old, False)):
            s3.objects[dead], s3.objects["p/c/x/in-use/" + mark] = b"piece", b""
            name = box_with(m, "text" + mark)
            assert m.release(identity=name) is True
            assert (dead in s3.objects) == stays, list(s3.objects)
            s3.objects.pop("p/c/x/in-use/" + new, None)
        assert not [k for k in s3.objects if "/in-use/" in k], list(s3.objects)


def test_uploads_at_once_to_a_folder():
    where = b.tmpdir("storage", 0o700)
    with Managed(BOX + f'[storage]\nurl = "file:{where}"\n' + FAST) as d:
        m = d.manager
        for _ in range(3):
            texts = ["a", "b", "c", "d"]
            names = [box_with(m, t) for t in texts]
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                again = [pool.submit(d.client(daemon.TOKEN).native, f"sandboxes/{n}/upload", False) for n in names * 2]
            assert [a.result().status_code for a in again] == [200] * 8, [a.result().text for a in again]
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                assert all(pool.map(lambda n: d.client(daemon.TOKEN).release(identity=n), names))
            assert stored(m) in [whole(t) for t in texts]
        pieces = os.listdir(where + "/c/x/chunks")
        assert len(pieces) == 1 and sorted(os.listdir(where + "/c/x")) == ["chunks", "manifest.json"], pieces


def test_what_is_being_started_is_not_deleted_for_having_been_stopped():
    with s3server.S3() as s3, Managed(s3_config(s3) + 'auto_stop = "500ms"\n') as d:
        m, got = d.manager, []
        name = m.create()
        m.shell(name, "echo kept > file")
        b.wait_for(lambda: m.get_status(identity=name) == "exited", 20, "auto-stop")
        assert m.native(f"sandboxes/{name}/archive").ok
        assert m.http.patch(f"{m.base_url}/v1/manager/sandboxes/{name}/intervals", json={"auto_stop": 0, "auto_delete": "1h"}, timeout=60 * b.SLOW).ok
        with Held(s3, lambda method, path: method == "GET" and f"/archives/{name}/sandbox/chunks/" in path) as held:
            slow = threading.Thread(target=lambda: got.append(d.client(daemon.TOKEN).shell(name, "cat file")))
            slow.start()
            assert held.came.wait(30 * b.SLOW), "it is not brought back"
            # the scan comes each 50 ms, and finds it archived and due
            age(name, "$.berth.stopped_ms", by=7200000)
            time.sleep(1)
            held.go.set()
            slow.join(30 * b.SLOW)
        assert got[0][0]["stdout"] == "kept\n", got
        for _ in range(10):
            assert m.shell(name, "cat file")[0]["stdout"] == "kept\n"
        assert m.get_status(identity=name) == "running"


@b.deadline(120)
def test_what_was_refused_is_not_tried_again_before_it_was_used():
    with s3server.S3() as s3, Managed(s3_config(s3) + 'auto_stop = "1h"\nauto_archive = "300ms"\n') as d:
        m = d.manager

        def own(key):
            return m.get_info(identity=name)["berth"].get(key)

        name = m.create()
        where = m.get_info(identity=name)["mount_dir"]
        m.shell(name, "echo kept > file")
        os.lchown(where + "/file", 65536, 0)
        d.reconfigure_text("auto_stop", '"300ms"')
        b.wait_for(lambda: own("failed_ms"), 20, "the first try")
        assert own("refused") and "65536:0" in own("failed"), own("failed")
        assert not [r for r in s3.requests if r[0] == "PUT"], "the layer was sent first"
        age(name, "$.berth.failed_ms", "$.berth.stopped_ms", by=31000)
        first = own("failed_ms")
        time.sleep(1)       # 20 scans
        assert own("failed_ms") == first and own("status") == "stopped"
        os.lchown(where + "/file", 0, 0)
        assert m.shell(name, "cat file")[0]["stdout"] == "kept\n"
        b.wait_for(lambda: m.get_status(identity=name) == "archived", 20, "the archive, once it was used")
        assert not own("refused") and not own("failed_ms")
        assert m.shell(name, "cat file")[0]["stdout"] == "kept\n"


def test_a_dead_owners_large_folder_keeps_no_other_waiting():
    with s3server.S3() as s3, Managed(s3_config(s3)) as d:
        m = d.manager
        owners = [subprocess.Popen(["sleep", "1000"]) for _ in range(2)]
        names = [m.create(meta={"session_ctx_id": f"owned{i}"}, storage_path=f"c/{i}", owner_pid=p.pid) for i, p in enumerate(owners)]
        for name in names:
            m.shell(name, "echo kept > file")
        with Held(s3, lambda method, path: method == "PUT" and "/c/0/chunks/" in path) as held:
            for i in range(2):
                owners[i].kill()
                owners[i].wait()
                if not i:
                    assert held.came.wait(30 * b.SLOW)
            b.wait_for(lambda: m.get_status(identity=names[1]) == "recycled", 20, "the reaping of the other")
            assert m.get_info(identity=names[0])["state"] == "running"
            held.go.set()
        b.wait_for(lambda: m.get_status(identity=names[0]) == "recycled", 20, "the reaping of the first")


def ends_beside_a_dead_store(s3, is_dead):
    """berthd is told to end while it uploads by itself, and a tenant's request does: what is left to do at the end is done."""
    d = Managed(s3_config(s3).replace('retry = "5s"', 'retry = "60s"') + 'on_shutdown = "clean"\nshutdown_timeout = "3s"\n')
    m, owner = d.manager, subprocess.Popen(["sleep", "1000"])
    names = [m.create(meta={"session_ctx_id": "owned"}, storage_path="c/0", owner_pid=owner.pid), m.create(storage_path="c/1"), m.create()]
    for name in names[:2]:
        m.shell(name, "echo kept > file")
    came, over = set(), threading.Event()

    def dead(method, path):
        if method == "PUT" and "/chunks/" in path:
            came.add(path.split("/chunks/")[0])
            return is_dead(over)

    s3.hold = s3.fail = dead
    owner.kill()
    owner.wait()

    def archive():
        with contextlib.suppress(requests.ConnectionError):
            d.client(daemon.TOKEN).native(f"sandboxes/{names[1]}/archive", ok=False)

    works = [m.get_info(identity=name)["mount_dir"] for name in names[:2]]
    asked = threading.Thread(target=archive)
    asked.start()
    b.wait_for(lambda: len(came) == 2, 20, "both uploads")
    d.stop()    # in less time than the store's
    over.set()
    asked.join(10 * b.SLOW)
    for client in (m, *d.clients):
        client.http.close()
    left = b.berth("ps", "-aq", env=d.env).out.split()
    for identity in left:
        b.berth("rm", "-f", identity, env=d.env)
    for where in works:
        shutil.rmtree(where)
    assert len(left) == 2, "the one that is not stored was released: " + str(left)
    gc.collect()


@b.deadline(150)
@b.long_proof("waits for deadlines of berthd to pass")
def test_an_end_waits_for_no_store_that_refuses():
    with s3server.S3() as s3:
        ends_beside_a_dead_store(s3, lambda over: True)


@b.deadline(150)
@b.long_proof("waits for deadlines of berthd to pass")
def test_an_end_waits_for_no_store_that_is_silent():
    with s3server.S3() as s3:
        ends_beside_a_dead_store(s3, lambda over: over.wait(60 * b.SLOW) and False)


def test_a_stop_before_the_last_use_counts_for_nothing():
    where = b.tmpdir("storage", 0o700)
    with Managed(BOX + f'[storage]\nurl = "file:{where}"\n' + FAST + 'auto_stop = "300ms"\n') as d:
        m = d.manager
        name = m.create()
        m.shell(name, "echo kept > file")
        b.wait_for(lambda: m.get_status(identity=name) == "exited", 20, "auto-stop")
        intervals = f"{m.base_url}/v1/manager/sandboxes/{name}/intervals"
        assert m.http.patch(intervals, json={"auto_stop": 0, "auto_delete": "1h"}, timeout=60 * b.SLOW).ok
        m.shell(name, "true")
        b.wait_for(lambda: m.get_info(identity=name)["berth"]["status"] == "running", 20, "its record")
        age(name, "$.berth.stopped_ms", by=7200000)
        assert m.native(f"sandboxes/{name}/archive").ok
        time.sleep(1)       # 20 scans
        assert m.shell(name, "cat file")[0]["stdout"] == "kept\n"


@b.deadline(120)
def test_the_bucket_stands_in_the_name_of_the_host_where_the_store_demands_it():
    with s3server.S3() as s3:
        host = f"localhost:{s3.server_port}"
        config = s3_config(s3).replace(s3.url, f"http://{host}").replace("[storage]\n", '[storage]\naddressing = "virtual"\n')
        with Managed(config) as d:
            m = d.manager
            name = m.create(storage_path="team/project")
            m.shell(name, "echo kept > file")
            assert m.release(identity=name) is True and "p/team/project/manifest.json" in s3.objects
            name = m.create(storage_path="team/project")
            assert m.shell(name, "cat file")[0]["stdout"] == "kept\n"
            assert m.native(f"sandboxes/{name}/archive").ok and m.get_status(identity=name) == "archived"
            assert m.release(identity=name) is True
            assert not [k for k in s3.objects if "archives/" in k], "what was listed was not all"
        assert s3.hosts == {f"bucket.{host}"} and s3.unsigned == 0, (s3.hosts, s3.unsigned)
        assert not [p for _, p in s3.requests if p.startswith("/bucket")]
        assert [p for _, p in s3.requests if p.startswith("/?list-type=2")], "a list is of the bucket itself"
