# SPDX-License-Identifier: Apache-2.0
"""
Shell sessions under the adversarial battery: status, output and state exact every time.

The faults named OM, LS, REX and E2B are those of FIELD.md section 0: what the terminals of
other sandboxes lose, mix up or leave running.  With bash on the host image; what is common to
all shells also with dash and with busybox ash.  Attacks S5 of SECURITY.md (D08).
"""
import json
import os
import random
import signal
import threading
import time

import berthtest as b
import box
from box import Box, expect

COST = 90
SHELLS = ("bash", "dash", "ash")


def shell_box(shell, *options):
    image = {"bash": lambda: "host", "dash": box.dash_rootfs, "ash": b.busybox_rootfs}[shell]()
    return Box("--memory", "256m", *options, image=image)


def in_each_shell(test):
    """test(x, shell) once for each; what failed is told for all."""
    def all_of_them():
        bad = []
        for shell in SHELLS:
            try:
                with shell_box(shell) as x:
                    test(x, shell)
            except AssertionError as e:
                bad.append(f"{shell}: {e}")
        assert not bad, "\n".join(bad)
    all_of_them.__name__ = test.__name__
    return all_of_them


def alive(x, state=None, **kw):
    """The session answers at once and, when asked, has the state it had."""
    a = expect(x.sh("echo alive $kept", **kw), f"alive {state or ''}".rstrip() + "\n", 0, what="the session afterwards")
    if state:
        assert not a.fresh, "the shell was replaced"
    return a


# ---- output, byte for byte -------------------------------------------------

@in_each_shell
def test_digits_and_blank_lines_stay(x, shell):
    # OM drops each line that is only digits, and each blank one
    for text in ("1\n22\n\n333\n", "\n", "\n\n\n", "0", "", " \n", "\t\n1\n", "42\n" * 1000, "a\r\nb\rc\n"):
        x_out = x.sh("cat <<'EOT'\n" + text + "EOT") if text.endswith("\n") else x.sh(f"printf %s '{text}'")
        expect(x_out, text, 0, what=repr(text[:40]))


@in_each_shell
def test_output_that_looks_like_a_prompt_ends_nothing(x, shell):
    # OM takes "$ " at the end of the buffer for the end of the command
    expect(x.sh("printf '$ '; sleep 0.3; printf 'more$ '; sleep 0.3; printf '# '; exec 3>&1; printf '> '"), "$ more$ # > ", 0)
    expect(x.sh("printf 'root@x:/# '"), "root@x:/# ", 0)
    expect(x.sh("echo next"), "next\n", 0)


@in_each_shell
def test_no_newline_no_output_status_only(x, shell):
    expect(x.sh("printf abc"), "abc", 0)
    expect(x.sh("true"), "", 0)
    expect(x.sh("false"), "", 1)
    expect(x.sh("(exit 77)"), "", 77)
    expect(x.sh(""), "", 0, what="an empty text")
    expect(x.sh("\n\n  \n"), "", 0, what="blank lines")
    expect(x.sh("# only a comment"), "", 0)
    expect(x.sh("echo a; false; echo $?"), "a\n1\n", 0)
    expect(x.sh("nosuchcommand"), code=127)
    expect(x.sh("kill -9 $$x 2>/dev/null; sh -c 'kill -9 $$'"), code=137)


def test_every_byte_value_comes_through():
    data = bytes(range(256)) * 64
    octal = "".join(f"\\{c:03o}" for c in range(256))
    with Box() as x:
        expect(x.sh(f"for i in $(seq 64); do printf '{octal}'; done"), data, 0)
        noise = os.urandom(300_000)
        b.write(b.tmp("noise"), noise)
        with open(b.tmp("noise"), "rb") as f:
            b.berth("exec", x.id, "sh", "-c", "cat >/workspace/noise", stdin=f, ok=True)
        expect(x.sh("cat noise"), noise, 0)
        # the CLI: text when it is UTF-8, else hexadecimal; without --json the bytes
        r = b.berth("sh", "--json", x.id, "--", r"printf '\377\000x'", ok=True)
        assert bytes.fromhex(json.loads(r.out)["output_hex"]) == b"\xff\0x", r
        p = b.start("sh", x.id, "--", "cat noise")
        out, err = p.communicate(timeout=20 * b.SLOW)
        assert out == noise and not err, (len(out), err[:200])


