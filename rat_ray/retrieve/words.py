"""From text to words, for passages and questions alike: split, lower-cased, stop words out, stemmed.

`tokens: bm25s` is `bm25s.tokenize`: runs of at least two of what Python's `\\w` matches. That suits Latin, Greek and
Cyrillic, and fails elsewhere: a Chinese or Japanese sentence is one word, a single character is none, and a combining
mark (Thai and Hindi vowels, a decomposed é) ends a word. `tokens: unicode` gives the same words wherever none of this
occurs; otherwise

* text is brought to NFC after full-width letters and half-width kana became ordinary ones; Arabic and Hebrew points,
  which most writers leave out, are dropped; a dotted İ becomes i;
* a mark belongs to the word of the letter before it;
* a run of Chinese, Japanese, Korean, Thai, Lao, Khmer or Burmese becomes its overlapping pairs of characters (each with
  its marks), and a single character that stands alone is kept.
"""

from __future__ import annotations

import importlib.metadata
import logging
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

from rat_ray.errors import InputError, MissingExtraError, did_you_mean

TOKENS: Final = ("unicode", "bm25s")
STOPWORDS: Final = ("english", "english_plus", "german", "dutch", "french", "spanish", "portuguese", "italian",
                    "russian", "swedish", "norwegian", "danish", "chinese", "turkish", "korean")  # fmt: skip
# Scripts that do not put spaces between words, and Hangul, whose particles stick to the noun.
_PAIRED: Final = (
    (0x3005, 0x3007), (0x3041, 0x30FF), (0x3105, 0x318F), (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF),  # Han, kana, bopomofo
    (0x1100, 0x11FF), (0xA960, 0xA97F), (0xAC00, 0xD7FF),  # Hangul
    (0x0E00, 0x0EFF), (0x1780, 0x17FF), (0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F),  # Thai … Burmese
)  # fmt: skip
_POINTS: Final = (
    (0x0591, 0x05BD), (0x05BF, 0x05BF), (0x05C1, 0x05C2), (0x05C4, 0x05C5), (0x05C7, 0x05C7),  # Hebrew
    (0x0610, 0x061A), (0x0640, 0x0640), (0x064B, 0x065F), (0x0670, 0x0670), (0x06D6, 0x06DC),  # Arabic
    (0xFE00, 0xFE0F),  # variation selectors
)  # fmt: skip
_WIDE: Final = (0xFF01, 0xFFEE)


class WordSettings(Protocol):
    """The settings that decide the words."""

    @property
    def tokens(self) -> str: ...
    @property
    def stemmer(self) -> str: ...
    @property
    def stopwords(self) -> str: ...


class Tokenizer:
    """`split` gives the words of a text as they are, `stop` and `stem` what becomes of them; a call does it all."""

    def __init__(self, settings: WordSettings) -> None:
        stopwords = load_bm25s().tokenization.Tokenizer(stopwords=settings.stopwords or None).stopwords
        self.stop = frozenset(stopwords)
        self.stem: Callable[[str], str] = load_stemmer(settings.stemmer).stemWord if settings.stemmer else str
        self.split: Callable[[str], list[str]] = split_as_bm25s if settings.tokens == "bm25s" else split

    def __call__(self, texts: Iterable[str]) -> list[list[str]]:
        """The words of each text, in its order, repeated as often as they occur."""
        return [[self.stem(word) for word in self.split(text) if word not in self.stop] for text in texts]


_words = re.compile(r"(?u)\b\w\w+\b").findall


def split_as_bm25s(text: str) -> list[str]:
    """Runs of two or more word characters, lower-cased."""
    found: list[str] = _words(text.lower())
    return found


def split(text: str) -> list[str]:
    """The words of a text in any script, lower-cased; see the head of this module."""
    text = text.lower()
    if text.isascii():
        return _words(text)
    special = _special()
    if not special.any.search(text):
        return _words(text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text))
    text = unicodedata.normalize("NFC", text.translate(special.widths))
    text = text.translate(special.points).replace("i̇", "i")
    found: list[str] = []
    for run in special.runs(text):
        if not special.paired.search(run):
            found += [run] if len(run) > 1 else []
            continue
        for piece in special.pieces(run):
            if special.paired.match(piece):
                found += _pairs(special.characters(piece))
            elif len(piece) > 1:
                found.append(piece)
    return found


def _pairs(characters: list[str]) -> list[str]:
    if len(characters) == 1:
        return characters
    return [first + second for first, second in pairwise(characters)]


class _Special(NamedTuple):
    """any: what needs more than `\\w`. runs: letters with their marks. pieces: a run by kind of script."""

    any: re.Pattern[str]
    paired: re.Pattern[str]
    runs: Callable[[str], list[str]]
    pieces: Callable[[str], list[str]]
    characters: Callable[[str], list[str]]
    widths: dict[int, str]
    points: dict[int, None]


@lru_cache(maxsize=1)
def _special() -> _Special:
    marks = "".join(_ranges(code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M"))
    paired = "".join(_range(*bounds) for bounds in _PAIRED)
    points = "".join(_range(*bounds) for bounds in _POINTS)
    return _Special(
        any=re.compile(f"[{marks}{paired}{points}{_range(*_WIDE)}]"),
        paired=re.compile(f"[{paired}]"),
        runs=re.compile(f"\\w[\\w{marks}]*").findall,
        pieces=re.compile(f"[{paired}][{paired}{marks}]*|[^{paired}]+").findall,
        characters=re.compile(f"[^{marks}][{marks}]*|[{marks}]").findall,
        widths={code: unicodedata.normalize("NFKC", chr(code)) for code in range(_WIDE[0], _WIDE[1] + 1)},
        points={code: None for low, high in _POINTS for code in range(low, high + 1)},
    )


def _ranges(codes: Iterable[int]) -> list[str]:
    """Neighbouring code points joined, for a class of characters."""
    found: list[list[int]] = []
    for code in codes:
        if found and code == found[-1][1] + 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return [_range(low, high) for low, high in found]


def _range(low: int, high: int) -> str:
    return f"\\U{low:08x}-\\U{high:08x}"


def check_words(tokens: str, stemmer: str, stopwords: str) -> None:
    """Raises InputError for an unknown way to split or an unknown language."""
    if tokens not in TOKENS:
        raise InputError(f"retriever.tokens={tokens!r}: unknown{did_you_mean(tokens, TOKENS)}")
    if stopwords and stopwords not in STOPWORDS:
        raise InputError(f"retriever.stopwords={stopwords!r}: unknown{did_you_mean(stopwords, STOPWORDS)}")
    if stemmer:
        load_stemmer(stemmer)


def load_bm25s() -> Any:
    """The package. Raises MissingExtraError."""
    try:
        import bm25s
    except ImportError as error:
        raise MissingExtraError("bm25s", "local") from error
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it asks for DEBUG, and would fill everybody's log
    return bm25s


@lru_cache(maxsize=1)
def stemmer_version() -> str:
    """Whose stems they are: Snowball's rules change. Raises MissingExtraError."""
    try:
        return importlib.metadata.version("PyStemmer")
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError("PyStemmer", "local") from error


def load_stemmer(language: str) -> Any:
    """A Snowball stemmer. Raises InputError for a language that Snowball does not know."""
    try:
        import Stemmer
    except ImportError as error:
        raise MissingExtraError("PyStemmer", "local") from error
    if language not in Stemmer.algorithms():
        raise InputError(f"retriever.stemmer={language!r}: unknown{did_you_mean(language, Stemmer.algorithms())}")
    return Stemmer.Stemmer(language, 0)  # without its cache, which costs more than stemming where most words are new
