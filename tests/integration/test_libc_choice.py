# SPDX-License-Identifier: Apache-2.0
"""
Which C library the build links berth with (base/musl/choose): musl as long as libjansson.a and libseccomp.a, which Debian
compiled for glibc, need nothing that differs.
"""
import os
import re
import shutil
import subprocess

import berthtest as b

COST = 30
TOOLS = {"CC": "gcc", "MUSL_CC": "musl-gcc", "NM": "nm", "MUSL_LIB": f"/usr/lib/{os.uname().machine}-linux-musl"}


def need_tools():
    if not shutil.which("musl-gcc") or os.path.basename(b.BUILD) != "build":
        raise b.skip("needs musl-gcc, and a build with it")


class Place:
    """A copy of base/musl, and a compiler that finds the archives of this place before Debian's."""

    def __init__(self, name):
        self.top = b.tmpdir(name)
        shutil.copytree(os.path.join(b.TOP, "base/musl"), self.top + "/base/musl")
        self.cc = b.write(self.top + "/cc", '#!/bin/sh\ncase $1 in -print-file-name=*) f=' + self.top + '/${1#*=}; '
                          '[ -f "$f" ] && echo "$f" && exit 0 ;; esac\nexec gcc "$@"\n', 0o755)

    def archive(self, library):
        """A copy of Debian's archive in this place."""
        found = subprocess.run(["gcc", f"-print-file-name={library}.a"], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
        return shutil.copy(found, f"{self.top}/{library}.a")

    def choose(self, *args):
        r = subprocess.run(["base/musl/choose", "out", *args], cwd=self.top, env={**os.environ, **TOOLS, "CC": self.cc},
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * b.SLOW)
        why = ""
        if r.stdout:
            with open(self.top + "/out/gen/libc.h") as f:
                told = dict(re.findall(r'#define (\w+) "(.*)"', f.read()))
            assert told["BERTH_LIBC"] == r.stdout.strip(), (told, r)
            why = told["BERTH_LIBC_WHY"]
        return r.stdout.strip(), why, r


def test_debians_libraries_fit_musl():
    need_tools()
    p = Place("debian")
    assert p.choose()[:2] == ("musl", ""), p.choose()
    key = os.stat(p.top + "/out/gen/libc.key").st_mtime_ns
    assert p.choose()[:2] == ("musl", "") and os.stat(p.top + "/out/gen/libc.key").st_mtime_ns == key, "looked again"


def test_a_library_that_needs_an_unknown_symbol_is_linked_with_glibc():
    need_tools()
    p = Place("unknown")
    subprocess.run(["objcopy", "--redefine-sym", "strlen=__ctype_b_loc", p.archive("libjansson")], check=True)
    found, why, r = p.choose()
    assert found == "glibc" and "libjansson.a needs __ctype_b_loc" in why and "__ctype_b_loc" in r.stderr, (found, why, r)
    # asked for, it is an error
    found, _, r = p.choose("musl")
    assert found == "" and r.returncode == 1 and "__ctype_b_loc" in r.stderr, r
    assert p.choose("glibc", "because")[:2] == ("glibc", "because")
    # what was found once does not stay: Debian's own archive comes back
    os.unlink(p.top + "/libjansson.a")
    assert p.choose()[0] == "musl"


def test_a_library_whose_symbols_are_resolved_at_the_start_is_linked_with_glibc():
    need_tools()
    p = Place("ifunc")
    source = b.write(p.top + "/i.c", "static int one(void) { return 1; }\nstatic int (*pick(void))(void) { return one; }\n"
                     'int chosen(void) __attribute__((ifunc("pick")));\n')
    subprocess.run(["gcc", "-c", "-o", p.top + "/i.o", source], check=True)
    subprocess.run(["ar", "q", p.archive("libseccomp"), p.top + "/i.o"], check=True)
    found, why, r = p.choose()
    assert found == "glibc" and "libseccomp.a needs chosen (IFUNC)" in why, (found, why, r)


def test_a_library_that_does_otherwise_with_musl_is_linked_with_glibc():
    need_tools()
    p = Place("differs")
    with open(p.top + "/base/musl/foreign.c") as f:
        text = f.read()
    changed = text.replace("return vsnprintf(d, n, format, ap);", "return n < 3 ? 0 : vsnprintf(d, n - 2, format, ap);")
    assert changed != text
    b.write(p.top + "/base/musl/foreign.c", changed)
    found, why, r = p.choose()
    assert found == "glibc" and "of the trial is other with musl" in why, (found, why, r)
    # a stand-in that is missing
    b.write(p.top + "/base/musl/foreign.c", text.replace("__vsnprintf_chk", "__vsnprintf_other"))
    found, why, r = p.choose()
    assert found == "glibc" and "does not link" in why and "__vsnprintf_chk" in why, (found, why, r)


@b.deadline(300)
def test_berth_linked_with_glibc_runs_and_says_why():
    need_tools()
    build = b.tmpdir("build-glibc")
    parts = [n for n in os.listdir(b.BUILD) if n in ("base", "cli", "gen", "manager", "rootfs", "runtime", "seccomp") or
             n.startswith(("lib", "seccomp-gen", "berth-init", "berth-fileop"))]
    subprocess.run(["cp", "-a", *parts, build], cwd=b.BUILD, check=True)
    # what says the answer was made with another one
    for name in ("gen/libc.h", "gen/libc.key", "cli/system/cmd_doctor.o", "cli/programs/berth.o", "libberth-cli.a"):
        if os.path.exists(f"{build}/{name}"):
            os.unlink(f"{build}/{name}")
    subprocess.run(["make", "-j2", f"BUILD={build}", "LIBC=glibc", f"{build}/berth"], cwd=b.TOP, check=True, stdout=subprocess.DEVNULL,
                   env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")})

    def glibc(*args):
        return subprocess.run([build + "/berth", *args], env=b.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=120 * b.SLOW)
    assert glibc("version").stdout.endswith("C library: glibc: LIBC=glibc was given to make\n")
    assert glibc("run", "host", "echo", "in a sandbox").stdout == "in a sandbox\n"
    said = glibc("doctor").stdout
    assert re.search(r"^limited +C library +glibc: LIBC=glibc was given to make$", said, re.M) and "berth run works here" in said, said
