# SPDX-License-Identifier: Apache-2.0
"""Volumes, networks, events, stats and limits by the Engine API."""
import json
import urllib.parse

import berthtest as b
import netlab
from dockerdoor import door
from dockerlab import Cli, Engine, python_docker, read_all
from netlab import Lab, need_bridge

COST = 20


def start(d, *command, name="box", **more):
    cid = d.create(*command, name=name, **more)
    assert d.api("POST", f"/containers/{name}/start")[0] == 204
    return cid


def where(**filters):
    return "filters=" + urllib.parse.quote(json.dumps(filters))


@b.deadline(90)
def test_volumes_outlive_their_containers():
    with Engine() as d:
        j = d.good("POST", "/volumes/create", {"Name": "data", "Labels": {"k": "v"}})
        assert (j["Name"], j["Driver"], j["Labels"]) == ("data", "local", {"k": "v"}), j
        assert d.good("POST", "/volumes/create", {"Name": "data"})["Name"] == "data"
        unnamed = d.good("POST", "/volumes/create", {})["Name"]
        assert len(unnamed) == 64
        assert [v["Name"] for v in d.good("GET", "/volumes?" + where(label=["k=v"]))["Volumes"]] == ["data"]
        start(d, "sh", "-c", "echo kept > /d/f; sleep 1000", HostConfig={"Binds": ["data:/d"]})
        mount = d.good("GET", "/containers/box/json")["Mounts"][0]
        assert (mount["Type"], mount["Name"], mount["Destination"], mount["RW"]) == ("volume", "data", "/d", True), mount
        assert d.api("DELETE", "/volumes/data")[0] == 409
        assert [v["Name"] for v in d.good("GET", "/volumes?" + where(dangling=["true"]))["Volumes"]] == [unnamed]
        assert d.api("DELETE", "/containers/box?force=1")[0] == 204
        cid = d.create("cat", "/d/f", HostConfig={"Mounts": [{"Type": "volume", "Source": "data", "Target": "/d"}]})
        d.api("POST", f"/containers/{cid}/start")
        assert d.good("POST", f"/containers/{cid}/wait") == {"StatusCode": 0}
        assert d.good("POST", "/containers/prune")["ContainersDeleted"] == [cid]
        # one with a name stays unless the client says all
        assert d.good("POST", "/volumes/prune")["VolumesDeleted"] == [unnamed]
        assert d.good("POST", "/volumes/prune?" + where(**{"all": ["true"], "label!": ["k"]}))["VolumesDeleted"] == []
        assert d.good("POST", "/volumes/prune?" + where(all=["true"]))["VolumesDeleted"] == ["data"]
        for method in ("GET", "DELETE"):
            status, said, _ = d.api(method, "/volumes/data")
            assert status == 404 and said["message"] == "get data: no such volume", said
        assert d.api("POST", "/volumes/create", {"Name": "x", "Driver": "nfs"})[0] == 404


@b.deadline(90)
def test_a_network_keeps_the_addresses_that_a_client_chose():
    with Engine() as d:
        pool = {"Subnet": "10.77.0.0/24", "Gateway": "10.77.0.254", "IPRange": "10.77.0.128/25", "AuxiliaryAddresses": {"a": "10.77.0.129"}}
        try:
            d.good("POST", "/networks/create", {"Name": "net1", "IPAM": {"Config": [pool]}})
            doc = d.good("GET", "/networks/net1")
            assert doc["IPAM"]["Config"] == [pool] and doc["EnableIPv6"] is False, doc
            d.good("POST", "/networks/create", {"Name": "six", "EnableIPv6": True})
            doc = d.good("GET", "/networks/six")
            assert doc["EnableIPv6"] is True and len(doc["IPAM"]["Config"]) == 2, doc
            d.good("POST", "/networks/create", {"Name": "two words"})
            assert d.good("GET", "/networks/two%20words")["Name"] == "two words"
            assert d.api("DELETE", "/networks/two%20words")[0] == 204 and d.api("GET", "/networks/two%20words")[0] == 404
            for bad, word in (({"Gateway": "10.78.0.1"}, "gateway"), ({"IPRange": "10.78.0.0/25"}, "range"), ({"AuxiliaryAddresses": {"a": "10.78.0.1"}}, "10.78.0.1")):
                status, said, _ = d.api("POST", "/networks/create", {"Name": "bad", "IPAM": {"Config": [{"Subnet": "10.79.0.0/24", **bad}]}})
                assert status == 400 and "no matching subnet" in said["message"] and word in said["message"], (bad, said)
            for name, at, code in (("net1", "10.9.8.7", 400), ("bridge", "10.77.0.7", 400)):
                body = {"Image": "host", "HostConfig": {"NetworkMode": name}, "NetworkingConfig": {"EndpointsConfig": {name: {"IPAMConfig": {"IPv4Address": at}}}}}
                status, said, _ = d.api("POST", "/containers/create", body)
                assert status == code and "address" in said["message"], said
            r = door("network", "create", "--subnet", "10.80.0.0/24", "--gateway", "10.81.0.1", "bad", ok=1)
            assert "no matching subnet for gateway 10.81.0.1" in r.stderr, r
            door("network", "create", "--subnet", "10.80.0.0/24", "--gateway", "10.80.0.9", "--aux-address", "x=10.80.0.3", "net2", ok=True)
            assert d.good("GET", "/networks/net2")["IPAM"]["Config"] == [{"Subnet": "10.80.0.0/24", "Gateway": "10.80.0.9", "AuxiliaryAddresses": {"x": "10.80.0.3"}}]
        finally:
            b.berth("network", "prune", timeout=30)


