# SPDX-License-Identifier: Apache-2.0
"""The soak of tests/soak/, for 20 s: `make soak` runs it for 30 minutes."""
import os
import subprocess
import sys

import berthtest as b

COST = 30
DEADLINE = 180


def test_twenty_seconds_of_random_verbs_and_crashes():
    script = os.path.join(b.TOP, "tests", "soak", "soak.py")
    done = subprocess.run([sys.executable, script, "--build", b.BUILD, "--minutes", "0.33"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    assert done.returncode == 0 and "killed" in done.stdout, done.stdout
