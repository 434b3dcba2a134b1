# SPDX-License-Identifier: Apache-2.0
"""
What a sandbox with --network egress must not reach, whatever it tries, with the widest rule there is ("*:*"): by
address in every form, by name, by redirect, by rebinding; and what it does to the proxy itself (K20, S13, S14).
"""
import itertools
import json
import socket

import berthtest as b
from netlab import BASE, HOST, HOST6, INSIDE, INSIDE6, METADATA, OUTSIDE, Lab, need_net, tries

COST = 15
HOWS = ("connect", "absolute", "socks")


def embedded(v4):
    """The forms of IPv6 that carry an IPv4 address."""
    raw = socket.inet_aton(v4).hex()
    hi, lo = raw[:4], raw[4:]
    return (f"::ffff:{v4}", f"::{v4}", f"64:ff9b::{hi}:{lo}", f"2002:{hi}:{lo}::1", f"64:ff9b:1::{hi}:{lo}",
            f"::ffff:0:{hi}:{lo}", f"2001:0:{hi}:{lo}::1")


def spelled(v4):
    """What inet_aton(3) takes for the same address."""
    a, b_, c, d = (int(x) for x in v4.split("."))
    n = (a << 24) + (b_ << 16) + (c << 8) + d
    return (str(n), hex(n), "0" + oct(n)[2:], f"{a}.{(b_ << 16) + (c << 8) + d}", f"0{a:o}.0{b_:o}.0{c:o}.0{d:o}",
            f"0x{a:x}.0x{b_:x}.0x{c:x}.0x{d:x}", f"{a}.{b_}.{(c << 8) + d}", v4 + ".", f"{a:03}.{b_:03}.{c:03}.{d:03}")


def test_K20_by_address_in_every_form():
    need_net()
    with Lab() as lab:
        hosts = list(INSIDE + INSIDE6) + ["127.0.0.1", "::1", "0.0.0.0", "::", HOST, HOST6, "127.9.9.9", "255.255.255.255",
                                          "224.0.0.1", "ff02::1", "fe80::1", "240.0.0.1"]
        hosts += embedded(METADATA) + embedded("127.0.0.1") + embedded("10.9.9.9") + spelled(METADATA) + spelled("127.0.0.1")
        got = tries(("--allow-host", "*:*"), [("connect", OUTSIDE, 80)] + [(how, h, 80) for how in HOWS for h in hosts], timeout=120)
        assert got[("connect", OUTSIDE, 80)][0] == 200, got
        for (how, host, port), (status, text) in got.items():
            if host != OUTSIDE:
                assert status in (400, 403, 502, -2, -4), (how, host, status, text)
        lab.untouched()


def test_K20_by_name():
    need_net()
    addresses = list(INSIDE + INSIDE6) + ["127.0.0.1", "::1", HOST, HOST6, "0.0.0.0"] + list(embedded(METADATA)) + list(embedded("127.0.0.1"))
    names = {f"n{i}.test": [a] for i, a in enumerate(addresses)}
    names["mixed.test"] = [METADATA, OUTSIDE]  # the public one of them may be used
    names["many.test"] = list(INSIDE + INSIDE6)
    with Lab(names=names) as lab:
        wanted = [(how, n, 80) for how in HOWS for n in names]
        got = tries(("--allow-host", "*:*"), wanted, timeout=120)
        for (how, host, port), (status, text) in got.items():
            assert status == 200 if host == "mixed.test" else status in (403, -2), (how, host, names[host], status, text)
        assert "may not be reached" in got[("absolute", "n0.test", 80)][1]
        assert not [n for n, _ in lab.dns.asked if n not in names], "no other name is asked for, and none with a search domain"
        lab.untouched()


