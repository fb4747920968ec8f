"""Does an answer say yes or no? Never read out of a word ("yesterday") or of a phrase ("no one", "I don't know")."""

from __future__ import annotations

import re
from typing import Final

from rat_ray.annotate.folding import folded, listed

YES, NO = "yes", "no"
# These say it whatever follows: "Yes they are".
_ALWAYS: Final = {
    **dict.fromkeys(listed("yes yeah yep yup yea oui"), YES),
    **dict.fromkeys(listed("nope nah nein"), NO),
}
# These may belong to what follows: "No evidence", "True crime", "Right of way".
_ALONE: Final = {
    **dict.fromkeys(listed("ja si true right correct indeed affirmative"), YES),
    **dict.fromkeys(listed("no non false wrong incorrect negative"), NO),
}
_GOLDS: Final = _ALWAYS | {"ja": YES, "true": YES, "no": NO, "non": NO, "false": NO}
_SURELY: Final = frozenset(listed("certainly absolutely definitely surely course"))
# What goes on after "no" or "true" with a sentence of its own.
_GOES_ON: Final = frozenset(
    listed(
        "it he she they we you i this that these those there the both neither only because since as but not his her "
        "their its"
    )
)
_LEAD: Final = frozenset(
    listed(
        "so well thus therefore hence final short my our the answer to this question is would be a i id say think of"
    )
)
_LONGEST: Final = 9  # characters of a gold answer that may be yes or no
_MARKUP: Final = re.compile(r"</?[a-z]\w{0,15}>|\\[a-z]{1,20}\{")  # <b>no</b>, \\boxed{no}
_TOKEN: Final = re.compile(r"\w[\w'-]*|[^\w ]")
_HEAD = 120  # characters in which a first word is looked for
_SENTENCES: Final = re.compile(r"[\n.:;!,]")


def yes_no(text: str) -> str | None:
    """The YES or NO that an answer gives: with its first word, with "the answer is no", or as its last words; or None.

    `nope`, `of course not`, `true` and their like count. "Yes and no" is neither.
    """
    said = folded(text)
    if "<" in said or "\\" in said:
        said = _MARKUP.sub(" ", said)
    first = _first(said[:_HEAD])
    if first is not None:
        return first
    at = said.rfind("answer")
    marked = _first(said[at : at + _HEAD]) if at >= 0 else None
    return marked or _last(said)


def gold_yes_no(gold: str) -> str | None:
    """YES or NO where an accepted answer is nothing but that."""
    return _GOLDS.get(folded(gold).strip(" .!\"'")) if len(gold) < _LONGEST else None


def _first(said: str) -> str | None:
    tokens = _TOKEN.findall(said)
    at = 0
    while at < len(tokens) and (tokens[at] in _LEAD or not tokens[at][0].isalnum()):
        at += 1
    if at == len(tokens):
        return None
    word, after = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
    then = tokens[at + 2] if at + 2 < len(tokens) else ""
    if word in _SURELY:
        return NO if "not" in (after, then) else YES
    if word == "not":
        return NO if after == "really" or (after, then) == ("at", "all") else None
    if word == "no" and after == "." and then[:1].isdigit() and at + 3 == len(tokens):
        return None  # No. 5
    if after in ("and", "or") and (then in _ALWAYS or then in _ALONE):
        return None
    if word in _ALWAYS:
        return _ALWAYS[word]
    alone = not after or not after[0].isalnum() or after in _GOES_ON
    return _ALONE.get(word) if alone else None


def _last(said: str) -> str | None:
    """Of an answer that reasons first: what follows the last stop, where that is the one word."""
    parts = _SENTENCES.split(said[-_HEAD:].rstrip(" .!*\"'}\n"))
    if len(parts) == 1:
        return None
    *lead, word = parts[-1].strip(" *\"'").split() or [""]
    return _GOLDS.get(word.strip("*\"'")) if _LEAD.issuperset(lead) else None
