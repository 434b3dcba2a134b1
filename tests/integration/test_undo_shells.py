# SPDX-License-Identifier: Apache-2.0
"""
berth undo brings shell sessions back as they were at the checkpoint: with bash on the host image, with dash and with
busybox ash, with a terminal and split.  Attacks: shells that answer nothing, too much, or what a session must not read.
"""
import json
import os

import berthtest as b
import box
from box import Box

SHELLS = ("bash", "dash", "ash")
STATE = """cd /etc; plain='one  two'; export SENT="it's \\"x\\" \\\\ end"; lines='a
b'; const=9; readonly const; unset PAGER; umask 027
hello() { echo "hello $1 $plain"; case $1 in x) echo '}';; esac; }
paren() ( echo in-paren )
gone() { echo gone; }; unset -f gone
alias say='echo said'; trap 'echo usr1' USR1; set -u -f; set -- p1 "p '2'"; (exit 7)"""
LOOK = """echo "$? $PWD $plain|$SENT|$lines|$const|${PAGER-none}|$1|$2|$#"; umask; hello x; paren
say ok
env | grep -c '^SENT='; env | grep -c '^plain='; case $- in *u*f*|*f*u*) echo options;; esac
type gone >/dev/null 2>&1 || echo no-gone; kill -USR1 $$; readonly -p | grep -c const=; type __berth_s __berth_f >/dev/null 2>&1"""
SEEN = """7 /etc one  two|it's "x" \\ end|a
b|9|none|p1|p '2'|2
0027
hello x one  two
}
in-paren
said ok
1
0
options
no-gone
usr1
1
"""
WRECK = "unset plain; cd /; hello() { echo wrong; }; alias say=false; set +u; set +f; set --; umask 022; trap - USR1"


def image_of(shell):
    return {"bash": lambda: "host", "dash": box.dash_rootfs, "ash": b.busybox_rootfs}[shell]()


def needs_file(x):
    """Where the layer is a directory under a quota it has no checkpoints while it runs."""
    if os.path.isdir(os.path.join(b.root(), "state", "sandboxes", x.id, "writable")):
        raise b.skip("the state directory has project quotas")


def sh(x, text, *options, **kw):
    return b.berth("sh", *options, x.id, input=text, **kw)


def undo(x, *options):
    return json.loads(b.berth("undo", "--json", *options, x.id, ok=True).out)


def folder(x):
    return os.path.join(b.root(), "state", "sandboxes", x.id, "checkpoints")


def plain(out):
    return out.replace("\r\n", "\n")


def test_a_session_comes_back_as_it_was_at_the_checkpoint():
    bad = []
    for shell in SHELLS:
        image = image_of(shell)
        for options in ([], ["--split"]):
            with Box("--memory", "256m", image=image) as x:
                needs_file(x)
                assert sh(x, STATE, *options).code == 7
                b.berth("checkpoint", x.id, ok=True)
                sh(x, WRECK, *options)
                told = undo(x)
                got = sh(x, LOOK, *options)
                if told["sessions"] != [{"session": "main", "restored": True}] or plain(got.out) != SEEN:
                    bad.append(f"{shell} {options}: {told} {got}")
                # it is a session like any other: it goes on, and its next checkpoint has the same state
                sh(x, "set +u; plain=three", *options)
                b.berth("checkpoint", x.id, ok=True)
                undo(x, "--to", "k1")
                undo(x, "--to", "k2")
                got = sh(x, "hello y; echo $SENT", *options)
                if plain(got.out) != "hello y three\nit's \"x\" \\ end\n":
                    bad.append(f"{shell} {options} again: {got}")
    assert not bad, "\n".join(bad)


