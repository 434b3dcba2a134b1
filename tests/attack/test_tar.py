# SPDX-License-Identifier: Apache-2.0
"""
Hostile layer archives (I01-I24, I31): each is imported as the upper layer of an
image.  Whatever the answer, nothing outside the layer changes, no device and no
attribute but user.* appears, and it takes less than 5 s and 64 MiB.

Attacks S10 of SECURITY.md.
"""
import gzip
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import unittest
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import berthtest as b
import ocilayout as oci

COST = 57
RSS_KIB = 64 << 10
REFUSE, TAKE, EITHER = "refuse", "take", "either"
BLK, CHR, FIFO, DIR, SYM, LNK = (tarfile.BLKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE,
                                 tarfile.SYMTYPE, tarfile.LNKTYPE)
PWN = b"pwned\n"
KINDS = ("gzip", "none", "zstd") if shutil.which("zstd") else ("gzip", "none")


def raw(name, size=b"00000000000", typeflag=b"0", data=b"", link=b"", mode=b"0000644", uid=b"0000000",
        checksum=None, magic=b"ustar\x0000", prefix=b"", mtime=b"00000000000"):
    """A header block by hand, and its data."""
    h = bytearray(512)
    h[0:len(name)] = name
    h[100:100 + len(mode)] = mode
    h[108:108 + len(uid)] = uid
    h[116:123] = b"0000000"
    h[124:124 + len(size)] = size
    h[136:136 + len(mtime)] = mtime
    h[156:157] = typeflag
    h[157:157 + len(link)] = link
    h[257:257 + len(magic)] = magic
    h[345:345 + len(prefix)] = prefix
    h[148:156] = b" " * 8
    h[148:156] = checksum or b"%06o\0 " % sum(h)
    return bytes(h) + data + b"\0" * (-len(data) % 512)


def pax(**records):
    out = b""
    for k, v in records.items():
        k, v = k.replace("__", ".").encode(), v if isinstance(v, bytes) else v.encode()
        n = len(k) + len(v) + 3
        n += len(str(n + len(str(n))))
        out += b"%d %s=%s\n" % (n, k, v)
    return raw(b"PaxHeaders/x", size=b"%011o" % len(out), typeflag=b"x", data=out)


END = b"\0" * 1024


def f(name, data=PWN, **fields):
    return (name, fields, data)


def d(name, **fields):
    return (name, dict({"type": DIR, "mode": 0o755}, **fields), None)


def s(name, target, **fields):
    return (name, dict({"type": SYM, "linkname": target}, **fields), None)


def h(name, target):
    return (name, {"type": LNK, "linkname": target}, None)


def n(name, kind, **fields):
    return (name, dict({"type": kind, "mode": 0o666}, **fields), None)


def x(name, key, value="y", kind=None):
    fields = {"pax_headers": {"SCHILY.xattr." + key: value}}
    return d(name, **fields) if kind == DIR else f(name, **fields)


def tar(*entries):
    return oci.tar_bytes(entries)


