# SPDX-License-Identifier: Apache-2.0
"""E2B's API in berthd, on the wire: envelopes of the Connect protocol, errors, limits, tenants.  Its SDKs: tests/real."""
import base64
import gzip
import http.client
import json
import os
import random
import re
import shutil
import struct
import time

import berthtest as b
from daemon import OTHER, TENANT, Daemon
from e2bwire import Client, envelope

COST = 15


def test_a_process_its_output_and_its_end():
    with Daemon(tcp=True) as d:
        e = Client(d).create(envVars={"FOO": "bar"})
        out, end = e.run("echo $FOO $A; pwd; exit 3", envs={"A": "b"}, cwd="/tmp")
        assert out == b"bar b\n/tmp\n" and (end["exitCode"], end["exited"], end["status"]) == (3, True, "exit status 3"), (out, end)
        out, end = e.run("kill -9 $$")
        assert end["exited"] is False and end["status"] == "signal: Killed", end
        out, end = e.run("head -c 9000000 /dev/urandom | tee /tmp/r; cksum < /tmp/r >&2")
        assert len(out) == 9000000, f"{9000000 - len(out)} bytes were lost"
        events, error = e.stream("Start", process={"cmd": "/no/such/program"})
        assert events == [] and error["code"] in ("not_found", "invalid_argument"), (events, error)
        events, error = e.stream("Start", user="nobody-such", process={"cmd": "true"})
        assert error and "nobody-such" in error["message"], error
        events, error = e.stream("Start", user="user", process={"cmd": "/usr/bin/id", "args": ["-u"]})
        assert error is None and base64.b64decode(events[1]["data"]["stdout"]) == b"0\n", (events, error)


def test_a_malformed_request_is_refused_with_an_error_of_connect():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        good = json.dumps({"process": {"cmd": "true"}}).encode()
        for raw in (b"", b"\0\0\0", struct.pack(">BI", 0, 9) + b"{}", struct.pack(">BI", 1, len(good)) + good, struct.pack(">BI", 0, 1) + b"{",
                    struct.pack(">BI", 0, 0xffffffff), struct.pack(">BI", 0, 2) + b"[]"):
            events, error = e.stream("Start", raw)
            assert events == [] and error["code"] in ("invalid_argument", "unimplemented", "internal"), (raw, error)
        for body in ({}, {"process": 1}, {"process": {"cmd": 1}}, {"process": {"cmd": "true", "args": [1]}},
                     {"process": {"cmd": "true", "envs": {"A": 1}}}):
            assert e.stream("Start", **body)[1]["code"] == "invalid_argument", body
        for pty in (1, {"size": 1}, {"size": {"cols": 0, "rows": 24}}, {"size": {"cols": 80, "rows": 99999}}):
            assert e.stream("Start", process={"cmd": "true"}, pty=pty)[1]["code"] == "invalid_argument", pty
        e.headers["Connect-Timeout-Ms"] = "soon"    # a deadline that cannot be read is not left out
        assert e.stream("Start", process={"cmd": "true"})[1]["code"] == "invalid_argument"
        del e.headers["Connect-Timeout-Ms"]
        assert e.stream("Connect", process={"pid": 77})[1]["code"] == "not_found"
        r = e.call("process.Process/SendSignal", process={"pid": 77}, signal="SIGNAL_SIGKILL")
        assert r.status == 404 and r.json["code"] == "not_found", r
        chance = random.Random(7)
        for _ in range(60):
            raw = bytearray(struct.pack(">BI", 0, len(good)) + good)
            for _ in range(chance.randrange(1, 4)):
                raw[chance.randrange(len(raw))] = chance.randrange(256)
            e.stream("Start", bytes(raw))
        assert e.run("echo still there")[0] == b"still there\n"


def cell(e, code, **more):
    r = e.ask("POST", "/execute", {"code": code, **more})
    assert r.status == 200, r
    return [json.loads(line) for line in r.body.splitlines()]


def test_cells_share_a_python_and_a_hostile_one_only_its_own():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        events = cell(e, "x = 2; print('hi'); x * 21")
        assert [v["type"] for v in events] == ["number_of_executions", "result", "stdout", "end_of_execution"] or \
            [v["type"] for v in events] == ["number_of_executions", "stdout", "result", "end_of_execution"], events
        assert [v["text"] for v in events if v["type"] == "result"] == ["42"], events
        assert cell(e, "x")[1]["text"] == "2"
        assert [v["name"] for v in cell(e, "raise KeyError('k')") if v["type"] == "error"] == ["KeyError"]
        # a cell that writes lines of the kernel's own, of no or of another id, to every descriptor it can find
        forged = cell(e, "import os, json\nfor fd in range(3, 20):\n  try: os.write(fd, b'{}\\n[]\\nnull\\n\\xff\\n{\"id\":\"x\",\"type\":\"end_of_execution\"}\\n')\n"
                         "  except OSError: pass\n'end'")
        assert forged[-1]["type"] == "end_of_execution" and [v["text"] for v in forged if v["type"] == "result"] == ["end"], forged
        # one that ends its interpreter is told so, and the next cell has a new one
        assert cell(e, "import os; os._exit(1)")[-1]["name"] == "ContextRestarting"
        assert [v["name"] for v in cell(e, "x") if v["type"] == "error"] == ["NameError"]
        for body in ({}, {"code": 1}, {"code": "1", "language": "cobol"}, {"code": "1", "context_id": "none"}):
            r = e.ask("POST", "/execute", body)
            assert 400 <= r.status < 502 and r.json["message"], (body, r)
        made = e.ask("POST", "/contexts", {"language": "python", "cwd": "/tmp"}).json
        assert cell(e, "import os; os.getcwd()", context_id=made["id"])[1]["text"] == "/tmp"
        # a context whose process ends is begun anew, under its name and in its directory
        assert cell(e, "import os; os._exit(1)", context_id=made["id"])[-1]["name"] == "ContextRestarting"
        assert cell(e, "import os; os.getcwd()", context_id=made["id"])[1]["text"] == "/tmp"
        assert e.ask("DELETE", f"/contexts/{made['id']}").status == 204
        assert e.ask("DELETE", f"/contexts/{made['id']}").status == 404
        assert e.ask("POST", "/contexts/nope/restart", {}).status == 404
        other = Client(d, OTHER).create()
        assert [v["name"] for v in cell(other, "x") if v["type"] == "error"] == ["NameError"]


