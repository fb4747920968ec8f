"""The words of a text as the rules for T and R compare them: one spelling, no punctuation, no case."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from rat_ray.annotate.text import unescaped

ARTICLES: Final = frozenset(("a", "an", "the"))
# Letters that Unicode does not take apart into a letter and a mark.
_LETTERS: Final = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
# What chooses a character's looks, and blanks that look like nothing: Unicode calls them marks and letters.
_UNSEEN: Final = re.compile("[\u034f\u180b-\u180d\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_ARABIC: Final = {"\u066a": "%", "\u066b": ".", "\u066c": ","}
# A raised number after a stop or a word is a footnote's, after a number a power or a footnote's: no digits of it.
_RAISED_DIGITS: Final = "\u00b9\u00b2\u00b3\u2070\u2074-\u2079"
_RAISED: Final = re.compile(f"[{_RAISED_DIGITS}]")
_FOOTNOTE: Final = re.compile(
    rf"(?:(?<=[.,:;!?)\]\"'\u2019\u201d\u00bb])|(?<=[^\W\d_]{{4}}))[{_RAISED_DIGITS}]+(?![^\W_])"
)
_POWER: Final = re.compile(f"(?<=[0-9])(?=\u207b?[{_RAISED_DIGITS}])")
_QUOTES: Final = "\u2018\u2019\u201a\u201b\u02bc\u02bb\u2032`\u00b4"
_LONG_DASHES: Final = "\u2014\u2015"  # these part sentences, and no word is written with one
_LATIN_MARKS: Final = re.compile("(?<=[a-z])[\u0300-\u036f]+")
# "J. K. Rowling" and "J.K. Rowling" are "jk rowling", "U.S." is "us"; "4.5" and the end of a sentence are left alone.
_INITIALS: Final = re.compile(r"(?<![^\W_])([^\W\d_])\.\s?(?=[^\W\d_]\.)")
_INITIAL: Final = re.compile(r"(?<![^\W_])([^\W\d_])\.(?=\w(?!\w)|\W|$)")
_NO_PART_OF_A_NAME: Final = re.compile(r"(?<![^\W_+#])[+#]+")  # C++ and C# are not C, #1 is 1
# Scripts that put no blanks between words: Han, Hiragana, Katakana. Each character stands for itself.
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


class _Level(dict[int, str | None]):
    """Straight quotes, plain hyphens and blanks, nothing invisible; filled as characters are met."""

    def __missing__(self, code: int) -> str | None:
        self[code] = made = _levelled(chr(code))
        return made


class _Word(dict[int, str | None]):
    """Apostrophes go, letters, digits, marks, + and # stay, all else is a blank; filled as characters are met."""

    def __missing__(self, code: int) -> str | None:
        self[code] = made = _word_character(chr(code))
        return made


def _levelled(char: str) -> str | None:
    if char in _QUOTES:
        return "'"
    if char in _LONG_DASHES:
        return " - "
    if _UNSEEN.match(char):
        return None
    category = unicodedata.category(char)
    if category == "Nd":
        return str(unicodedata.decimal(char))
    if category == "No" and "\u2044" in unicodedata.normalize("NFKD", char):
        return f" {unicodedata.normalize('NFKD', char)}".replace("\u2044", "/")  # 3\u00bd is 3 1/2
    if category == "Pd" or char == "\u2212":
        return "-"
    if category == "Cf":
        return None
    return _ARABIC.get(char) or _LETTERS.get(char, " " if char.isspace() else char)


def _word_character(char: str) -> str | None:
    if char == "'":
        return None
    if char in "+#":
        return char
    if _UNSPACED.match(char):
        return f" {char} "
    return char if char.isalnum() or unicodedata.category(char)[0] == "M" else " "


_LEVEL: Final = _Level()
_WORD: Final = _Word()


def listed(text: str) -> tuple[str, ...]:
    """The words of a list that is written as one string."""
    return tuple(text.split())


def folded(text: str) -> str:
    """Lower case, compatibility forms levelled, straight quotes, plain hyphens, nothing invisible.

    Accents of Latin letters are dropped (`Beyoncé` is `beyonce`); marks of other scripts are kept, where they tell
    words apart.
    """
    text = unescaped(text)
    if text.isascii():
        return text.lower()
    if _RAISED.search(text):
        text = _POWER.sub("^", _FOOTNOTE.sub("", text))
    # Invisible characters and the accent that serves as a quote go before the letters are taken apart.
    text = _LATIN_MARKS.sub("", unicodedata.normalize("NFKD", text.translate(_LEVEL)).casefold())
    return unicodedata.normalize("NFC", text).translate(_LEVEL)


def without_initial_dots(text: str) -> str:
    """A folded text in which single letters have no dot, and initials stand together."""
    if "." not in text[:-1]:
        return text
    if not any(part[-1:].isalpha() and not part[-2:-1].isalnum() for part in text.split(".")[:-1]):
        return text  # most dots end sentences, and the search for initials is slow
    return _INITIAL.sub(r"\1", _INITIALS.sub(r"\1", text))


def word_list(text: str) -> list[str]:
    """The words of a folded text in order, articles included; `don't` is `dont`, `well-known` is two words."""
    if "#" in text or "+" in text:
        text = _NO_PART_OF_A_NAME.sub(" ", text)
    return without_initial_dots(text).translate(_WORD).split()


def spaced(text: str) -> str:
    """With blanks around each character of a script that puts none between words."""
    return _UNSPACED.sub(r" \g<0> ", text)


def without_articles(words: list[str]) -> list[str]:
    """The words that are no English article; the same list where none is."""
    return words if ARTICLES.isdisjoint(words) else [word for word in words if word not in ARTICLES]


def padded(words: Iterable[str]) -> str:
    """The words between single blanks, one at each end, so that `in` finds whole words only."""
    return f" {' '.join(words)} "
