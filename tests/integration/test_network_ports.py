# SPDX-License-Identifier: Apache-2.0
"""Ports of the host that berth chooses, and berth port."""
import json
import re
import socket
import urllib.request

import berthtest as b
from box import Box
from netlab import HOST, Lab, need_bridge

COST = 15

SERVER = ("import http.server, socket, threading\n"
          "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nu.bind(('0.0.0.0', 5300))\n"
          "def echo():\n while True:\n  data, peer = u.recvfrom(99)\n  u.sendto(data[::-1], peer)\n"
          "threading.Thread(target=echo, daemon=True).start()\n"
          "http.server.ThreadingHTTPServer(('0.0.0.0', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()")


def ports(*words):
    return json.loads(b.berth("port", "--json", *words, ok=True).out)


def answers(address, port):
    host = f"[{address}]" if ":" in address else address
    with urllib.request.urlopen(f"http://{host}:{port}/", timeout=20) as r:
        return r.status == 200


def serve(x):
    x.main.detach("python3", "-c", SERVER)
    b.wait_for(lambda: x.exec("curl", "-s", "-o", "/dev/null", "http://127.0.0.1:8000/").code == 0, 10, "the server")


def test_a_port_of_the_host_is_chosen_and_told():
    need_bridge()
    with Lab(forwarding=True), Box("--name", "web", "--network", "bridge", "-p", "8000", "-p", "0.0.0.0::8000", "-p", "5300/udp",
                                   "-p", "[::]::9000/tcp") as web, Box("--name", "other", "--network", "bridge", "-p", "8000") as other:
        found = ports("web")
        assert [(p["address"], p["port"], p["protocol"]) for p in found] == [
            ("127.0.0.1", 8000, "tcp"), ("::1", 8000, "tcp"), ("0.0.0.0", 8000, "tcp"), ("127.0.0.1", 5300, "udp"), ("::1", 5300, "udp"),
            ("::", 9000, "tcp")], found
        assert found[0]["host_port"] == found[1]["host_port"], "one for both families"
        taken = {(p["protocol"], p["host_port"]) for p in found + ports("other")}
        assert len(taken) == 5 and all(p > 1023 for _, p in taken), taken
        for x in (web, other):
            serve(x)
        assert answers("127.0.0.1", found[0]["host_port"]) and answers(HOST, found[2]["host_port"])
        assert answers("127.0.0.1", ports("other", "8000")[0]["host_port"])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(20)
            s.sendto(b"abc", ("127.0.0.1", found[3]["host_port"]))
            assert s.recv(9) == b"cba"
        assert b.berth("port", "web", "8000", ok=True).out.splitlines() == [
            f"127.0.0.1:{found[0]['host_port']}", f"[::1]:{found[0]['host_port']}", f"0.0.0.0:{found[2]['host_port']}"]
        assert f"5300/udp -> 127.0.0.1:{found[3]['host_port']}" in b.berth("port", "web", ok=True).out.splitlines()
        assert json.loads(b.berth("inspect", "web", ok=True).out)["network"]["ports"] == found
        b.one_line_error(b.berth("port", "web", "5300"), 125, "no port 5300/tcp", "hint")
        b.one_line_error(b.berth("port", "web", "x"), 2, "port")
        b.one_line_error(b.berth("port"), 2, "hint")
        # a change of the rules keeps them
        b.berth("update", "--deny-net", "9.9.9.9/32", "web", ok=True)
        assert ports("web") == found and answers(HOST, found[2]["host_port"])
        b.berth("restart", "web", ok=True)
        b.berth("exec", "--detach", "web", "python3", "-c", SERVER, ok=True)
        b.wait_for(lambda: b.berth("exec", "web", "curl", "-s", "-o", "/dev/null", "http://127.0.0.1:8000/").code == 0, 10, "the server")
        again = ports("web")
        assert len(again) == len(found) and answers("127.0.0.1", again[0]["host_port"])
        b.berth("stop", "web", ok=True)
        b.one_line_error(b.berth("port", "web"), 125, "not running", "hint")


def test_create_and_stdio_answer_with_the_ports():
    need_bridge()
    with Lab(forwarding=True):
        made = json.loads(b.berth("create", "--json", "--name", "one", "--network", "bridge", "-p", "8000", "host", ok=True).out)
        assert made["ports"] == ports("one") and made["ports"][0]["port"] == 8000
        line = json.dumps({"id": 1, "op": "create", "image": "host", "options": {"name": "two", "network": "bridge", "publish": ["8000", "7"]}})
        r = b.berth("stdio", input=line + "\n", ok=True)
        answer = json.loads(r.out)
        assert answer["ports"] == ports("two") and {p["port"] for p in answer["ports"]} == {8000, 7}, answer
        r = b.run("--network", "bridge", "-p", "8000", "host", "true", ok=True)
        assert re.search(r"port 8000 is published at 127\.0\.0\.1:\d+", r.err), b.describe(r)
        r = b.run("--network", "bridge", "-p", "18123:8000", "host", "true", ok=True)
        assert "is published" not in r.err, b.describe(r)
        b.berth("rm", "--force", "one", "two", ok=True)
