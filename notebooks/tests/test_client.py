"""The client over both ways to the service, and through its faults."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import slipway
from conftest import ROOT
from fake import TOKEN, Drop, FakeService, Fault, unavailable
from slipway import (
    Client,
    Environment,
    Event,
    Explanation,
    FreezeStep,
    GPUs,
    Job,
    JobHandle,
    MissingError,
    Profile,
    Queue,
    Scan,
    ScanChange,
    Session,
    Stops,
    Target,
    UnavailableError,
)
from slipway._decode import decode
from slipway._errors import TABLE, Detail, from_body, from_status
from slipway._transport import Outage, digest, find_target, pieces

TESTDATA = ROOT / "hubapi" / "testdata"


def submit(client: Client, code: str, **more: object) -> Job:
    options = {"environment": "sha256:1", "argv": [sys.executable, "-u", "-c", code], "name": "t", **more}
    return client.submit(**options)  # type: ignore[arg-type]


def read(client: Client, job: Job, start: int = 0, follow: bool = True) -> bytes:
    return b"".join(client.job_log(job.id, start=start, follow=follow))


# --- where the service is


def test_target_prefers_the_session_socket(tmp_path: Path) -> None:
    socket, token = tmp_path / "sock", tmp_path / "token"
    socket.touch()
    token.write_text("t2\n")
    outside = {"SLIPWAY_URL": "http://x/", "SLIPWAY_TOKEN": "t"}
    none = str(tmp_path / "none")
    assert find_target({"SLIPWAY_SOCKET": "/s", **outside}, none) == Target(socket="/s")
    assert find_target(outside, str(socket)) == Target(socket=str(socket))
    assert find_target(outside, none) == Target(url="http://x", token="t")
    by_file = {"SLIPWAY_URL": "http://x", "SLIPWAY_TOKEN_FILE": str(token)}
    assert find_target(by_file, none) == Target(url="http://x", token="t2")


@pytest.mark.parametrize("env", [{}, {"SLIPWAY_URL": "http://x"}, {"SLIPWAY_TOKEN": "t"}])
def test_no_target_says_what_to_set(env: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(MissingError) as caught:
        find_target(env, str(tmp_path / "none"))
    assert "SLIPWAY_TOKEN" in str(caught.value)
    assert "SLIPWAY_URL" in str(caught.value)


def test_the_token_is_never_shown() -> None:
    target = Target(url="http://x", token="sesame")
    assert "sesame" not in repr(target)
    assert "sesame" not in repr(Client(target))


# --- errors


def test_table_is_the_services() -> None:
    rows = {row["code"]: row["status"] for row in json.loads((TESTDATA / "errors.json").read_text())}
    assert {code: kind.status for code, kind in TABLE.items()} == rows


@pytest.mark.parametrize("code", TABLE)
def test_every_code_has_its_exception(code: str) -> None:
    error = from_body({"error": {"code": code, "message": "no", "field": "memory", "remedy": "at most 8G"}})
    assert type(error) is TABLE[code]
    assert error is not None
    assert (error.code, error.field, str(error)) == (code, "memory", "no: at most 8G")


def test_unknown_codes_and_foreign_answers() -> None:
    newer = from_body({"error": {"code": "too_new", "message": "no"}})
    assert isinstance(newer, slipway.InternalError)
    assert newer.code == "too_new"
    assert from_body({"detail": "x"}) is None
    assert from_body([1]) is None
    assert isinstance(from_status(502, "GET /x"), UnavailableError)
    assert isinstance(from_status(404, "GET /x"), slipway.NotFoundError)
    assert isinstance(from_status(418, "GET /x"), slipway.InternalError)


def test_a_refusal_carries_field_and_remedy(client: Client) -> None:
    with pytest.raises(slipway.NotFoundError) as caught:
        client.environment("nope")
    assert caught.value.field == "environment"
    assert caught.value.remedy == "see slipway envs"


def test_a_wrong_token_is_refused(service: FakeService) -> None:
    with Client(Target(url=service.url, token="wrong")) as client, pytest.raises(slipway.UnauthorizedError):
        client.me()


def test_an_answer_that_is_no_json(client: Client, service: FakeService) -> None:
    service.bad_json = True
    with pytest.raises(slipway.InternalError, match="not a JSON object"):
        client.me()


# --- every route


def test_reading_routes(client: Client, service: FakeService) -> None:
    service.session(user="alice", name="", launch="l")
    service.in_session = "s-1"
    assert client.me().session == "s-1"
    assert client.profiles()[0].images[0].title == "Python"
    assert [session.id for session in client.sessions(name="")] == ["s-1"]
    assert client.sessions(name="other") == []
    assert client.session().id == "s-1"
    assert client.wait_session("s-1").phase == "running"
    assert client.session_log() == "one\ntwo\n"
    assert client.environments()[0].tag == "1"
    assert client.environment("gpu:1").short == "cd" * 6
    assert client.stop_session("s-1").ended
    client.discard_session("s-1")
    assert service.sessions == {}


def test_keep(client: Client, service: FakeService) -> None:
    stops = {"at": "2026-11-21T14:32:00Z", "why": "idle for 1 h 50 min", "can_keep": True, "max_keep": "24h0m0s"}
    service.session(id="s-self", stops=stops)
    assert client.session().stops == Stops(**stops)  # type: ignore[arg-type]
    kept = client.keep("4h")
    assert (kept.keep_until, kept.stops) == ("2036-11-21T18:00:00Z", None)
    with pytest.raises(slipway.InvalidError, match="too long: at most 24h"):
        client.keep("99h", "s-self")
    service.sessions["s-self"]["phase"] = "stopped"
    with pytest.raises(slipway.ConflictError):
        client.keep("4h")


def test_queue_room_and_page() -> None:
    queue = {"place": 3, "lacks": "a slice", "estimate": 240}
    made = decode(Session, {"id": "s-1", "queue": queue, "page": "/services/slipway/sessions/s-1", "stops": None})
    assert (made.queue, made.page, made.stops) == (Queue(3, "a slice", 240), "/services/slipway/sessions/s-1", None)
    assert decode(Session, {"id": "s-1", "page": None}).page == ""
    image = {"name": "py", "active": 4}
    profile = decode(Profile, {"name": "a", "free": 0, "most": 7, "lacks": "slices", "waiting": 2, "images": [image]})
    assert (profile.free, profile.most, profile.lacks, profile.waiting, profile.estimate) == (0, 7, "slices", 2, -1)
    assert profile.images[0].active == 4
    assert decode(Profile, {"name": "a"}).free == -1


def test_a_job_from_submit_to_delete(client: Client) -> None:
    job = submit(client, "open('out.txt','w').write('x'); print('hi')", cpus=2, memory="1G")
    assert read(client, job) == b"hi\n"
    events = list(client.job_events(job.id))
    assert [event.message for event in events] == ["queued", "running", "done"]
    assert events[-1].final
    done = client.job(job.id)
    assert (done.state, done.cpus, done.memory) == ("done", 2, "1G")
    assert done.outcome is not None
    assert done.outcome.exit_code == 0
    assert [(file.name, file.size) for file in client.job_files(job.id)] == [("out.txt", 1)]
    assert client.job_file(job.id, "out.txt") == b"x"
    assert [job.id for job in client.jobs()] == [job.id]
    client.delete_job(job.id)
    assert client.jobs() == []


def test_cancel(client: Client) -> None:
    job = submit(client, "import time; print('up'); time.sleep(60)")
    next(client.job_log(job.id, follow=True))
    client.cancel_job(job.id)
    assert list(client.job_events(job.id))[-1].failed
    assert client.job(job.id).state == "canceled"


def test_large_files_go_through_the_store(client: Client, service: FakeService) -> None:
    job = submit(client, "print(len(open('a').read()))", files={"a": b"x" * 4_000_000, "b": b"y"})
    assert b"".join(client.job_log(job.id, follow=True)) == b"4000000\n"
    assert list(service.jobs[job.id].body["blobs"]) == ["a"]
    assert service.count("PUT", "/blobs/sha256:") == 1


def test_an_upload_is_streamed_and_repeated(client: Client, service: FakeService) -> None:
    told = list[int]()
    with tempfile.TemporaryFile() as file:
        for _ in range(30):
            file.write(os.urandom(1 << 20))
        service.fail("PUT", Fault("busy", 429, "you have much under way"))
        client.put_blob(digest(file), file, told.append)
        assert service.blobs == {digest(file): b"".join(pieces(file))}
    assert len(told) > 100
    assert max(told) == 30 << 20
    assert service.headers[-1]["Content-Length"] == str(30 << 20)


def test_many_points_go_through_the_store(client: Client, service: FakeService) -> None:
    points = [{"k": "x" * 100_000, "n": str(n)} for n in range(3)]
    scan, _ = client.submit_scan(points, environment="sha256:e", argv=["true"])
    assert scan.points == 3
    assert service.count("PUT", "/blobs/sha256:") == 1


# --- faults


def test_requests_outlast_short_faults(client: Client, service: FakeService, notices: list[str]) -> None:
    service.fail("GET /api/v1/me", unavailable(), Drop(), Fault("unavailable", 502, "gateway"), 0.1)
    assert client.me().user == "alice"
    assert len(notices) == 2
    assert "trying again for up to 5 s" in notices[0]
    assert notices[1] == "slipway: the service answers again"


def test_patience_ends(service: FakeService, notices: list[str]) -> None:
    service.down()
    with Client(Target(socket=service.socket), patience=0.5, notice=notices.append) as client:
        begun = time.monotonic()
        with pytest.raises(UnavailableError, match="does not answer"):
            client.me()
        assert time.monotonic() - begun < 3
    assert len(notices) == 1


def test_other_errors_are_not_repeated(client: Client, service: FakeService) -> None:
    service.fail("/me", Fault("no_capacity", 503, "all slices are taken"))
    with pytest.raises(slipway.NoCapacityError):
        client.me()
    assert service.count("GET", "/me") == 1


def test_a_job_is_submitted_once(client: Client, service: FakeService) -> None:
    service.fail("after submit", Drop(), unavailable())
    job = submit(client, "print(1)")
    assert service.count("POST", "/jobs") == 3
    assert list(service.jobs) == [job.id]


def test_events_go_on_where_they_broke(client: Client, service: FakeService) -> None:
    service.drop_events_after = 1
    job = submit(client, "pass")
    assert [event.message for event in client.job_events(job.id)] == ["queued", "running", "done"]
    assert service.count("GET", "/events") == 3
    assert "2" in [headers.get("Last-Event-ID") for headers in service.headers]


@pytest.mark.parametrize("fault", ["drop_log_after", "end_log_after"])
def test_the_log_goes_on_at_its_byte(client: Client, service: FakeService, fault: str) -> None:
    setattr(service, fault, 700)
    job = submit(client, "print('é' * 1000)")
    assert read(client, job).decode() == "é" * 1000 + "\n"
    assert service.count("GET", "/log") >= 2
    assert read(client, job, start=1998, follow=False).decode() == "é\n"


def test_the_log_of_the_next_try_is_another(client: Client, service: FakeService, tmp_path: Path) -> None:
    service.end_log_after = 700
    code = (
        f"import os, sys\nmark = {str(tmp_path / 'tried')!r}\nsecond = os.path.exists(mark)\nopen(mark, 'w').close()\n"
    )
    job = submit(client, code + "print(('second ' if second else 'first ') * 200)\nsys.exit(not second)")
    stream = client.job_log(job.id, follow=True)
    assert next(stream).startswith(b"first first")
    service.wait_jobs()
    client.retry_job(job.id)
    service.end_log_after = 0
    rest = b"".join(stream)
    assert rest.endswith(b"second " * 200 + b"\n")
    assert rest.count(b"second ") == 200


def test_a_restart_of_the_service_while_watching(client: Client, service: FakeService) -> None:
    job = submit(client, "import time\nfor i in range(8): print(i); time.sleep(0.1)")

    def restart() -> None:
        time.sleep(0.25)
        service.down()
        time.sleep(0.4)
        service.up()

    thread = threading.Thread(target=restart)
    thread.start()
    assert read(client, job) == b"0\n1\n2\n3\n4\n5\n6\n7\n"
    thread.join()


def test_freeze_tells_its_steps(client: Client) -> None:
    steps: list[FreezeStep] = []
    environment = client.freeze(progress=steps.append)
    assert [(step.stage, step.percent, step.bytes) for step in steps] == [("squash", 40, 1_000_000)]
    assert not environment.unchanged
    assert client.freeze().unchanged


def test_freeze_is_asked_for_again(client: Client, service: FakeService) -> None:
    service.freeze_stream = [("progress", {"stage": "a"}), ("drop", {})]
    threading.Timer(0.3, lambda: setattr(service, "freeze_stream", None)).start()
    service.fail("freeze", 0.0, Fault("conflict", 409, "a freeze of this session is running"))
    assert client.freeze().digest.startswith("sha256:ab")
    assert service.freezes >= 2


def test_freeze_shows_its_error(client: Client, service: FakeService) -> None:
    service.freeze_stream = [("error", {"error": {"code": "no_space", "message": "disk full", "remedy": "delete"}})]
    with pytest.raises(slipway.NoSpaceError, match="disk full: delete"):
        client.freeze()
    service.fail("freeze", Fault("conflict", 409, "the session has stopped"))
    with pytest.raises(slipway.ConflictError):
        client.freeze()


# --- GPUs


def test_gpus_are_listed(client: Client, service: FakeService) -> None:
    offer = {"name": "1g.18gb", "free": 0, "most": 14, "isolation": "hardware"}
    share = {"name": "mps:25%/20G", "free": 3, "most": 4, "isolation": "<process>"}
    idle = {
        "index": 0,
        "uuid": "GPU-1",
        "memory_used": None,
        "utilisation": None,
        "power": 0,
        "offers": None,
        "slices": [1],
    }
    service.gpus = {
        "simulated": True,
        "problem": "no answer",
        "taken": "noon",
        "offers": [offer, share],
        "gpus": [idle],
    }
    gpus = client.gpus()
    assert repr(gpus).splitlines() == [
        "ask for      free  of  isolation",
        "1g.18gb      0     14  hardware",
        "mps:25%/20G  3     4   <process>",
        "no answer; this is of noon",
        "these GPUs are simulated: no such hardware exists",
    ]
    assert "<td>&lt;process&gt;</td>" in gpus._repr_html_()
    (gpu,) = gpus.gpus
    assert (gpu.utilisation, gpu.memory_used, gpu.power, gpu.offers, gpu.slices) == (None, None, 0, (), ())
    service.gpus["offers"] = []
    assert "nothing can be asked for now" in repr(client.gpus())
    assert "<table>" not in client.gpus()._repr_html_()


def test_what_is_held_is_told(client: Client) -> None:
    held = {
        "name": "1g.18gb",
        "model": "NVIDIA H200",
        "borrowed": True,
        "simulated": True,
        "use": {"sm": None, "peak": 5},
    }
    job = decode(Job, {"id": "j-1", "state": "running", "gpu": "1g.18gb", "slice": held, "requeued": 2})
    assert job.slice is not None
    assert (job.slice.use.sm, job.slice.use.memory, job.slice.use.peak) == (None, None, 5)
    line = "job (no name) j-1: running, on 1g.18gb of NVIDIA H200 (simulated), borrowed, put back in line 2x"
    assert repr(JobHandle(client, job)) == f"<{line}>"
    assert decode(Job, {"id": "j-1", "slice": None}).slice is None


# --- the shared examples


@pytest.mark.parametrize("kind", [Session, Job, Environment])
def test_models_take_anything_missing_or_new(kind: type[Session | Job | Environment]) -> None:
    key = "digest" if kind is Environment else "id"
    made = decode(kind, {key: "x", "brand_new": {"a": 1}, "outcome": None})
    assert getattr(made, key) == "x"


NAMES = {"with": "with_"}
"""Keys that are words of Python's own."""

