"""The configuration of a test's Hub. What differs between two Hubs is in settings.json beside the copy of this file."""

import base64
import json
from pathlib import Path

c = get_config()  # noqa: F821 - JupyterHub provides it

here = Path(__file__).parent
s = json.loads((here / "settings.json").read_text())

c.JupyterHub.bind_url = s["bind_url"]
c.JupyterHub.hub_bind_url = s["hub_bind_url"]
# The proxy is a process of its own: it outlives a Hub that is killed, as at a site.
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = s["proxy_api_url"]
c.ConfigurableHTTPProxy.auth_token = s["proxy_token"]
c.JupyterHub.db_url = f"sqlite:///{here / 'hub.sqlite'}"
c.JupyterHub.cookie_secret = bytes.fromhex(s["cookie_secret"])
# A Hub that ends in order leaves its servers alone, too: tests stop them one by one.
c.JupyterHub.cleanup_servers = False
c.JupyterHub.cleanup_proxy = False
c.JupyterHub.allow_named_servers = True
c.JupyterHub.redirect_to_server = False  # logging in starts nothing
# The API answers a start at once: what the tests see is what the service does.
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 0, "slow_stop_timeout": 0}

c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = s["password"]
c.Authenticator.allow_all = True
c.Authenticator.admin_users = {s["admin"]}

# A Hub of version 6 waits half a minute for a service with a page that does not answer, unless it is told not to.
patience = {"timeout": 1} if s["major"] == "6" else {}
c.JupyterHub.services = [
    {
        **patience,
        "name": "slipway",
        "api_token": s["service_token"],
        "url": s["service_url"],
        "oauth_client_id": "service-slipway",
        "oauth_no_confirm": True,
    },
    {"name": "tests", "api_token": s["tests_token"]},
]
c.JupyterHub.custom_scopes = {
    "custom:outpostflavors:set": {"description": "Say which flavors an Outpost has"},
    "custom:servers:list": {"description": "List the servers of an Outpost"},
}
c.JupyterHub.load_roles = [
    {"name": "user", "scopes": ["self", "access:services!service=slipway"]},
    {
        "name": "slipway",
        "services": ["slipway"],
        "scopes": ["list:users", "servers", "users:activity", "list:groups", "read:groups", "custom:outpostflavors:set"],
    },
    {
        "name": "tests",
        "services": ["tests"],
        "scopes": ["admin:users", "admin:groups", "admin:servers", "tokens", "shares", "access:servers", "access:services"],
    },
]

c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 60

if s["spawner"] == "slipway":
    c.JupyterHub.spawner_class = "slipway"
    c.SlipwaySpawner.service_url = s["service_url"]
    c.SlipwaySpawner.token_file = s["spawner_token_file"]
else:
    c.JupyterHub.spawner_class = "outpostspawner.OutpostSpawner"
    credential = base64.b64encode(f"{s['outpost_user']}:{s['outpost_password']}".encode()).decode()
    c.OutpostSpawner.request_url = s["service_url"] + "/services"
    c.OutpostSpawner.request_headers = {"Authorization": f"Basic {credential}"}
    c.OutpostSpawner.svc_create = False
    c.OutpostSpawner.namespace = "slipway"
