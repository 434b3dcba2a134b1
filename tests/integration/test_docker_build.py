# SPDX-License-Identifier: Apache-2.0
"""Images by buildah: berth build, POST /build for docker's own command line and python3-docker, buildah on berth-oci by hand.

Attacks S50 of SECURITY.md.
"""
import glob
import io
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import tempfile
import time

import berthtest as b
from daemon import UnixConnection
from dockerdoor import door
from dockerlab import Cli, Engine, python_docker
from netlab import HOST, METADATA, OUTSIDE, Lab, need_bridge
from registry import need

COST = 30

DOCKERFILE = """ARG BASE=box:1
FROM $BASE AS first
ARG WORD=none
RUN echo built $WORD > /made; cat /proc/self/uid_map > /map
FROM box:1
COPY --from=first /made /map /
COPY sub/f /copied
ENV A=b
LABEL k=v
HEALTHCHECK CMD true
CMD ["cat", "/made", "/copied"]
"""


def context(text=DOCKERFILE):
    top = b.tmpdir("context")
    b.write(top + "/Dockerfile", text)
    b.write(top + "/sub/f", "from the context\n")
    return top


def tar_of(top):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        t.add(top, ".")
    return out.getvalue()


def base():
    need("buildah")
    b.berth("image", "import", b.busybox_rootfs(), "box:1", ok=True)


def lines(said):
    return [json.loads(line) for line in said.splitlines()]


@b.deadline(180)
def test_an_image_is_built_from_images_of_the_store():
    base()
    top = context()
    r = b.berth("build", "-t", "out:1", "-t", "out:2", "--build-arg", "WORD=well", "--label", "l=m", top, ok=True, timeout=120)
    digest = r.out.strip()
    assert digest.startswith("sha256:") and "STEP" in r.err, r
    assert b.berth("run", "out:2", ok=True).out == "built well\nfrom the context\n"
    uid_map = b.berth("run", "out:1", "cat", "/map", ok=True).out.split()
    assert uid_map[0] == "0" and int(uid_map[1]) >= 65536 and uid_map[2] == "65536", uid_map
    j = json.loads(b.berth("image", "inspect", "out:1", ok=True).out)
    assert "healthcheck" in json.dumps(j).lower() and '"k": "v"' in json.dumps(j) and '"l": "m"' in json.dumps(j), j
    told = lines(b.berth("build", "--json", "-", input=tar_of(top), ok=True, timeout=120).out)
    assert told[-1]["event"] == "done" and told[-1]["names"][0].startswith("build:"), told[-1]
    assert any(t["event"] == "line" and "STEP 1/" in t["text"] for t in told)
    assert b.berth("build", "-q", "-t", "text:1", "-", input="FROM box:1\nRUN true\n", ok=True, timeout=120).out.startswith("sha256:")
    names = {i["name"] for i in json.loads(b.berth("image", "ls", "--json", ok=True).out)}
    assert names == {"box:1", "out:1", "out:2", "text:1", told[-1]["names"][0]}, names
    assert not b.berth("ps", "-aq").out and not json.loads(b.berth("volume", "ls", "--json", ok=True).out)


@b.deadline(60)
def test_steps_are_kept_for_the_next_build():
    """Unchanged steps do not run again, whatever comes after them or built beside them; a base that changed runs all of them."""
    base()
    top = context("FROM box:1\nRUN head -c 16 /dev/urandom > /random\nCOPY sub/f /f\nCOPY sub/g /g\n")
    b.write(top + "/sub/g", "first\n")
    volumes = b.root() + "/state/volumes"

    def build(*words, uses):
        r = b.berth("build", "-t", "out:1", *words, top, ok=True, timeout=60)
        assert r.err.count("--> Using cache") == uses, r
        return r.out
    first = build(uses=0)
    os.rename(volumes + "/build-cache-0", volumes + "/build-cache-1")   # where it is when another build had the first one
    os.utime(top + "/sub/f", (1, 1))
    b.write(top + "/sub/g", "second\n")
    assert build(uses=2) != first and b.berth("run", "out:1", "cat", "/g", ok=True).out == "second\n"
    b.write(b.busybox_rootfs("other") + "/new", "x")
    b.berth("image", "import", b.tmp("other"), "box:1", ok=True)
    build(uses=0)
    # images of the store alone can be begun from, not those that an earlier build had
    b.berth("image", "rm", "box:1", "out:1", ok=True)
    b.one_line_error(b.berth("build", "-q", "--pull", "never", top), 2, "box:1")
    b.berth("gc", "--builds", ok=True)
    assert not os.listdir(volumes)


