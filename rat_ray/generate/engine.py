"""What every language-model backend offers, whoever asks it: a generator or a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple, Protocol

from rat_ray.errors import InputError


@dataclass(frozen=True)
class EngineSettings:
    """Which model runs, and how. Generators and judges extend it, so that equal engines are loaded once per process.

    model: a packaged model's name (`gemma3_270m`); model_path: any GGUF file instead. model_revision is filled by
    `generate.resolve` and identifies the model's content. threads: 0 for all cores. slots: sequences kept, so that
    as many different beginnings of prompts are remembered. concurrency: prompts in work at once, at most slots.
    n_ctx: tokens per slot, prompt and output together.
    """

    kind: str = "llama_cpp"
    model: str = "gemma3_270m"
    # Outside the stage's key: the revision says what the model is, the others only where and how fast it runs.
    model_path: str | None = field(default=None, metadata={"key": False})
    model_revision: str = field(default="", metadata={"user": False})
    threads: int = field(default=0, metadata={"key": False})
    slots: int = field(default=4, metadata={"key": False})
    concurrency: int = field(default=1, metadata={"key": False})
    n_ctx: int = 1536

    def validate(self) -> None:
        """Raise InputError for values that no engine can run with."""
        if not self.model and not self.model_path:
            raise InputError("neither model nor model_path is set; name one, e.g. model: gemma3_270m")
        for name, low in [("threads", 0), ("slots", 1), ("concurrency", 1), ("n_ctx", 64)]:
            if getattr(self, name) < low:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least {low}")
        if self.concurrency > self.slots:
            raise InputError(f"concurrency is {self.concurrency}; it must be at most slots, {self.slots}")

    @property
    def engine(self) -> EngineSettings:
        """Only the engine's part, by which engines are shared within a process."""
        return EngineSettings(**{f.name: getattr(self, f.name) for f in fields(EngineSettings)})


@dataclass(frozen=True)
class Sampling:
    """How one completion is drawn. temperature 0 is greedy; max_tokens counts output tokens."""

    max_tokens: int = 24
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ("\n",)


@dataclass(frozen=True)
class PromptedSettings(EngineSettings):
    """An engine with a prompt set and sampling: what generators and judges have in common.

    prompt: the set's name; prompts: its templates' text by shape, filled by `generate.resolve`.
    passages: at most so many, in rank order, while the prompt keeps within max_prompt_tokens.
    """

    prompt: str = field(default="", metadata={"key": False})  # its text, not its name, is what counts
    prompts: dict[str, str] = field(default_factory=dict)
    passages: int = 3
    max_prompt_tokens: int = 1400
    max_tokens: int = 24
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ("\n",)

    def validate(self) -> None:
        """Raise InputError for values that cannot work, alone or together."""
        super().validate()
        if not self.prompt:
            raise InputError("prompt is not set; name a folder of conf/prompt, e.g. prompt: policy")
        for name, low in [("passages", 0), ("max_prompt_tokens", 16), ("max_tokens", 1), ("temperature", 0)]:
            if not low <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least {low}")
        if self.max_prompt_tokens + self.max_tokens > self.n_ctx:
            raise InputError(
                f"max_prompt_tokens {self.max_prompt_tokens} + max_tokens {self.max_tokens} exceed n_ctx {self.n_ctx}; "
                f"raise n_ctx or lower one of them"
            )

    @property
    def sampling(self) -> Sampling:
        """The sampling part, for the engine."""
        return Sampling(self.max_tokens, self.temperature, self.seed, tuple(self.stop))


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
