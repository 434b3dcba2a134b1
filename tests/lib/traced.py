# SPDX-License-Identifier: Apache-2.0
"""What berthd costs in system calls: with Traced(d) as t: ...; t.calls"""
import os
import re
import signal
import subprocess

import berthtest as b

UNFINISHED = " <unfinished ...>"


class Traced:
    """
    The system calls that berthd made meanwhile: `calls` has their names. children: those of what it starts, too, for what
    starts nothing any more at the end: strace does not always let go of a process that begins.
    """

    def __init__(self, d, children=True):
        self.pid, self.log, self.children = d.p.pid, b.tmp("strace"), children

    def __enter__(self):
        os.makedirs(b.tmp(""), exist_ok=True)
        tids = [str(self.pid)] if self.children else os.listdir(f"/proc/{self.pid}/task")
        whom = ["-f"] * self.children + [word for tid in tids for word in ("-p", tid)]
        self.p = subprocess.Popen(["strace", "-s", "64", "-o", self.log, *whom], stderr=subprocess.PIPE, text=True)
        for _ in tids:
            line = self.p.stderr.readline()
            assert "attached" in line, line
        return self

    def __exit__(self, *unused):
        self.p.send_signal(signal.SIGINT)
        self.p.communicate(timeout=30 * b.SLOW)
        self.threads, begun = {}, {}
        with open(self.log, errors="replace") as f:
            for line in f:
                tid, call = line.rstrip("\n").split(None, 1)
                if call.endswith(UNFINISHED):
                    begun[tid] = call[:-len(UNFINISHED)]
                    continue
                resumed = re.match(r"<\.\.\. \w+ resumed>", call)
                whole = begun.pop(tid, "") + call[resumed.end():] if resumed else call
                self.threads.setdefault(tid, []).append(whole)
        self.calls = [m.group(1) for lines in self.threads.values() for line in lines if (m := re.match(r"(\w+)\(", line))]
        return False

    def of_thread(self, word):
        """What the thread did that read `word`, a line each."""
        found = [lines for lines in self.threads.values() if any(line.startswith("recvfrom(") and word in line for line in lines)]
        assert len(found) == 1, (word, len(found))
        return "\n".join(found[0])
