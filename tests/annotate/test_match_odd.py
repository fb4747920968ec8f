"""t@match and the rules beside it on odd accepted answers and characters: signs, entities, footnotes, many, blank."""

from __future__ import annotations

import unicodedata

import pytest

from rat_ray.annotate.match import T_RULES, contains, exact, f1, match
from tests.annotate.items import answered


def label(answer: str, *golds: str) -> int | None:
    return match(answered(answer, list(golds))).label


@pytest.mark.parametrize("gold", ["*", "€", "%", "+", "&", "\u2764\ufe0f", "🇫🇷", "=="])
def test_a_gold_of_signs_only_keeps_them(gold: str) -> None:
    for answer in (gold, f" {gold} ", f"“{gold}”", f"The answer is {gold}", unicodedata.normalize("NFD", gold)):
        assert match(answered(answer, [gold])) == (1, "exact", 1.0)
        for rule in (exact, contains, f1):
            assert rule(answered(answer, [gold]))[::2] == (1, 1.0)
    for answer in ("", "Paris", f"5{gold}6", "#", "$"):
        assert label(answer, gold) == 0
        assert exact(answered(answer, [gold])).label == contains(answered(answer, [gold])).label == 0


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("Rock &amp; Roll", "Rock & Roll"),
        ("O&#39;Connor", "O’Connor"),
        ("Caf&eacute;", "Café"),
        ("Paris¹", "Paris"),
        ("Paris.²³", "Paris"),
        ("CO₂", "CO2"),
        ("km²", "km2"),
        ("E=mc²", "E = mc2"),
        ("Pa\u034fris", "Paris"),
        ("Paris\ufe0f", "Paris"),
        ("AT&T", "AT&T"),
    ],
)
def test_entities_footnotes_and_unseen_characters(answer: str, gold: str) -> None:
    assert label(answer, gold) == label(f"It is {answer}", gold) == label(gold, answer) == 1


@pytest.mark.parametrize("gold", ["?", "…", ".", "!!", '"'])
def test_a_gold_of_stops_is_right_as_the_whole_answer(gold: str) -> None:
    assert label(gold, gold) == label(f" {gold}\n", gold) == 1
    assert label("", gold) == label("Paris", gold) == label(f"Paris{gold}", gold) == label("€", gold) == 0


def test_many_accepted_answers_none_or_blank_ones() -> None:
    golds = ["", " ", "…", *[f"name {i}" for i in range(10_000)], "Paris", "Paris"]
    assert match(answered("In Paris", golds)).label == 1
    assert match(answered("Rome", golds)).label == match(answered("", golds)).label == 0
    for wrong in ("", " ", "yes", "SUPPORTS", "A", "12", "1 May 1500", "*"):
        for name, kind in T_RULES.items():
            one, other = (kind.label(answered("It is 5 km, in 1912", golds), kind.settings()).label
                          for golds in (["5 km", "1912", wrong], [wrong, "1912", "5 km"]))  # fmt: skip
            assert one == other == (1 if name in ("match", "contains", "number", "date") else one), (name, wrong)
