"""The kinds of retrievers, an entry each. Every worker answers with tables.RETRIEVALS.

Their settings have three methods: `steps()` says how the index is made, the last step being what is searched (none: it
has no index of its own); `search_inputs()` names earlier steps whose tables the search needs as well; `parts()` names
the retrievers whose lists it is made from. Those with a model also have `resolved()`: with its weights pinned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rat_ray.retrieve.bm25 import Bm25Retrieve, Bm25Settings
from rat_ray.retrieve.dense import DenseRetrieve, DenseSettings
from rat_ray.retrieve.hybrid import HybridRetrieve, HybridSettings
from rat_ray.retrieve.rerank import RerankSettings, RerankWorker

RETRIEVE, FUSE, RERANK = "retrieve", "fuse", "rerank"


@dataclass(frozen=True)
class RetrieverKind:
    """settings: the dataclass behind conf/retriever/*.yaml with this `kind`.

    worker: what makes its lists. level: from what it does so. "retrieve": questions and an index; "fuse": the lists of
    several retrievers; "rerank": the list of one, the questions, and the texts of the passages.
    """

    settings: type[Any]
    worker: type[Any]
    level: str


RETRIEVERS: Final[Mapping[str, RetrieverKind]] = {
    "bm25": RetrieverKind(Bm25Settings, Bm25Retrieve, RETRIEVE),
    "dense": RetrieverKind(DenseSettings, DenseRetrieve, RETRIEVE),
    "hybrid": RetrieverKind(HybridSettings, HybridRetrieve, FUSE),
    "rerank": RetrieverKind(RerankSettings, RerankWorker, RERANK),
}


def reach(retrievers: Mapping[str, Any], name: str) -> int:
    """Up to which rank a retriever's list is whole: its depth, or less where it is made from lists that were cut.

    retrievers: settings by name, with those that the named one is made from.
    """
    settings = retrievers[name]
    limits = [settings.depth, getattr(settings, "window", 0), getattr(settings, "top", 0)]
    return min([int(limit) for limit in limits if limit] + [reach(retrievers, part) for part in settings.parts()])
