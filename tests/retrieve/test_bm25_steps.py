"""What the steps of a BM25 index write, and that it does not depend on how the work is cut."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rat_ray.errors import StageError
from rat_ray.retrieve import bm25_index, bm25_search, bm25_tokens, bm25_words
from rat_ray.retrieve.bm25 import Bm25Retrieve, Bm25Settings
from rat_ray.retrieve.bm25_index import Bm25Index
from rat_ray.retrieve.bm25_words import Bm25Words, Dictionary
from rat_ray.retrieve.hits import Hits, candidates, rank, read_ids
from rat_ray.retrieve.words import Tokenizer
from tests.retrieve.corpora import made_up, made_up_questions, passages_table, questions_table, search
from tests.retrieve.stepping import run_steps

TEXTS = passages_table(
    [
        ("a", "Rivers", "The river and the bridges"),
        ("b", None, ""),
        ("c", None, "Bridge, bridge; 川の橋"),
        ("d", None, "the"),
    ]
)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_tokens(tmp_path: Path) -> None:
    [folder] = run_steps(Bm25Settings(), tmp_path, TEXTS)["tokens"].folders()
    words = pq.read_table(folder / "words.parquet")
    assert words.to_pydict() == {"word": ["bridg", "river", "の橋", "川の"], "passages": [2, 1, 1, 1]}
    assert words.schema.metadata == {b"passages": b"4", b"tokens": b"7"}
    assert np.load(folder / "tokens.npy").tolist() == [1, 1, 0, 0, 0, 3, 2]
    assert np.load(folder / "lengths.npy").tolist() == [3, 0, 4, 0]
    assert read_ids(folder).to_pylist() == ["a", "b", "c", "d"]


def test_words_of_all_shards(tmp_path: Path) -> None:
    made = run_steps(Bm25Settings(), tmp_path, TEXTS, TEXTS.slice(0, 0), TEXTS.slice(2))
    [folder] = made["words"].folders()
    assert (folder / "letters.bin").read_text() == "bridgriverの橋川の"
    assert np.fromfile(folder / "starts.bin", np.int64).tolist() == [0, 5, 10, 16, 22]
    assert np.fromfile(folder / "passages.bin", np.int64).tolist() == [3, 1, 2, 2]
    dictionary = Dictionary(Bm25Settings(), made["words"])
    assert dictionary.corpus == (6, 11, 4)
    assert dictionary.numbers(["川の", "bridg", "", "zebra", "bridge", "a", "川の", "橋", "\U0010ffff"]) == [3, 0, 3]


def counted(passages: pa.Table) -> dict[str, Counter[str]]:
    """Words of each passage, counted in the plainest way."""
    rows = passages.to_pylist()
    words = Tokenizer(Bm25Settings())([f"{row['title'] or ''} {row['text']}" for row in rows])
    return {row["passage_id"]: Counter(line) for row, line in zip(rows, words, strict=True)}


def test_an_index_has_every_word_of_every_passage(tmp_path: Path) -> None:
    passages = made_up(130)
    made = run_steps(Bm25Settings(), tmp_path, passages.slice(0, 100), passages.slice(100))
    dictionary, expected = Dictionary(Bm25Settings(), made["words"]), counted(passages)
    for folder in made["index"].folders():
        numbers, indptr, indices, data = (np.load(folder / f"{n}.npy") for n in ("words", "indptr", "indices", "data"))
        ids = read_ids(folder).to_pylist()
        found = {
            (ids[position], dictionary[number].decode())
            for number, start, end in zip(numbers, indptr[:-1], indptr[1:], strict=True)
            for position in indices[start:end]
        }
        assert found == {(name, word) for name in ids for word in expected[name]}
        assert len(found) == len(data) == indptr[-1]
        assert np.all(np.diff(numbers) > 0)
        assert np.all(data > 0)
        assert (indptr.dtype, indices.dtype, data.dtype) == (np.int64, np.int32, np.float32)


def test_files_do_not_depend_on_batches_and_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done in pieces for large shards is the same as in one go."""
    passages = pa.concat_tables([made_up(150), TEXTS, passages_table([("long", None, "tower " * 200 + "moss fern")])])
    shards = [passages.slice(0, 90), passages.slice(90)]
    for method in ("lucene", "bm25l"):
        run_steps(Bm25Settings(method=method), tmp_path / method, *shards)
    monkeypatch.setattr(bm25_tokens, "BATCH", 7)
    monkeypatch.setattr(bm25_tokens, "BATCH_BYTES", 600)
    monkeypatch.setattr(bm25_tokens, "CACHE", 10)
    monkeypatch.setattr(bm25_words, "MERGED", 7)
    monkeypatch.setattr(bm25_words, "SLICE", 5)
    monkeypatch.setattr(bm25_index, "SLICE", 64)
    monkeypatch.setattr(bm25_index, "ENTRIES", 11)
    for method in ("lucene", "bm25l"):
        made = run_steps(Bm25Settings(method=method), tmp_path / "cut" / method, *shards)
        folders = [made["tokens"].folders()[0], made["index"].folders()[1]]
        assert len(bm25_index._cut_words(np.load(folders[0] / "tokens.npy"), 40)) > 5
        assert contents(tmp_path / "cut" / method) == contents(tmp_path / method)


