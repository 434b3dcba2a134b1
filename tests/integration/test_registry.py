# SPDX-License-Identifier: Apache-2.0
"""Pull, push and copy with a real registry, beside skopeo and umoci.  Attacks S17 of SECURITY.md."""
import json
import os
import random
import re
import stat
import subprocess
import tarfile
import termios

import berthtest as b
import ocilayout as oci
import registry as reg
from treefacts import same, tree

COST = 21

DIR, LNK, HARD, FIFO = ({"type": t} for t in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE))


def noise(n, seed=1):
    return random.Random(seed).randbytes(n)


def busybox():
    with open(b.BUSYBOX, "rb") as f:
        return f.read()


def rich_tars():
    """Three layers with all that a tree can have, which run."""
    one = oci.tar_bytes([
        ("./", {**DIR, "mode": 0o755, "mtime": 1600000000}, None), ("bin", {**DIR, "mode": 0o755}, None),
        ("bin/busybox", {"mode": 0o755}, busybox()), ("bin/sh", {**LNK, "linkname": "busybox"}, None),
        ("etc", {**DIR, "mode": 0o750, "uid": 3, "gid": 4, "mtime": 1111111111}, None),
        ("etc/owned", {"uid": 1000, "gid": 1001, "mode": 0o640, "mtime": 1234567890}, b"owned\n"),
        ("etc/set", {"mode": 0o4755}, b"set-id\n"), ("etc/gone", {}, b"gone"), ("etc/changed", {}, b"before"),
        ("tmp", {**DIR, "mode": 0o1777}, None), ("pipe", {**FIFO, "mode": 0o622}, None),
        ("etc/hard", {**HARD, "linkname": "etc/owned"}, None),
        ("etc/x", {"pax_headers": {"SCHILY.xattr.user.colour": "blue"}}, b"with xattr"),
        ("dir", {**DIR, "mode": 0o700}, None), ("dir/a", {}, b"a"), ("dir/b", {}, b"b")])
    two = oci.tar_bytes([("etc/.wh.gone", {}, b""), ("etc/changed", {"mode": 0o600}, b"after"), ("dir", DIR, None),
                         ("dir/.wh..wh..opq", {}, b""), ("dir/c", {}, b"c"), ("big", {}, noise(1 << 20)),
                         ("tmp/in", {}, b"in")])
    three = oci.tar_bytes([("last", {"mtime": 987654321}, b"last\n"), ("last2", {**HARD, "linkname": "last"}, None),
                           ("dangling", {**LNK, "linkname": "/nowhere", "uid": 5, "gid": 6}, None)])
    return [one, two, three]


def layer_dirs(state, record):
    return [f"{state}/store/layers/{one['chain_id'][7:]}" for one in record["layers"]]


def state(name="state"):
    return os.path.join(b.root(), name) if name == "state" else b.tmp(name)


def inspect(ref, env):
    return json.loads(b.berth("image", "inspect", "--json", ref, env=env, ok=True).out)


def layout(name, tars, **kw):
    oci.Layout(b.tmp(name)).image(tars, ref="t", **kw)
    return b.tmp(name) + ":t"


def lines(result):
    return [json.loads(x) for x in result.out.splitlines()]


def no_problems(env=None):
    r = b.berth("image", "fsck", env=env)
    b.expect(r.code == 0 and " 0 problems" in r.out, r, "the store is damaged")


# ---- there and back -----------------------------------------------------------------------

