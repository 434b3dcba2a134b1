# SPDX-License-Identifier: Apache-2.0
"""What a start or a first use would refuse is refused by berthd --check-config, and told by /readyz."""
import json
import os
import shutil
import subprocess

import berthtest as b
import daemon
import s3server
from managed import BOX, FAST, Managed, s3_config


def check(text, arguments=("--check-config",), env=None):
    path = b.write(b.tmp("checked.toml"), text, 0o600)
    return subprocess.run([daemon.BERTHD, *arguments], env=b.environment({"BERTH_CONFIG": path, **(env or {})}), capture_output=True,
                          text=True, timeout=60 * b.SLOW)


def refuses(text, *words, env=None):
    p = check(text, env=env)
    assert p.returncode == 125 and all(w in p.stderr for w in words), (text, words, p)
    # berth config check has the same words, as text and as JSON
    q = b.berth("config", "check", b.tmp("checked.toml"), env=env)
    assert q.code == 125 and all(w in q.err for w in words) and q.err.startswith("berth config check: "), (text, words, q)
    error = json.loads(b.berth("config", "check", "--json", b.tmp("checked.toml"), env=env).err)["error"]
    assert all(w in json.dumps(error, ensure_ascii=False) or w.startswith("hint: ") for w in words) and error["exit_status"] == 125, (words, error)
    if not env:
        b.berth("config", "check", "--own", b.tmp("checked.toml"), ok=True)


def test_berth_config_check_finds_the_tokens_that_berthd_would_not_take():
    refuses('[daemon]\nlisten = "127.0.0.1:0"\n', "token_file")
    refuses(f'[daemon]\nlisten = "127.0.0.1:0"\ntoken_file = "{b.tmp("nosuch")}"\n', b.tmp("nosuch"))
    refuses('[daemon]\nlisten = "10.0.0.1:80"\n', "not a loopback address")
    tokens = b.write(b.tmp("tokens"), "root short admin\n", 0o600)
    text = f'[daemon]\nlisten = "127.0.0.1:0"\ntoken_file = "{tokens}"\n'
    refuses(text, tokens)
    b.write(tokens, f"root {daemon.TOKEN} admin\n", 0o600)
    assert b.berth("config", "check", b.write(b.tmp("checked.toml"), text, 0o600), ok=True).out == b.tmp("checked.toml") + ": ok\n"
    # without root, that is left out, and said so
    os.chmod(b.root(), 0o755)
    os.chmod(b.tmp(""), 0o755)
    p = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", b.BERTH, "config", "check"], env=b.environment({"BERTH_CONFIG": None}),
                       capture_output=True, text=True)
    assert p.returncode == 0 and "not as root" in p.stderr and "sudo berth config check" in p.stderr, p


def test_directories_that_the_start_refuses_are_refused_by_the_check():
    wide = b.tmpdir("wide", 0o755)
    os.chmod(wide, 0o755)
    b.write(b.tmp("file"), "")
    os.symlink("/tmp", b.tmp("link"))
    for key, words in (('[storage]\nurl = "file:%s"\n', "storage.url"), ('[session]\ndefault_mount_dir = "%s"\n', "default_mount_dir")):
        refuses(key % wide, words, "mode 0755", "hint: chown root and chmod 0700", b.tmp("checked.toml"))
        refuses(key % b.tmp("file"), words, b.tmp("file"))
        refuses(key % (b.tmp("file") + "/below"), words)
        refuses(key % b.tmp("link"), words, b.tmp("link"))
    p = check(f'[storage]\nurl = "file:{wide}"\n', ())
    assert p.returncode == 125 and "mode 0755" in p.stderr, p
    refuses("", "mode 0755", env={"BERTH_STATE_DIR": wide})
    refuses("", "mode 0755", env={"BERTH_RUN_DIR": wide})
    # the remedy works, and the check has made nothing
    os.chmod(wide, 0o700)
    fresh = b.tmp("fresh/of/it")
    for good in (wide, fresh):
        p = check(f'[storage]\nurl = "file:{good}"\n[session]\ndefault_mount_dir = "{good}-work"\n')
        assert p.returncode == 0 and ": good" in p.stdout, p
    assert os.listdir(wide) == [] and not os.path.exists(b.tmp("fresh")), "the check leaves nothing"


def test_a_store_that_cannot_be_opened_is_refused_by_the_check():
    path = b.write(b.tmp("records.db"), "no database at all, but long enough to be read as one " * 100, 0o600)
    refuses(f'[store]\nurl = "sqlite:{path}"\n', "store.url", path)
    refuses(f'[store]\nurl = "redis+unix:{b.tmp("nosuch.sock")}"\n', "store.url")


def test_a_bucket_that_cannot_be_used_is_refused_by_the_check():
    with s3server.S3() as s3:
        good = s3_config(s3)
        p = check(good)
        assert p.returncode == 0, p
        assert not s3.objects and {"PUT", "GET", "DELETE"} == {m for m, _ in s3.probes}, s3.probes
        refuses(good.replace("s3://bucket/p", "s3://nosuch/p"), "storage.url", "404", "hint: is there such a bucket")
        b.write(b.tmp("credentials"), f"{s3server.ACCESS}\nwrong\n", 0o600)
        refuses(good, "storage.url", "403", "hint: check [storage] credentials_file")
        b.write(b.tmp("credentials"), f"{s3server.ACCESS}\n{s3server.SECRET}\n", 0o600)
        s3.fail = lambda method, path: method == "PUT"
        refuses(good, "storage.url", "503")
    refuses(good, "storage.url", "reach the object store")


@b.deadline(120)
def test_readiness_is_that_of_the_storage_too():
    with s3server.S3() as s3, Managed(s3_config(s3).replace('retry = "5s"', 'retry = "100ms"')) as d:
        b.wait_for(lambda: ready_of(d) == [200, 200, 200], 20, "the first answer of the storage")
        assert not s3.objects, s3.objects
    with s3server.S3() as s3:
        s3.fail = lambda method, path: method == "PUT"
        with Managed(s3_config(s3).replace('retry = "5s"', 'retry = "100ms"')) as d:
            b.wait_for(lambda: "cannot be used" in d.get("/readyz").json["error"]["message"], 20, "the first failure")
            assert ready_of(d) == [503, 503, 200]
            assert "503 to PUT" in d.get("/readyz").json["error"]["message"] and "cannot be used" in d.get("/health").json["detail"]
            # a sandbox can be made all the same, and the log says it once
            assert d.manager.shell(d.manager.create(), "echo here")[0]["stdout"] == "here\n"
            s3.fail = None
            b.wait_for(lambda: ready_of(d) == [200, 200, 200], 40, "the storage is good again")
            assert d.log().count('"what":"storage"') == 1 and d.log().count("takes objects again") == 1, d.log()


def ready_of(d):
    return [d.get(p).status for p in ("/readyz", "/health", "/healthz")]


def test_a_folder_is_ready_when_it_takes_files():
    where = b.tmpdir("store", 0o700)
    with Managed(BOX + f'[storage]\nurl = "file:{where}"\n' + FAST) as d:
        b.wait_for(lambda: ready_of(d) == [200, 200, 200], 20, "the folder's answer")
        assert os.listdir(where) == []
    shutil.rmtree(where)