def test_bash_gets_its_arrays_functions_and_shopts_back():
    with Box() as x:
        needs_file(x)
        sh(x, "declare -A map=([k]='v 1' [$'l\\n']=2); list=(1 '2 3' [7]=x); declare -i num=3; declare -n ref=num; "
              "shopt -s extglob nullglob; sent() { echo sent $1; }; export -f sent\nglob() { case $1 in +(a)) echo as;; esac; }\n"
              "declare -ft glob; set -o pipefail; HISTSIZE=7; trap 'true x' EXIT; PS1='p> '", ok=True)
        b.berth("checkpoint", x.id, ok=True)
        undo(x)
        got = sh(x, "echo ${map[k]} ${#map[@]} ${!list[@]} \"${list[1]}\" $ref $((num+=1)) $HISTSIZE \"$PS1\"; bash -c 'sent y'; glob aaa; "
                    "declare -F glob; shopt nullglob; set -o | grep pipefail; trap -p EXIT; echo /none*", ok=True).out
        assert plain(got).split("\n") == ["v 1 2 0 1 7 2 3 3 4 7 p> ", "sent y", "as", "glob", "nullglob       \ton", "pipefail       \ton",
                                          "trap -- 'true x' EXIT", "", ""], got


def test_tracing_and_a_status_come_back_and_show_no_line_of_ours():
    with Box() as x:
        needs_file(x)
        sh(x, "set -x", "--split", ok=True)
        sh(x, "(exit 5)", "--split")
        b.berth("checkpoint", x.id, ok=True)
        got = sh(x, "echo $?", "--split")
        told = undo(x)
        assert told["sessions"][0]["restored"], told
        again = sh(x, "echo $?", "--split")
        assert (again.out, again.err) == (got.out, got.err) == ("5\n", "++ echo 5\n"), (got, again)


def test_a_checkpoint_and_an_undo_print_nothing_and_change_no_status_in_a_session():
    for shell in SHELLS:
        image = image_of(shell)
        with Box("--memory", "256m", image=image) as x:
            needs_file(x)
            trap = "trap 'echo debug' DEBUG; " if shell == "bash" else ""
            sh(x, trap + "set -e; printf 'set -x\n' > /on; . /on; kept=1", ok=True)
            sh(x, "set +x; set +e; (exit 9)")
            for _ in range(2):
                b.berth("checkpoint", x.id, ok=True)
                b.berth("exec", x.id, "true", ok=True)
            b.berth("sh", x.id, input="trap - DEBUG 2>/dev/null; echo $?", ok=True)
            b.berth("undo", x.id, ok=True)
            got = plain(sh(x, "echo $? $kept").out)
            assert got.replace("debug\n", "") == "9 1\n" and got.count("debug") <= 3, (shell, got)


def test_an_interrupt_and_a_timeout_work_in_a_shell_that_came_back():
    for shell in SHELLS:
        with Box("--memory", "256m", image=image_of(shell)) as x:
            needs_file(x)
            sh(x, "kept=1; trap 'echo mine' USR2", ok=True)
            b.berth("checkpoint", x.id, ok=True)
            undo(x)
            assert sh(x, "sleep 1000; echo not reached", "--timeout", "300ms").code == 124
            assert plain(sh(x, "echo $kept; kill -USR2 $$", ok=True).out) == "1\nmine\n", shell


def test_sessions_that_cannot_come_back_are_named_with_the_reason():
    with Box() as x:
        needs_file(x)
        sh(x, "a=1", ok=True)
        sh(x, "big=$(head -c 300000 /dev/zero | tr '\\0' x)", "-s", "big", ok=True)
        sh(x, "a=3", "-s", "ended", ok=True)
        sh(x, "exit 0", "-s", "ended")
        assert sh(x, "touch /tmp/runs; read -r line < /dev/zero", "-s", "busy", "--on-timeout", "detach", "--timeout", "200ms").code == 123
        b.berth("checkpoint", x.id, ok=True)
        sh(x, "a=4", "-s", "late", ok=True)
        told = undo(x)
        assert sorted((s["session"], s["restored"], s.get("reason")) for s in told["sessions"]) == [
            ("big", False, "its state is longer than 256 KiB"), ("busy", False, "a command ran in it"),
            ("late", False, "it did not exist at the checkpoint"), ("main", True, None)], told
        assert [e["command"] for e in told["ended"]] == ["c4"] and all(e["pid"] > 1 for e in told["ended"]), told
        assert plain(sh(x, "echo $a", ok=True).out) == "1\n" and plain(sh(x, "echo ${a-new}", "-s", "late", ok=True).out) == "new\n"


