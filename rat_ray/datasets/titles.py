"""Page titles as people and dumps write them, in one form to look them up by, and redirects between them."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from rat_ray.datasets.reading import Broken, Reader, RowError, stop

# How the Penn Treebank's tokeniser and FEVER's page ids write characters that they need for themselves.
_CODES: Final[Mapping[str, str]] = {
    "LRB": "(",
    "RRB": ")",
    "LSB": "[",
    "RSB": "]",
    "LCB": "{",
    "RCB": "}",
    "COLON": ":",
    "SLASH": "/",
}
_CODE: Final = re.compile(f"-({'|'.join(_CODES)})-")
_DASHES: Final = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u00ad"
_FOLDS: Final = str.maketrans(
    {**dict.fromkeys(_DASHES, "-"), **dict.fromkeys("‘’ʻʼ´`", "'"), **dict.fromkeys("“”„", '"')}
)
_INVISIBLE: Final = re.compile("[\u200b-\u200f\u202a-\u202e\u2060\ufeff]")
STEPS: Final = 4


def decode_codes(text: str) -> str:
    """The text with `-LRB-`, `-RRB-`, `-LSB-`, `-COLON-`, … as the characters they stand for."""
    return _CODE.sub(lambda match: _CODES[match[1]], text) if "-" in text else text


def readable_title(title: str) -> str:
    """A title as people read it: codes decoded, underscores as spaces, NFC."""
    return unicodedata.normalize("NFC", " ".join(decode_codes(title).replace("_", " ").split()))


def title_key(title: str) -> str:
    """The form in which two spellings of one Wikipedia title are equal.

    Underscores are spaces, codes and HTML entities are decoded, NFC (as Wikipedia stores titles), and the first letter
    is a capital, which Wikipedia does not tell from a small one. Nothing else is: "E²" and "E2" are two pages.
    """
    text = readable_title(title)
    if "&" in text:
        text = unicodedata.normalize("NFC", " ".join(html.unescape(text).split()))
    first = text[:1].upper()
    return first + text[1:] if len(first) == 1 else text


def folded_title(key: str) -> str:
    """A coarser form of a `title_key`, looked at only where no page has the very title.

    NFKC, case, kinds of dashes and quotation marks and invisible characters are levelled: "Iran-Iraq War" finds
    "Iran–Iraq War". Two pages that differ in nothing else are told apart by the first look, so the dash is kept there.
    Accents stay: "Léon" and "Leon" are two pages, and which one is meant without its accent is a guess.
    """
    if key.isascii():
        return key.casefold().translate(_FOLDS)
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", key).translate(_FOLDS)).casefold()


def read_redirects(path: Path, titles: Iterable[str], broken: Broken = stop) -> dict[str, str]:
    """Of a file of `from<TAB>to`, the redirects that start at these titles or follow from there, by `title_key`.

    The file is read once for each step, so that only what is needed is held. `broken` is called for a row that does
    not have two cells. Raises InputError for a file that cannot be read.
    """
    known: dict[str, str] = {}
    wanted = {title_key(title) for title in titles}
    for step in range(STEPS):
        found = _starting_at(wanted, path, broken if step == 0 else _ignore)
        known |= found
        wanted = {to for to in found.values() if to not in known}
        if not wanted:
            break
    return known


def chain(key: str, redirects: Mapping[str, str]) -> list[str]:
    """The title and those it leads to, at most STEPS of them; a circle ends where it closes."""
    keys = [key]
    while len(keys) <= STEPS and (following := redirects.get(keys[-1])) and following not in keys:
        keys.append(following)
    return keys


def _starting_at(wanted: set[str], path: Path, broken: Broken) -> dict[str, str]:
    found: dict[str, str] = {}
    for place, line in Reader(path).lines(broken):
        cells = line.rstrip("\r\n").split("\t")
        if len(cells) != 2 or not cells[0].strip() or not cells[1].strip():
            broken(RowError(place, f"expected two titles, from and to, with a tab between them, found {line!r:.80}"))
            continue
        start = title_key(cells[0])
        if start in wanted:
            found.setdefault(start, title_key(cells[1]))
    return found


def _ignore(_: RowError) -> None:
    """Reported when the file was read first."""
