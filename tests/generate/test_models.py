"""The model's file: assembled once, whole, by rename; its revision follows the content."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from rat_ray.errors import InputError
from rat_ray.generate import models


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    chunks = [tmp_path / "a", tmp_path / "b"]
    for path, content in zip(chunks, [b"GGUF", b"rest"], strict=True):
        path.write_bytes(content)
    fake = SimpleNamespace(
        __name__="fake", EXPECTED_SHA256=hashlib.sha256(b"GGUFrest").hexdigest(), chunk_paths=lambda: chunks
    )
    monkeypatch.setenv("RAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(models, "_package", lambda model: fake)
    return fake


def test_assembles_once_and_leaves_nothing_else(package: SimpleNamespace) -> None:
    path = models.model_file("fake", None)
    assert path.read_bytes() == b"GGUFrest"
    before = path.stat().st_mtime_ns
    assert models.model_file("fake", None).stat().st_mtime_ns == before
    assert list(path.parent.iterdir()) == [path]


def test_a_cut_off_file_is_assembled_again(package: SimpleNamespace) -> None:
    path = models.model_file("fake", None)
    path.write_bytes(b"GGUF")
    assert models.model_file("fake", None).read_bytes() == b"GGUFrest"


def test_damaged_chunks_are_refused_and_leave_nothing(package: SimpleNamespace) -> None:
    package.chunk_paths()[1].write_bytes(b"tser")
    with pytest.raises(InputError, match="sha256"):
        models.model_file("fake", None)
    assert list(models.cache_folder().iterdir()) == []


def test_revision_of_a_file_follows_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "own.gguf"
    path.write_bytes(b"one")
    expected = "sha256:" + hashlib.sha256(b"one").hexdigest()
    assert models.model_revision("", str(path)) == expected
    assert models.model_revision("", str(path)) == expected
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert models.model_revision("", str(path)) == "sha256:" + hashlib.sha256(b"two").hexdigest()


def test_unknown_model_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'gemma3_270m'"):
        models.model_file("gemma3_270", None)
    with pytest.raises(InputError, match="is not a file"):
        models.model_file("", str(tmp_path / "none.gguf"))
