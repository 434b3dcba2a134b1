# SPDX-License-Identifier: Apache-2.0
# The stateful Python behind the tool run_ipython_cell: a JSON line in with "code", a JSON line out with
# what the cell wrote.  Runs in the sandbox, with the sandbox's python3.  A cell is Python with !command, top-level await
# and Out[].  From the first that needs it IPython runs them, if the image has it: it takes a second and 50 MB.
import ast, asyncio, json, os, re, subprocess, sys, tempfile, traceback, warnings

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


def needs_ipython(code):
    try:
        tree = ast.parse(code)
    except SyntaxError:
        try:
            ast.parse(shell(code))
        except SyntaxError:     # %magic, %%cell, x = !command, what?
            return re.search(r"(?m)^\s*[%!?]|=\s*[%!]|\?\s*$", code)
        return False
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names & {"display", "get_ipython"} - space.keys()


def ipython():
    """Runs cells in an IPython whose tracebacks go to stderr, so that a cell that fails is told from one that prints."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False       # no file, and no thread that writes it
    config.InteractiveShell.colors = "NoColor"
    ip = InteractiveShell.instance(config=config, user_ns=space)
    ip.execution_count = count + 1
    ip.system = ip.system_raw                   # by our descriptors, not through a terminal of its own
    ip._showtraceback = lambda kind, what, lines: kind is SystemExit or print(ip.InteractiveTB.stb2text(lines), file=sys.stderr)
    ip.ask_exit = lambda: None                  # as sys.exit(): the cell ends, the state stays
    warnings.filterwarnings("ignore", message="To exit:")
    return lambda code: ip.run_cell(code, store_history=True)


def cell(code):
    global run
    if run is evaluate and needs_ipython(code):
        try:
            run = ipython()
        except Exception:       # none, or none that starts
            pass
    run(code)


run = evaluate


def text(f):
    f.seek(0)
    return f.read().decode("utf-8", "replace")


for line in lines:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            cell(json.loads(line)["code"])
        except SystemExit:
            pass
        except BaseException:
            kind, what, trace = sys.exc_info()
            for _ in range(3):      # the loop, cell() and evaluate() are none of the cell's
                trace = trace and trace.tb_next
            traceback.print_exception(kind, what, trace)
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:
            pass
        os.dup2(null, 1)
        os.dup2(null, 2)
        answers.write(json.dumps({"stdout": text(out), "stderr": text(err)}).encode() + b"\n")
        answers.flush()
