# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that live: made, stopped, started, removed; their files, names and number."""
import json
import os
import shutil
import threading

import berthtest as b
import box
import leak
from box import Box

COST = 15


def listed(*options):
    return {s["id"]: s for s in json.loads(b.berth("ps", "--json", *options, ok=True).out)}


def test_create_prints_an_id_that_ps_and_inspect_know():
    with Box("--name", "one") as x:
        assert x.id in listed() and listed()[x.id]["name"] == "one"
        for ref in (x.id, x.id[:6], "one"):
            assert json.loads(b.berth("inspect", ref, ok=True).out)["id"] == x.id
            assert b.berth("exec", ref, "echo", "hi", ok=True).out == "hi\n"
        b.one_line_error(b.berth("create", "--name", "one", "host"), 125, "one", "taken")
    assert not listed("-a")


def test_files_last_over_five_stops_and_starts():
    with Box("--name", "keeps") as x:
        for i in range(5):
            x.exec("sh", "-c", f"echo {i} >>/workspace/log; chmod 640 /workspace/log; sleep 300 >/dev/null 2>&1 &", ok=True)
            b.berth("stop", "keeps", ok=True)
            assert x.id not in listed() and listed("-a")[x.id]["status"] == "stopped"
            b.one_line_error(x.exec("true"), 125, "not running")
            b.berth("stop", "keeps", ok=True)  # again: nothing to do
            b.berth("start", "keeps", ok=True)
            b.berth("start", "keeps", ok=True)
            r = x.exec("sh", "-c", "cat /workspace/log; stat -c %a /workspace/log; pgrep -c sleep", ok=None)
            b.expect(r.out == "".join(f"{n}\n" for n in range(i + 1)) + "640\n0\n", r, f"after stop {i}")
        b.berth("restart", "keeps", ok=True)
        assert x.exec("wc", "-l", "/workspace/log", ok=True).out.startswith("5 ")
        b.berth("kill", "keeps", ok=True)
        assert x.exec("cat", "/workspace/log", options=("--start",), ok=True).out == "0\n1\n2\n3\n4\n"


def test_pause_and_resume():
    with Box() as x:
        n = x.main.detach("sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done")
        b.wait_for(lambda: x.main.output(n)[1]["total"] > 10, 5, "output")
        b.berth("pause", x.id, ok=True)
        before = x.main.output(n)[1]["total"]
        leak.time.sleep(0.3)  # time in which a running one would print
        assert x.main.output(n)[1]["total"] == before, "it runs on"
        b.berth("resume", x.id, ok=True)
        b.wait_for(lambda: x.main.output(n)[1]["total"] > before, 5, "output")
        b.berth("pause", x.id, ok=True)
        b.berth("stop", x.id, ok=True, timeout=10)  # a frozen one ends too


def test_a_reboot_leaves_what_is_needed_to_start():
    with Box("--name", "boot") as x:
        x.exec("sh", "-c", "echo kept >/workspace/f", ok=True)
        keeper = x.keeper
        b.proc.kill(keeper)
        b.wait_for(lambda: not b.proc.alive(keeper), 5, "the keeper's end")
        leak.remove_cgroups(b.TEST_PID)
        shutil.rmtree(os.path.join(b.root(), "run"))
        os.mkdir(os.path.join(b.root(), "run"), 0o700)
        assert listed("-a")[x.id]["status"] == "stopped"
        b.berth("start", "boot", ok=True)
        assert x.exec("cat", "/workspace/f", ok=True).out == "kept\n"


def test_rm_of_what_is_not_there():
    b.one_line_error(b.berth("rm", "nosuch"), 125, "nosuch")
    b.berth("rm", "-f", "nosuch", ok=True)
    with Box() as x:
        b.one_line_error(b.berth("rm", x.id), 125, "running")
        assert x.exec("true").code == 0


def test_a_failed_create_leaves_nothing():
    for args in (["nosuchimage"], ["--memory", "abc", "host"], ["/nonexistent"], ["--name", "../x", "host"], ["host", "true"]):
        r = b.berth("create", *args)
        b.expect(r.code in (2, 125) and len(r.err.splitlines()) == 1, r, "one clear error")
    assert not listed("-a")


@b.deadline(120)
def test_200_creates_at_once_never_exceed_the_limit():
    config = b.write(b.tmp("berth.toml"), "[manager]\nmax_sandboxes = 20\n")
    env = {"BERTH_CONFIG": config}
    made, refused, bad, most = [], [], [], [0]
    todo = list(range(200))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                if not todo:
                    return
                todo.pop()
            r = b.berth("create", "--memory", "32m", "host", env=env, timeout=60)
            with lock:
                if r.code == 0:
                    made.append(r.out.strip())
                elif "limit" in r.err and len(r.err.splitlines()) == 1 and not r.out:
                    refused.append(r)
                else:
                    bad.append(b.describe(r))
                most[0] = max(most[0], len(leak.names(os.path.join(b.root(), "state", "sandboxes"))))
    threads = [threading.Thread(target=work) for _ in range(40)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    try:
        assert not bad, "\n".join(bad[:5])
        assert len(made) == 20 and len(refused) == 180 and most[0] <= 20, (len(made), len(refused), most)
        assert sorted(listed()) == sorted(made)
        # one goes, one may come
        b.berth("rm", "-f", made.pop(), ok=True, env=env)
        made.append(b.berth("create", "host", ok=True, env=env).out.strip())
        b.expect_code(b.berth("create", "host", env=env), 125)
    finally:
        b.berth("rm", "-f", *made, env=env, timeout=60)
