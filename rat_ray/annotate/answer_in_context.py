"""r@answer_in_context: does an accepted answer stand in a passage that was given?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rat_ray.annotate.agreement import Said
from rat_ray.annotate.golds import Gold, gold_of
from rat_ray.annotate.rules import MISSING, Item, Label


@dataclass(frozen=True)
class AnswerInContextSettings:
    """titles: whether an answer that stands in a passage's title counts too, as the prompt shows it."""

    titles: bool = True

    def validate(self) -> None:
        """There is nothing to check."""


def answer_in_context(item: Item, settings: AnswerInContextSettings | None = None) -> Label:
    """1 when an accepted answer stands in a passage of the context, between word boundaries, in any of its spellings.

    Missing where the context is unknown, where no accepted answer is known (None or []), and where none can be looked
    for: a verdict on a claim, yes or no, "A".
    """
    if item.context is None or not item.answers or item.shape == "claim":
        return MISSING
    golds = [gold for gold in map(gold_of, item.answers) if _can_be_looked_for(gold)]
    if not golds:
        return MISSING
    titles = settings is None or settings.titles
    for title, text in item.context:
        if _stands_in(text, golds) or (titles and title and _stands_in(title, golds)):
            return Label(1, "contained")
    return Label(0, "none")


def _can_be_looked_for(gold: Gold) -> bool:
    return gold.yes_no is None and not gold.only_articles and bool(gold.plain or gold.numeric)


def _stands_in(text: str, golds: Sequence[Gold]) -> bool:
    said = Said(text)
    return any(_holds(said, gold) for gold in golds)


def _holds(said: Said, gold: Gold) -> bool:
    if gold.with_articles:
        return gold.with_articles in said.with_articles
    if any(form.text in said.text for form in gold.plain):
        return True
    return bool(gold.numeric) and any(form.text in said.numeric.text for form in gold.numeric)
