# SPDX-License-Identifier: Apache-2.0
"""What berth has and what its documents name are the same: commands, options, keys, routes, errors, metrics."""
import json
import os
import re
import subprocess

import berthtest as b
import daemon
from daemon import Daemon

SECTIONS = "185"


def page_path(name):
    found = [p for p in (os.path.join(b.TOP, "man", f"{name}.{s}") for s in SECTIONS) if os.path.exists(p)]
    return found[0] if found else None


def page(name):
    """The text of a manual page as a reader sees it."""
    shown = subprocess.run(["mandoc", "-T", "ascii", page_path(name)], stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout
    return re.sub(r".\x08", "", shown)


def names(text, word):
    return re.search(r"(?<![\w-])" + re.escape(word) + r"(?![\w-])", text)


# commands with a place in another's page
BESIDE = {"logout": "berth-login", "completion": "berth", "ssh-config": "berth-ssh", "ssh-proxy": "berth-ssh"}


def page_of_command(command):
    """A command of two words has a page of its own or a place in that of its first."""
    words = command.split()
    return next((x for x in ("berth-" + "-".join(words), "berth-" + words[0]) if page_path(x)), BESIDE.get(command))


def options_of(command):
    shown = subprocess.run([b.BERTH, *command.split(), "--help"], stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout
    return re.findall(r"^\s+(?:-\w, |    )(--[a-z0-9-]+)", shown, re.M) + re.findall(r"^\s+(-\w), --", shown, re.M)


@b.deadline(120)
def test_the_manual_has_each_command_with_each_option():
    missing, told, main = [], {}, page("berth")
    commands = [c["name"] for g in json.loads(b.berth("help", "--json", ok=True).out)["groups"] for c in g["commands"]]
    assert len(commands) > 80 and "run" in commands, commands
    for command in commands:
        name = page_of_command(command)
        if not name:
            missing.append(f"a page of berth {command}")
            continue
        text = told.setdefault(name, page(name))
        # the page of mcp sends its reader to that of create
        others = [told.setdefault("berth-create", page("berth-create"))] if re.search(r"options\s+of\s+berth-create\(1\)", text) else []
        if not names(main, command.split()[0]):
            missing.append(f"berth {command} in berth.1")
        if command in BESIDE and not names(text, command):
            missing.append(f"{command} in {name}")
        if " " in command and not names(text, command.split()[1]):
            missing.append(f"{command} in {name}")
        missing += [f"{command} {option} in {name}" for option in options_of(command) if not any(names(t, option) for t in [text, *others])]
    assert not missing, missing


def test_the_manual_has_each_key_of_the_configuration():
    text, missing = page("berth.toml"), []
    sections = json.loads(b.berth("config", "show", "--json", ok=True).out)
    assert len(sections) > 10 and "memory_limit" in sections["sandbox"], list(sections)
    for section, keys in sections.items():
        if isinstance(keys, dict):
            section = re.sub(r"^pool\..*", "pool.NAME", section)
            missing += [] if f"[{section}]" in text else [section]
            missing += [f"{section}.{key}" for key in keys if not names(text, key)]
    assert not missing, missing


def rows(name):
    """The rows of the tables of a document, without their heads; the columns of one row as a tuple."""
    with open(os.path.join(b.TOP, "doc", name)) as f:
        lines = re.findall(r"^\| (.*) \|$", f.read(), re.M)
    return [tuple(cell.strip() for cell in line.split(" | ")) for line in lines if line.startswith("`")]


def differ(name, wanted):
    had, wanted = set(rows(name)), set(wanted)
    assert len(wanted) > 10, wanted
    assert had == wanted, f"doc/{name}: missing:\n" + "\n".join("| " + " | ".join(x) + " |" for x in sorted(wanted - had)) + \
        "\nto go:\n" + "\n".join("| " + " | ".join(x) + " |" for x in sorted(had - wanted))


def test_the_document_of_routes_has_each_route():
    with Daemon() as d:
        paths = d.get("/openapi.json").json["paths"]
    # SDKs of Daytona of 2025 say toolbox twice, which the document tells in words
    once = [path for path in paths if path.replace("/toolbox/{id}/toolbox/", "/toolbox/{id}/") not in paths or "/{id}/toolbox/" not in path]
    assert len(once) < len(paths)
    differ("routes.md", [(f"`{method.upper()} {path}`", op["summary"]) for path in once for method, op in paths[path].items()])


def test_the_document_of_metrics_has_each_metric():
    with Daemon() as d:
        text = d.get("/metrics").body.decode()
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
    differ("metrics.md", [(f"`{name}`", kinds[name], about) for name, about in re.findall(r"^# HELP (\w+) (.+)$", text, re.M)])


# ---- what is watched with them

def names_of_metrics():
    with Daemon() as d:
        return set(daemon.metrics(d))


def test_the_rules_and_the_dashboard_ask_for_metrics_that_are_there():
    daemon.need_promtool()
    rules, board = (os.path.join(b.TOP, "deploy", x) for x in ("prometheus-alerts.yml", "grafana-dashboard.json"))
    r = subprocess.run(["promtool", "check", "rules", rules], capture_output=True, text=True, timeout=60 * b.SLOW)
    assert r.returncode == 0 and "SUCCESS: 8 rules found" in r.stdout, r
    known = {re.sub(r"\{.*", "", x) for x in names_of_metrics()} | {"berth_manager_sandboxes"}
    with open(board) as f:
        panels = json.load(f)["panels"]
    asked = [t["expr"] for p in panels for t in p["targets"]]
    with open(rules) as f:
        told = f.read()
    used = set(re.findall(r"\bberth_\w+", " ".join(asked) + re.sub(r"#.*", "", told)))
    assert used <= known, used - known
    shown = set(re.findall(r"\bberth_\w+", " ".join(asked)))
    unseen = {re.sub(r"_(bucket|sum|count)$", "", x) for x in known} - {re.sub(r"_bucket$", "", x) for x in shown}
    assert not unseen, f"no panel shows {unseen}"
    # a rule of expressions that Prometheus does not read is found by promtool; the dashboard's are read as rules
    checked = b.write(b.tmp("panels.yml"), json.dumps({"groups": [{"name": "panels", "rules": [
        {"record": f"panel:{n}", "expr": expr.replace("$instance", ".*")} for n, expr in enumerate(asked)]}]}))
    r = subprocess.run(["promtool", "check", "rules", checked], capture_output=True, text=True, timeout=60 * b.SLOW)
    assert r.returncode == 0, r


@b.deadline(120)
def test_the_rules_fire_when_they_should_and_not_before():
    daemon.need_promtool()
    rules = os.path.join(b.TOP, "deploy", "prometheus-alerts.yml")
    series = {'up{job="berthd",instance="h"}': ("1+0x30", "0+0x30", "BerthdDown"),
              'berth_manager_admission_refused{instance="h"}': ("0+0x30", "0+1x30", "BerthAdmissionRefuses"),
              'berth_manager_events_total{instance="h",event="failed"}': ("0+0x30", "0+1x30", "BerthSandboxesFail"),
              'berth_http_refused_total{instance="h"}': ("0+1x30", "0+9x30", "BerthUnknownUsers")}
    tests = []
    for bad in (0, 1):
        for name, values in series.items():
            tests.append({"interval": "1m", "input_series": [{"series": name, "values": values[bad]}],
                          "promql_expr_test": [{"expr": f'count(ALERTS{{alertname="{values[2]}",alertstate="firing"}}) or vector(0)', "eval_time": "20m",
                                                "exp_samples": [{"labels": "{}", "value": bad}]}]})
    text = b.write(b.tmp("cases.yml"), json.dumps({"rule_files": [rules], "evaluation_interval": "1m", "tests": tests}))
    r = subprocess.run(["promtool", "test", "rules", text], capture_output=True, text=True, timeout=100 * b.SLOW)
    assert r.returncode == 0, r
