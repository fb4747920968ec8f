"""BM25's last step: the finished scores of one shard, from the statistics of the whole corpus.

The scores are bm25s's own to the last bit: its functions compute them, from arrays instead of passage by passage, so a
shard's are those that one index of the whole corpus would hold. A folder has, for each of the shard's own words in
order, its number in the corpus (`words.npy`, int32) and where its entries begin (`indptr.npy`, int64), and for each
entry the passage's position (`indices.npy`, int32) and score (`data.npy`, float32); beside them ids.arrow and
meta.json.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rat_ray.errors import StageError
from rat_ray.retrieve.bm25_tokens import LENGTHS_FILE, TOKENS_FILE, WORDS_FILE, Int32s, Int64s
from rat_ray.retrieve.bm25_words import Corpus, Dictionary
from rat_ray.retrieve.hits import IDS_FILE, Folders, check_meta, map_array, write_meta
from rat_ray.retrieve.words import load_bm25s

if TYPE_CHECKING:
    from rat_ray.retrieve.bm25 import Bm25Settings

NUMBERS_FILE: Final = "words.npy"
INDPTR_FILE: Final = "indptr.npy"
INDICES_FILE: Final = "indices.npy"
DATA_FILE: Final = "data.npy"
SLICE: Final = 1 << 23  # tokens that are sorted at one time: about 50 bytes each
ENTRIES: Final = 1 << 18  # entries whose scores are computed at one time

Float32s = npt.NDArray[np.float32]


class Bm25Index:
    """A file stage's worker over one shard's tokens."""

    def __init__(self, settings: Bm25Settings, inputs: Mapping[str, Folders]) -> None:
        self._settings = settings
        self._dictionary = Dictionary(settings, inputs["words"])
        self._scoring = Scoring(settings, self._dictionary.corpus)

    def __call__(self, rows: Mapping[str, Sequence[Path]], folder: Path) -> int:
        [tokens] = rows["tokens"]
        meta = check_meta(tokens, self._settings.word_settings())
        table = pq.read_table(tokens / WORDS_FILE)
        words = table.column("word").combine_chunks().cast(pa.large_string())
        numbers = self._dictionary.numbers_of_sorted(words)
        np.save(folder / NUMBERS_FILE, numbers)
        own = table.column("passages").to_numpy()
        indptr = np.concatenate([[0], ends_of(own)]).astype(np.int64)
        np.save(folder / INDPTR_FILE, indptr)
        size = int(indptr[-1])
        _write_entries(folder, size, tokens, self._scoring, self._dictionary.frequencies[numbers])
        shutil.copyfile(tokens / IDS_FILE, folder / IDS_FILE)
        counts = {"passages": meta["passages"], "words": len(numbers), "entries": size}
        write_meta(folder, self._settings.index_settings(), **counts, **corpus_counts(self._dictionary.corpus))
        return int(meta["passages"])


def corpus_counts(corpus: Corpus) -> dict[str, int]:
    """What a shard's meta.json says of the corpus that its scores are for."""
    return {f"corpus_{name}": value for name, value in corpus._asdict().items()}


def check_corpus(folder: Path, meta: Mapping[str, Any], corpus: Corpus) -> None:
    """Raises StageError for a shard whose scores come from another corpus's statistics."""
    differ = [name for name, value in corpus_counts(corpus).items() if meta.get(name) != value]
    if differ:
        raise StageError(f"{folder}: the index was built with the statistics of another corpus: {', '.join(differ)}")


