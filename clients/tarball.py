#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
clients/tarball.py OUT: the npm package of clients/javascript in the directory OUT, as `npm pack` would make it but the
same bytes whenever and wherever; prints its path.
"""
import gzip
import io
import json
import os
import sys
import tarfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "javascript")
MTIME = 499162500       # of npm's own archives


def read(path):
    with open(path, "rb") as f:
        return f.read()


def main(out):
    package = json.loads(read(os.path.join(HERE, "package.json")))
    sources = sorted(os.path.join("src", name) for name in os.listdir(os.path.join(HERE, "src")) if name.endswith((".js", ".ts")))
    files = {name: read(os.path.join(HERE, name)) for name in ["package.json", "README.md", *sources]}
    files["LICENSE"] = read(os.path.join(HERE, "../../LICENSE"))
    path = os.path.join(out, f"{package['name']}-{package['version']}.tgz")
    os.makedirs(out, exist_ok=True)
    with open(path + ".tmp", "wb") as raw, gzip.GzipFile("", "wb", 0, raw, MTIME) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo("package/" + name)
            entry.size, entry.mtime, entry.mode = len(files[name]), MTIME, 0o644
            tar.addfile(entry, io.BytesIO(files[name]))
    os.rename(path + ".tmp", path)
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
