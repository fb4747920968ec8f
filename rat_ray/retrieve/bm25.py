"""BM25 with bm25s (Lù 2024, arXiv:2407.03618): scores are computed when the index is built, and looked up later."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rat_ray.errors import InputError, MissingExtraError, StageError, did_you_mean
from rat_ray.retrieve.hits import (
    Folders,
    Hits,
    candidates,
    check_at_least,
    check_meta,
    passage_texts,
    rank,
    read_ids,
    retrievals_table,
    write_ids,
    write_meta,
)

METHODS: Final = ("lucene", "robertson", "atire", "bm25l", "bm25+")
STOPWORDS: Final = ("english", "english_plus", "german", "dutch", "french", "spanish", "portuguese", "italian",
                    "russian", "swedish", "norwegian", "danish", "chinese", "turkish", "korean")  # fmt: skip


@dataclass(frozen=True)
class Bm25Settings:
    """depth: how many passages per question. title: index the title with the text.

    stemmer: a Snowball language, "" for none. stopwords: a language of bm25s, "" for none. k1, b: BM25's own.
    """

    kind: str = "bm25"
    depth: int = 20
    k1: float = 1.5
    b: float = 0.75
    method: str = "lucene"
    stemmer: str = "english"
    stopwords: str = "english"
    title: bool = True

    def validate(self) -> None:
        """Raises InputError for values that BM25 cannot have, and for an unknown method or language."""
        check_at_least("retriever.depth", self.depth, 1)
        check_at_least("retriever.k1", self.k1, 0)
        if not 0 <= self.b <= 1:
            raise InputError(f"retriever.b={self.b}: must be between 0 and 1")
        if self.method not in METHODS:
            raise InputError(f"retriever.method={self.method!r}: unknown{did_you_mean(self.method, METHODS)}")
        if self.stopwords and self.stopwords not in STOPWORDS:
            raise InputError(
                f"retriever.stopwords={self.stopwords!r}: unknown{did_you_mean(self.stopwords, STOPWORDS)}"
            )
        if self.stemmer:
            _stemmer(self.stemmer)

    def index_settings(self) -> dict[str, Any]:
        """What the index depends on: all but the depth, since bm25s stores finished scores."""
        return {
            "kind": self.kind,
            "k1": float(self.k1),
            "b": float(self.b),
            "method": self.method,
            "stemmer": self.stemmer,
            "stopwords": self.stopwords,
            "title": self.title,
        }


class Bm25Index:
    """A file stage's worker: passages in, an index in a folder out.

    Document frequencies and lengths are those of its own range, so the whole corpus must be one range.
    """

    def __init__(self, settings: Bm25Settings, inputs: Mapping[str, Any]) -> None:
        self._settings = settings
        self._tokenizer = Tokenizer(settings)

    def __call__(self, rows: Mapping[str, pa.Table], folder: Path) -> int:
        bm25s = _bm25s()
        passages = rows["passages"]
        settings = self._settings
        tokens = self._tokenizer(passage_texts(passages, settings.title))
        # Word numbers in the order of first appearance: bm25s.tokenize numbers stems by their hash, which differs
        # from process to process, and the same corpus should give the same files. "" is a word that no text holds:
        # without one, bm25s fails on a corpus of empty passages.
        vocabulary = {"": 0}
        ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in words] for words in tokens]
        index = bm25s.BM25(k1=settings.k1, b=settings.b, method=settings.method)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # an average length of 0, if all passages are empty
            index.index((ids, vocabulary), show_progress=False)
        index.save(folder, show_progress=False)
        write_ids(folder, passages.column("passage_id"))
        write_meta(folder, settings.index_settings(), passages=passages.num_rows, words=len(vocabulary) - 1)
        return int(index.scores["num_docs"])


class Bm25Retrieve:
    """A worker: questions in, tables.RETRIEVALS out. The index is memory-mapped, so a node's workers share it.

    A passage that shares no word with the question is left out, so a list may be shorter than `depth`, or empty.
    """

    def __init__(self, settings: Bm25Settings, inputs: Mapping[str, Folders]) -> None:
        folders = inputs["index"].folders()
        if len(folders) != 1:
            # Each shard would score by its own document frequencies: wrong results, silently. Refused until shards
            # can be built with the whole corpus's statistics.
            raise StageError(f"a BM25 index must be one range of passages, this one has {len(folders)}")
        check_meta(folders[0], settings.index_settings())
        self._depth = settings.depth
        self._tokenizer = Tokenizer(settings)
        self._index = _bm25s().BM25.load(folders[0], mmap=True, show_progress=False)
        self._ids = read_ids(folders[0])

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        questions = rows["questions"]
        tokens = self._tokenizer(questions.column("question").to_pylist())
        hits = [self._search(words) for words in tokens]
        return retrievals_table(questions.column("question_id"), hits, [None] * len(hits))

    def _search(self, words: list[str]) -> Hits:
        known = self._index.get_tokens_ids(words)
        if not known:
            return Hits([], [])
        scores = self._index.get_scores_from_ids(known)
        # BM25+ and BM25L give every passage something for a word that it does not hold: that much is no match.
        absent = self._index.nonoccurrence_array
        floor = 0.0 if absent is None else float(absent[np.asarray(known)].sum())
        found = candidates(scores, floor, self._depth)
        return rank(self._ids.take(pa.array(found)).to_pylist(), scores[found].tolist(), self._depth)


class Tokenizer:
    """Words of a text: lower-cased, runs of at least two word characters, stop words out, stemmed.

    The same as `bm25s.tokenize(…, return_ids=False)` with these settings, for passages and questions alike.
    """

    def __init__(self, settings: Bm25Settings) -> None:
        words = _bm25s().tokenization.Tokenizer(stopwords=settings.stopwords or None).stopwords
        self._stopwords = frozenset(words)
        self._stem = _stemmer(settings.stemmer).stemWords if settings.stemmer else None
        self._split = re.compile(r"(?u)\b\w\w+\b").findall

    def __call__(self, texts: list[str]) -> list[list[str]]:
        stopwords = self._stopwords
        kept = [[word for word in self._split(text.lower()) if word not in stopwords] for text in texts]
        if self._stem is None:
            return kept
        words = list({word for line in kept for word in line})
        stems = dict(zip(words, self._stem(words), strict=True))
        return [[stems[word] for word in line] for line in kept]


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise MissingExtraError("bm25s", "local") from error
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it asks for DEBUG, and would fill everybody's log
    return bm25s


def _stemmer(language: str) -> Any:
    try:
        import Stemmer
    except ImportError as error:
        raise MissingExtraError("PyStemmer", "local") from error
    if language not in Stemmer.algorithms():
        raise InputError(f"retriever.stemmer={language!r}: unknown{did_you_mean(language, Stemmer.algorithms())}")
    return Stemmer.Stemmer(language)
