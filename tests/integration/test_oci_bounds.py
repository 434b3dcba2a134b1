# SPDX-License-Identifier: Apache-2.0
"""
Configurations that the types allow and the kernel, or the specification, does not: each is refused, by us as by runc,
and never taken for something else.
"""
import ctypes
import json
import os

import berthtest as b
from test_oci import SLEEP, Bundle, with_userns

COST = 12
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


# ---- devices --------------------------------------------------------------------------------

def device(path, major=1, minor=5, **more):
    return dict({"path": path, "type": "c", "major": major, "minor": minor}, **more)


SHOW = ("stat", "-c", "%F %a %t:%T")


def test_a_device_does_not_take_a_files_place():
    with Bundle(*SHOW, "/etc/passwd") as c:
        passwd = b.write(c.rootfs + "/etc/passwd", "root:x:0:0::/:/bin/sh\n")
        os.symlink("passwd", c.rootfs + "/etc/link")
        b.write(c.rootfs + "/etc/empty", "")
        for path in ("/etc/passwd", "/etc//passwd", "/etc/link", "/etc/empty", "/etc", "/mnt/../etc/passwd"):
            c.linux["devices"] = [device(path)]
            c.refused(path, "is there and is not")
        with open(passwd) as f:
            assert f.read() == "root:x:0:0::/:/bin/sh\n"
        assert os.path.islink(c.rootfs + "/etc/link")
        # nor another device's, nor another device a second time
        c.linux["devices"] = [device("/etc/node"), device("/etc/node", 1, 7)]
        c.refused("/etc/node")
        c.linux["devices"] = [device("/etc/node", 1, 5, type="b")]
        c.refused("/etc/node")


def test_a_device_that_is_there_and_matches_is_used():
    with Bundle(*SHOW, "/mnt/zero", "/mnt/queue") as c:
        c.linux["devices"] = [device("/mnt/zero", fileMode=0o640), {"path": "/mnt/queue", "type": "p", "fileMode": 0o600}]
        for _ in range(2):
            assert c.out().splitlines() == ["character special file 640 1:5", "fifo 600 0:0"]


def test_a_device_of_the_configuration_wins_over_the_default_of_its_name():
    with Bundle(*SHOW, "/dev/null", "/dev/full", "/dev/zero") as c:
        os.symlink("/dev", c.rootfs + "/mnt/devices")
        c.linux["devices"] = [device("/dev/null"), device("/mnt/devices//full/", 1, 3, fileMode=0o600)]
        assert c.out().splitlines() == ["character special file 666 1:5", "character special file 600 1:3",
                                        "character special file 666 1:5"]


def test_a_device_in_a_user_namespace_does_not_cover_a_file():
    with Bundle(*SHOW, "/mnt/zero") as c:
        with_userns(c)
        os.chmod(c.rootfs + "/mnt", 0o777)
        c.linux["devices"] = [device("/mnt/zero")]
        # the second finds the empty file that the first was bound over
        for _ in range(2):
            assert c.out() == "character special file 666 1:5\n"
        b.write(c.rootfs + "/mnt/zero", "text\n")
        c.refused("/mnt/zero", "is there and is not")
        c.linux["devices"] = [device("/dev/null", 1, 5)]
        c.process["args"][3:] = ["/dev/null"]
        assert c.out() == "character special file 666 1:5\n"


def without_mknod():
    PR_CAPBSET_DROP, CAP_MKNOD = 24, 27
    if ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_MKNOD, 0, 0, 0) != 0:
        raise OSError("CAP_MKNOD is not dropped")


def test_a_device_that_cannot_be_made_is_bound_again_over_its_own_place():
    with Bundle(*SHOW, "/dev/zero") as c:
        # the root's own /dev, with the host's device of the same path
        c.config["mounts"] = [m for m in c.config["mounts"] if not m["destination"].startswith("/dev")]
        c.linux["devices"] = [device("/dev/zero")]
        for _ in range(2):
            assert c.out(preexec_fn=without_mknod).startswith("character special file")
            assert os.path.isfile(c.rootfs + "/dev/zero"), "it was made: the test tries nothing"
        # with privilege the place is a file like any other
        c.refused("is there and is not")
        b.write(c.rootfs + "/dev/zero", "text\n")
        c.save()
        r = c.call("run", "-b", c.dir, c.id, ok=1, preexec_fn=without_mknod)
        b.expect("is there and is not" in r.err, r, "not said why")


# ---- filters --------------------------------------------------------------------------------