def text_of(told, kind):
    return "".join(v["text"] for v in told if v["type"] == kind)


def test_cells_are_read_as_ipython_reads_them():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        told = cell(e, "\n        x = 'text'\n        print(x)\n        x\n        ")
        assert (text_of(told, "stdout"), text_of(told, "result")) == ("text\n", "text"), told
        assert all(re.match(r"\d{4}-\d\d-\d\dT", v["timestamp"]) for v in told if v["type"] == "stdout"), told
        assert text_of(cell(e, "%%bash\necho $((6 * 7)); cd /tmp"), "stdout") == "42\n"
        assert text_of(cell(e, "%cd /tmp\n!pwd"), "stdout").endswith("/tmp\n")
        assert text_of(cell(e, "'%d %%' % 4"), "result") == "4 %"
        code = "class Html:\n  def _repr_html_(self): return '<b>1</b>'\nclass Bundle:\n  def _repr_mimebundle_(self, **k): return {'image/png': b'png', 'a/b': 1}\n"
        told = [v for v in cell(e, code + "display(Html(), Bundle())\nHtml()") if v["type"] == "result"]
        assert [(v.get("html"), v.get("png"), v.get("extra"), v["is_main_result"]) for v in told] == \
            [("<b>1</b>", None, None, False), (None, "cG5n", {"a/b": 1}, False), ("<b>1</b>", None, None, True)], told
        assert [v["json"] for v in cell(e, "[1, {'a': None}]") if v["type"] == "result"] == [[1, {"a": None}]]


def test_a_cell_whose_client_has_gone_is_interrupted():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        languages = [("python", "print('began')\nimport time\ntime.sleep(1000)", "kept", "kept"), ("bash", "echo began; sleep 1000", None, None)]
        if shutil.which("node", path="/usr/bin"):
            languages.append(("javascript", "console.log('began'); await new Promise(r => setTimeout(r, 1e6))", "kept", "kept"))
        cell(e, "kept = 'kept'")
        for language, code, ask, answer in languages:
            if language == "javascript":
                cell(e, "var kept = 'kept'", language=language)
            c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60 * b.SLOW)
            c.request("POST", "/execute", json.dumps({"code": code, "language": language}), {**e.headers, "Content-Type": "application/json"})
            r = c.getresponse()
            while b"began" not in r.readline():
                pass
            c.sock.shutdown(2)
            c.close()
            # the next cell is run, in the same context where its process hears of it
            if ask:
                assert text_of(cell(e, ask, language=language), "result") == answer, language
            else:
                b.wait_for(lambda: text_of(cell(e, "echo next", language="bash"), "stdout") == "next\n", 60, "a cell after that")


def test_cells_in_other_languages_say_what_the_image_lacks():
    with Daemon(tcp=True) as d:
        e = Client(d).create(envVars={"OF_BOX": "box"})
        told = cell(e, "cd /tmp; x=4; echo $OF_BOX $A; echo err >&2", language="bash", env_vars={"A": "a b'"})
        assert (text_of(told, "stdout"), text_of(told, "stderr")) == ("box a b'\n", "err\n"), told
        assert text_of(cell(e, "echo $x $PWD ${A:-none}", language="bash"), "stdout") == "4 /tmp none\n"
        assert [v["value"] for v in cell(e, "(exit 3)", language="bash") if v["type"] == "error"] == ["exit status 3"]
        assert cell(e, "exit 3", language="bash")[-1]["name"] == "ContextRestarting"
        assert text_of(cell(e, "echo ${x:-new}", language="bash"), "stdout") == "new\n"
        bare = Client(d).create(envVars={"PATH": "/opt/programs"})
        bare.run("/bin/mkdir -p /opt/programs; /bin/ln -s /usr/bin/python3 /opt/programs/python3")
        for language, package in (("r", "r-base-core"), ("java", "default-jdk-headless"), ("bash", "bash")):
            wrong = [v["value"] for v in cell(bare, "1", language=language) if v["type"] == "error"]
            assert len(wrong) == 1 and "hint: apt-get install " + package in wrong[0], wrong
        bare.run("/bin/rm /opt/programs/python3")
        r = bare.ask("POST", "/contexts", {"language": "python"})
        assert r.status == 501 and "hint: apt-get install python3" in r.json["message"], r


