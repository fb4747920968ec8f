"""500 HotpotQA questions that another implementation has searched: our lists beside its lists.

Its lists can be made again: Okapi BM25 with the inverse document frequency of `rank_bm25`, words split at white space
and lower-cased, no titles, over the passages that the 500 questions came with.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rat_ray import tables
from rat_ray.retrieve.bm25 import Bm25Retrieve, Bm25Settings
from rat_ray.retrieve.hits import Hits, passage_texts, retrievals_table
from rat_ray.retrieve.measures import MeasureWorker, summarise
from tests.retrieve.stepping import build

DEPTH: Final = 10  # of the other implementation's lists
KS: Final = (1, 2, 5, 10)
OUTCOMES = "annotations/hotpot500_retrieval_outcomes.jsonl"

Score = Callable[[list[str]], npt.NDArray[np.float64]]


class Outside(NamedTuple):
    """The 500 questions, the 4,937 passages that they came with, all 6,783, and the other's outcomes.

    outcomes: by its retriever (bm25, dense, rerank), a row per question, in the order of the questions.
    """

    questions: pa.Table
    pool: pa.Table
    everything: pa.Table
    outcomes: Mapping[str, list[dict[str, Any]]]


class Case(NamedTuple):
    """One way to search."""

    name: str
    passages: int
    lists: pa.Table


def read_outside(shared_data: Path) -> Outside:
    """Reads `shared/data`."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in _lines((shared_data / OUTCOMES).read_text("utf-8").splitlines()):
        found.setdefault(row["retriever"], {})[row["qid"]] = row
    rows = [
        row
        for row in _lines((shared_data / "hotpotqa" / "questions.jsonl").read_text("utf-8").splitlines())
        if row["qid"] in found["bm25"]
    ]
    questions = pa.Table.from_pylist(
        [{"question_id": row["qid"], "question": row["question"], "evidence": [row["gold_pids"]]} for row in rows],
        schema=tables.QUESTIONS,
    )
    with gzip.open(shared_data / "hotpotqa" / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        passages = [{"passage_id": row["pid"], "title": row["title"], "text": row["text"]} for row in _lines(lines)]
    came_with = {one for row in rows for one in row["context_pids"]}
    pool = [row for row in passages if row["passage_id"] in came_with]
    return Outside(
        questions,
        pa.Table.from_pylist(pool, schema=tables.PASSAGES),
        pa.Table.from_pylist(passages, schema=tables.PASSAGES),
        {name: [mine[row["qid"]] for row in rows] for name, mine in found.items()},
    )


def theirs(outside: Outside, retriever: str) -> Case:
    """The lists of the other implementation."""
    hits = [Hits(row["top10"], [float(-place) for place in range(DEPTH)]) for row in outside.outcomes[retriever]]
    table = retrievals_table(outside.questions["question_id"], hits, [None] * len(hits))
    return Case(f"other: {retriever}", outside.pool.num_rows, table)


def ours(outside: Outside, passages: pa.Table, folder: Path, **settings: Any) -> Case:
    """The lists of the product's BM25 with these settings over these passages."""
    worker = build(Bm25Settings(depth=DEPTH, **settings), Bm25Retrieve, folder, passages)
    named = ", ".join(f"{name}={value!r}" for name, value in settings.items()) or "defaults"
    return Case(f"rat_ray bm25, {named}", passages.num_rows, worker({"questions": outside.questions}))


def bm25s_words(outside: Outside, passages: pa.Table, title: bool = False) -> Case:
    """bm25s called directly on lower-cased words split at white space, its parameters as they come."""
    import bm25s

    words = _words(passage_texts(passages, title))
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in line] for line in words]
    index = bm25s.BM25()
    index.index((ids, vocabulary), show_progress=False)

    def score(question: list[str]) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = index.get_scores_from_ids(index.get_tokens_ids(question))
        return found

    return Case("bm25s, words at white space, no titles", passages.num_rows, _search(outside, passages, score))


def okapi_words(outside: Outside, passages: pa.Table) -> Case:
    """Okapi BM25 with the formula of `rank_bm25.BM25Okapi`, on lower-cased words split at white space, no titles."""
    score = okapi(_words(passage_texts(passages, False)))
    return Case("Okapi, words at white space, no titles", passages.num_rows, _search(outside, passages, score))


def okapi(texts: Sequence[Sequence[str]], k1: float = 1.5, b: float = 0.75, floor: float = 0.25) -> Score:
    """Scores by Okapi BM25. idf = ln((N - n + .5) / (n + .5)); below 0 it is `floor` times the mean idf of all words.

    With that floor a word of nearly every passage counts more than one of half of them, unlike in Lucene's formula.
    """
    lengths = np.array([len(line) for line in texts], dtype=np.float64)
    postings: dict[str, tuple[list[int], list[int]]] = {}
    for position, line in enumerate(texts):
        for word, times in Counter(line).items():
            where, often = postings.setdefault(word, ([], []))
            where.append(position)
            often.append(times)
    idf = {
        w: math.log(len(texts) - len(where) + 0.5) - math.log(len(where) + 0.5) for w, (where, _) in postings.items()
    }
    lowest = floor * sum(idf.values()) / len(idf)
    damped = k1 * (1 - b + b * lengths / lengths.mean())

    def score(question: list[str]) -> npt.NDArray[np.float64]:
        scores = np.zeros(len(texts))
        for word in question:
            if word in postings:
                where, often = (np.array(each) for each in postings[word])
                scores[where] += (idf[word] if idf[word] >= 0 else lowest) * often * (k1 + 1) / (often + damped[where])
        return scores

    return score


def relevance(outside: Outside, case: Case) -> pa.Table:
    """Where the evidence stands in the lists, with the product's measures."""
    return MeasureWorker({}, {})({"questions": outside.questions, "retrievals": case.lists})


def figures(outside: Outside, case: Case) -> dict[str, float]:
    """Plain shares and averages: any@k and full@k, mrr and ndcg."""
    names = {"recall_any": "any@{}", "recall_full": "full@{}", "mrr": "mrr", "ndcg": "ndcg@{}"}
    summary = summarise(relevance(outside, case), DEPTH, KS).to_pylist()
    return {names[row["measure"]].format(row["k"]): row["observed"] for row in summary}


def _search(outside: Outside, passages: pa.Table, score: Score) -> pa.Table:
    """The ten best of each question; of equal scores the later passage first, as `argsort()[::-1]` has it."""
    ids = passages["passage_id"].to_pylist()
    hits = []
    for words in _words(outside.questions["question"].to_pylist()):
        scores = score(words)
        best = np.argsort(scores, kind="stable")[::-1][:DEPTH]
        hits.append(Hits([ids[place] for place in best], [float(scores[place]) for place in best]))
    return retrievals_table(outside.questions["question_id"], hits, [None] * len(hits))


def _words(texts: Iterable[str]) -> list[list[str]]:
    return [text.lower().split() for text in texts]


def _lines(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    return (json.loads(line) for line in lines)
