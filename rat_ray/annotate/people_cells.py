"""Texts in a table that people open in a spreadsheet: never run as a formula, never turned into a number or a date.

A text at risk gets an apostrophe in front, `'=1+1`; so does one that consists of apostrophes and then a text at risk,
so that what is read back is what was written.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

SIGN: Final = "'"
LONGEST: Final = 32_767  # what a cell of Excel holds, in UTF-16 units

_FORMULA = frozenset("=+-@＝＋－＠")
_BREAKS = ("\t", "\r", "\n")
_SHORT = 40  # longer texts are no number and no date
_PLAIN = re.compile(r"0|[1-9]\d{0,14}")  # comes back as it went
_NUMBER = re.compile(r"[\d\s.,:/\-+eE%$€£'’()]*\d[\d\s.,:/\-+eE%$€£'’()]*")
_CLOCK = re.compile(r"[\d:.\s]*\d\s*[ap]\.?(m\.?)?", re.IGNORECASE)
_MONTHS = (
    "jan|gen|ene|feb|fév|mar|mär|mrz|apr|abr|avr|may|mai|mag|jun|juin|giu|jul|juil|lug|aug|ago|aoû|sep|set|"
    "oct|okt|ott|nov|dec|dez|déc|dic"
)
_DATE = re.compile(rf"[\d\W]*({_MONTHS})\w*[\d\W]*", re.IGNORECASE)
_WORDS = frozenset(
    ["true", "false", "wahr", "falsch", "vrai", "faux", "vero", "falso", "verdadero", "verdadeiro", "waar", "onwaar"]
)


def protect(text: str) -> str:
    """The text as a spreadsheet may see it."""
    return SIGN + text if _at_risk(text.lstrip(SIGN)) else text


def restore(cell: str) -> str:
    """What `protect` was given. A cell that nobody protected stays as it is, though it begin with an apostrophe."""
    return cell[1:] if cell.startswith(SIGN) and _at_risk(cell.lstrip(SIGN)) else cell


def shorten(cell: str, where: str) -> str:
    """At most as much as a cell of Excel holds, with a mark at the cut. where: the file that has the whole text."""
    if 2 * len(cell) <= LONGEST:
        return cell
    units = cell.encode("utf-16-le")
    if len(units) <= 2 * LONGEST:
        return cell
    mark = f"\n[… cut here: a cell holds no more; the whole text is in {where}]"
    return units[: 2 * (LONGEST - len(mark))].decode("utf-16-le", errors="ignore") + mark


def _at_risk(text: str) -> bool:
    return text.startswith(_BREAKS) or _first_sign(text) in _FORMULA or _reads_as_value(text.strip())


def _first_sign(text: str) -> str:
    """The first character that is neither blank nor invisible."""
    for sign in text:
        if not sign.isspace() and unicodedata.category(sign) not in ("Cc", "Cf"):
            return sign
    return ""


def _reads_as_value(text: str) -> bool:
    """Whether a spreadsheet takes it for a number, a date, a time or a truth value, and shows it in another form."""
    if not text or len(text) > _SHORT or _PLAIN.fullmatch(text):
        return False
    if text.casefold() in _WORDS or _NUMBER.fullmatch(text) or _CLOCK.fullmatch(text):
        return True
    return any(sign.isdigit() for sign in text) and _DATE.fullmatch(text) is not None
