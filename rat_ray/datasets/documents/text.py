"""Plain text: bytes to characters, characters to paragraphs, and which line breaks are only wrapping."""

from __future__ import annotations

import codecs
import re
from itertools import pairwise
from typing import Final

from rat_ray.datasets.documents.parts import Block, Document, Section, Unreadable

# Below this many characters lines are taken for a list or verse, not for wrapped prose.
NARROW: Final = 40
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, which it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode(data: bytes, encoding: str) -> str:
    """Text with "\\n" line ends. A byte order mark goes before `encoding`. Raises Unreadable when it is none."""
    for mark, named in _BOMS:
        if data.startswith(mark):
            data, encoding = data[len(mark) :], named
            break
    try:
        text = data.decode(encoding)
        if encoding != "utf-8":  # UTF-7 and the like can bring in what is no text
            text.encode()
    except UnicodeEncodeError as error:
        raise Unreadable("it holds lone surrogates, which are no text; convert it, or set dataset.encoding") from error
    except UnicodeDecodeError as error:
        name = "UTF-8" if codecs.lookup(encoding).name == "utf-8" else encoding
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            f"not valid {name} at byte {error.start + 1} (line {line}); convert it, or set dataset.encoding"
        ) from error
    if "\x00" in text:
        raise Unreadable("it holds NUL characters, so it is no text; leave it out with dataset.exclude")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_text(data: bytes, encoding: str) -> Document:
    """Paragraphs are parted by blank lines (or form feeds); there are no headings."""
    paragraphs = re.split(r"\n(?:[ \t]*\n)+|\f", decode(data, encoding))
    blocks = [Block(paragraph.strip("\n").rstrip()) for paragraph in paragraphs if paragraph.strip()]
    return Document("", [Section((), blocks)] if blocks else [])


def unwrapped(paragraph: str) -> str:
    """The paragraph, as long as before, with a space for each line break that is only wrapping.

    A break is wrapping when the next line's first word would not have fitted on the line, going by the longest line,
    in a paragraph where at least a quarter of the lines begin in mid-sentence: lines of a log are alike in length, too.
    So a splitter that prefers line breaks to the ends of sentences does not cut wrapped prose in mid-sentence.
    """
    lines = paragraph.split("\n")
    width = max(map(len, lines))
    going_on = sum(line[:1].isalpha() and not line[:1].isupper() for line in lines[1:])
    if len(lines) == 1 or width < NARROW or 4 * going_on < len(lines) - 1:
        return paragraph
    parts = [lines[0]]
    for before, line in pairwise(lines):
        words = line.split(maxsplit=1)
        wrapped = bool(words) and len(before) + 1 + len(words[0]) > width
        parts += [" " if wrapped else "\n", line]
    return "".join(parts)
