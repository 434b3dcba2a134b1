# SPDX-License-Identifier: Apache-2.0
"""
What the public suites for OCI runtimes (runc's and crun's own, runtime-tools') try and the
specification leaves open: one test of ours for each difference that driving them showed.
"""
import array
import fcntl
import glob
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import termios
import threading

import berthtest as b
from test_oci import HYBRID, OCI, SLEEP, Bundle, seccomp_profile


def freezer(c):
    """The directory in which the container's cgroup is frozen, and the file and word that do it."""
    if HYBRID:
        return "/sys/fs/cgroup/freezer" + c.linux["cgroupsPath"], "freezer.state", "FROZEN"
    return "/sys/fs/cgroup" + c.linux["cgroupsPath"], "cgroup.freeze", "1"


def test_a_frozen_cgroup_is_refused_and_not_waited_in():
    with Bundle("true") as c:
        place, file, word = freezer(c)
        os.mkdir(place)
        try:
            b.write(os.path.join(place, file), word)
            c.refused("container's cgroup unexpectedly frozen")
        finally:
            b.write(os.path.join(place, file), "THAWED" if HYBRID else "0")
            if os.path.isdir(place):
                os.rmdir(place)
        c.run()


def test_a_node_of_linux_devices_needs_a_rule_to_be_used():
    with Bundle("sh", "-c", ": < /dev/other && echo read") as c:
        # the kernel's log: nothing that is always allowed
        for which in ("bounding", "permitted", "effective"):
            c.process["capabilities"][which].append("CAP_SYSLOG")
        c.linux["devices"] = [{"path": "/dev/other/", "type": "c", "major": 1, "minor": 11}]
        r = c.run(ok=None)
        assert "read" not in r.out and "not permitted" in r.err, r
        c.linux["resources"]["devices"].append({"allow": True, "type": "c", "major": 1, "minor": 11, "access": "r"})
        assert c.out() == "read\n"


def test_the_callers_affinity_is_not_the_containers():
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise b.skip("one CPU")
    with Bundle("grep", "Cpus_allowed_list", "/proc/self/status") as c:
        everywhere = c.out()
        os.sched_setaffinity(0, {cpus[0]})
        try:
            assert c.out() == everywhere
            c.process["args"] = list(SLEEP)
            c.detached()
            assert c.exec(c.id, "grep", "Cpus_allowed_list", "/proc/self/status").out == everywhere
        finally:
            os.sched_setaffinity(0, set(cpus))


def test_a_terminal_of_run_gives_newlines_to_a_pipe():
    with Bundle("printf", "one\ntwo\n") as c:
        c.process["args"] = ["sh", "-c", "tty > /dev/null && echo one; echo two"]
        c.process["terminal"] = True
        assert c.out() == "one\ntwo\n"
        c.process.update(terminal=False, args=list(SLEEP))
        c.detached()
        assert c.exec("-t", c.id, "echo", "three").out == "three\n"


def test_a_terminal_of_run_gives_line_ends_to_a_terminal():
    with Bundle("sh", "-c", "echo one; echo two") as c:
        c.process["terminal"] = True
        c.save()
        master, peer = pty.openpty()
        p = subprocess.Popen([OCI, "--root", c.root, "run", "-b", c.dir, c.id], stdin=peer, stdout=peer, stderr=peer,
                             env=b.environment())
        os.close(peer)
        text = b""
        try:
            while piece := os.read(master, 4096):
                text += piece
        except OSError:     # EIO: nobody has the terminal any more
            pass
        assert p.wait(30 * b.SLOW) == 0 and text == b"one\r\ntwo\r\n", text
        os.close(master)


def test_a_created_container_holds_no_descriptors_of_the_making():
    with Bundle(*SLEEP) as c:
        c.linux["maskedPaths"] += ["/proc/keys"]
        read, write = os.pipe()
        os.set_inheritable(write, True)
        with open("/etc/hostname") as extra:
            os.set_inheritable(extra.fileno(), True)
            c.create(close_fds=False)
        pid = c.state()["pid"]
        os.close(read)
        os.close(write)

        def let_go():
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd") if int(fd) > 2]
            return all(link.startswith("socket:") or link in ("/", "/proc") for link in links)

        def tried():
            try:
                return let_go()
            except FileNotFoundError:
                return False    # closed between the two looks

        # create returns when all is made: the process lets go right after
        b.wait_for(tried, what="the end of the descriptors")
        c.call("start", c.id)
        b.wait_for(lambda: c.status() == "running")


