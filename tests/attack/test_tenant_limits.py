# SPDX-License-Identifier: Apache-2.0
"""What a tenant of berthd may have is bounded, whatever it asks for, and every sandbox of the host counts (S41 of SECURITY.md)."""
import concurrent.futures
import json

import berthtest as b
import daemon
from daemon import Daemon

BOX = "/v1/sandboxes"
CLEAN = '[session]\non_shutdown = "clean"\n'


def ask(d, path=BOX, token=daemon.TENANT, **options):
    body = {"image": "host", "options": options}
    if path == "/v1/run":
        body["argv"] = ["true"]
    return d.post(path, body, token=token)


def refused(r, *words):
    assert r.status == 429 and r.json["error"]["code"] == "limit", r
    text = r.json["error"]["message"] + (r.json["error"]["remedy"] or "")
    for word in words:
        assert word in text, (word, r)


def refused_create(d, path, body, token, *words):
    """agentscope's client takes an answer without data for a refusal, whatever its status."""
    r = d.post(path, body, token=token)
    assert r.json["data"] is None and r.json["code"] == "limit" and all(w in r.json["detail"] for w in words), r


def count(d):
    return len(d.good("GET", BOX)["sandboxes"])


def test_S41_no_limit_of_a_tenants_sandbox_is_unlimited():
    with Daemon(tcp=True) as d:
        for path in (BOX, "/v1/run"):
            for option, key in (("memory", "memory_limit"), ("swap", "swap_limit"), ("cpus", "cpu_limit"), ("pids", "pids_limit")):
                refused(ask(d, path, **{option: "unlimited"}), option, "unlimited", f"[tenant] {key}")
            for option, value, key in (("memory", "900t", "memory_limit"), ("swap", "1t", "swap_limit"), ("cpus", "4000", "cpu_limit"),
                                       ("pids", 4000000, "pids_limit"), ("disk", "900t", "disk_limit"),
                                       ("disk-inodes", 1000000000, "disk_inodes"), ("tmp-size", "900t", "tmp_size")):
                refused(ask(d, path, **{option: value}), option, f"[tenant] {key}")
                # no second value hides behind a first one
                assert ask(d, path, **{option: ["1m" if option not in ("pids", "cpus", "disk-inodes") else 64, value]}).status == 400
        assert not count(d)
        box = d.create(token=daemon.TENANT)
        for option in ("memory", "cpus", "pids"):
            refused(d.request("PATCH", f"{BOX}/{box}", {option: "unlimited"}, token=daemon.TENANT), option, "unlimited")
        refused(d.request("PATCH", f"{BOX}/{box}", {"memory": "900t"}, token=daemon.TENANT), "memory_limit")
        d.good("PATCH", f"{BOX}/{box}", {"memory": "64m", "pids": 32}, token=daemon.TENANT)
        # who is not a tenant is not held to any of it
        d.good("PATCH", f"{BOX}/{box}", {"memory": "unlimited"})
        assert ask(d, token=daemon.TOKEN, memory="unlimited").status == 201
        assert ask(d, token=daemon.TENANT, tenant="bob").status == 403


