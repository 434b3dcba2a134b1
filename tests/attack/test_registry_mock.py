# SPDX-License-Identifier: Apache-2.0
"""
S15, S16: a registry that lies, stalls, redirects and begs for passwords.

Each evil has a name, what the mock does, and the words that the error must have
(None: it is survived).  After each: berth ended in time with one clear line, the
store has no image, and no credential went anywhere but to the registry itself.

Attacks S17 of SECURITY.md.
"""
import contextlib
import json
import os
import socket
import ssl
import subprocess
import threading
import time

import berthtest as b
import ocilayout as oci
import registry as reg

COST = 39

SECRET = "canary-secret"


def forever(r, head, piece, pause=0.0, limit=200 << 20):
    """An answer without end, as long as somebody reads it."""
    with contextlib.suppress(OSError):
        r.raw(head)
        sent = 0
        while sent < limit:
            r.raw(piece)
            sent += len(piece)
            time.sleep(pause)
    r.hang_up()


def on(what, answer):
    """An evil that answers requests with what in their path."""
    def evil(r):
        if what not in r.path:
            return False
        answer(r)
        return True
    return evil


def manifest(answer):
    return on("/manifests/", answer)


def layer(image, answer):
    return on(oci.digest(image.layers[0])[7:], answer)


def config_blob(image, answer):
    return on(oci.digest(image.config)[7:], answer)


def with_document(change):
    """A manifest that is changed, under its right digest."""
    image = reg.Image()
    text = change(dict(image.document))
    image.manifest = text if isinstance(text, bytes) else json.dumps(text).encode()
    return image


def redirect_to(where, status=307):
    return lambda r: r.reply(status, Location=where(r) if callable(where) else where)


def token_server(answer):
    return on("/token", answer)


class Case:
    def __init__(self, name, words, evil=None, image=None, **mock):
        self.name, self.words, self.evil, self.mock = name, words, evil, mock
        self.image = image or reg.Image()


def slow_header(r):
    forever(r, b"HTTP/1.1 200 OK\r\nX: ", b"a", 0.3)


