"""What stands in the cells of a log: texts, lists in all the forms that tools write them in, contexts, evidence."""

from __future__ import annotations

import ast
import io
import itertools
import json
import math
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rat_ray.datasets.checks import is_text
from rat_ray.datasets.fieldnames import NONE
from rat_ray.datasets.logs_fields import LogFields, normal
from rat_ray.datasets.reading import Place, RowError, clean_id, shown
from rat_ray.errors import InputError

BLANK: Final = "blank entries among contexts (dropped)"
ONE_TEXT: Final = "rows whose contexts are one text (several? then write a JSON list, or set dataset.separator)"
_TEXTS: Final = ("text", "page_content", "content", "chunk", "chunk_text", "passage", "paragraph_text", "contents")
_TEXTS_TOO: Final = ("document.content", "body", "snippet", "document")
_IDS: Final = ("passage_id", "chunk_id", "node_id", "id_", "id", "_id", "pid", "document.id")
_DOCUMENT_IDS: Final = ("doc_id", "document_id")
_TITLES: Final = ("title", "document_title", "source", "file_name", "filename", "doc_uri", "url")
_METADATA: Final = ("metadata", "meta", "extra_info", "document.metadata")
# Objects that hold the passage in one of their members: LangChain's dumps, LlamaIndex's NodeWithScore.
_WRAPPED: Final = ("kwargs", "node", "document", "doc", "chunk")
# What can only be meant as a list: ["…, ['…, [{…, [[…, [Document(…
_LIST: Final = re.compile(r"\s*\[\s*(?:[\"'{\[\]]|[A-Za-z_][\w.]*\()")
_DIGITS: Final = 19  # of a whole number that can be meant
_ADDRESS: Final = re.compile(r"(?:[a-z][a-z0-9+.-]*://\S+|\S+\.(?:pdf|md|html?|docx?|txt|csv|json|pptx?|xlsx?))", re.I)


class Context(NamedTuple):
    """One passage that was given to the generator. passage_id: None where the log has none."""

    passage_id: str | None
    title: str | None
    text: str


def missing(value: object) -> bool:
    """Whether it is null; NaN is what pandas writes for a missing text."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def text_of(value: object, place: Place, what: str) -> str | None:
    """A text, or None for null. Numbers are written out; of a message ({"role": …, "content": …}) it is the content.

    Raises RowError for anything else.
    """
    if isinstance(value, str):
        return value
    if missing(value):
        return None
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, dict):
        inner = _unwrapped(value)
        for name in ("content", "text"):
            if isinstance(inner.get(name), str | list):
                return text_of(inner[name], place, what)
    if isinstance(value, list) and value and all(isinstance(part, dict) and "text" in part for part in value):
        return "".join(text_of(part["text"], place, what) or "" for part in value)
    hint = f"; of a conversation, put the last {what} into a column of its own" if isinstance(value, list) else ""
    raise RowError(place, f"the {what} must be text, found {value!r:.80}{hint}")


def whole_number(value: object) -> int | None:
    """A count of tokens, or None for what is none."""
    if isinstance(value, str):
        digits = value.strip()
        value = int(digits) if digits.isdecimal() and len(digits) <= _DIGITS else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return value if fits and isinstance(value, int) else None


def listed(value: str, place: Place, what: str, separator: str = "") -> list[object]:
    """The list that a text is: JSON, as Python prints one, or parts between separators; else the text alone.

    Raises RowError for what begins as a list and is none: cut short, or objects printed by Python.
    """
    if value.lstrip()[:1] == "[":
        found = _parsed(value)
        if isinstance(found, list):
            if _LIST.match(value) and _without_commas(value):
                raise RowError(
                    place, f"the {what} are a list without commas, as numpy prints it; write JSON: {value!r:.60}"
                )
            return found
        if _LIST.match(value):
            raise RowError(
                place,
                f"the {what} begin as a list and are none (cut short, or objects printed by Python); write a list as "
                f"JSON: {value!r:.80}",
            )
    return list(value.split(separator)) if separator else [value]


class ContextReader:
    """Reads the contexts of one row after the other. notes: what was dropped, counted."""

    def __init__(self, names: LogFields, separator: str, notes: Counter[str]) -> None:
        self._separator = separator
        self._notes = notes
        self._guessed = not names.contexts
        self._texts = _names(names.text, (*_TEXTS, *_TEXTS_TOO))
        self._ids = _names(names.passage_id, _IDS)
        self._document_ids = _names(names.passage_id, _DOCUMENT_IDS)
        self._titles = _names(names.title, _TITLES)
        # Names of members that the settings give and no context has had so far.
        chosen = {"passage_id": names.passage_id, "title": names.title}
        self._sought = {role: name for role, name in chosen.items() if name not in ("", NONE)}

    def read(self, value: object, ids: object, place: Place) -> list[Context] | None:
        """None for null and a blank text (unknown); [] says that nothing was retrieved. ids: a list beside, one for
        each context.

        Raises RowError for what is no list of texts or of objects with a text.
        """
        if missing(value) or (isinstance(value, str) and not value.strip()):
            return None
        items = listed(value, place, "contexts", self._separator) if isinstance(value, str) else value
        if isinstance(items, Mapping):
            items = [items]
        if not isinstance(items, list):
            raise RowError(place, f"the contexts must be a list of texts or of objects, found {value!r:.80}")
        if len(items) == 1 and items[0] is value:
            self._notes[ONE_TEXT] += 1
        contexts = [self._context(item, place) for item in items]
        named = self._named(contexts, ids, place)
        kept = [context for context in named if context.text.strip()]
        self._notes[BLANK] += len(contexts) - len(kept)
        if kept and self._guessed and all(_ADDRESS.fullmatch(context.text.strip()) for context in kept):
            raise RowError(
                place,
                f"the contexts look like names or addresses of documents, not like their texts: {kept[0].text!r:.80}; "
                "set dataset.fields.contexts to the column that holds the texts, or to - where there is none",
            )
        return kept

    def finish(self, path: Path) -> None:
        """After a file's last row. Raises InputError for a member named in the settings that no context has had."""
        for role, name in self._sought.items():
            raise InputError(f"{shown(path)}: no context has a member {name!r}; set dataset.fields.{role}")

    def _named(self, contexts: list[Context], ids: object, place: Place) -> list[Context]:
        if missing(ids):
            return contexts
        names = listed(ids, place, "context ids", self._separator) if isinstance(ids, str) else ids
        if not isinstance(names, list) or len(names) != len(contexts):
            raise RowError(
                place,
                f"{len(contexts)} contexts and, in the column of their ids, {names!r:.80}: give one id for each, or "
                "set dataset.fields.context_ids=-",
            )
        made = zip(contexts, names, strict=True)
        return [context._replace(passage_id=clean_id(name, place, "the id of a context")) for context, name in made]

    def _context(self, item: object, place: Place) -> Context:
        if isinstance(item, str):
            return Context(None, None, item)
        if missing(item):
            return Context(None, None, "")
        if not isinstance(item, Mapping):
            raise RowError(place, f"a context must be a text or an object with a text, found {item!r:.80}")
        inner = {normal(str(name)): value for name, value in _unwrapped(item).items()}
        metadata = next((inner[name] for name in _METADATA if isinstance(inner.get(name), Mapping)), {})
        about = {normal(str(name)): value for name, value in metadata.items()} if isinstance(metadata, Mapping) else {}
        text = _first(self._texts, inner)
        if isinstance(text, Mapping):
            text = text.get("text")
        if not isinstance(text, str):
            raise RowError(
                place,
                f"a context is an object without a text (text, page_content, content, …), its members: "
                f"{', '.join(map(str, item))}; set dataset.fields.text",
            )
        for role in [role for role, name in self._sought.items() if normal(name) in inner or normal(name) in about]:
            del self._sought[role]
        name = _first(self._ids, inner, about)
        name = _first(self._document_ids, inner, about) if name is None else name
        title = _first(self._titles, inner, about)
        given = isinstance(name, str | int | float) and str(name).strip() and not isinstance(name, bool)
        return Context(
            clean_id(name, place, "the id of a context") if given else None,
            title.strip() or None if isinstance(title, str) else None,
            text,
        )