@b.deadline(120)
def test_an_image_goes_there_and_back_as_skopeo_and_umoci_see_it():
    reg.need("umoci")
    with reg.Registry() as r:
        env = reg.config(insecure=[r.host])
        elsewhere = dict(env, BERTH_STATE_DIR=state("elsewhere"))
        for name, compress, options in (("gz", "gzip", ()), ("zst", "zstd", ()), ("docker", "gzip", ("--format", "v2s2")),
                                        ("plain", "none", ())):
            digest = r.push(layout(name, rich_tars(), compress=compress), f"{name}/app:1", *options)
            done = lines(b.berth("pull", "--json", r.name(f"{name}/app:1"), env=env, ok=True))[-1]
            assert done["digest"] == digest and done["event"] == "done" and done["layers"] == 3, (done, digest)
            out = b.run(r.name(f"{name}/app:1"), "/bin/busybox", "cat", "/last", "/etc/changed", env=env, ok=True).out
            assert out == "last\nafter", out
            pushed = lines(b.berth("push", "--json", r.name(f"{name}/app:1"), r.name(f"{name}/back:2"), env=env, ok=True))[-1]
            assert pushed["digest"] == digest == r.digest(f"{name}/back:2"), (pushed, digest)
            # the blobs are in that registry under a name of ours: mounted, not sent (but for the config)
            assert pushed["sent_bytes"] < 2000 and pushed["mounted"] == 3, pushed
            b.berth("pull", "--quiet", r.name(f"{name}/back:2"), env=elsewhere, ok=True)
            here, there = inspect(r.name(f"{name}/app:1"), env), inspect(r.name(f"{name}/back:2"), elsewhere)
            assert here["digest"] == there["digest"] == digest
            for x, y in zip(layer_dirs(state(), here), layer_dirs(state("elsewhere"), there)):
                same(tree(x), tree(y), name)
        no_problems(env)
        no_problems(elsewhere)
        # and as others unpack it
        subprocess.run(["skopeo", "copy", "-q", "--src-tls-verify=false", "docker://" + r.name("gz/back:2"),
                        "oci:" + b.tmp("theirs") + ":t"], check=True)
        subprocess.run(["umoci", "unpack", "--image", b.tmp("theirs") + ":t", b.tmp("bundle")], check=True, capture_output=True)
        os.mkdir(b.tmp("mnt"))
        lower = ":".join(reversed(layer_dirs(state("elsewhere"), inspect(r.name("gz/back:2"), elsewhere))))
        subprocess.run(["mount", "-t", "overlay", "-o", "ro,lowerdir=" + lower, "none", b.tmp("mnt")], check=True)
        try:
            same(tree(b.tmp("mnt")), tree(b.tmp("bundle") + "/rootfs"), "umoci")
        finally:
            subprocess.run(["umount", b.tmp("mnt")], check=True)


def test_a_push_sends_what_is_missing_only():
    with reg.Registry() as r:
        env = reg.config(insecure=[r.host])
        tars = rich_tars()
        b.berth("image", "import", layout("a", tars).rsplit(":", 1)[0], "mine:1", env=env, ok=True)
        first = lines(b.berth("push", "--json", "mine:1", r.name("x/y:1"), env=env, ok=True))[-1]
        assert first["existed"] == 0 and first["sent_bytes"] > 1 << 20, first
        again = lines(b.berth("push", "--json", "mine:1", r.name("x/y:2"), env=env, ok=True))[-1]
        assert again["existed"] == 4 and again["sent_bytes"] == 0, again
        assert r.digest("x/y:1") == r.digest("x/y:2") == first["digest"]
        by_digest = r.name("x/z@") + first["digest"]
        assert b.berth("push", "--quiet", "mine:1", by_digest, env=env, ok=True).out.strip() == first["digest"]
        wrong = b.berth("push", "mine:1", r.name("x/z@sha256:") + "0" * 64, env=env)
        b.one_line_error(wrong, 2, "has digest")
        b.one_line_error(b.berth("push", "absent:1", r.name("x/y:3"), env=env), 125, "not in the store")
        b.one_line_error(b.berth("push", "mine:1", "127.0.0.1:1/x/y", env=env), 125, "127.0.0.1:1")


def index_layout(name):
    """An index of two platforms, and one platform twice within a nested one."""
    lay = oci.Layout(b.tmp(name))
    entries = []
    for arch in (oci.ARCH, "s390x"):
        desc, diff = lay.layer(oci.tar_bytes([("arch", {}, arch.encode())]))
        c = dict(lay.config([diff]), architecture=arch)
        entries.append(lay.desc(json.dumps(lay.manifest(c, [desc])).encode(), oci.T_MANIFEST,
                                platform={"os": "linux", "architecture": arch}))
    index = json.dumps({"schemaVersion": 2, "mediaType": oci.T_INDEX, "manifests": entries}).encode()
    lay.index(lay.desc(index, oci.T_INDEX, annotations={"org.opencontainers.image.ref.name": "t"}))
    return b.tmp(name) + ":t", oci.digest(index), entries


