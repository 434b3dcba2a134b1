# SPDX-License-Identifier: Apache-2.0
"""
The settings of the machine that runs the tests: its sysctls, and the interfaces, addresses, routes and nftables of its
network.  No test may change them, so that none can pass only because another one did.

What a test sets, it sets in the namespaces that it has of its own (proc.own_namespaces).
"""
import os
import re
import shutil
import subprocess

# read-outs of the kernel and not settings
READ_OUTS = re.compile(r"kernel/(random/|ns_last_pid|pty/nr|tainted|sched_domain/)|fs/(dentry-state|file-nr|inode-nr|inode-state|aio-nr|quota/|"
                       r"binfmt_misc/)|net/netfilter/nf_conntrack_(count|max|buckets)|net/ipv[46]/neigh/|net/ipv4/tcp_available_|vm/stat_refresh")
NETWORK = ("/proc/net/dev", "/proc/net/route", "/proc/net/if_inet6", "/proc/net/ipv6_route", "/proc/net/fib_trie")


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read(1 << 16).decode(errors="replace")
    except OSError:     # not for reading, or gone
        return None


def sysctls():
    found = {}
    for where, _, files in os.walk("/proc/sys"):
        for f in files:
            name = os.path.join(where, f)[len("/proc/sys/"):]
            if not READ_OUTS.match(name):
                found["sysctl " + name] = read("/proc/sys/" + name)
    return found


def network():
    found = {}
    for path in NETWORK:
        text = read(path)
        if text is None:
            continue
        if path == "/proc/net/dev":     # names alone, the rest counts
            text = "\n".join(sorted(line.split(":")[0].strip() for line in text.splitlines()[2:]))
        elif path == "/proc/net/ipv6_route":    # so do the metric's neighbours
            text = "\n".join(sorted(" ".join(w for i, w in enumerate(line.split()) if i not in (6, 7)) for line in text.splitlines()))
        found[path] = text
    if shutil.which("nft"):
        found["nft list tables"] = subprocess.run(["nft", "list", "tables"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                                  check=False).stdout.decode(errors="replace")
    return found


def settings():
    return {**sysctls(), **network()}


def changed(before, after):
    """Lines; a sysctl that only one of them has came or went with a module of the kernel."""
    return [f"{name}: {before[name]!r} before, {after[name]!r} now" for name in sorted(before)
            if name in after and before[name] != after[name]]
