"""From count tables to draws: sample, look whether it worked, sample once more if not, and make the table of draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.errors import InputError
from rat_ray.model.design import Design, Options, check_items, design_of
from rat_ray.model.diagnostics import FAIL, DiagnosticsSettings, SamplerStats, Status, convergence, judge_fit
from rat_ray.model.engines import IMPORTANCE, Draws, EngineSettings, program_path
from rat_ray.model.engines import sample as sample_program
from rat_ray.model.patterns import judges_of, to_code
from rat_ray.model.priors import Prior
from rat_ray.seeds import seed_for
from rat_ray.tables import posterior_schema

REPLICATED = "n_rep"
RETRY_ADAPT_DELTA = 0.99
DENSE_PARAMETERS, DENSE_ITEMS, DENSE_LABELLED = 20, 10**6, 50


class Sampled(NamedTuple):
    """draws: `tables.posterior_schema`, ordered by chain and draw; seconds: of the sampling alone.

    failure: why there are no draws (all values are null then), or None. retried: sampled again with adapt_delta 0.99.
    sampler: what made the draws, "nuts" or "importance"; None where there are none. pareto_k: see `engines.Draws`.
    """

    draws: pa.Table
    seconds: float
    failure: str | None = None
    retried: bool = False
    sampler: str | None = None
    pareto_k: float | None = None


def design_for(tables: Mapping[str, pa.Table], prior: Prior, options: Options | None = None) -> Design:
    """The design of one count table, or of several whose judges are shared. Raises InputError for no items."""
    judges = judges_of(next(iter(tables.values())))
    for name, table in tables.items():
        if judges_of(table) != judges:
            raise InputError(f"judges can be shared by systems with the same judges: {name!r} has {judges_of(table)}")
    codes = {name: to_code(table) for name, table in tables.items()}
    options = options or Options()
    if not options.prior_only:
        check_items(codes)
    return design_of(codes, judges, prior, options)


def column_names(counts: pa.Table, options: Options | None = None) -> tuple[list[str], list[str]]:
    """The quantities of this count table's fit, and the columns of its replicated counts, in their order."""
    design = design_for({"all": counts}, Prior(), replace(options or Options(), prior_only=True))
    return list(design.columns), replicated_names(design)


def replicated_names(design: Design, output: int = 0) -> list[str]:
    """The columns of the replicated counts: `n_rep[0]` and so on, in the order of `cells.cells_of`."""
    cells = design.cells_of_outputs
    return [f"{REPLICATED}[{i}]" for i in range(len(cells[output].n) if cells else 0)]


def item_count(counts: pa.Table, config: str) -> int:
    """The number of items that inform the fit. Raises InputError when there are none."""
    return check_items({config: to_code(counts)})[config]


def sample(
    counts: pa.Table,
    prior: Prior,
    engine: EngineSettings,
    seed: int,
    config: str,
    options: Options | None = None,
    judged: Sequence[str] | None = None,
    diagnostics: DiagnosticsSettings | None = None,
) -> Sampled:
    """Sample the posterior (or the prior) for one count table. The seed of the fit depends on `seed` and `config`.

    judged: the quantities that decide whether the fit failed; a failed fit is sampled once more with adapt_delta 0.99.
    None: it is not checked. Raises InputError for an impossible prior or setting, or when no item informs the fit.
    """
    return sample_together({config: counts}, prior, engine, seed, options, judged, diagnostics)[config]


def sample_together(
    tables: Mapping[str, pa.Table],
    prior: Prior,
    engine: EngineSettings,
    seed: int,
    options: Options | None = None,
    judged: Sequence[str] | None = None,
    diagnostics: DiagnosticsSettings | None = None,
) -> dict[str, Sampled]:
    """One fit of several systems that share their judges' rates; for one system see `sample`."""
    prior.validate()
    design = design_for(tables, prior, options)
    fit_seed = seed_for(seed, "fit", *tables)
    checks = None if judged is None else (list(judged), diagnostics or DiagnosticsSettings())
    drawn, failure, retried = draw_twice(design, engine, fit_seed, checks)
    seconds, sampler, pareto_k = (drawn.seconds, drawn.sampler, drawn.pareto_k) if drawn else (0.0, None, None)
    return {
        name: Sampled(draws_table(drawn, design, output, name, engine), seconds, failure, retried, sampler, pareto_k)
        for output, name in enumerate(tables)
    }


def draw_twice(
    design: Design, engine: EngineSettings, seed: int, checks: tuple[list[str], DiagnosticsSettings] | None
) -> tuple[Draws | None, str | None, bool]:
    """Draws, why there are none, and whether it was sampled again because the first draws failed the checks.

    Draws by importance sampling are sampled again by NUTS.
    """
    drawn, failure = _try(design, engine, seed)
    if checks is None:
        return drawn, failure, False
    if drawn is not None and not _failed(drawn, design, engine, *checks):
        return drawn, None, False
    kind = "stanli" if engine.kind == IMPORTANCE else engine.kind
    careful = replace(engine, kind=kind, adapt_delta=max(RETRY_ADAPT_DELTA, engine.adapt_delta))
    again, failure_again = _try(design, careful, seed)
    if again is not None and drawn is not None:
        again = again._replace(pareto_k=drawn.pareto_k)
    # Draws that fail the diagnostics tell more than none.
    return (again, None, True) if again is not None else (drawn, None if drawn is not None else failure_again, True)


