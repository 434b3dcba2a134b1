# SPDX-License-Identifier: Apache-2.0
# The resident Python behind E2B's POST /execute: a line of JSON in for each cell ("id", "code", "env"), lines of JSON out,
# each with the cell's id: what it writes as it comes, its results, its error, its end.  Runs in the sandbox.
import ast, asyncio, base64, codecs, json, os, sys, threading, traceback

requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w")
for f in (requests, answers):
    os.set_inheritable(f.fileno(), False)
os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
space = {"__name__": "__main__", "__builtins__": __builtins__}
now, count, lock = None, 0, threading.Lock()


def say(kind, **event):
    with lock:
        answers.write(json.dumps({"id": now, "type": kind, **event}) + "\n")
        answers.flush()


class Stream:
    """A descriptor whose bytes become events; drain() returns when all that was written before is told."""

    def __init__(self, fd, kind):
        self.kind, self.fd, self.done = kind, fd, threading.Event()
        source, sink = os.pipe()
        os.dup2(sink, fd)
        os.close(sink)
        self.mark = b"\0" + os.urandom(16).hex().encode() + b"\0"
        threading.Thread(target=self.pump, args=(source,), daemon=True).start()

    def pump(self, source):
        held, decoder = b"", codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            held += os.read(source, 65536)
            before, mark, after = held.partition(self.mark)
            if mark:
                held = after
            else:       # the mark may have come in part
                keep = next((n for n in range(len(self.mark) - 1, 0, -1) if held.endswith(self.mark[:n])), 0)
                before, held = held[:len(held) - keep], held[len(held) - keep:]
            text = decoder.decode(before)
            if text:
                say(self.kind, text=text)
            if mark:
                self.done.set()

    def drain(self):
        self.done.clear()
        os.write(self.fd, self.mark)
        self.done.wait(5)


streams = Stream(1, "stdout"), Stream(2, "stderr")
sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
FORMATS = ("html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "json", "javascript")


def result(value, is_main):
    event = {"text": repr(value), "is_main_result": is_main}
    for kind in FORMATS:
        try:
            made = getattr(value, "_repr_%s_" % kind)()
        except Exception:
            continue
        made = made[0] if isinstance(made, tuple) else made
        if isinstance(made, bytes):
            made = base64.b64encode(made).decode()
        if made is not None:
            event[kind] = made
    say("result", **event)


def figures():
    """What matplotlib has drawn, if anything has."""
    plt = sys.modules.get("matplotlib.pyplot")
    for number in plt.get_fignums() if plt else ():
        import io
        out = io.BytesIO()
        plt.figure(number).savefig(out, format="png")
        say("result", text="<Figure %d>" % number, png=base64.b64encode(out.getvalue()).decode(), is_main_result=False)
    if plt:
        plt.close("all")


def evaluate(part, how, name):
    value = eval(compile(part, name, how, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), space)
    return asyncio.run(value) if asyncio.iscoroutine(value) else value


def run(code):
    name = "<cell %d>" % count
    lines = code.split("\n")
    if any(line.lstrip().startswith("!") for line in lines):
        code = "\n".join(line if not line.lstrip().startswith("!") else line[:len(line) - len(line.lstrip())] +
                         "__import__('subprocess').run(%r, shell=True) and None" % line.lstrip()[1:] for line in lines)
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    evaluate(tree, "exec", name)
    if last is not None:
        value = evaluate(ast.Expression(last.value), "eval", name)
        if value is not None:
            space["_"] = value
            result(value, True)
    figures()


space["display"] = lambda *values: [result(v, False) for v in values] and None
if "MPLBACKEND" not in os.environ:
    os.environ["MPLBACKEND"] = "agg"
for line in requests:
    asked = json.loads(line)
    now, count = asked["id"], count + 1
    say("number_of_executions", execution_count=count)
    before = dict(os.environ)
    try:
        os.environ.update(asked.get("env") or {})
        run(asked["code"])
    except BaseException as e:
        trace = e.__traceback__
        while trace and not trace.tb_frame.f_code.co_filename.startswith("<cell"):
            trace = trace.tb_next
        say("error", name=type(e).__name__, value=str(e), traceback="".join(traceback.format_exception(type(e), e, trace)))
    os.environ.clear()
    os.environ.update(before)
    for f, s in zip((sys.stdout, sys.stderr), streams):
        try:
            f.flush()
        except Exception:
            pass
        s.drain()
    say("end_of_execution")
