"""The roles of deploy/hub/jupyterhub_config.py in a real Hub: what Slipway's own token may do there, and what not.

Also the roles of the file that ``slipway init`` makes, beside those that a site has already.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jupyterhub.app import JupyterHub
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from conftest import ROOT
from fake import FakeService
from hub import Hub
from test_spawner import ready, start

SECRETS = {name: f"{name}-0123456789-0123456789-0123456789" for name in ("service-token", "check-token")}


@pytest.fixture
def own(tmp_path: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The services and roles of the file as it is shipped."""
    for name in ("proxy-token", "password", "spawner-token"):
        (tmp_path / name).write_text("x")
    for name, secret in SECRETS.items():
        (tmp_path / name).write_text(secret)
    for name in ("SLIPWAY_HUB_PORT", "SLIPWAY_HUB_API_PORT", "SLIPWAY_HUB_PROXY_PORT", "SLIPWAY_HUB_PROXY"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLIPWAY_HUB_DIR", str(tmp_path))
    monkeypatch.setenv("SLIPWAY_SERVICE_URL", service.url)
    loaded = PyFileConfigLoader(str(ROOT / "deploy" / "hub" / "jupyterhub_config.py")).load_config()
    return Config(JupyterHub={key: loaded.JupyterHub[key] for key in ("services", "load_roles")})


@pytest.fixture
async def hub(tmp_path: Path, service: FakeService, own: Config) -> AsyncIterator[Hub]:
    hub = await Hub(tmp_path, service, own=own).up()
    async with hub.api() as api:
        (await api.post("/users", json={"usernames": ["alice", "bob"]})).raise_for_status()
    yield hub
    await hub.down()


async def test_it_sees_what_runs_and_no_more(hub: Hub, service: FakeService) -> None:
    await start(hub, {})
    await ready(hub)
    await start(hub, {}, server="two")
    await ready(hub, "two")
    async with hub.api(SECRETS["service-token"]) as api:
        pages = {"Accept": "application/jupyterhub-pagination+json"}
        doc = (await api.get("/users?state=active&limit=1", headers=pages)).raise_for_status().json()
        assert [(user["name"], set(user["servers"])) for user in doc["items"]] == [("alice", {"", "two"})]
        server = doc["items"][0]["servers"][""]
        assert server["ready"]
        assert "state" not in server
        assert "auth_state" not in doc["items"][0]


async def test_it_tells_what_is_in_use(hub: Hub, service: FakeService) -> None:
    await start(hub, {})
    await ready(hub)
    stamp = "2036-01-01T00:00:00Z"
    async with hub.api(SECRETS["service-token"]) as api:
        body: dict[str, Any] = {"servers": {"": {"last_activity": stamp}}}
        assert (await api.post("/users/alice/activity", json=body)).status_code == 400  # in the future
        body["servers"][""]["last_activity"] = "2026-01-01T00:00:00Z"
        assert (await api.post("/users/alice/activity", json=body)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/users/alice/tokens"),
        ("DELETE", "/users/bob"),
        ("POST", "/users/mallory"),
        ("PATCH", "/users/bob"),
        ("POST", "/shutdown"),
        ("GET", "/proxy"),
        ("POST", "/groups/mallories"),
    ],
)
async def test_it_may_nothing_else(hub: Hub, service: FakeService, method: str, path: str) -> None:
    await start(hub, {})
    await ready(hub)
    async with hub.api(SECRETS["service-token"]) as api:
        assert (await api.request(method, path, json={"admin": True})).status_code in (403, 404)
    assert "mallory" not in hub.app.users
    assert hub.spawner().ready


async def test_the_proxy_carries_its_pages(hub: Hub, service: FakeService) -> None:
    await hub.app.proxy.check_routes(hub.app.users, hub.app._service_map)
    assert hub.app.proxy.routes["/services/slipway/"]["target"] == service.url
    async with httpx.AsyncClient(base_url=hub.base) as browser:
        asked = {
            "client_id": "service-slipway",
            "redirect_uri": "/services/slipway/oauth_callback",
            "response_type": "code",
        }
        answer = await browser.get("/hub/api/oauth2/authorize", params=asked)
        assert answer.status_code == 302  # to the login, so the client is known
    page = await hub.browser()
    answer = await page.get("/hub/api/oauth2/authorize", params=asked)
    assert answer.status_code == 302  # back with a code, and no question
    assert answer.headers["Location"].startswith("/services/slipway/oauth_callback?code=")
    await page.aclose()


SERVICE_ROLE = {
    "name": "slipway",
    "services": ["slipway"],
    "scopes": ["list:users", "servers", "users:activity", "list:groups", "read:groups"],
}
ACCESS = "access:services!service=slipway"


@pytest.mark.parametrize(
    ("own_roles", "user_scopes"),
    [
        ("", ["self", ACCESS]),
        ("c.JupyterHub.load_roles = [{'name': 'user', 'scopes': ['self', 'shares']}]", ["self", "shares", ACCESS]),
        ("c.JupyterHub.load_roles.append({'name': 'user', 'description': 'People'})", ["self", ACCESS]),
        ("c.JupyterHub.load_roles = [{'name': 'other', 'scopes': []}]", ["self", ACCESS]),
    ],
)
def test_what_init_makes_adds_to_roles(tmp_path: Path, own_roles: str, user_scopes: list[str]) -> None:
    template = (ROOT / "internal" / "setup" / "jupyterhub_slipway.py.tmpl").read_text()
    values = {"Hub": tmp_path / "part.py", "Address": "http://service"}
    values |= {name: tmp_path / name for name in ("SpawnerToken", "ServiceToken")}
    (tmp_path / "ServiceToken").write_text("a secret\n")
    part = re.sub(r"{{quoted \.(\w+)}}", lambda m: f'"{values[m[1]]}"', template)
    (tmp_path / "part.py").write_text(part)
    line = re.search(r"^ +(exec\(.+)$", part, re.MULTILINE)
    assert line
    (tmp_path / "hub.py").write_text(f"c = get_config()\n{own_roles}\n{line[1]}\n")
    loaded = PyFileConfigLoader(str(tmp_path / "hub.py")).load_config().JupyterHub
    hub = JupyterHub(config=Config(JupyterHub={key: loaded[key] for key in ("services", "load_roles")}))
    users = [role["scopes"] for role in hub.load_roles if role["name"] == "user"]
    assert users == [user_scopes]
    assert SERVICE_ROLE in hub.load_roles
    assert [service["api_token"] for service in hub.services] == ["a secret"]
