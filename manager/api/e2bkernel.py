# SPDX-License-Identifier: Apache-2.0
# The resident Python behind E2B's POST /execute: a line of JSON in for each cell ("id", "code", "env"), lines of JSON out,
# each with the cell's id: what it writes as it comes, its results, its error, its end.  A line {"interrupt": ID} ends that
# cell.  Runs in the sandbox.  Cells are Python, by IPython where the image has it, or the language of the first argument.
import ast, asyncio, base64, codecs, datetime, importlib.abc, importlib.util, json, os, queue, re, select, shutil, signal
import subprocess, sys, tempfile, textwrap, threading, traceback

language = sys.argv[1] if len(sys.argv) > 1 else "python"
requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w")
for f in (requests, answers):
    os.set_inheritable(f.fileno(), False)
os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
now, count, lock = None, 0, threading.Lock()


def say(kind, **event):
    with lock:
        answers.write(json.dumps({"id": now, "type": kind, **event}) + "\n")
        answers.flush()


def say_error(name, value, text=""):
    say("error", name=name, value=value, traceback=text)


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
            # a line that is written in pieces is told as one
            while len(held) < 65536 and not held.endswith((b"\n", b"\0")) and select.select([source], [], [], 0.02)[0]:
                held += os.read(source, 65536)
            before, mark, after = held.partition(self.mark)
            if mark:
                held = after
            else:       # the mark may have come in part
                keep = next((n for n in range(len(self.mark) - 1, 0, -1) if held.endswith(self.mark[:n])), 0)
                before, held = held[:len(held) - keep], held[len(held) - keep:]
            text = decoder.decode(before)
            if text:
                say(self.kind, text=text, timestamp=datetime.datetime.now(datetime.timezone.utc).isoformat())
            if mark:
                self.done.set()

    def drain(self):
        self.done.clear()
        os.write(self.fd, self.mark)
        self.done.wait(5)


streams = Stream(1, "stdout"), Stream(2, "stderr")
sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)

# ---- results

NAMES = {"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png",
         "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex", "application/json": "json",
         "application/javascript": "javascript", "e2b/data": "data", "e2b/chart": "chart"}


def encodable(value):
    """The value as JSON has it; numbers of numpy and dates are told as Python's and as text."""
    def other(v):
        if hasattr(v, "isoformat"):
            return v.isoformat()
        return v.tolist() if hasattr(v, "tolist") else str(v)
    return json.loads(json.dumps(value, default=other))


def tell(data, is_main):
    event = {}
    for mime, value in data.items():
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        if mime in NAMES:
            event[NAMES[mime]] = value
        else:
            event.setdefault("extra", {})[mime] = value
    text = event.get("text")
    if isinstance(text, str) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        event["text"] = text[1:-1]
    say("result", is_main_result=is_main, **encodable(event))


def formats(value):
    """What the value says of itself."""
    data = {"text/plain": repr(value)}
    try:
        made = value._repr_mimebundle_()
        data.update(made[0] if isinstance(made, tuple) else made)
    except Exception:
        pass
    for mime, name in NAMES.items():
        try:
            made = getattr(value, f"_repr_{name}_")()
        except Exception:
            continue
        made = made[0] if isinstance(made, tuple) else made
        if made is not None:
            data[mime] = made
    return data


def bundle(value, known=None):
    """Those formats, and what E2B adds to them."""
    data = dict(known or formats(value))
    pandas, plt = sys.modules.get("pandas"), sys.modules.get("matplotlib.figure")
    try:
        if plt and isinstance(value, plt.Figure):
            import io
            out = io.BytesIO()
            value.savefig(out, format="png", bbox_inches="tight")
            data.update({"image/png": out.getvalue(), "e2b/chart": encodable(chart_of(value))})
        elif pandas and isinstance(value, pandas.DataFrame):
            data["e2b/data"] = encodable(value.to_dict(orient="list"))
        elif isinstance(value, (list, dict)):
            data["application/json"] = json.loads(json.dumps(value))
    except Exception:
        pass
    return data


