"""The settings of dense retrieval, and which steps make its index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rat_ray.errors import InputError, did_you_mean
from rat_ray.retrieve import encoders
from rat_ray.retrieve.encoders import EncoderSettings
from rat_ray.retrieve.faiss_index import DTYPES
from rat_ray.retrieve.hits import check_at_least
from rat_ray.retrieve.steps import Step

INDEXES: Final = ("flat", "ivfpq", "hnsw")
LARGEST: Final = 2**31 - 1  # FAISS's int


@dataclass(frozen=True)
class IvfPqSettings:
    """nlist: lists; 0: four times the root of the number of vectors. m: bytes per vector at 8 bits; it divides the
    dim. bits: of each of the m numbers. train_size: vectors that are trained on; 0: 64 per list. seed: of k-means.
    nprobe: lists that a search looks into. A small corpus gets fewer lists and bits than asked for: see meta.json.
    """

    nlist: int = 0
    m: int = 64
    bits: int = 8
    train_size: int = 0
    seed: int = 0
    nprobe: int = 64

    def validate(self) -> None:
        """Raises InputError for numbers out of range."""
        for name, least in (("nlist", 0), ("m", 1), ("bits", 1), ("train_size", 0), ("seed", 0), ("nprobe", 1)):
            check_at_least(f"retriever.ivfpq.{name}", getattr(self, name), least, LARGEST)
        if self.bits > 12:
            raise InputError(f"retriever.ivfpq.bits={self.bits}: must be at most 12; 8 is usual")

    def trained_key(self) -> dict[str, Any]:
        """What decides centres and codebooks."""
        return {name: getattr(self, name) for name in ("nlist", "m", "bits", "train_size", "seed")}


@dataclass(frozen=True)
class HnswSettings:
    """m: links per vector and layer. ef_construction, ef_search: candidates that are kept while building, searching."""

    m: int = 32
    ef_construction: int = 200
    ef_search: int = 128

    def validate(self) -> None:
        """Raises InputError for numbers out of range."""
        for name, least in (("m", 2), ("ef_construction", 1), ("ef_search", 1)):
            check_at_least(f"retriever.hnsw.{name}", getattr(self, name), least, LARGEST)


@dataclass(frozen=True)
class DenseSettings:
    """encoder: what makes the vectors. depth: how many passages per question. title: encode the title with the text.

    dtype: of the stored vectors, float32 | float16. index: flat (exact) | ivfpq | hnsw, the last two approximate.
    rescore: score `rescore_factor` times `depth` candidates of ivfpq again, from the stored vectors; without it, the
    scores are those of the quantised vectors, and a search needs only the index. The others are always exact in their
    scores. recall_sample: questions on which an approximate index is held against the exact lists.
    threads: FAISS threads per worker; more workers scale better than more threads.
    """

    kind: str = "dense"
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    depth: int = 100
    title: bool = True
    dtype: str = "float32"
    index: str = "flat"
    ivfpq: IvfPqSettings = field(default_factory=IvfPqSettings)
    hnsw: HnswSettings = field(default_factory=HnswSettings)
    rescore: bool = True
    rescore_factor: int = 4
    recall_sample: int = field(default=200, metadata={"key": False})
    threads: int = field(default=1, metadata={"key": False})

    def validate(self) -> None:
        """Raises InputError for numbers out of range, an unknown index or dtype, and an encoder that cannot work."""
        for name, least in (("depth", 1), ("rescore_factor", 1), ("recall_sample", 1), ("threads", 1)):
            check_at_least(f"retriever.{name}", getattr(self, name), least)
        for name, value, known in (("index", self.index, INDEXES), ("dtype", self.dtype, DTYPES)):
            if value not in known:
                raise InputError(f"retriever.{name}={value!r}: unknown{did_you_mean(value, known)}")
        if not self.rescore and self.index != "ivfpq":
            raise InputError(f"retriever.rescore=false: only for index: ivfpq; the scores of {self.index} are exact")
        for group in (self.encoder, self.ivfpq, self.hnsw):
            group.validate()
        self.check_dim(self.encoder.dim or encoders.DIMS.get(self.encoder.kind, 0))

    def check_dim(self, dim: int) -> None:
        """Raises InputError where vectors of this dim cannot be quantised as asked for. 0: not known yet."""
        if self.index == "ivfpq" and dim:
            check_divides(self.ivfpq.m, dim)

    @property
    def approximate(self) -> bool:
        """Whether a search may miss passages that an exact one finds."""
        return self.index != "flat"

    def resolved(self) -> DenseSettings:
        """With the encoder's weights pinned, so that a worker on a machine with others fails."""
        return replace(self, encoder=encoders.resolve(self.encoder))

    def steps(self) -> tuple[Step, ...]:
        """vectors, and over them what an approximate search needs; the last is what is searched."""
        from rat_ray.retrieve.dense_steps import BuildHnsw, BuildIvfPq, EncodePassages, TrainIvfPq

        keys = self.step_keys()
        vectors = Step("vectors", EncodePassages, keys["vectors"], encode=True)
        if self.index == "flat":
            return (vectors,)
        if self.index == "hnsw":
            return vectors, Step("index", BuildHnsw, keys["index"], over="vectors")
        trained = Step("trained", TrainIvfPq, keys["trained"], over="vectors", whole=True, encode=True)
        return vectors, trained, Step("index", BuildIvfPq, keys["index"], over="vectors", inputs=("trained",))

    def step_keys(self) -> dict[str, Mapping[str, Any]]:
        """By step, what decides its files: neither depth nor threads, nor what only a search uses."""
        # What is put before a question changes no passage's vector.
        encoder = {name: value for name, value in encoders.key(self.encoder).items() if name != "query_prefix"}
        vectors = {"encoder": encoder, "title": self.title, "dtype": self.dtype}
        if self.index == "flat":
            return {"vectors": vectors}
        if self.index == "hnsw":
            graph = {"m": self.hnsw.m, "ef_construction": self.hnsw.ef_construction}
            return {"vectors": vectors, "index": {**vectors, "hnsw": graph}}
        trained = {**vectors, "ivfpq": self.ivfpq.trained_key()}
        return {"vectors": vectors, "trained": trained, "index": trained}

    def search_inputs(self) -> tuple[str, ...]:
        """Steps besides the last that a search needs: the vectors, to score candidates exactly."""
        return ("vectors",) if self.index == "hnsw" or (self.index == "ivfpq" and self.rescore) else ()

    def parts(self) -> list[str]:
        """It is made from no other retriever's lists."""
        return []


def check_divides(m: int, dim: int) -> None:
    """Raises InputError where vectors of this dim cannot be cut into m equal pieces."""
    if dim % m:
        raise InputError(f"retriever.ivfpq.m={m}: must divide the vectors' dim, {dim}, for example {_divisor(dim)}")


def _divisor(dim: int) -> int:
    """The largest divisor that leaves at least four numbers per piece."""
    return max(m for m in range(1, max(2, dim // 4 + 1)) if dim % m == 0)
