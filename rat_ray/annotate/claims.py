"""Which verdict on a claim an answer gives: SUPPORTS, REFUTES or NOT ENOUGH INFO."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rat_ray.annotate.folding import folded, listed, padded, without_articles, word_list
from rat_ray.annotate.yes_no import yes_no

SUPPORTS, REFUTES, NEITHER = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"

_SUPPORTED: Final = r"(?:support(?:s|ed|ing)?|confirm(?:s|ed)?|entail(?:s|ed|ment)?|verif(?:y|ies|ied))"
_REFUTED: Final = (
    r"(?:refut(?:es?|ed|ing)|contradict(?:s|ed|ion|ing|ory)?|disprov(?:es?|ed|en)|debunk(?:s|ed)?|disput(?:es|ed))"
)
_TRUE: Final = r"(?:true|correct|accurate|right|factual)"
_FALSE: Final = r"(?:false|incorrect|wrong|inaccurate|untrue|falsified)"
_NOT: Final = (
    r"(?:not|never|cannot|cant|couldnt|doesnt|dont|didnt|isnt|arent|wasnt|werent|hasnt|havent|wont|wouldnt|neither|nor"
    r"|unlikely|hardly|barely|scarcely|fails? to|failed to|unable to|no longer|far from|anything but)(?! be more )"
)
_SOME: Final = r"(?:\w+ ){0,2}?"
# At one place the first that fits is read, so a negation is read before what it negates. Two that take each other back
# ("does not refute but supports") leave the second.
_READINGS: Final[tuple[tuple[str, str | None], ...]] = (
    (rf"neither {_SOME}(?:{_SUPPORTED}|{_REFUTED}|{_TRUE}|{_FALSE})(?: \w+){{0,4}}? nor \w+", NEITHER),
    (rf"{_NOT} {_SOME}{_REFUTED}(?: \w+){{0,3}}? but (?:\w+ )?{_SUPPORTED}", SUPPORTS),
    (rf"{_NOT} {_SOME}{_SUPPORTED}(?: \w+){{0,3}}? but (?:\w+ )?{_REFUTED}", REFUTES),
    (r"(?:not|no|isnt|without) (?:\w+ )?(?:enough|sufficient) (?:info\w*|evidence|data|context|details?)", NEITHER),
    (r"(?:no|insufficient|not any|lack of|lacks) (?:\w+ )?(?:info\w*|evidence)", NEITHER),
    (r"notenoughinfo|nei|unverifi\w+|not verifiable|undetermined|indeterminate|inconclusive|unproven|neutral", NEITHER),
    (
        rf"(?:cannot|cant|could not|couldnt|can not) be {_SOME}(?:verified|determined|known|confirmed|established)",
        NEITHER,
    ),
    (rf"(?:partly|partially|half|partial) (?:{_TRUE}|{_SUPPORTED}|{_FALSE})", None),
    (rf"(?:whether|if) (?:\w+ ){{0,4}}?(?:{_TRUE}|{_SUPPORTED}|{_FALSE}|{_REFUTED})", NEITHER),
    (rf"(?:{_TRUE}|{_SUPPORTED}) (?:or|nor) (?:{_FALSE}|{_REFUTED}|not)", NEITHER),
    (rf"{_NOT} {_SOME}(?:{_SUPPORTED}|{_REFUTED})", NEITHER),
    (rf"(?:no|none|nothing) (?:\w+ ){{0,3}}?(?:{_SUPPORTED}|{_REFUTED})", NEITHER),
    (rf"(?:neither|nor) (?:{_SUPPORTED}|{_REFUTED}|{_TRUE}|{_FALSE})", NEITHER),
    (rf"(?:without|lacks?) (?:any )?{_SUPPORTED}", NEITHER),
    (rf"not (?:\w+ )?case that (?:\w+ ){{0,5}}?(?:{_SUPPORTED}|{_REFUTED})", NEITHER),
    (rf"{_NOT} {_SOME}{_TRUE}", REFUTES),
    (rf"{_NOT} {_SOME}{_FALSE}", SUPPORTS),
    (r"unsupported|unconfirmed|unclear|uncertain", NEITHER),
    (_SUPPORTED, SUPPORTS),
    (_REFUTED, REFUTES),
    (_TRUE, SUPPORTS),
    (_FALSE, REFUTES),
)
_ANY: Final = re.compile(rf"(?<= )(?:{'|'.join(f'({pattern})' for pattern, _ in _READINGS)})(?= )")
_VERDICTS: Final = tuple(verdict for _, verdict in _READINGS)
# Each reading has a word that begins so, and spans fewer words than _SPAN before and after it.
_STEMS: Final = frozenset(
    listed(
        "supp conf enta veri refu cont disp debu true corr accu righ fact fals wron inac untr enou suff info "
        "evid data deta note nei unve unde inde inco unpr neut unsu unco uncl unce dete know esta"
    )
)
_SPAN: Final = 12
_CHEAP_LENGTH: Final = 200  # characters of a line that may be a verdict and nothing else
# "Verdict: REFUTES", "the label is SUPPORTED"; the last one counts.
_MARKS: Final = ("verdict", "label", "conclusion", "answer", "classification")
_MARK: Final = re.compile(rf"(?:{'|'.join(_MARKS)})(?: is)?[ \"'*]*(?::|=|\bis\b|-)")
# "The claim is false": said of the claim, so it counts before what is said of passages on the way there.
_OF_CLAIM: Final = re.compile(
    r"(?<! whether)(?<! if)(?<! that) "
    r"(?:(?:claim|statement) (?:is|was|has been|can be|must be)"
    rf"|(?:{_NOT} {_SOME})?(?:refutes?|supports?|contradicts?) claim) "
)
_LAST_STOP: Final = re.compile(r".*[\n.;!]", re.DOTALL)
_STOPS: Final = re.compile(r"[\n.;!?]")
_AROUND: Final = " \n.;!?*\"'"
_FILLERS: Final = frozenset(
    listed("this claim statement is was it so therefore thus answer verdict label by passage passages")
)


def claim_verdict(text: str) -> str | None:
    """The verdict that the text gives, or None when it gives none.

    In this order: "verdict: …" (the last such mark), the first line or sentence where it is a verdict and nothing
    else, the last line likewise, the verdict with which the text begins, what is said of "the claim", the first verdict
    that is named, yes or no.
    """
    return _cached(text) if len(text) <= _CHEAP_LENGTH else _read(text)


@lru_cache(maxsize=8192)
def _cached(text: str) -> str | None:
    return _read(text)


def _read(text: str) -> str | None:
    said = _without_questions(folded(text))
    if (marked := _marked(said)) is not None:
        return marked
    first = _STOPS.split(said.lstrip(_AROUND), maxsplit=1)[0]
    last = _STOPS.split(said[-2 * _CHEAP_LENGTH :].rstrip(_AROUND))[-1]
    for line in (first, last):
        if (only := _only(line)) is not None:
            return only
    words = _words(said)
    match = _ANY.match(words, 1) or _of_claim(words) or _first(words)
    if match is not None:
        return _verdict(match)
    return {"yes": SUPPORTS, "no": REFUTES, None: None}[yes_no(said)]


def _without_questions(said: str) -> str:
    """Without what is asked ("Is it true? No."), unless nothing else is said."""
    if "?" not in said:
        return said
    *asked, rest = said.split("?")
    kept = [part[: stop.end()] for part in asked if (stop := _LAST_STOP.match(part))]
    left = " ".join([*kept, rest])
    return left if any(char.isalnum() for char in left) else said


def _of_claim(words: str) -> re.Match[str] | None:
    if " claim " not in words and " statement " not in words:
        return None
    found = _OF_CLAIM.search(words)
    return None if found is None else _ANY.search(words[found.start() :][:_CHEAP_LENGTH])


def _first(words: str) -> re.Match[str] | None:
    """The first reading in the words; looked for around the words that it may have, as a search of all is slow."""
    listed_words = words.split()
    for at in [at for at, word in enumerate(listed_words) if word[:4] in _STEMS]:
        around = padded(listed_words[max(0, at - _SPAN) : at + _SPAN])
        if (match := _ANY.search(around)) is not None:
            return match
    return None


def _words(folded_text: str) -> str:
    return padded(without_articles(word_list(folded_text.replace("_", " "))))


def _verdict(match: re.Match[str]) -> str | None:
    return _VERDICTS[(match.lastindex or 1) - 1]


def _marked(said: str) -> str | None:
    """The verdict right after the last mark that has one."""
    if not any(word in said for word in _MARKS):
        return None
    for mark in reversed(list(_MARK.finditer(said))[-8:]):
        rest = _words(said[mark.end() : mark.end() + _CHEAP_LENGTH].lstrip(" *\"'\n").split("\n")[0])
        match = _ANY.search(rest)
        if match is not None and match.start() <= len(" claim is "):
            return _verdict(match)
    return None


def _only(line: str) -> str | None:
    """The verdict of a line that holds nothing else."""
    if len(line) > _CHEAP_LENGTH:
        return None
    words = _words(line)
    match = _ANY.search(words)
    if match is None:
        return None
    rest = (words[: match.start()] + words[match.end() :]).split()
    return _verdict(match) if _FILLERS.issuperset(rest) else None
