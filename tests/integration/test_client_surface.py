# SPDX-License-Identifier: Apache-2.0
"""
clients/surface.json against both clients and both servers: no call or option is in one and not in another, both clients
send the same requests for the same calls, and what a server offers is in the surface or is left out with a reason.
"""
import inspect
import json
import os
import re
import shutil
import sys

import berthtest as b
import clientwire
import daemon

sys.path.insert(0, os.path.join(b.TOP, "clients/python"))
sys.dont_write_bytecode = True
import berth  # noqa: E402

COST = 10
FIELDS = {"id", "name", "files", "verdict", "command", "session"}
# what each language has for its iterators and blocks, and for its own use
JAVASCRIPT_MORE = {"constructor", "dispose", "next", "return", "feed"}


def node():
    found = shutil.which("node")
    if not found:
        raise b.skip("needs node (Debian: nodejs)")
    return found


def camel(name):
    return re.sub(r"_(\w)", lambda m: m.group(1).upper(), name)


def parameters(function):
    """Names of arguments, of options, and of the group of further options."""
    args, options, more = [], [], None
    for p in list(inspect.signature(function).parameters.values())[1:]:
        if p.kind is p.VAR_KEYWORD:
            more = re.search(r"Unpack\[(\w+)\]", p.annotation).group(1)
        elif p.kind is p.KEYWORD_ONLY:
            options.append(p.name)
        else:
            args.append(("*" if p.kind is p.VAR_POSITIONAL else "") + p.name)
    return args, options, more


def test_the_python_client_is_the_surface():
    described = clientwire.surface()
    for kind, methods in described["classes"].items():
        own = {n for n, f in vars(getattr(berth, kind)).items() if callable(f) and n[0] != "_"}
        assert own == set(methods), (kind, own ^ set(methods))
        also = {n for n in dir(getattr(berth, "Async" + kind)) if n[0] != "_"} - (FIELDS - set(methods))
        assert also == set(methods), ("Async" + kind, also ^ set(methods))
        for name, method in methods.items():
            want = (list(method["args"]), list(method["options"]), method.get("more"))
            assert parameters(getattr(getattr(berth, kind), name)) == want, (kind, name)
    for group in ("CreateOptions", "ForkOptions", "UpdateOptions", "ZygoteOptions"):
        assert set(getattr(berth, group).__annotations__) == set(described[group]), group


def test_the_javascript_client_is_the_surface():
    described = clientwire.surface()
    code = ("const m = await import(process.argv[1]); console.log(JSON.stringify(Object.fromEntries(process.argv.slice(2).map((k) => "
            "[k, Object.getOwnPropertyNames(m[k].prototype)]))))")
    p = b.subprocess.run([node(), "--input-type=module", "-e", code, os.path.join(b.TOP, "clients/javascript/src/index.js"), *described["classes"]],
                         capture_output=True, text=True, check=True)
    own = json.loads(p.stdout)
    with open(os.path.join(b.TOP, "clients/javascript/src/index.d.ts")) as f:
        types = f.read()
    for kind, methods in described["classes"].items():
        names = {camel(n) for n in methods}
        assert set(own[kind]) - JAVASCRIPT_MORE == names, (kind, (set(own[kind]) - JAVASCRIPT_MORE) ^ names)
        body = re.search(rf"^export class {kind} \{{\n(.*?)^\}}", types, re.S | re.M).group(1)
        body = re.sub(r"^  (private )?constructor.*\n", "", body, flags=re.M)
        typed = dict(re.findall(r"^  (\w+)\((.*?)\): (?:Promise|AsyncGenerator|Command;|Shell;)", body, re.S | re.M))
        assert set(typed) - JAVASCRIPT_MORE == names, (kind, (set(typed) - JAVASCRIPT_MORE) ^ names)
        for name, method in methods.items():
            group = re.search(r"\{(.*)\}", typed[camel(name)], re.S)
            options = re.findall(r"(\w+)\?:", group.group(1)) if group else []
            assert options == [camel(o) for o in method["options"]], (kind, name, options)
            assert (method.get("more") or "Abortable") in typed[camel(name)] or not (options or "more" in method) or kind == "Process", (kind, name)
    for name in ("CreateOptions", "ForkOptions", "UpdateOptions", "ZygoteOptions"):
        body = re.search(rf"^export interface {name} extends Abortable \{{\n(.*?)^\}}", types, re.S | re.M).group(1)
        assert sorted(re.findall(r"(\w+)\?:", body)) == sorted(camel(o) for o in described[name]), name


def over_stdio(call):
    """What was sent, and what failed."""
    log = b.tmp("log")
    b.write(log)
    failed = call(clientwire.fake_program(b.tmp("berth"), log))
    with open(log) as f:
        return [json.loads(line) for line in f], failed


def python_over_stdio(program):
    with berth.Berth(program=program) as client:
        return clientwire.call_all_python(berth, client)


def over_http(call):
    with clientwire.fake_daemon() as (url, log):
        failed = call(url)
        return log, failed


def python_over_http(url):
    with berth.Berth(url, token="t") as client:
        return clientwire.call_all_python(berth, client)


def same(one, two):
    for i, (x, y) in enumerate(zip(one, two)):
        assert x == y, f"request {i}:\nPython     {x}\nJavaScript {y}"
    assert len(one) == len(two), (one[len(two):], two[len(one):])


