"""Search over any number of shards of vectors, with the same result as over one.

FAISS's float32 scores depend on how many questions come at once, and an approximate index scores quantised vectors. So
FAISS proposes, and the stored vectors decide: candidates are those whose proposed score is among the best `keep` of all
shards (and what ties with the last), their scores are computed again in float64, one passage at a time, and equal
scores come in the order of the passages' ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rat_ray.retrieve.encoders import Vectors
from rat_ray.retrieve.faiss_index import Find, Positions
from rat_ray.retrieve.hits import Hits, rank

MARGIN: Final = 16  # more than is kept, so that rounding cannot push out what belongs there
TOLERANCE: Final = 1e-5  # of a proposed score, relative to the greatest that the vectors' lengths allow, and to 1
GPU_TOLERANCE: Final = 1e-3  # GPUs may multiply with fewer bits
BLOCK: Final = 32  # questions whose candidates are scored at once

Scores = npt.NDArray[np.float64]


class Shard(NamedTuple):
    """find: FAISS's search. rows: (size, dim), the stored vectors, memory-mapped; None where proposed scores count.

    keepalive: what FAISS only has pointers to. longest: the length of the longest vector.
    """

    passage_ids: pa.Array
    find: Find
    rows: npt.NDArray[Any] | None
    keepalive: Any = None
    longest: float = 1.0


class _Found(NamedTuple):
    """Per question, proposed scores and positions over all shards; -inf and -1 where there is none.

    whole: whether everything that may be among the best is there.
    """

    scores: npt.NDArray[np.float32]
    positions: Positions
    whole: npt.NDArray[np.bool_]


class Search:
    """keep: how many candidates are scored exactly, at least the depth that is asked for."""

    def __init__(self, shards: Sequence[Shard], keep: int, gpu: bool = False) -> None:
        self._shards = [shard for shard in shards if len(shard.passage_ids)]
        self._starts = np.cumsum([0, *(len(shard.passage_ids) for shard in self._shards)])
        self._keep = keep
        self._margin = keep if gpu else MARGIN
        self._tolerance = GPU_TOLERANCE if gpu else TOLERANCE
        self._longest = max((shard.longest for shard in self._shards), default=1.0)

    def __call__(self, vectors: Vectors, depth: int) -> list[Hits]:
        """Per vector the `depth` best passages; none for a vector of zeros."""
        hits = [Hits([], []) for _ in vectors]
        asked = np.flatnonzero(vectors.any(axis=1))
        if not self._shards or not len(asked):
            return hits
        vectors = np.ascontiguousarray(vectors[asked])
        found = self._find(vectors, self._keep + self._margin)
        regular = np.flatnonzero(found.whole)
        for start in range(0, len(regular), BLOCK):
            rows = regular[start : start + BLOCK]
            for row, made in zip(rows, self._best(vectors[rows], found, rows, depth), strict=True):
                hits[asked[row]] = made
        for row in np.flatnonzero(~found.whole):  # copies of one text fill the whole margin
            hits[asked[row]] = self._search_one(vectors[row : row + 1], depth)
        return hits

    def _search_one(self, vector: Vectors, depth: int) -> Hits:
        wanted, size = 4 * (self._keep + self._margin), int(self._starts[-1])
        while True:
            found = self._find(vector, min(wanted, size))
            if found.whole[0]:
                return self._best(vector, found, np.array([0]), depth)[0]
            wanted *= 4

    def _find(self, vectors: Vectors, wanted: int) -> _Found:
        """The candidates: `wanted` of each shard, and of these the `wanted` best. What is below the cut is not one."""
        last = np.full(len(vectors), -np.inf, np.float32)
        scores_of, positions_of = [], []
        for shard, start in zip(self._shards, self._starts, strict=False):
            size = len(shard.passage_ids)
            scores, positions = shard.find(vectors, min(wanted, size))
            scores = np.where(positions < 0, -np.inf, scores)
            if wanted < size:
                last = np.maximum(last, scores[:, -1])
            scores_of.append(scores)
            positions_of.append(np.where(positions < 0, -1, positions + start))
        scores, positions = np.hstack(scores_of), np.hstack(positions_of)
        cut = self._cut(scores, np.linalg.norm(vectors, axis=1) * self._longest)
        whole = (last == -np.inf) | (last < cut)
        if scores.shape[1] > wanted:
            whole &= ((scores >= cut[:, None]) & np.isfinite(scores)).sum(axis=1) <= wanted
            chosen = np.argpartition(-scores, wanted - 1, axis=1)[:, :wanted]
            scores = np.take_along_axis(scores, chosen, axis=1)
            positions = np.take_along_axis(positions, chosen, axis=1)
        return _Found(np.where(scores >= cut[:, None], scores, -np.inf), positions, whole)

    def _cut(self, scores: npt.NDArray[np.float32], greatest: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        if scores.shape[1] <= self._keep:
            return np.full(len(scores), -np.inf, np.float32)
        least = np.partition(scores, -self._keep, axis=1)[:, -self._keep]
        # A sum's rounding error goes with its terms, and these may be large where the sum is small.
        greatest = np.maximum(greatest, np.abs(np.where(np.isfinite(least), least, 1)))
        allowed = self._tolerance * np.maximum(1, greatest)
        cut: npt.NDArray[np.float32] = (least - allowed).astype(np.float32)
        return cut

    def _best(self, vectors: Vectors, found: _Found, rows: Positions, depth: int) -> list[Hits]:
        positions = found.positions[rows]
        scores = self._exact(vectors, found.scores[rows], positions)
        order = np.argsort(-scores, axis=1, kind="stable")
        scores = np.take_along_axis(scores, order, axis=1)
        positions = np.take_along_axis(positions, order, axis=1)
        tied = (scores[:, 1:] == scores[:, :-1]) & np.isfinite(scores[:, 1:])
        counts = np.minimum(np.isfinite(scores).sum(axis=1), depth)
        names = self._names(np.concatenate([line[:count] for line, count in zip(positions, counts, strict=True)]))
        ends = np.cumsum(counts)
        return [
            self._rank(positions[row], scores[row], depth)
            if tied[row, :depth].any()
            else Hits(names[end - count : end], scores[row, :count].tolist())
            for row, (count, end) in enumerate(zip(counts, ends, strict=True))
        ]

    def _rank(self, positions: Positions, scores: Scores, depth: int) -> Hits:
        some = np.isfinite(scores)
        return rank(self._names(positions[some]), scores[some].tolist(), depth)

    def _exact(self, vectors: Vectors, proposed: npt.NDArray[np.float32], positions: Positions) -> Scores:
        """Inner products in float64; -inf stays."""
        some = np.isfinite(proposed)
        scores = proposed.astype(np.float64)
        if self._shards[0].rows is None:
            return scores
        wide = vectors.astype(np.float64)
        for shard, start, stop in zip(self._shards, self._starts, self._starts[1:], strict=False):
            here = some & (positions >= start) & (positions < stop)
            assert shard.rows is not None
            if here.all():  # the usual case: no copies of the questions
                scores[:] = np.vecdot(shard.rows[positions - start].astype(np.float64), wide[:, None, :])
                break
            stored = shard.rows[positions[here] - start].astype(np.float64)
            scores[here] = np.vecdot(stored, wide[np.nonzero(here)[0]])
        return scores

    def _names(self, positions: Positions) -> list[str]:
        if len(self._shards) == 1:
            names: list[str] = self._shards[0].passage_ids.take(pa.array(positions)).to_pylist()
            return names
        made = np.empty(len(positions), dtype=object)
        for shard, start, stop in zip(self._shards, self._starts, self._starts[1:], strict=False):
            here = (positions >= start) & (positions < stop)
            made[here] = shard.passage_ids.take(pa.array(positions[here] - start)).to_pylist()
        return list(made)