def test_the_same_corpus_gives_the_same_files_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.retrieve.corpora import made_up;"
        "from tests.retrieve.stepping import run_steps; from rat_ray.retrieve.bm25 import Bm25Settings;"
        "run_steps(Bm25Settings(), Path(sys.argv[1]), made_up(60), made_up(40, seed=1))"
    )
    root = Path(__file__).resolve().parents[2]
    for seed in ("1", "2"):  # of Python's string hashes, which differ from process to process
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        subprocess.run([sys.executable, "-c", code, str(tmp_path / seed)], check=True, env=environment, cwd=root)
    assert len(contents(tmp_path / "1")) == 2 * 5 + 4 + 2 * 6
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_tokens_of_other_settings_are_refused(tmp_path: Path) -> None:
    made = run_steps(Bm25Settings(), tmp_path, made_up(10))
    other = Bm25Settings(stemmer="")
    with pytest.raises(StageError, match="stemmer, stemmer_version differ"):
        Bm25Words(other, {})({"tokens": made["tokens"].folders()}, tmp_path)
    with pytest.raises(StageError, match="stemmer, stemmer_version differ"):
        Bm25Index(other, made)


def test_tokens_of_another_corpus_are_refused(tmp_path: Path) -> None:
    made = run_steps(Bm25Settings(), tmp_path / "1", TEXTS)
    other = run_steps(Bm25Settings(), tmp_path / "2", made_up(10))
    for words, tokens in ((made, other), (other, made)):
        with pytest.raises(StageError, match="not those of this corpus"):
            Bm25Index(Bm25Settings(), words)({"tokens": tokens["tokens"].folders()}, tmp_path)


@pytest.mark.parametrize("name", ["data.npy", "indptr.npy", "ids.arrow", "meta.json"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    made = run_steps(Bm25Settings(), tmp_path, made_up(50))
    path = made["index"].folders()[0] / name
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(StageError, match=rf"{name} is damaged \(.+\); delete .*index and run the same command again"):
        Bm25Retrieve(Bm25Settings(), {"index": made["index"], "words": made["words"]})


def test_offsets_beyond_32_bits() -> None:
    """A shard may have more than 2**31 entries: where a word's begin is computed in 64 bits, also from int32 arrays."""
    lengths = np.array([2**31 - 1, 2**31 - 1, 5], np.int32)
    assert bm25_index.ends_of(lengths).tolist() == [2**31 - 1, 2**32 - 2, 2**32 + 3]


def test_a_shard_with_more_than_32_bits_of_entries_is_searched(tmp_path: Path) -> None:
    """The arrays are sparse files of 8 GiB each, of which a page or two are written."""
    made = run_steps(Bm25Settings(), tmp_path, passages_table([("a", None, "lantern"), ("b", None, "comet lantern")]))
    [folder] = made["index"].folders()
    indptr = np.load(folder / "indptr.npy")
    far = 2**31 + 10
    for name in ("indices", "data"):
        old = np.load(folder / f"{name}.npy")
        new = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", old.dtype, (far + len(old),))
        new[far:] = old
        new.flush()
    np.save(folder / "indptr.npy", indptr + far)
    found = search(Bm25Retrieve(Bm25Settings(), made), questions_table(["comet", "lantern"]))
    assert found["passage_ids"].to_pylist() == [["b"], ["a", "b"]]
    for name in ("indices", "data"):
        (folder / f"{name}.npy").unlink()


@pytest.mark.parametrize("size", [0, 1, 5, 64, 300, 5000])
def test_the_best_are_those_of_hits(size: int) -> None:
    """The quick selection and ranking against the plain ones, with many ties."""
    draw = np.random.default_rng(size)
    for values in (2, 5, 40, 10**6):
        scores = np.zeros(-(-size // 64) * 64, np.float32)
        scores[:size] = draw.integers(0, values, size) / np.float32(8) * draw.integers(0, 2, size)
        for depth in (1, 3, 20, 1000):
            for floor in (0.0, 0.25):
                for bound in (floor, floor + 0.125, values / 10, values):
                    expected = candidates(scores[:size], floor, depth)
                    expected = expected[scores[expected] >= bound] if bound > floor else expected
                    got = bm25_search.best(scores, np.float32(floor), np.float32(bound), depth)
                    np.testing.assert_array_equal(got, expected)


def test_lists_are_ranked_as_hits_rank_them() -> None:
    draw = np.random.default_rng(3)
    asked = made_up_questions(30)["question_id"]
    found, expected = [], [Hits([], []) for _ in range(30)]
    for shard in range(3):
        questions = np.sort(draw.integers(0, 30, 200))
        scores = (draw.integers(1, 6, 200) / 4).astype(np.float32)
        ids = [f"{draw.integers(10)}-{shard}-{n}" for n in range(200)]
        found.append(bm25_search.Found(questions, scores, pa.array(ids)))
        for question, score, name in zip(questions, scores, ids, strict=True):
            expected[question].passage_ids.append(name)
            expected[question].scores.append(float(score))
    table = bm25_search.lists_of(asked, found, 9)
    for row, hits in zip(table.to_pylist(), expected, strict=True):
        best = rank(hits.passage_ids, hits.scores, 9)
        assert (row["passage_ids"], row["scores"]) == (best.passage_ids, best.scores)
