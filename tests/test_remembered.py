"""What is known of files is known again while they are the same, and only then."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rat_ray import datasets
from rat_ray.datasets import FilesSettings, files
from rat_ray.errors import InputError
from rat_ray.remembered import recall, remembered


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def old(path: Path, text: str, seconds: int = 1_000_000_000) -> Path:
    """A file that was changed long ago."""
    path.write_text(text)
    os.utime(path, (seconds, seconds))
    return path


def counting(path: Path, calls: list[str]) -> str:
    calls.append(path.read_text())
    return calls[-1]


def test_a_file_is_read_once_while_it_is_the_same(tmp_path: Path) -> None:
    path, calls = old(tmp_path / "x", "one"), []
    for _ in range(2):
        assert remembered("text", [path], lambda: counting(path, calls)) == "one"
    assert calls == ["one"]
    assert recall("text", [path]) == "one"
    assert recall("another question", [path]) is None
    old(path, "two", 1_000_000_001)  # the same size, another time
    assert recall("text", [path]) is None
    assert remembered("text", [path], lambda: counting(path, calls)) == "two"
    old(path, "three", 1_000_000_001)  # the same time, another size
    assert recall("text", [path]) is None


def test_a_file_that_was_just_written_may_change_unseen(tmp_path: Path) -> None:
    path, calls = tmp_path / "x", []
    path.write_text("one")
    assert remembered("text", [path], lambda: counting(path, calls)) == "one"
    assert recall("text", [path]) is None


def test_a_file_that_changes_while_it_is_read_is_not_remembered(tmp_path: Path) -> None:
    path = old(tmp_path / "x", "one")
    assert remembered("text", [path], lambda: old(path, "two", 1_000_000_001).read_text()) == "two"
    assert recall("text", [path]) is None


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path, cache: Path) -> None:
    path, calls = old(tmp_path / "x", "one"), []
    cache.write_text("a file where the folder should be")
    for _ in range(2):
        assert remembered("text", [path], lambda: counting(path, calls)) == "one"
    assert len(calls) == 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    old(folder / "corpus.jsonl", json.dumps({"_id": "p1", "text": "Oslo is the capital of Norway."}) + "\n")
    rows = [{"_id": f"q{i}", "question": "what is the capital of norway", "answers": ["Oslo"]} for i in range(3)]
    old(folder / "questions.jsonl", "".join(json.dumps({**row, "evidence": ["p1"]}) + "\n" for row in rows))
    return folder


def test_a_dataset_is_read_once_while_its_files_are_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = FilesSettings(path=str(folder), qrels_file="", limit=2)
    assert datasets.recall_source(settings) is None
    first = datasets.load(settings)

    def refuse(_: FilesSettings) -> datasets.Source:
        raise AssertionError("read again")

    kind = datasets.DATASETS["files"]
    monkeypatch.setattr(datasets, "DATASETS", {"files": kind._replace(load=refuse)})
    for again in (datasets.load(settings), datasets.recall_source(settings)):
        assert again is not None
        for name in ("digest", "passages_digest", "questions_digest", "num_passages", "num_questions", "left_out"):
            assert getattr(again, name) == getattr(first, name)
    monkeypatch.setattr(datasets, "DATASETS", {"files": kind})
    known = datasets.load(settings)
    assert known.questions().equals(first.questions()), "rows are read when they are asked for"
    assert [batch.num_rows for batch in known.passages()] == [1]


def test_a_dataset_that_has_changed_since_is_refused(folder: Path) -> None:
    settings = FilesSettings(path=str(folder), qrels_file="")
    datasets.load(settings)
    known = datasets.load(settings)
    old(folder / "corpus.jsonl", json.dumps({"_id": "p1", "text": "Bergen is not the capital."}) + "\n", 1_000_000_001)
    with pytest.raises(InputError, match="have changed"):
        known.questions()
    assert datasets.recall_source(settings) is None
    assert files.load(settings).digest != known.digest
