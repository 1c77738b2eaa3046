"""The app of the end-to-end tests' sessions: answers under its prefix, and runs what it is told, as a notebook would."""

import http.server
import json
import os
import subprocess
import urllib.parse

SERVICE = urllib.parse.urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])


class App(http.server.BaseHTTPRequestHandler):
    """GET <prefix>api: a few facts. POST <prefix>run: a shell command, answered with its output and exit code."""

    protocol_version = "HTTP/1.1"

    def answer(self, body: object) -> None:
        """Send body as JSON."""
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        """Tell what the tests compare."""
        self.answer({"path": self.path, "host": self.headers["Host"], "pid": os.getpid(), "token": os.environ.get("JUPYTERHUB_API_TOKEN"), "gpu": os.environ.get("SLIPWAY_GPU")})

    def do_POST(self) -> None:
        """Run a command."""
        command = self.rfile.read(int(self.headers["Content-Length"])).decode()
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        self.answer({"out": done.stdout, "err": done.stderr, "code": done.returncode})


http.server.ThreadingHTTPServer(("127.0.0.1", SERVICE.port or 80), App).serve_forever()
