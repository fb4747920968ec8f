"""What was found out about files, kept in the user's cache folder and known again by path, size and time of change."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

# A file that was changed less than this ago may change again without its time telling.
SETTLED_SECONDS = 2.0


def notes_folder() -> Path:
    """Below RAT_CACHE, by default ~/.cache/rat_ray."""
    folder = os.environ.get("RAT_CACHE")
    return (Path(folder).expanduser() if folder else Path.home() / ".cache" / "rat_ray") / "notes"


def recall(about: str, files: Iterable[Path]) -> str | None:
    """What was remembered about these files as they are now, or None. Reads none of them."""
    try:
        return _note(about, _state(files)).read_text()
    except (OSError, UnicodeDecodeError):
        return None


def remembered(about: str, files: Iterable[Path], find: Callable[[], str]) -> str:
    """What was remembered about these files, or else what `find` finds out by reading them.

    about: what is asked, with everything else that the answer depends on. A cache that cannot be written is no error.
    """
    listed = list(files)
    before = _state(listed)
    known = recall(about, listed)
    if known is not None:
        return known
    found = find()
    settled = time.time() - SETTLED_SECONDS
    if before == _state(listed) and all(changed / 1e9 < settled for _, _, changed in before):
        with contextlib.suppress(OSError):
            _write(_note(about, before), found)
    return found


def _state(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Path, size and time of change in nanoseconds; -1 where there is no such file."""
    found = []
    for path in files:
        where = str(path.expanduser().resolve())
        try:
            stat = path.expanduser().stat()
            found.append((where, stat.st_size, stat.st_mtime_ns))
        except OSError:
            found.append((where, -1, -1))
    return found


def _note(about: str, state: list[tuple[str, int, int]]) -> Path:
    digest = hashlib.sha256(json.dumps([about, state]).encode()).hexdigest()
    return notes_folder() / digest[:2] / digest


def _write(note: Path, text: str) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=note.parent, prefix=".")
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
    os.replace(name, note)
