"""How vLLM runs a model in the stage's worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from rat_ray.errors import InputError, did_you_mean

EXECUTORS: Final = ("mp", "ray", "uni")
DTYPES: Final = ("auto", "bfloat16", "float16", "float32")
# What an engine argument of vLLM is called here: set twice, one of the two would be passed over.
_OWN: Final = {
    "model": "model",
    "tokenizer": "model",
    "revision": "vllm.commit",
    "tokenizer_revision": "vllm.commit",
    "code_revision": "vllm.commit",
    "max_model_len": "n_ctx",
    "dtype": "vllm.dtype",
    "tensor_parallel_size": "vllm.tensor_parallel_size",
    "pipeline_parallel_size": "vllm.pipeline_parallel_size",
    "distributed_executor_backend": "vllm.executor",
    "max_num_seqs": "concurrency",
    "gpu_memory_utilization": "vllm.gpu_memory_utilization",
}


@dataclass(frozen=True)
class VllmSettings:
    """tensor_parallel_size x pipeline_parallel_size GPUs hold one model: give a worker so many, by
    `resources.generate.num_gpus`. executor: "" (vLLM's choice: processes of this node), mp, uni (this process), or ray:
    one model over several nodes. vLLM then asks Ray for the GPUs itself, and the worker must take none: num_gpus=0.

    dtype: auto (as the model says) | bfloat16 | float16 | float32. commit: of a hub model, a branch or a tag; "": main.
    gpu_memory_utilization: the share of a GPU's memory, or of a machine's without one, for weights and cache together.
    engine_args: anything else that vLLM's engine takes, by its own names (quantization, enforce_eager, …).
    """

    tensor_parallel_size: int = field(default=1, metadata={"key": False})
    pipeline_parallel_size: int = field(default=1, metadata={"key": False})
    executor: str = field(default="", metadata={"key": False})
    dtype: str = "auto"
    commit: str = field(default="", metadata={"key": False})  # model_revision holds what it leads to
    gpu_memory_utilization: float = field(default=0.9, metadata={"key": False})
    engine_args: dict[str, Any] = field(default_factory=dict)

    def validate(self) -> None:
        """Raises InputError for values that cannot work. Whether vLLM knows an engine argument, only vLLM can say."""
        for name in ("tensor_parallel_size", "pipeline_parallel_size"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise InputError(f"gpu_memory_utilization is {self.gpu_memory_utilization}; it must be above 0, at most 1")
        for name, value, known in (("executor", self.executor, EXECUTORS), ("dtype", self.dtype, DTYPES)):
            if value and value not in known:
                raise InputError(f"{name}={value!r}: unknown{did_you_mean(value, known)}")
        for name in self.engine_args:
            if name in _OWN:
                raise InputError(f"engine_args.{name}: set {_OWN[name]} instead")
