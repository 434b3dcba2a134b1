# SPDX-License-Identifier: Apache-2.0
"""Why a command ended, told to people: on a terminal's stderr, with the option that allows more; to programs nothing more."""
import os
import pty
import subprocess

import berthtest as b

COST = 8
EATER = "x = bytearray(200 << 20)"


def told(*args, code=None, stdin=""):
    """Runs berth with a terminal as stderr, and returns what came out of it."""
    master, slave = pty.openpty()
    p = subprocess.Popen([b.BERTH, *args], env=b.environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    p.communicate(stdin.encode(), timeout=60)
    text = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the last writer has closed it
            break
        if not piece:
            break
        text += piece
    os.close(master)
    assert code is None or p.returncode == code, (p.returncode, text)
    return text.decode().replace("\r\n", "\n")


def test_a_run_says_which_limit_ended_it():
    assert "berth run: killed: the memory limit was reached (64 MiB in use); hint: --memory\n" in told(
        "run", "--memory", "64m", "host", "python3", "-c", EATER, code=137)
    seen = told("run", "--timeout", "300ms", "--grace", "0", "host", "sleep", "60", code=124)
    assert "berth run: killed: its time limit was reached (after 0." in seen and seen.endswith("; hint: --timeout\n"), seen
    seen = told("run", "--disk", "4m", "host", "sh", "-c", "head -c 9m /dev/zero > /srv/a", code=1)
    assert "berth run: failed with 1: the disk of the sandbox is full; hint: --disk\n" in seen, seen
    assert "berth run: ended by SIGSEGV\n" in told("run", "host", "python3", "-c", "import os; os.kill(os.getpid(), 11)", code=139)


def test_nothing_is_added_to_an_end_by_itself_nor_for_programs():
    assert told("run", "host", "sh", "-c", "exit 3", code=3) == ""
    limited = ["run", "--memory", "64m"]
    assert b.berth(*limited, "host", "python3", "-c", EATER, ok=137).err == ""
    assert told(*limited, "--json", "host", "python3", "-c", EATER, code=137) == ""


def test_a_sandbox_that_lives_names_update():
    b.berth("create", "--name", "reasons", "--memory", "64m", "host", ok=True)
    try:
        words = "the memory limit was reached"
        assert words in told("exec", "reasons", "python3", "-c", EATER, code=137)
        assert "hint: berth update --memory\n" in told("exec", "reasons", "python3", "-c", EATER)
        assert "berth sh: killed: its time limit was reached" in told(
            "sh", "--timeout", "300ms", "reasons", "sleep 60", code=124)
        seen = told("code", "--lang", "python", "reasons", stdin=EATER)
        assert "berth code: " in seen and words in seen, seen
        assert told("exec", "reasons", "true", code=0) == ""
    finally:
        b.berth("rm", "--force", "reasons", ok=True)