# ---- charts: what a figure of matplotlib shows, as E2B's SDKs read it

def is_grid_line(line):
    x, y = line.get_xdata(), line.get_ydata()
    return len(x) == len(y) == 2 and (x[0] == x[1] or y[0] == y[1])


def unit_of(label):
    found = re.search(r"\s\((.*?)\)|\[(.*?)\]", label)
    return (found.group(1) or found.group(2)) if found else None


def point(value):
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value.astype("datetime64[s]").astype(str) if type(value).__name__ == "datetime64" else value


def axis_of(axis, scale):
    from matplotlib import dates
    labels, ticks = [t.get_text() for t in axis.get_ticklabels()], list(axis.get_majorticklocs())
    converter = axis.converter if hasattr(axis, "converter") else axis.get_converter()
    if isinstance(converter, dates._SwitchableDateConverter):
        return "datetime", [dates.num2date(t).isoformat() for t in ticks], labels
    named = scale == "linear" and all(t == i and str(i) != text for i, (t, text) in enumerate(zip(ticks, labels)))
    return "categorical" if named else scale, [float(t) if isinstance(t, (int, float)) else t for t in ticks], labels


def kind_of(ax):
    from matplotlib import collections, lines, patches, text
    shown = [a for a in ax._children if not isinstance(a, text.Text)]

    def are(*kinds):
        return all(isinstance(a, kinds) for a in shown)
    if are(lines.Line2D):
        return "line"
    if are(patches.PathPatch, lines.Line2D):
        return "box_and_whisker"
    shown = [a for a in shown if not isinstance(a, lines.Line2D) or not is_grid_line(a)]
    return "scatter" if are(collections.PathCollection) else "pie" if are(patches.Wedge) else "bar" if are(patches.Rectangle) else "unknown"


def swap(chart):
    for name in ("label", "unit"):
        chart["x_" + name], chart["y_" + name] = chart["y_" + name], chart["x_" + name]


def bars_of(ax, chart):
    for container in ax.containers:
        group = container.get_label()
        group = "Group " + group[10:] if group.startswith("_container") else group
        values = [r.get_height() for r in container]
        lies = len(values) > 1 and all(v == values[0] for v in values)
        if lies:
            swap(chart)
            values = [r.get_width() for r in container]
        labels = [t.get_text() for t in (ax.get_yticklabels() if lies else ax.get_xticklabels())]
        chart["elements"] += [{"label": a, "group": group, "value": b} for a, b in zip(labels, values)]


def boxes_of(ax, chart):
    rounded, boxes = (lambda values: [float(f"{float(v):.9g}") for v in values]), []
    for label, patch in zip([t.get_text() for t in ax.get_xticklabels()], ax.patches):
        x, y = (rounded(patch.get_path().vertices[:, i]) for i in (0, 1))
        boxes.append({"label": label, "x": (min(x), max(x)), "y": (min(y), max(y)), "outliers": []})
    lies = len(boxes) > 1 and all(b["y"][1] - b["y"][0] == boxes[0]["y"][1] - boxes[0]["y"][0] for b in boxes)
    if lies:
        swap(chart)
        for b in boxes:
            b["x"], b["y"] = b["y"], b["x"]
    for line in ax.lines:
        x, y = rounded(line.get_xdata()), rounded(line.get_ydata())
        x, y = (y, x) if lies else (x, y)
        box = next((b for b in boxes if x and b["x"][0] <= min(x) <= max(x) <= b["x"][1]), None)
        if not box:
            continue
        if len(y) == 2 and y[0] == y[1] and box["y"][0] <= y[0] <= box["y"][1]:
            box["median"] = y[0]
        elif len(y) == 2 and x[0] == x[1] and max(y) == box["y"][0]:
            box["min"] = min(y)
        elif len(y) == 2 and x[0] == x[1] and min(y) == box["y"][1]:
            box["max"] = max(y)
        elif len(y) != 2:
            box["outliers"] += y
    for b in boxes:
        low, high = b["y"]
        chart["elements"].append({"label": b["label"], "min": b.get("min", low), "first_quartile": low, "median": b.get("median", low),
                                  "third_quartile": high, "max": b.get("max", high), "outliers": b["outliers"]})


