"""Merging what several shards of one index found for the same question."""

from __future__ import annotations

from collections.abc import Sequence

from rat_ray.retrieve.hits import Hits, rank


def merge(shards: Sequence[Hits], depth: int) -> Hits:
    """The `depth` best over all shards, by score and then by passage id.

    Exact when the scores of different shards are comparable (inner products are; BM25 with statistics of a shard's
    own is not) and every shard gave at least its own `depth` best.
    """
    if len(shards) == 1 and len(shards[0].scores) <= depth:
        return shards[0]
    passage_ids = [name for shard in shards for name in shard.passage_ids]
    scores = [score for shard in shards for score in shard.scores]
    return rank(passage_ids, scores, depth)
