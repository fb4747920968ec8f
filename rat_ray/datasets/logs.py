"""`dataset=logs`: what a running RAG system was asked, the texts that it used, and what it answered.

Nothing is retrieved or generated: the source has answers as well as passages and questions.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray import tables
from rat_ray.datasets.checks import check_choice, check_limit, check_name
from rat_ray.datasets.logs_fields import LogFields
from rat_ray.datasets.logs_files import FORMATS, log_files
from rat_ray.datasets.logs_ids import PassageIds, QuestionIds
from rat_ray.datasets.logs_rows import LogRow, Reading, log_rows
from rat_ray.datasets.logs_values import Context
from rat_ray.datasets.problems import Problems, check_on_error
from rat_ray.datasets.questions import SHAPES
from rat_ray.datasets.reading import RowError
from rat_ray.datasets.source import Source, combine, questions_digest_of
from rat_ray.errors import InputError
from rat_ray.keys import key_of

_BATCH: Final = 10_000
_MEANINGS: Final = ("all", "any")
_FEW: Final = 5  # rows whose evidence is met by none by bad luck
_WITHOUT_IDS: Final = "the row's contexts have no ids, so none can be told to be the evidence; set fields.passage_id"


@dataclass(frozen=True)
class LogsSettings:
    """Where the log is and what its columns mean.

    path: a file, a folder (all data files below it), a glob, or a list of them. format: one of `logs_files.FORMATS`.
    fields: the columns' names, where they are not found by themselves.
    separator: what stands between contexts that are one text (a cell of a CSV that is no list); "": nothing does.
    system: keep the rows of this system only (column fields.system); "": all rows are one system's.
    abstention_phrase: what the system was told to say when it cannot answer; "": only the usual refusals count.
    evidence: a flat list of passage ids in a row's evidence means that "all" are needed, or that "any" is enough.
    shape: "claim" | "two_hop" | "open" for all questions; "": each row's own, if any.
    limit: keep the first n rows; 0 keeps all. on_error: "stop" at a broken row, or "skip" (counted and listed).
    """

    kind: str = "logs"
    name: str = "logs"
    path: str | list[str] = ""
    format: str = "auto"
    separator: str = ""
    system: str = ""
    abstention_phrase: str = field(default="", metadata={"key": False})
    evidence: str = "all"
    shape: str = ""
    limit: int = 0
    on_error: str = "stop"
    fields: LogFields = field(default_factory=LogFields)

    def validate(self) -> None:
        """Raises InputError for a value that cannot be meant."""
        check_name(self.name)
        check_choice("dataset.format", self.format, FORMATS)
        check_choice("dataset.evidence", self.evidence, _MEANINGS)
        check_choice("dataset.shape", self.shape, (*SHAPES, ""))
        check_limit(self.limit)
        check_on_error("dataset.on_error", self.on_error)
        self.fields.validate()
        if self.system and self.fields.system == "-":
            raise InputError("dataset.system: needs a column to tell systems by, and dataset.fields.system is -")

    @property
    def paths(self) -> list[str]:
        """`path` as a list."""
        return [self.path] if isinstance(self.path, str) else list(self.path)

    @property
    def corpus_settings(self) -> dict[str, Any]:
        """What of the settings decides the passages."""
        about: dict[str, Any] = key_of(self)
        about["path"] = [str(Path(path).expanduser().resolve()) for path in self.paths]
        return {name: value for name, value in about.items() if name not in ("name", "evidence", "shape")}

    @property
    def reading(self) -> Reading:
        """How a row is read."""
        return Reading(self.format, self.fields, self.separator, self.system, self.evidence, self.shape)


def source_files(settings: LogsSettings) -> list[Path]:
    """All files that `load` reads. Raises InputError for one that is not there."""
    return log_files(settings.paths)


def load(settings: LogsSettings) -> Source:
    """Reads and checks everything once. Raises InputError for whatever is wrong, before any work starts.

    Holds questions, answers and ids as Arrow arrays, and of a passage a hash: its text is read again when it is asked
    for (`stream`).
    """
    settings.validate()
    paths = source_files(settings)
    problems = Problems(settings.name, settings.on_error)
    names = QuestionIds()
    log = _Log(problems)
    for name, row in _kept(settings, paths, problems, names):
        log.add(name, row)
    if names.again:
        problems.notes["rows that repeat another word for word (kept)"] = names.again
    return log.source(settings, paths)


def _kept(
    settings: LogsSettings, paths: list[Path], problems: Problems, names: QuestionIds
) -> Iterator[tuple[str, LogRow]]:
    """The rows up to the limit, with their ids; what is left out is counted in problems."""
    kept = 0
    for row in log_rows(paths, settings.reading, problems):
        try:
            name = names.of(row)
        except RowError as error:
            problems.broken(error)
            continue
        if settings.limit and kept == settings.limit:
            problems.left_out["over the limit"] += 1
            continue
        kept += 1
        yield name, row


class _Log:
    """What is held of a log while it is read."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._passages = _Passages()
        self._questions = _Columns(tables.QUESTIONS)
        self._answers = _Columns(_HELD)
        self._evidence = _Evidence(problems, self._passages.ids)
        self._answered = 0

    def add(self, name: str, row: LogRow) -> None:
        """One row more, with its id."""
        ids = None if row.contexts is None else [self._passages.add(context)[0] for context in row.contexts]
        self._questions.add(name, row.question, row.accepted, self._evidence.of(row, name, ids), row.shape)
        told = (row.finish_reason, row.prompt_tokens, row.output_tokens)
        self._answers.add(name, ids, row.raw, *told, row.error)
        self._answered += row.error is None
        self._note(row)

    def _note(self, row: LogRow) -> None:
        notes = self._problems.notes
        if row.accepted is None:
            notes["questions without accepted answers"] += 1
        if row.contexts is None:
            notes["rows whose contexts are not known (R is missing)"] += 1
        elif not row.contexts:
            notes["rows for which nothing was retrieved"] += 1
        if row.evidence == []:
            notes["rows that say that there is no evidence (R = 0)"] += 1
        if row.error is not None:
            notes["rows without an answer (failed)"] += 1

    def source(self, settings: LogsSettings, paths: list[Path]) -> Source:
        problems = self._problems
        questions, held = self._questions.table(), self._answers.table()
        if not questions.num_rows:
            why = dict(problems.left_out) or problems.last_error
            raise InputError(f"dataset {settings.name}: no row is left ({why})")
        if not self._answered:
            said = next(error for error in held["error"].to_pylist() if error is not None)
            raise InputError(
                f"dataset {settings.name}: no row has an answer (the first failed with {said!r:.80}); set "
                "dataset.fields.answer to what the system said, or dataset.fields.error=- if that column holds none"
            )
        self._evidence.check(settings.name)
        several = self._passages.ids.several
        problems.notes["passages with an id that another text has too (given ids of their own)"] += several
        questions_digest, answers_digest = questions_digest_of(questions), questions_digest_of(held)
        passages_digest, count = self._passages.digest, self._passages.count
        found = problems.table()
        return Source(
            name=settings.name,
            digest=combine(passages_digest, questions_digest, answers_digest),
            passages_digest=passages_digest,
            questions_digest=questions_digest,
            num_passages=count,
            num_questions=questions.num_rows,
            read_questions=lambda: questions,
            stream=lambda: _stream(settings, paths, passages_digest, questions.num_rows),
            left_out=dict(problems.left_out),
            notes={what: number for what, number in problems.notes.items() if number},
            problems=lambda: found,
            answers=lambda: _answers(held),
            answers_digest=answers_digest,
        )