def axes_of(ax):
    chart = {"type": kind_of(ax), "title": ax.get_title() or None, "elements": []}
    if chart["type"] == "pie":
        chart["elements"] = [{"label": w.get_label(), "angle": float(f"{abs(w.theta2 - w.theta1):.6g}"), "radius": w.r} for w in ax.patches]
    if chart["type"] in ("pie", "unknown"):
        return chart
    for side, label in (("x", ax.get_xlabel()), ("y", ax.get_ylabel())):
        chart.update({side + "_label": label or None, side + "_unit": unit_of(label)})
    if chart["type"] in ("line", "scatter"):
        for side, axis, scale in (("x", ax.xaxis, ax.get_xscale()), ("y", ax.yaxis, ax.get_yscale())):
            chart[side + "_scale"], chart[side + "_ticks"], chart[side + "_tick_labels"] = axis_of(axis, scale)
    if chart["type"] == "line":
        shown = [(line.get_label(), zip(line.get_xdata(), line.get_ydata())) for line in ax.get_lines() if not is_grid_line(line)]
        shown = [("Line " + label[6:] if label.startswith("_child") else label, points) for label, points in shown]
    else:
        shown = [(c.get_label(), c.get_offsets()) for c in ax.collections]
    if chart["type"] in ("line", "scatter"):
        chart["elements"] = [{"label": label, "points": [[point(x), point(y)] for x, y in points]} for label, points in shown]
    elif chart["type"] == "bar":
        bars_of(ax, chart)
    else:
        boxes_of(ax, chart)
    return chart


def chart_of(figure):
    axes = figure.get_axes()
    if not any(ax.has_data() or ax._children for ax in axes):
        return {}
    if len(axes) == 1:
        return axes_of(axes[0])
    title = figure._suptitle.get_text() if figure._suptitle else None
    return {"type": "superchart", "title": title, "elements": [axes_of(ax) for ax in axes]}


# ---- libraries that show things

def display(*values, **ignored):
    for v in values:
        tell(bundle(v), False)


def show_figures(*ignored, **more):
    plt = sys.modules.get("matplotlib.pyplot")
    for number in plt.get_fignums() if plt else ():
        display(plt.figure(number))
    if plt:
        plt.close("all")


def change_pyplot(module):
    module.show = show_figures


def change_image(module):
    save = module.Image.save

    def show_and_save(self, fp, format=None, **params):
        if isinstance(fp, str):
            display(self)
        return save(self, fp, format, **params)
    module.Image.save, module.Image.show = show_and_save, lambda self, *ignored, **more: display(self)


class Changes(importlib.abc.MetaPathFinder):
    """Changes a module when a cell imports it, and imports nothing itself."""

    modules = {"matplotlib.pyplot": change_pyplot, "PIL.Image": change_image}

    def find_spec(self, name, path, target=None):
        change = self.modules.pop(name, None)
        spec = importlib.util.find_spec(name) if change else None
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                change(module)
            spec.loader.exec_module = exec_module
        return spec


# ---- Python

