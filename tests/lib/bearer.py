# SPDX-License-Identifier: Apache-2.0
"""A relay on loopback that adds a token to each request, for clients that cannot be given a header."""
import socket
import threading


class Bearer:
    def __init__(self, port, token):
        self.to, self.token = port, token
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def serve(self):
        while True:
            try:
                s = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.relay, args=(s,), daemon=True).start()

    def relay(self, client):
        """One request a connection: what follows the answer's end is the end."""
        with client, socket.create_connection(("127.0.0.1", self.to)) as server:
            head = b""
            while b"\r\n\r\n" not in head:
                more = client.recv(65536)
                if not more:
                    return
                head += more
            head, body = head.split(b"\r\n\r\n", 1)
            first, *lines = head.split(b"\r\n")
            lines = [line for line in lines if line.split(b":")[0].strip().lower() != b"connection"]
            lines += [b"Connection: close", b"Authorization: Bearer " + self.token.encode()]
            server.sendall(b"\r\n".join([first, *lines]) + b"\r\n\r\n" + body)
            threading.Thread(target=self.copy, args=(client, server), daemon=True).start()
            self.copy(server, client)

    @staticmethod
    def copy(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
