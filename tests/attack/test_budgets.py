# SPDX-License-Identifier: Apache-2.0
"""
D11 and on: what the kernel counts once for all of the host, and one sandbox could use up.  The floods here are small:
each asks whether the first grain is refused or bounded, and none comes near the limit of the machine.

Attacks S24 of SECURITY.md.
"""
import contextlib
import fnmatch
import json
import os
import re
import subprocess

import berthtest as b
import proc
from box import Box

COST = 20

FILTERS = r"""
import ctypes, errno, os, socket, struct
L = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))	# return "allow", or "the whole packet"
prog = struct.pack("HxxxxxxQ", 1, ctypes.addressof(code))
def tried(*what):
    print(*what, flush=True)
"""


def inside(script, *options, **kw):
    return b.run(*options, "host", "python3", "-c", FILTERS + script, **kw)


def test_D11_no_program_is_attached_to_a_socket():
    """Its compiled code counts against net.core.bpf_jit_limit and against no sandbox."""
    script = r"""
for make in ((socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_INET6, socket.SOCK_STREAM),
             (socket.AF_NETLINK, socket.SOCK_RAW)):
    try:
        s = socket.socket(*make)
    except OSError:
        continue
    for level, option in ((1, 26), (1, 50), (1, 51), (1, 52), (263, 22)):
        try:
            s.setsockopt(level, option, prog)
            tried("attached", make, level, option)
        except OSError as e:
            if e.errno != errno.EPERM:
                tried(errno.errorcode[e.errno], make, level, option)
tried("end")
"""
    for profile in ("strict", "standard", "dev"):
        r = inside(script, "--seccomp", profile, ok=True)
        b.expect(r.out == "end\n", r, f"profile {profile}: a program was attached, or the kernel was asked")


def test_D11_a_filter_ends_with_its_task():
    """A listener would keep it: one descriptor for each 400 KB of compiled code, whatever --pids says."""
    r = inside(r"""
p = ctypes.create_string_buffer(prog)
L.prctl(38, 1, 0, 0, 0)
for flags in (8, 8 | 2, 8 | 16, 8 | 32):
    r = L.syscall({"x86_64": 317, "aarch64": 277}[os.uname().machine], 1, flags, p)
    tried(flags, r, errno.errorcode.get(ctypes.get_errno()))
""", ok=True)
    b.expect(r.out == "".join(f"{flags} -1 EINVAL\n" for flags in (8, 10, 24, 40)), r, "a filter got a listener")


def test_D11_programs_may_still_confine_themselves():
    """Browsers, file(1), man(1) and services load filters of their own."""
    r = inside(r"""
p = ctypes.create_string_buffer(prog)
L.prctl(38, 1, 0, 0, 0)
tried(L.syscall({"x86_64": 317, "aarch64": 277}[os.uname().machine], 1, 1, p))
tried(L.prctl(22, 2, p, 0, 0))
""", ok=True)
    b.expect(r.out == "0\n0\n", r, "a filter of the payload's own was refused")


LOAD = r"""
p = ctypes.create_string_buffer(prog)
L.prctl(38, 1, 0, 0, 0)
import signal
def load(*more):
    r = L.syscall({"x86_64": 317, "aarch64": 277}[os.uname().machine], 1, 0, p, *more)
    return "loaded" if r == 0 else errno.errorcode[ctypes.get_errno()]
def crowd(n):
    "n processes that load one filter each and stay; what each was told"
    r, w = os.pipe()
    for _ in range(n):
        if os.fork() == 0:
            os.write(w, load().encode() + b"\n")
            signal.pause()
    told = b""
    while told.count(b"\n") < n:
        told += os.read(r, 65536)
    return told.decode().split()
"""


def filters_of_a_sandbox():
    """In the network namespace where the tests are, which may not show the host's limit."""
    rows = json.loads(b.berth("doctor", "--budgets", "--json", ok=True).out)["budgets"]
    row = next(row for row in rows if row["name"] == "compiled filters")
    return row["sandbox"] // (128 << 10)


def test_D11_the_filters_of_all_processes_of_a_sandbox_have_one_budget():
    """Their compiled code is charged to nobody: with the kernel's own bound, by task, --pids 512 was half of the host's."""
    most = filters_of_a_sandbox()
    r = inside(LOAD + f"""
told = crowd({most + 40})
tried(told.count("loaded"), told.count("ENOMEM"))
tried(load(0x1234567812345678, 0x1234567812345678))
""", "--pids", "512", ok=True)
    b.expect(r.out == f"{most} 40\nENOMEM\n", r, "not as many filters as the budget has")


