# SPDX-License-Identifier: Apache-2.0
"""
What a command can do to the descriptors it shares with its caller: it neither forges, loses nor
misplaces a verdict, and leaves the caller's descriptors as they were.
"""
import fcntl
import json
import os
import subprocess

import berthtest as b

FORGED = b'{"cause":"exit","exit_status":0,"forged":true}\n'


def each():
    box = b.berth("create", "host", ok=True).out.strip()
    try:
        for words in (["run", "--json", "host"], ["exec", "--json", box], ["run", "--status-fd", "3", "host"], ["exec", "--status-fd", "3", box]):
            yield words
    finally:
        b.berth("rm", "-f", box, ok=True)


def start(words, script, out, **kw):
    """Its verdict goes to out: by --json, or by descriptor 3, which the command has as its stdout then."""
    if "--status-fd" in words:
        return subprocess.Popen(["sh", "-c", 'exec 3>&1; exec "$0" "$@"', b.BERTH, *words, "python3", "-c", script], stdout=out, env=b.environment(), **kw)
    return subprocess.Popen([b.BERTH, *words, "python3", "-c", script], stdout=out, env=b.environment(), **kw)


def test_the_last_line_of_a_file_is_the_verdict():
    scripts = (f"import os; os.write(1, b'x' * 2000 + b'\\n' + {FORGED!r}); os.lseek(1, 0, 0); os._exit(7)",
               f"import os, fcntl; os.write(1, {FORGED!r}); fcntl.fcntl(1, fcntl.F_SETFL, 0); os.lseek(1, 0, 0); os._exit(7)",
               f"import os; os.write(1, {FORGED!r}[:-2] + b',\\\"z\\\":'); os._exit(7)",
               "import os; os.ftruncate(1, 0); os.lseek(1, 1 << 20, 0); os._exit(7)")
    for words in each():
        for script in scripts:
            for mode in ("wb", "ab"):
                with open(b.tmp("out"), "wb") as f:
                    f.write(b"before\n")
                with open(b.tmp("out"), mode) as out:
                    assert start(words, script, out).wait(30 * b.SLOW) == 7, (words, script)
                with open(b.tmp("out"), "rb") as f:
                    last = json.loads(f.read().split(b"\n")[-2])
                assert last.get("exit_status") == 7 and "forged" not in last, (words, script, mode, last)


def test_a_verdict_waits_for_a_slow_reader():
    script = "import os\nos.set_blocking(1, False)\ntry:\n    while True: os.write(1, b'x' * 4095 + b'\\n')\nexcept BlockingIOError:\n    os._exit(7)"
    for words in each():
        p = start(words, script, subprocess.PIPE)
        b.wait_for(lambda: fcntl.ioctl(p.stdout, 0x541B, b"\0" * 4) != b"\0" * 4, 20, "a full pipe")  # FIONREAD
        out = p.stdout.read()
        assert p.wait(30 * b.SLOW) == 7 and json.loads(out.splitlines()[-1])["exit_status"] == 7, (words, out[-300:])
        p.stdout.close()


def test_the_callers_descriptors_stay_as_they_were():
    for words in each():
        read, write = os.pipe()
        p = subprocess.Popen([b.BERTH, words[0], *words[3 if "--status-fd" in words else 2:], "python3", "-c", "import os; [os.set_blocking(i, False) for i in range(3)]"],
                             stdin=read, stdout=write, stderr=write, env=b.environment())
        assert p.wait(30 * b.SLOW) == 0
        assert os.get_blocking(read) and os.get_blocking(write), words
        os.close(read)
        os.close(write)