@b.deadline(60)
def test_a_secret_is_shown_to_its_step_alone():
    base()
    top = context("FROM box:1\nRUN --mount=type=secret,id=k cat /run/secrets/k\nRUN --mount=type=secret,id=v,target=/x cat /x; ls /run/secrets/k && cat /run/secrets/k\n")
    b.write(top + "/../key", "canary of a file\n")
    r = door("build", "--network", "none", "--secret", f"id=k,src={top}/../key", "--secret", "id=v,env=WORD", "-t", "out:1", top,
             env={"WORD": "canary of a variable\n"}, ok=True)
    assert r.stdout.count("canary of a file") == 1 and r.stdout.count("canary of a variable") == 1, r
    b.berth("image", "save", "-o", b.tmp("out.tar"), "out:1", ok=True)
    assert subprocess.run(["sh", "-c", f"cd {b.tmpdir('out')} && tar -xf {b.tmp('out.tar')} && for f in blobs/sha256/*; do zcat -f $f; done | grep -ac canary"],
                          stdout=subprocess.PIPE, check=False).stdout == b"0\n"
    b.one_line_error(b.berth("build", "--secret", "id=k,src=/nosuch", top), 125, "secret k", "/nosuch")
    b.one_line_error(b.berth("build", "--secret", "k", top), 2, "hint: --secret id=NAME,src=FILE")


@b.deadline(240)
def test_a_build_that_fails_says_why_and_leaves_nothing():
    base()
    v = b.victim()
    before = b.seal(v)
    top = context("FROM box:1\nRUN exit 7\n")
    b.one_line_error(b.berth("build", "-q", top, timeout=120), 2, "the build failed", "exit status 7")
    b.one_line_error(b.berth("build", top + "/nosuch"), 125, "context")
    b.one_line_error(b.berth("build", "-f", "../" + os.path.basename(v), top), 125, "Dockerfile")
    os.symlink(v + "/secret", top + "/leak")
    b.one_line_error(b.berth("build", "-f", "leak", top), 2, "Dockerfile")
    b.one_line_error(b.berth("build", "--network", "host", top), 125, "--network bridge")
    b.one_line_error(b.berth("build", "-", input=b"\x1f\x8b" + b"x" * 1000), 2, "not an archive")
    b.one_line_error(b.berth("build"), 2, "context")
    # RUN and COPY see nothing of the host, and write nothing to it
    b.write(top + "/Dockerfile", f"FROM box:1\nCOPY leak /leak\nRUN cat /leak {v}/secret; ls {v}; mount -t tmpfs x /mnt; echo x > {v}/new; "
                                 "cat /proc/self/status | grep -i capeff > /caps; true\n")
    b.berth("build", "-q", "-t", "tried:1", top, timeout=120)
    assert b.seal(v) == before
    listed = {i["name"] for i in json.loads(b.berth("image", "ls", "--json", ok=True).out)}
    if "tried:1" in listed:
        assert "canary" not in b.berth("run", "tried:1", "cat", "/leak").out
    # and it writes no more than its disk
    b.write(top + "/Dockerfile", "FROM box:1\nRUN dd if=/dev/zero of=/big bs=1M count=200\n")
    b.one_line_error(b.berth("build", "-q", "--disk", "64m", top, timeout=120), 2, "the build failed")
    assert not b.berth("ps", "-aq").out and not json.loads(b.berth("volume", "ls", "--json", ok=True).out)


@b.deadline(180)
def test_mounts_through_links_of_a_base_reach_no_file_of_the_host():
    """CVE-2024-1753 and its kin: buildah follows such a link outside of the image."""
    base()
    place = tempfile.mkdtemp(dir="/tmp")        # /var/tmp, of the tests, is the build's own there
    try:
        b.write(place + "/open", "canary\n")
        os.chmod(place, 0o755)
        os.chmod(place + "/open", 0o644)
        top = context()
        os.symlink(place, top + "/way")
        for mount in ("type=bind,from=base,source=/all,target=/x,rw", "type=bind,from=base,source=/way,target=/x",
                      "type=cache,from=base,source=/all,target=/x", f"type=cache,id=../../../../../../..{place},target=/x", "type=bind,source=way,target=/x"):
            b.write(top + "/Dockerfile", f"FROM box:1 AS base\nRUN ln -s / /all; ln -s {place} /way\nFROM box:1\n"
                                         f"RUN --mount={mount} cat /x{place}/open /x/open; echo x > /x{place}/new; true\n")
            r = b.berth("build", top, timeout=120)
            assert "\ncanary" not in r.out + r.err and os.listdir(place) == ["open"], (mount, r)
    finally:
        shutil.rmtree(place)
    assert not b.berth("ps", "-aq").out


