# SPDX-License-Identifier: Apache-2.0
"""
Configurations that the types allow and the kernel, or the specification, does not: each is refused, by us as by runc,
and never taken for something else.
"""
import json
import os

import berthtest as b
from test_oci import SLEEP, Bundle

MINUS_ONE = 4294967295     # (uid_t)-1: what setresuid(2), setresgid(2) and chown(2) take for "leave it"


# ---- ids ------------------------------------------------------------------------------------

def test_an_id_that_the_kernel_takes_for_leave_it_is_refused():
    with Bundle("id") as c:
        for user, word in (({"uid": MINUS_ONE}, "process.user.uid"), ({"gid": MINUS_ONE}, "process.user.gid"),
                           ({"uid": 1, "additionalGids": [5, MINUS_ONE]}, "process.user.additionalGids[1]")):
            c.process["user"] = user
            c.refused(word, "4294967294")
        # the one before is an id like others
        c.process["user"] = {"uid": MINUS_ONE - 1, "gid": MINUS_ONE - 1}
        assert c.out().split()[:2] == ["uid=4294967294", "gid=4294967294"]
        c.process["user"] = {"uid": 0}
        for key in ("uid", "gid"):
            c.linux["devices"] = [{"path": "/dev/x", "type": "c", "major": 1, "minor": 3, key: MINUS_ONE}]
            c.refused(f"linux.devices[0].{key}")


def test_exec_refuses_it_too():
    with Bundle(*SLEEP) as c:
        c.detached()
        for user in ({"uid": MINUS_ONE}, {"gid": MINUS_ONE}, {"additionalGids": [MINUS_ONE]}):
            path = b.write(b.tmp("process.json"), json.dumps(dict(c.process, args=["touch", "/ran"], user=user)))
            r = c.exec("--process", path, c.id, ok=255)
            b.expect(next(iter(user)) in r.err, r, "not said what is wrong")
        for option in (("-u", str(MINUS_ONE)), ("-u", f"0:{MINUS_ONE}"), ("-g", str(MINUS_ONE))):
            c.exec(*option, c.id, "touch", "/ran", ok=255)
        assert not os.path.exists(c.rootfs + "/ran")