class Plain:
    """Cells without IPython: what it is used for most, and no more."""

    def __init__(self):
        self.space = {"__name__": "__main__", "__builtins__": __builtins__, "display": display}

    def evaluate(self, part, how, name):
        value = eval(compile(part, name, how, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), self.space)
        return asyncio.run(value) if asyncio.iscoroutine(value) else value

    def shell(self, text, program=None):
        subprocess.run(text, shell=True, executable=program)

    def magic(self, text):
        name, _, rest = text.partition(" ")
        rest = rest.strip()
        if name == "cd":
            os.chdir(os.path.expanduser(rest or "~"))
        elif name in ("pip", "pip3"):
            self.shell(f"{sys.executable} -m pip {rest}")
        elif name in ("sx", "system", "sh", "bash"):
            self.shell(rest)
        elif name == "pwd":
            return os.getcwd()
        elif name == "env":
            if not rest:
                return dict(os.environ)
            key, _, value = rest.partition("=")
            os.environ[key.strip()] = value.strip()
        elif name in ("time", "timeit"):
            self.run_text(rest, "<cell %d>" % count)
        elif name not in ("matplotlib", "load_ext", "autoreload", "config"):
            raise NameError(f"the magic %{name} needs IPython, which is not in the image; hint: pip install ipython")

    def lines(self, code):
        """Lines with ! and % as calls."""
        for line in code.split("\n"):
            text = line.lstrip()
            call = text[:1] == "!" and f"__berth__.shell({text[1:]!r})" or text[:1] == "%" and f"__berth__.magic({text[1:]!r})"
            yield line[:len(line) - len(text)] + call if call else line

    def run_text(self, code, name):
        self.space["__berth__"] = self
        if re.search(r"^\s*[!%]", code, re.M):
            try:
                ast.parse(code)
            except SyntaxError:
                code = "\n".join(self.lines(code))
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        self.evaluate(tree, "exec", name)
        if last is not None:
            value = self.evaluate(ast.Expression(last.value), "eval", name)
            if value is not None:
                self.space["_"] = value
                tell(bundle(value), True)

    def run(self, code):
        name = "<cell %d>" % count
        if code.lstrip(" \t\n")[:1] and re.match(r"[ \t]+\S", code.lstrip("\n")):
            code = textwrap.dedent(code)
        try:
            whole = re.match(r"\s*%%(\w+)[^\n]*\n?(.*)", code, re.S)
            if whole and whole.group(1) in ("bash", "sh", "script"):
                self.shell(whole.group(2), shutil.which("sh" if whole.group(1) == "sh" else "bash"))
            elif whole and whole.group(1) in ("time", "timeit", "capture"):
                self.run_text(whole.group(2), name)
            else:
                self.run_text(code, name)
            show_figures()
        except BaseException as e:
            trace = e.__traceback__
            while trace and not trace.tb_frame.f_code.co_filename.startswith("<cell"):
                trace = trace.tb_next
            say_error(type(e).__name__, str(e), "".join(traceback.format_exception(type(e), e, trace)))


