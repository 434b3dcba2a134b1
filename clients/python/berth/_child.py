# SPDX-License-Identifier: Apache-2.0
"""A child process that is written to and read from: what is needed of subprocess, which takes longer to import."""
from __future__ import annotations

import os
import threading

TYPE_CHECKING = False       # of typing, which takes longer to import than a command to run
if TYPE_CHECKING:
    from typing import Dict, List, Optional

SIGTERM, SIGPIPE, SIGXFSZ = 15, 13, 25      # Python ignores the last two, and its children should not


def above(files: List[int]) -> List[int]:
    """Copies that are no standard files, which a program that has closed its own may get."""
    import fcntl
    return [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in files]


def spawn(words: List[str], files: List[int], env: Optional[Dict[str, str]]) -> int:
    """The process, in a session of its own, with files as its standard ones.  Raises OSError."""
    variables = os.environ if env is None else env
    places = [""] if "/" in words[0] else [d + "/" for d in variables.get("PATH", os.defpath).split(":") if d]
    found: Optional[OSError] = None
    if min(files) < 3:
        copies = above(files)
        try:
            return spawn(words, copies, env)
        finally:
            for fd in copies:
                os.close(fd)
    for place in places:
        try:
            return os.posix_spawn(place + words[0], words, variables, setsid=True, setsigdef=(SIGPIPE, SIGXFSZ),
                                  file_actions=[(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(files)])
        except (FileNotFoundError, NotADirectoryError, PermissionError) as e:
            found = found if isinstance(found, PermissionError) else e
    raise found or FileNotFoundError(2, os.strerror(2))


class Child:
    def __init__(self, words: List[str], stderr: int, env: Optional[Dict[str, str]]) -> None:
        self._lock, self._code = threading.Lock(), -1
        self._ended = False
        its_in, our_in = os.pipe()
        our_out, its_out = os.pipe()
        try:
            self.pid = spawn(words, [its_in, its_out, stderr], env)
        except BaseException:
            os.close(our_in)
            os.close(our_out)
            raise
        finally:
            os.close(its_in)
            os.close(its_out)
        self.stdin, self.stdout = open(our_in, "wb"), open(our_out, "rb")

    def wait(self) -> int:
        """Its exit status, or less the signal.  Any thread may wait."""
        try:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            pass        # another thread was faster, or the program takes every child
        with self._lock:
            if not self._ended:
                self._ended = True
                try:
                    self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                except ChildProcessError:
                    pass
        return self._code

    def terminate(self) -> None:
        with self._lock:        # until it is taken, its number is no other's
            if not self._ended:
                try:
                    os.kill(self.pid, SIGTERM)
                except ProcessLookupError:
                    pass
