"""Small files in the layout of FEVER, HotpotQA, Natural Questions, DPR and KILT, and what their tests share."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rat_ray import datasets
from rat_ray.datasets import Source
from rat_ray.datasets.wikipedia import CorpusSettings
from rat_ray.errors import InputError

FIXTURES = Path(__file__).parent / "fixtures"
TSV = str(FIXTURES / "snapshot" / "psgs_w100.tsv")
REDIRECTS = str(FIXTURES / "snapshot" / "redirects.tsv")
KILT = CorpusSettings(format="kilt", files=[str(FIXTURES / "snapshot" / "kilt_knowledgesource.json")])
SNAPSHOT = CorpusSettings(format="dpr", files=[TSV], redirects=REDIRECTS)


def copied(folder: Path, benchmark: str) -> str:
    """A copy of the benchmark's files that a test may change; its path."""
    shutil.copytree(FIXTURES / benchmark, folder / benchmark)
    return str(folder / benchmark)


def rows_of(path: Path) -> list[Any]:
    """The objects of a JSONL file or of a JSON array."""
    text = path.read_text("utf-8")
    return list(json.loads(text)) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


def write_rows(path: Path, rows: Iterable[Any]) -> None:
    """As an array where the name says `.json`, else one a line."""
    items = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("[" + ",\n".join(items) + "]" if path.suffix == ".json" else "\n".join(items) + "\n", "utf-8")


def column(source: Source, name: str) -> dict[str, Any]:
    """A column of the questions, by their id."""
    table = source.questions()
    return dict(zip(table["question_id"].to_pylist(), table[name].to_pylist(), strict=True))


def evidence(settings: Any) -> dict[str, Any]:
    return column(datasets.load(settings), "evidence")


def passages(source: Source) -> dict[str, tuple[str, str]]:
    """Title and text of each passage."""
    rows = [row for batch in source.passages() for row in batch.to_pylist()]
    return {row["passage_id"]: (row["title"], row["text"]) for row in rows}


def problems(source: Source) -> list[tuple[str, str | None, str]]:
    """Kind, id and detail of what is listed."""
    return [(row["kind"], row["id"], row["detail"]) for row in source.problems().to_pylist()]


def refused(settings: Any, *parts: str) -> None:
    """The dataset is refused, and the message holds each of `parts`."""
    with pytest.raises(InputError) as caught:
        datasets.load(settings)
    for part in parts:
        assert part in str(caught.value), str(caught.value)
