"""What the manifests of a store tell, as lines of text: lists of tables, one table explained, its inputs as a tree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rat_ray.store.gc import Folder
from rat_ray.store.objects import UnreadableError
from rat_ray.store.parts import damaged
from rat_ray.store.store import MANIFEST, Store

SHORT = 8  # letters of a key that are shown
_UNITS = ("B", "kB", "MB", "GB", "TB")


class Given(NamedTuple):
    """An input as a manifest names it."""

    name: str
    table: str
    key: str


class Known(NamedTuple):
    """A committed table: the bytes in its folder, how many parts it has, and its manifest."""

    table: str
    key: str
    size: int
    parts: int
    manifest: Mapping[str, Any]

    @property
    def label(self) -> str:
        return str(self.manifest.get("label") or self.table)

    @property
    def rows(self) -> int:
        return int(self.manifest.get("rows") or 0)

    @property
    def finished(self) -> str:
        """When, in UTC: `2026-11-30 14:02`."""
        return str(self.manifest.get("finished") or "").replace("T", " ")[:16]

    @property
    def by(self) -> str:
        """Host and commit: `node7 caedeb1`, with a star where the checkout had changes."""
        return f"{self.manifest.get('host') or '?'} {commit_of(self.manifest)}"

    @property
    def inputs(self) -> list[Given]:
        found = self.manifest.get("inputs") or {}
        return [Given(str(name), str(one["table"]), str(one["key"])) for name, one in found.items()]


class Unreadable(NamedTuple):
    """A folder whose manifest cannot be read, and why."""

    table: str
    key: str
    why: str


def read_tables(store: Store, folders: Sequence[Folder]) -> tuple[list[Known], list[Unreadable]]:
    """The tables in these folders, in the order in which they were finished, and those that cannot be read."""
    with ThreadPoolExecutor(max(1, min(8, store.storage.connections))) as pool:
        found = list(pool.map(lambda folder: _read(store, folder), folders))
    known = [one for one in found if isinstance(one, Known)]
    known.sort(key=lambda one: (str(one.manifest.get("finished") or ""), one.table, one.key))
    return known, [one for one in found if isinstance(one, Unreadable)]


def _read(store: Store, folder: Folder) -> Known | Unreadable:
    try:
        table = store.find(folder.table, folder.key)
    except UnreadableError as error:
        return Unreadable(folder.table, folder.key, str(error))
    where = f"{store.root}/{folder.where}"
    if table is None:
        return Unreadable(folder.table, folder.key, f"{where}: its manifest has gone while it was read")
    known = Known(folder.table, folder.key, folder.size, len(table.parts), table.manifest)
    try:  # facts that only we look at may be damaged, too
        table_lines([known], 80)
        explain(known, 80)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return Unreadable(folder.table, folder.key, damaged(f"{where}/{MANIFEST}", where, repr(error)))
    return known


def commit_of(manifest: Mapping[str, Any]) -> str:
    """The first letters of the commit, with a star where files differed from it; else the package's version."""
    git = manifest.get("git") or {}
    if git.get("commit"):
        return f"{str(git['commit'])[:7]}{'*' if git.get('dirty') else ''}"
    return f"v{(manifest.get('versions') or {}).get('rat_ray', '?')}"


def summary_lines(tables: Sequence[Known]) -> list[str]:
    """One line per kind of table."""
    kinds: dict[str, list[Known]] = {}
    for one in tables:
        kinds.setdefault(one.table, []).append(one)
    rows = [
        (kind, f"{len(of):,}", f"{sum(o.rows for o in of):,}", size_text(sum(o.size for o in of)), of[-1].finished)
        for kind, of in kinds.items()
    ]
    return _aligned(("table", "tables", "rows", "size", "last finished (UTC)"), rows, right={1, 2, 3})