def test_a_created_container_ends_when_it_is_asked_to():
    for sig in ("TERM", "INT", "HUP"):
        with Bundle(*SLEEP) as c:
            c.create()
            c.call("kill", c.id, sig)
            b.wait_for(lambda: c.status() == "stopped")
            c.call("delete", c.id)


def test_a_created_container_ends_when_it_is_asked_to_at_once():
    """A signal that comes as create returns: one without a handler is nothing to a pid 1."""
    with Bundle(*SLEEP) as c:
        c.prefix = ("strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=recvmsg", "-e", "inject=recvmsg:delay_exit=300000")
        c.create(env=b.under_strace())
        c.prefix = ()
        c.call("kill", c.id, "TERM")
        b.wait_for(lambda: c.status() == "stopped")
        c.call("delete", c.id)


def test_hooks_of_the_container_have_its_environment_and_root():
    with Bundle("cat", "/made") as c:
        b.write(c.rootfs + "/hook", "#!/bin/sh\necho $ONE $HOME > /env\n")
        os.chmod(c.rootfs + "/hook", 0o755)
        c.process["env"] += ["ONE=two", "HOME=/here"]
        c.config["hooks"] = {"createContainer": [{"path": "/bin/sh", "args": ["sh", "-c", "echo made > made"]}],
                             "startContainer": [{"path": "/hook"}]}
        assert c.out() == "made\n"
        with open(c.rootfs + "/env") as f:
            assert f.read() == "two /here\n"


def test_what_a_failing_hook_says_on_the_terminal_is_shown():
    with Bundle("true") as c:
        c.process["terminal"] = True
        c.config["hooks"] = {"startContainer": [{"path": "/bin/busybox", "args": ["cat", "/nosuchfile"]}]}
        r = c.run(ok=None)
        assert r.code != 0 and "nosuchfile" in r.err and "startContainer hook #0" in r.err, r


def test_a_profile_that_knows_no_new_calls_starts_the_program():
    """Without no_new_privs the filter is on before the ids are changed: we may need nothing newer than it does."""
    with Bundle("pwd") as c:
        c.process.update(cwd="/tmp", noNewPrivileges=False)
        c.linux["seccomp"] = seccomp_profile({"names": ["openat2", "close_range", "execveat", "mount_setattr", "move_mount"],
                                              "action": "SCMP_ACT_ERRNO"})
        assert c.out() == "/tmp\n"


class Continues(threading.Thread):
    """A seccomp agent that lets every call go on (seccomp_unotify(2))."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen(4)
        self.calls = 0
        self.start()

    def run(self):
        conn, _ = self.server.accept()
        fds = array.array("i")
        _, anc, _, _ = conn.recvmsg(65536, socket.CMSG_LEN(fds.itemsize))
        fds.frombytes(anc[0][2][:fds.itemsize])
        while True:
            note = bytearray(80)
            try:
                fcntl.ioctl(fds[0], 0xC0502100, note)       # SECCOMP_IOCTL_NOTIF_RECV
                ident = struct.unpack_from("Q", note)[0]
                self.calls += 1
                fcntl.ioctl(fds[0], 0xC0182101, bytearray(struct.pack("QqiI", ident, 0, 0, 1)))    # ..._SEND, CONTINUE
            except OSError:
                os.close(fds[0])
                return


def test_the_agent_hears_of_the_filter_before_our_own_next_call():
    agent = Continues(b.tmp("agent"))
    try:
        with Bundle("pwd") as c:
            c.process.update(cwd="/tmp", noNewPrivileges=False)
            c.linux["seccomp"] = seccomp_profile({"names": ["openat", "openat2", "chdir", "getcwd", "setgroups", "prctl"],
                                                  "action": "SCMP_ACT_NOTIFY"})
            c.linux["seccomp"]["listenerPath"] = b.tmp("agent")
            assert c.out() == "/tmp\n" and agent.calls > 0
    finally:
        agent.server.close()


IDS = {"uidMappings": [{"containerID": 0, "hostID": 100000, "size": 65536}],
       "gidMappings": [{"containerID": 0, "hostID": 100000, "size": 65536}]}


def two_file_systems(c):
    """A directory with a mount in it, both with a file of root's; a clean-up to call."""
    source = b.tmpdir("source")
    b.write(source + "/file")
    os.mkdir(source + "/sub")
    subprocess.run(["mount", "-t", "tmpfs", "berth", source + "/sub"], check=True)
    b.write(source + "/sub/file")
    return source, lambda: subprocess.run(["umount", source + "/sub"], check=True)


