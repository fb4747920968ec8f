"""One snapshot of Wikipedia under FEVER, HotpotQA and Natural Questions, and the settings in conf/."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from rat_ray import datasets
from rat_ray.datasets import DATASETS, FeverSettings, HotpotqaSettings, NaturalQuestionsSettings, Source
from rat_ray.datasets.contexts import HotpotCorpusSettings
from rat_ray.datasets.fieldnames import FieldNames
from rat_ray.datasets.problems import UNKNOWN
from rat_ray.datasets.wikipedia import CorpusSettings
from rat_ray.settings import build, conf_dir, fields_of
from tests.datasets.benchmark_files import FIXTURES, KILT, REDIRECTS, TSV, copied, passages

BENCHMARKS = {"fever": FeverSettings, "hotpotqa": HotpotqaSettings, "natural_questions": NaturalQuestionsSettings}


def settings_over(corpus: CorpusSettings) -> list[Any]:
    """The three benchmarks over one corpus."""
    given = {field: getattr(corpus, field) for field in fields_of(CorpusSettings)}
    return [
        FeverSettings(path=str(FIXTURES / "fever"), corpus=corpus),
        HotpotqaSettings(path=str(FIXTURES / "hotpotqa"), corpus=HotpotCorpusSettings(**given)),
        NaturalQuestionsSettings(path=str(FIXTURES / "natural_questions"), corpus=corpus),
    ]


def loaded(corpus: CorpusSettings) -> list[Source]:
    return [datasets.load(settings) for settings in settings_over(corpus)]


def test_three_datasets_over_one_snapshot_share_its_passages() -> None:
    corpus = CorpusSettings(files=[TSV], redirects=REDIRECTS)
    sources = loaded(corpus)
    [digest] = {source.passages_digest for source in sources}
    assert len({source.questions_digest for source in sources}) == 3
    assert {source.num_passages for source in sources} == {10}
    told = [settings.corpus_settings for settings in settings_over(corpus)]
    assert told[0] == told[1] == told[2], "a plan knows it before anything is read"
    # Packed, and named as DPR's format: the same passages, so the same index.
    for same in (CorpusSettings(files=[TSV + ".gz"]), CorpusSettings(format="dpr", files=[TSV])):
        assert {source.passages_digest for source in loaded(same)} == {digest}
    assert {source.passages_digest for source in loaded(KILT)} != {digest}


def test_what_the_snapshot_lacks_is_missing_in_all_three() -> None:
    for source in loaded(CorpusSettings(files=[TSV])):
        unmapped = [row for row in source.problems().to_pylist() if row["kind"] == "unmapped"]
        assert any("Quill" in row["detail"] for row in unmapped), source.name
        by_id = {row["question_id"]: row["evidence"] for row in source.questions().to_pylist()}
        assert all(by_id[row["id"]] is None for row in unmapped)
        assert source.notes[UNKNOWN] == len(unmapped)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_conf_file_names_every_setting_and_its_default(benchmark: str) -> None:
    data = yaml.safe_load((conf_dir() / "dataset" / f"{benchmark}.yaml").read_text())
    kind = DATASETS[benchmark].settings
    assert kind is BENCHMARKS[benchmark]
    assert data["path"] == f"${{data_dir}}/{benchmark}"
    assert set(data) == set(fields_of(kind))
    assert set(data["corpus"]) == set(fields_of(CorpusSettings)) - {"fields"}
    made = build(kind, data)
    assert replace(made, path="") == kind()


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_defaults_read_the_files_as_they_are_published(benchmark: str, tmp_path: Path) -> None:
    path = Path(copied(tmp_path, benchmark))
    (path / "psgs_w100.tsv.gz").write_bytes(Path(TSV + ".gz").read_bytes())
    settings = BENCHMARKS[benchmark](path=str(path))
    source = datasets.load(settings)
    assert source.num_questions >= 4
    assert len(passages(source)) == source.num_passages
    for file in DATASETS[benchmark].files(settings):
        assert file.is_file()


def test_a_dataset_is_known_again_with_its_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAT_CACHE", str(tmp_path / "cache"))
    path = Path(copied(tmp_path, "fever"))
    for file in path.rglob("*.jsonl"):
        os.utime(file, (1e9, 1e9))  # a file that was written just now is not remembered
    settings = FeverSettings(path=str(path))
    assert datasets.recall_source(settings) is None
    first = datasets.load(settings)
    again = datasets.recall_source(settings)
    assert again is not None
    assert (again.digest, again.left_out, again.notes) == (first.digest, first.left_out, first.notes)
    assert again.problems() == first.problems()
    assert again.questions() == first.questions()


CHANGED = {
    "format": "dpr",
    "files": ["other.tsv"],
    "passages": "sentences",
    "window": 5,
    "stride": 2,
    "fields": FieldNames(title="heading"),
    "on_error": "skip",
}


def test_whatever_decides_the_passages_tells_corpora_apart() -> None:
    """Datasets whose settings say the same share the passages of a sweep: a field left out would mix two corpora."""
    same = CorpusSettings(files=["a.tsv"])
    assert set(CHANGED) | {"redirects"} == {field.name for field in dataclasses.fields(CorpusSettings)}
    for name, value in CHANGED.items():
        assert replace(same, **{name: value}).about("data") != same.about("data"), name
    assert replace(same, redirects="r.tsv").about("data") == same.about("data"), "they decide the evidence"


def test_one_file_from_two_folders_is_one_corpus(tmp_path: Path) -> None:
    near, far = CorpusSettings(files=["psgs.tsv"]), CorpusSettings(files=["../nq/psgs.tsv"])
    assert near.about(str(tmp_path / "nq")) == far.about(str(tmp_path / "fever"))
    (tmp_path / "elsewhere" / "fever").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "fever")
    # Through the link, `..` is another folder than the link's own.
    assert near.about(str(tmp_path / "nq")) != far.about(str(tmp_path / "link"))
    assert near.about(str(tmp_path / "elsewhere" / "nq")) == far.about(str(tmp_path / "link"))
