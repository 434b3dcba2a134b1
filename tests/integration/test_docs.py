# SPDX-License-Identifier: Apache-2.0
"""
Every command that the README and the man pages show is run as it stands there.

README: the ```sh blocks, in order, in one shell that stops at the first failure.
Manual: the literal blocks of EXAMPLES; a command may end as its text says (3, 124,
137, ...), but never as misuse or because berth could not do it.
"""
import glob
import os
import re
import subprocess

import berthtest as b

COST = 14
MISUSE = (2, 125, 126, 127)
# What these need is not on this machine: a registry, a mirror within a test (test_commit.py has one).
ELSEWHERE = re.compile(r"docker://|image bootstrap|registry\.example|\bberth pull |\bdocker save\b|\bberthd\b|berthd\.sock|/etc/berth")


def directory(name):
    path = b.tmp(name)
    os.makedirs(path, exist_ok=True)
    return path


def shell(script):
    env = dict(b.environment(), PATH=b.BUILD + ":" + os.environ["PATH"], HOME=directory("home"))
    return subprocess.run(["bash", "-c", script], cwd=directory("cwd"), env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120 * b.SLOW)


def text_of(path):
    with open(path) as f:
        return f.read()


def test_each_socket_has_one_path_in_readme_manual_clients_and_code():
    named = {}
    for pattern in ("README.md", "man/*", "clients/*/*.md", "clients/*/*/*.md", "systemd/*", "cli/**/*.c", "manager/**/*.c", "clients/**/*.py", "clients/**/*.js"):
        for path in glob.glob(os.path.join(b.TOP, pattern), recursive=True):
            for found in re.findall(r"/run/berth[-/a-z]*\.sock\b", text_of(path)):
                named.setdefault(found, set()).add(os.path.relpath(path, b.TOP))
    assert set(named) == {"/run/berth/berthd.sock", "/run/berth-docker.sock"}, named
    assert "README.md" in named["/run/berth-docker.sock"] and "systemd/berthd.socket" in named["/run/berth/berthd.sock"], named


@b.deadline(120)
def test_the_readme_works_from_top_to_bottom():
    blocks = re.findall(r"^```sh\n(.*?)^```", text_of(os.path.join(b.TOP, "README.md")), re.S | re.M)
    # the two commands themselves: this is the second, and the first is tried where nothing is installed yet; then make install
    made = [x.strip() for x in blocks if x.startswith("make ")]
    assert made == ["make demo", "make check", "make install"] == [x.strip() for x in blocks[:3]], "berth is used before it is installed"
    blocks = blocks[3:]
    assert len(blocks) >= 5, "the README shows what berth does"
    text = "".join(blocks)
    assert "|| true" not in text and "|| test" not in text, "the README shows what a reader would type"
    # "# exit status N" behind a command is what it ends with
    script = "set -ex\n" + re.sub(r"^(.*?) +# exit status (\d+)$", r"got=0; \1 || got=$?; test $got = \2", text, flags=re.M)
    r = shell(script)
    assert r.returncode == 0, f"exit status {r.returncode}\n{r.stderr.decode()[-2000:]}"


def examples_of(page):
    """The lines of the literal blocks of EXAMPLES, in mdoc(7) or man(7)."""
    section = re.search(r"^\.S[hH] EXAMPLES\n(.*?)(?=^\.S[hH] |\Z)", text_of(page), re.S | re.M)
    if not section:
        return []
    blocks = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", section.group(1), re.S | re.M)
    blocks += re.findall(r"^\.(?:nf|EX)\n(.*?)^\.(?:fi|EE)", section.group(1), re.S | re.M)
    blocks += [x + "\n" for x in re.findall(r"^\.Dl (.*)$", section.group(1), re.M)]
    out = []
    for block in blocks:
        text = block.replace(r"\e", "\\").replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\&", "").replace(r"\(dq", '"')
        lines = [line for line in text.splitlines() if not line.startswith((".", '"'))]
        if any(line.lstrip().startswith(("berth ", "$ berth", "# berth")) or "| berth " in line or "&& berth" in line
               for line in lines):
            out.append("\n".join(re.sub(r"^[$#] ", "", line.strip()) if line.startswith(("$ ", "# ", " ")) else line
                                 for line in lines))
    return out


@b.deadline(300)
def test_the_examples_of_the_manual_work():
    seen, bad = 0, []
    for page in glob.glob(os.path.join(b.TOP, "man", "*.[158]")):
        assert not [x for x in examples_of(page) if "|| true" in x or "c=$(" in x], f"{page}: nobody would type that"
    try:
        for page in sorted(glob.glob(os.path.join(b.TOP, "man", "*.[158]"))):
            # each page begins with a sandbox of its own, whose first detached command is c1
            b.berth("rm", "--force", "work")
            for block in examples_of(page):
                for command in join_lines(block):
                    if ELSEWHERE.search(command):
                        continue
                    seen += 1
                    bad += run_example(os.path.basename(page), command)
    finally:
        for name in b.berth("ps", "-aq", ok=True).out.split():
            b.berth("rm", "--force", name)
    assert not bad, "\n".join(bad)
    assert seen >= 10, seen


def join_lines(block):
    """A command goes on after a backslash, a pipe, or inside a heredoc or quotes."""
    command = ""
    for line in block.splitlines():
        command += line + "\n"
        if line.endswith("\\"):
            continue
        if subprocess.run(["bash", "-n", "-c", command], stderr=subprocess.PIPE).stderr:
            continue
        if command.strip():
            yield command
        command = ""
    if command.strip():
        yield command


def run_example(page, command):
    words = command.replace('"work"', " work ").split()
    if "work" in words and "create" not in words and "rm" not in words and "rename" not in words:
        if b.berth("inspect", "work").code != 0:
            b.berth("create", "--name", "work", "host", ok=True)
    elif "create" in words:
        b.berth("rm", "--force", "work")
    if "debian:12" in command and "import" not in words:
        if not os.path.exists(b.tmp("small-rootfs")):
            b.busybox_rootfs("small-rootfs")
        b.berth("image", "import", b.tmp("small-rootfs"), "debian:12", ok=True)
    try:
        r = shell(command.replace("/tmp/", directory("tmp") + "/"))
    except subprocess.TimeoutExpired:
        return [f"{page}: {command}not done after two minutes"]
    if r.returncode in MISUSE and re.search(rb"^berth", r.stderr, re.M):
        return [f"{page}: {command}exit status {r.returncode}: {r.stderr.decode()[-300:]}"]
    return []