def test_ten_mebibytes_on_one_line_are_bounded_and_counted():
    size = 10 << 20
    with Box() as x:
        for split in (False, True):
            name = f"s{split:d}"
            a = x.sh(f"head -c {size} /dev/zero | tr '\\0' x; printf END", session=name, split=split)
            expect(a, code=0, what=f"split {split}")
            assert a.total == size + 3, a.raw
            assert a.dropped == a.total - len(a.out) and a.dropped > 0, a.raw
            assert a.head_bytes == 1 << 20 and len(a.out) == 2 << 20, a.raw
            assert a.out.endswith(b"xEND") and a.out.strip(b"x") == b"END"
            expect(x.sh("echo small", session=name, split=split), "small\n", 0)
        # exactly at the bounds
        for n in ((1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2 << 20, (2 << 20) + 1):
            a = expect(x.sh(f"head -c {n} /dev/zero | tr '\\0' y"), code=0)
            assert (a.total, a.dropped) == (n, max(0, n - (2 << 20))), a.raw
            assert a.out == b"y" * min(n, 2 << 20)


@in_each_shell
def test_yes_is_ended_at_its_time_and_the_keeper_stays_small(x, shell):
    def rss():
        with open(f"/proc/{x.keeper}/status") as f:
            return int(next(l for l in f if l.startswith("VmRSS")).split()[1])
    expect(x.sh("kept=1; echo"), "\n", 0)
    a = x.sh("yes | cat" if shell == "bash" else "while :; do echo y; done", timeout_ms=1000)
    expect(a, code=124, status="timeout")
    assert a.verdict["cause"] == "timeout" and 1000 <= a.verdict["wall_ms"], a.verdict
    assert a.total == len(a.out) + a.dropped and a.out.count(b"y\n") * 2 > len(a.out) - 400, (a.total, a.dropped, a.out[-300:])
    alive(x, "1")
    # (a sanitizer keeps what was freed)
    assert rss() < (64 if b.SANITIZED else 12) << 10, f"the keeper has {rss()} KiB"


def test_what_a_background_job_prints_later_is_not_lost():
    with Box() as x:
        expect(x.sh("(until [ -e /tmp/go ]; do sleep 0.05; done; echo late; >/tmp/said) & echo now"), code=0)
        # the job prints with no command running
        x.exec("sh", "-c", ">/tmp/go; until [ -e /tmp/said ]; do sleep 0.05; done", ok=True)
        a = expect(x.sh("echo next"), code=0)
        assert a.out == b"late\nnext\n", a.out


# ---- state ------------------------------------------------------------------

@in_each_shell
def test_directory_variables_functions_and_options_last(x, shell):
    expect(x.sh("cd /tmp; v='a b'; export E=exported; f() { echo \"f $1 $v\"; }; umask 027; alias ll='echo aliased'"), "", 0)
    expect(x.sh("pwd; f 1; sh -c 'echo $E'; umask"), "/tmp\nf 1 a b\nexported\n0027\n", 0)
    expect(x.sh("ll"), "aliased\n", 0)
    expect(x.sh("set -- p q; g() { return 5; }; set -u"), "", 0)
    expect(x.sh("echo $# $2; g"), "2 q\n", 5)
    expect(x.sh("cd / && pwd"), "/\n", 0)
    expect(x.sh("(cd /tmp; v=inner; exit 4)"), "", 4)
    expect(x.sh("pwd; echo $v"), "/\na b\n", 0)


@in_each_shell
def test_the_last_status_is_that_of_the_text_before(x, shell):
    for text, code in (("false", 1), ("(exit 9)", 9), ("true", 0), ("return 4", 4), ("nosuchcommand 2>/dev/null", 127), ("fi 2>&1", 2)):
        assert x.sh(text).code == code, text
        expect(x.sh("echo $?"), f"{code}\n", 0, what=text)


@in_each_shell
def test_background_jobs_last_and_are_left_alone(x, shell):
    a = expect(x.sh("sleep 300 & echo hi"), "hi\n", 0)
    assert a.verdict["left_behind"] == 1, a.verdict
    expect(x.sh("pid=$!; kill -0 $pid && echo there"), "there\n", 0)
    # a command that is ended for its time takes only its own
    a = x.sh("sleep 301", timeout_ms=500)
    expect(a, code=124, status="timeout")
    assert len(x.running("sleep 300")) == 1 and not x.running("sleep 301")
    # the shells themselves say "Terminated" of a job that was killed
    a = expect(x.sh("kill $pid; wait $pid; echo $?"), code=0)
    assert b"143\n" in a.out, a.out
    assert not x.running("sleep")


@in_each_shell
def test_exit_ends_the_session_and_the_next_command_says_so(x, shell):
    expect(x.sh("kept=1; cd /tmp"), "", 0)
    a = expect(x.sh("echo bye; exit 3; echo never"), "bye\n", 3)
    assert a.ended and a.verdict["cause"] == "exit", box.show(a)
    a = expect(x.sh("echo \"[$kept]\"; pwd"), code=0)
    assert a.fresh and a.out == b"[]\n/workspace\n", box.show(a)
    assert not x.sh("true").fresh
    a = expect(x.sh("exec sh -c 'echo replaced; exit 9'"), "replaced\n", 9)
    assert a.ended, box.show(a)
    a = expect(x.sh("kill -9 $$"), code=137)
    assert a.ended and a.verdict["cause"] == "signal", box.show(a)
    alive(x)


@in_each_shell
def test_set_e_ends_the_shell_with_the_status_and_no_hang(x, shell):
    a = expect(x.sh("set -e; echo one; false; echo two"), "one\n", 1)
    assert a.ended, box.show(a)
    alive(x)
    # with no failure it holds, and a later failure is told
    expect(x.sh("set -e; true"), "", 0)
    a = expect(x.sh("sh -c 'exit 6'; echo no"), "", 6)
    assert a.ended, box.show(a)
    alive(x)


@in_each_shell
def test_return_at_the_top_ends_the_command_only(x, shell):
    expect(x.sh("kept=1; echo a; return 4; echo b"), "a\n", 4)
    alive(x, "1")


def test_exec_bash_runs_on_in_the_same_session():
    # OM and REX lose the prompt they wait for
    with Box() as x:
        a = x.sh("exec bash", timeout_ms=60000)
        # a new shell that reads the terminal: it is answered as that, and can be typed to, or ended
        assert a.status in ("awaiting-input", "done"), box.show(a)
        if a.status == "awaiting-input":
            x.main.type("echo typed; exit 7\n")
            a = x.main.sh_wait()
            assert b"typed" in a.out and a.code == 7 and a.ended, box.show(a)
        alive(x)
        # a nested one, not exec'd
        a = x.sh("kept=2; bash", timeout_ms=60000)
        expect(a, status="awaiting-input")
        x.main.type("echo nested\nexit 5\n")
        a = expect(x.main.sh_wait(), code=5)
        assert b"nested" in a.out, a.out
        alive(x, "2")


# ---- syntax -------------------------------------------------------------------

@in_each_shell
def test_unfinished_syntax_is_answered_at_once(x, shell):
    expect(x.sh("kept=1"), "", 0)
    for text in ("echo 'unbalanced", 'echo "unbalanced', "echo `x", "echo $(x", "if true; then echo a", "for i in 1 2; do",
                 "f() {", "case x in", "while true; do echo", "(echo", "echo a &&", "echo a |", "{ echo", "fi", "done", ")"):
        a = x.sh(text, timeout_ms=100000)
        assert a.status == "done" and a.code in (1, 2), f"{text}: {box.show(a)}"
        assert not a.ended, f"{text}: {box.show(a)}"
        alive(x, "1")


@in_each_shell
def test_heredocs_and_long_texts_of_many_lines(x, shell):
    expect(x.sh("v=7\ncat <<E\na $v\n  b\nE\ncat <<'E'\n$v\nE\ncat <<-E\n\ttabs\n\tE\necho end"), "a 7\n  b\n$v\ntabs\nend\n", 0)
    # one that is not ended, ends with the text
    a = expect(x.sh("cat <<E\nopen", timeout_ms=60000), code=0)
    assert a.out.endswith(b"open\n") and (b"end-of-file" in a.out) == (shell == "bash"), box.show(a)
    expect(x.sh("f() {\n  echo one\n\n  echo two\n}\nf\nif true\nthen\n  echo three\nfi"), "one\ntwo\nthree\n", 0)
    expect(x.sh("echo a \\\n  b"), "a b\n", 0)
    expect(x.sh("echo '\n\n'"), "\n\n\n", 0)


@in_each_shell
def test_a_text_of_one_mebibyte(x, shell):
    lines = 1 << 14
    text = "".join(f"n=$((n+1)) # {'.' * 48}\n" for _ in range(lines))
    assert len(text) > 1_000_000
    expect(x.sh("n=0\n" + text + "echo $n"), f"{lines}\n", 0)
    word = "w" * (1 << 20)
    expect(x.sh(f"v={word}; echo ${{#v}}"), f"{1 << 20}\n", 0)


def test_a_text_with_odd_bytes():
    with Box() as x:
        expect(x.sh("printf %s 'ü\x01\x7f\x04\x03\x1b[0m\t'"), "ü\x01\x7f\x04\x03\x1b[0m\t", 0)
        expect(x.sh(b"printf %s '\xff\xfe'"), b"\xff\xfe", 0)
        expect(x.sh("echo a\r\necho b"), code=0)
        r = b.berth("sh", x.id, input="echo from stdin; exit 4\n", ok=4)
        b.expect(r.out == "from stdin\n", r, "text on stdin")


# ---- traces and traps ----------------------------------------------------------

@in_each_shell
def test_traces_show_the_text_and_nothing_of_ours(x, shell):
    plus = "++" if shell == "bash" else "+"  # bash: a level for the file
    for start in ("set -x", "set -o xtrace", "set -u -x"):
        expect(x.sh(f"kept=1; {start}; echo a; false || :"), code=0)
        expect(x.sh("echo b; (exit 3) || return 3"), code=3)
        expect(x.sh("echo $? $kept"), f"{plus} echo 3 1\n3 1\n", 0, what=start)
        a = expect(x.sh("echo c >&2; exec 3>&2; echo d >&3"), code=0)
        assert sorted(a.out.split(b"\n")) == sorted(f"\n{plus} echo c\nc\n{plus} exec\n{plus} echo d\nd".encode().split(b"\n")), a.out
        expect(x.sh("set +ux"), code=0)
        expect(x.sh("echo e"), "e\n", 0, what=start)
    expect(x.sh("f() { set -x; }"), "", 0)
    expect(x.sh("f; echo g"), f"{plus} echo g\ng\n", 0)
    expect(x.sh("echo 'unfinished"), code=2 if shell != "bash" else None)
    expect(x.sh("set +x\n"), f"{plus} set +x\n", 0)
    a = expect(x.sh("set -v\necho a"), code=0)
    assert b"berth" not in a.out and a.out.endswith(b"a\n"), a.out
    for text in ("echo b", "set -x; echo b", "echo b"):
        a = expect(x.sh(text), code=0)
        assert b"berth" not in a.out and b"printf" not in a.out and b"echo b" in a.out and a.out.endswith(b"b\n"), (text, a.out)
    expect(x.sh("set +xv"), code=0)
    alive(x, "1")


@in_each_shell
def test_a_trap_taken_away_costs_no_session(x, shell):
    expect(x.sh("kept=1; trap 'echo caught' INT; trap - INT; (exit 6)"), "", 6)
    expect(x.sh("echo $?"), "6\n", 0)
    a = x.sh("sleep 30; echo no", timeout_ms=300, on_timeout="interrupt")
    expect(a, "", status="timeout")
    assert not a.ended, box.show(a)
    alive(x, "1")
    # one of the user's own stays
    expect(x.sh("trap 'echo caught' INT"), "", 0)
    expect(x.sh("kill -INT $$"), "caught\n", 0)
    expect(x.sh("echo on; trap '' INT"), "on\n", 0)
    expect(x.sh("sh -c 'kill -INT $$; echo ignored'"), "ignored\n", 0)
    alive(x, "1")


# ---- input --------------------------------------------------------------------

@in_each_shell
def test_read_is_answered_by_input(x, shell):
    a = x.sh("printf 'name? '; read x; echo \"hello $x\"", timeout_ms=100000)
    expect(a, "name? ", status="awaiting-input")
    try:
        x.sh("echo meanwhile")
        raise AssertionError("a second command was taken")
    except box.Refused as busy:
        assert busy.code == "busy", busy.code
    x.main.type("world\n")
    expect(x.main.sh_wait(), "hello world\n", 0)
    expect(x.sh("echo $x"), "world\n", 0)


@in_each_shell
def test_end_of_file_as_input(x, shell):
    expect(x.sh("cat; echo end", timeout_ms=100000), status="awaiting-input")
    x.main.type("line\n")
    x.main.call("send", eof=True)
    expect(x.main.sh_wait(), "line\nend\n", 0)


def test_python_asks_and_sleep_does_not():
    with Box() as x:
        a = x.sh("python3 -c 'x = input(\"? \"); print(int(x) * 2)'", timeout_ms=100000)
        expect(a, "? ", status="awaiting-input")
        x.main.type("21\n")
        expect(x.main.sh_wait(), "42\n", 0)
        # what only sleeps, computes or waits for a pipe is busy
        for text in ("sleep 1", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done", "sleep 1 | cat", "cat <(sleep 1)"):
            expect(x.sh(text), "", 0, what=text)


def test_a_passwords_prompt_leaves_the_terminal_as_it_was():
    with Box() as x:
        expect(x.sh("stty -a | grep -o -e '-\\?echo '"), "-echo \n", 0)
        a = x.sh("stty -echo; printf 'pw: '; read p; stty echo; echo \"got $p\"; stty -echo", timeout_ms=100000)
        expect(a, "pw: ", status="awaiting-input")
        x.main.type("secret\n")
        expect(x.main.sh_wait(), "got secret\n", 0)
        for mode in ("stty -echo", "stty raw", "stty -icanon min 1", "stty sane"):
            expect(x.sh(mode), "", 0, what=mode)
            # "sane" turns newlines into CR LF again: asked for, given
            a = x.sh("echo after; printf 'no newline'")
            assert a.out.replace(b"\r\n", b"\n") == b"after\nno newline" and a.code == 0, f"{mode}: {box.show(a)}"


# ---- ended by force -------------------------------------------------------------

@in_each_shell
def test_timeouts_kill_the_tree_and_leave_the_shell(x, shell):
    expect(x.sh("kept=here; cd /tmp; sleep 901 & echo"), "\n", 0)
    for text in ("sleep 902", "sleep 902; echo not this", "(sleep 902 & sleep 902)", "setsid sleep 902 & sleep 902",
                 "(setsid sleep 902 &) ; sleep 902", "trap '' TERM INT; sleep 902", "sh -c 'trap \"\" TERM INT HUP; while :; do sleep 902; done'",
                 "sleep 902 | sleep 902 | cat", "if sleep 902; then :; else echo not this; fi; echo not this"):
        a = x.sh(text, timeout_ms=300)
        expect(a, code=124, status="timeout", what=text)
        assert a.verdict["timed_out"], f"{text}: {a.verdict}"
        assert not x.running("sleep 902"), f"{text} leaves {x.running('sleep 902')}"
        assert b"not this" not in a.out, f"the rest of the text ran: {box.show(a)}"
        assert len(x.running("sleep 901")) == 1, f"{text}: the earlier job is gone"
        a = alive(x, "here")
    expect(x.sh("pwd"), "/tmp\n", 0)


@in_each_shell
def test_what_a_shell_starts_at_the_moment_of_a_timeout_dies_too(x, shell):
    """The shell is told to leave while it forks: what it has started by then is not older than the text."""
    expect(x.sh("kept=here; sleep 901 & echo"), "\n", 0)
    # forked it is already; it has the name when it has executed sleep
    b.wait_for(lambda: len(x.running("sleep 901")) == 1, 20, "the earlier job")
    for timeout_ms in range(1, 41, b.times(4, 1)):
        a = x.sh("i=0; while [ $i -lt 60 ]; do setsid sleep 903 & i=$((i+1)); done; sleep 903", timeout_ms=timeout_ms)
        expect(a, code=124, status="timeout", what=f"{timeout_ms} ms")
        left = x.running("sleep 903")
        assert not left and a.verdict["left_behind"] == 0, f"{timeout_ms} ms leave {left}: {a.verdict}"
        assert len(x.running("sleep 901")) == 1, f"{timeout_ms} ms: the earlier job is gone"
    # bash says first which of its jobs were killed
    a = x.sh("echo alive $kept")
    assert a.out.endswith(b"alive here\n") and not a.fresh, box.show(a)


@in_each_shell
def test_a_timeout_spares_what_an_earlier_job_starts(x, shell):
    expect(x.sh("rm -f /tmp/hurt; (trap '' INT; while :; do sleep 904 & wait $! || { echo killed >>/tmp/hurt; exit; }; done) & echo"), "\n", 0)
    expect(x.sh("(trap '' INT; while :; do sh -c 'sleep 0.05' || echo killed >>/tmp/hurt; done) 2>/dev/null & echo"), "\n", 0)
    for _ in range(5):
        expect(x.sh("setsid sleep 905 & sleep 905", timeout_ms=100), code=124, status="timeout")
        assert not x.running("sleep 905") and len(x.running("sleep 904")) == 1
    expect(x.sh("cat /tmp/hurt 2>/dev/null || :"), "", 0)


@in_each_shell
def test_a_loop_in_the_shell_itself_is_left(x, shell):
    expect(x.sh("kept=1"), "", 0)
    for text in ("while :; do :; done", "trap '' TERM INT; while :; do :; done", "f() { while :; do :; done; }; f",
                 "for i in 1 2 3; do while :; do true; done; done"):
        a = x.sh(text, timeout_ms=300)
        expect(a, code=124, status="timeout", what=text)
        # the shell lives if it can; if it had to go, that is said
        c = x.sh("echo alive $kept")
        assert c.status == "done" and c.out in ((b"alive 1\n",) if not a.ended else (b"alive\n", b"alive \n")), \
            f"{text}: {box.show(a)}, then {box.show(c)}"
        assert c.fresh == a.ended
        x.sh("kept=1")


@in_each_shell
def test_a_shell_that_stops_itself_is_woken(x, shell):
    expect(x.sh("kept=1"), "", 0)
    a = x.sh("kill -STOP $$; echo on", timeout_ms=500)
    # ended for its time, and the shell is there again
    assert a.status == "timeout", box.show(a)
    c = x.sh("echo alive")
    assert c.status == "done" and c.out == b"alive\n", box.show(c)
    a = x.sh("sh -c 'kill -STOP $$; echo on'", timeout_ms=500)
    assert a.status in ("timeout", "done"), box.show(a)
    expect(x.sh("echo again"), "again\n", 0)


def test_a_fork_bomb_is_bounded_and_told():
    with Box("--pids", "128") as x:
        expect(x.sh("kept=1"), "", 0)
        a = x.sh("bomb() { bomb | bomb & }; bomb; sleep 30", timeout_ms=3000)
        assert a.verdict["cause"] in ("pids", "timeout"), box.show(a)
        assert a.verdict["pids_refused"] > 0, a.verdict
        c = x.sh("echo alive")
        assert c.status == "done" and c.out == b"alive\n", box.show(c)
        x.exec("true", ok=True)
        b.wait_for(lambda: len(x.processes()) < 8, 5, "the end of the bomb")


def test_on_timeout_interrupt():
    with Box("--grace", "60s") as x:
        expect(x.sh("kept=1"), "", 0)
        a = x.sh("sh -c 'trap \"echo caught; exit 5\" INT; while :; do sleep 0.05; done'", timeout_ms=6000, on_timeout="interrupt")
        expect(a, "caught\n", status="timeout")
        alive(x, "1")
    with Box("--grace", "300ms") as x:
        expect(x.sh("kept=1"), "", 0)
        a = x.sh("sh -c 'trap \"\" INT TERM; while :; do sleep 0.05; done'", timeout_ms=6000, on_timeout="interrupt")
        expect(a, code=124, status="timeout")
        alive(x, "1")


def test_the_keeper_sleeps_while_an_interrupt_is_given_time():
    def cpu_seconds():
        with open(f"/proc/{x.keeper}/schedstat") as f:
            return int(f.read().split()[0]) / 1e9
    with Box("--grace", "2s") as x:
        expect(x.sh("kept=1"), "", 0)
        before = cpu_seconds()
        a = x.sh("trap '' INT; sleep 100", timeout_ms=6000, on_timeout="interrupt")
        expect(a, code=124, status="timeout")
        # a share of the time: a loop takes most of it, the few looks at the processes next to nothing
        assert cpu_seconds() - before < 0.2 * a.verdict["wall_ms"] / 1000, (cpu_seconds() - before, a.verdict)
        alive(x, "1")


def test_on_timeout_freeze():
    with Box() as x:
        a = x.sh("i=0; while [ $i -lt 20 ]; do i=$((i+1)); echo $i; sleep 0.1; done", timeout_ms=700, on_timeout="freeze")
        expect(a, status="frozen")
        seen = a.out
        time.sleep(1)
        a = expect(x.main.sh_wait(), code=0)
        assert seen + a.out == "".join(f"{i}\n" for i in range(1, 21)).encode(), (seen, a.out)
        alive(x)
        # other sessions run meanwhile, and a frozen one can be closed
        a = x.sh("sleep 903", timeout_ms=200, on_timeout="freeze")
        expect(a, status="frozen")
        expect(x.sh("echo other", session="other"), "other\n", 0)
        x.main.call("session-close")
        b.wait_for(lambda: not x.running("sleep 903"), 3, "the end of a frozen session")
        alive(x)


def test_on_timeout_detach():
    with Box() as x:
        expect(x.sh("waits() { until [ -e /tmp/go ]; do sleep 0.05; done; rm /tmp/go; }"), "", 0)
        a = x.sh("echo one; waits; echo two; (exit 6)", timeout_ms=6000, on_timeout="detach")
        expect(a, "one\n", status="running")
        x.exec("touch", "/tmp/go", ok=True)
        expect(x.main.sh_wait(), "two\n", 6)
        alive(x)


def test_the_result_of_a_detached_command_waits_for_its_reader():
    # OM: after a timeout the next command reads the output of the one before
    with Box() as x:
        expect(x.sh("waits() { until [ -e /tmp/go ]; do sleep 0.05; done; rm /tmp/go; }"), "", 0)
        a = x.sh("echo one; waits; echo two; (exit 6)", timeout_ms=6000, on_timeout="detach")
        expect(a, "one\n", status="running")
        x.exec("touch", "/tmp/go", ok=True)
        b.wait_for(lambda: not x.main.call("sessions")["sessions"][0]["busy"], 5, "the end of the command")
        expect(x.main.sh_wait(), "two\n", 6)
        a = x.sh("echo three; waits; echo four; (exit 6)", timeout_ms=6000, on_timeout="detach")
        expect(a, "three\n", status="running")
        x.exec("touch", "/tmp/go", ok=True)
        b.wait_for(lambda: not x.main.call("sessions")["sessions"][0]["busy"], 5, "the end of the command")
        # whoever does not come for it does not get it as the output of something else
        expect(x.sh("echo five"), "five\n", 0)


def test_after_a_timeout_no_stale_output():
    with Box() as x:
        for i in range(5):
            a = x.sh("while :; do echo stale; sleep 0.01; done", timeout_ms=200)
            expect(a, code=124, status="timeout")
            expect(x.sh(f"echo fresh {i}"), f"fresh {i}\n", 0)


# ---- Ctrl-C -----------------------------------------------------------------------

@in_each_shell
def test_ctrl_c_ends_the_command_and_not_the_shell(x, shell):
    expect(x.sh("kept=1"), "", 0)
    # the rest of the text does not run
    texts = ("sleep 904", "cat", "sh -c 'sleep 904; exit 1'", "sleep 904; sleep 904", "sleep 904; echo no; sleep 904",
             "f() { sleep 904; echo no; }; g() { f; echo no; }; g; echo no", "for i in 1 2 3; do sleep 904; echo no; done; echo no",
             "(sleep 904; echo no); echo no", "sleep 904 | cat; echo no")
    for text in texts:
        for how in ("type", "signal"):
            c = x.main
            c.sh_send(text, timeout_ms=100000)
            d = x.clients[1] if len(x.clients) > 1 else x.client()
            if text == "cat":
                expect(c.sh_answer(), status="awaiting-input")
            else:
                # all of a pipe, as what is not there yet cannot be interrupted
                b.wait_for(lambda: x.running("sleep 904") and ("| cat" not in text or x.running("cat")), 5, "sleep")
            if text == "cat":
                c.send("sh-wait", timeout_ms=100000)
            if how == "type":
                d.type(b"\x03")
            else:
                d.call("signal", signal=2)
            a = c.sh_answer(5)
            assert a.status == "done", f"{text} by {how}: {box.show(a)}"
            assert a.code == 130 and b"no" not in a.out, f"{text} by {how}: {box.show(a)}"
            # of a pipe or a subshell the last may still be dying
            b.wait_for(lambda: not x.running("sleep 904"), what=f"the end of {text} by {how}")
            alive(x, "1")


@in_each_shell
def test_an_interrupt_without_a_terminal_reaches_what_the_command_started(x, shell):
    expect(x.sh("kept=1; sleep 905 & echo", split=True), "\n", 0)
    d = x.client()
    for text in ("sleep 904; echo no", "sleep 904 | cat; echo no", "f() { sleep 904; echo no; }; f; echo no", "(sleep 904; echo no)",
                 "echo up; while :; do :; done; echo no"):
        x.main.sh_send(text, timeout_ms=100000, split=True)
        if "904" in text:
            b.wait_for(lambda: x.running("sleep 904") and ("| cat" not in text or x.running("cat")), 5, "sleep")
        d.call("signal", signal=2)
        a = x.main.sh_answer(10)
        assert a.status == "done" and a.code == 130 and b"no" not in a.out, f"{text}: {box.show(a)}"
        b.wait_for(lambda: not x.running("sleep 904"), what=f"the end of {text}")
        alive(x, "1", split=True)
    # the job of an earlier command is not one of its business
    assert len(x.running("sleep 905")) == 1
    a = x.sh("sh -c 'trap \"echo caught; exit 5\" INT; echo up; while :; do sleep 0.05; done'; echo on", timeout_ms=6000,
             on_timeout="interrupt", split=True)
    expect(a, "up\ncaught\non\n", status="timeout")
    x.main.sh_send("sh -c 'trap \"echo term; exit 6\" TERM; echo up; while :; do sleep 0.05; done'", timeout_ms=100000, split=True)
    b.wait_for(lambda: x.handling("sh -c trap", signal.SIGTERM), 5, "the trap")
    d.call("signal", signal=15)
    x.main.sh_answer(10)
    try:
        d.call("signal", signal=2)
        raise AssertionError("there was something to signal")
    except box.Refused as e:
        assert e.code == "not-found", e.code
    alive(x, "1", split=True)


@in_each_shell
def test_ctrl_c_where_the_shell_itself_is_the_foreground(x, shell):
    expect(x.sh("kept=1"), "", 0)
    for text in ("echo up; while :; do :; done; echo no", "f() { while :; do :; done; echo no; }; echo up; f; echo no"):
        for how in ("type", "signal"):
            before = ticks(x.processes()[0])
            x.main.sh_send(text, timeout_ms=100000)
            d = x.clients[1] if len(x.clients) > 1 else x.client()
            b.wait_for(lambda: ticks(x.processes()[0]) > before + 5, 5, "the loop")
            if how == "type":
                d.type(b"\x03")
            else:
                d.call("signal", signal=2)
            a = x.main.sh_answer(5)
            assert a.status == "done" and a.code == 130 and a.out in (b"up\n", b"up\n^C"), f"{text} by {how}: {box.show(a)}"
            x.sh("sleep 0.01")
            alive(x, "1")


@in_each_shell
def test_what_a_trap_of_the_texts_own_starts_is_not_interrupted(x, shell):
    expect(x.sh("kept=1"), "", 0)
    before = ticks(x.processes()[0])
    x.main.sh_send("trap 'sh -c \"sleep 0.4; echo cleaned\"' INT; while :; do :; done; echo no", timeout_ms=100000)
    b.wait_for(lambda: ticks(x.processes()[0]) > before + 5, 5, "the loop")
    x.client().call("signal", signal=2)
    a = x.main.sh_answer(10)
    assert a.status == "done" and a.code == 130 and a.out == b"cleaned\n" and not a.ended, box.show(a)
    alive(x, "1")


@b.deadline(120)
@in_each_shell
def test_one_ctrl_c_ends_a_loop_of_short_commands(x, shell):
    """Wherever it hits: between two of them, while one starts or has just ended."""
    expect(x.sh("kept=1"), "", 0)
    rng = random.Random(7)
    d = x.client()
    for text in ("while :; do /bin/true; done; echo rest", "while :; do /bin/true | cat; done; echo rest", "while :; do (:); done; echo rest",
                 "f() { while :; do /bin/true; done; echo rest; }; g() { f; echo rest; }; g; echo rest",
                 "i=0; while [ $i -lt 1000000000 ]; do i=$((i+1)); done; echo rest"):
        for i in range(12):
            x.main.sh_send(text, timeout_ms=100000)
            time.sleep(0.02 + rng.random() / 50)  # the moment to hit
            if i % 2:
                d.type(b"\x03")
            else:
                d.call("signal", signal=2)
            assert x.main.ready(5), f"{text}, the {i}th: goes on"
            a = x.main.sh_answer(5)
            assert a.status == "done" and a.code == 130 and b"rest" not in a.out, f"{text}, the {i}th: {box.show(a)}"
        alive(x, "1")


@b.deadline(120)
@in_each_shell
def test_an_interrupt_counts_from_the_first_moment_of_a_text(x, shell):
    """Before there is a shell, before it has its traps, before it reads the text, before the first process."""
    rng = random.Random(11)
    d = x.client()

    def ended_by(how, what, **session):
        if how == "type":
            d.type(b"\x03", **session)
        else:
            d.call("signal", signal=2, **session)
        assert x.main.ready(10), f"{what}: goes on"
        a = x.main.sh_answer(5)
        assert a.status == "done" and a.code == 130 and not a.ended and b"no" not in a.out, f"{what}: {box.show(a)}"

    for i in range(30):     # each a new shell
        split = i % 3 == 2
        x.main.sh_send("sleep 907; echo no", timeout_ms=100000, session=f"s{i}", split=split)
        time.sleep(i / 3000)  # the moment to hit
        ended_by("type" if i % 3 == 1 else "signal", f"a new shell, {i / 3:.1f} ms", session=f"s{i}")
        x.main.call("session-close", session=f"s{i}")
    for split in (False, True):
        session = {"session": f"long{split:d}"}
        expect(x.sh("kept=1", split=split, **session), "", 0)
        for i in range(60):
            text = ("sleep 907; echo no", "f() { sleep 907; echo no; }; f; echo no", "sleep 907 | cat; echo no",
                    "# " + "x" * 2000 + "\nsleep 907; echo no")[i % 4]
            x.main.sh_send(text, timeout_ms=100000, split=split, **session)
            time.sleep(rng.random() / 300)
            ended_by("type" if i % 2 and not split else "signal", f"{text}, the {i}th", **session)
        alive(x, "1", split=split, **session)
        assert not x.running("sleep")


def ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[11])


@in_each_shell
def test_who_handles_an_interrupt_goes_on(x, shell):
    """A program that catches Ctrl-C is not the end of the text."""
    x.main.sh_send("sh -c 'trap \"echo caught; exit 0\" INT; while :; do sleep 0.05; done'; echo on", timeout_ms=100000)
    b.wait_for(lambda: x.handling("sh -c trap", signal.SIGINT), 5, "the trap")
    x.client().type(b"\x03")
    expect(x.main.sh_answer(5), "caught\non\n", 0)


@in_each_shell
def test_a_timeout_leaves_any_depth_of_functions_at_once(x, shell):
    expect(x.sh("kept=1; r() { if [ $1 = 0 ]; then sleep 906; else r $(($1 - 1)); fi; echo no; }"), "", 0)
    for text in ("r 50; echo no", "r 5; r 5", "r 60 || echo no", "while r 3; do echo no; done", "{ r 3; echo no; } 9>/dev/null; echo no"):
        a = x.sh(text, timeout_ms=200)
        expect(a, code=124, status="timeout", what=text)
        assert b"no" not in a.out, f"{text}: {box.show(a)}"
        alive(x, "1")


def test_ctrl_c_of_the_client_ends_its_command():
    """SIGINT to berth sh: the command of the session ends, the session lives."""
    with Box() as x:
        expect(x.sh("kept=1"), "", 0)
        p = b.start("sh", x.id, "--", "sleep 905; echo no")
        b.wait_for(lambda: x.running("sleep 905"), 5, "sleep")
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=10 * b.SLOW)
        b.wait_for(lambda: not x.running("sleep 905"), 5, "the end of the command")
        b.wait_for(lambda: not x.main.call("sessions")["sessions"][0]["busy"], 5, "the end of the command")
        # what it printed until then was for a client that is gone
        alive(x, "1")


