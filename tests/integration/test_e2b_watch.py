# SPDX-License-Identifier: Apache-2.0
"""E2B's watches of directories in berthd, on the wire: what is told, what bounds them, whose they are."""
import contextlib
import os
import signal

import berthtest as b
from daemon import OTHER, Daemon
from e2bwire import Client, envelope

COST = 15
FS = "filesystem.Filesystem/"


class Stream:
    def __init__(self, e, path, user=None, **more):
        self.c, self.r = e.open(FS + "WatchDir", user=user, path=path, **more)
        flags, self.first = envelope(self.r)
        self.error = self.first.get("error") if flags == 2 else None

    def next(self):
        """The next change, or the end's error (None: it ended well)."""
        while True:
            flags, message = envelope(self.r)
            if flags == 2:
                return message.get("error")
            if "filesystem" in message:
                return message["filesystem"]

    def until(self, name, kind):
        seen = []
        while not seen or (seen[-1]["name"], seen[-1]["type"]) != (name, "EVENT_TYPE_" + kind):
            seen.append(self.next())
            assert seen[-1] and "name" in seen[-1], seen
        return seen

    def close(self):
        self.c.close()


def events(e, watcher):
    r = e.call(FS + "GetWatcherEvents", watcherId=watcher)
    assert r.status == 200, r
    return r.json["events"]


def create(e, path, **more):
    r = e.call(FS + "CreateWatcher", path=path, **more)
    assert r.status == 200, r
    return r.json["watcherId"]


def helpers(e):
    return e.run("cat /proc/[0-9]*/comm")[0].count(b"berth-fileop")


def test_a_file_that_berth_writes_is_told_as_one_that_is_written():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        e.run("mkdir -p /srv/w/sub; echo old > /srv/w/f.txt")
        s, watcher = Stream(e, "/srv/w", recursive=True), create(e, "/srv/w", recursive=True)
        for path in ("f.txt", "new", "sub/deep", "made/below", "f.txt"):
            r = e.ask("POST", "/files?path=/srv/w/" + path, b"text", **{"Content-Type": "application/octet-stream"})
            assert r.status == 200, r
        e.run("echo > /srv/w/end")
        told = [(v["name"], v["type"][11:]) for v in s.until("end", "CREATE")[:-1]]
        assert told[:7] == [("f.txt", "WRITE")] + [(name, what) for name in ("new", "sub/deep") for what in ("CREATE", "CHMOD", "WRITE")], told
        assert told[7] == ("made", "CREATE") and ("made/below", "CREATE") in told and told[-1] == ("f.txt", "WRITE"), told
        assert not [v for v in events(e, watcher) if ".berth-" in v["name"]] and not [v for v in told if ".berth-" in v[0]], told
        s.close()


def test_changes_are_told_as_they_come():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        e.run("mkdir -p /srv/w/sub")
        w = Stream(e, "/srv/w", includeEntry=True)
        assert w.first == {"start": {}}, w.first
        e.run("cd /srv/w; echo text > new; chmod 600 new; mv new old; rm old; echo unseen > sub/x")
        seen = w.until("old", "REMOVE")
        told = [(v["name"], v["type"].removeprefix("EVENT_TYPE_")) for v in seen]
        for one in (("new", "CREATE"), ("new", "WRITE"), ("new", "CHMOD"), ("new", "RENAME"), ("old", "CREATE"), ("old", "REMOVE")):
            assert one in told, (one, told)
        assert "entry" not in seen[-1] and all(v["entry"]["path"] == "/srv/w/" + v["name"] for v in seen if "entry" in v), seen
        e.run("echo text > /srv/w/seen; exec 3< /srv/w/seen")
        last = w.until("seen", "WRITE")[-1]
        assert (last["entry"]["size"], last["entry"]["type"]) == ("5", "FILE_TYPE_FILE"), last
        assert not any(n.startswith("sub/") for n, _ in told), told
        e.run("rm -r /srv/w")
        w.until(".", "REMOVE")
        assert w.next() is None, "the stream of a directory that is gone goes on"
        w.close()
        b.wait_for(lambda: helpers(e) == 0, 30, "the helper's end")