def test_mappings_are_of_the_mount_alone_unless_ridmap_is_said():
    with Bundle("stat", "-c", "%u", "/m/file", "/m/sub/file") as c:
        source, clean = two_file_systems(c)
        try:
            c.config["mounts"].append({"destination": "/m", "type": "bind", "source": source, "options": ["rbind"], **IDS})
            assert c.out().split() == ["100000", "0"]
            c.config["mounts"][-1]["options"] = ["rbind", "ridmap"]
            assert c.out().split() == ["100000", "100000"]
        finally:
            clean()


def test_idmap_without_mappings_takes_those_of_a_joined_user_namespace():
    with Bundle(*SLEEP) as one, Bundle("stat", "-c", "%u", "/m/file") as c:
        for box in (one, c):
            os.chmod(b.root(), 0o711)
            os.chmod(b.tmp(""), 0o711)
            os.chmod(box.dir, 0o711)
        os.chown(c.rootfs, 100000, 100000)
        one.linux.update(IDS)
        one.linux["namespaces"].append({"type": "user"})
        pid = one.detached()
        source = b.tmpdir("source")
        b.write(source + "/file")
        c.id += "b"
        c.linux["namespaces"].append({"type": "user", "path": f"/proc/{pid}/ns/user"})
        c.config["mounts"].append({"destination": "/m", "type": "bind", "source": source, "options": ["bind", "idmap"]})
        assert c.out() == "0\n"


def test_a_tmpfs_has_the_mode_of_what_it_hides_unless_given_one():
    with Bundle("stat", "-c", "%a", "/mnt") as c:
        os.chmod(c.rootfs + "/mnt", 0o2710)
        c.config["mounts"].append({"destination": "/mnt", "type": "tmpfs", "source": "t"})
        assert c.out() == "2710\n"
        c.config["mounts"][-1]["options"] = ["mode=1500"]
        assert c.out() == "1500\n"
        c.config["mounts"][-1]["options"] = ["mode=1500", "tmpcopyup"]
        assert c.out() == "1500\n"
        c.config["mounts"][-1]["options"] = ["tmpcopyup"]
        assert c.out() == "2710\n"
        os.rmdir(c.rootfs + "/mnt")
        c.config["mounts"][-1]["options"] = []
        assert c.out() == "1777\n"


def test_a_read_only_dev_is_complete():
    with Bundle("sh", "-c", "test -c /dev/null && test -d /dev/pts && ! touch /dev/x; tty > /dev/null; echo $?") as c:
        for m in c.config["mounts"]:
            if m["destination"] == "/dev":
                m["options"].append("ro")
        assert c.out() == "1\n"
        c.process["terminal"] = True
        assert "0\n" in c.out()


def test_masked_directories_are_one_empty_one():
    with Bundle("sh", "-c", "stat -c %d /etc/one /etc/two /etc/three; ls -A /etc/one /etc/two; touch /etc/two/x || echo kept") as c:
        for name in ("one", "two", "three"):
            b.write(f"{c.rootfs}/etc/{name}/secret")
        c.linux["maskedPaths"] += ["/etc/one", "/etc/two", "/etc/three"]
        out = c.out()
        assert len(set(out.split()[:3])) == 1 and "secret" not in out and "kept" in out, out


def test_nothing_the_host_has_is_a_peer_of_the_containers():
    """A path masked twice is mounted over twice: the second must not reach the host's /dev/null (E09)."""
    subprocess.run(["mount", "--make-rshared", "/"], check=True)       # this test's own mount namespace
    with open("/proc/self/mountinfo") as f:
        before = f.read()
    for user in ([], [{"type": "user"}]):
        with Bundle("cat", "/proc/self/mountinfo") as c:
            os.chmod(b.root(), 0o711)
            os.chmod(b.tmp(""), 0o711)
            os.chmod(c.dir, 0o711)
            c.linux["namespaces"] += user
            if user:
                c.linux.update(IDS)
            c.linux["maskedPaths"] += ["/proc/keys", "/proc/timer_list"] * 2
            c.linux["devices"] = [{"path": "/dev/other", "type": "c", "major": 1, "minor": 11}]
            out = c.out()
            assert " shared:" not in out, out
    with open("/proc/self/mountinfo") as f:
        assert f.read() == before


