# SPDX-License-Identifier: Apache-2.0
"""Docker's names that berth has not: capitals, any length, the look of an id. Runners and compose files use them."""
import json
import urllib.parse

import berthtest as b
from dockerdoor import Doors, door
from dockerlab import Engine
from netlab import Lab

COST = 15
LONG = "GITEA-ACTIONS-TASK-1_WORKFLOW-Test-of-everything_JOB-build-and-run-on-a-runner"     # as its runner says it
NAMES = ("Capital", LONG, "deadbeef", "cafe.", "0123456789ab", "A1", "x" * 255)


def quote(filters):
    return urllib.parse.quote(json.dumps(filters))


@b.deadline(120)
def test_a_container_is_found_by_any_name_that_docker_takes():
    with Engine() as d:
        for name in NAMES:
            made = d.create("sleep", "1000", name=name)
            doc = d.good("GET", f"/containers/{name}/json")
            assert (doc["Id"], doc["Name"]) == (made, "/" + name), doc
            assert "berth.docker.name" not in doc["Config"]["Labels"], doc
            assert d.good("GET", "/containers/json?all=1&filters=" + quote({"name": [f"^/?{name}$"]}))[0]["Names"] == ["/" + name]
            status, said, _ = d.api("POST", f"/containers/create?name={name}", {"Image": "host", "HostConfig": {"NetworkMode": "none"}})
            assert status == 409 and f'name "/{name}" is already in use by container "{made}"' in said["message"], said
            d.good("POST", f"/containers/{name}/start")
            if len(name) != 12:
                assert door("exec", name, "echo", "here", ok=True).stdout == "here\n"
            assert door("inspect", "-f", "{{.Name}}", name, ok=True).stdout == f"/{name}\n"
            d.good("DELETE", f"/containers/{name}?force=1")
            assert d.api("GET", f"/containers/{name}/json")[0] == 404


@b.deadline(60)
def test_names_that_differ_in_a_capital_or_at_their_end_are_two_containers():
    with Doors():
        for name in ("box", "Box", "BOX", LONG, LONG + "2"):
            door("create", "--name", name, "--network", "none", "host", "true", ok=True)
        listed = door("ps", "-a", "--format", "{{.Names}}", ok=True).stdout.split()
        assert sorted(listed) == sorted(["box", "Box", "BOX", LONG, LONG + "2"]), listed
        assert "No such container: bOx" in door("inspect", "--type", "container", "bOx", ok=1).stderr


@b.deadline(60)
def test_a_rename_gives_and_takes_such_names():
    with Engine() as d:
        made = d.create("true", name="plain")
        for name in ("One.Name", "AnotherName", "plain-again", "deadbeef"):
            d.good("POST", f"/containers/{made}/rename?name={name}")
            assert d.good("GET", f"/containers/{name}/json")["Name"] == "/" + name
        assert d.api("GET", "/containers/AnotherName/json")[0] == 404
        d.create("true", name="Taken")
        status, said, _ = d.api("POST", f"/containers/{made}/rename?name=Taken")
        assert status == 409 and '"/Taken" is already in use' in said["message"], said
        door("rename", "deadbeef", "Door.B", ok=True)
        assert d.good("GET", f"/containers/{made}/json")["Name"] == "/Door.B"


@b.deadline(90)
def test_a_network_knows_a_container_by_its_new_name_from_the_next_start():
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)
    with Lab(forwarding=True), Engine() as d:
        try:
            d.good("POST", "/networks/create", {"Name": "renaming"})
            cid = d.create("sleep", "1000", name="First.One", image="box:1", HostConfig={"NetworkMode": "renaming"})
            d.good("POST", f"/containers/{cid}/start")
            for name, known, unknown in (("Second_One", "second_one", "first.one"), ("third", "third", "second_one")):
                d.good("POST", f"/containers/{cid}/rename?name={name}")
                d.good("POST", f"/containers/{cid}/restart?t=0")
                ask = "nslookup {} 2>&1 | grep -c ^Name:"
                for text, lacks in ((known, False), (unknown, True)):
                    look = b.berth("run", "--network", "renaming", "box:1", "sh", "-c", ask.format(text)).out
                    assert (look.strip() == "0") == lacks, (name, text, look)
        finally:
            d.api("DELETE", f"/containers/{cid}?force=1")
            b.berth("network", "prune", timeout=30)


