# SPDX-License-Identifier: Apache-2.0
"""POST /run_code: SandboxFusion's contract, as verl's client sends it and reads it."""
import base64
import json
import shutil
import threading

import berthtest as b
from daemon import OTHER, TENANT, TOKEN, Daemon

COST = 10


def run(d, code, language="python", token=TENANT, status=200, timeout=60, **more):
    # what verl 0.5 sends with every program
    body = {"compile_timeout": 10, "run_timeout": 10, "code": code, "stdin": "", "memory_limit_MB": 256, "language": language,
            "files": {}, "fetch_files": [], **more}
    r = d.post("/run_code", body, token=token, tcp=True, timeout=timeout)
    assert r.status == status, r
    return r.json


def sandboxes():
    return json.loads(b.berth("ps", "-a", "--json", ok=True).out)


def b64(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def test_a_program_its_input_and_its_end():
    with Daemon(tcp=True) as d:
        j = run(d, "import sys; print(sys.stdin.read().upper()); print('e', file=sys.stderr)", stdin="abc\nd")
        assert j["status"] == "Success" and j["compile_result"] is None and j["message"] == "" and j["files"] == {}, j
        out = j["run_result"]
        assert (out["status"], out["return_code"], out["stdout"], out["stderr"]) == ("Finished", 0, "ABC\nD\n", "e\n"), out
        assert 0 <= out["execution_time"] < 10 and j["executor_pod_name"] is None, j
        j = run(d, "raise SystemExit(3)")
        assert j["status"] == "Failed" and j["run_result"]["return_code"] == 3, j
        j = run(d, "x = 1 +")
        assert j["status"] == "Failed" and "SyntaxError" in j["run_result"]["stderr"], j
        j = run(d, "while True: pass", run_timeout=0.3)
        assert j["status"] == "Failed" and j["run_result"]["status"] == "TimeLimitExceeded", j
        assert j["run_result"]["return_code"] is None, j
        j = run(d, "b = bytearray(1 << 30)", memory_limit_MB=64)
        assert j["status"] == "Failed" and j["run_result"]["return_code"], j
        assert sandboxes() == [], "a sandbox is left"


def test_compiled_languages_stop_at_an_error_of_the_compiler():
    if not shutil.which("gcc"):
        raise b.skip("gcc is not on this machine")
    with Daemon(tcp=True) as d:
        j = run(d, '#include <stdio.h>\nint main(void) { int n; scanf("%d", &n); printf("%d", n * 2); return 0; }', "c", stdin="21")
        assert j["status"] == "Success" and j["compile_result"]["return_code"] == 0 and j["run_result"]["stdout"] == "42", j
        j = run(d, "int main(void) { return nothing; }", "c")
        assert j["status"] == "Failed" and "nothing" in j["compile_result"]["stderr"] and j["run_result"] is None, j


def test_files_go_in_and_out():
    with Daemon(tcp=True) as d:
        code = "import sub.m; open('out/r.bin', 'wb').write(bytes(range(256)) + open('data.txt', 'rb').read())"
        j = run(d, "import os; os.mkdir('out')\n" + code, files={"sub/m.py": b64("x = 1"), "data.txt": b64("hello"), "empty": None},
                fetch_files=["out/r.bin", "never/made"])
        assert j["status"] == "Success", j
        assert list(j["files"]) == ["out/r.bin"] and base64.b64decode(j["files"]["out/r.bin"]) == bytes(range(256)) + b"hello", j
        j = run(d, "import os; os.symlink('/etc/shadow', 'l')", fetch_files=["l"])
        assert b64("root:")[:6] not in json.dumps(j), "a file of the host came out"


def test_output_is_bounded_and_always_text():
    with Daemon(tcp=True) as d:
        j = run(d, "import sys; sys.stdout.buffer.write(b'ok\\xff\\x00\\n')")
        assert j["run_result"]["stdout"] == "ok\ufffd\ufffd\n", j
        j = run(d, "print('a' * (8 << 20) + 'end')")
        out = j["run_result"]["stdout"]
        assert j["status"] == "Success" and len(out) < 2 << 20 and out.endswith("end\n") and "dropped" in out, len(out)
        j = run(d, "open('big', 'wb').truncate(64 << 20)", fetch_files=["big"])
        assert j["status"] == "SandboxError" and "bytes" in j["message"], j


def test_what_is_wrong_is_refused_and_what_cannot_be_done_is_told():
    with Daemon('[tenant]\nmemory_limit = "512m"\n', tcp=True) as d:
        for change in ({"language": "cobol"}, {"language": None}, {"code": 1}, {"run_timeout": "x"}, {"run_timeout": 1e9}, {"files": {"a": "*"}},
                       {"files": []}, {"fetch_files": [1]}, {"memory_limit_MB": 1.5}, {"stdin": 3}):
            body = {"code": "print(1)", "language": "python", **change}
            r = d.post("/run_code", body, token=TENANT, tcp=True)
            assert r.status == 422 and r.json["detail"], (change, r)
        j = run(d, "print(1)", memory_limit_MB=4096)
        assert j["status"] == "SandboxError" and j["message"] and j["run_result"] is None, j
        j = run(d, "print(1)", "racket")
        assert j["status"] == "SandboxError" and "racket" in j["message"], j
        assert d.post("/run_code", {"code": "", "language": "python"}, token="", tcp=True).status == 401
        assert sandboxes() == [], "a sandbox is left"


def test_many_at_once_are_apart():
    with Daemon(tcp=True) as d:
        said = {}

        def one(i):
            said[i] = run(d, f"import os; open('f', 'x').write('{i}'); print(open('f').read(), os.listdir('.'))", token=(TOKEN, TENANT, OTHER)[i % 3],
                          timeout=60 + i)     # a connection of its own
        threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60 * b.SLOW)
        for i in range(12):
            assert said[i]["run_result"]["stdout"].split()[0] == str(i), said[i]
        assert sandboxes() == [], "a sandbox is left"
