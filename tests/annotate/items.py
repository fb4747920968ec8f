"""Items for the tests of rules."""

from __future__ import annotations

from rat_ray.annotate.rules import Item


def answered(answer: str | None, answers: list[str] | None, shape: str | None = "open") -> Item:
    """A question that was answered, of which only the answers matter."""
    return Item("Which one?", shape, answers, None, answer, None, None)


def given(
    evidence: list[list[str]] | None,
    context: list[tuple[str, str | None, str]] | None,
    answers: list[str] | None = None,
    shape: str | None = "open",
) -> Item:
    """A question for which passages (id, title, text) were given."""
    ids = None if context is None else [name for name, _, _ in context]
    texts = None if context is None else [(title, text) for _, title, text in context]
    return Item("Which one?", shape, answers, evidence, "an answer", ids, texts)
