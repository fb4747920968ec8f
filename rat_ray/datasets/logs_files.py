"""The files of a log, and their rows as they stand there: JSONL, a JSON array, CSV, TSV or Parquet."""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from rat_ray.cells import next_row
from rat_ray.datasets.arrays import ArrayReader
from rat_ray.datasets.logs_fields import Columns
from rat_ray.datasets.reading import Broken, Place, RowError, open_bytes, resolve_file, shown
from rat_ray.errors import InputError

FORMATS: Final = ("auto", "jsonl", "json", "csv", "tsv", "parquet")
_NAMES: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_ZIPPED: Final = ("", ".gz", ".bz2")
_LONGEST: Final = 2**31 - 1  # characters of a cell: contexts are long
_BATCH: Final = 1000
_KEY: Final = "dataset.path"


class ParquetRow(Place):
    """Where a row of a Parquet file stands: its file, and its number from 1 as `line`."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{shown(self.path)}: row {self.line}"


def log_files(names: Iterable[str]) -> list[Path]:
    """The files in the order given; of a folder and a glob in the order of their names.

    Raises InputError for one that is not there, and for one that is named twice.
    """
    found: list[Path] = []
    for name in names:
        if name in ("", "???"):
            raise InputError(f"{_KEY} is not set; give the log: a file, a glob or a folder, e.g. {_KEY}=logs.jsonl")
        found += _matches(name)
    if not found:
        raise InputError(f"{_KEY} is empty; give the log: a file, a glob or a folder, e.g. {_KEY}=logs.jsonl")
    doubled = [path for path in found if found.count(path) > 1]
    if doubled:
        raise InputError(f"{_KEY}: {shown(doubled[0])} is named twice; its rows would count twice")
    return found


def _matches(name: str) -> list[Path]:
    if "://" in name:
        raise InputError(f"{_KEY}={name}: a log is read from a disk; copy it to this machine first")
    path = Path(name).expanduser()
    if path.is_dir():
        return _in_folder(path, name)
    if path.is_file() or not glob.has_magic(name):
        return [resolve_file(Path(), name, _KEY)]
    matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True)) if Path(match).is_file()]  # noqa: PTH207
    if not matches:
        raise InputError(f"{_KEY}={name}: no file matches")
    return matches


def _in_folder(folder: Path, name: str) -> list[Path]:
    endings = tuple(f"{ending}{zipped}" for ending in _NAMES for zipped in _ZIPPED)
    found = [path for path in folder.rglob("*") if path.name.endswith(endings) and path.is_file()]
    # Editors and archives leave copies in hidden folders and files.
    found = [path for path in found if not any(part[0] == "." for part in path.relative_to(folder).parts)]
    if not found:
        raise InputError(f"{_KEY}={name}: the folder holds no file named *{', *'.join(_NAMES)}")
    return sorted(found)


def records(path: Path, format: str, columns: Columns, broken: Broken) -> Iterator[tuple[Place, dict[str, object]]]:
    """The rows of one file with their places; `broken` is called for one that cannot be read.

    format: one of FORMATS; "auto" looks at the file's first bytes, which tell whatever its name says. columns: told of
    columns that are not read. Raises InputError for a file that is empty, damaged or of no such format.
    """
    kind = _detect(path) if format == "auto" else format
    if kind == "parquet":
        return _parquet(path, columns)
    if kind in ("jsonl", "json"):
        return ArrayReader(path).records(broken)
    return _delimited(path, "\t" if kind == "tsv" else "", broken)


def _detect(path: Path) -> str:
    try:
        with open_bytes(path) as file:
            first = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    except (EOFError, zlib.error, OSError) as error:
        raise _unreadable(path, error) from error
    if not first:
        raise InputError(f"{shown(path)}: the file is empty; it needs at least one row")
    if first[:4] == b"PAR1":
        return "parquet"
    if first.startswith((b"PK\x03\x04", b"%PDF")):
        what = "an archive or a workbook (.xlsx, .ods)" if first[:2] == b"PK" else "a PDF"
        raise InputError(f"{shown(path)}: is {what}, no log; save it as CSV (UTF-8)")
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f'{shown(path)}: is UTF-16, not UTF-8 (Excel\'s "Unicode text"?); save it as CSV UTF-8')
    return "json" if first[:1] in (b"{", b"[") else "csv"


def _parquet(path: Path, columns: Columns) -> Iterator[tuple[Place, dict[str, object]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            _check_header(shown(path), file.schema_arrow.names)
            wanted = columns.wanted(file.schema_arrow.names)
            # A file without any of the columns is read for its error, which lists them.
            for batch in file.iter_batches(batch_size=_BATCH, columns=wanted or None):
                for row in batch.to_pylist():
                    number += 1
                    yield ParquetRow(path, number), row
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error
    if not number:
        raise InputError(f"{shown(path)}: the file is empty; it needs at least one row")


def _delimited(path: Path, delimiter: str, broken: Broken) -> Iterator[tuple[Place, dict[str, object]]]:
    """Rows of a CSV or TSV with a header. An empty cell is null: such a file cannot tell it from an empty text."""
    line = 1
    try:
        with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            rows = csv.reader(_again(first, file), delimiter=delimiter or _delimiter(first), strict=True)
            header = [name.strip() for name in next_row(rows, _LONGEST) or []]
            _check_header(str(Place(path, 1)), header)
            line = rows.line_num + 1
            while (cells := next_row(rows, _LONGEST)) is not None:
                place, line = Place(path, line), rows.line_num + 1
                if len(cells) == len(header):
                    yield place, {name: cell or None for name, cell in zip(header, cells, strict=True)}
                elif any(cells):
                    expected = f"expected {len(header)} columns as in the header, found {len(cells)}"
                    broken(RowError(place, f"{expected}: {cells!s:.80}"))
    except csv.Error as error:
        raise InputError(
            f"{Place(path, line)}: broken CSV ({error}); is a quotation mark never closed, or not doubled within a "
            "quoted cell? Nothing after it can be read, whatever dataset.on_error says"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{Place(path, line)}: from here on not valid UTF-8 ({error.reason}); convert the file"
        ) from error
    except (EOFError, zlib.error, OSError) as error:
        raise _unreadable(path, error) from error


def _again(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


def _delimiter(header: str) -> str:
    """The comma, unless the header has more semicolons (as spreadsheets write in half of Europe) or tabs."""
    return max(",;\t", key=header.count)


def _check_header(where: str, header: list[str]) -> None:
    doubled = sorted({name for name in header if name and header.count(name) > 1})
    if doubled:
        raise InputError(f"{where}: the header names the column {doubled[0]!r} twice; rename one")


def _unreadable(path: Path, error: Exception) -> InputError:
    if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
        return InputError(f"{shown(path)}: the compressed data break off or are damaged ({error}); fetch it again")
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(f"{shown(path)}: cannot be read ({said:.200})")
