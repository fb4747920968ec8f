"""What a multirun adds: one folder per configuration under `out`, and their summaries in one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hydra.experimental.callback import Callback

from rat_ray.output import RUN_FILE, OutFolder
from rat_ray.progress import console
from rat_ray.report.table import print_table, result_table


class SweepEnd(Callback):
    """Hydra callback: after a multirun, merge the summaries of its folders into `out/summary.parquet`."""

    def __init__(self) -> None:
        self._root: Path | None = None

    def on_job_end(self, config: Any, job_return: Any, **_: Any) -> None:
        """Remember where the job wrote; its return value is the path of its folder."""
        written = getattr(job_return, "_return_value", None)
        if isinstance(written, str):
            self._root = Path(written).parent

    def on_multirun_end(self, config: Any, **_: Any) -> None:
        """Merge what the folders beside each other hold."""
        root = self._root
        if root is None:
            return
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
