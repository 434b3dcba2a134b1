# SPDX-License-Identifier: Apache-2.0
"""--publish on the host's loopback where the kernel leads nowhere: without a network, behind the proxy, on an internal one.  S57."""
import json
import os
import signal
import socket

import berthtest as b
import proc
from box import Box
from dockerlab import Engine
from netlab import Lab, need_bridge
from servers import COUNTS, ECHOES, PROGRAM, SIX, ask, serve

COST = 25
SERVER = "import socket; s = socket.create_server(('', 80)); print('up', flush=True)\nwhile True: c = s.accept()[0]; c.sendall(b'here'); c.close()"


def connect(port, address="127.0.0.1"):
    s = socket.create_connection((address, port), 20 * b.SLOW)
    s.settimeout(20 * b.SLOW)
    return s


def answers(port):
    try:
        with connect(port) as s:
            return s.recv(9) == b"here"
    except OSError:
        return False


def closed(port, address="127.0.0.1"):
    try:
        with connect(port, address) as s:
            return s.recv(1) == b""
    except (ConnectionRefusedError, ConnectionResetError):
        return True


def ports(name):
    return {(p["address"], p["port"]): p["host_port"] for p in json.loads(b.berth("port", "--json", name, ok=True).out)}


def leads_in(x):
    at = ports(x.id)
    assert ask(connect(at["127.0.0.1", COUNTS]), b"x" * 3_000_000) == b"3000000", "the end of one direction is passed on"
    assert ask(connect(at["127.0.0.1", ECHOES]), b"hello") == b"hello"
    assert ask(connect(at["::1", ECHOES], "::1"), b"hello") == b"hello"
    assert ask(connect(at["127.0.0.1", SIX]), b"abc") == b"3", "a server that listens on ::1 only"
    assert closed(at["127.0.0.1", 9]), "nobody listens in there"
    return at


def relays(*options):
    with Box("--name", "web", *options, "-p", f"127.0.0.1::{COUNTS}", "-p", str(ECHOES), "-p", f"127.0.0.1::{SIX}", "-p", "127.0.0.1::9") as x:
        serve(x)
        leads_in(x)
        # the process is in the sandbox's network and has no right, and what is inside sees no listener of it
        helpers = [p for p in proc.descendants(x.keeper) if os.readlink(f"/proc/{p}/ns/net") == os.readlink(f"/proc/{x.init}/ns/net")
                   and "berth-net" in proc.cmdline(p)]
        assert len(helpers) == 1, helpers
        status = open(f"/proc/{helpers[0]}/status").read()
        assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status, status
        assert "Uid:\t0\t" not in status and os.readlink(f"/proc/{helpers[0]}/root") != "/", status
        return [line.split()[1] for line in x.exec("cat", "/proc/net/route", ok=True).out.splitlines()[1:]]


def test_a_sandbox_without_a_network_publishes_on_the_loopback():
    assert relays() == [], "no way out"


def test_a_sandbox_behind_the_proxy_publishes_on_the_loopback():
    assert relays("--network", "egress", "--allow-host", "example.com") == [], "no way out but the proxy"


def test_a_member_of_an_internal_network_publishes_on_the_loopback():
    need_bridge()
    with Lab() as lab:      # the host forwards nothing
        b.berth("network", "create", "--internal", "inside", ok=True)
        try:
            assert "00000000" not in relays("--network", "inside"), "no way out"
            lab.untouched()
        finally:
            b.berth("network", "rm", "inside", ok=True)


