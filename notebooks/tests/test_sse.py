"""The parser of server-sent events, for streams cut anywhere."""

from __future__ import annotations

import pytest

from slipway._transport import Parser, ServerEvent

CASES = [
    ("one", b"data: x\n\n", [("message", "x", "")]),
    ("name and id", b"event: done\nid: 7\ndata: x\n\n", [("done", "x", "7")]),
    ("lines join", b"data: a\ndata: b\ndata\n\n", [("message", "a\nb\n", "")]),
    ("comments", b": hi\n\n:\ndata: x\n: y\n\n", [("message", "x", "")]),
    ("no data, no event", b"event: a\n\ndata: x\n\n", [("message", "x", "")]),
    ("crlf", b"id: 1\r\ndata: a\r\n\r\ndata: b\r\n\r\n", [("message", "a", "1"), ("message", "b", "1")]),
    ("cr", b"data: a\r\rdata: b\n\n", [("message", "a", ""), ("message", "b", "")]),
    ("cut off at the end", b"data: a\n\ndata: b\n", [("message", "a", "")]),
    ("no space, two spaces", b"data:a\ndata:  b\n\n", [("message", "a\n b", "")]),
    ("unknown field, odd id", b"retry: 9\nfoo\nid: a\0b\ndata: x\n\n", [("message", "x", "")]),
    ("byte order mark, unicode", "\ufeffdata: Zürich ☂ 🚢\n\n".encode(), [("message", "Zürich ☂ 🚢", "")]),
    ("bad utf-8", b"data: \xff!\n\n", [("message", "\ufffd!", "")]),
]


@pytest.mark.parametrize(("raw", "want"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_events_survive_any_cut(raw: bytes, want: list[tuple[str, str, str]]) -> None:
    for size in range(1, len(raw) + 1):
        parser, got = Parser(), list[ServerEvent]()
        for at in range(0, len(raw), size):
            got += parser.feed(raw[at : at + size])
        assert [(event.event, event.data, event.id) for event in got] == want, f"in pieces of {size}"


@pytest.mark.parametrize(("data", "want"), [('{"a": 1}', {"a": 1}), ("[1]", None), ("{", None)])
def test_json(data: str, want: object) -> None:
    assert ServerEvent("message", data, "").json() == want