EXAMPLES: dict[str, Any] = {
    "session.json": Session,
    "job.json": Job,
    "point.json": Job,
    "scan.json": Scan,
    "change.json": ScanChange,
    "why.json": Explanation,
    "environment.json": Environment,
    "event.json": Event,
    "profile.json": Profile,
    "gpus.json": GPUs,
    "waiting.json": Session,
    "plan.json": slipway.JobPlan,
    "point-event.json": slipway.PointEvent,
    "jobs-usage.json": slipway.JobsUsage,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_shared_example(name: str) -> None:
    doc = json.loads((TESTDATA / name).read_text())
    made = decode(EXAMPLES[name], doc)
    assert_same(made, doc)


def assert_same(made: object, doc: dict[str, object]) -> None:
    doc = {NAMES.get(key, key): value for key, value in doc.items()}
    assert all(hasattr(made, key) for key in doc), "the service says what the client does not read"
    for key, value in doc.items():
        read = getattr(made, key)
        if isinstance(read, Mapping):
            assert read == value, key
        elif isinstance(value, dict):
            assert_same(read, value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            assert len(read) == len(value), key
            for one, item in zip(read, value, strict=True):
                assert_same(one, item)
        elif isinstance(value, str | int | float):
            assert read == value, key
        elif value is None:
            assert read in (None, ""), key


def test_shared_error() -> None:
    doc = json.loads((TESTDATA / "error.json").read_text())
    error = from_body(doc)
    assert error is not None
    details = doc["error"].pop("details")
    assert {key: getattr(error, key) for key in doc["error"]} == doc["error"]
    assert [Detail(**detail) for detail in details] == list(error.details)
    assert str(error).endswith(": /opt/a.pem line 3: a private key; and 2 more: at most 8G")


def test_module_functions(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_SOCKET", service.socket)
    with Client() as client:
        job = submit(client, "print(1)")
    assert slipway.job(job.id).wait(10).state == "done"
    assert [handle.id for handle in slipway.jobs()] == [job.id]
    assert slipway.environments()[0].name == "gpu"
    assert repr(slipway.gpus()) == "this site has no GPUs"
    service.session(id="s-self")
    assert slipway.session().keep_until == ""
    assert slipway.keep().keep_until == "2036-11-21T18:00:00Z"
    assert TOKEN not in repr(slipway.jobs())


def test_an_answer_from_before_an_outage_does_not_end_it() -> None:
    told: list[str] = []
    outage = Outage(told.append)
    outage.begin("away")
    outage.end(time.monotonic() - 60)
    outage.begin("away")
    assert told == ["away"]
    outage.end(time.monotonic())
    assert told == ["away", "slipway: the service answers again"]
