"""The rules for R, A and T: whole kinds of cases, not only the examples."""

from __future__ import annotations

import unicodedata

import pytest

from rat_ray.annotate.abstention import abstention_label, refusal_forms
from rat_ray.annotate.evidence import evidence_label
from rat_ray.annotate.match import agrees, claim_verdict, match_label

PHRASE = "Not in the passages."


@pytest.mark.parametrize(
    ("evidence", "context", "expected"),
    [
        ([["p1"]], ["p1", "p2"], 1),
        ([["p1", "p3"]], ["p1", "p2"], 0),
        ([["p1", "p3"], ["p2"]], ["p1", "p2"], 1),
        ([], ["p1"], 0),
        ([["p1"]], [], 0),
        ([[]], ["p1"], 0),
        (None, ["p1"], None),
        ([["p1"]], None, None),
    ],
)
def test_evidence(evidence: list[list[str]] | None, context: list[str] | None, expected: int | None) -> None:
    assert evidence_label(evidence, context) == expected


@pytest.mark.parametrize(
    "answer",
    [
        "Not in the passages.",
        "not in the passages",
        "“Not in the passages.”",
        "Not in the passages. [1]",
        "Not in the\u200b passages.",
        "Ｎｏｔ in the passages",
        "I don’t know.",
        "I don't know",
        "I dont know!",
        "I do not know the answer to this question.",
        "I'm sorry, I don't know.",
        "Unanswerable.",
        "unknown",
        "Cannot be determined from the documents.",
        "The sources do not mention this [1].",
        "The passages don’t say.",
        "There is not enough information to answer.",
        "",
        "  ",
        "…",
    ],
)
def test_refusal_as_the_answer_is_an_abstention(answer: str) -> None:
    assert abstention_label(answer, PHRASE) == 1


@pytest.mark.parametrize(
    "answer",
    [
        "Paris",
        "There is no evidence he married; the answer is Paris.",
        "The passages do not say, but it is Paris.",
        "I don't know. Paris.",
        "The Unknown Soldier",
        "Not in the passages of Paris but in Rome",
        "He did not know the answer",
        "no",
        "The album is called I Don't Know How to Love Him",
        "true",
    ],
)
def test_an_answer_beside_a_refusal_is_no_abstention(answer: str) -> None:
    assert abstention_label(answer, PHRASE) == 0


def test_own_phrase_comes_first_and_a_failed_row_is_missing() -> None:
    assert abstention_label("Pass", "pass!") == 1
    assert abstention_label("Pass", PHRASE) == 0
    assert abstention_label("Pass", "") == 0
    assert abstention_label(None, PHRASE) is None


def test_a_long_answer_is_labelled_quickly() -> None:
    assert abstention_label("the passages do not say anything and " * 3000, PHRASE) in {0, 1}
    assert abstention_label("not " * 25_000 + "Paris", PHRASE) == 0
    assert refusal_forms()


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("Paris", "paris", True),
        ("It is in Paris, France.", "Paris", True),
        ("Parisian", "Paris", False),
        ("The Loire", "Loire", True),
        ("Loire", "the Loire", True),
        ("I don't know", "no", False),
        ("yesterday", "yes", False),
        ("Yes, it is.", "yes", True),
        ("No.", "no", True),
        ("There is no such thing", "no", False),
        ("zebra", "A", False),
        ("a zebra", "A", False),
        ("A.", "A", True),
        ("The", "The", True),
        ("U.S.", "US", True),
        ("1939–1945", "1939-1945", True),
        ("from 1939 to 1945", "1939-1945", False),
        (unicodedata.normalize("NFD", "Beyoncé"), "Beyoncé", True),
        ("rock ’n’ roll", "rock 'n' roll", True),
        ("79", "seventy-nine", False),
        ("179", "79", False),
        ("", "Paris", False),
    ],
)
def test_short_answers_agree(answer: str, gold: str, expected: bool) -> None:
    assert agrees(answer, gold) is expected


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("SUPPORTS", "SUPPORTS"),
        ("True.", "SUPPORTS"),
        ("The claim is false, not true", "REFUTES"),
        ("refuted by passage 2", "REFUTES"),
        ("neither supports nor refutes", "NOT ENOUGH INFO"),
        ("The passage does not support the claim", "NOT ENOUGH INFO"),
        ("NOT ENOUGH INFO", "NOT ENOUGH INFO"),
        ("not true", "REFUTES"),
        ("It isn’t false", "SUPPORTS"),
        ("unsupported", None),
        ("The truest thing", None),
        ("Paris", None),
        ("", None),
    ],
)
def test_claim_verdicts(text: str, verdict: str | None) -> None:
    assert claim_verdict(text) == verdict


def test_match_label_is_missing_where_t_is_not_defined_or_unknown() -> None:
    assert match_label("Paris", ["Rome", "Paris"], "open", 0) == 1
    assert match_label("Paris", ["Rome"], None, 0) == 0
    assert match_label("Paris", ["Paris"], "open", 1) is None
    assert match_label(None, ["Paris"], "open", None) is None
    assert match_label("Paris", None, "open", 0) is None
    assert match_label("Paris", [], "open", 0) == 0
    assert match_label("SUPPORTS", [], "claim", 0) == 0
    assert match_label("Not in the passages.", [], "claim", 1) is None
    assert match_label("true", ["SUPPORTS"], "claim", 0) == 1
    assert match_label("neither supports nor refutes", ["SUPPORTS"], "claim", 0) == 0
    assert match_label("Paris", ["SUPPORTS"], "claim", 0) == 0
