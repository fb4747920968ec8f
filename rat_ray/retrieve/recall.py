"""How much of the exact lists an approximate index finds, on a sample of the questions that it was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rat_ray import tables
from rat_ray.retrieve.dense import DenseRetrieve
from rat_ray.retrieve.dense_settings import DenseSettings
from rat_ray.retrieve.hits import Folders, Hits, check_meta

DEPTHS: Final = (10, 100)


class RecallWorker:
    """All questions and an approximate retriever's lists for them in; tables.RECALL out, a row per depth.

    inputs: vectors, all shards, which are searched for `recall_sample` questions; trained, where there is such a step.
    """

    def __init__(self, settings: DenseSettings, inputs: Mapping[str, Folders]) -> None:
        self._sample = settings.recall_sample
        exact = replace(settings, index="flat", rescore=True, depth=max(DEPTHS))
        self._exact = DenseRetrieve(exact, {"index": inputs["vectors"]})
        key = exact.step_keys()["vectors"]
        self._vectors = sum(check_meta(folder, key)["vectors"] for folder in inputs["vectors"].folders())
        self._trained_on = _trained_on(settings, inputs)
        self._depth = settings.depth

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        chosen = sampled_rows(rows["questions"], rows["retrievals"], self._sample)
        found = [Hits(row["passage_ids"], row["scores"]) for row in rows["retrievals"].take(chosen).to_pylist()]
        exact = self._exact({"questions": rows["questions"].take(chosen)}).to_pylist()
        hits = [Hits(row["passage_ids"], row["scores"]) for row in exact]
        return pa.Table.from_pylist([self._row(depth, found, hits) for depth in DEPTHS], schema=tables.RECALL)

    def _row(self, depth: int, found: list[Hits], exact: list[Hits]) -> dict[str, Any]:
        return {
            "k": depth,
            "recall": recall_at(found, exact, depth) if depth <= self._depth else None,
            "questions": sum(1 for one in exact if one.passage_ids),
            "vectors": self._vectors,
            "trained_on": self._trained_on,
        }


def sampled_rows(questions: pa.Table, retrievals: pa.Table, sample: int) -> pa.Array:
    """Rows, in order, of the `sample` questions without an error whose ids have the smallest hashes."""
    errors = retrievals.column("error").to_pylist()
    names = questions.column("question_id").to_pylist()
    rows = [row for row, error in enumerate(errors) if error is None]
    rows.sort(key=lambda row: blake2b(names[row].encode(), digest_size=8).digest())
    return pa.array(sorted(rows[:sample]), pa.int64())


def _trained_on(settings: DenseSettings, inputs: Mapping[str, Folders]) -> int | None:
    if "trained" not in inputs:
        return None
    [folder] = inputs["trained"].folders()
    return int(check_meta(folder, settings.step_keys()["trained"])["sample"])


def recall_at(found: Sequence[Hits], exact: Sequence[Hits], depth: int) -> float | None:
    """Mean share of the exact first `depth` passages that are among the first `depth` found; None without any.

    A passage whose score equals that of the last exact one counts as well: copies of a text are as good as each other.
    """
    shares = [_share(one, other, depth) for one, other in zip(found, exact, strict=True) if other.passage_ids]
    return float(np.mean(shares)) if shares else None


def _share(found: Hits, exact: Hits, depth: int) -> float:
    wanted, last = set(exact.passage_ids[:depth]), exact.scores[:depth][-1]
    pairs = zip(found.passage_ids[:depth], found.scores[:depth], strict=True)
    return sum(name in wanted or score == last for name, score in pairs) / len(wanted)
