"""Settings and the list of fits: what is refused, and what is planned."""

from __future__ import annotations

import dataclasses

import pytest
import yaml

from rat_ray.allocate import STRATEGIES, TASKS, AllocationSettings, tasks
from rat_ray.errors import InputError
from rat_ray.settings import build, conf_dir


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strategies": ["all_r", "jiont"]}, "did you mean 'joint'"),
        ({"strategies": []}, "at least one"),
        ({"strategies": ["joint", "joint"]}, "twice"),
        ({"quantities": ["p_gg"]}, "did you mean 'p_g'"),
        ({"base": 0}, "allocation.base=0"),
        ({"replicates": 0}, "allocation.replicates=0"),
        ({"chains": 0}, "allocation.chains=0"),
        ({"samples": 3}, "allocation.samples=3"),
        ({"budgets": []}, "allocation.budgets"),
        ({"budgets": [10, -5]}, "-5"),
        ({"budgets": [10, 10]}, "distinct"),
        ({"cost_r": 0.0}, "allocation.cost_r=0.0"),
        ({"cost_t": float("nan")}, "allocation.cost_t=nan"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(AllocationSettings(), **change).validate()


@pytest.mark.parametrize(("choice", "enabled"), [("none", False), ("small", True)])
def test_conf_holds_the_defaults(choice: str, enabled: bool) -> None:
    data = yaml.safe_load((conf_dir() / "allocation" / f"{choice}.yaml").read_text())
    assert build(AllocationSettings, data, "allocation") == AllocationSettings(enabled=enabled)


def test_small_names_every_setting() -> None:
    data = yaml.safe_load((conf_dir() / "allocation" / "small.yaml").read_text())
    assert set(data) == {field.name for field in dataclasses.fields(AllocationSettings)}


def test_tasks_are_every_cell_once() -> None:
    settings = AllocationSettings(budgets=[5, 10], replicates=4)
    planned = tasks(settings, "mine")
    assert planned.schema == TASKS
    cells = {tuple(row.values()) for row in planned.to_pylist()}
    assert cells == {("mine", s, b, i) for s in STRATEGIES for b in (5, 10) for i in range(4)}
    assert planned.num_rows == len(cells)
