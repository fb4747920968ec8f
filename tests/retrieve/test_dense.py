"""Dense retrieval against a plain dot product, sharded against not, and at the edges."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rat_ray.errors import InputError, StageError
from rat_ray.keys import key_of
from rat_ray.retrieve.dense import DenseRetrieve, DenseSettings
from rat_ray.retrieve.encoders import load_encoder
from rat_ray.retrieve.hits import passage_texts
from tests.helpers import MemoryInput
from tests.retrieve.corpora import build, made_up, made_up_questions, passages_table, questions_table, search


def test_the_flat_index_equals_a_dot_product(tmp_path: Path) -> None:
    passages, questions = made_up(400), made_up_questions(50)
    found = search(build(DenseSettings(depth=10), tmp_path, passages), questions)
    encoder = load_encoder("wordllama", 256)
    left = encoder.encode(questions["question"].to_pylist(), 8).astype(np.float64)
    right = encoder.encode(passage_texts(passages, title=True), 8).astype(np.float64)
    ids = passages["passage_id"].to_pylist()
    for row, scores in zip(found.to_pylist(), left @ right.T, strict=True):
        order = sorted(range(len(ids)), key=lambda n: (-round(scores[n], 12), ids[n]))[:10]
        assert row["passage_ids"] == [ids[n] for n in order]
        np.testing.assert_allclose(row["scores"], scores[order], atol=1e-12)


@pytest.mark.parametrize("cuts", [[200], [1, 37, 390]])
def test_shards_equal_one_index(tmp_path: Path, cuts: list[int]) -> None:
    passages, questions = made_up(400), made_up_questions(50)
    whole = search(build(DenseSettings(), tmp_path / "whole", passages), questions)
    bounds = [0, *cuts, 400]
    shards = [passages.slice(start, stop - start) for start, stop in pairwise(bounds)]
    assert search(build(DenseSettings(), tmp_path / "cut", *shards), questions).to_pylist() == whole.to_pylist()


def test_ranges_of_questions_change_nothing(tmp_path: Path) -> None:
    worker = build(DenseSettings(), tmp_path, made_up(300))
    questions = made_up_questions(60)
    cut = [search(worker, questions.slice(start, 7)) for start in range(0, 60, 7)]
    assert pa.concat_tables(cut).to_pylist() == search(worker, questions).to_pylist()


def test_batches_change_no_vector() -> None:
    texts = made_up(120)["text"].to_pylist()
    encoder = load_encoder("wordllama", 256)
    np.testing.assert_array_equal(encoder.encode(texts, 64), encoder.encode(texts, 5))


def test_the_same_corpus_gives_the_same_files(tmp_path: Path) -> None:
    passages = made_up(100)
    for name, batch in (("1", 64), ("2", 7)):
        build(DenseSettings(batch=batch), tmp_path / name, passages)
    for path in (tmp_path / "1" / "part-0").iterdir():
        assert path.read_bytes() == (tmp_path / "2" / "part-0" / path.name).read_bytes(), path.name


def test_more_copies_than_the_margin_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    rows: list[tuple[str, str | None, str]] = [(f"c{n * 37 % 100:02d}", None, "a red lantern") for n in range(100)]
    passages = passages_table([*rows, ("z", None, "a comet in the winter sky")])
    found = search(build(DenseSettings(depth=3), tmp_path, passages), questions_table(["lantern"]))
    assert found["passage_ids"].to_pylist() == [["c00", "c01", "c02"]]


def test_texts_that_are_empty_are_not_found_and_find_nothing(tmp_path: Path) -> None:
    passages = passages_table([("a", None, ""), ("b", "", ""), ("c", None, "A castle."), ("d", "Bridge", "")])
    found = search(build(DenseSettings(), tmp_path, passages), questions_table(["castle", ""]))
    assert found["passage_ids"].to_pylist() == [["c", "d"], []]
    assert found["error"].null_count == 2


def test_a_corpus_without_text(tmp_path: Path) -> None:
    for name, rows in (("1", [("a", None, "")]), ("2", [])):
        found = search(build(DenseSettings(), tmp_path / name, passages_table(rows)), questions_table(["castle"]))
        assert found["passage_ids"].to_pylist() == [[]]


def test_no_questions(tmp_path: Path) -> None:
    assert search(build(DenseSettings(), tmp_path, made_up(5)), questions_table([])).num_rows == 0


def test_other_scripts_and_a_depth_beyond_the_corpus(tmp_path: Path) -> None:
    passages = passages_table([("ru", None, "Москва является столицей России."), ("en", None, "A recipe for bread.")])
    found = search(
        build(DenseSettings(depth=50), tmp_path, passages), questions_table(["столица России", "baking bread"])
    )
    assert found["passage_ids"].to_pylist() == [["ru", "en"], ["en", "ru"]]


@pytest.mark.parametrize("dim", [64, 128])
def test_shorter_vectors(tmp_path: Path, dim: int) -> None:
    found = search(build(DenseSettings(dim=dim), tmp_path, made_up(30)), made_up_questions(3))
    assert all(abs(score) <= 1 + 1e-6 for scores in found["scores"].to_pylist() for score in scores)


def test_importing_the_encoder_leaves_logging_alone() -> None:
    code = (
        "import logging; from rat_ray.retrieve.encoders import load_encoder; load_encoder('wordllama', 256);"
        "root = logging.getLogger(); assert not root.handlers and root.level == logging.WARNING, root.handlers"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(root)})


def test_the_index_does_not_depend_on_how_it_is_searched() -> None:
    settings = DenseSettings()
    assert replace(settings, depth=3, batch=1, threads=2).index_settings() == settings.index_settings()
    assert key_of(replace(settings, batch=1, threads=2)) == key_of(settings), "speed is no part of the result"
    for change in ({"dim": 64}, {"title": False}):
        assert replace(settings, **change).index_settings() != settings.index_settings()


def test_an_index_of_other_settings_is_refused(tmp_path: Path) -> None:
    build(DenseSettings(dim=64), tmp_path, made_up(5))
    with pytest.raises(StageError, match="dim differ"):
        DenseRetrieve(DenseSettings(), {"index": MemoryInput(folders=[tmp_path / "part-0"])})


def test_bad_settings() -> None:
    for settings, part in (
        (DenseSettings(depth=0), "retriever.depth=0"),
        (DenseSettings(threads=0), "retriever.threads=0"),
        (DenseSettings(encoder="wordlama"), "did you mean 'wordllama'?"),
    ):
        with pytest.raises(InputError) as caught:
            settings.validate()
        assert part in str(caught.value)
    for dim in (100, 300, 512):
        with pytest.raises(InputError, match=f"dim={dim}"):
            load_encoder("wordllama", dim)