@b.deadline(240)
def test_a_build_that_is_ended_leaves_nothing():
    base()
    top = context("FROM box:1\nRUN cat /proc/self/cgroup; echo step is there; sleep 1000\n")
    groups = set()
    for how in (signal.SIGTERM, signal.SIGKILL):
        with b.start("build", top) as p:
            said = b.read_until(p.stderr, b"\nstep is there", 60)
            assert b"build" not in said.split(b"STEP 2/2")[-1].split(b"\n", 1)[1], said     # no name of the host's
            groups |= set(glob.glob("/sys/fs/cgroup/*/*/build") + glob.glob("/sys/fs/cgroup/*/*/*/build"))
            p.send_signal(how)
            p.wait()
        b.wait_for(lambda: not b.berth("ps", "-aq").out, 60, "the end of its sandbox")
    b.write(top + "/Dockerfile", "FROM box:1\n")
    b.berth("build", "-q", "-t", "after:1", top, ok=True, timeout=120)
    assert groups and not [g for g in groups if os.path.basename(b.root()) in g and os.path.exists(g)], groups
    assert not json.loads(b.berth("volume", "ls", "--json", ok=True).out)


@b.deadline(240)
def test_dockers_clients_build_with_the_classic_builder():
    base()
    docker = python_docker()
    top = context()
    with Engine() as d:
        status, said, _ = d.api("POST", "/build?t=api:1&networkmode=none&buildargs=%7B%22WORD%22%3A%22api%22%7D", tar_of(top), timeout=120)
        told = [line for line in lines(said) if line != {"stream": ""}]
        assert status == 200 and told[0].get("stream", "").startswith("Step 1/"), told
        assert told[-1]["stream"] == "Successfully tagged api:1\n" and told[-2]["stream"].startswith("Successfully built "), told
        assert told[-3]["aux"]["ID"] == d.good("GET", "/images/api:1/json")["Id"]
        status, said, _ = d.api("POST", "/build?networkmode=none&dockerfile=nosuch", tar_of(top), timeout=120)
        assert status == 200 and "nosuch" in lines(said)[-1]["error"], said
        status, said, _ = d.api("POST", "/build?networkmode=none&buildargs=null&labels=null&ulimits=null&cachefrom=null&t=nulls:1", tar_of(top), timeout=120)
        assert status == 200 and b"Successfully tagged nulls:1" in said, said
        for query, word in (("version=2", "DOCKER_BUILDKIT=0"), ("remote=https://x/y.git", "body"), ("buildargs=x", "build-arg"),
                            ("labels=[]", "object"), ("cpuquota=10", "cpuquota"), ("cpusetmems=0-1", "cpusetmems"), ("ulimits=[{}]", "ulimit"), ("memswap=5&memory=9", "larger than"),
                            ("cgroupparent=/x", "cgroupparent"), ("securityopt=seccomp%3Dx", "securityopt"), ("t=" + "x" * 500, "reference")):
            status, said, _ = d.api("POST", "/build?" + query, b"")
            assert 400 <= status < 502 and word in said["message"], (query, status, said)
        c = d.client(version="1.41")
        try:
            events = c.events(since=0, until=int(time.time()) + 1, filters={"type": "image", "event": ["tag", "untag", "import", "save"]}, decode=True)
            seen = [(one["Action"], one["Actor"]["Attributes"]["name"]) for one in events]
            assert seen[0][0] == "import" and seen[1:] == [("tag", "api:1"), ("tag", "nulls:1")], seen        # box:1 comes first
            image, log = c.images.build(path=top, tag="py:1", network_mode="none", rm=True)
            assert "py:1" in image.tags
            assert any("Step 1/" in one.get("stream", "") for one in log)
            image, _ = c.images.build(fileobj=io.BytesIO(b"FROM box:1\nRUN echo x > /x\n"), tag="file:1", network_mode="none")
            assert c.containers.run("file:1", "cat /x", network_mode="none", remove=True) == b"x\n"
            try:
                c.images.build(fileobj=io.BytesIO(b"FROM box:1\nRUN exit 3\n"), network_mode="none")
                raise AssertionError("it was built")
            except docker.errors.BuildError as e:
                assert "The command '/bin/sh -c exit 3' returned a non-zero code: 3" in e.msg, e.msg
        finally:
            c.close()
        cli = Cli(d)
        cli.env["DOCKER_BUILDKIT"] = "0"
        r = cli.run("build", "--network", "none", "-t", "cli:1", "--build-arg", "WORD=cli", top, ok=True, timeout=120)
        assert "Successfully tagged cli:1" in r.stdout, r
        assert cli.run("run", "--rm", "--network", "none", "cli:1", ok=True).stdout == "built cli\nfrom the context\n"
        r = cli.run("build", "-q", "--network", "none", "-", input="FROM box:1\nRUN true\n", ok=True, timeout=120)
        assert r.stdout.strip().startswith("sha256:"), r
        assert cli.run("build", "--network", "none", "-f", "nosuch", top).returncode != 0
        # no step of another build is there to be taken, and that is said
        r = cli.run("build", "--network", "none", "--cache-from", "cli:1", "-t", "again:1", top, ok=True, timeout=120)
        assert r.stdout.count("--cache-from is not used") == 1 and "Successfully tagged again:1" in r.stdout, r
        r = door("build", "--network", "none", "--cache-from", "cli:1", "--no-cache", "-t", "by:door", top, ok=True, timeout=120)
        assert "--cache-from is not used" in r.stderr and "Using cache" not in r.stdout + r.stderr, r


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + body


