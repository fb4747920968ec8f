"""A fit that fails: tried once more with care, then kept as failed, with the reason; never an end of the job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rat_ray.model import DiagnosticsSettings, EngineSettings, compare, fit, posterior
from rat_ray.model.engines import Draws, StanData
from rat_ray.model.workers import ChecksWorker, FitSettings, PatternsWorker, PosteriorWorker, SummaryWorker
from rat_ray.tables import CHECKS, COMPARISON, SUMMARY, check_table
from tests.helpers import MemoryInput
from tests.model.tables import row_of, table

ENGINE = EngineSettings(chains=2, warmup=100, samples=100)
LABELS = table([(1, 0, 1), (0, 1, None), (1, 0, 0), (0, 0, 1), (None, 0, None)] * 4)
Sample = Callable[[Path, StanData, int, EngineSettings], Draws]


def _replace(monkeypatch: pytest.MonkeyPatch, make: Callable[[Sample, list[float]], Sample]) -> list[float]:
    """Every adapt_delta that was asked for, in order."""
    asked: list[float] = []
    monkeypatch.setattr(posterior, "sample_program", make(posterior.sample_program, asked))
    return asked


def _dead(real: Sample, asked: list[float]) -> Sample:
    def sample(program: Path, data: StanData, seed: int, engine: EngineSettings) -> Draws:
        asked.append(engine.adapt_delta)
        raise RuntimeError("chain 2 died")

    return sample


def _dead_at_first(real: Sample, asked: list[float]) -> Sample:
    def sample(program: Path, data: StanData, seed: int, engine: EngineSettings) -> Draws:
        asked.append(engine.adapt_delta)
        if len(asked) == 1:
            raise RuntimeError("chain 2 died")
        return real(program, data, seed, engine)

    return sample


def _chains_apart(real: Sample, asked: list[float]) -> Sample:
    def sample(program: Path, data: StanData, seed: int, engine: EngineSettings) -> Draws:
        asked.append(engine.adapt_delta)
        drawn = real(program, data, seed, engine)
        values = drawn.values.copy()
        values[0] += 5.0
        return drawn._replace(values=values)

    return sample


def test_a_sampler_that_dies_twice_leaves_a_failed_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _replace(monkeypatch, _dead)
    result = fit(LABELS, engine=ENGINE)
    assert asked == [0.8, 0.99]
    assert result.status.status == "fail"
    assert result.status.reason == "the sampler failed: chain 2 died"
    assert result.draws.num_rows == 200
    check_table(result.summary, SUMMARY, "summary")
    for row in result.summary.to_pylist():
        assert row["status"] == "fail"
        assert [row[name] for name in ("mean", "sd", "q2.5", "q97.5", "r_hat", "divergences")] == [None] * 6
        assert row["prior_sd"] is not None
    assert result.checks.num_rows == 0


def test_a_sampler_that_dies_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _replace(monkeypatch, _dead_at_first)
    result = fit(LABELS, engine=ENGINE)
    assert asked == [0.8, 0.99]
    assert row_of(result, "p_g")["mean"] is not None
    assert any("adapt_delta 0.99" in note for note in result.notes)


def test_draws_that_fail_the_diagnostics_are_drawn_again_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _replace(monkeypatch, _chains_apart)
    result = fit(LABELS, engine=ENGINE)
    assert asked == [0.8, 0.99]
    assert result.status.status == "fail"
    assert "r_hat" in (result.status.reason or "")
    assert row_of(result, "rho")["mean"] is not None


def test_good_draws_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(real: Sample, asked: list[float]) -> Sample:
        def sample(program: Path, data: StanData, seed: int, engine: EngineSettings) -> Draws:
            asked.append(engine.adapt_delta)
            return real(program, data, seed, engine)

        return sample

    asked = _replace(monkeypatch, counted)
    assert fit(LABELS, engine=EngineSettings(chains=2, warmup=300, samples=500)).status.status != "fail"
    assert asked == [0.8]


def test_the_stages_keep_a_failed_fit_in_their_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = FitSettings(config="c", engine=ENGINE)
    counts = PatternsWorker(settings.patterns, {})({"annotations": LABELS})
    _replace(monkeypatch, _dead)
    draws = PosteriorWorker(settings.posterior, {})({"patterns": counts})
    assert draws.num_rows == 200
    assert draws.column("p_g").null_count == 200
    inputs = {"patterns": MemoryInput(counts)}
    summary = SummaryWorker(settings.summary, inputs)({"posterior": draws})
    check_table(summary, SUMMARY, "summary")
    assert set(summary.column("reason").to_pylist()) == {"the sampler failed: chain 2 died"}
    assert ChecksWorker(settings.checks, inputs)({"posterior": draws}).equals(CHECKS.empty_table())


def test_a_comparison_that_fails_is_kept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = LABELS.append_column("question_id", pa.array([f"q{i}" for i in range(LABELS.num_rows)]))
    _replace(monkeypatch, _dead)
    result = compare(labels, labels, engine=ENGINE)
    check_table(result.summary, COMPARISON, "comparison")
    assert result.status.status == "fail"
    assert pc.unique(result.summary.column("mean")).to_pylist() == [None]


def test_warnings_do_not_sample_again() -> None:
    strict = DiagnosticsSettings(ess_bulk_warn=1e6, ess_tail_warn=1e6)
    assert strict.failures_only().ess_bulk_warn == strict.ess_bulk_fail
    one, other = FitSettings(diagnostics=strict), FitSettings()
    assert one.posterior == other.posterior
    result = fit(LABELS, engine=EngineSettings(chains=2, warmup=300, samples=500), diagnostics=strict)
    assert result.status.status == "warn"
    assert not result.notes


def test_draws_for_arviz_are_the_same_numbers() -> None:
    result = fit(LABELS, engine=ENGINE)
    data = result.to_arviz()
    assert data["posterior"]["p_g"].shape == (2, 100)
    np.testing.assert_array_equal(data["posterior"]["p_g"].values.reshape(-1), result.draws["p_g"].to_numpy())
    assert {"posterior", "sample_stats", "log_prior", "log_likelihood"} <= set(data.children)
    assert not [name for name in data["posterior"] if str(name).startswith("n_rep")]
