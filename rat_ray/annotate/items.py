"""What was judged, as a key: labels of people and verdicts are tied to these texts, not to a run."""

from __future__ import annotations

from collections.abc import Sequence

from rat_ray.keys import digest_of


def passage_digest(title: str | None, text: str) -> str:
    """What identifies a passage's content."""
    return digest_of([title or "", text])


def context_item(question: str, passages: Sequence[str]) -> str:
    """The key of a question with the passages that were given, by their `passage_digest`, in order: R is judged on it.

    Equal for all generators that were given the same texts. Begins with a letter, so that no spreadsheet takes it for a
    number.
    """
    return f"r-{digest_of([question, list(passages)])}"


def answer_item(question: str, answer: str) -> str:
    """The key of a question with an answer's cleaned text: A and T are judged on it."""
    return f"t-{digest_of([question, answer])}"
