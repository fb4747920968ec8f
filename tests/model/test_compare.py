"""Two systems on the same questions against the exact posterior of the pair, and what `compare` takes and refuses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from scipy.stats import beta, kstest

from rat_ray.errors import InputError
from rat_ray.model import EngineSettings, Policy, Prior, fit
from rat_ray.model.compare import Comparison, compare
from rat_ray.model.design import Options
from rat_ray.model.diagnostics import convergence
from rat_ray.model.pair_design import (
    PairCounts,
    pair_counts,
    pair_design,
    pair_schema,
    pair_table,
    pair_tree,
    read_pair_table,
    split_priors,
)
from rat_ray.model.states import STATES, Tree
from rat_ray.tables import COMPARISON, LABEL, check_table
from tests.model import pair_oracle as oracle
from tests.model.tables import Row, table
from tests.model.test_fit import REPO

NAMES = ("first", "second")
QUICK = EngineSettings(chains=2, warmup=300, samples=300)
MANY = EngineSettings(chains=4, warmup=500, samples=1500)
EXACT_DRAWS = 100_000
DIRICHLET = Prior(**yaml.safe_load((REPO / "conf" / "prior" / "states.yaml").read_text()))
PRIORS = {"uniform": Prior(), "states": DIRICHLET, "own": Prior((8, 2), (3, 1), (2, 5), (1, 4), (6, 2))}
Both = tuple[Row, Row]


def side(rows: Sequence[Row], ids: Sequence[Any], judges: tuple[str, ...] = (), **columns: Sequence[Any]) -> pa.Table:
    """A label table with question ids and other columns."""
    made = table(rows, judges).append_column("question_id", pa.array(ids))
    for name, values in columns.items():
        made = made.append_column(name, pa.array(values))
    return made


def sides(rows: Sequence[Both], same: bool) -> tuple[pa.Table, pa.Table]:
    """Both tables; with the same context or with none known."""
    ids = [f"q{i}" for i in range(len(rows))]
    more = {"context": ids} if same else {}
    return side([one for one, _ in rows], ids, **more), side([two for _, two in rows], ids, **more)


def counts_of(first: pa.Table, second: pa.Table, judges: Sequence[Sequence[str]] = ((), ())) -> PairCounts:
    return pair_counts((first, second), judges, NAMES)


def random_rows(items: int, same: bool, seed: int) -> list[Both]:
    """Complete labels of two systems that are often alike."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(items):
        one = STATES[rng.choice(6, p=(0.15, 0.1, 0.05, 0.05, 0.15, 0.5))].tolist()
        two = one if rng.random() < 0.4 else STATES[rng.choice(6)].tolist()
        if same and two[0] != one[0]:
            two = [one[0], *two[1:]]
        rows.append(tuple(tuple(None if value < 0 else value for value in labels) for labels in (one, two)))
    return rows


def check(made: Comparison, theta: np.ndarray, names: Sequence[str] | None = None) -> None:
    """Means and sds of both sides and of the difference within four Monte Carlo errors."""
    first, second = oracle.ratios(theta)
    chains = len(set(made.draws["chain"].to_pylist()))
    for name in names or first:
        drawn = [made.draws[f"{k}:{name}"].to_numpy().reshape(chains, -1) for k in NAMES]
        exact = [first[name], second[name], first[name] - second[name]]
        for what, mine, truth in zip((*NAMES, "difference"), (*drawn, drawn[0] - drawn[1]), exact, strict=True):
            found = convergence(mine[:, :, None])[0]
            if found.mcse is None or found.ess_bulk is None or found.ess_tail is None:
                assert truth.std() < 1e-9, (what, name)
                continue
            error = math.hypot(found.mcse, truth.std() / math.sqrt(EXACT_DRAWS))
            assert abs(mine.mean() - truth.mean()) < 4 * error, (what, name)
            spread = 4 * _relative_error(truth, min(found.ess_bulk, found.ess_tail))
            assert mine.std() == pytest.approx(truth.std(), rel=spread), (what, name)
    row = {name: made.value("p_g", name) for name in made.summary.schema.names}
    gap = first["p_g"] - second["p_g"]
    assert row["p_greater"] == pytest.approx((gap > 0).mean(), abs=0.04)
    assert row["correlation"] == pytest.approx(np.corrcoef(first["p_g"], second["p_g"])[0, 1], abs=0.08)
    assert (row["mean_first"], row["mean_second"]) == pytest.approx(
        (first["p_g"].mean(), second["p_g"].mean()), abs=0.02
    )


