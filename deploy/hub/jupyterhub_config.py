"""JupyterHub in front of Slipway: the demo's configuration, and the pattern for a site's own.

Everything that differs between two Hubs on one machine comes from the environment, which
``deploy/demo`` sets. A site replaces the authenticator, the addresses and the paths, and keeps the
parts marked "Slipway".
"""

import os
from pathlib import Path

import jupyterhub

c = get_config()  # noqa: F821 - JupyterHub provides it

state = Path(os.environ["SLIPWAY_HUB_DIR"])  # the database and the secrets; belongs to the Hub alone


def secret(name: str) -> str:
    """Read one of the secrets that the demo has made: a file for its owner only."""
    return (state / name).read_text().strip()


# Addresses. Nothing listens beyond this machine.
c.JupyterHub.bind_url = f"http://127.0.0.1:{os.environ['SLIPWAY_HUB_PORT']}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{os.environ['SLIPWAY_HUB_API_PORT']}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{os.environ['SLIPWAY_HUB_PROXY_PORT']}"
c.ConfigurableHTTPProxy.command = [os.environ["SLIPWAY_HUB_PROXY"]]
c.ConfigurableHTTPProxy.pid_file = str(state / "proxy.pid")
# A file, so that a Hub that was killed finds the proxy that it had started.
c.ConfigurableHTTPProxy.auth_token = secret("proxy-token")

c.JupyterHub.db_url = f"sqlite:///{state / 'hub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(state / "cookie-secret")

# The demo lets in anybody who knows its password. A site puts its own authenticator here.
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = secret("password")
c.Authenticator.allow_all = True

# Slipway: its Spawner, which asks the service for everything.
c.JupyterHub.spawner_class = "slipway.spawner.SlipwaySpawner"
c.SlipwaySpawner.service_url = os.environ["SLIPWAY_SERVICE_URL"]
c.SlipwaySpawner.token_file = str(state / "spawner-token")
c.SlipwaySpawner.default_url = "/lab"
c.JupyterHub.allow_named_servers = True
# A start waits for a free slice and for an image, and says so meanwhile: it is not to be cut short.
c.Spawner.start_timeout = 600
# The service answers only when JupyterLab does, so the Hub's own probe succeeds at once.
c.Spawner.http_timeout = 60

# Slipway: a service of that name. Tokens are given access to it and to nothing else, and the Hub's proxy
# carries /services/slipway/ to the pages that it has there. Who logs in to the Hub is known to them
# without being asked again. "check" is what `demo --check` acts as.
c.JupyterHub.services = [
    {
        "name": "slipway",
        "api_token": secret("service-token"),
        "url": os.environ["SLIPWAY_SERVICE_URL"],
        "oauth_no_confirm": True,
        # JupyterHub 6 waits 30 s at its start for a service that is down; users' servers need not.
        **({"timeout": 1} if jupyterhub.version_info >= (6,) else {}),
    },
    {"name": "check", "api_token": secret("check-token")},
]
c.JupyterHub.load_roles = [
    {
        "name": "user",
        "description": "Users: their own things, and Slipway as themselves",
        "scopes": ["self", "access:services!service=slipway"],
    },
    {
        "name": "slipway",
        "description": "Slipway: sees servers and groups, tells the Hub of activity, starts servers for who asks",
        "services": ["slipway"],
        "scopes": ["list:users", "servers", "users:activity", "list:groups", "read:groups"],
    },
    {
        "name": "check",
        "description": "The demo's check: makes a user, its servers and its tokens",
        "services": ["check"],
        "scopes": ["admin:users", "admin:servers", "tokens", "access:servers", "access:services!service=slipway"],
    },
]
