"""Where the data is."""

from __future__ import annotations

import pytest

from fake import FakeService
from slipway import InvalidError, data
from slipway._client import Client


@pytest.fixture
def _here(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_SOCKET", service.socket)


@pytest.mark.usefixtures("_here")
def test_urls() -> None:
    assert data.url("eos:run 7/a+b.root") == "root://cache.example.org//eos:run 7/a+b.root"
    assert data.url("eos:a", write=True) == data.url("eos:a", direct=True) == "root://eos.example.org//eos:a"
    place = data.locate("eos:a")
    assert (str(place), place.cached, place.origin) == (place.url, True, "root://eos.example.org//eos:a")


def test_what_hides_in_names_is_refused(client: Client) -> None:
    with pytest.raises(InvalidError) as refused:
        client.data_url("eos:a?authz=x")
    assert refused.value.field == "lfn"
    assert "question mark" in str(refused.value)


def test_elements(client: Client, service: FakeService) -> None:
    mount = {"path": "/storage/eos.cached", "cached": True, "trouble": None}
    service.storage = [
        {"name": "eos", "cache": "root://cache.example.org", "cache_up": True, "write": 1, "mounts": [mount, 7]},
        {},
    ]
    eos, other = client.storage()
    assert (eos.name, eos.cache_up, eos.write) == ("eos", True, True)
    assert eos.mounts == (data.Mount("/storage/eos.cached", cached=True),)
    assert other == data.Storage()
