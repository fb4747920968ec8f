"""Prediction-powered estimates: unbiased whatever the judges, with intervals that cover, narrower with good judges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from rat_ray.model.ppi import Ppi, Quantity, disagrees, prediction_powered

RHO, ALPHA, TAU = 0.6, (0.5, 0.15), (0.2, 0.8)
TRUTH: dict[Quantity, float] = {
    "p_g": (1 - RHO) * ALPHA[0] + RHO * (1 - ALPHA[1]) * TAU[1],
    "p_t": (1 - RHO) * (1 - ALPHA[0]) * TAU[0] + RHO * (1 - ALPHA[1]) * TAU[1],
}
Column = list[int | None]


def _counts(columns: dict[str, Column], **others: list[str] | list[float]) -> pa.Table:
    """A count table of single items, their equals added up; others: stratum, use, stands_for."""
    rows = len(columns["a"])
    labels = {name: pa.array(column, type=pa.int8()) for name, column in columns.items()}
    table = pa.table({**labels, "use": ["fit"] * rows, "stands_for": [1.0] * rows})
    for name, column in others.items():
        index = table.schema.get_field_index(name)
        table = table.append_column(name, [column]) if index < 0 else table.set_column(index, name, [column])
    keys = [name for name in table.schema.names if name != "stands_for"]
    grouped = table.group_by(keys).aggregate([([], "count_all"), ("stands_for", "sum")])
    return grouped.rename_columns([*keys, "n", "stands_for"])


class World(NamedTuple):
    """A simulated set of items: (items,) each. t is 0 where a = 1. A judge's verdicts: see `_judge`."""

    r: np.ndarray
    a: np.ndarray
    t: np.ndarray
    rng: np.random.Generator

    def judge(self, variable: str, tpr: float, fpr: float) -> np.ndarray:
        truth = self.r if variable == "r" else self.t
        return self.rng.random(len(truth)) < np.where(truth == 1, tpr, fpr)

    def chosen(self, size: int, among: np.ndarray) -> np.ndarray:
        """(items,): a random choice of so many among these."""
        chosen = np.zeros(len(self.r), dtype=bool)
        chosen[self.rng.choice(np.flatnonzero(among), size, replace=False)] = True
        return chosen


def _world(seed: int, items: int = 2000) -> World:
    rng = np.random.default_rng(seed)
    r = (rng.random(items) < RHO).astype(int)
    a = (rng.random(items) < np.array(ALPHA)[r]).astype(int)
    t = (rng.random(items) < np.array(TAU)[r]).astype(int) * (1 - a)
    return World(r, a, t, rng)


def _hide(values: np.ndarray, shown: np.ndarray) -> Column:
    return [int(value) if seen else None for value, seen in zip(values, shown, strict=True)]


def _labelled_by_a(seed: int, judges: dict[str, tuple[float, float]]) -> pa.Table:
    """150 labelled items, a third of them abstentions (a quarter of all); further ones have only r or only t."""
    world = _world(seed)
    whole = world.chosen(50, world.a == 1) | world.chosen(100, world.a == 0)
    only_t = world.chosen(300, (world.a == 0) & ~whole)
    only_r = world.chosen(200, (world.a == 0) & ~whole & ~only_t)
    everywhere = np.full(len(whole), True)
    columns = {
        "r": _hide(world.r, whole | only_r),
        "a": _hide(world.a, everywhere),
        "t": _hide(world.t, (whole | only_t) & (world.a == 0)),
    }
    for name, rates in judges.items():
        shown = everywhere if name.startswith("r@") else world.a == 0
        columns[name] = _hide(world.judge(name[0], *rates), shown)
    return _counts(columns)


def _estimate(counts: pa.Table, quantity: Quantity = "p_g") -> Ppi:
    found = prediction_powered(counts, quantity)
    assert found is not None
    return found


BIASED = {"r@x": (0.95, 0.4), "t@x": (0.7, 0.3), "t@y": (0.98, 0.6)}
GOOD = {"r@x": (0.96, 0.05), "t@x": (0.95, 0.05)}


@pytest.fixture(scope="module")
def biased() -> list[pa.Table]:
    return [_labelled_by_a(seed, BIASED) for seed in range(400)]