def test_a_destination_on_the_hosts_path_of_the_root_is_in_the_root():
    with Bundle("cat", "/mnt/here/file") as c:
        source = b.tmpdir("source")
        b.write(source + "/file", "text")
        c.config["mounts"].append({"destination": c.rootfs + "/mnt/here", "type": "bind", "source": source, "options": ["bind"]})
        assert c.out() == "text"


def test_exec_has_the_containers_personality():
    with Bundle(*SLEEP) as c:
        c.linux["personality"] = {"domain": "LINUX32"}
        c.detached()
        assert c.exec(c.id, "uname", "-m").out == "i686\n"


def test_without_pivot_the_hosts_procfs_cannot_be_had_again():
    """A user namespace of the container's may mount procfs only where one without masks is to be seen already."""
    with Bundle("busybox", "unshare", "-mrpf", "mount", "-t", "proc", "none", "/proc") as c:
        for which in ("bounding", "permitted", "effective"):
            c.process["capabilities"][which] = ["CAP_SETFCAP", "CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID"]
        r = c.run("--no-pivot", ok=None)
        assert r.code != 0 and "permission denied" in r.err, r


def received(server):
    conn, _ = server.accept()
    fds = array.array("i")
    data, anc, _, _ = conn.recvmsg(64, socket.CMSG_LEN(fds.itemsize))
    fds.frombytes(anc[0][2][:fds.itemsize])
    conn.close()
    return data, fds[0]


