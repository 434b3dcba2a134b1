# SPDX-License-Identifier: Apache-2.0
"""
The models of blank file systems for writable layers (runtime/kernel/blankfs.h): the first sandbox of a size
formats, the next ones copy; what is not as it should be is passed over or replaced, never mounted as it is.
"""
import glob
import os

import berthtest as b


def create(*options, **kw):
    return b.berth("create", *options, "host", **kw)


def models():
    return sorted(glob.glob(os.path.join(b.root(), "state/blank-*")))


def uuid(path):
    with open(path, "rb") as f:
        f.seek(1024 + 0x68)  # s_uuid of ext4's superblock
        return f.read(16)


def formats(*options, also=()):
    """Whether it was formatted: then its file system has a UUID of its own.  It works, and goes again."""
    known = [uuid(m) for m in [*models(), *also] if os.path.isfile(m)]
    box = create(*options, ok=True).out.strip()
    own = uuid(os.path.join(b.root(), "state/sandboxes", box, "writable.img"))
    b.berth("exec", box, "sh", "-c", "echo x > file && head -c 1000000 /dev/zero > /root/more && sync", ok=True)
    b.berth("rm", "-f", box, ok=True)
    assert any(own)
    return own not in known


def need_file():
    box = create(ok=True).out.strip()
    uses = os.path.exists(os.path.join(b.root(), "state/sandboxes", box, "writable.img"))
    b.berth("rm", "-f", box, ok=True)
    if not uses:
        raise b.skip("writable layers are no files on this file system")


def test_the_first_formats_and_the_next_copies():
    need_file()
    assert len(models()) == 1 and os.stat(models()[0]).st_mode & 0o7777 == 0o400
    assert os.stat(models()[0]).st_blocks * 512 < 4 << 20
    assert not formats()
    assert formats("--disk", "64m") and not formats("--disk", "64m")
    # a size of its own each: a small one is as small as it was
    small = create("--disk", "64m", ok=True).out.strip()
    r = b.berth("exec", small, "sh", "-c", "head -c 100000000 /dev/zero > /root/big")
    assert r.code != 0 and "space" in r.err, r
    b.berth("rm", "-f", small, ok=True)
    for size in range(70, 80, 2):
        formats("--disk", f"{size}m")
    assert len(models()) == 4
    assert formats("--disk", "78m")


def test_a_write_to_one_file_system_is_not_in_the_next():
    need_file()
    for _ in range(2):
        box = create(ok=True).out.strip()
        assert b.berth("exec", box, "sh", "-c", "ls -A /root; echo secret > /root/mark; sync", ok=True).out == ""
        b.berth("rm", "-f", box, ok=True)
    for model in models():
        with open(model, "rb") as f:
            assert b"secret" not in f.read(64 << 20)


def test_a_damaged_model_is_replaced():
    need_file()
    model = models()[0]
    size = os.path.getsize(model)
    for damage in (lambda f: f.write(b"\0" * 65536), lambda f: (f.seek(1024 + 0x18), f.write(b"\xff" * 200))):
        os.chmod(model, 0o600)
        with open(model, "r+b") as f:
            damage(f)
        os.chmod(model, 0o400)
        assert formats() and models() == [], "a damaged one stays"
        assert formats() and models() == [model] and os.path.getsize(model) == size
        assert not formats()


def test_a_file_that_is_not_our_model_is_passed_over():
    need_file()
    model = models()[0]
    good = b.tmp("good")
    os.rename(model, good)
    for make in (lambda: os.mkfifo(model, 0o400), lambda: os.symlink(good, model), lambda: os.mkdir(model),
                 lambda: b.write(model, "short"), lambda: os.close(os.open(model, os.O_CREAT, 0o400))):
        make()
        assert formats(also=[good])
        (os.rmdir if os.path.isdir(model) and not os.path.islink(model) else os.unlink)(model)
    os.rename(good, model)
    os.chmod(model, 0o466)
    assert formats(), "others could write it"
    os.chmod(model, 0o400)
    os.chown(model, 1000, 0)
    assert formats(), "another's"
