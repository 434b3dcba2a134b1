#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the libFuzzer programs of `make fuzz`, as many at a time as there are CPUs, and says what each did.

Exit status 1 when one of them crashed, leaked or hung; the input is in BUILD/crash then.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CORPUS = os.path.join(TOP, "tests/fuzz/corpus")
INPUT_SECONDS, MEMORY_MIB, INPUT_MAX = 10, 2048, 65536


def environment():
    # what is refused must not be a crash: a parser that is told that memory is out has to say so
    return dict(os.environ, ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=1", UBSAN_OPTIONS="print_stacktrace=1")


def directory(*parts):
    path = os.path.join(*parts)
    os.makedirs(path, exist_ok=True)
    return path


def fuzz(build, target, seconds):
    """(target, exit status, what is to be known of it)"""
    found, crash = directory(build, "found", target), directory(build, "crash")
    log = os.path.join(build, f"fuzz-{target}.log")
    with open(log, "wb") as out:
        status = subprocess.run([os.path.join(build, "fuzz", target), f"-max_total_time={seconds}", f"-timeout={INPUT_SECONDS}",
                                 f"-rss_limit_mb={MEMORY_MIB}", f"-max_len={INPUT_MAX}", "-print_final_stats=1", "-use_value_profile=1",
                                 f"-artifact_prefix={crash}/{target}-", found, os.path.join(CORPUS, target)],
                                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment(), check=False).returncode
    with open(log, errors="replace") as f:
        text = f.read()
    runs = re.search(r"stat::number_of_executed_units:\s+(\d+)", text)
    covered = re.findall(r" cov: (\d+)", text)
    if status:
        said = text[-3000:]
    else:
        said = f"{int(runs.group(1)) if runs else 0} inputs, {covered[-1] if covered else 0} edges, {len(os.listdir(found))} kept"
    return target, status, said


def merge(build, target):
    corpus = directory(CORPUS, target)
    before = len(os.listdir(corpus))
    subprocess.run([os.path.join(build, "fuzz", target), "-merge=1", f"-max_len={INPUT_MAX}", corpus, directory(build, "found", target)],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(), check=True)
    return target, 0, f"{len(os.listdir(corpus)) - before} more in tests/fuzz/corpus/{target}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", required=True)
    p.add_argument("--seconds", type=int, default=60)
    p.add_argument("--merge", action="store_true")
    p.add_argument("target", nargs="+")
    o = p.parse_args()
    build, bad = os.path.abspath(o.build), 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        work = [pool.submit(merge, build, t) if o.merge else pool.submit(fuzz, build, t, o.seconds) for t in o.target]
        for w in concurrent.futures.as_completed(work):
            target, status, said = w.result()
            bad += status != 0
            print(f"{'FAIL' if status else 'ok  '} {target:14} {said}", flush=True)
    print(f"{len(work) - bad} passed, {bad} failed")
    return bad > 0


sys.exit(main())