def _relative_error(values: np.ndarray, draws: float) -> float:
    """Of a standard deviation: by the fourth moment, as the draws may be far from normal."""
    scaled = (values - values.mean()) / values.std()
    return math.sqrt(max((scaled**4).mean() - 1, 0.1) / draws) / 2 + 0.01


# The tree and its prior.


def _trees() -> dict[str, tuple[Tree, np.ndarray]]:
    rows = random_rows(6, True, 1)
    same, different = counts_of(*sides(rows, True)), counts_of(*sides(rows, False))
    first, second = sides(rows, True)
    contexts = pa.array(["q0", *(f"other{i}" for i in range(5))])
    mixed = counts_of(first, second.set_column(second.schema.get_field_index("context"), "context", contexts))
    return {"same": pair_tree(same), "different": pair_tree(different), "mixed": pair_tree(mixed)}


@pytest.mark.parametrize(("which", "states", "splits"), [("same", 18, 17), ("different", 36, 35), ("mixed", 54, 53)])
def test_every_state_lies_at_the_end_of_one_path(which: str, states: int, splits: int) -> None:
    tree, alike = _trees()[which]
    assert tree.on_yes.shape == tree.on_no.shape == (states, splits)
    assert not (tree.on_yes & tree.on_no).any()
    assert tree.on_yes.any(axis=0).all()
    assert tree.on_no.any(axis=0).all()
    p = np.random.default_rng(1).uniform(size=splits)
    theta = np.exp(tree.on_yes @ np.log(p) + tree.on_no @ np.log1p(-p))
    assert theta.sum() == pytest.approx(1)
    # Any two states part at exactly one split.
    parts = tree.on_yes[:, None, :] & tree.on_no[None, :, :]
    parted = (parts | parts.transpose(1, 0, 2)).sum(axis=2)
    assert np.array_equal(parted, 1 - np.eye(states, dtype=int))
    assert alike.sum() == {"same": 18, "different": 0, "mixed": 18}[which]
    one, two = (STATES[own, 0] for own in tree.side_state)
    assert (one[alike] == two[alike]).all()
    assert len({(*pair, kind) for *pair, kind in zip(*tree.side_state.tolist(), alike, strict=True)}) == states


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("name", list(PRIORS))
def test_splits_and_their_priors_are_those_of_the_oracle(same: bool, name: str) -> None:
    tree, alike = _trees()["same" if same else "different"]
    states = list(zip(*tree.side_state.tolist(), strict=True))
    found = {}
    for split, (a, b) in enumerate(split_priors(tree, alike, PRIORS[name])):
        yes, no = (
            frozenset(states[i] for i in np.flatnonzero(on[:, split]).tolist()) for on in (tree.on_yes, tree.on_no)
        )
        found[yes, no] = (a, b)
    wanted = {}
    for one in oracle.splits(same, PRIORS[name]):
        ends = [frozenset(pair for pair in oracle.pairs(same) if oracle.leads(one.path, pair, v)) for v in (1, 0)]
        wanted[ends[0], ends[1]] = (one.a, one.b)
    assert found.keys() == wanted.keys()
    for key, ab in wanted.items():
        assert found[key] == pytest.approx(ab)


@pytest.mark.parametrize("which", ["same", "different", "mixed"])
def test_each_system_has_about_the_prior_of_its_own_fit(which: str) -> None:
    tree, alike = _trees()[which]
    rng = np.random.default_rng(2)
    for name, exact in (("states", True), ("uniform", False)):
        ab = np.array(split_priors(tree, alike, PRIORS[name]))
        yes, no = oracle.log_betas(rng, *(np.tile(column, (40_000, 1)) for column in ab.T))
        theta = np.exp(yes @ tree.on_yes.T + no @ tree.on_no.T)
        alone = rng.beta(*np.array(PRIORS[name].splits).T, size=(40_000, 5))
        rho, a0, a1, _, t1 = alone.T
        p_g = (1 - rho) * a0 + rho * (1 - a1) * t1
        for own in tree.side_state:
            mine = theta[:, np.isin(own, oracle.GOOD)].sum(axis=1)
            retrieved = theta[:, own >= 3].sum(axis=1)
            assert mine.mean() == pytest.approx(p_g.mean(), abs=0.005)
            assert retrieved.mean() == pytest.approx(rho.mean(), abs=0.005)
            assert mine.std() == pytest.approx(p_g.std(), rel=0.15), (name, which)
            assert retrieved.std() == pytest.approx(rho.std(), rel=0.15)
        if exact and which == "same":  # a sum of parts of a Dirichlet
            for own in tree.side_state:
                assert kstest(theta[:4000, np.isin(own, oracle.GOOD)].sum(axis=1), beta(2, 4).cdf).pvalue > 1e-4