def manifests():
    good = reg.Image()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: " + oci.T_MANIFEST.encode() + b"\r\n"
    text = {"Content_Type": oci.T_MANIFEST}
    yield Case("slow loris in the headers", ["too slow or silent"], manifest(slow_header))
    yield Case("slow loris in the body", ["too slow or silent"],
               manifest(lambda r: forever(r, head + b"Content-Length: 1000\r\n\r\n", b" ", 0.3)))
    yield Case("silence", ["too slow or silent"], manifest(lambda r: time.sleep(6) or r.hang_up()))
    yield Case("body without end", ["larger than"], manifest(lambda r: forever(r, head + b"\r\n", b" " * 65536)))
    yield Case("length of a terabyte", ["larger than"],
               manifest(lambda r: forever(r, head + b"Content-Length: 1099511627776\r\n\r\n", b" " * 65536)))
    yield Case("headers without end", ["128 KiB of headers"],
               manifest(lambda r: forever(r, b"HTTP/1.1 200 OK\r\n", b"X-Y: " + b"z" * 1000 + b"\r\n")))
    yield Case("one giant header", [""], manifest(lambda r: forever(r, b"HTTP/1.1 200 OK\r\nX: ", b"z" * 65536)))
    yield Case("100 Continue for ever", [""], manifest(lambda r: forever(r, b"", b"HTTP/1.1 100 Continue\r\n\r\n")))
    yield Case("hangs up", ["127.0.0.1"], manifest(lambda r: r.hang_up()))
    yield Case("is no HTTP", ["127.0.0.1"], manifest(lambda r: r.raw(b"SSH-2.0-OpenSSH\r\n") or r.hang_up()))
    yield Case("HTTP/0.9", ["127.0.0.1"], manifest(lambda r: r.raw(good.manifest) or r.hang_up()))
    yield Case("status 500", ["500"], manifest(lambda r: r.reply(500, b"x")))
    yield Case("error of endless text", ["503"],
               manifest(lambda r: forever(r, b"HTTP/1.1 503 No\r\n\r\n", b"e" * 65536, limit=20 << 20)))
    yield Case("error with an escape", ["hello"], manifest(
        lambda r: r.reply(404, json.dumps({"errors": [{"message": "\x1b[2Jhello\r\nberth: fine"}]}).encode())))
    yield Case("status 429 and an hour", ["too many"], manifest(lambda r: r.reply(429, Retry_After="3600")))
    yield Case("status 999", ["999"], manifest(lambda r: r.reply(999)))
    yield Case("truncated", ["127.0.0.1"], manifest(lambda r: r.reply(200, good.manifest[:50], length=500, **text) or r.hang_up()))
    yield Case("empty", ["manifest"], manifest(lambda r: r.reply(200, b"", **text)))
    yield Case("no Content-Type", ["Content-Type"], manifest(lambda r: r.reply(200, good.manifest)))
    yield Case("Content-Type of a page", ["text/html"], manifest(lambda r: r.reply(200, good.manifest, Content_Type="text/html")))
    yield Case("Content-Type of an index", ["not an index"], manifest(lambda r: r.reply(200, good.manifest, Content_Type=oci.T_INDEX)))
    yield Case("Content-Type of Docker's", ["media type"], manifest(lambda r: r.reply(200, good.manifest, Content_Type=reg.T_V2S2)))
    yield Case("Content-Type too long", ["too long"], manifest(lambda r: r.reply(200, good.manifest, Content_Type="a" * 500)))
    yield Case("digest of another", ["digest"], manifest(
        lambda r: r.reply(200, good.manifest, Docker_Content_Digest="sha256:" + "0" * 64, **text)))
    bomb = reg.gzip.compress(b" " * (64 << 20))
    yield Case("gzip bomb", ["compressed"], manifest(lambda r: r.reply(200, bomb, Content_Encoding="gzip", **text)))
    yield Case("deep JSON", ["deeper"], image=with_document(lambda d: b'{"x":' + b"[" * 100000 + b"]" * 100000 + b"}"))
    yield Case("duplicate keys", ["duplicate"], image=with_document(lambda d: json.dumps(d).encode()[:-1] + b',"layers":[]}'))
    yield Case("both manifest and index", ["ambiguous"], image=with_document(lambda d: dict(d, manifests=[])))
    yield Case("of schema 1", [""], image=with_document(lambda d: dict(d, schemaVersion=1)))
    yield Case("5 MiB of it", ["larger than"], image=with_document(lambda d: dict(d, x="y" * (5 << 20))))
    yield Case("NUL inside", ["NUL"], image=with_document(lambda d: json.dumps(d).encode() + b"\0"))
    yield Case("digest with a path", ["digest"],
               image=with_document(lambda d: dict(d, layers=[dict(d["layers"][0], digest="sha256:../../../etc/passwd")])))
    yield Case("layer of 2^63 bytes", [""], image=with_document(lambda d: dict(d, layers=[dict(d["layers"][0], size=1 << 63)])))
    loop = reg.Image()
    index = {"schemaVersion": 2, "mediaType": oci.T_INDEX, "manifests": [
        {"mediaType": oci.T_MANIFEST, "digest": oci.digest(b"other"), "size": 5,
         "platform": {"os": "linux", "architecture": oci.ARCH}}]}
    loop.manifest = json.dumps(index).encode()
    yield Case("index of one that is another", ["digest"],
               manifest(lambda r: r.reply(200, loop.manifest, Content_Type=oci.T_INDEX)), loop)


