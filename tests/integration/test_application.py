# SPDX-License-Identifier: Apache-2.0
"""
An application of three services, described by berth commands only: Redis with a volume, a web server that counts its visits
there, and a client of the web server.  They share an internal network and speak by names.

The machine that is rebooted is a pid, mount and network namespace: its end takes every process, interface, rule and mount of
it at once, as a power cut does.  With cgroup v2 alone (make check-vm) its pid 1 is systemd, and berth-boot.service starts
the services again; elsewhere pid 1 is a process that only waits, and `berth start --boot` is run by hand.
"""
import json
import os
import re
import shutil
import signal
import subprocess

import berthtest as b
import leak
import ocilayout
from netlab import need_bridge
from test_oci_systemd import HYBRID, Systemd, need_systemd

COST = 40

# Ends if Redis is not there when it starts; prints nothing but what is asked for.
WEB = r"""
import http.server, socket, sys
def count(word):
    s = socket.create_connection(("redis", 6379), 10)
    s.sendall(word + b" hits\r\n")
    answer = s.makefile("rb").readline()
    if word == b"INCR":
        return answer[1:]
    return answer
count(b"EXISTS")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            body = count(b"INCR" if self.path == "/count" else b"EXISTS")
            self.send_response(200)
        except OSError as e:
            body = str(e).encode()
            self.send_response(503)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
print("web is up", flush=True)
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""
# Ends if the web server is not there when it starts; later it waits for one that is away.
CLIENT = r"""
import time, urllib.request
def visit():
    return int(urllib.request.urlopen("http://web:8000/count", timeout=10).read())
print("seen", visit(), flush=True)
open("/run/seen", "w").close()
while True:
    try:
        print("seen", visit(), flush=True)
    except (OSError, ValueError):
        pass
    time.sleep(0.05)
"""
ASK_WEB = "import sys, urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/', timeout=5)"
# an answer that fails while another service comes back does not count
PAUSE = f"{int(200 * b.EMULATED)}ms"
HEALTH = ("--health-interval", PAUSE, "--health-timeout", "60s", "--health-start-period", "120s", "--health-start-interval", PAUSE)
SERVICES = ("store", "web", "client")
POLICY = {"store": "always", "web": "unless-stopped", "client": "on-failure"}

# pid 1 of a machine without systemd: it collects the processes that are left to it
WAITER = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True: signal.pause()"
POWER = """
exec unshare --pid --fork --kill-child --mount --net --propagation private sh -ec '
    mount -t proc proc /proc
    mount -t tmpfs -o mode=700 run "$1"
    ip link set lo up
    exec python3 -c "$2"' sh "$1" "$2"
"""


class Machine:
    """Runs berth in namespaces of its own; reboot() ends all that is in them and begins anew."""

    def __init__(self):
        self.boot()

    def boot(self):
        self.p = subprocess.Popen(["sh", "-ec", POWER, "sh", b.root() + "/run", WAITER], stdin=subprocess.DEVNULL)
        children = f"/proc/{self.p.pid}/task/{self.p.pid}/children"
        self.pid = int(b.wait_for(lambda: open(children).read().split(), 20, "pid 1")[0])
        b.wait_for(lambda: open(f"/proc/{self.pid}/cmdline").read().startswith("python3"), 20, "the mounts of pid 1")

    def berth(self, *args, **kw):
        return b.berth(*args, prefix=("nsenter", "-t", str(self.pid), "-m", "-p", "-n", "--"), **kw)

    def reboot(self):
        """Returns what was started at boot."""
        self.off()
        self.boot()
        return self.berth("start", "--boot", ok=True).out.split()

    def off(self):
        self.p.kill()
        self.p.wait()
        leak.remove_cgroups(b.TEST_PID)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.off()


class SystemdMachine(Systemd):
    """The same with systemd as pid 1, which runs berth-boot.service at each boot."""
    namespaces = ("--net",)

    def __init__(self):
        need_systemd()
        super().__init__()

    def before_systemd(self):
        """Shell text: what a package would have installed."""
        with open(os.path.join(b.TOP, "systemd/berth-boot.service")) as f:
            unit = f.read().replace("@BINDIR@/berth", b.BERTH)
        b.write(b.tmp("units/berth-boot.service"), unit)
        names = ("BERTH_STATE_DIR", "BERTH_RUN_DIR", "BERTH_IDS_DIR", "BERTH_CGROUP_PARENT")
        settings = "".join(f"Environment={n}={b.environment()[n]}\n" for n in names)
        b.write(b.tmp("units/berth-boot.service.d/test.conf"),
                f"[Unit]\nDefaultDependencies=no\nWants=\nAfter=\n[Service]\n{settings}StandardOutput=file:{b.tmp('boot.out')}\n")
        return (f"ip link set lo up; mount -t tmpfs -o mode=700 run {b.root()}/run; cp -r {b.tmp('units')}/. /run/systemd/system/; "
                "mkdir /run/systemd/system/berth-test.target.wants; "
                "ln -s ../berth-boot.service /run/systemd/system/berth-test.target.wants/")

    def berth(self, *args, **kw):
        return b.berth(*args, prefix=self.prefix(), **kw)

    def reboot(self):
        self.close()
        super().__init__()
        b.wait_for(lambda: self.show("berth-boot.service", "ActiveState")["ActiveState"] == "active", 120, "berth-boot.service")
        with open(b.tmp("boot.out")) as f:
            return f.read().split()


def redis_image():
    """redis:1, of the files of Debian's packages."""
    program = shutil.which("redis-server")
    if not program:
        raise b.skip("needs the package redis-server")
    top = b.busybox_rootfs("redisfs")
    os.makedirs(top + "/usr/bin")
    for name in ("redis-server", "redis-cli"):
        shutil.copy2(shutil.which(name), f"{top}/usr/bin/{name}")
        ldd = subprocess.run(["ldd", shutil.which(name)], stdout=subprocess.PIPE, text=True, check=True).stdout
        for path in re.findall(r"(/\S+) \(0x", ldd):
            os.makedirs(top + os.path.dirname(path), exist_ok=True)
            shutil.copy2(path, top + path)
    tar = subprocess.run(["tar", "-C", top, "-c", "."], stdout=subprocess.PIPE, check=True).stdout
    ocilayout.Layout(b.tmp("redis-oci")).image(
        [tar], Entrypoint=["redis-server"],
        Cmd=["--dir", "/data", "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--protected-mode", "no"])
    return b.tmp("redis-oci")


