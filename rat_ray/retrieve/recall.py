"""How much of the exact result an approximate index finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from rat_ray.retrieve.dense_search import Search, Shard
from rat_ray.retrieve.faiss_index import Find, Flat, find_flat
from rat_ray.retrieve.hits import Hits

DEPTHS: Final = (10, 100)
FACTOR: Final = 4  # candidates of ivfpq per depth that are scored exactly, as by default in a search


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


def recall_of_passages(
    flat: Flat, passage_ids: pa.Array, finds: Mapping[str, Find], sample: int, factor: int
) -> dict[str, dict[str, float | None]]:
    """By search, recall@10 and @100 within one shard for `sample` of its own passages as questions, evenly spread.

    factor: candidates per depth (of 100) that are scored exactly. Each passage itself is left out. Questions are
    further from passages than passages are: theirs is lower, see `dense.recall_against_exact`.
    """
    if not flat.size or not sample:
        return {name: {f"@{depth}": None for depth in DEPTHS} for name in finds}
    rows = np.unique(np.linspace(0, flat.size - 1, sample).astype(int))
    vectors = np.ascontiguousarray(flat.rows[rows], dtype=np.float32)
    names = passage_ids.take(pa.array(rows)).to_pylist()
    most = max(DEPTHS) + 1

    def best(find: Find, times: int) -> list[Hits]:
        hits = Search([Shard(passage_ids, find, flat.rows)], times * most)(vectors, most)
        return [_without(one, name) for one, name in zip(hits, names, strict=True)]

    exact = best(find_flat(flat), 1)
    found = {name: best(find, factor) for name, find in finds.items()}
    return {name: {f"@{depth}": recall_at(hits, exact, depth) for depth in DEPTHS} for name, hits in found.items()}


def _without(hits: Hits, name: str) -> Hits:
    kept = [row for row, other in enumerate(hits.passage_ids) if other != name]
    return Hits([hits.passage_ids[row] for row in kept], [hits.scores[row] for row in kept])
