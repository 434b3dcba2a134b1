# SPDX-License-Identifier: Apache-2.0
"""Filters of lists and prunes, and disk use, by the Engine API and by berth-docker, which say the same."""
import json
import re
import urllib.parse

import berthtest as b
from dockerdoor import Doors, box, door, run
from dockerlab import Engine
from ocilayout import T_MANIFEST, Layout, tar_bytes
from zygotebox import Zygote

COST = 30
# a list, a filter with a value that it does not take, what dockerd says
REFUSED = [
    ("containers/json", "status=foo", "invalid filter 'status=foo'"),
    ("containers/json", "health=foo", "Unrecognised filter value for health: foo"),
    ("containers/json", "is-task=foo", "invalid filter 'is-task=[foo]'"),
    ("containers/json", "exited=foo", 'strconv.Atoi: parsing "foo": invalid syntax'),
    ("containers/json", "type=container", "invalid filter 'type'"),
    ("images/json", "dangling=foo", "invalid filter 'dangling=[foo]'"),
    ("images/json", "nosuch=1", "invalid filter 'nosuch'"),
    ("networks", "dangling=foo", "invalid value for filter 'dangling', must be \"true\" (or \"1\"), or \"false\" (or \"0\")"),
    ("networks", "type=foo", "invalid filter: 'type'='foo'"),
    ("networks", "until=1h", "invalid filter 'until'"),
    ("volumes", "dangling=foo", "invalid filter 'dangling=[foo]'"),
    ("volumes", "id=1", "invalid filter 'id'"),
]
LISTS = {"containers/json": ("ps", "-a"), "images/json": ("images",), "networks": ("network", "ls"), "volumes": ("volume", "ls")}


def where(*filters):
    """As docker's client sends --filter K=V."""
    all = {}
    for one in filters:
        key, value = one.split("=", 1)
        all.setdefault(key, {})[value] = True
    return "filters=" + urllib.parse.quote(json.dumps(all))


def flags(*filters):
    return [x for one in filters for x in ("--filter", one)]


@b.deadline(60)
def test_a_value_that_no_object_can_have_is_refused_in_dockerds_words():
    with Engine() as d:
        for path, text, words in REFUSED:
            status, said, _ = d.api("GET", f"/{path}?" + where(text))
            assert (status, said.get("message")) == (400, words), (path, text, status, said)
            assert words in door(*LISTS[path], *flags(text), ok=1).stderr, (path, text)


@b.deadline(90)
def test_networks_and_volumes_are_found_by_patterns_and_by_being_dangling():
    with Engine() as d:
        try:
            for name in ("red", "redder"):
                d.good("POST", "/networks/create", {"Name": name})
            for noun in ("red", "redder", "used"):
                d.good("POST", "/volumes/create", {"Name": noun})
            d.create("true", name="box", HostConfig={"Binds": ["used:/d"]})

            def listed(path, *filters):
                got = d.good("GET", f"/{path}?" + where(*filters))
                names = sorted(x["Name"] for x in (got["Volumes"] if path == "volumes" else got))
                words = door(*LISTS[path], "--format", "{{.Name}}", *flags(*filters), ok=True).stdout.split()
                assert sorted(words) == names, (path, filters, words, names)
                return names
            assert listed("networks", "name=^red$") == ["red"]
            assert listed("networks", "name=red") == ["red", "redder"] == listed("networks", "type=custom")
            assert listed("networks", "type=builtin") == ["bridge", "host", "none"] == listed("networks", "dangling=false")
            assert listed("networks", "dangling=1") == ["red", "redder"]
            assert listed("networks", "driver=null") == ["none"] and listed("networks", "driver=nosuch") == []
            assert listed("networks", "scope=swarm") == []
            assert listed("volumes", "name=^red$") == ["red"] and listed("volumes", "driver=nosuch") == []
            assert listed("volumes", "dangling=true") == ["red", "redder"] and listed("volumes", "dangling=0") == ["used"]
        finally:
            b.berth("network", "prune", timeout=30)
            b.berth("rm", "-f", "box", ok=True)
            b.berth("volume", "rm", "red", "redder", "used", ok=True)


def import_image(name, day, label):
    """An image that was made on that day of 2020 and has that label."""
    top = b.tmpdir("layout-" + name.replace(":", "-"))
    made = Layout(top + "/oci")
    layer, diff = made.layer(tar_bytes([("name", {}, name.encode())]))
    config = dict(made.config([diff], Labels={label: "1"}), created=f"2020-01-{day:02}T00:00:00Z")
    made.index(made.desc(json.dumps(made.manifest(config, [layer])).encode(), T_MANIFEST, annotations={"org.opencontainers.image.ref.name": "t"}))
    b.berth("image", "import", top + "/oci", name, ok=True)