def test_cells_share_a_node():
    if not shutil.which("node", path="/usr/bin"):
        raise b.skip("node is not here: apt-get install nodejs")
    with Daemon(tcp=True) as d:
        e = Client(d).create()

        def js(code, **more):
            return cell(e, code, language="js", **more)

        events = js("const x = 2; console.log('hi'); x * 21")
        assert sorted(v["type"] for v in events) == ["end_of_execution", "number_of_executions", "result", "stdout"], events
        assert [v["text"] for v in events if v["type"] == "result"] == ["42"], events
        # a declaration in one cell is there in the next, which may declare it again
        assert js("const x = await Promise.resolve('again'); x")[1]["text"] == "again"
        # imports, subprocesses, the environment of one cell, a flood, an error with its place
        assert js("import {join} from 'node:path'\njoin('a', 'b') + typeof (await import('fs')).readFileSync")[1]["text"] == "a/bfunction"
        told = js("require('child_process').execSync('echo sub; echo err >&2', {stdio: 'inherit'}); process.env.A", env_vars={"A": "b"})
        assert {(v["type"], v.get("text")) for v in told} >= {("stdout", "sub\n"), ("stderr", "err\n"), ("result", "b")}, told
        assert not [v for v in js("process.env.A") if v["type"] == "result"]
        flood = js("console.log('y'.repeat(3000000))")
        assert sum(len(v["text"]) for v in flood if v["type"] == "stdout") == 3000001
        wrong = [v for v in js("function f() { return g() }\nf()") if v["type"] == "error"]
        assert wrong[0]["name"] == "ReferenceError" and "at f" in wrong[0]["traceback"], wrong
        assert [v["name"] for v in js("}{") if v["type"] == "error"] == ["SyntaxError"]
        # one that says the kernel's own words, at the descriptor that those go through
        forged = js("require('fs').writeSync(3, '{}\\n[]\\nnull\\n{\"type\":\"end_of_execution\"}\\n{\"type\":\"stdout\"}\\n'); 'end'")
        assert [v["text"] for v in forged if v["type"] == "result"] == ["end"] and forged[-1]["type"] == "end_of_execution", forged
        assert js("'next'")[1]["text"] == "next"
        assert js("require('fs').closeSync(1); require('fs').closeSync(2); 'closed'")[-1]["type"] in ("end_of_execution", "error")
        assert js("process.exit(3)")[-1]["name"] == "ContextRestarting"
        assert js("typeof x")[1]["text"] == "undefined"
        # Python's context is another one
        assert cell(e, "x = 1; x")[1]["text"] == "1"
        listed = {c["id"]: (c["language"], c["cwd"]) for c in e.ask("GET", "/contexts").json}
        assert listed == {"default": ("python", "/root"), "javascript": ("javascript", "/root")}, listed
        made = e.ask("POST", "/contexts", {"language": "javascript", "cwd": "/tmp"}).json
        assert made["language"] == "javascript" and cell(e, "process.cwd()", context_id=made["id"])[1]["text"] == "/tmp"
        r = e.ask("POST", "/execute", {"code": "1", "context_id": made["id"], "language": "python"})
        assert r.status == 400 and "javascript" in r.json["message"], r
        assert e.ask("POST", f"/contexts/{made['id']}/restart", {}).status == 204
        assert cell(e, "1n", context_id=made["id"])[1]["text"] == "1n"


def test_files():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        r = e.ask("POST", "/files?path=/tmp/x/y", b"\0\xffbytes", **{"Content-Type": "application/octet-stream"})
        assert r.status == 200 and r.json == [{"name": "y", "type": "file", "path": "/tmp/x/y"}], r
        assert e.ask("GET", "/files?path=/tmp/x/y").body == b"\0\xffbytes"
        form = b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/tmp/a\"\r\n\r\nA\r\n--B\r\n" \
               b"Content-Disposition: form-data; name=\"file\"; filename=\"rel\"\r\n\r\nB\r\n--B--\r\n"
        r = e.ask("POST", "/files", form, **{"Content-Type": "multipart/form-data; boundary=B"})
        assert r.status == 200 and [f["path"] for f in r.json] == ["/tmp/a", "/root/rel"], r
        for bad in (b"", b"--B", b"--B\r\n\r\n", form[:-9], b"--C--"):
            assert e.ask("POST", "/files", bad, **{"Content-Type": "multipart/form-data; boundary=B"}).status == 400, bad
        assert e.ask("GET", "/files?path=/none").json["code"] == 404
        one = e.call("filesystem.Filesystem/Stat", path="/tmp/a").json["entry"]
        assert (one["name"], one["type"], one["size"], one["permissions"]) == ("a", "FILE_TYPE_FILE", "1", "-rw-r--r--"), one
        # a link has the type of what it leads to; where that is nothing, SDKs without a name for it take the number
        e.run("ln -s a /tmp/file; ln -s /tmp /tmp/dir; ln -s none /tmp/nowhere; ln -s loop /tmp/loop")
        for name, kind, target in (("file", "FILE_TYPE_FILE", "/tmp/a"), ("dir", "FILE_TYPE_DIRECTORY", "/tmp"),
                                   ("nowhere", 3, "/tmp/none"), ("loop", 3, "/tmp/loop")):
            for entry in (e.call("filesystem.Filesystem/Stat", path="/tmp/" + name).json["entry"],
                          *(x for x in e.call("filesystem.Filesystem/ListDir", path="/tmp", depth=1).json["entries"]
                            if x["name"] == name)):
                assert (entry["type"], entry["symlinkTarget"]) == (kind, target), entry
        e.run("ln -s /etc/shadow /tmp/l; mkdir /tmp/deep; cd /tmp/deep; i=0; while [ $i -lt 70 ]; do mkdir d; cd d; i=$((i+1)); done")
        r = e.call("filesystem.Filesystem/ListDir", path="/tmp", depth=1000000)
        assert r.status == 200 and 60 <= len(r.json["entries"]) < 90, len(r.json["entries"])
        assert e.call("filesystem.Filesystem/MakeDir", path="/tmp/x").status == 409
        assert e.call("filesystem.Filesystem/Move", source="/tmp/a", destination="/tmp/b").json["entry"]["path"] == "/tmp/b"
        for _ in range(2):
            assert e.call("filesystem.Filesystem/Remove", path="/tmp/b").status == 200
        e.run("mkdir -p /tmp/t/b/c /tmp/t/d; touch /tmp/t/a /tmp/t/b/c/x /tmp/t/e; ln -s ../a /tmp/t/b/up; ln -s x /tmp/t/b/c/y")
        listed = e.call("filesystem.Filesystem/ListDir", path="/tmp/t", depth=3).json["entries"]
        assert [x["path"][7:] for x in listed] == ["a", "b", "b/c", "b/c/x", "b/c/y", "b/up", "d", "e"], listed
        assert [x["symlinkTarget"] for x in listed if "symlinkTarget" in x] == ["/tmp/t/b/c/x", "/tmp/t/a"], listed
        assert e.call("filesystem.Filesystem/Stat", path="/tmp/b").json["code"] == "not_found"


USER = "echo user:x:1234:1234::/home/user:/bin/sh >> /etc/passwd; echo user:x:1234: >> /etc/group; mkdir -p /home/user; chown 1234:1234 /home/user"


