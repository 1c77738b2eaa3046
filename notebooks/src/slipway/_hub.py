"""What the Spawner shows to the Hub's users, and what it makes of what they choose."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from tornado import web


class StartError(web.HTTPError):
    """A start that failed, as the Hub's pages and its API show it.

    It must be an HTTPError: of any other exception within the first second the Hub shows a fixed text.
    Pages take ``jupyterhub_html_message`` where they have room for it, else ``jupyterhub_message``.
    """

    def __init__(self, status: int, message: str, remedy: str = "", tail: str = "") -> None:
        text = f"{message.rstrip('.')}. {remedy}" if remedy else message
        super().__init__(status, text)
        last = "\n".join(tail.rstrip().splitlines()[-40:])
        self.jupyterhub_message = f"{text}\nThe end of its log:\n{last}" if last else text
        shown = f"<strong>{html.escape(message)}</strong>"
        if remedy:
            shown += f"<br>{html.escape(remedy)}"
        if last:
            shown += f'<pre class="text-start" style="max-height: 24em">{html.escape(last)}</pre>'
        self.jupyterhub_html_message = shown

    def __str__(self) -> str:
        """Give what the Hub logs."""
        return self.jupyterhub_message


def failed_form(reason: object) -> str:
    """Make a form that says why it is empty; submitted as it is, it starts the default profile."""
    return (
        '<div class="alert alert-warning">The choices cannot be shown now: '
        f"{html.escape(str(reason))}<br>You can start the default profile, or reload this page.</div>"
    )


def clean_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a form's lists of strings, or a request's values, into options; the empty was not chosen."""
    options: dict[str, Any] = {}
    for key, value in given.items():
        chosen = value[0] if isinstance(value, list) and len(value) == 1 else value
        chosen = chosen.strip() if isinstance(chosen, str) else chosen
        if chosen not in ("", None, [], {}) and key != "_xsrf":
            options[key] = chosen
    return options
