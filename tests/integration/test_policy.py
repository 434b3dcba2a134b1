# SPDX-License-Identifier: Apache-2.0
"""The command policy: what exec, sh, code and stdio refuse, and when (berth.toml(5), [policy])."""
import json

import berthtest as b
import box
from box import Box

COST = 6


def refused(r, rule):
    b.one_line_error(r, 125, f"the rule '{rule}'", "berth.toml")


def test_OM_commands_are_compared_by_words():
    """OpenManus' list is of substrings: it stops rm -rf /tmp/x and lets rm -r -f / pass."""
    with Box() as x:
        x.exec("mkdir", "/tmp/x", "/tmp/y", ok=True)
        for text in ("rm -r -f /", "sudo rm --recursive -f \"/\"", "/bin/rm -fr //", "cd /tmp && rm -rf /*"):
            refused(b.berth("sh", x.id, "--", text), "rm -rf /")
        b.berth("sh", x.id, "--", "rm -rf /tmp/x && echo 'rm -rf /'", ok=True)
        refused(x.exec("rm", "-r", "-f", "/"), "rm -rf /")
        refused(x.exec("sh", "-c", "true; /bin/rm -rf /"), "rm -rf /")
        refused(x.exec("rm", "-rf", "/", options=("-d",)), "rm -rf /")
        x.exec("rm", "-rf", "/tmp/y", ok=True)
        for text, rule in (("mkfs.ext4 x", "mkfs.*"), ("dd if=/dev/zero of=x", "dd if=/dev/zero"), (":(){ :|:& };:", ":(){:|:&};:"),
                           ("chmod -R 777 /", "chmod -R 777 /"), ("chown -R nobody /etc", "chown -R /etc")):
            refused(b.berth("sh", x.id, "--", text), rule)
        r = b.berth("sh", "--json", x.id, "--", "rm -rf /")
        assert r.code == 125 and json.loads(r.err)["error"]["code"] == "policy", b.describe(r)
        # nothing of it has run, and no session was opened for it
        assert [s["commands"] for s in x.main.call("sessions")["sessions"]] == [1]
        assert x.exec("ls", "/tmp", ok=True).out == ""


def test_code_and_stdio_are_under_it():
    with Box() as x:
        for lang in ("sh", "bash"):
            refused(b.berth("code", x.id, "--lang", lang, input="cd /\nrm -rf /\n"), "rm -rf /")
        r = b.berth("code", x.id, "--lang", "sh", input="rm -rf /tmp/none; echo ran", ok=True)
        b.expect(r.out == "ran\n", r, "it did not run")
        b.berth("code", x.id, "--lang", "python", input="print('rm -rf /')", ok=True)
        lines = [{"id": 1, "op": "sh", "sandbox": x.id, "text": "rm -rf /"}, {"id": 2, "op": "exec", "sandbox": x.id, "argv": ["mkfs"]},
                 {"id": 3, "op": "sh", "sandbox": x.id, "text": "echo on"}]
        r = b.berth("stdio", input="".join(json.dumps(line) + "\n" for line in lines), ok=True)
        told = {a["id"]: a for a in map(json.loads, r.out.splitlines())}
        assert told[1]["error"]["code"] == told[2]["error"]["code"] == "policy" and told[3]["output"] == "on\n", r.out


def test_the_rules_are_those_of_the_file_at_that_moment():
    path = b.write(b.tmp("berth.toml"), "[policy]\ndeny = [\"echo secret*\"]\n")
    env = {"BERTH_CONFIG": path}
    with Box(env=env) as x:
        refused(b.berth("sh", x.id, "--", "echo secrets", env=env), "echo secret*")
        b.berth("sh", x.id, "--", "echo other", env=env, ok=True)
        b.write(path, "[policy]\ndeny = [\"echo other\"]\n")
        b.berth("sh", x.id, "--", "echo secrets", env=env, ok=True)
        refused(x.exec("echo", "other"), "echo other")
        b.write(path, "[policy]\ndeny = []\n")
        # allowed, and the shell's own caution is what is left
        assert x.exec("rm", "-rf", "/").code == 1
        x.exec("echo", "other", ok=True)
        # while the file is wrong, the last rules that were right stay; the command line says what is wrong
        b.write(path, "[policy]\ndeny = [\"echo other\"]\n")
        refused(x.exec("echo", "other"), "echo other")
        b.write(path, "[policy]\ndeny = [\"> x\"]\n")
        try:
            x.main.exec("echo", "other")
            raise AssertionError("the rules are gone")
        except box.Refused as e:
            assert e.code == "policy", e.code
        b.one_line_error(x.exec("true"), 125, "policy.deny", "redirection")
        b.write(path, "")


def test_run_is_not_under_it():
    r = b.run("host", "sh", "-c", "echo rm -rf /; rm -rf / 2>&1 | head -n 1", ok=True)
    b.expect("dangerous" in r.out, r, "rm was not reached")
