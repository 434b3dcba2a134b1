# SPDX-License-Identifier: Apache-2.0
"""The same words to docker's own command line and to berth-docker, with the same outcome."""
import io
import json
import os
import signal
import tarfile

import berthtest as b
import ocilayout
from dockerdoor import door
from dockerlab import Cli, Engine
from netlab import Lab, need_bridge
from test_networks import bridges

COST = 60


def doors(d):
    """Both, each as a function of words: a result with returncode, stdout, stderr."""
    return (Cli(d).run, door)


def networks_of(ask, name):
    found = json.loads(ask("inspect", name, ok=True).stdout)[0]["NetworkSettings"]["Networks"]
    return {n: e["IPAddress"] for n, e in found.items()}


def finds(ask, box, name):
    return ask("exec", box, "getent", "hosts", name).returncode == 0


@b.deadline(120)
def test_a_running_container_of_the_default_bridge_joins_and_leaves_networks():
    need_bridge()
    with Lab(forwarding=True), Engine() as d:
        try:
            for ask in doors(d):
                ask("network", "create", "back", ok=True)
                ask("run", "-d", "--name", "db", "--network", "back", "host", "sleep", "1000", ok=True)
                ask("run", "-d", "--name", "web", "host", "sleep", "1000", ok=True)
                assert set(networks_of(ask, "web")) == {"bridge"} and not finds(ask, "web", "db")
                ask("network", "connect", "--alias", "front", "back", "web", ok=True)
                assert finds(ask, "web", "db") and finds(ask, "db", "web") and finds(ask, "db", "front")
                on = networks_of(ask, "web")
                assert set(on) == {"bridge", "back"} and len(set(on.values())) == 2 and all(on.values()), on
                for words, said in ((("connect", "back", "web"), "already exists in network back"),
                                    (("connect", "nowhere", "web"), "network nowhere not found"),
                                    (("connect", "bridge", "db"), "when it is made"),
                                    (("connect", "none", "web"), "private (none) mode"),
                                    (("disconnect", "host", "web"), "host network"),
                                    (("disconnect", "bridge", "web"), "berth stop "),
                                    (("disconnect", "back", "nobody"), "No such container: nobody")):
                    r = ask("network", *words, ok=1)
                    assert said in r.stderr, (words, r.stderr)
                ask("network", "disconnect", "back", "web", ok=True)
                assert not finds(ask, "web", "db") and not finds(ask, "db", "web")
                assert "web is not connected to network back" in ask("network", "disconnect", "back", "web", ok=1).stderr
                ask("network", "connect", "back", "web", ok=True)
                ask("stop", "-t", "0", "web", ok=True)
                ask("network", "connect", "back", "web", ok=True)    # as dockerd: a stopped one may be there already
                assert "already exists" in ask("network", "connect", "--alias", "other", "back", "web", ok=1).stderr
                ask("start", "web", ok=True)
                ask("restart", "-t", "0", "web", ok=True)
                assert finds(ask, "web", "db") and finds(ask, "db", "web")
                # it leaves the bridge where it is stopped, as another network becomes its way out
                ask("stop", "-t", "0", "web", ok=True)
                ask("network", "disconnect", "bridge", "web", ok=True)
                ask("start", "web", ok=True)
                assert set(networks_of(ask, "web")) == {"back"} and finds(ask, "db", "web")
                ask("rm", "-f", "web", "db", ok=True)
                # as it is made, which docker's own client does not ask for: the bridge is the first, wherever it is named
                for mode, ends in (("back", ("back", "bridge")), ("default", ("bridge", "back")), ("back", ("bridge",))):
                    d.create("sleep", "1000", name="both", HostConfig={"NetworkMode": mode},
                             NetworkingConfig={"EndpointsConfig": {e: {} for e in ends}})
                    ask("start", "both", ok=True)
                    assert set(networks_of(ask, "both")) == {"bridge", "back"}
                    ask("rm", "-f", "both", ok=True)
                ask("network", "rm", "back", ok=True)
        finally:
            b.berth("rm", "--force", *b.berth("ps", "-a", "-q").out.split())
            b.berth("network", "prune", timeout=30)
            b.wait_for(lambda: not bridges(), 10, "the end of what the last member left")


