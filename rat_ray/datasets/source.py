"""What a dataset hands to the rest: passages as a stream, questions as a table, and what was left out on the way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from rat_ray import tables


def no_problems() -> pa.Table:
    """An empty table with the schema tables.PROBLEMS."""
    return tables.PROBLEMS.empty_table()


@dataclass(frozen=True)
class Source:
    """A dataset that has been read and checked once, in this process or, when the files are the same, before.

    digest: SHA-256 over the passages and questions as read, never over paths, formats or times.
    passages_digest, questions_digest: the same for either part, so that datasets with one corpus share its index.
    left_out: questions that are not in `questions()`, counted by reason. notes: other things worth a line, counted.
    read_questions, stream: read the rows, or read them again. problems: the rows that were skipped and the questions
    whose evidence could not be mapped, with the schema tables.PROBLEMS; at most `problems.LISTED` of either kind.
    answers: of a log, one for each question in the order of the questions, with the schema tables.ANSWERS (`answer` is
    what stands in the log, as `raw` is; nothing was cleaned), and their digest; None for what is still to be answered.
    """

    name: str
    digest: str
    passages_digest: str
    questions_digest: str
    num_passages: int
    num_questions: int
    read_questions: Callable[[], pa.Table] = field(repr=False)
    stream: Callable[[], Iterator[pa.Table]] = field(repr=False)
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    problems: Callable[[], pa.Table] = field(default=no_problems, repr=False)
    answers: Callable[[], pa.Table] | None = field(default=None, repr=False)
    answers_digest: str = ""

    def passages(self) -> Iterator[pa.Table]:
        """Batches with the schema tables.PASSAGES, in the files' order. Raises InputError if a file has changed."""
        return self.stream()

    def questions(self) -> pa.Table:
        """The questions that were kept, with the schema tables.QUESTIONS, in the file's order."""
        return self.read_questions()


def questions_digest_of(table: pa.Table) -> str:
    """SHA-256 (hex) over the rows of a questions table."""
    digest = hashlib.sha256()
    for batch in table.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            digest.update(json.dumps(row, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def combine(*parts: str) -> str:
    """One SHA-256 (hex) over several texts; ("ab", "c") and ("a", "bc") differ."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
