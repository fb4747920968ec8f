"""Passages by id, and how many of them fit into a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from rat_ray.errors import StageError
from rat_ray.generate.engine import Engine, Prompt
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


class Draft(NamedTuple):
    """A prompt that is still to be fitted: how it is written, and the passages for it in rank order."""

    render: Callable[[list[PromptPassage]], Prompt]
    passages: list[PromptPassage]


class FittedPrompt(NamedTuple):
    """A prompt within the token budget and the number of passages in it; or None, and the error why there is none."""

    prompt: Prompt | None
    passages: int
    error: str | None


def fit_prompts(drafts: Sequence[Draft], engine: Engine, max_prompt_tokens: int) -> list[FittedPrompt]:
    """Each draft's prompt with its passages added in rank order until the next one would exceed max_prompt_tokens.

    The first passage that does not fit ends the context, even where a shorter one after it would fit: what was given is
    always the beginning of the ranking, and R does not come to depend on the lengths of passages. A passage is given
    whole or not at all.

    Not every length is counted: all drafts are with all their passages, in one call; those that are too long about
    where that count says they would fit, in another; what is left open is halved. That is the same as adding one by one
    as long as another passage never makes a prompt shorter; in any case, a prompt that is returned was counted itself.
    """
    searches = [_Search(draft, max_prompt_tokens) for draft in drafts]
    while probes := [(search, count) for search in searches for count in search.probes()]:
        prompts = [search.written(count) for search, count in probes]
        for (search, count), tokens in zip(probes, engine.count_tokens(prompts), strict=True):
            search.counted(count, tokens)
    return [search.result() for search in searches]


class _Search:
    """How many passages of one draft fit: at least `_fits` (-1: not known of any), fewer than `_exceeds`."""

    def __init__(self, draft: Draft, limit: int) -> None:
        self._draft = draft
        self._limit = limit
        self._fits = -1
        self._exceeds = len(draft.passages) + 1
        self._tokens = 0  # of the shortest prompt that exceeds
        self._written: dict[int, Prompt] = {}

    def probes(self) -> list[int]:
        """The numbers of passages to count next; none when it is known."""
        everything = len(self._draft.passages)
        if self._exceeds - self._fits <= 1:
            return []
        if self._exceeds > everything:
            return [everything]
        if self._exceeds == everything and self._fits == -1:
            guess = self._guess()
            return [count for count in (guess, guess + 1) if self._fits < count < self._exceeds]
        return [(self._fits + self._exceeds) // 2]

    def written(self, count: int) -> Prompt:
        if count not in self._written:
            self._written[count] = self._draft.render(self._draft.passages[:count])
        return self._written[count]

    def counted(self, count: int, tokens: int) -> None:
        if tokens <= self._limit:
            self._fits = max(self._fits, count)
        elif count < self._exceeds:
            self._exceeds, self._tokens = count, tokens

    def result(self) -> FittedPrompt:
        if self._fits >= 0:
            return FittedPrompt(self.written(self._fits), self._fits, None)
        error = f"prompt too long: {self._tokens} tokens without any passage, max_prompt_tokens is {self._limit}"
        return FittedPrompt(None, 0, error)

    def _guess(self) -> int:
        """How many passages would fit if every character took as many tokens as on average in the whole prompt."""
        passages = self._draft.passages
        whole, none = len(self.written(len(passages)).whole), len(self.written(0).whole)
        lengths = [len(passage.title) + len(passage.text) for passage in passages]
        around = (whole - none - sum(lengths)) / len(passages)  # what the template writes for each
        surplus = (self._tokens - self._limit) * whole / self._tokens  # in characters
        count = len(passages)
        while count > 0 and surplus > 0:
            count -= 1
            surplus -= lengths[count] + around
        return count
