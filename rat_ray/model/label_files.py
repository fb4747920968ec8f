"""Label files of any format as Arrow columns: CSV, TSV, JSONL (each also .gz), Parquet, or a folder of Parquet."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol, TextIO, cast

import pyarrow as pa

from rat_ray.cells import next_row
from rat_ray.errors import InputError
from rat_ray.tables import TRUSTED

_BROKEN = (pa.ArrowInvalid, pa.ArrowTypeError, OSError, EOFError, UnicodeDecodeError, zlib.error)
_CELL = 64 << 20  # bytes of one row, at most


class LabelFile(Protocol):
    """An opened file: the names of its columns, any of them as Arrow columns, and the line of a row in an editor."""

    names: list[str]

    def read(self, names: Sequence[str]) -> pa.Table:
        """These columns, one row per data row."""
        ...

    def line(self, row: int) -> int | None:
        """The line (from 1) on which a data row (from 0) ends; None where a file has no lines."""
        ...


def open_label_file(path: Path) -> LabelFile:
    """Choose the format by the file's ending. Raises InputError for a missing, empty or unreadable file."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file; data= names the file with the labels")
    if path.is_dir():
        return ParquetLabels(path)
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty; the first line of a label file names its columns (r, a, t, ...)")
    ending = "".join(path.suffixes[-2:]).lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    try:
        match ending:
            case ".csv" | ".csv.gz":
                return CsvLabels(path, ",")
            case ".tsv" | ".tsv.gz":
                return CsvLabels(path, "\t")
            case ".jsonl" | ".jsonl.gz" | ".ndjson" | ".ndjson.gz":
                return JsonLabels(path)
            case ".parquet":
                return ParquetLabels(path)
    except _BROKEN as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    raise InputError(
        f"{path}: the ending {ending!r} is unknown; label files end in .csv, .tsv, .jsonl (also with .gz) or .parquet"
    )


