"""Independent judges: the coordinates of further rounds; and odd tables, which no engine may crash on."""

from __future__ import annotations

import numpy as np
import pytest

from rat_ray.model import Prior
from rat_ray.model.design import Design, Options, design_of
from rat_ray.model.estimate import Estimator
from rat_ray.model.importance.margins import from_margins, to_margins
from rat_ray.model.importance.structure import Builder, Structure
from rat_ray.model.importance.trees import tree_for
from rat_ray.model.patterns import MISSING, Code, resolve, to_code, to_table
from tests.model.study_tables import R_AND_T, code_of, study_table


def structure_of(code: Code, judges: tuple[str, ...]) -> Structure:
    options = Options("independent", finite=False, replicate=False)
    design: Design = design_of({"all": code}, list(judges), Prior(), options)
    data = design.data()
    return Builder(data, tree_for(data)).structure()


def test_margins_there_and_back_and_their_volume() -> None:
    """m and s give fpr and tpr back, and the log determinant is that of finite differences."""
    structure = structure_of(study_table(5003, R_AND_T), R_AND_T)
    u = np.random.default_rng(4).normal(0, 1.2, (structure.parameters, 40))
    w = to_margins(u, structure)
    assert not np.allclose(w, u, atol=0.05)
    back, log_det = from_margins(w, structure)
    assert back == pytest.approx(u, abs=1e-8)
    step = 1e-6
    for draw in range(5):
        columns = []
        for place in range(structure.parameters):
            moved = np.repeat(u[:, [draw]], 2, axis=1)
            moved[place] += [step, -step]
            found = to_margins(moved, structure)
            columns.append((found[:, 0] - found[:, 1]) / (2 * step))
        expected = np.linalg.slogdet(np.stack(columns, axis=1))[1]
        assert log_det[draw] == pytest.approx(expected, abs=1e-5)


def test_three_judges_of_t_where_r_was_never_observed() -> None:
    """Two readings of the verdicts fit alike: importance refuses, and the chains of NUTS stand apart."""
    labels = np.array([[2, 0, 1, 1, 1, 1], [2, 0, 0, 0, 0, 0], [2, 0, 2, 1, 1, 0], [2, 0, 2, 0, 0, 1]], dtype=np.int8)
    code = code_of(labels, np.array([20, 20, 300, 300]))
    found = Estimator(["p_t"], ["t@x", "t@y", "t@z"]).estimate(code, 1)
    assert (found.sampler, found.status == "fail", np.isnan(found.mean[0])) == ("nuts", True, True)


@pytest.mark.parametrize("number", range(4))
def test_odd_tables_have_an_estimate(number: int) -> None:
    """Random patterns, counts up to 10^9, calibration items, unobserved variables: importance or NUTS, no crash."""
    rng = np.random.default_rng([number, 20_262])
    judges = [f"{variable}@{place}" for place, variable in enumerate(rng.choice(list("rat"), number % 3))]
    labels = rng.integers(0, 3, (8, 3 + len(judges))).astype(np.int8)
    labels[:, rng.integers(0, 3)] = MISSING
    labels[(labels[:, 1] == 1) | ((labels[:, 1] == MISSING) & (labels[:, 2] == 0)), 2] = MISSING
    n = np.array([1, 0, 2, 5, 40, 300, 10**6, 10**9])
    use = np.array([0, 0, 0, 0, 0, 1, 0, 0], dtype=np.int32)
    code = Code(labels, use, np.zeros(8, dtype=np.int32), n, n.astype(float))
    code = to_code(to_table(resolve(code, judges), judges))
    for model in ("panel", "independent"):
        found = Estimator(["p_g", "p_a"], judges, model, finite=False).estimate(code, 1 + number)
        assert found.sampler in ("importance", "nuts")
        assert np.isfinite(found.mean).all() == (found.status != "fail")