def test_commands_files_terminals_cells_and_watches_are_of_one_user_in_its_home():
    with Daemon(tcp=True) as d:
        e = Client(d).create()

        def put(path, **headers):
            r = e.ask("POST", "/files?path=" + path, b"x", **{"Content-Type": "application/octet-stream", **headers})
            assert r.status == 200, r
            return r.json[0]["path"]

        def entry(path):
            got = e.call("filesystem.Filesystem/Stat", path=path).json["entry"]
            return got["path"], got["owner"], got["group"]

        def everything(home, user):
            assert put("here.txt") == home + "/here.txt"
            assert entry("here.txt") == (home + "/here.txt", user, user), entry("here.txt")
            assert e.run("pwd; cat here.txt; id -un; echo $HOME") == (f"{home}\nx{user}\n{home}\n".encode(), e.run("true")[1])
            for cwd, place in (("/tmp", "/tmp"), ("sub", home + "/sub"), ("~", home), ("~/sub", home + "/sub")):
                assert e.run("pwd", cwd=cwd)[0].decode() == place + "\n", cwd
            assert e.call("filesystem.Filesystem/MakeDir", path="made/deep").json["entry"]["owner"] == user
            events, error = e.stream("Start", process={"cmd": "/bin/sh", "args": ["-c", "pwd; id -un"]}, pty={"size": {"cols": 80, "rows": 24}})
            shown = b"".join(base64.b64decode(v["data"]["pty"]) for v in events if "data" in v)
            assert shown == f"{home}\r\n{user}\r\n".encode() and error is None, shown
            code = "import os; os.getcwd(), os.geteuid(), os.path.exists('here.txt')"
            made = e.ask("POST", "/contexts", {"cwd": "sub"}).json
            assert made["cwd"] == home + "/sub" and made in e.ask("GET", "/contexts").json, made
            for place, more in ((home, {}), (home + "/sub", {"context_id": made["id"]})):
                told = [v["text"] for v in cell(e, code, **more) if v["type"] == "result"]
                assert told == [f"('{place}', {0 if user == 'root' else 1234}, {place == home})"], told
            for path in ("default", made["id"]):
                assert e.ask("DELETE", "/contexts/" + path).status == 204
            watcher = e.call("filesystem.Filesystem/CreateWatcher", path="made", includeEntry=True).json["watcherId"]
            put("made/seen")
            seen = []

            def came():
                seen.extend(e.call("filesystem.Filesystem/GetWatcherEvents", watcherId=watcher).json["events"])
                return [v for v in seen if v["name"] == "seen" and v.get("entry")]
            b.wait_for(came, 30, "the event")
            assert {v["entry"]["owner"] for v in came()} == {user} and came()[0]["entry"]["path"] == home + "/made/seen", seen

        everything("/root", "root")
        e.run("rm -rf here.txt made; " + USER)
        everything("/home/user", "user")
        r = e.ask("POST", "/contexts", {"cwd": "/root"})
        assert r.status == 400 and "enter working directory '/root'" in r.json["message"], r
        events, error = e.stream("Start", process={"cmd": "true", "cwd": "/root"})
        assert error["code"] == "invalid_argument" and "enter working directory '/root'" in error["message"], error
        # root when it is asked for, by name; another user is not root
        root = {"Authorization": "Basic " + base64.b64encode(b"root:").decode()}
        assert put("of-root", **root) == "/root/of-root"
        assert e.run("ls -l /root/of-root")[0] == b"" and entry("/home/user/here.txt")[1] == "user"
        events, error = e.stream("Start", user="root", process={"cmd": "/bin/sh", "args": ["-c", "pwd; stat -c %U of-root"]})
        said = b"".join(base64.b64decode(v["data"]["stdout"]) for v in events if "data" in v)
        assert error is None and said == b"/root\nroot\n", events
        assert e.ask("POST", "/files?path=/etc/mine", b"x", **{"Content-Type": "application/octet-stream"}).json["code"] == 403
        r = e.ask("POST", "/files?path=x&username=nobody-such", b"x", **{"Content-Type": "application/octet-stream"})
        assert r.status == 404 and "nobody-such" in r.json["message"], r


def test_the_number_of_a_process_is_the_one_that_it_sees():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        e.run("true")
        events, error = e.stream("Start", process={"cmd": "/bin/sh", "args": ["-c", "echo $$"]})
        pid = events[0]["start"]["pid"]
        assert error is None and base64.b64decode(events[1]["data"]["stdout"]) == b"%d\n" % pid, events
        c, r = e.open("process.Process/Start", process={"cmd": "/bin/sleep", "args": ["1000"]})
        pid = envelope(r)[1]["event"]["start"]["pid"]
        assert e.run(f"cat /proc/{pid}/comm")[0] == b"sleep\n"
        assert pid in [p["pid"] for p in e.call("process.Process/List").json["processes"]]
        assert e.call("process.Process/SendSignal", process={"pid": pid}, signal="SIGNAL_SIGKILL").status == 200
        # a command that is killed has ended, and its sandbox has not
        assert envelope(r)[1]["event"]["end"]["exited"] is False and envelope(r) == (2, {})
        c.close()


def test_files_keep_the_metadata_that_came_with_them():
    with Daemon(tcp=True) as d:
        e = Client(d).create()

        def put(path, data=b"x", **headers):
            return e.ask("POST", "/files" + (f"?path={path}" if path else ""), data, **{"Content-Type": "application/octet-stream", **headers})

        def stat(path):
            return e.call("filesystem.Filesystem/Stat", path=path).json["entry"].get("metadata")
        r = put("/srv/m/f", **{"X-Metadata-Author": "a = b; c", "x-metadata-n": "1"})
        assert r.status == 200 and r.json[0]["metadata"] == {"author": "a = b; c", "n": "1"} == stat("/srv/m/f"), r
        form = b"".join(b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/srv/m/%s\"\r\n\r\nA\r\n" % n for n in (b"g", b"h")) + b"--B--\r\n"
        r = put("", form, **{"Content-Type": "multipart/form-data; boundary=B", "X-Metadata-Tag": "both"})
        assert [x["metadata"] for x in r.json] == [{"tag": "both"}] * 2, r
        e.run("""ln -s f /srv/m/l; python3 -c 'import os; os.setxattr("/srv/m/h", "user.e2b.own", b"mine"); os.setxattr("/srv/m/h", "user.e2b.bin", b"\\n"); os.setxattr("/srv/m/h", "user.other", b"x")'""")
        listed = {x["name"]: x.get("metadata") for x in e.call("filesystem.Filesystem/ListDir", path="/srv/m").json["entries"]}
        assert listed == {"f": {"author": "a = b; c", "n": "1"}, "g": {"tag": "both"}, "h": {"tag": "both", "own": "mine"}, "l": None}, listed
        moved = e.call("filesystem.Filesystem/Move", source="/srv/m/g", destination="/srv/m/i").json["entry"]
        assert moved["metadata"] == {"tag": "both"}, moved
        # another content has none of the old
        assert "metadata" not in put("/srv/m/f").json[0] and stat("/srv/m/f") is None
        for headers in ({"X-Metadata-": "x"}, {"X-Metadata-a": "\xe4"}, {"X-Metadata-a": "a\tb"}, {"X-Metadata-" + "n" * 200: "x"}, {"X-Metadata-a": "v" * 4000},
                        {f"X-Metadata-{i}": "x" for i in range(40)}):
            r = put("/srv/m/none", **headers)
            assert r.status in (400, 429, 431), (headers, r)
        assert e.call("filesystem.Filesystem/Stat", path="/srv/m/none").status == 404


