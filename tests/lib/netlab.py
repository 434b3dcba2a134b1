# SPDX-License-Identifier: Apache-2.0
"""
A small internet for one test, within the network namespace that the test has of its own (runfile.py): that
namespace is "the host".  Behind a veth each, in namespaces of their own, are "the outside" (public addresses) and
"inside" (what no sandbox may reach: private ranges, the metadata service).  Servers are threads of the test whose
sockets were made over there; every connection that one of them sees is noted.
"""
import contextlib
import ctypes
import json
import os
import socket
import ssl
import struct
import subprocess
import threading

import berthtest as b

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)

OUTSIDE, OUTSIDE6 = "1.2.3.4", "2606:4700::4"
DNS = "1.2.3.53"
HOST, HOST6 = "1.2.3.1", "2606:4700::1"
# what "inside" answers to: private, carrier-grade, link-local and the usual metadata addresses
METADATA, METADATA6 = "169.254.169.254", "fd00:ec2::254"
INSIDE = ("10.9.9.9", "172.16.9.9", "192.168.9.9", "100.64.9.9", METADATA)
INSIDE6 = (METADATA6, "fd12:3456::9")


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def here():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def within(ns):
    """Moves the calling thread to namespace ns, and back at the end."""
    home = here()
    try:
        check(libc.setns(ns, CLONE_NEWNET), "setns")
        yield
    finally:
        check(libc.setns(home, CLONE_NEWNET), "setns back")
        os.close(home)


def ip(*args, ns=None):
    with within(ns) if ns is not None else contextlib.nullcontext():
        subprocess.run(["ip", *args], check=True, stdout=subprocess.DEVNULL)


def new_namespace():
    home = here()
    try:
        check(libc.unshare(CLONE_NEWNET), "unshare")
        ns = here()
        ip("link", "set", "lo", "up")
        return ns
    finally:
        check(libc.setns(home, CLONE_NEWNET), "setns back")
        os.close(home)


