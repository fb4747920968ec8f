"""The `out` folder: plain Parquet and a report for people, with a `run.json` that says whose it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rat_ray.errors import InputError
from rat_ray.keys import digest_of
from rat_ray.store import replace_file, write_new

RUN_FILE = "run.json"


class OutFolder:
    """A folder that one job owns. `settings` are what must be equal for a rerun to call the folder its own."""

    def __init__(self, path: str | Path, settings: Mapping[str, Any], kind: str, in_sweep: bool = False) -> None:
        """in_sweep: the folder is one of several in a folder that the sweep owns."""
        self.path = Path(path).expanduser()
        self._settings = json.loads(json.dumps(settings))
        self._kind = kind
        self._root = sweep_root(self.path.parent) if in_sweep else None

    def check(self) -> None:
        """Raise InputError when the folder holds anything that is not ours. Writes nothing."""
        if self._root is not None:
            self._root.check()
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise InputError(f"out={self.path}: is a file; give a folder")
        if not any(self.path.iterdir()):
            return
        run = read_run(self.path)
        if run is None:
            raise InputError(f"out={self.path}: not empty and not made by rat-ray; give an empty or a new folder")
        if run.get("kind") != self._kind:
            raise InputError(f"out={self.path}: holds the results of `rat-ray {run.get('kind')}`; give another folder")
        if run.get("settings") != self._settings:
            changed = ", ".join(changed_keys(run.get("settings", {}), self._settings)[:5])
            raise InputError(
                f"out={self.path}: holds a run with other settings ({changed}); give another out= to keep both"
            )

    def claim(self) -> None:
        """Check the folder and make it ours."""
        self.check()
        if self._root is not None:
            self._root.claim()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            running = self._run({"status": "running"})
            if not write_new(self.path / RUN_FILE, running):
                self.check()  # another job may have been first
                replace_file(self.path / RUN_FILE, running)
        except OSError as error:
            raise InputError(f"out={self.path}: cannot write there ({error.strerror}); give another out=") from error

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write one Parquet file in one step."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        replace_file(self.path / name, sink.getvalue().to_pybytes())

    def write_text(self, name: str, text: str) -> None:
        replace_file(self.path / name, text.encode())

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Record that everything was written."""
        replace_file(self.path / RUN_FILE, self._run({"status": "complete", **facts}))

    def _run(self, facts: Mapping[str, Any]) -> bytes:
        content = {
            "kind": self._kind,
            "settings": self._settings,
            "settings_digest": digest_of(self._settings),
            "written": datetime.now(UTC).isoformat(),
            **facts,
        }
        return json.dumps(content, indent=1, ensure_ascii=False).encode()


def sweep_root(path: Path) -> OutFolder:
    """The folder that holds the folders of a multirun. Any sweep may add to it."""
    return OutFolder(path, {}, kind="sweep")


def read_run(folder: Path) -> dict[str, Any] | None:
    """The folder's run.json, or None where there is none that can be read."""
    try:
        content = json.loads((folder / RUN_FILE).read_text())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    return content if isinstance(content, dict) and "kind" in content else None


def changed_keys(old: Any, new: Any, path: str = "") -> list[str]:
    """The dotted names of settings that differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = sorted(set(old) | set(new))
        return [key for n in names for key in changed_keys(old.get(n), new.get(n), f"{path}.{n}" if path else n)]
    return [] if old == new else [path]
