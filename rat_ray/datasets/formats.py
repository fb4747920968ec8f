"""The formats that corpora come in: which one a file has, and its passages one after the other."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rat_ray.cells import next_row
from rat_ray.datasets.corpus import Passage, PassageFile
from rat_ray.datasets.fieldnames import NONE, FieldNames, FieldReader
from rat_ray.datasets.pages import PAGES, Cut, cut_page
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Place, Reader, RowError, clean_id
from rat_ray.errors import InputError, did_you_mean

FORMATS: Final = ("jsonl", "dpr", *PAGES)


def open_files(paths: Sequence[Path], format: str, cut: Cut, names: FieldNames) -> list[PassageFile]:
    """The files in their format; "auto" looks at the first row of each.

    Raises InputError for a file that is empty or cannot be read.
    """
    return [_open(path, detect(path) if format == "auto" else format, cut, names) for path in paths]


def detect(path: Path) -> str:
    """The format of a file: a first line with tabs that is no JSON is of a TSV, else the fields of the first row tell.

    Raises InputError for a file that is empty or cannot be read.
    """
    lines = Reader(path).lines(lambda _: None)
    _, first = next(lines, (Place(path, 0), "{"))
    if "\t" in first and not first.lstrip().startswith(("{", "[")):
        return "dpr"
    _, record = next(Reader(path).records(lambda _: None), (None, {}))
    if isinstance(record.get("lines"), str) and "id" in record:
        return "fever"
    if "wikipedia_id" in record and isinstance(record.get("text"), list):
        return "kilt"
    if "id" in record and isinstance(record.get("title"), str) and isinstance(record.get("text"), list):
        return "hotpotqa"
    return "jsonl"


@dataclass(frozen=True)
class JsonlFile:
    """One passage a line: an id, a text and perhaps a title."""

    path: Path
    names: FieldNames
    format: str = "jsonl"

    def passages(self, problems: Problems) -> Iterator[Passage]:
        """Raises InputError for a broken row, unless problems skips it, and for a named title that no row has."""
        fields = FieldReader(self.names)
        place, record = Place(self.path, 0), dict[str, object]()
        for place, record in Reader(self.path).records(problems.broken):
            try:
                passage_id = clean_id(fields.required(record, "passage_id", place), place, "the passage id")
                text = _text(fields.required(record, "text", place), place, passage_id, "text")
                title = _text(fields.optional(record, "title"), place, passage_id, "title")
            except RowError as error:
                fields.reject()
                problems.broken(error)
                continue
            fields.accept()
            yield Passage(place, passage_id, title, text or "")
        fields.finish(place, record, ("title",))


@dataclass(frozen=True)
class TsvFile:
    """DPR's `psgs_w100.tsv`: a header (id, text, title), tabs, cells quoted as CSV does."""

    path: Path
    names: FieldNames
    format: str = "dpr"

    def passages(self, problems: Problems) -> Iterator[Passage]:
        """Raises InputError for a header without the columns, and for a broken row, unless problems skips it."""
        rows = tsv_rows(self.path, problems)
        _, header = next(rows, (Place(self.path, 1), []))
        at_id, at_text, at_title = self._columns([cell.strip() for cell in header])
        width = len(header)
        for place, cells in rows:
            try:
                if len(cells) != width:
                    raise RowError(place, _wrong_width(cells, width))
                passage_id = clean_id(cells[at_id], place, "the passage id")
            except RowError as error:
                problems.broken(error)
                continue
            yield Passage(place, passage_id, cells[at_title] if at_title >= 0 else None, cells[at_text])

    def _columns(self, header: list[str]) -> tuple[int, int, int]:
        found: list[int] = []
        for field in ("passage_id", "text", "title"):
            names = self.names.names(field)
            matches = [header.index(name) for name in names if name in header]
            if not matches and (field != "title" or self.names.title not in ("", NONE)):
                wanted = "id" if field == "passage_id" and not self.names.passage_id else names[0]
                raise InputError(
                    f"{self.path}:1: the header has no column {wanted!r}{did_you_mean(wanted, header)}; DPR's header "
                    f"is id, text, title, separated by tabs (or set fields.{field})"
                )
            found.append(matches[0] if matches else -1)
        return found[0], found[1], found[2]


def tsv_rows(path: Path, problems: Problems) -> Iterator[tuple[Place, list[str]]]:
    """The cells of each row, with the line that it begins on, as the csv module would read them.

    A row on one line, which nearly all are, is cut without that module: it takes characters one by one.
    """
    lines = _Lines(Reader(path).lines(problems.broken))
    width = 0
    for place, text in lines:
        cells = _cells(text)
        if cells is None:
            try:
                cells = _quoted(place, text, lines, width, problems)
            except RowError as error:
                problems.broken(error)
                continue
        width = width or len(cells)
        yield place, cells


