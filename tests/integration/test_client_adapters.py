# SPDX-License-Identifier: Apache-2.0
"""
berth.adapters: what agent frameworks ask of a sandbox, by the calls that they make.

The frameworks are in neither Debian nor npm; tests/lib/frameworks.py has doubles of the interfaces that they had.
"""
import asyncio
import gc
import io
import json
import os
import subprocess
import sys
import time

import berthtest as b
import frameworks

sys.path.insert(0, os.path.join(b.TOP, "clients/python"))
sys.dont_write_bytecode = True
import berth  # noqa: E402

COST = 20


class Logger:
    def __init__(self):
        self.lines = []

    def log(self, *words, **more):
        self.lines.append(words[0])

    log_error = log


def environment():
    """Adapters make their clients by the environment: the program is found by PATH."""
    os.environ.update(b.environment({"PATH": f"{b.BUILD}:{os.environ['PATH']}"}))


def left():
    with berth.Berth() as client:
        return client.list(all=True)


def sleeps(sandbox):
    return [p for p in sandbox.top() if p["command"].startswith("sleep 100")]


def raises(kind, call):
    try:
        got = call()
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__} but {got!r}")


async def araises(kind, awaited):
    try:
        got = await awaited
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__} but {got!r}")


def test_mini_swe_agent_runs_each_step_in_one_sandbox():
    environment()
    frameworks.mini_swe_agent()
    from berth.adapters.mini_swe_agent import BerthEnvironment
    os.environ["FORWARDED"] = "yes"
    with BerthEnvironment(image="host", env={"A": "$FORWARDED/b"}, forward_env=["FORWARDED", "NOSUCH"], timeout=20,
                          options={"memory": "200m"}) as env:
        # version 2 gives an action, version 1 the command
        r = env.execute({"command": "echo out; echo err >&2; echo $A $FORWARDED; false"})
        assert r == {"output": "out\nerr\nyes/b yes\n", "returncode": 1, "exception_info": ""}, r
        assert env.execute("cd /tmp; touch made")["returncode"] == 0
        assert env.execute("pwd; ls /tmp/made", cwd="/")["output"] == "/\n/tmp/made\n"
        r = env.execute("echo before; sleep 1001 & sleep 1002", timeout=8)
        assert r["returncode"] == -1 and r["output"] == "before\n" and r["extra"]["exception_type"] == "TimeoutExpired", r
        b.wait_for(lambda: not sleeps(env._sandbox), 10, "the end of the tree")
        mark = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
        e = raises(frameworks.Submitted, lambda: env.execute({"command": f"echo {mark}; echo the answer"}))
        assert e.args[0]["extra"]["submission"] == "the answer\n", e.args
        assert env.execute(f"echo {mark}; false")["returncode"] == 1
        assert env.get_template_vars(task="t")["image"] == "host" and env.get_template_vars(task="t")["task"] == "t"
        assert env.serialize()["info"]["config"]["environment_type"] == "berth.adapters.mini_swe_agent.BerthEnvironment"
        assert json.loads(b.berth("inspect", env._sandbox.id, ok=True).out)["expires_ms"] > (time.time() + 7000) * 1000
    assert left() == []
    # its agent lets go of it, and calls nothing
    env = BerthEnvironment(image="host")
    assert len(left()) == 1
    del env
    gc.collect()
    assert left() == []