# The posterior.


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("name", list(PRIORS))
def test_complete_data_give_the_exact_posterior(same: bool, name: str) -> None:
    rows = random_rows(60, same, seed=3)
    first, second = sides(rows, same)
    made = compare(first, second, prior=PRIORS[name], engine=MANY)
    assert made.status.status == "ok", made.status.reason
    assert (made.items, made.same_context) == (60, 60 if same else 0)
    check_table(made.summary, COMPARISON, "comparison")
    check(made, oracle.draws(rows, same, PRIORS[name], EXACT_DRAWS, seed=1))


MISSING: dict[str, list[Both]] = {
    "r of one": [((1, 0, 1), (None, 0, 0)), ((None, 1, None), (0, 0, 1)), ((0, 0, 0), (0, 1, None))],
    "a and t": [((1, None, None), (1, 0, None)), ((None, 0, 1), (None, None, None)), ((0, 1, None), (0, 0, 0))],
    "nothing of one": [((1, 0, 1), (None, None, None)), ((None, None, None), (None, 0, 1))],
}


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("which", list(MISSING))
def test_missing_labels_are_summed_out(which: str, same: bool) -> None:
    """Every completion of two or three items. Where a state is open, the prior's splits matter a lot."""
    prior = Prior(*[(2.0, 3.0)] * 5)
    first, second = sides(MISSING[which], same)
    made = compare(first, second, prior=prior, engine=MANY)
    # Splits far down the tree are nearly the floor's Beta(.1, .1): quantities of all items only.
    names = ("rho", "p_g", "p_t", "p_a", "lucky", "resolved[r]", "resolved[t]")
    check(made, oracle.draws(MISSING[which], same, prior, EXACT_DRAWS, seed=1), names)


@pytest.mark.parametrize("engine", ["stanli", "importance"])
@pytest.mark.parametrize("same", [True, False])
def test_verdicts_are_given_the_state_of_their_own_system(same: bool, engine: str) -> None:
    """A judge of each system; T of some items is open, and their verdicts weigh by state."""
    rows: list[Both] = [
        ((1, 0, None), (1, 0, 1)),
        ((1, 0, 1), (1, 0, None)),
        ((0, 0, None), (None, 0, 0)),
        ((None, 0, 0), (0, 1, None)),
        ((1, 0, None), (None, 0, None)),
        ((0, 1, None), (0, 0, 1)),
    ]
    verdicts = [(1, 1), (1, 0), (1, 0), (0, None), (1, 0), (None, 1)]
    first, second = sides(rows, same)
    first, second = (
        part.append_column("t@x", pa.array(said, LABEL))
        for part, said in zip((first, second), zip(*verdicts, strict=True), strict=True)
    )
    prior = Prior(*[(2.0, 3.0)] * 5, panel_floor=0.5, panel_lean=4.0, panel_right=0.9)
    made = compare(first, second, prior=prior, engine=replace(MANY, kind=engine))
    theta = oracle.draws(rows, same, prior, EXACT_DRAWS, 1, verdicts)
    check(made, theta, ("rho", "p_g", "p_t", "p_a", "lucky"))
    blind = oracle.ratios(oracle.draws(rows, same, prior, EXACT_DRAWS, 1))
    assert abs(oracle.ratios(theta)[0]["p_t"].mean() - blind[0]["p_t"].mean()) > 0.03  # they do weigh


def test_a_question_that_one_system_lacks_informs_the_other() -> None:
    rows = random_rows(30, False, seed=4)
    first, second = sides(rows, False)
    made = compare(first.slice(0, 20), second.slice(10), engine=MANY)
    assert made.items == 10
    nothing: Row = (None, None, None)
    seen = [(one if i < 20 else nothing, two if i >= 10 else nothing) for i, (one, two) in enumerate(rows)]
    # By completions this is out of reach; the second's own margin is that of its own 20 questions.
    alone = fit(second.slice(10), engine=MANY)
    assert made.value("p_g", "mean_second") == pytest.approx(alone.value("p_g"), abs=0.03)
    blank = compare(*sides(seen, False), engine=QUICK)
    assert blank.value("p_g") == pytest.approx(made.value("p_g"), abs=0.02)
    assert blank.items == 30


