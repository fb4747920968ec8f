"""Dates in one spelling, day before month before year, so that a part of a date is found within the whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rat_ray.annotate.folding import listed

_NAMES: Final = listed("january february march april may june july august september october november december")
_OTHERS: Final = {
    "january": "jan januar janvier gennaio enero",
    "february": "feb febr februar fevrier febbraio febrero",
    "march": "mar marz maerz marzo",
    "april": "apr avril aprile abril",
    "may": "mai maggio mayo",
    "june": "jun juni juin giugno junio",
    "july": "jul juli juillet luglio julio",
    "august": "aug aout agosto",
    "september": "sep sept septembre settembre septiembre setiembre",
    "october": "oct okt oktober octobre ottobre octubre",
    "november": "nov novembre noviembre",
    "december": "dec dez dezember decembre dicembre diciembre",
}
# The planet is older than the French month: only between a day and a year is "mars" March.
MARS: Final = "mars"
MONTHS: Final = {name: name for name in _NAMES} | {
    other: name for name, others in _OTHERS.items() for other in others.split()
}
_MONTH_WORDS: Final = frozenset((*MONTHS, MARS))
_OF: Final = frozenset(("of", "de", "del", "di"))
_AFTER_DAY: Final = frozenset(listed("in at when and to of on as by for or until till from is was"))
_PARTS: Final = re.compile(r"[./-]")
_MONTH: Final = "|".join((*MONTHS, MARS))
_EAST_ASIAN: Final = re.compile(r"(\d{4}) ?\u5e74 ?(\d{1,2}) ?\u6708 ?(\d{1,2}) ?\u65e5")
# Begins with a digit, to be found fast.
_NO_BLANK: Final = re.compile(rf"\d{{1,2}}(?:,(?=[12]\d{{3}}(?!\d))|-({_MONTH})\.?-(?=\d))")


def date_of(text: str) -> list[str]:
    """A date in digits as its words, e.g. 1912-04-15 as 15, april, 1912; one that can be read in two ways as it is."""
    parts = [int(part) for part in _PARTS.split(text)]
    if parts[0] > 31:
        year, month, day = parts
    elif "." in text or parts[0] > 12 or parts[0] == parts[1]:
        day, month, year = parts
    elif parts[1] > 12:
        month, day, year = parts
    else:
        return [f"{parts[0]}/{parts[1]}/{parts[2]}"]
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return [text]
    return [str(day), _NAMES[month - 1], str(year)]


def east_asian_dates(text: str) -> str:
    """The dates with the signs for year, month and day between their numbers in digits alone."""
    return _EAST_ASIAN.sub(r" \1-\2-\3 ", text) if "\u5e74" in text else text


def split_dates(text: str) -> str:
    """With blanks where dates are written without: July 20,1969 and 20-Jul-1969."""
    return _NO_BLANK.sub(_split, text) if "-" in text or ",1" in text or ",2" in text else text


def _split(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 2) : match.start()]
    if match[1] and not before[-1:].isdecimal():
        return match[0].replace("-", " ")
    if before[1:] == " " and (before[0].isalpha() or before[0] == "."):
        return match[0].replace(",", " , ")
    return match[0]


def in_day_order(tokens: list[str]) -> list[str]:
    """The words with every month in English and its day before it: April the 15th, 1912 is 15 april 1912."""
    if _MONTH_WORDS.isdisjoint(tokens):
        return tokens
    out: list[str] = []
    at = 0
    for place in [i for i, token in enumerate(tokens) if token in _MONTH_WORDS]:
        out += tokens[at:place]
        at = max(at, place)
        if at > place:
            continue
        month = _month(tokens, at, out)
        at += 1
        if month is None:
            out.append(tokens[place])
            continue
        if _day_before(out):
            at = _skip_of(tokens, at)
        else:
            days, at = _days_after(tokens, at)
            if days and out and is_year(out[-1]) and not (at < len(tokens) and is_year(tokens[at])):
                out[-1:] = [*days, month, out[-1]]  # 1969 July 20
                continue
            out += days
            at = _skip_of(tokens, at)
        out.append(month)
    return out + tokens[at:]


def is_year(token: str) -> bool:
    """Whether a word is four digits that can be a year."""
    return len(token) == 4 and token.isdecimal() and token[0] in "12"


def _day(token: str) -> str | None:
    text = token.removesuffix("th")
    return text if text.isdecimal() and len(text) <= 2 and 1 <= int(text) <= 31 else None


def _month(tokens: Sequence[str], at: int, out: Sequence[str]) -> str | None:
    token = tokens[at]
    month = MONTHS.get(token)
    if month == token:
        return month
    after = tokens[at + 1] if at + 1 < len(tokens) else ""
    if after in _OF and at + 2 < len(tokens):
        after = tokens[at + 2]
    before = out[-2] if len(out) > 1 and out[-1] in _OF else out[-1] if out else ""
    if token == MARS:
        return "march" if _day(before) and is_year(after) else None
    if month is None:
        return None
    return month if _day(before) or is_year(after) or _day(after) else None


def _day_before(out: list[str]) -> bool:
    """Takes "15th of" before a month as 15; returns whether there is a day."""
    at = len(out) - (2 if out and out[-1] in _OF else 1)
    if at < 0 or (day := _day(out[at])) is None:
        return False
    out[at:] = [day]
    if at > 1 and out[at - 1] == "to" and (first := _day(out[at - 2])):
        out[at - 2] = first
    return True


def _days_after(tokens: Sequence[str], at: int) -> tuple[list[str], int]:
    """The day, or the days from and to, that follow a month; and where to go on.

    Without a year, "In May 5 people" has no day.
    """
    if at >= len(tokens) or (day := _day(tokens[at])) is None:
        return [], at
    days, end = [day], at + 1
    if end + 1 < len(tokens) and tokens[end] == "to" and (last := _day(tokens[end + 1])):
        days, end = [day, "to", last], end + 2
    after = tokens[end] if end < len(tokens) else ""
    if not after or after in _AFTER_DAY or after[0].isdecimal() or tokens[end - 1].endswith("th"):
        return days, end
    return [], at


def _skip_of(tokens: Sequence[str], at: int) -> int:
    """Past "of" or "de" before a year."""
    return at + 1 if at + 1 < len(tokens) and tokens[at] in _OF and is_year(tokens[at + 1]) else at
