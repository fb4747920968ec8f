"""After a multirun: the runs of its folders as one, in the folder that holds them all."""

from __future__ import annotations

from collections.abc import Sequence

from rat_ray.merging import RETRIEVAL_FILE, merge_runs
from rat_ray.outcome import Failed
from rat_ray.output import sweep_root
from rat_ray.progress import console
from rat_ray.report.retrieval import print_retrieval
from rat_ray.report.table import print_table, result_table
from rat_ray.store import StorageSettings


def merge_summaries(url: str, storage: StorageSettings | None = None, failed: Sequence[Failed] = ()) -> None:
    """Write the datasets and tables over every run in the folders of `url`, and print the merged summary.

    failed: the configurations of this sweep that have no results, for its run.json.
    """
    merged = merge_runs(url, storage)
    if failed:
        _record(url, storage, failed)
    if merged is None:
        return
    root, summary, folders = merged
    screen = console()
    screen.print(f"\nAll {len(folders)} runs of the sweep:", highlight=False)
    print_table(result_table(summary), screen)
    retrieval = root.find_table(RETRIEVAL_FILE)
    if retrieval is not None:
        print_retrieval(retrieval, screen)
    screen.print(f"out: {root.url}", highlight=False, markup=False, soft_wrap=True)


def _record(url: str, storage: StorageSettings | None, failed: Sequence[Failed]) -> None:
    root = sweep_root(url, storage)
    facts = root.run()
    if facts is None:  # nothing was written, not even a folder
        return
    status = "failed" if facts.get("status") == "running" else facts.get("status", "complete")
    root.finish({**facts, "status": status, "failed": {one.name: one.message for one in failed}})
