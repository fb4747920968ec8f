"""A study on a terminal: a line per strategy and budget, in 80 columns; everything else is in the files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate.agreement import Agreement, NutsCheck
from rat_ray.allocate.reach import AT_MOST, NOT_REACHED
from rat_ray.allocate.summary import configs_of, summarise

if TYPE_CHECKING:
    from rich.console import Console

_UNKNOWN = "-"
_SHOWN = "p_g"
_NAME = 22  # a longer name has a line of its own
_STRATEGY = 10  # a longer name, such as mixed-0.123456, is cut where its column is that narrow
_WIDTH = 80


def print_study(allocation: pa.Table, screen: Console, quantity: str = "") -> None:
    """Print error, width and coverage of one quantity, over all configurations where there are several.

    quantity: empty for P(G=1), or the first of the table where it is not in it.
    """
    rows, shown = _of_quantity(summarise(allocation), quantity)
    if not rows:
        return
    config = rows[-1]["config"]  # the rows over all configurations are the last
    mine = [row for row in rows if row["config"] == config]
    base = allocation.column("base")[0].as_py()
    _say(screen, f"\n{shown} ({_where(mine[0])}), base {base}, ± one Monte Carlo standard error")
    _say(screen, f"{'strategy':<14}{'budget':>8}{'spent':>9}  {'RMSE':<13}{'95 % width':<13}{'held':>6}{'fits':>9}")
    for row in mine:
        failed = f"{row['replicates']}" + (f"-{row['failed']}" if row["failed"] else "")
        held = _UNKNOWN if row["coverage"] is None else f"{100 * row['coverage']:.0f} %"
        spent = _UNKNOWN if row["cost"] is None else f"{row['cost']:.1f}"
        error, width = (_with_error(row[name], row[f"{name}_se"]) for name in ("rmse", "width"))
        _say(screen, f"{row['strategy']:<14}{row['budget']:>8g}{spent:>9}  {error:<13}{width:<13}{held:>6}{failed:>9}")
    if any(row["failed"] for row in mine):
        _say(screen, "fits: those with an estimate, then how many failed")


def print_reach(reached: pa.Table, screen: Console, quantity: str = "") -> None:
    """Print the cost at which each strategy has the reference's interval width, as a multiple of the reference's."""
    rows, shown = _of_quantity(reached, quantity)
    if not rows:
        return
    mine = [row for row in rows if row["config"] == rows[-1]["config"]]
    against = mine[0]["against"]
    strategies = list(dict.fromkeys(row["strategy"] for row in mine if row["strategy"] != against))
    if not strategies:
        return
    _say(screen, f"\nCost for the width of {shown} that {against} has at a budget, as a multiple")
    _say(screen, "(- never within these budgets, <1.2 already at its smallest)")
    column = max(11, *(len(name) + 1 for name in strategies))
    most = max((_WIDTH - 14) // column, 1)
    for start in range(0, len(strategies), most):
        shown_now = strategies[start : start + most]
        _say(screen, f"{'budget':>7}{'width':>7}" + "".join(f"{name:>{column}}" for name in shown_now))
        for budget in dict.fromkeys(row["budget"] for row in mine):
            line = {row["strategy"]: row for row in mine if row["budget"] == budget}
            width = _share(next(iter(line.values()))["width"])
            _say(screen, f"{budget:>7g}{width:>7}" + "".join(f"{_ratio(line[name]):>{column}}" for name in shown_now))


def print_information(information: pa.Table, prediction: pa.Table, found: Sequence[Agreement], screen: Console) -> None:
    """Print what R, T and both tell of G, in bits, and per configuration whose strategy was to be best, and was.

    information, prediction: schemas of `allocate.information`.
    """
    bits = {(row["config"], row["quantity"]): row["mean"] for row in information.to_pylist()}
    _say(screen, "\nBits of G that labels tell per item; the best strategy by bits per cost, by")
    _say(screen, "the expected error, and by RMSE in the study (how sure)")
    _say(screen, f"{'configuration':<{_NAME}}{'R':>6}{'T':>6}{'both':>6}  {'bits':<11}{'expected':<11}study")
    for config in configs_of(information):
        rows = [row for row in prediction.to_pylist() if row["config"] == config]
        said, expected, was = (
            _leader(rows, "bits_per_cost", 1),
            _leader(rows, "expected_sd", -1),
            _leader(rows, "rmse", -1),
        )
        study = _sure(was)
        told = "".join(f"{_share(bits[config, name]):>6}" for name in ("info[r]", "info[t]", "info[r,t]"))
        if len(config) > _NAME:
            _say(screen, config)
        name = config if len(config) <= _NAME else ""
        _say(screen, f"{name:<{_NAME}}{told}  {_named(said):<11}{_named(expected):<11}{study}")
    for one in found:
        _say(screen, agreement_words(one))


def _sure(row: dict[str, Any] | None) -> str:
    """The study's best strategy, and in how many of the replicates drawn anew it was that; one is not drawn anew."""
    if row is None or row["best_rmse"] is None:
        return _named(row)
    return f"{_named(row)} {100 * row['best_rmse']:.0f} %"


