"""What lies in a store and is no part of any table: found, and on request removed.

A folder `<table>/<key>/` with a manifest is a table: whatever else our writers left there is garbage. One without a
manifest is unfinished: its parts are what a resumed run reuses, so the folder as a whole is garbage only when nothing
in it is younger than the limit and no live lease is on it, and it is removed under a lease of our own. A table that no
run needs any more is no garbage: nothing here knows what is needed. Names that are none of ours are left alone.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rat_ray.errors import StageError
from rat_ray.store.lease import LEASES, WRITERS, Lease, claimed_seconds
from rat_ray.store.names import split_address
from rat_ray.store.objects import Entry, Objects, UnreadableError
from rat_ray.store.parts import FILES, parse_part
from rat_ray.store.store import MANIFEST, RANGES, Store
from rat_ray.store.table import Table

if TYPE_CHECKING:
    from rat_ray.store.s3_client import S3Client

PART, FILE, PIECE, SCRATCH = "part", "file", "piece", "scratch"
LEASE, UPLOAD, BOUNDS, LOCK = "lease", "upload", "ranges", "lock"
_FOLDER = re.compile(r"^([A-Za-z0-9_]+)/([0-9a-f]{32})/(.+)$")
_KINDS = (
    (SCRATCH, re.compile(r"^(\.tmp-[0-9a-f]{32}|\.scratch-[0-9a-f]{32}/.+)$")),
    (LOCK, re.compile(r"^\.lock$")),  # of disks that know no hard links, see local.py
    (LEASE, re.compile(rf"^{re.escape(LEASES)}/([0-9a-f]{{32}}\.json|\.tmp-[0-9a-f]{{32}})$")),
    (PIECE, re.compile(r"^piece-\d{12}-\d{12}-\d{12}-\d{12}\.parquet$")),
    (FILE, re.compile(r"^part-\d{12}-\d{12}-\d+-[0-9a-f]{16}/.+$")),
)
_AT_THE_ROOT = re.compile(
    r"^(\.tmp-[0-9a-f]{32}|\.probe/[0-9a-f]{32}|\.writer/([0-9a-f]{32}\.json|\.tmp-[0-9a-f]{32}))$"
)

_ALIVE = 600.0  # seconds for which gc takes any claim for a live one, at least


class Folder(NamedTuple):
    """What lies under one `<table>/<key>/`: entries by their names inside it."""

    table: str
    key: str
    entries: tuple[Entry, ...]

    @property
    def where(self) -> str:
        return f"{self.table}/{self.key}"

    @property
    def short(self) -> str:
        """For messages."""
        return f"{self.table}/{self.key[:8]}"

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)

    @property
    def newest(self) -> float:
        return max(entry.modified for entry in self.entries)

    @property
    def finished(self) -> bool:
        """Whether there is a manifest, be it a damaged one."""
        return any(entry.name == MANIFEST or entry.name.startswith(f"{MANIFEST}/") for entry in self.entries)

    @property
    def rows(self) -> int:
        """Rows of input that its parts stand for: the work that a resumed run need not do again."""
        parts = (parse_part(entry.name) for entry in self.entries)
        bounds = {(part.start, part.stop) for part in parts if part is not None}
        return sum(stop - start for start, stop in bounds)


class Garbage(NamedTuple):
    """One thing to remove. folder: `<table>/<key>`, or empty; name: of the object, or an upload's key."""

    kind: str
    folder: str
    name: str
    size: int
    modified: float
    upload: str = ""


class Survey(NamedTuple):
    """garbage: of finished tables, of the root, and uploads. unfinished: folders that are garbage as a whole.

    kept: what looks like garbage and is not, in words. now: seconds since 1970 by the store's clock.
    """

    garbage: list[Garbage]
    unfinished: list[Folder]
    kept: list[str]
    now: float


def folders_of(objects: Objects, prefix: str = "") -> tuple[list[Folder], list[Entry]]:
    """Every `<table>/<key>/` whose name begins with the prefix, and what lies outside of them."""
    inside: dict[tuple[str, str], list[Entry]] = {}
    outside: list[Entry] = []
    for entry in objects.walk(prefix):
        match = _FOLDER.match(entry.name)
        if match is None:
            outside.append(entry)
        else:
            inside.setdefault((match[1], match[2]), []).append(entry._replace(name=match[3]))
    return [Folder(table, key, tuple(entries)) for (table, key), entries in inside.items()], outside


