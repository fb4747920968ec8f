"""Two systems on the same questions: how they differ, from one joint fit. No Ray, no files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.errors import InputError
from rat_ray.model.design import Design, Options, check_items
from rat_ray.model.diagnostics import Convergence, DiagnosticsSettings, SamplerStats, Status, convergence, judge_fit
from rat_ray.model.engines import Draws, EngineSettings
from rat_ray.model.identify import IDENTIFIED, Known, identify
from rat_ray.model.pair_design import SIDES, PairCounts, pair_counts, pair_design
from rat_ray.model.patterns import MISSING, Code, default_judges, to_table
from rat_ray.model.policy import Policy
from rat_ray.model.posterior import draw_twice, status_of_failure
from rat_ray.model.priors import Prior
from rat_ray.model.ranks import correlation
from rat_ray.model.states import finite_name
from rat_ray.model.summary import QUANTILES, cell
from rat_ray.model.verdicts import PANEL, check_judge_model
from rat_ray.seeds import seed_for
from rat_ray.tables import COMPARISON


@dataclass(frozen=True)
class Comparison:
    """Two compared configurations.

    summary: `tables.COMPARISON`, a row per quantity; draws: chain, draw, and `first:NAME`, `second:NAME` per quantity;
    items: questions that both have; same_context: those of them on which both had the same passages.
    """

    first: str
    second: str
    summary: pa.Table
    draws: pa.Table
    status: Status
    items: int
    same_context: int

    def value(self, quantity: str, column: str = "mean") -> float | str | None:
        """One cell of the summary, such as `comparison.value("p_g", "p_greater")`; mean is of first minus second.

        Raises KeyError for an unknown quantity.
        """
        return cell(self.summary, quantity, column)


class PairFit(NamedTuple):
    """The draws of a joint fit: names of quantities, (chains, draws, quantities) of each system, and how it went."""

    names: list[str]
    first: np.ndarray
    second: np.ndarray
    sampler: SamplerStats | None
    failure: str | None
    seconds: float


def compare(
    first: pa.Table,
    second: pa.Table,
    judges: Sequence[str] | None = None,
    prior: Prior | None = None,
    engine: EngineSettings | None = None,
    seed: int = 1,
    names: tuple[str, str] = SIDES,
    diagnostics: DiagnosticsSettings | None = None,
    judge_model: str = PANEL,
    policy: Policy | None = None,
) -> Comparison:
    """Compare two configurations that answered the same questions, by one joint fit of both.

    first, second: label tables as for `fit`, with `question_id`, and `context` where it is known: the same value in
    both says that both had the same passages, so that R is one variable. judges: the sources to use, in each table
    that has them; by default all that are not trusted. Differences are first minus second.

    Raises InputError for tables that cannot be paired, and what `fit` raises it for.
    """
    prior, engine, diagnostics = prior or Prior(), engine or EngineSettings(), diagnostics or DiagnosticsSettings()
    options = Options(judge_model=judge_model, policy=policy or Policy())
    for part in (prior, engine, diagnostics, options.policy):
        part.validate()
    sides = [_judges(table, judges) for table in (first, second)]
    for judge in judges or ():
        if not any(judge in mine for mine in sides):
            raise InputError(f"judges: neither table has a column {judge!r}")
    for mine in sides:
        check_judge_model(judge_model, mine)
    counts = pair_counts((first, second), sides, names)
    return compare_counts(counts, sides, prior, engine, seed, names, diagnostics, options)


def compare_counts(
    counts: PairCounts,
    judges: Sequence[Sequence[str]],
    prior: Prior,
    engine: EngineSettings,
    seed: int,
    names: tuple[str, str],
    diagnostics: DiagnosticsSettings,
    options: Options,
) -> Comparison:
    """The comparison from joint pattern counts. The draws depend on the seed and the two names."""
    if not counts.items:
        raise InputError(f"{names[0]} and {names[1]} have no question in common; pairs are joined by question_id")
    check_items(dict(zip(names, counts.codes, strict=True)))
    known = _known(counts, judges, options)
    design = pair_design(counts, judges, prior, options)
    quantities = [name.removeprefix("first:") for name in design.ratios if name.startswith("first:")]
    judged = [name for name in quantities if all(side[name].identified == IDENTIFIED for side in known)]
    checks = ([f"{side}:{name}" for name in judged for side in SIDES], diagnostics)
    drawn, failure, _ = draw_twice(design, engine, seed_for(seed, "compare", *names), checks)
    fitted = _pair_fit(design, drawn, failure, engine)
    same = counts.same_context
    head = {"first": names[0], "second": names[1], "items": counts.items, "same_context": same}
    summary, status = _summarise(fitted, judged, known, diagnostics, head)
    return Comparison(names[0], names[1], summary, _draws_table(fitted, engine), status, counts.items, same)


def _judges(table: pa.Table, judges: Sequence[str] | None) -> list[str]:
    if not isinstance(table, pa.Table):
        raise InputError(f"labels are a pyarrow.Table, not a {type(table).__name__}; see pyarrow.Table.from_pandas")
    if judges is None:
        return default_judges(table)
    return [judge for judge in judges if judge in table.schema.names]


def _known(counts: PairCounts, judges: Sequence[Sequence[str]], options: Options) -> list[dict[str, Known]]:
    return [
        identify(to_table(_without_blanks(code), list(mine)), options).known
        for code, mine in zip(counts.codes, judges, strict=True)
    ]


def _without_blanks(code: Code) -> Code:
    """The patterns of the questions that this system has; the others' are all missing."""
    return code.take((code.labels != MISSING).any(axis=1))