def _named(row: dict[str, Any] | None) -> str:
    name = _UNKNOWN if row is None else str(row["strategy"])
    return name if len(name) <= _STRATEGY else name[: _STRATEGY - 1] + "…"


def agreement_words(found: Agreement) -> str:
    """Whether a formula foretells the experiment, in a line."""
    formula = found.formula.replace("_", " ")
    if not found.configurations:
        return f"{formula}: nothing to compare with"
    right = f"best in {found.best} of {found.configurations}"
    r_or_t = f"R or T in {found.r_or_t} of {found.r_or_t_of}" if found.r_or_t_of else ""
    ranks = {"ranks": found.within, "of R/T": found.across}
    known = ", ".join(f"{what} {value:+.2f}" for what, value in ranks.items() if value is not None)
    return f"foretold by {formula:<14}{right:<18}{r_or_t:<20}{known}".rstrip()


def print_nuts(check: NutsCheck, screen: Console) -> None:
    """Print how far the fits are from NUTS."""
    _say(screen, nuts_words(check))


def nuts_words(check: NutsCheck) -> str:
    """How far the fits are from NUTS, in words."""
    taken = f"{check.fits:,} fits, {check.taken_over:,} of them by NUTS"
    if check.mean_in_sd is None:
        return f"{taken}; none refitted as a check"
    mean = f"{check.mean_in_sd:.3f} sd of a mean ({check.mean_in_mcse:.1f} Monte Carlo errors"
    ends = f"{check.ends_in_sd:.3f} sd of an interval end ({check.ends_in_mcse:.1f}"
    return (
        f"{taken}; {check.refitted:,} refitted by NUTS as a check: largest difference {mean}, "
        f"{check.expected_mean:.1f} expected), {ends}, {check.expected_ends:.1f} expected)"
    )


def _of_quantity(table: pa.Table, quantity: str) -> tuple[list[dict[str, Any]], str]:
    names = pc.unique(table.column("quantity")).to_pylist()
    if not names:
        return [], ""
    name = quantity or (_SHOWN if _SHOWN in names else names[0])
    return table.filter(pc.equal(table.column("quantity"), name)).to_pylist(), "P(G=1)" if name == _SHOWN else name


def _where(row: dict[str, Any]) -> str:
    return row["config"] if row["configurations"] == 1 else f"mean over {row['configurations']} configurations"


def _leader(rows: Iterable[dict[str, Any]], column: str, sign: int) -> dict[str, Any] | None:
    known = [row for row in rows if row[column] is not None]
    return max(known, key=lambda row: sign * row[column], default=None)


def _ratio(row: dict[str, Any]) -> str:
    if row["how"] == NOT_REACHED or row["ratio"] is None:
        return _UNKNOWN
    return ("<" if row["how"] == AT_MOST else "") + f"{row['ratio']:.2f}"


def _with_error(value: float | None, error: float | None) -> str:
    return _share(value) + ("" if error is None or value is None else f"±{_share(error)}")


def _share(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    text = f"{value:.3f}"
    return text.removeprefix("0") if text.startswith("0.") else text


def _say(screen: Console, text: str) -> None:
    screen.print(text, highlight=False, markup=False, soft_wrap=True)
