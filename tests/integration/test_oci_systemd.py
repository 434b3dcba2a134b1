# SPDX-License-Identifier: Apache-2.0
"""
berth-oci --systemd-cgroup: the scope of a container is systemd's, as podman, docker and the kubelet ask for where systemd runs.

The systemd is a real one, pid 1 of namespaces of its own with a cgroup of ours as its whole tree.  That takes pure cgroup v2
(make check-vm); elsewhere the refusal is tested.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import threading

import berthtest as b
import machine
from test_oci import HYBRID, SLEEP, Bundle

PROGRAM = "/lib/systemd/systemd"
# the process that waits stays outside: one in the root of the tree would keep systemd from passing on controllers
BOOT = """
exec unshare --pid --uts --fork --kill-child NAMESPACES sh -ec '
    echo 0 > "$1/cgroup.procs"
    exec unshare --cgroup --mount --propagation private sh -ec "
        mount -t proc proc /proc
        umount -l /sys/fs/cgroup
        mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
        mount -t tmpfs -o mode=755 tmpfs /run
        mkdir -p /run/systemd/system /run/dbus
        echo [Unit] > /run/systemd/system/berth-test.target
        echo DefaultDependencies=no >> /run/systemd/system/berth-test.target
        BEFORE
        exec /lib/systemd/systemd --system --unit=berth-test.target --log-target=console --log-level=warning"' sh "$1"