@b.deadline(60)
def test_S20_a_tenants_network_is_nobody_elses_by_this():
    """Attacks S20: the network of a tenant from Docker's doors, and by a tenant from the bridge that all share."""
    need_bridge()
    with Lab(forwarding=True), Engine() as d:
        try:
            b.berth("network", "create", "--tenant", "ann", "back", ok=True)
            b.berth("create", "--tenant", "ann", "--name", "hers", "--network", "back", "host", ok=True)
            b.berth("create", "--tenant", "bob", "--name", "his", "--network", "bridge", "host", ok=True)
            for ask in doors(d):
                ask("run", "-d", "--name", "web", "host", "sleep", "1000", ok=True)
                for name in ("back", "back@ann"):
                    assert ask("network", "connect", name, "web", ok=1).stderr
                assert set(networks_of(ask, "web")) == {"bridge"} and "back" not in ask("network", "ls", ok=True).stdout
                ask("network", "prune", "-f", ok=True)
                ask("rm", "-f", "web", ok=True)
            assert b.berth("network", "inspect", "--tenant", "ann", "back").code == 0
            for tenant, box in (("bob", "his"), ("ann", "his"), ("bob", "hers")):
                assert b.berth("network", "connect", "--tenant", tenant, "back", box).code
            assert b.berth("network", "disconnect", "--tenant", "ann", "bridge", "his").code
            b.berth("stop", "his", ok=True)
            r = b.berth("network", "disconnect", "--tenant", "ann", "bridge", "his")
            assert r.code and "no sandbox" in r.err, b.describe(r)
        finally:
            b.berth("rm", "--force", *b.berth("ps", "-a", "-q").out.split())
            b.berth("network", "rm", "--tenant", "ann", "back")
            b.berth("network", "prune", timeout=30)
            b.wait_for(lambda: not bridges(), 10, "the end of what the last member left")


@b.deadline(90)
def test_containers_are_listed_by_what_they_have_and_when_they_were_made():
    need_bridge()
    with Lab(forwarding=True), Engine() as d:
        try:
            b.berth("network", "create", "back", ok=True)
            b.berth("volume", "create", "data", ok=True)
            door("run", "-d", "--name", "first", "--network", "none", "-v", "data:/d", "host", "sleep", "1000", ok=True)
            door("run", "-d", "--name", "web", "-p", "18080:80", "-p", "18053:53/udp", "--expose", "9000-9001", "host", "sleep", "1000", ok=True)
            door("network", "connect", "back", "web", ok=True)
            door("create", "--name", "last", "--network", "none", "-v", "/tmp:/srv/x:ro", "host", "true", ok=True)
            for ask in doors(d):
                def names(*filters, flags=("-a",)):
                    words = [x for f in filters for x in ("--filter", f)]
                    return set(ask("ps", *flags, "--format", "{{.Names}}", *words, ok=True).stdout.split())
                assert names("before=web") == {"first"} and names("since=web") == {"last"} and names("since=first", "before=last") == {"web"}
                assert names("since=last") == set() and names("before=first") == set() and names("before=/last", flags=()) == {"first", "web"}
                for f, want in (("volume=data", {"first"}), ("volume=/d", {"first"}), ("volume=/srv/x", {"last"}), ("volume=nothing", set()),
                                ("publish=18080", {"web"}), ("publish=18000-18100/tcp", {"web"}), ("publish=80", set()), ("publish=18053/udp", {"web"}),
                                ("publish=18053", set()), ("expose=80", {"web"}), ("expose=9001/tcp", {"web"}), ("expose=9002", set()),
                                ("expose=8999-9500", {"web"}), ("network=back", {"web"}), ("network=bridge", {"web"}), ("network=none", {"first", "last"}),
                                ("ancestor=host", {"first", "web", "last"}), ("status=created", {"last"}), ("health=none", {"first", "web", "last"}),
                                ("exited=0", set()), ("is-task=false", {"first", "web", "last"})):
                    assert names(f) == want, (f, names(f))
                assert names("volume=data", "volume=/srv/x") == {"first", "last"}, "one of a key's values is enough"
                assert names("volume=data", "publish=18080") == set(), "and each key counts"
                for f, said in (("before=nobody", "No such container: nobody"), ("publish=x", "invalid port"), ("expose=80-70", "invalid port"),
                                ("publish=1/sctp", "invalid port"), ("expose=" + "1" * 60, "invalid port"), ("nosuch=1", "invalid filter")):
                    assert said in ask("ps", "-a", "--filter", f, ok=1).stderr, (f, ask("ps", "-a", "--filter", f))
                assert names(flags=("-n", "2")) == {"web", "last"} and names(flags=("-l",)) == {"last"} and names(flags=()) == {"first", "web"}
                assert {"first", "web"} == set(ask("container", "ls", "--format", "{{.Names}}", ok=True).stdout.split())
        finally:
            b.berth("rm", "--force", *b.berth("ps", "-a", "-q").out.split())
            b.berth("network", "prune", timeout=30)
            b.berth("volume", "prune", "--force", timeout=30)
            b.wait_for(lambda: not bridges(), 10, "the end of what the last member left")


