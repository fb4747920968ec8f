"""How many passages fit: by few counts what adding them one by one would give."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from rat_ray.generate import Completion, Prompt, Sampling
from rat_ray.generate.passages import Draft, FittedPrompt, fit_prompts
from rat_ray.generate.prompts import PromptPassage


class CountingEngine:
    """A word is a token, and every prompt has three more, as from a chat template."""

    def __init__(self) -> None:
        self.calls: list[list[Prompt]] = []

    def complete(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        raise NotImplementedError

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int]:
        self.calls.append(list(prompts))
        return [self.tokens(prompt) for prompt in prompts]

    def tokens(self, prompt: Prompt) -> int:
        return len(prompt.whole.split()) + 3

    def close(self) -> None:
        pass


def draft(question: str, *texts: str) -> Draft:
    passages = [PromptPassage(i, "", text) for i, text in enumerate(texts, 1)]
    return Draft(lambda given: Prompt(" ".join([*(p.text for p in given), question])), passages)


def one_by_one(given: Draft, engine: CountingEngine, limit: int) -> FittedPrompt:
    """The definition."""
    tokens = engine.tokens(given.render([]))
    if tokens > limit:
        return FittedPrompt(
            None, 0, f"prompt too long: {tokens} tokens without any passage, max_prompt_tokens is {limit}"
        )
    count = 0
    while count < len(given.passages) and engine.tokens(given.render(given.passages[: count + 1])) <= limit:
        count += 1
    return FittedPrompt(given.render(given.passages[:count]), count, None)


@pytest.mark.parametrize("seed", range(20))
def test_the_same_as_adding_one_by_one(seed: int) -> None:
    random_of = random.Random(seed)
    engine = CountingEngine()
    word = random_of.choice(["a ", "an ", "extraordinarily "])

    def text() -> str:
        return random_of.choice([word, "o "]) * random_of.choice([0, 1, 2, 5, 10, 40, 200])

    drafts = [draft(text(), *(text() for _ in range(random_of.randrange(12)))) for _ in range(60)]
    limit = random_of.choice([16, 50, 100, 300])
    fitted = fit_prompts(drafts, engine, limit)
    assert fitted == [one_by_one(given, CountingEngine(), limit) for given in drafts]
    assert len(engine.calls) <= 2 + 4  # all, about the guess, and halving up to 11 passages


def test_prompts_that_fit_are_counted_once() -> None:
    engine = CountingEngine()
    drafts = [draft("who", *["a b c"] * 5) for _ in range(100)]
    assert {row.passages for row in fit_prompts(drafts, engine, 100)} == {5}
    assert [len(call) for call in engine.calls] == [100]


def test_even_passages_need_one_more_call() -> None:
    engine = CountingEngine()
    drafts = [draft("who", *["aa bb cc"] * 50) for _ in range(100)]
    assert {row.passages for row in fit_prompts(drafts, engine, 100)} == {32}
    assert [len(call) for call in engine.calls] == [100, 200]


def test_a_passage_that_does_not_fit_is_not_skipped() -> None:
    engine = CountingEngine()
    (fitted,) = fit_prompts([draft("who", "a b", "c " * 50, "d")], engine, 16)
    assert fitted == FittedPrompt(Prompt("a b who"), 1, None)


def test_no_draft_no_call() -> None:
    engine = CountingEngine()
    assert fit_prompts([], engine, 16) == []
    assert engine.calls == []


def test_a_template_that_writes_less_with_passages_keeps_within_the_budget() -> None:
    """Outside the definition, but it must end, and no prompt may be too long."""
    engine = CountingEngine()

    def render(given: list[PromptPassage]) -> Prompt:
        return Prompt("w " * [30, 5, 40, 8, 50, 9, 60][len(given)])

    passages = [PromptPassage(i, "", "x" * 10 * i) for i in range(1, 7)]
    for most in range(7):
        (fitted,) = fit_prompts([Draft(render, passages[:most])], engine, 16)
        if fitted.prompt is not None:
            assert engine.tokens(fitted.prompt) <= 16
        else:
            assert "too long" in str(fitted.error)
