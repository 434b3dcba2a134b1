# SPDX-License-Identifier: Apache-2.0
"""What there is and what it does, for people: berth ps as a table, berth top live and once."""
import json
import re
import signal

import berthtest as b
import screen
from box import Box
from netlab import Lab, need_bridge

COST = 15


def table(*args):
    """The rows of berth ps as dictionaries; columns are apart by two blanks, and as wide as their content."""
    return rows(b.berth("ps", *args, ok=True).out)


def rows(text):
    head, *lines = text.splitlines()
    starts = [m.start() for m in re.finditer(r"(?:^|(?<=  ))\S", head)]
    ends = starts[1:] + [None]
    return [{head[s:e].strip(): line[s:e].strip() for s, e in zip(starts, ends)} for line in lines]


def test_columns_of_ps_are_as_wide_as_their_content():
    with Box("--name", "n"), Box("--name", "a-name-of-forty-characters-1234567890-abc"):
        text = b.berth("ps", ok=True).out
        found = table()
        assert sorted(r["NAME"] for r in found) == ["a-name-of-forty-characters-1234567890-abc", "n"], text
        for r in found:
            assert (r["IMAGE"], r["STATUS"], r["KIND"], r["NETWORK"], r["PORTS"]) == ("host", "running", "sandbox", "none", ""), text
        assert "  IMAGE  STATUS   CREATED" in text, text


def test_ps_marks_forks_services_and_zygotes():
    with Box("--name", "base"):
        b.berth("fork", "--name", "copy", "base", ok=True)
        b.berth("stop", "copy", ok=True)
        b.berth("start", "copy", ok=True)     # a later start knows it, too
        b.berth("create", "--name", "main", "host", "sleep", "1000", ok=True)
        b.berth("zygote", "create", "--name", "warm", "host", "python3", "-c", "x = 1", ok=True)
        b.berth("create", "--name", "hatched", "--zygote", "warm", ok=True)
        kinds = {r["NAME"]: r["KIND"] for r in table()}
        kinds.pop("", None)     # the zygote keeps one ready
        try:
            assert kinds == {"base": "sandbox", "copy": "fork of base", "main": "service", "warm": "zygote",
                             "hatched": "fork of warm"}, kinds
            records = {r["name"]: r for r in json.loads(b.berth("ps", "--json", ok=True).out)}
            assert records["copy"]["fork_of"] == records["base"]["id"] and records["warm"]["zygote"] is True, records
            assert not any("fork_of" in records[n] for n in ("base", "main", "warm", "hatched")), records
            # of one that is gone, the id is left
            id_of_base = records["base"]["id"]
            b.berth("rm", "-f", "base", ok=True)
            assert {r["NAME"]: r["KIND"] for r in table()}["copy"] == f"fork of {id_of_base}"
        finally:
            b.berth("rm", "-f", "copy", "main", "hatched", ok=True)
            b.berth("zygote", "rm", "warm", ok=True)


def test_ps_says_by_which_signal_a_service_ended():
    b.berth("create", "--name", "svc", "host", "sleep", "1000", ok=True)
    b.berth("kill", "-s", "TERM", "svc", ok=True)
    b.berth("wait", "svc", ok=143)
    r, = table("-a")
    b.berth("rm", "svc", ok=True)
    assert r["ACTIVITY"] == "signal 15 (TERM)" and r["COMMAND"] == "sleep 1000", r


def test_ps_shows_ports_and_networks():
    need_bridge()
    with Lab(forwarding=True):
        b.berth("network", "create", "--internal", "back", ok=True)
        with Box("--name", "web", "--network", "bridge", "-p", "8000", "-p", "0.0.0.0:5399:53/udp"), \
             Box("--name", "db", "--network", "back"), Box("--name", "near", "--network", "container:db"):
            found = {r["NAME"]: r for r in table()}
            chosen = json.loads(b.berth("port", "--json", "web", "8000", ok=True).out)[0]["host_port"]
            assert (found["web"]["NETWORK"], found["web"]["PORTS"]) == ("bridge", f"{chosen}->8000,0.0.0.0:5399->53/udp"), found
            assert (found["db"]["NETWORK"], found["db"]["PORTS"]) == ("back", ""), found
            assert found["near"]["NETWORK"] == "container:db", found
            # ports of a run are gone with it
            b.berth("stop", "web", ok=True)
            assert {r["NAME"]: r["PORTS"] for r in table("-a")}["web"] == ""
            p = b.start("run", "--network", "bridge", "--name", "once", "-p", "8123:80", "host", "sleep", "1000")
            b.wait_for(lambda: [r for r in table() if r["NAME"] == "once"], 20, "the run")
            assert [r["PORTS"] for r in table() if r["NAME"] == "once"] == ["8123->80"], table()
            b.stop(p, signal.SIGTERM)
        b.berth("network", "rm", "back", ok=True)