@b.deadline(180)
def test_both_clients_send_the_same_requests_for_the_same_calls():
    program = node()
    one, failed = over_stdio(python_over_stdio)
    two, also = over_stdio(lambda path: clientwire.call_all_javascript(program, program=path))
    same(one, two)
    assert failed == also == [f"{call} unsupported" for call in (
        "Berth.stored_checkpoints", "Berth.restore_checkpoint", "Berth.remove_stored_checkpoint", "Berth.pools", "Berth.claim",
        "Berth.release", "Berth.heartbeat", "Sandbox.store_checkpoint", "Sandbox.port")], failed
    one, failed = over_http(python_over_http)
    two, also = over_http(lambda url: clientwire.call_all_javascript(program, host=url))
    same(one, two)
    # the bytes that copy_out gets here are not an archive
    assert failed == also == ["Files.copy_out corrupt"], (failed, also)


def operations():
    """The table of berth stdio: {operation: members}; removal of a sandbox and of files have one name."""
    with open(os.path.join(b.TOP, "cli/stdio/operations.c")) as f:
        table = f.read().split("} operations[] = {")[1].split("};")[0]
    rows = re.findall(r'\{ "([a-z-]+)", BY_(\w+), (?:NULL|"\w+"), ((?:"[^"]*"\s*)+)', table)
    assert len(rows) > 30, rows
    return {(op, by if op == "rm" else ""): {m.split(":")[0] for text in re.findall(r'"([^"]*)"', members) for m in text.split()}
            for op, by, members in rows}


def test_every_operation_of_stdio_and_its_members_are_used_or_left_out_with_a_reason():
    left = clientwire.surface()["left_out"]
    used, _ = over_stdio(python_over_stdio)
    sent = {}
    for rq in used:
        if isinstance(rq, dict):
            key = (rq["op"], ("FILE" if "paths" in rq else "CHILD") if rq["op"] == "rm" else "")
            members = {re.sub("_(base64|hex)$", "", k) for k in rq} - {"op", "encoding"}
            # the double takes out which request is meant
            sent.setdefault(key, set()).update(members | ({"request"} if rq["op"] in ("cancel", "send") else set()))
    table = operations()
    assert set(sent) <= set(table), set(sent) - set(table)
    for key, members in table.items():
        op = key[0]
        if key not in sent:
            assert left["stdio operations"][op], key
            continue
        missing = {f"{op}.{m}" for m in members - sent[key]} - set(left["stdio members"])
        assert not missing, f"the clients do not use {missing}; clients/surface.json has no reason"
    named = {f"{op}.{m}" for (op, _), members in table.items() for m in members}
    assert set(left["stdio members"]) <= named and set(left["stdio operations"]) <= {op for op, _ in table}
    assert all(reason for group in left.values() for reason in group.values())


def test_the_types_of_the_options_are_written_from_the_table():
    p = b.subprocess.run([sys.executable, os.path.join(b.TOP, "clients/options.py"), os.path.join(b.BUILD, "ops-gen"), "--check"],
                         capture_output=True, text=True, check=True)
    assert p.stdout == "", p.stdout


def test_the_options_of_create_and_update_are_those_of_the_program():
    described = clientwire.surface()
    for command, group in (("create", "CreateOptions"), ("fork", "ForkOptions"), ("update", "UpdateOptions"),
                           ("zygote create", "ZygoteOptions")):
        said = b.berth(*command.split(), "--help", ok=True).out
        there = set(re.findall(r"^ +(?:-\w, |    )?--([a-z][a-z-]*)", said, re.M))
        ours = {name.replace("_", "-") for name in described[group]}
        left = set(described["left_out"][command + " options"])
        assert there == ours | left and not ours & left, (command, there ^ (ours | left))


def matches(pattern, path):
    return re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", pattern), path)


def test_every_route_of_berthd_is_used_or_left_out_and_each_request_is_as_its_document_says():
    left = clientwire.surface()["left_out"]["http routes"]
    log, _ = over_http(python_over_http)
    with daemon.Daemon() as d:
        document = d.good("GET", "/openapi.json")
    schemas = document["components"]["schemas"]
    routes = {(m.upper(), p): o for p, item in document["paths"].items() for m, o in item.items() if isinstance(o, dict)}
    used = set()
    for method, path, body in log:
        path, _, query = path.partition("?")
        key = next((k for k in routes if k[0] == method and k[1] == path), None) or \
            next((k for k in routes if k[0] == method and matches(k[1], path)), None)
        assert key, f"berthd has no {method} {path}"
        used.add(key)
        known = {p["name"] for p in routes[key].get("parameters", []) if p["in"] == "query"}
        assert {w.split("=")[0] for w in query.split("&") if w} <= known, (key, query)
        content = routes[key].get("requestBody", {}).get("content", {})
        if "application/json" in content and body != "":
            daemon.fits(content["application/json"]["schema"], body, schemas, f"{method} {path}")
    for key in routes:
        name = " ".join(key)
        reason = next((r for pattern, r in left.items() if re.fullmatch(pattern, name)), None)
        assert key in used or reason, f"{name} is neither used nor left out with a reason"
    for pattern in left:
        assert any(re.fullmatch(pattern, " ".join(key)) for key in routes), f"no route is {pattern}"
