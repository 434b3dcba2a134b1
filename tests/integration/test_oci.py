# SPDX-License-Identifier: Apache-2.0
"""
berth-oci against the runtime-spec: each test is named after the section (runtime.md, config.md,
config-linux.md, features.md) whose MUST it tries, or after what engines rely on.
"""
import array
import glob
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time

import berthtest as b
import proc

COST = 54
OCI = os.path.join(b.BUILD, "berth-oci")
APPLETS = ("sh", "true", "false", "cat", "echo", "ls", "id", "sleep", "env", "touch", "mkdir", "mount", "stat", "readlink",
           "hostname", "grep", "pwd", "tty", "stty", "head", "tail", "kill", "ps", "dd", "rm", "uname", "nice", "test", "chmod")
HYBRID = not os.path.exists("/sys/fs/cgroup/cgroup.controllers")


class Bundle:
    """A bundle with a busybox root, a state root of its own, and its containers taken away at the end."""

    prefix = ()     # of the command line: where it is to run

    def __init__(self, *args, **change):
        self.dir = b.tmpdir(f"bundle{len(glob.glob(b.tmp('bundle*')))}")
        self.root = b.tmp("oci-state")
        self.rootfs = os.path.join(self.dir, "rootfs")
        for d in ("bin", "proc", "sys", "dev", "tmp", "etc", "mnt"):
            os.makedirs(os.path.join(self.rootfs, d))
        os.chmod(os.path.join(self.rootfs, "tmp"), 0o1777)
        shutil.copy("/bin/busybox", os.path.join(self.rootfs, "bin/busybox"))
        for name in APPLETS:
            os.symlink("busybox", os.path.join(self.rootfs, "bin", name))
        self.call("spec", "-b", self.dir)
        with open(self.path()) as f:
            self.config = json.load(f)
        self.id = f"c{b.TEST_PID}"
        self.config["process"].update(terminal=False, args=list(args) or ["true"])
        self.config["linux"]["cgroupsPath"] = f"/{b.cgroup_parent_of(b.TEST_PID)}-{os.path.basename(self.dir)}"
        self.config["root"]["readonly"] = False
        for key, value in change.items():
            self.config["process"][key] = value

    def path(self):
        return os.path.join(self.dir, "config.json")

    @property
    def linux(self):
        return self.config["linux"]

    @property
    def process(self):
        return self.config["process"]

    def save(self):
        with open(self.path(), "w") as f:
            json.dump(self.config, f)

    def call(self, *args, ok=True, input=None, env=None, timeout=30, **popen):
        line = [*self.prefix, OCI, "--root", self.root, *args]
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        if input is None:
            popen.setdefault("stdin", subprocess.DEVNULL)
        p = subprocess.run(line, input=input, env=b.environment(env), timeout=timeout, **popen)
        r = b.Result(p.returncode, (p.stdout or b"").decode(errors="replace"), (p.stderr or b"").decode(errors="replace"),
                     None, args, 0)
        if ok is not None:
            b.expect_code(r, 0 if ok is True else ok)
        return r

    def run(self, *options, ok=True, **kw):
        self.save()
        return self.call("run", "-b", self.dir, *options, self.id, ok=ok, **kw)

    def out(self, **kw):
        return self.run(**kw).out

    def refused(self, *words):
        r = self.run(ok=None)
        b.expect(r.code != 0, r, "accepted")
        for word in words:
            b.expect(word in r.err, r, f"the error does not say {word!r}")
        assert not os.listdir(self.root), "a refused container is still recorded"
        return r

    def create(self, *options, **kw):
        self.save()
        # the container keeps what it inherits: pipes of ours would never end
        with open(b.tmp("container.out"), "ab") as out:
            return self.call("create", "-b", self.dir, *options, self.id, stdout=out, stderr=out, **kw)

    def output(self):
        with open(b.tmp("container.out")) as f:
            return f.read()

    def state(self):
        return json.loads(self.call("state", self.id).out)

    def status(self):
        return self.state()["status"]

    def detached(self):
        self.create()
        self.call("start", self.id)
        return self.state()["pid"]

    def exec(self, *args, **kw):
        return self.call("exec", *args, **kw)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        # what a detached exec left is ours to reap: until then the namespace's pid 1 cannot end
        self.call("kill", "--all", self.id, "KILL", ok=None)
        end = time.monotonic() + 2 * b.SLOW
        while self.call("state", self.id, ok=None).code == 0 and self.status() != "stopped" and time.monotonic() < end:
            self.reap()
            time.sleep(0.005)
        self.reap()
        self.call("delete", "--force", self.id, ok=None)

    @staticmethod
    def reap():
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


SLEEP = ("sh", "-c", "trap 'exit 3' TERM; while :; do sleep 0.05; done")


def has(mounts, target):
    """The options and type of the last mount at target, from /proc/self/mounts."""
    found = [line.split() for line in mounts.splitlines() if line.split()[1] == target]
    assert found, f"nothing is mounted at {target}:\n{mounts}"
    return found[-1][3].split(","), found[-1][2]


# ---- runtime.md -------------------------------------------------------------------------

def test_runtime_state_has_the_members_and_values_of_the_spec():
    with Bundle(*SLEEP) as c:
        c.config["annotations"] = {"org.example.key": "value"}
        c.create()
        s = c.state()
        assert s["status"] == "created" and s["id"] == c.id and s["bundle"] == c.dir, s
        assert s["annotations"] == {"org.example.key": "value"}, s
        assert re.match(r"^1\.\d+\.\d+", s["ociVersion"]) and proc.alive(s["pid"]), s
        c.call("start", c.id)
        assert c.status() == "running"
        c.call("kill", c.id, "KILL")
        b.wait_for(lambda: c.status() == "stopped")
        c.call("delete", c.id)


def test_runtime_state_of_what_does_not_exist_is_an_error():
    with Bundle() as c:
        for verb in ("state", "start", "delete"):
            r = c.call(verb, "nosuch", ok=None)
            b.expect(r.code != 0 and "does not exist" in r.err, r, "no error")
        r = c.call("kill", "nosuch", "TERM", ok=None)
        b.expect(r.code != 0, r, "no error")
        assert c.call("state", ok=None).code != 0


def test_runtime_create_does_not_run_the_program():
    with Bundle("touch", "/ran") as c:
        c.create()
        assert not os.path.exists(c.rootfs + "/ran")
        c.call("start", c.id)
        b.wait_for(lambda: os.path.exists(c.rootfs + "/ran"))


def test_runtime_create_refuses_an_id_that_is_taken():
    with Bundle(*SLEEP) as c:
        c.create()
        r = c.call("create", "-b", c.dir, c.id, ok=None)
        b.expect(r.code != 0 and "exists" in r.err, r, "accepted")
        assert c.status() == "created"


def test_runtime_create_refuses_ids_that_are_no_names():
    with Bundle() as c:
        for bad in ("..", "a/b", "", "a b", "x" * 300):
            c.save()
            assert c.call("create", "-b", c.dir, bad, ok=None).code != 0, bad


def test_runtime_changes_of_the_configuration_after_create_have_no_effect():
    with Bundle("touch", "/first") as c:
        c.create()
        c.process["args"] = ["touch", "/second"]
        c.save()
        c.call("start", c.id)
        b.wait_for(lambda: os.path.exists(c.rootfs + "/first"))
        assert not os.path.exists(c.rootfs + "/second")


def test_runtime_start_of_a_started_container_is_an_error_without_effect():
    with Bundle(*SLEEP) as c:
        pid = c.detached()
        r = c.call("start", c.id, ok=None)
        b.expect(r.code != 0, r, "started twice")
        assert c.state()["pid"] == pid and c.status() == "running"


def test_runtime_kill_reaches_the_process_and_refuses_what_does_not_run():
    with Bundle(*SLEEP) as c:
        pid = c.detached()
        # to a pid 1 without a handler it is nothing
        b.wait_for(lambda: proc.handles(pid, signal.SIGTERM), what="the trap")
        c.call("kill", c.id, "SIGTERM")
        b.wait_for(lambda: c.status() == "stopped")
        r = c.call("kill", c.id, "TERM", ok=None)
        b.expect(r.code != 0 and "not running" in r.err, r, "signalled a stopped container")