def test_a_sandbox_that_is_paused_or_gone_does_not_run():
    with Daemon(tcp=True) as d:
        c = Client(d)
        e = c.create()

        def health():
            return e.ask("GET", "/health", check=False).status
        assert health() == 204
        assert c.ask("POST", f"/sandboxes/{e.id}/pause", {}).status == 204
        assert health() == 502
        assert c.ask("POST", f"/sandboxes/{e.id}/connect", {}).status == 200 and health() == 204
        # a command whose sandbox is removed has no exit status of its own; a cell's connection ends
        link, r = e.open("process.Process/Start", process={"cmd": "/bin/sleep", "args": ["1000"]})
        assert "start" in envelope(r)[1]["event"]
        other = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60 * b.SLOW)
        other.request("POST", "/execute", json.dumps({"code": "print(1)\nwhile True: pass"}), {**e.headers, "Content-Type": "application/json"})
        answer = other.getresponse()
        answer.readline()
        assert c.ask("DELETE", f"/sandboxes/{e.id}").status == 204
        error = envelope(r)[1]["error"]
        assert error["code"] == "unavailable" and "sandbox was killed or reached its end of life" in error["message"], error
        link.close()
        try:
            rest = answer.read()
        except http.client.IncompleteRead:
            rest = None
        assert rest is None, f"the cell's answer ended as if the cell had: {rest}"
        other.close()


def test_sandboxes_are_berths_and_no_others_are_seen():
    with Daemon(tcp=True) as d:
        alice, bob = Client(d), Client(d, OTHER)
        e = alice.create(metadata={"a": "1"})
        plain = d.post("/v1/sandboxes", {}, token=TENANT, tcp=True).json["id"]
        assert [s["sandboxID"] for s in alice.ask("GET", "/v2/sandboxes").json] == [e.id]
        assert bob.ask("GET", "/v2/sandboxes").json == []
        for query, count in (("state=running&state=paused", 1), ("state=paused,running", 1), ("state=paused", 0), ("state=run", 0),
                             ("startedAfter=2020-01-01T00:00:00.000Z", 1), ("startedAfter=2999-01-01T00:00:00.000Z", 0)):
            assert len(alice.ask("GET", "/v2/sandboxes?" + query).json) == count, query
        second = alice.create()
        for query, order in (("", [second, e]), ("?order=desc", [second, e]), ("?order=asc", [e, second]), ("?limit=1", [second]),
                             ("?limit=1&nextToken=1", [e])):
            assert [s["sandboxID"] for s in alice.ask("GET", "/v2/sandboxes" + query).json] == [s.id for s in order], query
        assert alice.ask("GET", "/v2/sandboxes?order=up").status == 400
        assert alice.ask("DELETE", f"/sandboxes/{second.id}").status == 204
        now = int(time.time())
        for query, count in (("", 1), (f"?start={now - 60}&end={now + 60}", 1), (f"?start={now - 9000}&end={now - 8000}", 0), (f"?start={now + 900}", 0)):
            assert len(alice.ask("GET", f"/sandboxes/{e.id}/metrics{query}").json) == count, query
        for who, box in ((bob, e.id), (alice, plain), (alice, "nope"), (alice, "../x")):
            r = who.ask("GET", f"/sandboxes/{box}", check=False)
            assert r.status == 404, (box, r)
        ps = {s["id"]: s for s in json.loads(b.berth("ps", "-a", "--json", ok=True).out)}
        assert ps[e.id]["labels"]["berth.face"] == "e2b", ps[e.id]
        assert alice.ask("POST", f"/sandboxes/{e.id}/timeout", {"timeout": 0.5}).status == 400
        assert alice.ask("POST", f"/sandboxes/{e.id}/pause", {}).status == 204
        assert alice.ask("POST", f"/sandboxes/{e.id}/pause", {}).status == 409
        assert alice.ask("POST", f"/v2/sandboxes/{e.id}/connect", {"timeout": 600}).json["sandboxID"] == e.id
        assert alice.ask("DELETE", f"/sandboxes/{e.id}").status == 204
        assert e.ask("GET", "/health").status == 502
        d.request("DELETE", f"/v1/sandboxes/{plain}?force=true", token=TENANT, tcp=True)


def test_malformed_requests_and_absent_objects_are_refused():
    with Daemon(tcp=True) as d:
        c = Client(d)
        for body in ({}, {"templateID": 1}, {"templateID": "base", "metadata": {"a": 1}},
                     {"templateID": "base", "envVars": {"a": 1}}, {"templateID": "base", "timeout": -1}, {"templateID": "base", "timeout": "x"},
                     {"templateID": "no-such-template"}, {"templateID": "/etc"}, {"templateID": "base", "volumeMounts": [{"name": "v"}]}):
            r = c.ask("POST", "/v2/sandboxes", body)
            assert 400 <= r.status < 502 and r.json["code"] and r.json["message"], (body, r)
        assert json.loads(b.berth("ps", "-a", "--json", ok=True).out) == []
        r = c.ask("GET", "/templates/aliases/base", check=False)
        assert r.status == 404 and r.json["code"] == 404 and r.json["message"], r
        assert d.request("GET", "/templates/aliases/base", token=TENANT, tcp=True, check=False).json["error"]["code"] == "not-found"
        for key in ({}, {"X-API-Key": ""}, {"X-API-Key": "e2b_"}, {"X-API-Key": "e2b_" + "0" * 32}, {"X-Access-Token": "a.b"}):
            r = d.request("GET", "/v2/sandboxes", headers=key, tcp=True)
            assert r.status == 401 and ("X-API-Key" not in key or r.json["code"] == 401 and r.json["message"]), (key, r)