@pytest.mark.parametrize("quantity", ["p_g", "p_t"])
def test_unbiased_and_covering_with_biased_judges_and_labels_that_depend_on_a(
    biased: list[pa.Table], quantity: Quantity
) -> None:
    found = [_estimate(counts, quantity) for counts in biased]
    error = np.array([one.mean for one in found]) - TRUTH[quantity]
    covered = np.mean([one.low <= TRUTH[quantity] <= one.high for one in found])
    assert abs(error.mean()) < 3 * error.std() / np.sqrt(len(found))
    assert error.std() == pytest.approx(np.mean([one.se for one in found]), rel=0.1)
    assert 0.95 - 3 * 0.0109 < covered < 0.95 + 3 * 0.0109
    assert 0 < np.mean([one.lam for one in found]) < 1


def test_narrower_than_the_labels_alone_with_a_good_judge() -> None:
    tables = [_labelled_by_a(seed, GOOD) for seed in range(20)]
    alone = [_estimate(counts.drop_columns(list(GOOD))).se for counts in tables]
    assert np.mean([_estimate(counts).se for counts in tables]) < 0.75 * np.mean(alone)


def test_without_judges_it_is_the_mean_of_the_labels_by_class() -> None:
    counts = _labelled_by_a(1, {})
    found = _estimate(counts)
    rows = [row for row in counts.to_pylist() for _ in range(row["n"])]
    expected, variance = 0.0, 0.0
    for a in (0, 1):
        of_class = [row for row in rows if row["a"] == a]
        known = [row for row in of_class if row["r"] is not None and (a == 1 or row["t"] is not None)]
        good = [float(row["r"] == 0 if a == 1 else row["r"] == 1 and row["t"] == 1) for row in known]
        expected += len(of_class) / len(rows) * np.mean(good)
        variance += (len(of_class) / len(rows)) ** 2 * np.var(good, ddof=1) / len(good)
    assert found.mean == pytest.approx(expected, rel=1e-12)
    assert found.se**2 > variance  # the shares of the classes are a sample's
    assert found.se == pytest.approx(np.sqrt(variance), rel=0.05)
    assert found[4:] == (150, 1850, 0.0)


@pytest.mark.parametrize("quantity", ["p_g", "p_t"])
def test_with_every_label_it_is_the_classical_mean(quantity: Quantity) -> None:
    world = _world(3, items=500)
    everywhere = np.full(500, True)
    columns = {
        "r": _hide(world.r, everywhere),
        "a": _hide(world.a, everywhere),
        "t": _hide(world.t, world.a == 0),
        "t@x": _hide(world.judge("t", 0.9, 0.2), world.a == 0),
    }
    good = np.where(world.r == 1, world.t, world.a) if quantity == "p_g" else world.t
    found = _estimate(_counts(columns), quantity)
    assert found.mean == pytest.approx(good.mean(), rel=1e-12)
    assert found.se == pytest.approx(good.std(ddof=1) / np.sqrt(500), rel=0.01)
    assert found.low == pytest.approx(found.mean - 1.96 * found.se, abs=1e-4)
    assert found.high == pytest.approx(found.mean + 1.96 * found.se, abs=1e-4)
    assert found[4:] == (500, 0, 0.0)


def test_one_class_is_the_papers_formula() -> None:
    rng = np.random.default_rng(2)
    t = (rng.random(1000) < 0.6).astype(int)
    verdict = (rng.random(1000) < np.where(t == 1, 0.9, 0.3)).astype(int)
    labelled = np.arange(1000) < 120
    columns = {"r": [None] * 1000, "a": [0] * 1000, "t": _hide(t, labelled), "t@x": verdict.tolist()}
    found = _estimate(_counts(columns), "p_t")
    y, f, g = t[labelled], verdict[labelled], verdict[~labelled]
    spread = verdict.var(ddof=1)  # of the unlabelled items' mean: by all items, as the paper has it
    lam = np.cov(y, f)[0, 1] / (f.var(ddof=1) + 120 / 880 * spread)
    assert found.lam == pytest.approx(lam)
    assert found.mean == pytest.approx(y.mean() - lam * (f.mean() - g.mean()))
    assert found.se**2 == pytest.approx((y - lam * f).var(ddof=1) / 120 + lam**2 * spread / 880)


def test_two_unlabelled_items_that_look_alike_move_hardly_anything() -> None:
    """They do not vary among themselves, which says nothing of how their mean varies."""
    t = np.array([1] * 20 + [0] * 12 + [1, 1])
    verdict = np.array([1] * 18 + [0] * 2 + [1] * 2 + [0] * 10 + [1, 1])
    columns = {"r": [None] * 34, "a": [0] * 34, "t": _hide(t, np.arange(34) < 32), "t@x": verdict.tolist()}
    found = _estimate(_counts(columns), "p_t")
    assert found.lam < 2 / 34 + 0.01
    assert found.mean == pytest.approx(20 / 32, abs=0.03)