def test_runtime_kill_takes_numbers_names_and_all():
    with Bundle("sh", "-c", "trap 'exit 4' USR1; sleep 1000 & while :; do wait; done") as c:
        pid = c.detached()
        b.wait_for(lambda: len(json.loads(c.call("ps", "-f", "json", c.id).out)) == 2)
        b.expect(c.call("kill", c.id, "NOSUCH", ok=None).code != 0, c.call("list"), "took an unknown signal")
        c.call("kill", "--all", c.id, "9")
        b.wait_for(lambda: not proc.alive(pid) or c.status() == "stopped")


def test_runtime_delete_refuses_what_runs_and_removes_all_that_create_made():
    with Bundle(*SLEEP) as c:
        c.detached()
        r = c.call("delete", c.id, ok=None)
        b.expect(r.code != 0 and "not stopped" in r.err, r, "deleted a running container")
        c.call("delete", "--force", c.id)
        assert not os.listdir(c.root)
        c.create()      # its id may be used again
        c.call("delete", "--force", c.id)
        c.call("delete", "--force", "nosuch")


def test_runtime_errors_leave_everything_as_it_was():
    with Bundle() as c:
        c.config["mounts"].append({"destination": "/x", "type": "nosuchfs", "source": "x"})
        c.refused("nosuchfs")


def test_lifecycle_a_killed_create_leaves_what_delete_force_clears():
    # strace stops it with SIGKILL at the n-th call of each kind
    for call in ("clone3", "mkdir", "mkdirat", "socketpair", "renameat", "sendmsg", "recvmsg"):
        with Bundle(*SLEEP) as c:
            c.save()
            for n in (1, 2, 3):
                subprocess.run(["strace", "-qq", "-o", "/dev/null", "-e", f"inject={call}:signal=SIGKILL:when={n}", OCI,
                                "--root", c.root, "create", "-b", c.dir, c.id], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30 * b.SLOW)
                c.call("delete", "--force", c.id)
                assert not os.path.isdir(c.root) or not os.listdir(c.root), (call, n)


# ---- config.md ------------------------------------------------------------------------------

def test_config_version_1_x_is_accepted_and_others_are_not():
    for version in ("1.0.0", "1.0.2-dev", "1.1.0", "1.2.0", "1.3.0"):
        with Bundle() as c:
            c.config["ociVersion"] = version
            c.run()
    with Bundle() as c:
        c.config["ociVersion"] = "2.0.0"
        c.refused("ociVersion")
        del c.config["ociVersion"]
        c.refused("ociVersion")


def test_config_extensibility_unknown_members_are_ignored_and_wrong_types_are_not():
    with Bundle() as c:
        c.config["unknown"] = {"a": [1, 2]}
        c.process["alsoUnknown"] = 1.5
        c.run()
        for part, key, value in ((c.process, "args", "true"), (c.process, "terminal", 1), (c.config, "hostname", 7),
                                 (c.process, "cwd", None), (c.linux, "namespaces", {}), (c.config, "mounts", [3])):
            was = part[key]
            part[key] = value
            c.refused(key)
            part[key] = was


def test_config_numbers_of_64_bits_without_sign_are_read():
    with Bundle("sh", "-c", "ulimit -c") as c:
        c.process["rlimits"] = [{"type": "RLIMIT_CORE", "soft": 18446744073709551615, "hard": 18446744073709551615}]
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        if hard == resource.RLIM_INFINITY:
            assert c.out().strip() == "unlimited"


def test_config_root_path_is_relative_to_the_bundle_and_must_exist():
    with Bundle("ls", "/bin/busybox") as c:
        assert c.config["root"]["path"] == "rootfs"
        c.run()
        c.config["root"]["path"] = "nosuch"
        c.refused("invalid rootfs")
        del c.config["root"]["path"]
        c.refused("root.path")


def test_config_root_readonly():
    with Bundle("sh", "-c", "touch /x; echo $?") as c:
        c.config["root"]["readonly"] = True
        assert c.out().strip() == "1"


def test_config_process_args_env_cwd_user_umask():
    with Bundle("sh", "-c", "pwd; echo $FOO; umask; id -u; id -g; id -G") as c:
        c.process.update(cwd="/made/here", env=["PATH=/bin", "FOO=first", "FOO=bar"],
                         user={"uid": 1000, "gid": 100, "additionalGids": [5, 7], "umask": 0o27})
        assert c.out().split() == ["/made/here", "bar", "0027", "1000", "100", "100", "5", "7"]


def test_config_process_cwd_must_be_absolute_and_inside():
    with Bundle("pwd") as c:
        c.process["cwd"] = "tmp"
        c.refused("absolute")
        for inside in ("/proc/self/fd/5", "/proc/1/fd/7", "/proc/self/fd/3"):
            c.process["cwd"] = inside
            r = c.run(ok=None)
            b.expect(r.code != 0 or r.out.startswith("/proc/"), r, "left the root")


def test_config_process_home_comes_from_the_images_passwd():
    with Bundle("sh", "-c", "echo $HOME") as c:
        b.write(c.rootfs + "/etc/passwd", "root:x:0:0::/root:/bin/sh\nu:x:1000:1000::/home/u:/bin/sh\n")
        c.process["user"] = {"uid": 1000, "gid": 1000}
        assert c.out().strip() == "/home/u"
        os.unlink(c.rootfs + "/etc/passwd")
        os.mkfifo(c.rootfs + "/etc/passwd")
        assert c.run(timeout=10).out.strip() == "/"


def test_config_process_program_is_found_in_its_own_path_or_said_to_be_missing():
    with Bundle("nosuch") as c:
        c.refused("executable file not found in $PATH")
        c.process["args"] = ["/nosuch"]
        c.refused("no such file or directory")
        b.write(c.rootfs + "/etc/plain", "x")
        c.process["args"] = ["/etc/plain"]
        c.refused("permission denied")
        c.process["args"] = []
        c.refused("process.args")


def test_config_process_rlimits_are_set_and_their_names_checked():
    with Bundle("sh", "-c", "ulimit -Sn; ulimit -Hn") as c:
        c.process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 64, "hard": 128}]
        assert c.out().split() == ["64", "128"]
        c.process["rlimits"] = [{"type": "RLIMIT_NOSUCH", "soft": 1, "hard": 1}]
        c.refused("invalid rlimit type")
        c.process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 64, "hard": 128}] * 2
        c.refused("duplicated")


def caps_of(text):
    return {k: int(v, 16) for k, v in re.findall(r"^Cap(\w+):\s*([0-9a-f]+)$", text, re.M)}


def test_config_process_capabilities_are_the_five_sets():
    with Bundle("cat", "/proc/self/status") as c:
        c.process["capabilities"] = {
            "bounding": ["CAP_KILL", "CAP_CHOWN", "CAP_NET_RAW"], "permitted": ["CAP_KILL", "CAP_CHOWN"],
            "effective": ["CAP_KILL"], "inheritable": ["CAP_KILL"], "ambient": ["CAP_KILL"]}
        c.process["user"] = {"uid": 1000, "gid": 1000}
        got = caps_of(c.out())
        assert got == {"Bnd": 1 << 5 | 1 | 1 << 13, "Prm": 1 << 5, "Eff": 1 << 5, "Inh": 1 << 5, "Amb": 1 << 5}, got


def test_config_process_capabilities_that_cannot_be_granted_are_a_warning():
    with Bundle("cat", "/proc/self/status") as c:
        names = ["CAP_SYS_RESOURCE", "CAP_NOT_YET_INVENTED", "CAP_KILL"]
        c.process["capabilities"] = {k: names for k in ("bounding", "permitted", "effective")}
        r = c.run()
        assert caps_of(r.out)["Eff"] & 1 << 5 and "CAP_NOT_YET_INVENTED" in r.err, r.err
        with open("/proc/self/status") as f:
            if not caps_of(f.read())["Prm"] & 1 << 24:
                assert "CAP_SYS_RESOURCE" in r.err, r.err


def test_config_process_no_new_privileges_and_oom_score():
    for wanted in (True, False):
        with Bundle("grep", "NoNewPrivs", "/proc/self/status", noNewPrivileges=wanted) as c:
            assert c.out().split()[1] == str(int(wanted))
    with Bundle("cat", "/proc/self/oom_score_adj", oomScoreAdj=100) as c:
        assert c.out().strip() == "100"


