"""What the Spawner shows to the Hub's users, and what it makes of what they choose."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from tornado import web


class _Text(str):
    """Plain text for programs; the Hub's templates, which ask for ``__html__``, get its markup.

    The form's page shows the plain message where there is one, and would join the lines of a log.
    """

    __slots__ = ("markup",)
    markup: str

    def __html__(self) -> str:
        return self.markup


class StartError(web.HTTPError):
    """A start that failed, as the Hub's pages and its API show it.

    It must be an HTTPError: of any other exception within the first second the Hub shows a fixed text.
    Pages take ``jupyterhub_html_message`` where they have room for it, else ``jupyterhub_message``.
    """

    def __init__(self, status: int, message: str, remedy: str = "", tail: str = "") -> None:
        text = f"{message.rstrip('.')}. {remedy}" if remedy else message
        super().__init__(status, text)
        last = "\n".join(tail.rstrip().splitlines()[-40:])
        self.jupyterhub_message = _Text(f"{text}\nThe end of its log:\n{last}" if last else text)
        shown = f"<strong>{html.escape(message)}</strong>"
        if remedy:
            shown += f"<br>{html.escape(remedy)}"
        if last:
            # Not a <pre>: the Hub's pages put this into a <p>, which a <pre> would end.
            style = "display: block; white-space: pre-wrap; max-height: 24em; overflow: auto"
            shown += f'<code class="text-start" style="{style}">{html.escape(last)}</code>'
        self.jupyterhub_html_message = self.jupyterhub_message.markup = shown

    def __str__(self) -> str:
        """Give what the Hub logs."""
        return self.jupyterhub_message


def failed_form(reason: object) -> str:
    """Make a form that says why it is empty; submitted as it is, it starts the default profile."""
    return (
        '<div class="alert alert-warning">The choices cannot be shown now: '
        f"{html.escape(str(reason))}<br>You can start the default profile, or reload this page.</div>"
    )


def forget_fresh(spawner: Any) -> None:
    """Let ``fresh`` act once: the Hub keeps the options, and a later start without a form takes them again."""
    kept = {key: value for key, value in (spawner.user_options or {}).items() if key != "fresh"}
    if len(kept) == len(spawner.user_options or {}):
        return
    spawner.user_options = kept
    if spawner.orm_spawner:
        spawner.orm_spawner.user_options = dict(kept)
        spawner.db.commit()  # before the request goes out: the Hub may die while the server starts


def clean_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a form's lists of strings, or a request's values, into options; the empty was not chosen."""
    options: dict[str, Any] = {}
    for key, value in given.items():
        chosen = value[0] if isinstance(value, list) and len(value) == 1 else value
        chosen = chosen.strip() if isinstance(chosen, str) else chosen
        if chosen not in ("", None, [], {}) and key != "_xsrf":
            options[key] = chosen
    return options
