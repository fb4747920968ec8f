"""The generation stage's worker: questions and retrievals in, answers out."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.errors import InputError
from rat_ray.generate import open_engine
from rat_ray.generate.clean import clean
from rat_ray.generate.engine import Completion, Prompt, PromptedSettings
from rat_ray.generate.passages import Draft, PassageInput, Passages, fit_prompts
from rat_ray.generate.prompts import FALLBACK_SHAPE, PromptPassage, Prompts, one_line


@dataclass(frozen=True)
class GeneratorSettings(PromptedSettings):
    """A generator: model, prompt set and sampling. abstention_phrase: what the prompt asks for instead of an answer."""

    prompt: str = field(default="policy", metadata={"key": False})
    abstention_phrase: str = "Not in the passages."

    def validate(self) -> None:
        """Raise InputError for values that cannot work, alone or together."""
        super().validate()
        if not self.abstention_phrase.strip():
            raise InputError("abstention_phrase is empty; give the words by which the prompt lets a model abstain")
        # A full stop at the phrase's end may be one: the label rule does not need it.
        ends = [stop for stop in self.stops if stop in self.abstention_phrase.strip()[:-1]]
        if ends:
            raise InputError(
                f"stop: {ends[0]!r} is part of abstention_phrase {self.abstention_phrase!r}; change either"
            )


class GeneratorPrompts:
    """A generator's prompts. Every template is tried when it is made, so that a bad one fails once, not in every row.

    Raises InputError when the set lacks a shape, or a template uses what there is not.
    """

    def __init__(self, settings: GeneratorSettings) -> None:
        self._phrase = settings.abstention_phrase
        self._prompts = Prompts(settings.prompts, settings.prompt)
        samples = [PromptPassage(number, "title", "text") for number in range(1, settings.passages + 1)]
        for shape in (FALLBACK_SHAPE, *self._prompts.names):
            counts = {0, *range(len(samples) + 1)[:3], len(samples)}
            shown = [self("question", shape, samples[:count]) for count in counts]
            if not any(prompt.whole.strip() for prompt in shown):
                raise InputError(f"prompt {settings.prompt}/{self.chosen(shape)} is empty")

    def __call__(self, question: str, shape: str | None, passages: Sequence[PromptPassage]) -> Prompt:
        """The prompt of one question; a shape without a template of its own takes `open`."""
        return self._prompts.prompt(
            shape or FALLBACK_SHAPE,
            question=one_line(question),
            passages=list(passages),
            abstention_phrase=self._phrase,
        )

    def chosen(self, shape: str | None) -> str:
        """The name of the template for questions of this shape."""
        return self._prompts.chosen(shape or FALLBACK_SHAPE)


class _Prepared(NamedTuple):
    """One row before generation: its prompt, or its error."""

    prompt: Prompt | None
    context_ids: list[str] | None
    error: str | None


class GenerateWorker:
    """Writes one answer per question. inputs: passages. It may be called by several threads at once.

    Raises InputError when the prompt set lacks a shape or uses a variable that there is not.
    """

    def __init__(self, settings: GeneratorSettings, inputs: Mapping[str, PassageInput]) -> None:
        self._settings = settings
        self._prompts = GeneratorPrompts(settings)
        self._passages = Passages(inputs["passages"])
        self._engine = open_engine(settings)

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        """rows: questions and retrievals, aligned. Returns tables.ANSWERS, one row per question in their order.

        A row whose retrieval failed carries that error; a question too long for the prompt, a prompt that the engine
        fails on, and an output that ended inside its reasoning get one of their own.
        """
        questions, retrievals = rows["questions"].to_pylist(), rows["retrievals"].to_pylist()
        prepared = self._prepare(questions, retrievals)
        prompts = [row.prompt for row in prepared if row.prompt is not None]
        completions = iter(self._engine.complete(prompts, self._settings.sampling) if prompts else [])
        answers = [
            self._answer(question["question_id"], row, None if row.prompt is None else next(completions))
            for question, row in zip(questions, prepared, strict=True)
        ]
        return pa.Table.from_pylist(answers, schema=tables.ANSWERS)

    def _prepare(self, questions: list[dict[str, Any]], retrievals: list[dict[str, Any]]) -> list[_Prepared]:
        """Each row's prompt with the passages that fit, or its error."""
        ids = [list(found["passage_ids"] or [])[: self._settings.passages] for found in retrievals]
        drafts = [
            self._draft(question, given)
            for question, found, given in zip(questions, retrievals, ids, strict=True)
            if not found.get("error")
        ]
        fitted = iter(fit_prompts(drafts, self._engine, self._settings.max_prompt_tokens))
        rows = []
        for found, given in zip(retrievals, ids, strict=True):
            if found.get("error"):
                rows.append(_Prepared(None, None, found["error"]))
                continue
            prompt, count, error = next(fitted)
            rows.append(_Prepared(prompt, None if prompt is None else given[:count], error))
        return rows

    def _draft(self, question: dict[str, Any], passage_ids: list[str]) -> Draft:
        write = functools.partial(self._prompts, question["question"], question.get("shape"))
        return Draft(write, self._passages.numbered(passage_ids))

    def _answer(self, question_id: str, row: _Prepared, completion: Completion | None) -> dict[str, Any]:
        answer: dict[str, Any] = {"question_id": question_id, "context_ids": row.context_ids, "error": row.error}
        if completion is None:
            return answer
        answer |= {
            "raw": completion.text,
            "reasoning": completion.reasoning or None,
            "finish_reason": completion.finish_reason,
            "prompt_tokens": completion.prompt_tokens,
            "output_tokens": completion.output_tokens,
        }
        if completion.text is None:
            return answer | {"error": completion.error or "the engine gave no text"}
        stops = self._settings.stops
        return answer | clean(completion.text, stops, completion.reasoning, completion.finish_reason)._asdict()
