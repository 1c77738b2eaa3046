"""Trying again and submitting anew, by the words that %%grid has for what may be other than before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from ._errors import InvalidError
from ._option_words import OPTIONS
from ._request import Changes


class RetryWords(TypedDict, total=False):
    """What may be other when something is tried again."""

    cpus: float | None
    mem: str | int | None
    time: str | None


class ResubmitWords(RetryWords, total=False):
    """What may be other when something is submitted anew. ``after`` is a job or scan, or several."""

    name: str | None
    env: Any
    gpu: str | None
    to: str | None
    retry: int | None
    after: Any
    priority: int | None


def retry_changes(words: RetryWords) -> dict[str, Any]:
    """Give what is to be other as the client says it."""
    return _spell(dict(words), "retry", RetryWords.__annotations__)


def resubmit_changes(words: ResubmitWords) -> Changes:
    """Give what is to be other as the client says it."""
    spelled = _spell(dict(words), "resubmit", {**RetryWords.__annotations__, **ResubmitWords.__annotations__})
    if (after := spelled.get("after")) is not None:
        several = after if isinstance(after, Sequence) and not isinstance(after, str) else [after]
        spelled["after"] = [getattr(one, "id", one) for one in several]
    if environment := spelled.get("environment"):
        spelled["environment"] = getattr(environment, "ref", environment)
    changes: Changes = spelled  # type: ignore[assignment]  # by these words
    return changes


def _spell(words: dict[str, Any], what: str, known: Any) -> dict[str, Any]:
    if unknown := sorted(set(words) - set(known)):
        meant = OPTIONS.get(unknown[0], "")
        meant = meant if meant in known else ""
        raise InvalidError(
            f"{what} has no option {unknown[0]}",
            field=unknown[0],
            remedy=f"did you mean {meant}?" if meant else f"its options are {', '.join(sorted(known))}",
        )
    fields = {option: field for field, option in OPTIONS.items()}
    return {fields.get(word, word): value for word, value in words.items()}


def states(*, failed: bool, canceled: bool, done: bool = False) -> list[str]:
    """Name the states that are meant; none is a mistake."""
    meant = {"failed": failed, "canceled": canceled, "done": done}
    chosen = [state for state, yes in meant.items() if yes]
    if not chosen:
        raise InvalidError(
            "retry: nothing is meant", field="states", remedy="say failed=True, canceled=True or done=True"
        )
    return chosen
