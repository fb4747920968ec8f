"""The first prompts of a job, for `dry_run=true`: no engine is opened, no model loaded, no network used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rat_ray.annotate.judge import JudgeSettings, placeholders
from rat_ray.generate.engine import CHAT, Prompt
from rat_ray.generate.prompts import FALLBACK_SHAPE, PromptPassage, Prompts, one_line
from rat_ray.generate.worker import GeneratorPrompts, GeneratorSettings

_MOST_PASSAGES = 5  # placeholders that are shown


class Example(NamedTuple):
    """A real question to show. passages: their titles and texts in rank order, where they are known already (None:
    placeholders are shown). answers: the accepted ones.
    """

    question: str
    shape: str | None = None
    passages: Sequence[tuple[str | None, str]] | None = None
    answers: Sequence[str] = ()


def first_prompts(
    generators: Mapping[str, GeneratorSettings],
    judges: Sequence[JudgeSettings],
    shapes: Sequence[str],
    example: Example | None = None,
) -> list[tuple[str, str]]:
    """A heading and the text of the first prompt of every generator and every variable of the judges, for each template
    that questions of these shapes take; with the example for its shape, and placeholders elsewhere.

    generators, judges: resolved, that is with the texts of their prompts. In mode chat both messages are shown as they
    are handed to the model's own chat template, which is not. No passage is left out here for the token budget.
    Raises InputError for a bad template, as the job itself would.
    """
    asked: list[str | None] = [*shapes] or [None]
    if example is not None and example.shape not in asked:
        asked.append(example.shape)
    found = []
    for name, generator in generators.items():
        found += _of_generator(name, generator, asked, example)
    for judge in judges:
        for variable in judge.variables:
            found += _of_judge(judge, variable, asked, example)
    return found


def _of_generator(
    name: str, settings: GeneratorSettings, shapes: Sequence[str | None], example: Example | None
) -> list[tuple[str, str]]:
    prompts = GeneratorPrompts(settings)
    found = []
    for template, shown in _templates(prompts.chosen, shapes, example).items():
        question, passages = _question(shown), _passages(shown, settings.passages)
        heading = f"generator {name}, prompt {settings.prompt}/{template}, mode {settings.mode}"
        heading += f", at most {settings.passages} passages and {settings.max_prompt_tokens} tokens"
        found.append((heading, _text(prompts(question, template, passages), settings.mode)))
    return found


def _of_judge(
    judge: JudgeSettings, variable: str, shapes: Sequence[str | None], example: Example | None
) -> list[tuple[str, str]]:
    prompts = Prompts(judge.one(variable).prompts, judge.prompt)

    def chosen(shape: str | None) -> str:
        return prompts.chosen(f"{variable}_{shape or FALLBACK_SHAPE}", variable)

    found = []
    for template, shown in _templates(chosen, shapes, example).items():
        values: dict[str, Any] = placeholders(variable)
        if shown is not None and shown.answers and "answers" in values:
            values["answers"] = [one_line(answer) for answer in shown.answers]
        if shown is not None and shown.passages is not None and "passages" in values:
            values["passages"] = _passages(shown, len(shown.passages))
        prompt = prompts.prompt(template, question=one_line(_question(shown)), **values)
        heading = f"judge {variable}@{judge.name}, prompt {judge.prompt}/{template}, mode {judge.mode}"
        found.append((heading, _text(prompt, judge.mode)))
    return found


def _templates(
    chosen: Callable[[str | None], str], shapes: Sequence[str | None], example: Example | None
) -> dict[str, Example | None]:
    """Which templates the shapes take, each once, and the example where it goes."""
    found: dict[str, Example | None] = {chosen(shape): None for shape in shapes}
    if example is not None:
        found[chosen(example.shape)] = example
    return found


def _question(example: Example | None) -> str:
    return "«question»" if example is None else example.question


def _passages(example: Example | None, most: int) -> list[PromptPassage]:
    if example is not None and example.passages is not None:
        given = enumerate(example.passages[:most], 1)
        return [PromptPassage(number, one_line(title), one_line(text)) for number, (title, text) in given]
    numbers = range(1, min(most, _MOST_PASSAGES) + 1)
    return [PromptPassage(i, f"«title of passage {i}»", f"«text of passage {i}»") for i in numbers]


def _text(prompt: Prompt, mode: str) -> str:
    if mode != CHAT:
        return prompt.whole
    system = f"system:\n{prompt.system}\n\n" if prompt.system else ""
    return f"{system}user:\n{prompt.text}"
