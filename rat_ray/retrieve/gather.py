"""The passages that lists name: what a generator, a judge or a reranker needs of a corpus of millions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc


class _Batches(Protocol):
    def batches(self, columns: list[str] | None = None) -> Iterator[pa.Table]: ...


@dataclass(frozen=True)
class GatherSettings:
    """first: how many passages of each list are wanted."""

    first: int


class _Kept:
    """Keeps the passages that are named."""

    def __init__(self, named: Sequence[pa.Array]) -> None:
        self._wanted = pc.unique(pa.chunked_array(named, pa.string())) if named else pa.array([], pa.string())

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        passages = rows["passages"]
        return passages.filter(pc.is_in(passages.column("passage_id"), value_set=self._wanted))


class GatherWorker(_Kept):
    """Passages in; those of them out that are among the first of any list, in the order of the corpus.

    inputs: retrievals. It holds the ids that they name, never a text.
    """

    def __init__(self, settings: GatherSettings, inputs: Mapping[str, _Batches]) -> None:
        named = [_named(batch, settings.first) for batch in inputs["retrievals"].batches(["passage_ids"])]
        super().__init__(named)


class EvidenceWorker(_Kept):
    """Passages in; those of them out that are evidence of any question, in their order. inputs: questions."""

    def __init__(self, settings: Any, inputs: Mapping[str, _Batches]) -> None:
        named = [_evidence_of(batch) for batch in inputs["questions"].batches(["evidence"])]
        super().__init__(named)


def _evidence_of(batch: pa.Table) -> pa.Array:
    return pc.list_flatten(pc.list_flatten(batch.column("evidence").combine_chunks()))


def _named(batch: pa.Table, first: int) -> pa.Array:
    lists = batch.column("passage_ids").combine_chunks()
    return pc.list_flatten(pc.list_slice(lists, 0, first))
