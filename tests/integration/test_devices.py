# SPDX-License-Identifier: Apache-2.0
"""--device and --gpus: nodes of the host by path and by CDI, what of them may be used, and what is refused (S47)."""
import json
import os
import stat

import berthtest as b

NAME = "dev"
OPEN = """
import os, sys
for path, mode in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        os.close(os.open(path, {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}[mode] | os.O_NONBLOCK | os.O_NOCTTY))
        print("opened")
    except OSError as e:
        print(e.errno)
"""


def node(name, kind, major, minor, mode=0o600):
    path = b.tmp(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.mknod(path, mode | (stat.S_IFBLK if kind == "b" else stat.S_IFCHR), os.makedev(major, minor))
    return path


def harmless(name):
    """A node that the rules of all sandboxes deny and --device allows; its driver is in this kernel."""
    with open("/proc/misc") as f:
        misc = {words[1]: int(words[0]) for words in map(str.split, f) if len(words) == 2}
    for driver in ("fuse", "kvm", "hw_random", "tun"):
        if driver in misc:
            return node(name, "c", 10, misc[driver])
    raise b.skip("this kernel has none of fuse, kvm, hw_random and tun")


def configured(**keys):
    lines = ["[devices]"] + [f"{k} = {json.dumps(v)}" for k, v in keys.items()]
    return {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), "\n".join(lines) + "\n", 0o600)}


def privileged():
    """loop-control: berth needs it itself, its driver asks nobody for a capability, and --device alone does not give it."""
    path = node("control", "c", 10, 237)
    return path, configured(privileged=[path])