def cases(v):
    """(name, expectation, bytes of a tar) for the victim directory v."""
    up = "../" * 30
    rel = up + v.lstrip("/")
    yield "I01-dotdot", REFUSE, tar(f(up + "tmp/pwn"))
    yield "I01-dotdot-victim", REFUSE, tar(f(rel + "/pwn"))
    yield "I01-dotdot-inside", REFUSE, tar(d("a"), f("a/../../pwn"))
    yield "I02-absolute", TAKE, tar(f(v + "/pwn"))
    yield "I02-absolute-slashes", TAKE, tar(f("//" + v + "/pwn"))
    yield "I03-symlink-then-write", EITHER, tar(s("l", v), f("l/pwn"))
    yield "I03-symlink-rel-then-write", EITHER, tar(s("l", rel), f("l/pwn"))
    yield "I04-symlink-chain", EITHER, tar(s("a", "b"), s("b", "c"), s("c", v), f("a/pwn"))
    yield "I04-symlink-dotdot-chain", EITHER, tar(d("x"), s("x/up", "../.."), s("y", "x/up/.." + v), f("y/pwn"))
    yield "I05-symlink-last-component", TAKE, tar(s("l", v + "/secret"), f("l"))
    yield "I05-symlink-last-mkdir", TAKE, tar(s("l", v), d("l", mode=0o777))
    yield "I06-hardlink-absolute", REFUSE, tar(h("l", v + "/secret"))
    yield "I07-hardlink-dotdot", REFUSE, tar(h("l", rel + "/secret"))
    yield "I08-hardlink-via-symlink", REFUSE, tar(s("d", v), h("l", "d/secret"))
    yield "I08-hardlink-via-rel-symlink", REFUSE, tar(s("d", rel), h("l", "d/secret"))
    yield "I09-hardlink-to-symlink-write", EITHER, tar(s("a", v + "/secret"), h("b", "a"), f("b"))
    yield "I09-hardlink-to-dir", REFUSE, tar(d("a"), h("b", "a"))
    yield "I09-hardlink-self", REFUSE, tar(h("a", "a"))
    yield "I09-hardlink-root", REFUSE, tar(h("a", "/"))
    yield "I10-dir-over-symlink-chmod", TAKE, tar(s("l", v), d("l", mode=0o4777, uid=1234), f("l/pwn"))
    yield "I11-dir-then-symlink", EITHER, tar(d("l"), f("l/a"), s("l", v), f("l/pwn"))
    yield "I11-cached-parent-swap", EITHER, tar(d("a"), d("a/b"), f("a/b/1"), s("a", v), f("a/b/2"), f("a/pwn"))
    yield "I12-pax-path", REFUSE, pax(path=rel + "/pwn") + raw(b"ok", size=b"%011o" % 6, data=PWN) + END
    yield "I12-pax-path-absolute", TAKE, pax(path=v + "/pwn") + raw(b"ok", size=b"%011o" % 6, data=PWN) + END
    yield "I13-pax-linkpath", REFUSE, pax(linkpath=v + "/secret") + raw(b"ok", typeflag=b"1", link=b"x") + END
    yield "I13-pax-linkpath-symlink", TAKE, pax(linkpath=v) + raw(b"l", typeflag=b"2", link=b"x") + END
    long_name = (rel + "/pwn").encode() + b"\0"
    yield "I14-gnu-longname", REFUSE, raw(b"././@LongLink", size=b"%011o" % len(long_name), typeflag=b"L",
                                          data=long_name) + raw(b"ok", size=b"%011o" % 6, data=PWN) + END
    yield "I14-gnu-longlink", REFUSE, raw(b"././@LongLink", size=b"%011o" % len(long_name), typeflag=b"K",
                                          data=long_name) + raw(b"ok", typeflag=b"1") + END
    yield "I15-root-symlink", REFUSE, raw(b"./", typeflag=b"2", link=v.encode()) + END
    yield "I15-root-symlink-dot", REFUSE, raw(b".", typeflag=b"2", link=v.encode()) + raw(b"pwn") + END
    yield "I15-root-file", REFUSE, raw(b"/", typeflag=b"0") + raw(b"././/.", typeflag=b"0") + END
    yield "I16-nul-in-name", EITHER, pax(path=b"ok\0" + rel.encode()) + raw(b"q") + END
    yield "I17-file-as-parent", REFUSE, tar(f("a"), f("a/b"))
    yield "I18-prefix-dotdot", REFUSE, raw(b"pwn", prefix=b"../../../../../../../..", data=b"") + END
    yield "I19-dangling-symlink-parent", REFUSE, tar(s("l", "nowhere"), f("l/pwn"))
    yield "I19-symlink-loop", REFUSE, tar(s("a", "b"), s("b", "a"), f("a/pwn"))
    yield "I20-empty-name", EITHER, raw(b"") + raw(b"ok") + END
    yield "I21-whiteout-dot", REFUSE, tar(f("a/.wh..", b""))
    yield "I21-whiteout-dotdot", REFUSE, tar(f("a/.wh...", b""))
    yield "I21-whiteout-empty", REFUSE, tar(f("a/.wh.", b""))
    yield "I21-opaque-via-symlink", REFUSE, tar(s("l", v), f("l/.wh..wh..opq", b""))
    yield "I21-whiteout-via-symlink", REFUSE, tar(s("l", v), f("l/.wh.secret", b""))
    yield "I21-whiteout-of-own-dir", TAKE, tar(d("q"), f("q/x"), f(".wh.q", b""))
    yield "I21-whiteout-symlink", TAKE, tar(s(".wh.base", v))
    yield "I22-chardev", TAKE, tar(n("mem", CHR, devmajor=1, devminor=1))
    yield "I22-chardev-0-0", TAKE, tar(n("base", CHR, devmajor=0, devminor=0))
    yield "I22-blockdev", TAKE, tar(n("sda", BLK, devmajor=8, devminor=0))
    yield "I22-device-over-file", TAKE, tar(f("a"), n("a", BLK, devmajor=8, devminor=0))
    yield "I22-fifo", TAKE, tar(n("p", FIFO))
    yield "I22-hardlink-to-whiteout", REFUSE, tar(f(".wh.base", b""), h("b", "base"))
    yield "I23-xattr-redirect", TAKE, tar(x("d", "trusted.overlay.redirect", v, DIR))
    yield "I23-xattr-opaque", TAKE, tar(x("d", "trusted.overlay.opaque", "y", DIR))
    yield "I23-xattr-metacopy", TAKE, tar(x("f", "trusted.overlay.metacopy", ""))
    yield "I23-xattr-user-overlay", TAKE, tar(x("f", "user.overlay.whiteout"))
    yield "I23-xattr-capability", TAKE, tar(x("f", "security.capability", "\x01\x00\x00\x02" + "\xff" * 4))
    yield "I23-xattr-ima", TAKE, tar(x("f", "security.ima"))
    yield "I23-xattr-acl", TAKE, tar(x("f", "system.posix_acl_access"))
    yield "I24-sparse-1TiB", REFUSE, (pax(GNU__sparse__major="1", GNU__sparse__minor="0",
                                         GNU__sparse__name="big", GNU__sparse__realsize=str(1 << 40))
                                     + raw(b"x", size=b"%011o" % 512, data=b"1\n%d\n0\n" % (1 << 40)) + END)
    yield "I24-size-1TiB", REFUSE, raw(b"big", size=b"\x80\0\0\0\0\0\x01\0\0\0\0\0", data=PWN)
    yield "I24-size-negative", REFUSE, raw(b"big", size=b"\xff" * 12, data=PWN) + END
    yield "I24-size-2^63", REFUSE, raw(b"big", size=b"\x80\0\0\0\x80\0\0\0\0\0\0\0", data=PWN) + END
    yield "I24-size-garbage", EITHER, raw(b"big", size=b"zzzzzzzzzzz") + END
    yield "I24-bad-checksum", REFUSE, raw(b"a", checksum=b"000000\0 ") + END
    yield "I24-bad-checksum-later", REFUSE, raw(b"a") + raw(b"b", checksum=b"000000\0 ") + END
    yield "I24-truncated-data", REFUSE, raw(b"a", size=b"%011o" % 100000, data=PWN)
    yield "I24-truncated-header", REFUSE, raw(b"a") + raw(b"b")[:300]
    yield "I24-not-a-tar", REFUSE, b"\x7fELF" + b"A" * 4096
    yield "I24-pax-1GiB", REFUSE, raw(b"PaxHeaders/x", size=b"%011o" % (1 << 30), typeflag=b"x", data=b"9" * 4096)
    yield "I24-pax-2MiB", REFUSE, pax(comment=b"A" * (2 << 20)) + raw(b"a") + END
    yield "I24-longname-2MiB", REFUSE, raw(b"././@LongLink", size=b"%011o" % (2 << 20), typeflag=b"L",
                                           data=b"a" * (2 << 20)) + raw(b"a") + END
    yield "I24-pax-nested", EITHER, pax(path="a") * 3000 + raw(b"b") + END
    yield "I24-longname-nested", EITHER, raw(b"././@LongLink", size=b"%011o" % 4, typeflag=b"L",
                                             data=b"abc\0") * 3000 + raw(b"b") + END
    yield "I24-600-dirs", REFUSE, pax(path="d/" * 600 + "f") + raw(b"b") + END
    yield "I24-path-5000", REFUSE, pax(path="/".join(["e" * 200] * 25)) + raw(b"b") + END
    yield "I24-name-300", REFUSE, pax(path="n" * 300) + raw(b"b") + END
    yield "I24-control-bytes", TAKE, tar(f("a\x1b]0;pwn\x07\n\r"))
    yield "I24-bad-utf8", TAKE, raw(b"a\xff\xfe\x80") + END
    yield "I24-symlink-target-5000", REFUSE, pax(linkpath="t" * 5000) + raw(b"l", typeflag=b"2") + END
    yield "I24-unknown-type", EITHER, raw(b"a", typeflag=b"Q") + END
    yield "I24-mtime-huge", TAKE, raw(b"a", mtime=b"\x80\0\0\0\x7f" + b"\xff" * 7) + END
    yield "I24-mtime-pax-garbage", EITHER, pax(mtime="9" * 300) + raw(b"a") + END
    yield "I11-file-dir-symlink-file", EITHER, tar(f("a"), d("a"), f("a/1"), s("a", v), f("a/pwn"), f("a"), d("a"), f("a/2"))
    yield "I11-symlink-to-own-dir", EITHER, tar(d("real"), s("l", "real"), f("l/in"), s("real", v), f("l/pwn"))
    yield "I09-hardlink-then-chmod", EITHER, tar(s("a", v + "/secret"), h("b", "a"), f("b", mode=0o6777), h("c", "b"))
    yield "I14-gnu-and-pax-names", EITHER, (raw(b"././@LongLink", size=b"%011o" % len(long_name), typeflag=b"L", data=long_name)
                                           + pax(path="fine") + raw(b"ok", size=b"%011o" % 6, data=PWN) + END)
    yield "I16-nul-in-gnu-longname", EITHER, (raw(b"././@LongLink", size=b"%011o" % 40, typeflag=b"L",
                                                 data=b"ok\0" + b"../" * 12 + b"x") + raw(b"q") + END)
    yield "I16-nul-in-linkpath", EITHER, pax(linkpath=b"ok\0" + v.encode()) + raw(b"l", typeflag=b"2") + END
    yield "I20-case", TAKE, tar(d("Etc"), s("etc", v), f("Etc/pwn"), f("ETC"))
    yield "I20-unicode-forms", TAKE, tar(f("caf\u00e9"), f("cafe\u0301"), f("a\u202egnp.sh"), f("\u2024\u2024"), f("\uff0e\uff0e"))
    yield "I20-fullwidth-slash", TAKE, tar(f("\uff0e\uff0e\uff0f\uff0e\uff0e\uff0fpwn"), f("..\u2215..\u2215pwn"))
    yield "I20-dots-and-backslashes", TAKE, tar(f("...", b""), f(". .", b""), f("..\\..\\pwn"), f("c:\\pwn"))
    yield "I21-opaque-then-more", TAKE, tar(d("q"), f("q/a"), f("q/.wh..wh..opq", b""), f("q/b"))
    yield "I21-opaque-of-the-root", EITHER, tar(f(".wh..wh..opq", b""), f("a"))
    yield "I21-whiteout-of-parents", EITHER, tar(f("a/b/c"), f("a/.wh.b", b""), f(".wh.a", b""), f("a/b/d"))
    yield "I21-whiteout-with-content", EITHER, tar(f(".wh.base", PWN * 1000))
    yield "I21-whiteout-long", EITHER, pax(path=".wh." + "w" * 251) + raw(b"x") + END
    yield "I21-whiteout-hardlink", EITHER, tar(f("a"), h(".wh.base", "a"))
    yield "I22-hardlink-to-device", EITHER, tar(n("mem", CHR, devmajor=1, devminor=1), h("l", "mem"))
    yield "I22-device-as-parent", EITHER, tar(n("dev", BLK, devmajor=8, devminor=0), f("dev/pwn"))
    yield "I22-device-numbers-huge", TAKE, raw(b"big", typeflag=b"3", magic=b"ustar  \0") + END
    yield "I23-xattr-flood", EITHER, pax(**{f"SCHILY__xattr__user__k{i}": "v" * 20 for i in range(8000)}) + raw(b"a") + END
    yield "I23-xattr-large", EITHER, pax(SCHILY__xattr__user__k="v" * 900000) + raw(b"a") + END
    yield "I23-xattr-libarchive", TAKE, pax(LIBARCHIVE__xattr__trusted__overlay__redirect="L2V0Yw==") + raw(b"a") + END
    yield "I24-longname-1MiB", REFUSE, raw(b"././@LongLink", size=b"%011o" % ((1 << 20) - 1), typeflag=b"L",
                                           data=b"a" * ((1 << 20) - 1)) + raw(b"a") + END
    yield "I24-sparse-old-gnu", EITHER, raw(b"s", typeflag=b"S", size=b"%011o" % 0, magic=b"ustar  \0") + END
    yield "I24-sparse-map-flood", REFUSE, (pax(GNU__sparse__major="1", GNU__sparse__minor="0", GNU__sparse__name="s",
                                              GNU__sparse__realsize=str(1 << 30))
                                          + raw(b"x", size=b"%011o" % (512 * 64), data=b"99999999\n" * 3640) + END)
    yield "I24-mtime-negative", TAKE, raw(b"a", mtime=b"\xff" * 12) + pax(mtime="-99999999999.5") + raw(b"b") + END
    yield "I24-global-pax", EITHER, raw(b"g", typeflag=b"g", size=b"%011o" % 21, data=b"21 path=../../../pwn\n") + raw(b"a") + END
    yield "I24-entry-after-end", TAKE, raw(b"a") + END + raw(b"b")[:100]
    yield "I31-uid-overflow", TAKE, raw(b"a", uid=b"\x80\0\0\0\xff\xff\xff\xff", mode=b"0006755") + END
    yield "I31-uid-2^32", TAKE, pax(uid=str(1 << 32), gid=str(1 << 32)) + raw(b"a", mode=b"0006755") + END
    yield "I31-uid-negative", REFUSE, raw(b"a", uid=b"\xff" * 8) + END
    yield "I31-root-mode-0", TAKE, tar(d("./", mode=0), f("a"))
    yield "I31-setuid", TAKE, tar(f("su", mode=0o6755))


