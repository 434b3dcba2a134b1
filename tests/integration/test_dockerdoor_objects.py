# SPDX-License-Identifier: Apache-2.0
"""berth-docker: images, files, volumes, networks, what containers use, and the page of its manual."""
import io
import json
import os
import re
import shutil
import subprocess
import tarfile

import berthtest as b
from dockerdoor import PROGRAM, Doors, box, door, environment, run

COST = 25


def image(name="app:1"):
    b.berth("image", "import", b.busybox_rootfs(), name, ok=True)


@b.deadline(120)
def test_images_are_listed_looked_at_named_committed_and_removed():
    with Doors():
        image()
        head, row = door("images", ok=True).stdout.splitlines()
        assert re.split(r"  +", head.strip()) == ["REPOSITORY", "TAG", "IMAGE ID", "CREATED", "SIZE"], head
        assert row.split()[:2] == ["app", "1"], row
        digest = door("inspect", "-f", "{{.Id}}", "app:1", ok=True).stdout.strip()
        assert door("images", "-q", ok=True).stdout.strip() == digest.split(":")[1][:12]
        assert door("images", "-q", "nosuch", ok=True).stdout == ""
        assert json.loads(door("images", "--filter", "reference=app", "--format", "json", ok=True).stdout)["Tag"] == "1"
        assert door("image", "inspect", "--format", "{{json .RepoTags}}", "app:1", ok=True).stdout.strip() == '["app:1"]'
        door("tag", "app:1", "other:2", ok=True)
        assert door("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "other", ok=True).stdout == "other:2\n"
        assert "app:1" in door("history", "app:1", "--format", "{{.ID}}", ok=True).stdout + "app:1"
        run("--name", "made", "app:1", "sh", "-c", "echo kept > /root/note", ok=True)
        made = door("commit", "-m", "a note", "-c", 'CMD ["cat", "/root/note"]', "made", "noted:1", ok=True).stdout.strip()
        assert made.startswith("sha256:") and run("--rm", "noted:1", ok=True).stdout == "kept\n"
        door("rm", "made", ok=True)
        out = door("rmi", "other:2", "noted:1", ok=True).stdout
        assert "Untagged: other:2" in out and f"Deleted: {made}" in out, out
        assert "No such image: noted:1" in door("rmi", "noted:1", ok=1).stderr
        door("rmi", "-f", "noted:1", ok=True)


@b.deadline(120)
def test_an_import_takes_changes_a_message_and_no_name():
    with Doors():
        tree = b.tmp("tree.tar")
        with tarfile.open(tree, "w") as t:
            t.add(str(b.busybox_rootfs()), ".")
        made = door("import", "--change", 'CMD ["echo", "changed"]', "--change", "ENV A=b", "-m", "a message", tree, "changed:1", ok=True).stdout.strip()
        assert made.startswith("sha256:") and run("--rm", "changed:1", ok=True).stdout == "changed\n"
        assert json.loads(door("image", "inspect", "changed:1", "-f", "{{json .Config.Env}}", ok=True).stdout)[-1] == "A=b"
        assert "a message" in door("history", "changed:1", ok=True).stdout
        # as with the socket, an image needs no name
        unnamed = door("import", "--change", "ENV C=d", tree, ok=True).stdout.strip()
        assert unnamed.split(":")[1][:12] in door("images", "-q", "--filter", "dangling=true", ok=True).stdout
        door("rmi", unnamed, ok=True)
        assert "NOSUCH" in door("import", "--change", "NOSUCH x", tree, "no:1", ok=1).stderr
        assert "operating system" in door("import", "--platform", "windows/amd64", tree, "no:1", ok=1).stderr
        assert "send the archive" in door("import", "http://127.0.0.1/x.tar", "no:1", ok=1).stderr


@b.deadline(120)
def test_images_go_out_and_come_in_as_archives():
    with Doors():
        image()
        path = b.tmp("app.tar")
        door("save", "-o", path, "app:1", ok=True)
        digest = door("inspect", "-f", "{{.Id}}", "app:1", ok=True).stdout
        door("rmi", "app:1", ok=True)
        assert "Loaded image: app:1" in door("load", "-i", path, ok=True).stdout
        assert door("inspect", "-f", "{{.Id}}", "app:1", ok=True).stdout == digest
        # through pipes
        piped = subprocess.run(f"'{PROGRAM}' save app:1 | '{PROGRAM}' load", shell=True, env=environment(), capture_output=True, text=True)
        assert piped.returncode == 0 and "Loaded image: app:1" in piped.stdout, piped
        run("--name", "full", "app:1", "sh", "-c", "echo x > /root/x", ok=True)
        tree = b.tmp("tree.tar")
        door("export", "-o", tree, "full", ok=True)
        with tarfile.open(tree) as t:
            assert {n.lstrip("./") for n in t.getnames()} >= {"root/x", "bin"}, t.getnames()[:20]
        assert door("import", tree, "flat:1", ok=True).stdout.startswith("sha256:")
        assert run("--rm", "flat:1", "cat", "/root/x", ok=True).stdout == "x\n"
        assert "No such image: no" in door("save", "no", ok=1).stderr


@b.deadline(90)
def test_files_are_copied_both_ways_and_as_streams():
    with Doors():
        box("box")
        there = b.tmpdir("files")
        b.write(os.path.join(there, "a"), "A\n")
        door("cp", os.path.join(there, "a"), "box:/srv/b", ok=True)
        assert door("exec", "box", "cat", "/srv/b", ok=True).stdout == "A\n"
        door("cp", there + "/.", "box:/srv", ok=True)
        assert door("exec", "box", "cat", "/srv/a", ok=True).stdout == "A\n"
        door("cp", "box:srv/b", os.path.join(there, "back"), ok=True)
        with open(os.path.join(there, "back")) as f:
            assert f.read() == "A\n"
        out = subprocess.run([PROGRAM, "cp", "box:/srv/b", "-"], env=environment(), capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(out)) as t:
            assert t.getnames() == ["b"] and t.extractfile("b").read() == b"A\n"
        subprocess.run([PROGRAM, "cp", "-", "box:/workspace"], env=environment(), input=out, check=True)
        assert door("exec", "box", "cat", "/workspace/b", ok=True).stdout == "A\n"
        assert "Could not find the file" in door("cp", "box:/nosuch", there, ok=1).stderr
        assert "No such container: no" in door("cp", "no:/x", there, ok=1).stderr
        assert "at least one container" in door("cp", "/a", "/b", ok=1).stderr
        assert "not supported" in door("cp", "box:/a", "box:/b", ok=1).stderr
        # of one that does not run, too
        door("stop", "-t", "0", "box", ok=True)
        door("cp", "box:/srv/b", os.path.join(there, "late"), ok=True)
        assert os.path.exists(os.path.join(there, "late"))
        assert "A /srv/b" in door("diff", "box", ok=True).stdout.splitlines()


@b.deadline(90)
def test_volumes_and_networks():
    with Doors():
        assert door("volume", "create", "--label", "k=v", "data", ok=True).stdout == "data\n"
        try:
            run("--rm", "-v", "data:/data", "host", "sh", "-c", "echo kept > /data/x", ok=True)
            assert run("--rm", "--mount", "type=volume,source=data,target=/data", "host", "cat", "/data/x", ok=True).stdout == "kept\n"
            assert door("volume", "ls", "-q", "--filter", "label=k", ok=True).stdout == "data\n"
            assert door("volume", "ls", "-q", "--filter", "name=no", ok=True).stdout == ""
            assert door("volume", "inspect", "-f", "{{.Name}} {{.Driver}} {{index .Labels \"k\"}}", "data", ok=True).stdout == "data local v\n"
            run("-d", "--name", "user", "-v", "data:/data", "host", "sleep", "1000", ok=True)
            assert "volume is in use" in door("volume", "rm", "data", ok=1).stderr
            door("rm", "-f", "user", ok=True)
        finally:
            door("volume", "rm", "data")
        assert "no such volume" in door("volume", "rm", "data", ok=1).stderr
        assert "no such volume" in door("volume", "inspect", "data", ok=1).stderr
        fresh = door("volume", "create", ok=True).stdout.strip()
        door("volume", "create", "named", ok=True)
        pruned = door("volume", "prune", "--force", ok=True).stdout
        assert fresh in pruned and "named" not in pruned, pruned
        assert door("network", "create", "--label", "job=1", "spared", ok=True) and "spared" not in door(
            "network", "prune", "-f", "--filter", "label=job=2", ok=True).stdout
        assert "spared" in door("network", "prune", "-f", "--filter", "label=job=1", ok=True).stdout
        assert "invalid filter" in door("network", "prune", "-f", "--filter", "nosuch=1", ok=1).stderr
        assert "named" in door("volume", "prune", "-f", "--all", ok=True).stdout and door("volume", "ls", "-q", ok=True).stdout == ""
        made = door("network", "create", "-o", "com.docker.network.driver.mtu=9000", "jumbo", ok=True)
        assert "WARNING: the network option com.docker.network.driver.mtu was ignored" in made.stderr, made.stderr
        assert json.loads(door("network", "inspect", "jumbo", ok=True).stdout)[0]["Options"] == {"com.docker.network.driver.mtu": "9000"}
        door("network", "rm", "jumbo", ok=True)
        nid = door("network", "create", "--internal", "--label", "k=v", "back", ok=True).stdout.strip()
        assert f"{nid[:12]}" in door("network", "ls", "--filter", "name=back", "-q", ok=True).stdout
        assert json.loads(door("network", "inspect", "back", ok=True).stdout)[0]["Internal"] is True
        assert "already exists" in door("network", "create", "back", ok=1).stderr
        assert "pre-defined" in door("network", "rm", "bridge", ok=1).stderr
        assert sorted(door("network", "ls", "--format", "{{.Name}}", ok=True).stdout.split()) == ["back", "bridge", "host", "none"]
        assert door("network", "rm", nid, ok=True).stdout == nid + "\n"
        assert "network back not found" in door("network", "inspect", "back", ok=1).stderr


@b.deadline(90)
def test_what_containers_use_and_may_use():
    with Doors():
        cid = box("box")
        head, row = door("stats", "--no-stream", "box", ok=True).stdout.splitlines()
        assert re.split(r"  +", head.strip())[:5] == ["CONTAINER ID", "NAME", "CPU %", "MEM USAGE / LIMIT", "MEM %"], head
        assert row.startswith(cid[:12]) and "box" in row and "MiB" in row, row
        lines = door("top", "box", ok=True).stdout.splitlines()
        assert lines[0].split()[0] == "UID" and any("sleep 1000" in x for x in lines), lines
        assert door("update", "--memory", "100m", "--cpus", "0.5", "box", ok=True).stdout == "box\n"
        assert door("inspect", "-f", "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}}", "box", ok=True).stdout == "104857600 500000000\n"
        assert door("port", "box", ok=True).stdout == ""
        assert "No public port" in door("port", "box", "80", ok=1).stderr
        assert "memory" in door("update", "--memory", "x", "box", ok=1).stderr
        door("stop", "-t", "0", "box", ok=True)
        events = door("events", "--since", "5m", "--until", "0s", ok=True).stdout
        assert re.search(r"container start " + cid, events) and re.search(r"container die " + cid, events), events
        one = json.loads(door("events", "--since", "5m", "--until", "0s", "--filter", "event=start", "--format", "json", ok=True)
                         .stdout.splitlines()[-1])
        assert (one["Type"], one["Action"], one["Actor"]["Attributes"]["name"]) == ("container", "start", "box"), one
        assert cid in door("container", "prune", "-f", ok=True).stdout
        assert door("ps", "-aq", ok=True).stdout == ""


@b.deadline(60)
def test_the_engine_itself_and_what_is_other_programs_work():
    with Doors():
        assert door("version", "--format", "{{.Server.Version}}", ok=True).stdout == "25.0.0\n"
        both = json.loads(door("version", "--format", "json", ok=True).stdout)
        assert both["Server"]["ApiVersion"] == both["Client"]["ApiVersion"] == "1.44", both
        info = json.loads(door("info", "-f", "json", ok=True).stdout)
        assert (info["OSType"], info["Containers"]) == ("linux", 0) and "Containers: 0" in door("info", ok=True).stdout
        assert [x.split()[0] for x in door("system", "df", ok=True).stdout.splitlines()] == ["TYPE", "Images", "Containers", "Local", "Build"]
        assert door("system", "prune", "-f", ok=True).stdout.count("Total reclaimed space") == 1
        assert door("context", "show", ok=True).stdout == "default\n"
        assert "not found" in door("context", "use", "far", ok=1).stderr
        assert "none is there" in door("compose", "ps", ok=1).stderr
        assert door("search", "x", ok=True).stdout.startswith("NAME")
        assert "Docker version" in door("--version", ok=True).stdout
        assert door("--config", "/nowhere", "-D", "ps", "-q", ok=True).stdout == ""


@b.deadline(180)
def test_build_is_berths_build():
    if not shutil.which("buildah"):
        raise b.skip("needs the package buildah")
    with Doors():
        image()
        there = b.tmpdir("context")
        b.write(os.path.join(there, "f"), "built\n")
        b.write(os.path.join(there, "Dockerfile"), 'FROM app:1\nARG WHO\nCOPY f /f\nRUN cat /f > /root/g; echo $WHO >> /root/g\nCMD ["cat", "/root/g"]\n')
        door("build", "--network", "none", "--build-arg", "WHO=me", "-t", "built:1", there, ok=True, timeout=150)
        assert run("--rm", "built:1", ok=True).stdout == "built\nme\n"
        assert "is refused" in door("build", "--squash", there, ok=125).stderr


@b.deadline(60)
def test_the_completion_knows_verbs_flags_and_groups():
    script = door("completion", "bash", ok=True).stdout
    def complete(*words):
        ask = ("source /dev/stdin\nCOMP_WORDS=(" + " ".join(f"'{w}'" for w in words) + f")\nCOMP_CWORD={len(words) - 1}\n"
               "_berth_docker\nprintf '%s\\n' \"${COMPREPLY[@]}\"")
        r = subprocess.run(["bash", "-c", ask.replace("source /dev/stdin", 'eval "$1"'), "x", script], env=environment(),
                           capture_output=True, text=True, check=True)
        assert r.stderr == "", r
        return r.stdout.split()
    assert "inspect" in complete("docker", "in") and "info" in complete("docker", "in")
    assert complete("docker", "run", "--stop-s") == ["--stop-signal"]
    assert set(complete("docker", "volume", "")) >= {"ls", "rm", "create", "inspect", "prune"}
    assert "--filter" in complete("docker", "volume", "ls", "--f")
    assert "unknown shell" in door("completion", "tcsh", ok=1).stderr


def text_of_page():
    with open(os.path.join(b.TOP, "man", "berth-docker.1")) as f:
        return f.read().replace("\\-", "-")


@b.deadline(60)
def test_the_page_says_what_becomes_of_each_verb_and_flag():
    page = text_of_page()
    verbs = re.findall(r"^  (\S+(?: \S+)?)  +\S", door("--help", ok=True).stdout.split("Global Options")[0], re.M)
    assert len(verbs) > 55, verbs
    for verb in verbs:
        assert re.search(rf"^\.It .*\b{verb}\b", page, re.M) or re.search(rf"\b{verb}\b", page), f"the page does not name docker {verb}"
    for verb in ("run", "create", "exec", "update", "build", "network create", "network connect"):
        for flag, fate in re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+)(?:(?!^  (?:-\w, |    )--).)*?\((accepted and ignored|refused)\)",
                                     door(*verb.split(), "--help", ok=True).stdout, re.M | re.S):
            assert re.search(rf"^\.It .*Fl Fl {flag}\b", page, re.M), f"the page does not say that --{flag} of {verb} is {fate}"