# ---- many -------------------------------------------------------------------------------

@b.deadline(120)
def test_a_thousand_commands_in_a_row_are_exact():
    rng = random.Random(20260822)
    with Box() as x:
        expect(x.sh("n=0"), "", 0)
        for i in range(1000):
            code = rng.choice((0, 0, 1, 2, 42, 126, 127, 130, 255))
            size = rng.choice((0, 1, 10, 100, 3000, 20000))
            data = bytes(rng.choice(b"0123456789 \n$#>abc\\'\"%\t\r\x1b\x00\xff") for _ in range(size))
            quoted = "".join(f"\\{c:03o}" for c in data)
            a = x.sh(f"n=$((n+1)); printf '{quoted}'; (exit {code})")
            expect(a, data, code, what=f"command {i}")
        expect(x.sh("echo $n"), "1000\n", 0)


def test_a_hundred_commands_by_the_cli_are_exact():
    rng = random.Random(7)
    with Box() as x:
        for i in range(100):
            word, code = rng.randbytes(8).hex(), rng.randrange(0, 120)
            r = b.berth("sh", x.id, "--", f"echo {word}; (exit {code})", ok=code)
            b.expect((r.out, r.err) == (word + "\n", ""), r, f"command {i}")


def test_sessions_in_parallel_are_apart():
    bad = []

    def work(x, name):
        try:
            with box.Client(x.dir + "/sock") as c:
                expect(c.sh(f"me={name}; cd /tmp; n=0", session=name), "", 0)
                for i in range(40):
                    a = c.sh(f"n=$((n+1)); echo $me $n; head -c {i * 500} /dev/zero | tr '\\0' {name[0]}; (exit {i})", session=name)
                    expect(a, f"{name} {i + 1}\n" + name[0] * i * 500, i, what=name)
        except BaseException as e:  # told by the main thread
            bad.append(f"{name}: {e!r}")
    with Box() as x:
        names = [f"{c}session" for c in "abcdefgh"]
        threads = [threading.Thread(target=work, args=(x, n)) for n in names]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not bad, "\n".join(bad)
        listed = json.loads(b.berth("sh", "--list", x.id, ok=True).out)
        assert sorted(s["session"] for s in listed) == names and all(s["commands"] == 41 for s in listed), listed
        # the limit is said, and closing one makes room
        for i in range(8):
            expect(x.sh("true", session=f"more{i}"), "", 0)
        try:
            x.sh("true", session="one-more")
            raise AssertionError("a 17th session")
        except box.Refused as e:
            assert e.code == "limit", e.code
        b.berth("sh", "--close", "--session", "more0", x.id, ok=True)
        expect(x.sh("echo in", session="one-more"), "in\n", 0)
        b.one_line_error(b.berth("sh", "--close", "--session", "nosuch", x.id), 125, "nosuch")
        b.one_line_error(b.berth("sh", "--session", "../x", x.id, "--", "true"), 2, "session")
        b.one_line_error(b.berth("sh", "--close", "--list", x.id), 2, "only one of")
        for option in ("--list", "--close", "--wait"):
            for command in (("true",), ("--", "true")):
                b.one_line_error(b.berth("sh", option, x.id, *command), 2, "'true'")


