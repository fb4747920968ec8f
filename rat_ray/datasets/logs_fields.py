"""Which column of a log holds what: names that RAG tools write, settable, and an error where several might be meant.

Names are compared without case, blanks and hyphens, and `actualOutput` is `actual_output`. A column that holds an
object, as `inputs`, `outputs` and `usage` often do, is looked into: `outputs.answer`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from rat_ray.datasets.checks import is_text
from rat_ray.datasets.fieldnames import NONE
from rat_ray.datasets.reading import Place, RowError, shown
from rat_ray.errors import InputError, did_you_mean

Tiers = tuple[tuple[str, ...], ...]

_ANSWERS: Final = (
    *("answer", "response", "actual_output", "output", "result", "generated_answer", "generated_text", "generation"),
    *("model_answer", "model_response", "model_output", "llm_answer", "llm_response", "llm_output", "rag_answer"),
    *("system_answer", "bot_answer", "predicted_answer", "prediction", "predictions", "pred_answer", "completion"),
    *("actual_response", "outputs"),
)
_QUESTIONS: Final = ("question", "query", "user_input", "user_query", "user_question", "question_text", "query_text")
_PROMPTS: Final = ("input", "inputs", "prompt", "request", "claim", "user_message", "user_prompt")
_CONTEXTS: Final = (
    *("contexts", "retrieved_contexts", "retrieved_context", "retrieval_context", "retrieval_contexts"),
    *("retrieved_documents", "retrieved_docs", "retrieved_passages", "retrieved_chunks", "retrieved_nodes"),
    *("source_documents", "source_nodes", "context_texts", "ctxs", "attributes.retrieval.documents"),
)
_PIECES: Final = ("documents", "docs", "passages", "chunks", "sources", "nodes", "search_results", "references")
_ACCEPTED: Final = (
    *("accepted", "accepted_answers", "ground_truth", "ground_truths", "reference", "reference_answer"),
    *("reference_answers", "expected_output", "expected_answer", "expected_answers", "expected_response", "expected"),
    *("gold", "gold_answer", "gold_answers", "golden_answer", "golden_answers", "answers", "correct_answer"),
    *("ideal", "ideal_answer", "ideal_response", "reference_output"),
)
_IN: Final = ("inputs", "input")
_OUT: Final = ("outputs", "output", "response", "result", "prediction")
_EXPECTED: Final = ("reference_outputs", "reference", "expectations", "expected_output", "expected", "ground_truth")
_USAGE: Final = ("usage", "token_usage", "usage_metadata")
_NESTED: Final = frozenset((*_IN, *_OUT, *_EXPECTED, *_USAGE))


def _in(outer: Iterable[str], inner: Iterable[str]) -> tuple[str, ...]:
    inner = tuple(inner)
    return tuple(f"{name}.{part}" for name in outer for part in inner)


def _one_by_one(*names: str) -> Tiers:
    return tuple((name,) for name in names)


# For each role, names in tiers: a name goes before those of later tiers; two of one tier in a row are ambiguous.
ALIASES: Final[Mapping[str, Tiers]] = {
    "question_id": _one_by_one(
        *("question_id", "qid", "query_id", "example_id", "sample_id", "record_id", "request_id", "id", "_id")
    ),
    "question": (_QUESTIONS, _PROMPTS, _in(_IN, (*_QUESTIONS, *_PROMPTS)), ("attributes.input.value",)),
    "answer": ((*_ANSWERS, *_in(_OUT, (*_ANSWERS, "content", "text"))), ("attributes.output.value",)),
    "contexts": (
        (*_CONTEXTS, *_in((*_OUT, *_IN), _CONTEXTS)),
        ("context", *_in((*_OUT, *_IN), ("context",))),
        (*_PIECES, *_in((*_OUT, *_IN), _PIECES)),
    ),
    "context_ids": _one_by_one(
        *("retrieved_context_ids", "context_ids", "retrieved_ids", "passage_ids", "chunk_ids", "retrieved_doc_ids")
    ),
    "accepted": (
        (*_ACCEPTED, *_in(_EXPECTED, (*_ACCEPTED, *_ANSWERS))),
        ("target", "targets", "label"),
    ),
    "evidence": (
        ("evidence", "evidence_ids", "gold_ids", "gold_context_ids", "gold_passage_ids", "relevant_ids"),
        ("reference_context_ids", "relevant_doc_ids", "gold_doc_ids"),
    ),
    "error": _one_by_one("error", "error_message", "exception"),
    "finish_reason": _one_by_one("finish_reason", "stop_reason"),
    "prompt_tokens": _one_by_one(
        *("prompt_tokens", "input_tokens", *_in(_USAGE, ("prompt_tokens", "input_tokens")), "prompt_token_count")
    ),
    "output_tokens": _one_by_one(
        *("output_tokens", "completion_tokens", *_in(_USAGE, ("output_tokens", "completion_tokens")))
    ),
    "system": _one_by_one("system", "system_name", "app_name", "pipeline", "variant", "model_name", "model"),
    "shape": _one_by_one("shape"),
}
_NEEDED: Final = ("question", "answer")


@dataclass(frozen=True)
class LogFields:
    """Columns of the log. "": found by itself (ALIASES); "-": not read, even if it is there. A dot leads into an
    object: `outputs.answer`.

    passage_id, title, text: within an object of `contexts`; see logs_contexts.
    """

    question_id: str = ""
    question: str = ""
    answer: str = ""
    contexts: str = ""
    context_ids: str = ""
    accepted: str = ""
    evidence: str = ""
    error: str = ""
    finish_reason: str = ""
    prompt_tokens: str = ""
    output_tokens: str = ""
    system: str = ""
    shape: str = ""
    passage_id: str = ""
    title: str = ""
    text: str = ""

    def validate(self) -> None:
        """Raises InputError for a field that cannot be left out, and for one column with two meanings."""
        for role in (*_NEEDED, "text"):
            if getattr(self, role) == NONE:
                raise InputError(f"fields.{role}={NONE}: this field cannot be left out")
        chosen = [name for role in ALIASES if (name := getattr(self, role)) not in ("", NONE)]
        doubled = sorted({name for name in chosen if chosen.count(name) > 1})
        if doubled:
            raise InputError(f"fields: the column {doubled[0]!r} is given two meanings; a column has one")


assert {field.name for field in fields(LogFields)} == {*ALIASES, "passage_id", "title", "text"}


@cache
def normal(name: str) -> str:
    """A column's name as it is compared."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\s-]+", "_", snake).lower()


