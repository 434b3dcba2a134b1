# SPDX-License-Identifier: Apache-2.0
"""--network egress: the only way out is the proxy, by name; real clients, real traffic between namespaces (netlab.py).

Attacks S14 of SECURITY.md.
"""
import contextlib
import json
import os
import re
import subprocess
import threading

import berthtest as b
import netlab
import proc
from box import Box
from netlab import BASE, OUTSIDE, OUTSIDE6, Lab, need_net, tries

COST = 20


def log_of(name, *options):
    return [json.loads(line) for line in b.berth("network", "log", "--json", *options, name, ok=True).out.splitlines()]


def test_only_what_a_rule_names_is_reached():
    need_net()
    with Lab(names={"a.deep.sub.test": [OUTSIDE], "sub.test": [OUTSIDE], "notsub.test": [OUTSIDE]}) as lab:
        rules = ("--allow-host", "outside.test", "--allow-host", "*.sub.test:80", "--allow-host", "outside6.test:*",
                 "--allow-host", f"[{OUTSIDE6}]:80")
        hows = ("connect", "absolute", "socks")
        good = [(how, host, 80) for how in hows for host in ("outside.test", "OutSide.TEST.", "a.deep.sub.test", "outside6.test", OUTSIDE6)]
        bad = [(how, host, port) for how in hows
               for host, port in (("sub.test", 80), ("notsub.test", 80), ("outside.test", 81), ("a.deep.sub.test", 443), (OUTSIDE, 80),
                                  ("xoutside.test", 80), ("outside.test.evil.test", 80), ("localhost", 80), ("a.deep.sub.test.", 8080))]
        direct = [("direct", OUTSIDE, 80), ("direct", OUTSIDE6, 80), ("direct", netlab.METADATA, 80), ("direct", netlab.HOST, 80)]
        got = tries(rules, good + bad + direct)
        for t in good:
            assert got[t][0] == 200 and "hello from" in got[t][1], (t, got[t])
        for t in bad:
            assert got[t][0] in (403, -2), (t, got[t])
        for t in direct:
            assert got[t][0] == 0, (t, got[t])
        refusal = got[("absolute", "sub.test", 80)][1]
        # what it says works: a run is made again, as nothing can update it
        assert "allowed by no rule" in refusal and "on the host: berth run with --allow-host sub.test:80" in refusal, refusal
        assert "berth update" not in refusal
        assert tries((*rules, "--allow-host", "sub.test:80"), [("absolute", "sub.test", 80)])[("absolute", "sub.test", 80)][0] == 200
        with Box(*BASE, *rules) as x:
            fetch = ("curl", "-s", "http://sub.test/")
            said = x.exec(*fetch, ok=True).out
            advice = re.search(r"(berth update --allow-host sub.test:80 [0-9a-f]+)", said)
            assert advice, said
            b.berth(*advice.group(1).split()[1:], ok=True)
            said = x.exec(*fetch, ok=True).out
            assert "hello from" in said, said
        # the server gets its own name, whatever the client wrote into Host
        assert not [r for r in lab.web.requests if r[2]["host"] == "evil.test"], "the client chose the Host"
        lab.untouched()