def seal(path):
    out = hashlib.sha256()
    for base, dirs, files in os.walk(path):
        for name in sorted(dirs + files) + ["."]:
            p = os.path.join(base, name)
            st = os.lstat(p)
            out.update(repr((p, st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_size, st.st_ino,
                             st.st_mtime_ns, os.listxattr(p, follow_symlinks=False))).encode())
            if stat.S_ISREG(st.st_mode):
                out.update(open(p, "rb").read())
    return out.hexdigest()


def check_tree(name, layers, secret_ino, opaque_ok=False):
    for base, dirs, files in os.walk(layers):
        for entry in dirs + files:
            p = os.path.join(base, entry)
            st = os.lstat(p)
            assert not stat.S_ISBLK(st.st_mode), f"{name}: block device {p}"
            assert not (stat.S_ISCHR(st.st_mode) and st.st_rdev), f"{name}: device {p}"
            assert not stat.S_ISSOCK(st.st_mode), f"{name}: socket {p}"
            assert st.st_ino != secret_ino, f"{name}: {p} is the secret"
            assert st.st_uid <= 65535 and st.st_gid <= 65535, f"{name}: owner of {p}"
            for key in os.listxattr(p, follow_symlinks=False):
                fine = key.startswith("user.") and not key.startswith("user.overlay.")
                fine = fine or (opaque_ok and key == "trusted.overlay.opaque")
                assert fine, f"{name}: attribute {key} on {p}"