def test_D11_ended_processes_give_their_filters_back():
    """file(1) in a loop, or a browser that opens and closes its tabs."""
    most = filters_of_a_sandbox()
    r = inside(LOAD + f"""
told = crowd(20)
for _ in range({3 * most}):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if load() == "loaded" and load() == "loaded" else 1)
    told.append(os.waitpid(pid, 0)[1])
tried(told.count("loaded"), told.count(0))
""", ok=True)
    b.expect(r.out == f"20 {3 * most}\n", r, "an ended process's filters still counted")


def test_D11_a_filter_that_only_children_hold_still_counts():
    """Each loader leaves a child that was born with what it loaded, and ends."""
    most = filters_of_a_sandbox()
    r = inside(LOAD + f"""
told = []
for _ in range({most}):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(w, load().encode())
        if os.fork() == 0:
            signal.pause()
        os._exit(0)
    told.append(os.read(r, 20))
    os.close(r), os.close(w), os.waitpid(pid, 0)
tried(told.count(b"loaded"), *crowd(3))
""", "--pids", "512", ok=True)
    b.expect(r.out == f"{most} ENOMEM ENOMEM ENOMEM\n", r, "filters that orphans hold were forgotten")


def test_D11_a_used_up_budget_of_filters_is_no_hindrance_to_other_commands():
    """The filters of berth's own are not of it; and those who ended give it back, in a sandbox that lives too."""
    most = filters_of_a_sandbox()
    with Box("--pids", "512") as x:
        c = x.main.detach("python3", "-c", FILTERS + LOAD + f"""
tried(crowd({most + 1}).count("ENOMEM"))
signal.pause()
""")
        b.wait_for(lambda: x.main.output(c)[0] == b"1\n", 20)
        for _ in range(3):
            r = x.exec("python3", "-c", FILTERS + LOAD + "tried(load())")
            assert r.code == 0 and r.out == "ENOMEM\n", r
        x.exec("sh", "-c", "kill -9 -1")
        b.wait_for(lambda: x.exec("python3", "-c", FILTERS + LOAD + "tried(load())").out == "loaded\n", 10)


def test_D11_a_profile_from_a_file_has_the_same_budget():
    most = filters_of_a_sandbox()
    profile = b.write(b.tmp("all.json"), json.dumps({"defaultAction": "SCMP_ACT_ALLOW"}))
    r = inside(LOAD + f"tried(crowd({most + 5}).count('ENOMEM'))", "--pids", "512", "--seccomp", profile, ok=True)
    b.expect(r.out == "5\n", r, "a profile of the operator's has another budget")


def test_D11_a_used_up_limit_is_named_by_its_knob():
    for nth, options in ((1, ()), (2, ()), (1, ("--network", "egress"))):
        r = b.run(*options, "host", "true", prefix=["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=seccomp",
                                          "-e", f"inject=seccomp:error=524:when={nth}"])
        b.one_line_error(r, 125, "ENOTSUPP (524)", "net.core.bpf_jit_limit", "hint:")


def test_D13_detached_commands_do_not_grow_the_keeper():
    """Its memory is the host's: 40 commands that print 6 MB each, at once and after each other."""
    with Box("--pids", "400") as x:
        commands = []
        for n in range(40):
            commands.append(x.main.detach("sh", "-c", f"echo begin {n}; head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; "
                                          f"echo end {n}; echo end {n} >&2"))
        for n, c in enumerate(commands):
            x.main.wait(c)
            with open(f"/proc/{x.keeper}/status") as f:
                status = dict(line.split(":", 1) for line in f)
            grown = int(status["VmHWM"].split()[0])
            assert grown < 64 << 10, f"the keeper took {grown} KiB after {n + 1} commands"
        # both ends of each are there, and the rest is counted
        for n, c in enumerate(commands):
            head, tail = x.main.output(c)[0], x.main.output(c, "stderr", 3000000)[0]
            assert head.startswith(b"begin %d\n" % n) and tail == b"end %d\n" % n, (n, head[:20], tail[-20:])


def keepers_cgroup():
    """Where the memory of all keepers of this test is counted, and the names of its files."""
    parent = b.cgroup_parent_of(b.TEST_PID)
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        return f"/sys/fs/cgroup/{parent}/keepers", "memory.max", "memory.current", "memory.swap.max"
    return (f"/sys/fs/cgroup/memory/{parent}/keepers", "memory.limit_in_bytes", "memory.usage_in_bytes",
            "memory.memsw.limit_in_bytes")


