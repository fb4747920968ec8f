"""The `out` of a finished evaluation, as far as `rat-ray annotate` reads it, written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rat_ray import tables
from rat_ray.annotate.items import answer_item, context_item, passage_digest
from rat_ray.hive import write_dataset
from rat_ray.output import OutFolder
from rat_ray.store import StorageSettings

Line = dict[str, Any]


def line(config: str, number: int, **changes: Any) -> Line:
    """A question with its passages, its answer and labels; `changes` overwrite any of it."""
    made = {
        "config": config,
        "dataset": "demo",
        "question_id": f"q{number}",
        "question": f"What is the number of question {number}?",
        "accepted": [str(number), f"number {number}"],
        "answer": f"It is {number}, says {config}.",
        "passages": [("Numbers", f"The number of question {number} is {number}."), (None, f"Text {number}")],
        "a": 0,
        "r@evidence": number % 2,
        "t@match": int(number % 3 == 0),
        "error": None,
    }
    return {**made, **changes}


def usual(questions: int, configs: Sequence[str] = ("bm25-small", "bm25-large")) -> list[Line]:
    """All configurations were given the same passages; of each, every fifth answer is a refusal and the last failed."""
    lines = []
    for config in configs:
        for number in range(questions):
            refused = {"answer": f"I don't know {number}.", "a": 1} if number % 5 == 4 else {}
            failed = {"error": "timeout", "answer": None, "a": None} if number == questions - 1 else {}
            lines.append(line(config, number, **(refused | failed)))
    return lines


def write_run(
    out: str | Path,
    lines: Sequence[Line],
    storage: StorageSettings | None = None,
    judges: Sequence[str] = (),
    in_sweep: bool = False,
) -> None:
    """The folder that `rat-ray evaluate` leaves: annotations/, answers/, passages.parquet and run.json."""
    folder = OutFolder(out, {"made": "by hand"}, "evaluate", in_sweep=in_sweep, storage=storage)
    folder.claim()
    configs = sorted({one["config"] for one in lines})
    sources = [name for name in lines[0] if "@" in name]
    annotations, answers = {}, {}
    for config in configs:
        of = [_row(one) for one in lines if one["config"] == config]
        annotations[config] = pa.Table.from_pylist(of, schema=tables.annotations_schema(sources))
        answers[config] = pa.Table.from_pylist(of, schema=tables.ANSWERS_OUT)
    write_dataset(folder, "annotations", {name: lambda t=table: iter([t]) for name, table in annotations.items()})  # type: ignore[misc]
    write_dataset(folder, "answers", {name: lambda t=table: iter([t]) for name, table in answers.items()})  # type: ignore[misc]
    passages = {
        (one["dataset"], name): {"dataset": one["dataset"], "passage_id": name, "title": title, "text": text}
        for one in lines
        for name, (title, text) in zip(_passage_ids(one), one["passages"] or [], strict=True)
    }
    folder.write_table("passages.parquet", pa.Table.from_pylist(list(passages.values()), schema=tables.PASSAGES_OUT))
    verdicts = [{"config": config, "judge": judge, "counts": {}} for config in configs for judge in judges]
    folder.finish({"trusted": {"r": ["evidence"]}, "verdicts": verdicts})


def r_item(one: Line) -> str:
    return context_item(one["question"], [passage_digest(*passage) for passage in one["passages"]])


def t_item(one: Line) -> str:
    return answer_item(one["question"], one["answer"])


def _passage_ids(one: Line) -> list[str]:
    """Made of the passages, unless the line has some of its own."""
    made = [passage_digest(*passage)[:12] for passage in one["passages"] or []]
    return one.get("passage_ids") or made


def _row(one: Line) -> Line:
    failed = one["error"] is not None
    known = {
        "context_ids": None if failed else _passage_ids(one),
        "raw": one["answer"],
        "r_item": None if failed else r_item(one),
        "t_item": None if failed else t_item(one),
    }
    return {**one, **known}
