"""`rat-ray store show` and `rat-ray store gc`: what lies in a store, where it came from, and what can go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from rat_ray.errors import InputError, StageError, did_you_mean
from rat_ray.export import read_finished
from rat_ray.output import below
from rat_ray.progress import console
from rat_ray.settings import build, check_given
from rat_ray.store import StorageSettings, Store
from rat_ray.store.gc import Folder, Survey, folders_of, remove, survey
from rat_ray.store.show import (
    Known,
    Unreadable,
    explain,
    fit,
    read_tables,
    size_text,
    summary_lines,
    table_lines,
    time_text,
    tree_lines,
)

if TYPE_CHECKING:
    from rat_ray.commands import Context

ACTIONS = ("show", "gc")
LISTED = 40  # more tables than this are summarised by kind
WIDTH = 120


@dataclass(frozen=True)
class StoreSettings:
    """Everything behind `conf/store.yaml`."""

    storage: StorageSettings
    action: str = "show"
    store: str | None = None
    run: str | None = None
    table: str | None = None
    key: str | None = None
    delete: bool = False
    older_than_hours: float = 24.0

    def validate(self) -> None:
        """Raise InputError for settings that do not go together."""
        if self.action not in ACTIONS:
            raise InputError(f"action={self.action}: unknown{did_you_mean(self.action, ACTIONS)}")
        check_given(**{name: value for name in ("store", "run") if (value := getattr(self, name)) is not None})
        if not 0 <= self.older_than_hours < float("inf"):
            raise InputError(f"older_than_hours={self.older_than_hours}: must be 0 or more")
        if self.delete and self.action != "gc":
            raise InputError("delete=true goes with `rat-ray store gc`")
        if self.action == "gc" and (self.table or self.key):
            raise InputError("table= and key= go with `rat-ray store show`; gc looks through the whole store")


SETTINGS = StoreSettings


def run(context: Context) -> str:
    """Print the tables of a store, or what can be removed from it; with `delete=true` remove that."""
    job = build(StoreSettings, context.config)
    wanted = {} if job.run is None else _tables_of(job.run, job.storage)
    roots = [job.store] if job.store is not None else list(wanted) or ["rat-store"]
    screen = console()
    for root in roots:
        store = Store(root, job.storage)
        store.objects.look()
        keys = [key for of, made in wanted.items() if job.store is not None or of == root for key in made]
        if job.action == "gc":
            _collect(store, job, screen)
        else:
            _show(store, job, keys, screen)
    return roots[-1]


def _tables_of(run: str, storage: StorageSettings) -> dict[str, list[str]]:
    """The keys of the tables of a finished run, or of all runs of a finished sweep, by the store where they lie."""
    out, facts = read_finished(run, "evaluate", storage)
    inside = [out.inside(name) for name in facts.get("configurations", [])] if facts.get("kind") == "sweep" else []
    found: dict[str, list[str]] = {}
    for files, made in [(files, files.run() or {}) for files in inside] or [(out, facts)]:
        keys = found.setdefault(str(made.get("store") or below(files.place, ".store")), [])
        keys += [str(stage["key"]) for stage in made.get("stages", [])]
    return found


# --- show ----------------------------------------------------------------------------------------------------------


def _show(store: Store, job: StoreSettings, wanted: list[str], screen: Console) -> None:
    folders, _ = folders_of(store.objects)
    if not folders:
        raise InputError(f"store={store.root}: there are no tables; is it the store= of a run?")
    known, broken = read_tables(store, [folder for folder in folders if folder.finished])
    unfinished = [folder for folder in folders if not folder.finished and folder.rows]
    if wanted:
        known, broken = _needed(known, broken, wanted, store)
        unfinished = []
    if job.key is not None:
        _say(screen, _explained(known, broken, job.key))
        return
    if job.table is not None:
        _check_table(job.table, [*known, *broken, *unfinished])
        known, broken, unfinished = (
            [one for one in known if one.table == job.table],
            [one for one in broken if one.table == job.table],
            [one for one in unfinished if one.table == job.table],
        )
    many = job.table is None and len(known) > LISTED
    if known:
        _say(screen, summary_lines(known) if many else table_lines(known, WIDTH))
    elif not broken:
        _say(screen, ["no table is finished here"])
    if many:
        _say(screen, ["", "table=NAME lists the tables of one kind, key=KEY explains one"])
    _say(screen, [f"cannot be read: {one.why}" for one in broken])
    _say(screen, _unfinished_lines(unfinished))
    _say(screen, [f"store: {store.root}"])


def _check_table(name: str, there: Sequence[Known | Unreadable | Folder]) -> None:
    names = {one.table for one in there}
    if name not in names:
        raise InputError(f"table={name}: no such table here{did_you_mean(name, names)}")


def _needed(
    known: list[Known], broken: list[Unreadable], wanted: list[str], store: Store
) -> tuple[list[Known], list[Unreadable]]:
    """Of each, those with these keys, and whatever they were made from."""
    by_key = {one.key: one for one in known}
    unread = {one.key for one in broken}
    missing = [key for key in wanted if key not in by_key and key not in unread]
    if missing:
        raise InputError(
            f"store={store.root}: {len(missing)} of the run's {len(wanted)} tables are not there, the first is "
            f"{missing[0][:8]}; if the store was moved, give store="
        )
    found: set[str] = set()
    waiting = list(wanted)
    while waiting:
        key = waiting.pop()
        if key not in found and key in by_key:
            waiting += [given.key for given in by_key[key].inputs]
        found.add(key)
    return [one for one in known if one.key in found], [one for one in broken if one.key in found]


def _explained(known: list[Known], broken: list[Unreadable], beginning: str) -> list[str]:
    found = [one for one in known if one.key.startswith(beginning)]
    unread = [one for one in broken if one.key.startswith(beginning)]
    if unread and not found:
        raise StageError(unread[0].why)
    if not found:
        raise InputError(f"key={beginning}: no table's key begins so; `rat-ray store show` lists them")
    if len(found) > 1:
        listed = ", ".join(one.key[: len(beginning) + 4] for one in found[:5])
        raise InputError(f"key={beginning}: {len(found)} tables begin so ({listed}); give more of it")
    return [*explain(found[0], WIDTH), "", *tree_lines(found[0], {one.key: one for one in known}, WIDTH)]


def _unfinished_lines(folders: list[Folder]) -> list[str]:
    if not folders:
        return []
    rows = sum(folder.rows for folder in folders)
    names = ", ".join(folder.short for folder in folders[:5]) + (", …" if len(folders) > 5 else "")
    return [
        fit(f"unfinished: {len(folders)} tables with {rows:,} rows done, which a rerun reuses: {names}", WIDTH),
    ]


# --- gc ------------------------------------------------------------------------------------------------------------


def _collect(store: Store, job: StoreSettings, screen: Console) -> None:
    if not folders_of(store.objects)[0]:
        raise InputError(f"store={store.root}: there are no tables; is it the store= of a run?")
    found = survey(store, job.older_than_hours * 3600)
    _say(screen, _garbage_lines(found))
    _say(screen, found.kept)
    things = len(found.garbage) + sum(len(folder.entries) for folder in found.unfinished)
    size = sum(one.size for one in found.garbage) + sum(folder.size for folder in found.unfinished)
    what = f"{things:,} objects, {size_text(size)}, older than {job.older_than_hours:g} hours and no part of a table"
    if not things:
        _say(screen, [f"nothing to remove: no object older than {job.older_than_hours:g} hours is without a table"])
    elif job.delete:
        _say(screen, [*remove(store, found), f"removed: {what}"])
    else:
        _say(screen, [f"{what}; nothing was removed: delete=true does that"])
    _say(screen, [f"store: {store.root} (tables that no run needs are kept: this version cannot tell)"])


def _garbage_lines(found: Survey) -> list[str]:
    """One line for each folder and kind of thing."""
    groups: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for one in found.garbage:
        groups.setdefault((one.folder, one.kind), []).append((one.size, one.modified))
    lines = [_line(folder, f"{len(group)} × {kind}", group) for (folder, kind), group in sorted(groups.items())]
    for folder in sorted(found.unfinished):
        entries = [(entry.size, entry.modified) for entry in folder.entries]
        what = f"unfinished, {folder.rows:,} rows of work that a rerun would reuse"
        lines.append(_line(folder.where, what, entries))
    return lines


def _line(folder: str, what: str, group: list[tuple[int, float]]) -> str:
    table, _, key = folder.partition("/")
    where = f"{table}/{key[:8]}" if key else "(the store itself)"
    size = size_text(sum(size for size, _ in group))
    seen = time_text(max(modified for _, modified in group))
    return fit(f"{where:<22}  {size:>8}  {seen}  {what}", WIDTH)


def _say(screen: Console, lines: Iterable[str]) -> None:
    for line in lines:
        screen.print(line, highlight=False, markup=False, soft_wrap=True)