def test_config_process_io_priority_and_scheduler():
    with Bundle("sh", "-c", "cat /proc/self/stat; cat /proc/self/sched | head -1") as c:
        c.process["scheduler"] = {"policy": "SCHED_BATCH", "nice": 5}
        c.process["ioPriority"] = {"class": "IOPRIO_CLASS_BE", "priority": 6}
        fields = c.out().split(")")[1].split()
        assert fields[16] == "5" and fields[38] == "3", fields       # nice; SCHED_BATCH
        c.process["ioPriority"] = {"class": "IOPRIO_CLASS_NOSUCH", "priority": 6}
        c.refused("ioPriority")


def test_config_process_labels_without_their_lsm_are_refused():
    if os.path.exists("/sys/kernel/security/apparmor") or os.path.exists("/sys/fs/selinux/enforce"):
        raise b.skip("this host has one")
    for key in ("apparmorProfile", "selinuxLabel"):
        with Bundle(**{key: "some"}) as c:
            c.refused("not enabled")
    with Bundle() as c:
        c.linux["mountLabel"] = "some"
        c.refused("SELinux")


def test_config_hostname_and_domainname():
    with Bundle("sh", "-c", "hostname; cat /proc/sys/kernel/domainname") as c:
        c.config.update(hostname="box", domainname="example.org")
        assert c.out().split() == ["box", "example.org"]
        c.linux["namespaces"] = [n for n in c.linux["namespaces"] if n["type"] != "uts"]
        c.refused("uts")


def test_config_mounts_are_made_in_order_with_their_options():
    with Bundle("cat", "/proc/self/mounts") as c:
        source = b.tmpdir("source")
        c.config["mounts"] += [
            {"destination": "/a", "type": "tmpfs", "source": "tmpfs", "options": ["noexec", "size=1m", "noatime"]},
            {"destination": "/a/b/c", "type": "bind", "source": source, "options": ["rbind", "ro", "nosuid", "nodev"]},
            {"destination": "/d", "type": "none", "source": source, "options": ["bind", "ro", "rw", "relatime"]},
        ]
        mounts = c.out()
        options, kind = has(mounts, "/a")
        assert kind == "tmpfs" and {"noexec", "noatime", "size=1024k"} <= set(options), options
        assert {"ro", "nosuid", "nodev"} <= set(has(mounts, "/a/b/c")[0])
        assert "rw" in has(mounts, "/d")[0]


def test_config_mounts_of_files_make_their_place():
    with Bundle("cat", "/deep/in/file") as c:
        source = b.write(b.tmp("file"), "text")
        c.config["mounts"].append({"destination": "/deep/in/file", "type": "bind", "source": source, "options": ["bind"]})
        assert c.out() == "text"


def test_config_mounts_recursive_attributes():
    with Bundle("cat", "/proc/self/mounts") as c:
        source = b.tmpdir("source")
        os.mkdir(source + "/sub")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", source + "/sub"], check=True)
        try:
            c.config["mounts"].append({"destination": "/r", "type": "bind", "source": source, "options": ["rbind", "rro", "rnosuid"]})
            mounts = c.out()
            for place in ("/r", "/r/sub"):
                assert {"ro", "nosuid"} <= set(has(mounts, place)[0]), mounts
        finally:
            subprocess.run(["umount", source + "/sub"], check=True)


def test_config_mounts_propagation():
    for word, field in (("shared", "shared:"), ("slave", None), ("private", None)):
        with Bundle("cat", "/proc/self/mountinfo") as c:
            c.config["mounts"].append({"destination": "/p", "type": "tmpfs", "source": "t", "options": [word]})
            line = [x for x in c.out().splitlines() if x.split()[4] == "/p"][0]
            assert (field in line) if field else ("shared:" not in line), line


def test_config_mounts_tmpcopyup():
    with Bundle("sh", "-c", "cat /full/a/file; readlink /full/link; stat -c %a /full/a/file; touch /full/new") as c:
        b.write(c.rootfs + "/full/a/file", "kept\n", 0o640)
        os.symlink("a/file", c.rootfs + "/full/link")
        c.config["mounts"].append({"destination": "/full", "type": "tmpfs", "source": "t", "options": ["tmpcopyup"]})
        assert c.out().split() == ["kept", "a/file", "640"]
        assert not os.path.exists(c.rootfs + "/full/new")


def test_config_mounts_idmap():
    with Bundle("stat", "-c", "%u %g", "/m/file") as c:
        source = b.tmpdir("source")
        b.write(source + "/file")
        os.chown(source + "/file", 1000, 1000)
        c.config["mounts"].append({"destination": "/m", "type": "bind", "source": source, "options": ["bind"],
                                   "uidMappings": [{"containerID": 0, "hostID": 100000, "size": 65536}],
                                   "gidMappings": [{"containerID": 0, "hostID": 200000, "size": 65536}]})
        assert c.out().split() == ["101000", "201000"]


def test_config_mounts_stay_in_the_root_whatever_links_are_there():
    victim = b.tmpdir("victim")
    before = b.seal(victim)
    links = {"/dev": victim, "/data": victim, "/up": "../../../../../.." + victim, "/gone": "/not/there"}
    with Bundle("true") as c:
        for place, target in links.items():
            full = c.rootfs + place
            if os.path.isdir(full):
                os.rmdir(full)
            os.symlink(target, full)
        for place in ("/data/x", "/up/y", "/gone/z"):
            c.config["mounts"].append({"destination": place, "type": "tmpfs", "source": "t"})
        c.run(ok=None)
        assert b.seal(victim) == before


def test_config_mounts_proc_and_sys_are_refused_on_links():
    for name in ("proc", "sys"):
        with Bundle() as c:
            os.rmdir(f"{c.rootfs}/{name}")
            os.symlink("/tmp", f"{c.rootfs}/{name}")
            c.refused("ordinary directory")
    with Bundle() as c:
        c.config["mounts"].append({"destination": "/proc/sys/kernel", "type": "bind", "source": b.tmpdir("s"), "options": ["bind"]})
        c.refused("inside /proc")


def hook_writes(path):
    return {"path": "/bin/sh", "args": ["sh", "-c", f"cat >> {path}; echo >> {path}"]}


def test_config_hooks_run_in_order_with_the_state_on_stdin():
    log = b.tmp("hooks")
    with Bundle("true") as c:
        order = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")
        c.config["hooks"] = {k: [{"path": "/bin/sh", "env": [f"NAME={k}", "PATH=/bin:/usr/bin"],
                                  "args": ["hook", "-c", f'echo "$NAME $(cat)" >> {log}']}] for k in order}
        c.config["hooks"]["startContainer"] = [{"path": "/bin/sh", "args": ["sh", "-c", "cat > /started"]}]
        c.run()
        with open(log) as f:
            seen = [line.split(" ", 1) for line in f.read().splitlines()]
        assert [s[0] for s in seen] == list(order), seen
        states = {name: json.loads(text) for name, text in seen}
        assert states["createRuntime"]["status"] == "created" and states["createRuntime"]["pid"] > 1
        assert states["createContainer"]["pid"] == 1
        assert states["poststart"]["status"] in ("running", "stopped") and states["poststop"]["status"] == "stopped"
        assert all(s["id"] == c.id and s["bundle"] == c.dir for s in states.values()), states
        with open(c.rootfs + "/started") as f:
            assert json.load(f)["status"] == "created"


def test_config_hooks_that_fail_end_the_container():
    for name in ("prestart", "createRuntime", "createContainer", "startContainer", "poststart"):
        with Bundle("sleep", "100") as c:
            c.config["hooks"] = {name: [{"path": "/bin/true"}, {"path": "/bin/false"}]}
            c.refused(f"error running {name} hook #1:")


def test_config_hooks_poststop_failure_is_a_warning_and_the_others_run():
    mark = b.tmp("mark")
    with Bundle("true") as c:
        c.config["hooks"] = {"poststop": [{"path": "/bin/false"}, {"path": "/bin/touch", "args": ["touch", mark]}]}
        r = c.run()
        assert os.path.exists(mark) and "poststop" in r.err, r.err


def test_config_hooks_timeout_kills():
    with Bundle("true") as c:
        c.config["hooks"] = {"createRuntime": [{"path": "/bin/sleep", "args": ["sleep", "1000"], "timeout": 1}]}
        c.refused("timeout")


