"""The demo's Hub with no limit of its own on starts, for ``hub``: how fast it is, is its own matter."""

from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821 - JupyterHub provides it
hub = str(Path(__file__).resolve().parent.parent / "hub")
load_subconfig("jupyterhub_config.py", path=hub)  # type: ignore[name-defined]  # noqa: F821

c.JupyterHub.concurrent_spawn_limit = 0
# What a Hub logs of a thousand servers is no part of what is measured.
c.JupyterHub.log_level = "WARN"
