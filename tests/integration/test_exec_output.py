# SPDX-License-Identifier: Apache-2.0
"""
What berth exec does with the caller's stdin, stdout and stderr: the reader of a pipe gets its end when the
command has ended, whatever the command left running, and every byte before that in its order.
"""
import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import threading

import berthtest as b

COST = 20
PIPE = subprocess.PIPE
LEAVES = "(until [ -e /tmp/go ]; do sleep 0.02; done; echo later; echo later >&2; echo went on >/tmp/alive) & echo hi; echo err >&2"


@contextlib.contextmanager
def sandbox():
    box = b.berth("create", "host", ok=True).out.strip()
    try:
        yield box
    finally:
        b.berth("rm", "-f", box, ok=True)


def inside(box, script, ok=True):
    return b.berth("exec", box, "sh", "-c", script, ok=ok).out


def let_go(box):
    """The process that was left behind goes on when its output has nobody to read it."""
    inside(box, "touch /tmp/go")
    b.wait_for(lambda: inside(box, "cat /tmp/alive 2>&1 || :") == "went on\n", 20, "the process that was left behind")
    inside(box, "rm /tmp/go /tmp/alive")


def start(*args, **popen):
    return subprocess.Popen([b.BERTH, *args], env=b.environment(), **popen)


# ---- the end -------------------------------------------------------------------

def test_a_process_left_behind_does_not_hold_the_callers_pipes():
    with sandbox() as box:
        r = b.berth("exec", box, "sh", "-c", LEAVES, timeout=20, verdict=True)
        b.expect((r.code, r.out, r.err) == (0, "hi\n", "err\n"), r, "the streams differ")
        b.expect(r.verdict["left_behind"] >= 1, r, "the verdict does not tell what is left")
        let_go(box)
        r = b.berth("exec", box, "sh", "-c", LEAVES, timeout=20, stderr=subprocess.STDOUT)
        b.expect((r.code, r.out) == (0, "hi\nerr\n"), r, "the one stream differs")
        let_go(box)


def test_a_process_left_behind_does_not_hold_the_callers_sockets():
    with sandbox() as box:
        ends = [socket.socketpair() for _ in range(2)]
        p = start("exec", box, "sh", "-c", LEAVES, stdin=subprocess.DEVNULL, stdout=ends[0][1], stderr=ends[1][1])
        for theirs in ends:
            theirs[1].close()
        got = []
        for ours, _ in ends:
            ours.settimeout(20 * b.SLOW)
            got.append(ours.makefile("rb").read())
            ours.close()
        assert got == [b"hi\n", b"err\n"] and p.wait(20 * b.SLOW) == 0, got
        let_go(box)


def test_a_socket_that_is_stdin_and_stdout_ends_too():
    """As socat EXEC: and inetd hand it over; what its peer sends arrives all the same."""
    with sandbox() as box:
        ours, theirs = socket.socketpair()
        p = start("exec", box, "sh", "-c", "read line; echo got $line; exec cat; ", stdin=theirs, stdout=theirs, stderr=PIPE)
        ours.settimeout(20 * b.SLOW)
        ours.sendall(b"first\n" + b"x" * 200000)
        threading.Thread(target=lambda: ours.shutdown(socket.SHUT_WR)).start()
        got = b""
        while len(got) < 10 + 200000:
            got += ours.recv(65536)
        assert p.wait(20 * b.SLOW) == 0 and got == b"got first\n" + b"x" * 200000, (got[:50], len(got))
        p.stderr.close()
        ours.close()
        ours, theirs = socket.socketpair()
        p = start("exec", box, "python3", "-c", "import subprocess; subprocess.Popen(['sleep', '60']); print('hi')", stdin=theirs, stdout=theirs,
                  stderr=theirs)
        theirs.close()
        ours.settimeout(20 * b.SLOW)
        assert ours.makefile("rb").read() == b"hi\n" and p.wait(20 * b.SLOW) == 0
        ours.close()


def test_a_process_that_never_stops_writing_does_not_hold_the_caller():
    with sandbox() as box:
        r = b.berth("exec", box, "sh", "-c", "yes & yes >&2 & echo hi", timeout=20, verdict=True)
        b.expect(r.code == 0 and r.verdict["left_behind"] == 2, r, "the end differs")
        r = b.berth("code", "--json", "--lang", "sh", box, input="yes & echo hi", timeout=30, ok=True)
        b.expect(json.loads(r.out)["stdout"].endswith("\n"), r, "code --json")


def test_code_does_not_hold_the_callers_pipes():
    with sandbox() as box:
        r = b.berth("code", "--lang", "sh", "--quiet", box, input=LEAVES, timeout=20)
        b.expect((r.code, r.out, r.err) == (0, "hi\n", "err\n"), r, "the streams differ")
        let_go(box)


def test_wait_children_waits_for_every_process():
    with sandbox() as box:
        script = "(sleep 0.5; echo later) & echo hi; exit 3"
        for options, text, out in (((), script.replace("0.5", "1000"), "hi\n"), (("--wait-children",), script, "hi\nlater\n")):
            r = b.berth("exec", *options, box, "sh", "-c", text, verdict=True)
            b.expect(r.code == 3 and r.out == out and (r.verdict["left_behind"] == 0) == bool(options), r, "with %r" % (options,))
        r = b.berth("exec", "--wait-children", "--timeout", "6s", box, "sh", "-c", "trap '' TERM; sleep 60 & echo hi", verdict=True)
        b.expect(r.code == 124 and r.out == "hi\n" and r.verdict["left_behind"] == 0, r, "the limit is not one of all processes")
        # a file has no reader that could wait: the command does
        with open(b.tmp("out"), "wb") as out:
            b.berth("exec", "--wait-children", box, "sh", "-c", script, stdout=out, ok=3)
        with open(b.tmp("out")) as out:
            assert out.read() == "hi\nlater\n"


