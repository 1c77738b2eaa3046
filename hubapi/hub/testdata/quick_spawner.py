"""What the tests of the client add to the configuration of a Hub."""

import asyncio

from jupyterhub.spawner import Spawner


class QuickSpawner(Spawner):
    """Servers that are doors within the Hub and answer everything."""

    door = None

    async def start(self):
        options = self.user_options or {}
        await asyncio.sleep(options.get("seconds", 0.5))
        if "fail" in options:
            failure = RuntimeError(options["fail"])
            failure.jupyterhub_message = options["fail"]
            raise failure
        self.door = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        return self.door.sockets[0].getsockname()[:2]

    async def answer(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def poll(self):
        return None if self.door else 0

    async def stop(self, now=False):
        if self.door:
            self.door.close()
        self.door = None

    async def progress(self):
        yield {"progress": 50, "message": "half of " + str((self.user_options or {}).get("profile"))}


c = get_config()  # noqa: F821 - JupyterHub provides it
c.JupyterHub.spawner_class = QuickSpawner
c.JupyterHub.api_page_max_limit = 2
c.JupyterHub.named_server_limit_per_user = 3
c.JupyterHub.services += [
    {"name": "bench", "api_token": "token-of-the-tests-of-the-client"},
    {"name": "narrow", "api_token": "token-of-the-service-that-sees-little"},
]
c.JupyterHub.load_roles += [
    {
        "name": "bench",
        "services": ["bench"],
        "scopes": ["admin:users", "admin:servers", "tokens", "shares", "access:servers", "groups", "list:groups"],
    },
    {"name": "narrow", "services": ["narrow"], "scopes": ["list:users!user=alice", "read:servers!user=alice"]},
]
