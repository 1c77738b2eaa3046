"""The other end of what the ssh tests forward: echoes, web pages, and one that asks. Standard library alone."""

import http.server
import os
import socket
import socketserver
import sys
import threading


class Echo(socketserver.BaseRequestHandler):
    """Give back what comes until no more does."""

    def handle(self) -> None:
        """Echo."""
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)
        self.request.shutdown(socket.SHUT_WR)


class Page(http.server.BaseHTTPRequestHandler):
    """Tell the path."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"page {self.path}".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class TCP(socketserver.ThreadingTCPServer):
    """Any number of connections at one time."""

    daemon_threads = True
    request_queue_size = 512


class Unix(socketserver.ThreadingUnixStreamServer):
    """The same."""

    daemon_threads = True


def serve(path: str) -> None:
    """Serve echoes at a port and at a socket, pages at a port and at IPv6's loopback; print the ports; end when stdin does."""
    servers = [TCP(("127.0.0.1", 0), Echo), TCP(("127.0.0.1", 0), Page), Unix(path, Echo)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(servers[0].server_address[1], servers[1].server_address[1], flush=True)
    sys.stdin.buffer.read()
    os.unlink(path)


def ask(address: str, text: str) -> None:
    """Connect, to host:port or to a socket's path; send a text, say that no more comes, print the answer."""
    if address.startswith("/"):
        line = socket.socket(socket.AF_UNIX)
        line.connect(address)
    else:
        host, _, port = address.rpartition(":")
        line = socket.create_connection((host, int(port)))
    line.sendall(text.encode())
    line.shutdown(socket.SHUT_WR)
    while data := line.recv(1 << 16):
        sys.stdout.write(data.decode())
    sys.stdout.flush()


if sys.argv[1] == "serve":
    serve(sys.argv[2])
else:
    ask(sys.argv[2], sys.argv[3])