# ---- config-linux.md --------------------------------------------------------------------------

def test_linux_default_filesystems_and_devices():
    script = "for d in null zero full random urandom tty; do test -c /dev/$d || echo no $d; done; ls -l /dev/fd /dev/stdin /dev/ptmx; " \
             "echo x > /dev/null && head -c 4 /dev/zero | wc -c"
    with Bundle("sh", "-c", script.replace("wc -c", "cat > /dev/null; echo done")) as c:
        out = c.out()
        assert "no " not in out and "/proc/self/fd" in out and "pts/ptmx" in out and "done" in out, out


def test_linux_namespaces_are_new_or_inherited():
    kinds = {"pid": "pid", "network": "net", "mount": "mnt", "ipc": "ipc", "uts": "uts", "cgroup": "cgroup"}
    with Bundle("sh", "-c", "for n in pid net mnt ipc uts cgroup; do readlink /proc/self/ns/$n; done") as c:
        c.linux["namespaces"] = [{"type": kind} for kind in kinds]
        inside = c.out().split()
        for got, file in zip(inside, kinds.values()):
            assert got != os.readlink(f"/proc/self/ns/{file}"), file
        c.config.pop("hostname")
        c.linux["namespaces"] = [{"type": "mount"}, {"type": "pid"}]
        c.linux["maskedPaths"] = []
        c.config["mounts"] = [m for m in c.config["mounts"] if m["type"] in ("proc", "tmpfs")]
        inside = c.out().split()
        assert inside[1] == os.readlink("/proc/self/ns/net") and inside[4] == os.readlink("/proc/self/ns/uts")


def test_linux_namespaces_by_path_and_not_twice():
    holder = subprocess.Popen(["unshare", "-n", "-i", "-u", "-p", "-f", "sleep", "1000"])
    try:
        child = b.wait_for(lambda: [p for p in proc.descendants(holder.pid) if proc.alive(p)])[-1]
        with Bundle("sh", "-c", "for n in net ipc uts; do readlink /proc/self/ns/$n; done; echo $$") as c:
            c.config.pop("hostname")
            for n in c.linux["namespaces"]:
                file = {"network": "net"}.get(n["type"], n["type"])
                if n["type"] in ("network", "ipc", "uts", "pid"):
                    n["path"] = f"/proc/{child}/ns/{file}"
            out = c.out().split()
            for got, file in zip(out, ("net", "ipc", "uts")):
                assert got == os.readlink(f"/proc/{child}/ns/{file}"), out
            assert out[3] != "1"
            c.linux["namespaces"].append({"type": "uts"})
            c.refused("duplicated namespace")
            c.linux["namespaces"][-1] = {"type": "nosuch"}
            c.refused("nosuch")
    finally:
        b.kill_tree(holder.pid, including=True)
        holder.wait()


def with_userns(c, host=100000, size=65536):
    c.linux["namespaces"].append({"type": "user"})
    c.linux["uidMappings"] = c.linux["gidMappings"] = [{"containerID": 0, "hostID": host, "size": size}]


def test_linux_user_namespace_mappings():
    with Bundle("sh", "-c", "cat /proc/self/uid_map; id -u; touch /tmp/mine; echo x > /dev/null; ls /dev/zero") as c:
        with_userns(c)
        out = c.out().split()
        assert out == ["0", "100000", "65536", "0", "/dev/zero"], out
        assert os.stat(c.rootfs + "/tmp/mine").st_uid == 100000
        del c.linux["uidMappings"]
        c.refused("uidMappings")


def test_linux_user_namespace_root_behind_a_private_directory():
    # as podman keeps its roots: the mapped root cannot even enter the directory
    with Bundle("sh", "-c", "id -u; ls /bin/sh; cat /mnt/file") as c:
        private = b.tmpdir("private", 0o700)
        source = b.write(private + "/dir/file", "seen\n")
        shutil.move(c.rootfs, private + "/rootfs")
        c.config["root"]["path"] = private + "/rootfs"
        c.config["mounts"].append({"destination": "/mnt", "type": "bind", "source": os.path.dirname(source), "options": ["rbind", "ro"]})
        with_userns(c)
        assert c.out().split() == ["0", "/bin/sh", "seen"]


def test_linux_time_namespace_offsets():
    if not os.path.exists("/proc/self/ns/time"):
        raise b.skip("this kernel has no time namespaces")
    with Bundle("cat", "/proc/uptime") as c:
        c.linux["namespaces"].append({"type": "time"})
        c.linux["timeOffsets"] = {"boottime": {"secs": 10000000, "nanosecs": 0}}
        assert float(c.out().split()[0]) > 10000000
        c.linux["timeOffsets"] = {"nosuch": {"secs": 1, "nanosecs": 0}}
        c.refused("timeOffsets")


def test_linux_devices_are_made_with_mode_and_owner():
    with Bundle("stat", "-c", "%F %a %u %g %t %T", "/dev/made", "/dev/queue") as c:
        c.linux["devices"] = [{"path": "/dev/made", "type": "c", "major": 1, "minor": 5, "fileMode": 0o640, "uid": 3, "gid": 4},
                              {"path": "/dev/queue", "type": "p", "fileMode": 0o600}]
        out = c.out().splitlines()
        assert out[0] == "character special file 640 3 4 1 5" and out[1].startswith("fifo 600"), out
        c.linux["devices"][0]["type"] = "z"
        c.refused("linux.devices")


def test_linux_device_rules_are_enforced():
    with Bundle("sh", "-c", "cat /dev/kmsg2 > /dev/null; echo $?; head -c 1 /dev/zero > /dev/null; echo $?") as c:
        c.linux["devices"] = []
        c.config["mounts"].append({"destination": "/mnt", "type": "tmpfs", "source": "t", "options": ["dev"]})
        c.process["args"][2] = "mknod /mnt/k c 1 11 2>/dev/null; head -c 1 /mnt/k > /dev/null 2>&1; echo $?; head -c 1 /dev/zero > /dev/null; echo $?"
        os.symlink("busybox", c.rootfs + "/bin/mknod")
        c.process["capabilities"] = {k: ["CAP_MKNOD"] for k in ("bounding", "permitted", "effective")}
        assert c.out().split() == ["1", "0"]


def v1_file(c, controller, name):
    for rel in ("", *set(proc.cgroups("self"))):
        path = f"/sys/fs/cgroup/{controller}/{rel}/{c.linux['cgroupsPath']}/{name}"
        if os.path.exists(path):
            with open(path) as f:
                return f.read().strip()
    raise AssertionError(f"no {name} of {controller}")


def test_linux_cgroups_path_and_limits():
    if not HYBRID:
        raise b.skip("written for v1 controllers")
    with Bundle(*SLEEP) as c:
        c.linux["resources"].update(memory={"limit": 64 << 20, "swap": 64 << 20}, cpu={"shares": 512, "quota": 50000, "period": 100000},
                                    pids={"limit": 20})
        c.detached()
        assert v1_file(c, "memory", "memory.limit_in_bytes") == str(64 << 20)
        assert v1_file(c, "cpu", "cpu.shares") == "512" and v1_file(c, "cpu", "cpu.cfs_quota_us") == "50000"
        assert v1_file(c, "pids", "pids.max") == "20"
        pid = str(c.state()["pid"])
        for controller in ("memory", "cpu", "pids", "devices", "unified"):
            assert pid in v1_file(c, controller, "cgroup.procs").split(), controller
        c.call("update", "--memory", "80m", "--memory-swap", "80m", "--pids-limit", "30", "--cpu-share", "256", c.id)
        assert v1_file(c, "memory", "memory.limit_in_bytes") == str(80 << 20)
        assert v1_file(c, "pids", "pids.max") == "30" and v1_file(c, "cpu", "cpu.shares") == "256"
        c.call("update", "-r", "-", c.id, input=json.dumps({"pids": {"limit": 40}}).encode())
        assert v1_file(c, "pids", "pids.max") == "40"
        stats = json.loads(c.call("events", "--stats", c.id).out)
        assert stats["data"]["memory"]["usage"]["limit"] == 80 << 20 and stats["data"]["pids"]["current"] >= 1, stats


