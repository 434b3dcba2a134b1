# SPDX-License-Identifier: Apache-2.0
"""What a pool, a berthd or a failure leaves behind is looked after, and told."""
import contextlib
import gc
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import threading

import berthtest as b
import proc
from managed import BOX, FAST, POOL, Managed, Redis, refused, two_berthds


COST = 25


@b.deadline(120)
def test_the_warm_ones_of_a_pool_that_left_the_configuration_go():
    extra = POOL.replace("[pool.base]", "[pool.extra]").replace("size = 2", "size = 1")
    with Managed(POOL.replace("size = 2", "size = 1") + extra + FAST) as d:
        d.warm(1)
        d.warm(1, "extra")
        claimed = d.manager.create_from_pool(sandbox_type="extra")
        d.warm(1, "extra")
        with open(d.config_path) as f:
            b.write(d.config_path, f.read().replace(extra, ""), 0o600)
        d.p.send_signal(signal.SIGHUP)
        b.wait_for(lambda: "extra" not in d.manager.stats()["pools"] and d.manager.stats()["states"].get("warm") == 1, 20,
                   "the end of those that are no pool's")
        d.warm(1)
        assert d.manager.get_status(identity=claimed) == "running", "what somebody has stays"
        assert d.manager.shell(claimed, "echo his")[0]["stdout"] == "his\n"


@b.deadline(150)
def test_a_sibling_reaps_the_sessions_of_a_berthd_that_died():
    if not shutil.which("redis-server"):
        raise b.skip("no redis-server")
    with Redis() as redis:
        config = BOX + f'[store]\nurl = "redis+unix:{redis.path}"\n' + FAST
        daemons = two_berthds(config + 'heartbeat_timeout = "0"\n', config + 'heartbeat_timeout = "600ms"\n')
        one, two = (d.manager for d in daemons)
        hers, his = one.create(meta={"session_ctx_id": "hers"}), two.create(meta={"session_ctx_id": "his"})
        one.shell(hers, "echo kept > /workspace/file")
        b.wait_for(lambda: two.get_info(identity=his)["state"] == "recycled", 20, "the end of a session of its own")
        assert one.get_info(identity=hers)["state"] == "running", "the other lives, and knows when"
        daemons[0].p.kill()
        daemons[0].p.wait()
        b.wait_for(lambda: two.get_info(identity=hers)["state"] == "recycled", 20, "the end of the session of the dead")
        info = two.get_info(identity=hers)
        assert info["recycle_reason"] == "heartbeat_timeout"
        assert not os.path.exists(f"{b.root()}/state/sandboxes/{info['container_id']}"), "nothing of it is left there"
        # it comes back where it is asked for, with what it had
        assert two.shell(hers, "cat /workspace/file")[0]["stdout"] == "kept\n"
        # and the one that died takes nothing back
        daemons[0].start()
        b.wait_for(lambda: daemons[0].get("/readyz").status == 200, 20, "the one that died")
        assert one.get_session_mapping(session_ctx_id="hers") == two.get_session_mapping(session_ctx_id="hers") != [hers]
        for d in reversed(daemons):
            d.manager.cleanup()
            d.manager.http.close()
            assert d.stop() == 0
        gc.collect()


def failures(d):
    return [x for x in (json.loads(line[line.index("{"):]) for line in d.log().splitlines() if '"event":"error"' in line) if "sandbox" in x]


@b.deadline(120)
def test_no_failure_is_counted_without_a_line_in_the_log():
    where = b.tmpdir("storage", 0o700)
    config = BOX + '[pool.broken]\nimage = "no/such:image"\npull = "never"\n' + f'[storage]\nurl = "file:{where}"\n' + FAST
    with Managed(config) as d:
        m = d.manager
        assert m.stats()["counts"]["failed"] == 0
        refused(404, m.create, sandbox_type="broken")
        name = m.create(storage_path="c/x")
        m.shell(name, "echo kept > file")
        b.write(where + "/c", "in the way")
        refused(500, m.release, identity=name)
        told = failures(d)
        assert m.stats()["counts"]["failed"] == 2 == len(told), told
        assert [t["what"] for t in told] == ["make", "release"] and told[1]["sandbox"] == name, told
        assert "no/such" in told[0]["message"] and told[0]["code"] == "not-found", told
        os.unlink(where + "/c")
        assert m.release(identity=name) is True


