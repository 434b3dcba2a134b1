# SPDX-License-Identifier: Apache-2.0
"""
The Debian packages on a machine with systemd: installed, upgraded while sandboxes and a berthd with a client live, purged.

make check-deb builds the packages and runs this file in the virtual machine, whose root is thrown away.
"""
import glob
import http.client
import json
import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))
import berthtest as b  # noqa: E402
from test_oci_systemd import Systemd, need_systemd  # noqa: E402

DEBS = os.path.join(b.TOP, "build-deb")
NAMES = ("berth", "berthd", "berth-oci")
OLD = "0.0.0-1"
LEFT = ("/var/lib/berth", "/var/lib/berth-ids", "/run/berth", "/etc/berth", "/usr/bin/berth", "/usr/lib/berth", "/usr/sbin/berthd",
        "/lib/systemd/system/berthd.service", "/etc/systemd/system/multi-user.target.wants/berth-boot.service")


def new():
    found = [p for n in NAMES for p in glob.glob(f"{DEBS}/{n}_*.deb")]
    if len(found) != len(NAMES):
        raise b.skip(f"{DEBS} has no packages: make deb")
    return found


def old():
    """The same packages by an older version's number, so that dpkg upgrades."""
    made = []
    for deb in new():
        tree, out = b.tmp(os.path.basename(deb) + ".d"), b.tmp("old-" + os.path.basename(deb))
        subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
        control = os.path.join(tree, "DEBIAN", "control")
        with open(control) as f:
            text = f.read()
        version = text.split("Version: ", 1)[1].split("\n", 1)[0]
        with open(control, "w") as f:
            f.write(text.replace(version, OLD))
        subprocess.run(["dpkg-deb", "-Znone", "-b", tree, out], check=True, stdout=subprocess.DEVNULL)
        made.append(out)
    return made


class Client:
    """One connection to the socket of berthd, kept open."""

    def __init__(self, path):
        self.http = http.client.HTTPConnection("localhost")
        self.http.sock = socket.socket(socket.AF_UNIX)
        self.http.sock.connect(path)

    def close(self):
        self.http.close()

    def ask(self, verb, path, body=None):
        self.http.request(verb, path, json.dumps(body) if body is not None else None,
                          {"Content-Type": "application/json"})
        answer = self.http.getresponse()
        text = answer.read()
        assert answer.status < 300, (verb, path, answer.status, text)
        return json.loads(text) if text else None


@b.deadline(900)
def test_an_upgrade_leaves_sandboxes_and_a_purge_leaves_nothing():
    need_systemd()
    older, newer = old(), new()
    with Systemd() as s:
        root = f"/proc/{s.pid}/root"
        s.run("dpkg", "-i", *older)
        assert OLD in s.run("dpkg-query", "-W", "berth", "berthd")
        s.run("systemctl", "start", "berthd.socket", "berthd.service")
        b.wait_for(lambda: os.path.exists(root + "/run/berth/berthd.sock"), 60, "the socket of berthd")
        daemon = s.show("berthd.service", "MainPID")["MainPID"]
        client = Client(root + "/run/berth/berthd.sock")
        made = client.ask("POST", "/v1/sandboxes", {"image": "host"})
        s.run("berth", "create", "--name", "kept", "host")
        s.run("berth", "run", "-d", "--name", "service", "--restart", "always", "host", "sleep", "1000")
        s.run("berth", "sh", "kept", "--", "word=before; echo x > /workspace/file")
        before = [json.loads(s.run("berth", "inspect", n)) for n in ("kept", "service")]

        s.run("dpkg", "-i", *newer)
        assert OLD not in s.run("dpkg-query", "-W", "berth", "berthd")
        after = [json.loads(s.run("berth", "inspect", n)) for n in ("kept", "service")]
        assert [x["supervisor_pid"] for x in before] == [x["supervisor_pid"] for x in after], (before, after)
        assert s.run("berth", "sh", "kept", "--", "echo $word; cat /workspace/file") == "before\nx\n"
        assert s.run("berth", "exec", "service", "echo", "answers") == "answers\n"
        assert s.show("berthd.service", "MainPID")["MainPID"] != daemon
        client.close()
        again = Client(root + "/run/berth/berthd.sock")
        assert made["id"] in json.dumps(again.ask("GET", "/v1/sandboxes"))
        again.close()

        s.run("dpkg", "-r", *NAMES)
        left = [pid for pid in os.listdir("/proc") if pid.isdigit() and "berth" in comm(pid) and "keeper" in comm(pid)]
        assert not left, left
        assert os.path.exists("/etc/berth/berth.toml") and os.path.exists("/var/lib/berth")
        s.run("dpkg", "-P", *NAMES)
        assert not [p for p in LEFT if os.path.lexists(p) or os.path.lexists(root + p)]


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read()
    except OSError:
        return ""
