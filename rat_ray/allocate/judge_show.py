"""A judge study on a terminal, in 80 columns: all of a judge's labels beside none, under each model of its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from scipy.special import bdtr

from rat_ray.allocate.judge_summary import main_quantity

if TYPE_CHECKING:
    from rich.console import Console

_UNKNOWN = "-"
_NAME = 12  # a longer name has a line of its own
_NAMES = {"p_g": "P(G=1)", "p_t": "P(T=1)", "rho": "P(R=1)"}
_NOTES = (
    "held: intervals that hold the full table's value; !: fewer than 95 % of them,",
    "beyond Monte Carlo error: the width deceives. worth: trusted labels without a",
    "judge for the same width, minus those used [95 %]; -: outside what was tried",
)


def print_judges(summary: pa.Table, screen: Console, quantity: str = "") -> None:
    """Print width, coverage and worth of one quantity. summary: schema `judge_summary.JUDGE_SUMMARY`.

    quantity: empty for P(G=1), or what there is of it. Per judge a line for each number of trusted labels, with the
    most judge labels that were tried; of several configurations a line for each, at the middle number.
    """
    every = summary.to_pylist()
    if not every:
        return
    shown = quantity or main_quantity(list(dict.fromkeys(row["quantity"] for row in every)))
    rows = _with_most_labels([row for row in every if row["quantity"] == shown and row["judge_labels"] > 0])
    configs = list(dict.fromkeys(row["config"] for row in rows))
    models = list(dict.fromkeys(row["judge_model"] for row in rows))
    where = configs[0] if len(configs) == 1 else f"{len(configs)} configurations"
    _say(screen, f"\nWhat is a judge worth? {_NAMES.get(shown, shown)}, 95 % intervals")
    _say(screen, where)
    _say(screen, f"{'':<12}{'trusted':>8}{'no':>6}" + "".join(f"  {model:<24}" for model in models).rstrip())
    heads = "".join(f"{'width':>6}{'held':>6} {'worth':<13}" for _ in models).rstrip()
    _say(screen, f"{'judge':<12}{'labels':>8}{'judge':>6}{heads}")
    for judge in dict.fromkeys(row["judge"] for row in rows):
        own = [row for row in rows if row["judge"] == judge]
        numbers = sorted({row["trusted_labels"] for row in own})
        if len(configs) == 1:
            lines = [(judge if trusted == numbers[0] else "", configs[0], trusted) for trusted in numbers]
        else:
            _say(screen, f"{judge}:")
            lines = [(config, config, numbers[len(numbers) // 2]) for config in configs]
        for name, config, trusted in lines:
            cells = {
                row["judge_model"]: row for row in own if (row["config"], row["trusted_labels"]) == (config, trusted)
            }
            if cells:
                _print_line(name, trusted, cells, models, screen)
        if len(configs) == 1:
            _say(screen, f"{'':<12}{_facts(own, every)}")
    failed, fits = sum(row["failed"] for row in rows), sum(row["failed"] + row["replicates"] for row in rows)
    if failed:
        _say(screen, f"{failed} of {fits} fits with a judge failed and are left out")
    for note in _NOTES:
        _say(screen, note)


def low_coverage(row: dict[str, Any]) -> bool:
    """Whether so few intervals hold the value that 95 % would be a surprise: a probability below 2.5 %."""
    if row["coverage"] is None:
        return False
    held = round(row["coverage"] * row["replicates"])
    return bool(bdtr(held, row["replicates"], 0.95) < 0.025)


def worth_words(row: dict[str, Any]) -> str:
    """`70 [46,96]`, with `-` for what is outside the grid."""
    if row["worth"] is None:
        return _UNKNOWN
    low, high = (_whole(row[name]) for name in ("worth_low", "worth_high"))
    return f"{_whole(row['worth'])} [{low},{high}]"


def share(value: float | None) -> str:
    """Three digits, without the zero before the point."""
    return _UNKNOWN if value is None else f"{value:.3f}".replace("0.", ".", 1)


def _with_most_labels(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    most: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["config"], row["judge"])
        most[key] = max(most.get(key, 0), row["judge_labels"])
    return [row for row in rows if row["judge_labels"] == most[row["config"], row["judge"]]]


def _print_line(
    name: str, trusted: int, cells: Mapping[str, dict[str, Any]], models: Sequence[str], screen: Console
) -> None:
    if len(name) > _NAME:
        _say(screen, name)
        name = ""
    alone = share(next(iter(cells.values()))["width_alone"])
    line = "".join(_cell(cells[model]) if model in cells else " " * 26 for model in models)
    _say(screen, f"{name:<12}{trusted:>8}{alone:>6}{line}".rstrip())


def _facts(own: Sequence[dict[str, Any]], every: Sequence[dict[str, Any]]) -> str:
    """How many labels a judge gave, and how often it says 1 in the full table."""
    judge = own[0]["judge"]
    rates = {row["quantity"]: row["target_value"] for row in every if row["judge"] == judge}
    known = [f"{name.upper()} {share(rates[name])}" for name in ("tpr", "fpr") if rates.get(name) is not None]
    return ", ".join([f"with {own[0]['judge_labels']} labels of the judge", *known])


def _cell(row: dict[str, Any]) -> str:
    held = _UNKNOWN if row["coverage"] is None else f"{100 * row['coverage']:.0f}%" + "!" * low_coverage(row)
    return f"{share(row['width']):>6}{held:>6} {worth_words(row):<13}"


def _whole(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{round(value)}"


def _say(screen: Console, text: str) -> None:
    screen.print(text, highlight=False, markup=False, soft_wrap=True)