def helper_pids(e):
    space = e.run("readlink /proc/self/ns/pid")[0].decode().strip()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/ns/pid") == space and b"fileop" in open(f"/proc/{pid}/comm", "rb").read():
                found.append(int(pid))
    return found


def test_changes_below_a_directory_that_was_renamed_meanwhile_are_told():
    """The helper reads the rename and what came after it at once."""
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        e.run("mkdir -p /srv/w/a/b /srv/out")
        w = Stream(e, "/srv/w", recursive=True)
        stopped = helper_pids(e)
        assert stopped
        for move, name, kind in (("mv a moved; echo 2 > moved/b/again", "moved/b/again", "WRITE"),
                                 ("mv moved/b moved/c; echo 3 >> moved/c/again; mkdir moved/c/d", "moved/c/d", "CREATE"),
                                 ("mv moved ../out; echo 4 > ../out/moved/c/again; echo 5 > last", "last", "WRITE")):
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            e.run("cd /srv/w; " + move)
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            seen = [(v["name"], v["type"]) for v in w.until(name, kind)]
            assert (name == "last") == (not any(n.endswith("/again") for n, _ in seen)), seen
        w.close()
        b.wait_for(lambda: helpers(e) == 0, 30, "the helper's end")


def test_a_recursive_watch_follows_what_is_made_and_moved():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        e.run("mkdir -p /srv/w/a/b /srv/out")
        w = Stream(e, "/srv/w", recursive=True)
        e.run("echo 1 > /srv/w/a/b/deep")
        w.until("a/b/deep", "WRITE")
        e.run("mkdir -p /srv/w/x/y/z; echo 1 > /srv/w/x/y/z/f")
        w.until("x/y/z/f", "CREATE")
        e.run("mv /srv/w/a /srv/w/moved; echo 2 > /srv/w/moved/b/again")
        w.until("moved/b/again", "WRITE")
        e.run("mv /srv/w/moved /srv/out; echo 3 > /srv/out/moved/b/outside; echo 4 > /srv/w/last")
        assert not any("outside" in v["name"] for v in w.until("last", "WRITE"))
        w.close()
        b.wait_for(lambda: helpers(e) == 0, 30, "the helper's end")


def test_a_watch_of_a_path_that_cannot_be_watched_is_refused():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        e.run("touch /srv/file; mkdir -p /srv/closed/in; chmod 700 /srv/closed")
        for path, code in (("/srv/none", "not_found"), ("/srv/file", "invalid_argument")):
            assert Stream(e, path).error["code"] == code, path
            assert e.call(FS + "CreateWatcher", path=path).json["code"] == code, path
        assert Stream(e, "/srv", user="nobody-such").error["code"] in ("not_found", "invalid_argument")
        assert Stream(e, "/srv/closed/in", user="nobody").error["code"] == "permission_denied"
        for bad in ({}, {"path": 1}, {"path": "/srv", "recursive": "yes"}, {"path": "/srv", "includeEntry": 1}):
            assert e.call(FS + "CreateWatcher", **bad).json["code"] == "invalid_argument", bad
        for bad in ({}, {"watcherId": 1}, {"watcherId": ""}, {"watcherId": "0" * 32}):
            for name in ("GetWatcherEvents", "RemoveWatcher"):
                assert e.call(FS + name, **bad).json["code"] == "not_found", bad
        e.headers["Connect-Timeout-Ms"] = "300"
        w = Stream(e, "/srv")
        assert w.next()["code"] == "deadline_exceeded"