@b.deadline(60)
def test_BuildKits_clients_are_told_the_remedy_on_HTTP2():
    """Where /grpc does not become HTTP/2, buildx starts a privileged container of its own."""
    asked = b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    def opened(path):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(30 * b.SLOW)
        s.connect(d.docker_socket)
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n".encode() + asked)
        head = b""
        while b"\r\n\r\n" not in head:
            head += s.recv(1)
        assert head.startswith(b"HTTP/1.1 101 "), head
        return s

    with Engine() as d:
        with opened("/grpc") as s:
            s.sendall(preface + frame(4, 0, 0) + frame(1, 4, 1, b"\x82\x86") + frame(0, 1, 1, b"x" * 16000)[:5000])
            s.sendall(frame(0, 1, 1, b"x" * 16000)[5000:] + frame(1, 5, 3) + frame(6, 0, 0, b"12345678"))
            said = b""
            while not said.endswith(frame(6, 1, 0, b"12345678")):
                piece = s.recv(4096)
                assert piece, said
                said += piece
            assert said.startswith(frame(4, 0, 0)) and frame(4, 1, 0) in said, said
            assert said.count(b"grpc-status\x019") == 2 and said.count(b"BuildKit is not served here: set DOCKER_BUILDKIT=0") == 2, said
            assert struct.pack(">BBI", 1, 5, 1) in said and struct.pack(">BBI", 1, 5, 3) in said, said
        for wrong in (b"GET / HTTP/1.1\r\n\r\n", preface + b"\xff" * 9, preface + frame(4, 0, 0) + frame(1, 4, 1) * 101):
            with opened("/grpc") as s:
                s.sendall(wrong)
                while s.recv(4096):
                    pass
        with opened("/session") as s:       # nothing is asked of the server that a client is
            s.sendall(b"x" * 10000)
            s.shutdown(socket.SHUT_WR)
            assert s.recv(10) == b""
        for path in ("/session", "/grpc"):
            status, said, _ = d.api("POST", path)
            assert status == 404 and "DOCKER_BUILDKIT=0" in said["message"], (status, said)


@b.deadline(120)
def test_a_client_that_leaves_a_build_that_prints_ends_it():
    base()
    top = context("FROM box:1\nRUN yes\n")
    with Engine() as d:
        c = UnixConnection(d.docker_socket, 60)
        c.request("POST", "/build?networkmode=none", tar_of(top))
        r = c.getresponse()
        while b'"y\\n"' not in r.readline():
            pass
        r.close()
        c.close()
        b.wait_for(lambda: not b.berth("ps", "-aq").out, 60, "the end of its sandbox")
        b.wait_for(lambda: not json.loads(b.berth("volume", "ls", "--json", ok=True).out), 60, "the end of its volume")


