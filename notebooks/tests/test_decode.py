from typing import Any

import pytest

from slipway import GPU, Environment, Event, Explanation, Job, JobPlan, Outcome, Scan, Share
from slipway._decode import decode
from slipway._model_bases import Model


@pytest.mark.parametrize("kind", [Environment, Event, Explanation, GPU, Job, JobPlan, Outcome, Scan])
@pytest.mark.parametrize("value", [None, "?", -1, True, [], [None, "?"], {}, {"?": None}])
def test_a_value_of_any_type_does_no_harm(kind: type[Model], value: object) -> None:
    names = kind.__match_args__  # type: ignore[attr-defined]
    read = decode(kind, dict.fromkeys(names, value))
    usual = decode(kind, {})
    assert repr(read)
    for name in names:  # what is not None stays not None, so that no caller has to look
        assert getattr(read, name) is not None or getattr(usual, name) is None, name


@pytest.mark.parametrize(
    ("kind", "doc", "name", "value"),
    [
        (Job, {"cpus": "two"}, "cpus", 0),
        (Job, {"cpus": True}, "cpus", 0),
        (Job, {"attempt": 2.0}, "attempt", 2),
        (Job, {"argv": ["a", None, 1]}, "argv", ("a", "1")),
        (Job, {"argv": "a"}, "argv", ()),
        (Job, {"parameters": {"x": "1", "y": None}}, "parameters", {"x": "1"}),
        (Job, {"parameters": None}, "parameters", None),
        (Job, {"attempts": [{"exit_code": 3}, "?"]}, "attempts", (Outcome(exit_code=3),)),
        (Job, {"up": None}, "up", ""),
        (Outcome, {"tail": ["one", "two"]}, "tail", "one\ntwo"),
        (Outcome, {}, "exit_code", None),
        (Environment, {}, "share", Share("private")),
        (Environment, {"share": {"with": "group", "group": "higgs"}}, "share", Share("group", "higgs")),
        (Environment, {"share": "?"}, "share", Share("private")),
        (Environment, {"imports": None}, "imports", None),
        (Environment, {}, "mine", True),
        (JobPlan, {}, "free", -1),
        (Scan, {"states": {"done": 2, "failed": "?"}}, "states", {"done": 2}),
        (GPU, {"power": None}, "power", None),
        (GPU, {"power": 70}, "power", 70),
        (GPU, None, "uuid", ""),
        (GPU, [], "uuid", ""),
    ],
)
def test_what_is_missing_or_unfit_gets_a_default(kind: type[Model], doc: Any, name: str, value: object) -> None:
    assert getattr(decode(kind, doc), name) == value


def test_what_has_no_words_of_its_own_is_shown_as_it_could_be_made() -> None:
    event = Event(seq=3, message="ready")
    assert eval(repr(event)) == event
