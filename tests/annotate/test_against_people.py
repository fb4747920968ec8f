"""The rules for T against what people said of real answers; skipped where the data is absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.annotate.against_people import agreement, answers, differing_claims, judge_agreement, rule_agreement


@pytest.fixture
def folder(shared_data: Path) -> Path:
    return shared_data / "annotations"


def test_the_verdict_rule_reproduces_every_label_of_react_fever500(folder: Path) -> None:
    assert differing_claims(folder) == []


def test_match_agrees_with_people_as_was_measured(folder: Path) -> None:
    rows = answers(folder)
    assert len(rows) == 1489
    found = rule_agreement(rows, "match")
    assert found.agreement >= 0.77
    assert found.tpr >= 0.62
    assert found.fpr <= 0.06
    # A judge still does better: the rule is a judge there, not the truth.
    assert judge_agreement(rows, "judge_gpt4").agreement == pytest.approx(0.850, abs=0.001)


def test_match_agrees_more_than_its_parts(folder: Path) -> None:
    rows = answers(folder)
    best = rule_agreement(rows, "match")
    for name in ("exact", "f1", "contains"):
        assert rule_agreement(rows, name).kappa < best.kappa


def test_agreement_counts() -> None:
    found = agreement([(1, 1), (1, 1), (0, 1), (1, 0), (0, 0), (0, 0)])
    assert (found.n, found.agreement, found.tpr, found.fpr) == (
        6,
        pytest.approx(2 / 3),
        pytest.approx(2 / 3),
        pytest.approx(1 / 3),
    )
    assert found.kappa == pytest.approx(1 / 3)