def measured(argv):
    """(exit status, stderr, peak KiB)"""
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    err = p.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    return p.returncode, err, usage.ru_maxrss


def try_layer(place, name, want, layer, compress="gzip", prepared=None):
    """One archive: returns what went wrong, or None."""
    victim = place / "victim"
    layout = oci.Layout(place / f"oci-{name}")
    if prepared:
        base, base_id = layout.layer(tar(d("./"), f("base", b"base\n")))
        os.rename(prepared[0], os.path.join(layout.path, "blobs/sha256", prepared[1][7:]))
        m = layout.manifest(layout.config([base_id, prepared[3]]), [base, {
            "mediaType": prepared[4], "digest": prepared[1], "size": prepared[2]}])
        layout.index(layout.desc(json.dumps(m).encode(), oci.T_MANIFEST))
    else:
        layout.image([tar(d("./"), f("base", b"base\n")), layer], compress=compress)
    before = seal(victim)
    secret = os.stat(victim + "/secret").st_ino
    code, err, rss = measured([oci.BERTH_IMAGE, "--store", place.store, "import", "--json", layout.path,
                               "evil:" + name.replace("^", "").replace(" ", "")])
    assert seal(victim) == before, f"{name}: the victim changed"
    assert code in (0, 125), f"{name}: status {code}: {err}"
    assert (code == 0) == (want == TAKE) or want == EITHER, f"{name}: status {code}, wanted to {want}: {err}"
    assert rss < RSS_KIB, f"{name}: {rss} KiB"
    assert not os.listdir(place.store + "/tmp"), f"{name}: left {os.listdir(place.store + '/tmp')}"
    if code:
        assert "internal" not in err, f"{name}: {err}"
    check_tree(name, place.store + "/layers", secret, opaque_ok="I21-whiteout-of-own-dir" in place.done)
    place.done.add(name)


