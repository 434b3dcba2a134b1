# SPDX-License-Identifier: Apache-2.0
"""
T6: system calls of create, exec, sh, file verbs and stop fail in turn, in the CLI (by strace) and in
the keeper (strace attached to it).  Then either the command says in one line what failed and ends with another status
than 0, or all is as without the fault: a sandbox that was created is exactly as confined, a
command that ran had the same report.  The sandbox answers afterwards or is gone; after `berth gc`
nothing is left of what is gone.
"""
import collections
import os
import re
import signal
import subprocess
import time

import berthtest as b
import box
import leak
import proc
import test_faults as one

COST = 60
DEADLINE = 220 + max(22, one.ASKED)
OWN_HOST_IMAGE = False
BUDGET = one.ASKED or 22  # seconds of injections a test
ENOUGH = 40
HANG = 20
# (a close or an unlocking that strace fails does not happen, which no kernel does)
NEVER_FAIL = one.NEVER_FAIL | {"execve", "close", "flock"}


def strace(*options):
    # -D: the tracer is the grandchild, so the exit status is the command's, whatever it leaves running
    return ["strace", "-D", "-qq", "-o", "/dev/null", *options]


def calls_of(args, follow=True, stdin=None):
    """{system call: most calls in one process}, without what the program's start takes."""
    log = b.tmp("trace")
    r = told(args, ["strace", "-D", *(["-f"] if follow else []), "-qq", "-o", log], stdin)
    b.wait_for(lambda: os.path.exists(log) and os.path.getsize(log), what="the trace")
    per = collections.Counter()
    for line in open(log, errors="replace"):
        m = re.match(r"(?:(\d+) +)?(\w+)\(", line)
        if m:
            per[m.groups()] += 1
    most = collections.Counter()
    for (_, call), n in per.items():
        if call not in NEVER_FAIL:
            most[call] = max(most[call], n)
    assert sum(most.values()) > 10, (r, most)
    return most


def told(args, prefix, stdin=None):
    """b.berth with files for its output: a tracer that stays would hold a pipe open."""
    with open(b.tmp("out"), "w+b") as out, open(b.tmp("err"), "w+b") as err:
        r = b.berth(*args, prefix=prefix, input=stdin, timeout=HANG, stdout=out, stderr=err)
        out.seek(0)
        err.seek(0)
        return r._replace(out=out.read().decode(errors="replace"), err=err.read().decode(errors="replace"))


class Fault:
    def __init__(self):
        self.bad, self.results, self.done = [], collections.Counter(), 0
        self.end = time.monotonic() + BUDGET

    def more(self):
        return self.done < ENOUGH or time.monotonic() < self.end

    def call(self, label, args, prefix, stdin=None):
        """The result, or None after a hang."""
        self.done += 1
        try:
            r = told(args, prefix, stdin)
        except AssertionError as late:
            self.bad.append(f"{label}: {str(late).splitlines()[0]}")
            return None
        if r.code == 0:
            self.results["done"] += 1
        else:
            self.results["refused"] += 1
            if (r.code < 0 or r.code > 128) and "brk" not in label and "SIG" not in label and not b.may_die_before_main(label.split(":")[0]):
                self.bad.append(f"{label}: died of {r.code}: {r.err!r}")
            elif not r.err.strip() and not one.may_be_silent(label.split(":")[0]):
                self.bad.append(f"{label}: exit {r.code} without a word")
        return r

    def finish(self, refused):
        print(f"{self.done} faults: {dict(self.results)}")
        assert not self.bad, f"{len(self.bad)} of {self.done} faults ({dict(self.results)}):\n" + "\n".join(self.bad[:40])
        assert self.results["refused"] >= refused, self.results


def traceless():
    """Waits until no tracer of an earlier fault is left."""
    b.wait_for(lambda: not any(proc.cmdline(p).find("strace") >= 0 for p in proc.descendants(os.getpid())), what="the end of strace")


