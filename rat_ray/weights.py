"""Where a model's weights are, a folder or the hub's cache, and what identifies them. Loads none of them."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from rat_ray.errors import InputError, MissingExtraError, StageError, did_you_mean
from rat_ray.remembered import recall, remembered

# What libraries read of a model's folder: weights, settings, vocabularies. Not read: notes, and copies for ONNX.
_READ: Final = frozenset({".safetensors", ".bin", ".json", ".txt", ".model", ".jinja", ".tiktoken"})
_NOT_READ: Final = frozenset({"onnx", "openvino"})
_MARKS: Final = ("config.json", "modules.json")  # one of them lies in every model's folder
_HUB_NAME: Final = re.compile(r"[\w.-]+(/[\w.-]+)?")
_BLOCK: Final = 1 << 20


def check_weights(setting: str, model: str, commit: str) -> None:
    """Raises InputError for a model that cannot be found; `setting` is the name that the user knows it by.

    A hub name passes without being looked for there, unless the hub may not be asked (HF_HUB_OFFLINE).
    """
    if not model.strip():
        raise InputError(f"{setting}: must be given: a folder with a model's weights, or a hub name")
    folder = _folder(model)
    if folder.is_dir():
        return _check_folder(setting, model, folder)
    if not _is_hub_name(model):
        raise InputError(f"{setting}={model!r}: there is no such folder{_near_folders(folder)}")
    if _constants().HF_HUB_OFFLINE and _cached_commit(model, commit) is None:
        known = {*_cached_models(), *_subfolders(folder.parent, model)}
        raise InputError(
            f"{setting}={model!r}{f' at {commit}' if commit else ''}: neither a folder nor in the hub's cache, and "
            f"HF_HUB_OFFLINE forbids asking the hub{did_you_mean(model, known)}"
        )
    return None


def identity_of(setting: str, model: str, commit: str) -> str:
    """`sha256:…` of a folder's content, remembered and the same wherever it lies; `commit:…` of a hub's model.

    Of several snapshots the cached one counts: a hub that has moved on changes nothing here. Raises InputError like
    `check_weights`, and when the hub does not know the model.
    """
    check_weights(setting, model, commit)
    folder = _folder(model)
    if folder.is_dir():
        files = _files_of(folder)
        return remembered("model folder", files, lambda: f"sha256:{_digest(folder, files)}")
    return f"commit:{_cached_commit(model, commit) or _commit_on_hub(setting, model, commit)}"


def known_identity(setting: str, model: str, commit: str) -> str | None:
    """The same without reading weights or asking the hub; None where unknown. Raises like `check_weights`."""
    check_weights(setting, model, commit)
    folder = _folder(model)
    if folder.is_dir():
        return recall("model folder", _files_of(folder))
    cached = _cached_commit(model, commit)
    return f"commit:{cached}" if cached else None


def check_identity(setting: str, model: str, found: str, expected: str) -> None:
    """Raises StageError where a worker's machine has other weights than the machine that planned the job."""
    if expected and found != expected:
        raise StageError(
            f"{setting}={model!r}: the weights on this machine are {found}, the job was planned with {expected}"
        )


def where(model: str, identity: str) -> tuple[str, str | None]:
    """What a library is to load: a folder's path and None, or a hub name and its commit."""
    folder = _folder(model)
    return (str(folder), None) if folder.is_dir() else (model, identity.removeprefix("commit:"))


def _folder(model: str) -> Path:
    return Path(model).expanduser().resolve()


def _is_hub_name(model: str) -> bool:
    return not model.startswith(".") and _HUB_NAME.fullmatch(model) is not None


def _check_folder(setting: str, model: str, folder: Path) -> None:
    if any((folder / name).is_file() for name in _MARKS):
        return
    inner = [str(Path(model) / path.name) for path in sorted(folder.iterdir()) if (path / _MARKS[0]).is_file()]
    hint = f"; did you mean {inner[0]!r}?" if inner else ""
    raise InputError(f"{setting}={model!r}: no {' or '.join(_MARKS)} in this folder, so it holds no model{hint}")


def _near_folders(folder: Path) -> str:
    """` (did you mean …?)` among what lies where the path stops leading anywhere."""
    missing = folder
    while not missing.parent.is_dir():
        missing = missing.parent
    beside = {str(path): path.name for path in _folders_in(missing.parent)}
    hint = did_you_mean(missing.name, beside.values())
    return hint if hint.startswith(" (did") else f"; {missing.parent} holds {len(beside)} other folders"


def _folders_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return []


def _subfolders(parent: Path, model: str) -> set[str]:
    """Folders beside a relative path, as the user would write them."""
    before = model.rpartition("/")[0]
    return {f"{before}/{path.name}" if before else path.name for path in _folders_in(parent) if _is_model(path)}


def _is_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _MARKS)


def _files_of(folder: Path) -> list[Path]:
    """The files that decide what a model computes, in a fixed order."""
    inner = (path.relative_to(folder) for path in folder.rglob("*") if path.suffix in _READ and path.is_file())
    kept = (path for path in inner if not any(part in _NOT_READ or part.startswith(".") for part in path.parts))
    return [folder / path for path in sorted(kept, key=lambda path: path.as_posix())]


def _digest(folder: Path, files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        one = hashlib.sha256()
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                one.update(block)
        digest.update(f"{path.relative_to(folder).as_posix()}\0{one.hexdigest()}\n".encode())
    return digest.hexdigest()


# --- the hub ---------------------------------------------------------------------------------------------------------


def _cached_commit(model: str, commit: str) -> str | None:
    """The commit of the snapshot in the hub's cache, or None."""
    path = _hub().try_to_load_from_cache(model, _MARKS[0], revision=commit or None)
    return Path(path).parent.name if isinstance(path, str) else None


def _cached_models() -> list[str]:
    folders = _folders_in(Path(_constants().HF_HUB_CACHE))
    return [path.name.removeprefix("models--").replace("--", "/") for path in folders if path.name[:8] == "models--"]


def _commit_on_hub(setting: str, model: str, commit: str) -> str:
    hub = _hub()
    try:
        found = hub.HfApi().model_info(model, revision=commit or None).sha
    except hub.errors.RepositoryNotFoundError:
        raise InputError(
            f"{setting}={model!r}: neither a folder nor a model of the hub, or one that needs your consent or a token"
            f"{did_you_mean(model, _cached_models())}"
        ) from None
    except hub.errors.RevisionNotFoundError:
        raise InputError(f"{setting}={model!r}: the hub's model has no commit, branch or tag {commit!r}") from None
    except Exception as error:  # whatever its HTTP library raises, by version
        raise InputError(
            f"{setting}={model!r}: neither a folder nor in the hub's cache, and the hub could not be asked "
            f"({type(error).__name__}); give a local folder, or put the model into the cache"
        ) from error
    return str(found)


def _hub() -> Any:
    try:
        hub = importlib.import_module("huggingface_hub")
        importlib.import_module("huggingface_hub.errors")
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", "torch") from error
    return hub


def _constants() -> Any:
    _hub()
    return importlib.import_module("huggingface_hub.constants")
