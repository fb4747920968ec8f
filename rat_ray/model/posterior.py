"""From a count table to draws: the program's data, the names of its quantities, and the table of draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.errors import InputError
from rat_ray.model.engines import Draws, EngineSettings, StanData, program_path
from rat_ray.model.engines import sample as sample_program
from rat_ray.model.patterns import MISSING, TRUSTED, Code, judges_of, to_code
from rat_ray.model.priors import Prior
from rat_ray.seeds import seed_for
from rat_ray.tables import posterior_schema

# (r, a, t) of the six states; T of an abstention is undefined, which no label equals.
UNDEFINED = -1
STATES = np.array([[0, 1, UNDEFINED], [0, 0, 0], [0, 0, 1], [1, 1, UNDEFINED], [1, 0, 0], [1, 0, 1]], dtype=np.int8)

# Quantity: Stan's column.
_COLUMNS = {
    "rho": "rho",
    "alpha[0]": "alpha[1]",
    "alpha[1]": "alpha[2]",
    "tau[0]": "tau[1]",
    "tau[1]": "tau[2]",
    "p_g": "p_g",
    "p_t": "p_t",
    "p_a": "p_a",
    "accuracy": "accuracy",
    "p_g[r=0]": "p_g_r0",
    "p_g[r=1]": "p_g_r1",
    "guess": "guess",
    "lucky": "lucky",
}
BASE_QUANTITIES = tuple(_COLUMNS)
PARAMETERS = BASE_QUANTITIES[:5]


class Sampled(NamedTuple):
    """draws: `tables.posterior_schema`, ordered by chain and draw; seconds: of the sampling alone."""

    draws: pa.Table
    seconds: float


def derive(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Every base quantity from the five parameters (scalars or arrays, real or complex), as in `stan/rat.stan`."""
    rho, a0, a1, t0, t1 = (parameters[name] for name in PARAMETERS)
    lucky = (1 - rho) * (1 - a0) * t0
    right = rho * (1 - a1) * t1
    p_a = (1 - rho) * a0 + rho * a1
    return {
        **{name: parameters[name] for name in PARAMETERS},
        "p_g": (1 - rho) * a0 + right,
        "p_t": lucky + right,
        "p_a": p_a,
        "accuracy": (lucky + right) / (1 - p_a),
        "p_g[r=0]": a0,
        "p_g[r=1]": (1 - a1) * t1,
        "guess": 1 - a0,
        "lucky": lucky,
    }


def fitted(counts: pa.Table) -> Code:
    """The patterns that inform the fit."""
    code = to_code(counts)
    kept = ~code.failed & (code.n > 0)
    return Code(code.labels[kept], code.failed[kept], code.n[kept])


def own_rate_judges(counts: pa.Table) -> list[str]:
    """The judges of T with verdicts where A is unknown: abstentions there need a verdict rate of their own."""
    labels = fitted(counts).labels
    unknown = labels[:, 1] == MISSING
    return [
        judge
        for index, judge in enumerate(judges_of(counts), start=len(TRUSTED))
        if judge.startswith("t@") and bool((labels[unknown, index] != MISSING).any())
    ]


def quantity_columns(counts: pa.Table) -> dict[str, str]:
    """Every quantity of this count table's fit, and the program's column that holds it."""
    columns = dict(_COLUMNS)
    for index, judge in enumerate(judges_of(counts), start=1):
        columns[f"tpr[{judge}]"] = f"tpr[{index}]"
        columns[f"fpr[{judge}]"] = f"fpr[{index}]"
    for index, judge in enumerate(own_rate_judges(counts), start=1):
        columns[f"yes[{judge},a=1]"] = f"yes_abstained[{index}]"
    return columns


def agreement(labels: np.ndarray) -> np.ndarray:
    """(patterns, 6) of booleans: the state agrees with the pattern's r, a and t. labels: (patterns, 3 or more)."""
    trusted = labels[:, None, : len(TRUSTED)]
    return np.asarray(((trusted == MISSING) | (trusted == STATES)).all(axis=2))


def judged_states(judges: list[str]) -> np.ndarray:
    """(judges, 6): the judged variable in each state: 1, 0 or UNDEFINED."""
    rows = [STATES[:, TRUSTED.index(judge[0])] for judge in judges]
    return np.stack(rows) if rows else np.zeros((0, len(STATES)), dtype=np.int8)


