"""Which passages of a page hold a piece of evidence: by sentence number, by text, or any of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from rat_ray.datasets.lookup import Held, Unmapped
from rat_ray.datasets.titles import decode_codes

MOST_SETS: Final = 64
_MOST_PRODUCTS: Final = 1024
_LONGEST_RUN: Final = 8
_GRAM: Final = 3
_ENOUGH: Final = 0.8
_WORD: Final = re.compile(r"\w+")

Ids = tuple[str, ...]


def any_of(held: Sequence[Held]) -> list[Ids]:
    """Each passage is enough."""
    return [(each.passage_id,) for each in held]


def by_numbers(held: Sequence[Held], numbers: Sequence[int]) -> list[Ids]:
    """Sets of passages that hold all of these sentences. Raises Unmapped for one that is in none of them.

    A number between two passages is that of a heading or a blank line: it has no text, so nothing needs to hold it.
    """
    first, last = min(each.first for each in held), max(each.last for each in held)
    choices: list[list[Ids]] = []
    for number in dict.fromkeys(numbers):
        found = any_of([each for each in held if each.first <= number <= each.last])
        if found:
            choices.append(found)
        elif not first < number < last:
            raise Unmapped(f"sentence {number} of {held[0].title!r} is in no passage")
    if not choices:
        raise Unmapped(f"sentences {', '.join(map(str, numbers))} of {held[0].title!r} have no text")
    return product(choices)


def by_texts(held: Sequence[Held], texts: Sequence[str]) -> list[Ids]:
    """Sets of passages that hold all of these texts. Raises Unmapped for one that they do not.

    A text is held by a passage, or by the fewest that follow one another, whose words are the text's: all of them in
    a row, or else (other spellings, another day's snapshot) at least 80 % of its runs of three words.
    """
    if len(held) == 1 and len(texts) == 1 and texts[0] == held[0].text:
        return any_of(held)  # nearly all of DPR's positives
    words = [_words(each.text or "") for each in held]
    choices: list[list[Ids]] = []
    for text in dict.fromkeys(texts):
        sought = _words(text)
        if not sought:
            continue
        runs = _runs(words, sought, _in_a_row) or _runs(words, sought, _nearly)
        if not runs:
            raise Unmapped(f"{text!r:.80} is not in the text of {held[0].title!r}")
        choices.append([tuple(each.passage_id for each in held[start:end]) for start, end in runs])
    return product(choices) if choices else any_of(held)


def product(choices: Sequence[Sequence[Ids]]) -> list[Ids]:
    """One of each, joined; sets that hold another of these are left out. Raises Unmapped when they are too many."""
    sets: list[Ids] = [()]
    for options in choices:
        if len(sets) * len(options) > _MOST_PRODUCTS:
            raise Unmapped(f"more than {MOST_SETS} alternative sets of passages")
        sets = _smallest([tuple(dict.fromkeys((*chosen, *option))) for chosen in sets for option in options])
    if len(sets) > MOST_SETS:
        raise Unmapped(f"more than {MOST_SETS} alternative sets of passages")
    return sets


def unique_sets(sets: Iterable[Ids]) -> list[Ids]:
    """Each set once, whatever the order of its members, where it came first."""
    found: dict[frozenset[str], Ids] = {}
    for each in sets:
        found.setdefault(frozenset(each), each)
    return list(found.values())


def _smallest(sets: list[Ids]) -> list[Ids]:
    """Without those that contain another one, each once, in their order."""
    unique = [(frozenset(each), each) for each in unique_sets(sets)]
    return [each for members, each in unique if not any(other < members for other, _ in unique)]


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", decode_codes(text)).casefold())


def _runs(
    words: list[list[str]], sought: list[str], holds: Callable[[list[str], list[str]], bool]
) -> list[tuple[int, int]]:
    """The shortest runs of passages, as (start, end), that hold what is sought; [] where none up to eight do."""
    if not holds([word for each in words for word in each], sought):
        return []
    for length in range(1, min(len(words), _LONGEST_RUN) + 1):
        found = []
        for start in range(len(words) - length + 1):
            joined = [word for each in words[start : start + length] for word in each]
            if holds(joined, sought):
                found.append((start, start + length))
        if found:
            return found
    return []


def _in_a_row(words: list[str], sought: list[str]) -> bool:
    return f" {' '.join(sought)} " in f" {' '.join(words)} "


def _nearly(words: list[str], sought: list[str]) -> bool:
    grams = _grams(sought)
    if len(grams) < _GRAM:
        return False  # of a few words a part says nothing
    return len(grams & _grams(words)) >= _ENOUGH * len(grams)


def _grams(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + _GRAM]) for at in range(len(words) - _GRAM + 1)}
