"""conf/ and the dataclasses behind it have the same keys and the same defaults."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from rat_ray.datasets import DATASETS
from rat_ray.retrieve.kinds import RETRIEVERS

CONF = Path(__file__).resolve().parents[2] / "conf"


@pytest.mark.parametrize("choice", ["bm25", "hybrid"])  # dense: see test_dense.py
def test_retrievers(choice: str) -> None:
    written = yaml.safe_load((CONF / "retriever" / f"{choice}.yaml").read_text())
    assert written == asdict(RETRIEVERS[written["kind"]].settings())


@pytest.mark.parametrize("choice", ["demo", "files"])
def test_datasets(choice: str) -> None:
    written = yaml.safe_load((CONF / "dataset" / f"{choice}.yaml").read_text())
    expected = asdict(DATASETS[written["kind"]].settings())
    if choice == "files":
        assert written.pop("path") == "???", "must be given"
        expected.pop("path")
    assert written == expected