@b.deadline(120)
def test_volumes_and_networks_have_such_names_too():
    volume, network = LONG + "-env", LONG + "-network"
    with Engine() as d:
        try:
            assert d.good("POST", "/volumes/create", {"Name": volume, "Labels": {"a": "b"}})["Name"] == volume
            doc = d.good("GET", "/volumes/" + volume)
            assert (doc["Name"], doc["Labels"]) == (volume, {"a": "b"}), doc
            made = d.good("POST", "/networks/create", {"Name": network, "Internal": True})["Id"]
            other = d.good("POST", "/networks/create", {"Name": network + "2", "Internal": True})["Id"]
            assert made != other
            assert d.api("POST", "/networks/create", {"Name": network})[0] == 409
            for ref in (network, made, made[:12]):
                doc = d.good("GET", "/networks/" + ref)
                assert (doc["Name"], doc["Id"]) == (network, made), doc
            ends = {"EndpointsConfig": {network: {"Aliases": ["Service"]}}}
            box = d.create("sh", "-c", "echo kept > /data/x; echo other > /implied/x; exec sleep 1000", name="Server",
                           HostConfig={"NetworkMode": network, "Binds": [volume + ":/data", "Implied:/implied"]}, NetworkingConfig=ends)
            d.good("POST", f"/containers/{box}/start")
            doc = d.good("GET", f"/containers/{box}/json")
            assert list(doc["NetworkSettings"]["Networks"]) == [doc["HostConfig"]["NetworkMode"]] == [network], doc
            assert doc["NetworkSettings"]["Networks"][network]["NetworkID"] == made, doc
            assert {m["Name"] for m in doc["Mounts"]} == {volume, "Implied"}, doc
            for want in (network, made):
                listed = d.good("GET", "/containers/json?filters=" + quote({"network": [want]}))
                assert [c["Id"] for c in listed] == [box], listed
            # by the id of the network, as testcontainers for Java does; names in any case
            client = door("run", "--rm", "--network", made, "host", "getent", "ahostsv4", "server", ok=True)
            assert client.stdout.split()[0] == doc["NetworkSettings"]["Networks"][network]["IPAddress"], client
            assert door("run", "--rm", "--network", network, "host", "getent", "ahostsv4", "SERVICE", ok=True).stdout
            assert door("run", "--rm", "--network", "none", "-v", volume + ":/v", "host", "cat", "/v/x", ok=True).stdout == "kept\n"
            assert door("volume", "inspect", "-f", "{{.Name}}", "Implied", ok=True).stdout == "Implied\n"
            assert network in door("network", "ls", "--format", "{{.Name}}", ok=True).stdout.split()
            assert volume in d.api("DELETE", "/volumes/" + volume)[1]["message"]
        finally:
            door("rm", "-f", "Server")
            for name in (volume, "Implied"):
                door("volume", "rm", name)
            for name in (network, network + "2"):
                door("network", "rm", name)
        assert json.loads(door("volume", "ls", "--format", "json").stdout or "[]") == []
        assert {n["Name"] for n in d.good("GET", "/networks")} == {"bridge", "host", "none"}


@b.deadline(60)
def test_the_hostname_is_the_short_id_unless_the_client_names_one():
    with Engine() as d:
        made = d.create("sleep", "1000", name="Box")
        d.good("POST", "/containers/Box/start")
        assert d.good("GET", "/containers/Box/json")["Config"]["Hostname"] == made[:12]
        assert door("exec", "Box", "sh", "-c", "hostname; echo $HOSTNAME", ok=True).stdout.split() == [made[:12]] * 2
        assert json.loads(b.berth("inspect", made[:12], ok=True).out)["hostname"] == made[:12]
        joined = door("run", "--rm", "--network", "container:Box", "host", "hostname", ok=True).stdout
        assert joined == made[:12] + "\n", joined
        assert door("run", "--rm", "--network", "none", "-h", "named", "host", "hostname", ok=True).stdout == "named\n"
    b.one_line_error(b.berth("run", "--hostname", "@id", "host", "true"), 2, "may hold only letters")