class Scoring:
    """bm25s's formulas for one method and one corpus. shifted: whether `absent` may be more than 0."""

    def __init__(self, settings: Bm25Settings, corpus: Corpus) -> None:
        bm25s = load_bm25s()
        known = bm25s.BM25(k1=float(settings.k1), b=float(settings.b), method=settings.method)
        self._idf = bm25s.scoring._select_idf_scorer(known.idf_method)
        self._tfc = bm25s.scoring._select_tfc_scorer(known.method)
        # np.float64 as in bm25s, so that the arithmetic on float32 counts is float64's.
        self._average = np.float64(corpus.tokens) / max(corpus.passages, 1)
        self._passages = corpus.passages
        self._given = {"l_avg": self._average, "k1": known.k1, "b": known.b, "delta": known.delta}
        self.shifted = known.method in known.methods_requiring_nonoccurrence

    def absent(self, frequency: int) -> np.float32:
        """What BM25L and BM25+ give a passage for a word that it does not hold; 0 for the others."""
        if not self.shifted:
            return np.float32(0)
        idf = self._idf(frequency, N=self._passages)
        return np.float32(idf * self._tfc(tf_array=0, l_d=self._average, **self._given))

    def weights(self, frequencies: Int64s) -> tuple[Float32s, Float32s]:
        """Inverse document frequency of each word, and `absent`: one call of bm25s for each different frequency."""
        different, where = np.unique(frequencies, return_inverse=True)
        idf = [self._idf(frequency, N=self._passages) for frequency in different.tolist()]
        absent = [self.absent(frequency) for frequency in different.tolist()]
        return np.array(idf, np.float32)[where], np.array(absent, np.float32)[where]

    def scores(self, idf: Float32s, absent: Float32s, counts: Int64s, lengths: Int32s) -> npt.NDArray[np.float64]:
        """One score per entry; bm25s adds a question's `absent` to their sums."""
        tfc = self._tfc(tf_array=counts.astype(np.float32), l_d=lengths, **self._given)
        scores: npt.NDArray[np.float64] = idf * tfc
        return scores - absent if self.shifted else scores


class _Entries(NamedTuple):
    """Of some of a shard's words, in the order of words and then passages."""

    words: Int64s
    passages: Int64s
    counts: Int64s


def _write_entries(folder: Path, size: int, tokens: Path, scoring: Scoring, frequencies: Int64s) -> None:
    lengths = map_array(tokens / LENGTHS_FILE)
    idf, absent = scoring.weights(frequencies)
    data = np.lib.format.open_memmap(folder / DATA_FILE, "w+", np.float32, (size,))
    indices = np.lib.format.open_memmap(folder / INDICES_FILE, "w+", np.int32, (size,))
    begin = 0
    for found in _entries(map_array(tokens / TOKENS_FILE), lengths, len(frequencies)):
        end = begin + len(found.words)
        indices[begin:end] = found.passages
        for start in range(0, len(found.words), ENTRIES):
            part = slice(start, start + ENTRIES)
            words, counts, sizes = found.words[part], found.counts[part], lengths[found.passages[part]]
            data[begin + start : min(begin + start + ENTRIES, end)] = scoring.scores(
                idf[words], absent[words], counts, sizes
            )
        begin = end
    data.flush()
    indices.flush()


def _entries(tokens: Int32s, lengths: Int32s, words: int) -> Iterator[_Entries]:
    """The entries of all words, of as many words at a time as have SLICE tokens."""
    for low, high in _cut_words(tokens, words):
        keys = np.concatenate([np.empty(0, np.int64), *_keys(tokens, lengths, low, high)])
        keys.sort()
        first = np.ones(len(keys), bool)
        np.not_equal(keys[1:], keys[:-1], out=first[1:])
        starts = np.flatnonzero(first)
        keys = keys[starts]
        counts = np.diff(starts, append=len(first))
        yield _Entries(low + (keys >> 32), keys & 0xFFFFFFFF, counts)


def _cut_words(tokens: Int32s, words: int) -> list[tuple[int, int]]:
    if len(tokens) <= SLICE:
        return [(0, words)]
    counts = np.zeros(words, np.int64)
    for start in range(0, len(tokens), SLICE):
        counts += np.bincount(tokens[start : start + SLICE], minlength=words)
    numbers = (np.cumsum(counts) - 1) // SLICE  # of the slice in which a word's last token is
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), words]
    return list(pairwise(cuts))


def ends_of(lengths: Int32s | Int64s) -> Int64s:
    """Where each of consecutive pieces ends: in 64 bits, since a shard may have more than 2**31 tokens."""
    return np.cumsum(lengths, dtype=np.int64)


def _keys(tokens: Int32s, lengths: Int32s, low: int, high: int) -> Iterator[Int64s]:
    """Word and passage of each token of the words in [low, high), as one number: the word counted from `low`."""
    ends = ends_of(lengths)
    first = 0
    while first < len(lengths):
        begin = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, begin + SLICE // 4, side="right")))
        mine = np.asarray(tokens[begin : ends[last - 1]]).astype(np.int64)
        passages = np.repeat(np.arange(first, last, dtype=np.int64), lengths[first:last])
        kept = slice(None) if len(tokens) <= SLICE else (mine >= low) & (mine < high)
        yield ((mine[kept] - low) << 32) | passages[kept]
        first = last
