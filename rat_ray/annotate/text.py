"""Text made comparable: Unicode forms, quotes, dashes, invisible characters, case, punctuation."""

from __future__ import annotations

import html
import re
import unicodedata

_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u02bc": "'", "`": "'",
                         "\u2032": "'", "\u00b4": "'", "\u2039": "'", "\u203a": "'",
                         "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u201f": '"', "\u00ab": '"', "\u00bb": '"',
                         **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
                         # What chooses a character's looks, and blanks that look like nothing.
                         **dict.fromkeys("\u034f\u180b\u180c\u180d\u3164\uffa0", None),
                         **dict.fromkeys(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))), None),
                         **dict.fromkeys("\ufe58\ufe63\uff0d", "-")})  # fmt: skip
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8}\d{0,2});")
_DOTTED = re.compile(r"(?<=\b\w)\.(?=\w\b|\W|$)")
_NO_WORD = re.compile(r"[\W_]+")
# Blocks that hold combining marks; `\w` takes none of them for a part of a word.
_MAY_HOLD_MARKS = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u109f\u135d-\u135f\u1712-\u1dff\u20d0-\u20f0"
    "\u2cef-\u2cf1\u302a-\u302f\u3099-\u309a\ua66f-\uaaff\uabe3-\uabed\U00010a01-\U00011fff]"
)
_ASCII_BLANKS = str.maketrans({char: " " for char in map(chr, range(128)) if not char.isalnum()})
_ARTICLES = frozenset({"a", "an", "the"})


def unescaped(text: str) -> str:
    """HTML's names and numbers of characters (`&amp;`, `&#39;`) as the characters."""
    return _ENTITY.sub(lambda match: html.unescape(match[0]), text) if "&" in text and ";" in text else text


def plain(text: str) -> str:
    """NFKC, straight quotes, plain hyphens, no invisible characters, lower case, single blanks."""
    if text.isascii():
        return " ".join(text.replace("`", "'").lower().split())
    if not text.isprintable():
        # A joined or split letter is composed only once nothing invisible stands in it.
        text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    # "´" is a blank and an accent in NFKC, so quotes come first; full-width ones become plain by it.
    text = unicodedata.normalize("NFKC", text.translate(_QUOTES)).translate(_QUOTES)
    text = " ".join(text.casefold().split())
    return text.replace("i\u0307", "i")  # what a Turkish capital I with a dot leaves


def words(text: str) -> str:
    """`plain` with only the words left, separated by single blanks: `U.S.` is `us`, `don't` is `dont`."""
    text = plain(text).replace("'", "")
    if "." in text[:-1]:
        text = _DOTTED.sub("", text)
    if text.isascii():
        return " ".join(text.translate(_ASCII_BLANKS).split())
    if _MAY_HOLD_MARKS.search(text) is None:
        return _NO_WORD.sub(" ", text).strip()
    return " ".join("".join(char if _in_word(char) else " " for char in text).split())


def short_answer(text: str) -> str:
    """`words` without English articles, as short answers are compared (after SQuAD's normalisation)."""
    return " ".join([word for word in words(text).split() if word not in _ARTICLES])


def _in_word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char)[0] == "M"
