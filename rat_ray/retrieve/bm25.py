"""BM25 with bm25s (Lù 2024, arXiv:2407.03618): scores are computed when the index is built, and looked up later.

Any number of shards gives the lists of one index over the whole corpus, because all scores come from the corpus's own
numbers of passages, word frequencies and average length: bm25_tokens -> bm25_words -> bm25_index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rat_ray.errors import InputError, did_you_mean
from rat_ray.retrieve.bm25_index import Bm25Index, Scoring, check_corpus
from rat_ray.retrieve.bm25_search import Asked, Shard, lists_of
from rat_ray.retrieve.bm25_tokens import WORDS_FILE, Bm25Tokens
from rat_ray.retrieve.bm25_words import Bm25Words, Dictionary
from rat_ray.retrieve.hits import META_FILE, Folders, check_at_least, check_meta
from rat_ray.retrieve.steps import Step
from rat_ray.retrieve.words import Tokenizer, check_words, stemmer_version

METHODS: Final = ("lucene", "robertson", "atire", "bm25l", "bm25+")


@dataclass(frozen=True)
class Bm25Settings:
    """depth: how many passages per question. title: index the title with the text. k1, b: BM25's own.

    tokens: "unicode", or "bm25s" for its words and no others (see words.py). stemmer: a Snowball language, "" for none.
    stopwords: a language of bm25s, "" for none.
    """

    kind: str = "bm25"
    depth: int = 100
    k1: float = 1.5
    b: float = 0.75
    method: str = "lucene"
    tokens: str = "unicode"
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
        if self.method in ("bm25l", "bm25+") and self.k1 == 0:
            raise InputError(f"retriever.k1=0: {self.method} needs more than 0, or no passage differs from another")
        check_words(self.tokens, self.stemmer, self.stopwords)

    def word_settings(self) -> dict[str, Any]:
        """What the words of a passage depend on, and so the corpus's statistics."""
        return {
            "kind": self.kind,
            "tokens": self.tokens,
            "stemmer": self.stemmer,
            "stemmer_version": stemmer_version() if self.stemmer else "",
            "stopwords": self.stopwords,
            "title": self.title,
        }

    def index_settings(self) -> dict[str, Any]:
        """What the index depends on: all but the depth, since finished scores are stored."""
        return {**self.word_settings(), "k1": float(self.k1), "b": float(self.b), "method": self.method}

    def steps(self) -> tuple[Step, ...]:
        """Tokens of each range, the corpus's words, scores of each range. Other k1, b or methods need the last only."""
        words = self.word_settings()
        return (
            Step("tokens", Bm25Tokens, words),
            Step("words", Bm25Words, words, over="tokens", whole=True, only=(WORDS_FILE, META_FILE)),
            Step("index", Bm25Index, self.index_settings(), over="tokens", inputs=("words",)),
        )

    def search_inputs(self) -> tuple[str, ...]:
        """The corpus's words: a shard knows its own by number only, and BM25L and BM25+ score absent words too."""
        return ("words",)

    def parts(self) -> list[str]:
        """It needs no other retriever's lists."""
        return []


class Bm25Retrieve:
    """A worker: questions in, tables.RETRIEVALS out. The index is memory-mapped, so a node's workers share it.

    inputs: index, all shards or some, and words. Scores do not depend on which shards there are. A passage that shares
    no word with the question is left out, so a list may be shorter than `depth`, or empty.
    """

    def __init__(self, settings: Bm25Settings, inputs: Mapping[str, Folders]) -> None:
        self._depth = settings.depth
        self._tokenizer = Tokenizer(settings)
        self._dictionary = Dictionary(settings, inputs["words"])
        self._scoring = Scoring(settings, self._dictionary.corpus)
        self._shards = []
        for folder in inputs["index"].folders():
            check_corpus(folder, check_meta(folder, settings.index_settings()), self._dictionary.corpus)
            self._shards.append(Shard(folder))

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        questions = rows["questions"]
        asked = self._ask(questions.column("question").to_pylist())
        bounds = asked.floors.copy()
        # All questions against one shard before the next: its pages stay in memory meanwhile.
        found = [shard.search(asked, bounds, self._depth) for shard in self._shards]
        return lists_of(questions.column("question_id"), found, self._depth)

    def _ask(self, questions: list[str]) -> Asked:
        numbers = [self._dictionary.numbers(words) for words in self._tokenizer(questions)]
        return Asked(
            numbers=np.array([number for line in numbers for number in line], np.int32),
            ends=list(accumulate(len(line) for line in numbers)),
            floors=np.array([self._floor(line) for line in numbers], np.float32),
        )

    def _floor(self, numbers: list[int]) -> np.float32:
        """What a passage without any of these words has, summed in float32 as in bm25s."""
        if not self._scoring.shifted:
            return np.float32(0)
        absent = [self._scoring.absent(int(self._dictionary.frequencies[number])) for number in numbers]
        return np.float32(np.array(absent, np.float32).sum())