@in_each_shell
def test_split_keeps_stdout_and_stderr_apart(x, shell):
    a = expect(x.sh("echo out; echo err >&2; printf more", split=True), "out\nmore", 0)
    assert a.err == b"err\n", a.err
    a = expect(x.sh("kept=1; nosuchcommand", split=True), "", 127)
    assert b"nosuchcommand" in a.err, a.err
    a = expect(x.sh("[ -t 0 ] || [ -t 1 ] || echo no terminal; echo $kept", split=True), "no terminal\n1\n", 0)
    a = x.sh("sleep 906", split=True, timeout_ms=300)
    expect(a, code=124, status="timeout")
    expect(x.sh("echo $kept", split=True), "1\n", 0)
    try:
        x.sh("true")
        raise AssertionError("the same session both with and without a terminal")
    except box.Refused as e:
        assert e.code == "exists", e.code
    expect(x.sh("[ -t 0 ] && [ -t 1 ] && echo terminal", session="tty"), "terminal\n", 0)


# ---- D08: nothing the payload does can fake the end of a command ------------------------

@b.deadline(120)
def test_D08_the_end_of_a_command_cannot_be_forged():
    with Box() as x:
        b.write(b.tmp("spoof.py"), SPOOF)
        with open(b.tmp("spoof.py")) as f:
            b.berth("exec", x.id, "sh", "-c", "cat >/tmp/spoof.py", stdin=f, ok=True)
        # the spoofer has what a background job of the session can have
        expect(x.sh("python3 /tmp/spoof.py >/tmp/spoof.log 2>&1 & echo on"), "on\n", 0)
        expect(x.sh("while :; do echo 'deadbeefdeadbeefdeadbeefdeadbeef 77'; echo 77 >&9; sleep 0.002; done >/dev/null 2>&1 & echo on"), "on\n", 0)
        for i in range(300):
            code = i % 200
            a = x.sh(f"echo {i}; sleep 0.002; (exit {code})")
            expect(a, f"{i}\n", code, what=f"command {i}")
        expect(x.sh("kill %1 %2; wait; cat /tmp/spoof.log"), code=0)