def test_K20_by_redirect():
    need_net()

    def away(path, headers):
        to = {"/meta": f"http://{METADATA}/", "/lo": "http://127.0.0.1/", "/host": f"http://{HOST}/", "/six": f"http://[{INSIDE6[0]}]/",
              "/name": "http://inside.test/", "/port": f"http://{OUTSIDE}:81/"}
        return (302, {"Location": to[path]}, b"") if path in to else (200, {}, b"end")

    with Lab(names={"inside.test": ["192.168.9.9"]}, answer=away) as lab:
        lab.forbidden.append(lab.add("other", lab.outside, OUTSIDE, 81))
        r = b.run(*BASE, "--allow-host", "*", "host", "sh", "-c",
                  "for p in meta lo host six name port; do curl -sL -o /dev/null -w '%{http_code} ' http://outside.test/$p; done")
        # to the loopback (no_proxy) curl goes by itself, and finds the sandbox's own, empty
        assert r.out == "403 302 403 403 403 403 ", b.describe(r)
        lab.untouched()


def test_K20_by_rebinding():
    """The name leads outside when it is checked and inside a moment later, or in turn: what was checked is what is used."""
    need_net()
    turn = itertools.count()
    flips = {"flip.test": lambda kind: [OUTSIDE] if next(turn) % 2 == 0 else [METADATA]}
    with Lab(names=flips) as lab:
        got = []
        for _ in range(3):
            got += list(tries(("--allow-host", "flip.test"), [(how, "flip.test", 80) for how in HOWS]).values())
        assert {status for status, _ in got} <= {200, 403, -2, 502}, got
        assert len([n for n, kind in lab.dns.asked if kind == 1]) == 9, "one question a request, and none between check and use"
        lab.untouched()


def test_explicit_rules_reach_what_they_name_and_no_more():
    need_net()
    with Lab(names={"lan.test": ["10.9.9.9"], "meta.test": [METADATA]}) as lab:
        options = ("--allow-host", "lan.test", "--allow-net", "10.9.9.0/24", "--allow-host", "192.168.9.9", "--allow-host", "meta.test",
                   "--allow-host", OUTSIDE, "--deny-net", "1.2.3.4/32")
        got = tries(options, [("connect", h, 80) for h in ("lan.test", "192.168.9.9", "meta.test", "10.9.9.9", METADATA, OUTSIDE)])
        status = {h: s for (_, h, _), (s, _) in got.items()}
        assert status == {"lan.test": 200, "192.168.9.9": 200, "meta.test": 403, "10.9.9.9": 403, METADATA: 403, OUTSIDE: 403}, status
        assert {s.sock.getsockname()[0] for s in lab.forbidden if s.seen} == {"10.9.9.9", "192.168.9.9"}


GARBAGE = r'''
import os, random, socket, sys
rng = random.Random(7)
def send(data, wait=True):
    s = socket.create_connection(("127.0.0.1", 3128), 5)
    s.settimeout(5)
    try:
        s.sendall(data)
        if wait:
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536): pass
    except OSError: pass
    s.close()
heads = [b"GET http://outside.test/ HTTP/1.1\r\n", b"CONNECT outside.test:80 HTTP/1.1\r\n", b"\x05\x01\x00\x05\x01\x00\x03\x0coutside.test\x00P"]
for i in range(400):
    kind = i % 4
    if kind == 0: data = rng.randbytes(rng.randrange(1, 3000))
    elif kind == 1: data = rng.choice(heads) + rng.randbytes(rng.randrange(0, 200)) + b"\r\n\r\n"
    elif kind == 2:
        data = bytearray(rng.choice(heads) + b"Host: x\r\n\r\n")
        for _ in range(rng.randrange(1, 6)): data[rng.randrange(len(data))] = rng.randrange(256)
        data = bytes(data)
    else: data = b"GET http://outside.test/ HTTP/1.1\r\n" + b"A: " + b"x" * rng.randrange(0, 40000)
    send(data, wait=i % 3 != 0)
# many at once, and none says anything
idle = [socket.create_connection(("127.0.0.1", 3128), 5) for _ in range(300)]
for s in idle: s.close()
s = socket.create_connection(("127.0.0.1", 3128), 5)
s.sendall(b"GET http://outside.test/ HTTP/1.1\r\n\r\n")
print(s.recv(100).split(b"\r\n")[0].decode())
'''

