"""The three stages of the model in a plain loop."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rat_ray.errors import InputError
from rat_ray.keys import key_of
from rat_ray.model import DiagnosticsSettings, EngineSettings, Policy, Prior, fit, fit_together, merge
from rat_ray.model.engines import program_path
from rat_ray.model.workers import ChecksWorker, FitSettings, PatternsWorker, PosteriorWorker, SummaryWorker
from rat_ray.tables import CHECKS, SUMMARY, annotations_schema, check_table, patterns_schema, posterior_schema
from tests.helpers import MemoryInput

SETTINGS = FitSettings(
    judges=("r@local",), engine=EngineSettings(chains=2, warmup=100, samples=100), seed=3, config="c"
)


def _annotations(items: int) -> pa.Table:
    schema = annotations_schema(["r@evidence", "r@local"])
    rows = [
        {
            "config": "c",
            "question_id": f"q{i}",
            "r": i % 2 if i % 3 else None,
            "a": int(i % 5 == 0),
            "t": None if i % 5 == 0 else int(i % 7 < 4),
            "r_source": "evidence" if i % 3 else None,
            "r@evidence": i % 2,
            "r@local": int(i % 4 > 0),
        }
        for i in range(items)
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def test_the_stages_give_what_fit_gives() -> None:
    annotations = _annotations(60)
    settings = pickle.loads(pickle.dumps(SETTINGS))
    settings.validate()
    group = PatternsWorker(settings.patterns, {})
    parts = [group({"annotations": annotations.slice(start, 25)}) for start in range(0, 60, 25)]
    for part in parts:
        check_table(part, patterns_schema(["r@local"]), "patterns")
    counts = pa.concat_tables(parts)  # a pattern occurs once per range
    draws = PosteriorWorker(settings.posterior, {})({"patterns": counts})
    summary = SummaryWorker(settings.summary, {"patterns": MemoryInput(counts)})({"posterior": draws})
    check_table(summary, SUMMARY, "summary")
    head = len(posterior_schema([]).names)
    check_table(draws, posterior_schema(draws.schema.names[head:]), "posterior")

    whole = fit(annotations, engine=SETTINGS.engine, seed=3, config="c")
    assert whole.patterns.equals(merge([counts]))
    assert draws.equals(whole.draws)
    assert summary.drop_columns("seconds").equals(whole.summary.drop_columns("seconds"))
    checks = ChecksWorker(settings.summary, {"patterns": MemoryInput(counts)})({"posterior": draws})
    check_table(checks, CHECKS, "checks")
    assert checks.equals(whole.checks)
    assert all(seconds > 0 for seconds in summary["seconds"].to_pylist())
    bare = SummaryWorker(settings.summary, {"patterns": MemoryInput(counts)})(
        {"posterior": draws.replace_schema_metadata(None)}
    )
    assert bare["seconds"].null_count == bare.num_rows


def test_a_warning_does_not_concern_the_sampling() -> None:
    changed = replace(SETTINGS, diagnostics=DiagnosticsSettings(ess_bulk_warn=1000))
    assert changed.posterior == SETTINGS.posterior
    assert changed.summary != SETTINGS.summary


def test_what_shapes_the_fit_samples_anew() -> None:
    keys = {
        json.dumps(key_of(settings.posterior), sort_keys=True)
        for settings in (
            SETTINGS,
            replace(SETTINGS, judge_model="independent"),
            replace(SETTINGS, policy=Policy(name="own", r1_wrong=-1.0)),
            replace(SETTINGS, prior=Prior(panel_lean=2.0)),
            replace(SETTINGS, together=("c", "d")),
            replace(SETTINGS, diagnostics=DiagnosticsSettings(r_hat_fail=1.2)),  # a failure is sampled again
            replace(SETTINGS, engine=replace(SETTINGS.engine, chains=3)),
        )
    }
    assert len(keys) == 7
    same = replace(SETTINGS, engine=replace(SETTINGS.engine, parallel_chains=2))
    assert key_of(same.posterior) == key_of(SETTINGS.posterior)


def test_shared_judges_are_one_fit_whichever_configuration_asks() -> None:
    whole = _annotations(60)
    names = ("c", "d")
    judges = PatternsWorker(SETTINGS.patterns, {})
    counts = {"c": judges({"annotations": whole.slice(0, 40)}), "d": judges({"annotations": whole.slice(20)})}
    direct = fit_together(
        {"c": whole.slice(0, 40), "d": whole.slice(20)}, judges=SETTINGS.judges, engine=SETTINGS.engine, seed=3
    )
    for name in names:
        settings = replace(SETTINGS, config=name, together=names)
        others = {other: MemoryInput(counts[other]) for other in names if other != name}
        draws = PosteriorWorker(settings.posterior, others)({"patterns": counts[name]})
        assert draws.replace_schema_metadata(None).equals(direct[name].draws)
        assert draws["tpr[r@local]"].to_numpy().mean() > 0


def test_another_program_samples_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of(SETTINGS.posterior)
    assert key_of(SETTINGS.posterior) == before
    other = tmp_path / "rat.stan"
    other.write_text(program_path().read_text() + "// changed\n")
    monkeypatch.setattr("rat_ray.model.engines.program_path", lambda: other)
    assert key_of(SETTINGS.posterior) != before


def test_trusted_sources_and_failed_configs_are_refused() -> None:
    leak = FitSettings(judges=("r@evidence",))
    with pytest.raises(InputError, match="r@evidence fills trusted labels"):
        PatternsWorker(leak.patterns, {})({"annotations": _annotations(10)})
    annotations = _annotations(4)
    index = annotations.schema.get_field_index("error")
    failed = annotations.set_column(index, annotations.schema.field("error"), pa.array(["out of memory"] * 4))
    counts = PatternsWorker(SETTINGS.patterns, {})({"annotations": failed})
    with pytest.raises(InputError, match="config 'c': there are no items to fit: all 4 rows failed"):
        PosteriorWorker(SETTINGS.posterior, {})({"patterns": counts})
    with pytest.raises(InputError, match="judge 'local'"):
        FitSettings(judges=("local",)).validate()