def test_D08_a_command_has_no_descriptor_of_ours():
    with Box() as x:
        for split in (False, True):
            a = x.sh("for p in self $$; do ls /proc/$p/fd; done; (ls /proc/self/fd); ls -l /proc/self/fd | grep -c pipe",
                     split=split, session=f"s{split:d}")
            # what the command inherits: 0, 1, 2, and the one ls itself opens
            first = a.out.decode().split()
            own = first[:first.index("0", 1)] if "0" in first[1:] else first
            assert own == ["0", "1", "2", "3"], f"a command of the session has {own}: {a.out!r}"
            # writing there is refused
            a = x.sh("echo 00 77 >&9", session=f"s{split:d}", split=split)
            assert a.code != 0 and a.status == "done", box.show(a)


def test_D08_lies_by_the_shell_itself_reach_only_its_own_session():
    """Who runs in the shell can fool its session (it is the shell), and no other."""
    with Box() as x:
        expect(x.sh("echo mine", session="honest"), "mine\n", 0)
        x.sh("printf() { :; }; kept=1", timeout_ms=2000)
        a = x.sh("echo x", timeout_ms=2000)
        assert a.status in ("done", "timeout"), box.show(a)
        expect(x.sh("echo mine", session="honest"), "mine\n", 0)


SPOOF = r"""
import os, stat, time, glob
marks = ["0" * 32 + " 0\n", "f" * 32 + " 3\n", "done 0\n"]
end = time.time() + 100
while time.time() < end:
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if "pipe" in os.readlink(path) and "/%d/" % os.getpid() not in path:
                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                for m in marks:
                    # the number may be another file by now: a terminal is anybody's to write to
                    if stat.S_ISFIFO(os.fstat(fd).st_mode):
                        os.write(fd, m.encode())
                os.close(fd)
        except OSError:
            pass
    for path in glob.glob("/run/.berth/*"):
        try:
            open(path, "a").write("echo spoofed\n")
        except OSError:
            pass
        try:
            os.unlink(path)
        except OSError:
            pass
    time.sleep(0.003)
"""


