#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds and runs every test: tests/run.py [-k WORD] [KIND or FILE ...]

KIND is unit, fuzz, integration, attack or fault; without any, all are run.

  unit         the Criterion program BUILD/unit-tests, each of its tests counted
  fuzz         BUILD/fuzz-replay/X over the corpus of target X, one test a target
  the others   tests/KIND/test_*.py, each function test_*, in a process of its own
  real         tests/real/test_*.py: clients that others wrote, from the npm registry; only when it is named

Python files run in processes of their own, two more at a time than there are processors, since many a test waits;
the unit tests and each fuzz target run beside them.  Each test has a deadline.
What failed beside others is run once more, alone, at the end, when no more than 20 tests did, and once again when it
failed alone too: on a slow or loaded machine a deadline may pass that no fault made pass.  All runs are shown, and the
test is named as one that passed only then.  With BERTH_TEST_ONCE=1 everything gets one run.

BERTH_TEST_UNTIL=SECONDS (since the epoch, as date +%s) ends it in time: after that no test is begun, and MORE_TIME / 2
seconds later those that still run are stopped.  They are counted as skipped, with words.  The rest of MORE_TIME is for
what runs once more, alone.

At the end, the settings of the machine (sysctls and network) must be what they were: tests/lib/machine.py.
BERTH_TEST_BUSYNET=1 gives the tests a network as a busy machine has it, with forwarding on: tests/lib/proc.py.

--long says of the tests in Python that are marked long_proof: yes runs them with the others, no leaves them out and
counts them, only runs them and nothing else.

One line a test, the details of what failed, and last of all the line

    N passed, N failed[, N skipped]

Exit status 0 when something ran (or there was no time) and nothing failed, else 1.
"""
import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import machine  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TESTS = os.path.join(TOP, "tests")
USUAL_KINDS = ("unit", "fuzz", "integration", "attack", "fault")
PY_KINDS = ("integration", "attack", "fault", "real")
KINDS = ("unit", "fuzz") + PY_KINDS
UNIT_DEADLINE = 900
REPLAY_DEADLINE = 600
# what may have failed for another reason than a fault, and how often it is run alone
AGAIN_MAX = 20
AGAIN_RUNS = ("second", "third")
MORE_TIME = 240
UNTIL = float(os.environ.get("BERTH_TEST_UNTIL") or "inf")
WORKERS = set()


def time_left(more=0):
    """Seconds until BERTH_TEST_UNTIL and more; infinite without it."""
    return UNTIL + more - time.time()


class Report:
    """Counts and prints; the only place that writes to stdout."""

    def __init__(self):
        self.counts = {"pass": 0, "fail": 0, "skip": 0}
        self.failures = []
        self.only_alone = []
        self.left = self.late = 0
        self.lock = threading.Lock()

    def add(self, name, verdict, detail="", seconds=None):
        took = "" if seconds is None else f"  ({seconds:.2f} s)"
        word = {"pass": "ok  ", "fail": "FAIL", "skip": "SKIP"}[verdict]
        with self.lock:
            self.counts[verdict] += 1
            if verdict == "skip":
                print(f"{word} {name}: {detail.strip()}", flush=True)
                return
            print(f"{word} {name}{took}", flush=True)
            if verdict == "fail":
                self.failures.append(name)
                for line in detail.rstrip().splitlines() or ["(said nothing)"]:
                    print("     | " + printable(line))
                sys.stdout.flush()

    def take_back(self, name, which):
        """The test passed when it ran alone, in its second or third run."""
        with self.lock:
            self.failures.remove(name)
            self.counts["fail"] -= 1
            self.counts["pass"] += 1
            self.only_alone.append(f"{name}: passed at the {which} run")

    def add_late(self, what):
        """There was no time for it."""
        with self.lock:
            self.late += 1
            self.counts["skip"] += 1
            print(f"SKIP {what}: no time is left for it", flush=True)

    def end(self):
        c = self.counts
        if self.only_alone:
            print("\nfailed beside others, passed alone (the machine is slow, or they depend on its speed):")
            for name in self.only_alone:
                print("  " + name)
        ran = c["pass"] + c["fail"]
        if self.failures:
            print("\nfailed:")
            for name in self.failures:
                print("  " + name)
        if self.left:
            print(f"\nleft to `make check-long`: {self.left} long proofs")
        if self.late:
            print(f"\nno time was left for {self.late} tests: BERTH_TEST_UNTIL has passed")
        if not ran:
            print("no test ran")
        skipped = f", {c['skip']} skipped" if c["skip"] else ""
        print(f"{c['pass']} passed, {c['fail']} failed{skipped}", flush=True)
        return 0 if (ran or self.late) and not c["fail"] else 1


def printable(text):
    return "".join(ch if ch.isprintable() or ch == "\t" else "?" for ch in text)


# ---- unit: Criterion ------------------------------------------------------

def run_unit(build, match, report, exact=None):
    """The tests whose name has match, or the one whose name in Criterion's report is exact."""
    program = os.path.join(build, "unit-tests")
    sources = [f for f in os.listdir(os.path.join(TESTS, "unit")) if f.endswith(".c")]
    if not sources:
        return
    if not os.access(program, os.X_OK):
        report.add("unit", "fail", f"{program} is not there: `make unit` builds it")
        return
    with tempfile.TemporaryDirectory() as tmp:
        tap = os.path.join(tmp, "tap")
        args = [program, f"--tap={tap}", "--jobs", str(os.cpu_count() or 2)]
        if exact or match:
            args += ["--filter", exact.replace("::", "/") if exact else f"*{match}*"]
        deadline = min(UNIT_DEADLINE, time_left(MORE_TIME))
        if deadline <= 0:
            report.add_late("unit")
            return
        try:
            done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=deadline, cwd=TOP,
                                  env={**os.environ, "LSAN_OPTIONS": "suppressions=" + os.path.join(TESTS, "lib/lsan.supp")})
        except subprocess.TimeoutExpired as late:
            if deadline < UNIT_DEADLINE:
                report.add_late("unit")
            else:
                report.add("unit", "fail", f"not done after {UNIT_DEADLINE} s\n{text(late.stdout)}")
            return
        try:
            with open(tap, errors="replace") as f:
                lines = f.read().splitlines()
        except FileNotFoundError:
            lines = []
        points, failed = parse_tap(lines, report, exact)
        if not points and not match:
            report.add("unit", "fail", f"{program} has no test in it\n{text(done.stdout)}")
        if done.returncode != 0 and not failed:
            report.add("unit", "fail", f"exit status {done.returncode}\n{text(done.stdout)}")


