"""The rule for `limit` on the demo, and that the packaged files load."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from rat_ray import datasets, tables
from rat_ray.datasets import DemoSettings
from rat_ray.datasets.packaged import balanced_questions
from rat_ray.datasets.questions import Question
from rat_ray.datasets.reading import Place
from rat_ray.errors import InputError


def rows(shapes: str) -> list[Question]:
    return [Question(Place(Path("f"), n), f"{n}{s}", "?", None, None, True, s) for n, s in enumerate(shapes)]


def test_a_limit_takes_shapes_in_turn_and_keeps_the_order() -> None:
    kept = balanced_questions(rows("aaaabbc"), 5)
    assert [row.question_id for row in kept] == ["0a", "1a", "4b", "5b", "6c"]
    assert balanced_questions(rows("aab"), 10) == rows("aab")


def test_the_packaged_files_load() -> None:
    source = datasets.load(DemoSettings())
    tables.check_table(source.questions(), tables.QUESTIONS, "demo")
    for batch in source.passages():
        tables.check_table(batch, tables.PASSAGES, "demo")
    limited = datasets.load(DemoSettings(limit=12))
    assert limited.questions().num_rows == 12
    assert set(Counter(limited.questions()["shape"].to_pylist()).values()) == {4}
    assert limited.passages_digest == source.passages_digest
    assert limited.digest != source.digest


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InputError, match=r"dataset\.limit=-1"):
        datasets.load(DemoSettings(limit=-1))
