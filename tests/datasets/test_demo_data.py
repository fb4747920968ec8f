"""Checks of the embedded demo dataset (rat_ray/datasets/demo), read as plain files."""

import json
import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

DEMO = Path(__file__).parents[2] / "rat_ray" / "datasets" / "demo"
SHAPES = ("claim", "two_hop", "open")

# Questions whose evidence is absent on purpose. For each: pairs (subject terms, telling terms);
# no passage may hold a subject term together with a telling term, as such a passage
# could give the answer away.
ABSENT: dict[str, list[tuple[list[str], list[str]]]] = {
    # open: who was the first woman in space
    "q003": [
        (["space", "cosmonaut"], ["Tereshkova", "woman", "Valentina"]),
    ],
    # claim: Charles Dickens was born in London.
    "q004": [
        (["Dickens"], ["born", "Portsmouth", "birthplace"]),
    ],
    # two_hop: In which city was the composer of The Magic Flute born?
    "q008": [
        (["Mozart", "Magic Flute"], ["Salzburg"]),
    ],
    # open: what is the atomic number of gold
    "q012": [
        (["gold"], ["79", "seventy-nine", "atomic number"]),
    ],
    # claim: Mars has two moons.
    "q013": [
        (["Mars"], ["moon", "moons", "Phobos", "Deimos"]),
    ],
    # two_hop: On which ship did the first man at the South Pole sail to Antarctica?
    "q017": [
        (["Amundsen", "South Pole"], ["Fram"]),
    ],
    # open: How many keys does a modern piano have?
    "q024": [
        (["piano"], ["88", "eighty-eight"]),
    ],
    # claim: Roald Amundsen died in Antarctica.
    "q025": [
        (["Amundsen"], ["died", "death", "Antarctica", "vanished", "disappeared"]),
    ],
    # two_hop: In which city was the author of Dracula born?
    "q029": [
        (["Stoker", "Dracula"], ["Dublin", "Ireland", "Clontarf"]),
    ],
    # open: who invented the telephone
    "q033": [
        (["telephone"], ["Bell"]),
        (["Graham Bell"], ["Graham Bell"]),
    ],
    # claim: Mozart had a sister who was also a gifted musician.
    "q034": [
        (["Mozart"], ["sister", "Nannerl", "Maria Anna"]),
    ],
    # two_hop: Which river runs through the city where the Prado is?
    "q038": [
        (["Madrid", "Prado"], ["Manzanares", "river"]),
    ],
    # open: when did the golden gate bridge open
    "q042": [
        (["Golden Gate"], ["1937", "opened", "completed"]),
    ],
    # claim: The giant panda sleeps through the winter.
    "q043": [
        (["panda", "pandas"], ["winter", "hibernate", "hibernates", "sleeps"]),
    ],
    # two_hop: What is the capital of the country where Angkor Wat stands?
    "q047": [
        (["Cambodia", "Angkor"], ["Phnom Penh", "capital"]),
    ],
    # open: what money did people in spain use before the euro
    "q051": [
        (["Spain", "Spanish", "money"], ["peseta", "pesetas", "euro"]),
    ],
    # claim: Part of the Amazon River lies in Peru.
    "q052": [
        (["Amazon"], ["Peru", "Iquitos", "Peruvian"]),
    ],
    # two_hop: Who was the husband of the author of Frankenstein?
    "q056": [
        (["Shelley", "Frankenstein"], ["Percy", "husband", "Bysshe"]),
    ],
    # open: how long is an elephant pregnant
    "q063": [
        (["elephant", "elephants"], ["months", "pregnant", "22", "pregnancy"]),
    ],
    # claim: The Sydney Harbour Bridge is longer than the Golden Gate Bridge.
    "q064": [
        (["Sydney Harbour Bridge", "Golden Gate"], ["long", "longer", "length", "metres"]),
    ],
    # two_hop: Who designed the opera house in the city whose bridge is called the Coathanger?
    "q068": [
        (["Sydney"], ["Utzon", "architect", "designed"]),
    ],
    # open: who wrote war and peace
    "q072": [
        (["War and Peace", "Russian", "novelist"], ["Tolstoy", "War and Peace"]),
    ],
    # claim: The Bank of England was founded in the seventeenth century.
    "q073": [
        (["Bank of England"], ["founded", "1694", "seventeenth century", "Bank of England"]),
    ],
    # two_hop: In which town was the painter of The Night Watch born?
    "q077": [
        (["Rembrandt", "Night Watch"], ["Leiden", "Leyden", "born"]),
    ],
    # open: Which river flows through Baghdad?
    "q081": [
        (["Baghdad", "Iraq"], ["Tigris", "Baghdad"]),
    ],
    # claim: The first modern Olympic Games took place in Paris.
    "q082": [
        (["Olympic", "Olympics"], ["modern", "1896", "Coubertin", "Paris", "Athens"]),
    ],
    # two_hop: Which planet was discovered by the brother of Caroline Herschel?
    "q086": [
        (["Herschel", "Caroline"], ["Uranus", "planet"]),
        (["Uranus"], ["discovered", "discovery", "Herschel"]),
    ],
    # open: who composed the opera carmen
    "q090": [
        (["Carmen", "opera", "operas"], ["Bizet", "Carmen"]),
    ],
    # claim: Copper melts at a lower temperature than iron.
    "q091": [
        (["copper"], ["melt", "melts", "melting"]),
        (["iron"], ["melt", "melts", "melting"]),
    ],
    # two_hop: What colour is the disc on the flag of the country whose capital is Dhaka?
    "q098": [
        (["Dhaka", "Bangladesh"], ["red", "flag"]),
    ],
    # open: what is the national animal of scotland
    "q102": [
        (["Scotland", "Scottish"], ["unicorn", "national animal"]),
    ],
    # claim: The planned language Esperanto was the work of an eye doctor.
    "q103": [
        (["Esperanto"], ["Esperanto"]),
        (["Zamenhof"], ["Zamenhof"]),
    ],
    # two_hop: Which language do most people speak in the country whose capital is Ulaanbaatar?
    "q107": [
        (["Ulaanbaatar", "Mongolia"], ["Mongolian", "language"]),
    ],
}