@pytest.mark.parametrize("rest", [1, 2, 5])
def test_few_unlabelled_items_cost_neither_the_mean_nor_its_error(rest: int) -> None:
    errors, widths = [], []
    for seed in range(600):
        world = _world(seed, items=80)
        labelled = ~world.chosen(rest, world.a == 0)
        columns = {
            "r": [None] * 80,
            "a": _hide(world.a, np.full(80, True)),
            "t": _hide(world.t, labelled & (world.a == 0)),
            "t@x": _hide(world.judge("t", 0.95, 0.1), world.a == 0),
        }
        found = _estimate(_counts(columns), "p_t")
        errors.append(found.mean - TRUTH["p_t"])
        widths.append(found.se)
    assert abs(np.mean(errors)) < 3.5 * np.std(errors) / np.sqrt(600)
    assert np.std(errors) == pytest.approx(np.mean(widths), rel=0.12)


def test_a_judge_that_is_wrong_about_everything_is_not_listened_to() -> None:
    counts = _labelled_by_a(4, {"r@x": (0.05, 0.95), "t@x": (0.05, 0.95)})
    found, alone = _estimate(counts), _estimate(counts.drop_columns(["r@x", "t@x"]))
    # G of an answer is predicted from the product of the two wrong verdicts, so lambda is 0 there too.
    assert found.lam < 0.05
    assert found.mean == pytest.approx(alone.mean, abs=0.01)


@pytest.mark.parametrize("seen_by_judge", ["labelled", "unlabelled", "labelled and half"])
def test_a_judge_that_saw_some_items_only_does_no_harm(seen_by_judge: str) -> None:
    errors, widths = [], []
    for seed in range(200):
        world = _world(seed, items=1000)
        labelled = world.chosen(150, world.a == 0) | world.chosen(50, world.a == 1)
        shown = {
            "labelled": labelled,
            "unlabelled": ~labelled,
            "labelled and half": labelled | (world.rng.random(1000) < 0.5),
        }[seen_by_judge]
        answered = world.a == 0
        columns = {
            "r": _hide(world.r, labelled),
            "a": _hide(world.a, np.full(1000, True)),
            "t": _hide(world.t, labelled & answered),
            "t@x": _hide(world.judge("t", 0.95, 0.1), shown & answered),
        }
        found = _estimate(_counts(columns), "p_t")
        errors.append(found.mean - TRUTH["p_t"])
        widths.append(found.se)
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(200)
    assert np.std(errors) == pytest.approx(np.mean(widths), rel=0.15)


def test_only_labels_that_decide_whatever_their_values_count() -> None:
    columns: dict[str, Column] = {
        "r": [1, 1, 0, 0, 1, 0, None, 0, None, None],
        "a": [0, 0, 0, 0, 1, 1, 0, 0, 1, 0],
        "t": [1, 0, 1, 0, None, None, 0, None, None, 1],
    }
    good, success = _estimate(_counts(columns), "p_g"), _estimate(_counts(columns), "p_t")
    # G: t = 0 alone, or r = 0 alone of an answer, decide it by luck; r of an abstention always decides it.
    assert (good.labelled, good.unlabelled) == (6, 4)
    assert good.mean == pytest.approx(0.7 * 1 / 4 + 0.3 * 1 / 2)
    assert (success.labelled, success.unlabelled) == (9, 1)
    assert success.mean == pytest.approx(0.7 * 3 / 6)


def _stratified(seed: int) -> pa.Table:
    """Two strata of very different success; the rare and bad one has half of the labels."""
    rng = np.random.default_rng(seed)
    stratum = rng.random(1500) < 0.2
    t = (rng.random(1500) < np.where(stratum, 0.1, 0.9)).astype(int)
    labelled = np.zeros(1500, dtype=bool)
    for part in (stratum, ~stratum):
        labelled[rng.choice(np.flatnonzero(part), 75, replace=False)] = True
    verdict = (rng.random(1500) < np.where(t == 1, 0.8, 0.3)).astype(int)
    columns = {"r": [None] * 1500, "a": [0] * 1500, "t": _hide(t, labelled), "t@x": verdict.tolist()}
    return _counts(columns, stratum=np.where(stratum, "rare", "common").tolist())


def test_strata_are_weighed_by_their_shares() -> None:
    truth = 0.2 * 0.1 + 0.8 * 0.9
    found = [_estimate(_stratified(seed), "p_t") for seed in range(200)]
    error = np.array([one.mean for one in found]) - truth
    assert abs(error.mean()) < 3 * error.std() / np.sqrt(200)
    assert np.mean([one.low <= truth <= one.high for one in found]) > 0.9
    ignored = [_estimate(_stratified(seed).drop_columns(["stratum"]), "p_t").mean for seed in range(20)]
    assert np.mean(ignored) < truth - 0.1


