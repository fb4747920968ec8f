"""Names of configurations and folders: safe in paths and partitions, and never two alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rat_ray.errors import masked
from rat_ray.seeds import rank_key

MAX_NAME = 120
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
# What DuckDB, Polars, pandas or Spark would read as a number, date, truth value or null where it names a partition.
_VALUE = re.compile(
    r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?"  # numbers
    r"|0[xbo][0-9a-f_]+"
    r"|-?\d+-\d+-\d+.*|\d{6,}T\d*.*"  # dates and times
    r"|[-+]?(inf|infinity|nan)|true|false|null|none|nat|epoch|__hive_default_partition__",
    re.IGNORECASE,
)


def reads_as_value(name: str) -> bool:
    """Whether a tool would take the name of a partition for a number, a date, a truth value or null."""
    return _VALUE.fullmatch(name) is not None


def safe_name(text: str) -> str:
    """A name for folders and partitions: [A-Za-z0-9_.-], read as text, at most MAX_NAME long, still unique."""
    name = _UNSAFE.sub("-", text).strip("-.") or "run"
    if name != text or len(name) > MAX_NAME:
        name = f"{name[:MAX_NAME]}-{rank_key(0, text):016x}"[: MAX_NAME + 17]
    return f"n{name}" if reads_as_value(name) else name


def swept_suffix(overrides: Sequence[str], swept: Sequence[str]) -> str:
    """What tells two jobs of a sweep apart beyond retriever and generator: `-dataset_fever-retriever.depth_5`."""
    kept = []
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        if key in swept and key not in ("retriever", "generator"):
            kept.append(masked(f"{key}_{value}"))
    return "".join(f"-{item}" for item in sorted(kept))