@b.deadline(60)
def test_a_network_is_found_by_its_id_first_and_then_by_its_name():
    with Engine() as d:
        nid = d.good("POST", "/networks/create", {"Name": "orig"})["Id"]
        for name in (nid, nid[:12]):
            d.good("POST", "/networks/create", {"Name": name})
        try:
            assert [d.good("GET", f"/networks/{ref}")["Name"] for ref in (nid, nid[:12], nid[:20])] == ["orig", nid[:12], "orig"]
            assert d.api("DELETE", f"/networks/{nid[:12]}")[0] == 204 and d.api("DELETE", f"/networks/{nid}")[0] == 204
            assert [n["Name"] for n in d.good("GET", "/networks") if n["Name"] not in ("bridge", "host", "none")] == [nid]
        finally:
            b.berth("network", "prune", timeout=30)


@b.deadline(60)
def test_mounts_and_the_environment_of_a_container_are_docker_s():
    with Engine() as d:
        status, said, _ = d.api("POST", "/containers/create", {"Image": "host", "HostConfig": {"NetworkMode": "none", "Tmpfs": {"//": ""}}})
        assert status == 400 and "destination can't be '/'" in said["message"], said
        start(d, "sh", "-c", "env; mount | grep ' /bar '", HostConfig={"NetworkMode": "none", "Tmpfs": {"/bar": "size=999"}})
        assert d.good("POST", "/containers/box/wait")["StatusCode"] == 0
        out = door("logs", "box", ok=True).stdout
        assert "PATH=" in out and "PYTHON" not in out and "size=4k" in out, out
        assert d.api("DELETE", "/containers/box")[0] == 204


@b.deadline(120)
def test_a_container_has_the_address_that_it_asked_for():
    need_bridge()
    with Lab(forwarding=True), Engine() as d:
        pool = {"Subnet": "10.77.0.0/24", "Gateway": "10.77.0.254", "IPRange": "10.77.0.128/25", "AuxiliaryAddresses": {"a": "10.77.0.128"}}
        d.good("POST", "/networks/create", {"Name": "net1", "IPAM": {"Config": [pool]}})
        d.good("POST", "/networks/create", {"Name": "net2", "IPAM": {"Config": [{"Subnet": "10.78.0.0/24"}]}})

        def ends(name, at):
            return {"EndpointsConfig": {name: {"IPAMConfig": {"IPv4Address": at}}}}
        start(d, "sleep", "1000", name="any", HostConfig={"NetworkMode": "net1"})
        start(d, "sleep", "1000", name="own", HostConfig={"NetworkMode": "net1"}, NetworkingConfig=ends("net1", "10.77.0.7"))
        seen = d.good("GET", "/containers/any/json")["NetworkSettings"]["Networks"]["net1"]
        assert (seen["IPAddress"], seen["Gateway"], seen["IPPrefixLen"]) == ("10.77.0.129", "10.77.0.254", 24), seen
        seen = d.good("GET", "/containers/own/json")["NetworkSettings"]["Networks"]["net1"]
        assert (seen["IPAddress"], seen["IPAMConfig"]) == ("10.77.0.7", {"IPv4Address": "10.77.0.7"}), seen
        out = door("exec", "own", "sh", "-c", "ip addr; ip route", ok=True).stdout
        assert "10.77.0.7/" in out and "default via 10.77.0.254" in out and "scope global" in out, out
        d.create("true", name="same", HostConfig={"NetworkMode": "net1"}, NetworkingConfig=ends("net1", "10.77.0.7"))
        status, said, _ = d.api("POST", "/containers/same/start")
        assert status >= 400 and "in use" in said["message"], (status, said)
        assert d.api("POST", "/networks/net2/connect", {"Container": "own", "EndpointConfig": {"IPAMConfig": {"IPv4Address": "10.78.0.50"}}})[0] == 200
        seen = d.good("GET", "/containers/own/json")["NetworkSettings"]["Networks"]["net2"]
        assert (seen["IPAddress"], seen["IPAMConfig"], seen["Gateway"]) == ("10.78.0.50", {"IPv4Address": "10.78.0.50"}, "10.78.0.1"), seen
        status, said, _ = d.api("POST", "/networks/net1/disconnect", {"Container": "own"})
        assert status == 501 and "was made on network net1" in said["message"], (status, said)
        for name in ("any", "own", "same"):
            assert d.api("DELETE", f"/containers/{name}?force=1")[0] == 204
        for name in ("net1", "net2"):
            assert d.api("DELETE", f"/networks/{name}")[0] == 204


