"""r@evidence: did the context hold all the passages of one evidence set?"""

from __future__ import annotations

from collections.abc import Sequence


def evidence_label(evidence: Sequence[Sequence[str]] | None, context_ids: Sequence[str] | None) -> int | None:
    """1 when at least one alternative set lies within the context that went into the prompt, else 0.

    evidence None (unknown) or context_ids None (the row failed): missing. No set at all, known to be absent: 0.
    """
    if evidence is None or context_ids is None:
        return None
    given = set(context_ids)
    return int(any(alternative and given.issuperset(alternative) for alternative in evidence))
