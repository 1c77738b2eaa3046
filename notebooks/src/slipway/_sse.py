"""Server-sent events: a parser that takes bytes as they come and gives whole events."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ServerEvent:
    """One event of a stream; ``id`` is the last id that the stream has named."""

    event: str
    data: str
    id: str

    def json(self) -> dict[str, Any] | None:
        """Give the data as a JSON object; None when it is not one."""
        try:
            value = json.loads(self.data)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


class Parser:
    """Turn chunks of a text/event-stream, cut anywhere, into events.

    Comments and unknown fields are dropped, an event without data too, and an event that the stream's
    end has cut off is never given.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest = ""
        self._event = ""
        self._data: list[str] = []
        self._id = ""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take a chunk and give the events that it completes."""
        text = self._rest + self._decoder.decode(chunk)
        # A lone CR at the end may be the first half of a CRLF: leave it for the next chunk.
        held = "\r" if text.endswith("\r") else ""
        text = text[: len(text) - len(held)].replace("\r\n", "\n").replace("\r", "\n")
        *lines, rest = text.split("\n")
        self._rest = rest + held
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._event = value
        elif field == "id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> ServerEvent | None:
        event, data = self._event, self._data
        self._event, self._data = "", []
        return ServerEvent(event or "message", "\n".join(data), self._id) if data else None
