"""Ids of a log's rows and passages: its own where it has some, else made of the content, so that rows put behind the
others change none."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rat_ray.datasets.logs_rows import LogRow
from rat_ray.datasets.logs_values import Context
from rat_ray.datasets.reading import RowError

_MARK: Final = 10  # bytes of a hash
_LINES: Final = 1 << 40  # more than a file has
_QUESTION: Final = re.compile(r"q-([0-9a-f]{20})(?:-(\d{1,9}))?")  # an id that is made of a row's content
_PASSAGE: Final = re.compile(r"c-([0-9a-f]{20})")  # of a passage's


class QuestionIds:
    """Ids of the rows in their order. again: how many rows without an id repeat an earlier one word for word."""

    def __init__(self) -> None:
        self.again = 0
        self._given: dict[str, int] = {}
        self._paths: list[Path] = []
        self._made: dict[bytes, int] = {}

    def of(self, row: LogRow) -> str:
        """The row's id, made of question, contexts and answer where the log has none.

        Raises RowError when its own id stands in an earlier row.
        """
        if row.question_id is None:
            contexts = None if row.contexts is None else b"".join(map(_content, row.contexts)).hex()
            mark = _mark(row.question, contexts, row.raw)
            self.again += mark in self._made
            numbers = itertools.count(self._made.get(mark, 0) + 1)
            number = self._made[mark] = next(n for n in numbers if _made_id(mark, n) not in self._given)
            return _made_id(mark, number)
        before = self._given.get(row.question_id)
        if before is not None:
            raise RowError(row.place, self._doubled(row, before))
        if self._is_made(row.question_id):
            raise RowError(
                row.place,
                f"the question id {row.question_id!r} was made of the content of an earlier row without one; ids must "
                "be unique. Give every row one, or set dataset.fields.question_id=- to have all of them made",
            )
        if not self._paths or self._paths[-1] != row.place.path:
            self._paths.append(row.place.path)
        self._given[row.question_id] = (len(self._paths) - 1) * _LINES + row.place.line
        return row.question_id

    def _is_made(self, name: str) -> bool:
        """Whether an earlier row without an id got this one."""
        made = _QUESTION.fullmatch(name)
        return made is not None and int(made[2] or 1) <= self._made.get(bytes.fromhex(made[1]), 0)

    def _doubled(self, row: LogRow, before: int) -> str:
        place = row.place._replace(path=self._paths[before // _LINES], line=before % _LINES)
        return (
            f"the question id {row.question_id!r} stands in {place} already; ids must be unique. Choose one system by "
            "dataset.system where the log holds several, or set dataset.fields.question_id to another column, or to - "
            "to have ids made of the rows' content"
        )


class PassageIds:
    """Gives each passage its id: the log's own, or one made of its title and text.

    An id that comes with several texts stays with the first; the others get an end made of theirs. Holds a hash of each
    passage, and the ids that were given.
    """

    def __init__(self) -> None:
        self._made: set[bytes] = set()
        self._given: dict[str, bytes] = {}
        self._others: dict[tuple[str, bytes], str] = {}

    def of(self, context: Context) -> tuple[str, bytes, bool]:
        """The id, a hash of the content, and whether the passage is new."""
        mark = _content(context)
        made = f"c-{mark.hex()}"
        name = context.passage_id or made
        if name == made and made not in self._given:
            new = mark not in self._made
            self._made.add(mark)
            return made, mark, new
        first = self._given.get(name, self._made_of(name))
        if first is None:
            self._given[name] = mark
        if first is None or first == mark:
            return name, mark, first is None
        known = self._others.get((name, mark))
        if known is not None:
            return known, mark, False
        other = next(end for end in _ends(name, mark) if end not in self._given)
        self._given[other] = mark
        self._others[name, mark] = other
        return other, mark, True

    @property
    def several(self) -> int:
        """How many passages had an id that an earlier one had with another text."""
        return len(self._others)

    def has(self, name: str) -> bool:
        """Whether a passage has this id."""
        return name in self._given or self._made_of(name) is not None

    def _made_of(self, name: str) -> bytes | None:
        """The content that an id was made of, where a passage has that content and no id of its own."""
        made = _PASSAGE.fullmatch(name)
        mark = bytes.fromhex(made[1]) if made else None
        return mark if mark in self._made else None


def _made_id(mark: bytes, number: int) -> str:
    return f"q-{mark.hex()}" + (f"-{number}" if number > 1 else "")


def _content(context: Context) -> bytes:
    title = context.title or ""
    return hashlib.sha256(f"{len(title)} {title}{context.text}".encode()).digest()[:_MARK]


def _ends(name: str, mark: bytes) -> Iterator[str]:
    return (f"{name}#{mark.hex()[:length]}" for length in (8, 12, 2 * _MARK))


def _mark(*parts: str | None) -> bytes:
    """A hash of texts: None is not "", and no two sequences of parts read alike."""
    told = " ".join("-" if part is None else str(len(part)) for part in parts)
    return hashlib.sha256(f"{told} {''.join(part or '' for part in parts)}".encode()).digest()[:_MARK]