def test_pidfd_socket_gets_the_process():
    path = b.tmp("pidfd")
    with Bundle(*SLEEP) as c, socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(4)
        server.settimeout(30 * b.SLOW)
        c.create("--pidfd-socket", path)
        data, fd = received(server)
        assert data == b"pidfd"
        c.call("start", c.id)
        with open(f"/proc/self/fdinfo/{fd}") as f:
            assert f"Pid:\t{c.state()['pid']}\n" in f.read()
        c.exec("-d", "--pidfd-socket", path, "--pid-file", b.tmp("pid"), c.id, "sleep", "1000",
               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, second = received(server)
        signal.pidfd_send_signal(second, signal.SIGKILL)
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        # the second is ours to reap, as its parent is gone
        b.wait_for(lambda: c.reap() or c.status() == "stopped")
        os.close(fd)
        os.close(second)


def test_checkpoint_and_restore_are_refused_whatever_the_options():
    with Bundle(*SLEEP) as c:
        c.detached()
        for verb in ("checkpoint", "restore"):
            r = c.call(verb, "--image-path", "/tmp/x", "--leave-running", c.id, ok=None)
            assert r.code == 1 and "not supported" in r.err and "hint" in r.err, r
            assert "not supported" in c.call(verb, "-h").out
        assert c.status() == "running"


def test_spec_has_a_cgroup_namespace_on_v2_only():
    with Bundle() as c:
        os.unlink(c.path())
        c.call("spec", "-b", c.dir)
        with open(c.path()) as f:
            kinds = [n["type"] for n in json.load(f)["linux"]["namespaces"]]
        assert ("cgroup" in kinds) == (not HYBRID), kinds


def test_exec_names_the_file_of_a_cgroup_that_is_not_there():
    with Bundle(*SLEEP) as c:
        c.detached()
        r = c.exec("--cgroup", "nonexistent", c.id, "true", ok=255)
        assert "adding pid " in r.err and "/nonexistent/cgroup.procs: no such file" in r.err, r
        r = c.exec("--cgroup", "..", c.id, "true", ok=255)
        assert ".. is not a sub cgroup path: `..` components are not allowed" in r.err, r
        r = c.exec("--cap", "CAP_FLY", c.id, "true", ok=255)
        assert "'CAP_FLY' is not a capability" in r.err, r


def test_a_parent_whose_cpuset_is_empty_is_filled():
    """A v1 cpuset made by mkdir(1) allows no CPU and no memory: whoever makes one below fills the way down, as runc and crun."""
    if not os.path.exists("/sys/fs/cgroup/cpuset/cpuset.cpus"):
        raise b.skip("no v1 cpuset here")
    with Bundle("true") as c:
        top = "/sys/fs/cgroup/cpuset" + c.linux["cgroupsPath"]
        os.makedirs(top + "/between")
        try:
            c.linux["cgroupsPath"] += "/between/c"
            c.run()
            for file in ("cpuset.cpus", "cpuset.mems"):
                with open(f"/sys/fs/cgroup/cpuset/{file}") as wanted, open(f"{top}/between/{file}") as got:
                    assert got.read() == wanted.read() != "\n"
        finally:
            for place in glob.glob(f"/sys/fs/cgroup/*{c.linux['cgroupsPath'][:-2]}"):
                os.rmdir(place)
                os.rmdir(os.path.dirname(place))


def cpu_file(c, name):
    with open(f"/sys/fs/cgroup/cpu{c.linux['cgroupsPath']}/{name}") as f:
        return int(f.read())


def test_a_realtime_period_and_runtime_change_in_whatever_order_the_kernel_takes():
    if not os.path.exists("/sys/fs/cgroup/cpu/cpu.rt_runtime_us"):
        raise b.skip("no realtime groups here")
    with Bundle(*SLEEP) as c:
        c.detached()
        for period, runtime in ((1000000, 100000), (10000, 3000), (500000, 90000), (100000, 1000)):
            c.call("update", "--cpu-rt-period", str(period), "--cpu-rt-runtime", str(runtime), c.id)
            assert (cpu_file(c, "cpu.rt_period_us"), cpu_file(c, "cpu.rt_runtime_us")) == (period, runtime)
        r = c.call("update", "--cpu-rt-period", "1000", "--cpu-rt-runtime", "2000", c.id, ok=1)
        assert "cpu.rt_period_us" in r.err, r


def test_descriptors_behind_gaps_are_passed_on_and_nothing_else_is():
    """As podman's --preserve-fd asks for it.  What keeps the gaps from ours must be gone when the program runs."""
    listing = "for f in /proc/self/fd/*; do echo ${f##*/} $(readlink $f); done"
    with Bundle("sh", "-c", listing) as c:
        c.prefix = ("bash", "-c", 'exec 3</dev/null 4</dev/null 10</etc/hostname 103</dev/null 251</dev/null; exec "$0" "$@"')
        for n, want in (("7", {"3", "4"}), ("8", {"3", "4", "10"}), ("100", {"3", "4", "10"}), ("101", {"3", "4", "10", "103"}),
                        ("1000", {"3", "4", "10", "103", "251"})):
            r = c.run("--preserve-fds", n)
            seen = dict(line.split() for line in r.out.splitlines() if len(line.split()) == 2)
            # the shell has the directory that it lists, and a pipe to a subshell
            own = {fd for fd, to in seen.items() if to.startswith(("pipe:", "/proc/"))}
            assert set(seen) - own - {"0", "1", "2"} == want - own, (n, r.out)
        c.process["args"] = list(SLEEP)
        c.detached()
        r = c.exec("--preserve-fds", "8", c.id, "sh", "-c", listing)
        assert "\n10 /etc/hostname\n" in r.out and "\n5 " not in r.out, r
        log = b.tmp("log")
        r = c.call("--log", log, "exec", "--preserve-fds", "101", c.id, "sh", "-c", listing)
        assert "/log" not in r.out, r
        c.prefix = ("bash", "-c", 'exec 2000</dev/null; exec "$0" "$@"')
        r = c.exec("--preserve-fds", "5000", c.id, "true", ok=None)
        b.expect(r.code != 0 and "more than 1024" in r.err, r, "any number of gaps")
        c.prefix = ()


def test_domainname_may_be_said_twice_if_it_is_the_same():
    with Bundle("cat", "/proc/sys/kernel/domainname") as c:
        c.config["domainname"] = "example.org"
        c.linux["sysctl"] = {"kernel.domainname": "example.org"}
        assert c.out() == "example.org\n"
        c.linux["sysctl"] = {"kernel.domainname": "example.com"}
        c.refused("conflicts")


def test_an_idmapped_mount_may_have_an_earlier_mount_as_its_source():
    """As runc's suite ("mount order, container idmap source"): the source is the root's own path, once the first is mounted."""
    with Bundle("stat", "-c", "%u", "/mnt/second/file") as c:
        source = b.tmpdir("source")
        b.write(source + "/inner/file")
        c.config["mounts"] += [{"destination": "/mnt/first", "type": "bind", "source": source, "options": ["bind"]},
                               {"destination": "/mnt/second", "type": "bind", "source": c.rootfs + "/mnt/first/inner",
                                "options": ["bind"], **IDS}]
        assert c.out() == "100000\n"


def test_exec_has_the_memory_policy_of_the_container():
    if not os.path.exists("/proc/self/numa_maps"):
        raise b.skip("this kernel has no NUMA")
    show = ("sh", "-c", "head -n 1 /proc/self/numa_maps")
    with Bundle(*show) as c:
        c.linux["memoryPolicy"] = {"mode": "MPOL_INTERLEAVE", "nodes": "0"}
        assert c.out().split()[1] == "interleave:0"
        c.process["args"] = list(SLEEP)
        c.detached()
        assert c.exec(c.id, *show).out.split()[1] == "interleave:0"


def test_a_memory_policy_that_is_none_is_refused_before_anything_is_made():
    with Bundle("true") as c:
        for policy, word in (({}, "mode"), ({"mode": "INTERLEAVE"}, "mode"), ({"mode": "MPOL_BIND", "nodes": "0", "flags": ["x"]}, "flag"),
                             ({"mode": "MPOL_BIND", "nodes": "0-9876543210"}, "node"), ({"mode": "MPOL_BIND", "nodes": "-1"}, "node"),
                             ({"mode": "MPOL_DEFAULT", "nodes": "0-7"}, "mode requires 0 nodes but got 8"), ({"mode": "MPOL_BIND"}, "at least one")):
            c.linux["memoryPolicy"] = policy
            c.refused("invalid memory policy", word)


def test_features_lists_memory_policies():
    with Bundle() as c:
        known = json.loads(c.call("features").out)["linux"]["memoryPolicy"]
        assert {"MPOL_BIND", "MPOL_WEIGHTED_INTERLEAVE"} <= set(known["modes"]) and "MPOL_F_STATIC_NODES" in known["flags"], known


def run_in_a_terminal(c, *args, size=(11, 22)):
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        c.save()
        c.call(*args, stdin=slave)
    finally:
        os.close(master)
        os.close(slave)


def test_console_size_holds_in_the_foreground():
    # the caller's window is passed on once the program runs; of a window without a size busybox's stty says nothing
    sized = ("sh", "-c", 'while case $(stty size) in ""|"0 0"|"24 80") ;; *) false ;; esac; do sleep 0.01; done; stty size > /size')
    with Bundle(*sized) as c:
        c.process.update(terminal=True)
        run_in_a_terminal(c, "run", "-b", c.dir, c.id)
        with open(c.rootfs + "/size") as f:
            assert f.read().split() == ["11", "22"]
        c.process["consoleSize"] = {"height": 33, "width": 101}
        run_in_a_terminal(c, "run", "-b", c.dir, c.id)
        with open(c.rootfs + "/size") as f:
            assert f.read().split() == ["33", "101"]
        c.process.update(terminal=False, args=list(SLEEP))
        c.detached()
        process = b.write(b.tmp("process.json"), json.dumps(dict(c.process, terminal=True, args=list(sized),
                                                                  consoleSize={"height": 44, "width": 55})))
        run_in_a_terminal(c, "exec", "--process", process, c.id)
        with open(c.rootfs + "/size") as f:
            assert f.read().split() == ["44", "55"]
        run_in_a_terminal(c, "exec", "-t", c.id, *sized)
        with open(c.rootfs + "/size") as f:
            assert f.read().split() == ["11", "22"]


def test_a_look_below_a_root_that_is_missing_makes_none():
    with Bundle() as c:
        for line in (["list"], ["state", "x"], ["kill", "x"], ["delete", "x"], ["ps", "x"]):
            r = c.call(*line, ok=None)
            b.expect(r.code != 0 and "does not exist" in r.err, r, "no error")
        c.call("delete", "--force", "x")
        assert not os.path.exists(c.root), "a directory was made"


def test_each_wrong_number_of_a_deadline_is_named():
    with Bundle("true") as c:
        for numbers, word in (({"deadline": 20000000}, "requires `runtime`"), ({"runtime": 20000000}, "requires `deadline`"),
                              ({"runtime": 0, "deadline": 1 << 24}, "greater than 0"), ({"runtime": 3 << 24, "deadline": 2 << 24}, "<= deadline"),
                              ({"runtime": 1 << 24, "deadline": 3 << 24, "period": 2 << 24}, "<= period"),
                              ({"runtime": 1023, "deadline": 1 << 24}, "must be between")):
            c.process["scheduler"] = {"policy": "SCHED_DEADLINE", **numbers}
            c.refused("sched_setattr", word)
