"""What `rat-ray annotate` prints: lines of plain text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rat_ray.annotate.people import VARIABLES, PeopleLabels, agreement
from rat_ray.labelling.collect import Counts
from rat_ray.labelling.select import Selection

_NONE = "–"


def selection_lines(selection: Selection) -> list[str]:
    """How many items of each variable, and of each stratum."""
    rows = []
    for variable in dict.fromkeys(one.variable for one in selection.strata):
        strata = [one for one in selection.strata if one.variable == variable]
        drawn = sum(one.drawn for one in strata)
        rows.append([variable, drawn, sum(one.left for one in strata), selection.labelled[variable]])
    lines = _table(["", "items", "of those without a label", "labelled before"], rows)
    named = [[one.variable, one.drawn, one.left, one.name] for one in selection.strata if one.name is not None]
    return [*lines, "", *_table(["", "items", "of", "stratum"], named, words=1)] if named else lines


def import_lines(counts: Counts) -> list[str]:
    """What became of the rows that were read."""
    columns = {
        "rows": counts.read,
        "new labels": counts.new,
        "there before": counts.same,
        "replaced": counts.replaced,
        "unsure": counts.unsure,
        "blank": counts.blank,
        "given twice": counts.doubled,
        "not in the run": counts.unknown,
    }
    rows = [[name, *(of[name] for of in columns.values())] for name in VARIABLES if counts.read[name]]
    return _table(["", *columns], rows)


def labels_lines(table: pa.Table, rule: str) -> list[str]:
    """What the labels file holds: items, what was decided, and how far people agree."""
    labels = PeopleLabels(table, rule)
    rows = []
    for variable, found in agreement(table).items():
        decided = list(labels.items(variable).values())
        numbers = [decided.count(1), decided.count(0), decided.count(None)]
        rows.append([variable, found.items, *numbers, found.several, _share(found.raw), _share(found.alpha)])
    head = ["", "items", "1", "0", "undecided", "by two or more", "agreement", "Krippendorff's alpha"]
    return _table(head, rows)


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]], words: int = 0) -> list[str]:
    """Numbers to the right; the first column and the last `words` ones to the left."""
    cells = [list(head), *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(head))]
    left = {0, *range(len(head) - words, len(head))}
    lines = (
        "  ".join(
            cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    return [line.rstrip() for line in lines]
