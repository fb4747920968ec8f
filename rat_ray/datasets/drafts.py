"""Questions as read from their owners' files, before their evidence is looked for in a corpus."""

from __future__ import annotations

from typing import NamedTuple

from rat_ray.datasets.reading import Place


class Needed(NamedTuple):
    """One piece of evidence: a page or a passage, and the sentences that must be in it, where known.

    title: of the page, in any of the usual spellings (underscores, -LRB-, entities). passage_id: of the passage, or of
    the page in a dump whose pages have ids (kilt's wikipedia_id). Where both are given, the id counts only when the
    corpus has that title at it; else the title decides.
    texts: sentences or longer; each must stand in the passages. sentences: their numbers on the page from 0 (kilt:
    paragraph numbers as in its provenance), used when the corpus is of the format `numbering`.
    lost: why the texts of the sentences are not known although they should be; else "". Then only numbers can find it.
    """

    title: str = ""
    passage_id: str = ""
    texts: tuple[str, ...] = ()
    sentences: tuple[int, ...] = ()
    lost: str = ""

    def __str__(self) -> str:
        """For messages: what it names."""
        if not self.title:
            return f"passage {self.passage_id!r}" if self.passage_id else "evidence without a page"
        return f"page {self.title!r}" + (f" (passage {self.passage_id!r})" if self.passage_id else "")


class Draft(NamedTuple):
    """One question as read. place: file and line, for messages.

    answers: None unknown. evidence: alternative sets, each needing all its pieces; None unknown, [] known to be absent
    (R = 0). shape: "claim" | "two_hop" | "open" | None.
    """

    place: Place
    question_id: str
    question: str
    answers: list[str] | None
    evidence: list[list[Needed]] | None
    shape: str | None
