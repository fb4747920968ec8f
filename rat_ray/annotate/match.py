"""Rules for T: does the answer agree with an accepted one?

`T_RULES` names them for `labels.rules`. None of them considers abstention, where T is not defined: whoever labels a row
that abstains leaves its T missing, as `match` does when it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from rat_ray.annotate.agreement import AGREES_FROM, Said, agreement, find, same_signs, token_f1
from rat_ray.annotate.claims import claim_verdict
from rat_ray.annotate.golds import Gold, gold_of
from rat_ray.annotate.numbers import is_number
from rat_ray.annotate.rules import MISSING, Item, Label, RuleKind
from rat_ray.annotate.yes_no import yes_no
from rat_ray.errors import InputError

_NONE: Final = Label(0, "none")


@dataclass(frozen=True)
class NoOptions:
    """A rule without options."""

    def validate(self) -> None:
        """There is nothing to check."""


@dataclass(frozen=True)
class MatchSettings:
    """at_least: the token F1 from which an answer agrees whose words are all in an accepted answer, or the other way
    round; 1 asks for equal words.
    """

    at_least: float = AGREES_FROM

    def validate(self) -> None:
        """Raise InputError for a share outside 0 to 1."""
        _check_share("at_least", self.at_least)


@dataclass(frozen=True)
class F1Settings:
    """at_least: the token F1 from which an answer is right."""

    at_least: float = 0.5

    def validate(self) -> None:
        """Raise InputError for a share outside 0 to 1."""
        _check_share("at_least", self.at_least)


@dataclass(frozen=True)
class NumberSettings:
    """tolerance: by which share of an accepted number an answer's may differ; 0.05 takes 2.4 billion for 2.45."""

    tolerance: float = 0.0

    def validate(self) -> None:
        """Raise InputError for a tolerance that is no share."""
        if not 0 <= self.tolerance < 1:
            raise InputError(f"tolerance={self.tolerance}: give a share from 0 to below 1")