def flat(record: Mapping[str, object]) -> dict[str, object]:
    """The record with the members of objects in columns such as `outputs` beside its other columns."""
    found: dict[str, object] = {}
    for name, value in record.items():
        inner = _object(name, value)
        if inner is None:
            found[name] = value
        else:
            found.update({f"{name}.{part}": each for part, each in inner.items()})
    return found


def _object(name: str, value: object) -> Mapping[str, object] | None:
    """The object that stands in a column such as `outputs`, also as a text (in a CSV), else None."""
    if isinstance(value, dict):
        return value if normal(name) in _NESTED else None
    if not isinstance(value, str) or normal(name) not in ("inputs", "outputs") or value[:1] != "{":
        return None
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found if is_text(found) else None


class Found(NamedTuple):
    """What a row holds, by role, and the columns that it was found in."""

    values: dict[str, object]
    names: dict[str, str]


class Columns:
    """Finds the columns of one file. The first row that could be read settles them for the rows that follow.

    unread: columns that were in some row and that nothing was read from.
    """

    def __init__(self, names: LogFields) -> None:
        self._chosen = {role: getattr(names, role) for role in ALIASES}
        self._taken = {name for name in self._chosen.values() if name}
        self._known: dict[tuple[str, ...], dict[str, str]] = {}
        self._seen: dict[str, None] = {}
        self.settled: dict[str, str] = {}

    def find(self, record: Mapping[str, object], place: Place) -> Found:
        """What the row holds; a role whose column it lacks is not in it.

        Raises RowError where two columns might be meant, and where there is no question.
        """
        columns = flat(record)
        shape = tuple(columns)
        names = self._known.get(shape)
        if names is None:
            names = self._names_of(columns, record, place)
            if self.settled.items() >= names.items() and len(self._known) < _SHAPES:
                self._known[shape] = names
        values = {role: columns[name] if name in columns else _inside(record, name) for role, name in names.items()}
        return Found(values, names)

    def settle(self, found: Found) -> None:
        """The row could be read: its columns hold for the rest of the file."""
        if len(found.names) > len(self.settled) or any(role not in self.settled for role in found.names):
            self.settled = {**found.names, **self.settled}

    def finish(self, path: Path) -> None:
        """After the last row. Raises InputError when no row had an answer, or a column named in the settings."""
        for role, chosen in self._chosen.items():
            if role in self.settled or (role not in _NEEDED and chosen in ("", NONE)):
                continue
            raise InputError(f"{shown(path)}: {_missing(role, chosen, self._seen)}")

    def wanted(self, names: Iterable[str]) -> list[str]:
        """Those of a file's columns that something may be read from, so that the others need not be."""
        aliases = {name for tiers in ALIASES.values() for tier in tiers for name in tier}
        heads = {name.split(".")[0] for name in self._taken} | self._taken
        kept = []
        for name in names:
            self._seen[name] = None
            if normal(name) in aliases or normal(name) in _NESTED or name in heads:
                kept.append(name)
        return kept

    def unread(self) -> list[str]:
        """Columns that were seen and not read, in the order in which they appeared."""
        used = set(self.settled.values())
        heads = {name.split(".")[0] for name in used}
        return [name for name in self._seen if name not in used and name not in heads]

    def _names_of(self, columns: Mapping[str, object], record: Mapping[str, object], place: Place) -> dict[str, str]:
        self._seen.update(dict.fromkeys(columns))
        names = {role: name for role in ALIASES if (name := self._column(role, columns, record, place)) is not None}
        if "question" not in names:
            raise RowError(place, _missing("question", self._chosen["question"], columns))
        return names

    def _column(
        self, role: str, columns: Mapping[str, object], record: Mapping[str, object], place: Place
    ) -> str | None:
        chosen = self._chosen[role]
        if chosen == NONE:
            return None
        if chosen:
            return chosen if chosen in columns or _has(record, chosen) else None
        settled = self.settled.get(role)
        for tier in ALIASES[role]:
            hits = [name for name in columns if normal(name) in tier and name not in self._taken]
            if settled in hits and len(hits) == 1:
                return settled
            if hits:
                others = [name for name in dict.fromkeys((settled, *hits)) if name is not None]
                if len(others) > 1:
                    raise RowError(place, _ambiguous(role, others, columns))
                return hits[0]
        return None


