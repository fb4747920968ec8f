"""The rows of a log, read and checked one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from rat_ray.datasets.logs_fields import Columns, LogFields
from rat_ray.datasets.logs_files import records
from rat_ray.datasets.logs_values import Context, ContextReader, evidence_of, listed, missing, text_of, whole_number
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.questions import SHAPES, accepted_answers
from rat_ray.datasets.reading import Place, RowError, clean_id, shown
from rat_ray.errors import InputError, did_you_mean

NO_ANSWER: Final = "no answer in the log"
# What pandas and databases write as a text where nobody knows; "None" may well be an answer.
_NOT_KNOWN: Final = frozenset(("nan", "NaN", "null", "NULL", "<NA>", "#N/A"))
OTHER_SYSTEM: Final = "of another system"
# What tools write into a text column where nothing failed.
_NO_FAILURE: Final = frozenset(("", "none", "null", "false", "no", "0", "0.0", "nan", "na", "n/a", "-", "{}", "[]"))


class LogRow(NamedTuple):
    """One answered question. question_id, contexts, accepted, evidence, shape, tokens, system: None unknown.

    answer: None where the system failed; then error says why. raw: the text that a failed row holds, if any.
    """

    place: Place
    question_id: str | None
    question: str
    answer: str | None
    raw: str | None
    error: str | None
    contexts: list[Context] | None
    accepted: list[str] | None
    evidence: list[list[str]] | None
    shape: str | None
    finish_reason: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    system: str | None


class Reading(NamedTuple):
    """How a log is read; the settings of LogsSettings by the same names."""

    format: str
    fields: LogFields
    separator: str
    system: str
    evidence: str
    shape: str


def log_rows(paths: list[Path], how: Reading, problems: Problems) -> Iterator[LogRow]:
    """The rows of the files in their order, those of another system left out (counted in problems.left_out).

    Raises InputError for a broken row (unless problems skips it), a file without the columns that are needed or in
    which no row could be read, and a system that no row is of.
    """
    systems: Counter[str] = Counter()
    for path in paths:
        yield from _file_rows(path, how, problems, systems)
    if how.system and not systems[how.system]:
        known = ", ".join(f"{name!r} ({count})" for name, count in systems.most_common(20))
        hint = did_you_mean(how.system, systems) if known else ""
        raise InputError(
            f"dataset.system={how.system}: no row is of this system{hint}; the log has "
            f"{known or 'no column for the system: set dataset.fields.system'}"
        )
    if not how.system and len(systems) > 1:
        names = ", ".join(f"{name:.40}" for name, _ in systems.most_common(5))
        what = f"rows of several systems taken as one ({names}{', …' if len(systems) > 5 else ''}; see dataset.system)"
        problems.notes[what] = sum(systems.values())


def _file_rows(path: Path, how: Reading, problems: Problems, systems: Counter[str]) -> Iterator[LogRow]:
    columns = Columns(how.fields)
    contexts = ContextReader(how.fields, how.separator, problems.notes)
    read = 0
    for place, record in records(path, how.format, columns, problems.broken):
        try:
            found = columns.find(record, place)
            row = _row(found.values, place, how, contexts, problems.notes)
        except RowError as error:
            problems.broken(error)
            continue
        columns.settle(found)
        read += 1
        if row.system is not None:
            systems[row.system] += 1
        if how.system and row.system != how.system:
            problems.left_out[OTHER_SYSTEM] += 1
            continue
        yield row
    if not read:
        why = f", e.g. {problems.last_error}" if problems.last_error else ""
        raise InputError(f"{shown(path)}: no row could be read{why or ', there is none after the header'}")
    columns.finish(path)
    contexts.finish(path)
    _note_columns(columns, read, problems.notes)


def _note_columns(columns: Columns, read: int, notes: Counter[str]) -> None:
    """What was read from which column, so that a column that was found by itself and is another is seen."""
    notes[f"rows of the log ({', '.join(f'{role}: {name}' for role, name in columns.settled.items())})"] += read
    unread = columns.unread()
    if unread:
        listed_names = ", ".join(f"{name:.40}" for name in unread[:10])
        notes[f"columns that are not read ({listed_names}{', …' if len(unread) > 10 else ''})"] = len(unread)


def _row(
    values: Mapping[str, object], place: Place, how: Reading, contexts: ContextReader, notes: Counter[str]
) -> LogRow:
    question = text_of(values.get("question"), place, "question")
    if question is None or not question.strip():
        raise RowError(place, f"the question is empty, found {values.get('question')!r:.80}")
    raw = text_of(values.get("answer"), place, "answer")
    failure = _failure(values.get("error"))
    answer = None if failure else raw
    name = values.get("question_id")
    return LogRow(
        place=place,
        question_id=None if missing(name) or name == "" else clean_id(name, place, "the question id"),
        question=question,
        answer=answer,
        raw=raw,
        error=failure or (NO_ANSWER if answer is None else None),
        contexts=contexts.read(values.get("contexts"), values.get("context_ids"), place),
        accepted=_accepted(values.get("accepted"), place, notes),
        evidence=evidence_of(values.get("evidence"), how.evidence, place),
        shape=how.shape or _shape(values.get("shape"), place),
        finish_reason=_word(values.get("finish_reason")),
        prompt_tokens=whole_number(values.get("prompt_tokens")),
        output_tokens=whole_number(values.get("output_tokens")),
        system=_word(values.get("system")),
    )


def _failure(value: object) -> str | None:
    """What the log says went wrong: a text, or anything that is not empty or false."""
    if missing(value) or not value:
        return None
    if isinstance(value, str):
        return value.strip() if value.strip().lower() not in _NO_FAILURE else None
    return "the log says that it failed" if value is True else f"{value!s:.500}"


def _accepted(value: object, place: Place, notes: Counter[str]) -> list[str] | None:
    if isinstance(value, str):
        # A gold answer may begin with a bracket ("[sic]"); a list of nothing but texts and numbers is one.
        items = listed(value, place, "accepted answers")
        value = items if all(isinstance(item, str | int | float) for item in items) else value
    if isinstance(value, Mapping):
        value = text_of(value, place, "accepted answer")
    if isinstance(value, list):
        known = [one for one in value if not isinstance(one, str) or one not in _NOT_KNOWN]
        if len(known) < len(value):
            notes["accepted answers that read nan or null (taken for not known)"] += len(value) - len(known)
            value = known or None
    if value == []:
        # Elsewhere [] says that no answer is right. Logs write it where nobody has looked.
        notes["empty lists of accepted answers (read as not known)"] += 1
        return None
    try:
        return accepted_answers(value, place, "", notes)
    except RowError as error:
        raise RowError(place, error.reason.removeprefix("question '': ")) from error


def _shape(value: object, place: Place) -> str | None:
    if missing(value) or value == "":
        return None
    if isinstance(value, str) and value in SHAPES:
        return value
    hint = 'set dataset.fields.shape to another column, or to "-" to ignore it'
    raise RowError(place, f"unknown shape {value!r:.40}{did_you_mean(str(value), SHAPES)}; {hint}")


def _word(value: object) -> str | None:
    """A name, or None for what is none."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value).strip() or None
    return None