# ---- what the shell itself says ------------------------------------------------------

def messages(shell, line, what):
    return {"bash": f"bash: line {line}: {what}", "dash": f"sh: {line}: {what}", "ash": f"sh: line {line}: {what}"}[shell] + "\n"


@in_each_shell
def test_the_shells_messages_read_as_in_a_script_of_the_users(x, shell):
    name = "bash" if shell == "bash" else "sh"
    missing = "nosuch: command not found" if shell == "bash" else "nosuch: not found"
    for split in (False, True):
        kw = {"split": split, "session": f"messages{split:d}"}

        def said(text, code):
            a = expect(x.sh(text, **kw), code=code, what=text)
            return (a.err if split else a.out).decode()

        expect(x.sh("echo $0", **kw), name + "\n", 0)
        assert said("nosuch", 127) == messages(shell, 1, missing)
        assert said(":\nnosuch", 127) == messages(shell, 2, missing)
        assert said("f() {\n nosuch\n}", 0) == ""
        assert missing in said("f", 127)
        for text in ("if\n)", "cd /none", "nosuch; exec 7</none", "sleep 60 & kill -9 $!; wait $!; :", "eval nosuch", "(nosuch)", "nosuch | cat",
                     "readonly r=1; r=2", "echo ${none?is not set}", "kill -9 $$"):
            text_said = said(text, None)
            assert "/run/" not in text_said and "/proc/" not in text_said and "berth" not in text_said, (shell, split, text, text_said)
        assert x.sh("if\n)", **kw).code == 2
        said_of_syntax = said("if\n)", 2)
        assert said_of_syntax.startswith(("bash: line 2: ", "sh: 2: ", "sh: line 2: ")), said_of_syntax
        # other bytes stay, whatever they begin like, and none is kept for later
        expect(x.sh("printf /run/.berth/mes", **kw), "/run/.berth/mes", 0)
        expect(x.sh("printf '/run/ /run/.berth/'; printf 'other: x'", **kw), "/run/ /run/.berth/other: x", 0)


