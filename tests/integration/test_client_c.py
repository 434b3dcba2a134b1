# SPDX-License-Identifier: Apache-2.0
"""The example of clients/c: compiled as its README says, and run."""
import os
import re
import subprocess

import berthtest as b

COST = 3
HERE = os.path.join(b.TOP, "clients/c")


def built():
    """The example, by the README's own command."""
    with open(HERE + "/README.md") as f:
        compile_it, run_it = re.search(r"```sh\n(.*?)```", f.read(), re.S).group(1).splitlines()
    out = b.tmpdir("out")
    words = compile_it.replace("-o embed", f"-o {out}/embed -Werror").split()
    p = subprocess.run(words, cwd=HERE, capture_output=True, text=True, timeout=b.SLOW * 60)
    assert p.returncode == 0, p.stderr
    return out, run_it


def embed(command, cwd, **more):
    env = b.environment({"PATH": f"{b.BUILD}:{os.environ['PATH']}", **more})
    return subprocess.run(command, shell=True, cwd=cwd, env=env, capture_output=True, text=True, timeout=b.SLOW * 60)


def test_the_example_is_short_builds_and_runs():
    with open(HERE + "/embed.c") as f:
        assert len(f.readlines()) <= 60
    out, run_it = built()
    p = embed(run_it, out)
    assert (p.returncode, p.stdout, p.stderr) == (3, "hello from sandbox\n", ""), p
    p = embed("./embed host 'echo out; echo err >&2; kill -9 $$'", out)
    assert (p.returncode, p.stdout, p.stderr) == (137, "out\n", "err\n"), p
    p = embed("./embed nosuch:image true", out, BERTH_CONFIG=b.write(b.tmp("berth.toml"), '[registry]\npull = "never"\n'))
    assert p.returncode == 125 and p.stderr.startswith("embed: ") and "nosuch:image" in p.stderr, p
    p = embed("./embed", out)
    assert p.returncode == 2 and "usage" in p.stderr, p
    p = embed("./embed host true", out, PATH="/usr/bin:/bin")
    assert p.returncode == 125 and "berth stdio" in p.stderr and "berth: " in p.stderr, p
    assert b.berth("ps", "-aq", ok=True).out == ""