class _Lines:
    """Lines that may be given back, to be read again."""

    def __init__(self, lines: Iterator[tuple[Place, str]]) -> None:
        self._lines = lines
        self._back: deque[tuple[Place, str]] = deque()

    def __iter__(self) -> Iterator[tuple[Place, str]]:
        return self

    def __next__(self) -> tuple[Place, str]:
        return self._back.popleft() if self._back else next(self._lines)

    def give_back(self, lines: Sequence[tuple[Place, str]]) -> None:
        self._back.extendleft(reversed(lines))


def _quoted(place: Place, text: str, lines: _Lines, width: int, problems: Problems) -> list[str]:
    """The cells of a row that begins with this line and that only the csv module can read; counted if it goes on.

    A quotation mark that is never closed would swallow the rows below, up to the next such mark or the file's end.
    Where a row of several lines cannot be meant, RowError is raised for the first line alone, and the others are rows
    of their own. width: how many cells the first row has; 0: this is it.
    """
    taken: list[tuple[Place, str]] = []

    def following() -> Iterator[str]:
        yield text
        for line in lines:
            taken.append(line)
            yield line[1]

    try:
        cells = next_row(csv.reader(following(), delimiter="\t")) or []
        if taken:
            _check_whole([text, *(line for _, line in taken)], cells, width)
    except csv.Error as error:
        lines.give_back(taken)
        swallowed = f"; is a quotation mark never closed? It would take in {len(taken)} lines more" if taken else ""
        raise RowError(place, f"broken TSV ({error}): {text.strip()!r:.80}{swallowed}") from error
    if taken:
        problems.notes["rows of a TSV that go over several lines (quoted)"] += 1
    return cells


def _check_whole(lines: list[str], cells: list[str], width: int) -> None:
    """Raises csv.Error unless these lines are one row: quoted without fault, as wide as the first, not several rows."""
    next_row(csv.reader(lines, delimiter="\t", strict=True))
    if width and len(cells) != width:
        raise csv.Error(f"expected {width} columns as in the header, found {len(cells)}")
    # One passage opens a quotation and a later one closes it, in a file that was written without quoting. The last
    # line is not whole: what follows the mark is in other cells.
    *whole, last = [line for cell in cells for line in cell.rstrip("\n").split("\n")[1:]] or [""]
    alike = [line for line in whole if line.count("\t") == width - 1] + ([last] if "\t" in last else [])
    if width > 1 and 2 * sum(not line[:1].isspace() for line in alike) > len(whole):
        raise csv.Error("the lines that it takes in look like rows")


def _cells(line: str) -> list[str] | None:
    """The cells of a line that is one whole row, else None."""
    cells = line.rstrip("\r\n").split("\t")
    if '"' not in line:
        return cells
    for index, cell in enumerate(cells):
        if not cell.startswith('"'):
            continue
        inner = cell[1:-1]
        if len(cell) < 2 or cell[-1] != '"' or '"' in inner.replace('""', ""):
            return None
        cells[index] = inner.replace('""', '"')
    return cells


@dataclass(frozen=True)
class PagesFile:
    """A dump of whole pages, one a line, cut into passages."""

    path: Path
    format: str
    cut: Cut

    def passages(self, problems: Problems) -> Iterator[Passage]:
        """Raises InputError for a broken row, unless problems skips it. A row without an id is no page (counted)."""
        read = PAGES[self.format]
        for place, record in Reader(self.path).records(problems.broken):
            try:
                page = read(record, place)
            except RowError as error:
                problems.broken(error)
                continue
            if page is None:
                problems.notes["rows of the corpus without an id (no page, left out)"] += 1
                continue
            yield from cut_page(page, self.cut, place)


def _open(path: Path, format: str, cut: Cut, names: FieldNames) -> PassageFile:
    plain: Mapping[str, Callable[[Path, FieldNames], PassageFile]] = {"jsonl": JsonlFile, "dpr": TsvFile}
    return plain[format](path, names) if format in plain else PagesFile(path, format, cut)


def _wrong_width(cells: list[str], width: int) -> str:
    return f"expected {width} columns as in the header, found {len(cells)}: {cells!s:.80}"


def _text(value: object, place: Place, passage_id: str, what: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise RowError(place, f"passage {passage_id!r}: {what} must be a string or null, found {value!r:.80}")