def test_curl_git_python_and_the_environment():
    need_net()
    repo = b.tmpdir("repo")
    subprocess.run(["sh", "-ec", "git init -q . && echo text >file && git add file && git -c user.name=x -c user.email=x commit -qm one && "
                    "git update-server-info"], cwd=repo, check=True)
    cert, tls = netlab.certificate("outside.test")

    def files(path, headers):
        if path.startswith("/repo/"):
            full = os.path.join(repo, ".git", path.split("?")[0][6:])
            if os.path.isfile(full):
                with open(full, "rb") as f:
                    return 200, {}, f.read()
            return 404, {}, b"no"
        if path.startswith("/simple/pkg/"):
            return 200, {"Content-Type": "text/html"}, b'<a href="/files/pkg-1.0.tar.gz">pkg-1.0.tar.gz</a>'
        return 200, {}, b"page\n"

    with Lab(answer=files) as lab:
        lab.add("tls", lab.outside, OUTSIDE, 443, answer=files, tls=tls)
        script = """
            set -e
            export CURL_CA_BUNDLE=/cert.pem SSL_CERT_FILE=/cert.pem GIT_SSL_CAINFO=/cert.pem HOME=/tmp
            test "$http_proxy" = http://127.0.0.1:3128 && test "$HTTPS_PROXY" = "$http_proxy" && test "$all_proxy" = "$ALL_PROXY"
            case $no_proxy in *127.0.0.1*) ;; *) exit 9;; esac
            curl -sSf http://outside.test/ https://outside.test/
            curl -sSf --proxy socks5h://127.0.0.1:3128 https://outside.test/
            curl -sS -d 'a=b' -o /dev/null -w '%{http_code}\\n' http://outside.test/post
            head -c 300000 /dev/zero | curl -sS -T - -o /dev/null -w '%{http_code}\\n' -H 'Transfer-Encoding: chunked' http://outside.test/put
            git clone -q http://outside.test/repo /tmp/a && cat /tmp/a/file
            git clone -q https://outside.test/repo /tmp/b && cat /tmp/b/file
            python3 -c 'import urllib.request as u; print(u.urlopen("https://outside.test/").read(), u.urlopen("http://outside.test/").read())'
            curl -sS https://other.test/ || echo "curl $?"
            python3 -c 'import urllib.request as u; u.urlopen("https://other.test/")' 2>&1 | tail -1
        """
        r = b.run(*BASE, "--allow-host", "outside.test", "-v", f"{cert}:/cert.pem", "host", "bash", "-c", script)
        b.expect_code(r, 0)
        assert r.out.startswith("page\npage\npage\n"), b.describe(r)
        assert r.out.count("text\n") == 2 and "b'page\\n' b'page\\n'" in r.out, b.describe(r)
        assert "curl 56" in r.out and "403 Forbidden by the network policy" in r.out, b.describe(r)
        put = [x for x in lab.web.requests if x[1] == "/put"]
        assert put, "a chunked upload passes"
        lab.untouched()


@contextlib.contextmanager
def etc(**files):
    """Files of the host's /etc, here.  Its DNS server is the one of the outside."""
    files["resolv.conf"] = f"nameserver {netlab.DNS}\n"
    for name, text in files.items():
        proc.bind(b.write(b.tmp(name), text), "/etc/" + name)
    try:
        yield
    finally:
        for name in files:
            subprocess.run(["umount", "/etc/" + name], check=True)


def test_node_and_java_are_told_of_the_proxy_beside_the_options_of_the_image():
    need_net()
    java = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128"
    b.berth("image", "import", b.busybox_rootfs(), "base", ok=True)
    none = b.berth("create", "base", ok=True).out.strip()
    assert "PROXY" not in b.berth("exec", none, "env", ok=True).out
    b.berth("exec", none, "touch", "/root/file", ok=True)
    b.berth("commit", "--env", "JAVA_TOOL_OPTIONS=-Xmx64m -Da=b", none, "withjava", ok=True)
    b.berth("rm", "-f", none, ok=True)
    for image, more, want in ((None, (), java), ("withjava", (), "-Xmx64m -Da=b " + java), (None, ("--env", "JAVA_TOOL_OPTIONS=mine"), "mine")):
        r = b.berth("run", "--network", "egress", *more, image or "host", "env", ok=True)
        env = dict(line.split("=", 1) for line in r.out.splitlines())
        assert (env["NODE_USE_ENV_PROXY"], env["JAVA_TOOL_OPTIONS"]) == ("1", want), env