SMUGGLE = [
    b"POST http://outside.test/a HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST http://outside.test/a HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"POST http://outside.test/a HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"POST http://outside.test/a HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"POST http://outside.test/a HTTP/1.1\r\nContent-Length: +3\r\n\r\nabc",
    b"GET http://outside.test/a HTTP/1.1\r\nX: a\r\n folded\r\n\r\n",
    b"GET http://outside.test/a HTTP/1.1\r\nX: a\nHost: evil\r\n\r\n",
    b"GET http://user@outside.test/a HTTP/1.1\r\n\r\n",
    b"GET http://evil.test@outside.test/a HTTP/1.1\r\n\r\n",
    b"GET http://outside.test\\@evil.test/ HTTP/1.1\r\n\r\n",
    b"GET https://outside.test/ HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: outside.test\r\n\r\n",
    b"CONNECT outside.test HTTP/1.1\r\n\r\n",
    b"CONNECT outside.test:80:81 HTTP/1.1\r\n\r\n",
    b"GET http://outside.test/a HTTP/1.1 x\r\n\r\n",
]

SMUGGLER = r'''
import json, socket, sys
for text in json.load(sys.stdin):
    s = socket.create_connection(("127.0.0.1", 3128), 5)
    s.sendall(text.encode("latin-1"))
    s.settimeout(5)
    data = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece: break
            data += piece
    except OSError: pass
    print(json.dumps([text, data.decode("latin-1")]))
'''


def test_S14_garbage_and_floods_do_not_end_the_proxy():
    need_net()
    with Lab() as lab:
        r = b.run(*BASE, "--allow-host", "outside.test", "host", "python3", "-c", GARBAGE, timeout=60)
        assert r.out == "HTTP/1.1 200 x\n", b.describe(r)
        lab.untouched()