def test_an_index_gives_the_image_of_the_platform():
    with reg.Registry() as r:
        env = reg.config(insecure=[r.host])
        path, index, entries = index_layout("multi")
        assert r.push(path, "multi:1", "--all") == index
        done = lines(b.berth("pull", "--json", r.name("multi:1"), env=env, ok=True))[-1]
        assert (done["digest"], done["index_digest"]) == (entries[0]["digest"], index), done
        # a look fetches nothing: the index as it is, or the image behind a digest
        asked = len(r.requests("blobs"))
        seen = json.loads(b.berth("pull", "--dry-run", "--json", r.name("multi:1"), env=env, ok=True).out)
        assert (seen["digest"], seen["media_type"]) == (index, oci.T_INDEX) and seen["size"] > 0 and seen["name"] == r.name("multi:1"), seen
        platforms = [f"{one['os']}/{one['architecture']}" for one in seen["platforms"]]
        assert "linux/amd64" in platforms and len(platforms) > 1 and len(r.requests("blobs")) == asked, seen
        one = b.berth("pull", "--dry-run", r.name("multi@") + entries[0]["digest"], env=env, ok=True).out.split()
        assert one[1:] == [entries[0]["digest"], "linux/amd64"], one
        assert b.berth("pull", "-n", "-q", r.name("multi:1"), env=env, ok=True).out == index + "\n"
        b.one_line_error(b.berth("pull", "-n", r.name("multi:none"), env=env), 125, "none")
        b.one_line_error(b.berth("pull", "-n", "--platform", "linux/amd64", r.name("multi:1"), env=env), 2, "--dry-run")
        pinned = r.name("multi@") + index
        assert lines(b.berth("pull", "--json", pinned, env=env, ok=True))[-1]["digest"] == entries[0]["digest"]
        # found by the digest that was asked for, the index's, and by the manifest's
        assert inspect(pinned, env)["digest"] == inspect(r.name("multi@") + entries[0]["digest"], env)["digest"]
        assert inspect(r.name("multi:1@") + index, env)["name"] == r.name("multi:1")
        other = b.berth("pull", "--json", "--platform", "linux/s390x", r.name("multi:1"), env=env, ok=True)
        assert lines(other)[-1]["digest"] == entries[1]["digest"]
        b.one_line_error(b.berth("pull", "--platform", "linux/mips", r.name("multi:1"), env=env), 125, "linux/s390x",
                         "--platform")
        # a copy of all of it is the same index
        copied = b.berth("image", "copy", "--all", "--quiet", "docker://" + r.name("multi:1"), "docker://" + r.name("copy:1"),
                         env=env, ok=True)
        assert copied.out.strip() == index == r.digest("copy:1")
        one = b.berth("image", "copy", "--quiet", "docker://" + r.name("multi:1"), "docker://" + r.name("one:1"), env=env, ok=True)
        assert one.out.strip() == entries[0]["digest"] == r.digest("one:1")
        b.berth("image", "copy", "docker://" + r.name("multi:1"), "local:5", env=env, ok=True)
        b.berth("image", "copy", "local:5", "renamed", env=env, ok=True)
        assert inspect("renamed", env)["digest"] == entries[0]["digest"]
        no_problems(env)


def test_a_copy_between_registries_sends_and_keeps_the_digest():
    with reg.Registry() as r, reg.Registry() as other:
        env = reg.config(insecure=[r.host, other.host])
        digest = r.push(layout("a", rich_tars()), "a:1")
        done = lines(b.berth("image", "copy", "--json", "docker://" + r.name("a:1"), "docker://" + other.name("b:2"), env=env,
                             ok=True))[-1]
        assert done["digest"] == digest == other.digest("b:2") and done["mounted"] == 0 and done["sent_bytes"] > 1 << 20, done
        within = lines(b.berth("image", "copy", "--json", "docker://" + other.name("b:2"), "docker://" + other.name("c:3"),
                               env=env, ok=True))[-1]
        assert within["mounted"] == 4 and within["sent_bytes"] == 0 and other.digest("c:3") == digest, within
        # nothing of it stayed here
        assert not os.listdir(state() + "/store/blobs/sha256") and not os.listdir(state() + "/store/tmp")