def metric_of(design: Design, engine: EngineSettings) -> str:
    """The metric of the settings; auto: dense_e where it pays.

    Measured per effective draw of P(G=1): with two independent judges 1.5 to 2.3 times as fast, with a panel or a pair
    of systems slower, since there the posterior is far from a normal one and a dense metric costs more. With few
    labels it is slower too, and with very many items the parameters' scales differ too much for it.
    """
    if engine.metric != "auto":
        return engine.metric
    parameters = design.splits.shape[0] * len(design.groups.output_of) + len(design.layout.prior)
    independent = bool(design.sides) and not any(side.panel for side in design.sides)
    few = parameters <= DENSE_PARAMETERS and design.items.n.sum() <= DENSE_ITEMS
    labelled = design.items.n[design.items.agree.sum(axis=1) == 1].sum() >= DENSE_LABELLED
    return "dense_e" if independent and few and labelled else "diag_e"


def _try(design: Design, engine: EngineSettings, seed: int) -> tuple[Draws | None, str | None]:
    engine = replace(engine, metric=metric_of(design, engine))
    try:
        return sample_program(program_path(), design.data(), seed, engine), None
    except RuntimeError as error:  # a chain cannot start, or a sampler died: a failed fit, not a failed job
        return None, f"the sampler failed: {str(error).strip()[:500]}"


def _failed(
    drawn: Draws, design: Design, engine: EngineSettings, judged: list[str], diagnostics: DiagnosticsSettings
) -> bool:
    position = {name: index for index, name in enumerate(drawn.names)}
    for output in range(len(design.groups.names)):
        columns = design.columns_of(output)
        values = drawn.values[:, :, [position[columns[name]] for name in judged]]
        stats = SamplerStats(drawn.divergent, drawn.treedepth, drawn.energy, engine.max_treedepth)
        if judge_fit(judged, values, convergence(values), stats, diagnostics).status == FAIL:
            return True
    return False


def draws_array(draws: pa.Table, quantities: list[str]) -> np.ndarray:
    """(chains, draws, quantities) from a table of draws, whatever the order of its rows; NaN where it is null."""
    draws = draws.sort_by([("chain", "ascending"), ("draw", "ascending")])
    chains = len(pc.unique(draws.column("chain")))
    columns = [draws.column(name).cast(pa.float64()).to_numpy().reshape(chains, -1) for name in quantities]
    return np.stack(columns, axis=2)


def quantities_of(draws: pa.Table) -> list[str]:
    """The quantities in a table of draws, without the replicated counts."""
    head = set(posterior_schema([]).names)
    return [name for name in draws.schema.names if name not in head and not name.startswith(f"{REPLICATED}[")]


def draws_table(drawn: Draws | None, design: Design, output: int, config: str, engine: EngineSettings) -> pa.Table:
    """The draws of one output with the names of `tables.posterior_schema`; all values null where there are none."""
    columns = design.columns_of(output)
    replicated = replicated_names(design, output)
    first = sum(len(cells.n) for cells in design.cells_of_outputs[:output]) + 1
    schema = posterior_schema([*columns, *replicated])
    chains, draws = engine.chains, engine.samples
    head = [
        pa.repeat(pa.scalar(config, pa.string()), chains * draws),
        pa.array(np.repeat(np.arange(chains), draws)),
        pa.array(np.tile(np.arange(draws), chains)),
    ]
    if drawn is None:
        rest = [pa.nulls(chains * draws, field.type) for field in list(schema)[len(head) :]]
    else:
        position = {name: index for index, name in enumerate(drawn.names)}
        program = ["log_prior", "log_likelihood", *columns.values()]
        program += [f"replicated[{i}]" for i in range(first, first + len(replicated))]
        values = [drawn.values[:, :, position[column]] for column in program]
        values = [drawn.lp, drawn.divergent, drawn.treedepth, drawn.energy, *values]
        # A ratio to nothing is missing.
        rest = [_finite(part.reshape(-1)) for part in values]
    cast = [array.cast(field.type) for array, field in zip([*head, *rest], schema, strict=True)]
    return pa.Table.from_arrays(cast, schema=schema)


def _finite(values: np.ndarray) -> pa.Array:
    """The numbers, with null for what is not finite."""
    return pa.array(values, mask=~np.isfinite(values))


def status_of_failure(reason: str) -> Status:
    """The status of a fit without draws."""
    return Status(FAIL, reason)
