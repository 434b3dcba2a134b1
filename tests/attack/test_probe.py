# SPDX-License-Identifier: Apache-2.0
"""T1: the 147 forbidden things of probe.c, in a default sandbox and (to see that it can tell) outside one.

Attacks S1, S3, S4, S6, S9 of SECURITY.md.
"""
import contextlib
import os
import re
import shutil
import subprocess

import berthtest as b

COST = 40
PROBE = os.path.join(b.BUILD, "probe")
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")
WANTED = 144
# What may stand open in a default sandbox, and why.
KNOWN_OPEN = {
    "C12": "CAP_DAC_OVERRIDE is one of the eight, over the sandbox's own ids",
}


def probe_is_built():
    assert os.access(PROBE, os.X_OK), f"{PROBE} is not there: `make attack` builds it"


def host_namespaces():
    probe_is_built()
    args = []
    for n in NAMESPACES:
        args += ["--host", f"{n}={os.stat(f'/proc/self/ns/{n}').st_ino}"]
    return args


def parse(out):
    """{id: (name, verdict, detail)} and (blocked, applicable)."""
    rows = {}
    for line in out.splitlines():
        m = re.match(r"([A-Z]\d\d) (.*?) (blocked|OPEN|n/a) (.*)$", line)
        if m:
            rows[m.group(1)] = m.groups()[1:]
    score = re.search(r"^score (\d+)/(\d+)$", out, re.M)
    assert score, f"no score in {out!r}"
    return rows, int(score.group(1)), int(score.group(2))


def in_sandbox(*options, ids=(), ok=True):
    # a copy with modes that the sandbox's root (another uid of the host) can use
    place = b.tmp("probe-bin")
    if not os.path.exists(place):
        b.tmpdir("probe-bin")
        shutil.copy(PROBE, place + "/probe")
        os.chmod(place + "/probe", 0o755)
    return b.run(*options, "--volume", f"{place}:/probe-bin", "host", "/probe-bin/probe",
                 *host_namespaces(), *ids, timeout=120, ok=ok)


def opened(rows, prefix=""):
    return [f"{i} {r[0]}: {r[2]}" for i, r in rows.items() if r[1] == "OPEN" and i.startswith(prefix)]


def kernel_threads_are_seen():
    with contextlib.suppress(FileNotFoundError), open("/proc/2/comm") as f:
        return f.read() == "kthreadd\n"
    return False


def test_the_probe_finds_a_bare_host_open():
    done = subprocess.run(["unshare", "-m", PROBE, *host_namespaces()], capture_output=True, text=True, timeout=60 * b.SLOW)
    rows, blocked, applicable = parse(done.stdout)
    assert applicable >= 140, done.stdout
    assert blocked <= 40, f"score {blocked} of {applicable} on the bare host: the probe cannot tell\n{done.stdout}"
    for row in ("S01", "S06", "S09", "S15", "K01", "K03", "K15", "K25", "F01", "C01", "B01", "B02", "N08", "N10", "R02"):
        # in a pid namespace (tests/chroot/run) there are no kernel threads to see
        if row != "N10" or kernel_threads_are_seen():
            assert rows[row][1] == "OPEN", f"{row} {rows[row]} on the bare host"
    memory = subprocess.run([PROBE, "R01"], capture_output=True, text=True, timeout=60 * b.SLOW)
    assert "R01 memory is bounded OPEN" in memory.stdout, memory.stdout


def test_the_probe_finds_bubblewrap_half_open():
    done = subprocess.run(["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc",
                           "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", PROBE, "/tmp/probe", "/tmp/probe", *host_namespaces()],
                          capture_output=True, text=True, timeout=60 * b.SLOW)
    if done.returncode:
        raise b.skip(f"bwrap does not run here: {done.stderr.strip()}")
    rows, blocked, applicable = parse(done.stdout)
    assert 20 <= blocked <= 90, f"score {blocked} of {applicable} under bwrap\n{done.stdout}"
    assert rows["N03"][1] == "blocked" and rows["S06"][1] == "OPEN" and rows["K01"][1] == "OPEN", done.stdout


@b.deadline(120)
def test_a_default_sandbox_blocks_144_of_147():
    result = in_sandbox()
    rows, blocked, applicable = parse(result.out)
    # R01 kills its sandbox when it is blocked, so it has one of its own
    memory = in_sandbox(ids=["R01"], ok=None)
    if memory.code == 137:
        blocked, applicable = blocked + 1, applicable + 1
    else:
        rows["R01"] = ("memory is bounded", "OPEN", f"exit status {memory.code}: {memory.out!r}")
        applicable += 1
    left = opened(rows)
    said = f"score {blocked} of {applicable}; open:\n  " + "\n  ".join(left)
    b.expect(applicable >= 145, result, said)
    b.expect(blocked >= WANTED - (147 - applicable), result, said)
    for row in left:
        b.expect(row[0] == "X" or row[:3] in KNOWN_OPEN, result, f"not known to be open: {row}\n{said}")
    extra = opened(rows, "X")
    b.expect(not extra, result, "extra rows open:\n  " + "\n  ".join(extra))


def test_the_strict_profile_blocks_no_less():
    rows, _, _ = parse(in_sandbox("--seccomp", "strict").out)
    left = [row for row in opened(rows) if row[:3] not in KNOWN_OPEN]
    assert not left, left


def test_the_dev_profile_opens_tracing_alone():
    rows, _, _ = parse(in_sandbox("--seccomp", "dev").out)
    left = {row[:3] for row in opened(rows)} - set(KNOWN_OPEN)
    assert left == {"S22", "S23", "S24", "S25", "S27"}, opened(rows)


def test_unconfined_is_open_again_but_in_its_namespaces():
    """The filter can be told to be off, which shows that the score above is its work."""
    b.needs_the_program_itself()
    rows, _, _ = parse(in_sandbox("--seccomp", "unconfined").out)
    assert rows["B02"][1] == "OPEN" and rows["K01"][1] == "OPEN" and rows["S15"][1] == "OPEN", rows
    assert len(opened(rows, "S")) + len(opened(rows, "K")) > 40, opened(rows)
    # the second layer of K01: no user namespace even without the filter
    for row in ("S01", "S02", "S03", "S04", "X04", "X05", "X06"):
        assert rows[row][1] == "blocked", f"{row} {rows[row]} with the filter off"
    assert not opened(rows, "N") and not opened(rows, "F2"), opened(rows)


def test_capabilities_asked_for_are_the_only_more():
    rows, _, _ = parse(in_sandbox("--cap-drop", "ALL").out)
    assert not opened(rows, "C"), opened(rows, "C")
    rows, _, _ = parse(in_sandbox("--cap-add", "SYS_NICE").out)
    assert {row[:3] for row in opened(rows, "C")} == {"C12", "C14"}, opened(rows, "C")
