#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
clients/wheel.py OUT VERSION: the wheel of clients/python in the directory OUT; prints its path.

The same sources make the same bytes, whenever and wherever.  A wheel is a zip file with the list and hashes of what is
in it (https://packaging.python.org/en/latest/specifications/binary-distribution-format/).
"""
import base64
import hashlib
import os
import sys
import zipfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python")
METADATA = """Metadata-Version: 2.1
Name: berth
Version: {version}
Summary: Commands in hardened sandboxes: the client of berth
License: Apache-2.0
Requires-Python: >=3.9
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: berth\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def read(path):
    with open(path, "rb") as f:
        return f.read()


def files(version):
    """Name in the wheel, bytes; the list of them is added by the caller, last."""
    for where, dirs, names in sorted(os.walk(os.path.join(HERE, "berth"))):
        dirs[:] = [d for d in dirs if d != "__pycache__"]
        for name in sorted(names):
            if name.endswith((".py", "py.typed")):
                path = os.path.join(where, name)
                yield os.path.relpath(path, HERE), read(path)
    info = f"berth-{version}.dist-info"
    readme = read(os.path.join(HERE, "README.md")).decode()
    yield info + "/LICENSE", read(os.path.join(HERE, "../../LICENSE"))
    yield info + "/METADATA", METADATA.format(version=version, readme=readme).encode()
    yield info + "/WHEEL", WHEEL.encode()


def main(out, version):
    path = os.path.join(out, f"berth-{version}-py3-none-any.whl")
    os.makedirs(out, exist_ok=True)
    record = ""
    with zipfile.ZipFile(path + ".tmp", "w", zipfile.ZIP_STORED) as z:
        def add(name, data):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_STORED
            z.writestr(entry, data)
        for name, data in files(version):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
            add(name, data)
        name = f"berth-{version}.dist-info/RECORD"
        add(name, record + f"{name},,\n")
    os.rename(path + ".tmp", path)
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
