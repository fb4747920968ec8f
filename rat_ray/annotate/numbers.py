"""Numbers, quantities and ranges in one spelling: 4 / four / 4.0, 1,000 / 1 000 / 1.000.000, 20% / 20 per cent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from rat_ray.annotate.dates import MONTHS, date_of, east_asian_dates, in_day_order, split_dates
from rat_ray.annotate.folding import ARTICLES, listed, spaced, without_articles, without_initial_dots
from rat_ray.annotate.units import CODES, CURRENCIES, MONEY_ENDS, UNITS

_SMALL: Final = {
    word: value
    for value, word in enumerate(
        listed(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen"
        )
    )
}
_TENS: Final = {
    word: 10 * (2 + i) for i, word in enumerate(listed("twenty thirty forty fifty sixty seventy eighty ninety"))
}
_SCALES: Final = {
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "dozen": 12,
}
_LARGEST_SCALE: Final = 10**18  # "million million"; who goes on counts nothing
_PLURAL_SCALES: Final = {"millions": 10**6, "billions": 10**9, "bn": 10**9, "mn": 10**6}
_ORDINAL_SMALL: Final = {
    word: value
    for value, word in enumerate(
        listed(
            "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
            "fifteenth sixteenth seventeenth eighteenth nineteenth"
        ),
        start=1,
    )
}
_ORDINAL_TENS: Final = {
    word: 10 * (2 + i)
    for i, word in enumerate(listed("twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth"))
}
_WORDS: Final = _SMALL | _TENS
_ORDINALS: Final = _ORDINAL_SMALL | _ORDINAL_TENS
# "no one", "one of them": here the word counts nothing.
_BEFORE_PRONOUN: Final = frozenset(listed("no any every some each this that these which only another the loved young"))
_AFTER_PRONOUN: Final = frozenset(listed("of another who or can must should would may might day"))

_ATTACHED: Final = {"in": "inch", "am": "am", "pm": "pm", "bc": "bc", "bce": "bc", "ad": "ad", "k": "k", "c": "c"}
_ORDINAL_ENDS: Final = frozenset(("st", "nd", "rd", "th"))
_TO: Final = frozenset(("to", "until", "till", "through", "thru", "bis"))

_TOKEN: Final = re.compile(
    r"""
    (?P<words>[^\W\d_]+(?:[\s.,;:!?"()\[\]]+[^\W\d_]+)*(?![^\W_]))
    |(?P<date>(?<![\d.,/-])(?:\d{4}([./-])\d{1,2}\3\d{1,2}|\d{1,2}([./-])\d{1,2}\4\d{4})(?![\d/]|[.,-]\d))
    |(?P<number>(?:(?<=[\s("*\u201c\u201e\u00ab])-|^-)?
        (?:\d{1,3}(?:[ ]\d{3})+(?![\d.,]*\d|\w)|\d+(?:[.,]\d+)*|(?<![\w.])\.\d+))(?P<end>[^\W\d_]*)
    |(?P<word>[^\W_]+)
    |(?P<sign>[-%$/\u20ac\u00a3\u00a5\u20b9\u00b0])
    """,
    re.VERBOSE,
)
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_SHARE_BEGINS: Final = ("and", "point")
_MOST_DECIMALS: Final = 12
_MARGIN: Final = 3  # words beside a number that it may be read with
_DIGIT: Final = re.compile(r"\d")
_NUMBER: Final = re.compile(r"-?\d+(?:[.,]\d+)*")
_NUMBER_WORD: Final = frozenset((*_WORDS, *_ORDINALS, *_SCALES))
_READ: Final = _NUMBER_WORD | {"minus", "negative", "bce"}  # words that are not simply taken over
_FEET: Final = re.compile(r"(?<!\d)(\d)' ?(\d{1,2})(?:\"|'')")
_MIXED: Final = re.compile(r"(?<![\d./,-])(\d+)[ -](1/2|[13]/4|[1357]/8)(?![\d/])")
_SHARES: Final = {"1/2": ".5", "1/4": ".25", "3/4": ".75", "1/8": ".125", "3/8": ".375", "5/8": ".625", "7/8": ".875"}
_APOSTROPHE: Final = re.compile(r"(?<=\d)'(?!\d{3}(?!\d))(?=\d)")


def has_digit(text: str) -> bool:
    """Whether there is a digit in the text."""
    return _DIGIT.search(text) is not None


def has_number_word(words: Sequence[str]) -> bool:
    """Whether one of the words is, or is part of, an English number or ordinal."""
    return not _NUMBER_WORD.isdisjoint(words)


def is_number(token: str) -> bool:
    """Whether a token of `number_words` is a number."""
    return token.isdecimal() or _NUMBER.fullmatch(token) is not None


def number_words(text: str) -> list[str]:
    """The words of a folded text without articles, numbers, units, ranges and dates in one spelling each.

    A number is its digits with a point and no needless zeros, an ordinal `3th`, a unit follows its number (`5 dollar`,
    `20 percent`), a range is `10 to 12`, a date `15 april 1912` as far as it is known. What can be read in two ways
    stays as it is: `1.000`, `04/05/1912`.
    """
    if text.isdecimal():
        return [text]
    if "'" in text:
        text = _FEET.sub(r"\1 ft \2 inches ", text)
        text = _APOSTROPHE.sub(" ", text).replace("'", "")
    if not text.isascii():
        text = spaced(east_asian_dates(text))
    if "/" in text:
        text = _MIXED.sub(lambda match: match[1] + _SHARES[match[2]], text)
    text = split_dates(text)
    out: list[str] = []
    tokens: list[str] = []
    for match in _TOKEN.finditer(without_initial_dots(text)):
        kind = match.lastgroup
        if kind == "words":
            words = _LETTERS.findall(match[0])
            if len(words) > 2 * _MARGIN and _READ.isdisjoint(words):
                out += _joined([*tokens, *words[:_MARGIN]])
                out += without_articles(words[_MARGIN:-_MARGIN])
                tokens = words[-_MARGIN:]
            else:
                tokens += words
        elif kind == "word" or kind == "sign":
            tokens.append(match[0])
        elif kind == "date":
            tokens += date_of(match[0])
        else:
            number, end = _digits(match["number"]), match["end"]
            if end and tokens and tokens[-1] in CURRENCIES and end in MONEY_ENDS:
                tokens += [number, MONEY_ENDS[end]]
            else:
                tokens += _with_end(number, end)
    return in_day_order(out + _joined(tokens))


def _with_end(number: str, end: str) -> list[str]:
    if not end:
        return [number]
    if end in _ORDINAL_ENDS:
        return [f"{number}th"]
    if end in UNITS or end in _PLURAL_SCALES:
        return [number, end]
    if end in _ATTACHED:
        return [number, _ATTACHED[end]]
    return [f"{number}{end}"]


def _digits(text: str) -> str:
    """Digits with their separators as one plain number; what can be read in two ways is returned as it is."""
    if text.isdecimal():
        return text
    sign = "-" if text[0] == "-" else ""
    text = text.lstrip("-").replace(" ", "")
    points, commas = text.count("."), text.count(",")
    if points and commas:
        decimal = max(text.rfind("."), text.rfind(","))
        whole, rest = text[:decimal], text[decimal + 1 :]
        return sign + _plain(re.sub("[.,]", "", whole), rest)
    separator = "." if points else ","
    parts = text.split(separator)
    if len(parts) == 1:
        return sign + text
    grouped = parts[0] not in {"", "0"} and len(parts[0]) <= 3 and all(len(part) == 3 for part in parts[1:])
    if grouped and (commas or len(parts) > 2):
        return sign + "".join(parts)
    if grouped or len(parts) > 2:
        # "1.000" is one or a thousand, "1.2.3" no number at all.
        return sign + text
    return sign + _plain(*parts)


def _plain(whole: str, rest: str) -> str:
    rest = rest.rstrip("0")
    return f"{whole or '0'}.{rest}" if rest else whole or "0"


def _joined(tokens: Sequence[str]) -> list[str]:
    """Number words, scales, units, signs and ranges put together; articles dropped."""
    out: list[str] = []
    at, count = 0, len(tokens)
    currency: str | None = None
    while at < count:
        token = tokens[at]
        value: str | None = None
        if token[0].isdecimal() or (token[0] == "-" and len(token) > 1):
            value, at = token, at + 1
        elif token in _WORDS or token in _ORDINALS or (token in ("a", "an") and _next(tokens, at) in _SCALES):
            value, at = _spelled(tokens, at)
        if value is not None:
            if is_number(value):
                if at < count and tokens[at] in _SHARE_BEGINS:
                    value, at = _with_share(value, tokens, at)
                value, at = _scaled(value, tokens, at)
                at = _append_number(out, value, tokens, at, currency)
            else:
                out.append(value)
            currency = None
            continue
        at += 1
        currency = CURRENCIES.get(token)
        if currency is not None:
            if out and out[-1] == "us":
                out.pop()
        elif token in ("-", "/"):
            if out and at < count and _bounds(out[-1]) and _bounds(tokens[at]):
                out.append("to" if token == "-" or _season(out[-1], tokens[at]) else "/")
        elif token in ARTICLES or token in "%\u00b0":
            continue
        elif token in CODES and at < count and tokens[at][0].isdecimal():
            currency = CODES[token]
        elif token in ("minus", "negative") and at < count and is_number(tokens[at]):
            value, at = _scaled(f"-{tokens[at]}", tokens, at + 1)
            at = _append_number(out, value, tokens, at, None)
        else:
            out.append(token if token != "bce" else "bc")
    return out


def _next(tokens: Sequence[str], at: int) -> str:
    return tokens[at + 1] if at + 1 < len(tokens) else ""


def _bounds(token: str) -> bool:
    return token[0].isdecimal() or token in MONTHS or token in _WORDS


def _season(first: str, second: str) -> bool:
    """1979/80"""
    return len(first) == 4 and first.isdecimal() and len(second) == 2 and second.isdecimal()


def _append_number(out: list[str], value: str, tokens: Sequence[str], at: int, currency: str | None) -> int:
    """Adds a number with the unit that follows or the currency that came before; returns where to go on."""
    value = _ranged(out, value)
    out.append(value)
    if currency is not None:
        out.append(currency)
        return at
    if at >= len(tokens):
        return at
    following = tokens[at]
    if following == "per" and _next(tokens, at) == "cent":
        out.append("percent")
        return at + 2
    if following in CURRENCIES:
        out.append(CURRENCIES[following])
        return at + 1
    if following == "-" and _next(tokens, at) in UNITS and not _next(tokens, at)[0].isdecimal():
        at, following = at + 1, tokens[at + 1]  # a 90-minute film
    if following == "us" and UNITS.get(_next(tokens, at)) == "dollar":
        at, following = at + 1, "dollar"
    unit = UNITS.get(following)
    if following == "in" and out[-2:-1] == ["ft"]:
        unit = "inch"  # 5 ft 10 in
    if unit is None:
        return at
    out.append(unit)
    at += 1
    if unit == "degree" and at < len(tokens) and tokens[at] in ("c", "f"):
        out.append("celsius" if tokens[at] == "c" else "fahrenheit")
        at += 1
    return at


def _ranged(out: list[str], value: str) -> str:
    """Where the number ends a range, says so in one way; returns the number, 80 written out after 1979."""
    if value[0] == "-" and out and is_number(out[-1]):
        out.append("to")
        value = value[1:]
    if len(out) < 2:
        return value
    if out[-1] in _TO and is_number(out[-2]):
        out[-1] = "to"
        if len(out) > 2 and out[-3] == "from":
            del out[-3]
    elif out[-1] == "and" and is_number(out[-2]) and len(out) > 2 and out[-3] == "between":
        out[-1] = "to"
        del out[-3]
    else:
        return value
    first = out[-2]
    if _season(first, value) and (int(first[2:]) < int(value) or (first[2:] == "99" and value == "00")):
        return str(int(first) // 100 * 100 + int(value) + (100 if value == "00" else 0))
    return value


def _scaled(value: str, tokens: Sequence[str], at: int) -> tuple[str, int]:
    """10 million; returns the number and where to go on."""
    factor = 1
    while (
        factor < _LARGEST_SCALE
        and at < len(tokens)
        and (scale := _SCALES.get(tokens[at]) or _PLURAL_SCALES.get(tokens[at]))
    ):
        factor, at = factor * scale, at + 1
    if factor == 1 or value.count(".") > 1 or "," in value:
        return value, at
    return format((Decimal(value) * factor).normalize(), "f"), at


def _with_share(value: str, tokens: Sequence[str], at: int) -> tuple[str, int]:
    """Two and a half, three point one four; returns the number and where to go on."""
    if not value.isdecimal():
        return value, at
    if list(tokens[at : at + 3]) == ["and", "a", "half"]:
        return f"{value}.5", at + 3
    if tokens[at] != "point":
        return value, at
    end = at + 1
    while end < len(tokens) and end - at <= _MOST_DECIMALS and _SMALL.get(tokens[end], 10) < 10:
        end += 1
    digits = "".join(str(_SMALL[token]) for token in tokens[at + 1 : end])
    return (_plain(value, digits), end) if digits else (value, at)


def _spelled(tokens: Sequence[str], at: int) -> tuple[str, int]:
    """The number or ordinal whose words begin here, and where to go on; a pronoun "one" comes back as it is."""
    if tokens[at] == "one" and _is_pronoun(tokens, at):
        return "one", at + 1
    total, group, start = 0, 0, at
    seen = False
    while at < len(tokens):
        token = tokens[at]
        if token in ("-", "and") and seen and _continues(tokens, at, group, total):
            at += 1
            continue
        if token in _ORDINALS and _fits(_ORDINALS[token], group, seen):
            return f"{total + group + _ORDINALS[token]}th", at + 1
        if token in _WORDS and _fits(_WORDS[token], group, seen):
            group += _WORDS[token]
        elif token in _WORDS and at == start + 1 and 10 <= group <= 20 and _WORDS[token] >= 10:
            group = group * 100 + _WORDS[token]  # nineteen forty-five
        elif token in ("a", "an") and not seen:
            group = 1
        elif token == "hundred" and 0 < group < 100:
            group *= 100
        elif token in _SCALES and token != "hundred" and group:
            total, group = total + group * _SCALES[token], 0
        else:
            break
        seen, at = True, at + 1
    return str(total + group), at


def _is_pronoun(tokens: Sequence[str], at: int) -> bool:
    before, after = tokens[at - 1] if at else "", _next(tokens, at)
    if after in _SCALES:
        return False
    return before in _BEFORE_PRONOUN or after in _AFTER_PRONOUN


def _fits(value: int, group: int, seen: bool) -> bool:
    """Whether a word of this value can follow: twenty one, but not one twenty, and not one two."""
    if not seen or group == 0:
        return True
    return group % (10 if value < 10 else 100) == 0


def _continues(tokens: Sequence[str], at: int, group: int, total: int) -> bool:
    """twenty-one, a hundred and five; not "two and three"."""
    following = _next(tokens, at)
    value = _WORDS.get(following) or _ORDINALS.get(following)
    if value is None:
        return False
    if tokens[at] == "-":
        return group % 100 >= 20 and group % 10 == 0 and value < 10
    return (group >= 100 and group % 100 == 0) or (total > 0 and group == 0)