def test_with_the_same_context_one_label_of_r_is_both() -> None:
    rows = random_rows(80, True, seed=5)
    hidden = [(one, (None, *two[1:])) if i % 2 else ((None, *one[1:]), two) for i, (one, two) in enumerate(rows)]
    full, partly = compare(*sides(rows, True), engine=QUICK), compare(*sides(hidden, True), engine=QUICK)
    assert partly.summary.drop_columns(["seconds"]).equals(full.summary.drop_columns(["seconds"]))
    apart = compare(*sides(hidden, False), engine=QUICK)
    assert apart.value("rho", "sd") > 0.0
    assert partly.value("rho", "sd") == pytest.approx(0.0, abs=1e-12)


def test_r_known_of_one_system_identifies_the_other_where_the_context_is_the_same() -> None:
    rows = [(one, (None, *two[1:])) for one, two in random_rows(60, True, seed=6)]
    assert compare(*sides(rows, True), engine=QUICK).value("p_g", "identified") == 1
    assert compare(*sides(rows, False), engine=QUICK).value("p_g", "identified") == 0


def test_contexts_that_are_the_same_on_some_questions_do_not_pull_the_systems_together() -> None:
    """R differs only where the context does: that it does not elsewhere says nothing about it there."""
    rng = np.random.default_rng(7)
    many, labelled = 1000, np.arange(1000) < 250
    same = rng.random(many) < 0.6
    r1 = rng.random(many) < 0.5
    r2 = np.where(same, r1, rng.random(many) < 0.85)
    tables = []
    for number, r in enumerate((r1, r2)):
        rows: list[Row] = [
            (int(value), 0, None) if seen else (None, 0, None) for value, seen in zip(r, labelled, strict=True)
        ]
        contexts = [f"q{i}" if alike else f"{number} q{i}" for i, alike in enumerate(same)]
        tables.append(side(rows, list(range(many)), context=contexts))
    counts = counts_of(*tables)
    assert pair_design(counts, ((), ()), Prior(), Options()).tree.on_yes.shape == (54, 53)
    made = compare(*tables, engine=QUICK)
    assert made.same_context == same.sum()
    low, high = made.value("rho", "q2.5"), made.value("rho", "q97.5")
    assert low < r1.mean() - r2.mean() < high
    assert high - low < 0.13
    assert made.value("rho") == pytest.approx(float(r1[labelled].mean() - r2[labelled].mean()), abs=0.03)


def test_judges_of_either_side_are_its_own() -> None:
    """A judge of one system only, calibrated on half of the items, narrows that system."""
    rng = np.random.default_rng(8)
    rows = random_rows(300, False, seed=8)
    ids = list(range(300))
    judged: list[Row] = []
    for i, (one, _) in enumerate(rows):
        verdict = None if one[2] is None else int(rng.random() < (0.95 if one[2] else 0.05))
        judged.append((*(one if i < 100 else (one[0], one[1], None)), verdict))
    first = side(judged, ids, ("t@x",))
    second = side([two for _, two in rows], ids)
    with_, without = (compare(first, second, judges, engine=QUICK) for judges in (None, []))
    named = compare(first, second, ["t@x"], engine=QUICK)
    assert named.summary.drop_columns(["seconds"]).equals(with_.summary.drop_columns(["seconds"]))
    for quantity in ("p_t", "p_g"):
        spread = [float(np.std(made.draws[f"first:{quantity}"])) for made in (with_, without)]
        assert spread[0] < 0.85 * spread[1], quantity
    alone = fit(first, engine=QUICK)
    assert float(np.mean(with_.draws["first:p_t"])) == pytest.approx(alone.value("p_t"), abs=0.02)
    independent = compare(first, second, engine=QUICK, judge_model="independent")
    assert independent.value("p_t") == pytest.approx(with_.value("p_t"), abs=0.02)