def test_a_create_has_the_network_and_the_volumes_that_it_names():
    with Daemon("[sandbox]\nnetwork_enabled = true\n", tcp=True) as d:
        c = Client(d)

        def network(**more):
            made = c.create(mcp={"x": {}}, **more)     # the client itself starts the image's mcp-gateway
            return json.loads(b.berth("inspect", made.id, ok=True).out)["network"]

        for closed in ({"allow_internet_access": False}, {"network": {"denyOut": ["0.0.0.0/0"]}}):
            rules = network(**closed)
            assert rules["mode"] == "egress", (closed, rules)
        closed = {"allow_internet_access": False}
        before = len(c.ask("GET", "/v2/sandboxes").json)
        for asked in ({"network": {"allowOut": ["example.org"]}}, {"network": {"denyOut": ["example.org"]}}, {"network": {"denyOut": ["10.0.0.0/33"]}},
                      {"network": {"allowOut": ["example.org:80"], "denyOut": ["0.0.0.0/0"]}}, {"network": {"allowOut": "1.1.1.1"}},
                      {"network": {"allowOut": ["example.org", "10.0.0.1"], "denyOut": ["0.0.0.0/0"]}},
                      {"network": {"allowOut": ["example.org", "8.8.8.0/24"], "denyOut": ["0.0.0.0/0"]}}, {"network": {"allowOut": [7]}},
                      {"network": {"rules": {"x.test": [{}]}}}, {"allow_internet_access": False, "network": {"allowOut": ["example.org"]}},
                      {"network": {"egressProxy": {"url": "x"}}}, {"network": 1}, {"allow_internet_access": "no"}, {"iam": {"tokens": {}}},
                      {"mcp": ["x"]}, {"volumeMounts": [{"name": "/etc", "path": "/mnt"}]},
                      {"volumeMounts": [{"name": "v", "path": "mnt"}]}, {"volumeMounts": {"v": "/mnt"}}, {"volumeMounts": [{"name": "v:/x", "path": "/mnt"}]},
                      {"volumeMounts": [{"name": "v", "path": "/mnt:ro"}]}, {"volumeMounts": [{"name": "../v", "path": "/mnt"}]}):
            r = c.ask("POST", "/v2/sandboxes", {"templateID": "base", **asked})
            assert r.status in (400, 403, 404, 501) and r.json["message"], (asked, r)
        assert len(c.ask("GET", "/v2/sandboxes").json) == before
        assert d.post("/v1/volumes", {"name": "data"}, token=TENANT, tcp=True).status < 300
        mounts = [{"name": "data", "path": "/data"}]
        c.create(volumeMounts=mounts, **closed).run("echo kept > /data/f")
        assert c.create(volumeMounts=mounts, **closed).run("cat /data/f")[0] == b"kept\n"
        d.post("/v1/volumes", {"name": "data"}, token=OTHER, tcp=True)
        assert Client(d, OTHER).create(volumeMounts=mounts, **closed).run("ls /data")[0] == b"", "another tenant's volume of that name is the same one"
        # to take a right away needs no right, on berthd's own route too
        r = d.post("/v1/sandboxes", {"options": {"network": "none"}}, token=TENANT, tcp=True)
        assert r.status < 300, r
        for denied in ("host", "bridge", "egress", ["none", "host"]):
            assert d.post("/v1/sandboxes", {"options": {"network": denied}}, token=TENANT, tcp=True).status in (400, 403), denied
        b.berth("rm", "--force", *b.berth("ps", "-a", "-q", ok=True).out.split(), ok=True)
        for token in (TENANT, OTHER):
            assert d.request("DELETE", "/v1/volumes/data", token=token, tcp=True).status < 300


def test_a_timeout_ends_a_sandbox():
    with Daemon(tcp=True) as d:
        c = Client(d)
        c.create(timeout=3)
        b.wait_for(lambda: c.ask("GET", "/v2/sandboxes").json == [], 30, "the end of its time")
        b.wait_for(lambda: json.loads(b.berth("ps", "-a", "--json", ok=True).out) == [], 30, "its removal")


def e2b_ids(client, query=""):
    return sorted(x["snapshotID"] for x in client.ask("GET", "/snapshots" + query).json)


