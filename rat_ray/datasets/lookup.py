"""What questions need of a corpus, collected before the one pass over it, and what that pass found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rat_ray.datasets.corpus import Passage
from rat_ray.datasets.drafts import Needed
from rat_ray.datasets.titles import chain, folded_title, title_key


class Held(NamedTuple):
    """A passage that some question may need. title: its `title_key`. text: None where nobody asks for it."""

    passage_id: str
    title: str
    first: int
    last: int
    text: str | None


class Unmapped(Exception):
    """A piece of evidence that the corpus does not show; the message says why, for the user."""


class Lookup:
    """Ask with `need`, go over the corpus with `look`, then `find`.

    Holds what the questions need and nothing of other passages. redirects: from `titles.read_redirects`.
    """

    def __init__(self, redirects: Mapping[str, str] | None = None) -> None:
        self._redirects = redirects or {}
        self._ids: dict[str, list[Held]] = {}
        # folded title -> title_key -> passages
        self._titles: dict[str, dict[str, list[Held]]] = {}
        self._with_text: set[str] = set()
        self._title = ""
        self._key = ""
        self._folded = ""

    def need(self, needed: Needed) -> None:
        """Before the pass: what this piece may be met by."""
        if needed.passage_id:
            self.need_id(needed.passage_id)
        names = [needed.passage_id] if needed.passage_id else []
        if needed.title:
            for key in chain(title_key(needed.title), self._redirects):
                folded = folded_title(key)
                self._titles.setdefault(folded, {})
                names.append(folded)
        if needed.texts:
            self._with_text.update(names)

    def need_id(self, passage_id: str) -> None:
        """Before the pass: a passage that is named by its id alone."""
        self._ids.setdefault(passage_id, [])

    def look(self, passage: Passage) -> None:
        """During the pass: keeps the passage if somebody needs it."""
        if self._titles and passage.title:
            if passage.title != self._title:  # the passages of a page stand together
                self._title = passage.title
                self._key = title_key(passage.title)
                self._folded = folded_title(self._key)
            group = self._titles.get(self._folded)
            if group is not None:
                group.setdefault(self._key, []).append(self._held(passage, self._folded))
        if passage.passage_id in self._ids:
            self._ids[passage.passage_id].append(self._held(passage, passage.passage_id))
        if passage.page != passage.passage_id and passage.page in self._ids:
            self._ids[passage.page].append(self._held(passage, passage.page))

    def has(self, passage_id: str) -> bool:
        """After the pass: whether the corpus has a passage or page of this id, which must have been asked for."""
        return bool(self._ids[passage_id])

    def find(self, needed: Needed) -> tuple[list[Held], bool]:
        """After the pass: the passages of the page that is named, or the one passage; and whether by its id.

        Raises Unmapped when the corpus has none, or when the title might be of several pages.
        """
        by_id = self._ids.get(needed.passage_id, []) if needed.passage_id else []
        if by_id and (not needed.title or self._agree(by_id, needed.title)):
            return by_id, True
        if not needed.title:
            raise Unmapped(f"{needed} is in no corpus" if needed.passage_id else "evidence that names no page")
        keys = chain(title_key(needed.title), self._redirects)
        for key in keys:
            if held := self._titles[folded_title(key)].get(key):
                return held, False
        for key in keys:
            alike = self._titles[folded_title(key)]
            if len(alike) > 1:
                raise Unmapped(f"{needed} might be any of {', '.join(map(repr, sorted(alike)))}")
            if alike:
                return next(iter(alike.values())), False
        raise Unmapped(f"{needed} is in no corpus")

    def _agree(self, held: Iterable[Held], title: str) -> bool:
        folded = {folded_title(key) for key in chain(title_key(title), self._redirects)}
        return all(not each.title or folded_title(each.title) in folded for each in held)

    def _held(self, passage: Passage, name: str) -> Held:
        text = passage.text if name in self._with_text else None
        return Held(passage.passage_id, title_key(passage.title or ""), passage.first, passage.last, text)