# ---- the queue of a session ------------------------------------------------------

QUEUE_MAX, QUEUE_ALL = 16, 32


def held(x, c, until="/tmp/go", **kw):
    """The session runs a command until the file is there."""
    c.sh_send(f"rm -f {until}; touch {until}.runs; until [ -e {until} ]; do sleep 0.01; done; echo first", timeout_ms=100000, **kw)
    b.wait_for(lambda: x.exec("sh", "-c", f"ls {until}.runs 2>/dev/null").out, 20, "the command that the session runs")


def queued(x, session="main"):
    return {s["session"]: s["queued"] for s in x.client().call("sessions")["sessions"]}.get(session)


def test_commands_of_a_busy_session_take_turns():
    with Box() as x:
        first, others = x.client(), [x.client() for _ in range(QUEUE_MAX)]
        held(x, first)
        for i, c in enumerate(others):
            c.sh_send(f"n=${{n}}{i},; echo $n", timeout_ms=6000)  # its own time begins with its turn
        b.wait_for(lambda: queued(x) == QUEUE_MAX, 20, "all of them in the queue")
        time.sleep(6.5)
        try:
            x.client().sh("echo too many")
            assert False, "the queue has no bound"
        except box.Refused as full:
            assert full.code == "limit", full
        x.exec("touch", "/tmp/go", ok=True)
        expect(first.sh_answer(), "first\n", 0)
        for i, c in enumerate(others):
            a = expect(c.sh_answer(), "".join(f"{j}," for j in range(i + 1)) + "\n", 0, what=f"number {i}")
            assert a.raw["queued_ms"] > 0, a.raw
        assert queued(x) == 0
        assert "queued_ms" not in x.sh("echo idle").raw


