"""Posterior predictive checks: a wrong model of the judges shows, selective labelling does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow.compute as pc
import pytest

from rat_ray.model import EngineSettings, Fit, fit, patterns
from rat_ray.model.cells import LABELS, VERDICTS, cells_of
from rat_ray.model.checks import OVERALL
from rat_ray.model.patterns import judges_of, to_code
from tests.model.tables import Row, simulate, table

QUICK = EngineSettings(chains=2, samples=500)
JUDGES = ("t@x", "t@y")
CLEAR = 0.02  # no test of ours may come closer by chance; a wrong model is far below


def _rows(items: int, labelled: Callable[[int, tuple[int, ...], float], bool], shared: float, seed: int) -> list[Row]:
    """Two judges of T, wrong on three items in ten; with probability `shared` on the same ones.

    labelled: of a, the verdicts, and a uniform number.
    """
    rng = np.random.default_rng([seed, 77])
    rows: list[Row] = []
    for r, a, t in simulate(items, seed, 0.6, (0.5, 0.15), (0.2, 0.75)).tolist():
        together = rng.random() < 0.3
        verdicts = [
            int(t != (together if rng.random() < shared else rng.random() < 0.3)) if a == 0 else None for _ in JUDGES
        ]
        known = labelled(a, tuple(-1 if v is None else v for v in verdicts), rng.random())
        rows.append((r if known else None, a, t if known and a == 0 else None, *verdicts))
    return rows


def _half(a: int, verdicts: tuple[int, ...], chance: float) -> bool:
    return chance < 0.5


def _overall(result: Fit) -> dict[str, float]:
    rows = result.checks.filter(pc.equal(result.checks["pattern"], OVERALL)).to_pylist()
    return {row["part"]: row["tail"] for row in rows}


def test_shared_errors_show_where_judges_are_said_to_be_independent() -> None:
    rows = _rows(1500, _half, 0.8, 1)
    wrong = _overall(fit(table(rows, JUDGES), judge_model="independent", engine=QUICK))
    assert min(wrong.values()) < 0.005
    right = _overall(fit(table(rows, JUDGES), engine=QUICK))
    assert set(right) == {LABELS, VERDICTS}
    assert min(right.values()) > CLEAR


@pytest.mark.parametrize("model", ["panel", "independent"])
@pytest.mark.parametrize("seed", [1, 2])
def test_data_from_the_model_raise_no_alarm(model: str, seed: int) -> None:
    result = fit(table(_rows(800, _half, 0.0, seed), JUDGES), judge_model=model, engine=QUICK)
    assert min(_overall(result).values()) > CLEAR
    cells = result.checks.filter(pc.not_equal(result.checks["pattern"], OVERALL))
    tails = cells["tail"].to_numpy()
    assert (tails < 0.01).sum() <= 2
    inside = (cells["observed"].to_numpy() >= cells["q2.5"].to_numpy()) & (
        cells["observed"].to_numpy() <= cells["q97.5"].to_numpy()
    )
    assert inside.mean() > 0.9


@pytest.mark.parametrize(
    "labelled",
    [
        pytest.param(lambda a, verdicts, chance: chance < (0.9 if a else 0.1), id="by a"),
        pytest.param(lambda a, verdicts, chance: chance < (0.9 if verdicts[0] == 1 else 0.1), id="by a verdict"),
        pytest.param(lambda a, verdicts, chance: verdicts[0] != verdicts[1] or chance < 0.1, id="by disagreement"),
        pytest.param(lambda a, verdicts, chance: a == 0 and chance < 0.3, id="answered items only"),
    ],
)
def test_selection_by_what_is_in_the_fit_raises_no_alarm(labelled: Callable[..., bool]) -> None:
    for model in ("panel", "independent"):
        result = fit(table(_rows(800, labelled, 0.0, 3), JUDGES), judge_model=model, engine=QUICK)
        assert min(_overall(result).values()) > CLEAR, model


def test_a_sure_wrong_prior_shows() -> None:
    from rat_ray.model import Prior

    rows: Sequence[Row] = [(1, 0, 1)] * 40 + [(1, 0, 0)] * 60 + [(0, 1, None)] * 30
    result = fit(table(rows), prior=Prior(tau1=(9e4, 1e4)), engine=QUICK)
    assert _overall(result)[LABELS] < 0.005
    rows_ = result.checks.to_pylist()
    right = next(row for row in rows_ if row["pattern"] == "r=1 a=0 t=1")
    assert right["observed"] == 40
    assert right["mean"] > 80
    assert right["tail"] < 0.005


def test_cells_are_blocks_of_what_was_asked_for() -> None:
    """Every item falls into exactly one cell of each part where more than one outcome was possible."""
    rows: Sequence[Row] = [
        *[(1, 0, 1, 1, 0)] * 3,
        *[(0, 0, 0, 1, 0)] * 2,
        *[(None, 0, None, 1, 0)] * 7,
        *[(1, 1, None, None, None)] * 4,
        *[(None, 1, None, None, None)] * 5,
    ]
    counts = patterns(table(rows, JUDGES), list(JUDGES))
    cells = cells_of(to_code(counts), judges_of(counts))
    n = {part: sum(m for m, p in zip(cells.n.tolist(), cells.part, strict=True) if p == part) for part in cells.part}
    assert n == {LABELS: 3 + 2 + 4, VERDICTS: 3 + 2 + 7}  # labelled items; judged ones
    assert len(cells.n) == 4 + 2 + 4  # r and t of the answers with these verdicts; r of abstentions; two verdicts
    for (first, last), total in zip(cells.blocks.tolist(), cells.block_n.tolist(), strict=True):
        assert cells.n[first:last].sum() == total
    result = fit(counts, engine=QUICK)
    replicated = np.stack([result.draws[f"n_rep[{i}]"].to_numpy() for i in range(len(cells.n))], axis=1)
    for (first, last), total in zip(cells.blocks.tolist(), cells.block_n.tolist(), strict=True):
        assert (replicated[:, first:last].sum(axis=1) == total).all()


def test_without_anything_asked_for_there_is_nothing_to_check() -> None:
    result = fit(table([(None, 0, None), (None, 1, None)] * 10), engine=QUICK)
    assert result.checks.num_rows == 0
