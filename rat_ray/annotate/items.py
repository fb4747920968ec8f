"""What was judged, as a key: labels of people and verdicts are tied to these texts, not to a run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def passage_digest(title: str | None, text: str) -> str:
    """What identifies a passage's content."""
    return _digest(title or "", text)


def context_item(question: str, passages: Sequence[str]) -> str:
    """The key of a question with the passages that were given, by their `passage_digest`, in order: R is judged on it.

    Equal for all generators that were given the same texts. Begins with a letter, so that no spreadsheet takes it for a
    number.
    """
    return f"r-{_digest(question, *passages)}"


def answer_item(question: str, answer: str) -> str:
    """The key of a question with an answer's cleaned text: A and T are judged on it."""
    return f"t-{_digest(question, answer)}"


def context_digest(ids: Sequence[str]) -> str:
    """What tells contexts apart within a dataset: the ids of their passages, in order."""
    return _digest(*ids)


def _digest(*parts: str) -> str:
    """Of texts in their order, each with its length before it, so that no two lists of texts are alike."""
    return hashlib.sha256("".join([f"{len(part)}:{part}" for part in parts]).encode()).hexdigest()[:32]
