"""Worth and summary by hand; what the terminal and the figure show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rat_ray.allocate.judge_show import low_coverage, print_judges
from rat_ray.allocate.judge_summary import JUDGE_SUMMARY, summarise
from rat_ray.allocate.judge_worth import Worth, worth_of
from rat_ray.report.judge_figures import judge_figure
from rat_ray.tables import JUDGE_STUDY, check_table

ITEMS, SPREAD = 1000, 0.8


def ideal(labels: float) -> float:
    """The squared width of a share of which `labels` of ITEMS are known."""
    return SPREAD * (1 / (labels + 2) - 1 / (ITEMS + 2))


def length(worth: Worth) -> float:
    assert worth.low is not None
    assert worth.high is not None
    return worth.high - worth.low


def curve(noise: float = 0.0, replicates: int = 40) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(1)
    shared = 1 + noise * rng.standard_normal(replicates)
    return {n: ideal(n) * shared for n in (25, 50, 100, 200, 400, 1000)}


@pytest.mark.parametrize("equivalent", [30, 70, 150, 333, 700])
def test_worth_is_exact_on_an_ideal_curve(equivalent: int) -> None:
    found = worth_of(curve(), np.full(40, ideal(equivalent)), 30)
    assert found.labels == pytest.approx(equivalent - 30)
    assert (found.low, found.high) == (pytest.approx(equivalent - 30), pytest.approx(equivalent - 30))


def test_worth_pairs_the_replicates() -> None:
    """What makes a replicate's intervals wide makes them wide with and without a judge."""
    rng = np.random.default_rng(1)
    shared = 1 + 0.3 * rng.standard_normal(40)
    paired = worth_of(curve(0.3), ideal(150) * shared, 50)
    unpaired = worth_of(curve(0.3), ideal(150) * shared[::-1], 50)
    assert paired.labels == pytest.approx(100)
    assert length(paired) < 0.1
    assert length(unpaired) > 10


def test_worth_outside_the_grid_is_unknown() -> None:
    assert worth_of(curve(), np.full(40, 2 * ideal(25)), 25) == (None, None, None)
    short = {n: values for n, values in curve().items() if n <= 200}
    assert worth_of(short, np.full(40, ideal(300)), 50) == (None, None, None)
    nearly = worth_of(short, ideal(195) * (1 + 0.2 * np.random.default_rng(3).standard_normal(40)), 50)
    assert None not in (nearly.labels, nearly.low)
    assert nearly.high is None
    assert worth_of({50: curve()[50]}, np.full(40, ideal(50)), 50) == (None, None, None)
    failed = curve() | {100: np.full(40, np.nan)}
    assert worth_of(failed, np.full(40, ideal(70)), 50) == (None, None, None)


def row(judge_labels: int, trusted: int, replicate: int, width: float | None, **more: Any) -> dict[str, Any]:
    head = {"config": "c", "judge": "t@x", "judge_model": "panel", "judge_labels": judge_labels}
    head |= {"trusted_labels": trusted, "replicate": replicate, "quantity": "p_t", "items": ITEMS, "sampler": "nuts"}
    if width is None:
        return {**head, "status": "fail", **more}
    error = more.pop("error", 0.01)
    return {**head, "width": width, "error": error, "covered": int(abs(error) < width / 2), "status": "ok", **more}


def table(judged: float, failing: bool = False) -> pa.Table:
    rows = [row(0, n, k, ideal(n) ** 0.5, error=0.2 * ideal(n) ** 0.5) for k in range(4) for n in (25, 50, 100, 1000)]
    rows += [row(500, 50, k, ideal(judged) ** 0.5, error=[0.03, -0.05, 0.11, 0.02][k]) for k in range(3)]
    rows.append(row(500, 50, 3, None if failing else ideal(judged) ** 0.5, **({} if failing else {"error": 0.02})))
    return pa.Table.from_pylist(rows, schema=JUDGE_STUDY)


def test_summarise_by_hand() -> None:
    made = summarise(table(90, failing=True))
    check_table(made, JUDGE_SUMMARY, "judge_summary")
    assert made.num_rows == 5
    found = made.to_pylist()[-1]
    squares = np.array([0.03, 0.05, 0.11]) ** 2
    rmse = np.sqrt(squares.mean())
    assert (found["judge_labels"], found["trusted_labels"]) == (500, 50)
    assert (found["replicates"], found["failed"], found["nuts"]) == (3, 1, 4)
    assert found["rmse"] == pytest.approx(rmse)
    assert found["rmse_se"] == pytest.approx(squares.std(ddof=1) / np.sqrt(3) / (2 * rmse))
    assert found["width"] == pytest.approx(ideal(90) ** 0.5)
    assert found["width_alone"] == pytest.approx(ideal(50) ** 0.5)
    assert found["coverage"] == pytest.approx(1 / 3)
    assert found["worth"] == pytest.approx(40)
    assert (found["worth_low"], found["worth_high"]) == (pytest.approx(40), pytest.approx(40))
    assert found["worth_rmse"] is None  # worse than with 25 labels and no judge
    alone = made.to_pylist()[0]
    assert (alone["worth"], alone["width_alone"]) == (None, pytest.approx(alone["width"]))
    assert summarise(JUDGE_STUDY.empty_table()).equals(JUDGE_SUMMARY.empty_table())


def test_the_terminal_has_80_columns_and_warns_of_intervals_that_miss() -> None:
    from rich.console import Console

    screen = Console(width=80, record=True)
    index = JUDGE_STUDY.get_field_index("covered")
    wide = table(90)
    wide = wide.set_column(index, wide.schema.field(index), pa.array([1] * wide.num_rows, pa.int8()))
    missed = wide.set_column(index, wide.schema.field(index), pa.array([0] * wide.num_rows, pa.int8()))
    both = [wide, missed.set_column(2, missed.schema.field(2), pa.array(["independent"] * wide.num_rows))]
    print_judges(summarise(pa.concat_tables(both)), screen)
    lines = screen.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    line = next(text for text in lines if text.startswith("t@x"))
    assert line.split()[1:3] == ["50", f"{ideal(50) ** 0.5:.3f}".removeprefix("0")]
    assert line.count("40 [40,40]") == 2
    assert line.count("0%!") == 1
    print_judges(JUDGE_SUMMARY.empty_table(), screen)


def test_few_replicates_raise_no_alarm() -> None:
    cells = [(2, 3), (2, 4), (93, 100), (88, 100), (0, 1)]
    found = [low_coverage({"coverage": held / n, "replicates": n}) for held, n in cells]
    assert found == [False, True, False, True, False]
    assert not low_coverage({"coverage": None, "replicates": 0})


def test_several_configurations_have_a_line_each() -> None:
    from rich.console import Console

    screen = Console(width=80, record=True)
    one = summarise(table(90))
    other = one.set_column(0, one.schema.field(0), pa.array(["another-configuration"] * one.num_rows))
    print_judges(pa.concat_tables([one, other]), screen)
    lines = screen.export_text().splitlines()
    assert "2 configurations" in lines
    assert "another-configuration" in lines
    assert sum("40 [40,40]" in line for line in lines) == 2


def test_the_figure_has_a_line_per_number_of_judge_labels() -> None:
    svg = judge_figure(summarise(table(90)))
    assert svg is not None
    assert svg == judge_figure(summarise(table(90)))
    for text in ("t@x", "panel: width of the 95 % interval of P(T=1)", "none", "500", "trusted labels (items)"):
        assert text in svg
    assert judge_figure(JUDGE_SUMMARY.empty_table()) is None