@b.deadline(90)
def test_the_examples_of_the_page_work():
    section = re.search(r"^\.Sh EXAMPLES\n\.Bd -literal.*?\n(.*?)^\.Ed", text_of_page(), re.S | re.M)[1]
    env = environment({"PATH": b.BUILD + ":" + os.environ["PATH"]})
    with Doors():
        r = subprocess.run(["bash", "-ec", section], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert r.returncode == 0, r
        assert "hello" in r.stdout and "kept" in r.stdout and "web running" in r.stdout and "true" in r.stdout, r


@b.deadline(60)
def test_every_flag_of_dockers_own_help_has_an_answer():
    """The flags of docker 20.10 and 28.2; an unknown flag would be an error of a caller."""
    theirs = {
        "update": "blkio-weight cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares cpus cpuset-cpus cpuset-mems kernel-memory "
                  "memory memory-reservation memory-swap pids-limit restart",
        "build": "add-host build-arg cache-from cgroup-parent compress cpu-period cpu-quota cpu-shares cpuset-cpus cpuset-mems "
                 "disable-content-trust file force-rm iidfile isolation label memory memory-swap network no-cache platform progress pull "
                 "quiet rm security-opt shm-size squash tag target ulimit",
        "network create": "attachable aux-address config-from config-only driver gateway ingress internal ip-range ipam-driver ipam-opt "
                          "ipv4 ipv6 label opt scope subnet",
        "network connect": "alias driver-opt gw-priority ip ip6 link link-local-ip",
        "exec": "detach detach-keys env env-file interactive privileged tty user workdir",
        "run": "add-host annotation attach blkio-weight blkio-weight-device cap-add cap-drop cgroup-parent cgroupns cidfile cpu-count "
               "cpu-percent cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares cpus cpuset-cpus cpuset-mems detach detach-keys "
               "device device-cgroup-rule device-read-bps device-read-iops device-write-bps device-write-iops disable-content-trust dns "
               "dns-option dns-search domainname entrypoint env env-file expose gpus group-add health-cmd health-interval health-retries "
               "health-start-interval health-start-period health-timeout hostname init interactive io-maxbandwidth io-maxiops ip ip6 ipc "
               "isolation kernel-memory label label-file link link-local-ip log-driver log-opt mac-address memory memory-reservation "
               "memory-swap memory-swappiness mount name network network-alias no-healthcheck oom-kill-disable oom-score-adj pid "
               "pids-limit platform privileged publish publish-all pull quiet read-only restart rm runtime security-opt shm-size sig-proxy "
               "stop-signal stop-timeout storage-opt sysctl tmpfs tty ulimit use-api-socket user userns uts volume volume-driver "
               "volumes-from workdir"}
    theirs["create"] = " ".join(x for x in theirs["run"].split() if x not in ("detach", "detach-keys", "sig-proxy"))
    for verb, flags in theirs.items():
        ours = set(re.findall(r"--([a-z0-9-]+)", door(*verb.split(), "--help", ok=True).stdout))
        assert not set(flags.split()) - ours, (verb, set(flags.split()) - ours)
