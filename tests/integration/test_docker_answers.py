# SPDX-License-Identifier: Apache-2.0
"""Answers of the Engine API that Docker's clients decide by, as dockerd gives them."""
import collections
import concurrent.futures
import ipaddress
import json
import os
import urllib.parse

import berthtest as b
from dockerdoor import door
from dockerlab import Engine, frames, read_all, tar_of
from netlab import Lab

COST = 20


@b.deadline(60)
def test_swarm_nodes_services_secrets_and_configs_answer_as_an_engine_in_no_swarm():
    with Engine() as d:
        def said(method, path, body=None):
            status, answer, _ = d.api(method, path, body)
            return status, answer["message"]
        manager = (503, 'This node is not a swarm manager. Use "docker swarm init" or "docker swarm join" to connect this node to swarm and try again.')
        for kind in ("nodes", "services", "tasks", "secrets", "configs"):
            assert said("GET", f"/{kind}") == manager, kind
            assert said("GET", f"/v1.41/{kind}/abc") == manager, kind
        assert said("GET", "/services/abc/logs") == manager
        assert said("POST", "/secrets/create", {"Name": "s", "Data": ""}) == manager
        assert said("POST", "/services/create", {"Name": "s"}) == manager
        assert said("DELETE", "/nodes/abc") == manager
        assert said("GET", "/swarm") == manager and said("POST", "/swarm/update?version=1", {}) == manager
        assert said("POST", "/swarm/leave?force=1") == (503, "This node is not part of a swarm")
        for verb in ("init", "join"):
            status, text = said("POST", f"/swarm/{verb}", {})
            assert status == 503 and "swarm mode is not served here" in text, text


@b.deadline(90)
def test_an_image_is_committed_and_imported_without_a_name_and_with_each_instruction():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
    changes = ["CMD [\"one\", \"two\"]", "ENV A=b C='d e'", "ENV F g h", "EXPOSE 80 53/udp", "LABEL k=\"v w\"", "VOLUME /data", "USER 5:6", "WORKDIR /w",
               "STOPSIGNAL SIGINT", 'ENTRYPOINT ["/e"]', "ONBUILD RUN true", "HEALTHCHECK --interval=5s --retries=2 CMD curl x"]
    query = "&".join("changes=" + urllib.parse.quote(c) for c in changes)

    def check(d, found):
        run = d.good("GET", f"/images/{found}/json")
        assert run["RepoTags"] == [] and run["RepoDigests"] == [], run
        config = run["Config"]
        assert (config["Entrypoint"], config["Cmd"]) == (["/e"], ["one", "two"]) and {"A=b", "C=d e", "F=g h"} <= set(config["Env"]), config
        assert config["ExposedPorts"] == {"80/tcp": {}, "53/udp": {}} and config["Labels"]["k"] == "v w" and config["Volumes"] == {"/data": {}}, config
        assert (config["User"], config["WorkingDir"], config["StopSignal"], config["OnBuild"]) == ("5:6", "/w", "SIGINT", ["RUN true"]), config
        assert config["Healthcheck"] == {"Test": ["CMD-SHELL", "curl x"], "Interval": 5000000000, "Retries": 2}, config

    with Engine() as d:
        d.create("true", image="box:1", name="box")
        one = d.good("POST", f"/commit?container=box&comment=why&{query}", {})["Id"]
        shown = d.good("GET", f"/images/{one}/json")
        assert (shown["Parent"], shown["Comment"]) == (d.good("GET", "/images/box:1/json")["Id"], "why"), shown
        check(d, one)
        said = d.good("POST", f"/images/create?fromSrc=-&message=hello&{query}", tar_of("a", b"1"))
        two = json.loads(said.splitlines()[-1])["status"]
        check(d, two)
        assert d.good("GET", f"/images/{two}/history")[0]["Comment"] == "hello"
        # nobody is told of the names that berth's store has for them
        listed = {i["Id"]: i["RepoTags"] for i in d.good("GET", "/images/json")}
        assert listed[one] == [] and listed[two] == [] and "box:1" in sum(listed.values(), []), listed
        dangling = d.good("GET", "/images/json?filters=" + urllib.parse.quote(json.dumps({"dangling": ["true"]})))
        assert {i["Id"] for i in dangling} == {one, two}, dangling
        assert "<none>" in door("images", ok=True).stdout
        # a name that it gets later is its last
        d.good("POST", f"/images/{one}/tag?repo=later&tag=1")
        gone = d.good("DELETE", "/images/later:1")
        assert gone == [{"Untagged": "later:1"}, {"Deleted": one}], gone
        pruned = d.good("POST", "/images/prune", {})
        assert d.api("GET", f"/images/{two}/json")[0] == 404 and d.api("GET", "/images/box:1/json")[0] == 200, pruned
        for change, text in (("FROM x", "FROM is not a valid change command"), ("NOPE x", "unknown instruction: NOPE"), ("EXPOSE x", "Invalid containerPort: x"),
                             ("CMD", "CMD requires at least one argument")):
            status, said, _ = d.api("POST", "/commit?container=box&changes=" + urllib.parse.quote(change), {})
            assert status == 400 and text in said["message"], (change, status, said)


@b.deadline(90)
def test_further_groups_hold_for_the_command_and_each_exec():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
    with Engine() as d:
        def groups(*words, user="", add=()):
            cid = d.create("sh", "-c", "id -G; exec sleep 1000", image="box:1", User=user, HostConfig={"GroupAdd": list(add)})
            d.good("POST", f"/containers/{cid}/start")
            with d.stream(f"/containers/{cid}/logs?stdout=1&follow=1") as r:
                return cid, r.readline()[8:].decode().split()
        cid, seen = groups(add=["1000", "1001"])
        assert seen[0] == "0" and {"1000", "1001"} <= set(seen), seen
        assert groups(add=[1000], user="7:8")[1] == ["8", "1000"]
        status = "grep ^Groups: /proc/self/status"
        assert set(b.berth("exec", "--user", "7:8,9", cid[:12], "sh", "-c", status, ok=True).out.split()[1:]) >= {"8", "9"}, "its main group, too"
        eid = d.good("POST", f"/containers/{cid}/exec", {"AttachStdout": True, "User": "5:6", "Cmd": ["id", "-G"]})["Id"]
        s, _ = d.hijack(f"/exec/{eid}/start", {})
        assert frames(read_all(s))[1] == b"6 1000 1001\n"
        s.close()
        assert d.good("GET", f"/containers/{cid}/json")["HostConfig"]["GroupAdd"] == ["1000", "1001"]
        assert d.good("GET", f"/exec/{eid}/json")["ProcessConfig"]["user"] == "5:6"
        bad = d.create("true", image="box:1", HostConfig={"GroupAdd": ["nosuch"]})
        status, said, _ = d.api("POST", f"/containers/{bad}/start")
        assert status >= 400 and "group 'nosuch'" in said["message"], (status, said)


