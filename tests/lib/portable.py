# SPDX-License-Identifier: Apache-2.0
"""Files of checkpoints, as berth checkpoint import reads them: right and hostile ones."""
import hashlib
import io
import itertools
import json
import subprocess
import tarfile

import berthtest as b

NUMBERS = itertools.count()


def packed(entries):
    """A layer of TarInfo and bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as t:
        for info, data in entries:
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return subprocess.run(["zstd", "-qc"], input=raw.getvalue(), capture_output=True, check=True).stdout


def entry(name, kind=tarfile.REGTYPE, link="", data=b"", **more):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def made(packed_layer, manifest=None, names=("checkpoint.json", "layer.tar.zst"), after=b"", **members):
    doc = {"berth-checkpoint": 1, "checkpoint": {"id": "k1"}, "image": "host", "image_digest": None,
           "spec": {"version": 1, "image": "host", "options": []},
           "layer": {"digest": "sha256:" + hashlib.sha256(packed_layer).hexdigest(), "size": len(packed_layer)}}
    doc.update(members)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, data in zip(names, (json.dumps(doc).encode() if manifest is None else manifest, packed_layer)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
        for name in after:
            t.addfile(tarfile.TarInfo(name))
    file = b.tmp(f"hostile-{next(NUMBERS)}.tar")
    with open(file, "wb") as f:
        f.write(raw.getvalue())
    return file
