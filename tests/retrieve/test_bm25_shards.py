"""A BM25 index in shards is the index of the whole corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rat_ray import datasets
from rat_ray.datasets import FilesSettings
from rat_ray.errors import StageError
from rat_ray.retrieve.bm25 import METHODS, Bm25Retrieve, Bm25Settings
from rat_ray.retrieve.groups import GroupsSettings, MergeGroups
from tests.retrieve.corpora import made_up, made_up_questions, passages_table, questions_table, search
from tests.retrieve.stepping import FolderInput, build, run_steps

SIZE = 400
UNEVEN = [[], [1], [60, 61, 62, 200, 390, 399], list(range(25, SIZE, 25)), [0], [100, 100, 100], [SIZE]]


def corpus() -> pa.Table:
    """Words differ in frequency from one end of the corpus to the other, as pages of one topic do; some are empty."""
    rows = made_up(SIZE).to_pylist()
    changed = []
    for number, row in enumerate(rows):
        text = "" if number % 23 == 0 else row["text"]
        rare = f"w{number // 50} w{number % 7} " if text else ""
        changed.append((row["passage_id"], row["title"] if text else None, rare * (number % 4) + text))
    return passages_table(changed)


def questions() -> pa.Table:
    texts = made_up_questions(40)["question"].to_pylist()
    asked = [f"{text} w{n % 8} w{n % 3}" if n % 2 else text for n, text in enumerate(texts)]
    return questions_table([*asked, "w0", "w7", "w1 w1 zebra", "zebra", ""])


def shards(passages: pa.Table, cuts: Sequence[int]) -> list[pa.Table]:
    return [passages.slice(start, stop - start) for start, stop in pairwise([0, *cuts, passages.num_rows])]


@pytest.mark.parametrize("method", METHODS)
def test_sharded_is_unsharded(tmp_path: Path, method: str) -> None:
    """Bit for bit, in 1, 2, 7 and 16 shards, uneven, some of them empty."""
    settings = Bm25Settings(method=method, depth=12)
    passages, asked = corpus(), questions()
    whole = search(build(settings, Bm25Retrieve, tmp_path / "whole", passages), asked)
    assert sum(map(len, whole["passage_ids"].to_pylist())) > 400
    for number, cuts in enumerate(UNEVEN):
        worker = build(settings, Bm25Retrieve, tmp_path / str(number), *shards(passages, cuts))
        assert search(worker, asked).equals(whole), cuts


def test_statistics_of_the_shards_themselves_would_give_another_result(tmp_path: Path) -> None:
    """The corpus above can tell: with each shard's own numbers hardly a list stays as it is."""
    settings = Bm25Settings(depth=12)
    passages, asked = corpus(), questions()
    whole = search(build(settings, Bm25Retrieve, tmp_path / "whole", passages), asked)["passage_ids"].to_pylist()
    own = [
        search(build(settings, Bm25Retrieve, tmp_path / str(number), shard), asked)
        for number, shard in enumerate(shards(passages, range(25, SIZE, 25)))
    ]
    merged = MergeGroups(GroupsSettings(settings.depth), {})({str(number): one for number, one in enumerate(own)})
    same = [one == other for one, other in zip(merged["passage_ids"].to_pylist(), whole, strict=True) if other]
    assert np.mean(same) < 0.5


@pytest.mark.parametrize("method", ["lucene", "bm25+"])
def test_groups_of_shards_merge_to_the_whole(tmp_path: Path, method: str) -> None:
    """A worker that has some of the shards only gives their scores as in the whole index, also for absent words."""
    settings = Bm25Settings(method=method, depth=12)
    made = run_steps(settings, tmp_path, *shards(corpus(), range(25, SIZE, 25)))
    asked = questions()
    whole = search(Bm25Retrieve(settings, made), asked)
    folders = made["index"].folders()
    groups = [folders[:3], folders[3:4], [], folders[4:]]
    found = {
        str(number): search(Bm25Retrieve(settings, {**made, "index": FolderInput(group, 0)}), asked)
        for number, group in enumerate(groups)
    }
    assert found["2"]["passage_ids"].to_pylist() == [[]] * asked.num_rows
    assert MergeGroups(GroupsSettings(settings.depth), {})(found).equals(whole)


def test_copies_in_different_shards_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    rows = [(f"c{n * 37 % 100:02d}", None, "a red lantern") for n in range(100)]
    passages = passages_table([*rows, ("z", None, "a comet")])
    worker = build(Bm25Settings(depth=5), Bm25Retrieve, tmp_path, *shards(passages, [3, 50, 51]))
    found = search(worker, questions_table(["lantern"]))
    assert found["passage_ids"].to_pylist() == [["c00", "c01", "c02", "c03", "c04"]]


def test_real_questions_in_16_shards(tmp_path: Path, shared_data: Path) -> None:
    source = datasets.load(FilesSettings(path=str(shared_data / "hotpotqa")))
    passages, asked = pa.concat_tables(source.passages()), source.questions()
    cuts = [passages.num_rows * n // 16 for n in range(1, 16)]
    whole = search(build(Bm25Settings(), Bm25Retrieve, tmp_path / "whole", passages), asked)
    worker = build(Bm25Settings(), Bm25Retrieve, tmp_path / "shards", *shards(passages, cuts))
    assert search(worker, asked).equals(whole)


def test_a_corpus_of_no_passages_has_no_shards(tmp_path: Path) -> None:
    nothing = {"index": FolderInput([], 0), "words": FolderInput([], 0)}
    found = search(Bm25Retrieve(Bm25Settings(method="bm25l"), nothing), questions_table(["anything"]))
    assert found["passage_ids"].to_pylist() == [[]]
    made = run_steps(Bm25Settings(), tmp_path)
    found = search(Bm25Retrieve(Bm25Settings(), made), questions_table(["anything"]))
    assert found["passage_ids"].to_pylist() == [[]]


def test_an_index_of_other_settings_is_refused(tmp_path: Path) -> None:
    made = run_steps(Bm25Settings(), tmp_path / "a", made_up(20))
    with pytest.raises(StageError, match="title differ"):
        Bm25Retrieve(Bm25Settings(title=False), made)
    with pytest.raises(StageError, match="b, k1 differ"):
        Bm25Retrieve(Bm25Settings(k1=1, b=0.5), made)
    with pytest.raises(StageError, match="not an index"):
        Bm25Retrieve(Bm25Settings(), {**made, "index": FolderInput([tmp_path], 20)})
    other = run_steps(Bm25Settings(), tmp_path / "b", made_up(21))
    with pytest.raises(StageError, match="another corpus: corpus_passages, corpus_tokens"):
        Bm25Retrieve(Bm25Settings(), {"index": made["index"], "words": other["words"]})


def test_scores_reach_the_table_as_they_are(tmp_path: Path) -> None:
    """float32 in float64, and another depth is a prefix."""
    passages, asked = corpus(), questions()
    made = run_steps(Bm25Settings(), tmp_path, *shards(passages, [150]))
    deep = search(Bm25Retrieve(Bm25Settings(depth=SIZE), made), asked).to_pylist()
    for depth in (1, 5, 64):
        found = search(Bm25Retrieve(replace(Bm25Settings(), depth=depth), made), asked).to_pylist()
        for row, whole in zip(found, deep, strict=True):
            assert row["passage_ids"] == whole["passage_ids"][:depth]
            assert row["scores"] == whole["scores"][:depth] == np.float32(row["scores"]).tolist()
