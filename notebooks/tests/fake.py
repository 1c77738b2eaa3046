"""A Slipway service for tests: the API's contract over real HTTP, with faults on demand.

Jobs really run: the fake executes their argv in a directory with their files, as the service would.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import os
import socket
import socketserver
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from fake_scans import Doc, Drop, Fault, ScanRoutes

__all__ = ["TOKEN", "Doc", "Drop", "FakeService", "Fault", "unavailable"]

TOKEN = "sesame-0123"


class Job:
    """One job and its process."""

    def __init__(self, doc: Doc, body: Doc, directory: Path) -> None:
        self.doc, self.body, self.directory = doc, body, directory
        self.log = b""
        self.events: list[Doc] = []
        self.inputs = set(body["files"])
        self.environment: dict[str, str] = {}
        self.extra: Doc = {}
        self.process: subprocess.Popen[bytes] | None = None

    def event(self, message: str, percent: int = -1, **extra: bool) -> None:
        self.events.append({"seq": len(self.events) + 1, "percent": percent, "message": message, **extra})

    @property
    def progress_file(self) -> Path:
        return self.directory.with_suffix(".progress")

    def progress(self) -> Doc | None:
        try:
            doc: Doc = json.loads(self.progress_file.read_text())
        except (OSError, ValueError):
            return None
        return doc

    def run(self) -> None:
        for name, data in self.body["files"].items():
            (self.directory / name).write_bytes(base64.b64decode(data))
        self.event("queued")
        own = {"SLIPWAY_PROGRESS": str(self.progress_file)}
        env = {**os.environ, **self.body["env"], **self.environment, **own}
        self.process = subprocess.Popen(
            self.body["argv"], cwd=self.directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.doc.update(state="running", phase="running", up="2026-11-20T10:05:00Z")
        self.event("running", 50)
        assert self.process.stdout is not None
        with self.process.stdout as output:
            while chunk := os.read(output.fileno(), 65536):
                self.log += chunk
        self.end(self.process.wait())

    def end(self, code: int) -> None:
        canceled = bool(self.doc.pop("canceling", None))
        lacking = [name for name in self.body.get("out", []) if not (self.directory / name).exists()]
        failed = code != 0 or bool(lacking)
        state = "canceled" if canceled else "failed" if failed else "done"
        reason = f"the payload ended with exit code {code}" if code else f"it has not left {lacking}" if lacking else ""
        cause = "canceled" if canceled else "output" if lacking else "signal" if code < 0 else "exit" if code else ""
        self.doc["outcome"] = {
            "exit_code": code, "reason": reason, "failed": failed, "canceled": canceled, "cause": cause,
            "signal": max(-code, 0), "wall": 1.5, "cpu": 1.25, "max_rss": 50_000_000, "gpu": None,
            **(self.extra if failed else {}),
        }  # fmt: skip
        now = datetime.datetime.now(datetime.UTC).isoformat()
        self.doc.update(state=state, phase="stopped", ended_at=now, progress=self.progress())
        self.event(state, 100, final=True, failed=failed)

    def again(self, changes: Doc) -> None:
        """Try it again, as the service does: the same job, nothing left of the try before but how it ended."""
        for path in self.files():
            path.unlink()
        self.progress_file.unlink(missing_ok=True)
        self.log, self.events = b"", []
        attempts = [*self.doc.get("attempts", []), self.doc["outcome"]]
        asked = {key: changes[key] for key in ("cpus", "memory", "time_limit") if key in changes}
        fresh = {"state": "pending", "phase": "pending", "outcome": None, "progress": None, "ended_at": None}
        self.doc.update(**fresh, attempt=len(attempts) + 1, attempts=attempts, **asked)

    def files(self) -> list[Path]:
        return sorted(p for p in self.directory.iterdir() if p.is_file() and p.name not in self.inputs)


class FakeService:
    """State, faults and what was asked; ``url`` and ``socket`` are where it answers."""

    def __init__(self, directory: Path, tls: ssl.SSLContext | None = None) -> None:
        self.directory = directory
        self.tls = tls
        self.lock = threading.RLock()
        self.jobs: dict[str, Job] = {}
        self.requests: dict[str, str] = {}
        self.changes: list[tuple[str, str]] = []
        self.checked: list[Doc] = []
        self.plan: Doc = {"backend": "local", "free": -1, "most": -1, "estimate": -1, "typical": -1}
        self.blobs: dict[str, bytes] = {}
        self.outcome: Doc = {}  # of jobs that fail
        self.told: dict[tuple[str, int], tuple[int, Doc]] = {}  # how points and scans stand, with the events' ids
        self.sessions: dict[str, Doc] = {}
        self.session_events: dict[tuple[str, str], list[Doc]] = {}
        self.environments: list[Doc] = []
        self.environment_changes: list[tuple[str, str, Any]] = []
        self.gpus: Doc = {"offers": [], "gpus": []}
        self.switched: Doc = {}
        self.storage: list[Doc] = []
        self.freezes = 0
        self.freeze_asked: Doc = {}
        self.freeze_stream: list[tuple[str, Doc]] | None = None
        self.in_session = "s-self"
        self.python = "{}.{}.{}".format(*sys.version_info)
        self.connections: set[socket.socket] = set()
        self.asked: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[tuple[str, Callable[[], None]]] = []
        self.drop_events_after = 0
        self.drop_log_after = 0
        self.end_log_after = 0
        self.auto_start = True
        self.start_failure: Doc | None = None
        self.bad_json = False
        self.page: str | None = None
        self.now = self.peak = 0
        self.stopped_calls: list[str] = []
        self._servers: list[socketserver.BaseServer] = []
        self.socket = str(directory / "api.sock")
        self.port = 0
        self.up()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def up(self) -> None:
        """Start answering, at the same addresses as before."""
        handler = type("Handler", (_Handler,), {"fake": self})
        tcp = _TCP(("127.0.0.1", self.port), handler)
        if self.tls:
            tcp.socket = self.tls.wrap_socket(tcp.socket, server_side=True)
        self.port = tcp.server_address[1]
        Path(self.socket).unlink(missing_ok=True)
        self._servers = [tcp, _Unix(self.socket, handler)]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Stop answering; the state stays."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._servers = []
        with self.lock:
            open_connections, self.connections = self.connections, set()
        for connection in open_connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def fail(self, path: str, *faults: Exception | float) -> None:
        """Let the next requests whose path contains ``path`` fail, one by one, or be slow by seconds."""
        for fault in faults:
            self.faults.append((path, _raiser(fault)))

    def fault(self, path: str) -> None:
        with self.lock:
            for item in self.faults:
                if item[0] in path:
                    self.faults.remove(item)
                    break
            else:
                return
        item[1]()

    def count(self, method: str, part: str) -> int:
        return sum(1 for verb, path in self.asked if verb == method and part in path)

    def session(self, **doc: Any) -> Doc:
        """Put a session there."""
        full = {"id": f"s-{len(self.sessions) + 1}", "kind": "lab", "phase": "running", "outcome": None, **doc}
        self.sessions[full["id"]] = full
        return full

    def step(self, session: Doc, message: str, percent: int = -1, **extra: bool) -> None:
        """Add an event to a session's start."""
        events = self.session_events.setdefault((session["id"], session["launch"]), [])
        events.append({"seq": len(events) + 1, "percent": percent, "message": message, **extra})

    def wait_jobs(self) -> None:
        """Wait until no job runs."""
        while any(job.doc["state"] in ("pending", "running") for job in self.jobs.values()):
            time.sleep(0.01)