class CsvLabels:
    """A delimited text file with a header; every column is read as text, blank cells as empty text."""

    def __init__(self, path: Path, delimiter: str) -> None:
        self._path, self._delimiter = path, delimiter
        header = next((cells for _, cells in self._records() if cells), [])
        if not header:
            raise InputError(f"{path}: the file is empty; its first line must name the columns (r, a, t, ...)")
        self._columns = {name.strip(): name for name in header}
        self.names = list(self._columns)
        if len(self.names) < len(header):
            twice = sorted({name for name in header if [n.strip() for n in header].count(name.strip()) > 1})
            raise InputError(f"{path}: the header names {', '.join(map(repr, twice))} more than once")
        if len(header) == 1 and any(sign in header[0] for sign in ";\t,|"):
            raise InputError(
                f"{path}: the header {header[0]!r} is one column; cells are separated by "
                f"{'tabs' if delimiter == chr(9) else 'commas'} in a {path.suffix} file"
            )

    def read(self, names: Sequence[str]) -> pa.Table:
        import pyarrow.csv

        columns = [self._columns[name] for name in names]
        try:
            rows = self._count_quoted()
            table = pyarrow.csv.read_csv(
                self._path,
                read_options=pyarrow.csv.ReadOptions(block_size=_CELL),
                parse_options=pyarrow.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=columns, column_types={name: pa.string() for name in columns}
                ),
            )
        except _BROKEN as error:
            raise InputError(f"{self._path}: cannot be read: {error}") from error
        if rows is not None and rows != table.num_rows:
            raise InputError(
                f"{self._path}: its quotes and line ends can be read as {rows} or as {table.num_rows} rows; "
                "write the file again with one kind of line end"
            )
        return table.rename_columns(list(names))

    def line(self, row: int) -> int | None:
        seen = -2  # the header is the first row that is not blank
        with contextlib.suppress(UnicodeDecodeError):  # in a column that is not used
            for number, cells in self._records():
                seen += bool(cells)
                if seen == row:
                    return number
        return None

    def _count_quoted(self) -> int | None:
        """How many data rows there are, where the file has quotes: one that is left open would swallow rows."""
        with _open_bytes(self._path) as file:
            if not any(b'"' in block for block in iter(lambda: file.read(1 << 20), b"")):
                return None
        return sum(1 for _, cells in self._records() if cells) - 1

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Every row with the line on which it ends. Raises InputError for quotes that do not pair up."""
        with _open_text(self._path) as file:
            reader = csv.reader(file, delimiter=self._delimiter, strict=True)
            start = 1
            try:
                while (cells := next_row(reader, _CELL)) is not None:
                    yield reader.line_num, cells
                    start = reader.line_num + 1
            except csv.Error as error:
                raise InputError(
                    f'{self._path}, the row from line {start} on: its quotes (") do not pair up ({error}); a quoted '
                    "cell ends with a quote, and a quote within it is written twice"
                ) from error


class JsonLabels:
    """One JSON object per line; a key that a line lacks is null there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[int] = []
        self._rows: list[dict[str, object]] = []
        with _open_text(path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    self._lines.append(number)
                    self._rows.append(_json_object(path, number, line))
        names: dict[str, None] = {}
        for row in self._rows:
            names.update(dict.fromkeys(row))
        self.names = list(names)
        if not self._rows:
            raise InputError(f"{path}: the file is empty; each line must be an object with r, a and t")

    def read(self, names: Sequence[str]) -> pa.Table:
        return pa.table({name: pa.array(self._texts(name), type=pa.string()) for name in names})

    def _texts(self, name: str) -> list[str | None]:
        for line, row in zip(self._lines, self._rows, strict=True):
            if isinstance(row.get(name), list | dict):
                raise InputError(
                    f"{self._path}, line {line}: {name} is {row[name]!r:.80}; a text or number is expected"
                )
        return [_text(row.get(name)) for row in self._rows]

    def line(self, row: int) -> int | None:
        return self._lines[row]


class ParquetLabels:
    """A Parquet file, or a folder of them: `config=NAME/` in a path is a column."""

    def __init__(self, path: Path) -> None:
        import pyarrow.dataset

        self._path = path
        files = [str(file) for file in sorted(path.rglob("*.parquet"))] if path.is_dir() else [str(path)]
        if not files:
            raise InputError(f"{path}: the folder holds no .parquet file")
        base = str(path) if path.is_dir() else None
        try:
            partitioning = "hive" if base else None
            found = pyarrow.dataset.dataset(files, format="parquet", partitioning=partitioning, partition_base_dir=base)
            parts = [fragment.physical_schema for fragment in found.get_fragments()]
            # Permissive: pandas writes 0 and 1 as integers, and as doubles where some are missing.
            schema = pa.unify_schemas([found.schema, *parts], promote_options="permissive")
            self._dataset = pyarrow.dataset.dataset(
                files, schema=schema, format="parquet", partitioning=partitioning, partition_base_dir=base
            )
        except _BROKEN as error:
            raise InputError(f"{path}: cannot be read as Parquet: {error}") from error
        self.names = list(self._dataset.schema.names)
        self.trusted = {name for part in parts for name in _trusted(part)}

    def read(self, names: Sequence[str]) -> pa.Table:
        try:
            table = self._dataset.to_table(columns=list(names))
            table.validate(full=True)
        except _BROKEN as error:
            raise InputError(f"{self._path}: cannot be read as Parquet: {error}") from error
        return pa.table({name: self._readable(name, table.column(name)) for name in names})

    def _readable(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Bytes as text, other columns as they are."""
        if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
            return column
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise InputError(f"{self._path}: column {name!r} holds bytes that are not UTF-8 text") from error

    def line(self, row: int) -> int | None:
        return None


def _trusted(schema: pa.Schema) -> list[str]:
    """The trusted source columns that an annotations table names in its metadata."""
    named = (schema.metadata or {}).get(TRUSTED, b"").decode()
    return [name for name in named.split(",") if name]


def _open_bytes(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "rb")) if path.suffix.lower() == ".gz" else path.open("rb")


def _open_text(path: Path) -> TextIO:
    return io.TextIOWrapper(_open_bytes(path), encoding="utf-8-sig", newline="")


def _json_object(path: Path, number: int, line: str) -> dict[str, object]:
    try:
        row = json.loads(line, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, line {number}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise InputError(f'{path}, line {number}: an object such as {{"r": 1, "a": 0, "t": 1}} is expected')
    return row


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object. Raises ValueError for a key that stands twice in it, and for what is no text."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands twice")
    for text in (*made, *made.values()):
        if isinstance(text, str) and not text.isascii():
            text.encode()  # a lone surrogate such as \ud800 is legal in JSON and no text: UnicodeEncodeError
    return made


def _text(value: object) -> str | None:
    """1, 1.0 and "1" are the same; NaN is missing."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