@b.deadline(90)
def test_networks_are_made_listed_and_removed():
    with Engine() as d:
        names = {n["Name"] for n in d.good("GET", "/networks")}
        assert names == {"bridge", "host", "none"}, names
        nid = d.good("POST", "/networks/create", {"Name": "inner", "Internal": True, "Labels": {"k": "v"}})["Id"]
        for ref in (nid, nid[:12], "inner"):
            j = d.good("GET", f"/networks/{ref}")
            assert (j["Name"], j["Id"], j["Internal"], j["Labels"]) == ("inner", nid, True, {"k": "v"}), j
            assert j["IPAM"]["Config"][0]["Subnet"], j
        assert [n["Name"] for n in d.good("GET", "/networks?" + where(label=["k=v"]))] == ["inner"]
        assert d.api("POST", "/networks/create", {"Name": "inner"})[0] == 409
        # a driver's options are kept and shown; of those that are not berth's own, each is told or refused
        driver = "com.docker.network."
        options = {"foo": "bar", driver + "bridge.enable_icc": "true", driver + "bridge.name": "br9"}
        said = d.good("POST", "/networks/create", {"Name": "opts", "Options": options})
        assert "bridge.name was ignored" in said["Warning"] and "icc" not in said["Warning"], said
        shown = d.good("GET", "/networks/opts")
        assert (shown["Options"], shown["Labels"]) == (options, {}), shown
        assert d.api("DELETE", "/networks/opts")[0] == 204
        status, said, _ = d.api("POST", "/networks/create", {"Name": "opts", "Options": {driver + "bridge.enable_icc": "false"}})
        assert status >= 400 and "enable_icc=false cannot be had" in said["message"], said
        assert d.api("POST", "/networks/create", {"Name": "x", "Driver": "overlay"})[0] == 404
        assert d.api("DELETE", "/networks/bridge")[0] == 403
        assert d.api("DELETE", "/networks/inner")[0] == 204
        status, said, _ = d.api("GET", "/networks/inner")
        assert status == 404 and said["message"] == "network inner not found", said


@b.deadline(90)
def test_events_tell_the_life_of_a_container():
    with Engine() as d:
        cid = start(d, "sh", "-c", "exit 3", Labels={"k": "v"})
        assert d.good("POST", f"/containers/{cid}/wait") == {"StatusCode": 3}
        assert d.api("DELETE", "/containers/box")[0] == 204
        events = []
        with d.stream("/events?since=1&" + where(label=["k=v"])) as r:
            while not events or events[-1]["Action"] != "destroy":
                events.append(json.loads(r.readline()))
        assert [e["Action"] for e in events] == ["create", "start", "die", "destroy"], events
        die = events[2]
        assert die["Actor"]["ID"] == cid and die["Actor"]["Attributes"] == {"exitCode": "3", "image": "host", "name": "box", "k": "v"}, die
        assert (die["Type"], die["status"], die["id"]) == ("container", "die", cid) and die["timeNano"] // 10**9 == die["time"]


