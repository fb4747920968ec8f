"""What a multirun adds: one folder per configuration under `out`, and their summaries in one table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rat_ray.output import RUN_FILE, OutFolder
from rat_ray.progress import console
from rat_ray.report.table import print_table, result_table
from rat_ray.seeds import rank_key

MAX_NAME = 120
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def safe_name(text: str) -> str:
    """A name for folders and partitions: [A-Za-z0-9_.-], never all digits, at most MAX_NAME long, still unique."""
    name = _UNSAFE.sub("-", text).strip("-.") or "run"
    if name != text or len(name) > MAX_NAME:
        name = f"{name[:MAX_NAME]}-{rank_key(0, text):016x}"[: MAX_NAME + 17]
    return f"n{name}" if name.isdigit() else name


def swept_suffix(overrides: Sequence[str], swept: Sequence[str]) -> str:
    """What tells two jobs of a sweep apart beyond dataset, retriever and generator: `-retriever.depth_5`."""
    kept = []
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        if key in swept and key not in ("dataset", "retriever", "generator"):
            kept.append(f"{key}_{value}")
    return "".join(f"-{item}" for item in sorted(kept))


class SweepEnd:
    """Hydra callback: after a multirun, merge the summaries of its folders into `out/summary.parquet`."""

    def on_multirun_end(self, config: Any, **_: Any) -> None:
        root = Path(str(config.get("out", "")))
        found = sorted(path.parent for path in root.glob(f"*/{RUN_FILE}") if (path.parent / "summary.parquet").exists())
        if not found:
            return
        summary = pa.concat_tables([pq.read_table(folder / "summary.parquet") for folder in found])
        out = OutFolder(root, {"sweep": True}, kind="sweep")
        out.claim()
        out.write_table("summary.parquet", summary)
        out.finish({"configurations": [folder.name for folder in found]})
        screen = console()
        print_table(result_table(summary), screen)
        screen.print(f"out: {root}", highlight=False, soft_wrap=True)