class _Passages:
    """The passages of the rows, each once, under ids that differ; counted and digested in the order of the rows."""

    def __init__(self) -> None:
        self.ids = PassageIds()
        self.count = 0
        self._sha = hashlib.sha256()

    def add(self, context: Context) -> tuple[str, bool]:
        """The passage's id, and whether it is new."""
        name, mark, new = self.ids.of(context)
        if new:
            self.count += 1
            self._sha.update(f"{len(name)} {name}".encode() + mark)
        return name, new

    @property
    def digest(self) -> str:
        return self._sha.hexdigest()


def _stream(settings: LogsSettings, paths: list[Path], expected: str, rows: int) -> Iterator[pa.Table]:
    """The passages, in the order in which the rows name them. Raises InputError if the log has changed since `load`."""
    passages, batch = _Passages(), _Columns(tables.PASSAGES)
    kept = _kept(settings, paths, Problems(settings.name, settings.on_error), QuestionIds())
    for _, row in itertools.islice(kept, rows):
        for context in row.contexts or []:
            name, new = passages.add(context)
            if new:
                batch.add(name, context.title, context.text)
        if batch.rows >= _BATCH:
            yield batch.take()
    if batch.rows:
        yield batch.take()
    if passages.digest != expected:
        raise InputError(f"dataset {settings.name}: the log has changed since it was checked; run the command again")


