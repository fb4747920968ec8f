"""HTML by lexbor (selectolax), which parses as browsers do: its words, without scripts, styles and navigation."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rat_ray.datasets.documents.parts import Block, Document, Outline, Section
from rat_ray.datasets.documents.text import decode
from rat_ray.errors import MissingExtraError

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_DROPPED: Final = _names(
    "head script style noscript template nav aside footer iframe object embed svg canvas audio video button select "
    "textarea input datalist dialog"
)
_DROPPED_ROLES: Final = _names("navigation banner contentinfo search complementary menu menubar toolbar")
# Within these the parts are lines of one block: a list or table stays together while it fits.
_WHOLE: Final = _names("ul ol dl table")
_LINES: Final = _names("li dt dd tr caption")
_BLOCKS: Final = _names(
    "address article blockquote body center details div fieldset figcaption figure form header hgroup hr main p pre "
    "section summary"
)
_CELLS: Final = frozenset(("td", "th"))
_DECLARED: Final = re.compile(
    rb"<(?:meta|\?xml)[^>]*?(?:charset|encoding)\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.IGNORECASE
)
# As browsers do: what calls itself Latin-1 is Windows-1252, and so on.
_WIDER: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "tis-620": "cp874",
}
# What no codec of text changes; the last two are escapes in Python's own and in UTF-7.
_ASCII: Final = "".join(map(chr, range(32, 127))).replace("\\", "") + "\\u0041+AGE-"


def read_html(data: bytes, encoding: str, by_heading: bool) -> Document:
    """Entities are decoded, white space is collapsed (not in <pre>), a list or table is one block of lines.

    A single <main> is the whole document. The encoding that the file declares goes before `encoding`.
    """
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise MissingExtraError("selectolax", "documents") from error
    parser = LexborHTMLParser(decode(data, _declared(data) or encoding))
    writer = _Writer(by_heading)
    root = _root(parser)
    if root is not None:
        for node, enters in _walk(root):
            writer.enter(node) if enters else writer.leave(node)
    sections = writer.finish()
    head = parser.css_first("head > title")
    title = "" if head is None else " ".join(head.text().split())
    return Document(title or writer.outline.first_heading, sections)


def _declared(data: bytes) -> str:
    found = _DECLARED.search(data[:2048])
    if found is None:
        return ""
    try:
        # A page that says UTF-16 in ASCII is not; nor does every codec of Python make text (hex, undefined).
        name = codecs.lookup(found[1].decode("ascii")).name
        return _WIDER.get(name, name) if _ASCII.encode().decode(name) == _ASCII else ""
    except (LookupError, UnicodeError):
        return ""


def _root(parser: LexborHTMLParser) -> LexborNode | None:
    mains = parser.css("main, [role=main]")
    if len(mains) == 1 and mains[0].text().strip():
        return mains[0]
    return parser.body


def _walk(root: LexborNode) -> Iterator[tuple[LexborNode, bool]]:
    """(node, True) on entering and (node, False) on leaving, without recursion: pages are nested thousands deep."""
    waiting: list[tuple[LexborNode, bool]] = [(root, True)]
    while waiting:
        node, enters = waiting.pop()
        if enters and _is_dropped(node):
            continue
        yield node, enters
        if not enters:
            continue
        waiting.append((node, False))
        children = []
        child = node.child
        while child is not None:
            children.append((child, True))
            child = child.next
        waiting += reversed(children)


def _is_dropped(node: LexborNode) -> bool:
    tag = node.tag
    if tag is None or tag in _DROPPED:
        return True
    if tag.startswith("-"):
        return tag != "-text"
    attributes = node.attributes
    role = attributes.get("role") or ""
    return "hidden" in attributes or attributes.get("aria-hidden") == "true" or role.lower() in _DROPPED_ROLES


class _Writer:
    def __init__(self, by_heading: bool) -> None:
        self.outline = Outline(by_heading)
        self._lines: list[str] = []  # of the current block
        self._line: list[str] = []
        self._whole = 0
        self._pre = 0
        self._heading: int | None = None

    def enter(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag == "-text":
            self._text(node.text_content or "")
        elif tag == "br":
            self._end_line()
        elif tag in _HEADINGS:
            self._start_heading(_HEADINGS[tag])
        elif tag in _CELLS and self._line:
            self._line.append(" | ")
        elif tag in _WHOLE or tag in _BLOCKS or tag in _LINES:
            self._break(tag)
            self._whole += tag in _WHOLE
            self._pre += tag == "pre"
            if tag == "li":
                self._line.append("- ")

    def leave(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag in _HEADINGS:
            self._end_heading()
        elif tag in _WHOLE:
            self._end_line()
            self._whole -= 1
            if not self._whole:
                self._end_block()
        elif tag in _BLOCKS or tag in _LINES:
            self._break(tag)
            self._pre -= tag == "pre"

    def finish(self) -> list[Section]:
        self._end_block()
        return self.outline.sections()

    def _text(self, text: str) -> None:
        if not self._pre:
            self._line.append(text)
            return
        first, *others = text.split("\n")
        self._line.append(first)
        for line in others:
            self._end_line()
            self._line.append(line)

    def _break(self, tag: str) -> None:
        """A block ends here; within a list or table, or for a part of one, only a line."""
        if self._heading is not None:
            self._line.append(" ")
        elif self._line_is_marker():
            return  # <li><p>: the words follow the dash
        elif self._whole or tag in _LINES:
            self._end_line()
        else:
            self._end_block()

    def _line_is_marker(self) -> bool:
        return bool(self._line) and "".join(self._line).strip() == "-" and self._line[0] == "- "

    def _end_line(self) -> None:
        line = "".join(self._line)
        line = line.rstrip() if self._pre else " ".join(line.split())
        self._line = []
        if self._heading is not None:
            self._line = [line, " "]
        elif line and line != "-":
            self._lines.append(line)

    def _end_block(self) -> None:
        self._end_line()
        self.outline.add(Block("\n".join(self._lines)))
        self._lines = []

    def _start_heading(self, level: int) -> None:
        if self._whole:  # a page laid out as a table
            self._end_line()
            return
        self._end_block()
        self._heading = level

    def _end_heading(self) -> None:
        if self._heading is None:
            self._end_line()
            return
        level, self._heading = self._heading, None
        text = "".join(self._line).strip().rstrip("¶").strip()  # the mark of a link to the heading itself
        self._line = []
        self.outline.heading(level, text)