@b.deadline(90)
def test_snapshots_outlive_their_sandbox_and_forks_succeed_each_by_itself():
    with Daemon("[tenant]\nsandboxes = 4\n[sandbox]\nnetwork_enabled = true\n", tcp=True) as d:
        alice, bob = Client(d), Client(d, OTHER)
        e = alice.create(metadata={"a": "1"}, allow_internet_access=False)
        if not os.path.isfile(os.path.join(b.root(), "state", "sandboxes", e.id, "writable.img")):
            raise b.skip("the state directory has project quotas")
        e.run("echo 1 > /root/n")
        r = alice.ask("POST", f"/sandboxes/{e.id}/snapshots", {"name": "state"})
        assert r.status == 201 and r.json == {"snapshotID": "state:default", "names": ["state:default"]}, r
        # the first has nothing of it left; it is not listed as a sandbox, and prune leaves it alone
        assert d.good("GET", f"/v1/sandboxes/{e.id}/checkpoints")["checkpoints"] == []
        assert [s["sandboxID"] for s in alice.ask("GET", "/v2/sandboxes").json] == [e.id]
        b.berth("prune", "--force", ok=True)
        box = next(x for x in json.loads(b.berth("ps", "-a", "--json", ok=True).out) if x["id"] != e.id)
        assert (box["status"], box["labels"]["berth.face"]) == ("created", "e2b-snapshot") and not box["expires_ms"], box
        assert e2b_ids(alice) == e2b_ids(alice, f"?sandboxID={e.id}") == e2b_ids(alice, "?name=state") == ["state:default"]
        assert e2b_ids(alice, "?sandboxID=x") == e2b_ids(bob) == []
        assert alice.ask("GET", f"/sandboxes/{box['id']}").status == 404
        # three of four are used: one fork of two is made
        one = alice.create(templateID="state:default")
        assert one.run("cat /root/n")[0] == b"1\n"
        r = alice.ask("POST", f"/sandboxes/{one.id}/fork", {"count": 2, "timeout": 600})
        assert r.status == 201 and len(r.json) == 2 and r.json[1]["error"]["code"] == 429 and "may have 4" in r.json[1]["error"]["message"], r
        assert r.json[0]["sandbox"]["templateID"] == "state:default" and r.json[0]["sandbox"]["envdAccessToken"], r
        assert d.good("GET", f"/v1/sandboxes/{one.id}/checkpoints")["checkpoints"] == []
        # each tells of the network that it has, which is the first one's
        for box_id in (e.id, one.id, r.json[0]["sandbox"]["sandboxID"]):
            told = alice.ask("GET", f"/sandboxes/{box_id}").json
            assert told.get("allowInternetAccess") is False, (box_id, told)
            network = json.loads(b.berth("inspect", box_id, ok=True).out)["network"]
            assert network["mode"] == "egress" and not network.get("policy", {}).get("allow_host"), network
        assert alice.ask("POST", f"/sandboxes/{e.id}/snapshots", {}).status == 429
        # nothing of a snapshot that is not made is left
        assert len(json.loads(b.berth("ps", "-a", "--json", ok=True).out)) == 4
        for body in ({"count": 0}, {"count": 101}, {"count": "2"}, {"timeout": -1}):
            assert alice.ask("POST", f"/sandboxes/{one.id}/fork", body).status == 400, body
        for name in ("A", "a.b", "", "a/b", "x" * 80, "a:default"):
            r = alice.ask("POST", f"/sandboxes/{e.id}/snapshots", {"name": name})
            assert r.status == 400 and "not a name" in r.json["message"], (name, r)
        for who, path in ((bob, f"/sandboxes/{e.id}/snapshots"), (bob, f"/sandboxes/{e.id}/fork"), (alice, f"/sandboxes/{box['id']}/fork")):
            assert who.ask("POST", path, {}).status == 404
        for who, text in ((bob, "state:default"), (bob, box["id"]), (alice, "none"), (alice, e.id)):
            assert who.ask("DELETE", "/templates/" + text).status == 404, text
        assert alice.ask("DELETE", "/templates/" + box["id"] + ":default").status == 204
        assert e2b_ids(alice) == [] and one.run("cat /root/n")[0] == b"1\n"


def cut_short(d, e, path, body, length, **headers):
    """An upload whose connection ends before its body does."""
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=30 * b.SLOW)
    c.putrequest("POST", path)
    for name, value in {**e.headers, "Content-Type": "application/octet-stream", "Content-Length": str(length), **headers}.items():
        c.putheader(name, value)
    c.endheaders()
    c.send(body)
    c.close()


def test_an_upload_of_gzip_data_is_inflated_and_a_broken_one_leaves_no_file():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        gz = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
        data = random.Random(5).randbytes(300000) + bytes(3000000)
        packed = gzip.compress(data)
        # whole rooms of berthd's: the last is full at the moment when the data end
        full = b"z" * (5 << 20)
        for body, want in ((packed, data), (gzip.compress(b"one ") + gzip.compress(b"two"), b"one two"), (gzip.compress(b""), b""),
                           (gzip.compress(full), full), (gzip.compress(full) + gzip.compress(b"more"), full + b"more")):
            r = e.ask("POST", "/files?path=/tmp/new/z", body, **gz)
            assert r.status == 200 and r.json[0]["path"] == "/tmp/new/z", r
            assert e.ask("GET", "/files?path=/tmp/new/z").body == want
        form = b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/tmp/form\"\r\n\r\nA\r\n--B--\r\n"
        r = e.ask("POST", "/files", gzip.compress(form), **{"Content-Type": "multipart/form-data; boundary=B", "Content-Encoding": "GZIP"})
        assert r.status == 200 and e.ask("GET", "/files?path=/tmp/form").body == b"A", r
        r = e.ask("POST", "/files?path=/tmp/plain", b"as it is", **{**gz, "Content-Encoding": "identity"})
        assert r.status == 200 and e.ask("GET", "/files?path=/tmp/plain").body == b"as it is", r
        wrong = bytearray(packed)
        wrong[-6] ^= 1      # of the checksum
        e.ask("POST", "/files?path=/tmp/kept", b"old", **{"Content-Type": "application/octet-stream"})
        for body in (b"", b"plain", packed[:-9], packed[:200000], packed[:5], bytes(wrong), packed + b"more", packed + packed[:40]):
            for path in ("/tmp/none/here", "/tmp/kept"):
                r = e.ask("POST", f"/files?path={path}", body, **gz)
                assert r.status == 400 and "gzip" in r.json["message"], (len(body), r)
            assert e.ask("GET", "/files?path=/tmp/none/here").status == 404
            assert e.ask("GET", "/files?path=/tmp/kept").body == b"old"
        for other in ("br", "gzip, gzip", "deflate", ""):
            r = e.ask("POST", "/files?path=/tmp/none/here", packed, **{**gz, "Content-Encoding": other})
            assert r.status in (400, 501) and "Content-Encoding" in r.json["message"], (other, r)
        assert e.ask("GET", "/files?path=/tmp/none/here").status == 404
        assert e.run("ls -A /tmp /tmp/none 2>/dev/null | grep berth-")[0] == b"", "a part of a file was left"


def test_gzip_data_inflates_to_no_more_than_a_plain_upload_may_have():
    with Daemon("[sandbox]\ndisk_limit = \"64m\"\n", tcp=True) as d:
        e = Client(d).create()
        bomb = gzip.compress(bytes(40 << 20), 9)
        r = e.ask("POST", "/files?path=/root/bomb", bomb * 4, **{"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"})
        assert r.status >= 400 and e.ask("GET", "/files?path=/root/bomb").status == 404, r
        head = b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/root/bomb\"\r\n\r\n"
        r = e.ask("POST", "/files", gzip.compress(head) + bomb, **{"Content-Type": "multipart/form-data; boundary=B", "Content-Encoding": "gzip"})
        assert r.status in (413, 429), r
        assert e.ask("GET", "/files?path=/root/bomb").status == 404
        assert e.run("echo still there")[0] == b"still there\n"


