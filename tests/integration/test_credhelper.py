# SPDX-License-Identifier: Apache-2.0
"""Credential helpers of docker's config.json: what they are asked, and what they may not do.

Attacks S15 of SECURITY.md.
"""
import contextlib
import json
import os
import subprocess

import berthtest as b
import proc
import registry as reg

COST = 8

DIRECTORY = "/usr/local/sbin"       # the first that is looked at
SECRET = "canary-secret"
GOOD = json.dumps({"ServerURL": "x", "Username": "canary", "Secret": SECRET})


@contextlib.contextmanager
def helpers():
    """A directory of helpers where berth looks for them, in this test's mount namespace."""
    here = b.tmpdir("helpers")
    os.chmod(here, 0o755)
    proc.bind(here, DIRECTORY)
    try:
        yield here
    finally:
        subprocess.run(["umount", DIRECTORY], check=True)


def helper(here, script, name="test", mode=0o755):
    path = b.write(f"{here}/docker-credential-{name}", "#!/bin/sh\n" + script + "\n", mode)
    os.chmod(path, mode)
    return path


def docker(mode=0o600, name="docker", **doc):
    path = b.write(b.tmp(f"{name}/config.json"), json.dumps(doc), mode)
    os.chmod(path, mode)
    return {"DOCKER_CONFIG": os.path.dirname(path)}


def pull(m, env, n=[0], **conf):
    n[0] += 1
    env = dict(reg.config(insecure=[m.host], retries=0, **conf), **env)
    return b.berth("pull", "--quiet", f"{m.host}/team/app:{n[0]}", env=env)


def test_a_helper_is_asked_for_its_registry():
    """credHelpers before credsStore before auths; what it gets is the name of the registry and a clean environment."""
    seen = b.tmp("seen")
    with helpers() as here, reg.Mock(basic=f"canary:{SECRET}") as m:
        helper(here, f"""printf '%s|' "$1" >{seen}; cat >>{seen}; echo >>{seen}; env >>{seen}; ls -l /proc/self/fd >>{seen}
printf '%s' '{GOOD}'""")
        helper(here, "echo credentials not found in native keychain; exit 1", "empty")
        for doc in ({"credsStore": "test"}, {"credHelpers": {m.host: "test"}},
                    {"credHelpers": {m.host: "test"}, "credsStore": "absent", "auths": {m.host: {"auth": "d3Jvbmc6d3Jvbmc="}}},
                    {"credHelpers": {"other.example": "absent"}, "credsStore": "test"}):
            env = dict(docker(**doc), CANARY="1", LD_PRELOAD="", HOME="/home/of/keys")
            p = pull(m, env)
            b.expect(p.code == 0 and SECRET not in p.out + p.err, p, str(doc))
            with open(seen) as f:
                text = f.read()
            assert text.startswith(f"get|{m.host}\n"), text
            assert "HOME=/home/of/keys" in text and "CANARY" not in text and "LD_PRELOAD" not in text and "BERTH" not in text, text
            assert {x.split()[-3] for x in text.splitlines() if " -> " in x} <= {"0", "1", "2", "3"}, text
        # one that knows nothing leaves it to the file; of another registry nobody is asked
        right = {m.host: {"auth": "Y2FuYXJ5OmNhbmFyeS1zZWNyZXQ="}}
        assert pull(m, docker(credsStore="empty", auths=right)).code == 0
        assert pull(m, docker(credHelpers={"other.example": "absent"}, auths=right)).code == 0
        # the password given to berth login comes first, and the helper does not even run
        os.unlink(seen)
        reg.log_in(m.host, "canary", SECRET)
        assert pull(m, docker(credsStore="test")).code == 0 and not os.path.exists(seen)
        os.unlink(os.path.join(b.root(), "state", "auth.json"))


