# SPDX-License-Identifier: Apache-2.0
"""berth on a terminal of a certain size: what it prints there, and keys that are pressed."""
import fcntl
import os
import re
import select
import struct
import termios
import time

import berthtest as b


class Screen:
    """`with Screen(80, "top") as s`: the program is ended with the block."""

    def __init__(self, columns, *args, rows=24, **kw):
        self.ours, theirs = os.openpty()
        self.columns = columns
        self.out = b""
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.process = b.start(*args, stdin=theirs, stdout=theirs, stderr=theirs, **kw)
        self.terminal = theirs

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.terminal)
        os.close(self.ours)

    def _more(self, seconds):
        if not select.select([self.ours], [], [], seconds)[0]:
            return False
        self.out += os.read(self.ours, 65536)
        return True

    def text(self):
        return self.out.decode(errors="replace").replace("\r\n", "\n")

    def frame(self, fits, seconds=30):
        """Waits for a whole screen, from the top to the erasing of its rest, that fits(); returns it as plain text."""
        end = time.monotonic() + seconds * b.SLOW
        last = ""
        while True:
            whole = self.text().split("\x1b[J")[:-1]
            last = plain(whole[-1].rsplit("\x1b[H", 1)[-1]) if whole else last
            if last and fits(last):
                return last
            assert time.monotonic() < end and self.process.poll() is None, last or self.text()
            self._more(1)

    def press(self, keys):
        os.write(self.ours, keys.encode())

    def end(self, seconds=30):
        """Waits for the end; returns (exit status, what was printed)."""
        end = time.monotonic() + seconds * b.SLOW
        while self.process.poll() is None:
            assert time.monotonic() < end, self.text()
            self._more(0.05)
        while self._more(0):
            pass
        return self.process.returncode, self.text()

    def settings_are_back(self):
        return termios.tcgetattr(self.terminal) == self.before


def plain(text):
    """Without the sequences that move the cursor or color."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def shown(columns, *args, **kw):
    with Screen(columns, *args, **kw) as s:
        return s.end()
