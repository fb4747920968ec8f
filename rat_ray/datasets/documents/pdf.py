"""PDF by PDFium (pypdfium2): the words of its pages as paragraphs, lines joined, headers and footers left out."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from rat_ray.datasets.documents.parts import Block, Document, Section, Unreadable
from rat_ray.datasets.documents.text import NARROW
from rat_ray.errors import MissingExtraError

# PDFium's own mark for a hyphen at the end of a line whose word goes on in the next.
_HYPHEN: Final = "\ufffe"
_WRONG_PASSWORD: Final = 4
# First parts of words that keep a hyphen wherever the line ends.
_PREFIXES: Final = re.compile(
    r"(well|self|non|anti|semi|half|high|low|long|short|cross|post|pre|pro|multi|full|part|open|closed|mid|quasi"
    r"|two|three|four|five|six|seven|eight|nine|ten|first|second|third)"
)
_SPLIT_WORD: Final = re.compile(rf"(\w+)(?:{_HYPHEN}|-\n)(?=(\w+))")
_LIGATURES: Final = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
_BULLET: Final = re.compile(r"[•◦▪‣·●○■–—*-]\s|\(?\w{1,3}[.)]\s")
_ENDS: Final = tuple(".!?:;。！？")
# A line this near to the usual full width counts as full: proportional type, ragged margins.
_FULL: Final = 0.85
_RUNNING_PAGES: Final = 3


class Pages(NamedTuple):
    title: str
    texts: list[str]


def read_pdf(path: Path) -> Document:
    """Raises Unreadable when it is no PDF, is encrypted, or has no text on any page."""
    title, texts = _pages(path)
    blank = tuple(number for number, text in enumerate(texts, start=1) if not text.strip())
    if len(blank) == len(texts):
        raise WithoutText(f"none of its {len(texts)} pages has text (scanned images?); run it through OCR")
    pages = [[line.strip() for line in text.split("\n") if line.strip()] for text in texts]
    kept = without_running(pages)
    running = sum(map(len, pages)) - sum(map(len, kept))
    if not any(kept):  # on pages of one line each headers cannot be told from text
        kept, running = pages, 0
    blocks = _blocks([line for page in kept for line in page])
    return Document(title, [Section((), blocks)] if blocks else [], blank, running)


class WithoutText(Unreadable):
    """A PDF of images: nothing is wrong with the file, so it stops no run; it is counted and listed."""


def _pages(path: Path) -> Pages:
    try:
        import pypdfium2
    except ImportError as error:
        raise MissingExtraError("pypdfium2", "documents") from error
    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _WRONG_PASSWORD:
            raise Unreadable("it is encrypted; save it without a password") from error
        raise Unreadable(f"not a PDF that can be read ({error})") from error
    texts = []
    try:
        title = " ".join((document.get_metadata_value("Title") or "").split())
        for number in range(len(document)):
            try:
                page = document[number]
                text = page.get_textpage()
                texts.append(_cleaned(text.get_text_range()))
                text.close()
                page.close()
            except pypdfium2.PdfiumError as error:
                raise Unreadable(f"this page cannot be read ({error})", number + 1) from error
    finally:
        document.close()
    return Pages(title, texts)


def _cleaned(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "").replace("\xad", "")
    return joined_hyphens(text.translate(_LIGATURES))


def joined_hyphens(text: str) -> str:
    """Words that are split at the end of a line, joined.

    The hyphen goes when both parts are letters, at least two, the second in lower case, and the first is no prefix
    that keeps its hyphen ("well-known"). Else it stays, without a break: "CO-\\n2" is "CO-2".
    """

    def join(match: re.Match[str]) -> str:
        first, second = match[1], match[2]
        soft = first.isalpha() and second.isalpha() and second.islower() and min(len(first), len(second)) > 1
        keeps = _PREFIXES.fullmatch(first.lower()) is not None or (first.isupper() and len(first) > 1)
        return first if soft and not keeps else f"{first}-"

    return _SPLIT_WORD.sub(join, text).replace(_HYPHEN, "-")


def without_running(pages: list[list[str]]) -> list[list[str]]:
    """The pages without headers and footers.

    That is a first or last line which, digits aside, is the first or last line of at least three pages.
    """
    edges = Counter(key for page in pages for key in {_running_key(line) for line in (page[:1] + page[-1:])})
    running = {key for key, count in edges.items() if count >= _RUNNING_PAGES}
    kept = []
    for page in pages:
        start = 1 if page and _running_key(page[0]) in running else 0
        end = len(page) - (1 if len(page) > start and _running_key(page[-1]) in running else 0)
        kept.append(page[start:end])
    return kept


def _running_key(line: str) -> str:
    return re.sub(r"\d+", "#", line)


def _blocks(lines: list[str]) -> list[Block]:
    """Lines joined to paragraphs; a line of its own (a heading, a table's row) is a block of its own."""
    if not lines:
        return []
    lengths = sorted(map(len, lines))
    width = max(lengths[int(0.9 * (len(lengths) - 1))], NARROW)
    blocks, current = [], [lines[0]]
    for line, following in pairwise(lines):
        if not _goes_on(line, following, width):
            blocks.append(Block(joined_hyphens("\n".join(current)).replace("\n", " "), joint="\n"))
            current = []
        current.append(following)
    return [*blocks, Block(joined_hyphens("\n".join(current)).replace("\n", " "), joint="\n")]


def _goes_on(line: str, following: str, width: int) -> bool:
    if _BULLET.match(following):
        return False
    if following[0].islower() and not line.endswith(_ENDS):
        return True
    return len(line) + 1 + len(following.split(maxsplit=1)[0]) > _FULL * width