# Absent questions for which the corpus holds a tempting passage: the right thing without the
# asked fact, or the asked kind of fact for a sibling thing.
NEAR_MISS: dict[str, str] = {
    "q003": "d0145",
    "q004": "d0207",
    "q008": "d0018",
    "q012": "d0039",
    "q013": "d0129",
    "q017": "d0063",
    "q024": "d0304",
    "q025": "d0063",
    "q029": "d0209",
    "q033": "d0099",
    "q034": "d0017",
    "q038": "d0384",
    "q042": "d0049",
    "q043": "d0225",
    "q047": "d0379",
    "q052": "d0007",
    "q056": "d0208",
    "q063": "d0224",
    "q064": "d0051",
    "q068": "d0382",
    "q072": "d0210",
    "q077": "d0080",
    "q081": "d0011",
    "q082": "d0299",
    "q086": "d0132",
    "q090": "d0027",
    "q091": "d0038",
}


def _read(name: str) -> list[dict[str, Any]]:
    lines = (DEMO / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


PASSAGES = _read("passages.jsonl")
QUESTIONS = _read("questions.jsonl")
FULL_TEXT = {p["passage_id"]: p["title"] + ". " + p["text"] for p in PASSAGES}
BY_ID = {q["question_id"]: q for q in QUESTIONS}


def _norm(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _holds(text: str, term: str) -> bool:
    """True when the term occurs in the text as whole words, whatever the case."""
    return re.search(r"(?<!\w)" + re.escape(_norm(term)) + r"(?!\w)", _norm(text)) is not None


def _answered_by(passage_ids: list[str], answers: list[str]) -> bool:
    return any(_holds(FULL_TEXT[i], a) for i in passage_ids for a in answers)


def test_fields() -> None:
    for p in PASSAGES:
        assert list(p) == ["passage_id", "title", "text"]
        assert all(isinstance(v, str) and v == v.strip() and v for v in p.values())
        assert re.fullmatch(r"d\d{4}", p["passage_id"])
    for q in QUESTIONS:
        assert list(q) == ["question_id", "shape", "question", "answers", "evidence"]
        assert re.fullmatch(r"q\d{3}", q["question_id"])
        assert q["shape"] in SHAPES
        assert q["answers"]
        assert all(isinstance(a, str) and a.strip() for a in q["answers"])
        assert len(q["answers"]) == len(set(q["answers"]))
        assert isinstance(q["evidence"], list)  # never null: evidence is always known here
        assert all(isinstance(s, list) and s for s in q["evidence"])


def test_counts() -> None:
    assert len(PASSAGES) >= 300
    assert len(QUESTIONS) >= 80
    per_shape = Counter(q["shape"] for q in QUESTIONS)
    assert set(per_shape) == set(SHAPES)
    assert min(per_shape.values()) >= 25


@pytest.mark.parametrize("key", ["passage_id", "title", "text"])
def test_passages_unique(key: str) -> None:
    values = [_norm(p[key]) for p in PASSAGES]
    assert len(values) == len(set(values))


@pytest.mark.parametrize("key", ["question_id", "question"])
def test_questions_unique(key: str) -> None:
    values = [_norm(q[key]) for q in QUESTIONS]
    assert len(values) == len(set(values))


def test_passages_are_short_plain_text() -> None:
    for p in PASSAGES:
        assert 15 <= len(p["text"].split()) <= 70, p["passage_id"]
        assert not re.search(r"[<>\[\]{}|*_#\n]|https?:", p["text"]), p["passage_id"]
        assert p["text"].endswith("."), p["passage_id"]


def test_answers_are_short() -> None:
    for q in QUESTIONS:
        assert len(q["answers"][0].split()) <= 4, q["question_id"]


def test_evidence_ids_exist() -> None:
    for q in QUESTIONS:
        for ids in q["evidence"]:
            assert len(ids) == len(set(ids)), q["question_id"]
            assert all(i in FULL_TEXT for i in ids), q["question_id"]


def test_size_of_evidence_sets() -> None:
    for q in QUESTIONS:
        size = 2 if q["shape"] == "two_hop" else 1
        assert all(len(ids) == size for ids in q["evidence"]), q["question_id"]
        sets = [frozenset(ids) for ids in q["evidence"]]
        assert len(sets) == len(set(sets)), q["question_id"]


def test_some_questions_have_alternative_evidence() -> None:
    assert sum(len(q["evidence"]) > 1 for q in QUESTIONS) >= 4


def test_share_of_absent_evidence() -> None:
    assert sum(not q["evidence"] for q in QUESTIONS) >= 0.25 * len(QUESTIONS)
    for shape in SHAPES:
        group = [q for q in QUESTIONS if q["shape"] == shape]
        assert sum(not q["evidence"] for q in group) >= 0.15 * len(group), shape


@pytest.mark.parametrize("first", [24, 48])
def test_file_starts_are_balanced(first: int) -> None:
    head = QUESTIONS[:first]
    assert Counter(q["shape"] for q in head) == dict.fromkeys(SHAPES, first // 3)
    assert 0.2 * first <= sum(not q["evidence"] for q in head) <= 0.4 * first
    claims = [q for q in head if q["shape"] == "claim"]
    supported = sum(q["answers"] == ["SUPPORTS"] for q in claims)
    assert 0.35 * len(claims) <= supported <= 0.65 * len(claims)


def test_claim_labels() -> None:
    claims = [q for q in QUESTIONS if q["shape"] == "claim"]
    labels = Counter(tuple(q["answers"]) for q in claims)
    assert set(labels) == {("SUPPORTS",), ("REFUTES",)}
    for group in (claims, [q for q in claims if q["evidence"]]):
        supported = sum(q["answers"] == ["SUPPORTS"] for q in group)
        assert 0.35 * len(group) <= supported <= 0.65 * len(group)


def test_present_evidence_holds_the_answer() -> None:
    for q in QUESTIONS:
        if q["shape"] != "claim":
            for ids in q["evidence"]:
                assert _answered_by(ids, q["answers"]), q["question_id"]


def test_second_hop_is_needed() -> None:
    """The answer is in the second passage only; the first one carries the link to it."""
    for q in QUESTIONS:
        if q["shape"] == "two_hop":
            for first, second in q["evidence"]:
                assert not _answered_by([first], q["answers"]), q["question_id"]
                assert _answered_by([second], q["answers"]), q["question_id"]


def test_question_does_not_hold_its_answer() -> None:
    for q in QUESTIONS:
        if q["shape"] != "claim":
            assert not any(_holds(q["question"], a) for a in q["answers"]), q["question_id"]


def test_absent_list_is_complete() -> None:
    assert set(ABSENT) == {i for i, q in BY_ID.items() if not q["evidence"]}
    for i, pairs in ABSENT.items():
        q = BY_ID[i]
        if q["shape"] != "claim":  # the answer would be noticed
            telling = [t for _, terms in pairs for t in terms]
            assert any(_holds(a, t) for a in q["answers"] for t in telling), i


@pytest.mark.parametrize("question_id", sorted(ABSENT))
def test_absent_evidence_is_absent(question_id: str) -> None:
    for subjects, telling in ABSENT[question_id]:
        for passage_id, text in FULL_TEXT.items():
            if any(_holds(text, s) for s in subjects):
                assert not any(_holds(text, t) for t in telling), passage_id


def test_near_misses() -> None:
    assert 3 * len(NEAR_MISS) >= len(ABSENT)
    for question_id, passage_id in NEAR_MISS.items():
        assert question_id in ABSENT
        assert passage_id in FULL_TEXT
