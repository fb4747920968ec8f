"""Dumps of whole pages (FEVER's wiki-pages, KILT's knowledge source, HotpotQA's abstracts), cut into passages."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from rat_ray.datasets.corpus import Passage
from rat_ray.datasets.reading import Place, RowError, clean_id
from rat_ray.datasets.titles import decode_codes, readable_title, title_key
from rat_ray.errors import did_you_mean

_LINK: Final = re.compile(r"<a href=[^>]*>|</a>")


class Cut(NamedTuple):
    """How pages become passages: "page", "introduction" or "sentences" in windows."""

    passages: str = "page"
    window: int = 3
    stride: int = 3


class Unit(NamedTuple):
    """A sentence (kilt: a paragraph) with its number on the page, as the owners count."""

    number: int
    text: str


class Page(NamedTuple):
    """units: those with a text. introduction: how many of them make up the first paragraph. joint: between them."""

    page_id: str
    title: str
    units: list[Unit]
    introduction: int
    joint: str = " "


def cut_page(page: Page, cut: Cut, place: Place) -> Iterator[Passage]:
    """The page as one passage with its id, or windows with `id#number` or `id#first-last`, which edits elsewhere leave.

    A page without a text is a passage of its title, or no window at all.
    """
    if cut.passages != "sentences":
        units = page.units if cut.passages == "page" else page.units[: page.introduction]
        yield _passage(page, units, page.page_id, place)
        return
    for start in range(0, len(page.units), cut.stride):
        units = page.units[start : start + cut.window]
        first, last = units[0].number, units[-1].number
        yield _passage(page, units, f"{page.page_id}#{first}" + (f"-{last}" if last != first else ""), place)
        if start + cut.window >= len(page.units):
            return


def _passage(page: Page, units: list[Unit], name: str, place: Place) -> Passage:
    first, last = (units[0].number, units[-1].number) if units else (-1, -1)
    text = page.joint.join(unit.text for unit in units)
    return Passage(place, name, page.title, text, page.page_id, first, last)


def fever_page(record: Mapping[str, object], place: Place) -> Page | None:
    """A row {id, text, lines} of wiki-pages; None for the empty row that the dump begins with.

    lines: a sentence each, as its number, the sentence and the links in it, with tabs between them.
    """
    page_id = _field(record, "id", place)
    if not isinstance(page_id, str):
        raise RowError(place, f"the page id must be a string, found {page_id!r:.80}")
    if not page_id.strip():
        return None
    lines = _field(record, "lines", place)
    if not isinstance(lines, str):
        raise RowError(place, f"page {page_id!r}: lines must be a string, found {lines!r:.80}")
    units: list[Unit] = []
    for line in lines.split("\n"):
        number, _, rest = line.partition("\t")
        sentence = unicodedata.normalize("NFC", decode_codes(rest.partition("\t")[0])).strip()
        if number.isdecimal() and sentence:
            units.append(Unit(int(number), sentence))
    return Page(page_id.strip(), readable_title(page_id), units, len(units))


def kilt_page(record: Mapping[str, object], place: Place) -> Page | None:
    """A row of the knowledge source: wikipedia_id, wikipedia_title and text, a list of paragraphs.

    The first paragraph is the title, and headings stand among the others (`Section::::`); both are left out and counted
    all the same, as in KILT's provenance.
    """
    page_id = clean_id(_field(record, "wikipedia_id", place), place, "the page id")
    title = _string(record, "wikipedia_title", place, page_id)
    paragraphs = _strings(_field(record, "text", place), place, page_id)
    units: list[Unit] = []
    for number, paragraph in enumerate(paragraphs):
        text = paragraph.strip()
        if not text or text.startswith("Section::::") or (number == 0 and title_key(text) == title_key(title)):
            continue
        units.append(Unit(number, text.removeprefix("BULLET::::").removeprefix("-").strip()))
    return Page(page_id, title, units, 1, "\n")


def hotpotqa_page(record: Mapping[str, object], place: Place) -> Page | None:
    """A row of the abstracts dump: id, title and text, a list of sentences, or of paragraphs that are such lists.

    The dump of whole pages begins each with its title, which is left out and not counted, and keeps links as tags, of
    which the text stays.
    """
    page_id = clean_id(_field(record, "id", place), place, "the page id")
    title = html.unescape(_string(record, "title", place, page_id))
    text = _field(record, "text", place)
    if not isinstance(text, list) or not text or not isinstance(text[0], list):
        text = [text]
    paragraphs = [_strings(paragraph, place, page_id) for paragraph in text]
    if len(paragraphs) > 1 and title_key("".join(paragraphs[0])) == title_key(title):
        paragraphs = paragraphs[1:]
    sentences = [_LINK.sub("", sentence).strip() for paragraph in paragraphs for sentence in paragraph]
    units = [Unit(number, sentence) for number, sentence in enumerate(sentences) if sentence]
    return Page(page_id, title, units, sum(bool(sentence.strip()) for sentence in paragraphs[0]))


PAGES: Final[Mapping[str, Callable[[Mapping[str, object], Place], Page | None]]] = {
    "kilt": kilt_page,
    "fever": fever_page,
    "hotpotqa": hotpotqa_page,
}


def _field(record: Mapping[str, object], name: str, place: Place) -> object:
    if name not in record:
        raise RowError(place, f"no field {name!r}{did_you_mean(name, record)}; is dataset.corpus.format right?")
    return record[name]


def _string(record: Mapping[str, object], name: str, place: Place, page_id: str) -> str:
    value = _field(record, name, place)
    if not isinstance(value, str):
        raise RowError(place, f"page {page_id!r}: {name} must be a string, found {value!r:.80}")
    return value


def _strings(value: object, place: Place, page_id: str) -> list[str]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise RowError(place, f"page {page_id!r}: text must be a list of strings, found {value!r:.80}")
