"""What a rule sees of one row, and what it says: a label, which part of the rule gave it, and a score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Item(NamedTuple):
    """One question with what was given to the generator and what it answered; never a row that failed.

    answers, evidence: None where unknown; [] says that there is none. context: (title, text) of the passages that went
    into the prompt, in order, where they are known; context_ids: their ids.
    """

    question: str
    shape: str | None
    answers: list[str] | None
    evidence: list[list[str]] | None
    answer: str | None
    context_ids: list[str] | None
    context: list[tuple[str | None, str]] | None


class Label(NamedTuple):
    """label: 1, 0 or missing. rule: the part of the rule that fired, in a few words that are the same for equal
    reasons (`phrase`, `form:de`, `exact`, `number`, …). score: where the rule has one, between 0 and 1.
    """

    label: int | None
    rule: str | None = None
    score: float | None = None


MISSING = Label(None)


class RuleKind(NamedTuple):
    """A rule that `labels.rules` can name: its settings, a frozen dataclass, and what it says of an item.

    titles: whether `label` also wants to be told the titles of passages, as a function from their ids (None: unknown).
    texts: whether it reads the item's `context`, which is None for the other rules.
    """

    settings: type[Any]
    label: Callable[..., Label]
    titles: bool = False
    texts: bool = False
