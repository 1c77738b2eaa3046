"""The extension of Jupyter Server in a session whose control group is a directory of a test's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from slipway import _memory, _server

_memory.GROUP = Path(os.environ["SCARCE_GROUP"])


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "scarce"}]


def _load_jupyter_server_extension(app: Any) -> None:
    _server._load_jupyter_server_extension(app)
