"""What a label tells of G by a formula, and whether formulas predict which strategy a study finds best.

The bits are of one item's G when the parameters are known: I(G; R | A) and so on. A study asks for something else, how
far labels of many items settle the share of G = 1; `prediction` lays the two side by side, and beside them the error to
expect by the Fisher information.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate.behaviour import Behaviour, behaviours, seen
from rat_ray.allocate.costs import Costs
from rat_ray.allocate.expected import Plan, expected_sd, states_of
from rat_ray.allocate.grid import Means, grids, pooled_means, resampled
from rat_ray.allocate.population import code_of, counts_of, read_population
from rat_ray.allocate.settings import NONE
from rat_ray.allocate.summary import pooled_name, reference_of
from rat_ray.model.diagnostics import FAIL, OK
from rat_ray.model.estimate import Estimator
from rat_ray.model.patterns import Code
from rat_ray.model.states import ABSTAINED, BITS, FOLLOWS, RATIOS, information
from rat_ray.seeds import seed_for
from rat_ray.tables import ALLOCATION

RESOLVED = ("resolved[r]", "resolved[t]")

# info[...]: bits, on average over all items; resolved[...]: shares of items whose G the label decides. items: in the
# table; labels_r, labels_t: trusted labels that the fit had.
INFORMATION = pa.schema(
    [
        pa.field("config", pa.string(), nullable=False),
        pa.field("quantity", pa.string(), nullable=False),
        *(pa.field(name, pa.float64()) for name in ("mean", "sd", "q2.5", "q97.5")),
        *(pa.field(name, pa.int64()) for name in ("items", "labels_r", "labels_t")),
        pa.field("status", pa.string(), nullable=False),
    ]
)

# bits_per_item: of the G of one item, on average over all items; bits_per_cost: per unit of cost, if the strategy goes
# on and on; predicted_best: the posterior probability that no other strategy has more. expected_sd: by `expected`; it,
# rmse and width are geometric means over the budgets above 0. *_ratio: to those of `against`, in the same replicates;
# best_*: in which share of the replicates drawn anew the strategy had the least. *_low, *_high: 95 %. These are null
# where there is one replicate.
PREDICTION = pa.schema(
    [
        ALLOCATION.field("config"),
        ALLOCATION.field("strategy"),
        ALLOCATION.field("quantity"),
        *(pa.field(f"bits_per_item{end}", pa.float64()) for end in ("", "_low", "_high")),
        *(pa.field(f"bits_per_cost{end}", pa.float64()) for end in ("", "_low", "_high")),
        pa.field("predicted_best", pa.float64()),
        pa.field("expected_sd", pa.float64()),
        pa.field("against", pa.string(), nullable=False),
        *(pa.field(f"rmse{end}", pa.float64()) for end in ("", "_ratio", "_ratio_low", "_ratio_high")),
        pa.field("best_rmse", pa.float64()),
        *(pa.field(f"width{end}", pa.float64()) for end in ("", "_ratio", "_ratio_low", "_ratio_high")),
        pa.field("best_width", pa.float64()),
    ]
)


class Told(NamedTuple):
    """One configuration's fit on all of its trusted labels. table: INFORMATION; theta: (6, draws) shares of the states.

    theta is None where the fit failed.
    """

    table: pa.Table
    theta: np.ndarray | None


def labelled(annotations: pa.Table, trusted: Mapping[str, Sequence[str]]) -> Code:
    """The patterns of the trusted labels where A is known and nothing failed. trusted: as for a study."""
    found = read_population(annotations, trusted).population
    return code_of(counts_of(found.r, found.a, found.t))


def told(config: str, code: Code, estimator: Estimator, seed: int) -> Told:
    """Bits and resolved shares of a configuration, from the posterior given all trusted labels in `code`.

    estimator: of the quantities `states.PARAMETERS`, without judges.
    """
    r, _, t = ((code.labels[:, variable] < 2) @ code.n for variable in range(3))
    shared = {"config": config, "items": int(code.n.sum()), "labels_r": int(r), "labels_t": int(t)}
    try:
        draws = estimator.draws(code, seed_for(seed, "information", config))
    except RuntimeError:
        rows = [{**shared, "quantity": name, "status": FAIL} for name in (*BITS, *RESOLVED)]
        return Told(pa.Table.from_pylist(rows, schema=INFORMATION), None)
    theta = states_of(draws.T)
    rows = [{**shared, "quantity": name, "status": OK, **_described(one)} for name, one in _values(theta).items()]
    return Told(pa.Table.from_pylist(rows, schema=INFORMATION), theta)


def told_of_truth(config: str, parameters: Sequence[float]) -> Told:
    """The same where the truth is known: values without an interval. parameters: of `states.PARAMETERS`."""
    theta = states_of(np.array(parameters, dtype=float)[:, None])
    shared = {"config": config, "status": OK}
    rows = [{**shared, "quantity": name, "mean": float(values[0])} for name, values in _values(theta).items()]
    return Told(pa.Table.from_pylist(rows, schema=INFORMATION), theta)


def _values(theta: np.ndarray) -> dict[str, np.ndarray]:
    shares = {name: theta[RATIOS[name][0]].sum(axis=0) for name in RESOLVED}
    return {**dict(zip(BITS, information(theta), strict=True)), **shares}


class Worth(NamedTuple):
    """(draws,) bits of G per item that a strategy comes by, and what it pays for them."""

    bits: np.ndarray
    cost: np.ndarray

    @property
    def per_cost(self) -> np.ndarray:
        """Bits per unit of cost; 0 where nothing is bought."""
        return np.asarray(np.divide(self.bits, self.cost, out=np.zeros_like(self.bits), where=self.cost > 0))


def worth(theta: np.ndarray, strategy: str, costs: Costs) -> Worth:
    """What a strategy's labels tell of G beyond A, I(G; labels | A), and cost, both on average over all items.

    theta: (6, draws). R costs `r` of every item. T exists at answers only and is paid for there only: a label of T
    tells I(G; T | A) / P(A = 0) bits for `t`; over all items both are P(A = 0) times that, and the share cancels in
    `per_cost`. What a strategy pays for is read off what it does in each of the six states.
    """
    bits, cost = np.zeros(theta.shape[1]), np.zeros(theta.shape[1])
    for one in behaviours(strategy):
        bits += one.share * _bits(theta, one)
        cost += one.share * one.cost(theta, costs)
    return Worth(bits, cost)


def _bits(theta: np.ndarray, behaviour: Behaviour) -> np.ndarray:
    """(draws,) I(G; what is seen | A)."""
    before = sum(_uncertain(theta, np.flatnonzero(part)) for part in (ABSTAINED, ~ABSTAINED))
    return np.asarray(before - sum(_uncertain(theta, states) for states in seen(behaviour)))


def _uncertain(theta: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(draws,) P(states) times the entropy of G among them, in bits."""
    yes, total = theta[states[FOLLOWS[states]]].sum(axis=0), theta[states].sum(axis=0)
    return np.asarray((_xlogx(total) - _xlogx(yes) - _xlogx(np.maximum(total - yes, 0.0))) / np.log(2))


