# SPDX-License-Identifier: Apache-2.0
"""
berth-oci where podman of an ordinary user starts it: as root of a user namespace, with the rights of
that user. test_oci.py has the user who starts it by hand.
"""
import os
import subprocess

import berthtest as b
from test_oci import Bundle

USER = 1234


class Engine(Bundle):
    """A bundle of an ordinary user's, started as root of the user namespace that an engine made."""

    def __init__(self, *args):
        super().__init__(*args)
        os.chmod(b.root(), 0o711)
        os.chmod(b.tmp(""), 0o711)
        self.home = b.tmpdir("home")
        # the engine's namespace maps one id
        for m in self.config["mounts"]:
            m["options"] = [o for o in m.get("options", []) if o != "gid=5"]
        self.save()
        os.makedirs(self.root, exist_ok=True)
        subprocess.run(["chown", "-R", f"{USER}:{USER}", self.dir, self.root, self.home], check=True)
        self.prefix = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
                       "unshare", "--user", "--map-root-user", "--mount", "--propagation", "slave")


def test_root_of_a_users_namespace_needs_no_cgroup():
    with Engine("sh", "-c", "id -u; cat /proc/self/uid_map") as c:
        assert c.out(env={"XDG_RUNTIME_DIR": c.home}).split() == ["0", "0", str(USER), "1"]


def test_device_rules_of_a_users_container_are_a_warning():
    with Engine("sh", "-c", "echo x > /dev/null && echo written") as c:
        assert c.linux["resources"]["devices"], "the specification that is tried has no device rules"
        r = c.run()
        assert r.out == "written\n" and "warning: device rules are left out" in r.err, r


def test_limits_of_a_users_container_are_still_refused():
    with Engine("true") as c:
        c.linux["resources"]["memory"] = {"limit": 100 << 20}
        r = c.run(ok=None)
        assert r.code == 1 and "memory" in r.err and "cannot be set" in r.err, r


def test_root_of_a_users_namespace_has_its_state_below_its_runtime_directory():
    with Engine("true") as c:
        c.save()
        line = [*c.prefix, os.path.join(b.BUILD, "berth-oci"), "run", "-b", c.dir, c.id]
        p = subprocess.run(line, env=b.environment({"XDG_RUNTIME_DIR": c.home}), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30 * b.SLOW)
        assert p.returncode == 0, p
        assert os.listdir(c.home) == ["berth-oci"], os.listdir(c.home)
