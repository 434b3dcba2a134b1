# SPDX-License-Identifier: Apache-2.0
"""Archives that a sandbox may have made, unpacked by the clients: nothing is written outside of the destination."""
import io
import os
import shutil
import subprocess
import sys
import tarfile

import berthtest as b

sys.path.insert(0, os.path.join(b.TOP, "clients/python"))
sys.dont_write_bytecode = True
from berth import _tar, errors  # noqa: E402

JAVASCRIPT = """
import fs from "node:fs";
const { unpack } = await import(process.argv[1]);
async function* pieces() {
  const data = fs.readFileSync(process.argv[2]);
  for (let at = 0; at < data.length; at += 700)
    yield data.subarray(at, at + 700);
}
try {
  await unpack(pieces(), process.argv[3], process.argv[4], false);
  console.log("done");
} catch (e) {
  console.log(e.code ?? e.stack);
}
"""


def member(name, data=None, kind=tarfile.REGTYPE, link="", mode=0o644):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode, entry.uid, entry.size = kind, link, mode, 12345, len(data or b"")
    return entry, data


def archive(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry, data in members:
            tar.addfile(entry, io.BytesIO(data) if data else None)
    return out.getvalue()


def python(data, remote, local):
    try:
        _tar.unpack(io.BytesIO(data), remote, local, False)
        return "done"
    except errors.BerthError as e:
        return e.code


def javascript(data, remote, local):
    path = b.write(b.tmp("archive.tar"), data)
    p = subprocess.run([shutil.which("node"), "--input-type=module", "-e", JAVASCRIPT, os.path.join(b.TOP, "clients/javascript/src/tar.js"),
                        path, remote, local], capture_output=True, text=True, timeout=b.SLOW * 60)
    return p.stdout.strip() or p.stderr


def languages():
    yield python
    if shutil.which("node"):
        yield javascript


def evil(victim):
    """Name, members, what the client says, and what is there afterwards below the destination."""
    top = member("top", kind=tarfile.DIRTYPE, mode=0o755)
    yield "a name with ..", [top, member("top/../../out", b"evil")], ("corrupt",)
    yield "a name that begins with ..", [member("../out", b"evil")], ("corrupt",)
    yield "an absolute name", [top, member(victim + "/open", b"evil")], ("corrupt",)
    yield "a second top", [top, member("other/x", b"evil")], ("corrupt",)
    yield "a link and a file below it", [top, member("top/l", kind=tarfile.SYMTYPE, link=victim), member("top/l/open", b"evil")], \
        ("system", "corrupt")
    yield "a link and a file through it", [top, member("top/l", kind=tarfile.SYMTYPE, link=victim + "/open"), member("top/l", b"evil")], \
        ("system", "done")
    yield "a link that takes the place of a directory", [top, member("top/d", kind=tarfile.DIRTYPE), member("top/d", kind=tarfile.SYMTYPE, link=victim),
                                                         member("top/d/open", b"evil")], ("system", "done")
    yield "a hard link to what is outside", [top, member("top/h", kind=tarfile.LNKTYPE, link=victim + "/open"), member("top/h", b"evil")], \
        ("corrupt", "system")
    yield "a hard link with ..", [top, member("top/h", kind=tarfile.LNKTYPE, link="top/../../victim/open")], ("corrupt",)
    yield "a hard link to a link", [top, member("top/l", kind=tarfile.SYMTYPE, link=victim + "/open"),
                                    member("top/h", kind=tarfile.LNKTYPE, link="top/l")], ("corrupt",)
    yield "links below links", [top, member("top/f", b"x"), member("top/l", kind=tarfile.SYMTYPE, link=victim),
                                member("top/l/new", kind=tarfile.SYMTYPE, link="x"), member("top/l/hard", kind=tarfile.LNKTYPE, link="top/f")], \
        ("corrupt",)
    yield "a hard link below a link", [top, member("top/f", b"x"), member("top/l", kind=tarfile.SYMTYPE, link=victim),
                                       member("top/l/hard", kind=tarfile.LNKTYPE, link="top/f")], ("corrupt",)
    yield "the top itself a link", [member("top", kind=tarfile.SYMTYPE, link=victim), member("top/open", b"evil")], ("system", "done")
    yield "a device", [top, member("top/dev", kind=tarfile.CHRTYPE)], ("done",)
    yield "a fifo", [top, member("top/fifo", kind=tarfile.FIFOTYPE)], ("done",)


def test_no_archive_writes_outside_of_its_destination():
    victim = b.victim()
    before = b.seal(victim)
    for unpack in languages():
        for name, members, said in evil(victim):
            place = b.tmpdir("place")
            got = unpack(archive(*members), "top", place + "/here")
            assert got in said, (unpack.__name__, name, got)
            assert b.seal(victim) == before, (unpack.__name__, name)
            assert os.listdir(b.tmp("")).count("out") == 0 and set(os.listdir(place)) <= {"here"}, (unpack.__name__, name, os.listdir(place))
            found = [os.path.join(d, f) for d, ds, fs in os.walk(place) for f in ds + fs]
            assert all(os.path.islink(f) or os.path.isfile(f) or os.path.isdir(f) for f in found), (name, found)
            shutil.rmtree(place)


def test_neither_owners_nor_set_id_bits_are_taken_over():
    data = archive(member("top", b"x", mode=0o6755))
    for unpack in languages():
        place = b.tmpdir("place")
        assert unpack(data, "top", place + "/here") == "done"
        st = os.stat(place + "/here")
        assert st.st_uid == os.getuid() and st.st_mode & 0o7777 == 0o755 & ~umask(), (unpack.__name__, oct(st.st_mode))
        shutil.rmtree(place)


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sparse(size, pieces, cut=0):
    """A GNU 1.0 sparse file as an archive."""
    text = "".join(f"{n}\n" for n in [len(pieces), *[x for at, data in pieces for x in (at, len(data))]]).encode()
    body = text + b"\0" * (-len(text) % 512) + b"".join(data for _, data in pieces)
    entry, _ = member("top/f", body)
    entry.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "top/f", "GNU.sparse.realsize": str(size)}
    whole = archive(member("top", kind=tarfile.DIRTYPE), (entry, body))
    return whole[:len(whole) - cut] if cut else whole


def test_a_hole_takes_no_room_and_lies_about_sizes_are_found():
    tib = 1 << 40
    for unpack in languages():
        place = b.tmpdir("place")
        assert unpack(sparse(tib, [(tib - 3, b"end")]), "top", place + "/here") == "done"
        st = os.stat(place + "/here/f")
        assert st.st_size == tib and st.st_blocks * 512 < 1 << 20, (unpack.__name__, st)
        with open(place + "/here/f", "rb") as f:
            f.seek(tib - 4)
            assert f.read() == b"\0end"
        shutil.rmtree(place)
        for name, data in {"cut short": archive(member("top", b"x" * 5000))[:2000], "empty": b"", "zeros": bytes(1024), "noise": os.urandom(4096),
                           "a wrong sum": archive(member("top", b"x")).replace(b"top\0", b"tap\0", 1)}.items():
            place = b.tmpdir("place")
            assert unpack(data, "top", place + "/here") in ("corrupt", "system"), (unpack.__name__, name)
            shutil.rmtree(place)
