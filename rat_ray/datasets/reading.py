"""Reading text files row by row, plain or gzipped. Whatever is wrong names the file and the line."""

from __future__ import annotations

import glob
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from rat_ray.errors import InputError, did_you_mean


class Place(NamedTuple):
    """Where something stands, for messages."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class Reader:
    """One file, read line by line, with the SHA-256 of its (uncompressed) contents once all of it has been read.

    The contents are hashed, not the compressed bytes: packing a corpus with gzip changes nothing that depends on it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digest = ""

    def lines(self) -> Iterator[tuple[Place, str]]:
        """Lines that are not blank. Raises InputError for a file that is empty, cut short or not UTF-8."""
        sha = hashlib.sha256()
        found = False
        number = 0
        try:
            with _open(self.path) as file:
                for number, raw in enumerate(file, start=1):
                    sha.update(raw)
                    text = _decode(raw, Place(self.path, number))
                    if text.strip():
                        found = True
                        yield Place(self.path, number), text
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"{self.path}: the gzip data break off or are damaged after line {number} ({error}); fetch it again"
            ) from error
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror or error})") from error
        if not found:
            raise InputError(f"{self.path}: the file is empty; it needs at least one row")
        self.digest = sha.hexdigest()

    def records(self) -> Iterator[tuple[Place, dict[str, object]]]:
        """The JSON object of each line. Raises InputError for a line that is no JSON object."""
        for place, text in self.lines():
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{place}: broken JSON ({error}): {_excerpt(text)}") from error
            if not isinstance(value, dict):
                raise InputError(f"{place}: expected a JSON object with fields, found {_excerpt(text)}")
            # A lone surrogate is legal in JSON and not in Arrow or UTF-8; only an escape can bring one in.
            if "\\ud" in text.lower() and not _encodes(value):
                raise InputError(f"{place}: a lone surrogate (\\ud800 to \\udfff) is not text: {_excerpt(text)}")
            yield place, value


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    # By content, not by name: a .gz that a browser has unpacked is common.
    return cast(BinaryIO, gzip.open(path, "rb")) if zipped else path.open("rb")


def _decode(raw: bytes, place: Place) -> str:
    try:
        return raw.decode("utf-8-sig" if place.line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: not valid UTF-8 at byte {error.start + 1} of the line; convert the file") from error


def _encodes(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _excerpt(text: str, width: int = 80) -> str:
    text = text.strip()
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def clean_id(value: object, place: Place, what: str) -> str:
    """An id as a string: 1, 1.0 (pandas writes those) and "1" are one id. Raises InputError for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"{place}: {what} must be a string or a whole number, found {value!r}")
    cleaned = value.strip()
    if not cleaned:
        raise InputError(f"{place}: {what} is empty; every row needs its own id")
    return cleaned


def resolve_folder(path: str, key: str) -> Path:
    """An existing folder. key: the setting, for the message."""
    if path in ("", "???"):
        raise InputError(f"{key} is not set; give the folder that holds the files, e.g. {key}=/data/my-benchmark")
    folder = Path(path).expanduser()
    if not folder.exists():
        raise InputError(f"{key}={path}: there is no such folder{_near(folder)}")
    if not folder.is_dir():
        raise InputError(f"{key}={path}: this is a file; give the folder that holds it")
    return folder


def resolve_file(folder: Path, name: str, key: str, hint: str = "") -> Path:
    """`name` in `folder` (or an absolute path), or the same with `.gz` added or taken away."""
    path = folder / Path(name).expanduser()
    others = [path.with_name(path.name + ".gz")] if path.suffix != ".gz" else [path.with_suffix("")]
    for candidate in (path, *others):
        if candidate.is_file():
            return candidate
    raise InputError(f"{key}={name}: there is no file {path} (nor {others[0].name}){_near(path)}; set {key}{hint}")


def resolve_files(folder: Path, names: Iterable[str], key: str) -> list[Path]:
    """Files in the order given; a glob's matches in the order of their names."""
    paths: list[Path] = []
    for name in names:
        if not glob.has_magic(name):
            paths.append(resolve_file(folder, name, key))
            continue
        # Not Path.glob: it refuses patterns that are absolute paths.
        found = glob.glob(str(folder / Path(name).expanduser()), recursive=True)  # noqa: PTH207
        matches = [Path(match) for match in sorted(found) if Path(match).is_file()]
        if not matches:
            raise InputError(f"{key}={name}: no file matches in {folder}")
        paths += matches
    if not paths:
        raise InputError(f"{key} is empty; name at least one corpus file")
    return paths


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    near = did_you_mean(path.name, (child.name for child in path.parent.iterdir()))
    return near if len(near) < 300 else ""  # none is close, and a list of a whole folder helps nobody