def parse_tap(lines, report, exact):
    """Criterion's TAP, one point a test (or none but exact's); returns how many there were and how many failed."""
    points = failed = 0
    point = re.compile(r"^(ok|not ok)\s*(?:\d+\s*)?- (\S+)\s*(.*)$")
    i = 0
    while i < len(lines):
        m = point.match(lines[i])
        i += 1
        if not m:
            continue
        if exact and m.group(2) != exact:
            continue    # the others are told as skipped
        points += 1
        detail = [m.group(3)]
        while i < len(lines) and not point.match(lines[i]):
            detail.append(lines[i])
            i += 1
        rest = m.group(3)
        name = "unit " + m.group(2)
        seconds = re.search(r"\(([\d.]+)s\)", rest)
        if re.search(r"#\s*skip", rest, re.I):
            report.add(name, "skip", rest.split("#", 1)[1])
        elif m.group(1) == "ok":
            report.add(name, "pass", seconds=float(seconds.group(1)) if seconds else None)
        else:
            failed += 1
            report.add(name, "fail", "\n".join(detail))
    return points, failed


def text(data):
    return (data or b"").decode(errors="replace")


# ---- fuzz: each target over its corpus ------------------------------------

def corpus_of(target):
    """tests/fuzz/corpus/X, where target X is tests/fuzz/fuzz_X.c."""
    for place in (f"corpus/{target}", f"corpus/fuzz_{target}", f"{target}.corpus", target):
        path = os.path.join(TESTS, "fuzz", place)
        if os.path.isdir(path):
            return path
    return None


def fuzz_targets(match):
    place = os.path.join(TESTS, "fuzz")
    targets = sorted(f[5:-2] for f in os.listdir(place) if re.fullmatch(r"fuzz_\w+\.c", f))
    return [target for target in targets if not match or match in "fuzz " + target]


def run_fuzz(target, build, report, more=0):
    program = os.path.join(build, "fuzz-replay", target)
    if not os.access(program, os.X_OK):
        report.add("fuzz " + target, "fail", f"{program} is not there: `make fuzz-replay`")
        return
    args = [program] + ([corpus_of(target)] if corpus_of(target) else [])
    start = time.monotonic()
    deadline = min(REPLAY_DEADLINE, time_left(MORE_TIME))
    if time_left(more) <= 0:
        report.add_late("fuzz " + target)
        return
    try:
        done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=deadline, cwd=TOP)
        verdict, detail = "pass" if done.returncode == 0 else "fail", text(done.stdout)
        detail = f"exit status {done.returncode}\n{detail[-4000:]}"
    except subprocess.TimeoutExpired as late:
        if deadline < REPLAY_DEADLINE:
            report.add_late("fuzz " + target)
            return
        verdict, detail = "fail", f"not done after {REPLAY_DEADLINE} s\n{text(late.stdout)[-4000:]}"
    report.add("fuzz " + target, verdict, detail, time.monotonic() - start)


# ---- python ---------------------------------------------------------------

def python_files(kinds, files):
    found = [os.path.abspath(f) for f in files]
    for kind in kinds:
        place = os.path.join(TESTS, kind)
        if kind in PY_KINDS and os.path.isdir(place):
            found += sorted(os.path.join(place, f) for f in os.listdir(place)
                            if re.fullmatch(r"test_\w+\.py", f))
    return sorted(found, key=cost, reverse=True)