def interactive():
    """Cells by IPython; ImportError without it."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets import Type
    from traitlets.config import Config

    class Hook(DisplayHook):
        def __call__(self, result=None):
            if result is not None and not self.quiet():
                self.update_user_ns(result)
                tell(bundle(result, self.shell.display_formatter.format(result)[0]), True)

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, **ignored):
            tell(data, False)

    class Shell(InteractiveShell):
        displayhook_class, display_pub_class = Type(Hook), Type(Publisher)

        def _showtraceback(self, kind, value, lines):
            say_error(kind.__name__, str(value), "\n".join(lines))

        def enable_gui(self, gui=None):
            pass

        def system(self, text):
            # what it writes goes to the descriptors, as what the cell itself writes
            self.user_ns["_exit_code"] = subprocess.run(self.var_expand(text, depth=1), shell=True).returncode

        def run(self, code):
            self.run_cell(code, store_history=True)
            show_figures()

    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.xmode = "Context"
    settings.InteractiveShell.colors = "NoColor"
    settings.PlainTextFormatter.max_seq_length = 0
    shell = Shell.instance(config=settings)
    shell.user_ns["display"] = display
    shell.user_module.__dict__["__name__"] = "__main__"
    return shell


# ---- other languages, each with a resident interpreter

BASH = r'''
while IFS= read -r -u 8 __berth_cell; do
  source "$__berth_cell"
  printf '%d\n' $? >&9
done
'''
R = r'''
local({
  orders <- fifo(commandArgs(TRUE)[1], "r", blocking = TRUE)
  told <- fifo(commandArgs(TRUE)[2], "w", blocking = TRUE)
  while (length(line <- readLines(orders, 1))) {
    wrong <- ""
    out <- character()
    tryCatch(for (one in parse(line)) {
      made <- withVisible(eval(one, globalenv()))
      out <- if (made$visible) c(capture.output(print(made$value))) else character()
    }, error = function(e) wrong <<- conditionMessage(e))
    writeLines(out, paste0(line, ".out"))
    writeLines(wrong, paste0(line, ".err"))
    flush(stdout())
    writeLines("0", told)
    flush(told)
  }
})
'''
JAVA = r'''
import java.io.*;
import java.nio.file.*;
import jdk.jshell.*;

public class Kernel {
	public static void main(String[] a) throws Exception {
		JShell shell = JShell.builder().executionEngine("local").build();
		System.getenv().forEach((k, v) -> { if (System.getProperty(k) == null) System.setProperty(k, v); });
		for (String one : new String[] { "java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.util.*", "java.util.concurrent.*",
				"java.util.function.*", "java.util.regex.*", "java.util.stream.*" })
			shell.eval("import " + one + ";");
		BufferedReader orders = new BufferedReader(new FileReader(a[0]));
		FileWriter told = new FileWriter(a[1]);
		for (String line; (line = orders.readLine()) != null; ) {
			String rest = Files.readString(Path.of(line)), out = "", wrong = "";
			while (wrong.isEmpty() && !rest.isBlank()) {
				SourceCodeAnalysis.CompletionInfo info = shell.sourceCodeAnalysis().analyzeCompletion(rest);
				String source = info.source() == null || info.source().isEmpty() ? rest : info.source();
				rest = info.source() == null || info.source().isEmpty() ? "" : info.remaining();
				for (SnippetEvent e : shell.eval(source)) {
					out = e.value() == null || e.snippet().kind() != Snippet.Kind.EXPRESSION && e.snippet().kind() != Snippet.Kind.VAR ? "" : e.value();
					if (e.snippet().kind() == Snippet.Kind.VAR && !e.snippet().subKind().name().contains("TEMP"))
						out = "";
					if (e.exception() != null)
						wrong = e.exception() instanceof EvalException x ? x.getExceptionClassName() + "\n" + x.getMessage() : "Error\n" + e.exception();
					else if (e.status() == Snippet.Status.REJECTED)
						wrong = "CompilationError\n" + shell.diagnostics(e.snippet()).map(d -> d.getMessage(null)).reduce("", (x, y) -> x + y + "\n");
				}
			}
			Files.writeString(Path.of(line + ".out"), out);
			Files.writeString(Path.of(line + ".err"), wrong);
			System.out.flush();
			told.write("0\n");
			told.flush();
		}
	}
}
'''


class Other:
    """A resident interpreter that gets the names of files with cells, and tells when it has run one."""

    programs = {"bash": ("bash", "bash"), "r": ("Rscript", "r-base-core"), "java": ("jshell", "default-jdk-headless")}

    def __init__(self):
        self.child, self.place = None, tempfile.mkdtemp(prefix="cells-")

    def file(self, name, text):
        path = os.path.join(self.place, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def start(self):
        program, package = self.programs[language]
        if not shutil.which(program):
            raise FileNotFoundError(f"cells in {language} need {program} in the image; hint: apt-get install {package}")
        if language == "bash":
            orders, self.orders = os.pipe()
            self.told, told = os.pipe()
            # 8 and 9 in the child, whatever they are here
            start = f'exec 8<&{orders} 9>&{told}\n' + "".join(f"exec {fd}>&-\n" for fd in (orders, told) if fd not in (8, 9)) + BASH
            self.child = subprocess.Popen(["bash", "--noprofile", "--norc", "-c", start], pass_fds=(orders, told))
            os.close(orders)
            os.close(told)
            return
        pipes = [os.path.join(self.place, name) for name in ("orders", "told")]
        for path in pipes:
            os.mkfifo(path)
        argv = ["Rscript", "--vanilla", self.file("kernel.R", R)] if language == "r" else \
            ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", self.file("Kernel.java", JAVA)]
        self.child = subprocess.Popen(argv + pipes)
        # opened for both, so that neither side waits for the other
        self.orders, self.told = (os.open(path, os.O_RDWR) for path in pipes)

    def wait(self):
        while not select.select([self.told], [], [], 0.2)[0]:
            if self.child.poll() is not None:
                os._exit(self.child.returncode & 0x7f or 1)     # as the interpreter's own end
        status = os.read(self.told, 64)
        if not status:
            os._exit(self.child.wait() & 0x7f)
        return status

    def env_code(self, env, before):
        import shlex
        quote = json.dumps      # of Java and R, too
        for k, v in env.items():
            if not re.fullmatch(r"[A-Za-z_]\w*", k):
                continue
            old = os.environ.get(k)
            value = v if before else old
            if language == "bash":
                yield f"unset {k}" if value is None else f"export {k}={shlex.quote(value)}"
            elif language == "r":
                yield f"Sys.unsetenv({quote(k)})" if value is None else f"invisible(Sys.setenv({k} = {quote(value)}))"
            else:
                yield f"System.clearProperty({quote(k)});" if value is None else f"System.setProperty({quote(k)}, {quote(value)});"

    def send(self, name, code):
        path = self.file(name, code + "\n")
        os.write(self.orders, (path + "\n").encode())
        status = self.wait()
        texts = []
        for end in (".out", ".err"):
            try:
                with open(path + end) as f:
                    texts.append(f.read().rstrip("\n"))
            except OSError:
                texts.append("")
        return status, texts[0], texts[1]

    def run(self, code, env=None):
        try:
            if not self.child:
                self.start()
            if env:
                self.send("before", "\n".join(self.env_code(env, True)))
            status, out, wrong = self.send("cell", textwrap.dedent(code))
            if env:
                self.send("after", "\n".join(self.env_code(env, False)))
        except FileNotFoundError as e:
            return say_error("KernelMissing", str(e))
        except KeyboardInterrupt:
            self.child.kill()
            os._exit(130)
        if out:
            tell({"text/plain": out}, True)
        if wrong:
            name, _, value = wrong.partition("\n") if language == "java" else ("Error", "", wrong)
            say_error(name, value, wrong)
        if language == "bash" and status.strip() != b"0":
            say_error("Error", f"exit status {status.strip().decode()}")


# ---- cells one after the other

if language == "python":
    sys.meta_path.insert(0, Changes())
    os.environ.setdefault("MPLBACKEND", "agg")
    try:
        kernel = interactive()
    except ImportError:
        kernel = Plain()
else:
    kernel = Other()
cells, gone, main = queue.Queue(), set(), threading.main_thread().ident


def read_requests():
    for line in requests:
        asked = json.loads(line)
        if "interrupt" not in asked:
            cells.put(asked)
        elif asked["interrupt"] == now:
            signal.pthread_kill(main, signal.SIGINT)
        else:
            gone.add(asked["interrupt"])
    os._exit(0)


def run_cell(asked):
    global now, count
    before, env = dict(os.environ), asked.get("env") or {}
    try:
        try:
            now, count = asked["id"], count + 1
            say("number_of_executions", execution_count=count)
            if language == "python":
                os.environ.update(env)
                kernel.run(asked["code"])
            else:
                kernel.run(asked["code"], env)
        except KeyboardInterrupt as e:
            say_error("KeyboardInterrupt", str(e))
        if language == "python":
            os.environ.clear()
            os.environ.update(before)
        for f, s in zip((sys.stdout, sys.stderr), streams):
            try:
                f.flush()
            except Exception:
                pass
            s.drain()
        say("end_of_execution")
    finally:
        now = None


threading.Thread(target=read_requests, daemon=True).start()
while True:
    try:
        one = cells.get()
        if one["id"] not in gone:
            run_cell(one)
        gone.discard(one["id"])
    except KeyboardInterrupt:       # it came when the cell had just ended
        pass