@b.deadline(120)
def test_images_are_chosen_by_age_label_and_by_what_they_were_made_before():
    with Engine() as d:
        for day, label in ((1, "a"), (5, "b"), (9, "a")):
            import_image(f"day:{day}", day, label)

        def listed(*filters):
            names = sorted(n for i in d.good("GET", "/images/json?" + where(*filters)) for n in i["RepoTags"])
            words = door("images", "--format", "{{.Repository}}:{{.Tag}}", *flags(*filters), ok=True).stdout.split()
            assert sorted(words) == names, (filters, words, names)
            return [n[4:] for n in names]
        assert listed() == ["1", "5", "9"] and listed("dangling=true") == []
        assert listed("before=day:5") == ["1"] and listed("since=day:5") == ["9"]
        assert listed("since=day:1", "before=day:9") == ["5"]
        assert listed("until=2020-01-06T00:00:00Z") == ["1", "5"] and listed("label=a") == ["1", "9"]
        status, said, _ = d.api("GET", "/images/json?" + where("since=nosuch"))
        assert (status, said["message"]) == (404, "No such image: nosuch:latest"), said

        def pruned(*filters):
            return [x["Untagged"][4:] for x in d.good("POST", "/images/prune?" + where(*filters))["ImagesDeleted"] if "Untagged" in x]
        # without dangling=false no image with a name goes
        assert pruned() == [] == pruned("until=2100-01-01T00:00:00Z")
        assert pruned("dangling=false", "until=2000-01-01T00:00:00Z") == [] == pruned("dangling=false", "label=nosuch")
        assert pruned("dangling=false", "label=a", "until=2020-01-02T00:00:00Z") == ["1"]
        out = door("image", "prune", "-a", "-f", *flags("label!=a"), ok=True).stdout
        assert re.fullmatch(r"Deleted Images:\nuntagged: day:5\n\nTotal reclaimed space: [\d.]+k?B\n", out), out
        assert "invalid filter 'name'" in door("image", "prune", "-a", "-f", *flags("name=x"), ok=1).stderr
        # one in use stays
        b.berth("create", "--name", "user", "day:9", ok=True)
        assert pruned("dangling=false") == []
        b.berth("rm", "-f", "user", ok=True)
        assert door("image", "prune", "-a", "-f", *flags("until=24h", "label=a"), ok=True).stdout.startswith("Deleted Images:\nuntagged: day:9\n")
        assert listed() == []


@b.deadline(90)
def test_a_prune_of_the_system_spares_what_its_filters_do_not_name_and_asks_first():
    with Doors():
        for job in "12":
            run("--name", "box" + job, "--label", "job=" + job, "host", "sh", "-c", "head -c 300000 /dev/zero > /root/f", ok=True)
            import_image("img:" + job, 1, "job" + job)
        door("volume", "create", "--label", "job=1", "kept", ok=True)
        ask = door("system", "prune", "--volumes", "--filter", "label=job=1", input="n\n", ok=True).stdout
        assert "- all stopped containers" in ask and "will be filtered with:\n  - label=job=1" in ask and ask.endswith("[y/N] "), ask
        assert door("ps", "-a", "-q", ok=True).stdout.count("\n") == 2
        r = door("system", "prune", "-f", "--volumes", "--filter", "until=24h", ok=1)
        assert 'The "until" filter is not supported with "--volumes"' in r.stderr, r
        assert "invalid filter 'until'" in door("volume", "prune", "-f", "--filter", "until=24h", ok=1).stderr
        # a filter that one of them does not take removes nothing of the others
        assert "invalid filter 'dangling'" in door("system", "prune", "-f", "--filter", "dangling=true", ok=1).stderr
        assert door("system", "prune", "-f", "--filter", "until=24h", ok=True).stdout == "Total reclaimed space: 0B\n"
        assert door("ps", "-a", "-q", ok=True).stdout.count("\n") == 2
        out = door("system", "prune", "-f", "-a", "--filter", "label=job=1", ok=True).stdout
        assert re.fullmatch(r"Deleted Containers:\n[0-9a-f]{64}\n\nTotal reclaimed space: [3-9]\d\d(\.\d)?kB\n", out), out
        assert door("ps", "-a", "--format", "{{.Names}}", ok=True).stdout == "box2\n"
        out = door("system", "prune", "-a", "--filter", "label!=job=1", "--filter", "until=2100-01-01T00:00:00Z", input="y\n", ok=True).stdout
        assert "Deleted Containers:" in out and "untagged: img:2\n" in out, out
        assert door("images", "-q", ok=True).stdout == "" == door("ps", "-a", "-q", ok=True).stdout
        assert door("volume", "ls", "-q", ok=True).stdout == "kept\n"
        door("volume", "rm", "kept", ok=True)


