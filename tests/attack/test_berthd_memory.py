# SPDX-License-Identifier: Apache-2.0
"""No request of a tenant makes berthd take memory without bound (S42 of SECURITY.md): what is large goes through it, and is not held by it."""
import concurrent.futures
import http.client
import json
import os

import berthtest as b
import daemon
from daemon import Daemon
from e2bwire import Client

COST = 23
MANY = 50000      # 150,000 took 330 MiB before: this many took 110
FLAT = 64 << 20
FILL = "import sys, os\nos.chdir(sys.argv[1])\nfor i in range(int(sys.argv[2])):\n    os.close(os.open('%06d-' % i + 'n' * 60, os.O_CREAT, 0o600))\n"


class Peak:
    """The most memory that a process holds while the block runs, on top of what it had."""

    def __init__(self, pid, most=FLAT):
        self.pid, self.most = pid, most

    def read(self, key):
        with open(f"/proc/{self.pid}/status") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith(key + ":"))

    def __enter__(self):
        with open(f"/proc/{self.pid}/clear_refs", "w") as f:
            f.write("5")
        self.before = self.read("VmRSS")
        return self

    def __exit__(self, kind, value, trace):
        self.more = self.read("VmHWM") - self.before
        if kind is None:
            assert self.more < self.most, f"berthd took {self.more >> 20} MiB more, from {self.before >> 20} MiB"


def count_entries(d, path, method="GET", body=None, headers=None):
    """Reads the reply without holding it: its length, and how many entries it has."""
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=300 * b.SLOW)
    try:
        c.request(method, path, body, {"Authorization": "Bearer " + daemon.TENANT, **(headers or {})})
        r = c.getresponse()
    except (BrokenPipeError, ConnectionResetError):
        c.close()
        return 0, 0, 0      # refused before the body was there, of which only a part is thrown away
    n, entries, last = 0, 0, b""
    while True:
        piece = r.read(1 << 16)
        if not piece:
            break
        n += len(piece)
        entries += (last + piece).count(b'"mtime') - last.count(b'"mtime')
        last = piece[-5:]
    c.close()
    return r.status, n, entries


def at_once(n, f):
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(lambda _: f(), range(n)))


def test_S42_a_listing_is_streamed_and_paged():
    with Daemon(tcp=True) as d:
        box = d.create(token=daemon.TENANT, **{"disk": "1g", "disk-inodes": MANY + 20000, "memory": "256m"})
        files = f"/v1/sandboxes/{box}/files/list?path=/srv/many"
        d.exec(box, "mkdir", "/srv/many", "/srv/few", token=daemon.TENANT)
        assert d.exec(box, "python3", "-c", FILL, "/srv/many", str(MANY), token=daemon.TENANT)["verdict"]["exit_status"] == 0
        assert count_entries(d, files + "&limit=1")[0] == 200
        with Peak(d.p.pid):
            for status, n, _ in at_once(4, lambda: count_entries(d, files)):
                assert status == 200 and n > MANY * 200, (status, n)
        # in the order of names, and none twice or lost between the pages
        names, after = [], ""
        while True:
            r = d.good("GET", f"{files}&limit=20000{after}", token=daemon.TENANT)
            names += [entry["name"] for entry in r["entries"]]
            if "next" not in r:
                break
            assert len(r["entries"]) == 20000
            after = "&after=" + r["next"]
        assert len(names) == MANY and names == sorted(names)
        # the shape of small ones is as it was; a name need not be text
        d.exec(box, "python3", "-c", "import os; [open(b'/srv/few/' + n, 'w') for n in (b'b', b'a', b'\\xff\\xfe', b'\\n', b'  c')]", token=daemon.TENANT)
        few = f"/v1/sandboxes/{box}/files/list?path=/srv/few"
        whole = d.good("GET", few, token=daemon.TENANT)
        assert [e.get("name", e.get("name_hex")) for e in whole["entries"]] == ["\n", "  c", "a", "b", "fffe"], whole
        assert set(whole) == {"entries"}, whole
        first = d.good("GET", few + "&limit=3", token=daemon.TENANT)
        rest = d.good("GET", few + "&limit=3&after=" + first["next"], token=daemon.TENANT)
        assert first["entries"] + rest["entries"] == whole["entries"] and "next" not in rest
        assert d.get(few + "&after=zz", token=daemon.TENANT).status == 400
        assert d.get(f"/v1/sandboxes/{box}/files/list?path=/nosuch", token=daemon.TENANT).status == 404
        assert d.get(f"/v1/sandboxes/{box}/files/list?path=/etc/hostname", token=daemon.TENANT).json["entries"][0]["type"] == "file"


