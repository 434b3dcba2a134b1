#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: cover.py --build DIR PROGRAM...

Merges what the programs counted (DIR/prof) and prints, per folder and for the parsers file by file, the lines
that were run.  DIR/cover.json has every file; DIR/cover.txt the sources with their counts.
"""
import argparse
import collections
import glob
import json
import os
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# what reads bytes of others: looked at file by file
PARSERS = ("json.c", "toml.c", "num.c", "ref.c", "oci.c", "import.c", "layer.c", "unpack.c",
           "mountspec.c", "wire.c", "tar.c", "extract.c", "stream.c", "compression.c", "spec.c", "profile.c")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--build", required=True)
    ap.add_argument("programs", nargs="+")
    args = ap.parse_args()
    data = os.path.join(args.build, "cover.profdata")
    raw = glob.glob(os.path.join(args.build, "prof", "*.profraw"))
    if not raw:
        raise SystemExit("cover: nothing was counted")
    subprocess.run(["llvm-profdata", "merge", "-sparse", "-failure-mode=all", "-o", data, *raw], check=True)
    objects = [args.programs[0]] + [w for p in args.programs[1:] for w in ("-object", p)]
    told = subprocess.run(["llvm-cov", "export", "-summary-only", "-instr-profile", data, *objects], check=True,
                          stdout=subprocess.PIPE).stdout
    files = {}
    for f in json.loads(told)["data"][0]["files"]:
        name = os.path.relpath(f["filename"], TOP)
        lines = f["summary"]["lines"]
        if not name.startswith(("..", "tests/", args.build)) and lines["count"]:
            files[name] = (lines["covered"], lines["count"])
    with open(os.path.join(args.build, "cover.json"), "w") as out:
        json.dump({n: {"covered": c, "lines": t} for n, (c, t) in sorted(files.items())}, out, indent=1)
    with open(os.path.join(args.build, "cover.txt"), "wb") as out:
        subprocess.run(["llvm-cov", "show", "-instr-profile", data, *objects], stdout=out, stderr=subprocess.DEVNULL)
    folders = collections.defaultdict(lambda: [0, 0])
    for name, (covered, count) in files.items():
        for folder in (os.path.dirname(name), "in all"):
            folders[folder][0] += covered
            folders[folder][1] += count
    print(f"\n{'folder':28} {'lines':>7} {'run':>7}")
    for folder, (covered, count) in sorted(folders.items(), key=lambda f: (f[0] == "in all", f[0])):
        print(f"{folder:28} {count:7} {100 * covered / count:6.1f}%")
    print(f"\n{'parser':28} {'lines':>7} {'run':>7}")
    for name, (covered, count) in sorted(files.items()):
        if os.path.basename(name) in PARSERS:
            print(f"{name:28} {count:7} {100 * covered / count:6.1f}%")


if __name__ == "__main__":
    main()