def test_an_identity_token_of_a_helper_is_traded():
    with helpers() as here, reg.Mock(token="http://127.0.0.1:%d/token") as m:
        m.token %= m.port
        helper(here, "printf '%s' '{}'".format(json.dumps({"Username": "<token>", "Secret": SECRET})))
        assert pull(m, docker(credsStore="test")).code == 0
        (post,) = [r for r in m.seen if r.method == "POST"]
        assert b"refresh_token=" + SECRET.encode() in post.body and post.path == "/token"


def test_an_unsafe_or_misbehaving_helper_is_refused():
    with helpers() as here, reg.Mock(basic=f"canary:{SECRET}") as m:
        helper(here, "printf '%s' '" + GOOD + "'")
        helper(here, "exit 0", "loose", 0o775)
        ran = b.tmp("ran")
        b.write(b.tmp("elsewhere/docker-credential-path"), f"#!/bin/sh\ntouch {ran}\n", 0o755)
        big = f"head -c 400000 /dev/zero | tr '\\0' a; touch {ran}"
        for name, script, words in (
                ("silent", "exit 0", "docker-credential-silent"), ("text", "echo hello", "docker-credential-text"),
                ("list", "echo '[]'", "not a JSON object"), ("none", "echo '{}'", "no Username"),
                ("twice", """echo '{"Username":"a","Username":"b","Secret":"c"}'""", "duplicate"),
                ("control", r"""printf '%s' '{"Username":"a","Secret":"b\r\nHost: x"}'""", "control characters"),
                ("number", """echo '{"Username":"a","Secret":7}'""", "Secret"),
                ("fails", "echo the keychain is locked; exit 3", "status 3: the keychain is locked"),
                ("killed", "kill -9 $$", "signal 9"), ("large", big, "more than"),
                ("escape", "printf 'no\\033[2J\\n'; exit 1", "status 1")):
            helper(here, script, name)
            p = pull(m, docker(credsStore=name))
            b.one_line_error(p, 125, words)
            assert "\033" not in p.err, p
        for name in ("../../bin/sh", "/bin/sh", "a b", "a;b", "", "x" * 65, "x" * 200, "a.b", "-", "päss"):
            p = pull(m, docker(credsStore=name))
            b.expect(p.code == 125 and p.err.count("\n") == 1, p, name)
        for doc in ({"credHelpers": {m.host: 7}}, {"credHelpers": []}, {"credsStore": {}}):
            b.one_line_error(pull(m, docker(**doc)), 125, "cred")
        b.one_line_error(pull(m, dict(docker(credsStore="path"), PATH=b.tmp("elsewhere") + ":" + os.environ["PATH"])), 125,
                         "docker-credential-path", "berth login")
        b.one_line_error(pull(m, docker(credsStore="loose")), 125, "nobody else may write")
        # who can write the file could choose what runs
        b.one_line_error(pull(m, docker(0o666, credsStore="test")), 125, "others may write")
        path = docker(credsStore="test")["DOCKER_CONFIG"] + "/config.json"
        os.chown(path, 1234, 1234)
        b.one_line_error(pull(m, {"DOCKER_CONFIG": os.path.dirname(path)}), 125, "others may write")
        assert not m.credentials_seen() and not os.path.exists(ran)


def test_a_helper_that_does_not_end_is_killed_with_all_it_started():
    mark = b.tmp("pids")
    with helpers() as here, reg.Mock(basic=f"canary:{SECRET}") as m:
        helper(here, f"sleep 1000 & echo $! >{mark}; echo $$ >>{mark}; wait")
        p = pull(m, docker(credsStore="test"), stall_timeout="6s")
        b.one_line_error(p, 124, "does not answer")
        # one that answers and leaves something behind that holds its output: not waited for
        helper(here, f"sleep 1000 & echo $! >>{mark}; printf '%s' '{GOOD}'", "leaves")
        assert pull(m, docker(credsStore="leaves")).code == 0
        with open(mark) as f:
            pids = [int(x) for x in f.read().split()]
        assert len(pids) == 3
        b.wait_for(lambda: all((proc.stat(p) or "Z")[0] in "ZX" for p in pids), 10, "the end of what they started")
        proc.reap_orphans(os.getpid())
