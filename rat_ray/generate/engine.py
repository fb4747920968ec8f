"""What every language-model backend offers, whoever asks it: a generator or a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rat_ray.errors import InputError


@dataclass(frozen=True)
class EngineSettings:
    """Which model runs, and how. Generators and judges extend it, so that equal engines are loaded once per process.

    model: a packaged model's name (`gemma3_270m`); model_path: any GGUF file instead. model_revision is filled by
    `generate.resolve` and identifies the model's content. threads: 0 for all cores. slots: prompts in work at once.
    n_ctx: tokens per slot, prompt and output together.
    """

    kind: str = "llama_cpp"
    model: str = "gemma3_270m"
    model_path: str | None = None
    model_revision: str = ""
    threads: int = 0
    slots: int = 2
    n_ctx: int = 1536

    def validate(self) -> None:
        """Raise InputError for values that no engine can run with."""
        if not self.model and not self.model_path:
            raise InputError("neither model nor model_path is set; name one, e.g. model: gemma3_270m")
        for name, value, low in [("threads", self.threads, 0), ("slots", self.slots, 1), ("n_ctx", self.n_ctx, 64)]:
            if value < low:
                raise InputError(f"{name} is {value}; it must be at least {low}")

    @property
    def engine(self) -> EngineSettings:
        """Only the engine's part, by which engines are shared within a process."""
        return EngineSettings(
            self.kind, self.model, self.model_path, self.model_revision, self.threads, self.slots, self.n_ctx
        )


@dataclass(frozen=True)
class Sampling:
    """How one completion is drawn. temperature 0 is greedy; max_tokens counts output tokens."""

    max_tokens: int = 24
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ("\n",)


class Completion(NamedTuple):
    """One prompt's result. text is None exactly where error says why; token counts are None where unknown."""

    text: str | None
    finish_reason: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    error: str | None


class Engine(Protocol):
    """A loaded model."""

    def complete(self, prompts: Sequence[str], sampling: Sampling) -> list[Completion]:
        """One completion per prompt, in order. A prompt that fails carries its error; the others are not affected."""
        ...

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        """How many tokens each prompt takes, the start token included."""
        ...

    def close(self) -> None:
        """Free the model."""
        ...
