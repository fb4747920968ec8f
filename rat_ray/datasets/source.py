"""What a dataset hands to the rest: passages as a stream, questions as a table, and what was left out on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class Source:
    """A dataset that has been read and checked once, in this process or, when the files are the same, before.

    digest: SHA-256 over the files' contents and the settings that matter, never over paths or times.
    passages_digest, questions_digest: the same for either part, so that datasets with one corpus share its index.
    left_out: questions that are not in `questions()`, counted by reason. notes: other things worth a line, counted.
    read_questions, stream: read the rows, or read them again.
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

    def passages(self) -> Iterator[pa.Table]:
        """Batches with the schema tables.PASSAGES, in the files' order. Raises InputError if a file has changed."""
        return self.stream()

    def questions(self) -> pa.Table:
        """The questions that were kept, with the schema tables.QUESTIONS, in the file's order."""
        return self.read_questions()


def combine(*parts: str) -> str:
    """One SHA-256 (hex) over several texts; ("ab", "c") and ("a", "bc") differ."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