def test_a_bridge_on_a_host_that_forwards_nothing_publishes_on_the_loopback():
    need_bridge()
    with Lab() as lab:
        r = b.run("--network", "bridge", "-p", "127.0.0.1::80", "host", "true", ok=True)
        assert "does not forward" in r.err and "hint: sysctl" in r.err, b.describe(r)
        b.berth("network", "create", "app", ok=True)
        try:
            for options in ("bridge", "app"):
                with Box("--name", "web", "--network", options, "-p", "127.0.0.1::80") as x:
                    b.wait_for(lambda c=x.main.detach("python3", "-c", SERVER): x.main.output(c)[0] == b"up\n", 10, "the server")
                    assert answers(ports("web")["127.0.0.1", 80])
                    assert json.loads(b.berth("stats", "--no-stream", "--json", "web", ok=True).out)["network"]["routed"] is False
                    out = "import socket; socket.create_connection(('1.2.3.4', 80), 0.2)"
                    assert x.exec("python3", "-c", out).code != 0, "no way out"
            with Box("--network", "app"):
                pass    # its members reach each other without the host's forwarding
            assert not lab.web.seen and open("/proc/sys/net/ipv4/ip_forward").read() == "0\n"
            lab.untouched()
        finally:
            b.berth("network", "rm", "app", ok=True)
            b.berth("gc", ok=True)


def test_dockers_door_publishes_on_a_host_that_forwards_nothing():
    need_bridge()
    with Lab() as lab, Engine() as d:
        d.good("POST", "/networks/create", {"Name": "app"})
        for name, network in (("one", "bridge"), ("two", "app"), ("db", "app")):
            published = {} if name == "db" else {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
            made = d.good("POST", f"/containers/create?name={name}", {"Image": "host", "Cmd": ["python3", "-c", SERVER], "HostConfig": {
                "NetworkMode": network, "PortBindings": published}})
            assert any("IPv4 forwarding is disabled" in w for w in made["Warnings"]), made
            d.good("POST", f"/containers/{name}/start")
            if published:
                at = d.good("GET", f"/containers/{name}/json")["NetworkSettings"]["Ports"]["80/tcp"][0]
                b.wait_for(lambda at=at: answers(int(at["HostPort"])), 10, "the container's server")
        lab.untouched()
        for name in ("one", "two", "db"):
            d.good("DELETE", f"/containers/{name}?force=1")
        d.good("DELETE", "/networks/app")
        b.berth("gc", ok=True)


def test_the_port_is_shown_comes_again_and_ends():
    with Box("--name", "web", "-p", f"127.0.0.1:18391:{ECHOES}") as x:
        serve(x)
        assert f"18391->{ECHOES}" in b.berth("ps", ok=True).out
        shown = json.loads(b.berth("inspect", "web", ok=True).out)["network"]
        assert shown["relay"] == {"publish": [f"127.0.0.1:18391:{ECHOES}"]} and shown["ports"][0]["host_port"] == 18391, shown
        assert b.berth("port", "web", str(ECHOES), ok=True).out == "127.0.0.1:18391\n"
        # one that is taken is said in words, and nothing is left
        b.one_line_error(b.berth("create", "--name", "two", "-p", "127.0.0.1:18391:80", "host"), 125, "18391", "a program of this host", "hint")
        b.one_line_error(b.berth("inspect", "two"), 125, "two")
        assert ask(connect(18391), b"hello") == b"hello"
        relay = [p for p in proc.descendants(x.keeper) if "berth-net" in proc.cmdline(p)]
        os.kill(relay[0], signal.SIGKILL)
        b.wait_for(lambda: json.loads(b.berth("stats", "--no-stream", "--json", "web", ok=True).out)["network"]["loopback"] == "gone", 5)
        b.berth("stop", "--grace", "0", "web", ok=True)
        assert closed(18391)
        b.berth("start", "web", ok=True)
        b.berth("exec", "--detach", "web", "python3", "-c", PROGRAM, ok=True)
        b.berth("wait", "--port", str(ECHOES), "web", ok=True)
        assert ask(connect(18391), b"again") == b"again"
    assert closed(18391)


def test_other_addresses_and_datagrams_are_refused_with_words():
    for port in ("0.0.0.0:18392:80", "192.0.2.1:18392:80", "[::]:18392:80", "18392:53/udp"):
        for options in ((), ("--network", "egress")):
            b.one_line_error(b.berth("create", *options, "-p", port, "host"), 2, port, "loopback address of the host", "--network bridge")
    b.one_line_error(b.berth("create", "--network", "host", "-p", "18392:80", "host"), 2, "publish", "hint")
