"""A cross-encoder reads question and passage together and sorts what one retriever found by its own score.

Beyond the paper: an option, so that its effect on R can be measured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from rat_ray.errors import InputError, StageError, did_you_mean
from rat_ray.retrieve.encoders.sentence_transformers import cannot_load, check_positions, library
from rat_ray.retrieve.encoders.settings import DTYPES
from rat_ray.retrieve.hits import check_at_least, passage_texts, rank, retrievals_table
from rat_ray.retrieve.steps import Step
from rat_ray.weights import check_identity, check_weights, identity_of, where

_BATCH: Final = 32


@dataclass(frozen=True)
class RerankSettings:
    """of: the retriever whose list is sorted anew, by name. top: how many of its passages are scored; the others are
    dropped, since scores of two kinds in one list could not be compared. depth: passages to keep, at most `top`.

    model: a folder or a hub name of a cross-encoder. commit: of a hub model, or a branch or tag; "": main.
    title: score the title with the text. max_tokens: where question and passage together are cut; 0: as the model
    says. dtype: of the weights. batch: pairs at once. device: "": a GPU if there is one, else the CPU.
    """

    kind: str = "rerank"
    of: str = "bm25"
    top: int = 20
    depth: int = 20
    model: str = field(default="", metadata={"key": False})
    commit: str = field(default="", metadata={"key": False})
    title: bool = True
    max_tokens: int = 0
    dtype: str = "float32"
    batch: int = field(default=_BATCH, metadata={"key": False})
    device: str = field(default="", metadata={"key": False})
    # Filled by `resolved`: what identifies the weights. It enters the key.
    identity: str = field(default="", metadata={"user": False})

    def validate(self) -> None:
        """Raises InputError for values that cannot work, and for a model folder that does not exist."""
        if not self.of:
            raise InputError("retriever.of: must be given: the retriever whose passages are sorted, e.g. of: bm25")
        for name in ("top", "depth", "batch"):
            check_at_least(f"retriever.{name}", getattr(self, name), 1)
        check_at_least("retriever.max_tokens", self.max_tokens, 0)
        if self.depth > self.top:
            raise InputError(f"retriever.depth={self.depth}: only the first {self.top} are scored; raise retriever.top")
        if self.dtype not in DTYPES:
            raise InputError(f"retriever.dtype={self.dtype!r}: unknown{did_you_mean(self.dtype, DTYPES)}")
        check_weights("retriever.model", self.model, self.commit)

    def parts(self) -> list[str]:
        """The retriever that must be done before."""
        return [self.of]

    def steps(self) -> tuple[Step, ...]:
        """None: it has no index."""
        return ()

    def search_inputs(self) -> tuple[str, ...]:
        """None."""
        return ()

    def resolved(self) -> RerankSettings:
        """With `identity` filled in: the stage's settings.

        Raises InputError where the model cannot be found, StageError where `identity` was filled in on a machine with
        other weights than this one.
        """
        found = self._find()
        check_identity("retriever.model", self.model, found, self.identity)
        return dataclasses.replace(self, identity=found)

    def _find(self) -> str:
        pinned = self.identity.removeprefix("commit:") if self.identity.startswith("commit:") else self.commit
        return identity_of("retriever.model", self.model, pinned)


class _Reads(Protocol):
    def read(self, columns: list[str] | None = None) -> pa.Table: ...


class _Pairs(NamedTuple):
    """What of one question is to be scored."""

    question: str
    passage_ids: list[str]


class RerankWorker:
    """Questions and their retrievals in, tables.RETRIEVALS out. inputs: passages, all that the lists name.

    Scores are the model's logits, one per pair: higher is better; comparable within a question. They depend on a pair's
    batch in the last bits (1e-6), so that near ties may change places with `batch`. A row that failed keeps its error,
    an empty list stays empty. Raises StageError for a passage that is not in `passages`.
    """

    def __init__(self, settings: RerankSettings, inputs: Mapping[str, _Reads]) -> None:
        settings.validate()
        self._settings = settings.resolved()
        table = inputs["passages"].read(["passage_id", "title", "text"])
        texts = passage_texts(table, settings.title)
        self._texts = dict(zip(table.column("passage_id").to_pylist(), texts, strict=True))
        self._scorer = CrossScorer(self._settings)

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        questions, found = rows["questions"], rows["retrievals"]
        if questions.column("question_id") != found.column("question_id"):
            raise StageError("rerank: questions and retrievals do not hold the same questions in the same order")
        errors = found.column("error").to_pylist()
        lists = found.column("passage_ids").to_pylist()
        top = self._settings.top
        wanted = [
            _Pairs(question, [] if error else list(ranked or [])[:top])
            for question, ranked, error in zip(questions.column("question").to_pylist(), lists, errors, strict=True)
        ]
        scores = iter(self._scorer([(row.question, self._text(name)) for row in wanted for name in row.passage_ids]))
        hits = [
            None if error else rank(row.passage_ids, [next(scores) for _ in row.passage_ids], self._settings.depth)
            for row, error in zip(wanted, errors, strict=True)
        ]
        return retrievals_table(questions.column("question_id"), hits, errors)

    def _text(self, passage_id: str) -> str:
        if passage_id not in self._texts:
            raise StageError(f"rerank: passage {passage_id!r} is not in the passages table")
        text: str = self._texts[passage_id]
        return text


class CrossScorer:
    """A cross-encoder of sentence-transformers. Raises InputError for a model with more than one score per pair."""

    def __init__(self, settings: RerankSettings) -> None:
        self._settings = settings
        path, commit = where(settings.model, settings.identity)
        module = library()
        try:
            self._model = module.CrossEncoder(
                path,
                device=settings.device or None,
                revision=commit,
                model_kwargs={"torch_dtype": settings.dtype},
                max_length=settings.max_tokens or None,
                activation_fn=_identity(),
            )
        except Exception as error:  # see encoders/sentence_transformers.py
            raise cannot_load("retriever.model", settings.model, error) from error
        if self._model.num_labels != 1:
            raise InputError(
                f"retriever.model={settings.model!r}: it gives {self._model.num_labels} scores per pair; "
                f"a reranker gives one"
            )
        check_positions("retriever.max_tokens", self._model.model, settings.max_tokens)

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One score per pair of question and passage, in their order; pairs are batched by length within.

        Equal pairs are scored once, so that copies of a passage have one score, and their ids decide.
        """
        distinct = list(dict.fromkeys(pairs))
        if not distinct:
            return []
        scores = self._model.predict(distinct, batch_size=self._settings.batch, show_progress_bar=False)
        if not np.isfinite(scores).all():
            raise StageError(f"{self._settings.model}: scores that are no numbers; try dtype: float32")
        found = dict(zip(distinct, np.asarray(scores, dtype=np.float64).reshape(-1).tolist(), strict=True))
        return [found[pair] for pair in pairs]


def _identity() -> Any:
    """Logits as they are: a sigmoid has few numbers left close to 1, and would make ties of different scores."""
    import torch

    return torch.nn.Identity()
