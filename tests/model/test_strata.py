"""Labels chosen by something that is not in the fit: strata, inclusion probabilities; calibration and failed rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rat_ray.errors import InputError
from rat_ray.model import EngineSettings, Fit, Prior, fit, patterns
from rat_ray.model.coverage import coverage_warnings
from tests.model.oracle import exact_moments, exact_posterior
from tests.model.tables import Row, row_of, simulate, table

QUICK = EngineSettings(samples=500)
SMALL = EngineSettings(chains=2, warmup=200, samples=200)
# rho, alpha, tau of two kinds of questions that the model's variables do not tell apart.
EASY = (0.9, (0.5, 0.05), (0.2, 0.9))
HARD = (0.3, (0.5, 0.05), (0.2, 0.4))
ITEMS = {"easy": 1200, "hard": 1200}
CHANCE = {"easy": 0.05, "hard": 0.5}


def _truth(rho: float, alpha: tuple[float, float], tau: tuple[float, float]) -> float:
    return (1 - rho) * alpha[0] + rho * (1 - alpha[1]) * tau[1]


P_G = (_truth(*EASY) + _truth(*HARD)) / 2


def _two_kinds(seed: int) -> tuple[list[Row], list[str], np.ndarray]:
    """Complete labels, the kind of each item, and who would be labelled."""
    rows: list[Row] = []
    kinds: list[str] = []
    for number, (kind, truth) in enumerate((("easy", EASY), ("hard", HARD))):
        states = simulate(ITEMS[kind], 10 * seed + number, *truth).tolist()
        rows += [(r, a, t if t >= 0 else None) for r, a, t in states]
        kinds += [kind] * len(states)
    chosen = np.random.default_rng(seed).random(len(rows)) < np.array([CHANCE[kind] for kind in kinds])
    return rows, kinds, chosen


def _hide(rows: Sequence[Row], chosen: np.ndarray) -> list[Row]:
    return [row if kept else (None, row[1], None) for row, kept in zip(rows, chosen, strict=True)]


def _holds(result: Fit, truth: float, quantity: str = "p_g") -> bool:
    row = row_of(result, quantity)
    return bool(row["q2.5"] < truth < row["q97.5"])


@pytest.mark.parametrize("seed", [1, 2])
def test_strata_undo_a_choice_that_depends_on_them(seed: int) -> None:
    rows, kinds, chosen = _two_kinds(seed)
    labels = table(_hide(rows, chosen))
    without = row_of(fit(labels, engine=QUICK), "p_g")
    assert abs(without["mean"] - P_G) > 3 * without["sd"]  # hard questions were labelled ten times as often
    by_stratum = fit(labels.append_column("stratum", pa.array(kinds)), engine=QUICK)
    assert by_stratum.status.status != "fail", by_stratum.status.reason
    row = row_of(by_stratum, "p_g")
    assert abs(row["mean"] - P_G) < 3 * row["sd"]
    assert row["identified"] == "identified"
    # Inclusion probabilities with the items that were not chosen in the table: the same strata.
    inclusion = labels.append_column("inclusion", pa.array([CHANCE[kind] for kind in kinds]))
    again = row_of(fit(inclusion, engine=QUICK), "p_g")
    assert abs(again["mean"] - row["mean"]) < 4 * math.hypot(row["mcse"], again["mcse"])
    assert again["sd"] == pytest.approx(row["sd"], rel=0.1)


@pytest.mark.parametrize("seed", [1, 2])
def test_inclusion_probabilities_of_chosen_items_alone(seed: int) -> None:
    """The table holds only the items that were labelled: each stands for others like it."""
    rows, kinds, chosen = _two_kinds(seed)
    kept = [index for index, take in enumerate(chosen) if take]
    labels = table([rows[index] for index in kept])
    naive = row_of(fit(labels, engine=QUICK), "p_g")
    assert abs(naive["mean"] - P_G) > 3 * naive["sd"]
    chances = pa.array([CHANCE[kinds[index]] for index in kept])
    result = fit(labels.append_column("inclusion", chances), engine=QUICK)
    row = row_of(result, "p_g")
    assert abs(row["mean"] - P_G) < 3 * row["sd"]
    assert result.items == len(kept)
    assert "finite[p_g]" not in result.summary["quantity"].to_pylist()  # of other items than those in the table
    counts = result.patterns
    assert pc.sum(counts["stands_for"]).as_py() == pytest.approx(sum(1 / chance for chance in chances.to_pylist()))
    assert pc.sum(counts["n"]).as_py() == len(kept)


def test_strata_with_all_labels_have_the_exact_posterior() -> None:
    """Each stratum is conjugate, and its share a Dirichlet of the numbers of items."""
    counts = {"x": (6, 3, 2, 4, 5, 20), "y": (30, 4, 6, 3, 2, 1)}
    states: Sequence[Row] = [(0, 1, None), (0, 0, 0), (0, 0, 1), (1, 1, None), (1, 0, 0), (1, 0, 1)]
    rows = [row for name in counts for row, n in zip(states, counts[name], strict=True) for _ in range(n)]
    kinds = [name for name in counts for _ in range(sum(counts[name]))]
    result = fit(table(rows).append_column("stratum", pa.array(kinds)))
    assert result.status.status == "ok", result.status.reason
    rng, draws = np.random.default_rng(1), 200_000
    share = rng.beta(40, 46, draws)
    theta = {}
    for name, (a, w, s, a1, w1, s1) in counts.items():
        rho = rng.beta(1 + a1 + w1 + s1, 1 + a + w + s, draws)
        alpha0, alpha1 = rng.beta(1 + a, 1 + w + s, draws), rng.beta(1 + a1, 1 + w1 + s1, draws)
        tau1 = rng.beta(1 + s1, 1 + w1, draws)
        theta[name] = {
            "rho": rho,
            "abstained": (1 - rho) * alpha0,
            "p_g": (1 - rho) * alpha0 + rho * (1 - alpha1) * tau1,
        }
    mixed = {key: share * theta["x"][key] + (1 - share) * theta["y"][key] for key in theta["x"]}
    mixed["alpha[0]"] = mixed.pop("abstained") / (1 - mixed["rho"])  # of all items at R = 0, not a mean of the strata's
    for name, values in mixed.items():
        row = row_of(result, name)
        assert abs(row["mean"] - values.mean()) < 4 * row["mcse"], name
        assert row["sd"] == pytest.approx(values.std(), rel=0.06), name
    assert row_of(result, "finite[p_g]")["mean"] == pytest.approx((6 + 20 + 30 + 1) / 86)


def test_strata_share_their_judges() -> None:
    """A judge calibrated in one stratum is as good in the other, which has no labels at all."""
    rng = np.random.default_rng(5)
    rows, kinds = [], []
    for number, kind in enumerate(("asked", "other")):
        for index, (r, a, t) in enumerate(simulate(600, number, 0.6, (0.5, 0.1), (0.2, 0.8)).tolist()):
            said = int(rng.random() < (0.95 if r else 0.05))
            known = kind == "asked" and index < 300
            rows.append((r if known else None, a, t if known and a == 0 else None, said))
            kinds.append(kind)
    labels = table(rows, ("r@x",)).append_column("stratum", pa.array(kinds))
    result = fit(labels, engine=QUICK, judge_model="independent")
    row = row_of(result, "rho")
    assert abs(row["mean"] - 0.6) < 3 * row["sd"]
    assert row["identified"] == "identified"
    assert row["sd"] < 0.03
    assert row_of(fit(labels.drop_columns(["r@x"]), engine=QUICK), "rho")["identified"] == "bounded"


def test_one_stratum_is_none() -> None:
    rows: Sequence[Row] = [(1, 0, 1), (0, 1, None), (1, 0, 0), (None, 0, 1)] * 5
    one = fit(table(rows).append_column("stratum", pa.array(["all"] * len(rows))), engine=SMALL)
    none = fit(table(rows), engine=SMALL)
    assert one.draws.equals(none.draws)
    blank = table(rows).append_column("stratum", pa.nulls(len(rows), pa.string()))
    assert fit(blank, engine=SMALL).patterns.equals(none.patterns)


def test_strata_that_cannot_be_used_are_refused() -> None:
    labels = table([(1, 0, 1), (0, 1, None), (1, 0, 0)])
    bad: dict[str, dict[str, list[Any]]] = {
        "both 'stratum' and 'inclusion'": {"stratum": ["a", "b", "c"], "inclusion": [0.5, 0.5, 0.5]},
        "column 'stratum': row 2 is blank": {"stratum": ["a", None, "c"]},
        "column 'inclusion': row 3 is blank": {"inclusion": [0.5, 0.5, None]},
        "column 'inclusion': row 1 is 0;": {"inclusion": [0.0, 0.5, 0.5]},
        "column 'inclusion': row 2 is 1.5;": {"inclusion": [0.1, 1.5, 0.5]},
        "column 'inclusion': row 3 is nan;": {"inclusion": [0.1, 0.5, float("nan")]},
        "column 'inclusion': probabilities are expected": {"inclusion": ["a", "b", "c"]},
    }
    for message, columns in bad.items():
        wrong = labels
        for name, values in columns.items():
            wrong = wrong.append_column(name, pa.array(values))
        with pytest.raises(InputError, match=message):
            fit(wrong)
    many = table([(1, 0, 1)] * 201).append_column("stratum", pa.array([str(index) for index in range(201)]))
    with pytest.raises(InputError, match="'stratum' has 201 different values; at most 200"):
        fit(many)


def test_many_inclusion_probabilities_are_cut_into_ten_groups() -> None:
    chances = np.linspace(0.05, 1.0, 400)
    counts = patterns(table([(1, 0, None), (None, 0, None)] * 200).append_column("inclusion", pa.array(chances)), [])
    strata = pc.unique(counts["stratum"]).to_pylist()
    assert len(strata) == 10
    sizes = counts.group_by("stratum").aggregate([("n", "sum")])["n_sum"].to_pylist()
    assert max(sizes) - min(sizes) <= 1
    assert counts["stands_for"].to_pylist() == [float(n) for n in counts["n"].to_pylist()]  # all items are in the table


CALIBRATION: Sequence[Row] = [(1, 0, 1, 1)] * 9 + [(1, 1, None, 0)] * 4 + [(0, 0, 0, 0)] * 8 + [(0, 1, None, 1)] * 3
SAMPLE: Sequence[Row] = [(1, 0, 1, None), (0, 1, None, None), (0, 0, 1, None), (1, 0, 0, None)] * 5


@pytest.mark.parametrize("model", ["panel", "independent"])
def test_calibration_rows_inform_the_judge_only(model: str) -> None:
    use = pa.array([None] * len(SAMPLE) + ["calibration"] * len(CALIBRATION), pa.string())
    result = fit(table([*SAMPLE, *CALIBRATION], ("r@x",)).append_column("use", use), judge_model=model)
    assert result.status.status == "ok", result.status.reason
    assert result.items == 20
    assert f"{len(CALIBRATION)} rows inform the judges' rates only" in result.notes
    exact = exact_moments(exact_posterior([row[:3] for row in SAMPLE], Prior()))
    for name in ("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]", "p_g", "finite[p_g]"):
        row, (mean, sd) = row_of(result, name), exact[name]
        if sd < 1e-7:
            assert row["mean"] == pytest.approx(mean)
            continue
        assert abs(row["mean"] - mean) < 4 * row["mcse"], name
        assert row["sd"] == pytest.approx(sd, rel=0.07), name
    if model == "independent":
        judge = exact_moments(exact_posterior(CALIBRATION, Prior(), "r@x", "independent"))
        for name in ("tpr[r@x]", "fpr[r@x]"):
            assert abs(row_of(result, name)["mean"] - judge[name][0]) < 4 * row_of(result, name)["mcse"], name
        return
    # A panel's tpr: the rate in each state, Beta(1.3, .7) with its verdicts, put together by the sample's states.
    alpha, tau = exact["alpha[1]"][0], exact["tau[1]"][0]
    tpr = alpha * 1.3 / 6 + (1 - alpha) * (tau * 10.3 / 11 + (1 - tau) * 1.3 / 2)
    assert abs(row_of(result, "tpr[r@x]")["mean"] - tpr) < 4 * row_of(result, "tpr[r@x]")["mcse"]


def test_as_ordinary_rows_they_would_inform_rho() -> None:
    labels = table([*SAMPLE, *[(1, None, None, 1)] * 50], ("r@x",))
    use = pa.array([""] * len(SAMPLE) + ["calibration"] * 50)
    marked = row_of(fit(labels.append_column("use", use), engine=QUICK), "rho")
    plain = row_of(fit(labels, engine=QUICK), "rho")
    assert abs(marked["mean"] - 0.5) < 4 * marked["mcse"]
    assert plain["mean"] > 0.75


def test_a_use_that_does_not_exist_is_refused() -> None:
    labels = table([(1, 0, 1)] * 2).append_column("use", pa.array(["fit", "calibrate"]))
    with pytest.raises(InputError, match=r"column 'use' holds 'calibrate' \(did you mean 'calibration'"):
        fit(labels)


def test_failed_rows_are_as_if_they_were_not_there_and_counted() -> None:
    rows: Sequence[Row] = [(1, 0, 1, 1), (0, 1, None, None), (1, 0, 0, 0), (None, 0, None, 1)] * 10
    failed: Sequence[Row] = [(1, None, None, 1), (None, None, None, None)] * 5
    errors = pa.array([None] * len(rows) + ["out of memory"] * len(failed), pa.string())
    result = fit(table([*rows, *failed], ("t@x",)).append_column("error", errors), engine=SMALL)
    without = fit(table(rows, ("t@x",)), engine=SMALL)
    assert result.draws.equals(without.draws)
    assert result.items == len(rows)
    counted = result.patterns.filter(pc.equal(result.patterns["use"], "failed"))
    assert pc.sum(counted["n"]).as_py() == len(failed)
    both = table([*rows, *failed], ("t@x",)).append_column("error", errors)
    use = pa.array(["calibration"] * (len(rows) + len(failed)))
    assert (
        pc.sum(patterns(both.append_column("use", use), ["t@x"]).filter(pc.field("use") == "failed")["n"]).as_py() == 10
    )


def _chosen_by(source: str, labelled_where: int) -> pa.Table:
    """r and t labelled on four in five items where the source says so, on one in five of the others."""
    rng = np.random.default_rng(2)
    rows: list[Row] = []
    for r, a, t in simulate(600, 3, 0.6, (0.4, 0.2), (0.3, 0.8)).tolist():
        said = int(rng.random() < 0.5)
        known = rng.random() < (0.8 if said == labelled_where else 0.2)
        rows.append((r if known else None, a, t if known and a == 0 else None, said))
    return table(rows, (source,))


def test_labels_chosen_by_a_source_outside_the_fit_are_told() -> None:
    labels = _chosen_by("t@gpt4", 1)
    said = coverage_warnings(labels, [])
    assert len(said) == 3  # r where a = 0 and where a = 1, t where a = 0
    assert said[0].startswith("WARNING: r is labelled on 20% of the answered items where t@gpt4 is 0 and on 81% where")
    assert all("t@gpt4 is not in the fit" in one for one in said)
    assert coverage_warnings(labels, ["t@gpt4"]) == []
    assert [note for note in fit(labels, judges=[], engine=SMALL).notes if "WARNING" in note] == said
    assert not [note for note in fit(labels, engine=SMALL).notes if "WARNING" in note]


def test_labels_chosen_at_random_or_by_a_raise_no_alarm() -> None:
    rng = np.random.default_rng(400)
    states = simulate(600, 4, 0.6, (0.7, 0.1), (0.3, 0.8)).tolist()
    for chance in ((1.0, 1.0), (0.5, 0.5), (0.2, 0.9)):  # of a label where a = 0, and where a = 1
        known = rng.random(600) < [chance[a] for _, a, _ in states]
        rows: list[Row] = [
            (r if k else None, a, t if k and a == 0 else None, a, r, int(rng.random() < 0.5))
            for (r, a, t), k in zip(states, known, strict=True)
        ]
        # a@rule is a, which is in the fit; r@right goes with a, but says no more about the choice.
        assert coverage_warnings(table(rows, ("a@rule", "r@right", "r@noise")), []) == [], chance


def test_a_stratum_in_the_fit_explains_the_choice() -> None:
    """Labels were chosen by the kind of question; a judge outside the fit goes with the kind."""
    rows, kinds, chosen = _two_kinds(1)
    rng = np.random.default_rng(3)
    judged = [
        (*row, int(rng.random() < (0.9 if kind == "hard" else 0.1)))
        for row, kind in zip(_hide(rows, chosen), kinds, strict=True)
    ]
    labels = table(judged, ("t@x",))
    assert coverage_warnings(labels, []) != []
    assert coverage_warnings(labels.append_column("stratum", pa.array(kinds)), []) == []
