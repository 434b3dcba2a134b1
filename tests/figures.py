#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The figures of the house: how long its files, functions and lines are, how many functions share a name, and which modules
include each other in a circle.

tests/figures.py           a table
tests/figures.py --check   the circles, one line each; nothing when there is none (lint)

A file is one idea, and no ruler decides: the other figures are for people to look at.
"""
import collections
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILE_LINES, FUNCTION_LINES, COLUMNS = 500, 60, 100
FOLDERS = ("base", "seccomp", "rootfs", "runtime", "manager", "cli")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
STARTS = re.compile(r"^[a-zA-Z_].*\(")
NO_FUNCTION = re.compile(r"^(struct|enum|union|typedef)[^(]*$")


def sources():
    out = subprocess.run(["git", "-C", TOP, "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True,
                         check=True).stdout
    return [f for f in sorted(set(out.splitlines())) if f.endswith((".c", ".h")) and f.split("/")[0] in FOLDERS + ("tests",)
            and not f.startswith("tests/fuzz/corpus/") and os.path.isfile(os.path.join(TOP, f))]


def functions(lines):
    """(name, first line, how many) of each function: its brace stands in the first column."""
    candidate, start = "", 0
    for n, line in enumerate(lines, 1):
        if STARTS.match(line) and not line.rstrip().endswith(";") and not NO_FUNCTION.match(line):
            candidate = line
        elif line.startswith("{"):
            start = n
        elif line.startswith("}") and start:
            name = re.sub(r".*[ *]", "", candidate.split("(")[0])
            yield name, start, n - start
            start = 0


class House:
    """What was counted; long: {(kind, what): number} of all that is beyond the rules."""

    def __init__(self):
        self.lines = collections.Counter()
        self.files = collections.Counter()
        self.long = {}
        self.wide = collections.Counter()
        self.functions = 0
        self.names = []
        self.longest_files, self.longest_functions = [], []
        edges = collections.defaultdict(set)
        for path in sources():
            with open(os.path.join(TOP, path), errors="replace") as f:
                lines = f.read().splitlines()
            self.count(path, lines)
            if not path.startswith("tests/"):
                module = path[:-2]
                edges[module] |= {m[1][:-2] for m in map(INCLUDE.match, lines) if m} - {module}
        self.circles = circles(through_headers(edges))
        for circle in self.circles:
            self.long["circle", "=".join(circle)] = len(circle)

    def count(self, path, lines):
        folder = os.path.dirname(path)
        self.lines[folder] += len(lines)
        self.files[folder] += 1
        self.longest_files.append((len(lines), path))
        if path.startswith("tests/"):
            return
        if len(lines) > FILE_LINES:
            self.long["file", path] = len(lines)
        wide = sum(len(line.expandtabs(8)) > COLUMNS for line in lines)
        if wide:
            self.wide[folder] += wide
            self.long["columns", folder] = self.wide[folder]
        for name, _, length in functions(lines):
            self.functions += 1
            if not path.startswith("tests"):
                self.names.append((name, path))
            self.longest_functions.append((length, f"{path}: {name}()"))
            if length > FUNCTION_LINES:
                self.long["function", f"{path}:{name}"] = length


def through_headers(edges):
    """The same without headers that have no source of their own: whoever includes one includes what it includes."""
    edges = {v: set(ws) for v, ws in edges.items()}
    for header in [v for v in edges if not os.path.isfile(os.path.join(TOP, v + ".c"))]:
        further = edges.pop(header)
        for v, ws in edges.items():
            if header in ws:
                ws |= further
                ws -= {header, v}
    return edges


def circles(edges):
    """Groups of modules that reach each other (Tarjan), each sorted."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(edges.get(v, ())):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            group = []
            while not group or group[-1] != v:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10000)
    for v in sorted(edges):
        if v not in index:
            visit(v)
    return sorted(found)


def check(house):
    for circle in house.circles:
        print("modules that include each other: " + " ".join(circle))


def shared(names):
    """How many functions have a name that another file has, too."""
    files = collections.defaultdict(set)
    for name, path in names:
        files[name].add(path)
    return sum(len(files[name]) > 1 for name, _ in names)


def table(house):
    print(f"{'folder':24}{'files':>7}{'lines':>8}{'wide':>6}")
    for folder in sorted(house.lines):
        print(f"{folder:24}{house.files[folder]:7}{house.lines[folder]:8}{house.wide[folder]:6}")
    code = sum(n for f, n in house.lines.items() if not f.startswith("tests"))
    print(f"{'in all, without tests':24}{'':7}{code:8}{sum(house.wide.values()):6}\n")
    for title, rows in (("longest files", house.longest_files), ("longest functions", house.longest_functions)):
        print(f"{title}:")
        for n, what in sorted(rows, reverse=True)[:10]:
            print(f"{n:7}  {what}")
    over = sum(kind == "file" for kind, _ in house.long)
    long = sum(kind == "function" for kind, _ in house.long)
    print(f"\nfiles over {FILE_LINES} lines: {over}; functions over {FUNCTION_LINES} lines: {long} of {house.functions}; "
          f"circles of modules: {len(house.circles)}")
    for circle in house.circles:
        print("  " + " ".join(circle))
    n = shared(house.names)
    print(f"functions with a name that another file has: {n} of {len(house.names)} ({100 * n // len(house.names)} %)")


def main():
    house = House()
    if sys.argv[1:] == ["--check"]:
        check(house)
    else:
        table(house)


main()