def _raiser(fault: Exception | float) -> Callable[[], None]:
    def act() -> None:
        if isinstance(fault, Exception):
            raise fault
        time.sleep(fault)

    return act


def unavailable(status: int = 503) -> Fault:
    return Fault("unavailable", status, "the store is being opened")


class _TCP(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 100

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: broken connections are what is tested."""


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""


class _Handler(ScanRoutes, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeService

    def setup(self) -> None:
        super().setup()
        with self.fake.lock:
            self.fake.connections.add(self.connection)

    def finish(self) -> None:
        with self.fake.lock:
            self.fake.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def address_string(self) -> str:
        return "client"

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def do_PUT(self) -> None:
        self._answer("PUT")

    def do_HEAD(self) -> None:
        self._answer("HEAD")

    def _answer(self, method: str) -> None:
        split = urlsplit(self.path)
        self.query = {key: value[0] for key, value in parse_qs(split.query, keep_blank_values=True).items()}
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        self.body = raw if method == "PUT" else json.loads(raw) if length else {}
        with self.fake.lock:
            self.fake.asked.append((method, self.path))
            self.fake.headers.append(dict(self.headers))
            self.fake.now += 1
            self.fake.peak = max(self.fake.peak, self.fake.now)
        try:
            self._try(method, split.path)
        finally:
            with self.fake.lock:
                self.fake.now -= 1

    def _try(self, method: str, path: str) -> None:
        try:
            self.fake.fault(f"{method} {path}")
            self._route(method, [unquote(part) for part in path.strip("/").split("/")])
        except Fault as fault:
            self._json(fault.doc, fault.status)
        except (Drop, BrokenPipeError, ConnectionError):
            self.close_connection = True
            self.connection.close()

    def _route(self, method: str, parts: list[str]) -> None:
        if parts[:2] != ["api", "v1"]:
            self._json({"version": "x"})  # the session itself, as the Hub's probe sees it
            return
        if isinstance(self.client_address, tuple) and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Fault("unauthorized", 401, "nobody is known by this token")
        name = f"{method.lower()}_{parts[2].replace('-', '_')}"
        action = getattr(self, name, None)
        if action is None:
            raise Fault("not_found", 404, f"no route {self.path}")
        if self.fake.bad_json:
            self._bytes(b'{"half": ', "application/json")
            return
        action(*parts[3:])

    # --- answers

    def _json(self, doc: object, status: int = 200) -> None:
        self._bytes(json.dumps(doc).encode(), "application/json", status)

    def _bytes(self, data: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, chunks: Iterator[bytes], kind: str, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            if chunk:
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _events(self, events: list[Doc]) -> None:
        self._stream(self._event_chunks(events), "text/event-stream")

    def _event_chunks(self, events: list[Doc]) -> Iterator[bytes]:
        at = int(self.headers.get("Last-Event-ID") or 0)
        sent = 0
        yield b": hello\n\n"
        while True:
            while at < len(events):
                event = events[at]
                raw = f"id: {event['seq']}\ndata: {json.dumps(event)}\n\n".encode()
                yield raw[:7]  # cut anywhere
                yield raw[7:]
                at, sent = at + 1, sent + 1
                if event.get("final"):
                    return
                if self.fake.drop_events_after and sent >= self.fake.drop_events_after:
                    raise Drop
            time.sleep(0.01)

    # --- the caller

    def get_me(self) -> None:
        self._json({"user": "alice", "hub": "main", "admin": False, "session": self.fake.in_session})

    def get_profiles(self) -> None:
        image = {"name": "py", "title": "Python"}
        self._json([{"name": "small", "title": "Small", "images": [image], "cpus": 1, "default": True, "new": 1}])

    # --- kernels on slices

    def get_kernelspecs(self) -> None:
        self._json({"kernelspecs": [self._kernelspec()]})

    def post_kernelspecs(self, name: str, what: str) -> None:
        choices = self._kernelspec()["gpus"]
        if name not in ("self", "python-gpu") or what != "switch":
            raise Fault("not_found", 404, f'there is no kernelspec "{name}" for you', remedy="one of python-gpu")
        wanted = self.body["gpu"]
        if wanted not in (*choices, "default"):
            remedy = f"one of {', '.join(choices)}, or default"
            raise Fault("invalid", 422, f'gpu: "{wanted}" is not valid', field="gpu", remedy=remedy)
        self.fake.switched = {} if wanted == "default" else {"gpu": wanted}
        self._json(self._kernelspec())

    def _kernelspec(self) -> Doc:
        choices = ["1g.18gb", "3g.71gb"]
        return {
            "name": "python-gpu",
            "display_name": "Python (GPU)",
            "gpu": self.fake.switched.get("gpu", choices[0]),
            "gpus": choices,
            "cpus": 4,
            "memory": "8G",
            "switched": self.fake.switched,
            "available": {"state": "free", "words": "3 free now", "wait": 0},
            "new": 1,
        }

    def get_gpus(self) -> None:
        self._json(self.fake.gpus)

    def get_data(self, what: str = "") -> None:
        if not what:
            self._json({"storage": self.fake.storage})
            return
        lfn, plain = self.query["lfn"], not {"write", "direct"} & {*self.query}
        if "?" in lfn:
            raise Fault("invalid", 422, f'lfn: "{lfn}" is not valid', field="lfn", remedy="leave out the question mark")
        origin = f"root://eos.example.org//{lfn}"
        url = f"root://cache.example.org//{lfn}" if plain else origin
        self._json({"url": url, "element": "eos", "path": "/" + lfn, "origin": origin, "cached": plain, "why": ""})

    def get_spawn_form(self) -> None:
        self._bytes(f"<select name=profile><!-- {self.query['user']} --></select>".encode(), "text/html")

    # --- sessions

    def _session(self, id: str) -> Doc:
        session = self.fake.sessions.get(self.fake.in_session if id == "self" else id)
        if session is None:
            raise Fault("not_found", 404, f"there is no session {id}")
        return session

    def get_sessions(self, id: str = "", what: str = "") -> None:
        if not id:
            self._json({"sessions": [doc for doc in self.fake.sessions.values() if self._asked_for(doc)]})
        elif what == "events":
            self._session(id)
            self._events(self.fake.session_events.setdefault((id, self.query.get("launch", "")), []))
        elif what == "log":
            self._bytes(b"one\ntwo\n", "text/plain")
        else:
            if what == "wait":
                self._wait(id)
            self._json(self._session(id))

    def _wait(self, id: str) -> None:
        end = time.monotonic() + 0.5
        while time.monotonic() < end and self._session(id)["phase"] not in ("running", "stopped"):
            time.sleep(0.01)

    def _asked_for(self, doc: Doc) -> bool:
        return all(doc.get(key) == value for key, value in self.query.items() if key in ("user", "name"))

    def post_sessions(self, id: str = "", what: str = "") -> None:
        if what == "stop":
            session = self._session(id)
            self.fake.stopped_calls.append(id)
            session.update(phase="stopped", outcome={"exit_code": 0, "reason": "stopped", "canceled": True})
            self._json(session)
        elif what == "keep":
            self._json(self._keep(self._session(id)))
        elif what == "freeze":
            self._session(id) if id != "self" else None
            self._stream(self._freeze(), "text/event-stream")
        else:
            self._json(self._start(), 202)

    def _keep(self, session: Doc) -> Doc:
        if session["phase"] != "running":
            raise Fault("conflict", 409, "the session does not run")
        if self.body["for"] == "99h":
            raise Fault("invalid", 422, f"for: {self.body['for']}: too long", field="for", remedy="at most 24h")
        session.update(keep_until="2036-11-21T18:00:00Z", stops=None)
        return session

    def _start(self) -> Doc:
        body, fake = self.body, self.fake
        with fake.lock:
            same = [s for s in fake.sessions.values() if (s["user"], s["name"]) == (body["user"], body["server_name"])]
            if same and same[0]["launch"] == body["launch"]:
                return same[0]
            session = same[0] if same else fake.session()
            session.update(
                user=body["user"], name=body["server_name"], launch=body["launch"], phase="starting", outcome=None,
                request=body, waiting="for a slice", page=fake.page,
            )  # fmt: skip
        fake.step(session, "leasing", 10)
        fake.step(session, "starting container", 40)
        if fake.start_failure:
            session.update(phase="stopped", outcome=fake.start_failure)
            fake.step(session, "failed", 100, final=True, failed=True)
        elif fake.auto_start:
            session["phase"] = "running"
            fake.step(session, "ready", 100, final=True)
        return session

    def delete_sessions(self, id: str = "") -> None:
        gone = [key for key, doc in self.fake.sessions.items() if (key == id if id else self._asked_for(doc))]
        for key in gone:
            del self.fake.sessions[key]
        self.send_response(204)
        self.end_headers()

    def _freeze(self) -> Iterator[bytes]:
        self.fake.freezes += 1
        self.fake.freeze_asked = self.body
        for name, doc in self.fake.freeze_stream or self._frozen():
            if name == "drop":
                raise Drop
            yield f"event: {name}\ndata: {json.dumps(doc)}\n\n".encode()

    def _frozen(self) -> list[tuple[str, Doc]]:
        environment = {
            "digest": "sha256:" + "ab" * 32,
            "size": 2_500_000_000,
            "own": 42_000,
            "unchanged": bool(self.fake.environments),
        }
        self.fake.environments.append(environment)
        step = {"stage": "squash", "percent": 40, "bytes": 1_000_000, "message": "squashing"}
        return [("progress", step), ("done", environment)]

    def get_environments(self, ref: str = "", what: str = "") -> None:
        if what:
            self._environment_part(ref, what)
            return
        if ref and ref not in ("gpu:1", "sha256:" + "cd" * 32):
            raise Fault(
                "not_found", 404, f"there is no environment {ref}", field="environment", remedy="see slipway envs"
            )
        named = self._named()
        shared = [{**named, "owner": "carol", "mine": False}] if "shared=true" in self.path else []
        self._json(named if ref else {"environments": [named, *shared]})

    def _named(self) -> Doc:
        return {
            "digest": "sha256:" + "cd" * 32,
            "name": "gpu",
            "tag": "1",
            "created": "2026-11-20T10:04:00Z",
            "size": 3_000_000_000,
            "own": 250_000_000,
            "known": True,
            "packages": 2,
            "python": self.fake.python,
        }

    def _environment_part(self, ref: str, what: str) -> None:
        named = self._named()
        older = {**named, "digest": "sha256:" + "ee" * 32, "tag": "0", "created": "2026-11-19T10:04:00Z"}
        if what == "details":
            packages = [{"name": "<torch>", "version": "2.9.0", "manager": "pip"}]
            self._json({**named, "inventory": {"packages": packages}})
        elif what == "history":
            self._json({"environments": [named, older]})
        else:
            self.fake.environment_changes.append((ref, what, self.path.partition("?")[2]))
            self._json({"old": older, "new": named, "lines": ["+ torch 2.9.0"], "full": {"added": []}})

    def post_environments(self, ref: str, what: str) -> None:
        body = self.body
        self.fake.environment_changes.append((ref, what, body))
        given = {"share": body} if what == "share" else body
        self._json({**self._named(), **given})

    def delete_environments(self, ref: str) -> None:
        self.fake.environment_changes.append((ref, "remove", ""))
        self._json({"digest": "sha256:" + "cd" * 32, "names": []})

    # --- jobs

    def _job(self, id: str) -> Job:
        if id not in self.fake.jobs:
            raise Fault("not_found", 404, f"there is no job {id}")
        return self.fake.jobs[id]

    def get_jobs(self, id: str = "", what: str = "", name: str = "") -> None:
        if not id:
            self._json(self._listed())
            return
        if id == "usage":
            self._json({"stored": 1_000_000, "store": 0, "kept": [], "gpu_hours": 1.5})
            return
        job = self._job(id)
        if what == "why":
            self._json(self._why(id))
        elif what == "events":
            self._events(job.events)
        elif what == "log" and "tail" in self.query:
            self._bytes(b"\n".join(job.log.splitlines()[-int(self.query["tail"]) :]), "text/plain")
        elif what == "log":
            self._stream(self._log(job), "text/plain", {"X-Slipway-Run": f"{job.doc.get('attempt', 1)}.0"})
        elif what == "files" and name:
            found = [path for path in job.files() if path.name == name]
            if not found:
                raise Fault("not_found", 404, f"job {id} has no file {name}")
            self._bytes(found[0].read_bytes(), "application/octet-stream")
        elif what == "files":
            self._json({"files": [{"name": path.name, "size": path.stat().st_size} for path in job.files()]})
        else:
            self._json({**job.doc, "progress": job.progress()})

    def _log(self, job: Job) -> Iterator[bytes]:
        at, begun = int(self.query.get("from", 0)), int(self.query.get("from", 0))
        follow = self.query.get("follow") == "1"
        while True:
            ended = job.doc["state"] not in ("pending", "running")
            limit = self.fake.drop_log_after or self.fake.end_log_after
            stop = min(len(job.log), begun + limit) if follow and limit else len(job.log)
            yield job.log[at:stop]
            at = stop
            if follow and limit and at - begun >= limit:
                if self.fake.drop_log_after:
                    raise Drop
                return
            if not follow or ended:
                return
            time.sleep(0.01)

    def post_jobs(self, id: str = "", what: str = "") -> None:
        if named := self.body.pop("points_blob", ""):
            self.body["points"] = json.loads(self.fake.blobs[named])
        if id == "check":
            self.fake.checked.append(self.body)
            if self.body.get("backend") == "slurm":
                raise Fault("invalid", 422, "backend slurm", field="backend", remedy="name one of local")
            self._json(self.fake.plan)
            return
        if what == "retry":
            self._json(self._retry([self._job(id)])[0].doc, 202)
            return
        if what == "resubmit":
            self.body = self._changed_body(self._job(id))
            self._json(self._submit()[0].doc, 202)
            return
        if id:
            job = self._job(id)
            self._change(job, what)
            self._json(job.doc, 202)
            return
        with self.fake.lock:
            known = self.fake.requests.get(self.body["request_id"])
            jobs = [job for job in self.fake.jobs.values() if job.doc["request"] == known] if known else self._submit()
        if self.fake.faults and self.fake.faults[0][0] == "after submit":
            self.fake.fault("after submit")
        self._json(self._made(jobs) if "points" in self.body else jobs[0].doc, 202)

    def _change(self, job: Job, what: str) -> None:
        self.fake.changes.append((job.doc["id"], what))
        if what == "cancel":
            job.doc["canceling"] = True
            if job.process:
                job.process.kill()
        elif what in ("hold", "release"):
            job.doc["held"] = what == "hold"

    def _submit(self) -> list[Job]:
        points = self.body.get("points") or [None]
        scan = f"scan-{len(self.fake.requests) + 1}" if "points" in self.body else ""
        jobs = [self._enter(scan, number, point) for number, point in enumerate(points)]
        self.fake.requests[self.body["request_id"]] = jobs[0].doc["request"]
        for job in jobs:
            self._begin(job)
        return jobs

    def _begin(self, job: Job) -> None:
        for name, digest in job.body.get("blobs", {}).items():
            if digest not in self.fake.blobs:
                raise Fault("invalid", 422, f"there is no {digest} in your store", field="blobs")
            (job.directory / name).write_bytes(self.fake.blobs[digest])
        threading.Thread(target=job.run, daemon=True).start()

    def _enter(self, scan: str, number: int, point: Doc | None) -> Job:
        id = f"j-{len(self.fake.jobs) + 1}"  # noqa: A001
        keys = ("name", "environment", "cpus", "memory", "time_limit", "gpu", "backend", "retries", "after", "priority")
        doc: Doc = {"id": id, "kind": "job", "user": "alice", "state": "pending", "phase": "pending", "outcome": None}
        doc.update({key: self.body[key] for key in keys if key in self.body})
        doc["request"] = scan or id
        job = Job(doc, self.body, Path(tempfile.mkdtemp(dir=self.fake.directory)))
        job.inputs |= {*self.body.get("blobs", {})}
        job.extra = self.fake.outcome
        if point is not None:
            doc.update(scan=scan, point=number, parameters=point["parameters"])
            text = json.dumps(point["parameters"])
            job.environment = {**point["parameters"], "SLIPWAY_PARAMETERS": text, "SLIPWAY_POINT": str(number)}
        self.fake.jobs[id] = job
        return job

    def delete_jobs(self, id: str) -> None:
        del self.fake.jobs[id]
        self.send_response(204)
        self.end_headers()