# ---- logins -----------------------------------------------------------------------------------

def test_logins_are_tried_kept_and_forgotten():
    with reg.Registry("me", "pass:word") as r:
        env = reg.config(insecure=[r.host])
        digest = r.push(layout("a", rich_tars()), "private/a:1")
        b.one_line_error(b.berth("pull", r.name("private/a:1"), env=env), 125, "berth login " + r.host)
        auth = os.path.join(state(), "auth.json")
        bad = b.berth("login", "-u", "me", "--password-stdin", r.host, input="wrong-canary\n", env=env)
        b.one_line_error(bad, 125, "refuses the user name or password")
        assert not os.path.exists(auth) and "canary" not in bad.err
        b.one_line_error(b.berth("login", "--password-stdin", r.host, input="x", env=env), 2, "--username")
        b.one_line_error(b.berth("login", "-u", "me", r.host, input="", env=env), 2, "no password")
        ok = b.berth("login", "-u", "me", "--password-stdin", r.host, input="pass:word\n", env=env, ok=True)
        assert "logged in" in ok.out and "pass:word" not in ok.out + ok.err
        assert stat.S_IMODE(os.stat(auth).st_mode) == 0o600
        assert b.berth("pull", "--quiet", r.name("private/a:1"), env=env, ok=True).out.strip() == digest
        b.berth("push", r.name("private/a:1"), r.name("private/b:1"), env=env, ok=True)
        assert r.digest("private/b:1") == digest
        # one that others may read is not used
        os.chmod(auth, 0o644)
        b.one_line_error(b.berth("pull", r.name("private/a:1"), env=env), 125, "0600")
        os.chmod(auth, 0o600)
        out = b.berth("logout", "--json", r.host, env=env, ok=True).out
        assert json.loads(out) == {"registry": r.host, "logged_out": True}
        b.one_line_error(b.berth("pull", r.name("private/a:1"), env=env), 125, "login")
        # docker's own
        reg.log_in(r.host, "me", "pass:word", b.tmp("docker"))
        os.rename(b.tmp("docker") + "/auth.json", b.tmp("docker") + "/config.json")
        b.berth("image", "rm", r.name("private/a:1"), env=env, ok=True)
        b.berth("pull", r.name("private/a:1"), env=dict(env, DOCKER_CONFIG=b.tmp("docker")), ok=True)
        os.unlink(auth)


def test_a_password_typed_is_not_shown():
    import pty
    with reg.Registry("me", "typed-secret") as r:
        env = b.environment(reg.config(insecure=[r.host]))
        pid, master = pty.fork()
        if not pid:
            os.execve(b.BERTH, ["berth", "login", r.host], env)
        said = b""
        for prompt, answer in ((b"Username: ", b"me\n"), (b"Password: ", b"wrong\x15typed-secrets\x7f\n")):
            while not said.endswith(prompt):
                said += os.read(master, 100)
            os.write(master, answer)
        while b"logged in" not in said:
            said += os.read(master, 100)
        assert os.waitpid(pid, 0)[1] == 0 and b"typed" not in said, said
        os.close(master)
        os.unlink(state() + "/auth.json")
        # Ctrl-C leaves the terminal as it was
        master, slave = pty.openpty()
        before = termios.tcgetattr(slave)
        p = b.start("login", "-u", "me", r.host, env=env, stdin=slave)
        b.read_until(p.stderr, b"Password: ")
        os.write(master, b"abc\x03")
        assert p.wait(20 * b.SLOW) == 2, p.stderr.read()
        b.stop(p)
        assert termios.tcgetattr(slave) == before
        os.close(master)
        os.close(slave)


# ---- where it comes from -----------------------------------------------------------------------