def test_the_last_line_says_what_became_of_the_sandboxes():
    for text, words in (("", "sandboxes live on"), ('on_shutdown = "clean"\n', "the manager's sandboxes were released")):
        with Managed(BOX + FAST + text) as d:
            d.manager.create()
            assert d.stop() == 0
            assert f"berthd ended; {words}" in d.log().splitlines()[-1], d.log()
            left = b.berth("ps", "-aq").out.split()
            assert bool(left) == (not text), left
            d.start()
            b.wait_for(lambda d=d: d.get("/readyz").status == 200, 20, "berthd again")


def test_a_clean_end_that_could_not_clean_says_so():
    where = b.tmpdir("storage", 0o700)
    with Managed(BOX + f'[storage]\nurl = "file:{where}"\n' + FAST + 'on_shutdown = "clean"\n') as d:
        d.manager.create(storage_path="c/x")
        b.write(where + "/c", "in the way")
        assert d.stop() == 0
        assert "berthd ended; some of the manager's sandboxes could not be released" in d.log().splitlines()[-1], d.log()
        assert '"what":"clean-up"' in d.log() and [f["what"] for f in failures(d)] == ["release"], d.log()
        os.unlink(where + "/c")
        d.start()
        b.wait_for(lambda: d.get("/readyz").status == 200, 20, "berthd again")


def scanner(d):
    """The thread that looks over all records each scan_interval."""
    def counts():
        found = {}
        for tid in os.listdir(f"/proc/{d.p.pid}/task"):
            with open(f"/proc/{d.p.pid}/task/{tid}/status") as f:
                found[tid] = next(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt_switches"))
        return found

    before = counts()
    return b.wait_for(lambda: next((tid for tid, n in counts().items() if n >= before.get(tid, n) + 40), None), 20, "its wakings")


@b.deadline(90)
def test_who_uses_what_has_just_stopped_is_not_cut_by_a_look_at_it():
    """The look has found nothing that runs, and takes long; meanwhile somebody makes it run, and works in it."""
    b.needs_no_sanitizer("berthd is traced")
    with Managed(BOX + FAST) as d:
        m = d.manager
        name = m.create()
        box, tid, trace = m.get_info(identity=name)["container_id"], scanner(d), b.tmp("trace")
        # the look opens the sandbox's run directory, then makes a socket
        os.kill(d.p.pid, signal.SIGSTOP)
        b.berth("stop", "--grace", "0", box, ok=True)
        tracer = subprocess.Popen(["strace", "-qq", "-o", trace, "-p", tid, "-e", "trace=openat,socket", "-e", "inject=socket:delay_exit=4000000"],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=b.environment(b.under_strace()))
        try:
            b.wait_for(lambda: "TracerPid:\t0\n" not in open(f"/proc/{d.p.pid}/task/{tid}/status").read(), 20, "strace")
            os.kill(d.p.pid, signal.SIGCONT)
            b.wait_for(lambda: re.search(f'"{box}", .*O_PATH.* ENOENT', open(trace).read()), 20, "a look at what has stopped")
            assert m.shell(name, "sleep 8; echo through")[0]["stdout"] == "through\n"
        finally:
            os.kill(d.p.pid, signal.SIGCONT)
            tracer.terminate()
            tracer.communicate(timeout=20 * b.SLOW)


def makers():
    """The processes that make a sandbox for a berthd: berth op, before it is a keeper."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f, open(f"/proc/{pid}/comm") as comm:
                if f.read().startswith(b"berth\0op\0") and comm.read() == "berth\n":
                    found.append(int(pid))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def test_a_sandbox_that_a_killed_berthd_was_making_is_undone():
    """However long its maker takes: the next berthd waits for that, and finds what it has made."""
    with Managed(BOX + FAST) as d:
        before = set(makers())

        def ask():
            with contextlib.suppress(OSError, http.client.HTTPException):
                d.post("/create", {"meta": {}})
        asked = threading.Thread(target=ask)
        asked.start()
        (maker,) = b.wait_for(lambda: set(makers()) - before, 20, "the maker")
        # it has a name and its workspace
        while not os.listdir(f"{b.root()}/state/names"):
            pass
        os.kill(maker, signal.SIGSTOP)
        d.stop(signal.SIGKILL)
        asked.join()
        starting = threading.Thread(target=d.start)
        starting.start()
        starting.join(3)
        waits = starting.is_alive()
        os.kill(maker, signal.SIGCONT)
        b.wait_for(lambda: maker not in makers(), 20, "the end of the maker")
        starting.join()
        assert waits, "the next berthd looked for the sandbox while it was being made"
        b.wait_for(lambda: not d.manager.stats()["states"].get("creating"), 30, "the undoing")
        assert not b.berth("ps", "-a", "-q", ok=True).out