def make_victim(place):
    os.mkdir(place / "victim")
    with open(place / "victim" + "/secret", "wb") as out:
        out.write(b"secret\n")
    os.setxattr(place / "victim", "user.mark", b"1")
    place.done = {"I21-whiteout-of-own-dir"}


ROWS = {"I01-I20": range(1, 21), "I21": [21], "I22": [22], "I23": [23], "I24": [24], "I31": [31]}


def run_rows(row):
    """All archives of one row of the table of threats."""
    with oci.Place() as place:
        make_victim(place)
        count, wrong = 0, []
        for name, want, data in cases(place / "victim"):
            if int(name[1:3]) not in ROWS[row]:
                continue
            count += 1
            try:
                try_layer(place, name, want, data, compress=KINDS[count % len(KINDS)])
            except AssertionError as e:
                wrong.append(str(e))
        assert not wrong, "\n".join(wrong)
        assert count, row
        out = place.ok("fsck")
        assert " 0 problems" in out, out


def test_I01_to_I20_nothing_leaves_the_layer():
    run_rows("I01-I20")


def test_I21_whiteouts_name_one_thing_of_their_directory():
    run_rows("I21")


def test_I22_no_devices():
    run_rows("I22")


def test_I23_no_attributes_but_the_users():
    run_rows("I23")


