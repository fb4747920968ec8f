"""BM25's second step: the words of the whole corpus, numbered in order, with the number of passages that hold each.

One small folder for the corpus: the words one after another (`letters.bin`, UTF-8), where each begins (`starts.bin`,
int64, one more than there are words), in how many passages each is (`passages.bin`, int64), and meta.json with the
corpus's numbers of passages and tokens. Scores of all shards come from these, and every search looks its words up here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
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

LETTERS_FILE: Final = "letters.bin"
STARTS_FILE: Final = "starts.bin"
PASSAGES_FILE: Final = "passages.bin"
MERGED: Final = 1 << 20  # words of all shards that are in memory at one time, about
SLICE: Final = 1 << 20  # words of the dictionary that are compared at one time
REMEMBERED: Final = 1 << 17  # words whose number is kept in memory


class Corpus(NamedTuple):
    """What BM25 needs to know of the whole corpus beside its words."""

    passages: int
    tokens: int
    words: int


class Counted(NamedTuple):
    """Words in order, and in how many passages each is."""

    words: pa.LargeStringArray
    passages: Int64s


class Bm25Words:
    """A file stage's worker over the folders of all shards' tokens: merges their words, a piece of each at a time."""

    def __init__(self, settings: Bm25Settings, inputs: Mapping[str, Any]) -> None:
        self._settings = settings

    def __call__(self, rows: Mapping[str, Sequence[Path]], folder: Path) -> int:
        passages = tokens = words = letters = 0
        for path in rows["tokens"]:
            meta = check_meta(path, self._settings.word_settings())
            passages, tokens = passages + meta["passages"], tokens + meta["tokens"]
        files = [folder / name for name in (LETTERS_FILE, STARTS_FILE, PASSAGES_FILE)]
        with files[0].open("wb") as of_letters, files[1].open("wb") as of_starts, files[2].open("wb") as of_passages:
            of_starts.write(bytes(8))
            for part in merge([path / WORDS_FILE for path in rows["tokens"]]):
                sizes = pc.binary_length(part.words).to_numpy()
                of_starts.write((letters + np.cumsum(sizes, dtype=np.int64)).tobytes())
                of_letters.write("".join(part.words.to_pylist()).encode())
                of_passages.write(part.passages.tobytes())
                words, letters = words + len(sizes), letters + int(sizes.sum())
        write_meta(folder, self._settings.word_settings(), **Corpus(passages, tokens, words)._asdict())
        return passages


def merge(paths: Sequence[Path]) -> Iterator[Counted]:
    """The words of several sorted files as one sorted list without doubles, in pieces."""
    readers = [_Reader(path, max(1, MERGED // len(paths))) for path in paths]
    while readers := [reader for reader in readers if reader.fill()]:
        bound = min(reader.last for reader in readers)  # no file has a word up to this one that is not in memory yet
        yield _sum([reader.take(bound) for reader in readers])


class _Reader:
    """A sorted file of words, of which a piece is in memory."""

    def __init__(self, path: Path, size: int) -> None:
        self._batches = pq.ParquetFile(path).iter_batches(batch_size=size)
        self._left = Counted(pa.array([], pa.large_string()), np.empty(0, np.int64))

    def fill(self) -> bool:
        """Reads on where nothing is left; whether there is anything."""
        while not len(self._left.words):
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._left = Counted(batch.column("word").cast(pa.large_string()), batch.column("passages").to_numpy())
        return True

    @property
    def last(self) -> str:
        """The last word in memory."""
        word: str = self._left.words[-1].as_py()
        return word

    def take(self, bound: str) -> Counted:
        """What is in memory up to this word."""
        words, passages = self._left
        end = bisect_right(_Strings(words), bound)
        self._left = Counted(words.slice(end), passages[end:])
        return Counted(words.slice(0, end), passages[:end])


def _sum(parts: Sequence[Counted]) -> Counted:
    if len(parts) == 1:
        return parts[0]
    words = pa.concat_arrays([part.words for part in parts])
    order = pc.sort_indices(words)
    words = words.take(order)
    first = np.ones(len(words), bool)
    first[1:] = pc.not_equal(words.slice(1), words.slice(0, max(0, len(words) - 1))).to_numpy(zero_copy_only=False)
    passages = np.concatenate([part.passages for part in parts])[order.to_numpy()]
    return Counted(words.filter(pa.array(first)), np.add.reduceat(passages, np.flatnonzero(first)))


class Dictionary(Sequence[bytes]):
    """The words of a corpus in order, memory-mapped: workers of one node share the pages, and none holds them all."""

    def __init__(self, settings: Bm25Settings, words: Folders) -> None:
        folders = words.folders()
        meta = check_meta(folders[0], settings.word_settings()) if folders else {}
        self.corpus = Corpus(*(int(meta.get(name, 0)) for name in Corpus._fields))
        letters, starts, passages = (
            _map(folders[0] / name) if self.corpus.words else pa.py_buffer(bytes(8))
            for name in (LETTERS_FILE, STARTS_FILE, PASSAGES_FILE)
        )
        self._words = pa.LargeStringArray.from_buffers(len(self), starts, letters)
        self._starts = memoryview(starts).cast("q")
        self._letters = memoryview(letters)
        self.frequencies: Int64s = np.frombuffer(passages, np.int64)[: len(self)]
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


def _map(path: Path) -> pa.Buffer:
    return pa.memory_map(str(path)).read_buffer()
