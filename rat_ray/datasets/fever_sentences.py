"""The texts of FEVER's evidence, read in its own dump, so that they can be looked for in another snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from rat_ray.datasets.drafts import Draft, Needed
from rat_ray.datasets.pages import fever_page
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Reader, RowError
from rat_ray.datasets.titles import title_key

_NOT_THERE = "evidence sentences whose page is not in dataset.wiki_pages (known by page only)"

Texts = dict[str, dict[int, str]]


def with_texts(drafts: list[Draft], dump: Iterable[Path], problems: Problems) -> Iterator[Draft]:
    """The drafts with the texts of their evidence sentences. dump: files of wiki-pages, gone over once.

    Holds the pages that the drafts name and nothing else of the dump. Sentences whose page it lacks are counted. One
    that the page itself does not have is evidence that cannot be found, as it is where the dump is the corpus.
    """
    wanted = {
        (title_key(piece.title), number)
        for draft in drafts
        for needed in draft.evidence or []
        for piece in needed
        for number in piece.sentences
    }
    texts = _texts({key for key, _ in wanted}, dump, problems)
    if missing := sum(key not in texts for key, _ in wanted):
        problems.notes[_NOT_THERE] += missing
    for draft in drafts:
        if not draft.evidence:
            yield draft
            continue
        yield draft._replace(evidence=[[_piece(piece, texts) for piece in needed] for needed in draft.evidence])


def _texts(pages: set[str], dump: Iterable[Path], problems: Problems) -> Texts:
    """By page and number, the sentences of these pages that have a text."""
    found: Texts = {}
    for path in dump:
        for place, record in Reader(path).records(problems.broken):
            try:
                page = fever_page(record, place)
            except RowError as error:
                problems.broken(error)
                continue
            key = title_key(page.title) if page is not None else ""
            if page is not None and key in pages:
                found.setdefault(key, {}).update((unit.number, unit.text) for unit in page.units)
    return found


def _piece(piece: Needed, texts: Texts) -> Needed:
    page = texts.get(title_key(piece.title))
    if page is None:
        return piece
    known = tuple(page[number] for number in piece.sentences if number in page)
    # A number between two sentences is that of a blank line, so nothing needs to hold it.
    lost = [number for number in piece.sentences if number not in page and not _within(number, page)]
    if lost or (piece.sentences and not known):
        numbers = ", ".join(map(str, lost or piece.sentences))
        return piece._replace(lost=f"sentence {numbers} of {piece.title!r} has no text in dataset.wiki_pages")
    return piece._replace(texts=known)


def _within(number: int, page: Collection[int]) -> bool:
    return bool(page) and min(page) < number < max(page)