def number_in(path):
    with open(path) as f:
        return int(f.read())


def flood(x):
    """Makes its keeper hold as much of output as it may."""
    for n in range(12):
        c = x.main.detach("sh", "-c", "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2")
        x.main.wait(c)


def test_D13_keepers_are_counted_below_the_cgroup_parent():
    """Else by whoever called `berth create`: with berthd's own memory, under the unit's MemoryMax=."""
    with Box("--pids", "400") as x:
        top, limit, usage, _ = keepers_cgroup()
        with open(f"{top}/cgroup.procs") as f:
            assert str(x.keeper) in f.read().split()
        with open("/proc/meminfo") as f:
            host = 1024 * int(f.readline().split()[1])
        most = number_in(f"{top}/{limit}")
        assert host * 0.49 <= most <= host * 0.51 or most == 256 << 20, (most, host)
        before = number_in(f"{top}/{usage}")
        flood(x)
        assert number_in(f"{top}/{usage}") > before + (8 << 20), "what it holds is counted elsewhere"
    r = b.berth("gc", ok=True)
    b.expect(not os.path.exists(top), r, "the keepers' cgroup outlived the last sandbox and gc")


@b.deadline(90)
def test_D13_of_keepers_that_take_too_much_together_the_largest_ends():
    with Box("--pids", "400") as quiet, Box("--pids", "400") as loud:
        top, limit, usage, swap = keepers_cgroup()
        # as far as a host's half is from what it holds, but nearer
        most = number_in(f"{top}/{usage}") + (8 << 20)
        for name in (limit, swap):
            if os.path.exists(f"{top}/{name}"):
                b.write(f"{top}/{name}", "0" if name == "memory.swap.max" else str(most))
        with contextlib.suppress(Exception):
            flood(loud)
        b.wait_for(lambda: not proc.alive(loud.keeper), 30, "the end of the keeper that took the memory")
        assert proc.alive(quiet.keeper) and quiet.exec("echo", "here").out == "here\n"
        b.berth("rm", "-f", loud.id, ok=True)


def test_D13_a_sandbox_is_not_spared_for_want_of_memory_as_berthd_is():
    """OOMScoreAdjust=-500 of berthd's unit; what is above 0 stays."""
    may = subprocess.run(["choom", "-n", "-500", "--", "true"], capture_output=True).returncode == 0
    for start, expected in (("300", "300"), ("-500", "0"))[:1 + may]:
        r = b.berth("create", "host", ok=True, prefix=["choom", "-n", start, "--"])
        id = r.out.strip()
        try:
            keeper = json.loads(b.berth("inspect", id, ok=True).out)["supervisor_pid"]
            got = b.berth("exec", id, "cat", "/proc/self/oom_score_adj", ok=True).out.strip()
            with open(f"/proc/{keeper}/oom_score_adj") as f:
                assert (got, f.read().strip()) == (expected, expected), (start, got)
        finally:
            b.berth("rm", "-f", id, ok=True)
    if not may:
        raise b.skip("this container may not spare a process for want of memory")


def test_S24_a_sandbox_has_64_terminals():
    """Of kernel.pty.max, which is 4,096 for all that are not the host's; its console and sessions are among them."""
    script = """
import errno, os
held = []
try:
    while len(held) < 200:
        held.append(os.openpty())
except OSError as e:
    print(len(held), errno.errorcode[e.errno])
"""
    r = inside(script, ok=True)
    b.expect(r.out in (f"{n} ENOSPC\n" for n in (63, 64)), r, "not as many terminals as doctor says")


def loops():
    return [n for n in os.listdir("/sys/block") if n.startswith("loop") and os.path.exists(f"/sys/block/{n}/loop/backing_file")
            and b.root() in open(f"/sys/block/{n}/loop/backing_file").read()]


def test_S24_a_sandbox_takes_one_loop_device_and_can_take_none_itself():
    assert not loops()
    with Box("--disk", "16m") as x:
        assert len(loops()) <= 1, loops()
        script = "ls -d /dev/loop* 2> /dev/null; mknod /tmp/l b 7 0 && head -c 1 /tmp/l; mknod /tmp/c c 10 237 && head -c 1 /tmp/c; echo end"
        assert x.exec("sh", "-c", script, ok=True).out == "end\n"
        assert len(loops()) <= 1, loops()
    b.wait_for(lambda: not loops(), 10, "the device back")


