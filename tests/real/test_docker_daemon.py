# SPDX-License-Identifier: Apache-2.0
"""
The calls of agents and runners by docker's own client, on Debian's dockerd 20.10 and on berthd: what they print, and every
field of what they inspect, is the same but for what tests/real/docker-differences lists with its reason.
"""
import fnmatch
import json
import os
import re
import subprocess

import berthtest as b
import debkit
from dockerlab import Engine

COST = 60
LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "docker-differences")
HERMES = ["--name", "hermes-1", "--label", "hermes-agent=1", "-w", "/tmp", "--cap-drop", "ALL", "--cap-add", "DAC_OVERRIDE", "--cap-add", "CHOWN",
          "--tmpfs", "/tmp:rw,nosuid,size=16m", "--security-opt", "no-new-privileges", "--cpus", "0.5", "--memory", "64m", "--pids-limit", "64",
          "--shm-size", "16m", "-e", "A=b", "--network=none"]
OPENCLAW = ["--name", "openclaw", "--label", "k=v", "--read-only", "--tmpfs", "/tmp", "--network", "none", "--env", "K=V", "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges", "--pids-limit", "50", "--memory", "64m", "--memory-swap", "64m", "--cpus", "1",
            "--ulimit", "nofile=100:200", "--workdir", "/tmp"]
