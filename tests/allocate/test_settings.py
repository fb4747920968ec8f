"""Settings and the list of fits: what is refused, and what is planned."""

from __future__ import annotations

import dataclasses

import pytest
import yaml

from rat_ray.allocate import TASKS, AllocationSettings, Costs, SimulationSettings, tasks
from rat_ray.allocate.population import targets_of_truth
from rat_ray.allocate.simulated import check_simulation
from rat_ray.errors import InputError
from rat_ray.settings import build, conf_dir


def conf(group: str, choice: str) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((conf_dir() / group / f"{choice}.yaml").read_text())
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strategies": ["all_r", "jiont"]}, "did you mean 'joint'"),
        ({"strategies": []}, "at least one"),
        ({"strategies": ["joint", "joint"]}, "twice"),
        ({"strategies": ["mixed-1.5"]}, "between 0 and 1"),
        ({"quantities": ["p_gg"]}, "did you mean 'p_g'"),
        ({"base": -1}, "allocation.base=-1"),
        ({"replicates": 0}, "allocation.replicates=0"),
        ({"draws": 10}, "allocation.draws=10"),
        ({"engine": "importanec"}, "did you mean 'importance'"),
        ({"resampling": "bootstrp"}, "did you mean 'bootstrap'"),
        ({"resampling": "simulated"}, "allocation.resampling=simulated"),
        ({"check_share": 1.5}, "allocation.check_share=1.5"),
        ({"budgets": []}, "allocation.budgets"),
        ({"budgets": [10, -5]}, "-5"),
        ({"budgets": [10, float("nan")]}, "nan"),
        ({"budgets": [10, 10]}, "distinct"),
        ({"cost": Costs(r=0.0)}, r"allocation\.cost\.r=0\.0"),
        ({"cost": Costs(t=float("nan"))}, r"allocation\.cost\.t=nan"),
        ({"cost": Costs(t=-1)}, r"allocation\.cost\.t=-1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(AllocationSettings(), **change).validate()


def test_small_names_every_setting() -> None:
    data = conf("allocation", "small")
    assert set(data) == {field.name for field in dataclasses.fields(AllocationSettings)}
    assert build(AllocationSettings, data, "allocation").base == 20
    assert not build(AllocationSettings, conf("allocation", "none"), "allocation").enabled


def test_tasks_are_every_cell_once() -> None:
    settings = AllocationSettings(budgets=[5, 10], replicates=4)
    planned = tasks(settings, "mine")
    assert planned.schema == TASKS
    cells = {tuple(row.values()) for row in planned.to_pylist()}
    assert cells == {("mine", s, b, i) for s in settings.strategies for b in (5, 10) for i in range(4)}
    assert planned.num_rows == len(cells)
    assert planned.column("replicate").to_pylist() == sorted(planned.column("replicate").to_pylist())
    assert tasks(settings, "mine", [2]).equals(planned.filter(planned.column("replicate").to_numpy() == 2))


@pytest.mark.parametrize(("system", "p_g"), [("apertus_8b", 0.164), ("gemma3_12b", 0.414), ("qwen3_5_9b", 0.496)])
def test_the_simulated_systems_have_the_papers_figures(system: str, p_g: float) -> None:
    paper = build(SimulationSettings, conf("simulation", "paper"), "simulation")
    found = targets_of_truth(paper.systems[system], ["p_g", "p_t"])
    assert found == pytest.approx({"p_g": p_g, "p_t": 0.24}, abs=5e-4)


def test_simulations_that_cannot_be_run_are_refused() -> None:
    paper = build(SimulationSettings, conf("simulation", "paper"), "simulation")
    study = AllocationSettings(budgets=[100, 200])
    assert check_simulation(study, paper) == []
    with pytest.raises(InputError, match="did you mean 'gemma3_12b'"):
        check_simulation(dataclasses.replace(study, configurations=["gemma_12b"]), paper)
    with pytest.raises(InputError, match=r"'apertus_8b', strategy all_r, budget 951: .* cost 950"):
        check_simulation(dataclasses.replace(study, budgets=[951]), paper)
    with pytest.raises(InputError, match=r"simulation\.items=1000"):
        check_simulation(dataclasses.replace(study, base=1001), paper)
    with pytest.raises(InputError, match="draws its items anew already"):
        check_simulation(dataclasses.replace(study, resampling="bootstrap"), paper)
    with pytest.raises(InputError, match=r"base=0 with strategy all_r"):
        check_simulation(dataclasses.replace(study, base=0), paper)
    silent = dataclasses.replace(paper.systems["gemma3_12b"], alpha0=1.0, alpha1=1.0)
    with pytest.raises(InputError, match="answers nothing"):
        check_simulation(study, SimulationSettings(items=100, systems={"silent": silent}))
    with pytest.raises(InputError, match=r"simulation\.systems\.odd: rho=1\.5"):
        build(
            SimulationSettings,
            {"systems": {"odd": {**conf("simulation", "paper")["systems"]["apertus_8b"], "rho": 1.5}}},
            "simulation",
        )  # type: ignore[index]
    with pytest.raises(InputError, match="name at least one"):
        build(SimulationSettings, {"systems": {}}, "simulation")