def test_an_upload_that_is_cut_short_leaves_the_file_as_it_was():
    with Daemon(tcp=True) as d:
        e = Client(d).create()
        e.ask("POST", "/files?path=/tmp/kept", b"old", **{"Content-Type": "application/octet-stream"})
        for more in ({}, {"Content-Encoding": "gzip"}):
            for i in range(8):
                body = random.Random(i).randbytes(200000)
                cut_short(d, e, "/files?path=/tmp/kept", gzip.compress(body) if more else body, 900000, **more)
        d.stop()    # it has then ended all requests
        d.start()
        r = e.ask("GET", "/files?path=/tmp/kept")
        assert r.body == b"old", (len(r.body), r)


@b.deadline(90)
def test_a_snapshot_and_a_fork_push_out_no_checkpoint_of_the_user():
    with Daemon(tcp=True) as d:
        c = Client(d)
        e = c.create()
        if not os.path.isfile(os.path.join(b.root(), "state", "sandboxes", e.id, "writable.img")):
            raise b.skip("the state directory has project quotas")

        def kept():
            return [x["name"] for x in d.good("GET", f"/v1/sandboxes/{e.id}/checkpoints")["checkpoints"]]

        for name in ("first", "second"):
            e.run(f"echo {name} > /root/n")
            assert d.good("POST", f"/v1/sandboxes/{e.id}/checkpoints", {"name": name, "keep": 2})["checkpoint"]
        e.run("echo last > /root/n")
        made = c.ask("POST", f"/sandboxes/{e.id}/snapshots", {"name": "state"})
        assert made.status == 201 and kept() == ["first", "second"], (made, kept())
        forked = c.ask("POST", f"/sandboxes/{e.id}/fork", {"count": 1, "timeout": 600})
        assert forked.status == 201 and "sandbox" in forked.json[0] and kept() == ["first", "second"], (forked, kept())
        assert c.create(templateID="state:default").run("cat /root/n")[0] == b"last\n"
        d.good("POST", f"/v1/sandboxes/{e.id}/undo", {"to": "first"})
        assert e.run("cat /root/n")[0] == b"first\n"
        before = kept()
        assert c.ask("POST", f"/sandboxes/{e.id}/snapshots", {}).status == 201 and kept() == before, (before, kept())
        assert c.ask("POST", f"/sandboxes/{e.id}/fork", {"timeout": 600}).status == 201 and kept() == before, (before, kept())


def paused_at_its_end(e, c):
    b.wait_for(lambda: c.ask("GET", f"/sandboxes/{e.id}").json["state"] == "paused", 30, "the pause at the end of its time")


@b.deadline(90)
def test_a_sandbox_with_auto_pause_is_paused_at_its_timeout_and_goes_on_when_connected():
    with Daemon("[tenant]\nsandboxes = 2\n", tcp=True) as d:
        c = Client(d)
        e, other = c.create(timeout=8, autoPause=True), c.create(autoPause=True, autoPauseMemory=True)
        told = json.loads(b.berth("inspect", e.id, ok=True).out)
        assert told["pause_at_end"] is True, told
        paused_at_its_end(e, c)
        # it has no end any more, and counts among its tenant's; it stays over a restart of berthd
        assert json.loads(b.berth("inspect", e.id, ok=True).out)["expires_ms"] is None
        r = c.ask("POST", "/v2/sandboxes", {"templateID": "base"})
        assert r.status == 429 and "may have 2" in r.json["message"], r
        d.stop()
        d.start()
        b.berth("gc", ok=True)
        one = c.ask("GET", f"/sandboxes/{e.id}").json
        assert (one["state"], one["lifecycle"]) == ("paused", {"onTimeout": "pause", "autoResume": False}), one
        assert [s["sandboxID"] for s in c.ask("GET", "/v2/sandboxes?state=paused").json] == [e.id]
        assert c.ask("POST", f"/sandboxes/{e.id}/pause", {}).status == 409
        # its processes go on, and its next timeout pauses it again
        assert c.ask("POST", f"/v2/sandboxes/{e.id}/connect", {"timeout": 600}).status == 200
        assert e.run("echo on > /tmp/f; cat /tmp/f")[0] == b"on\n"
        assert c.ask("POST", f"/sandboxes/{e.id}/timeout", {"timeout": 1}).status == 204
        paused_at_its_end(e, c)
        assert c.ask("POST", f"/sandboxes/{e.id}/resume", {"timeout": 600}).status == 201
        assert e.run("cat /tmp/f")[0] == b"on\n"
        told = [json.loads(line) for line in b.berth("events", "--json", e.id, ok=True).out.splitlines()]
        reasons = [x.get("reason") for x in told if x["event"] == "pause"]
        assert reasons == ["ttl", "ttl"], reasons
        # one that stood still already at that moment stays so
        assert c.ask("POST", f"/sandboxes/{other.id}/pause", {}).status == 204
        assert c.ask("POST", f"/sandboxes/{other.id}/timeout", {"timeout": 1}).status == 204
        b.wait_for(lambda: json.loads(b.berth("inspect", other.id, ok=True).out)["expires_ms"] is None, 30, "the end of its time")
        assert c.ask("GET", f"/sandboxes/{other.id}").json["state"] == "paused"


def test_a_sandbox_with_auto_pause_that_is_stopped_at_its_timeout_is_not_removed():
    with Daemon(tcp=True) as d:
        c = Client(d)
        e = c.create(timeout=8, autoPause=True)
        b.berth("stop", e.id, ok=True)
        b.wait_for(lambda: json.loads(b.berth("inspect", e.id, ok=True).out)["expires_ms"] < time.time() * 1000, 30, "the end of its time")
        b.berth("gc", ok=True)
        assert [x["id"] for x in json.loads(b.berth("ps", "-a", "--json", ok=True).out)] == [e.id]
