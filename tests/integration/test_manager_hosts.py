# SPDX-License-Identifier: Apache-2.0
"""
Two hosts with one Redis.  A host is a berthd in a mount namespace of its own with directories and a boot id
of its own, at the paths that the other has too, as two machines with the default configuration are.
"""
import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import uuid

import berthtest as b
import proc
from daemon import Daemon
from managed import BOX, FAST, Failed, Managed, Manager, Redis

COST = 12
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def keepers():
    """Those of this test."""
    return [pid for pid in proc.descendants(b.TEST_PID) if "(berth-keeper" in proc.cmdline(pid)]


# What releases a sandbox in the store: its record is among those that are over.
OVER = """
redis.call('DEL', '{berth}:k:sandbox/' .. ARGV[1]) redis.call('ZREM', '{berth}:index', 'sandbox/' .. ARGV[1])
redis.call('HSET', '{berth}:k:over/' .. ARGV[1], 'v', redis.call('INCR', '{berth}:seq'), 'd', ARGV[2])
redis.call('ZADD', '{berth}:index', 0, 'over/' .. ARGV[1])
"""


def removed(cgroup):
    try:
        os.rmdir(cgroup)
    except OSError:
        return False
    return True


class Host(Managed):
    """One machine; its files are below top, and its berthd sees them where every test has its own."""

    def __init__(self, name, top, config):
        self.name, self.top, self.boot = name, top, str(uuid.uuid4())
        Daemon.__init__(self, config.replace("[session]\n", f'[session]\nhost = "{name}"\n'), tcp=True, wait=False)
        self.config_path = b.write(b.tmp(f"{name}.toml"), self.config, 0o600)
        self.log_path = b.tmp(f"{name}.log")
        self.start()

    def start(self):
        own = [(f"{self.top}/{part}", f"{b.root()}/{part}") for part in ("state", "run") if self.top != b.root()]
        mounts = "".join(f"mount --bind {a} {to} && " for a, to in own)
        boot = b.write(b.tmp(f"{self.name}.boot"), self.boot + "\n")
        self.socket = f"{self.top}/run/berthd.sock"
        with open(self.log_path, "ab") as log:
            self.p = subprocess.Popen(["unshare", "--mount", "sh", "-c", f'{mounts}mount --bind {boot} {BOOT_ID} && exec "$0"',
                                       os.path.join(b.BUILD, "berthd")], env=self.environment(), stdin=subprocess.DEVNULL,
                                      stdout=log, stderr=log)
        b.wait_for(self.ready, 20, "berthd")
        # it has been read; with something over it no sandbox could mount a proc of its own
        subprocess.run(["nsenter", "--mount", "--target", str(self.p.pid), "umount", BOOT_ID], check=True)
        self.manager = Manager(f"http://127.0.0.1:{self.port}")

    def reboot(self):
        """What a power cut leaves: no process, nothing below run, another boot id."""
        self.stop(signal.SIGKILL)
        for pid in keepers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        b.wait_for(lambda: not keepers(), 20, "the keepers' end")
        for parent in glob.glob("/sys/fs/cgroup/**/" + b.cgroup_parent_of(b.TEST_PID), recursive=True):
            for top, _, _ in os.walk(parent, topdown=False):
                if top != parent:
                    b.wait_for(lambda: not os.path.exists(top) or removed(top), 10, f"the end of {top}")
        for name in os.listdir(f"{self.top}/run"):
            path = f"{self.top}/run/{name}"
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        self.boot = str(uuid.uuid4())
        self.start()


@contextlib.contextmanager
def two_hosts(more=""):
    if not shutil.which("redis-server"):
        raise b.skip("no redis-server")
    with Redis() as redis:
        config = BOX + f'[store]\nurl = "redis+unix:{redis.path}"\n' + FAST + more
        top = b.tmpdir("other", 0o700)
        for part in ("state", "run"):
            os.mkdir(f"{top}/{part}", 0o700)
        hosts = [Host("hosta", b.root(), config), Host("hostb", top, config)]
        try:
            for h in hosts:
                h.redis = redis.ask
            yield hosts
        finally:
            for h in hosts:
                with contextlib.suppress(Failed):
                    h.manager.cleanup()
                h.manager.http.close()
                h.stop()


def sent_to(host, call, *a, hint=None, **kw):
    """The call is refused, and its error names the host that has to be asked."""
    try:
        got = call(*a, **kw)
    except Failed as e:
        assert e.status == 421 and f"on host {host}" in str(e) and (hint or f"to the berthd of host {host}") in str(e), e
        return
    raise AssertionError(f"not refused, but {got!r}")


