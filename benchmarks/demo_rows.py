"""The demo's questions with their BM25 passages, as the generation stage gets them, and the prompts that it makes."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rat_ray.datasets import load
from rat_ray.datasets.packaged import DemoSettings
from rat_ray.generate.engine import Completion, Prompt, Sampling
from rat_ray.generate.prompts import load_prompts
from rat_ray.generate.worker import GenerateWorker, GeneratorSettings
from rat_ray.retrieve.bm25 import Bm25Retrieve, Bm25Settings
from rat_ray.settings import conf_dir
from tests.helpers import MemoryInput
from tests.retrieve.stepping import build


class Rows(NamedTuple):
    """Tables as in tables.py, questions and retrievals aligned."""

    passages: pa.Table
    questions: pa.Table
    retrievals: pa.Table

    def cut(self, range_rows: int) -> list[dict[str, pa.Table]]:
        """Ranges, as a worker is called with them."""
        starts = range(0, self.questions.num_rows, range_rows)
        both = {"questions": self.questions, "retrievals": self.retrievals}
        return [{name: table.slice(start, range_rows) for name, table in both.items()} for start in starts]


def demo_rows(questions: int) -> Rows:
    """So many of the demo's questions, the shapes in equal parts (0: all)."""
    source = load(DemoSettings(limit=questions))
    passages, asked = (
        pa.Table.from_batches([batch for table in source.passages() for batch in table.to_batches()]),
        source.questions(),
    )
    with tempfile.TemporaryDirectory() as scratch:
        retrieve = build(Bm25Settings(depth=10), Bm25Retrieve, Path(scratch), passages)
        return Rows(passages, asked, retrieve({"questions": asked}))


def prompts_of(rows: Rows, worker: GenerateWorker) -> list[Prompt]:
    """What the worker asks its engine, written down by an engine that stands in its place and answers nothing."""
    seen: list[Prompt] = []

    class Notebook:
        def complete(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
            seen.extend(prompts)
            return [Completion(None, None, None, None, "not asked")] * len(prompts)

        def count_tokens(self, prompts: list[Prompt]) -> list[int]:
            return real.count_tokens(prompts)

    real = worker._engine
    worker._engine = Notebook()  # type: ignore[assignment]
    try:
        worker({"questions": rows.questions, "retrievals": rows.retrievals})
    finally:
        worker._engine = real
    return seen


def with_prompts(settings: GeneratorSettings) -> GeneratorSettings:
    """The settings with their prompt set read in."""
    return dataclasses.replace(settings, prompts=load_prompts(settings.prompt, conf_dir() / "prompt"))


def opened(settings: GeneratorSettings, rows: Rows) -> GenerateWorker:
    """The generation stage's worker over these passages."""
    return GenerateWorker(settings, {"passages": MemoryInput(rows.passages)})
