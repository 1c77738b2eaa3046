"""A real JupyterHub in this process, without a proxy: its API and its pages are asked directly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from jupyterhub.app import JupyterHub
from jupyterhub.proxy import Proxy
from sqlalchemy import Engine, event
from traitlets.config import Config

from fake import TOKEN, FakeService
from ports import free_port

ADMIN = "admin-token-for-the-tests-0123456789"


@event.listens_for(Engine, "connect")
def leave_it_to_the_system(connection: Any, record: Any) -> None:
    """No test cuts the power: what a Hub writes need not be on disk before it goes on."""
    connection.execute("PRAGMA synchronous = OFF")


class NoProxy(Proxy):  # type: ignore[misc]
    """Keeps the routes and routes nothing."""

    should_start = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.routes: dict[str, dict[str, Any]] = {}

    async def add_route(self, routespec: str, target: str, data: dict[str, Any]) -> None:
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": data}

    async def delete_route(self, routespec: str) -> None:
        self.routes.pop(routespec, None)

    async def get_all_routes(self) -> dict[str, dict[str, Any]]:
        return self.routes


class Hub:
    """A Hub over a database file; a second one over the same file is a restarted Hub."""

    def __init__(self, directory: Path, service: FakeService, own: Config | None = None, **spawner: Any) -> None:
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        token_file = directory / "spawner.token"
        token_file.write_text(TOKEN + "\n")
        config = Config()
        config.JupyterHub.update(
            spawner_class="slipway",
            authenticator_class="dummy",
            proxy_class=NoProxy,
            hub_port=self.port,
            bind_url="http://127.0.0.1:1",
            db_url=f"sqlite:///{directory}/hub.sqlite",
            cookie_secret=b"0" * 32,
            allow_named_servers=True,
            cleanup_servers=False,
            cleanup_proxy=False,
            log_level=30,
            services=[{"name": "tests", "api_token": ADMIN}],
            load_roles=[{"name": "tests", "scopes": ["admin:users", "admin:servers"], "services": ["tests"]}],
            tornado_settings={"slow_spawn_timeout": 0, "slow_stop_timeout": 10},
        )
        config.Authenticator.update(allow_all=True)
        config.DummyAuthenticator.update(password="pw")
        config.SlipwaySpawner.update(
            service_url=service.url, token_file=str(token_file), start_timeout=8, http_timeout=5, **spawner
        )
        for key, values in (own or Config()).get("JupyterHub", {}).items():  # a site's, beside the tests' own
            config.JupyterHub[key] = [*config.JupyterHub.get(key, []), *values]
        self.app = JupyterHub(config=config)
        empty = directory / "jupyterhub_config.py"
        empty.touch()
        self.argv = ["--config", str(empty)]

    async def up(self) -> Hub:
        await self.app.initialize(self.argv)
        await self.app.start()
        return self

    async def down(self) -> None:
        """End as a killed Hub does: servers and database stay as they are."""
        for user in self.app.users.values():
            for spawner in user.spawners.values():
                spawner.stop_polling()
        self.app.http_server.stop()
        await self.app.http_server.close_all_connections()
        for callback in self.app._periodic_callbacks.values():
            callback.stop()
        self.app._atexit_ran = True
        self.app.db.close()
        JupyterHub.clear_instance()

    def spawner(self, user: str = "alice", server: str = "") -> Any:
        return self.app.users[user].spawners[server]

    def api(self, token: str = ADMIN) -> httpx.AsyncClient:
        headers = {"Authorization": f"token {token}"}
        return httpx.AsyncClient(base_url=self.base + "/hub/api", headers=headers, timeout=20)

    async def browser(self, user: str = "alice") -> httpx.AsyncClient:
        """Log in as a person does."""
        page = httpx.AsyncClient(base_url=self.base, timeout=20)
        await page.get("/hub/login")
        form = {"username": user, "password": "pw", "_xsrf": page.cookies["_xsrf"]}
        answer = await page.post("/hub/login", params={"_xsrf": page.cookies["_xsrf"]}, data=form)
        assert answer.status_code == 302, answer.text
        await page.get("/hub/home")
        return page