def test_deepagents_tools_and_transfers_work():
    environment()
    frameworks.deepagents()
    from berth.adapters.langchain import BerthSandbox
    with BerthSandbox.create("host", memory="200m") as backend:
        r = backend.execute("echo out; echo err >&2; cd /tmp; exit 4")
        assert (r.output, r.exit_code, r.truncated) == ("out\nerr\n", 4, False), r
        assert backend.write("/workspace/it's.py", "print('a \"quoted\" $word')\n") is None
        assert "FileExistsError" in backend.write("/workspace/it's.py", "again")
        assert backend.grep("$word", "/workspace") == ["/workspace/it's.py:1:print('a \"quoted\" $word')"]
        r = backend.execute("head -c 3000000 /dev/zero")
        assert r.truncated and len(r.output) == 1 << 20
        r = backend.execute("sleep 1001", timeout=1)
        assert r.exit_code == 124 and "1 seconds" in r.output, r
        assert asyncio.run(backend.aexecute("echo later")).output == "later\n"
        up = backend.upload_files([("/workspace/new/bin", b"\0\xff"), ("relative", b""), ("/usr/x", b"x"), ("/tmp", b"x")])
        assert [(x.path, x.error) for x in up] == [("/workspace/new/bin", None), ("relative", "invalid_path"), ("/usr/x", "permission_denied"),
                                                   ("/tmp", "is_directory")], up
        down = backend.download_files(["/workspace/new/bin", "/nosuch", "/tmp", "relative"])
        assert [(x.content, x.error) for x in down] == [(b"\0\xff", None), (None, "file_not_found"), (None, "is_directory"),
                                                        (None, "invalid_path")], down
        assert backend.id in [j["id"] for j in left()]
    assert left() == []


def test_smolagents_code_keeps_its_state_and_ends_with_an_answer():
    environment()
    frameworks.smolagents()
    from berth.adapters.smolagents import BerthExecutor
    logger = Logger()
    executor = BerthExecutor(["numpy"], logger, image="host", memory="300m")
    assert "would install numpy\n" in logger.lines
    executor.send_variables({"given": [1, 2]})
    out = executor("x = sum(given)\nprint('printed')\nimport os, sys\nos.system('echo of a process')\nprint('warned', file=sys.stderr)\nx * 2")
    assert (out.output, out.is_final_answer) == ("6", False) and out.logs == "printed\nof a process\nwarned\n", out
    assert executor("def f():\n    return x + 1\nf()").output == "4"
    e = raises(frameworks.AgentError, lambda: executor("print('so far')\nundefined"))
    assert "so far" in e.message and "NameError" in e.message and 'File "<cell>", line 2' in e.message, e.message
    assert "SyntaxError" in raises(frameworks.AgentError, lambda: executor("def (")).message
    answer = "class FinalAnswerException(BaseException):\n    def __init__(self, value):\n        self.value = value\n" \
             "raise FinalAnswerException('%s:{\"a\": [1]}')"
    out = executor(answer % "safe")
    assert (out.output, out.is_final_answer) == ({"a": [1]}, True), out
    assert "rejected" in str(raises(ValueError, lambda: executor(answer % "pickle")))
    out = executor("print('y' * 5000000)")
    assert len(out.logs) == 1 << 20
    executor("import atexit")
    assert "ended" in str(raises(berth.errors.Internal, lambda: executor("import os\nos._exit(3)")))
    executor.cleanup()
    executor.delete()
    assert left() == []


def test_inspect_gives_each_sample_a_sandbox():
    environment()
    env_class = frameworks.inspect_ai()
    import berth.adapters.inspect_ai  # noqa: F401
    kind = env_class["berth"]

    async def main():
        os.environ["BERTH_MEMORY"] = "150m"
        await kind.task_init("task", "host")
        one = (await kind.sample_init("task", "host", {}))["default"]
        two = (await kind.sample_init("task", "host", {}))["default"]
        assert (await one._sandbox.stats())["memory_limit_bytes"] == 150 << 20
        r = await one.exec(["sh", "-c", "cat; echo err >&2; pwd; echo $A; exit 3"], input="in\n", cwd="sub", env={"A": "b"})
        assert (r.success, r.returncode, r.stdout, r.stderr) == (False, 3, "in\n/workspace/sub\nb\n", "err\n"), r
        assert (await one.exec(["id", "-u"], user="1000")).stdout == "1000\n"
        await one.write_file("deep/er/file", "text ü")
        await one.write_file("bin", b"\xff\0")
        assert await one.read_file("deep/er/file") == "text ü" and await one.read_file("/workspace/bin", text=False) == b"\xff\0"
        assert (await two.exec(["ls"])).stdout == ""
        await one.exec(["sh", "-c", "head -c 20000000 /dev/zero > large; truncate -s 200M huge; chmod 644 deep/er/file"])
        assert len(await one.read_file("large", text=False)) == 20000000
        await araises(frameworks.OutputLimitExceededError, one.read_file("huge", text=False))
        await araises(FileNotFoundError, one.read_file("nosuch"))
        await araises(IsADirectoryError, one.read_file("deep"))
        await araises(IsADirectoryError, one.write_file("/tmp", "x"))
        await araises(PermissionError, one.write_file("/usr/x", "x"))
        await araises(UnicodeDecodeError, one.read_file("bin"))
        await araises(PermissionError, one.exec(["/workspace/deep/er/file"]))
        await araises(TimeoutError, one.exec(["sleep", "1001"], timeout=1))
        await araises(frameworks.OutputLimitExceededError, one.exec(["head", "-c", "11000000", "/dev/zero"]))
        assert (await one.exec(["nosuchcommand"])).returncode == 127
        told = await one.connection(user="1000")
        assert told.type == "berth" and told.command == f"berth exec -it --user 1000 {one._sandbox.id} /bin/sh" and told.container == one._sandbox.id
        await kind.sample_cleanup("task", "host", {"default": one}, False)
        assert [j["id"] for j in left()] == [two._sandbox.id]
        await kind.cli_cleanup(None)
        await kind.sample_cleanup("task", "host", {"default": two}, True)
        await kind.task_cleanup("task", "host", True)
        assert kind._client is None
    asyncio.run(main())
    assert left() == []