def test_names_of_a_file_of_hosts_are_known_to_the_proxy():
    need_net()
    lines = f"# the operator's\n{OUTSIDE}\tour.test OTHER.Test. # a word\nnonsense\n::1 localhost\n10.9.9.9 inside.test\n"
    with Lab(names={}) as lab, etc(hosts=lines):
        hosts = ("our.test", "other.test", "inside.test", "given.test", "nosuch.test")
        rules = [o for h in hosts for o in ("--allow-host", h)]
        asked = [("absolute", h, 80) for h in hosts]
        got = tries((*rules, "--add-host", f"given.test:{OUTSIDE}"), asked, base=("--network", "egress"))
        assert [got[t][0] for t in asked] == [200, 200, 403, 200, 502], got
        # given servers take the place of all that the host has
        got = tries((*rules, "--add-host", f"given.test:{OUTSIDE}"), asked)
        assert [got[t][0] for t in asked] == [502, 502, 502, 200, 502], got
        lab.untouched()


def test_a_rule_for_a_loopback_is_refused_with_words():
    for rule in (("--allow-host", "127.0.0.1:8080"), ("--allow-host", "localhost"), ("--allow-host", "[::1]:80"), ("--allow-net", "127.0.0.0/8"),
                 ("--allow-net", "127.0.0.1"), ("--allow-net", "::1/128")):
        for verb in ("run", "create"):
            b.one_line_error(b.berth(verb, "--network", "egress", *rule, "host", "true"), 2, "loopback", "hint: let the host's service")
        b.one_line_error(b.berth("network", "create", *rule, "n1"), 2, "loopback")
    b.berth("run", "--network", "egress", "--deny-net", "127.0.0.0/8", "--deny-host", "localhost", "--allow-net", "0.0.0.0/0", "host", "true", ok=True)
    with Box("--network", "egress") as x:
        b.one_line_error(b.berth("update", "--allow-host", "localhost:80", x.id), 2, "loopback")


def test_a_sandbox_without_a_network_names_the_command_that_makes_one_with_its_files():
    need_net()
    with Lab() as lab, etc(), Box("--network", "none") as x:
        x.exec("sh", "-c", "echo kept > /workspace/file", ok=True)
        for stopped in (False, True):
            if stopped:
                b.berth("stop", x.id, ok=True)
            said = b.berth("update", "--allow-host", "outside.test", x.id)
            advice = re.search(r"hint: (berth fork --network egress --allow-host) NAME (\S+)", said.err)
            assert said.code == 2 and advice, said
            made = b.berth(*advice.group(1).split()[1:], "outside.test", advice.group(2), ok=True).out.strip()
            out = b.berth("exec", made, "sh", "-c", "cat /workspace/file; curl -s http://outside.test/", ok=True).out
            assert out.startswith("kept\n") and "hello from" in out, out
            b.berth("rm", "-f", made, ok=True)
        lab.untouched()


def test_counters_verdict_log_and_network_commands():
    need_net()
    with Lab() as lab:
        r = b.run(*BASE, "--allow-host", "outside.test", "host", "sh", "-c", "curl -s http://outside.test/; curl -s http://no.test/",
                  verdict=True)
        net = r.verdict["network"]
        assert (net["requests"], net["allowed"], net["denied"]) == (2, 1, 1) and net["bytes_in"] > 20 and net["bytes_out"] > 20, net
        with Box("--name", "web", *BASE, "--allow-host", "outside.test") as x:
            assert x.exec("curl", "-s", "http://outside.test/", ok=True).out == f"hello from {OUTSIDE}\n"
            assert "allowed by no rule" in x.exec("curl", "-s", "http://no.test/", ok=True).out
            assert b.berth("sh", "web", "curl -s http://outside.test/", ok=True).out == f"hello from {OUTSIDE}\n", "sessions have the proxy too"
            b.wait_for(lambda: len(log_of("web")) == 3, 5, "the log")
            first, second, _ = log_of("web")
            assert first["verdict"] == "allow" and first["address"] == OUTSIDE and first["rule"] == "outside.test" and first["bytes_in"] > 0
            assert second["verdict"] == "deny" and second["host"] == "no.test" and "no rule" in second["reason"]
            assert [e["host"] for e in log_of("web", "--denied")] == ["no.test"]
            assert "deny" in b.berth("network", "log", "web", ok=True).out
            stats = json.loads(b.berth("stats", "--no-stream", "--json", "web", ok=True).out)["network"]
            assert stats["mode"] == "egress" and stats["allowed"] == 2 and stats["denied"] == 1 and stats["proxy"] == "running", stats
            rows = {row["id"]: row for row in json.loads(b.berth("network", "ls", "--json", ok=True).out)}
            assert rows[x.id]["network"]["bytes_in"] == stats["bytes_in"]
            assert x.id in b.berth("network", "ls", ok=True).out
            told = json.loads(b.berth("network", "inspect", "web", ok=True).out)
            assert told["policy"]["allow_host"] == ["outside.test"], told
            b.berth("stop", "web", ok=True)
            assert len(log_of("web")) == 3, "the log stays with the sandbox"
            assert json.loads(b.berth("network", "inspect", "web", ok=True).out)["mode"] == "egress"
        lab.untouched()


