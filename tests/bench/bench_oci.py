#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench-oci: cold `run` of /bin/true on a plain bundle by berth-oci, crun and runc, interleaved.

Two groups, as crun does not run beside v1 controllers: with a cgroup2 tree at /sys/fs/cgroup (in a mount
namespace of our own), and, on a hybrid machine, as the machine is.  Device rules are left out: crun raises
RLIMIT_MEMLOCK for them, which a root without CAP_SYS_RESOURCE may not.  Medians, ratios to berth-oci, CPU time.
"""
import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PAUSE_S = 0.005     # the kernel's deferred clean-up of one is not charged to the next


def bundle(top):
    root = os.path.join(top, "rootfs")
    for d in ("bin", "proc", "sys", "dev", "tmp"):
        os.makedirs(os.path.join(root, d))
    shutil.copy("/bin/busybox", os.path.join(root, "bin/busybox"))
    os.symlink("busybox", os.path.join(root, "bin/true"))
    subprocess.run(["runc", "spec"], cwd=top, check=True)
    path = os.path.join(top, "config.json")
    with open(path) as f:
        config = json.load(f)
    config["process"].update(terminal=False, args=["/bin/true"])
    config["linux"].pop("resources", None)
    config["ociVersion"] = "1.0.2"
    with open(path, "w") as f:
        json.dump(config, f)


def measure(top, contenders, rounds):
    wall = {k: [] for k in contenders}
    cpu = {k: [] for k in contenders}
    failed = {}
    for n in range(rounds + 3):
        for name, argv in contenders.items():
            if name in failed:
                continue
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            began = time.perf_counter()
            r = subprocess.run([*argv, "--root", os.path.join(top, "state-" + name), "run", f"berth-bench{os.getpid()}-{n}"],
                               cwd=top, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            took = time.perf_counter() - began
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if r.returncode:
                failed[name] = r.stderr.decode().strip()
                continue
            if n >= 3:
                wall[name].append(took * 1000)
                cpu[name].append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
            time.sleep(PAUSE_S)
    return wall, cpu, failed


def report(title, wall, cpu, failed):
    print(f"{title}\n  {'':10} {'median ms':>10} {'p10':>8} {'cpu ms':>8} {'ratio':>7}")
    base = statistics.median(wall["berth-oci"]) if wall["berth-oci"] else None
    for name, times in wall.items():
        if name in failed:
            print(f"  {name:10} failed: {failed[name][:100]}")
            continue
        median = statistics.median(times)
        print(f"  {name:10} {median:10.2f} {sorted(times)[len(times) // 10]:8.2f} {statistics.median(cpu[name]):8.2f}"
              f" {median / base if base else 0:7.2f}")


def main():
    parser = argparse.ArgumentParser(description="berth-oci beside crun and runc")
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    berth = [os.path.abspath(os.path.join(args.build, "berth-oci"))]
    peers = {name: [name] for name in ("crun", "runc") if shutil.which(name)}
    if "runc" not in peers:
        sys.exit("bench-oci: needs runc for the bundle; hint: apt-get install runc crun")
    if args.inside:
        subprocess.run(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"], check=True)
        report("cgroup v2 at /sys/fs/cgroup", *measure(args.inside, {"berth-oci": berth, **peers}, args.rounds))
        return
    top = tempfile.mkdtemp(prefix="berth-bench-oci.", dir="/var/tmp")
    try:
        bundle(top)
        subprocess.run(["unshare", "-m", "--propagation", "private", sys.executable, __file__, "--build", args.build,
                        "--rounds", str(args.rounds), "--inside", top], check=True)
        if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            peers.pop("crun", None)
            report("v1 controllers", *measure(top, {"berth-oci": berth, **peers}, max(10, args.rounds // 3)))
    finally:
        shutil.rmtree(top)


if __name__ == "__main__":
    main()
