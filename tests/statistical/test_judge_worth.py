"""The study of what a judge is worth, small: its simulated system, its jobs, and the tables that it publishes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rat_ray.allocate.judge_summary import summarise
from rat_ray.tables import JUDGE_STUDY
from tests.statistical import judge_worth, runs


def test_the_simulated_system_is_like_the_papers() -> None:
    r, a, t = (np.array(judge_worth.simulated("x").column(name).fill_null(0)) for name in "rat")
    assert t.mean() == pytest.approx(0.24, abs=0.02)
    assert np.where(r == 1, t, a).mean() == pytest.approx(0.414, abs=0.025)
    assert judge_worth.simulated("x").equals(judge_worth.simulated("x"))
    assert not judge_worth.simulated("x").equals(judge_worth.simulated("y"))


def record(table: str, answered: int, error: float) -> runs.Record:
    """One table's rows: without a judge, and with 300 and all of its labels."""
    columns: dict[str, list[object]] = {name: [] for name in JUDGE_STUDY.names}
    for labels, trusted, width in [(0, 50, 0.2), (0, 100, 0.15), (300, 50, 0.18), (answered, 50, 0.16)]:
        row = {
            "config": table, "judge": "t@lenient", "judge_model": "panel", "judge_labels": labels,
            "trusted_labels": trusted, "replicate": 0, "quantity": "p_t", "items": 5000, "width": width,
            "error": error, "covered": 1, "sampler": "nuts", "status": "ok",
        }  # fmt: skip
        for name in JUDGE_STUDY.names:
            columns[name].append(row.get(name))
    return {"study": "lenient", "columns": columns}


def test_simulated_tables_are_replicates_of_one_configuration() -> None:
    made = judge_worth.pooled([record("simulated-0", 3400, 0.01), record("simulated-1", 3390, -0.03)])
    rows = summarise(made).to_pylist()
    assert [(row["judge_labels"], row["replicates"]) for row in rows] == [(0, 2), (0, 2), (300, 2), (5000, 2)]
    text = judge_worth.markdown(rows, "lenient")
    assert "| `t@lenient` | P(T=1) | panel | all | 50 | 0.200 | 0.160 ± 0.000 | 1.000 ± 0.000 | 0.022 ± 0.009 |" in text
    assert "2 replicates; 0 of 4 fits with a judge failed" in text


def test_a_job_is_known_by_what_decides_its_rows() -> None:
    jobs = judge_worth.jobs_of("lenient", 2, "stanli", "") + judge_worth.jobs_of("openqa", 2, "stanli", "")
    assert len({judge_worth.key_of(job) for job in [*jobs, *judge_worth.jobs_of("lenient", 2, "importance", "")]}) == 6
    assert [job.replicate for job in jobs] == [0, 0, 0, 1]


def test_the_page_has_a_place_for_every_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(judge_worth.DOCS.read_text(encoding="utf-8"), encoding="utf-8")
    for name in (*judge_worth.SHOWN, "rates"):
        runs.replace_block(page, name, f"table of {name}")
        assert f"table of {name}" in page.read_text(encoding="utf-8")
