"""What a judge of R sees of an answer: the passages that were given, and nothing of the generator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rat_ray import tables


class ContextsWorker:
    """Answers in, their contexts out. Generators that gave equal contexts get equal tables, and share the verdicts."""

    def __init__(self, settings: Any, inputs: Mapping[str, Any]) -> None:
        """There is nothing to load."""

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        return rows["answers"].select(tables.CONTEXTS.names)
