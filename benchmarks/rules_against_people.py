"""The rules for T against people's labels, beside what judges reach on the same answers.

    PYTHONPATH=. python benchmarks/rules_against_people.py        # a second; needs ../shared/data

openqa_eval_nq301: 1,489 answers of twelve systems to 301 questions of Natural Questions, labelled by people; agreement,
true and false positive rate and Cohen's kappa of each rule and of each judge. react_fever500: 500 claims that a real
system answered; the verdict rule must reproduce `correct` on every row when abstention is not considered.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rat_ray.annotate.match import T_RULES
from rat_ray.annotate.rules import Item

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "annotations"
OPENQA, REACT = "openqa_eval_nq301.jsonl", "react_fever500_outcomes.jsonl"
RULES = ("match", "exact", "f1", "contains")
JUDGES = ("judge_gpt4", "judge_davinci003")


class Agreement(NamedTuple):
    """n rows with both labels; agreement, tpr and fpr as shares, kappa by Cohen."""

    n: int
    agreement: float
    tpr: float
    fpr: float
    kappa: float


def agreement(pairs: Iterable[tuple[int, int]]) -> Agreement:
    """pairs: label of the rule or judge, label of people; both must occur among people's."""
    counts = Counter(pairs)
    n = counts.total()
    right, wrong = counts[1, 1] + counts[0, 1], counts[1, 0] + counts[0, 0]
    said = counts[1, 1] + counts[1, 0]
    same = (counts[1, 1] + counts[0, 0]) / n
    by_chance = (said * right + (n - said) * wrong) / n**2
    return Agreement(n, same, counts[1, 1] / right, counts[1, 0] / wrong, (same - by_chance) / (1 - by_chance))


def answers(folder: Path) -> list[dict[str, Any]]:
    """The rows of openqa_eval_nq301 that have accepted answers and people's label."""
    rows = read(folder / OPENQA)
    return [row for row in rows if row["gold_answers"] is not None and row["human_final"] is not None]


def rule_agreement(rows: Iterable[dict[str, Any]], name: str) -> Agreement:
    """Of one of T_RULES with its default options."""
    kind = T_RULES[name]
    settings = kind.settings()
    return agreement((int(kind.label(open_item(row), settings).label), row["human_final"]) for row in rows)


def judge_agreement(rows: Iterable[dict[str, Any]], name: str) -> Agreement:
    """Of a judge's column, where it has a verdict."""
    return agreement((row[name], row["human_final"]) for row in rows if row[name] is not None)


def open_item(row: dict[str, Any]) -> Item:
    """A row of openqa_eval_nq301 as a rule sees it."""
    return Item(row["question"], "open", row["gold_answers"], None, row["answer"], None, None)


def differing_claims(folder: Path) -> list[str]:
    """The ids of the rows of react_fever500 where the verdict rule says otherwise than `correct`."""
    kind = T_RULES["claim"]
    settings = kind.settings()
    differing = []
    for row in read(folder / REACT):
        item = Item(row["claim"], "claim", [row["gold_label"]], None, row["answer"], None, None)
        if kind.label(item, settings).label != row["correct"]:
            differing.append(row["qid"])
    return differing


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def main() -> int:
    """Prints a table; 1 where a claim differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the two files")
    folder = parser.parse_args().data
    missing = [name for name in (OPENQA, REACT) if not (folder / name).is_file()]
    if missing:
        print(f"skipped: {folder} has no {', '.join(missing)}")
        return 0
    rows = answers(folder)
    found = {f"t@{name}": rule_agreement(rows, name) for name in RULES}
    found |= {name: judge_agreement(rows, name) for name in JUDGES}
    print(f"{'against people':18} {'n':>5} {'agreement':>9} {'tpr':>5} {'fpr':>5} {'kappa':>5}")
    for name, (n, same, tpr, fpr, kappa) in found.items():
        print(f"{name:18} {n:5} {same:9.3f} {tpr:5.3f} {fpr:5.3f} {kappa:5.3f}")
    kinds = Counter((label.rule, label.label, row["human_final"]) for row, label in labelled(rows))
    print("\nt@match by what fired: rule, label, people's label, rows")
    for (rule, label, people), count in sorted(kinds.items(), key=lambda pair: -pair[1]):
        print(f"{rule:10} {label} {people} {count:5}")
    differing = differing_claims(folder)
    print(f"\nreact_fever500: {len(differing)} of {len(read(folder / REACT))} rows differ {differing}")
    return int(bool(differing))


def labelled(rows: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], Any]]:
    """Each row with what t@match says of it."""
    kind = T_RULES["match"]
    return [(row, kind.label(open_item(row), kind.settings())) for row in rows]


if __name__ == "__main__":
    sys.exit(main())
