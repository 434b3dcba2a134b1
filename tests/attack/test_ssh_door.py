# SPDX-License-Identifier: Apache-2.0
"""
Attacks S64 of SECURITY.md: berthd's door for SSH ([ssh] listen), whose password is a token.  What a client has there is S62.
"""
import json
import os
import re
import signal
import socket
import subprocess

import berthtest as b
from daemon import OTHER, TENANT, TOKEN, Daemon
from sshlab import servers

COST = 90


class Door(Daemon):
    """with Door() as d: d.ssh(user, token, "command")"""

    def __init__(self, config="", **kw):
        super().__init__('[daemon]\n[ssh]\nlisten = "127.0.0.1:0"\n' + config, tcp=True, **kw)

    @property
    def ssh_port(self):
        return int(re.search(r"SSH on .* port (\d+)", self.log())[1])

    def words(self, user, token, *words, program="ssh"):
        ask = b.write(b.tmp("askpass"), f"#!/bin/sh\necho {token}\n", 0o755)
        known = os.path.join(b.root(), "state", "ssh", "known_hosts")
        options = ["-F", "none", "-o", f"UserKnownHostsFile={known}", "-o", "HostKeyAlias=berth", "-o", "StrictHostKeyChecking=yes",
                   "-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1"]
        place = ["-p", str(self.ssh_port), "-l", user, "127.0.0.1"]
        return [program, *options, *place, *words], b.environment({"SSH_ASKPASS": ask, "SSH_ASKPASS_REQUIRE": "force"})

    def ssh(self, user, token, *words, at="127.0.0.1"):
        argv, env = self.words(user, token, *words)
        argv[1:1] = ["-b", at]
        p = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60 * b.SLOW,
                           check=False)
        return b.Result(p.returncode, p.stdout.decode(), p.stderr.decode(), None, argv, 0)


def test_a_tenant_comes_into_its_own_sandboxes_alone():
    with Door() as d:
        mine, foreign = d.create(token=TENANT, tcp=True, name="mine"), d.create(token=OTHER, tcp=True, name="foreign")
        for user in (mine, "mine", "root@mine"):
            r = d.ssh(user, TENANT, "echo in; exit 3")
            assert (r.code, r.out) == (3, "in\n"), r
        assert d.ssh("nobody@mine", TENANT, "id -un").out == "nobody\n"
        told = set()
        for user, token in ((foreign, TENANT), ("foreign", TENANT), ("nothing", TENANT), ("mine", OTHER), ("mine", "x" * 32), ("mine", ""),
                            ("../mine", TENANT), ("mine/", TENANT), ("", TENANT), ("@", TENANT), ("mine@", TENANT)):
            r = d.ssh(user, token, "echo in")
            assert r.code == 255 and r.out == "", (user, r)
            told.add(re.sub(r"^.*@127", "127", r.err.strip().splitlines()[-1]))
        assert len(told) == 1 and "Permission denied" in told.pop(), told
        # an administrator's reaches all
        assert d.ssh("foreign", TOKEN, "echo in").out == "in\n"
        lines = d.log()
        assert lines.count('"ssh-denied"') >= 9 and lines.count('"ssh-login"') == 5 and TENANT not in lines and "x" * 32 not in lines


def test_a_token_that_is_removed_ends_its_connections():
    with Door() as d:
        box = d.create(token=TENANT, tcp=True)
        argv, env = d.words(box, TENANT, "echo up; sleep 1000")
        p = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        b.read_until(p.stdout, b"up\n")
        b.write(d.tokens_path, f"root {TOKEN} admin\nbob {OTHER}\n", 0o600)
        d.p.send_signal(signal.SIGHUP)
        p.communicate(timeout=60 * b.SLOW)
        assert p.returncode == 255
        b.wait_for(lambda: not servers(), 20, "the end of berth-ssh")


def test_a_pass_of_the_page_is_no_password():
    """S60: a link is for the sign-in alone, and a session for the page; a client of SSH does not use them up either."""
    with Door("[ui]\nenabled = true\n") as d:
        box = d.create(token=TENANT, tcp=True)
        link = d.post("/ui/links").json["url"].split("#link=")[1]
        session = d.post("/ui/session", token=TENANT, tcp=True).json["session"]
        for one in (link, session):
            r = d.ssh(box, one, "echo in")
            assert r.code == 255 and r.out == "", r
        assert d.post("/ui/session", token=link, tcp=True).status == 200
        assert d.ssh(box, TENANT, "echo in").out == "in\n"