@b.deadline(120)
def test_the_use_of_the_disk_is_that_of_layers_containers_and_volumes():
    with Engine() as d:
        b.berth("image", "import", b.busybox_rootfs(), "app:1", ok=True)
        b.berth("image", "tag", "app:1", "app:2", ok=True)
        import_image("other:1", 1, "x")
        d.good("POST", "/volumes/create", {"Name": "data"})
        fill = "head -c 400000 /dev/zero > /root/f; head -c 700000 /dev/zero > /d/f; sync; "
        for name, end in (("runs", "sleep 1000"), ("ended", "true")):
            d.create("sh", "-c", fill + "echo done; " + end, name=name, image="app:1", HostConfig={"Binds": ["data:/d"] if name == "runs" else ["/d"]})
            d.good("POST", f"/containers/{name}/start")
        assert d.good("POST", "/containers/ended/wait")["StatusCode"] == 0
        b.wait_for(lambda: "done" in door("logs", "runs", ok=True).stdout, 30, "its files")
        doc = d.good("GET", "/system/df")
        sizes = {c["Names"][0]: c["SizeRw"] for c in doc["Containers"]}
        assert set(sizes) == {"/runs", "/ended"} and all(400000 <= n < 4000000 for n in sizes.values()), sizes
        images = {i["RepoTags"][0]: i for i in doc["Images"]}
        assert {n: i["Containers"] for n, i in images.items()} == {"app:1": 2, "other:1": 0}, images
        assert images["app:1"]["Size"] > 500000 and images["app:1"]["SharedSize"] == 0, images
        assert doc["LayersSize"] == sum(i["Size"] for i in doc["Images"]), doc
        data = next(v for v in doc["Volumes"] if v["Name"] == "data")
        assert data["UsageData"]["Size"] >= 700000 and data["UsageData"]["RefCount"] == 1, data
        # the other door sums them up, and what does not run may go
        rows = {r["Type"]: r for r in map(json.loads, door("system", "df", "--format", "json", ok=True).stdout.splitlines())}
        assert [(t, rows[t]["TotalCount"], rows[t]["Active"]) for t in rows] == [
            ("Images", "2", "1"), ("Containers", "2", "1"), ("Local Volumes", "2", "2"), ("Build Cache", "0", "0")], rows
        assert re.fullmatch(r"[\d.]+[kM]B", rows["Containers"]["Size"]) and re.fullmatch(r"[\d.]+kB \(\d+%\)", rows["Containers"]["Reclaimable"]), rows
        out = door("system", "df", "-v", ok=True).stdout
        for head in ("Images space usage:", "Containers space usage:", "Local Volumes space usage:", "Build cache usage: 0B"):
            assert head in out, out
        assert re.search(r"^app +1 .* 2$", out, re.M) and re.search(r"^data +1 +[\d.]+kB$", out, re.M), out
        assert json.loads(door("system", "df", "-v", "--format", "json", ok=True).stdout)["Containers"][0]["Size"] != "0B"
        only = d.good("GET", "/system/df?type=container")
        assert len(only["Containers"]) == 2 and only["Images"] is None and only["LayersSize"] == 0, only
        assert d.api("GET", "/system/df?type=nosuch")[0] == 400
        door("rm", "-f", "-v", "runs", "ended", ok=True)
        # a prune of volumes reports the bytes that it frees
        assert d.good("POST", "/volumes/prune?" + where("all=true"))["SpaceReclaimed"] >= 700000


@b.deadline(120)
def test_zygotes_and_their_forks_are_no_containers_unless_a_label_asks_for_them():
    with Engine() as d, Zygote() as z:
        p = b.start("run", "--zygote", z.name, "import time; time.sleep(1000)")
        try:
            b.wait_for(lambda: len(z.alive()) == 1, 30, "the fork")
            fork = z.alive()[0]
            box("plain")
            b.berth("create", "--name", "placed", "--zygote", z.name, ok=True)
            plain = {"plain", "placed"}

            def named(*filters):
                got = {c["Names"][0][1:] for c in d.good("GET", "/containers/json?all=1&" + where(*filters))}
                words = set(door("ps", "-a", "--format", "{{.Names}}", *flags(*filters), ok=True).stdout.split())
                assert words == got, (filters, words, got)
                return got
            assert named() == plain == named("status=running"), named()
            # and forks that wait for their code
            assert named("label=berth.zygote") >= {"placed", z.name, fork}, named("label=berth.zygote")
            assert named("label=berth.zygote=" + z.id) >= {"placed", z.name, fork}
            assert named("label=berth.zygote=nosuch") == set()
            info = d.good("GET", "/info")
            assert (info["Containers"], info["ContainersRunning"]) == (2, 2), info
            assert door("info", "--format", "{{.Containers}}", ok=True).stdout == "2\n"
            assert len(d.good("GET", "/system/df")["Containers"]) == 2
            # inspect of the zygote shows when it was started
            started = d.good("GET", f"/containers/{z.name}/json")["State"]["StartedAt"]
            assert started.startswith("20"), started
            door("rm", "-f", *door("ps", "-a", "-q", ok=True).stdout.split(), ok=True)
            assert fork in z.alive()
        finally:
            p.kill()
            p.communicate()
