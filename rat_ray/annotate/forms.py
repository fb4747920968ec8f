"""The form language of `docs/abstention.md`, read into one automaton over words.

The automaton is made deterministic as texts ask for it, so that a statement costs one look-up per word, however many
forms there are and however many `*` they hold. Nothing is ever tried twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rat_ray.annotate.statements import COMMA, QUESTION, word_tokens
from rat_ray.errors import InputError, did_you_mean

KINDS = ("refuse", "then", "aside", "more", "lead", "tail", "join", "turn")
ASIDE, REFUSAL = "aside", "refusal"
_ANY, _ONE, _NUMBER, _OTHER = "*", "*1", "#", ""
_TOKEN = re.compile(r"@\w+|\*(?:\d+|(?:-\w+)+)?|[()\[\]|#?]|[^\s()\[\]|*#?@]+|@")
_PREFIX = re.compile(r"(\w+)\s*:\s*(.*)")
_DEFINITION = re.compile(r"@(\w+)\s*=\s*(.*)")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_MOST_STATES = 20_000
_MOST_WORDS = 20


class Line(NamedTuple):
    """One form of a file. origin: the name of the file. kind: one of KINDS but `turn`."""

    origin: str
    number: int
    kind: str
    pattern: _Pattern


class _Word(NamedTuple):
    word: str
    without: frozenset[str] = frozenset()


class _Choice(NamedTuple):
    choices: tuple[tuple[_Pattern, ...], ...]


_Pattern = _Word | _Choice


class FormFile(NamedTuple):
    """A form file as read. name: for labels. turn: words that `*` does not stand for (`,it`: after a comma)."""

    name: str
    lines: list[Line]
    turn: frozenset[str]


def read_forms(name: str, text: str, place: str) -> FormFile:
    """Read one form file. place: how messages name it. Raises InputError for a line that cannot be read."""
    definitions: dict[str, tuple[_Pattern, ...]] = {}
    lines: list[Line] = []
    turn: set[str] = set()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        where = f"{place}, line {number}"
        if match := _DEFINITION.fullmatch(line):
            definitions[match.group(1)] = _Parser(match.group(2), definitions, where).pattern()
            continue
        kind, form = _kind_and_form(line, where)
        if kind == "turn":
            turn.update(_turn_words(form, where))
            continue
        pattern = _Parser(form, definitions, where).pattern()
        if kind in {"refuse", "then", "aside", "more"} and _can_be_empty(pattern):
            raise InputError(f"{where}: {form!r} matches a statement of no words; say at least one word in it")
        lines.append(Line(name, number, kind, _Choice((pattern,))))
    return FormFile(name, lines, frozenset(turn))


def _kind_and_form(line: str, where: str) -> tuple[str, str]:
    match = _PREFIX.fullmatch(line)
    if match is None:
        return "refuse", line
    if match.group(1) not in KINDS:
        raise InputError(f"{where}: {match.group(1)!r} is no kind of form{did_you_mean(match.group(1), KINDS)}")
    return match.group(1), match.group(2)


def _turn_words(form: str, where: str) -> Iterator[str]:
    for entry in form.split():
        found = word_tokens(entry)
        if len(found) != 1:
            raise InputError(f"{where}: turn: takes single words, `,` before one for after a comma; not {entry!r}")
        yield COMMA + found[0] if entry.startswith(",") else found[0]


def _can_be_empty(pattern: tuple[_Pattern, ...]) -> bool:
    return all(
        part.word in {_ANY, _ONE} if isinstance(part, _Word) else any(map(_can_be_empty, part.choices))
        for part in pattern
    )


class _Parser:
    """Recursive descent over one form: words, `(a|b)`, `[a|b]`, `*`, `*4`, `*-word`, `#`, `?`, `@name`."""

    def __init__(self, form: str, definitions: dict[str, tuple[_Pattern, ...]], where: str) -> None:
        self._tokens = _TOKEN.findall(form)
        self._at = 0
        self._definitions = definitions
        self._form = form
        self._where = where

    def pattern(self) -> tuple[_Pattern, ...]:
        pattern = self._choices()
        if self._at < len(self._tokens):
            raise self._error(f"{self._tokens[self._at]!r} closes nothing")
        return (pattern,)

    def _error(self, why: str) -> InputError:
        return InputError(f"{self._where}: cannot read {self._form!r}: {why}")

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _choices(self) -> _Choice:
        choices = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            choices.append(self._sequence())
        return _Choice(tuple(choices))

    def _sequence(self) -> tuple[_Pattern, ...]:
        parts: list[_Pattern] = []
        while (token := self._peek()) is not None and token not in {"|", ")", "]"}:
            self._at += 1
            parts.extend(self._parts(token))
        return tuple(parts)

    def _parts(self, token: str) -> Sequence[_Pattern]:
        if token in {"(", "["}:
            inner = self._choices()
            if self._peek() != {"(": ")", "[": "]"}[token]:
                raise self._error(f"{token!r} is not closed")
            self._at += 1
            return [inner] if token == "(" else [_Choice((*inner.choices, ()))]
        if token.startswith("@"):
            if token[1:] not in self._definitions:
                raise self._error(f"{token} is not defined above{did_you_mean(token[1:], self._definitions)}")
            return self._definitions[token[1:]]
        if token.startswith(f"{_ANY}-"):
            return [_Word(_ANY, frozenset(word_tokens(token)))]
        if token.startswith(_ANY) and len(token) > 1:
            if not 0 < int(token[1:]) <= _MOST_WORDS:
                raise self._error(f"{token} must be *1 to *{_MOST_WORDS}")
            return [_Choice(((_Word(_ONE),), ()))] * int(token[1:])
        if token in {_ANY, _NUMBER, QUESTION}:
            return [_Word(token)]
        return _spellings(token)


def _spellings(word: str) -> Sequence[_Pattern]:
    """A word as `word_tokens` cuts it; with an umlaut also as `ae`, `oe`, `ue`."""
    usual = tuple(map(_Word, word_tokens(word)))
    lowered = word.casefold()
    if lowered == (other := lowered.translate(_UMLAUTS)):
        return usual
    return [_Choice((usual, tuple(map(_Word, word_tokens(other)))))]


class _State:
    """A state of the deterministic automaton. accept: ASIDE, REFUSAL or None. origin: a form of that file ends here."""

    __slots__ = ("accept", "next", "nodes", "origin")

    def __init__(self, nodes: frozenset[int], accept: str | None, origin: int | None) -> None:
        self.nodes = nodes
        self.accept = accept
        self.origin = origin
        self.next: dict[str, _State] = {}


class Automaton:
    """Reads a statement word by word: any leads, then an aside or a refusal with its tails, then perhaps a
    joining word and the same again. A statement that holds a refusal is one; all of it must match.
    """

    def __init__(self, files: Sequence[FormFile]) -> None:
        self.names = [file.name for file in files]
        self._edges: list[dict[str, list[int]]] = []
        self._free: list[list[int]] = []
        self._any: dict[int, frozenset[str]] = {}
        self._one: dict[int, list[tuple[int, frozenset[str]]]] = {}
        self._origins: dict[int, int] = {}
        self._more_words: frozenset[str] = frozenset()
        start, aside, after, again, refused, either, later = (self._node() for _ in range(7))
        for source, target in [(start, either), (again, either), (again, later), (after, start), (after, later)]:
            self._free[source].append(target)
        # Between which nodes forms of a kind lead. start: nothing refused so far; after: something was said; again:
        # something refused.
        arcs = {
            "refuse": [(either, refused)],
            "then": [(later, refused)],
            "aside": [(start, aside), (again, refused)],
            "more": [(after, aside), (again, refused)],
            "lead": [(start, start), (again, again)],
            "tail": [(refused, refused)],
            "join": [(start, start), (again, again), (aside, after), (refused, again), (after, after)],
        }
        self._accepts = {start: ASIDE, aside: ASIDE, after: ASIDE, again: REFUSAL, refused: REFUSAL}
        every_turn = frozenset().union(*(file.turn for file in files))
        for index, file in enumerate(files):
            turn = file.turn or every_turn
            for line in file.lines:
                for source, target in arcs[line.kind]:
                    end = self._node()
                    self._build(line.pattern, source, end, turn)
                    self._free[end].append(target)
                    if line.kind in {"refuse", "then"}:
                        self._origins[end] = index
        if any(word.startswith(COMMA) for word in every_turn):
            self._edge(aside, COMMA, after)
            self._edge(refused, COMMA, again)
        self.comma_words = frozenset(word[1:] for word in every_turn if word.startswith(COMMA))
        self._words = (
            frozenset(word for edges in self._edges for word in edges)
            | every_turn
            | self._more_words
            | {COMMA, QUESTION}
        )
        self._states: dict[frozenset[int], _State] = {}
        self.start = self._state([start])
        self.after = self._state([after])

    def step(self, state: _State, token: str) -> _State:
        """The state after one more word; one without nodes when no form goes on like this."""
        if token not in self._words:
            token = _NUMBER if token.isdigit() else _OTHER
        following = state.next.get(token)
        if following is None:
            following = state.next[token] = self._state(self._targets(state, token))
        return following

    def read(self, tokens: Iterable[str], first: bool = True) -> tuple[str | None, str | None]:
        """ASIDE or REFUSAL, or None when the statement is neither; and the file of the form that refuses.

        first: nothing was said before, so that no `then:` form can begin the statement.
        """
        state, origin = self.start if first else self.after, None
        for token in tokens:
            state = self.step(state, token)
            if not state.nodes:
                return None, None
            if state.origin is not None:
                origin = state.origin
        if state.accept != REFUSAL or origin is None:
            return state.accept, None
        return REFUSAL, self.names[origin]

    def _node(self) -> int:
        self._edges.append({})
        self._free.append([])
        return len(self._edges) - 1

    def _edge(self, source: int, word: str, target: int) -> None:
        self._edges[source].setdefault(word, []).append(target)

    def _build(self, pattern: _Pattern, source: int, end: int, turn: frozenset[str]) -> None:
        """Add the pattern between two nodes."""
        if isinstance(pattern, _Choice):
            for choice in pattern.choices:
                at = source
                for part in choice[:-1]:
                    following = self._node()
                    self._build(part, at, following, turn)
                    at = following
                if choice:
                    self._build(choice[-1], at, end, turn)
                else:
                    self._free[source].append(end)
        elif pattern.word == _ANY:
            loop = self._node()
            self._any[loop] = turn | pattern.without
            self._more_words |= pattern.without
            self._free[source].append(loop)
            self._free[loop].append(end)
        elif pattern.word == _ONE:
            self._one.setdefault(source, []).append((end, turn))
        else:
            self._edge(source, pattern.word, end)

    def _targets(self, state: _State, token: str) -> Iterator[int]:
        for node in state.nodes:
            edges = self._edges[node]
            yield from edges.get(token, ())
            if token.isdigit():
                yield from edges.get(_NUMBER, ())
            if token not in {COMMA, QUESTION}:
                yield from (end for end, turn in self._one.get(node, ()) if token not in turn)
            turn = self._any.get(node)
            if turn is None:
                if token == QUESTION or (token == COMMA and not self._begins_any(node)):
                    yield node
            elif token not in turn and token != COMMA:
                yield node

    def _begins_any(self, node: int) -> bool:
        """Whether any word may follow here, as it must not after a comma that turns."""
        return node in self._one or any(following in self._any for following in self._free[node])

    def _state(self, nodes: Iterable[int]) -> _State:
        closed = self._closed(nodes)
        known = self._states.get(closed)
        if known is not None:
            return known
        if len(self._states) >= _MOST_STATES:
            self._forget()
        accepts = {self._accepts[node] for node in closed if node in self._accepts}
        accept = REFUSAL if REFUSAL in accepts else ASIDE if accepts else None
        origin = min((self._origins[node] for node in closed if node in self._origins), default=None)
        state = self._states[closed] = _State(closed, accept, origin)
        return state

    def _forget(self) -> None:
        """Texts that lead to ever new states must not fill the memory."""
        for state in self._states.values():
            state.next.clear()
        self._states = {self.start.nodes: self.start, self.after.nodes: self.after}

    def _closed(self, nodes: Iterable[int]) -> frozenset[int]:
        seen: set[int] = set()
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting.extend(self._free[node])
        return frozenset(seen)
