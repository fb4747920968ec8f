"""How well does the rule for abstention do? `python -m rat_ray.annotate.abstention_check [my.txt …] [answers.jsonl …]`

Holds the rule against `abstention_check.jsonl`, answers of our own writing with their labels, and against the user's
own answers where given. The rows of the split `test` were written last; no form was made for them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from rat_ray.annotate.abstention import LANGUAGES, Refusals, abstention, load_refusals
from rat_ray.errors import InputError

FLOOR = 0.97


class CheckedAnswer(NamedTuple):
    """An answer with its label by a person. phrase: of the prompt it answered. kind: what it tries the rule with."""

    answer: str
    phrase: str
    language: str
    abstained: int
    kind: str
    split: str


class Score(NamedTuple):
    """How often the rule agrees. right: 1 and 1; wrong: the rule alone says 1; missed: the label alone does."""

    right: int
    wrong: int
    missed: int
    answers: int

    @property
    def precision(self) -> float | None:
        """Of the answers that the rule calls abstentions, how many are; None without any."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def recall(self) -> float | None:
        """Of the abstentions, how many the rule finds; None without any."""
        return self.right / (self.right + self.missed) if self.right + self.missed else None


def own_answers() -> list[CheckedAnswer]:
    """The answers that ship with the package."""
    text = (files("rat_ray.annotate") / "abstention_check.jsonl").read_text("utf-8")
    return list(_parsed(text.split("\n"), "abstention_check.jsonl"))


def read_answers(file: str) -> list[CheckedAnswer]:
    """A user's JSONL with `answer` and `abstained`, and perhaps `phrase`, `language`, `kind`, `split`.

    Raises InputError for a row that cannot be read.
    """
    try:
        return list(_parsed(Path(file).read_text("utf-8-sig").split("\n"), file))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {file}: {error}") from error


def score(answers: Iterable[CheckedAnswer], refusals: Refusals) -> Score:
    """Hold the rule against labelled answers."""
    pairs = [(abstention(row.answer, row.phrase, refusals).label, row.abstained) for row in answers]
    return Score(pairs.count((1, 1)), pairs.count((1, 0)), pairs.count((0, 1)), len(pairs))


def report(answers: Sequence[CheckedAnswer], refusals: Refusals) -> Iterator[str]:
    """A line per split and language, then every answer that the rule labels otherwise."""
    yield f"{'':<20}{'answers':>8}{'abstained':>11}{'precision':>11}{'recall':>8}"
    yield _line("all", answers, refusals)
    for split in dict.fromkeys(row.split for row in answers):
        yield _line(f"split {split}", [row for row in answers if row.split == split], refusals)
    for language in dict.fromkeys(row.language for row in answers):
        yield _line(f"language {language}", [row for row in answers if row.language == language], refusals)
    for row in answers:
        label = abstention(row.answer, row.phrase, refusals)
        if label.label != row.abstained:
            said = "not found" if row.abstained else f"no abstention, but {label.rule}"
            yield f"{row.split} {row.language} {row.kind}: {said}: {row.answer!r}"


def main(arguments: Sequence[str]) -> int:
    """Print the report; 0 when precision and recall over all answers are at least FLOOR, else 1, 2 for bad files."""
    try:
        refusals = Refusals.of(load_refusals(LANGUAGES, [file for file in arguments if not file.endswith(".jsonl")]))
        answers = own_answers()
        for file in arguments:
            answers += read_answers(file) if file.endswith(".jsonl") else []
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    for line in report(answers, refusals):
        print(line)
    total = score(answers, refusals)
    good = min(total.precision or 0, total.recall or 0) >= FLOOR
    print(f"floor {FLOOR} for each over all: {'kept' if good else 'MISSED'}")
    return 0 if good else 1


def _line(name: str, answers: Sequence[CheckedAnswer], refusals: Refusals) -> str:
    found = score(answers, refusals)
    shares = "".join(
        f"{'-' if share is None else f'{share:.3f}':>{width}}"
        for share, width in [(found.precision, 11), (found.recall, 8)]
    )
    return f"{name:<20}{found.answers:>8}{found.right + found.missed:>11}{shares}"


def _parsed(lines: Sequence[str], place: str) -> Iterator[CheckedAnswer]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _row(line, f"{place}, line {number}", place)


def _row(line: str, where: str, place: str) -> CheckedAnswer:
    try:
        row: Mapping[str, Any] = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: {error}; give one JSON object a line") from error
    if not isinstance(row, dict) or not isinstance(row.get("answer"), str) or row.get("abstained") not in {0, 1}:
        raise InputError(f"{where}: give `answer`, a text, and `abstained`, 0 or 1")
    rest = {"phrase": "", "language": "-", "kind": "-", "split": Path(place).name} | row
    language, phrase, kind, split = (str(rest[name]) for name in ("language", "phrase", "kind", "split"))
    return CheckedAnswer(row["answer"], phrase, language, int(row["abstained"]), kind, split)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