_SHAPES: Final = 1000  # sets of columns in one file; a log that has more names its columns after its rows


def _has(record: Mapping[str, object], dotted: str) -> bool:
    head, _, rest = dotted.partition(".")
    value = record.get(head)
    return dotted in record or (bool(rest) and isinstance(value, dict) and _has(value, rest))


def _inside(record: Mapping[str, object], dotted: str) -> object:
    if dotted in record:
        return record[dotted]
    head, _, rest = dotted.partition(".")
    value = record.get(head)
    return _inside(value, rest) if rest and isinstance(value, dict) else None


def _ambiguous(role: str, names: Iterable[str], columns: Iterable[str]) -> str:
    first, *_ = names
    return (
        f"{role} might be in {' or '.join(map(repr, names))}: set dataset.fields.{role}={first}, or the other "
        f"({_there(columns)})"
    )


def _missing(role: str, chosen: str, columns: Iterable[str]) -> str:
    if chosen:
        return f"no column {chosen!r}{did_you_mean(chosen, columns)}; set dataset.fields.{role} ({_there(columns)})"
    usual = ", ".join(ALIASES[role][0][:3])
    return f"no column for the {role} ({usual}, …); set dataset.fields.{role} to its name ({_there(columns)})"


def _there(columns: Iterable[str]) -> str:
    names = list(columns)
    listed = ", ".join(f"{name:.40}" for name in names[:30])
    return f"columns: {listed or 'none'}{', …' if len(names) > 30 else ''}"
