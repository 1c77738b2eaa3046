"""What the tests share."""

from __future__ import annotations

import gc
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake import TOKEN, FakeService
from slipway import Client, Target

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def settled() -> None:
    """Let be what there is by now: the end of each of IPython's shells looks at all memory there is."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def service() -> Iterator[FakeService]:
    """A fake service, up."""
    with tempfile.TemporaryDirectory() as directory:  # short: a socket's path may have 107 bytes
        fake = FakeService(Path(directory))
        yield fake
        fake.down()


@pytest.fixture
def notices() -> list[str]:
    """What the client has told its user."""
    return []


@pytest.fixture(params=["unix", "tcp"])
def target(request: pytest.FixtureRequest, service: FakeService) -> Target:
    """The two ways to the service."""
    return Target(socket=service.socket) if request.param == "unix" else Target(url=service.url, token=TOKEN)


@pytest.fixture
def client(service: FakeService, target: Target, notices: list[str]) -> Iterator[Client]:
    """A client over each of the two ways."""
    with Client(target, patience=5, notice=notices.append) as client:
        yield client


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of this address, signed by itself, and its key."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=test"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*make, *names], check=True, capture_output=True)
    return cert, key
