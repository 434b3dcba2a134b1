# SPDX-License-Identifier: Apache-2.0
"""
Clients that leave before they are answered: nothing is made that nobody owns.  And those that
want more for what they have: no more is promised than [admission] has.
"""
import json
import signal

import berthtest as b
import daemon
import s3server
from managed import BOX, FAST, Managed, listens, refused, s3_config
from s3server import Held


def ask(d, function, **arguments):
    """A socket over which the call was sent."""
    body = json.dumps(arguments)
    s = d.raw_socket(tcp=True)
    s.sendall(f"POST /{function} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {daemon.TOKEN}\r\n"
              f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return s


def test_who_leaves_the_queue_gets_nothing_and_frees_his_place():
    with Managed('[manager]\nmax_sandboxes = 1\n' + BOX + '[admission]\nqueue = 2\nqueue_timeout = "600s"\n' + FAST) as d:
        m = d.manager
        waiting = lambda: m.stats()["admission"]["waiting"]
        first = m.create()
        with ask(d, "create"):
            b.wait_for(lambda: waiting() == 1, 10, "one that waits")
            with ask(d, "create_from_pool"):
                b.wait_for(lambda: waiting() == 2, 10, "two that wait")
        b.wait_for(lambda: waiting() == 0, 20, "an empty queue")
        assert m.release(identity=first) is True
        assert m.stats()["admission"]["sandboxes"] == 0 and set(m.stats()["states"]) <= {"released"}
        assert b.berth("ps", "-aq", env=d.environment()).out == ""
        # the next is served
        assert m.get_status(identity=m.create()) == "running"


def test_who_leaves_while_it_is_made_leaves_nothing():
    with s3server.S3() as s3, Managed(s3_config(s3)) as d:
        m = d.manager
        name = m.create(storage_path="c/x")
        m.shell(name, "echo kept > file")
        assert m.release(identity=name) is True
        before = dict(s3.objects)
        with Held(s3, lambda method, path: method == "GET" and "/c/x/chunks/" in path) as held:
            with ask(d, "create", storage_path="c/x"):
                assert held.came.wait(30 * b.SLOW)
                assert m.stats()["admission"]["sandboxes"] == 1
        b.wait_for(lambda: m.stats()["admission"]["sandboxes"] == 0, 20, "nothing made")
        assert set(m.stats()["states"]) <= {"released"} and b.berth("ps", "-aq", env=d.environment()).out == ""
        # and stores nothing over what another has stored meanwhile
        assert s3.objects == before


def test_no_way_leads_past_admission():
    config = BOX.replace("options", 'size = 1\nmemory_limit = "64m"\ncpu_limit = 0.5\noptions') + \
        '[admission]\nmemory = "256m"\ncpus = 2\n' + FAST
    with Managed(config) as d:
        m = d.manager
        promised = lambda: (m.stats()["admission"]["memory_bytes"] >> 20, m.stats()["admission"]["cpu_milli"])
        d.warm(1)
        assert promised() == (64, 500)
        # a claim that wants more than there is, of a warm one
        refused(429, m.create_from_pool, memory="300m")
        refused(429, m.create_from_pool, cpus=3)
        assert promised() == (64, 500)
        name = m.create_from_pool(memory="128m")
        assert m.stats()["counts"]["claimed"] == 1
        d.reconfigure("size = 0")
        # the pool may be about to fill the place of what was claimed
        b.wait_for(lambda: d.idle() and promised() == (128, 500), 20, "the claim alone")
        box = m.get_info(identity=name)["container_id"]
        patch = lambda **body: d.request("PATCH", f"/v1/sandboxes/{box}", body, token=daemon.TOKEN).status
        other = m.create(memory="64m")
        for body in ({"memory": "193m"}, {"memory": 300 << 20}, {"memory": "unlimited"}, {"cpus": 1.6}, {"cpus": "unlimited"}):
            assert patch(**body) == 429, body
        assert promised() == (192, 1000) and d.get(f"/v1/sandboxes/{box}").json["memory_limit_bytes"] == 128 << 20
        assert patch(memory="192m", cpus=1.5) == 200 and promised() == (256, 2000)
        refused(429, m.create, memory="1m", cpus=0.01)
        # one that the kernel or berth refuses takes nothing
        assert patch(memory="64m", pids=1) == 400 and promised() == (256, 2000)
        assert patch(memory="100m") == 200 and promised() == (164, 2000)
        # it stands in the record: a berthd that comes after counts the same
        d.stop(signal.SIGKILL)
        d.start()
        b.wait_for(lambda: listens(d.port), 20, "berthd on its port")
        assert promised() == (164, 2000)
        assert m.release(identity=name) is True and m.release(identity=other) is True and promised() == (0, 0)