@b.deadline(120)
def test_buildah_by_hand_uses_berth_oci():
    base()
    top, place = context("FROM box:1\nRUN echo built > /made\n"), b.tmpdir("buildah")
    b.berth("image", "save", "-q", "-o", place + "/box.tar", "box:1", ok=True)
    common = ["buildah", "--root", place + "/root", "--runroot", place + "/run", "--storage-driver", "vfs"]
    b.write(place + "/policy.json", '{"default":[{"type":"insecureAcceptAnything"}]}')
    env = {"PATH": os.environ["PATH"], "HOME": place, "TMPDIR": place}

    def buildah(*words):
        r = subprocess.run([*common, *words], env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100 * b.SLOW, check=False)
        assert r.returncode == 0, r
        return r.stdout

    try:
        buildah("pull", "-q", "--signature-policy", place + "/policy.json", f"oci-archive:{place}/box.tar")
        buildah("bud", "--signature-policy", place + "/policy.json", "--runtime", os.path.join(b.BUILD, "berth-oci"), "--runtime-flag",
                f"root={place}/oci", "--isolation", "oci", "--pull=never", "--network", "none", "-t", "made:1", top)
        buildah("push", "-q", "--signature-policy", place + "/policy.json", "made:1", f"docker-archive:{place}/made.tar:made:1")
        name = json.loads(b.berth("image", "load", "--json", "-q", "-i", place + "/made.tar", ok=True).out)["images"][0]["name"]
        assert b.berth("run", name, "cat", "/made", ok=True).out == "built\n"
    finally:
        subprocess.run([*common, "rm", "-a"], env=env, capture_output=True, check=False, timeout=60 * b.SLOW)
        shutil.rmtree(place, ignore_errors=True)


