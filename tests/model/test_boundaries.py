"""At the edges: nothing, one thing only, always the same, very many, very rare. Finite or null, never NaN, no crash."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rat_ray.errors import InputError
from rat_ray.model import EngineSettings, Fit, Prior, fit, patterns
from tests.model.tables import Row, row_of, simulate, table

QUICK = EngineSettings(samples=500)
BASE: Sequence[Row] = [(1, 0, 1), (0, 1, None), (1, 0, 0), (0, 0, 1), (1, 1, None), (0, 0, 0)]
MODELS = pytest.mark.parametrize("model", ["panel", "independent"])


def _check(result: Fit, status: tuple[str, ...] = ("ok",)) -> None:
    """Numbers are finite or null in every table; what has a mean has all of its estimates, within [0, 1]."""
    assert result.status.status in status, result.status.reason
    for name in ("draws", "summary", "checks"):
        part = getattr(result, name)
        for column in part.column_names:
            if pa.types.is_floating(part[column].type):
                values = part[column].drop_null().to_numpy()
                assert np.isfinite(values).all(), f"{name}.{column}"
    for row in result.summary.to_pylist():
        for column in ("sd", "q2.5", "q5", "q50", "q95", "q97.5"):
            assert (row[column] is None) == (row["mean"] is None), f"{row['quantity']}: {column}"
        if row["mean"] is not None:
            low = -1.0 if row["quantity"].startswith("cor[") else 0.0
            assert low <= row["q2.5"] <= row["q50"] <= row["q97.5"] <= 1.0, row["quantity"]
        assert math.isfinite(row["prior_sd"]), row["quantity"]
    for name in ("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]", "p_g", "p_t", "p_a"):
        assert row_of(result, name)["mean"] is not None


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        pytest.param([(1, 0, 1)], "ok", id="one item"),
        pytest.param([(1, 1, None)], "ok", id="one abstention"),
        pytest.param([(1, 0, 1), (1, 0, 0), (1, 1, None)] * 20, "ok", id="all R=1"),
        pytest.param([(0, 0, 1), (0, 0, 0), (0, 1, None)] * 20, "ok", id="all R=0"),
        pytest.param([(0, 1, None), (1, 1, None)] * 20, "ok", id="every item abstained"),
        pytest.param([(0, 0, 1), (1, 0, 0)] * 20, "ok", id="no abstention"),
        pytest.param([(1, 0, 1)] * 500, "ok", id="always right"),
        pytest.param([(None, 1, None)] * 50, "ok", id="every item abstained, nothing labelled"),
        pytest.param([(None, None, None)] * 5, "warn", id="nothing labelled"),
    ],
)
def test_plain_tables(rows: Sequence[Row], status: str) -> None:
    result = fit(table(rows), engine=EngineSettings(samples=1500))
    _check(result, (status,))
    assert result.summary["mean"].null_count == sum(
        row_of(result, f"finite[{name}]")["mean"] is None for name in ("rho", "p_t", "p_a", "p_g", "lucky")
    )


def test_all_r_is_one() -> None:
    result = fit(table([(1, 0, 1), (1, 0, 0), (1, 1, None)] * 20))
    rho, tau0 = row_of(result, "rho"), row_of(result, "tau[0]")
    assert abs(rho["mean"] - 61 / 62) < 4 * rho["mcse"]
    assert rho["q97.5"] < 1
    assert (tau0["identified"], rho["identified"]) == ("prior only", "identified")
    assert abs(tau0["mean"] - 0.5) < 4 * tau0["mcse"]
    assert row_of(result, "finite[rho]")["mean"] == 1.0


def test_zero_items_are_an_error_in_words() -> None:
    with pytest.raises(InputError, match="no items to fit: the table has no rows"):
        fit(table([]))
    with pytest.raises(InputError, match="no items to fit: the table has no rows"):
        fit(table([], ("t@x",)))
    with pytest.raises(InputError, match="no items to fit: the table has no rows"):
        fit(patterns(table([]), []))
    failed = table([(None, None, None)] * 3).append_column("error", pa.array(["out of memory"] * 3))
    with pytest.raises(InputError, match="no items to fit: all 3 rows failed"):
        fit(failed)
    calibration = table([(1, 0, 1, 1)] * 3, ("t@x",)).append_column("use", pa.array(["calibration"] * 3))
    with pytest.raises(InputError, match="no items to fit: all rows are calibration rows"):
        fit(calibration)


def test_patterns_that_no_item_has_count_for_nothing() -> None:
    counts = patterns(table(BASE), [])
    place = counts.schema.get_field_index("n")
    zeros = counts.set_column(place, counts.schema.field("n"), pa.array([3, 0, 2, 0, 1, 0]))
    zeros = zeros.set_column(zeros.schema.get_field_index("stands_for"), "stands_for", pa.array([3.0, 0, 2, 0, 1, 0]))
    result = fit(zeros, engine=QUICK)
    _check(result, ("ok", "warn"))
    assert result.items == 6
    nothing = counts.set_column(place, counts.schema.field("n"), pa.array([0] * 6))
    with pytest.raises(InputError, match="no items to fit"):
        fit(nothing, engine=QUICK)


def _judged(rows: Sequence[Row], verdicts: Sequence[tuple[int | None, ...]], many: int = 30) -> list[Row]:
    """Every row with every tuple of verdicts; verdicts on T of an abstention are set aside."""
    return [(*row, *said) for row in rows for said in verdicts] * many


@MODELS
def test_a_judge_that_always_says_yes(model: str) -> None:
    rows = _judged([*BASE, (None, 0, None)], [(1,)])
    result = fit(table(rows, ("r@yes",)), engine=QUICK, judge_model=model)
    _check(result, ("ok", "warn"))
    for name in ("tpr[r@yes]", "fpr[r@yes]"):
        row = row_of(result, name)
        assert row["mean"] > 0.9
        assert row["identified"] == "identified"


@MODELS
def test_two_judges_that_are_one(model: str) -> None:
    rows = _judged([*BASE, (None, 0, None), (None, 1, None)], [(1, 1), (0, 0)], many=10)
    result = fit(table(rows, ("r@x", "r@same")), engine=EngineSettings(), judge_model=model)
    _check(result, ("ok", "warn"))
    if model == "panel":
        assert row_of(result, "cor[r@x,r@same]")["mean"] > 0.9


def test_two_panel_judges_that_always_say_the_same_one_thing() -> None:
    rows = _judged([*BASE, (None, 0, None), (None, 1, None)], [(1, 1)])
    result = fit(table(rows, ("r@x", "t@y")), engine=QUICK)
    _check(result, ("ok", "warn"))
    assert abs(row_of(result, "cor[r@x,t@y]")["mean"]) < 1


@MODELS
def test_judges_that_said_nothing(model: str) -> None:
    rows = _judged(BASE, [(None, None, None)])
    result = fit(table(rows, ("r@x", "a@y", "t@z")), engine=EngineSettings(), judge_model=model)
    _check(result)
    for name in ("tpr[r@x]", "fpr[a@y]", "tpr[t@z]", *(["cor[r@x,a@y]"] if model == "panel" else [])):
        assert row_of(result, name)["identified"] == "prior only", name
    assert row_of(result, "p_g")["identified"] == "identified"


@MODELS
def test_a_judge_of_t_where_every_item_is_abstained(model: str) -> None:
    rows: Sequence[Row] = [(0, 1, None, 1), (1, 1, None, 0), (None, 1, None, 1)] * 20
    result = fit(table(rows, ("t@x",)), engine=EngineSettings(), judge_model=model)
    _check(result)
    assert row_of(result, "tpr[t@x]")["identified"] == "prior only"
    assert row_of(result, "p_a")["mean"] > 0.95
    assert row_of(result, "finite[p_t]")["mean"] == 0.0


@MODELS
def test_verdicts_and_nothing_else(model: str) -> None:
    rows: Sequence[Row] = [(None, None, None, v, w) for v in (0, 1) for w in (0, 1)] * 25
    result = fit(table(rows, ("r@x", "t@y")), engine=EngineSettings(), judge_model=model)
    _check(result, ("ok", "warn"))
    assert row_of(result, "p_g")["identified"] != "identified"


def _with_counts(rows: Sequence[Row], n: Sequence[int], judges: tuple[str, ...] = ()) -> pa.Table:
    """One pattern per row, in the order of the rows."""
    parts = [patterns(table([row], judges), list(judges)) for row in rows]
    counts = pa.concat_tables(parts)
    counts = counts.set_column(counts.schema.get_field_index("n"), counts.schema.field("n"), pa.array(n, pa.int64()))
    place = counts.schema.get_field_index("stands_for")
    return counts.set_column(place, counts.schema.field("stands_for"), pa.array(n, pa.float64()))


@pytest.mark.parametrize("most", [10**7, 3 * 10**9])
def test_very_many_items(most: int) -> None:
    n = [most, most // 3, 10**6, 10, 1, most // 2]
    result = fit(_with_counts(BASE, n))
    _check(result)
    assert result.items == sum(n)
    p_g = row_of(result, "p_g")
    assert p_g["mean"] == pytest.approx((n[0] + n[1]) / sum(n), rel=1e-3)
    finite = "finite[p_g]" in result.summary["quantity"].to_pylist()
    assert finite == (most < 2**31)  # beyond, counts do not fit Stan's integers
    assert (result.checks.num_rows > 0) == finite


@MODELS
def test_very_many_items_with_judges(model: str) -> None:
    rows: list[Row] = [
        (*row, v, w) for row in [*BASE, (None, 0, None), (None, 1, None)] for v in (0, 1) for w in (0, 1)
    ]
    rows = [row if row[1] == 0 else (*row[:4], None) for row in rows]
    rng = np.random.default_rng(1)
    n = rng.integers(1, 10**7, len(rows)).tolist()
    result = fit(_with_counts(rows, n, ("r@x", "t@y")), judge_model=model, engine=QUICK)
    _check(result, ("ok", "warn"))
    assert row_of(result, "p_g")["sd"] < 0.01


def test_one_in_a_million() -> None:
    """Of a thousand million items three in a million are abstentions; a million right answers at R = 0 or so."""
    n = {(1, 0, 1): 10**9, (0, 0, 0): 1000, (0, 1, None): 1, (1, 1, None): 1000, (1, 0, 0): 900}
    result = fit(_with_counts(list(n), list(n.values())))
    _check(result)
    for name, (ones, zeros) in {
        "rho": (10**9 + 1900, 1001),
        "alpha[1]": (1000, 10**9 + 900),
        "tau[0]": (0, 1000),
        "tau[1]": (10**9, 900),
    }.items():
        row = row_of(result, name)
        a, b = ones + 1, zeros + 1
        exact = a / (a + b)
        assert abs(row["mean"] - exact) < 4 * row["mcse"] + 1e-12, name
        assert row["sd"] == pytest.approx(math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1))), rel=0.1), name
    assert 0 < row_of(result, "p_a")["q2.5"] < 2e-6


@MODELS
def test_a_judge_of_something_rare(model: str) -> None:
    """One abstention in a million, found by a judge of A with few errors; labels on some of each verdict."""
    n = {
        (None, 0, None, 0): 10**6,
        (None, 0, None, 1): 30,
        (None, 1, None, 1): 1,
        (1, 0, 1, 0): 200,
        (0, 0, 0, 0): 100,
        (None, None, None, 0): 10**6,
        (None, None, None, 1): 40,
    }
    result = fit(_with_counts(list(n), list(n.values()), ("a@x",)), judge_model=model, engine=QUICK)
    _check(result, ("ok", "warn"))
    assert row_of(result, "p_a")["mean"] < 1e-4


def test_a_stratum_with_calibration_rows_only() -> None:
    rows: list[Row] = _judged([*BASE, (None, 0, None), (None, 1, None)], [(1,), (0,)], many=10)
    labels = table(rows, ("r@x",))
    half = len(rows) // 2
    labels = labels.append_column("stratum", pa.array(["asked"] * half + ["other"] * (len(rows) - half)))
    labels = labels.append_column("use", pa.array([None] * half + ["calibration"] * (len(rows) - half)))
    for model in ("panel", "independent"):
        result = fit(labels, engine=QUICK, judge_model=model)
        _check(result, ("ok", "warn"))
        assert result.items == half
        assert f"{len(rows) - half} rows inform the judges' rates only" in result.notes
        plain = fit(labels.slice(0, half).drop_columns(["stratum", "use"]), engine=QUICK, judge_model=model)
        one, other = row_of(result, "p_a"), row_of(plain, "p_a")
        assert abs(one["mean"] - other["mean"]) < 4 * math.hypot(one["mcse"], other["mcse"])


def test_no_item_of_a_kind_has_no_share() -> None:
    """A share of nothing is null, not NaN."""
    result = fit(table([(1, 1, None)] * 10), engine=QUICK)
    for row in result.summary.to_pylist():
        assert row["mean"] is None or math.isfinite(row["mean"]), row["quantity"]
    assert not any(
        pc.any(pc.is_nan(result.draws[name])).as_py()
        for name in result.draws.column_names
        if pa.types.is_floating(result.draws[name].type)
    )


def _any_table(seed: int) -> tuple[pa.Table, str, Prior]:
    """Few items, rates of 0 and 1, columns without labels, up to four judges, strata, calibration and failed rows."""
    rng = np.random.default_rng(seed)
    items = int(rng.choice([1, 2, 5, 20, 60]))
    judges = tuple(f"{variable}@{i}" for i, variable in enumerate(rng.choice(list("rat"), rng.integers(0, 5))))
    missing = rng.choice([0, 0.3, 0.7, 1.0], 3 + len(judges))
    rho, alpha0, alpha1, tau0, tau1 = rng.choice([0, 0.1, 0.5, 0.9, 1], 5).tolist()
    rows: list[Row] = []
    for state in simulate(items, seed, rho, (alpha0, alpha1), (tau0, tau1)).tolist():
        truth = dict(zip("rat", state, strict=True))
        said = [int(rng.random() < (0.9 if truth[judge[0]] == 1 else 0.2)) for judge in judges]
        labels = [truth["r"], truth["a"], truth["t"] if truth["t"] >= 0 else None, *said]
        row = [None if rng.random() < share else label for label, share in zip(labels, missing, strict=True)]
        rows.append((row[0], 0 if row[2] is not None else row[1], *row[2:]))
    labels_ = table(rows, judges)
    if rng.random() < 0.6:
        kind, values = ("stratum", ["a", "b"]) if rng.random() < 0.5 else ("inclusion", [0.1, 1.0])
        labels_ = labels_.append_column(kind, pa.array(rng.choice(values, items).tolist()))
    use = ["fit", *rng.choice(["fit", "calibration"], items - 1).tolist()]
    labels_ = labels_.append_column("use", pa.array(use))
    errors = [None, *(None if chance < 0.9 else "x" for chance in rng.random(items - 1))]
    labels_ = labels_.append_column("error", pa.array(errors, pa.string()))
    narrow = (0.05, 0.05)  # at (0.01, 0.01) P(R=0) may be too small for a double: a share of it is null then
    prior = Prior() if rng.random() < 0.7 else Prior(narrow, narrow, narrow, narrow, narrow)
    return labels_, ("panel", "independent")[int(rng.integers(2))], prior


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.slow
def test_any_table_gives_finite_tables(seed: int) -> None:
    labels, model, prior = _any_table(seed)
    tiny = EngineSettings(chains=2, warmup=60, samples=60)
    _check(fit(labels, engine=tiny, judge_model=model, prior=prior), ("ok", "warn", "fail"))