def test_mirrors_come_first_and_the_registry_last():
    with reg.Registry() as main, reg.Registry() as mirror:
        env = reg.config(insecure=[main.host, mirror.host], mirrors=[f"{main.host}={mirror.host}/cache", "docker.io=" + mirror.host],
                         retries=0)
        only_there = mirror.push(layout("a", [oci.tar_bytes([("a", {}, noise(50000))])]), "cache/team/a:1")
        both = main.push(layout("b", [oci.tar_bytes([("b", {}, noise(50000, 2))])]), "team/b:1")
        hub = mirror.push(layout("c", [oci.tar_bytes([("c", {}, b"c")])]), "library/short:1")
        assert b.berth("pull", "--quiet", main.name("team/a:1"), env=env, ok=True).out.strip() == only_there
        assert not main.requests("team/a"), "the registry was asked although its mirror had it"
        r = b.berth("pull", "--json", main.name("team/b:1"), env=env, ok=True)
        assert lines(r)[-1]["digest"] == both and mirror.requests("cache/team/b")
        b.expect(any(x["event"] == "retry" and main.host in x["why"] for x in lines(r)), r, "the way out is not told")
        assert b.berth("pull", "--quiet", "short:1", env=env, ok=True).out.strip() == hub
        assert inspect("docker.io/library/short:1", env)["name"] == "short:1"
        # a mirror that is away, and one that lies about bytes it is asked for by digest
        gone = reg.config(insecure=[main.host, mirror.host], mirrors=[main.host + "=127.0.0.1:1"], retries=0)
        b.berth("pull", main.name("team/b:1"), env=gone, ok=True)
        with reg.Mock() as liar:
            lies = reg.config(insecure=[main.host, liar.host], mirrors=[f"{main.host}={liar.host}"], retries=0)
            assert b.berth("pull", "--quiet", main.name("team/b@") + both, env=lies, ok=True).out.strip() == both
            assert liar.seen
        b.one_line_error(b.berth("pull", "x:1", env=reg.config(mirrors=["docker.io"])), 125, "registry.mirrors")


def test_plain_http_is_for_those_listed():
    with reg.Registry() as r:
        digest = r.push(layout("a", rich_tars()), "a:1")
        b.one_line_error(b.berth("pull", r.name("a:1")), 125, "--insecure", "registry.insecure")
        assert b.berth("pull", "--insecure", "--quiet", r.name("a:1"), ok=True).out.strip() == digest


def test_run_and_create_fetch_what_is_missing():
    with reg.Registry() as r:
        env = reg.config(insecure=[r.host])
        r.push(layout("a", rich_tars()), "a:1")
        ref = r.name("a:1")
        b.one_line_error(b.run("--pull", "never", ref, "/bin/sh", env=env), 125, "not in the store", "berth pull")
        b.one_line_error(b.berth("create", "--pull", "never", ref, env=env), 125, "not in the store")
        b.one_line_error(b.run("--pull", "sometimes", ref, "/bin/sh", env=env), 2, "missing, always or never")
        out = b.run("--json", ref, "/bin/busybox", "echo", "from the image", env=env, ok=True)
        assert out.out.splitlines()[0] == "from the image" and out.err == "", out
        # the store has it now: nobody is asked
        asked = len(r.requests("GET /v2/"))
        b.run(ref, "/bin/busybox", "true", env=env, ok=True)
        assert len(r.requests("GET /v2/")) == asked
        b.run("--pull", "always", ref, "/bin/busybox", "true", env=env, ok=True)
        assert len(r.requests("GET /v2/")) > asked
        made = b.berth("create", "--pull", "always", "--name", "box", ref, env=env, ok=True)
        b.berth("exec", "box", "/bin/busybox", "true", env=env, ok=True)
        b.berth("rm", "--force", made.out.strip(), env=env, ok=True)
        failed = b.run("--json", r.name("a:nope"), "/bin/sh", env=env)
        error = json.loads(failed.err)["error"]
        assert error["code"] == "not-found" and "pull image" in error["message"] and failed.code == 125, error
        never = reg.config("never.toml", insecure=[r.host], pull="never")
        b.one_line_error(b.run(r.name("other:1"), "/bin/sh", env=never), 125, "not in the store")


# ---- when it breaks -------------------------------------------------------------------------------

