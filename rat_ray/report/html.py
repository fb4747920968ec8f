"""The HTML building blocks of the page. Every text passes through `text()`; only figures go in as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 70rem; background: #fff; color: #1a1a1a;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.8rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 2.8rem 0 .6rem; padding-top: .5rem; border-top: 2px solid #d5dbe1; }
p, li { max-width: 48rem; overflow-wrap: anywhere; }
.small { font-size: .9rem; color: #444; }
.warning { border-left: 5px solid #D55E00; background: #fdf1ea; padding: .6rem 1rem; max-width: 46rem; }
.warning ul { margin: .3rem 0; padding-left: 1.2rem; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .92rem; }
th, td { padding: .35rem .8rem; text-align: left; vertical-align: top; border-bottom: 1px solid #dfe3e8; }
thead th { border-bottom: 2px solid #8a949e; vertical-align: bottom; }
tbody th { font-weight: 600; min-width: 11rem; overflow-wrap: break-word; }
td.word, td.interval, th.interval { white-space: nowrap; font-variant-numeric: tabular-nums; }
td.number, th.number { white-space: nowrap; text-align: right; font-variant-numeric: tabular-nums; }
td.prose { max-width: 34rem; overflow-wrap: anywhere; }
tr.group > * { border-top: 2px solid #8a949e; }
tr.flag td, tr.flag th { background: #fdf1ea; }
figure { margin: 1.4rem 0; }
figure svg { width: 100%; min-width: 44rem; height: auto; display: block; }
figcaption { font-size: .95rem; color: #333; max-width: 48rem; margin-top: .4rem; }
details { margin-top: .6rem; }
summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
dl.terms { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .8rem 0; }
dl.terms { font-size: .95rem; }
dl.terms dt { font-weight: 600; } dl.terms dd { margin: 0; }
@media print {
  body { font-size: 10.5pt; max-width: none; padding: 0; }
  h2 { break-after: avoid; } figure, tr, .warning { break-inside: avoid; } thead { display: table-header-group; }
  .scroll { overflow: visible; } table { font-size: 8.5pt; } th, td { padding: .2rem .4rem; }
  figure svg { min-width: 0; } tbody th { min-width: 0; }
}
"""


_LONG_NAME = 28


class Column(NamedTuple):
    """A table's column.

    kind: "name" (the row's heading), "number" (right-aligned), "interval" or "word" (left-aligned; none of the three
    is ever broken), or "prose". hint: shown when the pointer rests on the heading.
    """

    title: str
    kind: str = "number"
    hint: str = ""


class Row(NamedTuple):
    """A table's row. flag: shaded, something to look at; group: the first of several that belong together."""

    cells: Sequence[str]
    flag: bool = False
    group: bool = False


def text(value: object) -> str:
    """Any value as escaped HTML text."""
    return escape(str(value), quote=True)


def paragraph(words: str, kind: str = "") -> str:
    """One paragraph. kind: a class of the style sheet."""
    return f'<p class="{kind}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>"


def bullets(items: Sequence[str]) -> str:
    """A plain list."""
    return "<ul>" + "".join(f"<li>{text(item)}</li>" for item in items) + "</ul>"


def section(title: str, *parts: str) -> str:
    """A section with its heading; nothing at all if every part is empty."""
    body = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{text(title)}</h2>\n{body}\n</section>" if body else ""


def table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """A table that scrolls sideways where the screen is narrow; nothing if it has no rows."""
    if not rows:
        return ""
    heads = "".join(_head(column) for column in columns)
    body = "\n".join(_row(columns, row) for row in rows)
    return f'<div class="scroll"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _head(column: Column) -> str:
    hint = f' title="{text(column.hint)}"' if column.hint else ""
    return f'<th scope="col" class="{column.kind}"{hint}>{text(column.title)}</th>'


def _row(columns: Sequence[Column], row: Row) -> str:
    cells = "".join(_cell(column, cell) for column, cell in zip(columns, row.cells, strict=True))
    kinds = " ".join(name for name, on in (("flag", row.flag), ("group", row.group)) if on)
    return f'<tr class="{kinds}">{cells}</tr>' if kinds else f"<tr>{cells}</tr>"


def _cell(column: Column, value: str) -> str:
    if column.kind == "name":
        return _name_cell(value)
    return f'<td class="{column.kind}">{text(value)}</td>'


def _name_cell(value: str) -> str:
    if not value:
        return "<td></td>"
    if len(value) <= _LONG_NAME:
        return f'<th scope="row" class="name">{text(value)}</th>'
    # A long name may break behind its separators rather than anywhere; the whole of it stays findable in the title.
    pieces = "<wbr>".join(text(piece) for piece in re.findall(r"[^_\-./]*[_\-./]|[^_\-./]+", value))
    return f'<th scope="row" class="name" title="{text(value)}">{pieces}</th>'


def figure(svg: str | None, caption: str) -> str:
    """A figure with its caption; nothing without a figure. svg must be our own: it is inserted as it is."""
    if svg is None:
        return ""
    return f'<figure><div class="scroll">\n{svg}\n</div><figcaption>{text(caption)}</figcaption></figure>'


def details(title: str, *parts: str) -> str:
    """Something to unfold."""
    body = "\n".join(part for part in parts if part)
    return f"<details><summary>{text(title)}</summary>\n{body}\n</details>" if body else ""


def terms(pairs: Sequence[tuple[str, str]]) -> str:
    """A list of terms and what they mean."""
    return '<dl class="terms">' + "".join(f"<dt>{text(a)}</dt><dd>{text(b)}</dd>" for a, b in pairs) + "</dl>"


def document(title: str, body: str) -> str:
    """A complete page that loads nothing."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
