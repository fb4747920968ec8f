"""`-m`: every combination in a folder of its own, shared work once, one merged summary."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rat_ray.naming import safe_name
from tests.commandline import rat_ray, refuse, succeed

pytestmark = [pytest.mark.model, pytest.mark.ray, pytest.mark.slow]
SMALL = ["dataset.limit=6", "judge=none", "engine.chains=2", "engine.samples=200", "generator.max_tokens=6"]


def manifests(folder: Path, table: str) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted((folder / "store" / table).glob("*/manifest.json"))]


def test_a_sweep_over_retrievers_and_generators(tmp_path: Path) -> None:
    retrievers, generators = ["bm25", "dense", "hybrid"], ["gemma3_270m_policy", "gemma3_270m_eager"]
    sweep = [f"retriever={','.join(retrievers)}", f"generator={','.join(generators)}"]
    printed = succeed("evaluate", "-m", *sweep, *SMALL, "out=out", "store=store", cwd=tmp_path)
    names = {f"{retriever}-{generator}" for retriever in retrievers for generator in generators}
    assert {path.parent.name for path in (tmp_path / "out").glob("*/summary.parquet")} == names
    merged = pq.read_table(tmp_path / "out" / "summary.parquet")
    assert set(pc.unique(merged.column("config")).to_pylist()) == names
    single = [pq.read_table(tmp_path / "out" / name / "summary.parquet").num_rows for name in names]
    assert merged.num_rows == sum(single)
    assert len(manifests(tmp_path, "retrievals")) == 3, "each retrieval once, whatever reads it"
    assert len(manifests(tmp_path, "index")) == len(manifests(tmp_path, "vectors")) == 1
    merged = pq.read_table(tmp_path / "out" / "retrieval.parquet")
    assert set(pc.unique(merged.column("config")).to_pylist()) == names
    assert len(manifests(tmp_path, "answers")) == 6
    assert "out: out" in printed


def test_values_that_are_swept_name_the_folders(tmp_path: Path) -> None:
    sweep = ["retriever.depth=3,5", "generator.abstention_phrase=No answer.,Not in the passages."]
    succeed("evaluate", "-m", *sweep, *SMALL, "dataset.limit=3", "out=out", "store=store", cwd=tmp_path)
    folders = [path.parent.name for path in (tmp_path / "out").glob("*/summary.parquet")]
    assert len(folders) == 4
    assert all(
        set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") for name in folders
    )
    merged = pq.read_table(tmp_path / "out" / "summary.parquet")
    assert set(pc.unique(merged.column("config")).to_pylist()) == set(folders)


def test_an_unknown_key_is_refused_before_any_job_of_the_sweep(tmp_path: Path) -> None:
    sweep = ["retriever=bm25,dense", "generator.max_token=6"]
    assert "did you mean 'max_tokens'" in refuse("evaluate", "-m", *sweep, "out=out", cwd=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_configuration_that_fails_at_work_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    for shape in ("open", "two_hop", "claim"):
        (tmp_path / "bad" / f"{shape}.jinja").write_text("{{ no_such_variable }} {{ question }}")
    sweep = ["retriever=bm25,dense", "generator.prompt=policy,./bad"]
    arguments = ["evaluate", "-m", *sweep, *SMALL, "dataset.limit=3", "out=out", "store=store"]
    done = rat_ray(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    good = {f"{retriever}-gemma3_270m_policy-generator.prompt_policy" for retriever in ("bm25", "dense")}
    bad = {safe_name(f"{retriever}-gemma3_270m_policy-generator.prompt_./bad") for retriever in ("bm25", "dense")}
    assert {path.parent.name for path in (tmp_path / "out").glob("*/summary.parquet")} == good
    assert set(pc.unique(pq.read_table(tmp_path / "out" / "summary.parquet").column("config")).to_pylist()) == good
    assert "2 of 4 configurations failed:" in done.stdout
    for name in bad:
        assert re.search(rf"^  {name}: .*no_such_variable", done.stdout, re.MULTILINE), "which, and why"
        failed = json.loads((tmp_path / "out" / name / "run.json").read_text())
        assert failed["status"] == "failed"
        assert set(failed["failed"]) == {name}
    assert set(json.loads((tmp_path / "out" / "run.json").read_text())["failed"]) == bad
    assert len(manifests(tmp_path, "retrievals")) == 2
    assert len(manifests(tmp_path, "answers")) == 2
    again = rat_ray(*arguments, cwd=tmp_path)
    assert again.returncode == 1
    assert ": 0 computed, " in again.stdout, "what was whole is not made again"