# (name, words of docker, stdin); the words are split where they are one text
STEPS = [
    ("pull-missing", "image inspect nosuch", None),
    ("run-missing", "run --rm --pull never --network none nosuch true", None),
    ("openclaw-image", "image inspect box:1 --format {{.Id}}", None),
    ("openclaw-create", ["create", *OPENCLAW, "box:1", "sleep", "1000"], None),
    ("openclaw-start", "start openclaw", None),
    ("openclaw-running", ["inspect", "-f", "{{.State.Running}}", "openclaw"], None),
    ("openclaw-label", ["inspect", "-f", '{{ index .Config.Labels "k" }}', "openclaw"], None),
    ("openclaw-env", ["inspect", "-f", "{{range .Config.Env}}{{println .}}{{end}}", "openclaw"], None),
    ("openclaw-exec", ["exec", "-i", "-w", "/tmp", "-e", "P=q", "openclaw", "/bin/sh", "-c", "cat; pwd; echo $P $K; ulimit -n; echo err >&2; exit 3"], "in\n"),
    ("openclaw-read-only", ["exec", "openclaw", "sh", "-c", "echo x > /file"], None),
    ("openclaw-port", "port openclaw 6080/tcp", None),
    ("hermes-version", ["version", "--format", "{{.Server.Os}}"], None),
    ("hermes-entrypoint", ["image", "inspect", "box:1", "--format", "{{json .Config.Entrypoint}}"], None),
    ("hermes-probe", "run --rm --cpus 0.5 --memory 64m --pids-limit 32 --network none box:1 sleep 0", None),
    ("hermes-run", ["run", "-d", "--init", *HERMES, "box:1", "sleep", "1000"], None),
    ("hermes-exec", ["exec", "-e", "X=y", "hermes-1", "sh", "-c", "echo $A $X; pwd; id -u"], None),
    ("hermes-conflict", "create --name hermes-1 --network none box:1 true", None),
    ("hermes-stop", "stop -t 0 hermes-1", None),
    ("hermes-exec-stopped", "exec hermes-1 true", None),
    ("hermes-list", ["ps", "-a", "--filter", "label=hermes-agent=1", "--filter", "status=exited", "--format", "{{.Names}} {{.Image}} {{.State}}"], None),
    ("hermes-mode", ["inspect", "--format", "{{.HostConfig.NetworkMode}} {{.State.ExitCode}} {{.State.OOMKilled}}", "hermes-1"], None),
    ("hermes-start", "start hermes-1", None),
    ("hermes-remove", "rm -f hermes-1", None),
    ("hermes-gone", "inspect hermes-1", None),
    ("mini-run", "run -d --name mini -w /tmp --rm --network none box:1 sleep 1000", None),
    ("mini-exec", ["exec", "-w", "/", "-e", "K=V", "mini", "sh", "-c", "echo $K; nosuchprogram"], None),
    ("mini-missing", "exec mini nosuchprogram", None),
    ("mini-not-executable", "exec mini /etc/group", None),
    ("mini-stop", "stop -t 0 mini", None),
    ("run-streams", ["run", "--rm", "--network", "none", "box:1", "sh", "-c", "echo out; echo err >&2; exit 7"], None),
    ("run-stdin", "run --rm -i --network none box:1 cat", "one\ntwo\n"),
    ("run-signal", ["run", "--rm", "--network", "none", "box:1", "sh", "-c", "kill -9 $$"], None),
    ("run-missing-program", "run --rm --network none box:1 nosuchprogram", None),
    ("run-not-executable", "run --rm --network none box:1 /etc/group", None),
    ("run-user", ["run", "--rm", "-u", "1000:1000", "--network", "none", "box:1", "sh", "-c", "id -u; id -g"], None),
    ("run-entrypoint", ["run", "--rm", "--entrypoint", "echo", "--network", "none", "box:1", "a", "b"], None),
    ("run-workdir", "run --rm -w /made/by/run --network none box:1 pwd", None),
    ("run-hostname", "run --rm -h named --network none box:1 hostname", None),
    ("run-bad-memory", "run --rm --memory 1k --network none box:1 true", None),
    ("runner-create", "create --name Runner_JOB-1 --label job=1 --workdir /w -e A=b --entrypoint sleep --network none box:1 1000", None),
    ("runner-start", "start Runner_JOB-1", None),
    ("runner-ps", ["ps", "--all", "--filter", "label=job", "--format", "{{.Names}}"], None),
    ("runner-exec", ["exec", "-i", "--workdir", "/w", "-e", "CI=1", "Runner_JOB-1", "sh", "-c", "echo $CI; cat"], "script\n"),
    ("runner-logs", "logs --details Runner_JOB-1", None),
    ("runner-rename", "rename Runner_JOB-1 Other.Name", None),
    ("runner-pause", "pause Other.Name", None),
    ("runner-paused", ["inspect", "-f", "{{.State.Status}} {{.State.Paused}} {{.State.Running}}", "Other.Name"], None),
    ("runner-pause-again", "pause Other.Name", None),
    ("runner-unpause", "unpause Other.Name", None),
    ("runner-top", "top Other.Name -o comm", None),
    ("runner-diff", "diff Other.Name", None),
    ("runner-remove-running", "rm Other.Name", None),
    ("runner-kill", "kill Other.Name", None),
    ("runner-wait", "wait Other.Name", None),
    ("runner-kill-again", "kill Other.Name", None),
    ("runner-commit", ["commit", "-c", 'CMD ["cat", "/x"]', "-c", "LABEL a=b", "Other.Name", "made:1"], None),
    ("runner-image", ["image", "inspect", "-f", "{{json .Config.Cmd}} {{json .RepoTags}} {{.Os}}/{{.Architecture}}", "made:1"], None),
    ("runner-tag", "tag made:1 made:2", None),
    ("runner-untag", "rmi made:2", None),
    ("runner-rm", "rm --force Other.Name", None),
    ("volume-create", "volume create Data_1 --label k=v", None),
    ("volume-write", ["run", "--rm", "-v", "Data_1:/d", "--network", "none", "box:1", "sh", "-c", "echo kept > /d/f"], None),
    ("volume-read", "run --rm -v Data_1:/d:ro --network none box:1 cat /d/f", None),
    ("volume-inspect", ["volume", "inspect", "-f", "{{.Name}} {{.Driver}} {{.Scope}} {{json .Labels}}", "Data_1"], None),
    ("volume-list", "volume ls -q --filter label=k=v", None),
    ("volume-rm", "volume rm Data_1", None),
    ("volume-gone", "volume rm Data_1", None),
    ("network-gone", "network inspect nosuch", None),
    ("network-names", ["network", "inspect", "-f", "{{.Name}} {{.Driver}} {{.Scope}}", "none"], None),
    ("rm-missing", "rm nosuch", None),
    ("stop-missing", "stop nosuch", None),
    ("logs-missing", "logs nosuch", None),
    ("ps-bad-filter", "ps --filter nosuch=1", None),
    ("ps-end", "ps -a -q", None),
]
INSPECTED = ("openclaw", "hermes-1", "Runner_JOB-1")