def test_all_queues_of_a_sandbox_have_one_bound():
    with Box() as x:
        for n in range(3):
            held(x, x.client(), f"/tmp/go{n}", session=f"s{n}")
        for i in range(QUEUE_ALL):
            x.client().sh_send("echo on", session=f"s{i % 3}")
        b.wait_for(lambda: sum(queued(x, f"s{n}") for n in range(3)) == QUEUE_ALL, 20, "all of them in the queue")
        try:
            x.client().sh("echo too many", session="s0")
            assert False, "the queues have no bound"
        except box.Refused as full:
            assert full.code == "limit", full


def test_the_texts_that_wait_have_one_bound_of_bytes():
    with Box() as x:
        long = "echo on #" + "x" * (7 << 20)
        for n in range(3):
            held(x, x.client(), f"/tmp/go{n}", session=f"s{n}")
        for n in range(2):
            x.client().sh_send(long, session=f"s{n}")
        b.wait_for(lambda: queued(x, "s0") == queued(x, "s1") == 1, 20, "two of them in the queue")
        try:
            x.client().sh(long, session="s2")
            assert False, "the bytes have no bound"
        except box.Refused as full:
            assert full.code == "limit", full


def test_waiting_has_an_end_of_its_own():
    with Box() as x:
        held(x, x.client())
        r = b.berth("sh", "--queue-timeout", "200ms", x.id, "--", "echo no")
        b.one_line_error(r, 125, "ran other commands for all of the")
        r = b.berth("sh", "--no-wait", "--json", x.id, "--", "echo no", ok=125)
        b.expect(json.loads(r.out or r.err)["error"]["code"] == "busy", r, "the code")
        # who goes leaves the queue, and is not run
        c = x.client()
        c.sh_send("touch /tmp/ran")
        b.wait_for(lambda: queued(x) == 1, 20, "the one that waits")
        c.close()
        x.clients.remove(c)
        b.wait_for(lambda: queued(x) == 0, 20, "the empty queue")
        x.exec("touch", "/tmp/go", ok=True)
        expect(x.client().sh("ls /tmp/ran 2>/dev/null; echo $?"), "2\n", 0)


def test_the_end_of_a_session_answers_who_waits():
    with Box() as x:
        held(x, x.client())
        c = x.client()
        c.sh_send("echo no")
        b.wait_for(lambda: queued(x) == 1, 20, "the one that waits")
        x.client().call("session-close")
        try:
            c.sh_answer()
            assert False, "it was run"
        except box.Refused as closed:
            assert closed.code == "not-found", closed
        # the shell's own end: the next gets a fresh one, and the others their turns
        held(x, x.client(), "/tmp/again")
        one, two = x.client(), x.client()
        one.sh_send("exit 3")
        b.wait_for(lambda: queued(x) == 1, 20, "the one that waits")
        two.sh_send("echo fresh")
        x.exec("touch", "/tmp/again", ok=True)
        assert one.sh_answer().code == 3
        assert expect(two.sh_answer(), "fresh\n", 0).fresh


def test_a_text_that_waits_is_cancelled_alone():
    with Box() as x:
        first, second = x.client(), x.client()
        held(x, first)
        second.sh_send("touch /tmp/ran")
        b.wait_for(lambda: queued(x) == 1, 20, "the one that waits")
        second.send("sh-cancel", own=True)
        try:
            second.sh_answer()
            assert False, "it was run"
        except box.Refused as cancelled:
            assert cancelled.code == "busy", cancelled
        first.send("sh-cancel", own=True)
        a = first.sh_answer()
        assert a.verdict["cause"] == "killed-by", box.show(a)
        expect(second.sh("ls /tmp/ran 2>/dev/null; echo $?"), "2\n", 0)