@b.long_proof("fails a call in each of its runs")
def test_T6_create():
    place = one.payload()
    args = ["create", "--hostname", "box", "--memory", "128m", "--disk", "16m", "-v", f"{place}:/payload", "host"]

    def report(name):
        return b.berth("exec", name, "/payload/payload")
    name = b.berth(*args, ok=True).out.strip()
    good = report(name).out
    assert good.count("\n") > 30, good
    b.berth("rm", "-f", name, ok=True)
    most = calls_of(args)
    b.berth("rm", "-f", *b.berth("ps", "-a", "-q", ok=True).out.split())
    check = leak.Check()
    check.__enter__()
    f = Fault()
    for call, error, k in one.faults(most):
        if not f.more():
            break
        label = f"{call}:error={error}:when={k}"
        r = f.call(label, args, strace("-f", "-e", f"trace={call}", "-e", f"inject={label}"))
        if r and r.code == 0 and r.out.strip():
            # the tracer stays on the keeper: what it does now may be hit too, and that is no matter of create's
            said = report(r.out.strip())
            if said.code == 0 and not one.same(said.out, good):
                f.bad.append(f"{label}: created otherwise: {one.difference(good, said.out)}")
        elif r and r.code == 0:
            f.bad.append(f"{label}: exit 0 without an id")
        try:
            left = b.berth("ps", "-a", "-q").out.split()
        except AssertionError as late:
            raise AssertionError(f"{label}: {late}") from None
        if r and r.code != 0 and left:
            # a record that says what it is, such as one that is kept: it can be removed
            f.results["refused, and there"] += 1
        for n in left:
            if b.berth("rm", "-f", n).code:
                b.berth("rm", "-f", n, timeout=HANG)
        b.gc()
        found = check.now(2)
        if found:
            f.bad.append(f"{label}: left after gc: {found[:5]}")
            b.kill_tree(os.getpid())
            leak.remove_cgroups(os.getpid())
            check.before = leak.snapshot(os.getpid())
    f.finish(15)


def test_T6_create_does_not_hear_the_keeper():
    """A read that fails is not the end of the keeper, which goes on: it is asked again."""
    args = ["create", "--name", "heard", "host"]
    b.berth("rm", "-f", b.berth(*args, ok=True).out.strip(), ok=True)  # what only the first makes is made
    reads = calls_of(args, follow=False)["read"]
    b.berth("rm", "-f", "heard", ok=True)
    done = 0
    for k in range(1, reads + 1):
        for error in ("EIO", "EINTR", "ENOMEM"):
            r = told(args, strace("-e", "trace=read", "-e", f"inject=read:error={error}:when={k}"))
            left = b.berth("ps", "-a", "-q", ok=True).out
            b.expect(left == r.out, r, f"what ps tells after read {k} of {reads} failed with {error}: {left!r}")
            if left:
                done += 1
                b.berth("rm", "-f", left.strip(), ok=True)
    assert done, "no create came up"


