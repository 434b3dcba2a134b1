# SPDX-License-Identifier: Apache-2.0
"""
A kernel without some of the system calls: by a filter around berth that answers ENOSYS
(tests/fault/oldkernel.c).  Where a call is needed, berth refuses in one line that names the
step and the remedy, and leaves nothing; where it is not, all works.  Never a weaker sandbox
that does not say so.

`make OLDKERNEL=1 check` runs the whole suite without the optional ones.
"""
import os
import subprocess

import berthtest as b

COST = 20
TOOL = os.path.join(b.BUILD, "oldkernel")


def calls(kind):
    lines = subprocess.run([TOOL, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return [name for name, k in (line.split() for line in lines) if k == kind]


def without(call):
    return [TOOL, call]


def test_the_filter_hides_a_call():
    r = subprocess.run([*without("memfd_create"), "python3", "-c", "import os; os.memfd_create('x')"], stderr=subprocess.PIPE, text=True)
    assert r.returncode == 1 and "Function not implemented" in r.stderr, r


def test_without_a_needed_call_run_is_refused():
    for call in calls("required"):
        r = b.run("host", "true", prefix=without(call))
        b.one_line_error(r, 125, "Function not implemented", "hint:", "berth doctor")


def test_without_a_needed_call_create_is_refused():
    for call in calls("required"):
        r = b.berth("create", "host", prefix=without(call))
        b.one_line_error(r, 125, "Function not implemented", "hint:", "berth doctor")
        assert b.berth("ps", "-a", "-q", ok=True).out == "", call


def test_without_an_optional_call_run_works():
    for call in calls("optional"):
        r = b.run("host", "sh", "-c", "echo fine; exit 3", prefix=without(call))
        b.expect_code(r, 3)
        b.expect(r.out == "fine\n", r, f"the output without {call}")


def test_without_all_optional_calls_a_sandbox_lives():
    r = b.berth("create", "host", ok=True, prefix=without("optional"))
    name = r.out.strip()
    try:
        r = b.berth("exec", name, "sh", "-c", "echo fine; exit 3", prefix=without("optional"))
        b.expect_code(r, 3)
        b.expect(r.out == "fine\n", r, "the output")
        r = b.berth("exec", "--timeout", "0.3", name, "sleep", "60", prefix=without("optional"))
        b.expect_code(r, 124)
        r = b.berth("sh", name, "--", "cd /tmp; false; pwd", prefix=without("optional"), ok=0)
        b.expect(r.out == "/tmp\n", r, "the session's output")
        r = b.berth("file", "write", name, "/tmp/f", input="content", prefix=without("optional"), ok=0)
        r = b.berth("file", "read", name, "/tmp/f", prefix=without("optional"), ok=0)
        b.expect(r.out == "content", r, "the file")
    finally:
        b.berth("rm", "-f", name, ok=True, prefix=without("optional"))


def test_without_an_optional_call_the_registry_sees_the_living():
    """What looks for a file must not take a call that is not there for a file that is not there."""
    first, second = (b.berth("create", "--name", name, "host", ok=True).out.strip() for name in ("one", "two"))
    full = {"BERTH_CONFIG": b.write(b.tmp("full.toml"), "[manager]\nmax_sandboxes = 2\n", 0o600)}
    try:
        for call in calls("optional"):
            r = b.berth("ps", "-q", prefix=without(call), ok=True)
            b.expect(sorted(r.out.split()) == sorted([first, second]), r, f"the list without {call}")
            b.one_line_error(b.berth("rename", "one", "two", prefix=without(call)), 125, "taken")
            b.one_line_error(b.berth("create", "host", prefix=without(call), env=full), 125, "2 sandboxes")
            b.berth("gc", prefix=without(call), ok=True)
            b.expect(b.berth("exec", "one", "echo", "alive", ok=True).out == "alive\n", r, f"after a gc without {call}")
    finally:
        b.berth("rm", "-f", first, second, ok=True)


def test_what_is_done_without_is_told():
    r = b.run("--attest", "host", "true", prefix=without("landlock_create_ruleset"))
    b.expect("landlock" in (r.out + r.err).lower(), r, "--attest says nothing of Landlock")
    full = b.run("--attest", "host", "true", ok=True)
    b.expect(r.err != full.err or r.out != full.out, r, "--attest says the same with and without Landlock")
