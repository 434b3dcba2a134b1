# SPDX-License-Identifier: Apache-2.0
"""Clients that leave before they are answered: nothing is made that nobody owns."""
import json

import berthtest as b
import daemon
import s3server
from managed import BOX, FAST, Managed, s3_config
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