def test_S41_the_maxima_are_the_operators_and_a_tenants_own_win():
    config = '[tenant]\nmemory_limit = "128m"\npids_limit = 100\n[tenant.bob]\nmemory_limit = "256m"\n'
    with Daemon(tcp=True, config=config) as d:
        # [sandbox] gives more than that: who asks for nothing gets what he may have
        box = d.create(token=daemon.TENANT)
        live = d.good("GET", f"{BOX}/{box}", token=daemon.TENANT)
        assert (live["memory_limit_bytes"], live["pids_limit"]) == (128 << 20, 100), live
        d.good("POST", f"{BOX}/{box}/restart", token=daemon.TENANT)
        assert d.good("GET", f"{BOX}/{box}", token=daemon.TENANT)["memory_limit_bytes"] == 128 << 20
        refused(ask(d, memory="129m"), "135266304 bytes", "134217728 bytes", "tenant alice")
        refused(ask(d, token=daemon.OTHER, memory="257m"), "tenant bob", "[tenant] memory_limit")
        assert ask(d, token=daemon.OTHER, memory="256m").status == 201
    shown = json.loads(b.berth("config", "show", "--json", env={"BERTH_CONFIG": d.config_path}, ok=True).out)
    assert shown["tenant"]["memory_limit"]["value"] == 128 << 20 and shown["tenant.bob"]["memory_limit"]["value"] == 256 << 20
    assert shown["tenant.bob"]["pids_limit"] == {"value": 100, "source": "file"}
    assert all(row["value"] > 0 for key, row in shown["tenant"].items() if key not in ("swap_limit", "images", "workspace_bytes", "import", "pull", "network_hosts")), shown["tenant"]
    for text, words in (('[tenant]\nmemory = "1g"', "unknown key memory in [tenant]"), ('[tenant.bob]\npids_limit = -1', "tenant.bob.pids_limit"),
                        ('[tenant."../x"]\nsandboxes = 1', "is not a name"), ('tenant = 3', "tenant")):
        path = b.write(b.tmp("wrong.toml"), text + "\n", 0o600)
        b.one_line_error(b.berth("config", "check", path), 125, words)


def test_S41_one_tenant_cannot_have_all_sandboxes():
    with Daemon(tcp=True, config="[manager]\nmax_sandboxes = 6\n") as d:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            def one(_):
                c = Client(d, daemon.TENANT)
                return c.post(BOX, {"image": "host", "options": {"memory": "16m"}})
            got = list(pool.map(one, range(8)))
        assert sorted(status for status, _ in got) == [201] * 3 + [429] * 5, got
        assert all("[tenant] sandboxes" in text for status, text in got if status == 429), got
        refused(ask(d, "/v1/run"), "3 sandboxes", "[tenant] sandboxes")
        refused_create(d, "/create", {}, daemon.TENANT, "[tenant] sandboxes")
        # stopped ones count, removed ones do not, and others have room
        mine = [s["id"] for s in d.good("GET", BOX, token=daemon.TENANT)["sandboxes"]]
        d.good("POST", f"{BOX}/{mine[0]}/kill", token=daemon.TENANT)
        refused(ask(d), "sandboxes")
        other = d.create(token=daemon.OTHER)
        d.good("DELETE", f"{BOX}/{mine[0]}", token=daemon.TENANT)
        name = d.good("POST", "/create", {}, token=daemon.TENANT)["data"]
        refused(ask(d), "sandboxes")
        # those of the manager are in the same sum
        d.good("POST", "/release", {"identity": name}, token=daemon.TENANT)
        d.create(token=daemon.TENANT)
        assert other in [s["id"] for s in d.good("GET", BOX, token=daemon.OTHER)["sandboxes"]]


def test_S41_the_sums_of_a_tenant_are_bounded_in_create_claim_and_change():
    config = (CLEAN + '[tenant]\nmemory_total = "256m"\ncpu_total = 1.5\n[pool.warm]\nsize = 1\nmemory_limit = "96m"\ncpu_limit = 0.5\n')
    with Daemon(tcp=True, config=config) as d:
        box = d.create(token=daemon.TENANT, memory="128m", cpus=0.5)
        refused(ask(d, memory="129m", cpus=0.5), "[tenant] memory_total")
        refused(ask(d, memory="16m", cpus=1.1), "[tenant] cpu_total")
        refused(d.request("PATCH", f"{BOX}/{box}", {"memory": "257m"}, token=daemon.TENANT), "memory_total")
        b.wait_for(lambda: d.good("GET", "/v1/manager/stats")["pools"]["warm"]["warm"] == 1, 60, "the pool")
        d.good("POST", "/create_from_pool", {"sandbox_type": "warm"}, token=daemon.TENANT)
        refused(ask(d, memory="64m", cpus=0.1), "memory_total")
        refused_create(d, "/create_from_pool", {"sandbox_type": "warm"}, daemon.TENANT, "memory_total")
        refused_create(d, "/create", {"memory": "1g"}, daemon.TENANT, "memory_total")
        refused_create(d, "/create", {"memory": "900t"}, daemon.TENANT, "memory_limit")
        d.good("PATCH", f"{BOX}/{box}", {"memory": "64m"}, token=daemon.TENANT)
        second = ask(d, memory="64m", cpus=0.1)
        assert second.status == 201, second
        # what was refused has changed nothing: 96 + 64 + 64, and 32 are left
        refused(d.request("PATCH", f"{BOX}/{box}", {"memory": "97m"}, token=daemon.TENANT), "memory_total")
        d.good("PATCH", f"{BOX}/{box}", {"memory": "96m"}, token=daemon.TENANT)