def test_a_keeper_that_does_not_answer_holds_up_no_stop_of_berthd():
    with Door() as d:
        box = d.create(token=TENANT, tcp=True)
        keeper = json.loads(b.berth("inspect", box, ok=True).out)["supervisor_pid"]
        shared = b.tmp("m")
        argv, env = d.words(box, TENANT)
        master = subprocess.Popen([argv[0], "-N", "-M", "-S", shared, *argv[1:]], env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        b.wait_for(lambda: os.path.exists(shared), 20, "the connection")
        before = len(os.listdir(f"/proc/{d.p.pid}/fd"))
        os.kill(keeper, signal.SIGSTOP)
        try:
            p = subprocess.Popen([argv[0], "-S", shared, "-W", "localhost:80", *argv[1:]], env=env, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            b.wait_for(lambda: len(os.listdir(f"/proc/{d.p.pid}/fd")) > before, 20, "the question to the keeper")
            d.p.send_signal(signal.SIGTERM)
            b.wait_for(lambda: not servers(), 10, "the end of berth-ssh")
        finally:
            os.kill(keeper, signal.SIGCONT)
        for one in (p, master):
            one.communicate(timeout=60 * b.SLOW)


def test_a_berth_ssh_that_is_not_its_own_master_keeps_no_place():
    """berth-ssh ends a client that does not log in; one that the client has taken over does not."""
    with Door() as d, socket.create_connection(("127.0.0.1", d.ssh_port), timeout=90 * b.SLOW) as s:
        assert s.recv(8) == b"SSH-2.0-"
        pid, = servers()
        os.kill(pid, signal.SIGSTOP)
        while s.recv(4096):
            pass
        b.wait_for(lambda: not servers(), 20, "its end")


def test_clients_that_say_nothing_hold_few_places_and_nobody_up():
    with Door() as d:
        box = d.create(token=TENANT, tcp=True)
        silent = [socket.create_connection(("127.0.0.1", d.ssh_port), timeout=60 * b.SLOW) for _ in range(40)]
        try:
            # those beyond the places are closed at once
            held = 0
            for s in silent:
                s.settimeout(2 * b.SLOW)
                try:
                    got = s.recv(99)
                except (socket.timeout, ConnectionResetError):
                    got = b""
                held += got.startswith(b"SSH-2.0-")
            assert held <= 8, held
            # one address locks no other out
            assert d.ssh(box, TENANT, "echo in", at="127.0.0.2").out == "in\n"
        finally:
            for s in silent:
                s.close()
        b.wait_for(lambda: not servers(), 20, "the end of their processes")
        assert d.ssh(box, TENANT, "echo in").out == "in\n"


def test_a_stop_of_berthd_ends_the_connections_and_not_the_sandbox():
    with Door() as d:
        box = d.create(token=TENANT, tcp=True)
        argv, env = d.words(box, TENANT, "echo up; sleep 1000")
        p = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        b.read_until(p.stdout, b"up\n")
        d.stop()
        p.communicate(timeout=60 * b.SLOW)
        assert p.returncode == 255
        assert b.berth("exec", box, "true").code == 0


def test_a_section_that_is_wrong_is_refused():
    with Daemon() as d:
        for text, said in (('listen = "127.0.0.1:0"', "token_file"), ('listen = "2222"', "not ADDRESS:PORT"), ('listen = "localhost:1"', "not ADDRESS:PORT"),
                           ("max_connections = 1", "max_connections"), ('listens = ""', "listens")):
            path = b.write(b.tmp("wrong.toml"), ("" if said == "token_file" else f'[daemon]\ntoken_file = "{d.tokens_path}"\n') + "[ssh]\n" + text + "\n")
            r = subprocess.run([os.path.join(b.BUILD, "berthd"), "--check-config"], env=b.environment({"BERTH_CONFIG": path}),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            assert r.returncode and said in r.stderr, (text, r)