def blobs():
    def whole(r, data, **more):
        r.reply(200, data, **more)

    i = reg.Image()
    data = i.layers[0]
    n = len(data)
    flip = data[:n // 2] + bytes([data[n // 2] ^ 4]) + data[n // 2 + 1:]
    yield Case("flipped bit", [""], layer(i, lambda r: whole(r, flip)), i)
    yield Case("another blob", [""], layer(i, lambda r: whole(r, i.config)), i)
    yield Case("one byte less", ["offers"], layer(i, lambda r: whole(r, data[:-1])), i)
    yield Case("one byte more", ["offers"], layer(i, lambda r: whole(r, data + b"x")), i)
    yield Case("one byte more without length", ["larger"],
               layer(i, lambda r: r.raw(b"HTTP/1.1 200 OK\r\n\r\n" + data + b"x") or r.hang_up()), i)
    yield Case("without end", ["larger"], layer(i, lambda r: forever(r, b"HTTP/1.1 200 OK\r\n\r\n", data)), i)
    yield Case("breaks off for ever", ["127.0.0.1", "layer 1 of 1"],
               layer(i, lambda r: r.raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n + data[:n // 2]) or r.hang_up()), i)
    yield Case("drips", ["too slow"],
               layer(i, lambda r: forever(r, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n, b"\0", 0.3)), i)
    yield Case("compressed on the way", ["compressed"], layer(i, lambda r: whole(r, reg.gzip.compress(data), length=n,
                                                                                 Content_Encoding="gzip")), i)
    yield Case("200 with a page", ["offers"], layer(i, lambda r: whole(r, b"<html>Log in</html>")), i)
    yield Case("204 and nothing", ["ended the blob after 0 of"], layer(i, lambda r: r.reply(204)), i)

    def half_then(answer, image):
        """Half of the blob, then, when the rest is asked for, something else."""
        def evil(r):
            if oci.digest(image.layers[0])[7:] not in r.path:
                return False
            if "range" in r.headers:
                answer(r, int(r.headers["range"][6:-1]))
            else:
                r.raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n + data[:n // 2])
                r.hang_up()
            return True
        return evil

    def part(r, at, claim_at=None, body=None, total=None, **more):
        claim_at = at if claim_at is None else claim_at
        r.reply(206, data[at:] if body is None else body, Content_Range=f"bytes {claim_at}-{n - 1}/{total or n}", **more)

    yield Case("range ignored", None, half_then(lambda r, at: r.reply(200, data), i), i)
    yield Case("range refused", None, range_refused(i), i)
    yield Case("206 of another offset", ["another part"], half_then(lambda r, at: part(r, at, claim_at=0, body=data), i), i)
    yield Case("206 of another whole", ["another part"], half_then(lambda r, at: part(r, at, total=n + 5), i), i)
    yield Case("206 without Content-Range", ["another part"], half_then(lambda r, at: r.reply(206, data[at:]), i), i)
    yield Case("206 with nonsense", ["another part"],
               half_then(lambda r, at: r.reply(206, data[at:], Content_Range="bytes -1-99999999999999999999999/x"), i), i)
    yield Case("206 that lies about its bytes", [""], half_then(lambda r, at: part(r, at, body=data[:n - at]), i), i)
    yield Case("206 with more than there is", ["larger"], half_then(lambda r, at: part(r, at, body=data[at:] + b"xxx"), i), i)
    yield Case("206 unasked, in the middle", ["another part"],
               layer(i, lambda r: r.reply(206, data[5:], Content_Range=f"bytes 5-{n - 1}/{n}")), i)
    yield Case("config of other bytes", ["digest"],
               config_blob(i, lambda r: r.reply(200, b"{" + b" " * (len(i.config) - 2) + b"}")), i)
    yield Case("config without end", ["larger"], config_blob(i, lambda r: forever(r, b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536)), i)
    foreign = with_document(lambda d: dict(d, layers=[dict(
        d["layers"][0], mediaType="application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", urls=["http://127.0.0.1:9/x"])]))
    yield Case("foreign layer", ["cannot be unpacked"], image=foreign)


def range_refused(image):
    state = []

    def evil(r):
        data = image.layers[0]
        if oci.digest(data)[7:] not in r.path:
            return False
        if "range" in r.headers:
            r.reply(416)
        elif state:
            r.reply(200, data)
        else:
            state.append(1)
            r.raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data[:len(data) // 2])
            r.hang_up()
        return True
    return evil


def redirects(other):
    def port(r):
        return f"http://127.0.0.1:{other.port}{r.target}"

    i = reg.Image()
    yield Case("loop", ["more than 5"], manifest(redirect_to(lambda r: r.target)))
    yield Case("growing loop", ["more than 5"], manifest(redirect_to(lambda r: r.target + "x")))
    yield Case("without Location", ["leads nowhere"], manifest(lambda r: r.reply(302)))
    yield Case("empty Location", ["leads nowhere"], manifest(redirect_to("#x")))
    yield Case("300 choices", ["300"], manifest(lambda r: r.reply(300, Location="/v2/")))
    for where, words in (("file:///etc/passwd", "http"), ("gopher://127.0.0.1/x", "http"), ("ftp://127.0.0.1/x", "http"),
                         ("dict://127.0.0.1:11211/stat", "http"), ("javascript:alert(1)", "http"), ("unix:/run/x", "http"),
                         ("http://169.254.169.254/latest/meta-data/", "link-local"), ("http://[fe80::1]/x", "link-local"),
                         ("http://0.0.0.0/x", "link-local or reserved"), ("http://2852039166/x", "refused"),
                         ("http://0xa9fea9fe/x", "refused"), ("http://0251.0376.0251.0376/", "refused"),
                         ("http://169.254.43518/x", "refused"), ("http://[::ffff:169.254.169.254]/", "link-local"),
                         ("http://u:p@127.0.0.1/x", "user name"), ("http://127.0.0.1:0/x", "trusted"),
                         ("http://127.0.0.1:99999/x", "trusted"), ("http://exa mple/x", "character"),
                         ("http://a\\@b/x", "character"), ("http:///x", "trusted"), ("http://%31%32%37.0.0.1/", "trusted"),
                         ("http://metadata.evil.example/x", "link-local"), ("//169.254.169.254/x", "link-local"),
                         ("http://127.0.0.1:1/" + "a" * 9000, "too long")):
        yield Case(f"to {where[:45]}", [words], manifest(redirect_to(where)))
    yield Case("of a blob to the metadata address", ["link-local"], layer(i, redirect_to("http://169.254.169.254/x")), i)
    # followed, but without the password or token that the registry itself gets
    for how in ({"basic": f"canary:{SECRET}"}, {"token": "http://127.0.0.1:%d/token"}):
        def after_login(evil):
            return lambda r: bool(r.authorization) and evil(r)

        yield Case("of a blob to another port", None, after_login(layer(i, redirect_to(port))), i, **how)
        yield Case("of a manifest to another port", None, after_login(manifest(redirect_to(port))), **how)
        yield Case("to another port that wants a login", ["login of its own"],
                   after_login(manifest(redirect_to(lambda r: f"http://127.0.0.1:{other.port}/greedy"))), **how)
        yield Case("back and forth", ["more than 5"], after_login(manifest(
            redirect_to(lambda r: f"http://127.0.0.1:{other.port}/back/{r.port}{r.target}"))), **how)


def logins(other):
    realm = f"http://127.0.0.1:{other.port}/token"

    def challenge(text):
        return lambda r: not r.path.startswith("/token") and (r.reply(401, WWW_Authenticate=text) or True)

    yield Case("401 for ever", ["refuses"], challenge('Basic realm="x"'))
    yield Case("401 without a challenge", ["how to log in"], lambda r: r.reply(401) or True)
    yield Case("401 of an unknown scheme", ["how to log in"], challenge("Negotiate"))
    yield Case("malformed challenge", ["malformed"], challenge('Bearer realm="unfinished'))
    yield Case("two realms", ["two realms"], challenge('Bearer realm="http://a/",realm="http://b/"'))
    yield Case("challenge of 9 KB", ["malformed"], challenge('Bearer realm="' + "x" * 9000 + '"'))
    yield Case("challenge without realm", ["no realm"], challenge('Bearer service="x"'))
    # another port is another origin: asked, without the password
    yield Case("realm elsewhere", None, token=realm)
    yield Case("realm elsewhere that wants a password", ["registry.realms"], token=realm.replace("/token", "/greedy"))
    yield Case("realm at the metadata address", ["link-local"], challenge('Bearer realm="http://169.254.169.254/token"'))
    yield Case("realm of file", ["neither http"], challenge('Bearer realm="file:///etc/passwd"'))
    yield Case("realm with a user", ["user name"], challenge('Bearer realm="http://a:b@127.0.0.1/token"'))
    here = "http://127.0.0.1:%d/token"
    for name, words, answer in (
            ("token of a page", ["token server"], lambda r: r.reply(200, b"<html>")),
            ("token that is a list", ["not a JSON object"], lambda r: r.reply(200, b"[]")),
            ("token that is missing", ["no usable token"], lambda r: r.reply(200, b"{}")),
            ("token that is a number", ["not a string"], lambda r: r.reply(200, b'{"token":7}')),
            ("token with a line feed", ["no usable token"], lambda r: r.reply(200, b'{"token":"a\\r\\nX-Evil: 1"}')),
            ("token with a blank", ["no usable token"], lambda r: r.reply(200, b'{"token":"a b"}')),
            ("token of 20 KB", ["no usable token"], lambda r: r.reply(200, json.dumps({"token": "a" * 20000}).encode())),
            ("token without end", ["larger"], lambda r: forever(r, b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536)),
            ("token given twice", ["duplicate"], lambda r: r.reply(200, b'{"token":"a","token":"b"}')),
            ("token with nested answer", ["deeper"], lambda r: r.reply(200, b"[" * 30000)),
            ("token server redirects", ["not followed"], redirect_to(f"http://127.0.0.1:{other.port}/token")),
            ("token server redirects to file", ["not followed"], redirect_to("file:///etc/passwd")),
            ("token server says 401", ["refuses the user name"], lambda r: r.reply(401)),
            ("token server says 500", ["500"], lambda r: r.reply(500)),
            ("token server is silent", ["too slow"], lambda r: time.sleep(6) or r.hang_up()),
            ("token that is refused", ["refuses"], lambda r: r.reply(200, b'{"token":"other"}')),
            ("token that has expired", None, lambda r: r.reply(200, b'{"token":"tok","expires_in":0}')),
            ("token of 2^64 seconds", [""], lambda r: r.reply(200, b'{"token":"tok","expires_in":18446744073709551616}'))):
        yield Case(name, words, token_server(answer), token=here)


def other_evil(r):
    """The other host: everything is taken, a greedy path wants a password."""
    if r.path.startswith("/greedy"):
        r.reply(401, WWW_Authenticate='Basic realm="give"')
        return True
    if r.path.startswith("/back/"):
        _, _, port, rest = r.target.split("/", 3)
        r.reply(307, Location=f"http://127.0.0.1:{port}/{rest}")
        return True
    return False


def check(case, other, problems):
    with reg.Mock(case.image, evil=case.evil, **case.mock) as mock:
        if mock.token and "%d" in mock.token:
            mock.token %= mock.port
        other.image, other.seen[:] = case.image, []
        auth = os.path.join(b.root(), "state", "auth.json")
        reg.log_in(mock.host, "canary", SECRET)
        # who is only slow here, because the machine is, is not taken for silent
        stall = "1s" if any("too slow" in word for word in case.words or ()) else "10s"
        env = reg.config(insecure=[mock.host], retries=1, stall_timeout=stall, deadline="20s" if stall == "1s" else "60s")
        p = b.berth("pull", mock.host + "/evil:1", env=env, timeout=40)
        os.unlink(auth)

        def wrong(what):
            problems.append(f"{case.name}: {what}: exit {p.code}, {p.err[:300]!r}")
        if case.words is None:
            if p.code:
                wrong("is not survived")
        else:
            if p.code != 125 or p.out or p.err.count("\n") != 1 or not p.err.startswith("berth pull: "):
                wrong("no clear error")
            for word in case.words:
                if word not in p.err:
                    wrong(f"does not say {word!r}")
            if not p.err.strip().isprintable():
                wrong("control bytes reach the terminal")
            if b.berth("image", "ls", "--quiet", env=env, ok=True).out:
                wrong("the store has an image")
        if SECRET in p.err + p.out:
            wrong("the password is printed")
        for line in other.credentials_seen():
            wrong(f"a credential went elsewhere: {line}")
        for r in mock.seen:
            if r.path == "/token" and "evil:scope" in r.target:
                wrong("the scope is the challenge's")
            if r.headers.get("cookie"):
                wrong("a cookie")


def run_all(cases):
    problems, count = [], 0
    with reg.hosts(metadata_evil_example="169.254.169.254"), reg.Mock(evil=other_evil) as other, metadata() as meta:
        for case in cases(other) if cases in (redirects, logins) else cases():
            check(case, other, problems)
            b.berth("image", "rm", "--force", *b.berth("image", "ls", "--quiet", ok=True).out.split(), "x:none", ok=True)
            count += 1
        assert not meta.seen, f"the metadata address was asked: {[r.target for r in meta.seen]}"
    assert not problems, f"{len(problems)} of {count}:\n" + "\n".join(problems)
    return count


@contextlib.contextmanager
def metadata():
    """Whoever reaches the metadata address finds somebody there."""
    subprocess.run(["ip", "addr", "add", "169.254.169.254/32", "dev", "lo"], check=True)
    with reg.Mock(address="169.254.169.254", port=80) as m:
        yield m
    subprocess.run(["ip", "addr", "del", "169.254.169.254/32", "dev", "lo"], check=True)


@b.deadline(150)
@b.long_proof("pulls once for each of its manifests")
def test_S16_manifests_of_an_evil_registry():
    assert run_all(manifests) >= 30


@b.deadline(120)
def test_S16_blobs_of_an_evil_registry():
    assert run_all(blobs) >= 20


@b.deadline(120)
def test_S15_S16_redirects_of_an_evil_registry():
    assert run_all(redirects) >= 30


@b.deadline(120)
def test_S15_logins_at_an_evil_registry():
    assert run_all(logins) >= 25


# ---- names and TLS -------------------------------------------------------------------------

NAMES = {n.replace(".", "_"): "127.0.0.1" for n in (
    "registry.acme.com", "auth.acme.com", "evil.com", "registry.co.uk", "auth.co.uk", "registry-1.docker.io".replace("-", "__"),
    "auth.docker.io", "registry.example.github.io")}


def pull(ref, env, ok=None):
    return b.berth("pull", ref, env=env, ok=ok, timeout=40)


@b.deadline(90)
def test_S15_credentials_go_to_the_realm_of_the_same_domain_only():
    ca, server = reg.make_ca()
    tls = server("registry.acme.com", "auth.acme.com", "evil.com", "registry.co.uk", "auth.co.uk", "auth.docker.io",
                 "registry-1.docker.io", "registry.example.github.io", "127.0.0.1")
    with reg.hosts(**NAMES), reg.Mock(tls=tls) as realm, reg.Mock(tls=tls, port=443) as hub:
        for registry, at, gets in (
                ("registry.acme.com", "auth.acme.com", True),           # one registrable domain
                ("registry.acme.com", "acme.com.evil.com", None),       # resolves to nothing
                ("registry.acme.com", "evil.com", False),
                ("registry.co.uk", "auth.co.uk", False),                # co.uk is a public suffix
                ("registry.example.github.io", "evil.com", False),
                ("registry.acme.com", "127.0.0.1", False)):
            with reg.Mock(tls=tls, token=f"https://{at}:{realm.port}/token") as m:
                realm.seen.clear()
                name = f"{registry}:{m.port}"
                reg.log_in(name, "canary", SECRET)
                env = reg.config(ca_file=ca, retries=0, stall_timeout="10s")
                p = pull(name + "/a:1", env)
                b.expect((p.code == 0) == (gets is not None), p, f"{registry} with the realm at {at}")
                seen = realm.credentials_seen()
                assert bool(seen) == bool(gets), (registry, at, seen)
                if gets:
                    assert "account=canary" in realm.seen[0].target and "scope=repository%3Aa%3Apull" in realm.seen[0].target
                if gets is False:
                    allowed = reg.config(ca_file=ca, retries=0, realms=[f"{name}={at}:{realm.port}"])
                    realm.seen.clear()
                    pull(name + "/a:1", allowed, ok=True)
                    assert realm.credentials_seen(), "registry.realms has no effect"
        # Docker Hub under its short name, its token server pinned
        hub.token = "https://auth.docker.io/token"
        reg.log_in("docker.io", "canary", SECRET)
        p = pull("debian:12", reg.config(ca_file=ca, retries=0), ok=True)
        paths = [r.target for r in hub.seen]
        assert "/v2/library/debian/manifests/12" in paths and any("library%2Fdebian" in x for x in paths), paths
        assert "debian:12 " in p.out
        # plain http for a realm is refused from https, and so is a redirect to it
        with reg.Mock() as plain:
            hub.token = f"http://127.0.0.1:{plain.port}/token"
            b.one_line_error(pull("debian:13", reg.config(ca_file=ca, retries=0)), 125, "plain http")
            hub.token = None
            hub.evil = on("/manifests/", redirect_to(lambda r: f"http://127.0.0.1:{plain.port}{r.target}"))
            b.one_line_error(pull("debian:13", reg.config(ca_file=ca, retries=0)), 125, "plain http")
            assert not plain.seen
    os.unlink(os.path.join(b.root(), "state", "auth.json"))


def test_S16_a_proxy_does_not_open_the_way_to_the_metadata_address():
    """http_proxy carries plain http requests with whole URLs; what it must not be asked for never reaches it."""
    image = reg.Image()

    def proxy(r):
        r.path = "/" + r.path.split("/", 3)[3] if r.path.startswith("http://") else r.path
        if where and "/manifests/evil" in r.path:
            r.reply(307, Location=where[0])
            return True
        return False

    where = []
    with reg.Mock(image, evil=proxy) as m, metadata() as meta:
        env = dict(reg.config(insecure=["reg.example:5000"], retries=0), http_proxy=f"http://{m.host}")
        pull("reg.example:5000/a:1", env, ok=True)
        assert all(r.target.startswith("http://reg.example:5000/v2/") for r in m.seen), [r.target for r in m.seen]
        for target in ("http://169.254.169.254/latest", "http://[fe80::1]/", "http://0.0.0.0/"):
            where[:] = [target]
            b.one_line_error(pull("reg.example:5000/a:evil", env), 125, "link-local or reserved")
        assert not any("169.254" in r.target for r in m.seen) and not meta.seen
        # and by no_proxy no more
        where[:] = ["http://metadata.evil.example/x"]
        with reg.hosts(metadata_evil_example="169.254.169.254"):
            b.one_line_error(pull("reg.example:5000/a:evil", dict(env, no_proxy="metadata.evil.example")), 125, "link-local")
        assert not meta.seen


@b.deadline(60)
def test_S16_a_name_with_a_private_address_too_does_not_open_the_private_network():
    """A registry is as private as its most public address: what a second one of its name is says nothing of where it may lead us."""
    image, reached = reg.Image([oci.tar_bytes([(n, {}, n.encode() * 5000)]) for n in "ab"]), threading.Event()

    def evil(r):
        if "/manifests/" in r.path:
            m.listener.shutdown(socket.SHUT_RDWR)   # one connection more is led to the next address of the name
        elif any(oci.digest(x)[7:] in r.path for x in image.layers):
            reached.wait(20 * b.SLOW)
            r.reply(307, Location=f"http://10.9.9.8:{inner.port}{r.path}")
            return True
        return False

    for address in ("1.2.3.4", "10.9.9.9", "10.9.9.8"):
        subprocess.run(["ip", "addr", "add", address + "/32", "dev", "lo"], check=True)
    both = reg.hosts(two_faced_example="1.2.3.4 two.faced.example\n10.9.9.9")
    with both, reg.Mock(image, evil=evil, address="1.2.3.4") as m, reg.Mock(image, address="10.9.9.8") as inner:
        with socket.create_server(("10.9.9.9", m.port)) as face:
            held = []

            def take():
                with contextlib.suppress(OSError):
                    while True:
                        held.append(face.accept()[0])
                        reached.set()
            taker = threading.Thread(target=take)
            taker.start()
            name = f"two.faced.example:{m.port}"
            p = pull(name + "/a:1", reg.config(insecure=[name], retries=1, stall_timeout="6s"))
            face.shutdown(socket.SHUT_RDWR)
            taker.join(20 * b.SLOW)
            for conn in held:
                conn.close()
        assert reached.is_set(), b.describe(p)
        b.one_line_error(p, 125, "private")
        assert not inner.seen


def test_S15_an_identity_token_is_traded_at_the_realm_only():
    with reg.Mock(token="http://127.0.0.1:%d/token") as m, reg.Mock() as other:
        m.token %= m.port
        docker = b.write(b.tmp("docker/config.json"), json.dumps({"auths": {m.host: {"identitytoken": SECRET}}}))
        env = dict(reg.config(insecure=[m.host]), DOCKER_CONFIG=os.path.dirname(docker))
        pull(m.host + "/a:1", env, ok=True)
        posts = [r for r in m.seen if r.method == "POST"]
        assert len(posts) == 1 and posts[0].path == "/token" and not posts[0].query, [r.target for r in m.seen]
        assert b"refresh_token=" + SECRET.encode() in posts[0].body and b"scope=repository%3Aa%3Apull" in posts[0].body
        assert {r.authorization for r in m.seen if r.authorization} == {"Bearer tok"}
        # without credentials, a token for everybody
        m.seen.clear()
        pull(m.host + "/a:3", reg.config(insecure=[m.host]), ok=True)
        assert [r.authorization for r in m.seen[:3]] == [None, None, "Bearer tok"], [r.target for r in m.seen]
        m.token = f"http://127.0.0.1:{other.port}/token"
        pull(m.host + "/a:2", env, ok=True)
        assert other.seen and not any(SECRET in r.target or SECRET.encode() in r.body for r in other.seen)


@b.deadline(90)
def test_S15_a_server_that_is_not_who_it_should_be_gets_nothing():
    ca, server = reg.make_ca()
    with reg.hosts(**NAMES):
        for name, context, conf, words in (
                ("registry.acme.com", server("registry.acme.com"), {}, ["ca_file"]),            # a CA nobody knows
                ("registry.acme.com", server("other.acme.com"), {"ca_file": ca}, ["registry.acme.com"]),
                ("registry.acme.com", server("registry.acme.com", days="-1"), {"ca_file": ca}, ["registry.acme.com"]),
                ("registry.acme.com", server("registry.acme.com", version=ssl.TLSVersion.TLSv1_1), {"ca_file": ca}, [""]),
                ("registry.acme.com", None, {"ca_file": ca}, ["--insecure"])):                  # speaks plain http
            with reg.Mock(tls=context) as m:
                reg.log_in(f"{name}:{m.port}", "canary", SECRET)
                p = pull(f"{name}:{m.port}/a:1", reg.config(retries=0, stall_timeout="10s", **conf))
                b.one_line_error(p, 125, *words)
                assert not m.seen, [r.target for r in m.seen]
        with reg.Mock(tls=server("registry.acme.com")) as m:
            pull(f"registry.acme.com:{m.port}/a:1", reg.config(ca_file=ca, retries=0), ok=True)
        b.one_line_error(pull("registry.acme.com:1/a:1", reg.config(ca_file="/nonexistent")), 125, "registry.ca_file")
    os.unlink(os.path.join(b.root(), "state", "auth.json"))


# ---- pushes -----------------------------------------------------------------------------------

def test_S15_pushes_to_an_evil_registry():
    oci.Layout(b.tmp("lay")).image([oci.tar_bytes([("a", {}, b"a")])])
    b.berth("image", "import", b.tmp("lay"), "mine:1", ok=True)

    def upload(location):
        def evil(r):
            if r.method == "HEAD":
                r.reply(404)
            elif r.method == "POST":
                r.reply(202, Location=location(r)) if location else r.reply(202)
            elif r.method == "PUT":
                r.reply(201, Docker_Content_Digest="sha256:" + "0" * 64)
            else:
                return False
            return True
        return evil

    with reg.Mock(evil=lambda r: r.reply(201) or True) as other, metadata() as meta:
        for name, words, location in (
                ("no location", ["does not say where"], None),
                ("file", ["neither http"], lambda r: "file:///etc/passwd"),
                ("metadata", ["link-local"], lambda r: "http://169.254.169.254/x"),
                ("user", ["user name"], lambda r: "http://a:b@127.0.0.1/x"),
                ("endless", [""], lambda r: "/" + "x" * 9000),
                ("another port", ["keeps the manifest as"], lambda r: f"http://127.0.0.1:{other.port}/up"),
                ("relative", ["keeps the manifest as"], lambda r: "up?state=1")):
            with reg.Mock(evil=upload(location)) as m:
                reg.log_in(m.host, "canary", SECRET)
                m.basic = f"canary:{SECRET}"
                p = b.berth("push", "--insecure", "mine:1", m.host + "/x:1", env=reg.config(retries=1, stall_timeout="10s"))
                b.expect(p.code == 125 and p.err.count("\n") == 1 and all(w in p.err for w in words), p, name)
        assert not other.credentials_seen() and other.seen and not meta.seen
        for name, evil, words in (
                ("redirects an upload", lambda r: r.reply(404) or True if r.method == "HEAD" else r.reply(307, Location="/y") or True,
                 ["upload", "not followed"]),
                ("501", lambda r: r.reply(501) or True, ["501"]),
                ("hangs up", lambda r: r.hang_up(), ["127.0.0.1"])):
            with reg.Mock(evil=evil) as m:
                p = b.berth("push", "--insecure", "mine:1", m.host + "/x:1", env=reg.config(retries=1, stall_timeout="10s"))
                b.expect(p.code == 125 and p.err.count("\n") == 1 and all(w in p.err for w in words), p, name)
    os.unlink(os.path.join(b.root(), "state", "auth.json"))
    b.berth("image", "rm", "mine:1", ok=True)


def test_S16_the_deadline_holds_whatever_drips():
    i = reg.Image([oci.tar_bytes([("a", {}, os.urandom(400000))])])
    data = i.layers[0]
    # fast enough not to be stalled, too slow to end
    drip = layer(i, lambda r: forever(r, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data), data[:1500], 0.1))
    with reg.Mock(i, evil=drip) as m:
        p = b.berth("pull", "--insecure", m.host + "/a:1", env=reg.config(deadline="3s", stall_timeout="10s"))
        b.expect(p.code == 124 and "registry.deadline" in p.err, p, "the deadline")