def test_I24_sizes_names_and_headers_are_bounded():
    run_rows("I24")


def test_I31_owners_and_modes_are_the_sandboxes():
    run_rows("I31")


for row_test in (test_I01_to_I20_nothing_leaves_the_layer, test_I24_sizes_names_and_headers_are_bounded):
    row_test.deadline = 300


def test_the_corpus_is_whole():
    names = [name for name, _, _ in cases("/victim")]
    assert len(names) >= 44 and {int(n[1:3]) for n in names} == {n for r in ROWS.values() for n in r}, names


def test_hostile_archives_as_root_file_systems():
    """The same archives on stdin, as tars of a whole root file system."""
    with oci.Place() as place:
        make_victim(place)
        secret = os.stat(place / "victim" + "/secret").st_ino
        for i, (name, _, data) in enumerate(cases(place / "victim")):
            before = seal(place / "victim")
            p = place.run("import", "-q", "-", f"r:{i}", input=data)
            assert p.returncode in (0, 125), f"{name}: {p.returncode} {p.stderr}"
            assert seal(place / "victim") == before, f"{name}: the victim changed"
        check_tree("all", place.store + "/layers", secret)


test_hostile_archives_as_root_file_systems.deadline = 300


# ---- bombs, which are made without holding them in memory -------------------

def stream_blob(path, chunks, compressor, finish):
    """Writes a compressed blob; returns (path, digest, size, diff id)."""
    inner, outer, size = hashlib.sha256(), hashlib.sha256(), 0
    with open(path, "wb") as out:
        for c in chunks:
            inner.update(c)
            z = compressor(c)
            outer.update(z)
            size += len(z)
            out.write(z)
        z = finish()
        outer.update(z)
        size += len(z)
        out.write(z)
    return path, "sha256:" + outer.hexdigest(), size, "sha256:" + inner.hexdigest()


def big_file(mib):
    yield raw(b"big", size=b"%011o" % (mib << 20))
    zeros = b"\0" * (1 << 20)
    for _ in range(mib):
        yield zeros
    yield END


