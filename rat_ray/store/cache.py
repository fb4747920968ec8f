"""Copies of index files on this node: each content once, whichever store and however many processes ask."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rat_ray.errors import StageError
from rat_ray.store.local import in_words
from rat_ray.store.names import check_name
from rat_ray.store.objects import Entry
from rat_ray.store.parts import damaged, folder_digest
from rat_ray.store.process import Process, this_process

_DIGEST = re.compile(r"^part-\d+-\d+-\d+-([0-9a-f]{16})$")


def cache_folder(given: str) -> Path:
    """`storage.cache`, else beside the models: RAT_CACHE/store or ~/.cache/rat_ray/store."""
    if given:
        return Path(given).expanduser()
    folder = os.environ.get("RAT_CACHE")
    return (Path(folder).expanduser() if folder else Path.home() / ".cache" / "rat_ray") / "store"


class NodeCache:
    """Folders of files by their content, complete or not there."""

    def __init__(self, given: str) -> None:
        self._given = given

    @property
    def root(self) -> Path:
        return cache_folder(self._given)

    def folder(self, address: str, files: Sequence[Entry], fetch: Callable[[Path], None]) -> Path:
        """The files as a folder, which `fetch` fills once per node. Raises StageError for a disk that is full."""
        target = self.root / _key(address, files)
        if complete(target, files):
            return target
        with in_words(target), self._locked(target.name):
            if complete(target, files):
                return target
            unfinished = target.with_name(f".unfinished-{target.name}")
            for old in (target, unfinished):
                shutil.rmtree(old, ignore_errors=True)
            unfinished.mkdir(parents=True)
            try:
                fetch(unfinished)
                _check(address, unfinished, files)
                os.rename(unfinished, target)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
        return target

    def keep(self, address: str, folder: Path) -> None:
        """Take a folder that was just uploaded as this node's copy."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = [Entry(path.relative_to(folder).as_posix(), path.stat().st_size, 0.0) for path in paths]
        target = self.root / _key(address, files)
        with contextlib.suppress(OSError):  # it is there already, or lies on another disk
            os.rename(folder, target)
        shutil.rmtree(folder, ignore_errors=True)

    def scratch(self) -> Path:
        """An empty folder on the cache's disk. Those of killed processes of this machine are removed on the way."""
        own = this_process()
        folder = self.root / f".scratch-{_mark(own)}-{own.pid}-{own.started}-{uuid.uuid4().hex}"
        with in_words(folder):
            folder.mkdir(parents=True)
        for other in self.root.glob(f".scratch-{_mark(own)}-*"):
            _, _, pid, started, _ = other.name.split("-")
            if own._replace(pid=int(pid), started=started).gone:
                shutil.rmtree(other, ignore_errors=True)
        return folder

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """One process at a time; the system lets go of the lock when its holder is killed."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / f".lock-{name}").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def complete(folder: Path, files: Sequence[Entry]) -> bool:
    """Whether every file is there in its size."""
    if not folder.is_dir():
        return False
    for file in files:
        path = folder.joinpath(*check_name(file.name, str(folder)))
        if not path.is_file() or path.stat().st_size != file.size:
            return False
    return True


def _check(address: str, folder: Path, files: Sequence[Entry]) -> None:
    """Raise StageError where a fresh copy is not what its list and its name say."""
    table = address.rpartition("/")[0]
    if not complete(folder, files):
        raise StageError(damaged(address, table, "its files have not the sizes that its list says"))
    digest = _digest(address)
    if digest and folder_digest(folder) != digest:
        raise StageError(damaged(address, table, "its files have not the content that its name says"))


def _digest(address: str) -> str:
    """The digest in a part's name; empty for other names."""
    found = _DIGEST.match(address.rpartition("/")[2])
    return found[1] if found else ""


def _mark(process: Process) -> str:
    """A machine in a file name."""
    return hashlib.sha256(process.machine.encode()).hexdigest()[:12]


def _key(address: str, files: Sequence[Entry]) -> str:
    """Equal for equal content: by the digest in a part's name, else by the address."""
    digest = hashlib.sha256((_digest(address) or address).encode())
    for file in sorted(files):
        digest.update(f"\n{file.size} {file.name}".encode())
    return digest.hexdigest()[:32]