class _Evidence:
    """Evidence as the rows name it, in the ids that their passages got."""

    def __init__(self, problems: Problems, ids: PassageIds) -> None:
        self._problems = problems
        self._ids = ids
        self._met = False
        self._named: dict[str, None] = {}
        self._rows = 0

    def of(self, row: LogRow, name: str, ids: list[str] | None) -> list[list[str]] | None:
        """The row's alternative sets; None where they are not known, or its contexts have no ids to hold against."""
        if not row.evidence:
            return row.evidence
        contexts = row.contexts or []
        given = {context.passage_id: made for context, made in zip(contexts, ids or [], strict=True)}
        sets = [[given.get(piece, piece) for piece in needed] for needed in row.evidence]
        if None in given and not any(set(needed) <= set(ids or []) for needed in sets):
            self._problems.unmapped(row.place, name, _WITHOUT_IDS)
            return None
        self._rows += 1
        if not self._met:
            self._named.update(dict.fromkeys(piece for needed in sets for piece in needed))
            self._met = any(given.get(piece) for needed in row.evidence for piece in needed)
        return sets

    def check(self, dataset: str) -> None:
        """Raises InputError where no passage of the log has an id that any evidence names."""
        if self._rows < _FEW or self._met or any(map(self._ids.has, self._named)):
            return
        raise InputError(
            f"dataset {dataset}: the evidence of {self._rows} rows names no passage of the log, e.g. "
            f"{next(iter(self._named))!r:.80}; are the contexts' ids in another column (dataset.fields.context_ids, "
            "dataset.fields.passage_id)? dataset.fields.evidence=- ignores the evidence"
        )


# Of tables.ANSWERS what a log tells: `answer` is `raw` where there was no error.
_HELD: Final = pa.schema([column for column in tables.ANSWERS if column.name not in ("answer", "reasoning")])


def _answers(held: pa.Table) -> pa.Table:
    """The answers with the schema tables.ANSWERS: `answer` as it stands in the log, not cleaned."""
    none = pa.nulls(held.num_rows, pa.string())
    made = {"answer": pc.if_else(pc.is_null(held["error"]), held["raw"], none), "reasoning": none}
    return pa.table(
        [made[name] if name in made else held[name] for name in tables.ANSWERS.names], schema=tables.ANSWERS
    )


class _Columns:
    """Rows on their way into an Arrow table: lists of values, made arrays of whenever there are _BATCH."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._lists: list[list[object]] = [[] for _ in schema]
        self._batches: list[pa.RecordBatch] = []
        self.rows = 0

    def add(self, *values: object) -> None:
        """One row, in the order of the schema."""
        for column, value in zip(self._lists, values, strict=True):
            column.append(value)
        self.rows += 1
        if len(self._lists[0]) == _BATCH:
            self._flush()

    def take(self) -> pa.Table:
        """The rows so far, which are then gone."""
        made = self.table()
        self._batches, self.rows = [], 0
        return made

    def table(self) -> pa.Table:
        """The rows so far."""
        self._flush()
        return pa.Table.from_batches(self._batches, schema=self._schema)

    def _flush(self) -> None:
        arrays = [pa.array(column, field.type) for column, field in zip(self._lists, self._schema, strict=True)]
        self._batches.append(pa.record_batch(arrays, schema=self._schema))
        for column in self._lists:
            column.clear()
