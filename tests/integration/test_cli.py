# SPDX-License-Identifier: Apache-2.0
"""The command line itself: help, errors, configuration, completion, doctor, and the manual's agreement with the tables."""
import json
import os
import platform
import re
import resource
import shutil
import signal
import subprocess

import berthtest as b
import screen

COST = 20

MAN = os.path.join(b.TOP, "man")


# ---- what help says ---------------------------------------------------------

def commands():
    """The names in `berth help`."""
    out = b.berth("help", ok=True).out.split("\nHelp:\n")[0]
    found = re.findall(r"^  ([a-z-]+(?: [a-z]+)?)(?:  |$)", out, re.M)
    assert "run" in found and "config show" in found and "doctor" in found, found
    return [c for c in found if c != "image"]        # which is a program of its own


def options(command):
    """[(letter or None, name)] from the command's help."""
    out = b.berth(*command.split(), "--help", ok=True).out
    found = re.findall(r"^  (?:-(\w), |    )--([a-z0-9-]+)", out.split("\nOptions:\n")[1], re.M)
    assert found[-1][1] == "help", out
    return found


def test_help_fits_80_columns_and_is_the_same_both_ways():
    for args in ([], *[c.split() for c in commands()]):
        r = b.berth("help", *args, ok=True)
        b.expect(all(len(line) <= 80 for line in r.out.splitlines()), r, "a line is too long")
        b.expect(r.err == "", r, "something on stderr")
        if args:
            b.expect(b.berth(*args, "--help", ok=True).out == r.out, r, "--help differs")
            b.expect(b.berth(*args, "-h", ok=True).out == r.out or "-h," not in r.out, r, "-h differs")


def test_help_fits_the_terminal():
    for columns in (80, 40):
        for args in (["help"], ["ps", "--help"], ["network", "--help"]):
            code, out = screen.shown(columns, *args)
            long = [line for line in out.splitlines() if len(line) > columns]
            assert code == 0 and not long, (columns, args, long)
    assert b.berth("help", ok=True).out == screen.shown(200, "help")[1]


def test_help_has_the_groups_of_the_manual():
    out = b.berth("help", ok=True).out
    with open(os.path.join(MAN, "berth.1")) as f:
        part = f.read().split(".Sh COMMANDS\n")[1].split(".Ss completion\n")[0]
    manual = {g.split("\n")[0]: re.findall(r"^\.It Cm (.*)$", g, re.M) for g in part.split(".Ss ")[1:]}
    printed = {g.split(":\n")[0]: re.findall(r"^  ([a-z-]+(?: [a-z]+)?)(?:  |$)", g.split(":\n")[1], re.M)
               for g in out.split("\n\n")[2:-2]}
    assert printed == manual
    told = json.loads(b.berth("help", "--json", ok=True).out)
    assert {g["title"]: [c["name"] for c in g["commands"]] for g in told["groups"]} == printed
    assert told["version"] == b.berth("--version", ok=True).out.split()[1]


def test_help_of_a_command_in_json():
    told = json.loads(b.berth("help", "--json", "config", "show", ok=True).out)
    assert told["name"] == "config show" and [("json", False)] == [(o["name"], o["repeats"]) for o in told["options"] if o["name"] == "json"]
    told = json.loads(b.berth("help", "run", "--json", ok=True).out)
    assert [o["name"] for o in told["options"]] + ["help"] == [name for _, name in options("run")]
    r = b.berth("help", "--json", "rnu")
    b.expect(r.code == 2 and "did you mean" in json.loads(r.err)["error"]["message"], r, "no error in JSON")


def test_without_a_command_it_prints_help_and_fails():
    r = b.berth()
    b.expect(r.code == 2 and r.out == b.berth("help", ok=True).out, r, "not the help, with exit status 2")
    b.expect(r.err == "berth: no command given; hint: berth help lists them\n", r, "another error")


