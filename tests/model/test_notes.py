"""What is said of labels that may have been given only where they are what they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rat_ray.model import EngineSettings, fit

R, A, T = "r", "a", "t"


def notes(r: list[int | None], a: list[int | None], t: list[int | None]) -> list[str]:
    labels = pa.table({name: pa.array(column, pa.int8()) for name, column in ((R, r), (A, a), (T, t))})
    return [
        note
        for note in fit(labels, engine=EngineSettings(chains=2, warmup=200, samples=200)).notes
        if "is labelled on" in note
    ]


def test_labels_that_are_all_alike_on_some_items_are_told() -> None:
    [note] = notes([0, None, None, None], [0, 0, 1, 0], [0, 1, None, None])
    assert note.startswith("r is labelled on 1 of 4 items and is 0 on all of them")
    [note] = notes([0, 1, 1, 1], [0, 0, 1, 0], [1, 1, None, None])
    assert note.startswith("t is labelled on 2 of 3 items and is 1 on all of them")


@pytest.mark.parametrize("r", [[0, 1, None, None], [1, 1, 1, 1], [None] * 4])
def test_labels_that_differ_or_are_complete_or_absent_are_not(r: list[int | None]) -> None:
    assert notes(r, [0, 0, 1, 0], [0, 1, None, None]) == []