def _xlogx(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.log(np.where(x > 0, x, 1.0)))


def prediction(
    allocation: pa.Table, thetas: Mapping[str, np.ndarray | None], quantity: str = "p_g", against: str = ""
) -> pa.Table:
    """Rows (schema PREDICTION) per configuration and strategy: what formulas say, and what the study found.

    thetas: per configuration (6, draws), or None where the fit failed. Then rows over all configurations, with the
    study's part only.
    """
    against = against or reference_of(allocation)
    rows: list[dict[str, object]] = []
    found = grids(allocation, quantity)
    means = {config: resampled(config, grid) for config, grid in found.items()}
    pooled = pooled_name(list(means))
    for config, one in means.items():
        grid = found[config]
        mine: list[dict[str, object]] = [{"config": config, "strategy": name} for name in grid.strategies]
        theta, plan = thetas.get(config), _plan_of(allocation, config)
        if theta is not None and plan is not None:
            _add_formulas(mine, theta, grid.budgets, plan, quantity)
        _add_studied(mine, _studied(one, grid.budgets), against)
        rows += mine
    if pooled is not None:
        grid = next(iter(found.values()))
        mine = [{"config": pooled, "strategy": name} for name in grid.strategies]
        _add_studied(mine, _studied(pooled_means(means), grid.budgets), against)
        rows += mine
    return pa.Table.from_pylist([{"quantity": quantity, "against": against, **row} for row in rows], schema=PREDICTION)


