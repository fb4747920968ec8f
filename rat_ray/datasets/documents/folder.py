"""Which files of a folder are documents, in an order that is the same everywhere."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rat_ray.errors import InputError


class Globs:
    """Patterns on paths relative to the folder, whatever the case of the letters.

    A pattern without a slash is held against a name, whatever folder it is in, else against the whole path. `*` and `?`
    stay within a name, `**` does not.
    """

    def __init__(self, key: str, patterns: Iterable[str]) -> None:
        self._names: list[re.Pattern[str]] = []
        self._paths: list[re.Pattern[str]] = []
        for pattern in patterns:
            cleaned = pattern.removeprefix("./").rstrip("/")
            if not cleaned or cleaned.startswith("/") or ".." in cleaned.split("/"):
                raise InputError(f"{key}: {pattern!r} is no glob below dataset.path; give e.g. '*.md' or 'notes/**'")
            (self._paths if "/" in cleaned else self._names).append(_regex(cleaned))

    def match(self, relative: str) -> bool:
        """Whether the path matches one of the patterns."""
        name = relative.rpartition("/")[2]
        return any(regex.fullmatch(name) for regex in self._names) or any(
            regex.fullmatch(relative) for regex in self._paths
        )

    def match_any_head(self, relative: str) -> bool:
        """Whether the path, or a folder that it lies in, matches one of the patterns."""
        parts = relative.split("/")
        return any(self.match("/".join(parts[:count])) for count in range(1, len(parts) + 1))


class Found(NamedTuple):
    path: Path
    relative: str  # with "/", also on Windows


def find_documents(folder: Path, include: Globs, exclude: Globs, questions: Path, notes: Counter[str]) -> list[Found]:
    """Regular files in the order of their relative paths. A folder that `exclude` matches is left out with all in it.

    Left out: hidden files and folders (names that begin with a dot), symbolic links (counted in notes where they match:
    they lead out of the folder, in circles, or to what is read anyway) and the questions file.
    """
    found: list[Found] = []
    for path, relative in _walk(folder, ""):
        if not include.match(relative) or exclude.match_any_head(relative):
            continue
        if path.is_symlink():
            if not _leads_to(path, questions):
                notes["symbolic links not followed"] += 1
        elif path.is_file() and path.resolve() != questions:
            found.append(Found(path, relative))
    return sorted(found, key=lambda one: one.relative.split("/"))


def _leads_to(link: Path, target: Path) -> bool:
    try:
        return link.resolve() == target
    except (OSError, RuntimeError):  # links in a circle: what pathlib raises differs by version
        return False


def _walk(folder: Path, head: str) -> Iterator[tuple[Path, str]]:
    waiting = [(folder, head)]
    while waiting:
        folder, head = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                listed = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            raise InputError(f"{folder}: cannot be listed ({error.strerror or error})") from error
        for entry in listed:
            relative = f"{head}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append((Path(entry.path), f"{relative}/"))
            else:
                yield Path(entry.path), relative


def _regex(pattern: str) -> re.Pattern[str]:
    parts: list[str] = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|.", pattern, re.DOTALL):
        if token == "**/":
            parts.append("(?:.*/)?")
        elif token == "**":
            parts.append(".*")
        elif token == "*":
            parts.append("[^/]*")
        elif token == "?":
            parts.append("[^/]")
        elif len(token) > 1:
            inner = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[{'^' + inner[1:] if inner.startswith('!') else inner}]")
        else:
            parts.append(re.escape(token))
    try:
        return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise InputError(f"the glob {pattern!r} cannot be read ({error})") from error
