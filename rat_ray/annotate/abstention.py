"""a@phrase: is the answer a refusal to answer? `docs/abstention.md` has the rule and the form language."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import NamedTuple

from rat_ray.annotate.forms import REFUSAL, Automaton, FormFile, read_forms
from rat_ray.annotate.rules import MISSING, Label
from rat_ray.annotate.statements import plain_head, says_nothing, statements, unwrapped
from rat_ray.errors import InputError, did_you_mean

LANGUAGES = ("en", "de", "fr", "it", "es")
_ANSWER = Label(0, "answer")
_PHRASE = Label(1, "phrase")
_EMPTY = Label(1, "empty")
_SECTION = "#! "
# Whole words only: what follows must not belong to the word, seen or unseen.
_FIRST_WORDS = re.compile(r"([A-Za-z]{2,})(?: ([A-Za-z]{2,}))?(?=[ ,;!?]|\.?(?:\s|\Z))")


def load_refusals(languages: Sequence[str] = LANGUAGES, files: Sequence[str] = ()) -> str:
    """The joined text of the refusal forms of these languages, then of the user's own files.

    Raises InputError for an unknown language, a file that cannot be read, and a form that cannot: file and line.
    """
    sections = [(language, _language(language), f"refusals/{language}.txt") for language in languages]
    sections += [(Path(file).stem, _own(file), file) for file in files]
    named = [name for name, _, _ in sections]
    doubled = sorted({name for name in named if named.count(name) > 1})
    if doubled:
        raise InputError(f"labels.refusals: {doubled[0]!r} names two sets of forms; a label could not tell which fired")
    for name, text, place in sections:
        _read(name, text, place)
    return "".join(f"{_SECTION}{name}\n{text.rstrip()}\n" for name, text, _ in sections)


def refusals_digest(text: str | None = None) -> str:
    """What identifies the forms: they decide labels, so they belong in the key of whoever uses them.

    text: of `load_refusals`; None: all languages, no files.
    """
    return hashlib.sha256((_all_languages() if text is None else text).encode()).hexdigest()[:16]


class _Phrase(NamedTuple):
    """The prompt's own phrase: as it is written, as statements, and its first word."""

    raw: str
    said: list[list[str]]
    first: str | None


class Refusals:
    """The compiled forms; `Refusals.of` makes them, once per text and process."""

    def __init__(self, files: Sequence[FormFile]) -> None:
        self._automaton = Automaton(files)
        self._phrases: dict[str, _Phrase] = {}

    @staticmethod
    def of(text: str) -> Refusals:
        """From the text of `load_refusals`; forms before any section are called `own`. Raises InputError as it does."""
        return _compiled(text)

    def label(self, answer: str, phrase: str) -> Label:
        """As `abstention`, of an answer that is there."""
        own = self._phrases.get(phrase) or self._known(phrase)
        if own.raw and answer.strip() == own.raw:
            return _PHRASE
        if self._begins_no_refusal(answer, own):
            return _ANSWER
        head = plain_head(answer, self._automaton.comma_words)
        if head is not None and (head[1] or self._answers(head[0], own.said)):
            return self._label_of([head[0]], own.said)
        text = unwrapped(answer)
        if says_nothing(text):
            return _EMPTY
        said = statements(text, self._automaton.comma_words)
        return self._label_of(said, own.said)

    def _known(self, phrase: str) -> _Phrase:
        said = statements(phrase, self._automaton.comma_words)
        own = self._phrases[phrase] = _Phrase(phrase.strip(), said, said[0][0] if said else None)
        return own

    def _begins_no_refusal(self, answer: str, own: _Phrase) -> bool:
        """True for most answers: their first two words begin no form and not the phrase. False says nothing."""
        match = _FIRST_WORDS.match(answer)
        if match is None:
            return False
        state = self._automaton.start
        for word in match.groups():
            if word is None or word.lower() == own.first:
                return False
            state = self._automaton.step(state, word.lower())
            if not state.nodes:
                return True
        return False

    def _answers(self, first: list[str], own: Sequence[list[str]]) -> bool:
        """Whether a first statement makes it an answer, whatever follows."""
        return first not in own and self._automaton.read(first)[0] is None and not self._holds_only_phrase(first, own)

    def _label_of(self, said: Sequence[list[str]], own: Sequence[list[str]]) -> Label:
        """Every statement must refuse or change nothing, and one must refuse."""
        found: Label | None = None
        at = 0
        while at < len(said):
            if own and said[at : at + len(own)] == own:
                found, at = _PHRASE, at + len(own)
                continue
            if self._holds_only_phrase(said[at], own):
                found = _PHRASE
            else:
                kind, origin = self._automaton.read(said[at], first=at == 0)
                if kind is None:
                    return _ANSWER
                if kind == REFUSAL and found is None:
                    found = Label(1, f"form:{origin}")
            at += 1
        return found or _ANSWER

    def _holds_only_phrase(self, statement: list[str], phrase: Sequence[list[str]]) -> bool:
        """`Sorry, PHRASE`, `the answer is PHRASE` and `PHRASE PHRASE`."""
        if len(phrase) != 1:
            return False
        own = phrase[0]
        before = len(statement)
        while before >= len(own) and statement[before - len(own) : before] == own:
            before -= len(own)
        if before == len(statement):
            return False
        return before == 0 or self._automaton.read(statement[:before])[0] is not None


def abstention(answer: str | None, phrase: str, refusals: Refusals) -> Label:
    """1 when all that the answer does is refuse: the prompt's own phrase, a known refusal, or nothing at all.

    An empty answer declines to answer, so it is 1. None (the row failed) is missing. A citation, an apology, a greeting
    or an explanation changes nothing; a refusal beside an answer is 0. rule: `phrase`, `form:en` (of which file the
    form is), `empty`, and `answer` for 0.
    """
    return MISSING if answer is None else refusals.label(answer, phrase)


def abstention_label(answer: str | None, phrase: str, refusals: Refusals | None = None) -> int | None:
    """The label of `abstention` alone. refusals None: all languages."""
    return abstention(answer, phrase, refusals or Refusals.of(_all_languages())).label


def _own(file: str) -> str:
    try:
        text = Path(file).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"labels.refusals: cannot read {file}: {error}; give a text file in UTF-8") from error
    return text.replace("#!", "# !")  # "#! name" begins a section


@cache
def _language(language: str) -> str:
    if language not in LANGUAGES:
        raise InputError(f"refusals: no forms for the language {language!r}{did_you_mean(language, LANGUAGES)}")
    return (package_files("rat_ray.annotate") / "refusals" / f"{language}.txt").read_text("utf-8")


@cache
def _all_languages() -> str:
    return load_refusals()


@lru_cache(maxsize=64)
def _read(name: str, text: str, place: str) -> FormFile:
    return read_forms(name, text, place)


@lru_cache(maxsize=8)
def _compiled(text: str) -> Refusals:
    sections = re.split(rf"^{_SECTION}(.*)\n", text, flags=re.MULTILINE)
    named = [("own", sections[0]), *zip(sections[1::2], sections[2::2], strict=True)]
    return Refusals([_read(name, forms, f"refusals {name!r}") for name, forms in named if forms.strip()])
