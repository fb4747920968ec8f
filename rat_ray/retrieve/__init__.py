"""Retrievers: one file each, and one entry in RETRIEVERS.

`index` workers are file stages (passages in, a folder out); `retrieve` workers give tables.RETRIEVALS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rat_ray.retrieve.bm25 import Bm25Index, Bm25Retrieve, Bm25Settings
from rat_ray.retrieve.dense import DenseIndex, DenseRetrieve, DenseSettings
from rat_ray.retrieve.hybrid import HybridRetrieve, HybridSettings

__all__ = [
    "RETRIEVERS",
    "Bm25Settings",
    "DenseSettings",
    "HybridSettings",
    "RetrieverKind",
]


@dataclass(frozen=True)
class RetrieverKind:
    """settings: the dataclass behind conf/retriever/*.yaml with this `kind`.

    index: the worker that builds its index, None where there is none. retrieve: the worker that searches.
    sharded: whether the index may be cut into several ranges of passages; if not, the corpus must be one range.
    """

    settings: type[Any]
    index: type[Any] | None
    retrieve: type[Any]
    sharded: bool


RETRIEVERS: Final[Mapping[str, RetrieverKind]] = {
    "bm25": RetrieverKind(Bm25Settings, Bm25Index, Bm25Retrieve, sharded=False),
    "dense": RetrieverKind(DenseSettings, DenseIndex, DenseRetrieve, sharded=True),
    "hybrid": RetrieverKind(HybridSettings, None, HybridRetrieve, sharded=True),
}