def survey(store: Store, older_than: float) -> Survey:
    """Look through a store for what is older than so many seconds and no part of a table. Removes nothing.

    Raises: StageError where the store cannot be read, or where its clock cannot be learnt (it must be writable).
    """
    objects = store.objects
    now = store_clock(objects)
    limit = now - older_than
    folders, outside = folders_of(objects)
    result = Survey([], [], [], now)
    live = {folder.where for folder in folders if _live_lease(store, folder, now)}
    kept = live | {folder.where for folder in folders if not _look(store, folder, limit, folder.where in live, result)}
    old = [entry for entry in outside if entry.modified < limit and _AT_THE_ROOT.match(entry.name)]
    if any(_is_live(store, entry.name, entry, now) for entry in old if _root_kind(entry.name) == LEASE):
        result.kept.append("the store itself: a job is its only writer")
        old = [entry for entry in old if _root_kind(entry.name) != LEASE]
    result.garbage.extend(Garbage(_root_kind(entry.name), "", entry.name, entry.size, entry.modified) for entry in old)
    result.garbage.extend(one for one in _uploads(store) if one.modified < limit and one.folder not in kept)
    return result


def remove(store: Store, found: Survey) -> list[str]:
    """Remove what a survey found; in words, what turned out to be in use."""
    _delete(store, [one for one in found.garbage if not one.upload])
    _abort(store, [one for one in found.garbage if one.upload])
    return [why for folder in found.unfinished if (why := _remove_unfinished(store, folder))]


def store_clock(objects: Objects) -> float:
    """The time at the store, in seconds since 1970: that of an object written now, which is removed again."""
    name = f".tmp-{uuid.uuid4().hex}"
    objects.put(name, b"")
    try:
        return next(entry.modified for entry in objects.walk(name) if entry.name == name)
    except StopIteration:
        raise StageError(f"{objects.url}: what was just written is not listed") from None
    finally:
        objects.delete([name])


def _look(store: Store, folder: Folder, limit: float, live: bool, result: Survey) -> bool:
    """Add what of one folder is garbage. False: nothing in it may be touched."""
    where = folder.where
    if not any(entry.modified < limit for entry in folder.entries):
        return True
    if live:
        result.kept.append(f"{folder.short}: a job is at work on it")
        return False
    try:
        table = _table_in(store, folder)
    except UnreadableError:
        result.kept.append(f"{folder.short}: its manifest cannot be read, so nothing in it is removed")
        return False
    if table is None:
        if folder.newest < limit and any(_kind(entry.name) for entry in folder.entries):
            result.unfinished.append(folder)
        return True
    named = _named(table)
    for entry in folder.entries:
        kind = _kind(entry.name)
        if kind and entry.modified < limit and entry.name not in named and entry.name.split("/")[0] not in named:
            result.garbage.append(Garbage(kind, where, f"{where}/{entry.name}", entry.size, entry.modified))
    return True


def _table_in(store: Store, folder: Folder) -> Table | None:
    """The table of a folder; None: it is unfinished. Raises UnreadableError."""
    table = store.find(folder.table, folder.key)
    if table is None and folder.finished:
        raise UnreadableError(f"{folder.where}: its manifest has gone while it was read")
    return table


def _live_lease(store: Store, folder: Folder, now: float) -> bool:
    claims = [entry for entry in folder.entries if _kind(entry.name) == LEASE]
    return any(_is_live(store, f"{folder.where}/{entry.name}", entry, now) for entry in claims)


def _is_live(store: Store, name: str, claim: Entry, now: float) -> bool:
    """Whether a claim counts: other jobs may have set a longer `lease_seconds` than ours, then their claims say so."""
    age = now - claim.modified
    return age <= max(store.storage.lease_seconds, _ALIVE) or age <= claimed_seconds(store.objects, name)


def _named(table: Table) -> set[str]:
    """What a manifest names in its folder: parts, and the folders of files beside their lists."""
    parts = {part.name for part in table.parts}
    return {MANIFEST, RANGES, *parts, *(name.removesuffix(FILES) for name in parts if name.endswith(FILES))}


