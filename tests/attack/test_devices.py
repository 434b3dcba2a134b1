# SPDX-License-Identifier: Apache-2.0
"""Devices that one sandbox was given (S47): to no other sandbox, and with no more access than was asked for."""
import os
import stat

import berthtest as b

# berth itself needs it, so it is in every kernel; its driver asks no capability
MAJOR, MINOR = 10, 237
TRY = """
import os, sys
def attempt(path, flags):
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK))
        return "opened"
    except OSError as e:
        return os.strerror(e.errno)
for path in sys.argv[1:]:
    print(attempt(path, os.O_RDONLY), attempt(path, os.O_RDWR), sep=", ")
try:
    os.mknod("/tmp/own", 0o20666, os.makedev(%d, %d))
    print(attempt("/tmp/own", os.O_RDWR))
except OSError as e:
    print(os.strerror(e.errno))
""" % (MAJOR, MINOR)


def configured(path):
    return {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), f'[devices]\nprivileged = ["{path}"]\n', 0o600)}


def node(name):
    path = b.tmp(name)
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(MAJOR, MINOR))
    os.chmod(path, 0o666)
    return path


def test_S47_a_device_is_its_sandboxs_alone_and_no_more_than_was_asked_for():
    path = node("control")
    shared = b.tmpdir("shared", 0o777)
    os.mknod(os.path.join(shared, "leak"), 0o666 | stat.S_IFCHR, os.makedev(MAJOR, MINOR))
    os.chmod(os.path.join(shared, "leak"), 0o666)
    env, no = configured(path), "Operation not permitted"
    volume = ("--volume", f"{shared}:/shared:rw")
    with_it = b.run("--device", f"{path}:/dev/control:r", *volume, "host", "python3", "-c", TRY, "/dev/control", "/shared/leak", "/proc/self/root/dev/control",
                    env=env, ok=True)
    # read but not written, by whatever path; a node elsewhere is dead; none can be made
    assert with_it.out == f"opened, {no}\nPermission denied, Permission denied\nopened, {no}\n{no}\n", with_it
    without = b.run(*volume, "host", "python3", "-c", TRY, "/dev/control", "/shared/leak", env=env, ok=True)
    assert without.out == f"No such file or directory, No such file or directory\nPermission denied, Permission denied\n{no}\n", without


def test_S47_another_command_of_the_same_sandbox_gets_no_more_and_another_sandbox_nothing():
    path = node("control")
    env, no = configured(path), "Operation not permitted"
    b.berth("create", "--name", "has", "--device", f"{path}:/dev/control:r", "host", ok=True, env=env)
    b.berth("create", "--name", "hasnot", "host", ok=True, env=env)
    for _ in range(2):
        assert b.berth("exec", "--pids", "20", "has", "python3", "-c", TRY, "/dev/control", ok=True).out == f"opened, {no}\n{no}\n"
        assert b.berth("exec", "hasnot", "python3", "-c", TRY, "/dev/control", ok=True).out.startswith("No such file")
        b.berth("restart", "--grace", "0", "has", "hasnot", ok=True, env=env)
    # whoever changes the rules of all sandboxes for one has opened them for all
    for where in ("devices", "."):
        rules = f"/sys/fs/cgroup/{where}/{b.environment()['BERTH_CGROUP_PARENT']}/devices.list"
        if os.path.exists(rules):
            with open(rules) as f:
                assert f"{MAJOR}:{MINOR}" not in f.read()
    b.berth("rm", "-f", "has", "hasnot", ok=True)
