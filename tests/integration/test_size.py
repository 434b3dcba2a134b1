# SPDX-License-Identifier: Apache-2.0
"""What the programs weigh (make size)."""
import os
import subprocess
import sys

import berthtest as b

COST = 1


def test_no_program_is_heavier_than_its_ceiling():
    b.needs_the_lean_program()
    programs = [os.path.join(b.BUILD, n) for n in sorted(os.listdir(b.BUILD)) if n.startswith("berth") and not n.endswith((".gz", "-init", "-fileop"))]
    programs = [p for p in programs if os.access(p, os.X_OK) and os.path.isfile(p)]
    done = subprocess.run([sys.executable, os.path.join(b.TOP, "tests", "size.py"), *programs], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0 and "\nberth " in done.stdout, done.stdout
