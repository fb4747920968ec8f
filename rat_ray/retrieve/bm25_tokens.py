"""BM25's first step: a range of passages as numbers of words, and the words with the number of passages that hold them.

A folder has `tokens.npy` (int32, the words of all passages in a row, numbered in the order of words.parquet),
`lengths.npy` (int32, tokens per passage), `words.parquet` (word, sorted; passages: how many hold it; the range's own
numbers of passages and tokens stand in its metadata), ids.arrow and meta.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rat_ray.retrieve.hits import passage_texts, write_ids, write_meta
from rat_ray.retrieve.words import Tokenizer

if TYPE_CHECKING:
    from rat_ray.retrieve.bm25 import Bm25Settings

TOKENS_FILE: Final = "tokens.npy"
LENGTHS_FILE: Final = "lengths.npy"
WORDS_FILE: Final = "words.parquet"
BATCH: Final = 10_000  # passages whose words are Python strings at one time, or fewer, if they are long:
BATCH_BYTES: Final = 1 << 24
CACHE: Final = 1_000_000  # words as written whose number is remembered

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class Bm25Tokens:
    """A file stage's worker. Needs 4 bytes per token, and what a batch and the range's different words take."""

    def __init__(self, settings: Bm25Settings, inputs: Mapping[str, Any]) -> None:
        self._settings = settings
        self._tokenizer = Tokenizer(settings)

    def __call__(self, rows: Mapping[str, pa.Table], folder: Path) -> int:
        passages = rows["passages"]
        numbers = _Numbers(self._tokenizer)
        tokens, lengths = [], [np.empty(0, np.int32)]
        frequencies = np.zeros(0, np.int64)
        for batch in _batches(passages, self._settings.title):
            mine, sizes = numbers.number(batch)
            tokens.append(mine)
            lengths.append(sizes)
            frequencies = _add_frequencies(frequencies, mine, sizes, len(numbers.stems))
        size = np.concatenate(lengths)
        _write_words(folder, numbers.stems, frequencies, tokens, passages.num_rows)
        np.save(folder / LENGTHS_FILE, size)
        write_ids(folder, passages.column("passage_id"))
        counts = {"passages": passages.num_rows, "tokens": int(size.sum(dtype=np.int64)), "words": len(numbers.stems)}
        write_meta(folder, self._settings.word_settings(), **counts, empty=int((size == 0).sum()))
        return len(size)


def _batches(passages: pa.Table, title: bool) -> Iterator[list[str]]:
    ends = np.cumsum(pc.binary_length(passages.column("text")).to_numpy(), dtype=np.int64)
    start = 0
    while start < len(ends):
        bytes_before = int(ends[start - 1]) if start else 0
        stop = min(start + BATCH, int(np.searchsorted(ends, bytes_before + BATCH_BYTES, side="right")))
        stop = max(stop, start + 1)
        yield passage_texts(passages.slice(start, stop - start), title)
        start = stop


class _Numbers(dict[str, int]):
    """A number for every word as written: that of its stem, in the order of first appearance; -1 for a stop word."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.stems: dict[str, int] = {}
        self._tokenizer = tokenizer

    def __missing__(self, word: str) -> int:
        number = -1
        if word not in self._tokenizer.stop:
            number = self.stems.setdefault(self._tokenizer.stem(word), len(self.stems))
        self[word] = number
        return number

    def number(self, texts: list[str]) -> tuple[Int32s, Int32s]:
        """The tokens of all texts in a row, and how many of them are each text's."""
        if len(self) > CACHE:
            self.clear()
        words = [self._tokenizer.split(text) for text in texts]
        ends = np.cumsum([len(line) for line in words])
        found = np.fromiter(map(self.__getitem__, chain.from_iterable(words)), np.int32, int(ends[-1]))
        kept = found >= 0
        before = np.concatenate([[0], np.cumsum(kept)])
        return found[kept], np.diff(before[ends], prepend=0).astype(np.int32)


def _add_frequencies(frequencies: Int64s, tokens: Int32s, lengths: Int32s, words: int) -> Int64s:
    """In how many passages each word is, with those of one more batch."""
    pairs = np.repeat(np.arange(len(lengths), dtype=np.int64) << 32, lengths) | tokens
    pairs.sort()
    first = np.ones(len(pairs), bool)
    np.not_equal(pairs[1:], pairs[:-1], out=first[1:])
    found = np.bincount(pairs[first] & 0xFFFFFFFF, minlength=words)
    found[: len(frequencies)] += frequencies
    return found


def _write_words(folder: Path, stems: dict[str, int], frequencies: Int64s, tokens: list[Int32s], rows: int) -> None:
    """Words in the order of their bytes, so that files do not depend on how the range was cut into batches."""
    words = pa.array(list(stems), pa.large_string())
    order = pc.sort_indices(words).to_numpy()
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    size = sum(len(part) for part in tokens)
    written = np.lib.format.open_memmap(folder / TOKENS_FILE, "w+", np.int32, (size,))
    start = 0
    for part in tokens:
        written[start : start + len(part)] = rank[part]
        start += len(part)
    written.flush()
    table = pa.table({"word": words.take(pa.array(order)), "passages": frequencies[order]})
    totals = {"passages": str(rows), "tokens": str(size)}
    pq.write_table(table.replace_schema_metadata(totals), folder / WORDS_FILE)
