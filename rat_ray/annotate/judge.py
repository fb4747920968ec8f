"""A language model as judge of R, A or T: one yes/no verdict per item; one that cannot be read is missing."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.annotate.abstention import Refusals, abstention_label
from rat_ray.annotate.verdicts import FORMATS, JSON, LEAST_TOKENS, WORD, parse_verdict, schema
from rat_ray.errors import InputError, did_you_mean
from rat_ray.generate import open_engine
from rat_ray.generate.engine import Completion, Prompt, PromptedSettings, Sampling
from rat_ray.generate.passages import PassageInput, Passages
from rat_ray.generate.prompts import FALLBACK_SHAPE, SYSTEM, PromptPassage, Prompts, one_line

UNKNOWN = "unknown"  # in place of a shape: the template for questions whose right answers nobody wrote down
OK, UNPARSED, NOT_ASKED, ERROR = "ok", "unparsed", "not_asked", "error"
VARIABLES = ("r", "a", "t")
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")


@dataclass(frozen=True)
class JudgeSettings(PromptedSettings):
    """A judge: the model, its prompt set and the format of its verdicts (see `verdicts`).

    The set holds `r.jinja`, `a.jinja`, `t.jinja`, perhaps some per shape (`t_claim.jinja`), and perhaps `system.jinja`.
    name: the sources are `r@NAME`, `a@NAME`, `t@NAME`. samples: so many verdicts per item, drawn at temperature, each
    in a column of its own: `t@NAME.1`, `t@NAME.2`, …; the first is what a judge of one sample says, so that more
    samples later cost only their own calls. abstention_phrase, refusals (a digest) and refusal_text (the forms): by
    which abstentions are known, for T only (they are not judged); empty for R and A, so that one verdict serves every
    generator with the same context or answer.
    """

    name: str = field(default="local", metadata={"key": False})  # equal judges share their verdicts
    variables: tuple[str, ...] = ("r", "t")
    prompt: str = field(default="judge", metadata={"key": False})
    format: str = WORD
    samples: int = 1
    max_tokens: int = 3
    abstention_phrase: str = field(default="", metadata={"user": False})
    refusals: str = field(default="", metadata={"user": False})
    refusal_text: str = field(default="", metadata={"key": False, "user": False})
    # The context was cut to the generator's budget before; a judge gets it whole or gives no verdict.
    passages: int = field(default=0, metadata={"key": False, "user": False})

    def validate(self) -> None:
        """Raise InputError for values that cannot work, alone or together."""
        super().validate()
        if not _NAME.fullmatch(self.name):
            raise InputError(
                f"judge name {self.name!r} must be made of letters, digits, '_', '-', and single '.' between them"
            )
        for variable in self.variables:
            if variable not in VARIABLES:
                raise InputError(f"judge variables: {variable!r} is unknown; a judge labels r, a or t")
        if len(set(self.variables)) < len(self.variables):
            raise InputError(f"judge variables {list(self.variables)} name one of them twice")
        if self.format not in FORMATS:
            raise InputError(f"judge format={self.format!r}: unknown{did_you_mean(self.format, FORMATS)}")
        self._check_output()

    def _check_output(self) -> None:
        if self.samples < 1:
            raise InputError(f"judge samples is {self.samples}; it must be at least 1")
        if self.samples > 1 and not self.temperature > 0:
            raise InputError(
                f"judge samples={self.samples} at temperature 0 would all be the same; set temperature: 0.7, say"
            )
        least = LEAST_TOKENS[self.format]
        if self.max_tokens < least:
            raise InputError(
                f"judge max_tokens is {self.max_tokens}; a verdict of format {self.format} needs at least {least}"
            )
        blank = [stop for stop in self.stops if not stop.strip()]
        if self.format == JSON and blank:
            raise InputError(f"judge stop={blank!r} would cut JSON, which may hold it; leave stop out")

    @property
    def stops(self) -> tuple[str, ...]:
        """What ends the output: by default as with generators, but nothing in format json."""
        return () if self.stop is None and self.format == JSON else super().stops

    @property
    def sources(self) -> list[str]:
        """The columns that this judge fills, such as `r@local`, or `r@local.1`, `r@local.2`."""
        return [f"{variable}@{name}" for variable in self.variables for name in self._names]

    @property
    def _names(self) -> list[str]:
        return [self.name] if self.samples == 1 else [f"{self.name}.{k}" for k in range(1, self.samples + 1)]

    def one(self, variable: str, sample: int = 1) -> JudgeSettings:
        """The settings of one verdict table, the sample-th of this variable, counted from 1.

        They hold only what decides it, so that another variable, prompt or number of samples redoes nothing else.
        Raises InputError when the prompt set has no template for the variable; ValueError for a sample that is not.
        """
        if not 1 <= sample <= self.samples:
            raise ValueError(f"sample {sample} of {self.samples}: they are counted from 1")
        templates = {name: text for name, text in self.prompts.items() if name.partition("_")[0] == variable}
        if self.prompts and variable not in templates:
            raise InputError(
                f"judge {self.name}: prompt set {self.prompt!r} has no {variable}.jinja; "
                f"write one, or leave {variable} out of variables"
            )
        if SYSTEM in self.prompts:
            templates[SYSTEM] = self.prompts[SYSTEM]
        made = dataclasses.replace(
            self,
            name=self._names[sample - 1],
            variables=(variable,),
            prompts=templates,
            samples=1,
            seed=self.seed + sample - 1,
        )
        if variable == "t":
            return made
        return dataclasses.replace(made, abstention_phrase="", refusals="", refusal_text="")


class _Item(NamedTuple):
    """One row to judge: its prompt, or None and the error of the row (None: there is nothing to judge)."""

    question_id: str
    prompt: Prompt | None
    error: str | None = None


class _Judge:
    """What the judges share: the engine, the prompts, and how verdicts become rows. Threads may call one at once.

    Raises InputError when a template uses a variable that there is not.
    """

    variable: ClassVar[str]

    def __init__(self, settings: JudgeSettings, inputs: Mapping[str, PassageInput]) -> None:
        self._settings = settings
        self._prompts = Prompts(settings.prompts, settings.prompt)
        self._check_templates()
        self._engine = open_engine(settings)

    def _check_templates(self) -> None:
        """A bad template fails here, once, rather than in every row."""
        own = f"{self.variable}_"
        for shape in ["", *(name.removeprefix(own) for name in self._prompts.names if name.startswith(own))]:
            self._prompt({"question": "«question»", "shape": shape}, **placeholders(self.variable))

    def _prompt(self, question: Mapping[str, Any], **values: Any) -> Prompt:
        name = f"{self.variable}_{question.get('shape') or FALLBACK_SHAPE}"
        return self._prompts.prompt(name, self.variable, question=one_line(question["question"]), **values)

    def _sampling(self) -> Sampling:
        sampling = self._settings.sampling
        if self._settings.format != JSON:
            return sampling
        return dataclasses.replace(sampling, schema=schema(self.variable))

    def _verdicts(self, items: Sequence[_Item]) -> pa.Table:
        limit = self._settings.max_prompt_tokens
        prompts = [item.prompt for item in items if item.prompt is not None]
        lengths = self._engine.count_tokens(prompts) if prompts else []
        asked = [prompt for prompt, tokens in zip(prompts, lengths, strict=True) if tokens <= limit]
        completions = iter(self._engine.complete(asked, self._sampling()) if asked else [])
        tokens_of = iter(lengths)
        rows = []
        for item in items:
            if item.prompt is None:
                rows.append(_row(item.question_id, NOT_ASKED, error=item.error))
            elif (tokens := next(tokens_of)) > limit:
                rows.append(_row(item.question_id, ERROR, error=f"prompt too long: {tokens} tokens, limit {limit}"))
            else:
                rows.append(self._judged(item.question_id, next(completions)))
        return pa.Table.from_pylist(rows, schema=tables.VERDICTS)

    def _judged(self, question_id: str, completion: Completion) -> dict[str, Any]:
        if completion.text is None:
            return _row(question_id, ERROR, completion=completion, error=completion.error)
        verdict = parse_verdict(
            completion.text, self._settings.format, completion.finish_reason, self.variable, completion.reasoning
        )
        return _row(question_id, UNPARSED if verdict is None else OK, verdict, completion)


def placeholders(variable: str) -> dict[str, Any]:
    """What templates of this variable are given besides `question`, with placeholders for values."""
    if variable == "r":
        return {"passages": [PromptPassage(1, "«title of passage 1»", "«text of passage 1»")]}
    if variable == "a":
        return {"answer": "«answer»"}
    return {"answers": ["«accepted answer»"], "answer": "«answer»"}


def _row(
    question_id: str,
    status: str,
    verdict: int | None = None,
    completion: Completion | None = None,
    error: str | None = None,
) -> dict[str, Any]:
    row = {"question_id": question_id, "verdict": verdict, "status": status, "error": error}
    if completion is None:
        return row
    return row | {
        "raw": completion.text,
        "finish_reason": completion.finish_reason,
        "prompt_tokens": completion.prompt_tokens,
        "output_tokens": completion.output_tokens,
    }


class JudgeR(_Judge):
    """Judges whether the context holds what the question needs. inputs: passages."""

    variable = "r"

    def __init__(self, settings: JudgeSettings, inputs: Mapping[str, PassageInput]) -> None:
        super().__init__(settings, inputs)
        self._passages = Passages(inputs["passages"])

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        """rows: questions and contexts (question_id, context_ids, optionally error), aligned. Returns tables.VERDICTS.

        A row without context_ids (it failed before, or is of logs without contexts) is not asked and carries its error.
        """
        questions, contexts = rows["questions"].to_pylist(), rows["contexts"].to_pylist()
        return self._verdicts([self._item(*pair) for pair in zip(questions, contexts, strict=True)])

    def _item(self, question: dict[str, Any], context: dict[str, Any]) -> _Item:
        if context.get("error") or context["context_ids"] is None:
            return _Item(question["question_id"], None, context.get("error"))
        passages = self._passages.numbered(context["context_ids"])
        return _Item(question["question_id"], self._prompt(question, passages=passages))


class _JudgeOfAnswers(_Judge):
    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        """rows: questions and answers, aligned. Returns tables.VERDICTS."""
        questions, answers = rows["questions"].to_pylist(), rows["answers"].to_pylist()
        return self._verdicts([self._item(*pair) for pair in zip(questions, answers, strict=True)])

    def _item(self, question: dict[str, Any], row: dict[str, Any]) -> _Item:
        if row["error"] or row["answer"] is None:
            return _Item(question["question_id"], None, row["error"])
        return self._asked(question, row["answer"])

    def _asked(self, question: dict[str, Any], answer: str) -> _Item:
        raise NotImplementedError


class JudgeA(_JudgeOfAnswers):
    """Judges whether an answer declines to answer. Asked about every answer, an empty one too; failed rows are not
    asked and carry their error. inputs: none."""

    variable = "a"

    def _asked(self, question: dict[str, Any], answer: str) -> _Item:
        return _Item(question["question_id"], self._prompt(question, answer=one_line(answer)))


class JudgeT(_JudgeOfAnswers):
    """Judges whether an answer agrees with the accepted answers. inputs: none.

    Not asked: abstentions (T is not defined), failed rows (their error is carried), questions of which it is known that
    no answer is right, and those of unknown answers, unless the prompt set has `t_unknown.jinja` for these.
    """

    variable = "t"

    def __init__(self, settings: JudgeSettings, inputs: Mapping[str, PassageInput]) -> None:
        super().__init__(settings, inputs)
        self._refusals = Refusals.of(settings.refusal_text)

    def _asked(self, question: dict[str, Any], answer: str) -> _Item:
        if abstention_label(answer, self._settings.abstention_phrase, self._refusals) == 1:
            return _Item(question["question_id"], None)
        if question["answers"] is None and f"t_{UNKNOWN}" in self._prompts.names:
            asked = {**question, "shape": UNKNOWN}
            return _Item(question["question_id"], self._prompt(asked, answers=[], answer=one_line(answer)))
        if not question["answers"]:
            return _Item(question["question_id"], None)
        answers = [one_line(accepted) for accepted in question["answers"]]
        return _Item(question["question_id"], self._prompt(question, answers=answers, answer=one_line(answer)))


# The worker of each variable's verdicts.
WORKERS: Mapping[str, type[_Judge]] = {"r": JudgeR, "a": JudgeA, "t": JudgeT}
