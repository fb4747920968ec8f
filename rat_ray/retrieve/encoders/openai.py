"""Any server with OpenAI's embeddings API: vLLM's `vllm serve`, text-embeddings-inference, llama.cpp, OpenAI itself.

The openai package retries what may pass (429, 5xx, timeouts, lost connections), waiting longer each time or as long as
the server asks. The key comes from an environment variable and goes nowhere but into the request.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import numpy as np

from rat_ray.errors import InputError, MissingExtraError, StageError, did_you_mean
from rat_ray.retrieve.encoders.encoder import Vectors, by_length, check_dim, finished, with_text
from rat_ray.retrieve.encoders.settings import EncoderSettings

_NO_KEY: Final = "none"  # the package insists on one; servers without keys do not look at it
_RETRIES_OF_A_LOOK: Final = 2  # while a person waits for the job to begin


class _Served(NamedTuple):
    """name: what requests call the model. identity: that, with what the server says is behind it."""

    name: str
    identity: str


class ServerEncoder:
    """Batches of like length, `concurrency` requests at a time; rows keep their order."""

    def __init__(self, settings: EncoderSettings) -> None:
        self._settings = settings
        self._server = _Server(settings, settings.retries)
        self._model = self._server.served().name
        [probe] = self._embed(["dimension"])
        self.dim = check_dim(len(probe), settings.dim, settings.shorten)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts, self._settings.passage_prefix or "")

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts, self._settings.query_prefix or "")

    def _encode(self, texts: Sequence[str], prefix: str) -> Vectors:
        return with_text(texts, self.dim, lambda filled: self._all([prefix + text for text in filled]))

    def _all(self, texts: list[str]) -> Vectors:
        batches = by_length(texts, self._settings.batch)
        vectors: Vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        executor = ThreadPoolExecutor(self._settings.concurrency)
        try:
            asked = executor.map(lambda rows: self._embed([texts[row] for row in rows]), batches)
            for rows, found in zip(batches, asked, strict=True):
                vectors[rows] = self._checked(found)
        finally:
            executor.shutdown(cancel_futures=True)
        return vectors

    def _checked(self, found: list[Vectors]) -> Vectors:
        own = {len(vector) for vector in found}
        wrong = min(own) < self.dim if self._settings.shorten else own != {self.dim}
        if wrong:
            raise StageError(f"{self._server}: vectors of {sorted(own)} numbers, expected {self.dim}")
        return finished(np.stack(found), self.dim, self._settings.normalise)

    def _embed(self, texts: list[str]) -> list[Vectors]:
        vectors = self._server.embed(self._model, texts, self._settings.max_tokens)
        if not all(np.isfinite(vector).all() for vector in vectors):
            raise StageError(f"{self._server}: vectors that are no numbers")
        return vectors


def reported_model(settings: EncoderSettings) -> str:
    """What the server says it serves. Raises InputError where it cannot be asked or serves something else."""
    return _Server(settings, min(settings.retries, _RETRIES_OF_A_LOOK)).served().identity


class _Server:
    """One client for all threads; every error of the package becomes one of ours, without the key."""

    def __init__(self, settings: EncoderSettings, retries: int) -> None:
        self._openai = _openai()
        self._url = settings.url
        self._name = settings.model
        self._variable = settings.key_variable
        self._retries = retries
        self._key = _key(settings.key_variable)
        self._client = self._openai.OpenAI(
            base_url=settings.url,
            api_key=self._key or _NO_KEY,
            # Not from OPENAI_… variables, which may be meant for another server.
            organization="",
            project="",
            timeout=settings.timeout,
            max_retries=retries,
        )

    def __str__(self) -> str:
        return f"encoder.url={self._url}"

    def served(self) -> _Served:
        """The model that requests are for."""
        try:
            models = {model.id: model for model in self._client.models.list()}
        except self._openai.NotFoundError:
            return self._unlisted()
        except self._openai.APIStatusError as error:
            raise self._error(error) from None
        except self._openai.OpenAIError as error:
            raise InputError(f"{self}: no server answers there ({self._reason(error)})") from None
        name = self._name or (next(iter(models)) if len(models) == 1 else "")
        if not name:
            raise InputError(
                f"encoder.model: must be given, {self._url} serves {', '.join(sorted(models)) or 'nothing'}"
            )
        if name not in models:
            raise InputError(f"encoder.model={name!r}: {self._url} does not serve it{did_you_mean(name, models)}")
        behind = getattr(models[name], "root", None)  # vLLM's: the weights that it loaded
        return _Served(name, f"served:{name}" + (f" from {behind}" if behind and behind != name else ""))

    def embed(self, model: str, texts: list[str], max_tokens: int) -> list[Vectors]:
        """One vector per text, in their order."""
        more = {"extra_body": {"truncate_prompt_tokens": max_tokens}} if max_tokens else {}
        try:
            reply = self._client.embeddings.create(model=model, input=texts, encoding_format="base64", **more)
        except self._openai.OpenAIError as error:
            raise self._error(error) from None
        rows = {item.index: item.embedding for item in reply.data or []}
        if len(reply.data or []) != len(texts) or sorted(rows) != list(range(len(texts))):
            raise StageError(f"{self}: {len(texts)} texts were sent, {len(reply.data or [])} vectors came back")
        return [_numbers(rows[position]) for position in range(len(texts))]

    def _unlisted(self) -> _Served:
        """For a server that does not list its models."""
        if not self._name:
            raise InputError(f"encoder.model: must be given, {self._url} does not list its models")
        return _Served(self._name, f"served:{self._name}")

    def _error(self, error: Any) -> InputError | StageError:
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            given = f"the key in ${self._variable}" if self._variable else "requests without a key (see key_variable)"
            return InputError(f"{self}: the server refuses {given} (HTTP {status})")
        if status is not None and status < 500 and status not in (408, 409, 429):
            return InputError(f"{self}: the server refuses the request ({self._reason(error)})")
        return StageError(f"{self}: no answer after {self._retries + 1} tries ({self._reason(error)})")

    def _reason(self, error: Any) -> str:
        text = " ".join(str(error).split()) or type(error).__name__
        if self._key:
            text = text.replace(self._key, "***")
        return text[:300]


def _numbers(embedding: Any) -> Vectors:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding), dtype="<f4")
    return np.asarray(embedding, dtype=np.float32)


def _key(variable: str) -> str:
    if not variable:
        return ""
    key = os.environ.get(variable, "")
    if not key:
        raise InputError(f"encoder.key_variable={variable!r}: no such environment variable here, or it is empty")
    return key


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise MissingExtraError("openai", "openai") from error
    return openai