def test_a_broken_blob_goes_on_where_it_broke():
    with reg.Registry() as r, reg.Cutter(r.port, cut_bytes=600000, cuts=4) as proxy:
        size = 3 << 20
        digest = r.push(layout("a", [oci.tar_bytes([("a", {}, noise(size))])]), "a:1")
        env = reg.config(insecure=[f"127.0.0.1:{proxy.port}"], retries=5)
        p = b.berth("pull", "--json", f"127.0.0.1:{proxy.port}/a:1", env=env, ok=True)
        assert lines(p)[-1]["digest"] == digest
        ranges = [q for q in proxy.requests if "\nRange: bytes=" in q.replace("\r", "")]
        assert len(ranges) >= 4 and proxy.cuts == 0, proxy.requests
        # what came before a cut did not come again; what the sockets held may have
        assert proxy.passed < size * 1.5, proxy.passed
        assert any(x["event"] == "retry" for x in lines(p))
        no_problems(env)
    # and one that breaks off for good says so
    with reg.Registry() as r, reg.Cutter(r.port, cut_bytes=100000, cuts=1000) as proxy:
        r.push(layout("b", [oci.tar_bytes([("a", {}, noise(1 << 20))])]), "a:1")
        env = reg.config(insecure=[f"127.0.0.1:{proxy.port}"], retries=1)
        b.one_line_error(b.berth("pull", f"127.0.0.1:{proxy.port}/a:1", env=env), 125, "layer 1 of 1")


def test_pulls_of_one_image_at_once_fetch_each_layer_once():
    with reg.Registry() as r:
        env = reg.config(insecure=[r.host])
        digest = r.push(layout("a", [oci.tar_bytes([(f"f{i}", {}, noise(300000, i))]) for i in range(5)]), "a:1")
        ps = [b.start("pull", "--quiet", r.name("a:1"), env=env) for _ in range(8)]
        for p in ps:
            out, err = p.communicate(timeout=50 * b.SLOW)
            assert p.returncode == 0 and out.decode().strip() == digest, (out, err)
        fetched = [x for x in r.requests('"GET /v2/a/blobs/') if '" 200 ' in x and "berth" in x]
        blobs = set(json.loads(r.skopeo("inspect", "--raw", "docker://" + r.name("a:1")))["layers"][i]["digest"] for i in range(5))
        for one in blobs:
            n = sum(one in x for x in fetched)
            assert n == 1, (one, n)
        no_problems(env)


def test_garbage_is_collected_beside_a_pull_and_damage_is_fetched_again():
    with reg.Registry() as r:
        env = reg.config(insecure=[r.host], parallel=2)
        r.push(layout("a", [oci.tar_bytes([(f"f{i}", {}, noise(300000, i))]) for i in range(6)]), "a:1")
        p = b.start("pull", "--json", r.name("a:1"), env=env)
        assert p.stdout.readline()
        others = [b.start("image", *words, env=env) for words in (["gc"], ["prune"], ["gc"])]
        out, err = p.communicate(timeout=50 * b.SLOW)
        assert p.returncode == 0, (out, err)
        for o in others:
            told = o.communicate(timeout=50 * b.SLOW)
            assert o.returncode == 0 or b"in use" in told[1] or b"busy" in told[1], told
        no_problems(env)
        layers = inspect(r.name("a:1"), env)["layers"]
        top = state() + "/store/"
        # a flipped bit, a cut blob, one that is gone: found, removed, and fetched again
        for i, change in enumerate((lambda f: f.write(b"x" * 10), lambda f: f.truncate(100), lambda f: os.unlink(f.name))):
            with open(f"{top}blobs/{layers[i]['digest'].replace(':', '/')}", "r+b") as f:
                change(f)
        found = b.berth("image", "fsck", env=env)
        assert found.code == 125 and all(one["digest"][7:] in found.out for one in layers[:3]), found
        b.berth("image", "fsck", "--repair", env=env)
        last = lines(b.berth("pull", "--json", r.name("a:1"), env=env, ok=True))
        assert sum(x.get("state") == "exists" for x in last) == 3, last
        no_problems(env)


