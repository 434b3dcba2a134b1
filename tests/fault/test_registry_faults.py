# SPDX-License-Identifier: Apache-2.0
"""A pull in which one system call fails, in berth-image and in berth-http: a clear error or success, a sound store."""
import os
import random
import shutil
import subprocess

import berthtest as b
import ocilayout as oci
import registry as reg

COST = 25

# call, error, which ones of each process; at the first it cannot go well, with later ones it may
FAULTS = (
    ("pipe2", "EMFILE", (1, 3, 6)), ("clone", "EAGAIN", (1, 2, 3)), ("memfd_create", "EMFILE", (1, 2)),
    ("socketpair", "EMFILE", (1,)), ("sendmsg", "ENOBUFS", (1, 2)), ("recvmsg", "ENOMEM", (1, 2, 5)),
    ("renameat", "EIO", (1, 3, 5)), ("renameat2", "EIO", (1, 2)), ("syncfs", "EIO", (1,)), ("flock", "EIO", (1, 3)),
    ("mkdirat", "ENOSPC", (2, 8)), ("signalfd4", "EMFILE", (1,)), ("poll", "ENOMEM", (1, 3)), ("execveat", "EACCES", (1,)),
    ("socket", "EMFILE", (1,)), ("connect", "ECONNREFUSED", (1,)), ("ftruncate", "EIO", (1,)), ("pread64", "EIO", (3, 4)),
    ("setresuid", "EPERM", (1,)), ("landlock_restrict_self", "EPERM", (1,)), ("prctl", "EPERM", (1, 2)),
)
# without these it does not begin to speak: a process with more rights than it should have is worse than none
MUST_FAIL = ("setresuid", "landlock_restrict_self", "socketpair", "execveat")


@b.deadline(150)
def test_a_pull_with_a_failing_call_is_an_error_or_goes_well():
    reg.need("strace")
    tars = [oci.tar_bytes([(n, {}, random.Random(n).randbytes(20000))]) for n in "ab"]
    program, bad, ran = os.path.join(b.BUILD, "berth-image"), [], 0
    with reg.Mock(reg.Image(tars)) as m:
        env = b.environment({**reg.config(insecure=[m.host], retries=1, stall_timeout="2s", deadline="10s"), **b.under_strace()})
        state = os.path.join(b.root(), "state")
        for call, error, whens in FAULTS:
            for when in whens:
                shutil.rmtree(os.path.join(state, "store"), ignore_errors=True)
                p = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={call}:error={error}:when={when}",
                                    program, "pull", m.host + "/a:1"], env=env, capture_output=True, text=True, timeout=60 * b.SLOW)
                fsck = subprocess.run([program, "fsck"], env=env, capture_output=True, text=True, timeout=60 * b.SLOW)
                names = subprocess.run([program, "ls", "--quiet"], env=env, capture_output=True, text=True, timeout=60 * b.SLOW).stdout
                well = p.returncode == 0 and names and call not in MUST_FAIL
                clear = p.returncode in (124, 125) and p.stderr.count("\n") == 1 and not names
                if not (well or clear) or " 0 problems" not in fsck.stdout:
                    bad.append(f"{call} {when}: {p.returncode} {p.stderr[:300]!r} {names!r} {fsck.stdout!r}")
                ran += 1
                b.wait_for(lambda: not b.proc.descendants(os.getpid()), 10, "the end of all it had started")
                b.proc.reap_orphans(os.getpid())
    assert ran >= 35 and not bad, "\n".join(bad)
