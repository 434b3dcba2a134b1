# SPDX-License-Identifier: Apache-2.0
"""
Makes OCI layouts, good and bad, without any tool of ours: tests of images and
hostile archives build their input here.
"""
import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BERTH_TEST_BUILD", os.environ.get("BERTH_BUILD", os.path.join(TOP, "build")))
BERTH_IMAGE = os.path.join(BUILD, "berth-image")
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

T_INDEX = "application/vnd.oci.image.index.v1+json"
T_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
T_CONFIG = "application/vnd.oci.image.config.v1+json"
T_LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest(data, algorithm="sha256"):
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


class Place:
    """A scratch directory with a store in it; use as a context."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="berth-image-test-", dir="/var/tmp")
        self.store = os.path.join(self.path, "store")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def run(self, *words, **kw):
        """Runs berth-image with this store; returns the CompletedProcess, texts decoded loosely."""
        p = subprocess.run([BERTH_IMAGE, "--store", self.store, *words], capture_output=True,
                           timeout=kw.pop("timeout", 60), **kw)
        p.stdout = p.stdout.decode(errors="replace")
        p.stderr = p.stderr.decode(errors="replace")
        return p

    def ok(self, *words, **kw):
        p = self.run(*words, **kw)
        assert p.returncode == 0, f"berth-image {words}: {p.returncode}: {p.stderr}"
        return p.stdout

    def layers(self):
        d = os.path.join(self.store, "layers")
        return sorted(os.listdir(d)) if os.path.isdir(d) else []

    def tree(self, image, i=-1):
        """The directory of the image's layer i."""
        record = json.loads(self.ok("inspect", "--json", image))
        return os.path.join(self.store, "layers", record["layers"][i]["chain_id"][7:])


def tar_bytes(entries, **kw):
    """entries: (name, dict of TarInfo fields, bytes or None)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **dict({"format": tarfile.PAX_FORMAT}, **kw)) as t:
        for name, fields, data in entries:
            ti = tarfile.TarInfo(name)
            ti.mtime = 1700000000
            for k, v in fields.items():
                setattr(ti, k, v)
            if data is not None:
                ti.size = len(data)
            t.addfile(ti, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


class Layout:
    """An OCI layout being written; what methods return can be changed before it is used."""

    def __init__(self, path, algorithm="sha256"):
        self.path, self.algorithm = path, algorithm
        os.makedirs(os.path.join(path, "blobs", algorithm))
        self.write("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')

    def write(self, name, data):
        with open(os.path.join(self.path, name), "wb") as f:
            f.write(data)

    def blob(self, data):
        d = digest(data, self.algorithm)
        self.write("blobs/" + d.replace(":", "/"), data)
        return d

    def desc(self, data, media_type, **more):
        return dict({"mediaType": media_type, "digest": self.blob(data), "size": len(data)}, **more)

    def layer(self, tar, compress="gzip"):
        """(descriptor, diff id) of a layer."""
        if compress == "gzip":
            return self.desc(gzip.compress(tar, 1, mtime=0), T_LAYER + "+gzip"), digest(tar, self.algorithm)
        if compress == "zstd":
            z = subprocess.run(["zstd", "-q", "-c"], input=tar, capture_output=True, check=True).stdout
            return self.desc(z, T_LAYER + "+zstd"), digest(tar, self.algorithm)
        return self.desc(tar, T_LAYER), digest(tar, self.algorithm)

    def config(self, diff_ids, **config):
        return {"os": "linux", "architecture": ARCH, "config": config,
                "rootfs": {"type": "layers", "diff_ids": diff_ids}}

    def manifest(self, config, layers):
        c = config if isinstance(config, bytes) else json.dumps(config).encode()
        return {"schemaVersion": 2, "mediaType": T_MANIFEST, "config": self.desc(c, T_CONFIG),
                "layers": layers}

    def index(self, *manifests):
        self.write("index.json", json.dumps({"schemaVersion": 2, "manifests": list(manifests)}).encode())

    def image(self, tars, ref="t", compress="gzip", **config):
        """A whole image of these layers; returns its manifest descriptor."""
        pairs = [self.layer(t, compress) for t in tars]
        m = self.manifest(self.config([d for _, d in pairs], **config), [d for d, _ in pairs])
        d = self.desc(json.dumps(m).encode(), T_MANIFEST,
                      annotations={"org.opencontainers.image.ref.name": ref})
        self.index(d)
        return d