@b.deadline(150)
def test_a_pull_that_is_killed_leaves_whole_layers_only():
    """SIGKILL after each of 20 events of a pull, then SIGTERM: which keeps what is whole."""
    with reg.Registry() as r:
        env = reg.config(insecure=[r.host], parallel=4)
        tars = [oci.tar_bytes([(f"d{i}", DIR, None)] + [(f"d{i}/f{k}", {}, noise(20000, i * 100 + k)) for k in range(8)])
                for i in range(12)]
        r.push(layout("a", tars), "a:1")
        b.berth("pull", r.name("a:1"), env=dict(env, BERTH_STATE_DIR=state("right")), ok=True)
        record = inspect(r.name("a:1"), dict(env, BERTH_STATE_DIR=state("right")))
        right = {os.path.basename(d): tree(d) for d in layer_dirs(state("right"), record)}
        layers = state() + "/store/layers"
        for point in range(1, 21):
            p = b.start("pull", "--json", r.name("a:1"), env=env)
            for _ in range(point):
                assert p.stdout.readline(), f"fewer than {point} events"
            b.stop(p)
            b.wait_for(lambda: set(b.proc.descendants(os.getpid())) <= {r.process.pid}, 10, "the end of all it had started")
            b.proc.reap_orphans(os.getpid())
            for one in os.listdir(layers) if os.path.isdir(layers) else []:
                same(tree(f"{layers}/{one}"), right[one], f"layer {one} after a kill at event {point}")
            no_problems(env)
            assert not os.listdir(state() + "/store/tmp"), "the next writer clears what the dead one left"
        p = b.start("pull", "--json", r.name("a:1"), env=env)
        done = 0
        while done < 3:
            done += json.loads(p.stdout.readline()).get("state") == "done"
        p.terminate()
        p.stdout.read()
        code = b.stop(p)
        kept = os.listdir(layers)
        for one in kept:
            same(tree(f"{layers}/{one}"), right[one], f"layer {one} after SIGTERM")
        no_problems(env)
        last = lines(b.berth("pull", "--json", r.name("a:1"), env=env, ok=True))
        exists = sum(x.get("state") == "exists" for x in last)
        assert code in (-15, 0) and exists == len(kept), (code, exists, kept)
        assert sorted(os.listdir(layers)) == sorted(right)


@b.deadline(120)
def test_one_flipped_bit_in_any_blob_is_refused():
    with reg.Registry() as r:
        env = reg.config(insecure=[r.host], retries=0)
        r.push(layout("a", rich_tars()), "a:1")
        rng = random.Random(5)
        flips = 0
        for digest, path in sorted(r.blob_files().items()):
            size = os.path.getsize(path)
            for at in {0, size // 2, size - 1, rng.randrange(size)}:
                bit = 1 << rng.randrange(8)
                with open(path, "r+b") as f:
                    f.seek(at)
                    was = f.read(1)[0]
                    f.seek(at)
                    f.write(bytes([was ^ bit]))
                p = b.berth("pull", r.name("a:1"), env=env)
                b.expect(p.code == 125 and p.err.count("\n") == 1, p, f"bit {bit} of byte {at} of {digest} was taken")
                assert not b.berth("image", "ls", "--quiet", env=env, ok=True).out
                with open(path, "r+b") as f:
                    f.seek(at)
                    f.write(bytes([was]))
                b.berth("image", "gc", env=env, ok=True)
                flips += 1
        assert flips >= 16
        b.berth("pull", r.name("a:1"), env=env, ok=True)
        no_problems(env)


def test_the_process_that_speaks_with_the_network_has_nothing():
    def slow(q):
        if "/blobs/" in q.path and q.path.endswith(oci.digest(image.layers[0])[7:]):
            q.raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(image.layers[0]) + image.layers[0][:100])
            held.append(q)
            while not mock.closed and not let_go:
                b.time.sleep(0.01)
            q.raw(image.layers[0][100:])
            return True
        return False

    image, held, let_go = reg.Image(), [], []
    with reg.Mock(image, evil=slow) as mock:
        reg.log_in(mock.host)
        env = reg.config(insecure=[mock.host])
        p = b.start("pull", mock.host + "/a:1", env=env)
        b.wait_for(lambda: held, 10, "the layer's request")

        filters = int(re.search(r"Seccomp_filters:\t(\d+)", open(f"/proc/{p.pid}/status").read()).group(1))

        def looked_at():
            """name -> [(pid, status)] of those below, once the two that read hostile bytes are confined"""
            status = {}
            for pid in b.proc.descendants(p.pid):
                with open(f"/proc/{pid}/status") as f:
                    s = dict(x.split(":\t", 1) for x in f.read().splitlines() if ":\t" in x)
                status.setdefault(s["Name"], []).append((pid, s))
            confined = [x for _, x in status.get("berth-image", []) if int(x["Seccomp_filters"]) > filters]
            return status if len(confined) == 2 else None

        status = b.wait_for(looked_at, 20, "two confined processes")
        (pid, s), = status["berth-http"]
        assert s["Uid"].split() == ["65534"] * 4 and s["Gid"].split() == ["65534"] * 4 and not s["Groups"].strip(), s
        assert s["CapEff"].strip("0\n") == "" and s["CapPrm"].strip("0\n") == "" and s["NoNewPrivs"] == "1", s
        assert s["Seccomp"] == "2", s
        kinds = sorted(os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{pid}/fd"))
        assert all(k in ("/dev/null", "socket", "pipe", "anon_inode") for k in kinds), kinds
        with open(f"/proc/{pid}/environ") as f, open(f"/proc/{pid}/cmdline") as g:
            assert "canary" not in f.read() + g.read()
        # it dies: an error, and nothing stays
        b.proc.kill(pid)
        err = p.stderr.read().decode()
        assert b.stop(p, 0) == 125 and "berth-http ended unexpectedly" in err and err.count("\n") == 1, err
        let_go.append(1)
        b.berth("pull", mock.host + "/a:1", env=env, ok=True)
        os.unlink(state() + "/auth.json")


def test_a_full_disk_is_an_error_that_says_so():
    with reg.Registry() as r:
        env = reg.config(insecure=[r.host])
        r.push(layout("a", [oci.tar_bytes([("small", {}, b"s")]), oci.tar_bytes([("big", {}, noise(6 << 20))])]), "a:1")
        small = b.tmpdir("small", 0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "none", small], check=True)
        try:
            full = dict(env, BERTH_STATE_DIR=small)
            b.one_line_error(b.berth("pull", r.name("a:1"), env=full), 125, "layer 2 of 2", "no space left")
            no_problems(full)
            assert not b.berth("image", "ls", "--quiet", env=full, ok=True).out
        finally:
            subprocess.run(["umount", small], check=True)