def evidence_of(value: object, meaning: str, place: Place) -> list[list[str]] | None:
    """Alternative sets of passage ids, or None for null. meaning: whether "all" of a flat list are needed, or "any".

    Raises RowError for what is no list of ids.
    """
    if missing(value) or (isinstance(value, str) and not value.strip()):
        return None
    items = listed(value, place, "evidence") if isinstance(value, str) else value
    if not isinstance(items, list):
        items = [items]
    if not any(isinstance(item, list) for item in items):
        items = [[item] for item in items] if meaning == "any" else [items] if items else []
    sets: list[list[str]] = []
    for item in items:
        if not isinstance(item, list) or not item:
            raise RowError(
                place,
                f"evidence must be a list of passage ids, or of sets of them that are not empty, found {item!r:.80}; "
                "set dataset.fields.evidence to another column, or to - to ignore it",
            )
        names = list(dict.fromkeys(clean_id(name, place, "a passage id in the evidence") for name in item))
        if names not in sets:
            sets.append(names)
    return sets


def _unwrapped(item: Mapping[str, object]) -> Mapping[str, object]:
    for name in _WRAPPED:
        inner = item.get(name)
        if isinstance(inner, Mapping):
            return _unwrapped(inner)
    return item


def _first(names: Iterable[str], *members: Mapping[str, object]) -> object:
    """The first of the names that is there and not null, in the first of the objects that has one."""
    for each in members:
        for name in names:
            if not missing(each.get(name)):
                return each[name]
    return None


def _names(chosen: str, usual: Sequence[str]) -> tuple[str, ...]:
    if chosen == NONE:
        return ()
    return (normal(chosen),) if chosen else tuple(usual)


def _parsed(value: str) -> object:
    """What JSON or a literal of Python says, or None for what is neither."""
    found: object
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    return found if is_text(found) else None


def _without_commas(value: str) -> bool:
    """Whether two texts stand side by side: Python would join them, numpy means two."""
    if re.search(r"[\"'](?:\s)+[\"']", value) is None:
        return False
    try:
        kinds = [token.type for token in _tokens(value)]
    except (tokenize.TokenError, SyntaxError):
        return False
    return any(before == after == tokenize.STRING for before, after in itertools.pairwise(kinds))


def _tokens(value: str) -> Iterator[tokenize.TokenInfo]:
    ignored = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT)
    return (t for t in tokenize.generate_tokens(io.StringIO(value).readline) if t.type not in ignored)