@b.deadline(60)
def test_lists_and_inspect_tell_sizes_when_asked():
    with Engine() as d:
        top = b.busybox_rootfs("big")
        b.write(top + "/payload", "x" * 300000)
        b.berth("image", "import", top, "big:1", ok=True)
        door("run", "-d", "--name", "box", "--network", "none", "big:1", "sh", "-c", "echo made; exec sleep 1000", ok=True)
        for ask in doors(d):
            before = json.loads(ask("inspect", "-s", "box", ok=True).stdout)[0]
            ask("exec", "box", "dd", "if=/dev/urandom", "of=/data", "bs=1M", "count=3", "conv=fsync", ok=True)
            after = json.loads(ask("inspect", "--size", "--type", "container", "box", ok=True).stdout)[0]
            assert after["SizeRw"] - before["SizeRw"] > 1 << 20 and after["SizeRootFs"] - after["SizeRw"] > 100000, (before, after)
            assert "SizeRw" not in json.loads(ask("inspect", "box", ok=True).stdout)[0]
            line = ask("ps", "-s", ok=True).stdout.splitlines()
            assert line[0].split()[-1] == "SIZE" and "MB (virtual " in line[1], line
            assert "MB (virtual " in ask("ps", "--format", "{{.Size}}", ok=True).stdout
            assert "SIZE" not in ask("ps", ok=True).stdout
            ask("exec", "box", "sh", "-c", "rm /data; sync", ok=True)


def volumes(ask, *filters):
    return set(ask("volume", "ls", "-q", *[x for f in filters for x in ("--filter", f)], ok=True).stdout.split())


def plain_and_volumes(*paths):
    """The images plain:1, and vol:1, which has VOLUMEs too; both with a file below /data."""
    top = b.busybox_rootfs("vol")
    os.makedirs(top + "/data")
    b.write(top + "/data/seed", "from the image\n")
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as t:
        t.add(top, arcname=".")
    for name, config in (("plain", {}), ("vol", {"Volumes": {p: {} for p in paths}})):
        ocilayout.Layout(b.tmp(name)).image([tar.getvalue()], **config)
        b.berth("image", "import", b.tmp(name), name + ":1", ok=True)


def mounts_of(ask, name):
    return {m["Destination"]: m for m in json.loads(ask("inspect", name, ok=True).stdout)[0]["Mounts"]}


