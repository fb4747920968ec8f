"""Small corpora for the tests of retrieval; `stepping` builds indexes of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rat_ray import tables

WORDS = [
    "river",
    "bridge",
    "castle",
    "winter",
    "painter",
    "engine",
    "harbour",
    "violin",
    "desert",
    "island",
    "glass",
    "copper",
    "saddle",
    "comet",
    "orchard",
    "lantern",
    "anchor",
    "meadow",
    "thunder",
    "marble",
    "falcon",
    "tunnel",
    "garden",
    "pepper",
    "mirror",
    "candle",
    "forest",
    "cotton",
    "tower",
    "signal",
]


def passages_table(rows: Sequence[tuple[str, str | None, str]]) -> pa.Table:
    """Passages from (passage_id, title, text)."""
    return pa.table(
        {name: [row[index] for row in rows] for index, name in enumerate(tables.PASSAGES.names)},
        schema=tables.PASSAGES,
    )


def questions_table(texts: list[str]) -> pa.Table:
    """Questions with ids q0, q1, … and nothing else known."""
    size = len(texts)
    return pa.table(
        {
            "question_id": [f"q{index}" for index in range(size)],
            "question": texts,
            "answers": [None] * size,
            "evidence": [None] * size,
            "shape": [None] * size,
        },
        schema=tables.QUESTIONS,
    )


def made_up(size: int, seed: int = 7) -> pa.Table:
    """`size` passages of random words; some are word for word copies of another, as in real corpora."""
    draw = random.Random(seed)
    rows: list[tuple[str, str | None, str]] = []
    for index in range(size):
        title, text = draw.choice(WORDS).title(), " ".join(draw.choices(WORDS, k=draw.randint(3, 30)))
        if index % 10 == 9:
            _, title, text = rows[draw.randrange(len(rows))]  # type: ignore[assignment]
        rows.append((f"p{draw.randrange(10**9):09d}-{index}", title, text))
    return passages_table(rows)


def made_up_questions(size: int, seed: int = 8) -> pa.Table:
    draw = random.Random(seed)
    return questions_table([" ".join(draw.choices(WORDS, k=draw.randint(1, 6))) for _ in range(size)])


def search(worker: Any, questions: pa.Table) -> pa.Table:
    """Calls a retrieval worker and checks what every worker promises."""
    found = worker({"questions": questions})
    tables.check_table(found, tables.RETRIEVALS, "retrievals")
    assert found["question_id"].to_pylist() == questions["question_id"].to_pylist()
    for names, scores in zip(found["passage_ids"].to_pylist(), found["scores"].to_pylist(), strict=True):
        pairs = [(-score, name) for name, score in zip(names, scores, strict=True)]
        assert pairs == sorted(set(pairs)), "best first, ties by passage id, no passage twice"
    return found
