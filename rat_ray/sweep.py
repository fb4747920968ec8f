"""After a multirun: the summaries of its folders in one table, in the folder that holds them all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rat_ray.output import RUN_FILE, sweep_root
from rat_ray.progress import console
from rat_ray.report.table import print_table, result_table
from rat_ray.tables import SUMMARY


def merge_summaries(root: Path) -> None:
    """Write `summary.parquet` over every folder under `root` that holds a run's summary, and print its table.

    A configuration is named by its folder; where a folder holds several, by folder and configuration.
    """
    folders = sorted(path.parent for path in root.glob(f"*/{RUN_FILE}") if (path.parent / "summary.parquet").exists())
    if not folders:
        return
    summary = pa.concat_tables([_named(folder) for folder in folders])
    out = sweep_root(root)
    out.claim()
    out.write_table("summary.parquet", summary)
    out.finish({"configurations": [folder.name for folder in folders]})
    screen = console()
    screen.print(f"\nAll {len(folders)} runs of the sweep:", highlight=False)
    print_table(result_table(summary), screen)
    screen.print(f"out: {root}", highlight=False, markup=False, soft_wrap=True)


def _named(folder: Path) -> pa.Table:
    summary = pq.read_table(folder / "summary.parquet")
    configs = summary.column("config").to_pylist()
    several = len(set(configs)) > 1
    names = [f"{folder.name}.{config}" if several and config != folder.name else folder.name for config in configs]
    return summary.set_column(0, SUMMARY.field("config"), pa.array(names, pa.string()))