@b.deadline(120)
def test_volumes_without_a_name_are_volumes():
    with Engine() as d:
        plain_and_volumes("/data", "/srv/more/")
        try:
            for ask in doors(d):
                ask("run", "-d", "--name", "box", "--network", "none", "-v", "/own", "-v", "named:/n", "vol:1", "sleep", "1000", ok=True)
                mounts = mounts_of(ask, "box")
                assert set(mounts) == {"/own", "/n", "/data", "/srv/more"} and all(m["Type"] == "volume" for m in mounts.values()), mounts
                mine = {mounts[t]["Name"] for t in ("/own", "/data", "/srv/more")}
                assert all(len(n) == 64 for n in mine) and volumes(ask) == mine | {"named"} and volumes(ask, "dangling=true") == set()
                assert ask("exec", "box", "cat", "/data/seed", ok=True).stdout == "from the image\n"
                ask("exec", "box", "sh", "-c", "echo kept > /own/f; df /own | grep -q -v overlay", ok=True)
                assert ask("ps", "-a", "--filter", "volume=" + mounts["/own"]["Name"], "--format", "{{.Names}}", ok=True).stdout == "box\n"
                assert "in use" in ask("volume", "rm", mounts["/own"]["Name"], ok=1).stderr
                ask("restart", "-t", "0", "box", ok=True)
                assert ask("exec", "box", "cat", "/own/f", ok=True).stdout == "kept\n"
                # another container has one of them, by its name now, as compose does when it makes a container again
                ask("create", "--name", "next", "--network", "none", "-v", mounts["/own"]["Name"] + ":/own", "plain:1", "cat", "/own/f", ok=True)
                ask("rm", "-f", "-v", "box", ok=True)
                assert volumes(ask) == {"named", mounts["/own"]["Name"]}, "one that another container has stays"
                assert ask("start", "-a", "next", ok=True).stdout == "kept\n"
                ask("rm", "-v", "next", ok=True)
                assert volumes(ask, "dangling=true") == {"named", mounts["/own"]["Name"]}, "nor does it go with a container that names it"
                ask("volume", "prune", "-f", ok=True)
                assert volumes(ask) == {"named"}
                # without -v they stay
                ask("run", "--name", "box", "--network", "none", "--mount", "type=volume,target=/m", "plain:1", "touch", "/m/x", ok=True)
                ask("rm", "box", ok=True)
                assert len(volumes(ask, "dangling=true")) == 2
                ask("volume", "prune", "-f", ok=True)
                # --rm takes them along, whoever ends the container, and what is mounted elsewhere is none
                for words in (("--rm",), ("--rm", "-d")):
                    ask("run", *words, "--network", "none", "-v", "/own", "--tmpfs", "/data", "-v", "named:/srv/more/", "vol:1", "sh", "-c", "echo x > /own/x", ok=True)
                    b.wait_for(lambda: volumes(ask) == {"named"}, 20, "the end of its volumes")
                ask("run", "--rm", "-d", "--name", "box", "--network", "none", "vol:1", "sleep", "1000", ok=True)
                assert len(volumes(ask)) == 3
                ask("stop", "-t", "0", "box", ok=True)
                b.wait_for(lambda: volumes(ask) == {"named"}, 20, "the end of its volumes")
                # also when its keeper is killed
                ask("run", "--rm", "-d", "--name", "box", "--network", "none", "vol:1", "sleep", "1000", ok=True)
                pid = json.loads(b.berth("inspect", "box", ok=True).out)["supervisor_pid"]
                os.kill(pid, signal.SIGKILL)
                b.wait_for(lambda: b.berth("gc", ok=True) and volumes(ask) == {"named"}, 20, "the end of its volumes")
                # nothing is left of one that cannot be made
                ask("create", "--name", "bad", "--network", "nowhere", "-v", "/own", "vol:1", "true", ok=1)
                for target, said in (("/", "absolute"), ("/a" * 3000, "absolute"), ("rel", "absolute")):
                    r = ask("create", "--name", "bad", "--network", "none", "--mount", f"type=volume,target={target}", "plain:1", "true")
                    assert r.returncode and (said in r.stderr or "invalid" in r.stderr), r
                # what is to be read-only is so, and a misspelt mode is no leave to write
                ask("run", "-d", "--name", "box", "--network", "none", "--mount", "type=volume,target=/m/,readonly", "plain:1", "sleep", "1000", ok=True)
                assert ask("exec", "box", "touch", "/m/x").returncode == 1 and [m["RW"] for m in mounts_of(ask, "box").values()] == [False]
                ask("rm", "-f", "-v", "box", ok=True)
                for words in (("-v", "named:/m:r0"), ("-v", f"{b.tmp('none')}:/m:RO"), ("-v", "/a:/b:/c"),
                              ("--mount", "type=volume,target=/m", "--mount", "type=volume,target=/m,readonly")):
                    r = ask("create", "--name", "bad", "--network", "none", *words, "plain:1", "true")
                    assert r.returncode and ("invalid" in r.stderr or "Duplicate" in r.stderr), r
                assert not os.path.exists(b.tmp("none")) and not os.path.exists("/a")
                ask("run", "--rm", "--network", "none", "-v", "named:/m:ro,z", "-v", "named:/n:nocopy", "plain:1", "true", ok=True)
                many = [x for i in range(17) for x in ("-v", f"/v{i}")]
                assert "more than 16" in ask("create", "--name", "bad", "--network", "none", *many, "plain:1", "true", ok=1).stderr
                assert volumes(ask) == {"named"}
                ask("volume", "rm", "named", ok=True)
        finally:
            b.berth("rm", "--force", *b.berth("ps", "-a", "-q").out.split())
            b.berth("volume", "prune", "--force", timeout=30)


