# SPDX-License-Identifier: Apache-2.0
"""
A resident Python in a sandbox: each cell sees what those before it defined.

The program below reads a line of JSON for each cell and answers with one.  What cells and their processes write goes to
files, from which it is read when the cell is done.  It runs in the sandbox and is as hostile as what runs in it: its
answers are only parsed.
"""
from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple, Optional

from berth import Output, Sandbox, errors

OUTPUT_MAX = 1 << 20        # of each stream of a cell
LINE_MAX = 16 << 20

PROGRAM = r"""
import ast, base64, json, os, re, sys, tempfile, traceback
requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
MAX = int(sys.argv[1])
cells = {"__name__": "__main__"}

def shell(line):
    import subprocess
    subprocess.run(line, shell=True)

def run(code):
    lines = [re.sub(r"^(\s*)!(.*)$", lambda m: m[1] + "__shell__(" + repr(m[2]) + ")", line) for line in code.split("\n")]
    cells["__shell__"] = shell
    tree = ast.parse("\n".join(lines), "<cell>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), cells)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), cells) if last else None

def read(f):
    f.seek(0)
    return base64.b64encode(f.read(MAX)).decode()

for line in requests:
    answer = {"result": None, "error": None}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdout, sys.stderr = os.fdopen(os.dup(1), "w", 1), os.fdopen(os.dup(2), "w", 1)
        try:
            value = run(json.loads(line))
            answer["result"] = None if value is None else repr(value)
        except BaseException as e:
            answer["error"] = {"name": type(e).__name__, "value": str(getattr(e, "value", e)),
                               "traceback": "".join(traceback.format_exception(type(e), e, e.__traceback__)[1:])}
        for f in (sys.stdout, sys.stderr):
            try:
                f.close()
            except OSError:
                pass
        answer["stdout"], answer["stderr"] = read(out), read(err)
    print(json.dumps(answer), file=answers, flush=True)
"""


class Cell(NamedTuple):
    """What a cell wrote, the repr of its last expression or None, and the error that ended it, if one did."""

    stdout: str
    stderr: str
    result: Optional[str]
    error_name: str = ""
    error_value: str = ""
    traceback: str = ""


class Kernel:
    def __init__(self, sandbox: Sandbox, python: str = "python3", **options: Any) -> None:
        self._process = sandbox.popen([python, "-u", "-c", PROGRAM, str(OUTPUT_MAX)], stdin_open=True, **options)
        self._held = b""

    def run(self, code: str) -> Cell:
        self._process.send(json.dumps(code) + "\n")
        got = json.loads(self._line())
        error = got.get("error") or {}
        return Cell(text_of(got, "stdout"), text_of(got, "stderr"), got.get("result"), str(error.get("name", "")),
                    str(error.get("value", "")), str(error.get("traceback", "")))

    def _line(self) -> bytes:
        said = b""
        while b"\n" not in self._held:
            piece: Optional[Output] = next(self._process, None)
            if piece is None or len(self._held) > LINE_MAX:
                cause = (self._process.verdict or {}).get("cause", "too long an answer")
                raise errors.Internal(f"the sandbox's python ended ({cause}): {said.decode(errors='replace')[-500:]}")
            if piece.stream == "stdout":
                self._held += piece.data
            else:
                said += piece.data
        line, self._held = self._held.split(b"\n", 1)
        return line

    def close(self) -> None:
        self._process.close()


def text_of(answer: Any, name: str) -> str:
    return base64.b64decode(str(answer.get(name, ""))).decode(errors="replace")
