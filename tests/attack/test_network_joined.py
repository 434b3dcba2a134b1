# SPDX-License-Identifier: Apache-2.0
"""A sandbox in another's network namespace gains no right over it.  Attacks S20 of SECURITY.md."""
import contextlib
import ctypes
import json

import berthtest as b
from box import Box
from netlab import Lab, need_bridge

COST = 20

RIGHTS = ("--cap-add", "NET_ADMIN", "--cap-add", "NET_RAW", "--cap-add", "SYS_ADMIN", "--seccomp", "unconfined")

# What each of these ended with: 0, or the name of the error.
TRY = r"""
import errno, fcntl, json, os, socket, struct
out = {}
def attempt(name, f):
    try:
        f()
        out[name] = 0
    except OSError as e:
        out[name] = errno.errorcode[e.errno]
def bind(port):
    socket.socket().bind(("0.0.0.0", port))
def down():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"eth0", 0))
def address():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(s, 0x8916, struct.pack("16sHH4s8x", b"eth0", 2, 0, socket.inet_aton("10.9.9.9")))
def put(path, text):
    with open(path, "w") as f:
        f.write(text)
def enter():
    import ctypes
    c = ctypes.CDLL(None, use_errno=True)
    if c.setns(os.open("/proc/1/ns/net", os.O_RDONLY), 0x40000000):
        raise OSError(ctypes.get_errno(), "setns")
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("down", down)
attempt("address", address)
attempt("low port", lambda: bind(80))
attempt("high port", lambda: bind(8080))
attempt("mark", lambda: socket.socket().setsockopt(socket.SOL_SOCKET, 36, 7))
attempt("device", lambda: socket.socket().setsockopt(socket.SOL_SOCKET, 25, b"eth0\0"))
attempt("transparent", lambda: socket.socket().setsockopt(socket.IPPROTO_IP, 19, 1))
attempt("sysctl", lambda: put("/proc/sys/net/ipv4/ip_forward", "1"))
attempt("low ports", lambda: put("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"))
attempt("setns", enter)
print(json.dumps(out))
"""


SERVER = "import http.server as h; h.ThreadingHTTPServer(('0.0.0.0', 8000), h.SimpleHTTPRequestHandler).serve_forever()"


@contextlib.contextmanager
def network(name):
    b.berth("network", "create", name, ok=True)
    try:
        yield
    finally:
        b.berth("network", "rm", name, timeout=30)


def reaches(x, host):
    return x.exec("curl", "-s", "-m", "5", "-o", "/dev/null", f"http://{host}:8000/").code == 0


def landlock_abi():
    """landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION); abstract sockets are scoped from 6 on."""
    return ctypes.CDLL(None).syscall(444, None, 0, 1)


def addresses(x):
    return x.exec("ip", "-o", "addr", ok=True).out


def test_S20_one_that_joins_has_no_right_over_the_network():
    need_bridge()
    with Lab(forwarding=True) as lab, network("front"), Box("--name", "web", "--network", "front") as web, \
            Box("--name", "side", "--network", "container:web", *RIGHTS) as side, Box("--name", "own", *RIGHTS) as own:
        web.main.detach("python3", "-c", SERVER)
        b.wait_for(lambda: reaches(web, "127.0.0.1"), 20, "the server")
        got = json.loads(side.exec("python3", "-c", TRY, ok=True).out)
        # in a network of its own every port is for every user, as with Docker
        assert got.pop("high port") == got.pop("low port") == 0 and got.pop("device") in (0, "EPERM"), got
        assert all(v in ("EPERM", "EACCES", "EROFS") for v in got.values()), got
        # the same with rights over a network of one's own: the test can fail
        mine = json.loads(own.exec("python3", "-c", TRY, ok=True).out)
        assert mine["raw"] == mine["packet"] == mine["low port"] == mine["mark"] == 0, mine
        for words in (("link", "set", "eth0", "down"), ("addr", "add", "10.9.9.9/24", "dev", "eth0"), ("route", "del", "default"),
                      ("link", "add", "x0", "type", "dummy"), ("neigh", "flush", "dev", "eth0")):
            r = side.exec("ip", *words)
            assert r.code != 0 or words[0] == "neigh", words
        assert reaches(web, "127.0.0.1") and addresses(web) == addresses(side)
        lab.untouched()


def test_S20_the_other_sandbox_stays_out_of_reach():
    need_bridge()
    with Lab(forwarding=True), network("front"), Box("--name", "web", "--network", "front") as web, \
            Box("--name", "side", "--network", "container:web") as side:
        web.main.detach("sh", "-c", "exec -a secret-name sleep 600")
        assert "secret-name" not in side.exec("sh", "-c", "cat /proc/*/cmdline | tr '\\0' ' '", ok=True).out, "its processes are not seen"
        # an abstract socket is a thing of the network namespace: Landlock keeps it to the sandbox where the kernel can
        listen = "import socket,time\ns=socket.socket(socket.AF_UNIX)\ns.bind('\\0x')\ns.listen()\nprint('up',flush=True)\ntime.sleep(600)"
        web.main.detach("python3", "-c", listen)
        b.wait_for(lambda: "@x" in web.exec("cat", "/proc/net/unix", ok=True).out, 20, "the socket")
        r = side.exec("python3", "-c", "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0x')")
        assert r.code != 0 or landlock_abi() < 6, r


def test_S20_only_a_sandbox_of_the_same_owner_is_joined():
    need_bridge()
    with Box("--name", "mine"), Box("--name", "hers", "--tenant", "ann"), Box("--name", "his", "--tenant", "bob") as his:
        b.one_line_error(b.berth("create", "--network", "container:hers", "host"), 125, "tenant", "hint")
        b.one_line_error(b.berth("run", "--network", "container:hers", "host", "true"), 125, "tenant", "hint")
        for other in ("hers", "mine"):
            r = b.berth("create", "--tenant", "bob", "--network", "container:" + other, "host")
            b.one_line_error(r, 125, f"no sandbox '{other}'", "hint")
        with Box("--name", "side", "--tenant", "bob", "--network", "container:his"):
            assert json.loads(b.berth("network", "inspect", "side", ok=True).out)["container"] == his.id