"""
ENTER = 'echo 0 > "$1/calls/cgroup.procs"; pid=$2; shift 2; exec nsenter -t "$pid" -m -p -n -u -C -- "$@"'


class Systemd:
    namespaces = ()

    def before_systemd(self):
        """Shell text that runs before systemd; without quotes."""
        return ""

    def __init__(self):
        # systemd sets those of Debian, which are the machine's
        self.sysctls = machine.sysctls()
        self.cgroup = "/sys/fs/cgroup/" + b.cgroup_parent_of(b.TEST_PID)
        os.mkdir(self.cgroup)
        self.log = open(b.tmp("systemd.log"), "wb")
        boot = BOOT.replace("NAMESPACES", " ".join(self.namespaces)).replace("BEFORE", self.before_systemd())
        self.p = subprocess.Popen(["sh", "-ec", boot, "sh", self.cgroup], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                  env={"PATH": os.environ["PATH"], "container": "berth-test"})
        children = f"/proc/{self.p.pid}/task/{self.p.pid}/children"
        try:
            b.wait_for(lambda: open(children).read().split(), 20, "a process of unshare")
            self.pid = int(open(children).read().split()[0])
            b.wait_for(lambda: os.path.exists(f"/proc/{self.pid}/root/run/systemd/private"), 60, "systemd")
            # whoever asks systemd to take a process must have it within systemd's tree
            os.mkdir(self.cgroup + "/calls")
        except BaseException:
            self.close()
            raise

    def prefix(self):
        return ("sh", "-ec", ENTER, "sh", self.cgroup, str(self.pid))

    def run(self, *argv, ok=True):
        p = subprocess.run([*self.prefix(), *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=60 * b.SLOW, check=False)
        assert p.returncode == 0 or not ok, (argv, p.stdout)
        return p.stdout

    def show(self, unit, *names):
        lines = self.run("systemctl", "show", unit, *[f"-p{n}" for n in names]).splitlines()
        return dict(line.split("=", 1) for line in lines)

    def scopes(self):
        return [line.split()[0] for line in
                self.run("systemctl", "list-units", "--all", "--type=scope", "--no-legend", "--plain").splitlines() if line.split()[0] != "init.scope"]

    def close(self):
        self.p.send_signal(signal.SIGKILL)
        self.p.wait()
        self.log.close()

        def gone():
            for where, _, _ in os.walk(self.cgroup, topdown=False):
                try:
                    os.rmdir(where)
                except OSError:
                    return False
            return True
        b.wait_for(gone, 20, "the end of systemd's cgroups")
        for name, value in machine.sysctls().items():
            if name.startswith(("sysctl fs/", "sysctl kernel/", "sysctl vm/")) and self.sysctls.get(name) not in (None, value):
                with contextlib.suppress(OSError), open("/proc/sys/" + name.split()[1], "w") as f:
                    f.write(self.sysctls[name])

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for log in ("systemd.log", "container.out") if kind else ():
            if os.path.exists(b.tmp(log)):
                print(log, open(b.tmp(log)).read()[-3000:])
        self.close()


def need_systemd():
    if HYBRID:
        raise b.skip("needs cgroup v2 alone")
    if not os.path.exists(PROGRAM) or not os.path.exists(os.path.join(b.BUILD, "berth-systemd")):
        raise b.skip("needs systemd and berth-systemd")


class Scoped(Bundle):
    def __init__(self, systemd, path, *args):
        super().__init__(*args)
        self.prefix = systemd.prefix()
        if path is None:
            del self.linux["cgroupsPath"]
        else:
            self.linux["cgroupsPath"] = path

    def call(self, verb, *args, **kw):
        return super().call("--systemd-cgroup", verb, *args, **kw) if self.prefix else super().call(verb, *args, **kw)


def moved_down(cgroup):
    for pid in open(cgroup + "/cgroup.procs").read().split():
        try:
            b.write(cgroup + "/below/cgroup.procs", pid)
        except ProcessLookupError:
            pass
    return not open(cgroup + "/cgroup.procs").read()


def host_cgroup(c):
    """Its own view, without a cgroup namespace."""
    c.linux["namespaces"] = [n for n in c.linux["namespaces"] if n["type"] != "cgroup"]


def test_without_systemd_it_is_refused_not_ignored():
    if not HYBRID and os.path.exists("/run/systemd/system"):
        raise b.skip("systemd runs here")
    with Bundle() as c:
        c.save()
        for option in (["--systemd-cgroup"], ["--cgroup-manager", "systemd"], ["--cgroup-manager=systemd"]):
            for verb in ("run", "create"):
                r = c.call(*option, verb, "-b", c.dir, c.id, ok=None)
                b.expect(r.code != 0 and "systemd" in r.err and "cgroupfs" in r.err, r, "accepted")
            assert not os.listdir(c.root)
        r = c.call("--cgroup-manager", "nobody", "list", ok=None)
        b.expect(r.code != 0 and "nobody" in r.err, r, "accepted")
        # of a verb that makes no cgroup it changes nothing
        c.call("--systemd-cgroup", "list")
        c.call("--cgroup-manager", "cgroupfs", "run", "-b", c.dir, c.id)


@b.deadline(120)
def test_scopes_of_systemd():
    need_systemd()
    with Systemd() as s:
        # where it is, what systemd says of it, and that the limits hold there
        with Scoped(s, "system.slice:berth:one", "sh", "-c", "cat /proc/self/cgroup") as c:
            host_cgroup(c)
            out = c.out()
            assert out == "0::/system.slice/berth-one.scope/container\n", out
            b.wait_for(lambda: not s.scopes(), 20, "the end of the scope")
        with Scoped(s, "system.slice:berth:two", *SLEEP) as c:
            c.linux["resources"] = {"memory": {"limit": 33554432}, "pids": {"limit": 50}}
            c.detached()
            assert s.scopes() == ["berth-two.scope"]
            got = s.show("berth-two.scope", "ActiveState", "Delegate", "Slice", "ControlGroup", "TasksMax")
            assert got == {"ActiveState": "active", "Delegate": "yes", "Slice": "system.slice", "TasksMax": "infinity",
                           "ControlGroup": "/system.slice/berth-two.scope"}, got
            where = s.cgroup + "/system.slice/berth-two.scope"
            assert sorted(e.name for e in os.scandir(where) if e.is_dir()) == ["container"]
            assert open(where + "/container/memory.max").read() == "33554432\n" and open(where + "/container/pids.max").read() == "50\n"
            assert c.exec(c.id, "echo", "there").out == "there\n"
            c.call("pause", c.id)
            assert c.status() == "paused"
            c.call("resume", c.id)
            c.call("update", "--memory", "67108864", c.id)
            assert open(where + "/container/memory.max").read() == "67108864\n"
            # another container of the same name, while this one lives
            with Scoped(s, "system.slice:berth:two", "true") as other:
                other.id += "b"
                r = other.run(ok=None)
                b.expect(r.code != 0 and "berth-two.scope" in r.err, r, "two containers in one scope")
                assert os.listdir(other.root) == [c.id]
            assert c.status() == "running"
            # nor is it touched when its processes are below its cgroup only, as those of a systemd in it
            os.mkdir(where + "/container/below")
            b.wait_for(lambda: moved_down(where + "/container"), what="the processes below")
            with Scoped(s, "system.slice:berth:two", "true") as other:
                other.id += "b"
                r = other.run(ok=None)
                b.expect(r.code != 0 and "already" in r.err, r, "two containers in one scope")
            assert c.status() == "running"
            # systemd's own way to end it
            s.run("systemctl", "kill", "-s", "KILL", "berth-two.scope")
            b.wait_for(lambda: c.status() == "stopped", 20, "the end of the container")
            b.wait_for(lambda: not os.path.exists(where), 20, "the end of the scope")
            c.call("delete", c.id)
        # deleted and made again at once, when systemd may not have noticed yet
        for _ in range(5):
            with Scoped(s, "system.slice:berth:again", *SLEEP) as c:
                c.detached()
                c.call("delete", "--force", c.id)
        b.wait_for(lambda: not s.scopes(), 20, "the end of the scopes")


@b.deadline(120)
def test_a_scope_that_ends_is_waited_for():
    need_systemd()
    with Systemd() as s:
        p = subprocess.Popen([*s.prefix(), "systemd-run", "--scope", "--unit=berth-held", "--slice=system.slice", "sh", "-c", "read x"],
                             stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            b.wait_for(lambda: s.scopes() == ["berth-held.scope"], 20, "the other scope")
            with Scoped(s, "system.slice:berth:held", "echo", "made") as c:
                waits = threading.Timer(2, p.communicate)
                waits.start()
                assert c.out() == "made\n"
                waits.join()
        finally:
            b.stop(p)


@b.deadline(120)
def test_paths_with_systemd():
    need_systemd()
    with Systemd() as s:
        for path, where in ((":berth:x", "/system.slice/berth-x.scope"), ("a-b.slice::x", "/a.slice/a-b.slice/x.scope"),
                            ("-.slice:libpod:0123", "/libpod-0123.scope"), (None, None), ("", None)):
            with Scoped(s, path, "sh", "-c", "cat /proc/self/cgroup") as c:
                host_cgroup(c)
                got, want = c.out(), where or f"/system.slice/berth-{c.id}.scope"
                assert got == f"0::{want}/container\n", (path, got)
        for path in ("/berth/x", "berth/x", "a:b", "a.slice:b:c:d", "a.slice:b:", "noslice:b:c", "a--b.slice:b:c", "-a.slice:b:c", ".slice:b:c",
                     "a/b.slice:b:c", "a.slice:b:c/d", "a.slice:b:" + "c" * 300, "a.slice:b:not a name"):
            with Scoped(s, path, "true") as c:
                c.refused()
        # what fails after the scope was made
        with Scoped(s, "system.slice:berth:fails", "/nosuch") as c:
            c.refused("nosuch")
        with Scoped(s, "system.slice:berth:fails", "true") as c:
            c.linux["resources"] = {"unified": {"pids.max": "no number"}}
            c.refused("pids.max")
        b.wait_for(lambda: not s.scopes(), 20, "the end of the scopes")


@b.deadline(120)
def test_over_the_system_bus():
    need_systemd()
    if not shutil.which("dbus-daemon"):
        raise b.skip("needs dbus-daemon")
    with Systemd() as s:
        s.run("dbus-daemon", "--system", "--fork", "--nopidfile")
        s.run("kill", "-USR1", "1")     # systemd looks for the bus
        b.wait_for(lambda: "org.freedesktop.systemd1" in s.run("busctl", "list", "--acquired", ok=False), 20, "systemd on the bus")
        # and it is the bus that is asked
        s.run("rm", "/run/systemd/private")
        with Scoped(s, "system.slice:berth:bus", "sh", "-c", "cat /proc/self/cgroup") as c:
            host_cgroup(c)
            assert c.out() == "0::/system.slice/berth-bus.scope/container\n"


def test_the_helper_by_hand():
    program = os.path.join(b.BUILD, "berth-systemd")
    if not os.path.exists(program):
        raise b.skip("needs berth-systemd")
    p = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=20 * b.SLOW, check=False)
    assert p.returncode == 2 and p.stderr.count("\n") == 1 and "berth-oci starts this program" in p.stderr, p
