"""The generation stage's worker: questions and retrievals in, answers out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.errors import InputError
from rat_ray.generate import open_engine
from rat_ray.generate.engine import Completion, PromptedSettings
from rat_ray.generate.passages import PassageInput, Passages, fit_prompt
from rat_ray.generate.prompts import FALLBACK_SHAPE, Prompts, one_line


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


class _Prepared(NamedTuple):
    """One row before generation: its prompt, or its error."""

    prompt: str | None
    context_ids: list[str] | None
    error: str | None


class GenerateWorker:
    """Writes one answer per question. inputs: passages.

    Raises InputError when the prompt set lacks a shape or uses a variable that there is not.
    """

    def __init__(self, settings: GeneratorSettings, inputs: Mapping[str, PassageInput]) -> None:
        self._settings = settings
        self._prompts = Prompts(settings.prompts)
        for shape in (FALLBACK_SHAPE, *self._prompts.names):
            self._render("", shape, [])  # a bad template fails here, once, rather than in every row
        self._passages = Passages(inputs["passages"])
        self._engine = open_engine(settings)

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        """rows: questions and retrievals, aligned. Returns tables.ANSWERS, one row per question in their order.

        A row whose retrieval failed carries that error; a question too long for the prompt gets one of its own.
        """
        questions, retrievals = rows["questions"].to_pylist(), rows["retrievals"].to_pylist()
        prepared = [self._prepare(question, found) for question, found in zip(questions, retrievals, strict=True)]
        prompts = [row.prompt for row in prepared if row.prompt is not None]
        completions = iter(self._engine.complete(prompts, self._settings.sampling))
        answers = [
            _answer(question["question_id"], row, None if row.prompt is None else next(completions))
            for question, row in zip(questions, prepared, strict=True)
        ]
        return pa.Table.from_pylist(answers, schema=tables.ANSWERS)

    def _prepare(self, question: dict[str, Any], found: dict[str, Any]) -> _Prepared:
        if found.get("error"):
            return _Prepared(None, None, found["error"])
        ids = list(found["passage_ids"] or [])[: self._settings.passages]
        shape = question.get("shape") or FALLBACK_SHAPE
        fitted = fit_prompt(
            lambda passages: self._render(question["question"], shape, passages),
            self._passages.numbered(ids),
            self._engine,
            self._settings.max_prompt_tokens,
        )
        if fitted.error:
            return _Prepared(None, None, fitted.error)
        return _Prepared(fitted.text, ids[: fitted.passages], None)

    def _render(self, question: str, shape: str, passages: list[Any]) -> str:
        return self._prompts.render(
            shape,
            question=one_line(question),
            passages=passages,
            abstention_phrase=self._settings.abstention_phrase,
        )


def _answer(question_id: str, row: _Prepared, completion: Completion | None) -> dict[str, Any]:
    if completion is None:
        return {"question_id": question_id, "error": row.error}
    if completion.text is None:
        return {"question_id": question_id, "context_ids": row.context_ids, "error": completion.error}
    return {
        "question_id": question_id,
        "context_ids": row.context_ids,
        "answer": clean_answer(completion.text),
        "finish_reason": completion.finish_reason,
        "prompt_tokens": completion.prompt_tokens,
        "output_tokens": completion.output_tokens,
        "error": None,
    }


def clean_answer(text: str) -> str:
    """The first line that is not blank, stripped: a base model goes on to the next example after it."""
    return text.strip().partition("\n")[0].strip()