def test_a_terminal_shows_bars_and_ends_clean():
    import pty
    image = reg.Image([oci.tar_bytes([(f"f{i}", {}, noise(200000, i))]) for i in range(3)])
    with reg.Mock(image) as m:
        env = reg.config(insecure=[m.host])
        master, slave = pty.openpty()
        p = b.start("pull", m.host + "/a:1", env=env, stderr=slave)
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        os.close(master)
        out = p.stdout.read().decode()
        assert b.stop(p) == 0 and "3 layers" in out, out
        text = shown.decode()
        assert "layers 3/3" in text and "[" in text and oci.digest(image.layers[0])[7:19] in text, text
        # as many lines taken away as were drawn: nothing stays
        drawn = text.count("\n")
        cleared = sum(int(x) for x in re.findall(r"\x1b\[(\d+)A", text))
        assert drawn == cleared, (drawn, cleared, text)


def test_the_examples_of_the_manual_work_with_a_registry_at_hand():
    import test_docs as docs
    with reg.Registry() as r:
        env = dict(b.environment(reg.config(insecure=[r.host])), PATH=b.BUILD + ":" + os.environ["PATH"])
        r.push(layout("a", rich_tars()), "debian:12")
        seen = 0
        for page in ("berth-pull.1", "berth-push.1", "berth-login.1"):
            b.berth("image", "copy", "docker://" + r.name("debian:12"), "app", env=env, ok=True)
            for block in docs.examples_of(os.path.join(b.TOP, "man", page)):
                for command in docs.join_lines(block):
                    line = command.replace("registry.example", r.host).replace("berth pull debian", "berth pull " + r.name("debian"))
                    line = line.replace("docker://debian", "docker://" + r.name("debian"))
                    b.write(b.tmp("token"), "secret\n")
                    p = subprocess.run(["sh", "-c", line], env=env, cwd=b.tmp(""), capture_output=True, text=True, timeout=60 * b.SLOW)
                    assert p.returncode == 0, (line, p)
                    seen += 1
        assert seen >= 5, seen
        os.unlink(state() + "/auth.json")
