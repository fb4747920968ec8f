"""Rules for R: did the context that was given hold what the answer needs?

`R_RULES` names them for `labels.rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from rat_ray.annotate.answer_in_context import AnswerInContextSettings, answer_in_context
from rat_ray.annotate.match import NoOptions
from rat_ray.annotate.rules import MISSING, Item, Label, RuleKind
from rat_ray.datasets.titles import title_key

_title_key = lru_cache(maxsize=65536)(title_key)


def evidence(item: Item) -> Label:
    """r@evidence: 1 when all passages of at least one alternative set are in the context, else 0.

    Missing where the evidence or the context is unknown (None). No set at all, known to be absent: 0.
    """
    label = evidence_label(item.evidence, item.context_ids)
    return MISSING if label is None else Label(label, "passages")


def evidence_label(sets: Sequence[Sequence[str]] | None, context_ids: Sequence[str] | None) -> int | None:
    """The label of `evidence`, from the alternative sets of passage ids and the ids of the context."""
    if sets is None or context_ids is None:
        return None
    given = set(context_ids)
    return int(any(alternative and given.issuperset(alternative) for alternative in sets))


def page(item: Item, title_of: Callable[[str], str | None]) -> Label:
    """r@page: as r@evidence, but any passage of a page stands for the passages of that page.

    title_of: the title of a passage by its id; pages are told apart by it, as Wikipedia does (`title_key`). A passage
    without a title stands for itself only.
    """
    if item.evidence is None or item.context_ids is None:
        return MISSING
    given = set(item.context_ids)
    pages = _pages_given(item, title_of)
    for alternative in item.evidence:
        if alternative and all(name in given or _page(title_of(name)) in pages for name in alternative):
            return Label(1, "passages" if given.issuperset(alternative) else "page")
    return Label(0, "page")


def _pages_given(item: Item, title_of: Callable[[str], str | None]) -> set[str]:
    """The pages of the context: by the titles that were given, else by what `title_of` says."""
    ids = item.context_ids or []
    titles = [title_of(name) for name in ids] if item.context is None else [title for title, _ in item.context]
    return {key for title in titles if (key := _page(title))}


def _page(title: str | None) -> str:
    return _title_key(title) if title else ""


def _page_rule(item: Item, settings: Any, title_of: Callable[[str], str | None]) -> Label:
    return page(item, title_of)


R_RULES: Final[Mapping[str, RuleKind]] = {
    "evidence": RuleKind(NoOptions, lambda item, _: evidence(item)),
    "page": RuleKind(NoOptions, _page_rule, titles=True),
    "answer_in_context": RuleKind(AnswerInContextSettings, answer_in_context, texts=True),
}
