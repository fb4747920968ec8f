"""t@match: does the answer agree with an accepted one?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rat_ray.annotate.text import plain, short_answer, words

SUPPORTS, REFUTES, NEITHER = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"

# Over `text.words`; at the same place the first pattern wins, so that a negation is read before what it negates.
_VERDICTS = [
    (re.compile(pattern), verdict)
    for pattern, verdict in [
        (r"\bneither (?:\w+ )*?nor \w+", NEITHER),
        (r"\b(?:not enough|no|insufficient) (?:info\w*|evidence)\b|\b(?:nei|unverifiable|not verifiable)\b", NEITHER),
        (
            r"\b(?:not|doesnt|dont|cannot|never) (?:\w+ )?(?:support|supports|supported|refute|refutes|refuted)\b",
            NEITHER,
        ),
        (r"\bcannot be (?:verified|determined|known)\b", NEITHER),
        (r"\b(?:not|isnt|never) (?:\w+ )?(?:true|correct)\b", REFUTES),
        (r"\b(?:not|isnt|never) (?:\w+ )?(?:false|incorrect|wrong)\b", SUPPORTS),
        (r"\b(?:support|supports|supported|true|correct)\b", SUPPORTS),
        (r"\b(?:refute|refutes|refuted|false|incorrect|wrong|contradicts|contradicted)\b", REFUTES),
    ]
]
_YES_NO = ("yes", "no")


def match_label(
    answer: str | None, answers: Sequence[str] | None, shape: str | None, abstained: int | None
) -> int | None:
    """1 when the answer agrees with one of the accepted answers, 0 when with none.

    Missing where the row failed (answer None), where the answer is an abstention (T is not defined there), and where
    no accepted answer is known (None). An empty list says that no answer is right.
    """
    if answer is None or abstained == 1 or answers is None:
        return None
    if shape == "claim":
        return int(claim_verdict(answer) in {claim_verdict(gold) for gold in answers} - {None})
    return int(any(agrees(answer, gold) for gold in answers))


def claim_verdict(text: str) -> str | None:
    """The first verdict that the text gives: SUPPORTS, REFUTES, NOT ENOUGH INFO, or None when it gives none."""
    said = words(text)
    found = [
        (match.start(), rank, verdict)
        for rank, (pattern, verdict) in enumerate(_VERDICTS)
        if (match := pattern.search(said)) is not None
    ]
    return min(found)[2] if found else None


def agrees(answer: str, gold: str) -> bool:
    """The same after normalisation, or gold stands in the answer between word boundaries.

    A gold yes or no must be the answer's first word. A gold that normalises to nothing (`A`, `The`) is compared raw.
    """
    wanted = short_answer(gold)
    if not wanted:
        return _raw(answer) == _raw(gold)
    if wanted in _YES_NO:
        return words(answer).split(" ", 1)[0] == wanted
    return f" {wanted} " in f" {short_answer(answer)} "


def _raw(text: str) -> str:
    return plain(text).strip(" .,;:!?\"'")
