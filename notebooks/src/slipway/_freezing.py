"""Freezing the session that this runs in, with what the user sees of it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ._client import Client
from ._errors import ConflictError, MissingError
from ._home import home_packages, home_warning
from ._show import Screen
from ._site import Environment, FreezeStep
from ._use import cvmfs_repositories, imported_modules
from ._wire import amount


class SecretsError(ConflictError):
    """What looks like a secret would be published: the message names the files."""

    def _render_traceback_(self) -> list[str]:
        """One file a line."""
        listed = [f"  {detail}" for detail in self.details]
        return [f"{type(self).__name__}: {self.message}", *listed, f"{self.remedy[:1].upper()}{self.remedy[1:]}."]


@dataclass(frozen=True)
class FreezeOptions:
    """What the line after %freeze says."""

    name: str = ""
    tag: str = ""
    note: str = ""
    allow_secret: tuple[str, ...] = ()
    quiet: bool = False


def freeze_session(
    client: Client, screen: Screen, options: FreezeOptions | None = None, magic: str = "%freeze", more: str = ""
) -> Environment:
    """Freeze the session that the notebook runs in, showing how far it is; ``magic`` is what the user has written.

    ``more`` is said behind the environment.
    """
    options = options or FreezeOptions()
    if not client.me().session:
        raise MissingError(
            "this notebook does not run in a Slipway session, so there is nothing to freeze",
            remedy="name an environment with --env (slipway.envs() lists them)",
        )
    begun, live = time.monotonic(), screen.live()

    def progress(step: FreezeStep) -> None:
        done = f" {step.percent:.0f} %" if step.percent >= 0 else ""
        size = f" {amount(step.bytes)}" if step.bytes else ""
        live.update(step.stage, f"freezing: {step.message or step.stage}{done}{size}")

    try:
        frozen = client.freeze(
            name=options.name,
            tag=options.tag,
            note=options.note,
            allow_secret=options.allow_secret,
            imported=imported_modules(),
            cvmfs=cvmfs_repositories(),
            progress=progress,
        )
    except ConflictError as error:
        if not error.details:
            raise
        remedy = error.remedy.replace("slipway freeze --allow-secret", f"{magic} --allow-secret")
        raise SecretsError(
            error.message, code=error.code, field=error.field, remedy=remedy, details=error.details
        ) from None
    how = "unchanged" if frozen.unchanged else f"frozen now, {amount(frozen.size)}"
    live.done(f"environment {frozen.short} {how} ({time.monotonic() - begun:.1f} s){more}")
    return frozen


def warn_of_home(screen: Screen, told: set[str]) -> None:
    """Tell of packages in the home, once of each: they are in no environment."""
    packages = home_packages()
    if any(package.name not in told for package in packages):
        screen.line(home_warning(packages))
        told.update(package.name for package in packages)
