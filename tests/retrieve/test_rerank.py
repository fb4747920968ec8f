"""Reranking without torch: its settings, and what identifies its model."""

from __future__ import annotations

import sys
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
import yaml

from rat_ray.errors import InputError, MissingExtraError, StageError
from rat_ray.keys import key_of
from rat_ray.retrieve.rerank import RerankSettings, RerankWorker
from rat_ray.settings import build
from tests.helpers import MemoryInput
from tests.retrieve.corpora import passages_table

CONF = Path(__file__).resolve().parents[2] / "conf" / "retriever" / "rerank.yaml"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder that looks like a model's; it is not loaded."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"\0")
    return folder


def test_conf_holds_the_defaults() -> None:
    written = yaml.safe_load(CONF.read_text())
    assert written.pop("model") == "???", "must be given"
    expected = asdict(RerankSettings())
    assert expected.pop("model") == expected.pop("identity") == ""
    assert written == expected


def test_what_it_is_made_from(model: Path) -> None:
    settings = build(RerankSettings, {"of": "hybrid", "model": str(model)})
    assert (settings.parts(), settings.steps(), settings.search_inputs()) == (["hybrid"], (), ())


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"of": ""}, "retriever.of: must be given"),
        ({"top": 0}, "retriever.top=0"),
        ({"depth": 30}, "retriever.depth=30: only the first 20 are scored; raise retriever.top"),
        ({"batch": 0}, "retriever.batch=0"),
        ({"max_tokens": -1}, "retriever.max_tokens=-1"),
        ({"dtype": "float1"}, "did you mean 'float16'?"),
        ({"model": ""}, "retriever.model: must be given"),
    ],
)
def test_bad_settings(model: Path, change: dict[str, object], part: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(RerankSettings(model=str(model)), **change).validate()  # type: ignore[arg-type]
    assert part in str(caught.value)


def test_a_folder_that_does_not_exist(model: Path) -> None:
    with pytest.raises(InputError, match=r"no such folder .did you mean 'model'\?"):
        RerankSettings(model=str(model.parent / "modle")).validate()


def test_the_library_that_is_not_installed_is_named_with_its_extra(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # as Python marks what cannot be imported
    with pytest.raises(MissingExtraError, match=r"pip install 'rat_ray\[torch\]'"):
        RerankWorker(RerankSettings(model=str(model)), {"passages": MemoryInput(passages_table([]))})


def test_the_weights_enter_the_key_and_their_place_does_not(model: Path) -> None:
    settings = RerankSettings(model=str(model)).resolved()
    moved = model.rename(model.parent / "moved")
    again = RerankSettings(model=str(moved), batch=1, device="cpu").resolved()
    assert key_of(again) == key_of(settings)
    (moved / "model.safetensors").write_bytes(b"\1")
    assert key_of(RerankSettings(model=str(moved)).resolved()) != key_of(settings)
    with pytest.raises(StageError, match="the job was planned with sha256:"):
        replace(settings, model=str(moved)).resolved()
    outside = {"model", "commit", "batch", "device"}
    assert {each.name for each in fields(RerankSettings)} - set(key_of(settings)) == outside
