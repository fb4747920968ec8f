"""BM25's second step: the words of the whole corpus, numbered in order, with the number of passages that hold each.

One small folder for the corpus: `words.arrow` (word, sorted; passages) and meta.json with the corpus's numbers of
passages and tokens. Scores of all shards come from these, and every search looks its words up here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rat_ray.errors import StageError
from rat_ray.retrieve.bm25_tokens import WORDS_FILE, Int64s
from rat_ray.retrieve.hits import Folders, check_meta, write_meta

if TYPE_CHECKING:
    from rat_ray.retrieve.bm25 import Bm25Settings

DICTIONARY_FILE: Final = "words.arrow"
SCHEMA: Final = pa.schema([pa.field("word", pa.large_string()), pa.field("passages", pa.int64())])
PENDING: Final = 4_000_000  # words of shards that wait to be merged, at least
SLICE: Final = 1 << 20  # words of the dictionary that are compared at one time
REMEMBERED: Final = 1 << 17  # words whose number is kept in memory


class Corpus(NamedTuple):
    """What BM25 needs to know of the whole corpus beside its words."""

    passages: int
    tokens: int
    words: int


class Bm25Words:
    """A file stage's worker over the folders of all shards' tokens. Needs about 100 bytes per different word."""

    def __init__(self, settings: Bm25Settings, inputs: Mapping[str, Any]) -> None:
        self._settings = settings

    def __call__(self, rows: Mapping[str, Sequence[Path]], folder: Path) -> int:
        merged, pending, waiting = SCHEMA.empty_table(), [], 0
        passages = tokens = 0
        for path in rows["tokens"]:
            meta = check_meta(path, self._settings.word_settings())
            passages, tokens = passages + meta["passages"], tokens + meta["tokens"]
            pending.append(pq.read_table(path / WORDS_FILE).cast(SCHEMA))
            waiting += pending[-1].num_rows
            if waiting > max(PENDING, merged.num_rows):  # at most twice what the result takes is in memory
                merged, pending, waiting = _merge([merged, *pending]), [], 0
        merged = _merge([merged, *pending]).sort_by("word").combine_chunks()
        with pa.ipc.new_file(str(folder / DICTIONARY_FILE), SCHEMA) as file:
            file.write_table(merged, max_chunksize=max(1, merged.num_rows))
        corpus = Corpus(passages, tokens, merged.num_rows)
        write_meta(folder, self._settings.word_settings(), **corpus._asdict())
        return passages


def _merge(tables: list[pa.Table]) -> pa.Table:
    grouped = pa.concat_tables(tables).group_by("word").aggregate([("passages", "sum")])
    return grouped.select(["word", "passages_sum"]).rename_columns(SCHEMA.names).cast(SCHEMA)


class Dictionary(Sequence[bytes]):
    """The words of a corpus in order, memory-mapped: workers of one node share the pages, and none holds them all."""

    def __init__(self, settings: Bm25Settings, words: Folders) -> None:
        folders = words.folders()
        meta = check_meta(folders[0], settings.word_settings()) if folders else {}
        self.corpus = Corpus(*(int(meta.get(name, 0)) for name in Corpus._fields))
        table = _open(folders[0] / DICTIONARY_FILE) if self.corpus.words else SCHEMA.empty_table()
        self._words = _one(table.column("word"))
        self.frequencies: Int64s = _one(table.column("passages")).to_numpy()
        _, starts, letters = self._words.buffers()
        self._starts = memoryview(starts or b"\0" * 8).cast("B").cast("q")
        self._letters = memoryview(letters or b"")
        self._find = lru_cache(REMEMBERED)(self._search)

    def __len__(self) -> int:
        return self.corpus.words

    def __getitem__(self, number: Any) -> Any:
        """One word, as UTF-8."""
        return bytes(self._letters[self._starts[number] : self._starts[number + 1]])

    def numbers(self, words: Sequence[str]) -> list[int]:
        """The numbers of those words that the corpus has; the others are left out."""
        found = [self._find(word) for word in words]
        return [number for number in found if number >= 0]

    def numbers_of_sorted(self, words: pa.LargeStringArray) -> npt.NDArray[np.int32]:
        """The numbers of many sorted words. Raises StageError unless the corpus has all of them."""
        found = [np.empty(0, np.int32)]
        begin = 0
        for start in range(0, len(self), SLICE):
            known = self._words.slice(start, SLICE)
            last = known[-1].as_py()
            end = bisect_right(_Strings(words), last, lo=begin)
            positions = pc.index_in(words.slice(begin, end - begin), value_set=known)
            if positions.null_count:
                break
            found.append(positions.to_numpy() + np.int32(start))
            begin = end
        numbers = np.concatenate(found)
        if len(numbers) < len(words):
            raise StageError(f"{len(words)} words of a shard are not those of this corpus, which has {len(self)}")
        return numbers

    def _search(self, word: str) -> int:
        wanted = word.encode()
        place = bisect_left(self, wanted)
        return place if place < len(self) and self[place] == wanted else -1


class _Strings(Sequence[str]):
    """An Arrow array as Python's bisect wants it."""

    def __init__(self, array: pa.LargeStringArray) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, place: Any) -> Any:
        return self._array[place].as_py()


def _open(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