def table_lines(tables: Sequence[Known], width: int) -> list[str]:
    """Two lines per table: what it is, and below it what it was made from."""
    head = ("key", "table", "label", "rows", "size", "parts", "finished (UTC)", "by")
    rows = [
        (
            *(one.key[:SHORT], one.table, fit(one.label, 40), f"{one.rows:,}", size_text(one.size)),
            *(str(one.parts), one.finished, one.by),
        )
        for one in tables
    ]
    lines = _aligned(head, rows, right={3, 4, 5})
    found = [lines[0]]
    for one, line in zip(tables, lines[1:], strict=True):
        found.append(fit(line, width))
        if one.inputs:
            given = ", ".join(f"{each.name} {each.key[:SHORT]}" for each in one.inputs)
            found.append(fit(f"{'':<{SHORT}}  from {given}", width))
    return found


def explain(one: Known, width: int) -> list[str]:
    """Everything that a manifest says of how its table was made."""
    facts = one.manifest
    counts = [f"{one.rows:,} rows", f"{one.parts:,} parts", size_text(one.size)]
    if "rows_in" in facts:
        counts.insert(0, f"{facts['rows_in']:,} rows in")
    if facts.get("errors"):
        counts.append(f"{facts['errors']:,} rows with an error")
    hosts = facts.get("hosts") or [facts.get("host") or "?"]
    said = [
        ("table", f"{one.table} {one.key}"),
        ("label", one.label),
        ("holds", ", ".join(counts)),
        ("content", str(facts.get("digest") or "")),
        ("made", f"{_time(facts.get('started'))} to {_time(facts.get('finished'))} UTC"),
        ("by", f"{facts.get('who') or facts.get('host') or '?'}, on {len(hosts)} hosts: {', '.join(map(str, hosts))}"),
        ("code", f"{commit_of(facts)} {(facts.get('git') or {}).get('commit') or ''}".strip()),
        ("seed", str(facts.get("seed", ""))),
        ("versions", ", ".join(f"{name} {value}" for name, value in (facts.get("versions") or {}).items())),
        ("settings", json.dumps(facts.get("settings"), ensure_ascii=False)),
    ]
    return [line for name, text in said if text for line in _wrapped(name, text, width)]


def tree_lines(one: Known, known: Mapping[str, Known], width: int) -> list[str]:
    """A table and, below it, its inputs and theirs; one that was shown already is not opened again."""
    return [fit(line, width) for line in _branch(one, "", "", known, set())]


def _branch(one: Known, before: str, below: str, known: Mapping[str, Known], shown: set[str]) -> Iterator[str]:
    line = f"{before}{one.key[:SHORT]} {one.table} {one.label}"
    if one.key in shown:
        yield f"{line} (above)"
        return
    shown.add(one.key)
    yield f"{line}: {one.rows:,} rows, {size_text(one.size)}, {one.finished}, {one.by}"
    for index, given in enumerate(one.inputs):
        last = index == len(one.inputs) - 1
        twig, under = below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")
        if given.key in known:
            yield from _branch(known[given.key], twig, under, known, shown)
        else:
            yield f"{twig}{given.key[:SHORT]} {given.table} (not in this store)"


def size_text(size: int) -> str:
    """`999 B`, `1.2 kB`, `3.4 GB`."""
    value = float(size)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def time_text(seconds: float) -> str:
    """Seconds since 1970 as `2026-11-30 14:02`, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def fit(text: str, width: int) -> str:
    """The text, cut to a width."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _time(value: Any) -> str:
    return str(value).replace("T", " ")[:19] if value else "?"


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> list[str]:
    """Columns as wide as their longest cell."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return ["  ".join(_cells(line, widths, right)).rstrip() for line in lines]


def _cells(line: Sequence[str], widths: Sequence[int], right: set[int]) -> Iterable[str]:
    for column, (cell, width) in enumerate(zip(line, widths, strict=True)):
        yield cell.rjust(width) if column in right else cell.ljust(width)


def _wrapped(name: str, text: str, width: int) -> list[str]:
    """`name      text`, continued below the text."""
    import textwrap

    lines = textwrap.wrap(text, width - 10, break_on_hyphens=False) or [""]
    return [f"{name if index == 0 else '':<10}{line}" for index, line in enumerate(lines)]
