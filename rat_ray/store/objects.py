"""What a store needs of the place where it lies: named byte strings, listed, created once, deleted.

`local.py` has it for a folder, `s3.py` for an S3 prefix. Everything else of the package works on either.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rat_ray.errors import InputError, StageError
from rat_ray.store.settings import StorageSettings


class UnreadableError(StageError):
    """One object or folder cannot be read, and waiting does not help; the rest of the place may be fine."""


class Entry(NamedTuple):
    """One object in a listing. modified: seconds since 1970 by the clock of the place, not by ours."""

    name: str
    size: int
    modified: float


class Objects(Protocol):
    """Named byte strings below one root. A name is relative, its words separated by `/`.

    A reader sees an object whole or not at all, and what was written is there for everybody when the call returns.
    Network errors are retried for `StorageSettings.patience` seconds; then StageError.
    """

    @property
    def url(self) -> str:
        """The root as a person would write it."""
        ...

    @property
    def conditional(self) -> bool:
        """Whether `create` is safe against a second writer at the same moment; known after `prepare`."""
        ...

    def prepare(self) -> None:
        """Make the root, find out whether it can be written and what it can do. Raises InputError where it cannot."""
        ...

    def look(self) -> None:
        """Find out in seconds whether it can be read, and write nothing: InputError says why not."""
        ...

    def get(self, name: str) -> bytes:
        """The content. Raises FileNotFoundError."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write it, over what was there."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write it unless it exists: then False, and nothing changed."""
        ...

    def open(self, name: str, columns: bool = False) -> Any:
        """A source for `pq.ParquetFile`. columns: only some will be read. Raises FileNotFoundError."""
        ...

    def walk(self, prefix: str = "") -> Iterator[Entry]:
        """Everything whose name begins with the prefix, sorted by name."""
        ...

    def children(self, folder: str) -> list[str]:
        """The first words below a folder (`""`: the root), sorted: tables, or the keys of one. Not those with a dot."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Remove them; a name that is not there is no error."""
        ...

    def upload(self, folder: Path, name: str) -> None:
        """Move a local folder's files to `name/…`. The folder is gone afterwards."""
        ...

    def download(self, name: str, files: Sequence[Entry], whole: bool = True) -> Path:
        """The files `name/FILE` as a local folder that stays: the place itself, or a copy in this node's cache.

        whole: whether these are all files of the folder, so that its digest can be checked.
        """
        ...

    def scratch(self, name: str) -> Path:
        """An empty local folder for files that will be uploaded to `name/…`."""
        ...


@lru_cache(maxsize=32)
def open_objects(root: str, storage: StorageSettings) -> Objects:
    """The place that a root names; one per process, so that connections are shared. Raises InputError."""
    scheme, found, _ = root.partition("://")
    if not found:
        from rat_ray.store.local import LocalObjects

        return LocalObjects(Path(root).expanduser().resolve())
    if scheme == "s3":
        from rat_ray.store.s3 import S3Objects

        return S3Objects(root, storage)
    raise InputError(f"store={root}: give a folder or s3://bucket/prefix")


os.register_at_fork(after_in_child=open_objects.cache_clear)  # two processes must not share a connection