def filter_of(*names):
    return {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": list(names), "action": "SCMP_ACT_ALLOW"}]}


def test_a_filter_without_execve_and_exit_ends_the_container():
    b.needs_no_sanitizer("it waits for itself with calls that the filter refuses")
    for calls, said in ((("read", "write"), "exec /bin/true: function not implemented"), (("read",), "before it could execute")):
        for nnp in (True, False):
            with Bundle("true", noNewPrivileges=nnp) as c:
                c.linux["seccomp"] = filter_of(*calls)
                # without no_new_privs the filter comes first, and our own next call is what fails
                c.refused(said if nnp or "write" not in calls else "Function not implemented")


def test_start_tells_it_too():
    b.needs_no_sanitizer("it waits for itself with calls that the filter refuses")
    for calls in (("read", "write"), ("read",)):
        with Bundle("true") as c:
            c.linux["seccomp"] = filter_of(*calls)
            c.create()
            r = c.call("start", c.id, ok=1)
            b.expect("exec" in r.err, r, "not said why")
            b.wait_for(lambda: c.status() == "stopped")
            c.call("delete", c.id)


# ---- numbers --------------------------------------------------------------------------------

def test_device_numbers_that_the_kernel_has_not_are_refused():
    with Bundle(*SHOW, "/dev/x") as c:
        for numbers, key in (((-1, -1), "major"), ((1, -1), "minor"), ((4096, 3), "major"), ((1 << 32, 3), "major"), ((1, 1 << 20), "minor"),
                             ((1 << 64, 3), "major")):
            for kind in ("c", "b", "p"):
                c.linux["devices"] = [device("/dev/x", *numbers, type=kind)]
                c.refused(*(["linux.devices[0]." + key] if numbers[0] < 1 << 64 else []))
        c.linux["devices"] = [device("/dev/x", 4095, (1 << 20) - 1)]
        assert c.out() == "character special file 666 fff:fffff\n"


def test_a_devices_mode_is_permissions_alone():
    with Bundle(*SHOW, "/dev/x", "/dev/y") as c:
        # engines pass on st_mode whole; a set-id or sticky device is none
        c.linux["devices"] = [device("/dev/x", fileMode=0o107755), device("/dev/y", fileMode=0o020640)]
        assert c.out().splitlines() == ["character special file 755 1:5", "character special file 640 1:5"]


def test_a_device_rule_allows_what_it_names_and_no_more():
    with Bundle("sh", "-c", "(: < /dev/x) 2> /dev/null && echo r; (: > /dev/x) 2> /dev/null && echo w; true") as c:
        for which in ("bounding", "permitted", "effective"):
            c.process["capabilities"][which].append("CAP_SYSLOG")
        c.linux["devices"] = [device("/dev/x", 1, 11)]
        log = {"type": "c", "major": 1, "minor": 11}
        for rule, word in ((dict(log), "access"), (dict(log, access=""), "access"), ({}, "access"),
                           (dict(log, access="r", major=-2), "major"), (dict(log, access="r", minor=1 << 32), "minor"),
                           (dict(log, access="r", major=1 << 32), "major")):
            c.linux["resources"]["devices"] = [dict(rule, allow=True)]
            c.refused("linux.resources.devices", word)
        deny = {"allow": False, "access": "rwm"}
        for rules, can in (([deny], ""), ([deny, dict(log, allow=True, access="r")], "r\n"),
                           ([deny, {"allow": True, "access": "r"}], "r\n"),
                           ([deny, {"allow": True, "access": "rw", "major": 1, "minor": 11}], "r\nw\n"),
                           ([deny, {"allow": True, "access": "rw", "major": 1, "minor": 12}], ""),
                           # to deny it all, nothing need be said
                           ([{"allow": True, "access": "rwm"}, dict(log, allow=False)], ""), ([{"allow": False}], "")):
            c.linux["resources"]["devices"] = rules
            assert c.out() == can, (rules, can)


def test_update_takes_no_such_rule_either():
    with Bundle(*SLEEP) as c:
        c.detached()
        rules = {"devices": [{"allow": True, "type": "c", "major": 1, "minor": 11}]}
        r = c.call("update", "-r", "-", c.id, ok=1, input=json.dumps(rules).encode())
        b.expect("access" in r.err, r, "not said why")


def test_a_hooks_timeout_is_greater_than_zero():
    for name in ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"):
        with Bundle() as c:
            for timeout in (0, -1):
                c.config["hooks"] = {name: [{"path": "/bin/touch", "args": ["touch", b.tmp("ran")], "timeout": timeout}]}
                c.refused(f"hooks.{name}[0].timeout", "greater than zero")
            assert not os.path.exists(b.tmp("ran"))


# ---- remount --------------------------------------------------------------------------------

def mounts_at(c, place):
    """The options of each mount at place, in order, as the container's /proc/self/mountinfo has them."""
    c.process["args"] = ["cat", "/proc/self/mountinfo"]
    return [line.split()[5].split(",") for line in c.out().splitlines() if line.split()[4] == place]


def test_remount_changes_the_mount_that_is_there():
    with Bundle() as c:
        plain = list(c.config["mounts"])
        tmpfs = {"destination": "/mnt", "type": "tmpfs", "source": "t", "options": ["nosuid", "size=1m"]}

        def after(*again, first=tmpfs, destination="/mnt"):
            c.config["mounts"] = [*plain, first, *({"destination": destination, "type": "tmpfs", "source": "t", "options": list(o)} for o in again)]
            found = mounts_at(c, "/mnt")
            assert len(found) == 1, found
            return found[0]

        # what was there and is not named stays, as with mount(8)
        got = after(("remount", "ro", "noexec"))
        assert {"ro", "noexec", "nosuid"} <= set(got), got
        got = after(("remount", "suid", "nodev"))
        assert "rw" in got and "nodev" in got and "nosuid" not in got, got
        assert "ro" in after(("remount", "rw"), ("remount", "ro"))
        assert "rw" in after(("remount", "ro"), ("remount", "rw"))
        assert "rw" in after(("remount", "rw"), first=dict(tmpfs, options=["ro"]))
        os.symlink("/mnt", c.rootfs + "/link")
        assert "ro" in after(("remount", "ro"), destination="/link/")
        c.config["mounts"] = [*plain, {"destination": "/dev", "type": "tmpfs", "source": "t", "options": ["remount", "ro", "noexec"]},
                              {"destination": "/proc", "type": "proc", "source": "proc", "options": ["remount", "noexec"]}]
        assert {"ro", "noexec"} <= set(mounts_at(c, "/dev")[0]) and "noexec" in mounts_at(c, "/proc")[0]


def test_remount_of_a_bind_takes_nothing_from_the_host_and_gives_it_nothing():
    shared = b.tmpdir("shared", 0o777)
    secret = b.write(b.tmp("secret/file"), "the host's\n")
    for namespace in (lambda c: None, with_userns):
        with Bundle() as c:
            namespace(c)
            c.config["mounts"] += [{"destination": "/mnt", "type": "bind", "source": shared, "options": ["rbind"]},
                                   # a source is of no meaning: it was what became mounted
                                   {"destination": "/mnt", "type": "bind", "source": os.path.dirname(secret), "options": ["bind", "remount", "ro"]},
                                   {"destination": "/mnt/in", "type": "tmpfs", "source": "t", "options": ["size=64k"]}]
            found = mounts_at(c, "/mnt")
            assert len(found) == 1 and "ro" in found[0], found
            c.process["args"] = ["sh", "-c", "ls /mnt; touch /mnt/new; touch /mnt/in/new && echo inner"]
            r = c.run()
            b.expect(r.out == "in\ninner\n" and "Read-only" in r.err, r, "not what was asked for")
            os.mkdir(shared + "/still-writable")
            os.rmdir(shared + "/still-writable")
            os.rmdir(shared + "/in")


def test_remount_without_a_mount_or_of_a_file_system_is_refused():
    with Bundle() as c:
        plain = list(c.config["mounts"])
        tmpfs = {"destination": "/mnt", "type": "tmpfs", "source": "t", "options": []}
        for options, word in ((["remount", "size=1m"], "size=1m"), (["remount", "sync"], "sync"), (["remount", "tmpcopyup"], "tmpcopyup"),
                              (["remount", "idmap"], "idmap"), (["remount", "copy-symlink"], "copy-symlink")):
            c.config["mounts"] = [*plain, tmpfs, dict(tmpfs, options=options)]
            c.refused("remount", word)
        c.config["mounts"] = [*plain, tmpfs, dict(tmpfs, options=["remount"], uidMappings=[{"containerID": 0, "hostID": 1, "size": 1}])]
        c.refused("remount", "idmap")
        for place in ("/tmp", "/nosuch", "/bin/busybox"):
            for options in (["remount", "ro"], ["remount"]):
                c.config["mounts"] = [*plain, dict(tmpfs, destination=place, options=options)]
                c.refused("remount", place)
        assert not os.path.exists(c.rootfs + "/nosuch")
