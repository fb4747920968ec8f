"""The `out` folder or S3 prefix: plain Parquet and a report for people, with a `run.json` that says whose it is."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rat_ray.errors import InputError
from rat_ray.keys import digest_of
from rat_ray.store import Holder, StorageSettings
from rat_ray.store.lease import take
from rat_ray.store.names import check_address
from rat_ray.store.objects import Objects, open_objects

RUN_FILE = "run.json"
_ALONE, _POLL_SECONDS = ".alone", 0.2
_LONGEST_NAME, _LONGEST_PATH = 255, 3000  # bytes; below a path our own folders still need room


def below(url: str, name: str) -> str:
    """A folder or prefix inside another."""
    return f"{url.rstrip('/')}/{name}"


def parent_of(url: str) -> str:
    """The folder or prefix that holds this one."""
    return url.rstrip("/").rpartition("/")[0] if "://" in url else str(Path(url).parent)


class OutFiles:
    """The files of an `out`: names are relative to it, their words separated by `/`."""

    def __init__(self, url: str | Path, storage: StorageSettings | None = None, inside: str = "") -> None:
        """url: a folder or `s3://bucket/prefix`, as the user wrote it. inside: the name of a folder in it, or empty."""
        text = str(url)
        check_address(text)
        self.local = "://" not in text
        if self.local:
            check_length(text)
        self.storage = storage or StorageSettings()
        root = str(Path(text).expanduser()) if self.local else text.rstrip("/")
        self._root = str(Path(root).resolve()) if self.local else root  # wherever the process goes
        self._before = f"{inside}/" if inside else ""
        self.url = below(root, inside) if inside else root
        self.place = below(self._root, inside) if inside else self._root
        self.written: dict[str, str] = {}  # digests of what this process wrote, by name

    @property
    def objects(self) -> Objects:
        """Where the files lie; shared with the folders inside."""
        return open_objects(self._root, self.storage)

    @property
    def name(self) -> str:
        """The last word of where it lies."""
        return self.place.rstrip("/").rpartition("/")[2]

    def at(self, name: str) -> str:
        """Where a file lies, for messages."""
        return below(self.url, name)

    def look(self) -> None:
        """Raise InputError, in seconds, where a server cannot be reached or refuses us."""
        if not self.local:
            self.objects.look()

    def inside(self, name: str) -> OutFiles:
        """The files of a folder in this one."""
        return OutFiles(self._root, self.storage, f"{self._before}{name}")

    def folders(self) -> list[str]:
        """The first words of everything that lies here, sorted."""
        return self.objects.children(self._before.rstrip("/"))

    def files(self, folder: str) -> list[str]:
        """The names of all files in a folder, however deep."""
        found = self.objects.walk(f"{self._before}{folder}/")
        return [entry.name.removeprefix(self._before) for entry in found]

    def __contains__(self, name: str) -> bool:
        full = self._before + name
        return any(entry.name == full for entry in self.objects.walk(full))

    def read_table(self, name: str) -> pa.Table:
        """A Parquet file. Raises InputError for one that is damaged or not there."""
        try:
            with pq.ParquetFile(self.objects.open(self._before + name)) as file:
                return file.read()
        except (pa.ArrowInvalid, OSError) as error:
            why = "it is not there" if isinstance(error, FileNotFoundError) else str(error).splitlines()[0]
            raise InputError(f"{self.at(name)}: cannot be read ({why}); run the command that wrote it again") from error

    def find_table(self, name: str) -> pa.Table | None:
        """A Parquet file, or None where it is not there. Raises InputError for one that is damaged."""
        return self.read_table(name) if name in self else None

    def run(self) -> dict[str, Any] | None:
        """The content of run.json, or None where there is none that can be read."""
        try:
            content = json.loads(self.objects.get(self._before + RUN_FILE))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
            return None
        return content if isinstance(content, dict) and "kind" in content else None

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write one Parquet file in one step."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        self._write(name, sink.getvalue().to_pybytes())

    def write_text(self, name: str, text: str) -> None:
        """Write one text file in one step."""
        self._write(name, text.encode())

    def _write(self, name: str, data: bytes) -> None:
        self.objects.put(self._before + name, data)
        self.written[name] = _digest(data)

    def delete(self, names: Sequence[str]) -> None:
        """Remove files, and the folders that held nothing else."""
        if names:
            self.objects.delete([self._before + name for name in names])
        for name in names if self.local else ():
            with contextlib.suppress(OSError):  # it holds other files
                (Path(self.place) / name).parent.rmdir()


def check_length(path: str) -> None:
    """Raise InputError for a path that no disk takes; `exists` and its like would raise an OSError."""
    long = [word for word in path.split("/") if len(os.fsencode(word)) > _LONGEST_NAME]
    if long:
        raise InputError(
            f"{long[0][:40]}…: a name of {len(os.fsencode(long[0]))} bytes; folders and files have names of at most "
            f"{_LONGEST_NAME}, give a shorter one"
        )
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise InputError(f"{path[:40]}…: a path of {len(os.fsencode(path))} bytes; give one of at most {_LONGEST_PATH}")


class OutFolder(OutFiles):
    """An `out` that one job owns. `settings` are what must be equal for a rerun to call it its own."""

    def __init__(
        self,
        url: str | Path,
        settings: Mapping[str, Any],
        kind: str,
        in_sweep: bool = False,
        storage: StorageSettings | None = None,
    ) -> None:
        """in_sweep: it is one of several in a folder that the sweep owns."""
        super().__init__(url, storage)
        self._settings = json.loads(json.dumps(settings))
        self._kind = kind
        self._sweep = sweep_root(parent_of(self.url), self.storage) if in_sweep else None
        self._earlier: dict[str, Any] = {}

    @property
    def store_root(self) -> str:
        """Where a command that has no `store=` keeps its tables."""
        return below(self.place, ".store")

    def check(self) -> None:
        """Raise InputError when it holds anything that is not ours, or cannot be reached. Leaves nothing behind."""
        if self._sweep is not None:
            self._sweep.check()
        if self.local and Path(self.url).exists() and not Path(self.url).is_dir():
            raise InputError(f"out={self.url}: is a file; give a folder")
        if not self.local:
            self._prepare()  # a wrong address is found here, at once
        if next(iter(self.objects.walk()), None) is None:
            return
        run = self.run()
        if run is None:
            raise InputError(f"out={self.url}: not empty and not made by rat-ray; give an empty or a new folder")
        if run.get("kind") != self._kind:
            raise InputError(f"out={self.url}: holds the results of `rat-ray {run.get('kind')}`; give another folder")
        if run.get("settings") != self._settings:
            keys = changed_keys(run.get("settings", {}), self._settings)
            files = [key.removeprefix("sources.") for key in keys if key.startswith("sources.")]
            if keys and len(files) == len(keys):
                raise InputError(
                    f"out={self.url}: holds a run over other files: those of dataset {', '.join(files)} have changed "
                    "since; give another out= to keep both"
                )
            changed = ", ".join(keys[:5])
            raise InputError(
                f"out={self.url}: holds a run with other settings ({changed}); give another out= to keep both"
            )

    def claim(self) -> None:
        """Check it and make it ours."""
        self.check()
        if self._sweep is not None:
            self._sweep.claim()
        self._prepare()
        self._earlier = self.run() or {}
        running = self._run({"status": "running"})
        if not self.objects.create(RUN_FILE, running):
            self.check()  # another job may have been first
            self.objects.put(RUN_FILE, running)

    @contextlib.contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Wait until no other process does this in the claimed folder, and keep others waiting. what: for them."""
        while isinstance(lease := take(self._root, self.storage, _ALONE, what), Holder):
            time.sleep(_POLL_SECONDS)
        with lease:
            yield
        if self.local:
            with contextlib.suppress(OSError):  # another one waits
                (Path(self.place) / _ALONE).rmdir()

    def _prepare(self) -> None:
        """Make the place, or raise InputError, in the words of the setting that names it."""
        try:
            self.objects.prepare()
        except InputError as error:
            said = str(error)
            raise InputError(said.replace("store=", "out=") if said.startswith("store=") else said) from error

    def holds(self, made_of: str) -> bool:
        """Whether an earlier run with the same content is complete here, every file of it as it was written.

        made_of: the digest of whatever the files depend on, as given to `finish`. To be asked between claim and finish.
        """
        files = self._earlier.get("files")
        if self._earlier.get("status") != "complete" or self._earlier.get("made_of") != made_of or not files:
            return False
        try:
            whole = all(_digest(self.objects.get(name)) == digest for name, digest in files.items())
        except OSError:  # one is not there any more
            return False
        if whole:
            self.written = dict(files)
        return whole

    def finish(self, facts: Mapping[str, Any], made_of: str = "") -> None:
        """Record that everything was written."""
        own = {"status": "complete", "made_of": made_of, "files": self.written}
        self.objects.put(RUN_FILE, self._run({**own, **facts}))

    def _run(self, facts: Mapping[str, Any]) -> bytes:
        content = {
            "kind": self._kind,
            "settings": self._settings,
            "settings_digest": digest_of(self._settings),
            "written": datetime.now(UTC).isoformat(),
            **facts,
        }
        return json.dumps(content, indent=1, ensure_ascii=False).encode()


def sweep_root(url: str | Path, storage: StorageSettings | None = None) -> OutFolder:
    """The folder that holds the folders of a multirun. Any sweep may add to it."""
    return OutFolder(url, {}, kind="sweep", storage=storage)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def changed_keys(old: Any, new: Any, path: str = "") -> list[str]:
    """The dotted names of settings that differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = sorted(set(old) | set(new))
        return [key for n in names for key in changed_keys(old.get(n), new.get(n), f"{path}.{n}" if path else n)]
    return [] if old == new else [path]
