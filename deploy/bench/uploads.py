"""Uploads of a job's inputs beside curl, and bodies that are too large. Run by ``uploads``."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from machine import heading, machine, spread, table

TOKEN = "a-token-of-alice"  # noqa: S105 - of the Hub that is played here
BODY, BODIES = 90 << 20, 8
VALUE = 200_000_000


class _Hub(BaseHTTPRequestHandler):
    """A Hub that knows everybody as alice."""

    def do_GET(self) -> None:
        text = json.dumps({"kind": "user", "name": "alice", "scopes": ["access:services"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@contextlib.contextmanager
def service(given: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Run the service; give its address and its process."""
    hub = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    place = Path(given.dir)
    place.mkdir(mode=0o711)
    (place / "token").write_text("the-spawners-token")
    argv = [given.simulated, "serve", "--dir", str(place / "world"), "--token-file", str(place / "token")]
    argv += ["--hub-api", f"http://127.0.0.1:{hub.server_port}/hub/api"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:  # noqa: S603
        assert process.stdout  # noqa: S101
        ready = process.stdout.readline().split()
        try:
            yield f"http://{ready[-1]}", process.pid
        finally:
            process.terminate()


def curl(url: str, file: Path) -> float:
    """Put a file as curl does; the seconds that it took."""
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    begun = time.monotonic()
    argv = ["curl", "-sSf", "-T", str(file), "-H", f"Authorization: Bearer {TOKEN}"]
    subprocess.run([*argv, f"{url}/api/v1/blobs/sha256:{digest}"], check=True)  # noqa: S603
    return time.monotonic() - begun


def client(url: str, what: str, file: Path) -> dict[str, float]:
    """Put a file, or a value, by the Python client, in a process of its own."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ["NOTEBOOKS"], *sys.path])}
    argv = [sys.executable, __file__, "--child", what, "--url", url, "--file", str(file)]
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603
    return dict(json.loads(done.stdout))


def child(given: argparse.Namespace) -> None:
    """Be that process."""
    import slipway
    from slipway import _cell, _client
    from slipway._transport import Target

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    connected = slipway.Client(Target(url=given.url, token=TOKEN))
    connected.me()
    if given.child == "value":
        value = os.urandom(VALUE)
        before, begun = peak(), time.monotonic()
        files, _ = _cell.pickle_inputs(["value"], {"value": value})
        cargoes = _client.Cargoes(files)
        cargoes.look(connected)
        cargoes.send(connected)
    else:
        before, begun = peak(), time.monotonic()
        put(connected, Path(given.file))
    print(json.dumps({"seconds": time.monotonic() - begun, "memory": peak() - before, "whole": peak()}))


def put(connected: Any, file: Path) -> None:
    """Name the file by its digest and put it, as a submission does; versions before streaming took it whole."""
    try:
        from slipway._transport import digest
    except ImportError:
        data = file.read_bytes()
        connected.put_blob("sha256:" + hashlib.sha256(data).hexdigest(), data)
        return
    with file.open("rb") as content:
        connected.put_blob(digest(content), content)


def rss(process: int) -> int:
    """Give the memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def flood(url: str, process: int) -> tuple[int, int, dict[int, int]]:
    """Send large bodies at once; the service's memory before and at its most, and how often each status came."""
    address, statuses = url.removeprefix("http://"), dict[int, int]()
    body = b'{"files": {"a": "' + b"A" * BODY + b'"}}'

    def send() -> None:
        connection = http.client.HTTPConnection(address, timeout=120)
        status = 0  # cut off before the answer was read
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.putrequest("POST", "/api/v1/jobs")
            connection.putheader("Authorization", f"Bearer {TOKEN}")
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            with contextlib.suppress(ConnectionError):
                connection.send(body)
            status = connection.getresponse().status
        statuses[status] = statuses.get(status, 0) + 1

    before = most = rss(process)
    threads = [threading.Thread(target=send) for _ in range(BODIES)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most = max(most, rss(process))
        time.sleep(0.02)
    return before, most, statuses


def arguments() -> argparse.Namespace:
    """Read the command line, half of which ``uploads`` writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("simulated", "dir", "child", "url", "file"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=1_000_000_000)
    parser.add_argument("--json", type=Path, help="write all that was measured there")
    return parser.parse_args()


def main() -> int:
    """Measure and print."""
    given = arguments()
    if given.child:
        child(given)
        return 0
    about, found = machine(), list[dict[str, Any]]()
    with service(given) as (url, process):
        file = Path(given.dir) / "file"
        for _ in range(given.rounds):
            times: dict[str, Any] = {}
            for name in ("curl", "python"):
                with file.open("wb") as content:
                    for at in range(0, given.size, 1 << 20):
                        content.write(os.urandom(min(1 << 20, given.size - at)))
                times[name] = curl(url, file) if name == "curl" else client(url, "file", file)
            found.append(times)
        value = client(url, "value", file)
        before, most, statuses = flood(url, process)
    if given.json:
        kept = {"about": about, "rounds": found, "value": value, "flood": [before, most, statuses]}
        given.json.write_text(json.dumps(kept, indent=1))
    print(heading("uploads", about, os.getloadavg()[0]))
    slow = [each["python"]["seconds"] for each in found]
    quick = [each["curl"] for each in found]
    print(table(["", "curl", "Python client"], [
        [f"{given.size / 1e6:.0f} MB of a file, seconds", spread(quick), spread(slow)],
        ["MB/s", spread(given.size / 1e6 / t for t in quick), spread(given.size / 1e6 / t for t in slow)],
        ["memory for it, MB", "", spread((each["python"]["memory"] / 1e6 for each in found), ".0f")],
        [f"a value of {VALUE / 1e6:.0f} MB by --in, seconds", "", f"{value['seconds']:.2f}"],
        ["memory beside the value, MB", "", f"{value['memory'] / 1e6:.0f}"],
    ]))  # fmt: skip
    print(f"\nSpeed of the client / curl: **{spread(c / p for c, p in zip(quick, slow, strict=True))}**.\n")
    print(f"{BODIES} bodies of {BODY >> 20} MiB at once: the service's memory {before / 1e6:.0f} MB before, "
          f"{most / 1e6:.0f} MB at most; answers {statuses} (0: cut off).")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