def _check_share(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise InputError(f"{name}={value}: give a share above 0 and at most 1")


def match(item: Item, abstained: int | None = None, settings: MatchSettings | None = None) -> Label:
    """t@match: whether the answer agrees with an accepted one, by the question's shape.

    Missing where there is no answer, where it abstains (T is not defined there), and where no accepted answer is known
    (None). An empty list says that no answer is right. score: the token F1 with the accepted answer that agrees, or
    with the nearest; None for verdicts, yes and no.
    """
    if item.answer is None or abstained == 1 or item.answers is None:
        return MISSING
    if item.shape == "claim":
        return claim(item)
    at_least = AGREES_FROM if settings is None else settings.at_least
    said = Said(item.answer)
    best = _NONE
    for answer in item.answers:
        label = agreement(said, gold_of(answer), at_least)
        if label.label == 1:
            return label
        best = _better(best, label)
    return best


def exact(item: Item) -> Label:
    """Whether the answer is an accepted one and nothing more, after normalisation, numbers and dates included."""
    return _each(item, _exact)


def f1(item: Item, settings: F1Settings | None = None) -> Label:
    """Whether the token F1 of the answer with an accepted one is at least so much; the score is the best of them."""
    at_least = (settings or F1Settings()).at_least

    def label(said: Said, gold: Gold) -> Label:
        score = _f1_of(said, gold)
        return Label(int(score >= at_least), "f1", score)

    return _each(item, label)


def contains(item: Item) -> Label:
    """Whether an accepted answer stands in the answer, between word boundaries and not right after a negation."""
    return _each(item, _contains)


def claim(item: Item) -> Label:
    """Whether the answer's verdict on the claim is an accepted one."""
    if item.answer is None or item.answers is None:
        return MISSING
    verdict = claim_verdict(item.answer)
    return Label(int(verdict is not None and any(claim_verdict(gold) == verdict for gold in item.answers)), "claim")


def says_yes_or_no(item: Item) -> Label:
    """Whether the answer says the accepted yes or no; missing where no accepted answer is yes or no."""
    if item.answer is None or item.answers is None:
        return MISSING
    wanted = {gold_of(answer).yes_no for answer in item.answers} - {None}
    return Label(int(yes_no(item.answer) in wanted), "yes_no") if wanted else MISSING


def number(item: Item, settings: NumberSettings | None = None) -> Label:
    """Whether an accepted number is in the answer, with its unit; missing where no accepted answer is a number."""
    tolerance = (settings or NumberSettings()).tolerance

    def label(said: Said, gold: Gold) -> Label:
        found = agreement(said, gold)
        near = found.label == 0 and tolerance > 0 and _is_near(said, gold, Decimal(str(tolerance)))
        return Label(1, "near", found.score) if near else found

    return _each(item, label, lambda gold: gold.rule == "number" or gold.bare is not None)


def date(item: Item) -> Label:
    """Whether an accepted date or year is in the answer; missing where no accepted answer is one."""
    return _each(item, agreement, lambda gold: gold.rule == "date")


def _each(item: Item, label: Callable[[Said, Gold], Label], wanted: Callable[[Gold], bool] | None = None) -> Label:
    """The best label over the accepted answers that are wanted; missing where none of them is."""
    if item.answer is None or item.answers is None:
        return MISSING
    golds = [gold_of(answer) for answer in item.answers]
    if wanted is not None:
        golds = [gold for gold in golds if wanted(gold)]
        if not golds:
            return MISSING
    said = Said(item.answer)
    return _best(label(said, gold) for gold in golds)


def _best(labels: Iterable[Label]) -> Label:
    best = _NONE
    for label in labels:
        if label.label == 1:
            return label
        best = _better(best, label)
    return best


def _better(best: Label, label: Label) -> Label:
    return label if best.score is None or (label.score is not None and label.score > best.score) else best


def _exact(said: Said, gold: Gold) -> Label:
    if gold.signs:
        same = same_signs(said, gold)
    elif gold.with_articles:
        same = gold.with_articles == said.with_articles
    else:
        same = any(form.text == said.text for form in gold.plain[:1]) or any(
            form.text == said.numeric.text for form in gold.numeric[:1]
        )
    return Label(int(same), "exact" if same else "none", _f1_of(said, gold))


def _f1_of(said: Said, gold: Gold) -> float:
    if gold.signs:
        return float(same_signs(said, gold))
    if gold.only_articles:
        return float(gold.with_articles == said.with_articles)
    if gold.with_articles:
        return token_f1(said.all_words, gold.with_articles.split())
    return max(
        (
            token_f1(said.numeric.words if form in gold.numeric else said.words, form.words)
            for form in (*gold.plain[:1], *gold.numeric[:1])
        ),
        default=0.0,
    )


def _contains(said: Said, gold: Gold) -> Label:
    if gold.only_articles or gold.signs:
        return _exact(said, gold)
    places = [(form.text, said.text) for form in gold.plain] + [(form.text, said.numeric.text) for form in gold.numeric]
    found = [find(*place) for place in ([(gold.with_articles, said.with_articles)] if gold.with_articles else places)]
    rule = "contained" if 1 in found else "negated" if 0 in found else "none"
    return Label(int(1 in found), rule, _f1_of(said, gold))


def _is_near(said: Said, gold: Gold, tolerance: Decimal) -> bool:
    """Whether a number of the answer is near the accepted one and followed by the same unit."""
    wanted = gold.numeric[0].words
    at = next(i for i, word in enumerate(wanted) if is_number(word))
    value, unit = _decimal(wanted[at]), () if gold.bare else wanted[at + 1 :]
    words = said.numeric.words
    for i in said.number_places:
        if words[i + 1 : i + 1 + len(unit)] == unit:
            other = _decimal(words[i])
            if value is not None and other is not None and abs(other - value) <= tolerance * abs(value):
                return True
    return False


def _decimal(word: str) -> Decimal | None:
    return Decimal(word) if word.count(".") < 2 and "," not in word and "/" not in word else None


T_RULES: Final[Mapping[str, RuleKind]] = {
    "match": RuleKind(MatchSettings, lambda item, settings: match(item, None, settings)),
    "exact": RuleKind(NoOptions, lambda item, _: exact(item)),
    "f1": RuleKind(F1Settings, f1),
    "contains": RuleKind(NoOptions, lambda item, _: contains(item)),
    "claim": RuleKind(NoOptions, lambda item, _: claim(item)),
    "yes_no": RuleKind(NoOptions, lambda item, _: says_yes_or_no(item)),
    "number": RuleKind(NumberSettings, number),
    "date": RuleKind(NoOptions, lambda item, _: date(item)),
}
