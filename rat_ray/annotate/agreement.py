"""Does a text agree with an accepted answer? Which part of the rule says so, and how near the two are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from rat_ray.annotate.folding import folded, listed, padded, without_articles, word_list
from rat_ray.annotate.golds import Form, Gold, bare_signs
from rat_ray.annotate.numbers import has_digit, has_number_word, is_number, number_words
from rat_ray.annotate.rules import Label
from rat_ray.annotate.yes_no import yes_no

_CITATION: Final = re.compile(r"\[\d+(?:\s*[,;-]\s*\d+)*\]")
_NEGATED: Final = re.compile(
    r" (?:not|never|neither|nor|cannot|except|excluding|unlike|instead of|rather than|other than|nicht|kein|keine|pas"
    r"|(?:is|was|are|were|does|did|do|ca|could|would|has|had|have|wo|should|ai)nt)"
    r"(?: (?:in|at|on|by|from|of|to|for|with|as|be|been|have|called|named|de|von)){0,3} $"
)
_BACK: Final = 60  # characters before a find in which its negation is looked for
_NEGATIONS: Final = frozenset(listed("not never no nor neither without non isnt wasnt cannot"))
_NONE: Final = Label(0, "none", 0.0)
_FEW: Final = 8  # words that are looked up one by one
AGREES_FROM: Final = 0.8


class Said:
    """An answer, or another text in which accepted answers are looked for; its forms are made when they are needed."""

    def __init__(self, text: str) -> None:
        self.raw = text
        self.level = _CITATION.sub(" ", folded(text)) if "[" in text else folded(text)
        self.all_words = word_list(self.level)
        self.words = without_articles(self.all_words)
        self.text = padded(self.words)

    @cached_property
    def plain(self) -> Form:
        """The words without articles."""
        return Form(self.text, tuple(self.words))

    @cached_property
    def with_articles(self) -> str:
        """The words with articles, padded."""
        return padded(self.all_words)

    @cached_property
    def numeric(self) -> Form:
        """The words with numbers and dates in one spelling; the plain ones where there are none."""
        if not has_digit(self.level) and not has_number_word(self.all_words):
            return self.plain
        words = tuple(number_words(self.level))
        return Form(padded(words), words)

    @cached_property
    def number_places(self) -> tuple[int, ...]:
        """Where in the words of `numeric` the numbers are."""
        return tuple(at for at, word in enumerate(self.numeric.words) if is_number(word))


def agreement(said: Said, gold: Gold, at_least: float = AGREES_FROM) -> Label:
    """Whether a text agrees with an accepted answer, by which part of the rule, and the token F1 of the two.

    Rules that say 1: exact, contained, number, date, list (all parts are there), initials, f1 (the words of one are all
    in the other).
    Rules that say 0: negated (it is there, right after "not"), none.
    """
    if gold.yes_no is not None:
        return Label(int(yes_no(said.raw) == gold.yes_no), "yes_no")
    if gold.signs:
        return Label(1, "exact", 1.0) if same_signs(said, gold) else _NONE
    if gold.with_articles:
        return _with_articles(said, gold)
    negated = False
    for form in gold.plain:
        if form.text in said.text:
            found = _found(form, said.text, said.words, None)
            if found is not None:
                return found
            negated = True
    if gold.numeric:
        numeric = said.numeric
        for form in gold.numeric:
            if form.text in numeric.text:
                found = _found(form, numeric.text, numeric.words, gold.rule)
                if found is not None:
                    return found
                negated = True
    return _less_plainly(said, gold, negated, at_least)


def _found(form: Form, text: str, words: Sequence[str], rule: str | None) -> Label | None:
    """What a spelling says that stands in the text; None where it is negated."""
    if form.text == text:
        return Label(1, rule or "exact", 1.0)
    return Label(1, rule or "contained", token_f1(words, form.words)) if find(form.text, text) == 1 else None


def _with_articles(said: Said, gold: Gold) -> Label:
    if gold.with_articles == said.with_articles:
        return Label(1, "exact", 1.0)
    if gold.only_articles:
        return Label(int(said.with_articles.endswith(f" answer is{gold.with_articles}")), "exact", None)
    found = find(gold.with_articles, said.with_articles)
    return Label(int(found == 1), {1: "contained", 0: "negated", None: "none"}[found])


def same_signs(said: Said, gold: Gold) -> bool:
    """Whether the answer is the sign that is accepted, or ends with "the answer is" and it."""
    bare = bare_signs(said.level)
    return bare == gold.signs or bare.endswith(f" answer is {gold.signs}")


def _less_plainly(said: Said, gold: Gold, negated: bool, at_least: float) -> Label:
    """What is left where no spelling was found as it is."""
    if gold.bare is not None and gold.bare == said.numeric.text:
        return Label(1, "number", 1.0)
    if negated:
        return Label(0, "negated", 0.0)
    if gold.items and all(find(item, said.text) == 1 for item in gold.items):
        return Label(1, "list", token_f1(said.words, gold.plain[0].words))
    for form in gold.plain:
        if _but_for_blanks(said, form):
            return Label(1, "exact", 1.0)
        if _by_initials(said.words, form.words):
            return Label(1, "initials", token_f1(said.words, form.words))
        if any(find(text, said.text) == 1 for text in _other_number(form.text)):
            return Label(1, "contained", token_f1(said.words, form.words))
    if gold.years is not None and _in_order(gold.years, said.numeric.text):
        return Label(1, "date", token_f1(said.numeric.words, gold.numeric[0].words))
    best = 0.0
    words: Sequence[str] = said.numeric.words if gold.numeric else said.words
    for form in gold.numeric or gold.plain:
        score = token_f1(words, form.words)
        if score >= at_least and gold.rule is None and _one_within(words, form.words):
            return Label(1, "f1", score)
        best = max(best, score)
    return Label(0, "none", best) if best else _NONE


def _but_for_blanks(said: Said, form: Form) -> bool:
    """Ice cream, icecream: where the whole answer is as long without its blanks."""
    ours, theirs = len(said.words), len(form.words)
    return len(said.text) - ours == len(form.text) - theirs and "".join(said.words) == "".join(form.words)


def _by_initials(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """The same name, in one of them with initials: B. R. Ambedkar, Hugh S. Johnson."""
    if len(theirs) < 2 or len(ours) < 2 or ours[-1] != theirs[-1] or len(ours[-1]) < 3:
        return False
    first, second = ours[:-1], theirs[:-1]
    if len(first) == len(second):
        pairs = list(zip(first, second, strict=True))
        return all(a == b or (a[0] == b[0] and 1 in (len(a), len(b))) for a, b in pairs)
    few, many = sorted((first, second), key=len)  # initials stand together: "br" for "bhimrao ramji"
    return len(few) == 1 and len(few[0]) == len(many) and few[0] == "".join(word[0] for word in many)


def _in_order(years: tuple[str, str], text: str) -> bool:
    """Began in 1939, ended in 1945."""
    first, last = (f" {year} " for year in years)
    at = text.find(first)
    return at >= 0 and find(first, text) == 1 and find(last, text[at:]) == 1


def find(form: str, text: str) -> int | None:
    """1 where the padded words stand in the padded text unless right after a negation everywhere, then 0; else None."""
    if form == "  " or form not in text:
        return None
    at = text.find(form)
    while at >= 0:
        if _NEGATED.search(text[max(0, at - _BACK) : at + 1]) is None:
            return 1
        at = text.find(form, at + 1)
    return 0


def token_f1(said: Sequence[str], gold: Sequence[str]) -> float:
    """The harmonic mean of the shares of words that two texts have in common, as in SQuAD."""
    if not said or not gold:
        return float(list(said) == list(gold))
    if len(gold) > len(said):
        said, gold = gold, said
    if len(gold) > _FEW:
        common = (Counter(said) & Counter(gold)).total()
    else:
        common = 0
        for at, word in enumerate(gold):
            # The second "new" of the one asks for a second in the other.
            if word in said and (word not in gold[:at] or said.count(word) > gold[:at].count(word)):
                common += 1
    return 2 * common / (len(said) + len(gold))


def _one_within(said: Sequence[str], gold: Sequence[str]) -> bool:
    """Whether one's words are all among the other's, with the same numbers and negations: no word was exchanged."""
    ours, theirs = set(said), set(gold)
    differing = ours ^ theirs
    if any(word[0].isdecimal() or word in _NEGATIONS for word in differing):
        return False
    return ours <= theirs or theirs <= ours


def _other_number(text: str) -> list[str]:
    """Padded words with the last one in the plural where it is in the singular, and the other way round."""
    words, last = text[:-1], text[-5:-1]
    if not last.isalpha():
        return []  # a short word, where an s is rarely a plural's, or a number
    if last.endswith("ies"):
        return [f"{words[:-3]}y ", f"{words[:-1]} "]
    if last.endswith("s"):
        return [] if last.endswith("ss") else [f"{words[:-1]} "]
    return [f"{words[:-1]}ies ", f"{words}s "] if last.endswith("y") else [f"{words}s "]
