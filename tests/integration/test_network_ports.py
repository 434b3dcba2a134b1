# SPDX-License-Identifier: Apache-2.0
"""Ports of the host that berth chooses, berth port, and lines of /etc/hosts."""
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
            s.settimeout(20 * b.SLOW)
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


def hosts(x):
    return [line.split() for line in x.exec("cat", "/etc/hosts", ok=True).out.splitlines() if line and line[0] != "#"]


def test_lines_of_hosts_are_added_in_every_network():
    lines = ("--add-host", "db:10.1.2.3", "--add-host", "db6.local:[2001:db8::1]", "--add-host", "six:::1")
    want = [["10.1.2.3", "db"], ["2001:db8::1", "db6.local"], ["::1", "six"]]
    for mode in ("none", "host", "egress"):
        with Box("--name", "one", "--network", mode, *lines) as x:
            assert hosts(x)[-3:] == want, (mode, hosts(x))
            assert x.exec("getent", "hosts", "db", ok=True).out.split()[0] == "10.1.2.3"
            b.berth("restart", "one", ok=True)
            again = b.berth("exec", "one", "cat", "/etc/hosts", ok=True).out.split("\n")
            assert [line.split() for line in again[-4:-1]] == want, (mode, again)
    r = b.run("--network", "host", "--add-host", "me:host-gateway", "host", "getent", "hosts", "me", ok=True)
    assert r.out.split()[0] == "127.0.0.1", b.describe(r)
    for value in ("x", "x:", ":1.2.3.4", "x:1.2.3", "x y:1.2.3.4", "x\n1.2.3.4 y:1.2.3.4", "-x:1.2.3.4", "x:host-gateways", "x:1.2.3.4 y"):
        b.one_line_error(b.run("--add-host", value, "host", "true"), 2, "hosts", "hint")
    b.one_line_error(b.run("--add-host", "x:host-gateway", "host", "true"), 2, "host-gateway", "hint")


def test_host_gateway_is_the_host_and_reached_where_allowed():
    need_bridge()
    with Lab(forwarding=True):
        b.berth("network", "create", "app", ok=True)
        subnet = json.loads(b.berth("network", "inspect", "app", ok=True).out)["subnet"]
        for network in ("bridge", "app"):
            gateway = "10.203.0.1" if network == "bridge" else subnet.split("/")[0][:-1] + "1"
            options = ("--network", network, "--add-host", "host.docker.internal:host-gateway", "--add-host", "db:10.1.2.3")
            with Box("--name", "shut", *options) as shut, Box("--name", "open", *options, "--allow-net", gateway + "/32") as may, \
                    socket.create_server(("0.0.0.0", 8123)) as s:
                assert hosts(may)[-2:] == [[gateway, "host.docker.internal"], ["10.1.2.3", "db"]], hosts(may)
                assert shut.exec("curl", "-s", "-m", "5", "telnet://host.docker.internal:8123", input="").code
                command = may.main.detach("curl", "-s", "-m", "30", "telnet://host.docker.internal:8123")
                s.settimeout(30 * b.SLOW)
                s.accept()[0].close()
        b.berth("network", "rm", "app", ok=True)
