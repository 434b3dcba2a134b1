# SPDX-License-Identifier: Apache-2.0
"""The name within a tunnel of --network egress (S22): a server that hosts many names is asked there for allowed ones only."""
import json
import threading

import berthtest as b
import netlab
from box import Box
from netlab import BASE, OUTSIDE, Lab, need_net

COST = 20

# Makes hellos with Python's own TLS and sends them by CONNECT in pieces; prints what came back, a JSON list a case.
CLIENT = r'''
import json, socket, ssl, sys
def hello(name):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ctx.wrap_bio(i, o, server_hostname=name)
    try: tls.do_handshake()
    except ssl.SSLWantReadError: pass
    return tls, i, o, o.read()
def dial(how):
    s = socket.create_connection(("127.0.0.1", 3128), 60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if how == "socks":
        s.sendall(b"\x05\x01\x00"); assert s.recv(2) == b"\x05\x00"
        s.sendall(b"\x05\x01\x00\x03\x0coutside.test\x01\xbb"); assert s.recv(10)[1] == 0
    else:
        s.sendall(b"CONNECT outside.test:443 HTTP/1.1\r\n\r\n")
        data = b""
        while b"\r\n\r\n" not in data: data += s.recv(1000)
        assert b" 200 " in data, data
    return s
def records(data, size):
    assert data[0] == 22
    body = data[5:]
    return b"".join(b"\x16\x03\x01" + len(body[i:i + size]).to_bytes(2, "big") + body[i:i + size] for i in range(0, len(body), size))
def until_end(s):
    data = b""
    try:
        while piece := s.recv(65536): data += piece
    except OSError as e: return "error"
    return data.hex()
def raw(how, data, piece=0, then=None):
    s = dial(how)
    try:
        if piece:
            for i in range(0, len(data), piece): s.sendall(data[i:i + piece])
        else: s.sendall(data)
        if then is not None:
            s.recv(65536)
            s.sendall(then)
    except OSError: pass
    return until_end(s)
def whole(how, name, size=0, piece=0):
    """A handshake to its end, the first flight cut up; then a request."""
    tls, i, o, first = hello(name)
    s = dial(how)
    if size: first = records(first, size)
    for at in range(0, len(first), piece or len(first)): s.sendall(first[at:at + (piece or len(first))])
    while True:
        try: tls.do_handshake(); break
        except ssl.SSLWantReadError:
            if o.pending: s.sendall(o.read())
            data = s.recv(65536)
            if not data: return "cut"
            i.write(data)
    tls.write(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"); s.sendall(o.read())
    out = b""
    while True:
        try:
            piece_ = tls.read(65536)
            if not piece_: break
            out += piece_
            if b"hello from" in out: break
        except ssl.SSLWantReadError:
            data = s.recv(65536)
            if not data: break
            i.write(data)
    return out[:12].decode()
good, evil = hello("outside.test")[3], hello("evil.test")[3]
spaced = hello("outside.test")[3]
at = evil.index(b"evil.test")
def renamed(name): return evil.replace(b"evil.test", name)
nul = renamed(b"evil\0test")
cases = {
    "plain": lambda how: whole(how, "outside.test"), "upper": lambda how: whole(how, "OUTSIDE.test"),
    "other allowed": lambda how: whole(how, "also.test"), "no name": lambda how: whole(how, None),
    "bytes": lambda how: whole(how, "outside.test", piece=1), "records": lambda how: whole(how, "outside.test", size=7),
    "evil": lambda how: raw(how, evil), "evil bytes": lambda how: raw(how, evil, 1), "evil records": lambda how: raw(how, records(evil, 3)),
    "evil record of one": lambda how: raw(how, records(evil, 1), 9), "nul": lambda how: raw(how, nul), "dots": lambda how: raw(how, renamed(b"evil..est")),
    "number": lambda how: raw(how, renamed(b"127.0.0.1")), "blank": lambda how: raw(how, renamed(b"evil test")),
    "two hellos": lambda how: raw(how, good + evil), "second": lambda how: raw(how, good, then=evil),
    "in one record": lambda how: raw(how, good[:3] + (len(good) - 5 + 9).to_bytes(2, "big") + good[5:] + b"\x01" * 9),
    "no hello": lambda how: raw(how, b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00"), "empty record": lambda how: raw(how, b"\x16\x03\x01\x00\x00" + evil),
    "long": lambda how: raw(how, b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + b"x" * 20000), "alert first": lambda how: raw(how, b"\x16\x03\x01\x00\x01\x01" + b"\x15\x03\x01\x00\x02\x01\x00"),
}
print(json.dumps({f"{how} {n}": f(how) for how in sys.argv[1].split(",") for n, f in cases.items() if n in sys.argv[2].split(",")}))
'''
GOOD = ("plain", "upper", "other allowed", "no name", "bytes", "records")
EVIL = ("evil", "evil bytes", "evil records", "evil record of one", "nul", "dots", "number", "blank", "in one record", "no hello", "empty record",
        "long", "alert first")
