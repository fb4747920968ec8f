"""What lies in a store and is no part of any table: found, and on request removed.

A folder `<table>/<key>/` with a manifest is a table: whatever else our writers left there is garbage. One without a
manifest is unfinished: its parts are what a resumed run reuses, so the folder as a whole is garbage only when nothing
in it is younger than the limit and no live lease is on it, and it is removed under a lease of our own. A table that no
run needs any more is no garbage: nothing here knows what is needed. Names that are none of ours are left alone.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from rat_ray.errors import StageError
from rat_ray.store.lease import LEASES, Lease
from rat_ray.store.names import split_address
from rat_ray.store.objects import Entry, Objects
from rat_ray.store.parts import FILES, parse_part
from rat_ray.store.store import MANIFEST, RANGES, Store

PART, FILE, PIECE, SCRATCH, LEASE, UPLOAD, BOUNDS = "part", "file", "piece", "scratch", "lease", "upload", "ranges"
_FOLDER = re.compile(r"^([A-Za-z0-9_]+)/([0-9a-f]{32})/(.+)$")
_KINDS = (
    (SCRATCH, re.compile(r"^(\.tmp-[0-9a-f]{32}|\.scratch-[0-9a-f]{32}/.+)$")),
    (LEASE, re.compile(rf"^{re.escape(LEASES)}/([0-9a-f]{{32}}\.json|\.tmp-[0-9a-f]{{32}})$")),
    (PIECE, re.compile(r"^piece-\d{12}-\d{12}-\d{12}-\d{12}\.parquet$")),
    (FILE, re.compile(r"^part-\d{12}-\d{12}-\d+-[0-9a-f]{16}/.+$")),
)
_AT_THE_ROOT = re.compile(r"^(\.tmp-[0-9a-f]{32}|\.probe/[0-9a-f]{32}|\.writer/([0-9a-f]{32}\.json|\.tmp-[0-9a-f]{32}))$")


class Folder(NamedTuple):
    """What lies under one `<table>/<key>/`: entries by their names inside it."""

    table: str
    key: str
    entries: tuple[Entry, ...]

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)

    @property
    def newest(self) -> float:
        return max(entry.modified for entry in self.entries)

    @property
    def finished(self) -> bool:
        return any(entry.name == MANIFEST for entry in self.entries)

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
    """Every `<table>/<key>/` of a store, and what lies outside of them."""
    outside: list[Entry] = []
    found = [(match, entry) for entry in objects.walk(prefix) if (match := _matched(entry, outside)) is not None]
    folders = []
    for (table, key), inside in groupby(found, key=lambda pair: (pair[0][1], pair[0][2])):
        folders.append(Folder(table, key, tuple(entry._replace(name=match[3]) for match, entry in inside)))
    return folders, outside


def _matched(entry: Entry, outside: list[Entry]) -> re.Match[str] | None:
    match = _FOLDER.match(entry.name)
    if match is None:
        outside.append(entry)
    return match


def survey(store: Store, older_than: float) -> Survey:
    """Look through a store for what is older than so many seconds and no part of a table. Removes nothing.

    Raises: StageError where the store cannot be read, or where its clock cannot be learnt (it must be writable).
    """
    objects = store.objects
    now = store_clock(objects)
    limit = now - older_than
    folders, outside = folders_of(objects)
    result = Survey([], [], [], now)
    for folder in folders:
        _look(store, folder, limit, result)
    old = [entry for entry in outside if entry.modified < limit and _AT_THE_ROOT.match(entry.name)]
    result.garbage.extend(Garbage(_root_kind(entry.name), "", entry.name, entry.size, entry.modified) for entry in old)
    result.garbage.extend(upload for upload in _uploads(store) if upload.modified < limit)
    return result


def remove(store: Store, found: Survey, older_than: float) -> list[str]:
    """Remove what a survey found; in words, what turned out to be in use."""
    _delete(store, [one for one in found.garbage if not one.upload])
    _abort(store, [one for one in found.garbage if one.upload])
    return [why for folder in found.unfinished if (why := _remove_unfinished(store, folder, older_than))]


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


def _look(store: Store, folder: Folder, limit: float, result: Survey) -> None:
    """Add what of one folder is garbage."""
    where = f"{folder.table}/{folder.key}"
    if not any(entry.modified < limit for entry in folder.entries):
        return
    live = _live_lease(store, folder, result.now)
    if live:
        result.kept.append(f"{where[:45]}: a job is at work on it")
        return
    if not folder.finished:
        if folder.newest < limit and any(_kind(entry.name) for entry in folder.entries):
            result.unfinished.append(folder)
        return
    named = _named(store, where)
    if named is None:
        result.kept.append(f"{where[:45]}: its manifest cannot be read, so nothing in it is removed")
        return
    for entry in folder.entries:
        kind = _kind(entry.name)
        if kind and entry.modified < limit and entry.name not in named and entry.name.split("/")[0] not in named:
            result.garbage.append(Garbage(kind, where, f"{where}/{entry.name}", entry.size, entry.modified))


def _live_lease(store: Store, folder: Folder, now: float) -> bool:
    return any(_kind(entry.name) == LEASE and now - entry.modified <= _alive(store) for entry in folder.entries)


def _alive(store: Store) -> float:
    """Seconds for which a claim counts: other jobs may have set a longer `lease_seconds` than ours."""
    return max(store.storage.lease_seconds, 600.0)


def _named(store: Store, where: str) -> set[str] | None:
    """What a manifest names in its folder: parts, and the folders of files beside their lists; None: unreadable."""
    try:
        manifest = json.loads(store.objects.get(f"{where}/{MANIFEST}"))
        parts = {str(part["name"]) for part in manifest["parts"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {MANIFEST, RANGES, *parts, *(name.removesuffix(FILES) for name in parts if name.endswith(FILES))}


def _kind(name: str) -> str:
    """What our writers call such a name inside a table's folder; empty for a stranger's."""
    if parse_part(name) is not None:
        return PART
    if name == RANGES:
        return BOUNDS
    return next((kind for kind, pattern in _KINDS if pattern.match(name)), "")


def _root_kind(name: str) -> str:
    return LEASE if name.startswith(".writer/") else SCRATCH


def _remove_unfinished(store: Store, folder: Folder, older_than: float) -> str:
    """Remove an unfinished folder under its lease; why not, where it is in use after all."""
    where = f"{folder.table}/{folder.key}"
    lease = store.lease(folder.table, folder.key, "rat-ray store gc")
    if not isinstance(lease, Lease):
        return f"{where[:45]}: kept, {lease} is at work on it"
    with lease:
        again, _ = folders_of(store.objects, f"{where}/")
        entries = [entry for one in again for entry in one.entries]
        known = {(entry.name, entry.modified) for entry in folder.entries}
        fresh = [entry for entry in entries if (entry.name, entry.modified) not in known and _kind(entry.name) != LEASE]
        if fresh or any(entry.name == MANIFEST for entry in entries):
            return f"{where[:45]}: kept, a job has worked on it meanwhile"
        ours = [entry for entry in entries if _kind(entry.name) not in ("", LEASE)]
        _delete(store, [Garbage(PART, where, f"{where}/{one.name}", one.size, one.modified) for one in ours])
    _delete(store, [Garbage(LEASE, where, f"{where}/{one.name}", 0, 0.0) for one in folder.entries if _stale(one)])
    return ""


def _stale(entry: Entry) -> bool:
    """A lease that was dead when the folder was surveyed."""
    return _kind(entry.name) == LEASE


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


# --- uploads that were begun and never completed: S3 keeps and bills their parts, and lists them nowhere else -------------


def _uploads(store: Store) -> Iterator[Garbage]:
    if store.local:
        return
    client, prefix = _client(store)
    token: dict[str, str] = {}
    while True:
        page = client.attempt(prefix, lambda token=token: client.boto.list_multipart_uploads(
            Bucket=client.bucket, Prefix=prefix, **token
        ))
        for found in page.get("Uploads", ()):
            name = str(found["Key"]).removeprefix(prefix)
            match = _FOLDER.match(name)
            if match is not None:
                modified = found["Initiated"].timestamp()
                yield Garbage(UPLOAD, f"{match[1]}/{match[2]}", name, 0, modified, str(found["UploadId"]))
        if not page.get("IsTruncated"):
            return
        token = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}


def _abort(store: Store, uploads: Sequence[Garbage]) -> None:
    if not uploads:
        return
    client, prefix = _client(store)
    for one in uploads:
        client.request("abort_multipart_upload", f"{prefix}{one.name}", ("missing",), UploadId=one.upload)


def _client(store: Store) -> tuple[Any, str]:
    from rat_ray.store.s3_client import S3Client

    bucket, prefix = split_address(store.root)
    return S3Client(bucket, store.storage, StageError), prefix