@b.deadline(60)
def test_S24_netlink_sockets_cost_the_sandbox_its_memory():
    """Each at least a KiB of it; profile strict has none."""
    script = """
import os, resource, signal, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
made = 0
for _ in range(30):
    r, w = os.pipe()
    if os.fork() == 0:
        held = []
        try:
            while True:
                held.append(socket.socket(16, 3, 0))
                if len(held) % 500 == 0:
                    os.write(w, b"x" * 500)
        except OSError:
            os.write(w, b".")
        signal.pause()
    os.close(w)
    while (got := os.read(r, 500)) and b"." not in got:
        made += len(got)
        print(made, flush=True)
    os.close(r)
"""
    r = inside(script, "--memory", "32m", "--swap", "0", verdict=True)
    most = int(r.out.split()[-1]) if r.out.strip() else 0
    assert most * 1024 <= 40 << 20, f"{most} sockets in 32 MiB"
    b.expect(r.verdict["cause"] == "oom", r, "they took no memory of the sandbox")
    r = b.run("--seccomp", "strict", "host", "python3", "-c", "import socket\nsocket.socket(16, 3, 0)")
    b.expect(r.code == 1 and "Error" in r.err, r, "strict has netlink")


@b.deadline(120)
def test_D14_one_sandbox_cannot_open_all_files_of_a_small_host():
    """By default: the hard limit of open files times --pids, against a host with a million."""
    r = b.run("host", "sh", "-c", "ulimit -Hn", ok=True)
    assert int(r.out) * 512 <= 2100000, r.out


@b.deadline(90)
def test_L02_an_end_that_takes_the_kernel_longer_is_waited_for():
    """It closes 800,000 files for longer than 5 s.  Here each wait in turn is over at once, as if that time had passed."""
    hit = 0
    for nth in range(1, 12):
        r = b.run("--timeout", "200ms", "--grace", "0s", "host", "sleep", "1000",
                  prefix=["strace", "-qq", "-o", b.tmp("trace"), "-e", "trace=poll,ppoll",
                          "-e", f"inject=poll,ppoll:retval=0:when={nth}"])
        with open(b.tmp("trace")) as f:
            hit += "INJECTED" in f.read()
        b.expect("outlived" not in r.err and r.code == 124, r, f"wait {nth} was taken for the last")
    assert hit >= 3, f"only {hit} waits were cut short"


# a test has a network namespace of its own, where some of the host's limits do not show
HOSTS_NET = {"preexec_fn": proc.in_machine_network}


def budgets(**kw):
    return json.loads(b.berth("doctor", "--budgets", "--json", ok=True, **HOSTS_NET, **kw).out)["budgets"]


def knob_value(name):
    return int(subprocess.run(["cat", f"/proc/sys/{name}"], capture_output=True, text=True, check=True, **HOSTS_NET).stdout)


def named(table, knob):
    """The first row that names this file below /proc/sys."""
    return next((row for row in table if any(fnmatch.fnmatchcase(knob, p) for p in row["knobs"].split())), None)


def test_S24_every_limit_of_this_kernel_is_in_the_table_of_budgets():
    """Also what is no limit, so that a new file is looked at by somebody."""
    table = budgets()
    assert named(table, "kernel/no_such_limit_max") is None and named(table, "fs/other-max") is None
    assert named(table, "net/core/bpf_jit_limit")["name"] == "compiled filters"
    missing, seen = [], 0
    for top in ("fs", "kernel", "net", "user"):
        found = subprocess.run(["find", f"/proc/sys/{top}", "-type", "f"], capture_output=True, text=True, **HOSTS_NET)
        for path in found.stdout.split():
            seen += 1
            if not named(table, path[len("/proc/sys/"):]):
                missing.append(path)
    assert seen > 300 and not missing, missing
    for row in table:
        assert row["why"] and row["counted_by"] and row["kind"] in ("bounded", "overcommitted", "open", "unreachable", "irrelevant"), row
        test = row["test"].split()[0] if row["test"] else None
        assert not test or os.path.exists(os.path.join(b.TOP, test)), row


def test_S24_the_chapter_of_SECURITY_names_each_budget():
    with open(os.path.join(b.TOP, "SECURITY.md")) as f:
        chapter = re.search(r"^## Budgets that all sandboxes share\n(.*?)^## ", f.read(), re.M | re.S).group(1).lower()
    for row in budgets():
        if row["kind"] != "irrelevant":
            for word in row["name"].lower().split(", "):
                assert word in chapter, f"the chapter does not name {word}"


