# SPDX-License-Identifier: Apache-2.0
"""
System calls of berth checkpoint import fail in turn, and its processes are killed at them (S49): the command says what
failed, and leaves nothing; what was killed leaves nothing after `berth gc`.
"""
import os
import tarfile

import berthtest as b
import leak
import test_faults as one
import test_faults_living as living
from portable import entry, made, packed

COST = 60
DEADLINE = living.DEADLINE
OWN_HOST_IMAGE = False
# glibc ends a program whose futex(2) fails so, and no kernel forbids root to kill a child
NO_KERNEL_DOES = {"futex", "kill"}


def boxes():
    return sorted(b.berth("ps", "-a", "-q", ok=True).out.split())


def each_fault(args, clean, killed):
    """Runs it with each fault; clean() removes what a good run made."""
    most = {call: n for call, n in living.calls_of(args).items() if call not in NO_KERNEL_DOES}
    clean()
    check = leak.Check()
    check.__enter__()
    before = boxes()
    f = living.Fault()
    for call, error, k in one.faults(most):
        if not f.more():
            break
        label = f"{call}:signal=SIGKILL:when={k}" if killed else f"{call}:error={error}:when={k}"
        r = f.call(label, args, living.strace("-f", "-e", f"trace={call}", "-e", f"inject={label}"))
        living.traceless()
        if r and r.code and not killed and boxes() != before:
            f.bad.append(f"{label}: {r.err!r} and there are {boxes()}")
        if r and r.code == 0:
            clean()
        for left in set(boxes()) - set(before):
            b.berth("rm", "-f", left)
        b.gc()
        found = check.now(2)
        if found:
            f.bad.append(f"{label}: {found}")
            break
    return f


def layer():
    return packed([entry("d", tarfile.DIRTYPE, mode=0o755), entry("d/f", data=os.urandom(300000))])


@b.long_proof("fails a call in each of its runs")
def test_calls_of_an_import_that_fail_leave_nothing():
    each_fault(["checkpoint", "import", "--name", "in", "--no-start", made(layer())], lambda: b.berth("rm", "-f", "in", ok=True), False).finish(10)


@b.long_proof("kills a process in each of its runs")
def test_an_import_that_is_killed_anywhere_leaves_nothing_to_gc():
    f = each_fault(["checkpoint", "import", "--name", "in", "--no-start", made(layer())], lambda: b.berth("rm", "-f", "in", ok=True), True)
    f.bad = [text for text in f.bad if "died of" not in text and "without a word" not in text]
    f.finish(5)