def test_linux_limits_that_cannot_be_enforced_are_refused():
    with Bundle() as c:
        c.linux["resources"]["network"] = {"classID": 1048577}
        if not os.path.exists("/sys/fs/cgroup/net_cls"):
            c.refused("net_cls")
        c.linux["resources"].pop("network")
        c.linux["intelRdt"] = {"closID": "x"}
        c.refused("intelRdt")
        c.linux.pop("intelRdt")
        if HYBRID:
            c.linux["resources"]["unified"] = {"memory.high": "1000000"}
            c.refused("unified")


def test_linux_a_cgroup_with_processes_of_others_is_refused():
    with Bundle(*SLEEP) as c, Bundle() as other:
        c.detached()
        other.id += "x"
        other.linux["cgroupsPath"] = c.linux["cgroupsPath"]
        r = other.run(ok=None)
        b.expect(r.code != 0 and "not empty" in r.err, r, "took another's cgroup")
        assert c.status() == "running"


def test_linux_sysctl_of_own_namespaces_only():
    with Bundle("cat", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/shmmni") as c:
        c.linux["sysctl"] = {"net.ipv4.ip_forward": "1", "kernel/shmmni": "2048"}
        assert c.out().split() == ["1", "2048"]
        for bad in ("kernel.panic", "vm.swappiness", "kernel.hostname", "../x"):
            c.linux["sysctl"] = {bad: "1"}
            c.refused("sysctl")


def seccomp_profile(*calls, default="SCMP_ACT_ALLOW"):
    return {"defaultAction": default, "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"], "syscalls": list(calls)}