@b.long_proof("compresses 2 GiB")
def test_gzip_bomb_is_stopped():
    with oci.Place() as place:
        make_victim(place)
        z = zlib.compressobj(9, zlib.DEFLATED, 31)
        blob = stream_blob(place / "bomb", big_file(2048), z.compress, z.flush)
        try_layer(place, "gzip-bomb", REFUSE, None, prepared=blob + (oci.T_LAYER + "+gzip",))


def need_zstd():
    if "zstd" not in KINDS:
        raise unittest.SkipTest("zstd is not installed")


def test_zstd_bomb_and_window_are_stopped():
    need_zstd()
    with oci.Place() as place:
        make_victim(place)
        for name, args in (("zstd-bomb", ["-19"]), ("zstd-window", ["--ultra", "-22", "--long=31"])):
            src, dst = place / "src", place / "dst"
            with open(src, "wb") as out:
                for c in big_file(300):
                    out.write(c)
            subprocess.run(["zstd", "-q", "-f", "-T2"] + args + [src, "-o", dst], check=True)
            data = open(dst, "rb").read()
            inner = hashlib.sha256()
            with open(src, "rb") as f_in:
                for c in iter(lambda: f_in.read(1 << 20), b""):
                    inner.update(c)
            blob = (dst, oci.digest(data), len(data), "sha256:" + inner.hexdigest(), oci.T_LAYER + "+zstd")
            try_layer(place, name, REFUSE, None, prepared=blob)


test_zstd_bomb_and_window_are_stopped.deadline = 120


def test_many_entries_stay_small_in_memory():
    with oci.Place() as place:
        make_victim(place)
        z = zlib.compressobj(1, zlib.DEFLATED, 31)

        def entries():
            for i in range(100):
                yield b"".join(raw(b"d%06d/" % (i * 1000 + j), typeflag=b"5", mode=b"0000755")
                               for j in range(1000))
            yield END
        blob = stream_blob(place / "many", entries(), z.compress, z.flush)
        # ext4 is slow to make directories where many were removed a minute ago: not what is measured
        os.mkdir(place.store)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700", "none", place.store], check=True)
        try:
            try_layer(place, "many", TAKE, None, prepared=blob + (oci.T_LAYER + "+gzip",))
        finally:
            subprocess.run(["umount", place.store], check=True)


def test_malformed_compression_is_refused():
    need_zstd()
    with oci.Place() as place:
        make_victim(place)
        good = tar(f("a", b"x" * 100000))
        z = gzip.compress(good, 6, mtime=0)
        zst = subprocess.run(["zstd", "-q", "-c"], input=good, capture_output=True, check=True).stdout
        wrong = []
        for name, data, kind in (
                ("gzip-truncated", z[:-20], "+gzip"), ("gzip-trailing", z + b"garbage", "+gzip"),
                ("gzip-crc", z[:-8] + b"\0\0\0\0" + z[-4:], "+gzip"), ("gzip-empty", b"", "+gzip"),
                ("gzip-is-tar", good, "+gzip"), ("tar-is-gzip", z, ""), ("zstd-is-gzip", z, "+zstd"),
                ("zstd-truncated", zst[:-10], "+zstd"), ("zstd-trailing", zst + b"garbage", "+zstd"),
                ("gzip-flip", z[:40] + bytes([z[40] ^ 1]) + z[41:], "+gzip")):
            path = place / name
            with open(path, "wb") as out:
                out.write(data)
            try:
                try_layer(place, name, REFUSE, None,
                          prepared=(path, oci.digest(data), len(data), oci.digest(good), oci.T_LAYER + kind))
            except AssertionError as e:
                wrong.append(str(e))
        assert not wrong, "\n".join(wrong)


def test_two_gzip_members_are_one_layer():
    """pgzip and estargz write several members; all of them count."""
    with oci.Place() as place:
        make_victim(place)
        good = tar(f("a", os.urandom(3000)), f("b"))
        z = gzip.compress(good[:700], 6, mtime=0) + gzip.compress(good[700:], 6, mtime=0)
        path = place / "members"
        with open(path, "wb") as out:
            out.write(z)
        try_layer(place, "members", TAKE, None,
                  prepared=(path, oci.digest(z), len(z), oci.digest(good), oci.T_LAYER + "+gzip"))


if __name__ == "__main__":
    for key, value in list(globals().items()):
        if key.startswith("test_"):
            value()
            print("ok", key)