def test_version():
    for word in ("--version", "-V", "version"):
        r = b.berth(word, ok=True)
        first, _, rest = r.out.partition("\n")
        b.expect(re.fullmatch(r"berth \d+\.\d+\.\d+", first), r, "no version")
        # programs read what the options print
        library = r"C library: (musl|glibc: .+)\n" if word == "version" else ""
        b.expect(re.fullmatch(library, rest), r, "no C library, or more")
        told = json.loads(b.berth(word, "--json", ok=True).out)
        b.expect("berth " + told["version"] == first and set(told) - {"c_library_why"} == {"version", "c_library"}, r, told)
    b.one_line_error(b.berth("version", "now"), 2, "unexpected argument 'now'")


def test_output_that_cannot_be_written_is_an_error():
    for args in (["help"], ["--version"], ["config", "show"], ["completion", "bash"]):
        with open("/dev/full", "w") as full:
            r = b.berth(*args, stdout=full)
        b.expect(r.code == 125 and "No space left" in r.err, r, "written to a full device")


# ---- errors -------------------------------------------------------------------

def test_misuse_is_one_line_with_the_remedy():
    for args, words in (
            (["rnu"], ["unknown command 'rnu'", "did you mean 'run'"]),
            (["config"], ["second word"]),
            (["config", "shwo"], ["did you mean 'config show'"]),
            (["--memory", "1g", "run"], ["options follow the command"]),
            (["run", "--memroy", "1g", "host", "true"], ["unknown option --memroy", "did you mean --memory?"]),
            (["run", "--mem=1g", "host", "true"], ["unknown option --mem;", "did you mean --memory?"]),
            (["run", "--memory"], ["--memory needs a value", "--memory SIZE"]),
            (["run", "--rm=yes", "host"], ["takes no value"]),
            (["run", "-@"], ["unknown option -@"]),
            (["help", "nonsense"], ["unknown command 'nonsense'"]),
            (["doctor", "now"], ["unexpected argument 'now'"]),
            (["completion", "csh"], ["berth completion bash, zsh or fish"]),
            (["\x1b[31mred"], ["unknown command"]),
    ):
        b.one_line_error(b.berth(*args), 2, *words)


def test_errors_are_json_when_asked():
    r = b.berth("run", "--json", "--pull", "never", "nosuchimage", "true")
    error = json.loads(r.err)["error"]
    b.expect(r.code == 125 and error["exit_status"] == 125 and error["code"] == "not-found", r, "not as JSON")
    b.expect(r.err.count("\n") == 1, r, "more than one line")


# ---- a caller that is odd -------------------------------------------------------

def test_closed_standard_descriptors_are_filled():
    for closed in range(8):
        def close():
            for fd in range(3):
                if closed & 1 << fd:
                    os.close(fd)
        p = subprocess.run([b.BERTH, "config", "show"], env=b.environment(), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=close, timeout=30 * b.SLOW)
        assert p.returncode == 0, (closed, p)
        assert closed & 2 or b"[sandbox]" in p.stdout, (closed, p)