def test_linux_seccomp_errno_args_and_flags():
    with Bundle("sh", "-c", "mkdir /tmp/a; mkdir /tmp/b; grep Seccomp: /proc/self/status") as c:
        c.linux["seccomp"] = seccomp_profile({"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28})
        c.linux["seccomp"]["flags"] = ["SECCOMP_FILTER_FLAG_LOG"]
        r = c.run()
        b.expect("No space left" in r.err and r.out.split()[1] == "2", r, "the filter did not answer")
        c.linux["seccomp"]["syscalls"][0]["action"] = "SCMP_ACT_NOSUCH"
        c.refused("not an action")
        c.linux["seccomp"] = seccomp_profile({"names": ["kill"], "action": "SCMP_ACT_ERRNO", "args": [
            {"index": 1, "value": 10, "op": "SCMP_CMP_EQ"}]})
        c.process["args"] = ["sh", "-c", "kill -10 $$; echo $?; kill -0 $$; echo $?"]
        assert c.out().split() == ["1", "0"]


def test_an_annotation_that_makes_a_container_stricter_is_not_ignored():
    with Bundle() as c:
        c.linux["seccomp"] = seccomp_profile({"names": ["no_such_call"], "action": "SCMP_ACT_ERRNO"})
        c.run()
        c.config["annotations"] = {"run.oci.seccomp_fail_unknown_syscall": "1"}
        c.refused("unknown system call no_such_call", "run.oci.seccomp_fail_unknown_syscall")
        c.config["annotations"] = {"run.oci.seccomp_fail_unknown_syscall": "0"}
        c.run()
        for name in ("handler", "pidfd_receiver", "seccomp_bpf_data", "seccomp.receiver", "seccomp.plugins"):
            c.config["annotations"] = {f"run.oci.{name}": "x"}
            c.refused(f"annotation run.oci.{name} is not supported")


def test_linux_seccomp_listener_gets_the_descriptor_and_the_state():
    path = b.tmp("agent")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(1)
    got = {}

    def serve():
        conn, _ = server.accept()
        fds = array.array("i")
        data, anc, _, _ = conn.recvmsg(65536, socket.CMSG_LEN(fds.itemsize))
        for _, _, piece in anc:
            fds.frombytes(piece[:fds.itemsize])
        got["state"] = json.loads(data)
        got["link"] = os.readlink(f"/proc/self/fd/{fds[0]}")
        os.close(fds[0])        # no agent: the call gets ENOSYS
        conn.close()

    agent = threading.Thread(target=serve, daemon=True)
    agent.start()
    try:
        with Bundle("sh", "-c", "mkdir /tmp/x; echo done") as c:
            c.linux["seccomp"] = seccomp_profile({"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_NOTIFY"})
            c.refused("listenerPath")
            c.linux["seccomp"].update(listenerPath=path, listenerMetadata="meta")
            assert "done" in c.out()
            agent.join(5 * b.SLOW)
            assert "seccomp" in got["link"] and got["state"]["metadata"] == "meta", got
            assert got["state"]["fds"] == ["seccompFd"] and got["state"]["state"]["id"] == c.id, got
    finally:
        server.close()


def test_linux_masked_and_readonly_paths():
    with Bundle("sh", "-c", "cat /proc/keys | head -c 1; ls -A /etc/secret; touch /etc/fixed/x; echo $?; test -c /proc/keys && echo null") as c:
        b.write(c.rootfs + "/etc/secret/file")
        os.mkdir(c.rootfs + "/etc/fixed")
        c.linux["maskedPaths"] += ["/etc/secret", "/not/there"]
        c.linux["readonlyPaths"] += ["/etc/fixed", "/not/there"]
        assert c.out().split() == ["1", "null"]


def test_linux_a_mask_holds_however_its_path_is_written():
    with Bundle("sh", "-c", "cat /etc/masked /proc/keys; ls -A /etc/secret; touch /etc/fixed/x; echo $?") as c:
        b.write(c.rootfs + "/etc/masked", "secret")
        b.write(c.rootfs + "/etc/secret/file")
        os.mkdir(c.rootfs + "/etc/fixed")
        c.linux["maskedPaths"] = ["/proc/../etc/masked", "/proc/fs/../keys", "/sys/../etc/secret"]
        c.linux["readonlyPaths"] = ["/proc/sys/../../etc/fixed"]
        assert c.out() == "1\n"


def test_linux_a_mask_is_not_made_of_the_images_null():
    with Bundle("sh", "-c", "cat /etc/masked") as c:
        b.write(c.rootfs + "/etc/masked", "secret")
        c.config["mounts"] = [m for m in c.config["mounts"] if m["destination"] == "/proc"]
        os.symlink("/etc/other", c.rootfs + "/dev/null")
        b.write(c.rootfs + "/etc/other", "other")
        c.linux["maskedPaths"] = ["/etc/masked"]
        assert c.out() == ""


def test_linux_rootfs_propagation():
    for word, present in (("shared", "shared:"), ("slave", None), ("private", None), ("unbindable", "unbindable")):
        with Bundle("cat", "/proc/self/mountinfo") as c:
            c.linux["rootfsPropagation"] = word
            line = [x for x in c.out().splitlines() if x.split()[4] == "/"][0]
            assert (present in line) if present else ("shared:" not in line), (word, line)
    with Bundle() as c:
        c.linux["rootfsPropagation"] = "nosuch"
        c.refused("rootfsPropagation")


def test_linux_personality():
    with Bundle("uname", "-m") as c:
        c.linux["personality"] = {"domain": "LINUX32"}
        assert c.out().strip() in ("i686", "x86", "armv8l", "armv7l"), c.out()
        c.linux["personality"] = {"domain": "NOSUCH"}
        c.refused("personality")


def test_linux_net_devices_move_in():
    with Bundle("cat", "/proc/net/dev", "/proc/net/fib_trie") as c:
        for kind in ("dummy", "veth", "bridge", "ifb"):
            if not subprocess.run(["ip", "link", "add", "bt0", "type", kind], stderr=subprocess.DEVNULL, timeout=10 * b.SLOW).returncode:
                break
        else:
            raise b.skip("this kernel can make no interface")
        subprocess.run(["ip", "addr", "add", "192.0.2.7/24", "dev", "bt0"], check=True, timeout=10 * b.SLOW)
        c.linux["netDevices"] = {"bt0": {"name": "eth7"}}
        out = c.out()
        assert "eth7:" in out and "192.0.2.7" in out, out


# ---- the command line, as engines use it ---------------------------------------------------------

def test_cli_exec_takes_flags_and_process_files():
    with Bundle(*SLEEP) as c:
        c.linux["namespaces"] = [n for n in c.linux["namespaces"] if n["type"] != "cgroup"] + [{"type": "cgroup"}]
        c.detached()
        r = c.exec("-e", "A=b", "--cwd", "/tmp", "-u", "1000:100", c.id, "sh", "-c", "echo $A; pwd; id -u; id -g; exit 6", ok=6)
        assert r.out.split() == ["b", "/tmp", "1000", "100"], r
        spec = dict(c.process, args=["sh", "-c", "cat /proc/self/cgroup"], cwd="/")
        path = b.write(b.tmp("process.json"), json.dumps(spec))
        out = c.exec("--process", path, c.id).out
        with open(f"/proc/{c.state()['pid']}/cgroup") as f:
            # seen from the container's cgroup namespace: its own is the root
            assert all(line.endswith(":/") for line in out.splitlines()), (out, f.read())
        b.expect_code(c.exec(c.id, "nosuch", ok=None), 255)
        pid_file = b.tmp("pid")
        c.exec("-d", "--pid-file", pid_file, c.id, "sleep", "1000", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(pid_file) as f:
            pid = int(f.read())
        assert pid in json.loads(c.call("ps", "--format", "json", c.id).out)
        fds = c.exec(c.id, "ls", "/proc/self/fd").out.split()
        assert fds == ["0", "1", "2", "3"], fds     # 3 is ls's own


def test_cli_exec_in_a_cgroup_below_the_containers():
    if not HYBRID:
        raise b.skip("written for v1 controllers")
    with Bundle(*SLEEP) as c:
        c.linux["namespaces"] = [n for n in c.linux["namespaces"] if n["type"] != "cgroup"]
        for m in c.config["mounts"]:
            if m["type"] == "cgroup":
                m["options"].remove("ro")
        c.detached()
        c.exec(c.id, "sh", "-c", "mkdir /sys/fs/cgroup/pids/sub /sys/fs/cgroup/memory/sub")
        out = c.exec("--cgroup", "pids:sub", "--cgroup", "memory:sub", c.id, "cat", "/proc/self/cgroup").out
        for line in out.splitlines():
            name = line.split(":")[1]
            assert line.endswith("/sub") == (name in ("pids", "memory")), out
        for bad, word in (("..", "bad sub cgroup path"), ("nonexistent", "no such file or directory"),
                          ("nosuch:/", "unknown controller"), ("pids:nonexistent", "no such file or directory")):
            r = c.exec("--cgroup", bad, c.id, "true", ok=255)
            b.expect(word in r.err, r, f"does not say {word}")


def test_cli_exec_in_a_stopped_or_paused_container_is_refused():
    with Bundle(*SLEEP) as c:
        c.detached()
        c.call("pause", c.id)
        assert c.status() == "paused"
        r = c.exec(c.id, "true", ok=None)
        b.expect(r.code == 255 and "paused" in r.err, r, "ran in a paused container")
        c.call("resume", c.id)
        assert c.status() == "running"
        c.call("kill", c.id, "KILL")
        b.wait_for(lambda: c.status() == "stopped")
        b.expect(c.exec(c.id, "true", ok=None).code == 255, c.call("list"), "ran in a stopped container")


def test_cli_list_ps_and_formats():
    with Bundle(*SLEEP) as c:
        c.detached()
        assert c.call("list", "-q").out.split() == [c.id]
        listed = json.loads(c.call("list", "--format", "json").out)
        assert [x["id"] for x in listed] == [c.id] and listed[0]["status"] == "running"
        assert c.call("list").out.splitlines()[0].split() == ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"]
        assert str(c.state()["pid"]) in c.call("ps", c.id).out


def test_cli_log_lines_are_json_for_engines():
    with Bundle("nosuch") as c:
        c.save()
        log = b.tmp("log.json")
        c.call("--log", log, "--log-format", "json", "create", "-b", c.dir, c.id, ok=1)
        with open(log) as f:
            lines = [json.loads(x) for x in f.read().splitlines()]
        assert lines[-1]["level"] == "error" and "executable file not found" in lines[-1]["msg"], lines
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", lines[-1]["time"]), lines


def test_cli_exit_status_and_signals_of_run():
    with Bundle("sh", "-c", "exit 9") as c:
        assert c.run(ok=None).code == 9
        # pid 1 of a namespace cannot kill itself
        c.linux["namespaces"] = [n for n in c.linux["namespaces"] if n["type"] != "pid"]
        c.process["args"] = ["sh", "-c", "kill -9 $$"]
        assert c.run(ok=None).code == 137
        c.process["args"] = list(SLEEP)
        c.save()
        p = subprocess.Popen([OCI, "--root", c.root, "run", "-b", c.dir, c.id], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        b.wait_for(lambda: c.call("state", c.id, ok=None).code == 0 and c.status() == "running")
        # its trap is set once it sleeps
        b.wait_for(lambda: len(json.loads(c.call("ps", "-f", "json", c.id).out)) > 1)
        p.send_signal(signal.SIGTERM)
        assert p.wait(20 * b.SLOW) == 3


def test_cli_preserve_fds_and_no_others():
    with Bundle("sh", "-c", "ls /proc/self/fd; cat <&3") as c:
        c.save()
        reads = []
        for _ in range(3):
            r, w = os.pipe()
            os.write(w, b"passed")
            os.close(w)
            reads.append(r)

        def arrange():
            for i, fd in enumerate(reads):
                os.dup2(fd, 20 + i)
            for i in range(3):
                os.dup2(20 + i, 3 + i)

        p = subprocess.run([OCI, "--root", c.root, "run", "-b", c.dir, "--preserve-fds", "1", c.id], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=False, preexec_fn=arrange, timeout=30 * b.SLOW)
        for fd in reads:
            os.close(fd)
        assert p.stdout.split() == [b"0", b"1", b"2", b"3", b"4", b"passed"], p


def test_cli_listen_fds_are_those_of_this_process():
    """sd_listen_fds(3): LISTEN_PID says whose they are; a variable that was left over passes nothing on."""
    shell = "ls /proc/self/fd | tr '\\n' ' '; echo ${LISTEN_FDS-none} ${LISTEN_PID-none}"
    passing = ("sh", "-c", 'exec 3</dev/null 4</dev/null; exec env $WORDS "$0" "$@"')
    mine = ("sh", "-c", 'exec 3</dev/null 4</dev/null; exec env LISTEN_PID=$$ $WORDS "$0" "$@"')
    none, one, two = "0 1 2 3 none none\n", "0 1 2 3 4 1 1\n", "0 1 2 3 4 5 1 1\n"
    with Bundle("sh", "-c", shell) as c:
        os.symlink("busybox", c.rootfs + "/bin/tr")
        for prefix, words, options, want in (
                (mine, "LISTEN_FDS=1", (), one),
                (mine, "LISTEN_FDS=1", ("--preserve-fds", "1"), two),
                (passing, "LISTEN_FDS=1", (), one),
                (passing, "LISTEN_FDS=1 LISTEN_PID=1", (), none),
                (passing, "LISTEN_FDS=1 LISTEN_PID=", (), none),
                (passing, "LISTEN_FDS=1 LISTEN_PID=1", ("--preserve-fds", "1"), "0 1 2 3 4 none none\n"),
                (passing, "LISTEN_FDS=9 LISTEN_PID=1", (), none),
                (passing, "LISTEN_FDS=0", (), none),
                (passing, "LISTEN_FDS=", (), none),
                # more than there are, as in crun's suite: all there are
                (passing, "LISTEN_FDS=2", ("--preserve-fds", "1"), "0 1 2 3 4 5 2 1\n"),
                (passing, "", ("--preserve-fds", "100"), "0 1 2 3 4 5 none none\n")):
            c.prefix = prefix
            r = c.run(*options, env={"WORDS": words})
            b.expect(r.out == want, r, f"{words} {options}: not {want!r}")
        c.prefix = passing
        for words, options, why in (
                ("LISTEN_FDS=3", (), "LISTEN_FDS=3: descriptor 5 is not open"),
                ("LISTEN_FDS=4294967295", (), "LISTEN_FDS"),
                ("LISTEN_FDS=-1", (), "LISTEN_FDS"),
                ("LISTEN_FDS=1x", (), "LISTEN_FDS")):
            r = c.run(*options, env={"WORDS": words}, ok=None)
            b.expect(r.code == 1 and why in r.err, r, f"{words} {options}: not refused for {why!r}")
        c.prefix = ("sh", "-c", 'exec 3</dev/null 4</dev/null 7</dev/null; exec env $WORDS "$0" "$@"')
        assert c.run("--preserve-fds", "5", env={"WORDS": ""}).out == "0 1 2 3 4 5 7 none none\n"     # 5 is of ls
        c.prefix = ()


def receive_terminal(path, act):
    """Listens at path as an engine does, calls act(), returns the terminal's master."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(1)
    try:
        act()
        conn, _ = server.accept()
        fds = array.array("i")
        _, anc, _, _ = conn.recvmsg(4096, socket.CMSG_LEN(fds.itemsize))
        conn.close()
        fds.frombytes(anc[0][2][:fds.itemsize])
        return fds[0]
    finally:
        server.close()


def read_terminal(fd, word):
    got = b""
    end = time.monotonic() + 10 * b.SLOW
    os.set_blocking(fd, False)
    while word not in got and time.monotonic() < end:
        try:
            got += os.read(fd, 4096)
        except BlockingIOError:
            time.sleep(0.005)
        except OSError:
            break
    return got


def test_cli_console_socket_gets_the_terminal():
    with Bundle("sh", "-c", "tty; stty size; test -c /dev/console && echo console; read x; echo got $x") as c:
        c.process.update(terminal=True, consoleSize={"height": 33, "width": 101})
        master = receive_terminal(b.tmp("console"), lambda: c.create("--console-socket", b.tmp("console")))
        try:
            c.call("start", c.id)
            first = read_terminal(master, b"console")
            assert b"/dev/pts/0" in first and b"33 101" in first and b"console" in first, first
            os.set_blocking(master, True)
            os.write(master, b"word\n")
            assert b"got word" in read_terminal(master, b"got word")
        finally:
            os.close(master)


def test_cli_exec_terminal_by_console_socket():
    with Bundle(*SLEEP) as c:
        c.detached()
        master = receive_terminal(b.tmp("console"), lambda: c.exec("-d", "-t", "--console-socket", b.tmp("console"), c.id,
                                                                   "sh", "-c", "tty; echo end"))
        try:
            assert b"/dev/pts/" in read_terminal(master, b"end")
        finally:
            os.close(master)
        r = c.exec("-d", "-t", c.id, "true", ok=None)
        b.expect(r.code != 0 and "console" in r.err, r, "a terminal for nobody")


def test_cli_terminal_rules_of_create():
    with Bundle() as c:
        c.process["terminal"] = True
        c.save()
        assert "console" in c.call("create", "-b", c.dir, c.id, ok=1).err
        c.process["terminal"] = False
        c.save()
        assert c.call("create", "-b", c.dir, "--console-socket", "/nosuch", c.id, ok=1).code == 1


def test_cli_no_pivot_moves_the_root():
    with Bundle("ls", "/") as c:
        assert "bin" in c.out() and "bin" in c.run("--no-pivot").out
        assert "home" not in c.run("--no-pivot").out.split()


def test_cli_keep_and_config_options():
    with Bundle("true") as c:
        c.run("--keep")
        assert c.status() == "stopped"
        c.call("delete", c.id)
        other = b.write(os.path.join(c.dir, "other.json"), json.dumps(dict(c.config, process=dict(c.process, args=["echo", "other"]))))
        assert c.run("--config", other).out == "other\n"


def test_cli_spec_writes_runcs_shape_and_no_file_over_another():
    with Bundle() as c:
        r = c.call("spec", "-b", c.dir, ok=None)
        b.expect(r.code != 0 and "exists" in r.err, r, "wrote over it")
        os.unlink(c.path())
        c.call("spec", "--rootless", "-b", c.dir)
        with open(c.path()) as f:
            config = json.load(f)
        assert {"type": "user"} in config["linux"]["namespaces"] and "resources" not in config["linux"]


def test_features_document():
    with Bundle() as c:
        f = json.loads(c.call("features").out)
        assert f["ociVersionMin"] == "1.0.0" and set(f["hooks"]) >= {"createRuntime", "poststop"}
        assert "rro" in f["mountOptions"] and "CAP_KILL" in f["linux"]["capabilities"]
        assert f["linux"]["cgroup"]["systemd"] is os.path.exists(os.path.join(b.BUILD, "berth-systemd")) and "SCMP_ACT_NOTIFY" in f["linux"]["seccomp"]["actions"]
        assert "spec: 1." in c.call("--version").out and "create" in c.call("--help").out


def test_manual_names_every_command_and_option_and_its_examples_work():
    with open(os.path.join(b.TOP, "man", "berth-oci.8")) as f:
        page = f.read()
    with Bundle() as c:
        text = c.call("--help").out
        commands = re.findall(r"^  ([a-z]+) ", text.split("Options:")[0], re.M)
        assert len(commands) == 17, commands
        for name in [None] + commands:
            if name:
                assert re.search(rf"\b(Cm|,) {name}\b", page), f"{name} is not in the manual"
                text = c.call(name, "--help").out
            for option in re.findall(r"--([a-z][a-z-]+)", text):
                assert f"Fl Fl {option}" in page, f"--{option} of {name} is not in the manual"
        os.makedirs(c.root)     # the default one is made by the first container, and its absence is an empty list
        block = re.search(r"^\.Sh EXAMPLES.*?^\.Bd -literal\n(.*?)^\.Ed", page, re.S | re.M).group(1)
        script = block.replace("/tmp/", b.tmpdir("examples") + "/").replace("berth-oci ", f"berth-oci --root {c.root} ")
        p = subprocess.run(["sh", "-ec", script], env=dict(b.environment(), PATH=b.BUILD + ":" + os.environ["PATH"]),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30 * b.SLOW)
        assert p.returncode == 0 and p.stdout.endswith(b"[]\n"), p


def test_rootless_an_ordinary_user_runs_a_container_of_its_own():
    with Bundle(*SLEEP) as c:
        os.chmod(b.root(), 0o711)
        os.chmod(b.tmp(""), 0o711)
        os.unlink(c.path())
        home = b.tmpdir("home")
        subprocess.run(["chown", "-R", "1234:1234", c.dir, home], check=True)
        as_user = ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", OCI]
        env = b.environment({"XDG_RUNTIME_DIR": home})

        def call(*args, ok=0):
            with open(b.tmp("rootless.out"), "wb") as out:
                code = subprocess.run([*as_user, *args], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                      timeout=30 * b.SLOW).returncode
            with open(b.tmp("rootless.out")) as f:
                text = f.read()
            assert code == ok, (args, code, text)
            return text

        call("spec", "--rootless", "-b", c.dir)
        with open(c.path()) as f:
            config = json.load(f)
        config["process"].update(terminal=False, args=["sh", "-c", "id -u; cat /proc/self/uid_map; echo x > /dev/null; exit 4"])
        b.write(c.path(), json.dumps(config))
        assert call("run", "-b", c.dir, "rootless", ok=4).split() == ["0", "0", "1234", "1"]
        config["process"]["args"] = list(SLEEP)
        b.write(c.path(), json.dumps(config))
        call("run", "-d", "-b", c.dir, "rootless")
        try:
            assert call("exec", "rootless", "id", "-u").strip() == "0"
            assert "running" in call("list")
        finally:
            call("delete", "--force", "rootless")
            c.reap()


# ---- attacks --------------------------------------------------------------------------------------

def test_attack_the_hosts_binary_is_not_the_containers_proc_self_exe():
    # CVE-2019-5736: #!/proc/self/exe as the program
    before = os.stat(OCI)
    with Bundle("/evil") as c:
        b.write(c.rootfs + "/evil", "#!/proc/self/exe\n", 0o755)
        c.run(ok=None)
        c.process["args"] = list(SLEEP)
        c.detached()
        c.exec(c.id, "/evil", ok=None)
        with open("/proc/self/exe", "rb"):
            pass
        p = subprocess.Popen([OCI, "--root", c.root, "exec", c.id, "sleep", "1000"], stdin=subprocess.DEVNULL)
        try:
            b.wait_for(lambda: os.readlink(f"/proc/{p.pid}/exe").startswith("/memfd:"), what=os.readlink(f"/proc/{p.pid}/exe"))
        finally:
            p.kill()
            p.wait()
    after = os.stat(OCI)
    assert (before.st_ino, before.st_mtime_ns, before.st_size) == (after.st_ino, after.st_mtime_ns, after.st_size)
    assert stat.S_ISREG(after.st_mode)


def cgroup_tops():
    return [d for d in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.path.exists(d + "/cgroup.procs")]


def cgroup_chain(path, levels, name="d"):
    """Cgroups in cgroups: the last one, open."""
    fd = os.open(path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    return fd


@b.deadline(120)
def test_attack_cgroups_of_any_depth_go_with_the_container():
    """In time that is as their number: one descent for each of them of 1000 levels took 5 s, of 10,000 hours."""
    tops, made = cgroup_tops(), 0
    with Bundle(*SLEEP) as c:
        c.detached()
        for top in tops:
            # the kernel takes 18 s to make 3000 in a v2 tree
            levels = 3000 if top.endswith("pids") else 1000
            os.close(cgroup_chain(top + c.linux["cgroupsPath"], levels))
            made += levels + 501 * 2
            # wide, and a name that looks like none
            for name in (".d", *map(str, range(500))):
                os.close(cgroup_chain(top + c.linux["cgroupsPath"], 2, name))
        c.prefix = ("strace", "-f", "-qq", "-o", b.tmp("trace"), "-e", "trace=openat,openat2,open")
        c.call("delete", "--force", c.id, timeout=90)
        c.prefix = ()
        assert not any(os.path.exists(top + c.linux["cgroupsPath"]) for top in tops)
        with open(b.tmp("trace")) as f:
            opened = sum(1 for _ in f)
        assert opened < 8 * made, f"{opened} directories were opened to remove {made}"


def test_attack_a_process_in_a_deep_cgroup_is_listed_and_signalled():
    with Bundle(*SLEEP) as c:
        init = c.detached()
        for levels, name in ((600, "d"), (1, ".hidden")):
            c.exec("-d", "--pid-file", b.tmp("deep.pid"), c.id, "sleep", "1000", stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
            pid = int(open(b.tmp("deep.pid")).read())
            for top in cgroup_tops():
                fd = cgroup_chain(top + c.linux["cgroupsPath"], levels, name)
                procs = os.open("cgroup.procs", os.O_WRONLY, dir_fd=fd)
                os.write(procs, str(pid).encode())
                os.close(procs)
                os.close(fd)
            r = c.call("ps", "-f", "json", c.id)
            b.expect({init, pid} <= set(json.loads(r.out)), r, f"{pid} in {name} is not listed")
            c.call("kill", "--all", c.id, "USR1")
            assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGUSR1


def test_attack_exec_joins_no_cgroup_that_the_image_names():
    """Where the clone into the cgroup is refused the file is opened on the host, not in the container."""
    if not HYBRID:
        raise b.skip("the place of the v2 tree differs")
    with Bundle(*SLEEP) as c:
        c.detached()
        place = c.rootfs + "/sys/fs/cgroup/unified" + c.linux["cgroupsPath"]
        os.makedirs(place)
        trap = b.write(place + "/cgroup.procs", "")
        c.prefix = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=clone3", "-e", "inject=clone3:error=EBUSY:when=1")
        r = c.exec(c.id, "cat", "/proc/self/cgroup", ok=None)
        c.prefix = ()
        assert open(trap).read() == "", "it wrote to a file of the image"
        b.expect(r.code != 0 or c.linux["cgroupsPath"] in r.out, r, "out of the container's cgroup")


# the one descriptor that is open then is a socket
NOWHERE = r"stat /app: (no such file or|not a) directory"


def ways_out(target):
    """Links of an image to a file of the host, by the descriptors that the runtime might have open."""
    return [f"/proc/self/fd/{n}/{'../' * 10}{target[1:]}" for n in range(3, 32)]


def test_attack_no_descriptor_leads_to_a_program_of_the_host():
    # CVE-2024-21626 by the program's path: the kernel takes the host's program, and its interpreter from the image
    victim = b.write(b.tmp("victim-program"), "", 0o755)
    shutil.copy("/bin/busybox", victim)
    with Bundle("/app") as c:
        for link in ways_out(victim):
            os.symlink(link, c.rootfs + "/app")
            for r in (c.run(ok=None), c.run("--preserve-fds", "0", ok=None)):
                b.expect(r.code != 0 and re.search(NOWHERE, r.err), r, f"a program of the host was found by {link}")
            r = c.create(ok=None)
            b.expect(r.code != 0, r, f"a program of the host was found by {link}")
            os.unlink(c.rootfs + "/app")
        c.process["args"] = list(SLEEP)
        c.detached()
        for link in ways_out(victim):
            os.symlink(link, c.rootfs + "/app")
            r = c.exec(c.id, "/app", ok=None)
            b.expect(r.code != 0 and re.search(NOWHERE, r.err), r, f"exec found a program of the host by {link}")
            os.unlink(c.rootfs + "/app")


def test_attack_what_the_caller_did_not_open_is_not_passed_on():
    """The number of descriptors to keep may be larger than that of those there are: ours would stand in their places."""
    victim = b.write(b.tmp("victim-program"), "", 0o755)
    shutil.copy("/bin/busybox", victim)
    passing = (("--preserve-fds", "1"), {}), (("--preserve-fds", "29"), {}), ((), {"LISTEN_FDS": "1"}), ((), {"LISTEN_FDS": "29"})
    not_open = r"descriptor 3 is not open|" + NOWHERE    # more than there are is what there is: nothing
    with Bundle("/app") as c:
        for link in ways_out(victim):
            os.symlink(link, c.rootfs + "/app")
            for options, env in passing:
                for make in (c.run, c.create):
                    r = make(*options, env=env, ok=None)
                    b.expect(r.code != 0, r, f"{options} {env}: a program of the host was found by {link}")
                    b.expect(make == c.create or re.search(not_open, r.err), r, "the error does not say why")
                    b.expect(make == c.create or not env or "descriptor 3 is not open" in r.err, r, "LISTEN_FDS tells of what there is")
            os.unlink(c.rootfs + "/app")
        c.process["args"] = list(SLEEP)
        c.detached()
        for link in ways_out(victim):
            os.symlink(link, c.rootfs + "/app")
            for n in ("1", "29"):
                r = c.exec("--preserve-fds", n, c.id, "/app", ok=None)
                b.expect(r.code != 0 and re.search(not_open, r.err), r, f"exec found a program of the host by {link}")
            r = c.exec(c.id, "/app", env={"LISTEN_FDS": "29"}, ok=None)
            b.expect(r.code != 0 and re.search(NOWHERE, r.err), r, f"exec found a program of the host by {link}")
            os.unlink(c.rootfs + "/app")


def test_attack_a_hook_in_the_container_is_confined_as_its_process():
    with Bundle("true") as c:
        c.process["user"] = {"uid": 1000, "gid": 1000}
        c.process["noNewPrivileges"] = True
        c.linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["swapon"], "action": "SCMP_ACT_ERRNO"}]}
        c.config["hooks"] = {"startContainer": [{"path": "/bin/sh", "args": ["sh", "-c", "id -u; grep -E 'CapEff|NoNew|Seccomp:' /proc/self/status; "
                                                 "ls -l /proc/self/fd | grep -v pipe; ls /proc/1/fd 2>&1 | head -1"]}]}
        r = c.run()
        said = r.out + r.err
        assert said.startswith("1000\n") and "CapEff:\t0000000000000000" in said, said
        assert "NoNewPrivs:\t1" in said and "Seccomp:\t2" in said, said


def test_attack_the_output_of_a_hook_is_not_looked_up_in_the_image():
    victim = b.write(b.tmp("victim-file"), "safe\n", 0o600)
    log = b.tmp("hook.log")
    with Bundle("true") as c:
        c.config["hooks"] = {"startContainer": [{"path": "/bin/sh", "args": ["sh", "-c", "echo from the hook"]}]}
        c.config.setdefault("annotations", {})["run.oci.hooks.stdout"] = log
        for link in ways_out(victim):
            inside = c.rootfs + log
            os.makedirs(os.path.dirname(inside), exist_ok=True)
            os.symlink(link, inside)
            c.run()
            assert open(victim).read() == "safe\n", link
            os.unlink(inside)
    assert open(log).read() == "from the hook\n" * len(ways_out(victim))
