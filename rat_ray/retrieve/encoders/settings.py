"""Which encoder, and how it is asked: the settings behind `encoder:` in conf/retriever/dense*.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from rat_ray.errors import InputError, did_you_mean, masked
from rat_ray.weights import check_weights

POOLINGS: Final = ("model", "mean", "cls", "last")
DTYPES: Final = ("float32", "bfloat16", "float16")
_SERVERS: Final = {"url": "", "key_variable": ""}
# Settings that a kind knows nothing of, and the only value that they may have then: said, not passed over.
_UNUSED: Final[Mapping[str, Mapping[str, Any]]] = {
    "wordllama": {
        "model": "",
        "commit": "",
        "pooling": "model",
        "dtype": "float32",
        "max_tokens": 0,
        "device": "",
        **_SERVERS,
    },
    "sentence-transformers": _SERVERS,
    "openai": {"commit": "", "pooling": "model", "dtype": "float32", "device": ""},
    "vllm": {"device": "", "normalise": True, **_SERVERS},
}
KINDS: Final = tuple(_UNUSED)


@dataclass(frozen=True)
class EncoderSettings:
    """What turns texts into vectors. Fields outside the key say where and how fast; `encoders.key` adds the weights'.

    kind: wordllama | sentence-transformers | openai (any server with OpenAI's embeddings API) | vllm (in process).
    model: a folder or a hub name; for a server the name that it serves, "" where it serves one; not for wordllama.
    commit: of a hub model, or a branch or tag; "": main. dim: numbers per vector; 0: the model's own (wordllama: 256).
    shorten: allow a dim below the model's own: its first numbers, for models trained for that (Matryoshka).
    query_prefix, passage_prefix: put before each text; None: the model's own prompts, where it has any.
    pooling: model (as the model says) | mean | cls | last. normalise: scale to length 1. dtype: of the weights.
    max_tokens: where longer texts are cut; 0: as the model says. batch: texts at once. device: "": a GPU if there is
    one, else the CPU. url: of the server, up to /v1. key_variable: the environment variable that holds its key, "" for
    a server without one. concurrency: requests at once. timeout: seconds per request. retries: of one request.
    """

    kind: str = "wordllama"
    # Outside the key: a model is known by its weights, wherever they lie.
    model: str = field(default="", metadata={"key": False})
    commit: str = field(default="", metadata={"key": False})
    dim: int = 0
    shorten: bool = field(default=False, metadata={"key": False})  # without it a shorter dim is an error
    query_prefix: str | None = None
    passage_prefix: str | None = None
    pooling: str = "model"
    normalise: bool = True
    dtype: str = "float32"
    max_tokens: int = 0
    batch: int = field(default=64, metadata={"key": False})
    device: str = field(default="", metadata={"key": False})
    url: str = field(default="", metadata={"key": False})
    key_variable: str = field(default="", metadata={"key": False})
    concurrency: int = field(default=4, metadata={"key": False})
    timeout: float = field(default=60.0, metadata={"key": False})
    retries: int = field(default=6, metadata={"key": False})
    # Filled by `encoders.resolve`: workers must find just these weights. `encoders.key` holds it in any case.
    identity: str = field(default="", metadata={"key": False, "user": False})

    def validate(self) -> None:
        """Raises InputError for values that cannot work, and for a model folder that does not exist. Loads nothing."""
        for name, value, known in (
            ("kind", self.kind, KINDS),
            ("pooling", self.pooling, POOLINGS),
            ("dtype", self.dtype, DTYPES),
        ):
            if value not in known:
                raise InputError(f"encoder.{name}={value!r}: unknown{did_you_mean(value, known)}")
        least = {"dim": 0, "max_tokens": 0, "batch": 1, "concurrency": 1, "retries": 0, "timeout": 0.001}
        for name, low in least.items():
            if not low <= getattr(self, name) < float("inf"):
                raise InputError(f"encoder.{name}={getattr(self, name)}: must be at least {low:g}")
        self._check_kind()

    def _check_kind(self) -> None:
        for name, only in _UNUSED[self.kind].items():
            if getattr(self, name) != only:
                raise InputError(f"encoder.{name}={_shown(getattr(self, name))}: kind {self.kind} has no such choice")
        if self.kind == "openai":
            return _check_url(self.url)
        if self.kind == "wordllama":
            if self.dim not in (0, 64, 128, 256):
                raise InputError(f"encoder.dim={self.dim}: wordllama has 64, 128 and 256")
            return None
        return check_weights("encoder.model", self.model, self.commit)


def _shown(value: Any) -> str:
    return repr(masked(value) if isinstance(value, str) else value)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"encoder.url={masked(url)!r}: give the server's address, e.g. http://localhost:8000/v1")
    if parts.username or parts.password:
        raise InputError(
            f"encoder.url={masked(url)!r}: put no key into the address; name its environment variable in key_variable"
        )