def test_a_checkpoint_before_a_command_has_the_state_of_the_prompt_for_one_that_runs():
    with Box() as x:
        needs_file(x)
        sh(x, "a=1", ok=True)
        # the checkpoint of this text asks its shell; a later one, while it runs, uses that
        assert sh(x, "a=2; sleep 1000", "--checkpoint", "--on-timeout", "detach", "--timeout", "200ms").code == 123
        assert b.berth("checkpoint", x.id, ok=True).out == "k2\n"
        told = undo(x)
        assert told["checkpoint"] == "k2" and told["sessions"] == [{"session": "main", "restored": True}], told
        assert plain(sh(x, "echo $a", ok=True).out) == "1\n"


def test_an_undo_of_a_stopped_sandbox_brings_its_shells_back_with_the_next_start_once():
    with Box() as x:
        needs_file(x)
        sh(x, "a=1", ok=True)
        b.berth("checkpoint", x.id, ok=True)
        b.berth("stop", x.id, ok=True)
        assert undo(x)["sessions"] == [{"session": "main", "restored": True}]
        b.berth("start", x.id, ok=True)
        assert plain(sh(x, "echo $a", ok=True).out) == "1\n"
        b.berth("restart", x.id, ok=True)
        assert plain(sh(x, "echo ${a-none}", ok=True).out) == "none\n"


@b.deadline(120)
def test_a_shell_that_lies_or_is_silent_harms_only_itself():
    """What it answers, and answers not, holds nobody up for good and runs nowhere else."""
    lies = {
        "silent": "__berth() { :; }",
        "stuck": "__berth() { while :; do :; done; }",
        "endless": "printf() { while :; do builtin printf x >&9; done; }; __berth() { while :; do builtin printf x >&9; done; }",
        "nuls": "printf() { builtin printf '\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0' >&9; }",
        "quotes": "declare() { builtin printf \"declare -- a='\"; }",
        "cut": "declare() { exit 3; }",
    }
    with Box() as x:
        needs_file(x)
        sh(x, "kept=1", ok=True)
        for name, text in lies.items():
            # its own answer to the text may be lost with its function
            sh(x, text, "-s", name, "--timeout", "300ms", "--on-timeout", "detach")
        b.berth("checkpoint", x.id, ok=True)
        b.berth("exec", x.id, "true", ok=True)
        told = {s["session"]: s["restored"] for s in undo(x)["sessions"]}
        assert told.pop("main") and plain(sh(x, "echo $kept", ok=True).out) == "1\n", told
        # the file of one is read by its own session alone, and by no process of the host
        assert b.berth("exec", x.id, "true", ok=True).code == 0
        for name in lies:
            got = sh(x, "echo fine", "-s", name, "--timeout", "3s")
            assert got.code in (0, 124, 137), (name, got)


def test_the_files_of_states_go_with_their_checkpoint_and_a_damaged_one_is_no_session():
    with Box() as x:
        needs_file(x)
        sh(x, "a=1", ok=True)
        b.berth("checkpoint", x.id, ok=True)
        b.berth("checkpoint", x.id, ok=True)
        assert sorted(os.listdir(folder(x))) == ["k1.img", "k1.main.sh", "k2.img", "k2.main.sh", "list.json"]
        assert os.stat(folder(x) + "/k1.main.sh").st_mode & 0o777 == 0o600
        b.berth("checkpoint", "rm", x.id, "k1", ok=True)
        assert sorted(os.listdir(folder(x))) == ["k2.img", "k2.main.sh", "list.json"]
        for damage in ("", "#", "#{}\n", "#{\"version\":9}\na=2\n", "a=2\n", "#" + "[" * 3000):
            b.write(folder(x) + "/k2.main.sh", damage)
            told = undo(x, "--to", "k2")
            assert [(s["session"], s["restored"]) for s in told["sessions"]] == [("main", False)], (damage, told)
            assert plain(sh(x, "echo ${a-none}", ok=True).out) == "none\n", damage