class Server(threading.Thread):
    """Answers each HTTP request by answer(path, headers) -> (status, headers, body); notes who came."""

    def __init__(self, ns, address, port, answer=None, tls=None):
        super().__init__(daemon=True)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with within(ns):
            self.sock = socket.socket(family, socket.SOCK_STREAM)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                self.sock.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND
            else:
                self.sock.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND
            self.sock.bind((address, port))
            self.sock.listen(64)
        self.answer = answer or (lambda path, headers: (200, {}, f"hello from {address}\n".encode()))
        self.tls, self.seen, self.requests, self.peers, self.open = tls, 0, [], [], []
        self.start()

    def run(self):
        while True:
            try:
                conn, peer = self.sock.accept()
            except OSError:
                return
            self.seen += 1
            self.peers.append(peer[0])
            thread = threading.Thread(target=self.serve, args=(conn,), daemon=True)
            self.open.append((conn, thread))
            thread.start()

    def serve(self, conn):
        try:
            conn.settimeout(30 * b.SLOW)
            if self.tls:
                conn = self.tls.wrap_socket(conn, server_side=True)
            while self.one(conn):
                pass
        except (OSError, ValueError):
            pass
        finally:
            conn.close()

    def one(self, conn):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = conn.recv(65536)
            if not piece:
                return False
            data += piece
        head, rest = data.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        headers = {k.strip().lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        while len(rest) < length:
            rest += conn.recv(65536)
        self.requests.append((method, path, headers, rest))
        status, extra, body = self.answer(path, headers)
        out = f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n"
        out += "".join(f"{k}: {v}\r\n" for k, v in extra.items()) + "\r\n"
        conn.sendall(out.encode() + (b"" if method == "HEAD" else body))
        return headers.get("connection", "").lower() != "close"

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.join(5 * b.SLOW)
        for conn, thread in self.open:
            with contextlib.suppress(OSError):
                conn.shutdown(socket.SHUT_RDWR)
            thread.join(5 * b.SLOW)


class Names(threading.Thread):
    """A DNS server over UDP and TCP: table maps a name to addresses, or to a function that is called at each question."""

    def __init__(self, ns, address, table):
        super().__init__(daemon=True)
        with within(ns):
            self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.sock.bind((address, 53))
            self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind((address, 53))
            self.listener.listen(16)
        self.streams = threading.Thread(target=self.serve_streams, daemon=True)
        self.table, self.asked, self.peers = table, [], []
        self.start()
        self.streams.start()

    def serve_streams(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            with conn, contextlib.suppress(OSError, IndexError, struct.error):
                conn.settimeout(30 * b.SLOW)
                f = conn.makefile("rb")
                answer = self.reply(f.read(struct.unpack("!H", f.read(2))[0]))
                conn.sendall(struct.pack("!H", len(answer)) + answer)

    def run(self):
        while True:
            try:
                data, peer = self.sock.recvfrom(4096)
            except OSError:
                return
            self.peers.append(peer)
            with contextlib.suppress(OSError, IndexError, struct.error):
                self.sock.sendto(self.reply(data), peer)

    def reply(self, data):
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
            at += data[at] + 1
        name, end = ".".join(labels).lower(), at + 5
        kind = struct.unpack("!H", data[at + 1:at + 3])[0]
        self.asked.append((name, kind))
        found = self.table.get(name)
        found = found(kind) if callable(found) else found
        answers = []
        for address in found or ():
            family, wanted = (socket.AF_INET6, 28) if ":" in address else (socket.AF_INET, 1)
            if kind == wanted:
                raw = socket.inet_pton(family, address)
                answers.append(b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(raw)) + raw)
        code = 3 if found is None else 0
        return (data[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(answers), 0, 0) + data[12:end] + b"".join(answers))

    def close(self):
        for sock in (self.sock, self.listener):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self.join(5 * b.SLOW)
        self.streams.join(5 * b.SLOW)


def certificate(*names):
    """A key and a certificate for the names, self-signed: the path of the certificate, and a server's context."""
    key, cert = b.tmp("key.pem"), b.tmp("cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=" + names[0], "-addext", "subjectAltName=" + ",".join("DNS:" + n for n in names),
                    "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "netclient.py")
BASE = ("--network", "egress", "--dns", DNS)
BRIDGE = ("--network", "bridge", "--dns", DNS)


def need_net():
    if not os.access(os.path.join(b.BUILD, "berth-net"), os.X_OK):
        raise b.skip("berth-net is not built: its libraries are missing")


def sysctl(path, value):
    with open("/proc/sys/net/" + path, "w") as f:
        f.write(value)


def ruleset():
    """The rules of nftables, as nft(8) shows them in JSON: [{"set": {...}}, ...] without the frame."""
    r = subprocess.run(["nft", "-j", "list", "ruleset"], check=True, stdout=subprocess.PIPE)
    return [x for x in json.loads(r.stdout)["nftables"] if "metainfo" not in x]


def elements():
    """How many elements the sets and maps hold, the constant one left out, and how many objects there are."""
    n = 0
    for x in ruleset():
        for kind, body in x.items():
            if kind in ("set", "map") and body["name"] != "special4":
                n += len(body.get("elem", ()))
            n += kind in ("counter", "quota")
    return n


def ports():
    return [n for _, n in socket.if_nameindex() if n.startswith("bv")]


def need_bridge():
    need_net()
    r = subprocess.run(["unshare", "-n", "sh", "-c", "nft add table inet t && ip link add probe0 type bridge"], stderr=subprocess.PIPE)
    if r.returncode:
        raise b.skip("this kernel has no bridge or no nftables: " + r.stderr.decode()[-200:])


def tries(options, wanted, base=BASE, **kw):
    """Each of wanted from one sandbox, by netclient.py: {(how, host, port): (status, text)}."""
    with open(CLIENT) as f:
        program = f.read()
    r = b.run(*base, *options, "host", "python3", "-c", program, input=json.dumps(wanted), ok=True, **kw)
    return {(how, host, port): (status, text) for how, host, port, status, text in map(json.loads, r.out.splitlines())}


class Lab:
    """with Lab(names={...}) as lab: the outside's web server is lab.web, what must stay unseen is in lab.forbidden."""

    def __init__(self, names=None, answer=None, forwarding=False):
        self.names, self.answer, self.forwarding = dict(names or {}), answer, forwarding
        self.servers, self.namespaces = [], []

    def add(self, name, ns, address, port=80, **kw):
        server = Server(ns, address, port, **kw)
        self.servers.append(server)
        setattr(self, name, server) if name else None
        return server

    def wire(self, name):
        """A namespace behind a veth: our end is NAME-h, its end NAME-p."""
        ns = new_namespace()
        self.namespaces.append(ns)
        ip("link", "add", name + "-h", "type", "veth", "peer", "name", name + "-p")
        ip("link", "set", name + "-p", "netns", f"/proc/{os.getpid()}/fd/{ns}")
        ip("link", "set", name + "-h", "up")
        ip("link", "set", name + "-p", "up", ns=ns)
        return ns

    def __enter__(self):
        try:
            return self.make()
        except BaseException:
            self.__exit__()
            raise

    def make(self):
        ip("link", "set", "lo", "up")
        self.outside = self.wire("out")
        self.inside = self.wire("ins")
        ip("addr", "add", HOST + "/24", "dev", "out-h")
        ip("addr", "add", HOST6 + "/64", "dev", "out-h", "nodad")
        for a in (OUTSIDE, DNS):
            ip("addr", "add", a + "/24", "dev", "out-p", ns=self.outside)
        ip("addr", "add", OUTSIDE6 + "/64", "dev", "out-p", "nodad", ns=self.outside)
        ip("route", "add", "default", "via", HOST, ns=self.outside)
        ip("-6", "route", "add", "default", "via", HOST6, ns=self.outside)
        ip("addr", "add", "192.168.200.1/24", "dev", "ins-h")
        ip("addr", "add", "192.168.200.2/24", "dev", "ins-p", ns=self.inside)
        ip("addr", "add", "fd99::1/64", "dev", "ins-h", "nodad")
        ip("addr", "add", "fd99::2/64", "dev", "ins-p", "nodad", ns=self.inside)
        ip("route", "add", "default", "via", "192.168.200.1", ns=self.inside)
        ip("-6", "route", "add", "default", "via", "fd99::1", ns=self.inside)
        for a in INSIDE:
            ip("addr", "add", a + "/32", "dev", "ins-p", ns=self.inside)
            ip("route", "add", a + "/32", "via", "192.168.200.2")
        for a in INSIDE6:
            ip("addr", "add", a + "/128", "dev", "ins-p", "nodad", ns=self.inside)
            ip("-6", "route", "add", a + "/128", "via", "fd99::2")
        # a new namespace begins with the settings of the machine's own
        sysctl("ipv4/ip_forward", "1" if self.forwarding else "0")
        sysctl("ipv6/conf/all/forwarding", "1" if self.forwarding else "0")
        self.add("web", self.outside, OUTSIDE, answer=self.answer)
        self.add("web6", self.outside, OUTSIDE6, answer=self.answer)
        host = here()
        self.namespaces.append(host)
        self.host = host
        self.forbidden = [self.add(None, self.inside, a) for a in INSIDE + INSIDE6]
        self.on_host = [self.add(None, host, a) for a in (HOST, HOST6, "127.0.0.1", "::1")]
        self.forbidden += self.on_host
        table = {"outside.test": [OUTSIDE], "outside6.test": [OUTSIDE6], "both.test": [OUTSIDE, OUTSIDE6]}
        table.update(self.names)
        self.dns = Names(self.outside, DNS, table)
        self.servers.append(self.dns)
        return self

    def untouched(self):
        """No forbidden server had a connection."""
        seen = [s.sock.getsockname()[0] for s in self.forbidden if s.seen]
        assert not seen, f"reached what is forbidden: {seen}"

    def __exit__(self, *_):
        if self.forwarding:
            b.berth("gc", timeout=30)  # the bridge and its rules; the leak check finds everything else
        for s in self.servers:
            s.close()
        for link in ("out-h", "ins-h"):
            subprocess.run(["ip", "link", "del", link], stderr=subprocess.DEVNULL)
        for ns in self.namespaces:
            os.close(ns)
        subprocess.run(["ip", "link", "set", "lo", "down"])
