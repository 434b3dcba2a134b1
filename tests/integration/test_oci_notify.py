# SPDX-License-Identifier: Apache-2.0
"""
berth-oci between a container and a service manager: NOTIFY_SOCKET in the runtime's environment
(sd_notify(3)), in the form of runc, which podman's --sdnotify=container relies on.
"""
import os
import socket
import subprocess

import berthtest as b
from test_oci import OCI, Bundle

SAY = "import os,socket,sys,time; s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM); s.connect(os.environ['NOTIFY_SOCKET']); "


def bundle(program):
    """With the host's python in it."""
    x = Bundle("/usr/bin/python3", "-c", SAY + program)
    os.mkdir(x.rootfs + "/usr")
    for lib in ("lib", "lib64"):
        os.symlink("usr/" + lib, f"{x.rootfs}/{lib}")
    x.config["mounts"].append({"destination": "/usr", "source": "/usr", "options": ["rbind", "ro"]})
    return x


class Manager:
    """The service manager's socket."""

    def __init__(self):
        self.path = b.tmp("manager.sock")
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.s.bind(self.path)
        self.s.settimeout(20 * b.SLOW)
        self.env = {"NOTIFY_SOCKET": self.path}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()

    def said(self):
        return self.s.recv(4096).decode().split()

    def silent(self):
        self.s.setblocking(False)
        try:
            return not self.s.recv(4096)
        except BlockingIOError:
            return True
        finally:
            self.s.settimeout(20 * b.SLOW)


def test_run_detached_returns_when_it_is_ready():
    with Manager() as m, bundle("s.send(b'STATUS=half\\nMAINPID=1'); s.send(b'STATUS=all\\nREADY=1'); time.sleep(100)") as x:
        x.save()
        with open(os.devnull, "wb") as null:
            x.call("run", "-d", "-b", x.dir, x.id, env=m.env, stdout=null, stderr=null)
        # nothing of what else it says, and the main process is as the host knows it
        assert m.said() == [f"MAINPID={x.state()['pid']}", "READY=1"] and m.silent()
        env = x.exec(x.id, "/bin/cat", "/proc/1/environ").out.split("\0")
        assert "NOTIFY_SOCKET=/run/notify/notify.sock" in env
        assert "ro" in x.exec(x.id, "/bin/grep", " /run/notify ", "/proc/mounts").out.split()[3].split(",")


def test_start_waits_for_it_and_create_does_not():
    with Manager() as m, bundle("sys.stdin.readline(); s.send(b'READY=1'); time.sleep(100)") as x:
        x.save()
        read, write = os.pipe()
        with open(b.tmp("container.out"), "ab") as out:
            x.call("create", "-b", x.dir, x.id, env=m.env, stdin=read, stdout=out, stderr=out)
        os.close(read)
        start = subprocess.Popen([OCI, "--root", x.root, "start", x.id], env=b.environment(m.env))
        b.wait_for(lambda: x.status() == "running", 20, "its start")
        assert start.poll() is None and m.silent()
        os.write(write, b"go\n")
        os.close(write)
        assert start.wait(20 * b.SLOW) == 0 and m.said()[-1] == "READY=1"


def test_one_that_ends_without_a_word_holds_up_nobody():
    with Manager() as m, bundle("sys.exit(3)") as x:
        x.save()
        with open(os.devnull, "wb") as null:
            x.call("run", "-d", "-b", x.dir, x.id, env=m.env, stdout=null, stderr=null)
        assert m.silent()


def test_in_the_foreground_the_runtime_is_the_main_process():
    with Manager() as m, bundle("s.send(b'READY=1'); sys.stdin.readline()") as x:
        x.save()
        p = subprocess.Popen([OCI, "--root", x.root, "run", "-b", x.dir, x.id], env=b.environment(m.env), stdin=subprocess.PIPE)
        assert m.said() == [f"MAINPID={p.pid}", "READY=1"]
        p.communicate(b"end\n", timeout=20 * b.SLOW)
        assert p.returncode == 0


def test_an_unusable_address_is_refused_and_none_is_no_mount():
    with bundle("") as x:
        x.save()
        r = x.call("run", "-b", x.dir, x.id, env={"NOTIFY_SOCKET": "relative"}, ok=None)
        b.expect(r.code and "NOTIFY_SOCKET" in r.err, r, "not refused")
        x.process["args"] = ["/bin/sh", "-c", "echo ${NOTIFY_SOCKET-unset}; ls -d /run/notify"]
        r = x.run(ok=1)
        b.expect(r.out == "unset\n", r, "a socket nobody asked for")