@b.deadline(60)
def test_events_tell_the_end_of_an_exec():
    with Engine() as d:
        cid = start(d, "sleep", "1000", HostConfig={"NetworkMode": "none"})
        eid = d.good("POST", f"/containers/{cid}/exec", {"Cmd": ["sh", "-c", "exit 4"]})["Id"]
        with d.stream("/events?" + where(container=[cid], event=["exec_die"])) as r:
            d.api("POST", f"/exec/{eid}/start", {"Detach": True})
            event = json.loads(r.readline())
        seen = event["Actor"]["Attributes"]
        assert (event["Action"], event["id"], seen["execID"], seen["exitCode"]) == ("exec_die", cid, eid, "4"), event
        # a command longer than an event's text ends in a whole character
        made = [d.good("POST", f"/containers/{cid}/exec", {"Cmd": [pad, "\u00e4" * 300]})["Id"] for pad in ("a", "aa")]
        with d.stream("/events?since=1&" + where(container=[cid], event=["exec_create"])) as r:
            events = [json.loads(r.readline()) for _ in range(3)][1:]
        for pad, eid, event in zip(("a", "aa"), made, events):
            assert event["Actor"]["Attributes"]["execID"] == eid, event
            assert event["Action"] == f"exec_create: {pad} " + "\u00e4" * ((200 - len(pad) - 1) // 2), event
        assert d.api("DELETE", f"/containers/{cid}?force=1")[0] == 204


@b.deadline(90)
def test_what_a_container_uses_and_may_use():
    with Engine() as d:
        start(d, "sh", "-c", "echo x > /var/new; sleep 1000", HostConfig={"Memory": 64 << 20})
        j = d.good("GET", "/containers/box/stats?stream=false")
        assert j["memory_stats"]["limit"] == 64 << 20 and j["memory_stats"]["usage"] > 0, j
        assert j["cpu_stats"]["system_cpu_usage"] > j["precpu_stats"]["system_cpu_usage"] > 0, j
        assert j["pids_stats"]["current"] >= 1 and j["name"] == "/box", j
        j = d.good("GET", "/containers/box/stats?stream=0&one-shot=1")
        assert "system_cpu_usage" not in j["precpu_stats"], j
        top = d.good("GET", "/containers/box/top?ps_args=-ef")
        assert "CMD" in top["Titles"] and any("sleep 1000" in row[-1] for row in top["Processes"]), top
        assert d.good("POST", "/containers/box/update", {"Memory": 96 << 20, "MemorySwap": -1})["Warnings"], "swap stays"
        j = d.good("GET", "/containers/box/json")
        assert j["HostConfig"]["Memory"] == 96 << 20
        assert json.loads(b.berth("inspect", "box", ok=True).out)["limits"]["memory_bytes"] == 96 << 20
        assert d.api("POST", "/containers/box/update", {"Memory": "x"})[0] == 400
        d.api("POST", "/containers/box/stop?t=0")
        assert {"Path": "/var/new", "Kind": 1} in d.good("GET", "/containers/box/changes")
        assert d.api("GET", "/containers/box/top")[0] == 409
        assert d.good("GET", "/containers/box/stats?stream=0")["memory_stats"] == {}
        df = d.good("GET", "/system/df")
        assert df["Images"] == [] and df["Volumes"] == [], df


@b.deadline(120)
def test_clients_manage_volumes_and_look_at_containers():
    python_docker()
    with Engine() as d:
        c = d.client()
        try:
            v = c.volumes.create("vol1", labels={"a": "b"})
            assert c.volumes.get("vol1").attrs["Labels"] == {"a": "b"} and len(c.volumes.list()) == 1
            x = c.containers.run("host", "sleep 1000", detach=True, network_mode="none", volumes={"vol1": {"bind": "/d", "mode": "rw"}})
            assert x.stats(stream=False)["pids_stats"]["current"] >= 1 and x.top()["Processes"]
            x.update(mem_limit="80m")
            x.remove(force=True)
            v.remove()
            n = c.networks.create("net1", internal=True)
            assert [y.name for y in c.networks.list(names=["net1"])] == ["net1"]
            n.remove()
        finally:
            c.close()
        docker = Cli(d)
        docker.run("volume", "create", "vol2", ok=True)
        assert "vol2" in docker.run("volume", "ls", ok=True).stdout
        docker.run("run", "-d", "--name", "cli", "--network", "none", "-v", "vol2:/d", "host", "sleep", "1000", ok=True)
        assert "cli" in docker.run("stats", "--no-stream", ok=True).stdout
        assert "sleep 1000" in docker.run("top", "cli", ok=True).stdout
        assert "start" in docker.run("events", "--since", "1h", "--until", "0s", ok=True).stdout
        docker.run("rm", "-f", "cli", ok=True)
        docker.run("volume", "rm", "vol2", ok=True)
        assert "bridge" in docker.run("network", "ls", ok=True).stdout
        docker.run("system", "df", ok=True)


@b.deadline(120)
def test_a_container_joins_the_network_of_another():
    need_bridge()
    with Lab(forwarding=True), Engine() as d:
        try:
            d.good("POST", "/networks/create", {"Name": "one"})
            web = start(d, "sleep", "1000", name="web", HostConfig={"NetworkMode": "one"})
            for ref in ("web", web):
                side = start(d, "sleep", "1000", name="side", HostConfig={"NetworkMode": "container:" + ref})
                shown = d.good("GET", f"/containers/{side}/json")
                assert shown["HostConfig"]["NetworkMode"] == "container:" + web and shown["NetworkSettings"]["Networks"] == {}, shown
                row = next(r for r in d.good("GET", "/containers/json") if r["Id"] == side)
                assert row["HostConfig"]["NetworkMode"] == "container:" + web and row["NetworkSettings"]["Networks"] == {}, row
                assert d.api("DELETE", f"/containers/{side}?force=1")[0] == 204
            status, said, _ = d.api("POST", "/containers/create", {"Image": "host", "HostConfig": {
                "NetworkMode": "container:web", "PortBindings": {"80/tcp": [{"HostPort": "8080"}]}}})
            assert status == 400 and "conflicting options: port publishing" in said["message"], said
        finally:
            for name in ("side", "web"):
                d.api("DELETE", f"/containers/{name}?force=1")
            b.berth("network", "prune", timeout=30)
            b.wait_for(lambda: not netlab.ruleset(), 10, "the end of what the last member left")


@b.deadline(90)
def test_containers_find_each_other_by_name_on_the_networks_they_join():
    need_bridge()

    def finds(name):
        eid = d.good("POST", "/containers/client/exec", {"Cmd": ["getent", "hosts", name], "AttachStdout": True})["Id"]
        s, _ = d.hijack(f"/exec/{eid}/start", {})
        with s:
            read_all(s)
        return d.good("GET", f"/exec/{eid}/json")["ExitCode"] == 0

    with Lab(forwarding=True), Engine() as d:
        try:
            for n in ("one", "two"):
                d.good("POST", "/networks/create", {"Name": n})
            start(d, "sleep", "1000", name="db", HostConfig={"NetworkMode": "one"},
                  NetworkingConfig={"EndpointsConfig": {"one": {"Aliases": ["store"]}}})
            start(d, "sleep", "1000", name="other", HostConfig={"NetworkMode": "two"})
            start(d, "sleep", "1000", name="client", HostConfig={"NetworkMode": "one", "ExtraHosts": ["fixed:192.0.2.7"]})
            assert finds("db") and finds("store") and finds("fixed") and not finds("other")
            assert len(d.good("GET", "/networks/one")["Containers"]) == 2
            assert d.api("DELETE", "/networks/one")[0] == 403
            assert d.api("POST", "/networks/two/connect", {"Container": "client", "EndpointConfig": {"Aliases": ["me"]}})[0] == 200
            assert finds("other")
            assert d.api("POST", "/networks/two/disconnect", {"Container": "client"})[0] == 200
            assert not finds("other")
            assert d.api("POST", "/networks/two/connect", {"Container": "nosuch"})[0] == 404
            assert d.api("POST", "/networks/bridge/connect", {"Container": "client"})[0] == 403
            # a client of API 1.44 names all networks at once, as docker run does with several --network
            both = {"one": {}, "two": {"Aliases": ["second"]}}
            start(d, "sleep", "1000", name="both", HostConfig={"NetworkMode": "one"}, NetworkingConfig={"EndpointsConfig": both})
            door("run", "-d", "--name", "flags", "--network", "one", "--network", "two", "host", "sleep", "1000", ok=True)
            for name in ("both", "flags"):
                networks = d.good("GET", f"/containers/{name}/json")["NetworkSettings"]["Networks"]
                assert set(networks) == {"one", "two"} and len({n["IPAddress"] for n in networks.values()}) == 2, networks
            assert finds("both") and finds("flags") and not finds("second")
            assert d.api("POST", "/networks/two/connect", {"Container": "client"})[0] == 200
            assert finds("second")
            door("run", "--rm", "--network", "one", "--network", "two", "host", "getent", "hosts", "other", ok=True)
            bad = {"Image": "host", "HostConfig": {"NetworkMode": "one"}, "NetworkingConfig": {"EndpointsConfig": {"one": {}, "no": {}}}}
            assert d.api("POST", "/containers/create?name=bad", bad)[0] == 400 and d.api("GET", "/containers/bad/json")[0] == 404
            for words, said in ((("one", "no"), "no"), (("none", "one"), "none"), (("one", "one"), "multiple")):
                flags = [x for w in words for x in ("--network", w)]
                assert said in door("create", "--name", "bad", *flags, "host", "true", ok=1).stderr
            assert d.api("GET", "/containers/bad/json")[0] == 404
        finally:
            for name in ("both", "flags", "client", "other", "db"):
                d.api("DELETE", f"/containers/{name}?force=1")
            b.berth("network", "prune", timeout=30)
            b.wait_for(lambda: not netlab.ruleset(), 10, "the end of what the last member left")


@b.deadline(90)
def test_a_prune_spares_what_its_filters_do_not_name():
    with Engine() as d:
        for name, labels in (("mine", {"job": "1"}), ("other", {"job": "2"}), ("plain", {})):
            d.good("POST", "/networks/create", {"Name": name, "Internal": True, "Labels": labels})
            d.create("true", name=name, Labels=labels)
        try:
            for what in ("networks", "containers"):
                deleted = what.capitalize() + "Deleted"
                for filters in (where(until=["1h"]), where(label=["job=3"]), where(label=["job=1"], until=["2020-01-01T00:00:00Z"]), where(**{"label!": []}, label=["no"])):
                    assert d.good("POST", f"/{what}/prune?" + filters)[deleted] == [], (what, filters)
                assert len(d.good("POST", f"/{what}/prune?" + where(label=["job=1"]))[deleted]) == 1
                assert len(d.good("POST", f"/{what}/prune?" + where(**{"label!": ["job"]}, until=["2100-01-01T00:00:00Z"]))[deleted]) == 1
            status, said, _ = d.api("POST", "/containers/prune?" + where(nosuch=["1"]))
            assert status == 400 and "invalid filter 'nosuch'" in said["message"], said
            assert d.api("POST", "/containers/prune?" + where(until=["1h", "2h"]))[0] == 400
            assert d.api("POST", "/images/prune?" + where(until=["x"]))[0] == 400
            assert [c["Names"] for c in d.good("GET", "/containers/json?all=1")] == [["/other"]]
            assert {n["Name"] for n in d.good("GET", "/networks")} == {"bridge", "host", "none", "other"}
        finally:
            b.berth("network", "prune", timeout=30)


@b.deadline(90)
def test_a_subnet_of_public_addresses_needs_the_operators_word():
    body = {"Name": "wide", "IPAM": {"Config": [{"Subnet": "132.124.0.0/16"}]}}
    with Lab(forwarding=True), Engine() as d:
        status, said, _ = d.api("POST", "/networks/create", body)
        assert status == 400 and "public addresses" in said["message"], said
    with Lab(forwarding=True), Engine('allow = ["public-subnets"]') as d:
        try:
            d.good("POST", "/networks/create", body)
            ends = {"wide": {"IPAMConfig": {"IPv4Address": "132.124.0.23"}}}
            d.good("POST", "/containers/create?name=box", {"Image": "host", "Cmd": ["sleep", "1000"], "HostConfig": {"NetworkMode": "wide"},
                                                           "NetworkingConfig": {"EndpointsConfig": ends}})
            d.good("POST", "/containers/box/start")
            assert d.good("GET", "/containers/box/json")["NetworkSettings"]["Networks"]["wide"]["IPAddress"] == "132.124.0.23"
            assert "inet 132.124.0.23" in b.berth("exec", "box", "ip", "-4", "addr", ok=True).out
        finally:
            b.berth("rm", "--force", *(b.berth("ps", "-a", "-q").out.split() or ["none"]))
            b.berth("network", "prune", timeout=30)
