#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
How much later than berth's own command line the first command of a client answers.

Each round makes a client, a sandbox and runs `true` in it, until the result is there; the command line does the same by
`berth create` and `berth exec`, and in one by `berth run`.  Rounds alternate, so that load falls on all alike.  Prints
medians and the best in milliseconds, and asserts nothing.

tests/bench/clients.py [BUILD] [ROUNDS]
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(TOP, "build"))
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 30
BERTH = os.path.join(BUILD, "berth")
sys.path.insert(0, os.path.join(TOP, "clients/python"))
sys.dont_write_bytecode = True

JAVASCRIPT = """
const { Berth } = await import(process.argv[1]);
const began = performance.now();
const client = new Berth({ program: process.argv[2] });
const box = await client.create("host");
const made = performance.now();
await box.run(["true"]);
const first = performance.now();
await box.run(["true"]);
console.log(JSON.stringify({ total: first - began, first: first - made, next: performance.now() - first }));
await box.remove();
await client.close();
"""


def ms(began):
    return (time.monotonic() - began) * 1000


def quiet(*words):
    return subprocess.run([BERTH, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


def command_line(seen):
    began = time.monotonic()
    box = quiet("create", "host")
    made = time.monotonic()
    quiet("exec", box, "true")
    seen["command line: create and exec"].append(ms(began))
    seen["command line: exec alone"].append(ms(made))
    quiet("rm", "-f", box)
    began = time.monotonic()
    quiet("run", "host", "true")
    seen["command line: run"].append(ms(began))


def python(seen):
    import berth
    began = time.monotonic()
    with berth.Berth(program=BERTH) as client:
        box = client.create("host")
        made = time.monotonic()
        box.run(["true"])
        seen["Python: create and the first command"].append(ms(began))
        seen["Python: the first command alone"].append(ms(made))
        began = time.monotonic()
        box.run(["true"])
        seen["Python: the next command"].append(ms(began))
        box.remove()
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import berth"], env=dict(os.environ, PYTHONPATH=os.path.join(TOP, "clients/python")), check=True)
    seen["Python: a program that only imports it"].append(ms(began))


def javascript(seen):
    p = subprocess.run(["node", "--input-type=module", "-e", JAVASCRIPT, os.path.join(TOP, "clients/javascript/src/index.js"), BERTH],
                       stdout=subprocess.PIPE, check=True)
    told = json.loads(p.stdout)
    seen["JavaScript: create and the first command"].append(told["total"])
    seen["JavaScript: the first command alone"].append(told["first"])
    seen["JavaScript: the next command"].append(told["next"])


def main():
    place = tempfile.mkdtemp(prefix="berth-bench-", dir="/var/tmp")
    os.environ.update(BERTH_STATE_DIR=place + "/state", BERTH_RUN_DIR=place + "/run", BERTH_IDS_DIR=place + "/hostids",
                      BERTH_CGROUP_PARENT=os.path.basename(place))
    seen = {}

    class Seen(dict):
        def __missing__(self, name):
            return self.setdefault(name, [])

    seen = Seen()
    try:
        command_line(Seen())        # makes what the first use of `host` makes
        for _ in range(ROUNDS):
            command_line(seen)
            python(seen)
            if shutil.which("node"):
                javascript(seen)
    finally:
        for box in quiet("ps", "-aq").split():
            quiet("rm", "-f", box)
        for c in ["", *os.listdir("/sys/fs/cgroup")]:
            subprocess.run(["rmdir", f"/sys/fs/cgroup/{c}/{os.path.basename(place)}/keepers", f"/sys/fs/cgroup/{c}/{os.path.basename(place)}"],
                           stderr=subprocess.DEVNULL)
        shutil.rmtree(place, ignore_errors=True)
    for name, values in seen.items():
        print(f"{name:45} {statistics.median(values):8.2f} ms, best {min(values):.2f}")
    for client in ("Python", "JavaScript"):
        if seen.get(f"{client}: create and the first command"):
            ours, theirs = seen[f"{client}: create and the first command"], seen["command line: create and exec"]
            print(f"{client} answers {statistics.median(ours) - statistics.median(theirs):+.2f} ms after the command line, "
                  f"at best {min(ours) - min(theirs):+.2f}")


if __name__ == "__main__":
    main()
