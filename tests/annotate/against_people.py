"""The rules for T on real answers that people labelled: what `test_against_people` and the benchmark share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rat_ray.annotate.match import T_RULES
from rat_ray.annotate.rules import Item, Label

OPENQA, REACT = "openqa_eval_nq301.jsonl", "react_fever500_outcomes.jsonl"


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


def labelled(rows: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], Label]]:
    """Each row with what t@match says of it."""
    kind = T_RULES["match"]
    return [(row, kind.label(open_item(row), kind.settings())) for row in rows]