def cost(path):
    """The seconds that a file takes, by its line COST = n: the longest files begin first."""
    with open(path) as f:
        m = re.search(r"^COST = (\d+)", f.read(), re.M)
    return int(m.group(1)) if m else 5


def run_alone(name, build, host_image):
    """Runs the one test of that name in a report; returns whether it passed."""
    alone = Report()
    kind, test = name.split()
    if kind == "unit":
        run_unit(build, None, alone, exact=test)
    elif kind == "fuzz":
        run_fuzz(test, build, alone, MORE_TIME)
    else:
        run_file(os.path.join(TESTS, kind), build, "=" + test, alone, host_image, "yes")
    return alone.counts["pass"] == 1 and not alone.failures


def run_again(build, report, host_image):
    """What failed beside others, alone."""
    if len(report.failures) > AGAIN_MAX or os.environ.get("BERTH_TEST_ONCE") == "1":
        return
    for which in AGAIN_RUNS:
        # not the runner of a file that died, nor a program that is not there
        names = [name for name in report.failures if len(name.split()) == 2]
        if names:
            print(f"\nthe {which} run, alone:")
        for name in names:
            if time_left(MORE_TIME) <= 0:
                print(f"no time is left to run {name} again")
            elif run_alone(name, build, host_image):
                report.take_back(name, which)


def has_long_proofs(path):
    with open(path) as f:
        return "long_proof(" in f.read()


def run_file(path, build, match, report, host_image, long):
    name = os.path.relpath(path, TESTS)
    runner = os.path.join(TESTS, "lib", "runfile.py")
    read_end, write_end = os.pipe()
    env = dict(os.environ, BERTH_TEST_BUILD=build, BERTH_TEST_HOST_IMAGE=host_image)
    # what runs once more, alone, has all of the time
    alone = bool(match) and match[0] == "="
    begin = UNTIL + (MORE_TIME if alone else 0)
    end = UNTIL + (MORE_TIME if alone else MORE_TIME / 2)
    with tempfile.TemporaryFile() as said:
        worker = subprocess.Popen([sys.executable, "-B", runner, path, str(write_end), match or "", long,
                                   str(begin), str(end)],
                                  stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                                  pass_fds=(write_end,), env=env, start_new_session=True)
        WORKERS.add(worker)
        os.close(write_end)
        ended = False
        with os.fdopen(read_end) as events:
            for line in events:
                event = json.loads(line)
                if "end" in event:
                    ended = True
                    continue
                if "left" in event:
                    report.left += 1
                    continue
                if "late" in event:
                    report.add_late(f"{name} {event['late']}")
                    continue
                report.add(f"{name} {event['test']}", event["verdict"], event["detail"], event["seconds"])
        code = worker.wait()
        WORKERS.discard(worker)
        if code or not ended:
            said.seek(0)
            report.add(name, "fail", f"the file's runner ended with {code}\n{text(said.read())[-4000:]}")


def stop_workers(_signal, _frame):
    for worker in list(WORKERS):
        try:
            os.killpg(worker.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
    os._exit(1)


def main():
    parser = argparse.ArgumentParser(description="runs berth's tests; see the head of this file")
    parser.add_argument("-k", metavar="WORD", help="only tests whose name has WORD")
    parser.add_argument("-j", metavar="N", type=int, default=(os.cpu_count() or 2) + 2, help="python files at a time")
    parser.add_argument("--long", choices=("yes", "no", "only"), default="yes", help="of the long proofs")
    parser.add_argument("--build", default=os.path.join(TOP, os.environ.get("BUILD", "build")))
    parser.add_argument("what", nargs="*", help="kinds or test files")
    opts = parser.parse_args()
    kinds = [w for w in opts.what if w in KINDS]
    files = [w for w in opts.what if w not in KINDS]
    for f in files:
        if not os.path.isfile(f):
            parser.error(f"{f}: neither a kind of test ({', '.join(KINDS)}) nor a file")
    if not opts.what:
        kinds = list(USUAL_KINDS)
    if opts.long == "only":
        kinds = [kind for kind in kinds if kind in PY_KINDS]
    build = os.path.abspath(opts.build)
    signal.signal(signal.SIGTERM, stop_workers)
    signal.signal(signal.SIGINT, stop_workers)
    report = Report()
    before = machine.settings()
    with tempfile.TemporaryDirectory(prefix="berth-t-host.", dir="/var/tmp") as host_image, \
            concurrent.futures.ThreadPoolExecutor(opts.j) as pool:
        futures = [pool.submit(run_unit, build, opts.k, report)] if "unit" in kinds else []
        futures += [pool.submit(run_file, f, build, opts.k, report, host_image, opts.long)
                    for f in python_files(kinds, files) if opts.long != "only" or has_long_proofs(f)]
        if "fuzz" in kinds:
            futures += [pool.submit(run_fuzz, target, build, report) for target in fuzz_targets(opts.k)]
        for future in futures:
            future.result()
        run_again(build, report, host_image)
    differs = machine.changed(before, machine.settings())
    if differs:
        report.add("the settings of the machine", "fail", "a test, or something beside the tests, changed them:\n" + "\n".join(differs))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
