"""Reference posteriors kept as data, one folder per case `<data>-<model>`: the count table, the settings, the numbers.

In the spirit of posteriordb (Magnusson et al. 2024): long runs, with the Monte Carlo error of each number.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.model import EngineSettings, Policy, Prior, patterns
from rat_ray.model.design import Options
from rat_ray.model.diagnostics import array_stats, varies
from rat_ray.model.posterior import draws_array, quantities_of, sample
from rat_ray.tables import patterns_schema
from tests.model.tables import Row, simulate, table

FOLDER = Path(__file__).resolve().parent
PROBABILITIES = {"q2.5": 0.025, "q50": 0.5, "q97.5": 0.975}
STATISTICS = ("mean", "sd", *PROBABILITIES)


class Case(NamedTuple):
    """name: of the folder; counts: the data; prior and options: the model."""

    name: str
    counts: pa.Table
    prior: Prior
    options: Options


def read_case(name: str) -> Case:
    """The data and the model of a folder."""
    folder = FOLDER / name
    model = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    betas: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in model["prior"].items()}
    options = Options(model["judge_model"], Policy(**model["policy"]))
    return Case(name, _read_counts(folder / "data.csv"), Prior(**betas), options)


def read_reference(name: str) -> dict[str, dict[str, float]]:
    """By quantity: mean, sd, quantiles, and `mcse_...` of each."""
    found: dict[str, dict[str, float]] = json.loads((FOLDER / name / "reference.json").read_text(encoding="utf-8"))[
        "quantities"
    ]
    return found


def write_case(case: Case) -> None:
    """The data and the model."""
    folder = FOLDER / case.name
    folder.mkdir(exist_ok=True)
    with (folder / "data.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(case.counts.column_names)
        writer.writerows([["" if v is None else v for v in row.values()] for row in case.counts.to_pylist()])
    model = {
        "judge_model": case.options.judge_model,
        "prior": asdict(case.prior),
        "policy": asdict(case.options.policy),
    }
    _write_json(folder / "model.json", model)


def write_reference(name: str, how: dict[str, Any], numbers: dict[str, dict[str, float]]) -> None:
    """The numbers; how: what made them."""
    _write_json(FOLDER / name / "reference.json", {"how": how, "quantities": numbers})


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _read_counts(path: Path) -> pa.Table:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = list(rows[0])
    schema = patterns_schema([name for name in names if "@" in name])
    columns = [pa.array([row[f.name] or None for row in rows], pa.string()).cast(f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def numbers_of(case: Case, engine: EngineSettings, seed: int) -> dict[str, dict[str, float]]:
    """Sample a case: every quantity's mean, sd and quantiles with their Monte Carlo errors, 0 where it is constant."""
    sampled = sample(case.counts, case.prior, engine, seed, case.name, case.options)
    if sampled.failure:
        raise RuntimeError(f"{case.name}: {sampled.failure}")
    names = quantities_of(sampled.draws)
    values = draws_array(sampled.draws, names)
    moving = varies(values)
    return {name: _statistics(values[:, :, i], bool(moving[i])) for i, name in enumerate(names)}


def _statistics(values: np.ndarray, moving: bool) -> dict[str, float]:
    found = {"mean": values.mean(), "sd": values.std(ddof=1) if moving else 0.0}
    found |= {name: np.quantile(values, share) for name, share in PROBABILITIES.items()}
    errors = dict.fromkeys(STATISTICS, 0.0)
    if moving:
        mcse = array_stats().mcse
        # ArviZ's error of an sd is that of a normal distribution: too small by up to half for skewed ones.
        squares = (values - values.mean()) ** 2
        errors = {"mean": mcse(values, method="mean"), "sd": mcse(squares, method="mean") / (2 * found["sd"])}
        errors |= {name: mcse(values, method="quantile", prob=share) for name, share in PROBABILITIES.items()}
    found |= {f"mcse_{name}": errors[name] for name in STATISTICS}
    return {name: float(f"{float(value):.7g}") for name, value in found.items()}


def make_cases() -> list[Case]:
    """Every case, from fixed seeds."""
    judges = ("t@x", "r@y")
    judged = patterns(table(_judged_rows(), judges), list(judges))
    fever: Sequence[Row] = [
        *[(1, 0, 1)] * 169,
        *[(1, 0, 0)] * 23,
        *[(1, 1, None)] * 24,
        *[(0, 0, 1)] * 48,
        *[(0, 0, 0)] * 19,
        *[(0, 1, None)] * 38,
    ]
    states = Prior(rho=(3.0, 3.0), alpha0=(1.0, 2.0), alpha1=(1.0, 2.0))
    careful = Policy("careful", 0.5, -2.0, 0.25, 0.0, -1.0, 1.0)
    return [
        Case("complete-plain", patterns(table(fever), []), Prior(), Options()),
        Case("missing-plain", patterns(table(_missing_rows()), []), states, Options(policy=careful)),
        Case("two_judges-panel", judged, Prior(), Options("panel")),
        Case("two_judges-independent", judged, Prior(), Options("independent")),
        Case("strata-panel", _strata_counts(), Prior(), Options("panel")),
    ]


def _missing_rows() -> list[Row]:
    """Each label missing with probability .4 on 120 items."""
    rng = np.random.default_rng(11)
    rows: list[Row] = []
    for r, a, t in simulate(120, 11, 0.6, (0.5, 0.2), (0.3, 0.8)).tolist():
        shown = [value if value >= 0 and rng.random() > 0.4 else None for value in (r, a, t)]
        rows.append((shown[0], 0 if shown[2] is not None else shown[1], shown[2]))
    return rows


def _judged_rows() -> list[Row]:
    """400 items, 80 labelled; a judge of T and one of R whose errors go together; some verdicts and some a missing."""
    rng = np.random.default_rng(12)
    rows: list[Row] = []
    for index, (r, a, t) in enumerate(simulate(400, 12, 0.6, (0.5, 0.15), (0.2, 0.75)).tolist()):
        wrong = rng.random() < 0.15
        says_t = int((t == 1) != (wrong or rng.random() < 0.1))
        says_r = int((r == 1) != (wrong or rng.random() < 0.1))
        known, shown = index < 80, rng.random(3) < [0.9, 0.8, 0.95]
        rows.append(
            (
                r if known else None,
                a if known or shown[2] else None,
                t if known and a == 0 else None,
                says_t if shown[0] and not (a == 1 and (known or shown[2])) else None,
                says_r if shown[1] else None,
            )
        )
    return rows


def _strata_counts() -> pa.Table:
    """Two strata labelled unequally, a judge of R, and rows that calibrate it."""
    rng = np.random.default_rng(13)
    rows: list[Row] = []
    strata, use = [], []
    for name, items, chance, truth in (
        ("easy", 300, 0.1, (0.8, (0.4, 0.1), (0.2, 0.9))),
        ("hard", 200, 0.4, (0.4, (0.6, 0.1), (0.2, 0.5))),
    ):
        for r, a, t in simulate(items, items, *truth).tolist():
            known = rng.random() < chance
            said = int((r == 1) != (rng.random() < 0.15))
            rows.append((r if known else None, a, t if known and a == 0 else None, said))
            strata.append(name)
            use.append("calibration" if known and rng.random() < 0.2 else "fit")
    labels = table(rows, ("r@x",))
    labels = labels.append_column("stratum", pa.array(strata)).append_column("use", pa.array(use))
    return patterns(labels, ["r@x"])
