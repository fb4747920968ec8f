"""An accepted answer made ready to be looked for: its spellings, and what kind of thing it is."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from rat_ray.annotate.dates import MONTHS, is_year
from rat_ray.annotate.folding import ARTICLES, folded, listed, padded, without_articles, word_list
from rat_ray.annotate.numbers import has_digit, has_number_word, is_number, number_words
from rat_ray.annotate.units import UNITS
from rat_ray.annotate.yes_no import gold_yes_no

_IN_BRACKETS: Final = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]\s*")
_ACRONYM: Final = re.compile(r"[A-Z][A-Z0-9&.-]+")
_PREPOSITIONS: Final = frozenset(listed("in on at by from to since during near within inside circa"))
_ABOUT: Final = frozenset(listed("about around approximately approx roughly nearly almost some circa ca c"))
_LEADS: Final = _PREPOSITIONS | _ABOUT
_MAY_BE_READ: Final = re.compile(r"[\d(\[,;~&]|\b[IVXLC]+\b")  # numbers, brackets, lists, Roman numerals
_ROMAN: Final = re.compile(r"\b(?=[IVXLC])(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})\b")
_ROMAN_VALUES: Final = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_BESIDE_DATES: Final = frozenset(listed("to in on by early late mid"))
_QUANTITY: Final = frozenset((*UNITS.values(), *listed("celsius fahrenheit square about around")))
_SEPARATORS: Final = re.compile(r"\s*(?:[,;]\s|\s&\s|\band\b)\s*")


_AROUND_SIGNS: Final = " \n\t\"'\u201c\u201d\u201e\u00ab\u00bb"


class Form(NamedTuple):
    """One spelling: its words between blanks, without articles."""

    text: str
    words: tuple[str, ...]


class Gold(NamedTuple):
    """yes_no: YES or NO where it is that. with_articles: the words with articles, where the last one is one ("Vitamin
    A"), so that leaving articles out would lose a part of the name; only_articles: there are no others ("A", "The").
    plain: spellings to be looked for in words; empty where there are digits, which are looked for in `numeric` only.
    numeric: spellings with numbers and dates brought into one form. rule: what a match by them is called.
    bare: the number alone, where what follows it is no unit ("203 members"). items: of a list, each between blanks.
    years: the first and the last, where it is a range of years. signs: the whole of it, where no word is in it ("*").
    """

    yes_no: str | None
    with_articles: str
    only_articles: bool
    plain: tuple[Form, ...]
    numeric: tuple[Form, ...]
    rule: str | None
    bare: str | None
    items: tuple[str, ...]
    years: tuple[str, str] | None
    signs: str = ""


@lru_cache(maxsize=16384)
def gold_of(text: str) -> Gold:
    """The accepted answer as a Gold; remembered, as datasets repeat their answers."""
    level = folded(text)
    words = word_list(level)
    if _is_plain(text, words):
        return Gold(None, "", False, (_form(without_articles(words)),), (), None, None, (), None)
    return _gold(text, level, words)


def _is_plain(text: str, words: list[str]) -> bool:
    """Whether there is but one spelling and nothing to be read in it, as with most names."""
    if not words or words[-1] in ARTICLES or has_number_word(words) or gold_yes_no(text) is not None:
        return False
    return words[0] not in _LEADS and _MAY_BE_READ.search(text) is None


def _gold(text: str, level: str, words: list[str]) -> Gold:
    kept = without_articles(words)
    digits = has_digit(level)
    numeric = digits or has_number_word(words)
    more = [folded(variant) for variant in _variants(text)]
    plain = () if digits else _distinct([_form(kept), *(_form(without_articles(word_list(one))) for one in more)])
    counted = [*([level, *more] if numeric else ()), *map(folded, _romans(text))]
    forms = _distinct([_form(number_words(one)) for one in counted]) if counted else ()
    return Gold(
        yes_no=gold_yes_no(level),
        with_articles=padded(words) if words and words[-1] in ARTICLES else "",
        only_articles=bool(words) and not kept,
        plain=plain,
        numeric=forms,
        rule=_rule(forms[0].words) if forms else None,
        bare=_bare(forms[0].words) if forms else None,
        items=() if numeric else _items(level),
        years=_years(forms[0].words) if forms else None,
        signs="" if words else bare_signs(level),
    )


def bare_signs(level: str) -> str:
    """A folded text that may be nothing but a sign, without blanks, quotes and the stop after it."""
    bare = level.strip(_AROUND_SIGNS)
    return bare.rstrip(_AROUND_SIGNS + ".!?") or bare or level.strip()


def _form(words: list[str]) -> Form:
    return Form(padded(words), tuple(words))


def _distinct(forms: list[Form]) -> tuple[Form, ...]:
    if len(forms) == 1:
        return tuple(forms) if forms[0].words else ()
    return tuple(dict.fromkeys(form for form in forms if form.words))


def _variants(text: str) -> list[str]:
    """Other spellings: without what stands in brackets, an acronym that does, without "in", "on", "about" before it."""
    found = []
    if "(" in text or "[" in text:
        rest = _IN_BRACKETS.sub(" ", text).strip()
        if rest:
            found = [rest, *(inner for inner in _IN_BRACKETS.findall(text) if _ACRONYM.fullmatch(inner))]
    return [*found, *(shorter for one in (text, *found) if (shorter := _without_lead(one)))]


def _without_lead(text: str) -> str | None:
    """Without a small preposition or "about"; a capital one may belong to a title, unless a number follows."""
    rest = text.strip(" ~\"'")
    while True:
        first, _, after = rest.partition(" ")
        counts = after[:1].isdecimal() or after.partition(" ")[0].lower() in MONTHS
        lead = first.lower().rstrip(".")
        leads = (lead in _PREPOSITIONS and (first.islower() or counts)) or (lead in _ABOUT and counts)
        if not after or not leads:
            break
        rest = after
    return rest if rest != text else None


def _romans(text: str) -> list[str]:
    """With Roman numerals as numbers and as ordinals: World War II, Elizabeth II."""
    found = []
    for end in ("", "th"):
        changed = _ROMAN.sub(lambda match, end=end: _roman(match, end), text)  # type: ignore[misc]
        if changed != text:
            found.append(changed)
    return found


def _roman(match: re.Match[str], end: str) -> str:
    numeral = match[0]
    # A single letter at the beginning is a word or an initial: "I Robot", "C. S. Lewis".
    if not numeral or (
        len(numeral) == 1 and (match.start() == 0 or match.string[match.end() : match.end() + 1] == ".")
    ):
        return numeral
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    total = sum(-value if value < max(values[i:]) else value for i, value in enumerate(values))
    return f"{total}{end}"


def _rule(words: tuple[str, ...]) -> str | None:
    """`date` for what is one (a year too), `number` for a number with or without its unit, else None."""
    left = [
        word for word in words if word not in MONTHS and word not in ("to", "in", "on", "by", "early", "late", "mid")
    ]
    if not left:
        return None
    if len(left) == 1 and left[0].count("/") == 2:
        return "date"  # of two days
    if all(word.isdecimal() for word in left) and any(word in MONTHS for word in words):
        return "date"
    if all(is_year(word) or (word[:-1].isdecimal() and word[-1] == "s") for word in left):
        return "date"
    counts = any(is_number(word) for word in left)
    return "number" if counts and all(is_number(word) or word in _QUANTITY for word in left) else None


def _bare(words: tuple[str, ...]) -> str | None:
    """203 of "203 members": what is counted is no unit, so the number says it all."""
    if len(words) != 2 or not is_number(words[0]) or words[1] in _QUANTITY or words[1] in MONTHS:
        return None
    return f" {words[0]} " if words[1].isalpha() else None


def _years(words: tuple[str, ...]) -> tuple[str, str] | None:
    if len(words) == 3 and words[1] == "to" and is_year(words[0]) and is_year(words[2]):
        return words[0], words[2]
    return None


def _items(level: str) -> tuple[str, ...]:
    """The parts of a list with commas: "Landover, Maryland", "red, white and blue"."""
    if ", " not in level and "; " not in level:
        return ()
    parts = [padded(without_articles(word_list(part))) for part in _SEPARATORS.split(level)]
    return tuple(part for part in parts if part.strip())
