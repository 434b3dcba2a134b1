# SPDX-License-Identifier: Apache-2.0
"""make install, make uninstall, and what the Debian packages say of themselves."""
import os
import re
import subprocess

import berthtest as b


def make(*args):
    p = subprocess.run(["make", "-s", "-C", b.TOP, f"BUILD={os.path.relpath(b.BUILD, b.TOP)}", *args], capture_output=True, text=True,
                       timeout=b.SLOW * 100)
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


def read(path):
    with open(path) as f:
        return f.read()


def files(place):
    return sorted(os.path.relpath(os.path.join(d, f), place) for d, _, names in os.walk(place) for f in names)


def test_an_installed_berth_runs_and_finds_its_helpers():
    place = b.tmpdir("install")
    make("install", f"DESTDIR={place}", "PREFIX=/usr")
    there = files(place + "/usr")
    for f in ("bin/berth", "bin/berth-oci", "libexec/berth/berth-image", "share/man/man1/berth.1", "share/man/man8/berth-oci.8",
              "share/bash-completion/completions/berth", "share/zsh/site-functions/_berth", "share/fish/vendor_completions.d/berth.fish"):
        assert f in there, (f, there)
    env = b.environment()
    for args in (["run", "host", "true"], ["image", "ls"]):
        p = subprocess.run([place + "/usr/bin/berth", *args], env=env, capture_output=True, text=True, timeout=60 * b.SLOW)
        assert p.returncode == 0, p
    if "lib/systemd/system/berthd.service" in there:
        unit = read(place + "/usr/lib/systemd/system/berthd.service")
        assert "/usr/sbin/berthd" in unit and "@" not in re.sub(r"~?@[a-z-]+", "", unit), unit


def test_docker_is_installed_on_request_and_finds_its_helpers():
    place = b.tmpdir("install")
    make("install", f"DESTDIR={place}", "PREFIX=/usr")
    assert "bin/docker" not in files(place + "/usr")
    make("install-docker", f"DESTDIR={place}", "PREFIX=/usr")
    assert {"bin/docker", "share/man/man1/berth-docker.1", "share/bash-completion/completions/docker"} <= set(files(place + "/usr"))
    env = dict(b.environment(), PATH=place + "/usr/bin:/usr/bin:/bin")
    for args in (["run", "--rm", "--network", "none", "host", "true"], ["image", "prune", "-f"], ["version"]):
        p = subprocess.run(["docker", *args], env=env, capture_output=True, text=True, timeout=60 * b.SLOW)
        assert p.returncode == 0, p


def test_uninstall_removes_what_install_made_and_nothing_else():
    place = b.tmpdir("install")
    mine = place + "/usr/local/bin/another"
    b.write(mine)
    make("install", f"DESTDIR={place}")
    assert len(files(place)) > 50, files(place)
    make("uninstall", f"DESTDIR={place}")
    assert files(place) == ["usr/local/bin/another"], files(place)
    assert not os.path.exists(place + "/usr/local/libexec/berth")


def test_each_program_and_manual_is_in_exactly_one_package():
    by_package = {}
    for p in ("berth", "berthd", "berth-oci", "berth-docker"):
        place = b.tmpdir("install-" + p)
        make("install", f"INSTALL={p}", f"DESTDIR={place}")
        by_package[p] = set(files(place))
    place = b.tmpdir("install-all")
    make("install", f"DESTDIR={place}")
    everything = sorted(f for fs in by_package.values() for f in fs)
    # what takes docker's own name is installed on request only
    assert sorted(set(everything) - by_package["berth-docker"]) == files(place)
    assert len(everything) == len(set(everything))
    manuals = {os.path.basename(f) for f in everything if "/man/" in f}
    assert manuals >= {m for m in os.listdir(b.TOP + "/man") if not m.startswith("berthd.")}


def test_the_package_has_the_version_of_the_program():
    version = b.berth("--version", ok=True).out.split()[-1].strip()
    changelog = read(b.TOP + "/debian/changelog")
    assert re.match(rf"berth \({re.escape(version)}-\d+\) ", changelog), changelog.splitlines()[0]
