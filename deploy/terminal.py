"""What check.py does in a terminal of this machine: slipway with a user's token, and the demo's own script."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from steps import expect, show


class Terminal:
    """A user's terminal outside her session."""

    def __init__(self, slipway: str, service: str, demo: str, user: str) -> None:
        self._slipway = slipway
        self._service = service
        self._demo = demo
        self._user = user
        self.token = ""

    def slipway(self, *args: str) -> str:
        """Run slipway and give what it prints."""
        env = {**os.environ, "SLIPWAY_URL": self._service, "SLIPWAY_TOKEN": self.token}
        ran = subprocess.run([self._slipway, *args], env=env, capture_output=True, text=True)  # noqa: S603
        expect(ran.returncode == 0, f"slipway {' '.join(args)}: {ran.stderr}")
        return ran.stdout

    def table(self, what: str) -> None:
        """Show what slipway lists."""
        for line in self.slipway(what).splitlines():
            show(line)

    def crash(self, what: str = "service") -> None:
        """Kill the service, or the Hub, and start it again."""
        ran = subprocess.run([self._demo, "crash", what], capture_output=True, text=True)  # noqa: S603
        expect(ran.returncode == 0, f"{self._demo} crash {what}: {ran.stdout} {ran.stderr}")
        for line in ran.stdout.splitlines():
            show(line)

    def expect_slices(self, profile: str, count: int) -> None:
        """See that the user holds so many slices of that profile, and that all others are free."""
        listed = json.loads(self.slipway("gpus", "--json"))
        expect(listed["simulated"], "slipway gpus does not say that its GPUs are simulated")
        expect(self.slices(listed, profile) == count, f"not {count} slices are held: {listed}")
        offer = next(offer for offer in listed["offers"] if offer["name"] == profile)
        expect(offer["free"] == offer["most"] - count, f"of {offer['most']} slices {offer['free']} are free")

    def slices(self, listed: Any, profile: str) -> int:
        """Count the slices in a list of GPUs that the user holds."""
        parts = [part for gpu in listed["gpus"] for part in gpu["slices"]]
        return sum((part["user"], part["state"], part["name"]) == (self._user, "held", profile) for part in parts)