def spec(name, devices, kind="test.example/thing", **more):
    path = b.tmp(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return b.write(path, json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": devices, **more}), 0o644)


def device(name, **edits):
    return {"name": name, "containerEdits": edits}


def errnos(*args, options, env=None):
    r = b.run(*options, "host", "python3", "-c", OPEN, *args, env=env, ok=True)
    return r.out.split()


def test_a_device_is_there_with_the_access_that_was_asked_for():
    path, env = privileged()
    assert errnos("/dev/messages", "r", options=["--device", f"{path}:/dev/messages"], env=env) == ["opened"]
    assert errnos("/dev/a/b/m", "r", "/dev/a/b/m", "w", "/dev/a/b/m", "rw",
                  options=["--device", f"{path}:/dev/a/b/m:r"], env=env) == ["opened", "1", "1"]
    only_write = errnos("/dev/m", "r", "/dev/m", "w", options=["--device", f"{path}:/dev/m:w"], env=env)
    assert only_write == ["1", "opened"], only_write
    # a user of the sandbox's has what its root has, no node can be made or removed, and /dev cannot be written
    r = b.run("--user", "1000", "--device", f"{path}:/dev/m:r", "host", "sh", "-c",
              "stat -c '%F %a %t:%T' /dev/m; rm -f /dev/m; mknod /tmp/x c 10 237", env=env)
    assert r.out.startswith("character special file 444 a:ed\n") and "Read-only" in r.err and "mknod" in r.err, r
    # without it, or in another sandbox meanwhile, there is none
    assert errnos("/dev/messages", "r", options=[]) == ["2"]


def test_a_device_of_a_sandbox_that_lives_is_its_own_and_goes_with_it():
    path, env = privileged()
    b.berth("create", "--name", NAME, "--device", f"{path}:/dev/messages:r", "host", ok=True, env=env)
    b.berth("create", "--name", "plain", "host", ok=True)

    def opens(box):
        r = b.berth("exec", box, "python3", "-c", OPEN, "/dev/messages", "r", "/dev/messages", "w", "/dev/null", "rw", ok=True)
        return r.out.split()
    assert opens(NAME) == ["opened", "1", "opened"] and opens("plain") == ["2", "2", "opened"]
    b.berth("restart", "--grace", "0", NAME, ok=True, env=env)
    assert opens(NAME) == ["opened", "1", "opened"]
    assert json.loads(b.berth("inspect", NAME, ok=True).out)["devices"] == [f"{path}:/dev/messages:r"]
    # a device that the configuration no longer allows, or that is gone, stops the next start
    b.berth("stop", NAME, ok=True)
    b.one_line_error(b.berth("start", NAME), 125, "privileged")
    os.unlink(path)
    b.one_line_error(b.berth("start", NAME, env=env), 125, "control")
    b.berth("rm", "-f", NAME, "plain", ok=True)


def test_a_harmless_device_needs_no_word_of_the_configuration():
    path = harmless("thing")
    # its driver may refuse in its own way, but not for a lack of rights
    (got,) = errnos("/dev/thing", "r", options=["--device", f"{path}:/dev/thing"])
    assert got not in ("1", "2", "13"), os.strerror(int(got))


def test_a_device_that_amounts_to_root_is_refused():
    for kind, major, minor in (("c", 1, 1), ("c", 1, 2), ("c", 1, 4), ("c", 1, 11), ("c", 4, 0), ("c", 4, 63), ("c", 5, 1), ("c", 7, 0),
                               ("c", 10, 237), ("c", 10, 236), ("c", 13, 64), ("c", 21, 0), ("c", 202, 0), ("c", 511, 5), ("b", 7, 0),
                               ("b", 8, 0), ("b", 254, 0), ("b", 1, 3)):
        path = node(f"n/{kind}{major}.{minor}", kind, major, minor)
        r = b.run("--device", f"{path}:/dev/x", "host", "true")
        b.one_line_error(r, 125, f"{major}:{minor}", "as good as root", "privileged")
    # by another name too
    os.symlink(b.tmp("n/c1.1"), b.tmp("n/link"))
    b.one_line_error(b.run("--device", f"{b.tmp('n/link')}:/dev/x", "host", "true"), 125, "as good as root")


def test_what_makes_no_sense_is_refused():
    null = node("null", "c", 1, 3)
    regular = b.write(b.tmp("regular"))
    for value, code, word in (("fuse", 2, "neither"), ("", 2, "neither"), ("/dev/null:/x", 2, "below /dev"), ("/dev/null:/dev/../x", 2, "'..'"),
                              (f"{null}:/dev/null", 2, "berth's own"), (f"{null}:/dev/pts/5", 2, "berth's own"), (f"{null}:/dev/x:", 2, "r, w and m"),
                              (f"{null}:/dev/x:rr", 2, "r, w and m"), (f"{null}:/dev/x:m", 2, "r, w and m"), (f"{null}:/dev/x:rwx", 2, "r, w and m"),
                              (f"{null}:x:r", 2, "absolute"), (null, 2, "below /dev"), (f"{regular}:/dev/x", 2, "not a device"),
                              (f"{b.tmp('absent')}:/dev/x", 125, "absent"), ("a/b=", 2, "neither"), ("a/=c", 2, "neither"), ("/b=c", 2, "below /dev"),
                              ("a.b/c=d", 125, "no CDI specification")):
        b.one_line_error(b.run("--device", value, "host", "true", env=configured(cdi_dirs=[b.tmp("none")])), code, word)
    b.one_line_error(b.run("--device", f"{null}:/dev/x", "--device", "/dev/zero:/dev/x", "host", "true"), 2, "two devices")
    for value in ("", "none", "0", "device=", "device=a/b"):
        assert b.run("--gpus", value, "host", "true").code == 2, value


def test_a_device_by_its_cdi_name_brings_nodes_mounts_and_variables():
    path, _ = privileged()
    null = node("spare", "c", 1, 3)
    tool = b.write(b.tmp("lib/tool"), "#!/bin/sh\necho tool $THING $LEVEL\n", 0o755)
    first, second = b.tmp("cdi1"), b.tmp("cdi2")
    spec("cdi1/thing.json", [device("one", deviceNodes=[{"path": "/dev/thing/m", "hostPath": path, "permissions": "r", "type": "c",
                                                          "major": 10, "minor": 237, "fileMode": 0o440, "uid": 1000, "gid": 2000}],
                                    env=["THING=first", "LEVEL=spec"]),
                             device("two", deviceNodes=[{"path": "/dev/spare", "hostPath": null}])],
         containerEdits={"mounts": [{"hostPath": tool, "containerPath": "/opt/tool", "options": ["ro", "nosuid", "nodev", "bind"]}],
                         "env": ["LEVEL=all"]})
    spec("cdi2/thing.json", [device("two", env=["THING=second"])])
    env = configured(privileged=[path], cdi_dirs=[first, second])
    r = b.run("--device", "test.example/thing=one", "-e", "LEVEL=mine", "host", "sh", "-c",
              "stat -c '%a %u %g' /dev/thing/m; /opt/tool; head -c 0 /dev/thing/m; touch /opt/tool", env=env)
    assert r.out == "440 1000 2000\ntool first mine\n" and "Read-only" in r.err, r
    # the later directory's, though the first one has that name too
    r = b.run("--device", "test.example/thing=two", "host", "sh", "-c", "echo $THING $LEVEL; ls /dev/spare", env=env)
    assert r.out == "second\n" and r.code == 2, r
    plan = json.loads(b.run("--dry-run", "--json", "--device", "test.example/thing=one", "host", "true", env=env, ok=True).out)
    assert plan["devices"] == [{"source": path, "target": "/dev/thing/m", "type": "c", "major": 10, "minor": 237, "access": "r"}], plan["devices"]


def test_a_configuration_that_makes_no_sense_is_refused():
    for keys, word in (({"cdi_hooks": "never"}, "skip"), ({"privileged": ["kmsg"]}, "absolute"), ({"cdi_dirs": "/x"}, "array")):
        b.one_line_error(b.run("host", "true", env=configured(**keys)), 125, word)


def test_gpus_are_cdi_devices_of_nvidia():
    null = node("spare", "c", 1, 3)
    spec("cdi/nvidia.json", [device(n, deviceNodes=[{"path": f"/dev/nvidia{n}", "hostPath": null}]) for n in ("0", "1", "all")], "nvidia.com/gpu")
    env = configured(cdi_dirs=[b.tmp("cdi")])
    for value, names in (("all", "nvidiaall"), ("1", "nvidia0"), ("2", "nvidia0 nvidia1"), ("device=1", "nvidia1"), ("device=1,0", "nvidia0 nvidia1")):
        r = b.run("--gpus", value, "host", "sh", "-c", "cd /dev; echo nvidia*", env=env, ok=True)
        assert r.out.strip() == names, (value, r)
    b.one_line_error(b.run("--gpus", "3", "host", "true", env=env), 125, "nvidia.com/gpu=2")


def test_a_specification_that_wants_more_than_berth_does_is_refused():
    null = node("spare", "c", 1, 3)
    env = configured(cdi_dirs=[b.tmp("cdi")])
    hook = {"hookName": "createContainer", "path": "/bin/false"}
    for edits, code, word in (({"hooks": [hook]}, 125, "hooks"), ({"additionalGids": [5]}, 125, "additionalGids"), ({"intelRdt": {}}, 125, "intelRdt"),
                              ({"deviceNodes": [{"path": "/dev/x", "hostPath": null, "minor": 5}]}, 125, "another device"),
                              ({"deviceNodes": [{"path": "/etc/x", "hostPath": null}]}, 2, "below /dev"),
                              ({"deviceNodes": [{"hostPath": null}]}, 125, "no path"), ({"deviceNodes": [{"path": "/dev/x", "more": 1}]}, 125, "more"),
                              ({"deviceNodes": [{"path": "/dev/x", "hostPath": "/dev/kmsg"}]}, 125, "as good as root"),
                              ({"env": ["X"]}, 125, "NAME=VALUE"), ({"env": "X=1"}, 125, "env"),
                              ({"mounts": [{"hostPath": "/usr", "containerPath": "x"}]}, 125, "absolute"),
                              ({"mounts": [{"hostPath": "/usr", "containerPath": "/proc/x"}]}, 2, "would cover"),
                              ({"mounts": [{"hostPath": "/usr", "containerPath": "/x", "options": ["suid"]}]}, 125, "suid")):
        spec("cdi/thing.json", [device("one", **edits)])
        b.one_line_error(b.run("--device", "test.example/thing=one", "host", "true", env=env), code, word)
    spec("cdi/thing.json", [device("one", hooks=[hook], env=["SKIPPED=hooks"])])
    skip = configured(cdi_dirs=[b.tmp("cdi")], cdi_hooks="skip")
    r = b.run("--device", "test.example/thing=one", "host", "sh", "-c", "echo $SKIPPED", env=skip, ok=True)
    assert r.out == "hooks\n", r
    env = configured(cdi_dirs=[b.tmp("cdi")])
    spec("cdi/again.json", [device("one")])
    b.one_line_error(b.run("--device", "test.example/thing=one", "host", "true", env=env), 125, "both")
    os.unlink(b.tmp("cdi/again.json"))
    os.chmod(b.tmp("cdi/thing.json"), 0o666)
    b.one_line_error(b.run("--device", "test.example/thing=one", "host", "true", env=env), 125, "chmod")
    b.write(b.tmp("cdi/thing.json"), "{", 0o644)
    os.chmod(b.tmp("cdi/thing.json"), 0o644)
    b.one_line_error(b.run("--device", "test.example/thing=one", "host", "true", env=env), 125, "thing.json")
