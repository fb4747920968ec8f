"""The result table: a row per configuration, for the console and for plain logs."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rat_ray.report.estimates import MISSING, Estimate, interval, read_summary
from rat_ray.report.names import HEADLINE, name_of

if TYPE_CHECKING:
    from rich.console import Console

PRIOR_ONLY = "°"
BOUNDED = "†"
FOOTNOTES = {
    PRIOR_ONLY: (
        "prior only: the labels do not settle this quantity; the number is the prior's, moved at most by verdicts that "
        "nobody checked: no finding"
    ),
    BOUNDED: "bounded: the labels only bound this quantity; where it lies within the bounds is the prior's doing",
}
TITLE = "Posterior mean [95 % interval]"

# What an encoding without these signs (plain ASCII) gets instead.
_ASCII = {PRIOR_ONLY: "*", BOUNDED: "+", MISSING: "-"}
_CELL = len(".67 [.62, .72]") + 1
_MIN_NAME = 14


@dataclass(frozen=True)
class ResultRow:
    """One configuration. estimates: one per quantity of `names.HEADLINE`, None where the summary lacks it.

    status: the worst status among all quantities of the fit; items: how many items informed it.
    """

    config: str
    estimates: tuple[Estimate | None, ...]
    status: str
    items: int | None = None


def result_table(summary: pa.Table) -> list[ResultRow]:
    """A row per configuration of a table with the `tables.SUMMARY` schema, in the table's order."""
    return [
        ResultRow(one.config, tuple(one.estimates.get(name) for name in HEADLINE), one.fit.status, one.fit.items)
        for one in read_summary(summary)
    ]


def mark(estimate: Estimate | None) -> str:
    """The sign behind a number that is no finding: `°` prior only, `†` bounded; else nothing."""
    if estimate is None or estimate.mean is None:
        return ""
    return {"prior only": PRIOR_ONLY, "bounded": BOUNDED}.get(estimate.identified or "", "")


def marks_used(rows: list[ResultRow]) -> list[str]:
    """The signs that occur in the rows, in the order of the footnotes."""
    used = {mark(estimate) for row in rows for estimate in row.estimates}
    return [sign for sign in FOOTNOTES if sign in used]


def wrap_name(name: str, width: int) -> list[str]:
    """A configuration's name in lines of at most `width`, broken after `_ - . /` or a space where possible."""
    lines: list[str] = []
    line = ""
    for piece in re.findall(r"[^_\-./ ]*[_\-./ ]|[^_\-./ ]+", name):
        for part in textwrap.wrap(piece, width, drop_whitespace=False) or [piece]:
            if line and len(line) + len(part) > width:
                lines.append(line)
                line = ""
            line += part
    return [*lines, line]


def format_table(rows: list[ResultRow], width: int | None = None) -> list[str]:
    """The table as lines of plain text, the heading first.

    Args:
        rows: from `result_table`.
        width: columns of the terminal. Numbers are never broken; a long name goes over several lines. None: no limit.
    """
    cells = [[interval(estimate) + mark(estimate) for estimate in row.estimates] for row in rows]
    cell_width = max([_CELL, *(len(cell) for line in cells for cell in line)])
    status_width = max([len("fit"), *(len(row.status) for row in rows)])
    fixed = len("  ") + (cell_width + 1) * len(HEADLINE) + status_width
    longest = max([len("configuration"), *(len(row.config) for row in rows)])
    name_width = longest if width is None else min(longest, max(_MIN_NAME, width - fixed))

    def line(name: str, values: list[str], status: str) -> str:
        return f"{name:<{name_width}}  " + "".join(f"{value:<{cell_width}} " for value in values) + status

    lines = [line("configuration", [name_of(name).symbol for name in HEADLINE], "fit"), "-" * (name_width + fixed)]
    for row, values in zip(rows, cells, strict=True):
        first, *rest = wrap_name(row.config, name_width)
        lines += [line(first, values, row.status), *rest]
    return lines


def print_table(rows: list[ResultRow], console: Console | None = None) -> None:
    """Print the table with its footnotes: fitted to a terminal, or in plain unbroken lines to a log or a file."""
    from rich.console import Console
    from rich.text import Text

    out = Console() if console is None else console
    heading, *lines = format_table(rows, out.width if out.is_terminal else None)
    texts = [Text(TITLE), Text(heading, style="bold"), *(Text(line) for line in lines)]
    texts += [Text(f"{sign} {FOOTNOTES[sign]}") for sign in marks_used(rows)]
    for text in texts:
        text.plain = encodable(text.plain, out.encoding)
        text.highlight_regex(r" warn$", "yellow")
        text.highlight_regex(r" fail$", "bold red")
        # soft_wrap: rich neither wraps nor crops, so a number stays whole whatever the width.
        out.print(text, soft_wrap=True)


def encodable(text: str, encoding: str) -> str:
    """The text with plain signs for those that the encoding lacks."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for sign, plain in _ASCII.items():
            text = text.replace(sign, plain)
        return text.encode(encoding, "replace").decode(encoding)
    return text