def _pair_fit(design: Design, drawn: Draws | None, failure: str | None, engine: EngineSettings) -> PairFit:
    columns = design.columns
    own = [name.removeprefix("first:") for name in design.ratios if name.startswith("first:")]
    shares = [name.removeprefix("first:") for name in design.finite if name.startswith("first:")]
    names = [*own, *(finite_name(name) for name in shares)]
    if drawn is None:
        nothing = np.full((engine.chains, engine.samples, len(names)), np.nan)
        return PairFit(names, nothing, nothing, None, failure, 0.0)
    position = {name: index for index, name in enumerate(drawn.names)}
    values = []
    for side in SIDES:
        keys = [*(f"{side}:{name}" for name in own), *(finite_name(f"{side}:{name}") for name in shares)]
        values.append(drawn.values[:, :, [position[columns[key]] for key in keys]])
    sampler = SamplerStats(drawn.divergent, drawn.treedepth, drawn.energy, engine.max_treedepth)
    return PairFit(names, values[0], values[1], sampler, None, drawn.seconds)


def _summarise(
    fitted: PairFit,
    judged: Sequence[str],
    known: Sequence[dict[str, Known]],
    diagnostics: DiagnosticsSettings,
    head: dict[str, Any],
) -> tuple[pa.Table, Status]:
    difference = fitted.first - fitted.second
    if fitted.sampler is None:
        status = status_of_failure(fitted.failure or "no draws")
        found = [Convergence(None, None, None, None)] * len(fitted.names)
    else:
        found = convergence(difference)
        chosen = [fitted.names.index(name) for name in judged]
        both = np.concatenate([part[:, :, chosen] for part in (fitted.first, fitted.second, difference)], axis=2)
        said = [f"{side} {name}" for side in (*SIDES, "difference of") for name in judged]
        status = judge_fit(said, both, convergence(both), fitted.sampler, diagnostics)
    rows = []
    for index, name in enumerate(fitted.names):
        one, two, gap = (part[:, :, index].reshape(-1) for part in (fitted.first, fitted.second, difference))
        row = {**head, "quantity": name, "seconds": fitted.seconds or None}
        row |= {"status": status.status, "reason": status.reason, **found[index]._asdict()}
        row["identified"] = int(all(side[name].identified == IDENTIFIED for side in known))
        if np.isfinite(gap).all():
            row |= {"mean_first": float(one.mean()), "mean_second": float(two.mean()), "mean": float(gap.mean())}
            row |= {"correlation": correlation(one, two), "sd": float(gap.std(ddof=1))}
            row |= {"p_greater": float((gap > 0).mean() + (gap == 0).mean() / 2)}
            row |= dict(zip(QUANTILES, np.quantile(gap, list(QUANTILES.values())).tolist(), strict=True))
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=COMPARISON), status


def _draws_table(fitted: PairFit, engine: EngineSettings) -> pa.Table:
    chains, draws = engine.chains, engine.samples
    columns: dict[str, Any] = {
        "chain": pa.array(np.repeat(np.arange(chains), draws), pa.int16()),
        "draw": pa.array(np.tile(np.arange(draws), chains), pa.int32()),
    }
    for side, values in zip(SIDES, (fitted.first, fitted.second), strict=True):
        for index, name in enumerate(fitted.names):
            columns[f"{side}:{name}"] = pa.array(values[:, :, index].reshape(-1), pa.float64(), from_pandas=True)
    return pa.table(columns)
