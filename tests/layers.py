#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Prints what is wrong between the includes of the sources and tests/layers, one line each; nothing when all is well.

tests/layers.py FILE...    the sources to look at; a path in an include is from the top of the tree
"""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
FREE = "base"  # the lowest folder: each may include from it, and it only from itself
MADE = {"libc.h"}  # headers that the build makes, in build/gen
# a program of its own that links nothing of ours: what they may include besides their own files
ALONE = {"runtime/init": {"base/err.h", "base/getdents.h"}}


def allowed_edges():
    edges = {FREE: set()}
    with open(os.path.join(TOP, "tests/layers")) as f:
        for n, line in enumerate(f, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            folder, colon, rest = line.partition(":")
            if not colon or folder in edges:
                print(f"tests/layers:{n}: not FOLDER: FOLDER..., or a folder for the second time: {line}")
                continue
            edges[folder] = set(rest.split())
    return edges


def circles(edges):
    """Each circle once, as a path that ends where it began."""
    done, found = set(), []

    def walk(folder, path):
        if folder in path:
            found.append(path[path.index(folder):] + [folder])
        elif folder not in done:
            for other in sorted(edges.get(folder, ())):
                walk(other, path + [folder])
            done.add(folder)

    for folder in sorted(edges):
        walk(folder, [])
    return found


def check(path, edges, used):
    folder = os.path.dirname(path)
    if folder.startswith("base/"):
        folder = FREE
    if folder not in edges:
        print(f"{path}: tests/layers does not name the folder {folder}")
        return
    with open(os.path.join(TOP, path), errors="replace") as f:
        for n, line in enumerate(f, 1):
            m = INCLUDE.match(line)
            if not m or m[1] in MADE:
                continue
            other = os.path.dirname(m[1])
            if other.startswith("base/"):
                other = FREE
            if other not in edges:
                print(f'{path}:{n}: "{m[1]}" is in no folder of tests/layers')
            elif ALONE.get(folder) and other == FREE and m[1] not in ALONE[folder]:
                if not path.endswith("/err.c"):
                    print(f'{path}:{n}: {folder} links nothing of ours and includes "{m[1]}"')
            elif other not in (folder, FREE):
                used.add((folder, other))
                if other not in edges[folder]:
                    print(f'{path}:{n}: {folder} includes "{m[1]}"; tests/layers has no such edge')


def main():
    edges, used = allowed_edges(), set()
    for path in sys.argv[1:]:
        check(path, edges, used)
    for folder, others in edges.items():
        for other in sorted(others):
            if other not in edges:
                print(f"tests/layers: {folder} names {other}, which is no folder")
            elif (folder, other) not in used:
                print(f"tests/layers: no include needs the edge from {folder} to {other}")
    for circle in circles(edges):
        print("tests/layers: a circle: " + " -> ".join(circle))


main()
