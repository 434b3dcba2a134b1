# SPDX-License-Identifier: Apache-2.0
"""
Runs inside a sandbox, by python3 -c: reads a JSON list of tries on stdin, prints what came of each, one JSON a line.

A try is [how, host, port]: "connect", "absolute" or "socks" through the proxy, "direct" without it.
The answer is a status: the HTTP status of the page, 0 where nothing could be reached, or minus the SOCKS5 code;
then what was read of it.
"""
import json
import socket
import struct
import sys

PROXY = ("127.0.0.1", 3128)


def read_all(s):
    data = b""
    try:
        while len(data) < 65536:
            piece = s.recv(65536)
            if not piece:
                break
            data += piece
    except OSError:
        pass
    return data


def page(s, host):
    s.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    return http(read_all(s))


def http(data):
    text = data.decode("latin-1")
    return (int(text.split(" ", 2)[1]) if text.startswith("HTTP/") else 0), text


def bracket(host):
    return f"[{host}]" if ":" in host else host


def attempt(how, host, port):
    if how == "direct":
        with socket.create_connection((host, port), 3) as s:
            return page(s, host)
    with socket.create_connection(PROXY, 20) as s:
        if how == "absolute":
            s.sendall(f"GET http://{bracket(host)}:{port}/ HTTP/1.1\r\nHost: evil.test\r\n\r\n".encode())
            return http(read_all(s))
        if how == "connect":
            s.sendall(f"CONNECT {bracket(host)}:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head = b""
            while b"\r\n\r\n" not in head:
                piece = s.recv(1)
                if not piece:
                    return 0, head.decode("latin-1")
                head += piece
            if b" 200 " not in head.split(b"\r\n")[0]:
                return http(head + read_all(s))
            return page(s, host)
        s.sendall(b"\5\1\0")
        if s.recv(2) != b"\5\0":
            return 0, "no greeting"
        try:
            address = b"\1" + socket.inet_pton(socket.AF_INET, host)
        except OSError:
            try:
                address = b"\4" + socket.inet_pton(socket.AF_INET6, host)
            except OSError:
                address = b"\3" + bytes([len(host)]) + host.encode()
        s.sendall(b"\5\1\0" + address + struct.pack("!H", port))
        reply = s.recv(10)
        if len(reply) < 2 or reply[1]:
            return -(reply[1] if len(reply) > 1 else 255), ""
        return page(s, host)


for how, host, port in json.load(sys.stdin):
    try:
        status, text = attempt(how, host, port)
    except OSError as e:
        status, text = 0, str(e)
    print(json.dumps([how, host, port, status, text[-400:]]), flush=True)
