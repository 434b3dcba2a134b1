# SPDX-License-Identifier: Apache-2.0
"""A thousand connections at once through previews, and what they cost.  S61."""
import resource

import berthtest as b
from previews import DOMAIN, WEB, Previews, web

COST = 30
MANY = 1000


def rss(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def test_a_thousand_connections_take_bounded_memory_and_give_it_back():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Previews() as d:
        boxes = [d.create(pids=1200, memory="1g") for _ in range(2)]
        for x in boxes:
            web(x)
            d.preview(x, public=True)
        seen = []
        for _ in range(3):
            held = []
            for n in range(MANY):
                s = d.dial()
                s.sendall(f"GET /ws HTTP/1.1\r\nHost: {WEB}-{boxes[n % 2]}.{DOMAIN}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                          "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
                held.append(s)
            for s in held:
                assert s.recv(4096).startswith(b"HTTP/1.1 101 ")
            for s in held:
                s.sendall(b"x")
            for s in held:
                assert s.recv(16) == b"x"
            seen.append(rss(d.web_server()))
            for s in held:
                s.close()
            assert b.wait_for(lambda: d.ask(f"{WEB}-{boxes[0]}").status == 200, 30, "an answer")
        # two buffers each of 16 KiB, and what the program itself takes
        assert max(seen) < 50_000 + MANY * 40 and seen[2] < max(seen[:2]) + 4000, seen
