# SPDX-License-Identifier: Apache-2.0
"""The keeper's protocol: what it refuses, and berth that was upgraded below a sandbox that lives (manager/keeper/protocol.h)."""
import array
import contextlib
import json
import os
import re
import socket
import threading

import berthtest as b
import box
from box import Box

TABLE = open(os.path.join(b.TOP, "manager/keeper/protocol.h")).read()
OPERATIONS = {name: re.findall(r"(?:HAS|SINCE)\((?:\d+, )?(\w+)\)", members) for name, members in
              re.findall(r'X\(\w+, "([\w-]+)", \d+, \d+, [^,]*,((?:[^()]|\(\w+\)|\(\d+, \w+\))*)\)', TABLE)}
TYPES = dict(re.findall(r"X\((\w+), ([A-Z]+)\)", TABLE))
WRONG = {"STRING": 1, "STRINGS": [1], "NUMBER": -1, "LIMIT": "many", "FLAG": 1, "OBJECT": []}


def refused(c, op, *words, **members):
    try:
        answer = c.call(op, seconds=10, **members)
    except box.Refused as e:
        assert e.code == "invalid" and all(w in e.message for w in words), (op, members, e.code, e.message)
    else:
        raise AssertionError(f"{op} took {members}: {answer}")


def test_every_operation_refuses_unknown_members_and_wrong_types():
    assert len(OPERATIONS) > 25 and set(OPERATIONS["follow"]) == {"command", "stream", "from", "stderr_from", "hold"}, OPERATIONS
    with Box() as x, x.client() as c:
        for op, members in OPERATIONS.items():
            refused(c, op, '"no_such_member"', op, no_such_member=True)
            for m in members:
                refused(c, op, f'"{m}"', op, "is not", **{m: WRONG[TYPES[m]]})
        refused(c, "dance", "unknown operation 'dance'")
        assert c.call("ping")["state"] == "running"
        assert c.call("ping", inline=True, guard=False, **{"data": None})["state"] == "running"


def test_more_descriptors_than_an_operation_takes_are_refused():
    with Box() as x, x.client() as c, open(os.devnull) as null:
        c.send("ping", [null.fileno()])
        try:
            c.receive()
            raise AssertionError("ping took a descriptor")
        except box.Refused as e:
            assert e.code == "invalid" and "at most 0 descriptors" in e.message, e.message


def test_who_finds_every_place_taken_is_told_so():
    places = 256 + 32
    with Box() as x, contextlib.ExitStack() as held:
        for _ in range(places):
            last = held.enter_context(x.client())
        assert last.call("ping")["state"] == "running"
        b.one_line_error(b.berth("exec", x.id, "true"), 125, f"serves {places} clients at once", "hint: try again")
        last.sock.close()
        b.wait_for(lambda: b.berth("exec", x.id, "true").code == 0, 20, "a place that is free again")
        # those who ask for its end have places of their own, which nobody holds by being there
        for _ in range(10):
            held.enter_context(x.client())
        b.one_line_error(b.berth("exec", x.id, "true"), 125, f"serves {places} clients at once")
        b.berth("kill", x.id, ok=True)
        assert b.berth("ps", "-q", ok=True).out == ""


def test_a_request_of_a_newer_protocol_is_refused_with_a_remedy():
    with Box() as x, x.client() as c:
        c.raw(b'{"v":9,"op":"ping"}')
        try:
            c.receive()
            raise AssertionError("version 9 was served")
        except box.Refused as e:
            assert e.code == "invalid" and "version 9" in e.message and "restart the sandbox" in e.message, e.message


# ---- an older keeper: berth was upgraded while the sandbox lives

class Older:
    """
    In front of a keeper, on its socket: what a keeper of version 1 answers.  It refuses any other version and ends the connection,
    and takes every member; so no client may send a newer member in a request of version 1.
    """

    def __init__(self, x):
        self.path = os.path.join(x.dir, "sock")
        self.behind = self.path + ".behind"
        os.rename(self.path, self.behind)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.refused = []
        self.sockets, self.threads = [self.listener], []
        self.start(self.accept)

    def start(self, *call):
        self.threads.append(threading.Thread(target=call[0], args=call[1:], daemon=True))
        self.threads[-1].start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                keeper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                keeper.connect(self.behind)
                self.sockets += [client, keeper]
                self.start(self.carry, client, keeper, True)
                self.start(self.carry, keeper, client, False)

    def carry(self, source, sink, is_request):
        with contextlib.suppress(OSError):
            while True:
                data, control, _, _ = source.recvmsg(box.WIRE_MAX + 1, socket.CMSG_SPACE(16), socket.MSG_CMSG_CLOEXEC)
                fds = array.array("i")
                for _, _, payload in control:
                    fds.frombytes(payload[:len(payload) - len(payload) % 4])
                if not data:
                    break
                if is_request and json.loads(data)["v"] != 1:
                    self.refused.append(data)
                    source.send(json.dumps({"v": 1, "error": {"code": "invalid", "number": 1, "message":
                                            "a message of version 2, not 1; hint: restart the sandbox with this berth"}}).encode())
                    break
                sink.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)] if fds else [])
                for fd in fds:
                    os.close(fd)
        for s in (source, sink):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        for t in self.threads:
            t.join()
        for s in self.sockets:
            s.close()
        os.rename(self.behind, self.path)


def test_an_older_keeper_serves_all_that_it_knows():
    with Box("--name", "old", "--memory", "64m") as x, contextlib.closing(Older(x)) as older:
        assert b.berth("exec", "-i", "old", "sh", "-c", "cat; echo $A", ok=True, input="in\n").out == "in\n\n"
        long = ["y" * 100000] * 2
        assert b.berth("exec", "old", "sh", "-c", "echo $#", "sh", *long, ok=True).out == "2\n"
        assert b.berth("sh", "old", "echo shell", ok=True).out == "shell\n"
        command = b.berth("exec", "-d", "old", "sh", "-c", "echo detached; read line", ok=True).out.strip()
        assert command in b.berth("commands", "old", ok=True).out
        b.berth("send", "old", command, "line", ok=True)
        b.berth("wait", "old", command, ok=True)
        assert b.berth("output", "old", command, ok=True).out == "detached\n"
        b.berth("file", "write", "old", "/srv/note", ok=True, input="noted")
        assert b.berth("file", "read", "old", "/srv/note", ok=True).out == "noted"
        assert json.loads(b.berth("ps", "--json", ok=True).out)[0]["status"] == "running"
        b.berth("update", "--memory", "32m", "old", ok=True)
        assert "/srv/note" in b.berth("diff", "old", ok=True).out
        b.berth("pause", "old", ok=True)
        b.berth("resume", "old", ok=True)
        b.berth("stats", "--no-stream", "old", ok=True)
        assert b.berth("code", "--lang", "sh", "old", ok=True, input="echo code\n").out == "code\n"
        assert not older.refused, older.refused