def form(parts):
    body = b"".join(b'--x\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\n%s\r\n' % part for part in parts)
    return body + b"--x--\r\n", {"Content-Type": "multipart/form-data; boundary=x"}


def test_S42_a_listing_and_a_batch_of_a_workspace_are_bounded():
    config = ('[session]\non_shutdown = "clean"\n[storage]\nurl = "file:%s"\n' % b.tmp("objects"))
    with Daemon(tcp=True, config=config) as d:
        name = d.good("POST", "/create", {"storage_path": "mine"}, token=daemon.TENANT)["data"]
        work = d.good("POST", "/get_info", {"identity": name}, token=daemon.TENANT)["data"]["mount_dir"]
        for place in ("many", "deep"):
            os.mkdir(os.path.join(work, place))
        for i in range(MANY):
            os.close(os.open(f"{work}/many/{i:06d}-" + "n" * 60, os.O_CREAT, 0o644))
        for i in range(3000):
            os.mkdir(f"{work}/deep/{i}")
        proxy = f"/proxy/{name}/workspace"
        assert count_entries(d, f"{proxy}/list?path=deep&depth=1")[2] == 3000
        with Peak(d.p.pid):
            for status, _, entries in at_once(4, lambda: count_entries(d, f"{proxy}/list?path=.&depth=2")):
                assert status == 200 and entries == MANY + 3002, (status, entries)
        with Peak(d.p.pid):
            body, headers = form((b"f%d" % i, b"") for i in range(200000))
            for status, _, _ in at_once(4, lambda: count_entries(d, f"{proxy}/files:batch", "POST", body, headers)):
                assert status in (429, 0), status
            body, headers = form([(b"large", b"x" * (31 << 20))])
            got = [status for status, _, _ in at_once(4, lambda: count_entries(d, f"{proxy}/files:batch", "POST", body, headers))]
            assert set(got) <= {200, 429, 0}, got
        assert count_entries(d, f"{proxy}/files:batch", "POST", *form([(b"small", b"x")]))[0] == 200
        with Peak(d.p.pid):
            r = d.post(f"/v1/manager/sandboxes/{name}/upload", {}, token=daemon.TENANT, timeout=300)
            assert r.status == 200, r
        assert json.loads(d.get("/v1/manager/sandboxes", token=daemon.TENANT).body)["sandboxes"]


FLOOD = """
import os, sys
out = sys.modules['__main__'].answers.fileno()
def write(data):
    while data:
        data = data[os.write(out, data):]
write(b'{"id":"x","type":"result","json":[' + b'1,' * (15 << 19) + b'1]}\\n')
write(b'{"id":"x","type":"result","text":"' + b'y' * (15 << 20) + b'"}\\n')
write(b'z' * (40 << 20) + b'\\n')
'done'
"""


def test_S42_what_kernels_of_e2b_say_is_bounded():
    """A hostile kernel's lines, of no end or of millions of values, cost berthd no more than an upload may."""
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        contexts = [e.ask("POST", "/contexts", {"language": "python"}).json["id"] for _ in range(6)]

        def cell(context):
            c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=120 * b.SLOW)
            c.request("POST", "/execute", json.dumps({"code": FLOOD, "context_id": context}), {**e.headers, "Content-Type": "application/json"})
            return [json.loads(line) for line in c.getresponse().read().splitlines()]

        with Peak(d.p.pid), concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(cell, contexts))
        # each is told, by its end or by an error, and the next cell has an answer
        for told in answers:
            assert told[-1]["type"] == "end_of_execution" or "error" in told[-1] or told[-1]["type"] == "error", told[-1]
        assert e.run("echo still there")[0] == b"still there\n"
        assert any(v.get("text") == "42" for v in [json.loads(line) for line in e.ask("POST", "/execute", {"code": "6 * 7"}).body.splitlines()])


