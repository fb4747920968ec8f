"""a@phrase: is the answer a refusal to answer?"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files

from rat_ray.annotate.text import plain, words

_CITATION = re.compile(r"\[[\d,; -]*\]|\(\d+\)")
# "; the answer is" and ", but" begin a statement of their own, which may be the answer.
_STATEMENTS = re.compile(r"[.!?;:\n]+|,? (?:but|however) ")
_APOLOGY = re.compile(
    r"^(?:(?:(?:i am|im|we are) )?(?:very )?sorry(?: about that)?|(?:i )?apologi[sz]e|(?:my )?apologies)(?: |$)"
)


def abstention_label(answer: str | None, phrase: str) -> int | None:
    """1 when all that the answer does is refuse: the prompt's own phrase, a known refusal, or nothing at all.

    An empty answer declines to answer, so it is 1. None (the row failed) is missing. A citation, an apology or a
    trailing sentence of the same kind changes nothing; a refusal beside an answer is 0.
    """
    if answer is None:
        return None
    rest = _CITATION.sub(" ", plain(answer))
    own = words(phrase)
    if own and words(rest) == own:
        return 1
    statements = [words(statement) for statement in _STATEMENTS.split(rest)]
    said = [_APOLOGY.sub("", statement) for statement in statements]
    return int(all(statement == own or _is_refusal(statement) for statement in said if statement))


def _is_refusal(statement: str) -> bool:
    return any(form.fullmatch(f"{statement} ") for form in refusal_forms())


def refusals_digest() -> str:
    """What identifies the list of refusals: it decides labels, so it belongs in the key of whoever uses it."""
    return hashlib.sha256(_refusals().encode()).hexdigest()[:16]


def _refusals() -> str:
    return (files("rat_ray.annotate") / "refusals_en.txt").read_text("utf-8")


@cache
def refusal_forms() -> tuple[re.Pattern[str], ...]:
    """The forms of refusals_en.txt as patterns over `text.words`."""
    lines = map(str.strip, _refusals().splitlines())
    return tuple(_pattern(line) for line in lines if line and not line.startswith("#"))


def _pattern(form: str) -> re.Pattern[str]:
    """A blank beside a choice or `*` that stands for nothing is optional, as words are separated by single blanks."""
    parts = []
    for token in re.findall(r"\([^)]*\)|\*|[^\s()*]+", form):
        if token == "*":
            parts.append(r"(?:\w+ )*")
        elif token.startswith("("):
            choices = [re.escape(choice).replace(r"\ ", " ") for choice in token[1:-1].split("|")]
            parts.append("(?:" + "|".join(f"{choice} " if choice else "" for choice in choices) + ")")
        else:
            parts.append(f"{re.escape(token)} ")
    return re.compile("".join(parts))
