"""From a document to passages: where it is cut, what a passage's title is, and ids that stay over edits elsewhere.

Cuts depend on what stands at them, not on how much stands before, so that an edit moves few of them (docs/datasets.md):
a piece that is too long is parted between two blocks, at the boundary that ranks first by a hash of the block behind it
among those that leave at least a third of `size` on either side, and so on with both parts. A boundary far from an edit
sees the same neighbours as before. Only a block that is too long for itself goes to the splitter
(semantic-text-splitter: lines, sentences, words), whose cuts can move to the block's end and no farther.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from rat_ray.datasets.documents.parts import Block, Document, Section
from rat_ray.datasets.documents.text import unwrapped
from rat_ray.errors import MissingExtraError

_ID_DIGITS: Final = 12
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_SPACE: Final = re.compile(r"\s+")
# In passages: how much is given to the splitter at once. Markdown's structure is lost where a stretch ends.
_PROSE_STRETCH: Final = 8
_MARKDOWN_STRETCH: Final = 64


class Passage(NamedTuple):
    passage_id: str
    title: str
    text: str


class Cutter:
    """Cuts documents into passages of at most `size` characters, of which up to `overlap` repeat the one before."""

    def __init__(self, size: int, overlap: int) -> None:
        try:
            from semantic_text_splitter import MarkdownSplitter, TextSplitter
        except ImportError as error:
            raise MissingExtraError("semantic-text-splitter", "documents") from error
        # The overlap and what joins it on.
        self._most = size - overlap - len("\n\n") if overlap else size
        self._overlap = overlap
        self._prose = TextSplitter(self._most)
        self._markdown = MarkdownSplitter(self._most)

    def passages(self, document: Document, relative: str, name: str) -> Iterator[Passage]:
        """relative: the document's path in its folder, which its ids begin with. name: its title if it has none."""
        seen: Counter[str] = Counter()
        for section in document.sections:
            title = title_of(document.title or name, section.path)
            before = ""
            for piece in self._pieces(section):
                text = (
                    f"{tail(before, self._overlap)}{piece.joint}{piece.text}"
                    if before and self._overlap
                    else piece.text
                )
                before = piece.text
                digest = hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]
                seen[digest] += 1
                counter = f"-{seen[digest]}" if seen[digest] > 1 else ""
                yield Passage(f"{relative}#{digest}{counter}", title, text)

    def _pieces(self, section: Section) -> Iterator[Block]:
        """The section cut to pieces that fit, each with the joint to the piece before."""
        blocks = [part for block in section.blocks for part in self._lines(block)]
        starts = [0]  # of each block in the section's text
        for block in blocks:
            starts.append(starts[-1] + len(block.joint) + len(block.text))
        ranks = [hashlib.sha256(block.text.encode()).digest() for block in blocks]
        waiting = [(0, len(blocks))]
        while waiting:
            first, end = waiting.pop()
            if starts[end] - starts[first] - len(blocks[first].joint) <= self._most:
                text = blocks[first].text + "".join(f"{block.joint}{block.text}" for block in blocks[first + 1 : end])
                yield Block(text.strip("\n").rstrip(), joint=blocks[first].joint)
            elif end - first == 1:
                yield from self._split(blocks[first])
            else:
                cut = self._boundary(first, end, starts, ranks)
                waiting += [(cut, end), (first, cut)]

    def _boundary(self, first: int, end: int, starts: list[int], ranks: list[bytes]) -> int:
        """The block in first+1 … end-1 before which a piece is cut."""
        least = self._most // 3
        inner = range(first + 1, end)
        fair = [at for at in inner if starts[at] - starts[first] >= least and starts[end] - starts[at] >= least]
        # Among equal blocks the middle one: a file of one line over and over takes n log n steps, not n².
        middle = (first + end) / 2
        return min(fair or inner, key=lambda at: (ranks[at], abs(at - middle)))

    def _lines(self, block: Block) -> Iterator[Block]:
        """The block, or its lines where it is too long: of a log, a list, a poem; wrapped lines stay together."""
        if block.markdown or len(block.text) <= self._most:
            yield block
            return
        joint, start = block.joint, 0
        for line in unwrapped(block.text).split("\n"):
            if line.strip():
                yield Block(block.text[start : start + len(line)], joint=joint)
                joint = "\n"
            start += len(line) + 1

    def _split(self, block: Block) -> Iterator[Block]:
        """The pieces that the splitter makes of a block that is too long, as they stand in it."""
        text = block.text if block.markdown else unwrapped(block.text)
        splitter = self._markdown if block.markdown else self._prose
        joint = block.joint
        for start, stretch in stretches(text, self._most * (_MARKDOWN_STRETCH if block.markdown else _PROSE_STRETCH)):
            for offset, chunk in splitter.chunk_indices(stretch):
                if chunk.strip():
                    at = start + offset
                    yield Block(block.text[at : at + len(chunk)], joint=joint)
                    joint = "\n" if block.markdown else " "


def stretches(text: str, most: int) -> Iterator[tuple[int, str]]:
    """(place, stretch): the text in stretches of at most so many characters, cut in their second half.

    After a line, else a sentence, else a word, else anywhere. The splitter takes time with the square of the length
    where it finds no sentence in it (200,000 Chinese characters without a full stop: 11 s).
    """
    start = 0
    while len(text) - start > most:
        half = start + most // 2
        ends = (text.rfind("\n", half, start + most), _last_end(text, _SENTENCE, half, start + most))
        end = next((end for end in (*ends, text.rfind(" ", half, start + most)) if end > half), start + most)
        yield start, text[start:end]
        start = end
    yield start, text[start:]


def _last_end(text: str, pattern: re.Pattern[str], start: int, end: int) -> int:
    return max((found.end() for found in pattern.finditer(text, start, end)), default=-1)


def title_of(title: str, path: tuple[str, ...]) -> str:
    """`Title > Chapter > Section`; an outermost heading that the title begins with is not said twice."""
    if path and title.casefold().startswith(path[0].casefold()):
        path = path[1:]
    return " > ".join((title, *path))


def tail(text: str, most: int) -> str:
    """The end of a text, at most so many characters: whole sentences if one begins in it, else whole words."""
    if len(text) <= most:
        return text
    end = text[-most:]
    for start in (_SENTENCE, _SPACE):
        found = start.search(end)
        if found and found.end() < len(end):
            return end[found.end() :]
    return end