ALERT = "15030300020231"


def cases(which, hows="connect,socks", rules=("--allow-host", "outside.test", "--allow-host", "also.test")):
    r = b.run(*BASE, *rules, "host", "python3", "-c", CLIENT, hows, ",".join(which), ok=True, timeout=120)
    return json.loads(r.out)


def test_S22_a_tunnel_is_for_allowed_names():
    need_net()
    _, tls = netlab.certificate("outside.test")
    with Lab() as lab:
        lab.add("tls", lab.outside, OUTSIDE, 443, tls=tls)
        got = cases(GOOD)
        assert len(got) == 2 * len(GOOD) and set(got.values()) == {"HTTP/1.1 200"}, got
        before = len(lab.tls.requests)
        got = cases(EVIL)
        assert len(got) == 2 * len(EVIL), got
        assert all(v.endswith(ALERT) or v == "error" for v in got.values()), got
        assert sum(v == ALERT for v in got.values()) > len(EVIL), got
        assert len(lab.tls.requests) == before
        # a wildcard is a rule as any other; a denied name is denied in there too
        assert cases(("evil", "plain"), "connect", ("--allow-host", "*", "--deny-host", "evil.test")) == {
            "connect evil": ALERT, "connect plain": "HTTP/1.1 200"}
        lab.untouched()


def test_S22_the_second_hello_too():
    """The server wants another key (HelloRetryRequest): clients go on, and what they name then is looked at."""
    need_net()
    _, tls = netlab.certificate("outside.test")
    tls.set_ecdh_curve("secp384r1")
    with Lab() as lab:
        lab.add("tls", lab.outside, OUTSIDE, 443, tls=tls)
        got = cases(("plain", "bytes", "two hellos", "second"))
        for how in ("connect", "socks"):
            assert got[f"{how} plain"] == got[f"{how} bytes"] == "HTTP/1.1 200", got
            assert got[f"{how} two hellos"].endswith(ALERT) and got[f"{how} second"].endswith(ALERT), got
        assert len(lab.tls.requests) == 4
        lab.untouched()


def test_S22_is_told_and_holds_after_a_change():
    need_net()
    cert, tls = netlab.certificate("outside.test", "front.test")
    go = threading.Event()

    def slow(path, headers):
        if path == "/slow":
            go.wait(20 * b.SLOW)
        return 200, {}, b"x"

    with Lab(names={"front.test": [OUTSIDE]}) as lab, Box("--name", "fronter", *BASE, "--allow-host", "outside.test", "-v", f"{cert}:/cert.pem") as x:
        lab.add("tls", lab.outside, OUTSIDE, 443, answer=slow, tls=tls)
        front = ("curl", "-sS", "--cacert", "/cert.pem", "--connect-to", "front.test:443:outside.test:443", "https://front.test/")
        r = x.exec(*front)
        assert r.code == 35 and "alert access denied" in r.err, b.describe(r)
        log = [json.loads(line) for line in b.berth("network", "log", "--json", "fronter", ok=True).out.splitlines()]
        assert log[-1]["verdict"] == "deny" and "asked for front.test" in log[-1]["reason"] and "--allow-host front.test:443" in log[-1]["reason"], log
        assert not lab.tls.requests
        b.wait_for(lambda: "front.test" in b.berth("events", "fronter", ok=True).out, 5, "the event")
        b.berth("update", "--allow-host", "front.test:443", "fronter", ok=True)
        assert x.exec(*front).code == 0
        # what was opened under a name that is denied now is cut
        x.main.detach(*front[:-1], "https://front.test/slow")
        b.wait_for(lambda: any(r[1] == "/slow" for r in lab.tls.requests), 20, "the slow request")
        told = json.loads(b.berth("update", "--json", "--deny-host", "front.test:443", "fronter", ok=True).out)
        go.set()
        assert told["connections_cut"] == 1, told
        assert x.exec(*front).code == 35
        lab.untouched()