@b.deadline(90)
def test_the_host_bounds_volumes_without_a_name():
    with Engine(config="[volume]\nmax = 3\n") as d:
        plain_and_volumes("/data")
        try:
            made = [d.create("true", image="vol:1", name=f"n{i}") for i in range(2)]
            assert len(made) == 2
            reply = d.good("POST", "/containers/create?name=more", {"Image": "vol:1", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none"}, "Volumes": {"/x": {}}})
            assert "docker volume prune" in " ".join(reply["Warnings"]), reply
            status, said, _ = d.api("POST", "/containers/create?name=no", {"Image": "plain:1", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none"}, "Volumes": {"/x": {}}})
            assert status >= 400 and "[volume] max" in said["message"] and d.api("GET", "/containers/no/json")[0] == 404, said
            assert len(d.good("GET", "/volumes")["Volumes"]) == 3
        finally:
            b.berth("rm", "--force", *b.berth("ps", "-a", "-q").out.split())
            b.berth("volume", "prune", "--force", timeout=30)


def test_volumes_and_networks_are_refused_and_removed_in_the_same_words():
    with Lab(), Engine() as d:
        said = []
        for ask in doors(d):
            ask("volume", "create", "--opt", "size=16m", "--label", "a=b", "small", ok=True)
            assert json.loads(b.berth("volume", "ls", "--json", ok=True).out)[0]["size_bytes"] == 16 << 20
            asks = [("volume", "create", "--opt", "type=nfs", "v"), ("volume", "create", "--opt", "size=much", "v"), ("volume", "create", "a/b"),
                    ("volume", "create", "--driver", "ceph", "v"), ("volume", "create", "--label", "berth.face=e2b", "v"), ("volume", "rm", "nowhere"),
                    ("volume", "inspect", "nowhere"), ("network", "create", "--driver", "overlay", "n"), ("network", "create", "a/b"),
                    ("network", "create", "host"), ("network", "create", "--label", "berth.face=e2b", "n"), ("network", "create", "--ipam-driver", "x", "n"),
                    ("network", "create", "--subnet", "10.88.1.0/24", "--subnet", "10.88.2.0/24", "--subnet", "10.88.3.0/24", "n"),
                    ("network", "rm", "bridge"), ("network", "rm", "nowhere"), ("network", "inspect", "nowhere"), ("network", "prune", "-f", "--filter", "x=y")]
            said.append([ask(*words, ok=1).stderr for words in asks])
            ask("volume", "rm", "-f", "nowhere", ok=True)
            assert ask("volume", "prune", "-a", "-f", ok=True).stdout.startswith("Deleted Volumes:\nsmall\n\n")
            assert ask("network", "prune", "-f", ok=True).stdout == ""
        for words, socket, drop_in in zip(asks, *said):
            assert socket.splitlines()[0] == drop_in.splitlines()[0], (words, socket, drop_in)
        status, answer, _ = d.api("POST", "/networks/create", {"Name": "n", "Ingress": True})
        assert status == 501 and "swarm" in answer["message"], (status, answer)
        assert d.api("GET", "/volumes")[1]["Volumes"] == []