def test_strata_that_stand_for_others_are_weighed_by_what_they_stand_for() -> None:
    columns: dict[str, Column] = {"r": [None] * 20, "a": [0] * 20, "t": [1] * 8 + [0] * 2 + [1] * 2 + [0] * 8}
    strata = ["x"] * 10 + ["y"] * 10
    drawn = _counts(columns, stratum=strata, stands_for=[1.0] * 10 + [9.0] * 10)
    assert _estimate(drawn, "p_t").mean == pytest.approx(0.1 * 0.8 + 0.9 * 0.2)
    plain = _counts(columns, stratum=strata)
    assert _estimate(plain, "p_t").mean == pytest.approx(0.5)
    assert _estimate(plain.drop_columns(["stands_for"]), "p_t") == _estimate(plain, "p_t")


def test_rows_for_calibration_and_failed_rows_do_not_count() -> None:
    columns: dict[str, Column] = {"r": [1, 1, 1, 0, 0, 0], "a": [0] * 6, "t": [1, 0, 1, 1, 1, 1]}
    uses = ["fit", "fit", "fit", "failed", "calibration", "calibration"]
    found = _estimate(_counts(columns, use=uses))
    assert found.mean == pytest.approx(2 / 3)
    assert found.labelled == 3


def test_none_where_nothing_is_known_of_a_class() -> None:
    answered: dict[str, Column] = {"r": [1] * 10, "a": [0] * 10, "t": [1, 0] * 5}
    assert prediction_powered(_counts(answered), "p_g") is not None
    one_abstention = {
        name: [*column, value] for (name, column), value in zip(answered.items(), (1, 1, None), strict=True)
    }
    assert prediction_powered(_counts(one_abstention), "p_g") is None
    assert prediction_powered(_counts(one_abstention), "p_t") is not None  # T of an abstention is no success
    a_missing = {
        name: [*column, value] for (name, column), value in zip(answered.items(), (1, None, None), strict=True)
    }
    assert prediction_powered(_counts(a_missing), "p_g") is None
    no_labels: dict[str, Column] = {"r": [None] * 5, "a": [0] * 5, "t": [None] * 5}
    assert prediction_powered(_counts(no_labels), "p_t") is None
    nothing = _counts({"r": [1], "a": [0], "t": [1]}, use=["failed"])
    assert prediction_powered(nothing, "p_g") is None


def test_a_class_of_hardly_any_items_is_left_open() -> None:
    columns: dict[str, Column] = {"r": [1] * 399 + [None], "a": [0] * 399 + [1], "t": [1, 0, 1] * 133 + [None]}
    found = _estimate(_counts(columns))
    assert found.mean == pytest.approx((266 + 0.5) / 400)
    assert (found.labelled, found.unlabelled) == (399, 1)


def test_labels_that_are_all_equal_leave_a_doubt() -> None:
    columns: dict[str, Column] = {"r": [1] * 30, "a": [0] * 30, "t": [1] * 30}
    found = _estimate(_counts(columns))
    assert found.mean == found.high == 1
    assert 0.9 < found.low < 0.97
    assert not disagrees(found, 31 / 32, 0.888, 0.999)  # the posterior under a uniform prior


@pytest.mark.parametrize("scale", [1, 10**7])
def test_counts_of_any_size(scale: int) -> None:
    counts = _labelled_by_a(5, GOOD)
    grown = counts.set_column(counts.schema.get_field_index("n"), "n", [[n * scale for n in counts["n"].to_pylist()]])
    found = _estimate(grown.drop_columns(["stands_for"]))
    assert found.mean == pytest.approx(_estimate(counts).mean, rel=0.01)
    assert found.se == pytest.approx(_estimate(counts).se / np.sqrt(scale), rel=0.02)
    assert found.labelled == 150 * scale


def test_the_flag_needs_both_to_disagree() -> None:
    ppi = Ppi(mean=0.5, se=0.05, low=0.4, high=0.6, labelled=100, unlabelled=900, lam=0.8)
    assert disagrees(ppi, 0.7, 0.65, 0.75)
    assert not disagrees(ppi, 0.7, 0.45, 0.8)  # the model's interval holds the estimate
    assert not disagrees(ppi, 0.58, 0.55, 0.61)  # the estimate's interval holds the model's mean
    assert not disagrees(ppi, 0.5, 0.4, 0.6)