def _kind(name: str) -> str:
    """What our writers call such a name inside a table's folder; empty for a stranger's."""
    if parse_part(name) is not None:
        return PART
    if name == RANGES:
        return BOUNDS
    return next((kind for kind, pattern in _KINDS if pattern.match(name)), "")


def _root_kind(name: str) -> str:
    return LEASE if name.startswith(f"{WRITERS}/") else SCRATCH


def _remove_unfinished(store: Store, folder: Folder) -> str:
    """Remove an unfinished folder under its lease; why not, where it is in use after all."""
    lease = store.lease(folder.table, folder.key, "rat-ray store gc")
    if not isinstance(lease, Lease):
        return f"{folder.short}: kept, {lease} is at work on it"
    with lease:
        again, _ = folders_of(store.objects, f"{folder.where}/")
        entries = [entry for one in again for entry in one.entries if _kind(entry.name) != LEASE]
        if any(entry not in folder.entries for entry in entries):
            return f"{folder.short}: kept, a job has worked on it meanwhile"
        names = [f"{folder.where}/{entry.name}" for entry in entries if _kind(entry.name)]
        store.objects.delete(names)
    if store.local:
        _remove_empty(Path(store.root), [*names, f"{folder.where}/{LEASES}/any"])
    return ""


def _delete(store: Store, garbage: Sequence[Garbage]) -> None:
    names = [one.name for one in garbage]
    if names:
        store.objects.delete(names)
    if store.local:
        _remove_empty(Path(store.root), names)


def _remove_empty(root: Path, names: Iterable[str]) -> None:
    """The folders that held nothing else, up to the table's."""
    parents = {parent for name in names for parent in Path(name).parents if parent.name}
    for parent in sorted(parents, key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):  # not empty
            (root / parent).rmdir()


# --- uploads that were begun and never completed: S3 keeps and bills their parts, and shows them in no listing --------


def _uploads(store: Store) -> Iterator[Garbage]:
    if store.local:
        return
    from rat_ray.store.s3_client import Answer

    client, prefix = _client(store)
    try:
        begun = list(_pages(client, "list_multipart_uploads", "Uploads", Prefix=prefix))
    except Answer:  # a server without such uploads
        return
    for found in begun:
        name, upload = str(found["Key"]).removeprefix(prefix), str(found["UploadId"])
        match = _FOLDER.match(name)
        if match is None:  # another program's may lie below the same prefix
            continue
        try:
            parts = list(_pages(client, "list_parts", "Parts", Key=str(found["Key"]), UploadId=upload))
        except Answer:  # completed meanwhile
            continue
        times = [found["Initiated"], *(part["LastModified"] for part in parts)]  # some servers invent the first
        size = sum(int(part["Size"]) for part in parts)
        yield Garbage(UPLOAD, f"{match[1]}/{match[2]}", name, size, max(times).timestamp(), upload)


def _pages(client: S3Client, operation: str, what: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Everything that a listing has, over its pages."""
    token: dict[str, Any] = {}
    while True:
        ask = partial(getattr(client.boto, operation), Bucket=client.bucket, **arguments, **token)
        page: dict[str, Any] = client.attempt(arguments.get("Prefix", ""), ask, ("unsupported", "missing"))
        yield from page.get(what, ())
        if not page.get("IsTruncated"):
            return
        markers = {"KeyMarker", "UploadIdMarker", "PartNumberMarker"}
        token = {name: page[f"Next{name}"] for name in markers if f"Next{name}" in page}


def _abort(store: Store, uploads: Sequence[Garbage]) -> None:
    if not uploads:
        return
    from rat_ray.store.s3_client import Answer

    client, prefix = _client(store)
    for one in uploads:
        with contextlib.suppress(Answer):  # completed or aborted meanwhile
            client.request("abort_multipart_upload", f"{prefix}{one.name}", ("missing",), UploadId=one.upload)


def _client(store: Store) -> tuple[S3Client, str]:
    from rat_ray.store.s3_client import S3Client

    bucket, prefix = split_address(store.root)
    return S3Client(bucket, store.storage, StageError), prefix