def test_policy_changes_at_once_and_cuts_what_is_open():
    need_net()
    go = threading.Event()

    def slow(path, headers):
        if path == "/slow":
            go.wait(20 * b.SLOW)
        return 200, {}, b"x" * 1000

    with Lab(names={"second.test": [OUTSIDE]}, answer=slow) as lab, Box("--name", "live", *BASE, "--allow-host", "outside.test") as x:
        def fetch(url):
            return x.exec("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url).out

        assert fetch("http://second.test/") == "403"
        b.berth("update", "--allow-host", "second.test", "live", ok=True)
        assert fetch("http://second.test/") == "200"
        n = x.main.detach("curl", "-sS", "-p", "http://outside.test/slow")
        b.wait_for(lambda: any(r[1] == "/slow" for r in lab.web.requests), 5, "the slow request")
        told = json.loads(b.berth("update", "--json", "--deny-host", "outside.test", "live", ok=True).out)
        assert told["connections_cut"] == 1, told
        r = b.berth("wait", "live", f"c{n}" if isinstance(n, int) else n)
        assert r.code == 56 or "56" in r.out or r.code != 0, b.describe(r)
        go.set()
        assert fetch("http://outside.test/") == "403"
        assert [e for e in log_of("live") if e["verdict"] == "cut" and "policy changed" in e["reason"]]
        b.berth("restart", "live", ok=True)  # and it lasts
        assert fetch("http://outside.test/") == "403"
        assert fetch("http://second.test/") == "200"
        b.berth("update", "--allow-host", "outside.test", "live", ok=True)
        assert x.exec("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://outside.test/").out == "200"
        b.one_line_error(b.berth("update", "--allow-host", "http://x/", "live"), 2, "allow-host")
        # other rules in place of all of these, now and at the next start
        b.berth("update", "--reset-rules", "--allow-host", "second.test", "live", ok=True)
        for again in (False, True):
            if again:
                b.berth("restart", "live", ok=True)
            assert [fetch(f"http://{name}/") for name in ("outside.test", "second.test")] == ["403", "200"], again
        b.berth("update", "--reset-rules", "live", ok=True)
        assert fetch("http://second.test/") == "403"
        lab.untouched()


def test_budgets_stop_with_a_clear_cause():
    need_net()
    big = b"y" * 3_000_000
    with Lab(answer=lambda path, headers: (200, {}, big)) as lab:
        r = b.run(*BASE, "--allow-host", "outside.test", "--network-bytes", "1m", "host", "sh", "-c",
                  "curl -s -o /tmp/f http://outside.test/; wc -c </tmp/f; curl -s http://outside.test/; exit 3", verdict=True)
        assert r.code == 3 and r.verdict["cause"] == "network", r.verdict
        total = r.verdict["network"]["bytes_in"] + r.verdict["network"]["bytes_out"]
        assert r.verdict["network"]["budget_exhausted"] and total == 1 << 20, r.verdict
        assert "byte budget" in r.out and 900_000 < int(r.out.split()[0]) <= 1 << 20, r.out
        with Box("--name", "few", *BASE, "--allow-host", "outside.test", "--network-connections", "2") as x:
            codes = [x.exec("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://outside.test/").out for _ in range(3)]
            assert codes == ["200", "200", "403"], codes
            assert "connection budget" in x.exec("curl", "-s", "http://outside.test/").out
            b.berth("update", "--network-connections", "unlimited", "few", ok=True)
            assert x.exec("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://outside.test/").out == "200"
        lab.untouched()


def test_options_that_do_not_fit_are_refused():
    need_net()
    for options, words in ((("--allow-host", "x.test"), ("allow-host", "egress")), (("--publish", "0.0.0.0:80:80"), ("publish", "bridge")),
                           (("--network", "egress", "-p", "80:80/udp"), ("publish", "bridge")),
                           (("--network", "bridge", "--allow-host", "x.test"), ("allow-host", "egress")),
                           (("--network", "egress", "--allow-host", "bad host"), ("host rule",)),
                           (("--network", "egress", "--allow-host", "127.1"), ("host rule",)),
                           (("--network", "egress", "--allow-host", "x.test:0"), ("port",)),
                           (("--network", "egress", "--allow-net", "10.0.0.1/8"), ("bits",)),
                           (("--network", "egress", "--dns", "dns.test"), ("dns",)), (("--network", "no name"), ("neither a mode nor a name",))):
        b.one_line_error(b.run(*options, "host", "true"), 2, *words)


def test_the_plan_shows_the_rules():
    r = b.run("--dry-run", "--json", *BASE, "--allow-host", "x.test:*", "--network-bytes", "1k", "host", "true", ok=True)
    plan = json.loads(r.out)
    assert plan["network"] == "egress" and plan["network_policy"]["allow_host"] == ["x.test:*"], plan
    assert "https_proxy=http://127.0.0.1:3128" in plan["env"]
    r = b.run("--dry-run", "--network", "bridge", "-p", "80:80", "host", "true", ok=True)
    assert "network: bridge\n" in r.out and '"publish":["80:80"]' in r.out and "/etc/resolv.conf" in r.out, b.describe(r)


def test_nothing_is_left_when_the_proxy_cannot_start_and_when_it_dies():
    need_net()
    with Lab():
        with Box(*BASE, "--allow-host", "outside.test") as x:
            pid = [p for p in proc.descendants(x.keeper) if exe(p) == "berth-net"][0]
            status = dict(re.findall(r"^(\w+):\s+(.*)$", open(f"/proc/{pid}/status").read(), re.M))
            assert status["Uid"].split()[0] not in ("0", "65534") and int(status["CapEff"], 16) == 0, status
            assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
            os.kill(pid, 9)
            b.wait_for(lambda: json.loads(b.berth("stats", "--no-stream", "--json", x.id, ok=True).out)["network"]["proxy"] == "gone",
                       5, "the proxy's end")
            assert x.exec("curl", "-s", "http://outside.test/").code == 7, "nothing listens: nothing passes"
        # and a supervisor that dies takes its proxy along
        x = Box(*BASE)
        try:
            pid = [p for p in proc.descendants(x.keeper) if exe(p) == "berth-net"][0]
            proc.kill(x.keeper)
            b.wait_for(lambda: not proc.alive(pid), 3, "the proxy's end")
        finally:
            b.gc()
            b.berth("rm", "-f", x.id, ok=True)
    # a failure of the helper refuses the sandbox, and nothing is left (the leak check)
    r = b.run("--network", "egress", "host", "true", prefix=("strace", "-f", "-o", "/dev/null", "-e", "trace=listen", "-e",
                                                             "inject=listen:error=EADDRINUSE"))
    b.one_line_error(r, 125, "network", "listen on 127.0.0.1:3128")


def exe(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""
