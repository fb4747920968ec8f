"""Text made comparable: Unicode forms, quotes, dashes, invisible characters, case, punctuation."""

from __future__ import annotations

import re
import unicodedata

_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u02bc": "'", "`": "'",
                         "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00ab": '"', "\u00bb": '"'})  # fmt: skip
_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_DOTTED = re.compile(r"(?<=\b\w)\.(?=\w\b|\W|$)")
_NO_WORD = re.compile(r"[\W_]+")


def plain(text: str) -> str:
    """NFKC, straight quotes, plain hyphens, no invisible characters, lower case, single blanks."""
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    text = "".join(char for char in _DASHES.sub("-", text) if unicodedata.category(char) != "Cf")
    return " ".join(text.casefold().split())


def words(text: str) -> str:
    """`plain` with only the words left, separated by single blanks: `U.S.` is `us`, `don't` is `dont`."""
    text = _DOTTED.sub("", plain(text).replace("'", ""))
    return _NO_WORD.sub(" ", text).strip()


def short_answer(text: str) -> str:
    """`words` without English articles, as short answers are compared (after SQuAD's normalisation)."""
    return " ".join(_ARTICLES.sub(" ", words(text)).split())
