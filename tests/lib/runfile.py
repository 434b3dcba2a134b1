# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of one file; started by run.py as: runfile.py FILE EVENT_FD MATCH LONG BEGIN STOP

MATCH is a part of a name, or =NAME; LONG says of the long proofs (berthtest.long_proof): yes, no or only.
After BEGIN (seconds since the epoch, or inf) no test is begun; the one that runs at STOP is stopped.

Each test is a child process with a session, a mount, an IPC and a network namespace
of its own (so what one test leaves is not taken for another's), its own state root,
and a leak check around it.  A test that passes its deadline is killed with all that
it started.  The verdicts go to EVENT_FD as one JSON object a line.
"""
import faulthandler
import importlib.util
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import berthtest  # noqa: E402
import leak  # noqa: E402
import proc  # noqa: E402

DEFAULT_DEADLINE = 60
SKIPPED = 77
KEEP_OUTPUT = 20000


def load(path):
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(path))
    spec.loader.exec_module(module)
    return module


def in_child(module, test):
    """Never returns: 0 passed, 1 failed (said on stderr), SKIPPED (reason on stderr)."""
    status = 1
    try:
        # a test may want this descriptor's number for itself
        os.close(int(sys.argv[2]))
        faulthandler.enable()
        proc.own_namespaces()
        proc.subreaper()
        berthtest.begin(getattr(module, "OWN_HOST_IMAGE", False))
        with leak.Check() as check:
            try:
                test()
            finally:
                check.finish(failing=sys.exc_info()[0] is not None)
        status = 0
    except unittest.SkipTest as skip:
        print("\0" + str(skip), file=sys.stderr)
        status = SKIPPED
    except BaseException:  # SystemExit in a test is a failure too
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(status)


def tell_where(pid, said):
    """Writes what a late test is doing: its own stack, and the state of each process that it started."""
    try:
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.2)  # faulthandler answers at once or, when stopped, not at all
        os.lseek(said.fileno(), 0, os.SEEK_END)
        for p in proc.descendants(pid):
            with open(f"/proc/{p}/stat") as f, open(f"/proc/{p}/wchan") as g:
                os.write(said.fileno(), f"{p} {f.read().rpartition(')')[2].split()[0]} {g.read()}: {proc.cmdline(p)[:150]}\n".encode())
    except OSError:
        pass


def run(module, test, deadline, seconds_left):
    """The verdict ("late": it was stopped since no time was left) and what the test said."""
    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            faulthandler.register(signal.SIGUSR1)
            in_child(module, test)
        pidfd = os.pidfd_open(pid)
        late = not select.select([pidfd], [], [], max(0, min(deadline, seconds_left)))[0]
        if late:
            tell_where(pid, said)
            berthtest.kill_tree(pid, including=True)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        leak.sweep(pid)
        said.seek(0)
        out = said.read().decode(errors="replace")
    if late and seconds_left < deadline:
        return "late", ""
    if late:
        return "fail", f"not done after {deadline} s\n{out[-KEEP_OUTPUT:]}"
    code = os.waitstatus_to_exitcode(status)
    if code == SKIPPED:
        return "skip", out.rsplit("\0", 1)[-1]
    if code == 0:
        return "pass", ""
    return "fail", out[-KEEP_OUTPUT:] or f"ended with {code}"


def main():
    path, event_fd, match, long = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    begin_until, stop_at = map(float, sys.argv[5:7])
    os.set_inheritable(event_fd, False)
    events = os.fdopen(event_fd, "w", buffering=1)

    def stop(_signal, _frame):
        for child in proc.descendants(os.getpid()):
            proc.kill(child)
        os._exit(1)
    signal.signal(signal.SIGTERM, stop)
    # the orphans of a killed test become our children, and sweep() ends them
    proc.subreaper()

    module = load(path)
    for name, test in list(vars(module).items()):
        if not name.startswith("test_") or not callable(test):
            continue
        if match[:1] == "=" and name != match[1:] or match[:1] != "=" and match not in f"{os.path.basename(path)} {name}":
            continue
        if hasattr(test, "long_proof") != (long == "only") and long != "yes":
            if long == "no":
                events.write(json.dumps({"left": name}) + "\n")
            continue
        if time.time() > begin_until:
            events.write(json.dumps({"late": name}) + "\n")
            continue
        start = time.monotonic()
        deadline = getattr(test, "deadline", getattr(module, "DEADLINE", DEFAULT_DEADLINE)) * berthtest.SLOW
        verdict, detail = run(module, test, deadline, stop_at - time.time())
        if verdict == "late":
            events.write(json.dumps({"late": name}) + "\n")
            continue
        events.write(json.dumps({"test": name, "verdict": verdict, "detail": detail,
                                 "seconds": time.monotonic() - start}) + "\n")
    events.write(json.dumps({"end": True}) + "\n")


main()
