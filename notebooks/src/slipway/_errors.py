"""The one exception family. Its codes and statuses are the service's own table (hubapi/testdata/errors.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Detail:
    """One of several things at fault, such as a file among others; ``line`` is 0 where there is none."""

    what: str
    path: str = ""
    line: int = 0

    def __str__(self) -> str:
        """Give the path, the line and what is the matter; a path with odd characters is quoted."""
        if not self.path:
            return self.what
        odd = not self.path.isprintable() or any(sign in self.path for sign in ' ;:,"\\')
        name = json.dumps(self.path, ensure_ascii=False) if odd else self.path
        return f"{name} line {self.line}: {self.what}" if self.line else f"{name}: {self.what}"


class SlipwayError(Exception):
    """The service refused or failed, or could not be asked.

    ``code`` is stable and meant for programs, ``message`` says what was attempted and why it did not
    work, ``field`` names the request's field at fault, ``details`` the things at fault one by one, and
    ``remedy`` says what to do next.
    """

    code = "internal"
    status = 500
    title = ""  # what a notebook shows in place of the class's name

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        field: str = "",
        remedy: str = "",
        details: Sequence[Detail] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.remedy = remedy
        self.details = tuple(details)
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        """Give the message, the details and, when there is one, the remedy."""
        told = "; ".join(map(str, self.details))
        return ": ".join(part for part in (self.message, told, self.remedy) if part)

    def _render_traceback_(self) -> list[str]:
        """Let IPython show it as a terminal would: the frames of this library help nobody."""
        return [*_lines(f"{self.title or type(self).__name__}: ", self.message), *self._advice()]

    def _advice(self) -> list[str]:
        listed = [f"  {detail}" for detail in self.details]
        return [*listed, *([f"  -> {self.remedy}"] if self.remedy else [])]


class InternalError(SlipwayError):
    """A fault of the service; the details are in its log."""


class InvalidError(SlipwayError):
    """The request is wrong; ``field`` and ``remedy`` say how."""

    code, status = "invalid", 422


class UnauthorizedError(SlipwayError):
    """The service does not know who is calling."""

    code, status = "unauthorized", 401


class ForbiddenError(SlipwayError):
    """The caller is known and may not do this."""

    code, status = "forbidden", 403


class NotFoundError(SlipwayError):
    """There is no such thing, or it is not the caller's."""

    code, status = "not_found", 404


class ConflictError(SlipwayError):
    """The thing is in a state that forbids the request."""

    code, status = "conflict", 409


class OverQuotaError(SlipwayError):
    """More is asked than there can be: a limit of the caller's, or of the hardware."""

    title = "Refused"
    code, status = "over_quota", 429


class NoCapacityError(SlipwayError):
    """The hardware has no room now."""

    code, status = "no_capacity", 503


class NoSpaceError(SlipwayError):
    """A disk is full."""

    code, status = "no_space", 507


class UnavailableError(SlipwayError):
    """A part that is needed does not answer; worth a retry."""

    code, status = "unavailable", 503


class MissingError(SlipwayError):
    """A part that is needed is not installed there."""

    code, status = "missing", 501


class TooLargeError(SlipwayError):
    """The request is larger than any may be."""

    title = "Refused"
    code, status = "too_large", 413


class BusyError(UnavailableError):
    """The caller has as many requests under way as one may; worth a retry."""

    code, status = "busy", 429


TABLE: dict[str, type[SlipwayError]] = {
    kind.code: kind
    for kind in (
        InternalError,
        InvalidError,
        UnauthorizedError,
        ForbiddenError,
        NotFoundError,
        ConflictError,
        OverQuotaError,
        NoCapacityError,
        NoSpaceError,
        UnavailableError,
        MissingError,
        TooLargeError,
        BusyError,
    )
}
"""Every code with its exception; each exception carries the HTTP status."""

_GATEWAY = {502, 503, 504}


def from_body(body: object) -> SlipwayError | None:
    """Make the exception of an error document ``{"error": {...}}``; None when body is none."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        return None
    code = _text(error, "code") or "internal"
    return TABLE.get(code, InternalError)(
        _text(error, "message") or "the service gave no reason",
        code=code,
        field=_text(error, "field"),
        remedy=_text(error, "remedy"),
        details=_details(error.get("details")),
    )


def from_status(status: int, what: str) -> SlipwayError:
    """Make the exception of an answer that is not the service's own, such as a proxy's error page."""
    if status in _GATEWAY:
        return UnavailableError(f"{what}: the Slipway service does not answer (HTTP {status})")
    for kind in TABLE.values():
        if kind.status == status:
            return kind(f"{what}: HTTP {status}")
    return InternalError(f"{what}: unexpected answer, HTTP {status}")


def _lines(head: str, message: str) -> list[str]:
    first, *more = message.splitlines() or [""]
    return [head + first, *(f"  {line}" for line in more)]


def _text(error: Mapping[Any, Any], key: str) -> str:
    value = error.get(key)
    return value if isinstance(value, str) else ""


def _details(listed: object) -> list[Detail]:
    out = []
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, Mapping):
            line = item.get("line")
            out.append(Detail(_text(item, "what"), _text(item, "path"), line if isinstance(line, int) else 0))
    return out
