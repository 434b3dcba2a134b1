# SPDX-License-Identifier: Apache-2.0
"""What tests/soak/ runs for minutes (`make soak`, `make tsan-berthd`), for seconds."""
import json
import os
import subprocess
import sys

import berthtest as b

COST = 40
DEADLINE = 180


@b.long_proof("is a soak")
def test_twenty_seconds_of_random_verbs_and_crashes():
    script = os.path.join(b.TOP, "tests", "soak", "soak.py")
    done = subprocess.run([sys.executable, script, "--build", b.BUILD, "--minutes", "0.33"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    assert done.returncode == 0 and "killed" in done.stdout, done.stdout


def test_l09_random_verbs_while_berthd_is_killed():
    """What 64 clients ask for a minute under the sanitizers (make tsan-berthd, make asan-berthd): 16 for 6 s."""
    script = os.path.join(b.TOP, "tests", "soak", "stress.py")
    done = subprocess.run([sys.executable, script, "--build", b.BUILD, "--seconds", "6", "--clients", "16", "--kill-every", "1.5"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert result["kills"] and result["calls"] > 20 and result["alive"] + result["removed"], done.stdout
