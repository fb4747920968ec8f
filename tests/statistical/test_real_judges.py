"""Real judges that share errors: a few of the splits of `real_judges`, whose full table is in docs/validation.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rat_ray.model import Prior
from rat_ray.model.verdicts import INDEPENDENT, PANEL
from tests.statistical.real_judges import (
    ITEMS_OF_DATA,
    LABELLED_ONLY,
    PPI,
    SIZES,
    Answers,
    Result,
    read_answers,
    table_of,
    trial,
    write_section,
)

SPLITS = 5
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def answers(shared_data: Path) -> Answers:
    path = shared_data / ITEMS_OF_DATA
    if not path.is_file():
        pytest.skip(f"shared data absent: {path}")
    return read_answers(path)


@pytest.fixture(scope="module")
def results(answers: Answers) -> dict[tuple[str, int], Result]:
    return {(one.method, one.labelled): one for one in trial(answers, SPLITS, {PANEL: Prior()})}


def test_missing_verdicts_stay_missing(answers: Answers) -> None:
    assert len(answers.truth) == 1490
    np.testing.assert_array_equal((answers.verdicts < 0).sum(axis=0), [13, 0, 1])
    assert answers.rate == pytest.approx(816 / 1490)


def test_the_panel_covers_peoples_rate_where_independent_judges_do_not(
    results: dict[tuple[str, int], Result],
) -> None:
    assert sum(results[PANEL, size].covered for size in SIZES) >= 2 * SPLITS - 1
    assert sum(results[INDEPENDENT, size].covered for size in SIZES) <= 1


def test_the_judges_help(results: dict[tuple[str, int], Result]) -> None:
    for size in SIZES:
        panel = results[PANEL, size]
        assert panel.width < 0.8 * results[LABELLED_ONLY, size].width
        assert panel.width < 1.1 * results[PPI, size].width
        assert panel.width > results[INDEPENDENT, size].width


def test_a_stopped_run_goes_on(answers: Answers, tmp_path: Path) -> None:
    out = tmp_path / "splits.jsonl"
    (first, *_) = trial(answers, 1, {PANEL: Prior()}, out, sizes=[50])
    whole = out.read_text()
    assert trial(answers, 1, {PANEL: Prior()}, out, sizes=[50])[0] == first
    assert out.read_text() == whole  # nothing was sampled again


def test_the_section_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "validation.md"
    write_section(path, "## Real judges\n\nfirst\n")
    path.write_text(path.read_text() + "\n## Other\n\nkept\n")
    write_section(path, "## Real judges\n\nsecond\n")
    assert path.read_text() == "# Validation\n\n## Real judges\n\nsecond\n\n## Other\n\nkept\n"
    assert table_of([Result("panel", 50, 10, 9, 0.1, 0.0, 0.02)]).splitlines()[-1].startswith("| 50 | panel | 0.900 ±")
