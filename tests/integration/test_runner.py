# SPDX-License-Identifier: Apache-2.0
"""The runner of these tests: what a test finds and what it may leave depends on no setting of the machine."""
import os
import subprocess
import sys

import berthtest as b
import proc

CHANGES = """
import subprocess
import proc

def test_that_changes_the_machine():
    subprocess.run({0!r}, shell=True, check=True, preexec_fn=proc.in_machine_network)

def test_that_changes_its_own():
    subprocess.run({0!r}, shell=True, check=True)
"""
SHOWS = """
def test_that_shows():
    raise AssertionError("found " + open("/proc/sys/net/ipv4/ip_forward").read())
"""


def runner(text, *args, env=None):
    """tests/run.py on a file with this text; this test's network is its machine's."""
    path = b.write(b.tmp("test_inner.py"), text)
    r = subprocess.run([sys.executable, os.path.join(b.TOP, "tests/run.py"), *args, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       env={**os.environ, "BERTH_TEST_ONCE": "1", **(env or {})}, timeout=60 * b.SLOW)
    return r.returncode, r.stdout.decode()


def test_a_test_that_changes_a_setting_of_the_machine_fails_the_run():
    for change, back, said in (
            ("echo 33 >/proc/sys/net/ipv4/tcp_fin_timeout", "echo 60 >/proc/sys/net/ipv4/tcp_fin_timeout",
             "sysctl net/ipv4/tcp_fin_timeout"),
            ("ip link add o1x type veth peer name o1y", "ip link del o1x", "/proc/net/dev"),
            ("nft add table inet o1x", "nft delete table inet o1x", "nft list tables")):
        # a test that leaves interfaces fails too: of its own it leaves what the leak check does not look for
        code, out = runner(CHANGES.format(change), "-k", "the_machine")
        subprocess.run(back, shell=True, check=True)
        assert code == 1 and "ok   " in out and "FAIL the settings of the machine" in out and said in out, out
    code, out = runner(CHANGES.format("echo 1 >/proc/sys/net/ipv4/ip_forward"), "-k", "its_own")
    assert code == 0 and "1 passed, 0 failed" in out, out


def test_a_test_finds_the_switches_of_a_bare_network_or_of_a_busy_one():
    for name, values in proc.NETWORK_SWITCHES.items():
        if os.path.exists("/proc/sys/net/" + name):
            with open("/proc/sys/net/" + name) as f:
                assert f.read().strip() == values[proc.BUSY_NETWORK], name
    for busy, value in ("0", "0"), ("1", "1"):
        code, out = runner(SHOWS, env={"BERTH_TEST_BUSYNET": busy})
        assert code == 1 and f"found {value}" in out, out
