# SPDX-License-Identifier: Apache-2.0
# The stateful Python behind the tool run_ipython_cell: a JSON line in with "code", a JSON line out with
# what the cell wrote.  Runs in the sandbox, with the sandbox's python3.
import ast, asyncio, json, os, subprocess, sys, tempfile, traceback

lines, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
for fd in (lines.fileno(), answers.fileno()):
    os.set_inheritable(fd, False)
null = os.open("/dev/null", os.O_RDWR)
os.dup2(null, 0)
space = {"__name__": "__main__", "__builtins__": __builtins__}
count = 0


def shell(text):
    """IPython's !command, for whole lines."""
    out = []
    for line in text.split("\n"):
        bare = line.lstrip()
        if bare.startswith("!"):
            line = line[:len(line) - len(bare)] + "__import__('subprocess').run(%r, shell=True)" % bare[1:]
        out.append(line)
    return "\n".join(out)


def evaluate(code):
    global count
    count += 1
    if any(line.lstrip().startswith("!") for line in code.split("\n")):
        try:
            ast.parse(code)
        except SyntaxError:
            code = shell(code)
    tree = ast.parse(code, "<cell %d>" % count)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    value = eval(compile(tree, "<cell %d>" % count, "exec", flags), space)
    if asyncio.iscoroutine(value):
        asyncio.run(value)
    if last is not None:
        value = eval(compile(last, "<cell %d>" % count, "eval", flags), space)
        if asyncio.iscoroutine(value):
            value = asyncio.run(value)
        if value is not None:
            space["_"] = value
            if not (isinstance(last.body, ast.Call) and isinstance(value, subprocess.CompletedProcess)):
                print("Out[%d]: %r" % (count, value))


def text(f):
    f.seek(0)
    return f.read().decode("utf-8", "replace")


for line in lines:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            evaluate(json.loads(line)["code"])
        except SystemExit:
            pass
        except BaseException:
            kind, what, trace = sys.exc_info()
            traceback.print_exception(kind, what, trace.tb_next.tb_next if trace and trace.tb_next else None)
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:
            pass
        os.dup2(null, 1)
        os.dup2(null, 2)
        answers.write(json.dumps({"stdout": text(out), "stderr": text(err)}).encode() + b"\n")
        answers.flush()
