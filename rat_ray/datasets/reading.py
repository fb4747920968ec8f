"""Reading text files row by row, plain or compressed. Whatever is wrong names the file and the line."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from rat_ray.datasets.checks import is_text
from rat_ray.errors import InputError, did_you_mean

# A folder given as a corpus means the files below it whose names end like this, compressed or not.
_DATA: Final = (".jsonl", ".json", ".tsv", ".bz2", ".gz")
_ZIPPED: Final = (".gz", ".bz2")
_BUFFER: Final = 1 << 20


class Place(NamedTuple):
    """Where something stands, for messages."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{shown(self.path)}:{self.line}"


def shown(path: Path) -> str:
    """A path for messages and tables, which a name that is not UTF-8 must not break."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class RowError(InputError):
    """One row that cannot be read; `on_error=skip` may leave it out and go on."""

    def __init__(self, place: Place, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


Broken = Callable[[RowError], None]


def stop(error: RowError) -> None:
    """What to do with a broken row unless another thing is asked for: raise its error."""
    raise error


class Reader:
    """One file, read line by line: plain, gzipped or bzip2ed, which its first bytes tell, not its name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, broken: Broken = stop) -> Iterator[tuple[Place, str]]:
        """Lines that are not blank. `broken` is called for one that is not UTF-8.

        Raises InputError for a file that is empty, cut short or damaged.
        """
        found = False
        number = 0
        try:
            with open_bytes(self.path) as file:
                for number, raw in enumerate(file, start=1):
                    try:
                        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                    except UnicodeDecodeError as error:
                        found = True
                        reason = f"not valid UTF-8 at byte {error.start + 1} of the line; convert the file"
                        broken(RowError(Place(self.path, number), reason))
                        continue
                    if not text.isspace() and text:
                        found = True
                        yield Place(self.path, number), text
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._damaged(number, error) from error
        except OSError as error:
            if error.errno is None:  # what bz2 raises
                raise self._damaged(number, error) from error
            raise InputError(f"{self.path}: cannot be read ({error.strerror or error})") from error
        if not found:
            raise InputError(f"{self.path}: the file is empty; it needs at least one row")

    def records(self, broken: Broken = stop) -> Iterator[tuple[Place, dict[str, object]]]:
        """The JSON object of each line; `broken` is called for a line that is none."""
        for place, text in self.lines(broken):
            try:
                value = json_object(text, place)
            except RowError as error:
                broken(error)
                continue
            yield place, value

    def _damaged(self, number: int, error: Exception) -> InputError:
        return InputError(
            f"{self.path}: the compressed data break off or are damaged somewhere after line {number} ({error}); "
            "fetch it again"
        )


def open_bytes(path: Path) -> BinaryIO:
    """The file's contents, unpacked where they are gzipped or bzip2ed."""
    with path.open("rb") as file:
        first = file.read(3)
    # By content, not by name: a .gz that a browser has unpacked is common.
    if first[:2] == b"\x1f\x8b":
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, gzip.open(path, "rb")), _BUFFER))
    if first == b"BZh":
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, bz2.open(path, "rb")), _BUFFER))
    return path.open("rb")


def json_object(text: str, place: Place) -> dict[str, object]:
    """The JSON object that a line is. Raises RowError for anything else, and for what no text can hold."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowError(place, f"broken JSON ({error}): {_excerpt(text)}") from error
    if not isinstance(value, dict):
        raise RowError(place, f"expected a JSON object with fields, found {_excerpt(text)}")
    # A lone surrogate is legal in JSON and not in Arrow or UTF-8; only an escape can bring one in.
    if ("\\ud" in text or "\\uD" in text) and not is_text(value):
        raise RowError(place, f"a lone surrogate (\\ud800 to \\udfff) is not text: {_excerpt(text)}")
    return value


def _excerpt(text: str, width: int = 80) -> str:
    text = text.strip()
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def clean_id(value: object, place: Place, what: str) -> str:
    """An id as a string: 1, 1.0 (pandas writes those) and "1" are one id. Raises InputError for anything else."""
    if isinstance(value, str) and value and not value[0].isspace() and not value[-1].isspace():
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise RowError(place, f"{what} must be a string or a whole number, found {value!r}")
    cleaned = value.strip()
    if not cleaned:
        raise RowError(place, f"{what} is empty; every row needs its own id")
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


def resolve_file(folder: Path, name: str, key: str, hint: str = "", otherwise: str = "") -> Path:
    """`name` in `folder` (or an absolute path), or the same with `.gz` added or taken away; else `otherwise` likewise.

    Raises InputError when there is none of them.
    """
    for path in _spellings(folder, name) + (_spellings(folder, otherwise) if otherwise else []):
        if path.is_file():
            return path
    path, other = _spellings(folder, name)[:2]
    if path.is_dir():
        raise InputError(f"{key}={name}: {path} is a folder; give the file in it{hint}")
    also = f" or {otherwise}" if otherwise else ""
    raise InputError(f"{key}={name}: there is no file {path} (nor {other.name}{also}){_near(path)}; set {key}{hint}")


def _spellings(folder: Path, name: str) -> list[Path]:
    path = folder / Path(name).expanduser()
    if path.suffix in _ZIPPED:
        return [path, path.with_suffix("")]
    return [path, *(path.with_name(path.name + suffix) for suffix in _ZIPPED)]


def resolve_files(folder: Path, names: Iterable[str], key: str) -> list[Path]:
    """Files in the order given; a glob's matches and a folder's data files in the order of their names."""
    paths: list[Path] = []
    for name in names:
        if (folder / Path(name).expanduser()).is_dir():
            paths += _data_files(folder / Path(name).expanduser(), name, key)
            continue
        # A file of that very name goes first: browsers save a second download as `corpus[1].jsonl`.
        if not glob.has_magic(name) or any(path.is_file() for path in _spellings(folder, name)):
            paths.append(resolve_file(folder, name, key))
            continue
        # Not Path.glob: it refuses patterns that are absolute paths.
        pattern = Path(glob.escape(str(folder))) / Path(name).expanduser()
        matches = [Path(match) for match in sorted(glob.glob(str(pattern), recursive=True)) if Path(match).is_file()]  # noqa: PTH207
        if not matches:
            raise InputError(f"{key}={name}: no file matches in {folder}")
        paths += matches
    if not paths:
        raise InputError(f"{key} is empty; name at least one corpus file")
    return paths


def _data_files(folder: Path, name: str, key: str) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.name.endswith(_DATA) and path.is_file()]
    # Editors and archives leave copies in hidden folders (.ipynb_checkpoints) and hidden files (._wiki-001.jsonl).
    found = [path for path in found if not any(part[0] == "." for part in path.relative_to(folder).parts)]
    if not found:
        raise InputError(f"{key}={name}: the folder {folder} holds no file named *{', *'.join(_DATA)}")
    return sorted(found)


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    near = did_you_mean(path.name, (child.name for child in path.parent.iterdir()))
    return near if len(near) < 300 else ""  # none is close, and a list of a whole folder helps nobody