def test_S41_the_disks_of_a_tenant_are_one_sum():
    config = CLEAN + '[tenant]\ndisk_total = "100m"\n[pool.warm]\nsize = 1\nmemory_limit = "96m"\noptions = ["disk=48m"]\n'
    with Daemon(tcp=True, config=config) as d:
        box = d.create(token=daemon.TENANT, disk="32m")
        refused(ask(d, disk="69m"), "[tenant] disk_total")
        b.wait_for(lambda: d.good("GET", "/v1/manager/stats")["pools"]["warm"]["warm"] == 1, 60, "the pool")
        d.good("POST", "/create_from_pool", {"sandbox_type": "warm"}, token=daemon.TENANT)
        refused(ask(d, disk="21m"), "[tenant] disk_total")
        # neither a stop nor a change of something else gives any of it back
        d.good("POST", f"{BOX}/{box}/stop", token=daemon.TENANT)
        d.good("POST", f"{BOX}/{box}/start", token=daemon.TENANT)
        d.good("PATCH", f"{BOX}/{box}", {"memory": "64m"}, token=daemon.TENANT)
        refused(ask(d, disk="21m"), "[tenant] disk_total")
        d.create(token=daemon.TENANT, disk="20m")
        # another tenant and the administrator have sums of their own, or none
        d.create(token=daemon.OTHER, disk="100m")
        d.create(disk="200m")


def test_S41_a_tenants_archived_sandboxes_are_bounded():
    """Each keeps a range of the host's ids and bytes of the storage, and promises nothing: without end, they used up both."""
    config = CLEAN + '[tenant]\narchives = 2\n[storage]\nurl = "file:%s"\n' % b.tmp("objects")
    with Daemon(tcp=True, config=config) as d:
        def archive(name, token=daemon.TENANT, seconds=60):
            return d.post(f"/v1/manager/sandboxes/{name}/archive", {}, token=token, timeout=seconds)

        def make(token=daemon.TENANT):
            return d.good("POST", "/create", {}, token=token)["data"]

        first, second, third = make(), make(), make()
        # four at once, and two of them of one sandbox: two sandboxes are archived
        # (another timeout is another connection)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = enumerate((first, second, third, third))
            got = [r.status for r in pool.map(lambda a: archive(a[1], seconds=61 + a[0]), asked)]
        assert 429 in got, got
        status = {n: d.good("POST", "/get_status", {"identity": n}, token=daemon.TENANT)["data"] for n in (first, second, third)}
        gone = [n for n in status if status[n] == "archived"]
        kept = [n for n in status if n not in gone]
        assert 1 <= len(gone) <= 2, status
        if len(gone) == 1:
            assert archive(kept[0]).status == 200
            gone.append(kept.pop(0))
        refused(archive(kept[0]), "[tenant] archives", "2 archived")
        # it goes on, another tenant is not held back, and one that is started makes room
        assert d.good("POST", "/get_status", {"identity": kept[0]}, token=daemon.TENANT)["data"] == "running"
        assert archive(make(daemon.OTHER), daemon.OTHER).status == 200
        d.good("POST", "/start", {"identity": gone[0]}, token=daemon.TENANT)
        assert archive(kept[0]).status == 200


