"""Exit codes and what is said of failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from rat_ray.errors import InputError, StageError
from rat_ray.outcome import Failed, Outcome, check_folders, complaint, exit_code, grouped, print_failures

GOOD = Outcome("out/good")
REFUSED = Outcome("", (Failed.by("seed=x", InputError("seed=x: expected a whole number"), early=True),))
BROKEN = Outcome("out/half", (Failed.by("half", StageError("a worker failed\nTraceback …")),), configurations=2)
BAD_AT_WORK = Outcome("", (Failed.by("prompt", InputError("no variable 'x'")),))


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([GOOD], 0),
        ([GOOD, REFUSED], 2),
        ([REFUSED, REFUSED], 2),
        ([GOOD, BROKEN], 1),
        ([REFUSED, BROKEN], 1),
        ([BAD_AT_WORK], 2),
        ([GOOD, BAD_AT_WORK], 1),
    ],
)
def test_exit_codes(outcomes: list[Outcome], code: int) -> None:
    assert exit_code(outcomes) == code


def test_failures_are_counted_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [GOOD, BROKEN, REFUSED]
    print_failures(outcomes)
    assert capsys.readouterr().out.splitlines() == [
        "2 of 4 configurations failed:",
        "  half: a worker failed",
        "  seed=x: seed=x: expected a whole number",
    ]
    assert complaint(outcomes).startswith("2 of 4 configurations failed, the first is half: a worker failed\nTraceback")


def test_one_reason_for_all_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    print_failures([REFUSED, REFUSED])
    assert capsys.readouterr().out == ""
    assert complaint([REFUSED, REFUSED]) == "seed=x: expected a whole number"
    assert complaint([GOOD]) == ""


def test_two_jobs_may_not_write_to_one_folder(tmp_path: Path) -> None:
    check_folders(["out/a", "out/b", "s3://bucket/a"])
    with pytest.raises(InputError, match=r"2 jobs of this sweep would write to .*/out/a: is a value listed twice"):
        check_folders([str(tmp_path / "out" / "a"), str(tmp_path / "out" / "b" / ".." / "a"), "elsewhere"])


def test_jobs_of_one_place_go_together() -> None:
    assert grouped({0: "x", 2: "y", 3: "x"}) == [[0, 3], [2]]