@b.long_proof("fails a call in each of its runs")
def test_T6_the_client_of_a_sandbox_that_lives():
    """exec, sh, a detached command, files, stop and start: faults in the CLI alone."""
    place = one.payload()
    with box.Box("-v", f"{place}:/payload") as x:
        good = x.exec("/payload/payload", ok=True).out
        f = Fault()
        source = b.tmp("source")
        b.write(source, "content\n" * 1000)
        verbs = [(["exec", x.id, "/payload/payload"], None, good), (["sh", x.id, "--", "echo $((6*7))"], None, "42\n"),
                 (["file", "write", x.id, "f"], "text", ""), (["cp", "-q", source, f"{x.id}:/workspace/copy"], None, ""),
                 (["file", "read", x.id, "/etc/hostname"], None, "sandbox\n"), (["ps", "-q"], None, x.id + "\n")]
        todo = []
        for args, stdin, out in verbs:
            todo.append([(args, stdin, out, fault) for fault in one.faults(calls_of(args, follow=False, stdin=stdin))])
        rounds = [t for group in zip(*(g + [None] * (max(map(len, todo)) - len(g)) for g in todo)) for t in group if t]
        for args, stdin, out, (call, error, k) in rounds:
            if not f.more():
                break
            label = f"{call}:error={error}:when={k}"
            r = f.call(label + " " + args[0], args, strace("-e", f"trace={call}", "-e", f"inject={label}"), stdin)
            if r and r.code == 0 and r.out != out:
                f.bad.append(f"{label}: {args[:2]} says otherwise: {one.difference(out, r.out)}")
            alive = x.exec("echo", "alive")
            if alive.out != "alive\n":
                f.bad.append(f"{label}: {args[:2]}: the sandbox does not answer: {alive}")
                break
        traceless()
        assert b.berth("file", "read", x.id, "copy", ok=True).out == "content\n" * 1000
        f.finish(15)


@b.long_proof("fails a call in each of its runs")
def test_T6_the_keeper():
    """strace is attached to the keeper; its calls fail while it serves an exec, a session, a file and a stop."""
    place = one.payload()
    good = None
    f = Fault()
    check = leak.Check()
    check.__enter__()
    errors = {"recvmsg": ("EINTR", "ENOBUFS"), "sendmsg": ("EINTR", "ENOBUFS", "EPIPE"), "poll": ("EINTR", "ENOMEM"), "openat": ("EMFILE", "ENOMEM"),
              "mkdirat": ("ENOSPC", "ENOMEM"), "write": ("ENOSPC", "EINTR", "EBUSY"), "read": ("EINTR", "EIO"), "pipe2": ("EMFILE",), "pread64": ("EIO",),
              "accept4": ("EMFILE", "ECONNABORTED"), "fcntl": ("EMFILE",), "memfd_create": ("EMFILE", "ENOMEM"), "unlinkat": ("EBUSY",),
              "mmap": ("ENOMEM",), "brk": ("ENOMEM",), "ftruncate": ("ENOSPC",), "waitid": ("EINTR",), "ioctl": ("EIO",), "dup3": ("EMFILE",)}
    todo = [(call, error, k) for k in (1, 2, 5, *((3, 4, *range(6, 60, 3)) if one.ASKED else ())) for call, es in errors.items() for error in es]
    for call, error, k in todo:
        if not f.more():
            break
        if (call, error) == ("read", "EIO") and k > 5:
            continue    # of a terminal it is how the kernel tells the end of its output
        label = f"{call}:error={error}:when={k}"
        x = box.Box("-v", f"{place}:/payload")
        if good is None:
            good = x.exec("/payload/payload", ok=True).out
        keeper = x.keeper
        tracer = subprocess.Popen(["strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={label}", "-p", str(keeper)],
                                  stderr=subprocess.DEVNULL)
        try:
            b.wait_for(lambda: "TracerPid:\t0\n" not in open(f"/proc/{keeper}/status").read(), what="strace")
            for args, stdin, out in ((["exec", x.id, "/payload/payload"], None, good), (["sh", x.id, "--", "echo $((6*7))"], None, "42\n"),
                                     (["file", "write", x.id, "f"], "text", ""), (["stop", x.id], None, None)):
                r = f.call(label + " " + args[0], args, (), stdin)
                if r and r.code == 0 and out is not None and not one.same(r.out, out):
                    f.bad.append(f"{label}: {args[0]} says otherwise: {one.difference(out, r.out)}")
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(10 * b.SLOW)
        b.berth("rm", "-f", x.id)
        b.gc()
        found = check.now(3)
        if found:
            f.bad.append(f"{label}: left after gc: {found[:5]}")
            b.kill_tree(os.getpid())
            leak.remove_cgroups(os.getpid())
            check.before = leak.snapshot(os.getpid())
    f.finish(10)
