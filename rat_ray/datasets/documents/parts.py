"""What a document is once it has been read: sections under headings, each a list of blocks."""

from __future__ import annotations

from typing import NamedTuple


class Unreadable(Exception):
    """A document that gives no passages. page: of a PDF, from 1; 0: the document as a whole."""

    def __init__(self, reason: str, page: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.page = page


class Block(NamedTuple):
    """A paragraph, list, table, … which is not cut as long as it fits.

    markdown: it is Markdown's structure (a list, table, code) and is cut as such. joint: what stands before it when
    it follows another block in one passage.
    """

    text: str
    markdown: bool = False
    joint: str = "\n\n"


class Section(NamedTuple):
    """path: the headings above, outermost first; empty before the first heading."""

    path: tuple[str, ...]
    blocks: list[Block]


class Document(NamedTuple):
    """title: "" where the document names none. blank_pages: pages of a PDF without text, from 1.

    running: lines that were taken for a PDF's page headers and footers, and left out.
    """

    title: str
    sections: list[Section]
    blank_pages: tuple[int, ...] = ()
    running: int = 0


class Outline:
    """Builds sections from headings and blocks in the document's order.

    With by_heading=False there is one section, and headings are blocks of it.
    """

    def __init__(self, by_heading: bool) -> None:
        self.first_heading = ""
        self._by_heading = by_heading
        self._sections: list[Section] = []
        self._stack: list[tuple[int, str]] = []
        self._blocks: list[Block] = []

    def heading(self, level: int, text: str, source: str = "") -> None:
        """level: 1 is the outermost. source: how the heading stands in the document, where that is not its text."""
        text = " ".join(text.split())
        if not text:
            return
        self.first_heading = self.first_heading or text
        if not self._by_heading:
            self._blocks.append(Block(source.strip() or text))
            return
        self._close(level)
        while self._stack and self._stack[-1][0] >= level:
            self._stack.pop()
        self._stack.append((level, text))

    def add(self, block: Block) -> None:
        """A block under the latest heading; one without text is dropped."""
        if block.text.strip():
            self._blocks.append(block)

    def sections(self) -> list[Section]:
        """All sections; call it once, at the end."""
        self._close(0)
        return self._sections

    def _close(self, next_level: int) -> None:
        path = tuple(text for _, text in self._stack)
        if self._blocks:
            self._sections.append(Section(path, self._blocks))
        elif self._stack and next_level <= self._stack[-1][0] and self._is_leaf(path):
            # Nothing stands below this heading, not even another heading: its words would be in no passage at all.
            self._sections.append(Section(path, [Block(path[-1])]))
        self._blocks = []

    def _is_leaf(self, path: tuple[str, ...]) -> bool:
        return not self._sections or self._sections[-1].path[: len(path)] != path
