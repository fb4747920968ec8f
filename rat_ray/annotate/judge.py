"""A language model as judge of R and T: one yes/no verdict per item; one that cannot be read is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.annotate.abstention import abstention_label, refusals_digest
from rat_ray.annotate.text import plain
from rat_ray.errors import InputError
from rat_ray.generate import open_engine
from rat_ray.generate.engine import Completion, PromptedSettings
from rat_ray.generate.passages import PassageInput, Passages
from rat_ray.generate.prompts import Prompts, one_line

OK, UNPARSED, NOT_ASKED, ERROR = "ok", "unparsed", "not_asked", "error"
VARIABLES = ("r", "t")
_VERDICT = re.compile(r"\W*(yes|no)\b")


@dataclass(frozen=True)
class JudgeSettings(PromptedSettings):
    """A judge: the model, its prompt set (`r.jinja`, `t.jinja`, or one per shape such as `r_claim.jinja`).

    name: the sources are `r@NAME` and `t@NAME`. abstention_phrase and refusals: by which abstentions are known, for T
    only (they are not judged); both are empty for R, so that one verdict serves every generator with the same context.
    """

    name: str = "local"
    variables: tuple[str, ...] = VARIABLES
    prompt: str = field(default="judge", metadata={"key": False})
    max_tokens: int = 3
    abstention_phrase: str = field(default="", metadata={"user": False})
    refusals: str = field(default_factory=refusals_digest, metadata={"user": False})
    # The context was cut to the generator's budget before; a judge gets it whole or gives no verdict.
    passages: int = field(default=0, metadata={"key": False, "user": False})

    def validate(self) -> None:
        """Raise InputError for values that cannot work, alone or together."""
        super().validate()
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name):
            raise InputError(f"judge name {self.name!r} must be made of letters, digits, '_', '.' and '-'")
        unknown = [variable for variable in self.variables if variable not in VARIABLES]
        if unknown:
            raise InputError(f"judge variables {unknown} are unknown; a judge labels {' or '.join(VARIABLES)}")

    @property
    def sources(self) -> list[str]:
        """The columns that this judge fills, such as `r@local`."""
        return [f"{variable}@{self.name}" for variable in self.variables]


def parse_verdict(text: str) -> int | None:
    """1 for yes, 0 for no when that is the first word, in any case; anything else is no verdict."""
    match = _VERDICT.match(plain(text))
    return None if match is None else int(match.group(1) == "yes")


class _Item(NamedTuple):
    """One row to judge: its prompt, or None and the error of the row (None: there is nothing to judge)."""

    question_id: str
    prompt: str | None
    error: str | None = None


class _Judge:
    """What the judges of R and T share: the engine, the prompts, and how verdicts become rows."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self._prompts = Prompts(settings.prompts)
        self._engine = open_engine(settings)

    def _render(self, variable: str, question: Mapping[str, Any], **values: Any) -> str:
        name = f"{variable}_{question.get('shape') or 'open'}"
        return self._prompts.render(name, variable, question=one_line(question["question"]), **values)

    def _verdicts(self, items: Sequence[_Item]) -> pa.Table:
        limit = self._settings.max_prompt_tokens
        prompts = [item.prompt for item in items if item.prompt is not None]
        lengths = dict(zip(prompts, self._engine.count_tokens(prompts), strict=True))
        asked = [prompt for prompt in prompts if lengths[prompt] <= limit]
        completions = dict(zip(asked, self._engine.complete(asked, self._settings.sampling), strict=True))
        rows = []
        for item in items:
            if item.prompt is None:
                rows.append(_row(item.question_id, NOT_ASKED, error=item.error))
            elif item.prompt not in completions:
                tokens = lengths[item.prompt]
                rows.append(_row(item.question_id, ERROR, error=f"prompt too long: {tokens} tokens, limit {limit}"))
            else:
                rows.append(_judged(item.question_id, completions[item.prompt]))
        return pa.Table.from_pylist(rows, schema=tables.VERDICTS)


def _judged(question_id: str, completion: Completion) -> dict[str, Any]:
    if completion.text is None:
        return _row(question_id, ERROR, error=completion.error)
    verdict = parse_verdict(completion.text)
    return _row(question_id, UNPARSED if verdict is None else OK, verdict, completion.text)


def _row(
    question_id: str, status: str, verdict: int | None = None, raw: str | None = None, error: str | None = None
) -> dict[str, Any]:
    return {"question_id": question_id, "verdict": verdict, "raw": raw, "status": status, "error": error}


class JudgeR(_Judge):
    """Judges whether the context holds what the question needs. inputs: passages."""

    def __init__(self, settings: JudgeSettings, inputs: Mapping[str, PassageInput]) -> None:
        super().__init__(settings)
        self._passages = Passages(inputs["passages"])

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        """rows: questions and contexts (question_id, context_ids, optionally error), aligned. Returns tables.VERDICTS.

        A row without context_ids, because it failed before, is not asked and carries its error.
        """
        questions, contexts = rows["questions"].to_pylist(), rows["contexts"].to_pylist()
        return self._verdicts([self._item(*pair) for pair in zip(questions, contexts, strict=True)])

    def _item(self, question: dict[str, Any], context: dict[str, Any]) -> _Item:
        if context.get("error") or context["context_ids"] is None:
            return _Item(question["question_id"], None, context.get("error"))
        passages = self._passages.numbered(context["context_ids"])
        return _Item(question["question_id"], self._render("r", question, passages=passages))


class JudgeT(_Judge):
    """Judges whether an answer agrees with the accepted answers. inputs: none."""

    def __init__(self, settings: JudgeSettings, inputs: Mapping[str, PassageInput]) -> None:
        super().__init__(settings)

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        """rows: questions and answers, aligned. Returns tables.VERDICTS.

        Not asked: abstentions (T is not defined), failed rows (their error is carried), questions without answers.
        """
        questions, answers = rows["questions"].to_pylist(), rows["answers"].to_pylist()
        return self._verdicts([self._item(*pair) for pair in zip(questions, answers, strict=True)])

    def _item(self, question: dict[str, Any], row: dict[str, Any]) -> _Item:
        if row["error"] or row["answer"] is None or not question["answers"]:
            return _Item(question["question_id"], None, row["error"])
        if abstention_label(row["answer"], self._settings.abstention_phrase) == 1:
            return _Item(question["question_id"], None)
        answers = [one_line(answer) for answer in question["answers"]]
        return _Item(
            question["question_id"], self._render("t", question, answers=answers, answer=one_line(row["answer"]))
        )
