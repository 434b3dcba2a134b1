# SPDX-License-Identifier: Apache-2.0
"""
What a client sends: a program in place of berth and a server in place of berthd, which write down each request and
answer what any call may expect; and the calls of clients/surface.json, each with all of its arguments and options.

As a program it is that berth: PYTHON clientwire.py LOG stdio, or any other command line, which it writes down too.
"""
import contextlib
import http.server
import json
import os
import re
import select
import socket
import stat
import subprocess
import sys
import threading

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERDICT = {"cause": "exit", "exit_status": 0, "exit_code": 0, "timed_out": False, "wall_ms": 1, "cpu_ms": 1, "peak_memory_bytes": 1}
ANSWER = {"id": "s1", "sandbox": "s1", "name": "", "version": "0", "command": "c1", "started": True, "verdict": VERDICT, "record": {"id": "s1"},
          "entries": [], "commands": [], "sessions": [], "changes": [], "result": [], "sandboxes": [], "volumes": [], "networks": [], "images": [], "zygote": "z1", "zygotes": [],
          "processes": [], "checkpoint": "k1", "checkpoints": [], "head": None, "forks": [], "bytes": 0, "written": 0, "ended": True, "waited_ms": 0, "exit_status": 0}


# of each type that `make options` writes, and of an option that takes some words only
EXAMPLES = {"bool": True, "int": 5, "Union[int, str]": "64m", "Number": 1.5, "str": "x", "Strings": ["a", "b"], "Pairs": {"A": "b"},
            "pull": "missing"}
GROUP = re.compile(r"class (\w+)\(TypedDict, total=False\):\n((?:    .*\n)+)")


def surface():
    """clients/surface.json, and an example of each option of a sandbox by its type."""
    with open(os.path.join(TOP, "clients/surface.json")) as f:
        described = json.load(f)
    with open(os.path.join(TOP, "clients/python/berth/_options.py")) as f:
        for group, body in GROUP.findall(f.read()):
            described[group] = {name: EXAMPLES.get(name) or EXAMPLES[kind] for name, kind in re.findall(r"    (\w+): (.+)", body)}
    return described


# ---- in place of `berth stdio`


def answer(n, **members):
    print(json.dumps({"id": n, **members}), flush=True)


def be_berth(log, args):
    with open(log, "a") as f:
        def note(what):
            f.write(json.dumps(what) + "\n")
            f.flush()
        if args != ["stdio"]:
            note(["berth", *args])
            return
        for line in sys.stdin:
            rq = json.loads(line)
            n, op = rq.pop("id"), rq["op"]
            about = rq.pop("request", None)
            note(rq)
            if op == "run" or (op == "exec" and not rq.get("detach")):
                answer(n, started=True, command="c1")
                if not rq.get("stdin_open"):
                    answer(n, verdict=VERDICT)
                continue
            answer(n, **{k: v for k, v in ANSWER.items() if k != "id"})
            if about is not None and (op == "cancel" or rq.get("eof")):
                answer(about, verdict=VERDICT)


def fake_program(path, log):
    with open(path, "w") as f:
        f.write(f"#!{sys.executable}\nimport sys\nsys.dont_write_bytecode = True\nsys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
                f"import clientwire\nclientwire.be_berth({log!r}, sys.argv[1:])\n")
    os.chmod(path, stat.S_IRWXU)
    return path


# ---- in place of berthd


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *unused):
        pass

    def body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def serve(self):
        data = self.body()
        is_json = self.headers.get("Content-Type") == "application/json"
        rq = json.loads(data) if is_json else None
        self.server.log.append([self.command, self.path, rq if is_json else "archive" if "/files/archive" in self.path else data.decode()])
        path = self.path.split("?")[0]
        if path.endswith("/stdin") and "eof=true" in self.path:
            self.server.eof.set()
        if rq and rq.get("stream"):
            self.stream(rq)
        elif path.endswith(("/events", "/logs", "/network/log", "/follow")):
            self.reply(json.dumps({"verdict": VERDICT} if path.endswith("/follow") else {"event": 1, "type": "x", "sandbox": "s1"}).encode() + b"\n")
        elif path == "/create_from_pool":
            self.reply(b'{"data": "i1"}')
        elif path == "/get_info":
            self.reply(b'{"data": {"container_id": "s1"}}')
        elif path == "/release":
            self.reply(b'{"data": true}')
        else:
            self.reply(json.dumps(ANSWER).encode())

    def reply(self, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, rq):
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(json.dumps({"started": True, "command": "c1", "run": "r1", "sandbox": "s1"}).encode() + b"\n")
        while rq.get("stdin_open") and not self.server.eof.is_set():
            if select.select([self.connection], [], [], 0.005)[0] and not self.connection.recv(1, socket.MSG_PEEK):
                return
        self.server.eof.clear()
        with contextlib.suppress(OSError):
            self.wfile.write(json.dumps({"verdict": VERDICT}).encode() + b"\n")
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve


@contextlib.contextmanager
def fake_daemon():
    """A server and its log: [method, path, body] of each request."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.log, server.eof = [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server.log
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# ---- every call, by each language


def options_of(described, method):
    return {k: v for k, v in {**method["options"], **described.get(method.get("more"), {})}.items() if v is not None}


def call_all_python(berth, client):
    """Every call of the surface; returns "Class.method code" of each that failed."""
    described, failed = surface(), []

    def process(method=None):
        return client_box().popen(*([["true"]] if not method else method["args"].values()),
                                  **({"stdin_open": True} if not method else options_of(described, method)))

    def client_box():
        return berth.Sandbox(client, "s1")

    def take(got):
        if isinstance(got, berth.Process):
            got.send("text", eof=True)
            got.wait()
        elif hasattr(got, "__next__"):
            next(iter(got), None)
            getattr(got, "close", lambda: None)()

    for kind, methods in described["classes"].items():
        for name, method in methods.items():
            if (kind, name) == ("Berth", "close"):
                continue
            box = client_box()
            this = {"Berth": lambda: client, "Sandbox": lambda: box, "Files": lambda: box.files, "Shell": lambda: box.shell("S"),
                    "Command": lambda: box.command("c1"), "Process": process, "Records": lambda: client.events(), "Zygote": lambda: berth.Zygote(client, "z1")}[kind]()
            args = [one for k, v in method["args"].items() for one in (v if k[0] == "*" else [v])]
            try:
                if (kind, name) == ("Process", "wait"):
                    this.send("text", eof=True)
                take(getattr(this, name)(*args, **options_of(described, method)))
                if kind == "Process" and name in ("send", "kill"):
                    this.wait()
            except berth.BerthError as e:
                failed.append(f"{kind}.{name} {e.code}")
    return failed


CALL_ALL_JAVASCRIPT = """
const berth = await import(process.argv[1]);
const described = JSON.parse(process.argv[2]);
const client = new berth.Berth({ host: process.argv[3] || undefined, program: process.argv[4], token: "t" });
const camel = (name) => name.replace(/_(\\w)/g, (_, letter) => letter.toUpperCase());
const optionsOf = (method) => Object.fromEntries(Object.entries({ ...method.options, ...described[method.more] })
  .filter(([, v]) => v !== null).map(([k, v]) => [camel(k), v]));
const box = () => new berth.Sandbox(client, "s1", "", false);
const start = { Berth: () => client, Sandbox: box, Files: () => box().files, Shell: () => box().shell("S"), Command: () => box().command("c1"),
  Process: () => box().popen(["true"], { stdinOpen: true }), Records: () => client.events(), Zygote: () => new berth.Zygote(client, "z1", "", false) };
const failed = [];
for (const [kind, methods] of Object.entries(described.classes))
  for (const [name, method] of Object.entries(methods)) {
    if (kind === "Berth" && name === "close")
      continue;
    const self = await start[kind]();
    const options = optionsOf(method);
    try {
      if (kind === "Process" && name === "wait")
        await self.send("text", { eof: true });
      const args = Object.values(method.args);
      const got = await self[camel(name)](...args, ...(Object.keys(options).length ? [options] : []));
      if (got instanceof berth.Process) {
        await got.send("text", { eof: true });
        await got.wait();
      } else if (got?.[Symbol.asyncIterator]) {
        await got.next();
        await got.return();
      }
      if (kind === "Process" && (name === "send" || name === "kill"))
        await self.wait();
    } catch (e) {
      if (!(e instanceof berth.BerthError))
        throw e;
      failed.push(`${kind}.${name} ${e.code}`);
    }
  }
await client.close();
console.log(JSON.stringify(failed));
"""


def call_all_javascript(node, host="", program="berth"):
    p = subprocess.run([node, "--input-type=module", "-e", CALL_ALL_JAVASCRIPT, os.path.join(TOP, "clients/javascript/src/index.js"),
                        json.dumps(surface()), host, program], capture_output=True, text=True, timeout=600)
    assert p.returncode == 0, p.stdout + p.stderr
    return json.loads(p.stdout)