def test_openmanus_has_its_sandbox_without_docker():
    environment()
    from berth.adapters.openmanus import BerthSandbox, SandboxTimeoutError

    class Settings:
        image, work_dir, memory_limit, cpu_limit, timeout, network_enabled = "host", "/workspace", "200m", 0.5, 20, False

    shared = b.tmpdir("shared")

    async def main():
        async with BerthSandbox(Settings(), {shared: "/data"}) as box:
            assert await box.run_command("echo hi; cd /tmp; x=5") == "hi"
            assert await box.run_command("pwd; echo $x; echo to-stderr >&2") == "/tmp\n5\nto-stderr"
            await araises(SandboxTimeoutError, box.run_command("sleep 1001", timeout=1))
            assert await box.run_command("echo $x") == "5"
            await box.write_file("a/b.txt", "text ü")
            assert await box.read_file("a/b.txt") == await box.read_file("/workspace/a/b.txt") == "text ü"
            await araises(FileNotFoundError, box.read_file("nosuch"))
            await araises(RuntimeError, box.read_file("../etc/passwd"))
            await araises(RuntimeError, box.write_file("/usr/x", "x"))
            await box.copy_from("a/b.txt", b.tmp("into/back.txt"))
            with open(b.tmp("into/back.txt")) as f:
                assert f.read() == "text ü"
            await box.copy_to(b.tmp("into/back.txt"), "c/d.txt")
            assert await box.read_file("c/d.txt") == "text ü"
            await araises(FileNotFoundError, box.copy_to("/nosuch", "x"))
            await araises(FileNotFoundError, box.copy_from("nosuch", b.tmp("x")))
            await box.run_command("echo shared > /data/f")
            with open(shared + "/f") as f:
                assert f.read() == "shared\n"
            await box.cleanup()
            await araises(RuntimeError, box.run_command("true"))
        await araises(RuntimeError, BerthSandbox(Settings(), {"/nosuch": "/data"}).create())
    asyncio.run(main())
    assert left() == []