def test_a_system_against_itself_differs_by_nothing_that_is_labelled() -> None:
    rows = [(one, one) for one, _ in random_rows(80, True, seed=9)]
    made = compare(*sides(rows, True), engine=QUICK, names=("mine", "mine"))
    assert made.value("rho") == made.value("rho", "sd") == 0.0
    assert made.value("rho", "r_hat") is None
    assert made.value("rho", "p_greater") == 0.5
    for name in ("p_g", "p_t", "finite[p_g]"):
        assert made.value(name) == pytest.approx(0.0, abs=0.02)
    assert made.value("finite[p_g]", "sd") == pytest.approx(0.0, abs=1e-12)
    assert made.value("p_g", "correlation") > 0.7
    apart = fit(side([one for one, _ in rows], range(80)), engine=QUICK)
    assert made.value("p_g", "sd") < 0.6 * math.sqrt(2) * apart.value("p_g", "sd")


def test_swapping_the_systems_turns_the_sign() -> None:
    rows = [(one, two if i < 60 else (None, None, None)) for i, (one, two) in enumerate(random_rows(90, False, 10))]
    first, second = sides(rows, False)
    one, other = compare(first, second, engine=MANY), compare(second, first, engine=MANY)
    for name in ("rho", "p_g", "p_t", "p_a", "accuracy"):
        error = math.hypot(one.value(name, "mcse"), other.value(name, "mcse"))
        # The tree decides the first system before the second, and its floor weighs more on later splits.
        assert abs(one.value(name) + other.value(name)) < 4 * error + 0.15 * one.value(name, "sd"), name
        assert one.value(name, "p_greater") == pytest.approx(1 - other.value(name, "p_greater"), abs=0.08)
        assert one.value(name, "mean_first") == pytest.approx(other.value(name, "mean_second"), abs=0.015)


def test_the_same_seed_gives_the_same_draws_whatever_the_order_of_the_rows() -> None:
    first, second = sides(random_rows(40, True, seed=11), True)
    one = compare(first, second, engine=QUICK, seed=5)
    shuffled = [part.take(np.random.default_rng(k).permutation(40)) for k, part in enumerate((first, second))]
    again = compare(shuffled[0], shuffled[1], engine=QUICK, seed=5)
    assert again.draws.equals(one.draws)
    assert again.summary.drop_columns(["seconds"]).equals(one.summary.drop_columns(["seconds"]))
    assert not compare(first, second, engine=QUICK, seed=6).draws.equals(one.draws)


def test_utilities_stand_beside_the_quantities() -> None:
    first, second = sides(random_rows(60, False, seed=12), False)
    policy = Policy("graded", r0_abstained=1.0, r0_wrong=-1.0, r0_right=0.5, r1_abstained=-0.5, r1_right=1.0)
    made = compare(first, second, engine=QUICK, policy=policy)
    own = fit(first, engine=QUICK, policy=policy)
    assert made.value("utility", "mean_first") == pytest.approx(own.value("utility"), abs=0.06)
    assert made.value("utility", "identified") == 1
    assert "finite[utility]" in made.summary["quantity"].to_pylist()
    assert made.value("p_g", "mean_first") == pytest.approx(own.value("p_g"), abs=0.02)


def test_an_unknown_quantity_is_named() -> None:
    first, second = sides(random_rows(5, True, seed=1), True)
    made = compare(first, second, engine=EngineSettings(chains=1, warmup=50, samples=50))
    with pytest.raises(KeyError, match="nothing is none of rho"):
        made.value("nothing")


# What is joined.


def test_pairs_are_joined_by_id_as_text_and_go_through_a_table() -> None:
    first = side([(1, 0, 1, 1), (0, 1, None, None), (1, 0, None, 0)], [3, 1, 2], ("t@x",))
    second = side([(0, 0, 1), (1, 0, 0)], ["2", "4"])
    counts = counts_of(first, second, (("t@x",), ()))
    assert (counts.items, counts.same_context) == (1, 0)
    assert counts.codes[0].n.sum() == 4
    made = pair_table(counts, (("t@x",), ()))
    assert made.schema.equals(pair_schema((("t@x",), ())))
    again = read_pair_table(made, (("t@x",), ()))
    for one, two in zip(counts.codes, again.codes, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one[:5], two[:5], strict=True))
    assert np.array_equal(counts.same, again.same)
    assert np.array_equal(counts.both, again.both)