def test_S41_every_sandbox_of_the_host_counts_in_admission():
    config = '[admission]\nmemory = "512m"\ncpus = 4\n'
    with Daemon(tcp=True, config=config) as d:
        env = {"BERTH_CONFIG": d.config_path}
        held = b.berth("create", "--memory", "200m", "--cpus", "1", "host", env=env, ok=True).out.strip()
        made = d.create(memory="200m", cpus=1)
        # the manager sees both, and so do a run, a create and a change
        refused_create(d, "/create", {"memory": "200m"}, None, "[admission] memory")
        refused(ask(d, token=daemon.TOKEN, memory="113m"), "[admission] memory")
        for words in (("create", "--memory", "113m", "host"), ("run", "--memory", "unlimited", "host", "true"),
                      ("update", "--memory", "313m", held)):
            b.one_line_error(b.berth(*words, env=env), 125, "[admission] memory")
        b.one_line_error(b.berth("create", "--memory", "1m", "--cpus", "3", "host", env=env), 125, "[admission] cpus")
        # a tenant is not told what others have
        r = ask(d, memory="113m")
        refused(r, "no room for 118489088 bytes", "[admission]")
        refused_create(d, "/create", {"memory": "113m"}, daemon.TENANT, "no room for the sandbox")
        assert "536870912" not in r.body.decode() and "419430400" not in r.body.decode(), r
        name = d.good("POST", "/create", {"memory": "112m"})["data"]
        b.one_line_error(b.berth("run", "--memory", "1m", "host", "true", env=env), 125, "[admission] memory")
        b.berth("rm", "--force", held, env=env, ok=True)
        assert b.berth("run", "--memory", "200m", "host", "echo", "fits", env=env, ok=True).out == "fits\n"
        d.good("DELETE", f"{BOX}/{made}?force=true")
        d.good("POST", "/release", {"identity": name})
        assert b.berth("run", "--memory", "512m", "host", "echo", "fits", env=env, ok=True).out == "fits\n"


def test_S41_a_tenant_does_not_learn_how_many_sandboxes_others_have():
    with Daemon(tcp=True, config="[manager]\nmax_sandboxes = 2\n[tenant]\nsandboxes = 2\n") as d:
        for _ in range(2):
            d.create(token=daemon.OTHER)
        r = ask(d)
        refused(r, "the host's limit of sandboxes is reached", "max_sandboxes")
        assert "2" not in r.json["error"]["message"], r
        refused_create(d, "/create", {}, daemon.TENANT, "no room for the sandbox")


def test_S41_a_waiting_request_sees_what_the_command_line_gives_back():
    config = CLEAN + '[admission]\nmemory = "256m"\nqueue = 4\nqueue_timeout = "60s"\n'
    with Daemon(tcp=True, config=config) as d:
        env = {"BERTH_CONFIG": d.config_path}
        held = b.berth("create", "--memory", "200m", "host", env=env, ok=True).out.strip()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waits = pool.submit(lambda: Client(d, daemon.TOKEN).post("/create", {"memory": "200m"}))
            b.wait_for(lambda: d.good("GET", "/v1/manager/stats")["admission"]["waiting"] == 1, 30, "the request in the queue")
            b.berth("rm", "--force", held, env=env, ok=True)
            assert waits.result(60 * b.SLOW)[0] == 200


class Client:
    """A connection of one thread."""

    def __init__(self, d, token):
        self.connection = daemon.http.client.HTTPConnection("127.0.0.1", d.port, timeout=120 * b.SLOW)
        self.token = token

    def post(self, path, body):
        self.connection.request("POST", path, json.dumps(body),
                                {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"})
        r = self.connection.getresponse()
        return r.status, r.read().decode()
