"""What every language-model backend offers, whoever asks it: a generator or a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol

from rat_ray.errors import InputError, did_you_mean
from rat_ray.generate.server_settings import ServerSettings
from rat_ray.generate.vllm_settings import VllmSettings

COMPLETION, CHAT = "completion", "chat"
MODES = (COMPLETION, CHAT)


class Prompt(NamedTuple):
    """What a model is asked. In mode chat text is the user's message and system the system's, if any; in mode
    completion the model goes on after system (where there is one), a blank line, and text.
    """

    text: str
    system: str = ""

    @property
    def whole(self) -> str:
        """Both parts as one text, for models without a chat template."""
        return f"{self.system}\n\n{self.text}" if self.system else self.text


@dataclass(frozen=True)
class EngineSettings:
    """Which model runs, and how. Generators and judges extend it, so that equal engines are loaded once per process.

    kind: a name of `generate.ENGINES`. model: a packaged GGUF model (`gemma3_270m`), a folder or hub name (vllm), or
    what a server calls it; model_path: any GGUF file instead. model_revision is filled before work starts and
    identifies the model's content. mode: completion, or chat with the model's chat template. chat_options: given to
    it (`enable_thinking: false`, say). n_ctx: tokens per sequence, prompt and output together; 0: the engine's.
    threads: 0 for all cores. slots: sequences that llama.cpp keeps, so that as many different beginnings of prompts are
    remembered. concurrency: prompts in work at once (0: as the engine likes). ranges: of rows that one worker has in
    work at once, so that an engine does not drain at the end of one (0: the kind's default).
    input_price, output_price: in USD per million tokens, for the summary of costs.
    """

    kind: str = "llama_cpp"
    model: str = "gemma3_270m"
    mode: str = COMPLETION
    chat_options: dict[str, Any] = field(default_factory=dict)
    n_ctx: int = 1536
    vllm: VllmSettings = VllmSettings()
    server: ServerSettings = ServerSettings()
    # Outside the stage's key: the revision says what the model is, the others only where and how fast it runs.
    model_path: str | None = field(default=None, metadata={"key": False})
    model_revision: str = field(default="", metadata={"user": False})
    threads: int = field(default=0, metadata={"key": False})
    slots: int = field(default=4, metadata={"key": False})
    concurrency: int = field(default=0, metadata={"key": False})
    ranges: int = field(default=0, metadata={"key": False})
    input_price: float = field(default=0.0, metadata={"key": False})
    output_price: float = field(default=0.0, metadata={"key": False})

    def validate(self) -> None:
        """Raise InputError for values that no engine can run with."""
        if not self.model and not self.model_path and not self.server.url:
            raise InputError("neither model nor model_path is set; name one, e.g. model: gemma3_270m")
        if self.mode not in MODES:
            raise InputError(f"mode={self.mode!r}: unknown{did_you_mean(self.mode, MODES)}")
        if self.kind == "openai":
            self.server.validate()
        lows: dict[str, float] = {"threads": 0, "slots": 1, "concurrency": 0, "ranges": 0, "n_ctx": 0}
        lows |= {"input_price": 0, "output_price": 0}
        for name, low in lows.items():
            if not low <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least {low:g}")
        if 0 < self.n_ctx < 64:
            raise InputError(f"n_ctx is {self.n_ctx}; it must be at least 64, or 0 for the engine's own")
        if self.kind == "llama_cpp" and self.concurrency > self.slots:
            raise InputError(f"concurrency is {self.concurrency}; it must be at most slots, {self.slots}")

    @property
    def engine(self) -> EngineSettings:
        """Only the engine's part, by which engines are shared within a process."""
        return EngineSettings(**{f.name: getattr(self, f.name) for f in fields(EngineSettings)})


@dataclass(frozen=True)
class Sampling:
    """How one completion is drawn. temperature 0 is greedy; max_tokens counts output tokens.

    schema: a JSON schema (its text) that the output must follow, where the engine can hold it to one; "": none.
    """

    max_tokens: int = 24
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ("\n",)
    schema: str = ""


@dataclass(frozen=True)
class PromptedSettings(EngineSettings):
    """An engine with a prompt set and sampling: what generators and judges have in common.

    prompt: the set's name; prompts: its templates' text by shape, filled by `generate.resolve`.
    passages: at most so many, in rank order, while the prompt keeps within max_prompt_tokens (as the engine counts
    them, chat template included). stop: what ends the output; None: a line break in mode completion, where a base model
    goes on to the next example, and nothing in mode chat, where the model ends its turn itself.
    """

    prompt: str = field(default="", metadata={"key": False})  # its text, not its name, is what counts
    prompts: dict[str, str] = field(default_factory=dict)
    passages: int = 3
    max_prompt_tokens: int = 1400
    max_tokens: int = 24
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] | None = None

    def validate(self) -> None:
        """Raise InputError for values that cannot work, alone or together."""
        super().validate()
        if not self.prompt:
            raise InputError("prompt is not set; name a folder of conf/prompt, e.g. prompt: policy")
        for name, low in [("passages", 0), ("max_prompt_tokens", 16), ("max_tokens", 1), ("temperature", 0)]:
            if not low <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least {low}")
        if "" in self.stops:
            raise InputError("stop holds an empty text; leave it out (stop: [] for none)")
        if r"\n" in self.stops:  # as quotes on the command line leave it
            raise InputError(
                "stop holds a backslash and an n, not a line break; in a shell write $'…stop=[\"\\n\"]', in a file "
                '"\\n"'
            )
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        if self.n_ctx and self.max_prompt_tokens + self.max_tokens > self.n_ctx:
            raise InputError(
                f"max_prompt_tokens {self.max_prompt_tokens} + max_tokens {self.max_tokens} exceed n_ctx {self.n_ctx}; "
                f"raise n_ctx or lower one of them"
            )

    @property
    def stops(self) -> tuple[str, ...]:
        """What ends the output, in this mode."""
        if self.stop is not None:
            return tuple(self.stop)
        return () if self.mode == CHAT else ("\n",)

    @property
    def sampling(self) -> Sampling:
        """The sampling part, for the engine."""
        return Sampling(self.max_tokens, self.temperature, self.top_p, self.seed, self.stops)


class Completion(NamedTuple):
    """One prompt's result. text is None exactly where error says why; token counts are None where unknown.

    text: as the model wrote it, what a server kept apart as its reasoning not included. reasoning: that.
    """

    text: str | None
    finish_reason: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    error: str | None
    reasoning: str | None = None


class Engine(Protocol):
    """A loaded model, or a server. All methods may be called by several threads at once."""

    def complete(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One completion per prompt, in order. A prompt that fails carries its error; the others are not affected.

        Raises: StageError or InputError only for what concerns all prompts (a server that refuses the key, say).
        """
        ...

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int]:
        """How many tokens each prompt takes, with the start token and whatever the chat template adds."""
        ...

    def close(self) -> None:
        """Free the model. Later calls of the other methods fail."""
        ...