def test_S24_the_budgets_are_computed_from_the_knobs_and_the_configuration():
    def rows(text):
        config = b.write(b.tmp("berth.toml"), text)
        return {row["name"]: row for row in budgets(env={"BERTH_CONFIG": config})}

    few, many = (rows(f"[sandbox]\npids_limit = {n}\nmemory_limit = \"64m\"\n") for n in (16, 64))
    limit = knob_value("net/core/bpf_jit_limit")
    for found, n in ((few, 16), (many, 64)):
        jit = found["compiled filters"]
        most = max(16, limit // 64 // (128 << 10)) * (128 << 10)
        assert jit["host"] == limit and jit["sandbox"] == min(n * (512 << 10), most), jit
        assert abs(jit["sandbox_percent"] - 100 * jit["sandbox"] / limit) < 0.02, jit
        assert found["processes"]["sandbox"] == n and found["processes"]["host"] == knob_value("kernel/pid_max")
        assert found["open files"]["sandbox"] == min(n * 4096, (64 << 20) // 256), found["open files"]
        assert found["compiled filters"]["tenant"] >= jit["sandbox"]


def test_S24_no_budget_is_called_bounded_that_a_tenant_may_use_up():
    """Neither in words nor as a share of 20317 %."""
    kinds = {row["name"]: row for row in budgets()}
    for name, row in kinds.items():
        over = row["kind"] != "open" and (row.get("tenant_percent") or 0) > 100
        assert row["kind"] != "bounded" or not over, row
    assert kinds["compiled filters"]["kind"] == "bounded" and kinds["compiled filters"]["tenant_percent"] < 100
    text = b.berth("doctor", "--budgets", ok=True, **HOSTS_NET).out
    shares = [float(n) for n in re.findall(r"\(([0-9.]+) %\)", text)]
    assert shares and max(shares) <= 100, text
    config = b.write(b.tmp("berth.toml"), "[tenant]\nsandboxes = 60000\n")
    text = b.berth("doctor", "--budgets", ok=True, env={"BERTH_CONFIG": config}, **HOSTS_NET).out
    row = text[text.index("overcommitted terminals"):]
    assert re.search(r"a tenant's 60000 together all of it \(they may have [0-9.]+ times as much\)", row), row


def test_S24_a_configuration_that_gives_much_is_limited_in_doctor():
    config = b.write(b.tmp("berth.toml"), "[sandbox]\npids_limit = 100000\n")
    r = b.berth("doctor", "--json", env={"BERTH_CONFIG": config}, timeout=120, **HOSTS_NET)
    found = next(f for f in json.loads(r.out)["findings"] if f["what"] == "shared budgets")
    assert found["state"] == "limited" and "kernel/pid_max" in found["detail"] and "--budgets" in found["effect"], found


def test_S24_what_a_task_may_compile_is_within_the_figure():
    """All that one task may load, of the instruction that becomes most code; 12 tasks, 5 MB of the host's budget."""
    if not os.access("/proc/vmallocinfo", os.R_OK):
        raise b.skip("/proc/vmallocinfo cannot be read")

    def compiled():
        with open("/proc/vmallocinfo") as f:
            return sum(int(line.split()[1]) for line in f if "bpf_prog_pack" in line or "execmem" in line or "bpf_jit" in line)
    script = r"""
import sys
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000) + struct.pack("HBBI", 0x34, 0, 0, 3) * 4094
                                   + struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4096, ctypes.addressof(code)))
L.prctl(38, 1, 0, 0, 0)
for _ in range(12):
    if os.fork() == 0:
        n = 0
        while n < 9 and L.syscall({"x86_64": 317, "aarch64": 277}[os.uname().machine], 1, 0, prog) == 0:
            n += 1
        os.write(1, b"%d\n" % n)
        os.read(0, 1)
        os._exit(0)
sys.stdin.readline()
"""
    before = compiled()
    p = b.start("run", "host", "python3", "-c", FILTERS + script, stdin=subprocess.PIPE)
    try:
        got = b""
        while got.count(b"\n") < 12:
            got += b.read_until(p.stdout, b"\n")
        assert set(got.split()) <= {b"6", b"7"}, got
        grown = compiled() - before
    finally:
        p.stdin.close()
        p.wait(30 * b.SLOW)
        b.stop(p)
    # the kernel takes it in packs of 2 MiB, and others on this machine compile too
    assert grown <= 12 * (512 << 10) + (8 << 20), grown
