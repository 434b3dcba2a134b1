#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what each program weighs as it is installed, stripped, and fails above a ceiling: tests/size.py PROGRAM...

Of `berth`, which every run starts, each page that is touched costs a page fault; the other programs are loaded only by
who asks for them.  A program without a ceiling of its own is counted in the sum.
"""
import os
import subprocess
import sys
import tempfile

CEILINGS = {"berth": 2_350_000}
CEILING_OF_ALL = 11_000_000


def weight(path):
    """Bytes of the stripped file, and of its code and data in memory."""
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, path], check=True)
        text, data, bss = subprocess.run(["size", path], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[1].split()[:3]
        return os.stat(stripped.name).st_size, int(text), int(data), int(bss)


def main():
    rows = sorted(((os.path.basename(p), *weight(p)) for p in sys.argv[1:]), key=lambda row: -row[1])
    print(f"{'':16}{'file':>10}{'code':>10}{'data':>10}{'zeros':>10}")
    for name, *numbers in rows:
        print(f"{name:16}" + "".join(f"{n:>10}" for n in numbers))
    over = [f"{name} weighs {size}, more than {CEILINGS[name]}" for name, size, *_ in rows if size > CEILINGS.get(name, size)]
    total = sum(row[1] for row in rows)
    print(f"{'all':16}{total:>10}")
    if total > CEILING_OF_ALL:
        over.append(f"all programs weigh {total}, more than {CEILING_OF_ALL}")
    for line in over:
        print("too large: " + line, file=sys.stderr)
    return 1 if over else 0


sys.exit(main())