def test_signals_reach_what_wait_children_waits_for():
    with sandbox() as box:
        p = start("exec", "--wait-children", box, "sh", "-c", "sleep 60 & echo hi", stdin=subprocess.DEVNULL, stdout=PIPE)
        assert b.read_until(p.stdout, b"hi\n") == b"hi\n"
        b.wait_for(lambda: "sh -c sleep" not in inside(box, "ps -e -o args"), 20, "the end of the first process")
        p.send_signal(signal.SIGTERM)
        assert p.wait(20 * b.SLOW) == 0
        p.stdout.close()


# ---- the bytes -----------------------------------------------------------------

WRITER = """
import os, sys
for i in range(40000):
    os.write(1, b"out %07d\\n" % i)
    if i % 3 == 0: os.write(2, b"err %07d\\n" % i)
"""


def test_nothing_is_lost_or_mixed_up_with_a_slow_reader():
    out = b"".join(b"out %07d\n" % i for i in range(40000))
    err = b"".join(b"err %07d\n" % i for i in range(0, 40000, 3))
    with sandbox() as box:
        for make in (lambda: tuple(os.fdopen(fd, mode + "b", 0) for fd, mode in zip(os.pipe(), "rw")),
                     lambda: tuple(s.makefile(mode + "b", 0) for s, mode in zip(socket.socketpair(), "rw"))):
            streams = [make(), make()]
            p = start("exec", "--json", box, "python3", "-c", WRITER, stdin=subprocess.DEVNULL, stdout=streams[0][1], stderr=streams[1][1])
            got = [b"", b""]

            def read(i):
                streams[i][1].close()
                while piece := streams[i][0].read(777):
                    got[i] += piece
                streams[i][0].close()

            readers = [threading.Thread(target=read, args=(i,)) for i in range(2)]
            for t in readers:
                t.start()
            for t in readers:
                t.join(60 * b.SLOW)
            assert p.wait(20 * b.SLOW) == 0
            lines = got[0].splitlines(keepends=True)
            assert b"".join(lines[:-1]) == out and json.loads(lines[-1])["exit_status"] == 0, len(got[0])
            assert got[1] == err, len(got[1])


def test_two_streams_that_are_one_pipe_keep_their_order():
    script = "i=0; while [ $i -lt 3000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
    with sandbox() as box:
        r = b.berth("exec", box, "sh", "-c", script, stderr=subprocess.STDOUT, ok=True)
        assert r.out == "".join(f"o{i}\ne{i}\n" for i in range(3000))


def test_input_that_is_not_read_stays_for_the_next_reader():
    with sandbox() as box:
        r = subprocess.run(["sh", "-c", '"$0" exec "$1" sh -c "read a; echo got \\$a"; cat', b.BERTH, box], input=b"one\ntwo\n", env=b.environment(),
                           stdout=PIPE, timeout=60 * b.SLOW, check=True)
        assert r.stdout == b"got one\ntwo\n", r.stdout


# ---- readers that leave, or do not read ------------------------------------------

def test_a_reader_that_leaves_ends_the_command():
    with sandbox() as box:
        for command in (["yes"], ["sh", "-c", "echo y; exec tail -f /dev/null"]):  # tail looks whether its reader is there
            p = start("exec", box, *command, stdin=subprocess.DEVNULL, stdout=PIPE)
            assert b.read_until(p.stdout, b"y\n")
            p.stdout.close()
            assert p.wait(20 * b.SLOW) == (141 if command == ["yes"] else p.returncode), p.returncode
        # the other stream goes on
        r = subprocess.run(["sh", "-c", '"$0" exec "$1" sh -c "trap : PIPE; echo a; while echo b; do :; done; echo c >&2" | head -n 1', b.BERTH, box], env=b.environment(),
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=60 * b.SLOW, check=True)
        assert r.stdout == b"a\n" and r.stderr.endswith(b"c\n"), r


def test_a_timeout_holds_where_nobody_reads():
    with sandbox() as box:
        p = start("exec", "--timeout", "300ms", box, "yes", stdin=subprocess.DEVNULL, stdout=PIPE, stderr=PIPE)
        assert p.wait(20 * b.SLOW) == 124
        assert b"had no reader" in p.stderr.read()
        p.stdout.close()
        p.stderr.close()


def full_pipe():
    read, write = os.pipe()
    size = fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    os.write(write, b"x" * size)
    return os.fdopen(read, "rb"), write


def test_a_reader_is_waited_for_until_a_signal():
    with sandbox() as box:
        for reads in (True, False):
            out, write = full_pipe()
            p = start("exec", box, "sh", "-c", "echo mine; touch /tmp/ended; exit 5", stdin=subprocess.DEVNULL, stdout=write, stderr=PIPE)
            os.close(write)
            b.wait_for(lambda: inside(box, "ls /tmp") == "ended\n" and "mine" not in b.berth("commands", box).out, 20, "the command's end")
            inside(box, "rm /tmp/ended")
            assert p.poll() is None
            if reads:
                assert out.read().endswith(b"xmine\n") and p.wait(20 * b.SLOW) == 5 and p.stderr.read() == b""
            else:
                p.send_signal(signal.SIGTERM)
                assert p.wait(20 * b.SLOW) == 5 and b"5 bytes of output had no reader" in p.stderr.read()
            out.close()
            p.stderr.close()
