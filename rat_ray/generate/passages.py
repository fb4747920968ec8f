"""Passages by id, and how many of them fit into a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from rat_ray.errors import StageError
from rat_ray.generate.engine import Engine
from rat_ray.generate.prompts import PromptPassage, one_line


class PassageInput(Protocol):
    """What is needed of an input table: see stage.Input."""

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """The whole table."""
        ...


class Passages:
    """Titles and texts by passage id, all in memory."""

    def __init__(self, source: PassageInput) -> None:
        table = source.read(["passage_id", "title", "text"])
        columns = (table.column(name).to_pylist() for name in ("passage_id", "title", "text"))
        self._by_id = {name: (title, text) for name, title, text in zip(*columns, strict=True)}

    def numbered(self, passage_ids: Sequence[str]) -> list[PromptPassage]:
        """The passages in this order, as templates see them. Raises StageError for an id that is not in the corpus."""
        unknown = [name for name in passage_ids if name not in self._by_id]
        if unknown:
            raise StageError(f"passage {unknown[0]!r} is not in the passages table")
        texts = (self._by_id[name] for name in passage_ids)
        return [PromptPassage(i, one_line(title), one_line(text)) for i, (title, text) in enumerate(texts, 1)]


class FittedPrompt(NamedTuple):
    """A prompt within the token budget and the number of passages in it, or the error why there is none."""

    text: str
    passages: int
    error: str | None


def fit_prompt(
    render: Callable[[list[PromptPassage]], str], passages: list[PromptPassage], engine: Engine, max_prompt_tokens: int
) -> FittedPrompt:
    """The prompt with as many passages, from the first, as keep it within max_prompt_tokens."""
    tokens = 0
    for count in range(len(passages), -1, -1):
        text = render(passages[:count])
        tokens = engine.count_tokens([text])[0]
        if tokens <= max_prompt_tokens:
            return FittedPrompt(text, count, None)
    error = f"prompt too long: {tokens} tokens without any passage, max_prompt_tokens is {max_prompt_tokens}"
    return FittedPrompt("", 0, error)