def describe(berth):
    """The commands that make the application, each service once those that it needs are healthy."""
    def service(name, *words):
        berth("create", "--name", name, "--network", "app", "--label", "app=counter", "--restart", POLICY[name], *HEALTH, *words, ok=True)
        berth("wait", "--healthy", name, ok=True)

    berth("image", "import", redis_image(), "redis:1", ok=True)
    berth("network", "create", "--internal", "--label", "app=counter", "app", ok=True)
    berth("volume", "create", "--size", "32m", "--label", "app=counter", "hits", ok=True)
    service("store", "--alias", "redis", "--volume", "hits:/data", "--health-cmd", "redis-cli ping | grep -q PONG", "--service", "redis:1")
    service("web", "--health-exec", json.dumps(["python3", "-c", ASK_WEB]), "host", "python3", "-c", WEB)
    service("client", "--health-cmd", "test -e /run/seen", "host", "python3", "-c", CLIENT)


def forget(berth):
    """The commands that remove it; the leak check finds anything that they leave."""
    berth("stop", "--filter", "label=app=counter", ok=True)
    removed = berth("prune", "--force", "--filter", "label=app=counter", ok=True).out.split()
    assert len(removed) == len(SERVICES), removed
    assert berth("network", "prune", ok=True).out.split() == ["app"]
    assert berth("volume", "prune", ok=True).out.split() == ["hits"]
    berth("image", "rm", "redis:1", ok=True)
    berth("system", "prune", "--force", ok=True)
    for words in (("ps", "-aq"), ("network", "ls", "--named"), ("volume", "ls", "-q")):
        assert len(berth(*words, ok=True).out.splitlines()) == (words[0] == "network"), words


def inspect(berth, name):
    return json.loads(berth("inspect", name, ok=True).out)


def seen(berth):
    """The last count that the client was told, by its log."""
    told = re.findall(r"^seen (\d+)$", berth("logs", "--tail", "5", "client", ok=True).out, re.M)
    return int(told[-1]) if told else 0


def goes_on(berth, after):
    """Counts above after arrive: each service serves, and Redis has lost none."""
    for name in SERVICES:
        berth("wait", "--healthy", name, ok=True)
    b.wait_for(lambda: seen(berth) > after, 60, lambda: f"a count above {after}: {[inspect(berth, n) for n in SERVICES]}")
    return seen(berth)


@b.deadline(120)
def test_it_starts_in_order_by_health_and_survives_the_kill_of_each_keeper():
    need_bridge()
    describe(b.berth)
    count = goes_on(b.berth, 0)
    assert [inspect(b.berth, n)["restarts"] for n in SERVICES] == [0, 0, 0], "one began before what it needs was ready"
    b.berth("create", "--name", "once", "--network", "app", "--label", "app=counter", "host", "sleep", "1000", ok=True)
    for name in SERVICES + ("once",):
        before = inspect(b.berth, name)
        os.kill(before["supervisor_pid"], signal.SIGKILL)
        if name == "once":
            b.wait_for(lambda: inspect(b.berth, "once")["status"] != "running", 20, "its end")
            b.berth("rm", "once", ok=True)
            continue

        def again(name=name):
            j = inspect(b.berth, name)
            return j["status"] == "running" and j["restarts"] == 1 and j["supervisor_pid"] != before["supervisor_pid"]
        b.wait_for(again, 60, lambda: f"the second run of {name}: {inspect(b.berth, name)}")
        count = goes_on(b.berth, count)
    forget(b.berth)


@b.deadline(180)
def test_it_comes_back_after_a_reboot():
    need_bridge()
    with Machine() if HYBRID else SystemdMachine() as machine:
        describe(machine.berth)
        machine.berth("create", "--name", "stays-off", "--label", "app=off", "--restart", "no", "host", "sleep", "1000", ok=True)
        count = goes_on(machine.berth, 0)
        ids = {inspect(machine.berth, n)["id"] for n in SERVICES}
        assert set(machine.reboot()) == ids
        assert inspect(machine.berth, "stays-off")["status"] != "running"
        machine.berth("rm", "stays-off", ok=True)
        count = goes_on(machine.berth, count)
        machine.reboot()
        goes_on(machine.berth, count)
        forget(machine.berth)
