"""Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): score(d) = sum over lists of 1 / (k + rank)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rat_ray.errors import InputError, StageError
from rat_ray.retrieve.hits import Hits, check_at_least, rank, retrievals_table
from rat_ray.retrieve.steps import Step


@dataclass(frozen=True)
class HybridSettings:
    """of: the retrievers to fuse, by name (each with its own depth). k: RRF's constant. window: how many passages of
    each list count, 0: all. depth: passages to keep."""

    kind: str = "hybrid"
    of: list[str] = field(default_factory=lambda: ["bm25", "dense"])
    k: int = 60
    window: int = 20
    depth: int = 100

    def validate(self) -> None:
        """Raises InputError for fewer than two retrievers, one named twice, and numbers out of range."""
        check_at_least("retriever.depth", self.depth, 1)
        check_at_least("retriever.k", self.k, 0)
        check_at_least("retriever.window", self.window, 0)
        if len(self.of) < 2 or len(set(self.of)) != len(self.of):
            raise InputError(f"retriever.of={list(self.of)}: name at least two retrievers, each once")

    def parts(self) -> list[str]:
        """The retrievers that must be done before; each may be of any kind, also hybrid or rerank."""
        return list(self.of)

    def steps(self) -> tuple[Step, ...]:
        """None: it has no index of its own."""
        return ()

    def search_inputs(self) -> tuple[str, ...]:
        """None."""
        return ()


class HybridRetrieve:
    """A worker: the retrievals of several retrievers in (any names), fused retrievals out.

    A question that failed in one of them fails here too: half a fusion would pass for a whole one.
    """

    def __init__(self, settings: HybridSettings, inputs: Mapping[str, Any]) -> None:
        self._settings = settings

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        names = sorted(rows)
        question_ids = rows[names[0]].column("question_id")
        for name in names[1:]:
            if rows[name].column("question_id") != question_ids:
                raise StageError(f"hybrid: {names[0]} and {name} do not hold the same questions in the same order")
        failures = zip(*(rows[name].column("error").to_pylist() for name in names), strict=True)
        lists = zip(*(rows[name].column("passage_ids").to_pylist() for name in names), strict=True)
        errors = [_error(names, each) for each in failures]
        window = self._settings.window or None
        hits = [
            None if error else fuse([each[:window] for each in ranked], self._settings.k, self._settings.depth)
            for error, ranked in zip(errors, lists, strict=True)
        ]
        return retrievals_table(question_ids, hits, errors)


def fuse(lists: Sequence[Sequence[str]], k: int, depth: int) -> Hits:
    """The `depth` best of the fused lists (passage ids, best first; ranks count from 1), ties by passage id."""
    terms: dict[str, list[float]] = {}
    for ranked in lists:
        for position, passage_id in enumerate(ranked, start=1):
            terms.setdefault(passage_id, []).append(1.0 / (k + position))
    # fsum: the order of the lists must not decide a tie in the last bit.
    return rank(list(terms), [math.fsum(parts) for parts in terms.values()], depth)


def _error(names: Sequence[str], errors: Sequence[str | None]) -> str | None:
    failed = [f"{name}: {error}" for name, error in zip(names, errors, strict=True) if error]
    return "; ".join(failed) or None