def test_a_watcher_keeps_what_came_until_it_is_asked():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        watcher = create(e, "/srv", recursive=True, includeEntry=True)
        assert events(e, watcher) == []
        e.run("mkdir /srv/d; echo x > /srv/f")
        seen = []
        b.wait_for(lambda: seen.extend(events(e, watcher)) or ("f", "EVENT_TYPE_WRITE") in [(v["name"], v["type"]) for v in seen],
                   30, "the changes")
        assert seen[0]["name"] == "d" and seen[0]["entry"]["type"] == "FILE_TYPE_DIRECTORY", seen
        assert events(e, watcher) == [], "what was told once is told again"
        assert e.call(FS + "RemoveWatcher", watcherId=watcher).json == {}
        assert e.call(FS + "RemoveWatcher", watcherId=watcher).json["code"] == "not_found"
        b.wait_for(lambda: helpers(e) == 0, 30, "the helper's end")


def test_changes_beyond_what_is_kept_end_the_watch_with_a_word():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        watcher = create(e, "/srv")
        # nobody asks: the pipe fills, then the kernel's queue
        e.run("cd /srv; exec python3 -c 'import os\nfor i in range(15000):\n  name = \"%0200d\" % (i % 7)\n  open(name, \"w\").close()\n  os.unlink(name)'")
        reply, count = e.call(FS + "GetWatcherEvents", watcherId=watcher), 0
        while reply.status == 200 and (reply.json["events"] or not count):
            count += len(reply.json["events"])
            reply = e.call(FS + "GetWatcherEvents", watcherId=watcher)
        b.wait_for(lambda: e.call(FS + "GetWatcherEvents", watcherId=watcher).json.get("code") == "resource_exhausted", 30, "the error")
        assert 1000 < count < 60000, count
        assert e.call(FS + "RemoveWatcher", watcherId=watcher).json == {}


def test_watches_are_bounded():
    with Daemon(tcp=True) as d:
        e, f = Client(d).create(), Client(d).create()
        watchers = [create(e, "/srv") for _ in range(15)]
        w = Stream(e, "/srv")
        assert e.call(FS + "CreateWatcher", path="/srv").json["code"] == "resource_exhausted"
        assert Stream(e, "/srv").error["code"] == "resource_exhausted"
        create(f, "/srv")       # of another sandbox
        w.close()
        b.wait_for(lambda: e.call(FS + "CreateWatcher", path="/srv").status == 200, 30, "the place of the stream")
        e.call(FS + "RemoveWatcher", watcherId=watchers[0])
        b.wait_for(lambda: e.call(FS + "CreateWatcher", path="/srv").status == 200, 30, "the place of the watcher")
        e.run("mkdir -p /srv/p; cd /srv/p; i=0; while [ $i -lt 66 ]; do mkdir d; cd d; i=$((i + 1)); done")
        e.call(FS + "RemoveWatcher", watcherId=watchers[1])
        r = e.call(FS + "CreateWatcher", path="/srv/p", recursive=True)
        assert r.json["code"] == "resource_exhausted" and "deep" in r.json["message"], r
        # a sandbox that is gone leaves nothing open
        before = len(os.listdir(f"/proc/{d.p.pid}/fd"))
        assert Client(d).ask("DELETE", f"/sandboxes/{e.id}").status == 204
        assert e.call(FS + "GetWatcherEvents", watcherId=watchers[2]).status == 502
        b.wait_for(lambda: create(f, "/srv") and len(os.listdir(f"/proc/{d.p.pid}/fd")) < before, 30, "their descriptors")


def test_a_watcher_is_of_its_sandbox_and_tenant():
    with Daemon(tcp=True) as d:
        alice, bob = Client(d).create(), Client(d, OTHER).create()
        second = Client(d).create()
        watcher = create(alice, "/srv")
        alice.run("echo secret > /srv/secret")
        for other in (bob, second):
            for name in ("GetWatcherEvents", "RemoveWatcher"):
                assert other.call(FS + name, watcherId=watcher).json["code"] == "not_found", name
        bob.headers["E2b-Sandbox-Id"] = alice.id
        for name in ("GetWatcherEvents", "RemoveWatcher", "CreateWatcher"):
            assert bob.call(FS + name, watcherId=watcher, path="/srv").status == 502, name
        b.wait_for(lambda: any(v["name"] == "secret" for v in events(alice, watcher)), 30, "the event of its own watcher")