def stan_data(counts: pa.Table, prior: Prior, prior_only: bool = False) -> StanData:
    """The data block of `stan/rat.stan`."""
    judges, own, code = judges_of(counts), own_rate_judges(counts), fitted(counts)
    judged = judged_states(judges)
    verdicts, index = np.unique(code.labels[:, len(TRUSTED) :], axis=0, return_inverse=True)
    if not judges:  # one combination: of no verdicts
        verdicts, index = np.zeros((1, 0), dtype=np.int8), np.zeros(len(code.n), dtype=np.int64)
    own_rate = np.array([[float(judge == other) for other in own] for judge in judges])
    return {
        "P": len(code.n),
        "n": code.n.astype(float),
        "agree": agreement(code.labels).astype(float),
        "J": len(judges),
        "V": len(verdicts),
        "verdicts": index.reshape(-1) + 1,
        "said_one": (verdicts == 1).astype(float),
        "said_zero": (verdicts == 0).astype(float),
        "is_one": (judged == 1).astype(float),
        "is_zero": (judged == 0).astype(float),
        "K": len(own),
        "own_rate": own_rate.reshape(len(judges), len(own)),
        "prior_rho": np.array(prior.rho),
        "prior_alpha": np.array([prior.alpha0, prior.alpha1]),
        "prior_tau": np.array([prior.tau0, prior.tau1]),
        "prior_tpr": np.array(prior.tpr),
        "prior_fpr": np.array(prior.fpr),
        "prior_yes_abstained": np.array(prior.yes_abstained),
        "prior_only": int(prior_only),
    }


def item_count(counts: pa.Table, config: str) -> int:
    """The number of items that inform the fit. Raises InputError when there are none."""
    items = int(fitted(counts).n.sum())
    if items:
        return items
    failed = pc.sum(counts.column("n")).as_py() or 0
    why = f"all {failed} rows failed in generation (see their error column)" if failed else "the table has no rows"
    raise InputError(f"config {config!r}: there are no items to fit: {why}")


def sample(
    counts: pa.Table, prior: Prior, engine: EngineSettings, seed: int, config: str, prior_only: bool = False
) -> Sampled:
    """Sample the posterior (or the prior) for one count table. The seed of the fit depends on `seed` and `config`.

    Raises InputError for an impossible prior or engine setting, or when no item informs the fit.
    """
    prior.validate()
    if not prior_only:
        item_count(counts, config)
    data = stan_data(counts, prior, prior_only)
    drawn = sample_program(program_path(), data, seed_for(seed, "fit", config), engine)
    return Sampled(_draws_table(drawn, quantity_columns(counts), config), drawn.seconds)


def draws_array(draws: pa.Table, quantities: list[str]) -> np.ndarray:
    """(chains, draws, quantities) from a table of draws, whatever the order of its rows."""
    draws = draws.sort_by([("chain", "ascending"), ("draw", "ascending")])
    chains = len(pc.unique(draws.column("chain")))
    columns = [draws.column(name).to_numpy().reshape(chains, -1) for name in quantities]
    return np.stack(columns, axis=2)


def quantities_of(draws: pa.Table) -> list[str]:
    """The quantities in a table of draws."""
    head = set(posterior_schema([]).names)
    return [name for name in draws.schema.names if name not in head]


def _draws_table(drawn: Draws, columns: dict[str, str], config: str) -> pa.Table:
    chains, draws = drawn.lp.shape
    position = {name: index for index, name in enumerate(drawn.names)}
    values = [drawn.values[:, :, position[column]].reshape(-1) for column in columns.values()]
    schema = posterior_schema(list(columns))
    arrays = [
        pa.repeat(pa.scalar(config, pa.string()), chains * draws),
        np.repeat(np.arange(chains), draws),
        np.tile(np.arange(draws), chains),
        *(part.reshape(-1) for part in (drawn.lp, drawn.divergent, drawn.treedepth, drawn.energy)),
        *values,
    ]
    cast = [pa.array(array).cast(field.type) for array, field in zip(arrays, schema, strict=True)]
    return pa.Table.from_arrays(cast, schema=schema)