@b.deadline(120)
def test_what_runs_on_another_host_is_refused_with_its_name_and_left_alone():
    with two_hosts() as (one, two):
        name = one.manager.create(meta={"session_ctx_id": "chat"})
        a, other = one.manager, two.manager
        assert a.shell(name, "echo here > /workspace/note")[1] is False
        sent_to("hosta", other.get_status, identity=name)
        for call in (other.stop, other.start, other.release, other.check_health, other.list_tools):
            sent_to("hosta", call, identity=name)
        sent_to("hosta", other.release, identity=name, discard=True)
        sent_to("hosta", other.call_tool, identity=name, tool_name="run_shell_command", arguments={"command": "true"})
        sent_to("hosta", other.native, "sessions/chat/reap")
        sent_to("hosta", other.cleanup, hint="to the berthd of each")
        code = other.http.post(f"{other.base_url}/get_status", json={"identity": name}).json()["code"]
        assert code == "other-host", code
        # what the store knows any berthd may tell, also whose it is
        assert other.get_info(identity=name)["berth"]["host"] == "hosta"
        assert other.get_session_mapping(session_ctx_id="chat") == [name] and other.native("sessions/chat/heartbeat").ok
        # and nothing of all that was done
        assert a.get_status(identity=name) == "running" and a.get_info(identity=name)["state"] == "running"
        assert a.shell(name, "cat /workspace/note")[0]["stdout"] == "here\n"
        # B has its own, in the same session, and each releases what is its own
        mine = other.create(meta={"session_ctx_id": "chat"})
        sent_to("hostb", a.get_status, identity=mine)
        sent_to("hosta", other.native, "sessions/chat/reap")
        assert other.get_status(identity=mine) == "running"
        assert other.release(identity=mine) is True and a.release(identity=name) is True
        assert b.berth("ps", "-aq").out == ""


@b.deadline(120)
def test_a_lease_that_ends_is_ended_by_the_host_of_the_sandbox():
    with two_hosts('heartbeat_timeout = "1h"\n') as (one, two):
        name = one.manager.create(meta={"session_ctx_id": "lazy"})
        one.stop(signal.SIGKILL)
        for d in (one, two):
            d.reconfigure_text("heartbeat_timeout", '"1s"')
        # B looks over all sessions, several times, and leaves this one alone
        seen = two.manager.create(meta={"session_ctx_id": "other"})
        b.wait_for(lambda: two.manager.get_info(identity=seen)["state"] == "recycled", 20, "B's own reaped")
        assert two.manager.get_info(identity=name)["state"] == "running"
        one.start()
        b.wait_for(lambda: one.manager.get_info(identity=name)["state"] == "recycled", 20, "A's reaped by A")
        assert b.berth("ps", "-aq").out == ""
        # its workspace is on A's disk only
        sent_to("hosta", two.manager.native, "sessions/lazy/restore")
        sent_to("hosta", two.manager.release, identity=name)
        assert one.manager.release(identity=name) is True


@b.deadline(120)
def test_after_a_reboot_a_host_knows_its_sandboxes_as_its_own():
    with two_hosts() as (one, two):
        m = one.manager
        name, idle = m.create(), m.create()
        assert m.shell(name, "echo kept > /workspace/note")[1] is False and m.stop(identity=idle) is True
        one.reboot()
        m = one.manager
        assert [m.get_status(identity=n) for n in (name, idle)] == ["exited", "exited"]
        sent_to("hosta", two.manager.get_status, identity=name)
        assert m.shell(name, "cat /workspace/note")[0]["stdout"] == "kept\n"
        assert m.release(identity=name) is True and m.release(identity=idle) is True
        assert b.berth("ps", "-aq").out == ""


@b.deadline(120)
def test_a_host_clears_what_the_store_says_is_released():
    with two_hosts('released_ttl = "2s"\n') as (one, two):
        name = one.manager.create()
        assert b.berth("ps", "-q").out.split() == [one.manager.get_info(identity=name)["container_id"]]
        # as a berthd before this one wrote it on another host
        record = json.loads(one.redis("HGET", "{berth}:k:sandbox/" + name, "d"))
        record.update(state="released", released_at=record["created_at"])
        one.redis("EVAL", OVER, "0", name, json.dumps(record))
        b.wait_for(lambda: b.berth("ps", "-aq").out == "", 20, "A's own clears it")
