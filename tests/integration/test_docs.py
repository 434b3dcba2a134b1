# SPDX-License-Identifier: Apache-2.0
"""
Every command that the README, doc/ and the man pages show is run as it stands there.

README, doc/*.md: the ```sh blocks of a page, in order, in one shell that stops at the first failure; the ```python blocks;
and of the ```console blocks, which need a registry, systemd or another host, each command of berth and its options.
Manual: the literal blocks of EXAMPLES; a command may end as its text says (3, 124,
137, ...), but never as misuse or because berth could not do it.
"""
import glob
import os
import re
import subprocess
import sys

import berthtest as b
import daemon

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
    for pattern in ("README.md", "doc/*.md", "man/*", "clients/*/*.md", "clients/*/*/*.md", "systemd/*", "cli/**/*.c", "manager/**/*.c", "clients/**/*.py", "clients/**/*.js"):
        for path in glob.glob(os.path.join(b.TOP, pattern), recursive=True):
            for found in re.findall(r"/run/berth[-/a-z]*\.sock\b", text_of(path)):
                named.setdefault(found, set()).add(os.path.relpath(path, b.TOP))
    assert set(named) == {"/run/berth/berthd.sock", "/run/berth-docker.sock"}, named
    assert "doc/replace-docker.md" in named["/run/berth-docker.sock"] and "systemd/berthd.socket" in named["/run/berth/berthd.sock"], named


def pages():
    return ["README.md", *sorted(os.path.relpath(x, b.TOP) for x in glob.glob(os.path.join(b.TOP, "doc", "*.md")))]


def blocks_of(page, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", text_of(os.path.join(b.TOP, page)), re.S | re.M)


def commands_of(page):
    """What a reader of the page types into one shell, in a checkout and beside berthd."""
    blocks = blocks_of(page, "sh")
    if page == "README.md":
        # the first is tried where nothing is installed yet (tests/chroot); then make install
        made = [x.strip() for x in blocks if x.startswith("make ")]
        assert made == ["make demo", "make install"] == [blocks[0].strip(), blocks[2].strip()], "berth is used before it is installed"
        blocks = [x for x in blocks if not x.startswith("make ")]
    text = "".join(blocks)
    assert "|| true" not in text and "|| test" not in text, f"{page} shows what a reader would type"
    # "# exit status N" behind a command is what it ends with
    return re.sub(r"^(.*?) +# exit status (\d+)$", r"got=0; \1 || got=$?; test $got = \2", text, flags=re.M)


@b.deadline(180)
def test_the_readme_and_the_documents_work_from_top_to_bottom():
    assert len(pages()) >= 10, pages()
    image_of_debian()
    os.symlink(os.path.join(b.BUILD, "berth-docker"), os.path.join(directory("bin"), "docker"))
    os.symlink(b.BUILD, os.path.join(directory("cwd"), "build"))
    with daemon.Daemon() as d:
        for page in pages():
            script = "set -ex\n" + commands_of(page).replace("/run/berth/berthd.sock", d.socket)
            r = shell(f'PATH="{directory("bin")}:$PATH"\n' + script)
            assert r.returncode == 0, f"{page}: exit status {r.returncode}\n{r.stderr.decode()[-2000:]}"
            left = b.berth("ps", "-aq", ok=True).out.split()
            assert not left, f"{page} leaves sandboxes behind: {left}"


def test_the_sessions_of_python_in_readme_and_documents_run():
    sessions = [block for page in pages() for block in blocks_of(page, "python")]
    assert len(sessions) == 2
    env = b.environment({"PYTHONPATH": os.path.join(b.TOP, "clients", "python"), "PATH": f"{b.BUILD}:{os.environ['PATH']}",
                         "PYTHONDONTWRITEBYTECODE": "1"})
    said = ""
    for session in sessions:
        p = subprocess.run([sys.executable, "-c", session], env=env, cwd=directory("cwd"), capture_output=True, text=True, timeout=b.SLOW * 60)
        assert (p.returncode, p.stderr) == (0, ""), p
        said += p.stdout
    for line in ("hello\n 3 exit\n", "1\n2\n3\n", "42 in /tmp\n", "timeout\n", "0 exit \n1 exit ", "0 exit 4\n"):
        assert line in said, (line, said)


def test_commands_that_need_another_machine_have_the_options_that_berth_has():
    helps, seen = {}, 0
    for page in pages():
        for block in blocks_of(page, "console"):
            for line in block.replace("\\\n", " ").splitlines():
                words = re.sub(r"'[^']*'", "WORD", line).split()
                words = words[words.index("berth") + 1:] if "berth" in words else ["-"]
                if not re.match(r"([a-z]*\$|#) ", line) or words[0].startswith("-"):
                    continue
                verb = [words[0], words[1]] if words[0] in ("image", "network", "system") else words[:1]
                key = " ".join(verb)
                if key not in helps:
                    helps[key] = b.berth(*verb, "--help", ok=True).out
                for option in (x.split("=")[0] for x in words if re.match(r"--?[a-z]", x)):
                    assert re.search(rf"(^|[ ,]){option}\b", helps[key], re.M), f"{page}: {line}: {key} has no {option}"
                seen += 1
    assert seen >= 10, seen


def test_the_readme_is_short_and_each_link_of_it_and_of_the_documents_leads_somewhere():
    assert len(text_of(os.path.join(b.TOP, "README.md")).splitlines()) < 200
    linked, bad = set(), []
    for page in pages():
        here = os.path.join(b.TOP, page)
        for to in re.findall(r"\]\(([^)\s]+)\)", text_of(here)):
            if to.startswith("https://"):
                continue
            path, _, section = to.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(here), path)) if path else here
            linked.add(os.path.relpath(path, b.TOP))
            titles = re.findall(r"^#+ (.*)$", text_of(path), re.M) if os.path.exists(path) and section else []
            if not os.path.exists(path) or section and section not in [re.sub(r"[^a-z0-9 -]", "", x.lower()).replace(" ", "-") for x in titles]:
                bad.append(f"{page}: {to}")
    assert not bad, bad
    assert set(pages()) <= linked, "nothing leads to " + ", ".join(set(pages()) - linked)


def test_the_chart_of_speed_shows_the_figures_of_the_notes():
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    drawn = subprocess.run([sys.executable, os.path.join(b.TOP, "tests/bench/chart.py")], env=env, capture_output=True, text=True, check=True).stdout
    assert drawn == text_of(os.path.join(b.TOP, "doc/speed.svg")), "make doc/speed.svg"


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


def image_of_debian():
    """Of its own small files, as no registry is here."""
    if not os.path.exists(b.tmp("small-rootfs")):
        b.busybox_rootfs("small-rootfs")
        os.makedirs(b.tmp("small-rootfs/etc"), exist_ok=True)
        b.write(b.tmp("small-rootfs/etc/os-release"), "ID=debian\n")
    b.berth("image", "import", b.tmp("small-rootfs"), "debian:12", ok=True)


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
        image_of_debian()
    try:
        r = shell(command.replace("/tmp/", directory("tmp") + "/"))
    except subprocess.TimeoutExpired:
        return [f"{page}: {command}not done after two minutes"]
    if r.returncode in MISUSE and re.search(rb"^berth", r.stderr, re.M):
        return [f"{page}: {command}exit status {r.returncode}: {r.stderr.decode()[-300:]}"]
    return []