def bomb(n=1 << 20):
    """A body that would take a hundred times its length when it is parsed."""
    one = b'{"image":"host","command":[' + b"{}," * ((n - 64) // 3) + b"{}]}"
    assert len(one) <= n
    return one


def send(d, path, body, **headers):
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=120 * b.SLOW)
    try:
        c.request("POST", path, body, {"Authorization": "Bearer " + daemon.TENANT, "Content-Type": "application/json", **headers})
        return c.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        return 0
    finally:
        c.close()


@b.deadline(300)
def test_S54_bodies_of_brackets_take_no_more_than_their_share_and_it_is_given_back():
    bodies = (bomb(), b'{"a":' + b"[" * 31 + b"[]," * 300000 + b"0" + b"]" * 31 + b"}", b'{"options":{' + b",".join(b'"%d":{}' % i for i in range(90000)) + b"}}")
    with Daemon(tcp=True) as d:
        for body in bodies:
            with Peak(d.p.pid) as peak:
                told = at_once(24, lambda: send(d, "/v1/sandboxes", body))
                assert all(s in (0, 400, 413, 429) for s in told), told
            assert peak.read("VmRSS") - peak.before < FLAT // 2, (peak.before, peak.read("VmRSS"))
        # who comes then is served, and a large body that says something is taken
        assert send(d, "/v1/sandboxes", json.dumps({"image": "host", "options": {"env": ["A=" + "x" * 60000]}}).encode()) == 201
        b.berth("rm", "-f", *b.berth("ps", "-aq", ok=True).out.split(), ok=True)


class McpSession:
    """A client of /mcp with a session of its own, which may leave what it is told unread."""

    def __init__(self, d):
        self.d, self.id = d, None
        r = self.post("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
        r.read()
        self.id = r.headers["Mcp-Session-Id"]

    def post(self, method, params):
        self.c = http.client.HTTPConnection("127.0.0.1", self.d.port, timeout=120 * b.SLOW)
        self.c.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), {
            "Authorization": "Bearer " + daemon.TENANT, "Content-Type": "application/json", **({"Mcp-Session-Id": self.id} if self.id else {})})
        return self.c.getresponse()

    def call(self, tool, **arguments):
        return self.post("tools/call", {"name": tool, "arguments": arguments})


@b.deadline(300)
def test_S42_answers_of_tools_are_bounded_though_nobody_reads_them():
    """A file of 8 MiB whose text is twice that in JSON, and a listing, through sessions of their own at once."""
    with Daemon(tcp=True) as d:
        sessions = [McpSession(d) for _ in range(5)]
        for s in sessions:
            r = s.call("run_command", command="head -c 8000000 /dev/zero | tr '\\0' '\"' > /workspace/f; mkdir /workspace/m; cd /workspace/m; "
                       "python3 -c \"for i in range(3000): open('%05d-' % i + 'n' * 200, 'w').close()\"")
            assert r.status == 200 and b'"exit_status":0' in r.read()
        for ask in (lambda s: s.call("read_file", path="/workspace/f", max_bytes=8388608),
                    lambda s: s.call("list_directory", path="/workspace/m")):
            # one answer is read, becomes a tree and a text again, while others are sent
            with Peak(d.p.pid, 2 * FLAT), concurrent.futures.ThreadPoolExecutor(len(sessions)) as pool:
                replies = list(pool.map(ask, sessions))
                assert {r.status for r in replies} <= {200, 429} and 200 in {r.status for r in replies}, [r.status for r in replies]
            for s, r in zip(sessions, replies):
                r.close()
                s.c.close()
            # one alone is told all of it
            r = ask(sessions[0])
            assert r.status == 200 and len(r.read()) > 500000
        b.berth("rm", "-f", *b.berth("ps", "-aq", ok=True).out.split(), ok=True)
