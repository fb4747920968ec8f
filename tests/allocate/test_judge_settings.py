"""Settings and tables that a judge study refuses, and the tasks of those that it takes."""

from __future__ import annotations

import dataclasses
import logging

import pyarrow as pa
import pytest

from rat_ray.allocate.judge_population import order_of, read_items
from rat_ray.allocate.judge_settings import JudgeStudySettings, PlantedJudge
from rat_ray.allocate.judge_study import Plan, plan
from rat_ray.errors import InputError
from rat_ray.model import Prior
from rat_ray.settings import build, conf_dir
from rat_ray.tables import LABEL
from tests.allocate.planted import CONFIG, TRUSTED, planted, with_column

BARE = planted(60)
JUDGED = BARE.append_column(pa.field("t@gpt4", LABEL), BARE.column("t@match")).append_column(
    pa.field("r@gpt4", LABEL), BARE.column("r@evidence")
)
STUDY = JudgeStudySettings(trusted_labels=[10, 20], replicates=2)


def plan_on(table: pa.Table, **changes: object) -> Plan:
    return plan(table, dataclasses.replace(STUDY, **changes), TRUSTED, CONFIG, Prior(), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["none", "small", "paper"])
def test_the_packaged_settings_are_valid(name: str) -> None:
    import yaml

    text = (conf_dir() / "judge_study" / f"{name}.yaml").read_text(encoding="utf-8")
    assert build(JudgeStudySettings, yaml.safe_load(text), "judge_study").enabled == (name != "none")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"judge_models": ["pannel"]}, r"'pannel' is unknown \(did you mean 'panel'\?\)"),
        ({"judge_models": []}, "name panel or independent"),
        ({"judges": ["gpt4"]}, "named after what it labels"),
        ({"judge_labels": ["al"]}, r"judge_labels: 'al' is no number of labels \(did you mean 'all'\?\)"),
        ({"judge_labels": []}, r"judge_labels=\[\]: give numbers"),
        ({"trusted_labels": [-1]}, "trusted_labels: -1 labels: at least 0"),
        ({"trusted_labels": [5, 5]}, "a number occurs twice"),
        ({"replicates": 0}, "replicates=0: at least 1"),
        ({"engine": "stanly"}, r"did you mean 'stanli'"),
        ({"planted": {"x": {"variable": "t", "tpr": 1.2, "fpr": 0.1}}}, r"judge_study.planted.x: tpr=1.2: a rate"),
        ({"planted": {"x": {"variable": "a", "tpr": 0.9, "fpr": 0.1}}}, "a planted judge labels one of r, t"),
        ({"planted": {"t@x": {"variable": "t", "tpr": 0.9, "fpr": 0.1}}}, "'t@x' is no name for a judge"),
        ({"trusted": [5]}, "trusted: no such setting"),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(JudgeStudySettings, changes, "judge_study")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"judges": ["t@gpt"]}, r"there is no column 't@gpt' \(did you mean 't@gpt4'\?\); judges: t@gpt4, r@gpt4"),
        ({"judges": ["t@match"]}, "t@match is a trusted source, so it cannot be a judge as well; judges here: t@gpt4"),
        (
            {"trusted_labels": [61]},
            "trusted_labels=61, but only 60 items have complete labels; ask for less, or for all",
        ),
        ({"alone_labels": [100]}, "alone_labels=100, but only 60"),
        ({"judge_labels": [60]}, "judge_labels=60, but only [0-9]+ have t@gpt4"),
        ({"planted": {"gpt4": PlantedJudge("t", 0.9, 0.1)}}, "would be the column 't@gpt4', which is there"),
    ],
)
def test_a_table_that_does_not_fit(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_on(JUDGED, **changes)


def test_a_table_without_a_judge_says_what_is_there() -> None:
    message = r"no column of the table is a judge \(source columns: r@evidence, a@phrase, t@match; trusted: a@phrase"
    with pytest.raises(InputError, match=message):
        plan_on(BARE)


def test_a_judge_of_a_has_nothing_to_add() -> None:
    table = JUDGED.append_column(pa.field("a@gpt4", LABEL), JUDGED.column("a@phrase"))
    with pytest.raises(InputError, match="a@gpt4 judges A, which a study takes as known everywhere"):
        plan_on(table, judges=["a@gpt4"])
    assert plan_on(table).settings.judges == ["t@gpt4", "r@gpt4"]


def test_a_judge_without_verdicts_and_labels_that_are_missing() -> None:
    nothing: list[int | None] = [None] * 60
    with pytest.raises(InputError, match="t@gpt4 has no verdict"):
        plan_on(with_column(JUDGED, "t@gpt4", nothing))
    with pytest.raises(InputError, match="A must be known"):
        plan_on(with_column(JUDGED, "a@phrase", nothing))
    with pytest.raises(InputError, match=r"no trusted label of R or T at all \(r@evidence, t@match\)"):
        plan_on(with_column(with_column(JUDGED, "r@evidence", nothing), "t@match", nothing))


def test_a_planted_judge_that_is_worse_than_chance_is_odd() -> None:
    planned = plan_on(BARE, planted={"liar": PlantedJudge("t", 0.2, 0.6), "fine": PlantedJudge("t", 0.6, 0.2)})
    assert [text.split(":")[0] for text in planned.warnings] == ["judge_study.planted.liar"]


def test_the_tasks_are_the_grid_and_a_replicate_stands_together() -> None:
    planned = plan_on(JUDGED, together=True, judge_labels=[5, "all"], alone_labels=["all"], judge_models=["panel"])
    tasks = planned.tasks.to_pylist()
    assert [task["replicate"] for task in tasks] == sorted(task["replicate"] for task in tasks)
    answered = sum(label is not None for label in JUDGED.column("t@gpt4").to_pylist())
    first = {tuple(task.values())[1:5] for task in tasks if task["replicate"] == 0}
    most = {"t@gpt4": answered, "r@gpt4": 60, "t@gpt4+r@gpt4": 60}
    expected = {(j, "panel", n, k) for j, all_ in most.items() for n in (0, 5, all_) for k in (10, 20)}
    assert first == expected | {(j, "panel", 0, 60) for j in most}
    assert len(tasks) == 2 * len(first)


def test_verdicts_are_of_answered_items_and_planted_ones_depend_on_names() -> None:
    judges = {"x": PlantedJudge("t", 0.9, 0.2)}
    items = read_items(JUDGED, TRUSTED, ["t@gpt4", "t@x"], judges, 1, CONFIG)
    assert set(items.verdicts["t@x"][items.labels[:, 1] == 1].tolist()) == {2}
    assert set(items.verdicts["t@x"][items.labels[:, 1] == 0].tolist()) == {0, 1}
    half = read_items(JUDGED.slice(30), TRUSTED, ["t@gpt4", "t@x"], judges, 1, CONFIG)
    assert half.verdicts["t@x"].tolist() == items.verdicts["t@x"][30:].tolist()
    other = read_items(JUDGED, TRUSTED, ["t@gpt4", "t@x"], judges, 2, CONFIG)
    assert other.verdicts["t@x"].tolist() != items.verdicts["t@x"].tolist()


def test_a_label_of_t_on_an_abstention_is_set_aside() -> None:
    everywhere: list[int | None] = [1] * 60
    items = read_items(with_column(JUDGED, "t@match", everywhere), TRUSTED, ["t@gpt4"], {}, 1, CONFIG)
    assert set(items.labels[items.labels[:, 1] == 1, 2].tolist()) == {2}
    assert set(items.labels[items.labels[:, 1] == 0, 2].tolist()) == {1}


def test_rows_with_an_error_are_no_items(caplog: pytest.LogCaptureFixture) -> None:
    errors: list[str | None] = ["timeout"] * 20 + [None] * 40
    with caplog.at_level(logging.WARNING):
        assert read_items(with_column(JUDGED, "error", errors), TRUSTED, ["t@gpt4"], {}, 1, CONFIG).size == 40


def test_orders_are_nested_and_of_what_was_chosen() -> None:
    import numpy as np

    ids = [f"q{index}" for index in range(30)]
    whole = order_of(ids, np.arange(30), 1, "judged", "c", "t@x", 0).tolist()
    part = order_of(ids, np.arange(10, 30), 1, "judged", "c", "t@x", 0).tolist()
    assert sorted(whole) == list(range(30))
    assert [index for index in whole if index >= 10] == part