def test_a_narrow_terminal_leaves_columns_of_ps_out():
    with Box("--name", "one"), Box("--name", "two"):
        b.berth("create", "--name", "svc", "host", "sh", "-c", "exec sleep 1000 # " + 60 * "x", ok=True)
        try:
            for columns in (80, 40):
                code, text = screen.shown(columns, "ps")
                assert code == 0 and max(len(line) for line in text.splitlines()) <= columns, text
                found = rows(text)
                assert sorted(r["NAME"] for r in found) == ["one", "svc", "two"], text
                assert all(len(r["ID"]) == 12 and r["STATUS"] == "running" for r in found), text
                assert "CREATED" not in text and ("PORTS" in text) == (columns == 80), text
            wide = screen.shown(200, "ps")[1]
            assert list(rows(wide)[0]) == list(table()[0]), wide
            assert max(len(line) for line in b.berth("ps", ok=True).out.splitlines()) > 140, "a pipe has no width"
        finally:
            b.berth("rm", "-f", "svc", ok=True)


# ---- top

HOLDS_MEMORY = "x = bytearray(60 << 20); import time; print('up', flush=True); time.sleep(1000)"


class Several:
    """Three sandboxes: busy uses the CPU, big has most memory, many most processes."""

    def __enter__(self):
        self.boxes = [Box("--name", "busy", "--cpus", "0.1"), Box("--name", "big"), Box("--name", "many")]
        busy, big, many = [x.__enter__() for x in self.boxes]
        busy.main.detach("sh", "-c", "while :; do :; done")
        command = big.main.detach("python3", "-c", HOLDS_MEMORY)
        many.main.detach("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait")
        b.wait_for(lambda: len(many.running("sleep 1000")) == 8, 30, "the processes")
        b.wait_for(lambda: "up" in b.berth("output", "big", command).out, 30, "the memory")
        return self

    def __exit__(self, *why):
        for x in reversed(self.boxes):
            x.__exit__(*why)


def test_top_without_a_name_shows_all_sandboxes_once_in_a_pipe():
    with Several():
        out = b.berth("top", ok=True).out
        found = {r["SANDBOX"]: r for r in rows(out)}
        assert "\x1b" not in out and sorted(found) == ["big", "busy", "many"] and found["busy"]["IMAGE"] == "host", out
        for order, first in ("memory", "big"), ("pids", "many"), ("cpu", "busy"):
            # a processor that is shared may give busy nothing for a while
            listed = b.wait_for(lambda: (lambda l: l[0]["name"] == first and l)(
                json.loads(b.berth("top", "--sort", order, "--json", ok=True).out)), 30, order)
            assert len(listed) == 3, (order, listed)
        assert listed[0]["cpu_percent"] > 0 and {x["name"]: x["pids"] for x in listed}["many"] >= 10, listed
        assert "status" not in listed[0], listed
        # what has no keeper is there as well
        p = b.start("run", "--name", "once", "host", "sleep", "1000")
        b.wait_for(lambda: "once" in b.berth("top", ok=True).out, 20, "the run")
        b.stop(p, signal.SIGTERM)
        b.one_line_error(b.berth("top", "--sort", "size"), 2, "--sort", "cpu, memory, pids or network")
        b.one_line_error(b.berth("top", "big", "many"), 2, "berth top ID")


def first_is(order, name):
    return lambda text: f"by {order};" in text and re.findall(r"^(busy|big|many)\b", text, re.M)[:1] == [name]


def test_top_lives_on_a_terminal_and_gives_it_back():
    with Several():
        for columns in (80, 40):
            with screen.Screen(columns, "top") as s:
                for key, order, first in ("", "cpu", "busy"), ("m", "memory", "big"), ("p", "pids", "many"), ("n", "network", "big"), \
                                         ("c", "cpu", "busy"):
                    s.press(key)
                    text = s.frame(first_is(order, first))
                    assert max(len(line) for line in text.splitlines()) <= columns, text
                    assert text.startswith("3 run, by ") and len(rows(text.split("\n", 1)[1])) == 3, text
                    assert all(t in text for t in ("SANDBOX", "CPU%", "MEMORY", "PIDS")) and ("WRITTEN" in text) == (columns == 80), text
                s.press("q")
                code, _ = s.end()
                assert code == 0 and s.settings_are_back()


def test_top_follows_what_comes_and_goes():
    with Box("--name", "stays"), screen.Screen(80, "top") as s:
        s.frame(lambda text: text.startswith("1 run"))
        with Box("--name", "late"):
            s.frame(lambda text: text.startswith("2 run") and "late" in text)
        s.frame(lambda text: text.startswith("1 run") and "late" not in text)
        s.process.send_signal(signal.SIGTERM)
        code, text = s.end()
        assert code == -signal.SIGTERM and text.endswith("\x1b[?25h\x1b[?1049l") and s.settings_are_back(), (code, text[-80:])


def test_names_too_long_for_the_terminal_are_cut_in_top():
    with Box("--name", "n" * 60), screen.Screen(40, "top", rows=5) as s:
        text = s.frame(lambda text: "1 run" in text)
        assert max(len(line) for line in text.splitlines()) <= 40 and len(text.splitlines()) <= 5 and "\n" + "n" * 20 + " " in text, text
        s.press("\x03")
        assert s.end()[0] == 0 and s.settings_are_back()


def test_the_network_of_sandboxes_is_in_top():
    with Box("--name", "net", "--network", "egress"), Box("--name", "none"):
        listed = {x["name"]: x for x in json.loads(b.berth("top", "--json", ok=True).out)}
        assert listed["net"]["bytes_in"] == listed["net"]["network_bytes"] == 0 and "bytes_in" not in listed["none"], listed