def test_S13_one_request_a_connection_and_nothing_smuggled():
    need_net()
    follow = (b"GET http://outside.test/first HTTP/1.1\r\nHost: evil.test\r\nConnection: keep-alive\r\n\r\n"
              b"GET /second HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    chunk = (b"POST http://outside.test/chunked HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
             b"GET /third HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    with Lab() as lab:
        texts = [t.decode("latin-1") for t in SMUGGLE + [follow]]
        r = b.run(*BASE, "--allow-host", "outside.test", "host", "python3", "-c", SMUGGLER, input=json.dumps(texts), ok=True)
        answers = [json.loads(line) for line in r.out.splitlines()]
        for text, data in answers[:-1]:
            assert data.startswith("HTTP/1.1 400 "), (text, data)
        assert answers[-1][1].startswith("HTTP/1.1 200"), answers[-1]
        assert [(x[1], x[2]["host"]) for x in lab.web.requests] == [("/first", "outside.test")], lab.web.requests
        b.run(*BASE, "--allow-host", "outside.test", "host", "python3", "-c", SMUGGLER, input=json.dumps([chunk.decode()]), timeout=30)
        assert not [x for x in lab.web.requests if x[1] == "/third"], lab.web.requests
        lab.untouched()


def test_S13_the_proxy_is_out_of_the_sandbox_s_reach():
    """Two sandboxes: neither sees the other's proxy, nor the process; loopback is each one's own."""
    need_net()
    with Lab() as lab:
        r = b.run("--network", "none", "host", "python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 3128), 2)")
        assert "refused" in r.err, b.describe(r)
        r = b.run(*BASE, "host", "sh", "-c", "ls /proc | grep -c '^[0-9]'; grep -l berth-net /proc/[0-9]*/comm 2>/dev/null | wc -l; "
                  "ip -o link 2>/dev/null | wc -l; ls /sys/class/net 2>/dev/null | wc -w; wc -l </proc/net/dev")
        assert r.out.splitlines()[1] == "0" and r.out.splitlines()[-1] == "3", b.describe(r)
        lab.untouched()


def socks(kind, host, port=80, command=1):
    body = bytes([len(host)]) + host if kind == 3 else host
    return b"\x05\x01\x00\x05" + bytes([command, 0, kind]) + body + port.to_bytes(2, "big")


ODD_NAMES = [b"outside.test\0.evil.test", b"outside.test%00.evil.test", b"outside.test%2eevil.test", b"b\xc3\xb6se.test", b"outside.test..",
             b".outside.test", b"outside..test", b"outside.test/", b"outside.test\\@evil.test", b"outside.test#evil.test", b"a" * 64 + b".test",
             b"-.test", b"*.test", b"out side.test", b"\xff\xfe.test", b"outside.test\r", b"127.1", b"0x7f.1", b"2130706433", b"0177.0.0.1",
             b"127.0.0.1.", b"169.254.169.254", b"[::1]", b"::1%1", b"fe80::1%lo", b"fe80::1%25lo", b"::ffff:127.0.0.1", b"localhost", b"LOCALHOST.",
             b"x.localhost"]
ODD = [b"CONNECT %s:80 HTTP/1.1\r\n\r\n" % n for n in ODD_NAMES] + [b"GET http://%s/ HTTP/1.1\r\n\r\n" % n for n in ODD_NAMES if n[-1:] != b"/" and b"#" not in n]
ODD += [b"CONNECT [%s]:80 HTTP/1.1\r\n\r\n" % n for n in (b"::1%1", b"fe80::1%lo", b"fe80::1%25lo", b"outside.test", b"::1", b"", b"::ffff:169.254.169.254")]
ODD += [b"CONNECT outside.test:%s HTTP/1.1\r\n\r\n" % p for p in (b"0", b"65616", b"-1", b"+80", b"80x", b"0x50", b"", b" 80", b"4294967376")]
ODD += [socks(3, n) for n in ODD_NAMES + [b"", b"\0"]]
ODD += [socks(1, socket.inet_aton(a)) for a in ("127.0.0.1", METADATA, "0.0.0.0", "255.255.255.255", "224.0.0.1")]
ODD += [socks(4, socket.inet_pton(socket.AF_INET6, a)) for a in ("::1", "fe80::1", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "ff02::1")]
ODD += [socks(1, socket.inet_aton(OUTSIDE), command=c) for c in (2, 3, 0, 255)] + [socks(k, b"xxxx") for k in (0, 2, 5, 255)]


def test_K20_by_odd_spelling():
    """NUL, percent, IDN, dots, zones, ports beyond 16 bits: by every way to ask, under the widest rule."""
    need_net()
    with Lab(names={"localhost": ["127.0.0.1"], "x.localhost": ["127.0.0.1"]}) as lab:
        texts = [t.decode("latin-1") for t in ODD]
        r = b.run(*BASE, "--allow-host", "*:*", "host", "python3", "-c", SMUGGLER, input=json.dumps(texts), ok=True, timeout=120)
        answers = [json.loads(line) for line in r.out.splitlines()]
        assert len(answers) == len(ODD)
        for text, data in answers:
            if text[0] == "\x05":
                # the greeting's answer, then a refusal or nothing
                assert data[:2] == "\x05\x00" and (len(data) == 2 or data[3] != "\x00"), (text, data)
            else:
                assert data.startswith(("HTTP/1.1 400 ", "HTTP/1.1 403 ", "HTTP/1.1 502 ")), (text, data)
        assert not lab.web.seen, lab.web.requests
        odd = [n for n, _ in lab.dns.asked if not all(c.isalnum() or c in "-._" for c in n)]
        assert not odd, f"asked the DNS for {odd}"
        lab.untouched()
