# SPDX-License-Identifier: Apache-2.0
"""
Packages of Debian for tests, unpacked and not installed, below BUILD/deb: their daemons do not start by themselves.

    tests/lib/debkit.py BUILD    fetches what PACKAGES names; a test itself reaches no network
"""
import glob
import os
import shutil
import subprocess
import sys

PACKAGES = ("docker.io", "containerd", "runc", "tini")


def install(build):
    """The reason why it cannot, or ""."""
    place = os.path.join(build, "deb")
    if os.path.exists(place + "/complete"):
        return ""
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    print(f"berth: fetching {' '.join(PACKAGES)} of Debian, below {place}", flush=True)
    try:
        done = subprocess.run(["apt-get", "download", *PACKAGES], cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=240)
        said = done.stdout.decode(errors="replace")[-400:] if done.returncode else ""
        for file in [] if said else glob.glob(place + "/*.deb"):
            subprocess.run(["dpkg", "-x", file, place + "/root"], check=True)
            os.unlink(file)
    except (subprocess.SubprocessError, OSError) as e:
        said = str(e)
    with open(place + ("/failed" if said else "/complete"), "w") as f:
        f.write(said)
    return said


def programs():
    """The directories of what was unpacked, for PATH."""
    import berthtest as b
    place = os.path.join(b.BUILD, "deb")
    if not os.path.exists(place + "/complete"):
        failed = place + "/failed"
        why = open(failed).read() if os.path.exists(failed) else "`make check-real` fetches it"
        raise b.skip(f"docker.io of Debian is not here: {why}")
    return [place + "/root/usr/bin", place + "/root/usr/sbin"]


if __name__ == "__main__":
    why = install(os.path.abspath(sys.argv[1]))
    if why:
        print(f"berth: apt-get cannot fetch it, its tests are skipped: {why}")
