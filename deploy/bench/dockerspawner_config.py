"""The demo's Hub with DockerSpawner in the place of Slipway's, for ``spawn``.

Its containers get what the Slipway session had: image, user, limits, network, home. That was read
from the session's container into the file SLIPWAY_BENCH_CONTAINER.
"""

import json
import os
import time
from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821 - JupyterHub provides it
hub = str(Path(__file__).resolve().parent.parent / "hub")
load_subconfig("jupyterhub_config.py", path=hub)  # type: ignore[name-defined]  # noqa: F821

like = json.loads(Path(os.environ["SLIPWAY_BENCH_CONTAINER"]).read_text())
state = Path(os.environ["SLIPWAY_HUB_DIR"])

c.JupyterHub.hub_bind_url = f"http://{like['gateway']}:{os.environ['SLIPWAY_HUB_API_PORT']}"
c.JupyterHub.spawner_class = "dockerspawner.DockerSpawner"
c.Spawner.default_url = "/lab"
c.Spawner.env_keep = []
c.Spawner.cmd = ["jupyterhub-singleuser"]
c.Spawner.environment = {"HOME": like["home"]}
# The Hub's proxy speaks to the container's own address: no published port, no docker-proxy between.
c.DockerSpawner.use_internal_ip = True
c.DockerSpawner.image = like["image"]
c.DockerSpawner.pull_policy = "never"
c.DockerSpawner.name_template = like["name"]
c.DockerSpawner.remove = True
c.DockerSpawner.mem_limit = like["memory"]
c.DockerSpawner.cpu_limit = like["nano_cpus"] / 1e9
c.DockerSpawner.volumes = {like["home_source"]: like["home"]}
c.DockerSpawner.extra_create_kwargs = {"user": like["user"], "working_dir": like["home"]}
c.DockerSpawner.extra_host_config = {
    "pids_limit": like["pids"],
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
}


def stamp(spawner: object) -> None:
    """Note when the Hub is about to call start()."""
    (state / "start-called").write_text(repr(time.time()))


c.Spawner.pre_spawn_hook = stamp
