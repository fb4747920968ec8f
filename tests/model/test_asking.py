"""Labels asked for because of other labels: a valid fit, and no false alarm from what does not allow for it."""

from __future__ import annotations

import numpy as np
import pytest

from rat_ray.model import fit
from rat_ray.model.asking import chosen_by_the_other
from rat_ray.model.checks import OVERALL
from rat_ray.model.engines import EngineSettings
from rat_ray.model.patterns import patterns
from rat_ray.model.ppi import prediction_powered
from tests.allocate.planned import states, table

FULL = states("abstainer", 600, 5)
R, A, T = FULL.T
BASE = np.arange(len(FULL)) < 50
SOME = np.arange(len(FULL)) < 300
ANSWERED = A == 0
WAYS = {
    "joint": (SOME, SOME, ()),
    "all_r": (SOME, BASE, ()),
    "all_t": (BASE, SOME, ()),
    "t_first": (BASE | (SOME & (T == 1)) | (SOME & ~ANSWERED), SOME, ("r",)),
    "r_first": (SOME, BASE | (SOME & (R == 1)), ("t",)),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_seen_whether_one_label_decided_about_the_other(way: str) -> None:
    r, t, said = WAYS[way]
    counts = patterns(table(FULL, r, t), [])
    assert chosen_by_the_other(counts) == said
    good = prediction_powered(counts, "p_g")
    assert (good is None) == bool(said)
    assert (prediction_powered(counts, "p_t") is None) == ("t" in said)


def test_a_choice_by_verdicts_is_none_by_the_other_label() -> None:
    """T is asked for where a judge says so, and the judge tends to be right of R."""
    rng = np.random.default_rng(1)
    verdict = np.where(rng.random(len(FULL)) < 0.9, R, 1 - R).astype(np.int8)
    rows = table(FULL, SOME, SOME & (verdict == 1)).append_column("r@judge", [verdict])
    assert chosen_by_the_other(patterns(rows, ["r@judge"])) == ()
    assert chosen_by_the_other(patterns(rows.drop_columns(["r@judge"]), [])) == ("t",)


def test_a_fit_of_adaptive_labels_says_so_and_raises_no_false_alarm() -> None:
    r, t, _ = WAYS["r_first"]
    made = fit(table(FULL, r, t), engine=EngineSettings(kind="importance", chains=2, samples=500))
    assert any("t is labelled on some items because of their r" in note for note in made.notes)
    assert OVERALL not in made.checks.column("pattern").to_pylist()
    assert made.summary.column("ppi_disagrees").null_count == made.summary.num_rows
