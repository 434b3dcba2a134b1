# SPDX-License-Identifier: Apache-2.0
"""What a service writes: all of it comes back from its log, and it costs its keeper little."""
import json
import re
import signal
import subprocess

import berthtest as b

WRITES = """
import os, sys
with os.fdopen(1, "wb") as f:
    f.write(bytes(range(256)))
    f.write("plain \\"quoted\\" back\\\\slash \\t\\b\\f\\r\\x01\\x1f\\x7f \u00e9\u20ac\U0001f600\\n".encode() * 3000)
    f.write(b"\\xff\\xfe\\x00\\xed\\xa0\\x80" * 5000)
"""
WRITTEN = bytes(range(256)) + "plain \"quoted\" back\\slash \t\b\f\r\x01\x1f\x7f \u00e9\u20ac\U0001f600\n".encode() * 3000 + \
    b"\xff\xfe\x00\xed\xa0\x80" * 5000


def of_log(box):
    """The bytes of its main command, as the journal of its output has them."""
    got = b""
    for line in b.berth("logs", "--json", box, ok=True).out.split("\n")[:-1]:
        entry = json.loads(line)
        if entry.get("source") == "main command" and "data" in entry:
            got += entry["data"].replace("\u0100", "\0").encode("latin-1") if entry.get("bytes") else entry["data"].encode()
    return got


def test_every_byte_of_a_service_comes_back_from_its_log():
    box = b.berth("create", "host", "python3", "-c", WRITES, ok=True).out.strip()
    b.berth("wait", box, timeout=60)
    got = of_log(box)
    assert got == WRITTEN, (len(got), len(WRITTEN), next((i for i, (x, y) in enumerate(zip(got, WRITTEN)) if x != y), None))
    r = subprocess.run([b.BERTH, "logs", box], env=b.environment(), stdout=subprocess.PIPE, timeout=60, check=True)
    assert r.stdout == WRITTEN
    b.berth("rm", box, ok=True)


MIB = 8


def test_much_output_costs_the_keeper_few_system_calls():
    b.needs_the_lean_program()
    box = b.berth("create", "-i", "host", "sh", "-c", f"read x; head -c {MIB}M /dev/zero | tr '\\0' x", ok=True).out.strip()
    pid = json.loads(b.berth("inspect", box, ok=True).out)["supervisor_pid"]
    log = b.tmp("strace")
    p = subprocess.Popen(["strace", "-o", log, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
    try:
        line = p.stderr.readline()
        assert "attached" in line, line
        b.berth("send", box, "main", "go\n", ok=True)
        b.berth("wait", box, ok=True, timeout=120)
    finally:
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=30)
    with open(log) as f:
        calls = re.findall(r"^(\w+)\(", f.read(), re.M)
    b.berth("rm", box, ok=True)
    print(f"{len(calls) / MIB:.0f} system calls for a MiB of output")
    assert len(calls) < 500 * MIB, {name: calls.count(name) for name in set(calls)}
