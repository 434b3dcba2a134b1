#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Prints what is wrong between SECURITY.md, the code and the tests, one line each; nothing when all is well.

Each claim (a row "| S1 | ... | code | tests |") is cited by number in code of the layers and in each test file that its row
names.  Each class of attack of tests/attack/ids is named in a test, or SECURITY.md says why it does not apply.
"""
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LAYERS = sys.argv[1:] or ["base", "seccomp", "rootfs", "runtime", "manager", "cli"]


def read(path):
    with open(path, errors="replace") as f:
        return f.read()


def files(*patterns):
    return {p: read(p) for pattern in patterns for p in glob.glob(os.path.join(TOP, pattern), recursive=True)}


def cites(text, number):
    # the name of a function holds it between underscores
    return re.search(rf"(?<![A-Za-z0-9]){number}(?![0-9])", text)


def claims(security, code, tests):
    for row in re.findall(r"^\| S\d+ \|.*$", security, re.M):
        cells = [c.strip() for c in row.strip("|").split("|")]
        number, named = cells[0], re.findall(r"[\w/*]*test_[\w*]+\.(?:py|c)|tests/[\w/]+", cells[-1])
        if not any(cites(text, number) for text in code.values()):
            print(f"SECURITY.md: no code says that it upholds {number}")
        if not named:
            print(f"SECURITY.md: {number} names no test")
        for name in named:
            pattern = name if name.startswith("tests/") else "tests/*/" + name
            found = glob.glob(os.path.join(TOP, pattern)) or glob.glob(os.path.join(TOP, pattern + ".c"))
            if found and os.path.isdir(found[0]):
                found = glob.glob(os.path.join(found[0], "test_*.py"))
            if not found:
                print(f"SECURITY.md: {number} names {name}, which is not there")
            elif not any(cites(tests[f], number) for f in found if f in tests):
                print(f"SECURITY.md: {name} does not say that it attacks {number}")


def attacks(security, tests):
    for first, last in re.findall(r"\b([EKIDL]\d\d)-([EKIDL]\d\d)\b", read(os.path.join(TOP, "tests/attack/ids"))):
        for n in range(int(first[1:]), int(last[1:]) + 1):
            number = f"{first[0]}{n:02d}"
            if not any(cites(text, number) for text in tests.values()) and not re.search(rf"^- {number}\b", security, re.M):
                print(f"tests/attack/ids: {number} has no test, and SECURITY.md does not say why (\"- {number} ...\")")


def main():
    security = read(os.path.join(TOP, "SECURITY.md"))
    code = files(*(f"{layer}/**/*.[ch]" for layer in LAYERS))
    tests = files("tests/*/test_*.py", "tests/unit/test_*.c", "tests/attack/probe.c", "tests/fuzz/fuzz_*.c")
    claims(security, code, tests)
    attacks(security, tests)


main()