def _plan_of(allocation: pa.Table, config: str) -> Plan | None:
    # Fits that were lost with their process do not say how many items they had.
    known = pc.and_(pc.equal(allocation.column("config"), config), pc.is_valid(allocation.column("items")))
    row = next(iter(allocation.filter(known).slice(0, 1).to_pylist()), None)
    if row is None:
        return None
    finite = row["resampling"] == NONE
    return Plan(row["base"], row["items"], Costs(row["cost_r"], row["cost_t"]), finite)


class _Studied(NamedTuple):
    """(resamples, strategies): geometric means over the budgets above 0, NaN where one of them has no value."""

    rmse: np.ndarray
    width: np.ndarray


def _studied(means: Means, budgets: Sequence[float]) -> _Studied:
    above = np.array(budgets) > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        rmse = np.exp(np.log(means.square[:, :, above]).mean(axis=2) / 2)
        width = np.exp(np.log(means.width[:, :, above]).mean(axis=2))
    return _Studied(rmse, width)


def _add_formulas(
    rows: list[dict[str, object]], theta: np.ndarray, budgets: Sequence[float], plan: Plan, quantity: str
) -> None:
    """The bits and the expected error of each row's strategy."""
    found = [worth(theta, str(row["strategy"]), plan.costs) for row in rows]
    best = _shares(np.argmax([one.per_cost for one in found], axis=0), len(rows))
    above = [budget for budget in budgets if budget > 0]
    for index, (row, one) in enumerate(zip(rows, found, strict=True)):
        row["predicted_best"] = float(best[index])
        for name, values in (("bits_per_item", one.bits), ("bits_per_cost", one.per_cost)):
            low, high = np.quantile(values, [0.025, 0.975])
            row |= {name: float(values.mean()), f"{name}_low": float(low), f"{name}_high": float(high)}
        sd = expected_sd(theta.mean(axis=1), str(row["strategy"]), above, plan, quantity)
        if len(sd) and (sd > 0).all():
            row["expected_sd"] = float(np.exp(np.log(sd).mean()))


def _add_studied(rows: list[dict[str, object]], studied: _Studied, against: str) -> None:
    """What the study found of each row's strategy, where every strategy has a value at every budget."""
    strategies = [row["strategy"] for row in rows]
    for name, values in studied._asdict().items():
        if np.isnan(values[0]).any():
            continue
        reference = strategies.index(against) if against in strategies else None
        for index, row in enumerate(rows):
            row[name] = float(values[0, index])
            if reference is not None:
                row[f"{name}_ratio"] = float(values[0, index] / values[0, reference])
        again = values[1:][~np.isnan(values[1:]).any(axis=1)]
        if not len(again):  # one replicate
            continue
        best = _shares(np.argmin(again, axis=1), len(rows))
        for index, row in enumerate(rows):
            row[f"best_{name}"] = float(best[index])
            if reference is not None:
                low, high = np.quantile(again[:, index] / again[:, reference], [0.025, 0.975])
                row |= {f"{name}_ratio_low": float(low), f"{name}_ratio_high": float(high)}


def _shares(winners: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(winners, minlength=count) / max(len(winners), 1)


def _described(values: np.ndarray) -> dict[str, float]:
    low, high = np.quantile(values, [0.025, 0.975])
    return {"mean": float(values.mean()), "sd": float(values.std(ddof=1)), "q2.5": float(low), "q97.5": float(high)}
