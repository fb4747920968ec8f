"""What was left out or could not be known while a dataset was read: counted always, listed up to a bound."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pyarrow as pa

from rat_ray import tables
from rat_ray.datasets.checks import check_choice
from rat_ray.datasets.reading import Place, RowError

SKIPPED: Final = "skipped"
UNMAPPED: Final = "unmapped"
UNKNOWN: Final = "questions whose evidence could not be mapped to the corpus (R is missing)"
PARTLY: Final = "questions of whose evidence some sets could not be mapped to the corpus (left out)"
LISTED: Final = 10_000
_ON_ERROR: Final = ("stop", "skip")


def check_on_error(key: str, value: str) -> None:
    """Raises InputError unless the value is "stop" or "skip"."""
    check_choice(key, value, _ON_ERROR)


class Problems:
    """Collects while a dataset is read.

    notes: things worth a line, counted. left_out: questions that were left out, counted by reason.
    on_error: "stop" raises at the first broken row, "skip" counts and lists it. The first LISTED problems of a kind
    are kept as rows of `table()`; notes count all of them. skipped: how many rows were; last_error: the last one's.
    """

    def __init__(self, dataset: str, on_error: str = "stop") -> None:
        self.notes: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.skipped = 0
        self.last_error = ""
        self._dataset = dataset
        self._on_error = on_error
        self._rows: dict[str, list[tuple[str, str | None, str]]] = {}

    def broken(self, error: RowError) -> None:
        """A row that cannot be read: raises the error with on_error="stop", else counts and lists it."""
        if self._on_error != "skip":
            raise error
        self.skipped += 1
        self.last_error = str(error)
        self.notes["broken rows skipped (on_error=skip)"] += 1
        self._list(SKIPPED, str(error.place), None, error.reason)

    def unmapped(self, place: Place, question_id: str, reason: str, missing: bool = True) -> None:
        """A question with evidence that the corpus does not show. missing: whether its R is unknown for that."""
        self.notes[UNKNOWN if missing else PARTLY] += 1
        self._list(UNMAPPED, str(place), question_id, reason)

    def listed(self, place: Place, what: str, detail: str) -> None:
        """Something that was left out and stops nothing: counted in notes as `what`, and listed."""
        self.notes[what] += 1
        self._list(SKIPPED, str(place), None, detail)

    def again(self) -> Problems:
        """For reading the same files once more: the same rule, nothing collected yet."""
        return Problems(self._dataset, self._on_error)

    def table(self) -> pa.Table:
        """The rows listed, with the schema tables.PROBLEMS."""
        rows = [
            {"dataset": self._dataset, "kind": kind, "place": place, "id": name, "detail": detail}
            for kind, listed in self._rows.items()
            for place, name, detail in listed
        ]
        return pa.Table.from_pylist(rows, schema=tables.PROBLEMS)

    def _list(self, kind: str, place: str, name: str | None, detail: str) -> None:
        listed = self._rows.setdefault(kind, [])
        if len(listed) < LISTED:
            listed.append((place, name, detail))