WRONG = (
    ("# nothing\n\n", "dockerfile parse error on line 2: file with no instructions"),
    ("FROM box:1\n  # x\n  RUN a \\\n  # y\n\n  b\n  NOSUCH a\n", "parse error on line 7: unknown instruction: NOSUCH"),
    ("RUN true\nFROM box:1\n", "no build stage in current context"),
    ("ARG A=1\n", "no build stage in current context"),
    ("FROM\n", "line 1: FROM requires"), ("FROM box:1 AS\n", "line 1: FROM requires either one or three arguments"),
    ("FROM box:1 AS 1a\n", "invalid name for build stage: \"1a\""),
    ("FROM box:1 AS a\nFROM box:1 AS A\n", "a stage name already used"),
    *((f"FROM box:1\n{w}\n", f"line 2: {w} requires") for w in
      ("ADD", "ARG", "COPY", "ENV", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "ONBUILD", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR")),
    ("FROM box:1\nENV a\n", "ENV must have two arguments"), ("FROM box:1\nLABEL =a\n", "LABEL names can not be blank"),
    ("FROM box:1\nCOPY a\n", "Destination could not be determined"), ("FROM box:1\nADD [\"a\"]\n", "Destination could not be determined"),
    ("FROM box:1\nCOPY --nosuch a b\n", "unknown flag: nosuch"), ("FROM box:1\nRUN --x=y a\n", "unknown flag: x"),
    ("FROM box:1\nONBUILD ONBUILD RUN a\n", "Chaining ONBUILD"), ("FROM box:1\nONBUILD FROM a\n", "FROM isn't allowed as an ONBUILD trigger"),
    ("FROM box:1\nSHELL sh -c\n", "SHELL requires the arguments to be in JSON form"),
    ("FROM box:1\nHEALTHCHECK NONE a\n", "takes no arguments"), ("FROM box:1\nHEALTHCHECK CMD\n", "Missing command after HEALTHCHECK CMD"),
    ("FROM box:1\nHEALTHCHECK a b\n", "Unknown type \"a\""), ("FROM box:1\nEXPOSE abc\n", "invalid containerPort: abc"),
    ("FROM box:1\nCOPY --from=5 a b\n", "invalid from flag value 5: index out of bounds"),
    ("FROM box:1 AS me\nCOPY --from=ME a b\n", "invalid from flag value ME: refers to current build stage"),
    ("# escape=x\nFROM box:1\n", "invalid escape token"),
    ("FROM box:1\nRUN <<E\nx\n E\n", "parse error on line 2: unterminated heredoc"), ("FROM box:1\nRUN <<E\nx\nE\nNOSUCH\n", "line 5: unknown instruction"),
    ("FROM box:1\nCOPY <<E /x\n$PATH\nE\n", "line 2: what PATH is in the here-document E cannot be told"),
    ("FROM box:1\nCOPY <<E\nx\nE\n", "Destination could not be determined"), ("FROM box:1\nCOPY <<../x /y\n../x\n", "has no name of a file"),
    ("FROM box:1\nCOPY --from=box:1 <<E /x\nE\n", "COPY --from takes no here-document"), ("FROM box:1\nONBUILD RUN <<E\nE\n", "ONBUILD takes no"),
    ("FROM box:1\nRUN cat " + " ".join(f"<<E{i}" for i in range(33)) + "\n", "more than 32 here-documents"),
)


@b.deadline(180)
def test_a_wrong_Dockerfile_is_refused_before_any_step_runs():
    for text, said in WRONG:
        r = b.berth("build", "--pull", "never", "-", input=text, timeout=60)
        assert "STEP" not in r.err and said in r.err and r.code == 2, (text, r)
    for mount in ("type=bind,rw,target=/src", "target=/src,readwrite=true"):
        r = b.berth("build", "--pull", "never", "-", input=f"FROM box:1\nRUN --mount={mount} true\n", timeout=60)
        assert r.code != 0 and "STEP" not in r.err and "the context cannot be written to" in r.err, r
    b.one_line_error(b.berth("build", "--pull", "never", "--target", "nosuch", "-", input="FROM box:1 AS a\n"), 2, 'target stage "nosuch" could not be found')
    top = context("")
    b.one_line_error(b.berth("build", top), 2, "the Dockerfile (Dockerfile) cannot be empty")


@b.deadline(120)
def test_a_hostile_Dockerfile_is_refused_at_once():
    for text, said in (("FROM box:1\nRUN <<E\n" + "x\n" * 500000, "unterminated heredoc"), ("FROM box:1\n" * 90000, "more than 200 stages"),
                       ("".join(f"FROM box:1 AS x{i}\n" for i in range(50000)), "more than 200 stages"), ("FROM box:1\nRUN " + "a" * 1000000, "line greater than"),
                       ("FROM box:1\nRUN " + "a \\\n" * 250000, "more than 5000 lines"), ("FROM box:1\n" + "ENV a=b\n" * 120000, "more than 5000 instructions"),
                       ("FROM box:1 AS a\nFROM box:1\nCOPY " + "--from=a " * 7000, "more than 64 flags"), ("FROM box:1\n" + "#" * 1048600, "more than 1048576 bytes")):
        r = b.berth("build", "--pull", "never", "-q", "-", input=text, timeout=60)
        assert r.code != 0 and said in r.err and len(r.err) < 1000, (text[:60], r)


@b.deadline(120)
def test_stages_are_named_without_regard_to_case():
    base()
    text = "\ufeff# escape=`\nFROM box:1 AS One\nRUN echo 1 `\n > /one\nFROM ONE AS oneTwo\nFROM scratch\nCOPY --from=0 /one /a\nCOPY --from=oNe /one /b\nCOPY --from=ONETWO / /\n"
    b.berth("build", "-q", "-t", "case:1", "-", input=text, ok=True, timeout=120)
    assert b.berth("run", "case:1", "cat", "/a", "/b", ok=True).out == "1\n1\n"
    b.berth("build", "-q", "-t", "case:2", "--target", "ONE", "-", input=text, ok=True, timeout=120)
    assert b.berth("run", "case:2", "cat", "/one", ok=True).out == "1\n"


HEREDOCS = """# syntax=docker/dockerfile:1
FROM box:1 AS base
ARG WHO=world
ENV GREET="hello there" GREET2=$WHO
RUN <<EOF
set -e
echo one > /one
echo "two $WHO" >> /one
EOF
RUN <<-EOT cat > /three
\ttabs $GREET
\t$(echo sub)
\tEOT
RUN cat <<A > /a && \\
  cat <<'B' > /b
in a $WHO
A
in b $WHO
B
COPY --chown=5 \\
  --link sub/f /linked
RUN stat -c %u /linked | grep 5 && echo "no <<EOF here" $((1<<2)) > /none
COPY <<EOF /conf/app.conf
greet="$GREET" $GREET2
who=${WHO:-none} ${GREET:+set} \\$kept cost 5$
EOF
FROM BASE
COPY --link=true --chown=5:6 \\
  --link --chmod=0750 <<"one.sh" sub/f <<-two.txt /scripts/
#!/bin/sh
echo $1
one.sh
\tinherits ${GREET}
\ttwo.txt
RUN <<EOF
#!/bin/cat
as a script
EOF
SHELL ["/bin/sh", "-ec"]
RUN <<EOF
echo kept > /shell
false
echo and on
EOF
"""


@b.deadline(180)
def test_heredocs_are_what_BuildKit_makes_of_them():
    base()
    top = context(HEREDOCS)
    r = b.berth("build", "--build-arg", "WHO=all", top, timeout=120)
    assert "\nas a script\n" in r.err and r.code == 2 and "exit status 1" in r.err, r     # SHELL is the script's
    b.write(top + "/Dockerfile", HEREDOCS.replace("false\n", "true\n"))
    b.berth("build", "-q", "-t", "docs:1", "--build-arg", "WHO=all", top, ok=True, timeout=120)
    assert b.berth("run", "docs:1", "cat", "/one", "/three", "/a", "/b", "/none", "/shell", ok=True).out == (
        "one\ntwo all\ntabs hello there\nsub\nin a all\nin b $WHO\nno <<EOF here 4\nkept\n")
    assert b.berth("run", "docs:1", "cat", "/conf/app.conf", "/scripts/two.txt", "/scripts/one.sh", "/scripts/f", ok=True).out == (
        'greet="hello there" all\nwho=all set $kept cost 5$\ninherits hello there\n#!/bin/sh\necho $1\nfrom the context\n')
    shown = b.berth("run", "docs:1", "stat", "-c", "%u %g %a %n", "/conf/app.conf", "/scripts/one.sh", "/scripts/two.txt", "/scripts/f", ok=True).out
    assert shown == "0 0 644 /conf/app.conf\n5 6 750 /scripts/one.sh\n5 6 750 /scripts/two.txt\n5 6 750 /scripts/f\n", shown


@b.deadline(240)
def test_a_Dockerfile_may_be_outside_of_its_context():
    base()
    top, other = context("FROM nosuch:1\n"), b.tmpdir("other")
    b.write(other + "/Other", "FROM box:1\nCOPY sub/f /f\n")
    for words, given in (((f"{other}/Other", top), ""), (("-", top), "FROM box:1\nCOPY sub/f /f\n")):
        b.berth("build", "-q", "-t", "away:1", "-f", *words, input=given, ok=True, timeout=120)
        assert b.berth("run", "away:1", "cat", "/f", ok=True).out == "from the context\n"
    b.write(top + "/sub/In", "FROM box:1\nCOPY sub/f /f\n")
    b.berth("build", "-q", "-f", "sub/In", "-", input=tar_of(top), ok=True, timeout=120)
    # the sender of an archive names no file of the host
    b.one_line_error(b.berth("build", "-f", f"{other}/Other", "-", input=tar_of(top)), 125, "Dockerfile")
    b.one_line_error(b.berth("build", "-f", "-", "-", input=tar_of(top)), 2, "not both")
    door("build", "--network", "none", "-q", "-t", "door:1", "-f", f"{other}/Other", top, ok=True, timeout=120)


@b.deadline(240)
def test_images_that_only_look_like_a_base_are_left_alone():
    base()
    for n in range(40):
        b.berth("image", "tag", "box:1", f"app:{n}", ok=True)
    top = context("ARG KIND=app\nARG N\nFROM ${KIND}:${N:-7} AS first\nWORKDIR /app\nRUN echo app > /app/f\n"
                  "FROM box:1\nCOPY --from=first /app/f /f\nCOPY --from=app:8 /etc/group /g\nRUN --mount=type=bind,from=app:9,target=/m cat /m/etc/group > /h\n")
    b.berth("build", "-q", "-t", "used:1", "--build-arg", "N=6", top, ok=True, timeout=120)
    assert b.berth("run", "used:1", "cat", "/f", ok=True).out == "app\n"


@b.deadline(120)
def test_a_build_that_fills_its_disk_says_which_key_has_more():
    base()
    top = context("FROM box:1\nRUN dd if=/dev/zero of=/big bs=1M count=200\n")
    b.one_line_error(b.berth("build", "-q", "--disk", "64m", top, timeout=120), 2, "[build] disk")


@b.deadline(120)
def test_a_build_that_takes_too_long_is_ended():
    base()
    top = context("FROM box:1\nRUN echo sleeps; sleep 1000\n")
    env = {"BERTH_CONFIG": b.write(b.tmp("short.toml"), '[build]\ntime_limit = "3s"\n', 0o600)}
    b.one_line_error(b.berth("build", "-q", top, env=env, timeout=60), 124, "[build] time_limit")
    assert not b.berth("ps", "-aq").out


@b.deadline(240)
def test_a_build_by_the_socket_takes_hosts_shm_and_all_files_that_were_sent():
    base()
    with Engine() as d:
        top = context("FROM box:1\nCOPY . /all\nRUN ls -A /all >/listed; grep -w one.test /etc/hosts >/seen; df -k /dev/shm | tail -n 1 >>/seen; "
                      "ulimit -n >>/seen; ulimit -Hn >>/seen; grep Cpus_allowed_list /proc/self/status >>/seen\n")
        b.write(top + "/.dockerignore", "sub\n.docker*\n")
        said = lines(d.good("POST", "/build?networkmode=none&cpusetcpus=0&cpuquota=50000&cpuperiod=100000&memory=268435456&memswap=300000000&cpushares=512&"
                            "ulimits=%5B%7B%22Name%22%3A%22nofile%22%2C%22Soft%22%3A500%2C%22Hard%22%3A600%7D%5D&shmsize=8388608&extrahosts=one.test:10.1.2.3&extrahosts=two.test:10.1.2.4", tar_of(top), timeout=200))
        texts = "".join(x.get("stream", "") for x in said)
        made = [x["aux"]["ID"] for x in said if "aux" in x]
        assert len(made) == 1 and texts.rstrip().endswith(f"Successfully built {made[0][7:19]}"), said
        shown = d.good("GET", f"/images/{made[0]}/json")
        assert shown["RepoTags"] == [] and not [k for k in shown["Config"]["Labels"] or {} if "buildah" in k], shown
        out = b.berth("run", made[0], "cat", "/all/sub/f", "/seen", ok=True).out
        assert b.berth("run", made[0], "cat", "/listed", ok=True).out.split() == ["Dockerfile", "sub"]
        assert out.startswith("from the context\n10.1.2.3\tone.test\n") and " 8192 " in out and out.endswith("\n500\n600\nCpus_allowed_list:\t0\n"), out
        iid = b.tmp("iid")
        b.write(top + "/Dockerfile", "FROM box:1\nRUN grep -w one.test /etc/hosts >/seen; df -k /dev/shm | tail -n 1 >>/seen; ulimit -n >>/seen\n")
        door("build", "--network", "none", "-q", "--add-host", "one.test:10.1.2.3", "--shm-size", "8m", "--ulimit", "nofile=500", "--iidfile", iid, top, ok=True, timeout=120)
        with open(iid, encoding="ascii") as f:
            out = b.berth("run", f.read(), "cat", "/seen", ok=True).out
        files = b.tmp("files.tar")
        door("build", "--network", "none", "-q", "--add-host", "one.test:10.1.2.3", "--shm-size", "8m", "--ulimit", "nofile=500", "--output", f"type=tar,dest={files}", top, ok=True, timeout=120)
        with tarfile.open(files) as t:
            assert t.extractfile("seen").read().startswith(b"10.1.2.3\tone.test\n")
        for wrong in ("type=local,dest=x", "type=tar", "out", "type=tar,dest=-"):
            r = door("build", "--network", "none", "-o", wrong, top)
            assert r.returncode != 0 and "type=tar,dest=FILE" in r.stderr, (wrong, r)
        assert out.startswith("10.1.2.3\tone.test\n") and " 8192 " in out and out.endswith("\n500\n"), out
        b.write(top + "/Dockerfile", 'FROM box:1\nRUN ["sh", "-c", "exit 9"]\n')
        failed = lines(d.good("POST", "/build?networkmode=none", tar_of(top), timeout=200))[-1]
        assert failed["errorDetail"] == {"code": 9, "message": "The command 'sh -c exit 9' returned a non-zero code: 9"}, failed
        status, said, _ = d.api("POST", "/build?networkmode=nosuch", tar_of(top))
        assert status >= 400 and "network nosuch not found" in said["message"], (status, said)


@b.deadline(300)
def test_add_fetches_an_address_by_the_network_of_the_build_alone():
    """buildah fetches in the network of the build: what no sandbox reaches, ADD does not reach either (S50)."""
    need_bridge()
    with Lab(forwarding=True) as lab, Engine() as d:
        b.berth("image", "import", b.busybox_rootfs("box"), "box:1", ok=True)
        top = b.tmpdir("context")
        b.write(top + "/Dockerfile", f"FROM box:1\nADD http://{OUTSIDE}/f /got\nADD --chown=3:4 http://{OUTSIDE}/g /dir/\n")
        lines(d.good("POST", "/build?t=added:1&networkmode=bridge", tar_of(top), timeout=250))
        out = b.berth("run", "added:1", "cat", "/got", "/dir/g", ok=True).out
        assert out == f"hello from {OUTSIDE}\n" * 2, out
        assert set(lab.web.peers) == {HOST}, lab.web.peers
        for mode, address in (("none", OUTSIDE), ("bridge", METADATA), ("bridge", "127.0.0.1"), ("bridge", HOST)):
            b.write(top + "/Dockerfile", f"FROM box:1\nADD http://{address}/f /got\n")
            said = lines(d.good("POST", f"/build?networkmode={mode}&nocache=1", tar_of(top), timeout=250))[-1]
            assert "errorDetail" in said, (mode, address, said)
        assert not any(s.seen for s in lab.forbidden), "an address that no sandbox may reach"