class Dockerd:
    """Debian's dockerd with directories of its own, no bridge and no rule in a firewall."""

    def __init__(self):
        self.top = b.tmpdir("dockerd", 0o700)
        self.socket = self.top + "/sock"
        self.path = ":".join(debkit.programs() + [os.environ["PATH"]])

    def __enter__(self):
        self.log = open(self.top + "/log", "w+")
        self.p = subprocess.Popen(
            ["dockerd", "--data-root", self.top + "/data", "--exec-root", self.top + "/exec", "-H", "unix://" + self.socket, "-p", self.top + "/pid",
             "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs", "--group", "root", "--cgroup-parent", b.environment()["BERTH_CGROUP_PARENT"] + "-dockerd"],
            env={"PATH": self.path, "HOME": self.top}, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            b.wait_for(lambda: self.p.poll() is not None or "API listen on" in self.said(), 60, "dockerd")
        except AssertionError:
            self.__exit__(None, None, None)
            raise
        if self.p.poll() is not None:
            raise b.skip("dockerd does not start here: " + self.said()[-300:])
        return self

    def said(self):
        with open(self.top + "/log") as f:
            return f.read()

    def __exit__(self, *_):
        if self.p.poll() is None:
            self.p.terminate()
            self.p.wait(60 * b.SLOW)
        self.log.close()
        for top, dirs, _files in os.walk("/sys/fs/cgroup"):
            for d in list(dirs):
                if d == b.environment()["BERTH_CGROUP_PARENT"] + "-dockerd":
                    dirs.remove(d)
                    b.wait_for(lambda: not removed(os.path.join(top, d)), 20, "the end of a cgroup of dockerd's")


def removed(path):
    """Whether something is left of a tree of cgroups."""
    for top, dirs, _files in os.walk(path, topdown=False):
        try:
            os.rmdir(top)
        except OSError:
            pass
    return os.path.exists(path)


def plain(text, ids):
    """Without what differs from run to run: ids, times."""
    for one in ids:
        text = text.replace(one, "ID").replace(one[:12], "ID")
    text = re.sub(r"sha256:[0-9a-f]{64}|\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b", "ID", text)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)


def flat(doc, path=""):
    """{"HostConfig.Memory": value}: lists are values."""
    if isinstance(doc, dict) and doc:
        out = {}
        for key, v in doc.items():
            out.update(flat(v, f"{path}.{key}" if path else key))
        return out
    return {path: doc}


def outcome(path, socket):
    """What the steps print, and what is inspected on the way: {name: text}."""
    top = b.tmpdir("client-of-" + os.path.basename(socket))
    env = {"PATH": path, "HOME": top, "DOCKER_HOST": "unix://" + socket}

    def docker(words, given=None):
        with_stdin = {"input": given} if given is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(["docker", *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * b.SLOW, **with_stdin)
    got = {}
    tar = subprocess.Popen(["tar", "-C", b.busybox_rootfs(os.path.basename(top) + "/rootfs"), "-c", "."], stdout=subprocess.PIPE)
    made = subprocess.run(["docker", "import", "-", "box:1"], env=env, stdin=tar.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    tar.stdout.close()
    assert tar.wait() == 0 and made.returncode == 0, made
    ids = []
    for name, words, given in STEPS:
        r = docker(words.split() if isinstance(words, str) else words, given)
        if re.fullmatch(r"[0-9a-f]{64}\n", r.stdout):
            ids.append(r.stdout.strip())
        for stream, text in (("code", str(r.returncode)), ("out", r.stdout), ("err", r.stderr)):
            got[f"{name} {stream}"] = plain(text, ids)
        if name.endswith(("-start", "-run")):
            box = {"openclaw-start": "openclaw", "hermes-run": "hermes-1", "runner-start": "Runner_JOB-1"}.get(name)
            doc = json.loads(docker(["inspect", box]).stdout)[0] if box else {}
            for field, value in flat(doc).items():
                got[f"inspect {field} {box}"] = plain(json.dumps(value), ids)
    return got


def listed():
    """[(pattern, reason)] of the differences."""
    with open(LIST) as f:
        # the rows of whole suites are for readers, and for berth-docker(8)
        rows = [line.strip().split("  ", 1) for line in f if line.strip() and not line.startswith(("#", "docker-py: ", "moby: "))]
    assert all(len(r) == 2 and r[1].strip() for r in rows), [r for r in rows if len(r) != 2]
    return rows


@b.deadline(240)
def test_what_differs_from_dockerd_is_listed_with_its_reason():
    with Dockerd() as theirs:
        want = outcome(theirs.path, theirs.socket)
    with Engine() as ours:
        got = outcome(theirs.path, ours.docker_socket)
    rows, used, found = listed(), set(), []
    for key in sorted(set(want) | set(got)):
        if want.get(key) == got.get(key):
            continue
        fits = [p for p, _ in rows if fnmatch.fnmatchcase(key, p)]
        used.update(fits)
        if not fits:
            found.append(f"{key}:\n    dockerd {want.get(key)!r}\n    berthd  {got.get(key)!r}")
    assert not found, "\n".join(found)
    assert not {p for p, _ in rows} - used, f"listed, and no difference any more: {sorted({p for p, _ in rows} - used)}"