@b.deadline(90)
def test_each_member_of_a_create_is_honoured_refused_or_told():
    with Engine() as d:
        def made(host, **more):
            said = d.good("POST", "/containers/create", {"Image": "host", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none", **host}, **more})
            return d.good("GET", f"/containers/{said['Id']}/json"), " ".join(said["Warnings"] or [])

        def refused(host):
            status, said, _ = d.api("POST", "/containers/create", {"Image": "host", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none", **host}})
            assert status >= 400, (host, said)
            return status, said["message"]

        assert "HostConfig.OomScoreAdj is not supported here" in made({"OomScoreAdj": 5})[1]
        assert "HostConfig.Sysctls" in made({"Sysctls": {"net.core.somaxconn": "1"}})[1]
        shown, told = made({})
        assert told == "" and shown["HostConfig"]["Runtime"] == "runc" and shown["HostConfig"]["LogConfig"] == {"Type": "json-file", "Config": {}}, (told, shown)
        shown, told = made({"LogConfig": {"Type": "", "Config": {"max-file": "3"}}})
        assert shown["HostConfig"]["LogConfig"] == {"Type": "json-file", "Config": {"max-file": "3"}} and "log options were not used" in told
        assert made({"Runtime": "runc"})[0]["HostConfig"]["Runtime"] == "runc"
        assert refused({"LogConfig": {"Type": "asdf"}})[1] == 'error looking up logging plugin asdf: plugin "asdf" not found'
        assert "syslog is not supported" in refused({"LogConfig": {"Type": "syslog"}})[1]
        assert "unknown log opt 'x'" in refused({"LogConfig": {"Type": "local", "Config": {"x": "1"}}})[1]
        assert refused({"Runtime": "nosuch"}) == (400, "unknown or invalid runtime name: nosuch")
        assert "can only be used with 'on-failure'" in refused({"RestartPolicy": {"Name": "always", "MaximumRetryCount": 2}})[1]
        assert "unknown policy 'sometimes'" in refused({"RestartPolicy": {"Name": "sometimes"}})[1]
        shown, told = made({"LogConfig": {"Type": "none"}})
        status, said, _ = d.api("GET", f"/containers/{shown['Id']}/logs?stdout=1")
        assert (status, said["message"]) == (501, "configured logging driver does not support reading") and "none" in told
        assert "does not support reading" in door("logs", shown["Id"], ok=1).stderr

        # mounts as Docker shows them
        os.mkdir(b.tmp("src"))
        shown, told = made({"Binds": [f"{b.tmp('src')}:/a:ro,rshared", "vol1:/v"], "Mounts": [
            {"Type": "bind", "Source": b.tmp("src"), "Target": "/m", "ReadOnly": True},
            {"Type": "bind", "Source": b.tmp("src/new"), "Target": "/n", "BindOptions": {"CreateMountpoint": True}},
            {"Type": "volume", "Source": "vol2", "Target": "/w", "VolumeOptions": {"Labels": {"a": "b"}}},
            {"Type": "tmpfs", "Target": "/t", "TmpfsOptions": {"SizeBytes": 1 << 20, "Mode": 448}}], "Tmpfs": {"/u": "rw,noexec,size=1m"}})
        at = {m["Destination"]: m for m in shown["Mounts"]}
        assert at["/a"] == {"Type": "bind", "Source": b.tmp("src"), "Destination": "/a", "Mode": "ro,rshared", "RW": False, "Propagation": "rprivate"}, at
        assert (at["/m"]["Propagation"], at["/m"]["RW"]) == ("rprivate", False) and "Name" not in at["/m"], at
        assert (at["/v"]["Mode"], at["/w"]["Mode"], at["/m"]["Mode"]) == ("z", "z", "") and at["/v"]["Name"] == "vol1" and at["/w"]["Name"] == "vol2" and at["/w"]["Driver"] == "local" and at["/w"]["Propagation"] == "", at
        assert os.path.isdir(b.tmp("src/new")) and at["/t"]["Type"] == "tmpfs", at
        for word in ("not ro,rshared", "VolumeOptions.Labels", "TmpfsOptions.Mode", "option noexec of a tmpfs"):
            assert word in told, (word, told)
        for c in d.good("GET", "/containers/json?all=1"):
            d.good("DELETE", f"/containers/{c['Id']}?v=1")
        d.good("DELETE", "/volumes/vol1")
        d.good("DELETE", "/volumes/vol2")
        assert "Subpath" in refused({"Mounts": [{"Type": "volume", "Source": "v", "Target": "/x", "VolumeOptions": {"Subpath": "y"}}]})[1]


@b.deadline(120)
def test_a_create_is_refused_in_the_words_of_dockerd():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)

    def mount(**members):
        return {"HostConfig": {"Mounts": [{"Target": "/x", **members}]}}

    local = {"Type": "volume", "Source": "v"}
    with Engine() as d:
        for body, word in (
                ({}, "config cannot be empty in order to create a container"),
                ({"Image": ""}, "no command specified"),
                (mount(Type="notreal"), 'invalid mount config for type "notreal": mount type unknown'),
                (mount(Type="bind"), 'type "bind": field Source must not be empty'),
                (mount(Type="bind", Source="/", VolumeOptions={}), 'type "bind": field VolumeOptions must not be specified'),
                (mount(Type="volume", BindOptions={}), 'type "volume": field BindOptions must not be specified'),
                (mount(Type="tmpfs", Source="/x"), 'type "tmpfs": field Source must not be specified'),
                (mount(**local, VolumeOptions={"DriverConfig": {"Options": {"foobar": "x"}}}), 'invalid option: "foobar"'),
                (mount(**local, VolumeOptions={"DriverConfig": {"Options": {"type": "tmpfs"}}}), 'missing required option: "device"'),
                (mount(**local, VolumeOptions={"DriverConfig": {"Options": {"device": "tmpfs"}}}), 'missing required option: "type"'),
                ({"HostConfig": {"CpuShares": 1}}, "minimum allowed cpu-shares is 2"),
                ({"HostConfig": {"CpuShares": -1}}, "shares: invalid argument"),
                ({"HostConfig": {"CpuShares": 99999999}}, "maximum allowed cpu-shares is 262144"),
                ({"HostConfig": {"NetworkMode": "bridge", "PortBindings": {"80/tcp": [{"HostPort": "aa80"}]}}}, "invalid port")):
            whole = {"Image": "box:1", "Cmd": ["true"], **body} if body and "Image" not in body else body
            status, said, _ = d.api("POST", "/containers/create", whole)
            assert status == 400 and word in said["message"], (body, status, said)
        assert d.good("GET", "/containers/json?all=1") == []
        # a volume that is asked for by name or as a mount has a mode of its own, one of a path alone has none
        cid = d.create("true", image="box:1", Volumes={"/alone": {}}, Env=["HOME=", "A=b"], HostConfig={
            "NetworkMode": "none", "Binds": ["one:/one", "two:/two:ro"], "Mounts": [{"Type": "volume", "Target": "/made"}, {"Type": "volume", "Source": "three", "Target": "/three"}]})
        shown = d.good("GET", f"/containers/{cid}/json")
        assert {m["Destination"]: m["Mode"] for m in shown["Mounts"]} == {"/alone": "", "/one": "z", "/two": "ro", "/made": "z", "/three": "z"}, shown["Mounts"]
        d.good("DELETE", f"/containers/{cid}?v=1")
        # an empty home is that of the user
        assert "HOME=/root\n" in door("run", "--rm", "--network", "none", "-e", "HOME=", "box:1", "env", ok=True).stdout
        for name in "one", "two", "three":
            d.good("DELETE", f"/volumes/{name}")


@b.deadline(90)
def test_a_network_of_its_own_or_none_takes_no_other():
    with Lab(forwarding=True), Engine() as d:
        try:
            b.berth("network", "create", "app", ok=True)
            door("run", "-d", "--name", "lone", "--network", "none", "host", "sleep", "1000", ok=True)
            door("run", "-d", "--name", "first", "--network", "app", "host", "sleep", "1000", ok=True)
            door("run", "-d", "--name", "guest", "--network", "container:first", "host", "sleep", "1000", ok=True)
            for name, word in (("lone", "networks in private (none) mode"), ("guest", "sharing network namespace with another container or host")):
                assert word in door("network", "connect", "app", name, ok=1).stderr
                status, said, _ = d.api("POST", "/networks/app/connect", {"Container": name})
                assert status == 403 and word in said["message"], (status, said)
            member, = d.good("GET", "/networks/app")["Containers"].values()
            subnet = d.good("GET", "/networks/app")["IPAM"]["Config"][0]["Subnet"]
            assert ipaddress.ip_interface(member["IPv4Address"]).network == ipaddress.ip_network(subnet), member
        finally:
            b.berth("rm", "--force", "lone", "first", "guest")
            b.berth("network", "prune", timeout=30)


@b.deadline(60)
def test_a_container_between_two_runs_is_not_removed_without_force():
    with Engine() as d:
        d.create("false", name="crash", HostConfig={"RestartPolicy": {"Name": "always"}})
        d.good("POST", "/containers/crash/start")
        b.wait_for(lambda: d.good("GET", "/containers/crash/json")["State"]["Status"] == "restarting")
        status, said, _ = d.api("DELETE", "/containers/crash")
        assert status == 409 and "stop the container before removing or force remove" in said["message"], said
        # a signal finds it running or not, at each door
        def signalled():
            status, said, _ = d.api("POST", "/containers/crash/kill?signal=CONT")
            assert status == 204 or status == 409 and "is not running" in said["message"], (status, said)
            return status == 409
        b.wait_for(signalled)
        # what runs once more in a moment is not stopped
        for _ in range(2):
            b.wait_for(lambda: d.good("GET", "/containers/crash/json")["State"]["Status"] == "restarting")
            assert not d.good("POST", "/containers/prune")["ContainersDeleted"]
            door("container", "prune", "--force", ok=True)
        d.good("DELETE", "/containers/crash?force=1")


@b.deadline(60)
def test_a_container_that_is_killed_beside_a_pause_is_told_in_dockers_words():
    """The answer was that of /v1, with its remedy."""
    with Engine() as d:
        d.create("sleep", "1000", name="brief")
        for _ in range(6):
            d.good("POST", "/containers/brief/start")
            with concurrent.futures.ThreadPoolExecutor() as all_of_them:
                asked = [all_of_them.submit(d.api, "POST", f"/containers/brief/{verb}") for verb in ("pause", "kill", "unpause", "pause", "unpause")]
            for status, said, _ in (x.result() for x in asked):
                assert status == 204 or status == 409 and said["message"].startswith(("Container ", "cannot kill container: ")), (status, said)


@b.deadline(60)
def test_info_has_each_member_that_clients_name():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
    with Engine() as d:
        b.berth("image", "tag", "box:1", "box:2", ok=True)
        info = d.good("GET", "/info")
        assert info["Images"] == 1 and info["Debug"] is False and info["SystemTime"][:2] == "20" and info["ExperimentalBuild"] is False, info
        assert info["DefaultRuntime"] in info["Runtimes"] and info["RegistryConfig"]["IndexConfigs"] == {}, info


@b.deadline(60)
def test_top_shows_the_containers_processes_as_ps_was_asked_to():
    with Engine() as d:
        d.create("sleep", "1000", name="box", User="0:0")
        d.good("POST", "/containers/box/start")
        shown = d.good("GET", "/containers/box/top")
        assert shown["Titles"] == ["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"] and len(shown["Processes"]) == 1, shown
        assert (shown["Processes"][0][0], shown["Processes"][0][-1]) == ("root", "sleep 1000"), shown
        eid = d.good("POST", "/containers/box/exec", {"User": "7", "Cmd": ["sleep", "2000"]})["Id"]
        d.good("POST", f"/exec/{eid}/start", {"Detach": True})
        shown = d.good("GET", "/containers/box/top?ps_args=-eo+pid,user,comm")
        assert shown["Titles"] == ["PID", "USER", "COMMAND"] and [p[1:] for p in shown["Processes"]] == [["root", "sleep"], ["7", "sleep"]], shown
        assert d.good("GET", "/containers/box/top?ps_args=aux")["Titles"][:2] == ["USER", "PID"]
        assert door("top", "box", "-o", "pid,args", ok=True).stdout.splitlines()[1].endswith("sleep 1000")
        for args, text in (("-o+comm", "Couldn't find PID field in ps output"), ("-eo+pid,nosuch", "nosuch"), ("-Z", "option Z of ps")):
            status, said, _ = d.api("GET", f"/containers/box/top?ps_args={args}")
            assert status >= 400 and text in said["message"], (args, status, said)


@b.deadline(120)
def test_a_look_at_a_container_that_ends_just_now_has_its_own_exit_code():
    with Engine() as d:
        seen = collections.Counter()
        for _ in range(40):
            cid = d.create("true")
            d.good("POST", f"/containers/{cid}/start")
            while True:
                state = d.good("GET", f"/containers/{cid}/json")["State"]
                if state["Status"] == "exited":
                    break
            seen[state["ExitCode"]] += 1
            d.good("DELETE", f"/containers/{cid}")
        assert seen == {0: 40}, seen


@b.deadline(120)
def test_a_container_is_committed_while_it_ends_and_a_prune_says_what_went():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
    with Engine() as d:
        for _ in range(15):
            cid = d.create("touch", "/made", image="box:1")
            d.good("POST", f"/containers/{cid}/start")
            made = d.good("POST", f"/commit?container={cid}", {})["Id"]
            d.good("DELETE", f"/containers/{cid}?force=1")
        d.good("POST", f"/images/{made}/tag?repo=last")
        pruned = d.good("POST", "/images/prune?filters=" + urllib.parse.quote(json.dumps({"dangling": ["false"]})), {})
        gone = pruned["ImagesDeleted"]
        assert {"Untagged": "last:latest"} in gone and {"Deleted": made} in gone and {"Untagged": "box:1"} in gone, gone
        assert not [x for x in gone if "invalid" in x.get("Untagged", "")] and pruned["SpaceReclaimed"] > 0, pruned
        assert d.good("GET", "/images/json") == []
        status, said, _ = d.api("POST", "/images/load", b"this is no archive")
        assert status == 200 and json.loads(said)["errorDetail"]["message"], (status, said)


@b.deadline(90)
def test_a_container_that_joined_a_network_later_is_among_its_containers_with_its_addresses():
    with Lab(forwarding=True), Engine() as d:
        try:
            net = d.good("POST", "/networks/create", {"Name": "late"})["Id"]
            said = d.good("POST", "/containers/create?name=box", {
                "Image": "host", "Cmd": ["sleep", "1000"], "MacAddress": "02:42:ac:11:00:0a", "HostConfig": {"NetworkMode": "bridge"},
                "NetworkingConfig": {"EndpointsConfig": {"bridge": {"DriverOpts": {"a": "b"}, "Links": ["x:y"]}}}})
            told = " ".join(said["Warnings"])
            assert "MacAddress" not in told and "EndpointsConfig.DriverOpts" in told and "EndpointsConfig.Links" in told, said
            d.good("POST", "/containers/box/start")
            assert d.good("GET", f"/networks/{net}")["Containers"] == {}
            d.good("POST", f"/networks/{net}/connect", {"Container": "box"})
            assert list(d.good("GET", f"/networks/{net}")["Containers"]) == [said["Id"]]
            settings = d.good("GET", "/containers/box/json")["NetworkSettings"]
            bridge, late = settings["Networks"]["bridge"], settings["Networks"]["late"]
            assert bridge["DriverOpts"] == {"a": "b"} and bridge["Links"] == ["x:y"], bridge
            assert settings["Gateway"] == bridge["Gateway"] != "" and settings["IPPrefixLen"] == bridge["IPPrefixLen"] > 0, settings
            eid = d.good("POST", "/containers/box/exec", {"AttachStdout": True, "Cmd": ["ip", "-o", "link"]})["Id"]
            s, _ = d.hijack(f"/exec/{eid}/start", {})
            out = frames(read_all(s))[1].decode()
            assert bridge["MacAddress"] in out and late["MacAddress"] in out and bridge["MacAddress"] != late["MacAddress"], (out, settings)
            s.close()
            assert len(bridge["EndpointID"]) == len(late["EndpointID"]) == 64 and bridge["EndpointID"] != late["EndpointID"]
            for network, end in (("bridge", bridge), ("late", late)):
                shown = d.good("GET", f"/networks/{network}")
                place = f"{end['IPAddress']}/{shown['IPAM']['Config'][0]['Subnet'].split('/')[1]}"
                member = shown["Containers"][said["Id"]]
                assert member.pop("IPv6Address") is not None and len(shown["Containers"]) == 1 and member == {
                    "Name": "box", "EndpointID": end["EndpointID"], "MacAddress": end["MacAddress"], "IPv4Address": place}, (shown, end)
            d.good("POST", f"/networks/{net}/disconnect", {"Container": "box"})
            assert d.good("GET", f"/networks/{net}")["Containers"] == {}
            assert settings["MacAddress"] == bridge["MacAddress"] == "02:42:ac:11:00:0a", settings
            d.good("POST", f"/networks/{net}/connect", {"Container": "box", "EndpointConfig": {"MacAddress": "02:42:AC:11:00:0b"}})
            assert d.good("GET", f"/networks/{net}")["Containers"][said["Id"]]["MacAddress"].lower() == "02:42:ac:11:00:0b"
            d.good("POST", "/containers/box/restart?t=0")
            addresses = b.berth("exec", "box", "ip", "link", ok=True).out
            assert "02:42:ac:11:00:0a" in addresses and "02:42:ac:11:00:0b" in addresses, addresses
            ends = {"EndpointsConfig": {"late": {"MacAddress": "02:42:ac:11:00:0b"}}}
            other = {"Image": "host", "Cmd": ["sleep", "1000"], "HostConfig": {"NetworkMode": "late"}, "NetworkingConfig": ends}
            two = d.good("POST", "/containers/create", other)["Id"]
            assert d.good("GET", f"/containers/{two}/json")["NetworkSettings"]["Networks"]["late"]["MacAddress"] == "02:42:ac:11:00:0b"
            status, answer, _ = d.api("POST", f"/containers/{two}/start")
            assert status >= 400 and "hardware address 02:42:ac:11:00:0b is that of sandbox" in answer["message"], answer
            d.good("DELETE", f"/containers/{two}?force=1")
            for text, wanted in (("01:42:ac:11:00:0b", "cannot be chosen"), ("02-42", "invalid MAC address"), ("02:62:0a:00:00:01", "")):
                ends["EndpointsConfig"]["late"]["MacAddress"] = text
                status, answer, _ = d.api("POST", "/containers/create?name=other", other)
                assert wanted in answer.get("message", "") and (status == 201) == (not wanted), (text, status, answer)
            d.good("DELETE", "/containers/other?force=1")
            d.good("DELETE", "/containers/box?force=1")
        finally:
            b.berth("network", "prune", timeout=30)


@b.deadline(120)
def test_what_a_create_asks_wrongly_is_told_in_dockerds_words():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
    with Engine() as d:
        def said(body, query=""):
            status, answer, _ = d.api("POST", "/containers/create" + query, {"Image": "box:1", "Cmd": ["true"], **body})
            return status, answer.get("message", answer)
        assert said({"Env": [""]}) == (400, "invalid environment variable: ")
        ms = 1000000
        for health, text in (({"Interval": -10 * ms}, "Interval in Healthcheck cannot be less than 1ms"), ({"Interval": ms // 2}, "Interval in Healthcheck cannot be less than 1ms"),
                             ({"Timeout": -ms}, "Timeout in Healthcheck cannot be less than 1ms"), ({"Retries": -1}, "Retries in Healthcheck cannot be negative"),
                             ({"StartPeriod": 100}, "StartPeriod in Healthcheck cannot be less than 1ms")):
            assert said({"Healthcheck": health}) == (400, text), health
        for host, text in (({"PidMode": "container"}, "invalid PID mode: container"), ({"IpcMode": "x"}, "invalid IPC mode: x"), ({"UTSMode": "private"}, "invalid UTS mode: private"),
                           ({"CgroupnsMode": "x"}, "invalid cgroup namespace mode: x")):
            assert said({"HostConfig": {"NetworkMode": "none", **host}}) == (400, text), host
        assert "IpcMode shareable was ignored" in said({"HostConfig": {"NetworkMode": "none", "IpcMode": "shareable"}})[1]["Warnings"][0]
        assert "the limit of CPU is 0.01" in said({"HostConfig": {"NetworkMode": "none", "NanoCpus": 500000}})[1]["Warnings"][0]
        assert not said({"HostConfig": {"NetworkMode": "none", "NanoCpus": 10000000}})[1]["Warnings"]
        assert "Healthcheck.Interval is 100 ms" in said({"Healthcheck": {"Test": ["CMD", "true"], "Interval": 50 * ms}})[1]["Warnings"][0]
        assert "Healthcheck.Interval was ignored" in said({"Healthcheck": {"Interval": 1000 * ms}})[1]["Warnings"][0]
        assert "no health check" in said({"Healthcheck": {"Test": ["true"], "Interval": 1000 * ms}})[1]["Warnings"][0]
        assert said({}, "?platform=linux/foobar") == (404, "image with reference box:1 was found but does not match the specified platform: wanted linux/foobar, actual: linux/amd64")
        assert said({}, "?platform=foo") == (400, '"foo": unknown operating system or architecture: invalid argument')
        assert said({}, "?platform=LINUX/x86_64&name=right")[0] == 201
        assert said({"HostConfig": {"Links": ["nope:x"]}}) == (400, "could not get container for nope: No such container: nope")
        for mode in ("PidMode", "IpcMode"):
            assert said({"HostConfig": {mode: "container:nosuch"}}) == (400, "No such container: nosuch")
        assert said({"HostConfig": {"VolumesFrom": ["nosuch"]}}) == (400, "No such container: nosuch")
        assert said({"HostConfig": {"Annotations": {"": "a"}}}) == (400, "invalid Annotations: the empty string is not permitted as an annotation key")
        assert said({"HostConfig": {"AutoRemove": True, "RestartPolicy": {"Name": "always"}}}) == (400, "can't create 'AutoRemove' container with restart policy")
        for target, text in ((".", "invalid mount path: '.' mount path must be absolute"), ("/", "invalid specification: destination can't be '/'"), ("", "field Target must not be empty")):
            assert said({"HostConfig": {"Mounts": [{"Type": "tmpfs", "Target": target}]}}) == (400, f'invalid mount config for type "tmpfs": {text}'), target
        for query, text in (("platform=macos/arm64", "operating system is not supported"), ("platform=nintendo64", "unknown operating system or architecture"),
                            ("platform=/", "is an invalid component")):
            status, answer, _ = d.api("POST", f"/images/create?fromSrc=-&repo=imp&{query}", tar_of("a", b"1"))
            assert status == 400 and text in answer["message"], (query, status, answer)
        assert d.api("POST", "/images/create?fromSrc=-&repo=imp&platform=LINUX", tar_of("a", b"1"))[0] == 200
        status, answer, _ = d.api("POST", "/images/create?fromImage=box&platform=foobar")
        assert status == 400 and "unknown operating system or architecture" in answer["message"], answer
        status, answer, _ = d.api("POST", "/images/box:1/tag?repo=sha256&tag=x")
        assert (status, answer["message"]) == (400, "refusing to create an ambiguous tag using digest algorithm as name")
        status, _, headers = d.api("GET", "/_ping")
        assert headers["Cache-Control"] == "no-cache, no-store, must-revalidate" and headers["Pragma"] == "no-cache", headers
        assert d.good("GET", "/networks/") == d.good("GET", "/networks")
        d.create("sleep", "1000", name="box")
        d.good("POST", "/containers/box/start")
        d.good("POST", "/containers/box/pause")
        for path, want in (("start", (409, "cannot start a paused container, try unpause instead")), ("rename?name=", (400, "Neither old nor new names may be empty")),
                           ("kill?signal=SIG42", (400, "Invalid signal: SIG42")), ("kill?signal=0", (400, "Invalid signal: 0"))):
            status, answer, _ = d.api("POST", f"/containers/box/{path}")
            assert (status, answer["message"]) == want, (path, status, answer)


@b.deadline(90)
def test_the_volumes_of_another_container_are_there_and_shown():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
    with Engine() as d:
        os.mkdir(b.tmp("src"))
        b.write(b.tmp("src/f"), "bound\n")
        d.create("sh", "-c", "echo kept > /v/k; echo own > /anon/a", image="box:1", name="first", Volumes={"/anon": {}}, HostConfig={"Binds": [f"{b.tmp('src')}:/b:ro", "vol:/v"]})
        d.good("POST", "/containers/first/start")
        d.good("POST", "/containers/first/wait")
        d.create("sh", "-c", "cat /b/f /v/k /anon/a; echo x > /v/new", image="box:1", name="second", HostConfig={"VolumesFrom": ["first:ro"]})
        d.good("POST", "/containers/second/start")
        assert d.good("POST", "/containers/second/wait")["StatusCode"] != 0
        assert frames(d.good("GET", "/containers/second/logs?stdout=1"))[1] == b"bound\nkept\nown\n"
        shown = d.good("GET", "/containers/second/json")
        assert {m["Destination"]: m["RW"] for m in shown["Mounts"]} == {"/b": False, "/v": False, "/anon": False}, shown["Mounts"]
        assert shown["HostConfig"]["VolumesFrom"] == ["first:ro"]
        d.create("true", image="box:1", name="third", HostConfig={"VolumesFrom": ["second"], "Binds": ["other:/v"]})
        at = {m["Destination"]: m.get("Name", "") for m in d.good("GET", "/containers/third/json")["Mounts"]}
        assert at["/v"] == "other" and len(at) == 3, at
        assert door("run", "--rm", "--network", "none", "--volumes-from", "first", "box:1", "cat", "/b/f", "/v/k", ok=True).stdout == "bound\nkept\n"
        assert "No such container: nosuch" in door("run", "--rm", "--network", "none", "--volumes-from", "nosuch", "box:1", "true", ok=125).stderr
        assert door("run", "--rm", "--network", "none", "--group-add", "77", "-u", "5:6", "box:1", "id", "-G", ok=True).stdout == "6 77\n"
        for name in ("third", "second", "first"):
            d.good("DELETE", f"/containers/{name}?v=1")
        for name in ("vol", "other"):
            d.good("DELETE", f"/volumes/{name}")


@b.deadline(120)
def test_a_rename_while_a_container_ends_is_not_lost():
    with Engine() as d:
        lost = 0
        for i in range(30):
            cid = d.create("true", name=f"before{i}")
            d.good("POST", f"/containers/{cid}/start")
            d.good("POST", f"/containers/{cid}/rename?name=after{i}")
            d.good("POST", f"/containers/{cid}/wait")
            lost += d.good("GET", f"/containers/{cid}/json")["Name"] != f"/after{i}"
            d.good("DELETE", f"/containers/{cid}?force=1")
        assert not lost, lost


ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
s.settimeout(20)
s.sendto(bytes([8, 0, 0, 0, 0, 0, 0, 1]) + b"hello", (sys.argv[1], 0))
print(s.recv(100)[-5:].decode())
socket.create_server(("", 80)).close()
print("80")
"""


@b.deadline(90)
def test_a_user_pings_and_listens_below_1024_in_a_network_of_its_own():
    with Lab(forwarding=True), Engine():
        try:
            b.berth("network", "create", "app", ok=True)
            door("run", "-d", "--name", "db", "--network", "app", "host", "sleep", "1000", ok=True)
            assert door("run", "--rm", "--network", "app", "--user", "1000:1000", "--cap-drop", "ALL", "host", "python3", "-c", ECHO, "db", ok=True).stdout == "hello\n80\n"
            # without a way out: ports, and the kernel's own range of groups
            r = b.berth("run", "--user", "1000", "host", "python3", "-c", "import socket; socket.create_server(('', 80))\nprint(open('/proc/sys/net/ipv4/ping_group_range').read().split())", ok=True)
            assert r.out.startswith("[") and r.out != "['0', '65535']\n", r.out
        finally:
            b.berth("rm", "--force", "db")
            b.berth("network", "prune", timeout=30)


@b.deadline(90)
def test_stats_tell_the_memory_of_the_kernel_and_an_update_lifts_the_limit_of_processes():
    with Engine() as d:
        d.good("POST", "/containers/create?name=box", {"Image": "host", "Cmd": ["sleep", "1000"], "HostConfig": {
            "NetworkMode": "none", "PidsLimit": 32, "Memory": 64 << 20}})
        d.good("POST", "/containers/box/start")
        b.berth("exec", "box", "sh", "-c", "head -c 8000000 /dev/zero > /root/file", ok=True)
        memory = d.good("GET", "/containers/box/stats?stream=0&one-shot=1")["memory_stats"]
        cache = memory["stats"].get("total_inactive_file", memory["stats"].get("inactive_file"))
        assert len(memory["stats"]) > 10 and cache is not None and memory["limit"] == 64 << 20, memory
        for value in (0, -1, -2):
            d.good("POST", "/containers/box/update", {"PidsLimit": 16})
            assert d.good("GET", "/containers/box/json")["HostConfig"]["PidsLimit"] == 16
            assert d.good("GET", "/containers/box/stats?stream=0&one-shot=1")["pids_stats"]["limit"] == 16
            d.good("POST", "/containers/box/update", {"PidsLimit": value})
            assert d.good("GET", "/containers/box/json")["HostConfig"]["PidsLimit"] == 0, value
            assert d.good("GET", "/containers/box/stats?stream=0&one-shot=1")["pids_stats"]["limit"] == 0, value
        d.good("POST", "/containers/box/update", {"PidsLimit": 32})
        d.good("POST", "/v1.39/containers/box/update", {"PidsLimit": 16})
        assert d.good("GET", "/containers/box/json")["HostConfig"]["PidsLimit"] == 32, "a member that clients of 1.39 do not know"
        quota = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 /sys/fs/cgroup/cpu.max"
        for value, shown in ((20000, ("20000",)), (10000, ("10000",)), (-1, ("-1", "max"))):
            assert not d.good("POST", "/containers/box/update", {"CpuQuota": value})["Warnings"]
            assert b.berth("exec", "box", "sh", "-c", quota, ok=True).out.strip() in shown, value


@b.deadline(150)
def test_links_search_domains_and_options_reach_the_resolver_by_both_doors():
    with Lab(forwarding=True), Engine() as d:
        try:
            b.berth("network", "create", "app", ok=True)
            d.good("POST", "/containers/create?name=db", {"Image": "host", "Cmd": ["sleep", "1000"], "HostConfig": {"NetworkMode": "app"}})
            d.good("POST", "/containers/db/start")
            address = d.good("GET", "/containers/db/json")["NetworkSettings"]["Networks"]["app"]["IPAddress"]

            def check(name):
                lines = b.berth("exec", name, "cat", "/etc/resolv.conf", ok=True).out.splitlines()
                assert "search example.test more.test" in lines and "options timeout:2 use-vc" in lines and "nameserver 127.0.0.11" in lines, lines
                assert b.berth("exec", name, "getent", "ahostsv4", "store", ok=True).out.split()[0] == address
                assert d.good("GET", f"/containers/{name}/json")["HostConfig"]["DnsSearch"] == ["example.test", "more.test"]

            d.good("POST", "/containers/create?name=one", {"Image": "host", "Cmd": ["sleep", "1000"], "HostConfig": {
                "NetworkMode": "app", "DnsSearch": ["example.test", "more.test"], "DnsOptions": ["timeout:2", "use-vc"], "Links": ["/db:/one/store"]}})
            d.good("POST", "/containers/one/start")
            check("one")
            door("run", "-d", "--name", "two", "--network", "app", "--dns-search", "example.test", "--dns-search", "more.test", "--dns-option", "timeout:2",
                 "--dns-option", "use-vc", "--link", "db:store", "host", "sleep", "1000", ok=True)
            check("two")
            assert b.berth("exec", "db", "getent", "ahostsv4", "store").code == 2, "a link is of one container alone"
            # the way stays when the other starts again, with whatever address it has then
            b.berth("restart", "db", ok=True)
            now = d.good("GET", "/containers/db/json")["NetworkSettings"]["Networks"]["app"]["IPAddress"]
            assert b.berth("exec", "one", "getent", "ahostsv4", "store", ok=True).out.split()[0] == now
            # on the bridge without a name: the lines of the resolver, and a word about the link
            said = d.good("POST", "/containers/create?name=alone", {"Image": "host", "Cmd": ["sleep", "1000"], "HostConfig": {
                "Links": ["db:store"], "Dns": ["10.9.9.9"], "DnsSearch": ["."], "DnsOptions": ["ndots:3"]}})
            assert "HostConfig.Links on the default bridge are names and variables only" in said["Warnings"][0] and "docker network create" in said["Warnings"][0], said
            d.good("POST", "/containers/alone/start")
            lines = b.berth("exec", "alone", "cat", "/etc/resolv.conf", ok=True).out.splitlines()
            assert lines == ["nameserver 10.9.9.9", "options ndots:3"], lines
            b.berth("network", "connect", "app", "alone", ok=True)
            lines = b.berth("exec", "alone", "cat", "/etc/resolv.conf", ok=True).out.splitlines()
            assert lines == ["nameserver 127.0.0.11", "options ndots:0", "options ndots:3"], lines
            said = d.good("POST", "/containers/create", {"Image": "host", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none", "DnsSearch": ["a.test"]}})
            assert "DnsSearch" in said["Warnings"][0], said
            for bad in ({"DnsSearch": ["a b"]}, {"DnsOptions": ["x\nnameserver 1.1.1.1"]}, {"Links": ["db:a b"]}):
                assert d.api("POST", "/containers/create", {"Image": "host", "HostConfig": {"NetworkMode": "app", **bad}})[0] == 400, bad
            status, answer, _ = d.api("POST", "/networks/app/connect", {"Container": "alone", "EndpointConfig": {"Links": ["db:x"]}})
            assert status == 501 and "--alias" in answer["message"], (status, answer)
        finally:
            b.berth("rm", "--force", *(b.berth("ps", "-a", "-q").out.split() or ["none"]))
            b.berth("network", "prune", timeout=30)


@b.deadline(120)
def test_a_link_on_the_default_bridge_is_a_name_that_follows_its_containers():
    def names(d):
        return {name for c in d.good("GET", "/containers/json?all=1") for name in c["Names"]}

    with Lab(forwarding=True), Engine() as d:
        try:
            db = d.good("POST", "/containers/create?name=db", {"Image": "host", "Cmd": ["sleep", "1000"], "Env": ["FOO=1"]})["Id"]
            d.good("POST", "/containers/create?name=app", {"Image": "host", "Cmd": ["sleep", "1000"], "HostConfig": {"Links": ["db:my-store"]}})
            d.good("POST", "/containers/app/start")
            env = b.berth("exec", "app", "env", ok=True).out.splitlines()
            assert {"MY_STORE_NAME=/app/my-store", "MY_STORE_ENV_FOO=1"} <= set(env) and not [v for v in env if "STORE_ENV_PATH" in v], env
            assert names(d) == {"/db", "/app", "/app/my-store"}
            assert [c["Names"] for c in d.good("GET", "/containers/json?all=1&filters=" + urllib.parse.quote(json.dumps({"name": ["db"]})))] == [["/db", "/app/my-store"]]
            assert d.good("GET", "/containers/app/my-store/json")["Id"] == db
            d.good("POST", "/containers/app/rename?name=front")
            d.good("POST", "/containers/db/rename?name=base")
            assert names(d) == {"/base", "/front", "/front/my-store"}
            assert d.good("GET", "/containers/front/json")["HostConfig"]["Links"] == ["/base:/front/my-store"]
            # another container with the old name is another one
            d.good("POST", "/containers/create?name=db", {"Image": "host", "Cmd": ["true"]})
            assert d.good("GET", "/containers/front/my-store/json")["Id"] == db
            # its name is not a link, and no container goes with one
            assert d.api("DELETE", "/containers/front?link=1")[0] == 409
            assert d.api("DELETE", "/containers/front/nosuch?link=1")[0] == 404
            assert d.api("DELETE", "/containers/front/my-store?link=1")[0] == 204
            assert names(d) == {"/base", "/front", "/db"} and d.good("GET", "/containers/front/json")["HostConfig"]["Links"] is None
            assert d.api("GET", "/containers/front/my-store/json")[0] == 404
            # a removed container takes its links along
            door("create", "--name", "two", "--link", "base:x", "host", "true", ok=True)
            assert "/two/x" in names(d)
            d.good("DELETE", "/containers/two")
            assert names(d) == {"/base", "/front", "/db"}
        finally:
            b.berth("rm", "--force", *(b.berth("ps", "-a", "-q").out.split() or ["none"]))


@b.deadline(90)
def test_bodies_that_are_no_json_and_paths_that_are_hidden_are_told_as_dockerd_does():
    def said(text, kind="application/json"):
        status, answer, _ = d.api("POST", "/containers/create", text.encode(), {"Content-Type": kind})
        return status, answer["message"]

    with Engine() as d:
        assert said("{}", "text/plain") == (400, "unsupported Content-Type header (text/plain): must be 'application/json'")
        assert said("{invalid json") == (400, "invalid JSON: invalid character 'i' looking for beginning of object key string")
        assert said("{} trailing") == (400, "unexpected content after JSON")
        assert said('{"Image": }')[1].startswith("invalid JSON: "), said('{"Image": }')
        one = d.good("POST", "/containers/create", {"Image": "host", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none", "AutoRemove": True}})["Id"]
        host = d.good("GET", f"/containers/{one}/json")["HostConfig"]
        assert "/proc/kcore" in host["MaskedPaths"] and "/proc/sys" in host["ReadonlyPaths"], host
        status, answer, _ = d.api("POST", f"/containers/{one}/update", {"RestartPolicy": {"Name": "always"}})
        assert (status, answer["message"]) == (409, "Restart policy cannot be updated because AutoRemove is enabled for the container"), answer


@b.deadline(90)
def test_the_domain_of_a_host_is_in_its_kernel_and_its_hosts():
    with Engine() as d:
        d.good("POST", "/containers/create?name=box", {"Image": "host", "Cmd": ["sleep", "1000"], "Hostname": "under_score", "Domainname": "baz.example.com",
                                                       "HostConfig": {"NetworkMode": "none"}})
        d.good("POST", "/containers/box/start")
        out = b.berth("exec", "box", "cat", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/etc/hosts", ok=True).out
        assert out.splitlines()[:2] == ["under_score", "baz.example.com"] and "under_score.baz.example.com under_score" in out, out
        config = d.good("GET", "/containers/box/json")["Config"]
        assert (config["Hostname"], config["Domainname"]) == ("under_score", "baz.example.com"), config
        d.good("POST", "/containers/create?name=bad", {"Image": "host", "Cmd": ["true"], "Domainname": "a b", "HostConfig": {"NetworkMode": "none"}})
        status, said, _ = d.api("POST", "/containers/bad/start")
        assert status >= 400 and "domainname 'a b'" in said["message"], said


@b.deadline(90)
def test_a_free_port_of_a_range_is_taken_by_both_doors():
    with Lab(forwarding=True), Engine() as d:
        made = d.good("POST", "/containers/create", {"Image": "host", "Cmd": ["true"], "HostConfig": {"PortBindings": {
            "80/tcp": [{"HostPort": "18120-18122"}], "81/tcp": [{"HostPort": "18120-18122"}], "82/tcp": [{"HostPort": "0"}]}}})["Id"]
        ports = d.good("GET", f"/containers/{made}/json")["HostConfig"]["PortBindings"]
        assert {ports["80/tcp"][0]["HostPort"], ports["81/tcp"][0]["HostPort"]} <= {"18120", "18121", "18122", "18120-18122"}, ports
        door("run", "-d", "--name", "web", "-p", "18130-18132:80", "-p", "18130-18132:81", "-p", "0:82", "host", "sleep", "1000", ok=True)
        shown = dict(line.split(" -> ") for line in door("port", "web", ok=True).stdout.splitlines())
        assert {shown["80/tcp"], shown["81/tcp"]} == {"127.0.0.1:18130", "127.0.0.1:18131"} and not shown["82/tcp"].endswith(":0"), shown
        for bad in ("9-8", "a-9", "1-70000"):
            assert d.api("POST", "/containers/create", {"Image": "host", "HostConfig": {"PortBindings": {"80/tcp": [{"HostPort": bad}]}}})[0] == 400, bad


@b.deadline(120)
def test_containers_of_one_range_share_it_whenever_they_start():
    """As compose makes the replicas of a service: all first, then all are started at once."""
    with Lab(forwarding=True), Engine() as d:
        body = {"Image": "host", "Cmd": ["sleep", "1000"], "HostConfig": {"PortBindings": {"80/tcp": [{"HostPort": "18140-18143"}]}}}
        made = [d.good("POST", "/containers/create", body)["Id"] for _ in range(5)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for status, said, _ in pool.map(lambda c: d.api("POST", f"/containers/{c}/start"), made[:4]):
                assert status == 204, said
        seen = [d.good("GET", f"/containers/{c}/json")["NetworkSettings"]["Ports"]["80/tcp"][0]["HostPort"] for c in made[:4]]
        assert sorted(seen) == ["18140", "18141", "18142", "18143"], seen
        listed = {c["Id"]: c["Ports"][0]["PublicPort"] for c in d.good("GET", "/containers/json")}
        assert [listed[c] for c in made[:4]] == [int(p) for p in seen], listed
        assert d.good("GET", f"/containers/{made[0]}/json")["HostConfig"]["PortBindings"]["80/tcp"][0]["HostPort"] == "18140-18143"
        status, said, _ = d.api("POST", f"/containers/{made[4]}/start")
        assert status >= 400 and "no port of the host is free" in said["message"], said
        d.good("POST", f"/containers/{made[2]}/stop?t=0")
        d.good("POST", f"/containers/{made[4]}/start")


@b.deadline(120)
def test_networks_and_volumes_are_among_the_events_by_both_doors():
    with Lab(forwarding=True), Engine() as d:
        try:
            net = d.good("POST", "/networks/create", {"Name": "Net One", "Labels": {"k": "v"}})["Id"]
            door("volume", "create", "--label", "k=v", "Data", ok=True)
            box = d.good("POST", "/containers/create?name=box", {"Image": "host", "Cmd": ["sleep", "1000"]})["Id"]
            d.good("POST", f"/networks/{net}/connect", {"Container": box})
            d.good("POST", "/containers/box/start")
            d.good("POST", f"/networks/{net}/disconnect", {"Container": box})
            with d.hijack("/containers/box/attach?logs=1&stream=0")[0] as s:
                read_all(s)
            d.good("GET", "/containers/box/top")
            d.good("GET", "/containers/box/archive?path=/etc/hostname")
            d.good("POST", "/containers/box/kill?signal=WINCH")
            d.good("POST", "/containers/box/rename?name=Box2")
            d.good("POST", "/containers/Box2/stop?t=0")
            d.good("DELETE", "/containers/Box2")
            d.good("DELETE", f"/networks/{net}")
            door("volume", "rm", "Data", ok=True)
            until = d.good("GET", "/info")["SystemTime"]

            def told(**filters):
                with d.stream("/events?since=0&until=" + until + "&filters=" + urllib.parse.quote(json.dumps(filters))) as stream:
                    return [json.loads(line) for line in stream.read().splitlines() if line]

            nets, volumes = told(network=[net]), told(type=["volume"])
            assert [e["Action"] for e in told(network=["bridge"])] == ["connect", "disconnect"], told(network=["bridge"])
            assert [e["Action"] for e in nets] == ["create", "connect", "disconnect", "destroy"], nets
            assert {e["Actor"]["ID"] for e in nets} == {net} and {e["Actor"]["Attributes"]["name"] for e in nets} == {"Net One"}, nets
            assert nets[1]["Actor"]["Attributes"]["container"] == box, nets[1]
            assert [(e["Action"], e["Actor"]["ID"], e["Actor"]["Attributes"]) for e in volumes] == [
                ("create", "Data", {"driver": "local"}), ("destroy", "Data", {"driver": "local"})], volumes
            assert [e["Action"] for e in told(volume=["Data"], event=["destroy"])] == ["destroy"]
            assert [e["Type"] for e in told(label=["k=v"], event=["create"])] == ["network", "volume"]
            said = told(container=[box[:12]])
            assert [e["Action"] for e in said] == ["create", "start", "attach", "top", "archive-path", "kill", "rename", "die", "stop", "destroy"], said
            assert said[5]["Actor"]["Attributes"]["signal"] == "28" and said[6]["Actor"]["Attributes"]["oldName"] == "/box", said
            assert {e["Actor"]["Attributes"]["name"] for e in said[6:]} == {"Box2"}, said
            assert told(volume=["other"]) == [], told(volume=["other"])
            lines = door("events", "--since", "1h", "--until", until, "--filter", "type=volume", "--format", "{{.Action}} {{.Actor.ID}}", ok=True).stdout
            assert lines == "create Data\ndestroy Data\n", lines
        finally:
            b.berth("network", "prune", timeout=30)


@b.deadline(120)
def test_an_image_that_loses_its_name_stays_and_an_id_of_many_names_needs_force():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
    with Engine() as d:
        def names(image):
            return sorted(next((i["RepoTags"] or [] for i in d.good("GET", "/images/json") if i["Id"] == image), ["gone"]))
        d.create("true", image="box:1", name="box")
        one = d.good("POST", "/commit?container=box&repo=app&tag=1&comment=one", {})["Id"]
        two = door("commit", "-m", "two", "box", "app:1", ok=True).stdout.strip()
        assert names(one) in ([], ["<none>:<none>"]) and names(two) == ["app:1"], (names(one), names(two))
        three = d.good("POST", "/commit?container=box&repo=app&tag=1&comment=three", {})["Id"]
        assert names(two) == names(one) and names(three) == ["app:1"], d.good("GET", "/images/json")
        d.good("POST", "/images/box:1/tag?repo=app&tag=1")
        assert names(three) == names(one) and d.good("GET", f"/images/{three}/json")["RepoTags"] == []
        # the same image again loses nothing
        door("tag", "box:1", "app:1", ok=True)
        assert len(d.good("GET", "/images/json")) == 4, d.good("GET", "/images/json")
        base = d.good("GET", "/images/box:1/json")["Id"]
        assert names(base) == ["app:1", "box:1"]
        short = base.split(":")[1][:12]
        text = f"conflict: unable to delete {short} (must be forced) - image is referenced in multiple repositories"
        assert d.api("DELETE", f"/images/{short}")[:2] == (409, {"message": text})
        assert text in door("rmi", short, ok=1).stderr and names(base) == ["app:1", "box:1"]
        d.good("DELETE", f"/images/{one}")
        door("rmi", two, three, ok=True)
        d.good("DELETE", "/images/app:1")
        assert names(base) == ["box:1"] and len(d.good("GET", "/images/json")) == 1