def test_failed_and_calibration_rows_are_left_out() -> None:
    rows: list[Row] = [(1, 0, 1), (1, 0, 0), (0, 1, None), (0, 0, 0)]
    error = pa.array([None, "out of memory", None, None], pa.string())
    first = side(rows, "abcd").append_column("error", error)
    second = side(rows, "abcd", use=["fit", None, "calibration", "failed"])
    counts = counts_of(first, second)
    assert counts.items == 1  # a; b failed in the first, c and d are not for the fit in the second
    assert sorted(code.n[(code.labels != 2).any(axis=1)].sum() for code in counts.codes) == [2, 3]
    with pytest.raises(InputError, match=r"'first'.*no items to fit"):
        counts_of(first.take([1]), second)
    with pytest.raises(InputError, match=r"calib.*did you mean 'calibration'"):
        counts_of(first, side(rows, "abcd", use=["fit", "fit", "fit", "calibratio"]))


def test_contexts_say_where_r_is_one_variable() -> None:
    rows: list[Row] = [(1, 0, 1), (None, 0, 0), (0, 1, None)]
    first, second = side(rows, "abc", context=["x", "y", None]), side(rows, "abc", context=["x", "z", None])
    assert counts_of(first, second).same_context == 1
    with pytest.raises(InputError, match=r"question 'a': first and second had the same context, but r is 1 and 0 \(1 "):
        counts_of(first, side([(0, 0, 1), *rows[1:]], "abc", context=["x", "z", None]))
    counts_of(first, side([(0, 0, 1), *rows[1:]], "abc", context=["w", "z", None]))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (side([(1, 0, 1)] * 2, "aa"), side([(1, 0, 1)], "a"), "'first': question 'a' occurs more than once"),
        (side([(1, 0, 1)], "a"), side([(1, 0, 1)], "b"), "first and second have no question in common"),
        (side([(1, 0, 1)], "a"), table([(1, 0, 1)]), "second: column 'question_id' is missing"),
        (side([(1, 0, 1)], "a"), side([(1, 0, 1)] * 2, ["a", None]), "'second': row 2 .* no question_id"),
        (side([(1, 1, 1)], "a"), side([(1, 0, 1)], "a"), "an abstention cannot be a correct answer"),
        (side([(1, 2, None)], "a"), side([(1, 0, 1)], "a"), "column 'a' holds 2"),
        (side([(1, 0, 1)], "a"), side([(1, 0, 1)], "a").drop_columns(["t"]), "second: column 't' is missing"),
        (side([(1, 0, 1)], "a").slice(1), side([(1, 0, 1)], "a"), "'first': there are no items to fit"),
        (side([(1, 0, 1)], "a").to_pylist(), side([(1, 0, 1)], "a"), "not a list"),
    ],
)
def test_tables_that_cannot_be_paired_are_refused(first: Any, second: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        compare(first, second, engine=QUICK)


def test_judges_that_cannot_be_used_are_refused() -> None:
    first = side([(1, 0, 1, 1)], "a", ("t@x",))
    second = side([(1, 0, 1)], "a")
    with pytest.raises(InputError, match="'t@y'"):
        compare(first, second, ["t@y"], engine=QUICK)
    with pytest.raises(InputError, match="judge_model"):
        compare(first, second, engine=QUICK, judge_model="panle")
    with pytest.raises(InputError, match="panel"):
        compare(side([(1, 0, 1, 1, 1, 1, 1, 1)], "a", tuple(f"t@{k}" for k in range(5))), second, engine=QUICK)
    trusted = first.append_column("t_source", pa.array(["x"]))
    with pytest.raises(InputError, match="first: t@x fills trusted labels"):
        compare(trusted, second, ["t@x"], engine=QUICK)
    assert compare(trusted, second, engine=EngineSettings(chains=1, warmup=20, samples=20)).items == 1


def test_the_columns_of_labels_may_be_of_any_kind_of_number() -> None:
    first, second = sides(random_rows(20, True, seed=13), True)
    wide = first.set_column(0, "r", first["r"].cast(pa.float64()))
    codes = [counts_of(one, second).codes[0].labels for one in (first, wide)]
    assert np.array_equal(*codes)
    assert first["r"].type == LABEL


def test_a_combination_of_every_two_states_is_fitted() -> None:
    """Each pair of states once, so that no cell is empty: finite, and the exact posterior."""
    rows = [
        tuple(tuple(None if value < 0 else int(value) for value in STATES[state]) for state in pair)
        for pair in itertools.product(range(6), repeat=2)
    ]
    made = compare(*sides(rows, False), engine=MANY)
    check(made, oracle.draws(rows, False, Prior(), EXACT_DRAWS, seed=2))
    assert made.value("p_g") == pytest.approx(0.0, abs=0.01)
