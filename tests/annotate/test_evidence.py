"""Rules for R: passages, pages, and accepted answers within the context."""

from __future__ import annotations

import unicodedata

import pytest

from rat_ray.annotate.answer_in_context import AnswerInContextSettings, answer_in_context
from rat_ray.annotate.evidence import R_RULES, evidence, page
from rat_ray.annotate.rules import MISSING
from tests.annotate.items import given

TITLES = {
    "p1": "Iran–Iraq War", "p2": "iran–Iraq_War", "p3": "Beyonce\u0301", "p4": "Beyoncé", "p5": None, "p6": "",
    "p7": "AC-SLASH-DC", "p8": "AC/DC", "p9": "Rome",
}  # fmt: skip


def context(*names: str) -> list[tuple[str, str | None, str]]:
    return [(name, TITLES.get(name), "text") for name in names]


@pytest.mark.parametrize(
    ("sets", "names", "expected"),
    [
        ([["p1"]], ["p1", "p2"], 1),
        ([["p1", "p3"]], ["p1", "p2"], 0),
        ([["p1", "p3"], ["p2"]], ["p1", "p2"], 1),
        ([["p1", "p3"]], ["p3", "p9", "p1"], 1),
        ([], ["p1"], 0),
        ([["p1"]], [], 0),
        ([[]], ["p1"], 0),
        (None, ["p1"], None),
    ],
)
def test_evidence(sets: list[list[str]] | None, names: list[str], expected: int | None) -> None:
    assert evidence(given(sets, context(*names))).label == expected


def test_evidence_is_missing_without_a_context() -> None:
    assert evidence(given([["p1"]], None)) == page(given([["p1"]], None), TITLES.get) == MISSING


@pytest.mark.parametrize(
    ("sets", "names", "expected", "rule"),
    [
        ([["p1"]], ["p1"], 1, "passages"),
        ([["p1"]], ["p2"], 1, "page"),
        ([["p3"]], ["p4"], 1, "page"),
        ([["p7"]], ["p8"], 1, "page"),
        ([["p1", "p3"]], ["p2", "p4"], 1, "page"),
        ([["p1", "p9"]], ["p2", "p4"], 0, "page"),
        ([["p1", "p9"], ["p4"]], ["p3"], 1, "page"),
        ([["p5"]], ["p6"], 0, "page"),
        ([["p5"]], ["p5"], 1, "passages"),
        ([["unknown"]], ["p5"], 0, "page"),
        ([], ["p1"], 0, "page"),
        ([[]], ["p1"], 0, "page"),
        (None, ["p1"], None, None),
    ],
)
def test_page(sets: list[list[str]] | None, names: list[str], expected: int | None, rule: str | None) -> None:
    item = given(sets, context(*names))
    assert page(item, TITLES.get)[:2] == (expected, rule)
    assert page(item._replace(context=None), TITLES.get)[:2] == (expected, rule)
    kind = R_RULES["page"]
    assert kind.titles
    assert kind.label(item, kind.settings(), TITLES.get)[:2] == (expected, rule)


def test_every_page_of_a_set_is_needed() -> None:
    assert page(given([["p1", "p3"]], context("p2")), TITLES.get).label == 0


def texts(*those: str) -> list[tuple[str, str | None, str]]:
    return [(f"p{i}", None, text) for i, text in enumerate(those)]


@pytest.mark.parametrize(
    ("gold", "text", "expected"),
    [
        ("Paris", "The capital is Paris.", 1),
        ("Paris", "A Parisian wrote it.", 0),
        ("art", "He started as an artist.", 0),
        ("the Loire", "along Loire banks", 1),
        ("Beyoncé", f"the singer {unicodedata.normalize('NFD', 'Beyoncé')} said", 1),
        ("Beyoncé", "the singer Beyonce said", 1),
        ("April 15, 1912", "It sank on 15 April 1912 at night", 1),
        ("April 15, 1912", "It sank in 1912", 0),
        ("1912", "It sank on 15 April 1912", 1),
        ("1939–1945", "from 1939 to 1945", 1),
        ("seventy-nine", "with atomic number 79.", 1),
        ("79", "in 1979, or 179 or 79,000", 0),
        ("10 million", "about 10,000,000 people", 1),
        ("20%", "at 20 per cent", 1),
        ("Vitamin A", "rich in vitamin A and more", 1),
        ("Vitamin A", "rich in vitamin C and more", 0),
        ("Paris", "", 0),
    ],
)
def test_answer_in_context(gold: str, text: str, expected: int) -> None:
    item = given(None, texts("nothing here", text), [gold])
    assert answer_in_context(item).label == expected
    assert answer_in_context(given(None, texts(text, "nothing here"), ["Timbuktu", gold])).label == expected


@pytest.mark.parametrize(
    ("golds", "shape"),
    [
        (None, "open"),
        ([], "open"),
        (["yes"], "two_hop"),
        (["No."], "open"),
        (["A"], "open"),
        (["…"], "open"),
        (["SUPPORTS"], "claim"),
        (["true"], "claim"),
    ],
)
def test_what_cannot_be_looked_for_is_missing(golds: list[str] | None, shape: str) -> None:
    assert answer_in_context(given([], texts("yes, no, A, SUPPORTS, true"), golds, shape)) == MISSING


def test_answer_in_context_without_context() -> None:
    assert answer_in_context(given([["p1"]], None, ["Paris"])) == MISSING
    assert answer_in_context(given([["p1"]], [], ["Paris"])).label == 0
    assert answer_in_context(given(None, texts("Paris"), ["yes", "Paris"])).label == 1
    assert answer_in_context(given(None, texts("Rome"), ["yes", "Paris"])).label == 0


def test_titles_count_unless_told_otherwise() -> None:
    item = given(None, [("p1", "Valentina Tereshkova", "She flew in 1963.")], ["Tereshkova"])
    assert answer_in_context(item).label == 1
    assert answer_in_context(item, AnswerInContextSettings(titles=False)).label == 0
    assert R_RULES["answer_in_context"].label(item, AnswerInContextSettings()).label == 1


def test_what_is_negated_stands_in_the_context_all_the_same() -> None:
    assert answer_in_context(given(None, texts("It was not Paris."), ["Paris"])).label == 1


def test_a_passage_of_100_000_characters() -> None:
    item = given(None, texts("1 of the twenty April " * 5_000 + "Paris on 15 April 1912"), ["Rome", "April 15, 1912"])
    assert answer_in_context(item).label == 1