def test_ignored_and_blocked_signals_are_taken_back():
    def odd():
        for s in range(1, 65):
            try:
                signal.signal(s, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        signal.pthread_sigmask(signal.SIG_SETMASK, set(range(1, 65)))
    p = subprocess.Popen([b.BERTH, "run", "host", "sh", "-c", "echo up; exec sleep 60"], env=b.environment(),
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=odd)
    b.read_until(p.stdout, b"up")
    p.send_signal(signal.SIGTERM)
    assert p.wait(20 * b.SLOW) == 128 + signal.SIGTERM
    p.stdout.close()


def test_few_descriptors_and_no_file_size():
    b.needs_the_program_itself()
    limits = [(resource.RLIMIT_NOFILE, 8), (resource.RLIMIT_FSIZE, 0)]
    if not b.SANITIZED:     # AddressSanitizer wants terabytes of address space
        limits.append((resource.RLIMIT_AS, 64 << 20))
    for which, value in limits:
        def limit():
            resource.setrlimit(which, (value, value))
        for args in (["config", "show"], ["help"], ["ps"]):
            r = b.berth(*args, preexec_fn=limit)
            b.expect(r.code in (0, 125) and (r.code == 0 or r.err.count("\n") == 1), r, "neither success nor one line")


def test_without_environment_and_with_a_huge_one():
    p = subprocess.run([b.BERTH, "config", "show"], env={}, capture_output=True, timeout=30 * b.SLOW)
    assert p.returncode == 0, p
    huge = {f"X{i}": "y" * 100000 for i in range(15)}
    r = b.berth("config", "show", env=huge)
    b.expect(r.code == 0, r, "a huge environment")


def test_set_user_id_is_refused():
    b.needs_the_program_itself()
    b.need_berth()
    copy = b.tmp("berth")
    subprocess.run(["cp", b.BERTH, copy], check=True)
    os.chmod(b.root(), 0o755)
    os.chmod(os.path.dirname(copy), 0o755)
    os.chmod(copy, 0o4755)
    p = subprocess.run([copy, "--version"], user=65534, group=65534, extra_groups=[], capture_output=True, text=True)
    os.chmod(copy, 0o755)
    assert p.returncode == 125 and "refusing to run with privileges" in p.stderr and p.stderr.count("\n") == 1, p


def test_without_root_it_says_so():
    b.needs_the_program_itself()
    copy = b.tmp("berth")
    subprocess.run(["cp", b.BERTH, copy], check=True)
    for d in (b.root(), os.path.dirname(copy)):
        os.chmod(d, 0o755)

    def as_nobody(*args):
        return subprocess.run([copy, *args], user=65534, group=65534, extra_groups=[], capture_output=True, text=True,
                              env=b.environment(), timeout=60 * b.SLOW)
    p = as_nobody("run", "host", "true")
    assert p.returncode == 125 and "needs root" in p.stderr and "sudo" in p.stderr, p
    for args in (["help"], ["run", "--help"], ["--version"], ["completion", "bash"], ["config", "show"]):
        assert as_nobody(*args).returncode == 0, args
    p = as_nobody("doctor", "--json")
    assert p.returncode == 1 and json.loads(p.stdout)["blocker"] == "root", p


def test_start_up_is_lean():
    """What main() itself asks of the kernel before a command runs; glibc's own start is 11 calls, musl's 2."""
    b.needs_the_lean_program()
    if subprocess.run(["sh", "-c", "command -v strace"], stdout=subprocess.DEVNULL).returncode:
        raise b.skip("needs strace")
    log = b.tmp("strace")
    b.berth("--version", prefix=["strace", "-o", log], ok=True)
    with open(log) as f:
        calls = [re.match(r"\w+", line).group(0) for line in f if re.match(r"\w+\(", line)]
    said = next(i for i, call in enumerate(calls) if call in ("write", "writev"))
    before = calls[calls.index("poll"):said]
    assert len(before) <= 14, before
    assert len(calls) <= 32, calls


def test_the_program_is_hardened():
    """T11: position independent, relocations read-only, no executable stack; canaries and checked string functions, with either libc."""
    b.needs_the_program_itself()
    if "-san" in os.path.basename(b.BUILD) or "-cover" in os.path.basename(b.BUILD):
        raise b.skip("built for other checks")
    elf = subprocess.run(["readelf", "-hlsW", b.BERTH], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert re.search(r"Type:\s+DYN", elf), "not position independent"
    assert "GNU_RELRO" in elf and re.search(r"GNU_STACK.* RW +0x", elf), elf[:4000]
    names = set(re.findall(r" (\S+)$", elf, re.M))
    assert {"__stack_chk_fail", "__snprintf_chk", "__memcpy_chk"} <= names, sorted(n for n in names if "chk" in n)


# ---- configuration ----------------------------------------------------------------

def config(text, mode=0o644):
    return b.write(b.tmp("berth.toml"), text, mode)


def shown(**env):
    return json.loads(b.berth("config", "show", "--json", env=env, ok=True).out)


def test_config_show_says_where_each_value_comes_from():
    path = config("[sandbox]\nmemory_limit = \"1g\"\n")
    c = shown(BERTH_CONFIG=path)
    assert c["file"] == path
    assert c["sandbox"]["memory_limit"] == {"value": 1 << 30, "unit": "bytes", "source": "file"}
    assert c["sandbox"]["cpu_limit"] == {"value": 1.0, "source": "default"}
    assert c["sandbox"]["timeout"] == {"value": 300000, "unit": "ms", "source": "default"}
    assert c["paths"]["run_dir"] == {"value": os.path.join(b.root(), "run"), "source": "env"}


SERVICE = """[session]
heartbeat_timeout = "10s"
[pool.base]
image = "host"
size = 2
options = ["pids=64", "env=L=%s"]
[pool."py.dev"]
image = "python"
memory_limit = "1g"
""" % ("x" * 400)


def test_config_show_tells_what_only_berthd_reads():
    c = shown(BERTH_CONFIG=config(SERVICE))
    assert c["session"]["heartbeat_timeout"] == {"value": 10000, "unit": "ms", "source": "file"}
    assert c["session"]["auto_stop"] == {"value": 900000, "unit": "ms", "source": "default"}
    # what an empty value stands for
    assert c["store"]["url"] == {"value": f"sqlite:{b.root()}/state/manager/records.db", "source": "default"}
    assert c["storage"]["url"]["value"] == "" and c["admission"]["queue"]["value"] == 0
    assert c["pool.base"]["size"] == {"value": 2, "source": "file"}
    assert c["pool.base"]["options"]["value"] == ["pids=64", "env=L=" + "x" * 400]
    assert c["pool.py.dev"]["memory_limit"] == {"value": 1 << 30, "unit": "bytes", "source": "file"}
    assert c["pool.py.dev"]["cpu_limit"] == {"value": 1.0, "source": "default"}
    # without any there is one, of [sandbox]'s values
    assert shown()["pool.base"]["image"] == {"value": "host", "source": "default"}


def test_config_check_reads_what_only_berthd_reads():
    for text, words in (("[session]\nhartbeat = 1\n", "hartbeat"), ("[pool.x]\nsize = -1\n", "pool.x.size"), ("[store]\nsync = 'x'\n", "store.sync"),
                        ("[pool.x]\noptions = ['name=me']\n", "pool.x.options"), ("[pool.x]\noptions = ['read-only=1']\n", "no value"),
                        ("[pool.x]\noptions = ['pids']\n", "pids=VALUE")):
        b.one_line_error(b.berth("config", "check", config(text)), 125, "berth.toml", words)


def test_config_show_is_a_valid_file_that_means_the_same():
    same_again({})
    same_again({"BERTH_CONFIG": config(SERVICE)})


def same_again(env):
    first = shown(**env)
    text = b.berth("config", "show", env=env, ok=True).out
    path = config(text)
    b.berth("config", "check", "--own", path, ok=True)    # berthd would look for the storage
    second = shown(BERTH_CONFIG=path)
    assert list(first) == list(second)
    for section, keys in first.items():
        if section != "file":
            assert {k: v["value"] for k, v in keys.items()} == {k: v["value"] for k, v in second[section].items()}


def test_a_wrong_file_stops_every_command():
    path = config("[sandbox]\nmemory_limt = \"1g\"\n")
    for args in (["run", "host", "true"], ["ps"], ["config", "show"], ["config", "check"]):
        b.one_line_error(b.berth(*args, env={"BERTH_CONFIG": path}), 125, path, "memory_limt", "did you mean memory_limit")
    b.one_line_error(b.berth("config", "check", config("[sandbox]\nx = 'a\nb'\n")), 125, ":2:7:", "not closed")
    b.one_line_error(b.berth("config", "check", config("", 0o666)), 125, "may be written by others")
    b.one_line_error(b.berth("config", "check", "/nonexistent"), 125, "/nonexistent", "No such file")
    b.one_line_error(b.berth("ps", env={"BERTH_STATE_DIR": "relative"}), 125, "BERTH_STATE_DIR", "absolute")
    b.one_line_error(b.berth("ps", env={"BERTH_CGROUP_PARENT": "system.slice"}), 125, "BERTH_CGROUP_PARENT")


def test_keys_of_the_configuration_reach_the_sandbox():
    path = config("[sandbox]\nhostname = \"from-file\"\npids_limit = 77\nwork_dir = \"/elsewhere\"\n")
    r = b.run("host", "sh", "-c", "hostname; pwd", env={"BERTH_CONFIG": path}, ok=True)
    b.expect(r.out == "from-file\n/elsewhere\n", r, "not as configured")
    plan = b.run("--dry-run", "host", "true", env={"BERTH_CONFIG": path}, ok=True)
    b.expect("77" in plan.out, plan, "pids_limit")


# ---- completion ---------------------------------------------------------------------

def complete(*words):
    """What bash would offer for the last word."""
    b.need_berth()
    script = 'source <(berth completion bash) || exit 9; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _berth; ' \
             'printf "%s\\n" "${COMPREPLY[@]}"'
    env = b.environment()
    env["PATH"] = b.BUILD + ":" + env["PATH"]
    p = subprocess.run(["bash", "--norc", "-c", script, "bash", "berth", *words], env=env, capture_output=True, text=True,
                       timeout=30 * b.SLOW)
    assert p.returncode == 0 and p.stderr == "", p
    return p.stdout.split()


def test_completion_of_commands_and_options():
    names = commands() + ["image"]
    first = complete("")
    assert set(n.split()[0] for n in names) <= set(first) and len(first) == len(set(first)), first
    assert complete("co")[0].startswith("co")
    assert sorted(complete("config", "")) == ["check", "show"]
    assert complete("config", "sh") == ["show"]
    assert complete("help", "doc") == ["doctor"]
    for name in names[:4] + ["config show", "doctor"]:
        offered = complete(*name.split(), "--")
        assert sorted(offered) == sorted("--" + o for _, o in options(name)), (name, offered)


def test_completion_of_values_and_operands():
    b.write(b.tmp("here/file.txt"))
    assert complete("run", "--network", "h") == ["host"]
    assert complete("run", "--network", "=", "h") == ["host"]
    assert complete("run", "--network", "=") == ["none", "host", "bridge", "egress"]
    assert complete("run", "--memory", "") == []
    assert complete("run", "ho") == ["host"]
    assert complete("run", "--memory", "1g", "-t", "ho") == ["host"]
    assert complete("run", "--", "ho") == ["host"]
    assert complete("run", "host", b.tmp("here/fi")) == [b.tmp("here/file.txt")]
    assert complete("config", "check", b.tmp("here/")) == [b.tmp("here/file.txt")]
    assert complete("completion", "") == ["bash", "zsh", "fish"]


def test_completion_knows_the_names_of_networks_and_zygotes():
    b.berth("network", "create", "--internal", "nearby", ok=True)
    assert complete("run", "--network", "nea") == ["nearby"]
    assert complete("network", "rm", "n") == ["nearby"]
    assert b.berth("network", "ls", "--named", "-q", ok=True).out == "nearby\n"
    box = b.berth("create", "--network", "nearby", "--name", "work", "host", ok=True).out
    assert b.berth("network", "ls", "--quiet", ok=True).out == box
    # a name before the id, which is offered to those who type one
    assert complete("exec", "w") == ["work"] and complete("exec", "") == ["work"] and complete("exec", box[:3]) == [box.strip()]
    b.berth("rm", "-f", "work", ok=True)
    b.berth("network", "rm", "nearby", ok=True)
    b.berth("zygote", "create", "--name", "warm", "host", "/usr/bin/python3", "-c", "import json", ok=True)
    unnamed = b.berth("zygote", "create", "host", "/usr/bin/python3", "-c", "import json", ok=True).out.strip()
    assert sorted(b.berth("zygote", "ls", "-q", ok=True).out.split()) == sorted(["warm", unnamed])
    assert complete("run", "--zygote", "wa") == ["warm"] and complete("zygote", "rm", "w") == ["warm"]
    b.berth("zygote", "rm", "warm", ok=True)
    b.berth("zygote", "rm", unnamed, ok=True)


def test_completion_of_image_words_is_what_the_program_has():
    out = b.berth("image", "--help", ok=True).out
    there = re.findall(r"^  ([a-z]+)  ", out.split("Commands:\n")[1].split("\n\n")[0], re.M)
    assert sorted(complete("image", "")) == sorted(there)


def fish(line):
    """What fish would offer at the end of line: {word: description}."""
    env = b.environment()
    env["PATH"] = b.BUILD + ":" + env["PATH"]
    env["HOME"] = b.tmp("home")
    os.makedirs(env["HOME"], exist_ok=True)
    p = subprocess.run(["fish", "--no-config", "-c", "berth completion fish | source; complete -C $argv[1]", line], env=env,
                       capture_output=True, text=True, timeout=30 * b.SLOW)
    assert p.returncode == 0 and p.stderr == "", p
    return dict((w + "\t").split("\t")[:2] for w in p.stdout.splitlines())


def test_fish_completes_commands_options_and_values():
    first = fish("berth ")
    assert set(n.split()[0] for n in commands()) <= set(first) and first["run"], first
    assert set(fish("berth config ")) == {"check", "show"}
    assert fish("berth config s")["show"]
    assert set(fish("berth run --network ")) == {"none", "host", "bridge", "egress"}
    assert "--memory" in fish("berth run --me")
    assert "host" in fish("berth run ho")
    for name in ("run", "config show"):
        assert set("--" + o for _, o in options(name)) <= set(fish(f"berth {name} --")), name


def test_zsh_completes_by_the_script_of_bash():
    env = b.environment()
    env["PATH"] = b.BUILD + ":" + env["PATH"]
    # compgen and the arrays of bash are bashcompinit's: what it hands to the completion system is asked for here
    script = ('autoload -U compinit; compinit -D -u; source <(berth completion zsh); print -r -- "${_comps[berth]}"; '
              'COMP_WORDS=(berth run --network eg); COMP_CWORD=3; emulate ksh -c _berth; print -r -- "${COMPREPLY[@]}"')
    p = subprocess.run(["zsh", "-f", "-c", script], env=env, capture_output=True, text=True, timeout=30 * b.SLOW)
    assert p.returncode == 0 and p.stderr == "", p
    # only the completion system itself filters by what was typed
    assert p.stdout.splitlines() == ["_bash_complete -F _berth", "none host bridge egress"], p.stdout


# ---- doctor ------------------------------------------------------------------------

def test_doctor_says_it_works_and_leaves_nothing():
    # trying loads kernel modules, as berth run would: loop makes eight devices then
    try:
        os.close(os.open("/dev/loop-control", os.O_RDWR))
    except OSError:
        pass
    before = sorted(os.listdir("/sys/block")), sorted(os.listdir(b.root()))
    r = b.berth("doctor", timeout=120)
    b.expect(r.code == 0 and r.out.endswith("\nberth run works here\n"), r, "doctor is not content")
    for line in r.out.splitlines()[:-2]:
        b.expect(re.match(r"(ok|limited|missing) +\S|  +-> berth |$|optional programs:$", line), r, f"malformed: {line!r}")
    # problems come first, and programs that are not there are none
    checks, programs = r.out.split("\noptional programs:\n")
    states = re.findall(r"^(ok|limited|missing)", checks, re.M)
    b.expect(states == sorted(states, key=lambda s: s == "ok"), r, "a problem after what works")
    b.expect(re.findall(r"^(?:ok|missing) +(\S+)", programs, re.M) == ["buildah", "mmdebstrap", "mkfs.xfs", "lxcfs"], r, "the programs")
    for name, needs in ("buildah", "berth build"), ("mmdebstrap", "berth image bootstrap"), ("mkfs.xfs", "berth system pool"), ("lxcfs", "berth-oci"):
        line, = [line for line in programs.splitlines() if f" {name} " in line]
        b.expect(needs in line and line.startswith("ok") == bool(shutil.which(name, path="/usr/bin:/sbin")), r, line)
    lacks = len(re.findall(r"^(?:limited|missing)", r.out, re.M))
    b.expect(r.out.count("-> berth ") == lacks, r, "a lack without what berth does about it")
    b.expect((sorted(os.listdir("/sys/block")), sorted(os.listdir(b.root()))) == before, r, "something is left")


def test_doctor_fits_the_terminal_and_shows_the_blocker_first():
    for columns in (80, 40):
        code, out = screen.shown(columns, "doctor")
        long = [line for line in out.splitlines() if len(line) > columns and " " in line[columns // 2:columns]]
        assert code == 0 and not long and out.endswith("\nberth run works here\n"), (columns, long)
    r = b.berth("doctor", env={"BERTH_CONFIG": config("nonsense")}, timeout=120)
    b.expect(r.code == 1 and r.out.startswith("missing  configuration ") and "does not work here: configuration: " in r.out, r, "not the first")


def test_doctor_in_json():
    r = b.berth("doctor", "--json", ok=True, timeout=120)
    j = json.loads(r.out)
    what = [f["what"] for f in j["findings"]]
    b.expect(j["works"] is True and j["blocker"] is None, r, "works")
    for name in ("C library", "kernel", "namespace user", "namespace time", "cgroup mode", "cgroup memory", "overlay", "seccomp",
                 "Landlock", "sandbox"):
        b.expect(name in what, r, f"no {name}")
    for f in j["findings"]:
        b.expect(f["state"] in ("ok", "limited", "missing") and f["detail"], r, f"malformed {f}")
    b.expect([f["what"] for f in j["findings"] if f["optional"]] == ["buildah", "mmdebstrap", "mkfs.xfs", "lxcfs"], r, "programs")


def test_doctor_names_the_blocker():
    # a user namespace with nothing in it but root: no capability over the host
    r = b.berth("doctor", "--json", prefix=["unshare", "--user", "--map-root-user"], timeout=120)
    j = json.loads(r.out)
    b.expect(r.code == 1 and j["works"] is False and j["blocker"], r, "it works?")
    bad = config("nonsense")
    r = b.berth("doctor", "--json", env={"BERTH_CONFIG": bad}, timeout=120)
    b.expect(r.code == 1 and json.loads(r.out)["blocker"] == "configuration", r, "not the configuration")


def test_doctor_killed_by_a_signal_leaves_nothing():
    for delay in (0.02, 0.15, 0.4):
        p = b.start("doctor")
        try:
            p.wait(delay)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGTERM)
        b.stop(p, signal.SIGTERM)
        assert "doctor" not in " ".join(os.listdir(b.root()) + os.listdir(os.path.join(b.root(), "state")))


def test_doctor_and_run_agree_where_the_state_directory_is_a_mount():
    # overlayfs, as a container's root is: its directories take no id-mapped mount; a tmpfs does, from Linux 6.3 on
    for name in ("lower", "upper", "work"):
        b.tmpdir(name)
    top = b.tmpdir("outer")
    options = f"lowerdir={b.tmp('lower')},upperdir={b.tmp('upper')},workdir={b.tmp('work')}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, top], check=True)
    try:
        os.mkdir(top + "/state", 0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700", "tmpfs", top + "/state"], check=True)
        env = {"BERTH_STATE_DIR": top + "/state"}
        runs = b.run("host", "true", env=env).code == 0
        r = b.berth("doctor", "--json", env=env, timeout=120)
        b.expect(json.loads(r.out)["works"] is runs, r, f"berth run {'works' if runs else 'does not'} and doctor says otherwise")
        assert not [n for n in os.listdir(top + "/state") if "doctor" in n]
        quota, = (f for f in json.loads(r.out)["findings"] if f["what"] == "project quota")
        assert "is of Linux 5.14" not in quota["detail"], quota
    finally:
        for path in (top + "/state", top):
            subprocess.run(["umount", path], check=False)


# a filter that allows everything, as a container engine's stricter one would be there
UNDER_A_FILTER = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))
if libc.prctl(22, 2, program, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_doctor_tells_whether_zygotes_work_as_their_creation_does():
    def finding(**kw):
        found, = (f for f in json.loads(b.berth("doctor", "--json", timeout=120, **kw).out)["findings"] if f["what"] == "zygotes")
        return found

    if platform.machine() != "x86_64":
        assert "x86_64 alone" in finding()["detail"]
        return
    if b.under_strace():
        raise b.skip("what is traced already cannot be traced by berth")
    found = finding()
    assert found["state"] == "ok" and found["needed"] is False and "filters suspended" in found["detail"], found
    prefix = ["/usr/bin/python3", "-c", UNDER_A_FILTER]
    found = finding(prefix=prefix)
    assert found["state"] == "missing" and "CONFIG_CHECKPOINT_RESTORE" in found["detail"], found
    assert found["effect"] == "refuses berth zygote create", found
    b.one_line_error(b.berth("zygote", "create", "host", "/usr/bin/python3", "-c", "pass", prefix=prefix), 125, "CONFIG_CHECKPOINT_RESTORE")


# ---- the manual -----------------------------------------------------------------------

def page(command):
    for name in ("berth-" + command.replace(" ", "-"), "berth-" + command.split()[0], "berth"):
        path = os.path.join(MAN, name + ".1")
        if os.path.exists(path):
            with open(path) as f:
                return name, f.read()
    raise AssertionError("man/berth.1 is not there")


def test_every_command_is_in_the_manual():
    with open(os.path.join(MAN, "berth.1")) as f:
        text = f.read()
    missing = [c for c in commands() + ["image"] if f".It Cm {c}\n" not in text]
    assert not missing, f"not in berth(1): {missing}"


def test_every_option_is_in_its_commands_page():
    missing = []
    for command in commands():
        name, text = page(command)
        if name == "berth":     # has no page of its own yet: berth(1) names it, --help lists its options
            continue
        if command == "mcp":    # its page refers to create's for the rest
            text += page("create")[1]
        for letter, option in options(command):
            want = f"Fl Fl {option}".replace("-", r"\-")
            if not re.search(rf"Fl Fl {re.escape(option)}\b", text) and want not in text:
                missing.append(f"{name}: --{option}")
            if letter and not re.search(rf"Fl {letter} ?[,\n]", text):
                missing.append(f"{name}: -{letter}")
    assert not missing, missing


def test_every_key_is_in_the_manual_with_its_default():
    with open(os.path.join(MAN, "berth.toml.5")) as f:
        text = f.read()
    for section, keys in shown(BERTH_STATE_DIR=None, BERTH_RUN_DIR=None, BERTH_IDS_DIR=None, BERTH_CGROUP_PARENT=None,
                               BERTH_CONFIG=config("")).items():
        if section == "file":
            continue
        named = "pool.NAME" if section.startswith("pool.") else section
        part = text.split(f".Ss \\&[{named}]\\&\n")[1].split(".Ss ")[0].split(".Sh ")[0]
        assert sorted(re.findall(r"^\.It Li (\w+)", part, re.M)) == sorted(keys), section
        if named in ("store", "storage", "session", "tenant", "pool.NAME"):
            continue    # shown is what an empty value stands for; test_manager.py holds the table against the manual
        out = b.berth("config", "show", env=dict.fromkeys(("BERTH_STATE_DIR", "BERTH_RUN_DIR", "BERTH_IDS_DIR", "BERTH_CGROUP_PARENT")),
                      ok=True).out
        for key in keys:
            value = re.search(rf"^{key} *= (\S+)", out.split(f"[{section}]\n")[1], re.M).group(1).strip('"')
            told = part.split(f".It Li {key} ")[1].split(".It ")[0].split("Default:")[1]
            assert value in told or (value == "" and "empty" in told), (section, key, value, told)


def test_the_manual_is_clean():
    if subprocess.run(["sh", "-c", "command -v mandoc"], stdout=subprocess.DEVNULL).returncode:
        raise b.skip("needs mandoc")
    for name in ("berth.1", "berth-config.1", "berth-doctor.1", "berth.toml.5"):
        p = subprocess.run(["mandoc", "-Tlint", "-Wwarning", os.path.join(MAN, name)], capture_output=True, text=True)
        assert p.stdout == "", p.stdout


def test_a_group_of_commands_lists_them():
    for group, one in (("file", "read"), ("network", "ls"), ("config", "show"), ("system", "df")):
        for words in ((group, "--help"), (group, "-h"), ("help", group)):
            r = b.berth(*words, ok=True)
            b.expect(r.out.startswith(f"Usage: berth {group} COMMAND") and f"\n  {one} " in r.out, r, "no list of the group")
        b.one_line_error(b.berth(group), 2, "second word", f"berth {group} --help")
