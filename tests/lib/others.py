# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that exist on disk only, to be many at no cost."""
import fcntl
import json
import os
import resource
import shutil

import berthtest as b


class Others:
    """
    Lasting sandboxes as they are on disk while they live, with records and names, and without processes. Commands look for
    the keepers of those whose status is "running".
    """

    def __init__(self, most, status="running"):
        self.held, self.status = [], status
        # a descriptor each
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, most + 200), hard))

    def at(self, n):
        """(the directory while it lives, the one that lasts, the link of its name)"""
        return f"{b.root()}/run/sandboxes/{n:012x}", f"{b.root()}/state/sandboxes/{n:012x}", f"{b.root()}/state/names/box-{n}"

    def grow_to(self, count):
        for n in range(len(self.held), count):
            live, lasting, name = self.at(n)
            os.mkdir(lasting, 0o700)
            os.mkdir(live, 0o700)
            self.held.append(os.open(live, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            fcntl.flock(self.held[-1], fcntl.LOCK_EX)
            os.symlink(f"{n:012x}", name)
            for where in (live, lasting):
                record = {"version": 1, "id": f"{n:012x}", "name": f"box-{n}", "image": "host", "status": self.status,
                          "created": "2026-01-01T00:00:00Z", "command": []}
                b.write(f"{where}/record.json", json.dumps(record))

    def remove(self):
        for n, fd in enumerate(self.held):
            live, lasting, name = self.at(n)
            shutil.rmtree(live)
            shutil.rmtree(lasting)
            os.unlink(name)
            os.close(fd)
