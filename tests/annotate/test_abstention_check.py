"""Precision and recall of the rule for A on labelled answers of our own writing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rat_ray.annotate.abstention import LANGUAGES, Refusals, abstention, load_refusals
from rat_ray.annotate.abstention_check import FLOOR, Score, main, own_answers, score

ANSWERS = own_answers()
ALL = Refusals.of(load_refusals())


def test_the_set_is_large_and_varied() -> None:
    assert len(ANSWERS) >= 400
    assert len({(row.answer, row.phrase) for row in ANSWERS}) == len(ANSWERS)
    for language in LANGUAGES:
        labels = Counter(row.abstained for row in ANSWERS if row.language == language)
        assert min(labels[0], labels[1]) >= 30
    kinds = {row.kind for row in ANSWERS if row.abstained == 0}
    assert kinds >= {"answer", "hedge", "partial", "refusal_then_answer", "title", "quote", "contains"}
    assert {row.split for row in ANSWERS} == {"dev", "test"}


@pytest.mark.parametrize("split", ["all", "dev", "test"])
def test_precision_and_recall_keep_the_floor(split: str) -> None:
    found = score([row for row in ANSWERS if split in {"all", row.split}], ALL)
    assert (found.precision or 0) >= FLOOR
    assert (found.recall or 0) >= FLOOR


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_keeps_the_floor(language: str) -> None:
    found = score([row for row in ANSWERS if row.language == language], ALL)
    assert (found.precision or 0) >= FLOOR
    assert (found.recall or 0) >= FLOOR


def test_short_cuts_never_change_a_label() -> None:
    """A leading zero-width space goes past every short cut."""
    differ = [
        row.answer
        for row in ANSWERS
        if abstention(row.answer, row.phrase, ALL) != abstention("\u200b" + row.answer, row.phrase, ALL)
    ]
    assert differ == []


def test_the_command_prints_each_split_and_language_and_adds_own_forms(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("the archive is silent\n", "utf-8")
    rows = [{"answer": "The archive is silent.", "abstained": 1}, {"answer": "Paris", "abstained": 0}]
    (tmp_path / "mine.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    command = [sys.executable, "-m", "rat_ray.annotate.abstention_check"]
    ended = subprocess.run(
        [*command, str(tmp_path / "mine.txt"), str(tmp_path / "mine.jsonl")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    names = [line.split("  ")[0] for line in ended.stdout.splitlines()]
    assert {"all", "split dev", "split test", "split mine.jsonl", *(f"language {name}" for name in LANGUAGES)} <= {
        *names
    }
    own = next(line for line in ended.stdout.splitlines() if line.startswith("split mine.jsonl"))
    assert own.split()[2:] == ["2", "1", "1.000", "1.000"]
    assert "The archive is silent" not in ended.stdout


def test_the_command_fails_below_the_floor_and_for_bad_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = [{"answer": f"Paris {number}", "abstained": 1} for number in range(200)]
    (tmp_path / "wrong.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in wrong), "utf-8")
    assert main([str(tmp_path / "wrong.jsonl")]) == 1
    assert "MISSED" in capsys.readouterr().out
    (tmp_path / "bad.jsonl").write_text('{"answer": "Paris"}\n', "utf-8")
    assert main([str(tmp_path / "bad.jsonl")]) == 2
    assert "bad.jsonl, line 1" in capsys.readouterr().err
    (tmp_path / "worse.jsonl").write_text("Paris\n", "utf-8")
    assert main([str(tmp_path / "worse.jsonl")]) == 2
    assert main([str(tmp_path / "none.jsonl")]) == 2
    assert main([str(tmp_path / "none.txt")]) == 2


def test_scores() -> None:
    assert Score(8, 2, 0, 20).precision == 0.8
    assert Score(8, 0, 8, 20).recall == 0.5
    assert Score(0, 0, 0, 3).precision is None
    assert Score(0, 0, 0, 3).recall is None
