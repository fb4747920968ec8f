"""A store in a folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from rat_ray.errors import InputError, StageError
from rat_ray.store.names import check_name
from rat_ray.store.objects import Entry, UnreadableError

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_FOLDER_TRIES = 5


def write_new(path: Path, data: bytes) -> bool:
    """Create a file whole or not at all; False (and nothing changed) when it exists already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _scratch_file(path, data) as scratch:
        try:
            os.link(scratch, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return _move_new(scratch, path)
    return True


def _move_new(scratch: Path, path: Path) -> bool:
    """Where the disk knows no hard links: look and move under a lock, which the system takes from a killed process."""
    with (path.parent / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return False
        os.replace(scratch, path)
    return True


def replace_file(path: Path, data: bytes) -> None:
    """Write a file in one step, so that a reader sees the old or the new content and never half of it."""
    for attempt in range(_FOLDER_TRIES):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with _scratch_file(path, data) as scratch:
                os.replace(scratch, path)
            return
        except FileNotFoundError:  # another process removed the folder, which was empty
            if attempt == _FOLDER_TRIES - 1:
                raise


@contextlib.contextmanager
def _scratch_file(path: Path, data: bytes) -> Iterator[Path]:
    scratch = path.parent / f".tmp-{uuid.uuid4().hex}"
    try:
        with scratch.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        yield scratch
    finally:
        scratch.unlink(missing_ok=True)


def is_full(error: BaseException) -> bool:
    """Whether the error says that a disk, or a user's share of it, is full; libraries in C say it in words only."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in str(error)


def disk_full(path: str) -> str:
    """What to do about it."""
    return f"{path}: the disk is full; make space and run the same command again: what is complete is kept"


def unreadable(path: str, error: OSError) -> UnreadableError:
    """A folder or file that the system does not let us read, in words."""
    return UnreadableError(f"{path}: cannot be read ({error.strerror}); make it readable or take it out of the store")


@contextlib.contextmanager
def in_words(path: Path) -> Iterator[None]:
    """A full or read-only disk as an error that says what to do."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise StageError(disk_full(str(path))) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO):
            raise StageError(f"{path}: cannot be written ({error.strerror})") from error
        raise


class LocalObjects:
    """`Objects` in a folder: a name is a path, written beside itself and moved into place."""

    conditional = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = str(root)

    def prepare(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f".tmp-{uuid.uuid4().hex}"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise InputError(
                f"store={self.root}: cannot write there ({error.strerror}); choose another store="
            ) from error

    def look(self) -> None:
        try:
            os.listdir(self.root)
        except FileNotFoundError:
            return  # nothing is there yet
        except OSError as error:
            raise InputError(f"{self.root}: cannot be read ({error.strerror})") from error

    def get(self, name: str) -> bytes:
        return self._path(name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        with in_words(self._path(name)):
            replace_file(self._path(name), data)

    def create(self, name: str, data: bytes) -> bool:
        with in_words(self._path(name)):
            return write_new(self._path(name), data)

    def open(self, name: str, columns: bool = False) -> str:
        path = self._path(name)
        if not path.is_file():
            raise FileNotFoundError(path)
        return str(path)

    def walk(self, prefix: str = "") -> Iterator[Entry]:
        folder, _, beginning = prefix.rpartition("/")
        yield from self._below(self._path(folder) if folder else self.root, f"{folder}/" if folder else "", beginning)

    def _below(self, folder: Path, before: str, beginning: str) -> Iterator[Entry]:
        try:
            found = sorted((e for e in os.scandir(folder) if e.name.startswith(beginning)), key=_order)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise unreadable(str(folder), error) from error
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                yield from self._below(folder / entry.name, f"{before}{entry.name}/", "")
                continue
            try:
                facts = entry.stat()
            except FileNotFoundError:  # gone since it was listed
                continue
            except OSError as error:
                raise unreadable(entry.path, error) from error
            yield Entry(f"{before}{entry.name}", facts.st_size, facts.st_mtime)

    def children(self, folder: str) -> list[str]:
        try:
            names = os.listdir(self._path(folder) if folder else self.root)
            return sorted(name for name in names if not name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise unreadable(str(self._path(folder) if folder else self.root), error) from error

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self._path(name).unlink(missing_ok=True)

    def upload(self, folder: Path, name: str) -> None:
        target = self._path(name)
        with in_words(target):
            for path in folder.rglob("*"):  # the rename below must not be on disk before what it names
                if path.is_file():
                    with path.open("rb") as stream:
                        os.fsync(stream.fileno())
            try:
                os.rename(folder, target)
            except OSError:
                if not target.is_dir():
                    raise
                shutil.rmtree(folder)  # another writer was first, with the same content

    def download(self, name: str, files: Sequence[Entry], whole: bool = True) -> Path:
        return self._path(name)

    def scratch(self, name: str) -> Path:
        folder = self._path(name).parent / f".scratch-{uuid.uuid4().hex}"
        with in_words(folder):
            folder.mkdir(parents=True)
        return folder

    def _path(self, name: str) -> Path:
        """Where a name lies. Raises StageError for one that leads out of the root."""
        return self.root.joinpath(*check_name(name, self.url))


def _order(entry: os.DirEntry[str]) -> str:
    """Entries in the order of the whole names below them, as S3 has it."""
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
