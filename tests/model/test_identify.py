"""What can be known from the patterns present."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rat_ray.model import identify, patterns
from rat_ray.model.design import Options
from rat_ray.model.identify import Identification
from tests.model.tables import Row, table

COMPLETE: Sequence[Row] = (
    [(1, 0, 1)] * 40 + [(1, 0, 0)] * 10 + [(1, 1, None)] * 10 + [(0, 0, 1)] * 5 + [(0, 0, 0)] * 15 + [(0, 1, None)] * 20
)


def _identify(rows: Sequence[Row], judges: tuple[str, ...] = (), model: str = "panel") -> Identification:
    return identify(patterns(table(rows, judges), judges), Options(judge_model=model))


def _status(found: Identification) -> dict[str, str]:
    return {name: known.identified for name, known in found.known.items()}


def test_complete_labels_identify_everything() -> None:
    found = _identify(COMPLETE)
    assert (found.rank, found.parameters) == (5, 5)
    assert set(_status(found).values()) == {"identified"}
    assert all(known.low is None and known.high is None for known in found.known.values())


def test_only_a() -> None:
    found = _identify([(None, a, None) for _, a, _ in COMPLETE])
    assert found.rank == 1
    status = _status(found)
    assert status["p_a"] == "identified"
    assert status["rho"] == status["tau[0]"] == status["tau[1]"] == status["p_g"] == "prior only"
    assert status["p_t"] == "bounded"
    assert found.known["p_t"].low == pytest.approx(0.0, abs=1e-6)
    assert found.known["p_t"].high == pytest.approx(0.7, abs=1e-6)  # at most every answer


def test_r_and_t_on_different_items() -> None:
    rows = [(r, a, None) for r, a, _ in COMPLETE] + [(None, a, t) for _, a, t in COMPLETE]
    found = _identify(rows)
    assert found.rank == 4
    status = _status(found)
    assert all(status[name] == "identified" for name in ("rho", "alpha[0]", "alpha[1]", "p_t", "p_a", "accuracy"))
    assert status["tau[0]"] == "prior only"  # of the .2 answered at R=0, none or all may be right
    tau = found.known["tau[1]"]
    assert tau.identified == "bounded"
    assert tau.low == pytest.approx(0.5, abs=1e-5)
    assert tau.high == pytest.approx(0.9, abs=1e-5)
    p_g = found.known["p_g"]
    assert p_g.identified == "bounded"
    # R=0 and abstained .20; R=1 and answered .5; R=0 and answered .2; right .45: between .25 and .45 of them at R=1.
    assert p_g.low == pytest.approx(0.45, abs=1e-5)
    assert p_g.high == pytest.approx(0.65, abs=1e-5)


def test_labels_on_answered_items_only_leave_p_g_open() -> None:
    found = _identify([(r if a == 0 else None, a, t) for r, a, t in COMPLETE])
    assert found.rank == 4
    p_g = found.known["p_g"]
    assert p_g.identified == "bounded"
    assert p_g.low == pytest.approx(0.4, abs=1e-5)
    assert p_g.high == pytest.approx(0.7, abs=1e-5)
    assert _status(found)["tau[0]"] == "identified"


def test_labels_on_half_of_the_answered_items_weigh_by_what_they_stand_for() -> None:
    rows = [(r if a == 0 and i % 2 else None, a, t if i % 2 else None) for i, (r, a, t) in enumerate(COMPLETE)]
    found = _identify(rows)
    p_g = found.known["p_g"]
    assert p_g.identified == "bounded"
    assert p_g.high is not None
    assert p_g.low is not None
    assert p_g.high - p_g.low == pytest.approx(0.3, abs=1e-4)  # the share of abstentions, not of unlabelled items


def test_what_never_occurs_has_only_its_prior() -> None:
    status = _status(_identify([row for row in COMPLETE if row[0] == 1]))
    assert status["rho"] == status["alpha[1]"] == status["tau[1]"] == status["p_g"] == "identified"
    assert status["alpha[0]"] == status["tau[0]"] == status["guess"] == "prior only"


def test_one_item_tells_about_what_it_is() -> None:
    status = _status(_identify([(1, 0, 1)]))
    assert status["rho"] == status["alpha[1]"] == status["tau[1]"] == status["p_g"] == "identified"
    assert status["alpha[0]"] == "prior only"


def test_nothing_labelled() -> None:
    found = _identify([(None, None, None)])
    assert found.rank == 0
    assert set(_status(found).values()) == {"prior only"}


def test_a_calibrated_judge_identifies_what_was_not_labelled_otherwise() -> None:
    calibration: Sequence[Row] = [(r, None, None, v) for r in (0, 1) for v in (0, 1)] * 10
    verdicts: Sequence[Row] = [(None, a, t, v) for _, a, t in COMPLETE for v in (0, 1)]
    with_judge = _identify([*calibration, *verdicts], ("r@x",), "independent")
    assert _status(with_judge)["p_g"] == _status(with_judge)["tau[0]"] == "identified"
    assert (with_judge.rank, with_judge.parameters) == (7, 7)
    # A panel allows that the judge errs otherwise on answers than on abstentions: calibration by r alone is too little.
    panel = _identify([*calibration, *verdicts], ("r@x",))
    assert _status(panel)["p_g"] == "bounded"
    without = _identify([row[:3] for row in [*calibration, *verdicts]])
    assert _status(without)["p_g"] == "bounded"


def test_complete_labels_calibrate_a_panel() -> None:
    labelled: Sequence[Row] = [(*row, v) for row in COMPLETE for v in (0, 1)]
    rest: Sequence[Row] = [(None, row[1], None, v) for row in COMPLETE for v in (0, 1)]
    found = _identify([*labelled, *rest], ("r@x",))
    assert (found.rank, found.parameters) == (11, 11)  # a rate in each of the six states
    assert set(_status(found).values()) == {"identified"}


def test_an_uncalibrated_judge_of_r_identifies_neither_itself_nor_rho() -> None:
    rows: Sequence[Row] = [(None, None, None, v) for v in (0, 1)] * 10
    for model in ("panel", "independent"):
        found = _identify(rows, ("r@x",), model)
        assert found.rank == 1
        assert _status(found)["rho"] == _status(found)["tpr[r@x]"] == "prior only"


@pytest.mark.parametrize(("model", "parameters"), [("independent", 8), ("panel", 11)])
def test_a_rate_on_abstentions_of_its_own(model: str, parameters: int) -> None:
    rows: Sequence[Row] = [(*row, None if row[1] == 1 else 1) for row in COMPLETE]
    rows = [*rows, *([(1, None, None, 1), (1, None, None, 0)] * 5)]
    found = _identify(rows, ("t@x",), model)
    assert found.parameters == parameters
    if model == "independent":
        assert _status(found)["yes[t@x,a=1]"] == "identified"


def test_a_cell_that_happens_to_be_empty_does_not_hide_what_its_labels_say() -> None:
    """No labelled abstention with R = 1 among fifteen: that is what says that there are few."""
    labelled = [(1, 0, 1)] * 40 + [(1, 0, 0)] * 10 + [(0, 0, 1)] * 5 + [(0, 0, 0)] * 15 + [(0, 1, None)] * 15
    rest = [(None, a, None) for _, a, _ in COMPLETE]
    assert set(_status(_identify([*labelled, *rest])).values()) == {"identified"}
    judged: Sequence[Row] = [
        (*row, *(None if row[1] == 1 else v for v in (i % 2, i % 3 // 2))) for i, row in enumerate([*labelled, *rest])
    ]
    for model in ("panel", "independent"):
        status = _status(_identify(judged, ("t@x", "t@y"), model))
        assert {status[name] for name in ("rho", "p_g", "p_t", "alpha[1]", "tau[0]", "tpr[t@x]")} == {"identified"}


def test_words_say_why_and_what_follows() -> None:
    (p_g,) = _identify([(r if a == 0 else None, a, t) for r, a, t in COMPLETE]).words
    assert p_g == ("labels on answered items only: P(G=1) lies between 0.400 and 0.700 whatever the missing labels are")
    words = _identify([(None, a, None) for _, a, _ in COMPLETE]).words
    assert words[0] == "neither R nor T is labelled: the labels say nothing of P(G=1), what is shown is the prior"
    assert words[1].startswith("neither R nor T is labelled: P(T=1) lies between 0.000 and 0.700")
    assert _identify(COMPLETE).words == ()


def test_bounds_are_those_of_the_worst_completions() -> None:
    """P(G=1) with the missing labels filled in so that G is as seldom, or as often, 1 as can be."""
    found = _identify([(None if a == 0 else r, a, t) for r, a, t in COMPLETE]).known["p_g"]
    # G = 1: R = 0 and abstained (.2 of all); R = 1 and right: none or all of the .45 that are right.
    assert found.identified == "bounded"
    assert (found.low, found.high) == pytest.approx((0.2, 0.65), abs=1e-5)


def _by_verdict(labelled: int, others: int) -> Sequence[Row]:
    """All labelled where the judge says 1 or nothing unusual; `others` items with a verdict of 0, none labelled."""
    known: Sequence[Row] = [(*row, 1 if row[1] == 0 else None) for row in COMPLETE] * (labelled // len(COMPLETE))
    open_: Sequence[Row] = [(None, 0, None, 1)] * 300
    return [*known, *open_, *[(None, 0, None, 0)] * others]


def test_a_rare_verdict_of_which_nothing_was_labelled_by_chance_leaves_nothing_open() -> None:
    found = _identify(_by_verdict(100, 3), ("t@x",))
    assert found.known["p_g"].identified == "identified"
    assert not found.words


def test_a_verdict_whose_items_are_never_labelled_leaves_p_g_open() -> None:
    found = _identify(_by_verdict(100, 200), ("t@x",))
    assert found.known["p_g"].identified == "bounded"
    assert "P(G=1) lies between" in found.words[0]
