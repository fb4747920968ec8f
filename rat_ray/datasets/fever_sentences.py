"""The texts of FEVER's evidence, read in its own dump, so that they can be looked for in another snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rat_ray.datasets.drafts import Draft, Needed
from rat_ray.datasets.pages import fever_page
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Reader, RowError
from rat_ray.datasets.titles import title_key

_NOT_THERE = "evidence sentences that are not in dataset.wiki_pages (known by page only)"

Texts = dict[tuple[str, int], str]


def with_texts(drafts: list[Draft], dump: Iterable[Path], problems: Problems) -> Iterator[Draft]:
    """The drafts with the texts of their evidence sentences. dump: files of wiki-pages, gone over once.

    Holds the sentences that the drafts name and nothing else of the dump. One that the dump lacks is counted.
    """
    wanted = {
        (title_key(piece.title), number)
        for draft in drafts
        for needed in draft.evidence or []
        for piece in needed
        for number in piece.sentences
    }
    texts = _texts(wanted, dump, problems)
    if missing := len(wanted - texts.keys()):
        problems.notes[_NOT_THERE] += missing
    for draft in drafts:
        evidence = [[_piece(piece, texts) for piece in needed] for needed in draft.evidence or []]
        yield draft._replace(evidence=evidence)


def _texts(wanted: set[tuple[str, int]], dump: Iterable[Path], problems: Problems) -> Texts:
    pages = {key for key, _ in wanted}
    found: Texts = {}
    for path in dump:
        for place, record in Reader(path).records(problems.broken):
            try:
                page = fever_page(record, place)
            except RowError as error:
                problems.broken(error)
                continue
            key = title_key(page.title) if page is not None else ""
            if page is None or key not in pages:
                continue
            found |= {(key, unit.number): unit.text for unit in page.units if (key, unit.number) in wanted}
    return found


def _piece(piece: Needed, texts: Texts) -> Needed:
    key = title_key(piece.title)
    return piece._replace(texts=tuple(texts[key, number] for number in piece.sentences if (key, number) in texts))