def test_agentscope_has_its_base_sandbox_without_a_server():
    environment()
    from berth.adapters.agentscope import BerthBaseSandbox
    with BerthBaseSandbox(image="host", memory="200m", timeout=20) as box:
        assert set(box.list_tools()["generic"]) == {"run_ipython_cell", "run_shell_command"}
        assert box.list_tools("other") == {}
        r = box.run_shell_command("echo out; exit 3")
        said = {c["description"]: c["text"] for c in r["content"]}
        assert said == {"stdout": "out\n", "stderr": "", "returncode": "3"} and r["isError"] is False, r
        assert box.call_tool("run_shell_command", {"command": "echo bad >&2"})["isError"] is True
        assert box.run_ipython_cell("x = 3\nprint('hi')")["content"][0]["text"] == "hi\n"
        assert box.run_ipython_cell("x + 1")["content"][0]["text"] == "Out[]: 4\n"
        r = box.run_ipython_cell("nosuch")
        assert r["isError"] is True and "NameError" in r["content"][1]["text"], r
        assert box.call_tool("nosuch")["isError"] is True
        assert box.get_info()["state"] == "running" and box.get_info()["container_id"] == box.sandbox_id
        assert "base_url" in raises(berth.errors.Unsupported, lambda: box.add_mcp_servers({})).remedy
    assert left() == []

    async def main():
        from berth.adapters.agentscope import BerthBaseSandboxAsync
        async with BerthBaseSandboxAsync(image="host", timeout=20) as box:
            assert set((await box.list_tools_async())["generic"]) == {"run_ipython_cell", "run_shell_command"}
            cells = await asyncio.gather(*(box.run_ipython_cell(f"x = {n}; print(x)") for n in range(5)))
            assert [c["content"][0]["text"] for c in cells] == [f"{n}\n" for n in range(5)], cells
            assert (await box.run_shell_command("echo out"))["content"][0]["text"] == "out\n"
            assert (await box.get_info_async())["container_id"] == box.sandbox_id
            await araises(berth.errors.Unsupported, box.add_mcp_servers_async({}))
    asyncio.run(main())
    assert left() == []


def test_openai_agents_sessions_run_persist_and_resume():
    environment()
    frameworks.openai_agents()
    from berth.adapters.openai_agents import BerthSandboxClient, BerthSandboxClientOptions

    async def main():
        client = BerthSandboxClient()
        options = BerthSandboxClientOptions(image="host", options={"memory": "200m"})
        session = await client.create(options=options, manifest=frameworks.Manifest(environment={"A": "b"}))
        await session.start()
        assert await session.running()
        r = await session.exec("echo $A; echo err >&2; pwd; exit 3")
        assert (r.stdout, r.stderr, r.exit_code, r.ok()) == (b"b\n/workspace\n", b"err\n", 3, False), vars(r)
        assert (await session.exec("id", "-u", shell=False, user="1000")).stdout == b"1000\n"
        assert (await session.exec("nosuchcommand", shell=False)).exit_code == 127
        await araises(frameworks.ExecTimeoutError, session.exec("sleep 1001", timeout=0.2))
        await session.write("dir/file", io.BytesIO(b"\0\xff"))
        assert (await session.read("dir/file")).read() == b"\0\xff"
        await araises(frameworks.WorkspaceReadNotFoundError, session.read("nosuch"))
        await araises(ValueError, session.read("/etc/passwd"))
        await araises(frameworks.WorkspaceArchiveWriteError, session.write("dir", io.BytesIO(b"x")))
        await session.exec("mkdir skipped; touch skipped/x; ln -s dir/file link")
        # the process goes, the state stays, another resumes it
        state = client.deserialize_session_state(client.serialize_session_state(session.state))
        again = await client.resume(state)
        assert (await again.exec("ls")).stdout == b"dir\nlink\nskipped\n"
        await again.aclose()
        assert not await again.running()
        await again.start()
        assert (await again.exec("ls")).stdout == b"dir\nlink\nskipped\n"
        # the sandbox is gone: its snapshot fills a new one
        await client.delete(again)
        await client.delete(again)
        new = await client.resume(client.deserialize_session_state(client.serialize_session_state(again.state)))
        await new.start()
        assert (await new.exec("ls; readlink link")).stdout == b"dir\nlink\ndir/file\n" and (await new.read("dir/file")).read() == b"\0\xff"
        await client.delete(new)
        await client.close()
    asyncio.run(main())
    assert left() == []


def test_the_adapters_of_the_wheel_are_these():
    made = subprocess.run([sys.executable, "clients/wheel.py", b.tmp("wheel"), berth.__version__], cwd=b.TOP, capture_output=True, text=True,
                          check=True).stdout.strip()
    names = subprocess.run([sys.executable, "-m", "zipfile", "-l", made], capture_output=True, text=True, check=True).stdout
    for name in ("agentscope", "inspect_ai", "langchain", "mini_swe_agent", "openai_agents", "openmanus", "smolagents"):
        assert f"berth/adapters/{name}.py" in names, names
