"""The runs of a sweep as one run: the same files as each of them has, over all configurations, in the folder above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from rat_ray.errors import InputError
from rat_ray.hive import Batches, find_dataset, write_dataset
from rat_ray.keys import digest_of
from rat_ray.output import OutFiles, OutFolder, sweep_root
from rat_ray.store import StorageSettings
from rat_ray.versions import code_digest, provenance

TABLES = ("checks", "allocation", "retrieval")  # beside the summary
RETRIEVAL_FILE = "retrieval.parquet"
DATASETS = ("annotations", "answers", "posterior", "patterns", "relevance")
# Of datasets, which several runs share: a row that two have is one.
PROBLEMS_FILE, PASSAGES_FILE, PEOPLE_FILE = "problems.parquet", "passages.parquet", "people.parquet"
# Facts of a run that are also the sweep's where all its runs agree.
_COMMON = ("prior", "judge_model", "policy", "trusted", "budget", "budget_seed", "seed", "store")


class _Run(NamedTuple):
    """One finished run: its folder, its run.json, its summary, and its configurations' names in the sweep."""

    files: OutFiles
    facts: dict[str, Any]
    summary: pa.Table
    names: dict[str, str]


def merge_runs(url: str, storage: StorageSettings | None = None) -> tuple[OutFolder, pa.Table, list[str]] | None:
    """Write what the finished runs in the folders of `url` hold, over all of them, into `url` itself.

    A configuration is named by its folder; where a folder holds several, by folder and configuration. Files of an
    earlier merge are replaced. Gives the sweep's folder, the merged summary and the runs' folders; None without runs.

    Raises: InputError where two runs would share a name or their columns differ in type.
    """
    root = sweep_root(url, storage)
    runs = _runs(root)
    if not runs:
        return None
    _check_names(runs)
    root.claim()
    with root.alone("merging a sweep"):
        return _merge(root, _runs(root))


def _merge(root: OutFolder, runs: Sequence[_Run]) -> tuple[OutFolder, pa.Table, list[str]]:
    """The caller is the only one that merges here: two sweeps into one folder may end at the same time."""
    _check_names(runs)
    summary = _merged("summary", runs)
    assert summary is not None
    made_of = digest_of([code_digest(), [[run.names, run.facts.get("files")] for run in runs]])
    if not all(run.facts.get("files") for run in runs) or not root.holds(made_of):
        _write(root, runs, summary)
    folders = [run.files.name for run in runs]
    root.finish({**_facts(runs), "configurations": folders, **provenance()}, made_of)
    return root, summary, folders


def _runs(root: OutFolder) -> list[_Run]:
    return [run for name in root.folders() if (run := _finished(root.inside(name))) is not None]


def _write(root: OutFolder, runs: Sequence[_Run], summary: pa.Table) -> None:
    root.write_table("summary.parquet", summary)
    for name in TABLES:
        table = _merged(name, runs)
        if table is not None:
            root.write_table(f"{name}.parquet", table)
    for name in (PROBLEMS_FILE, PASSAGES_FILE):
        found = [table for run in runs if (table := run.files.find_table(name)) is not None]
        if found:
            root.write_table(name, distinct(found))
    for dataset in DATASETS:
        partitions = _partitions(dataset, runs)
        if partitions:
            write_dataset(root, dataset, partitions)


def distinct(found: Sequence[pa.Table]) -> pa.Table:
    """The rows of tables of one schema, each once."""
    rows = pa.concat_tables(found)
    return rows.group_by(rows.schema.names, use_threads=False).aggregate([]).select(rows.schema.names)


def _finished(files: OutFiles) -> _Run | None:
    facts = files.run()
    if facts is None or facts.get("status") != "complete" or facts.get("kind") == "sweep":
        return None
    summary = files.find_table("summary.parquet")
    if summary is None:
        return None
    configs = list(dict.fromkeys(summary.column("config").to_pylist()))
    return _Run(files, facts, summary, _names(files.name, configs))


def _names(folder: str, configs: Sequence[str]) -> dict[str, str]:
    if len(configs) == 1:
        return {configs[0]: folder}
    return {config: folder if config == folder else f"{folder}.{config}" for config in configs}


def _check_names(runs: Sequence[_Run]) -> None:
    seen: dict[str, str] = {}
    for run in runs:
        for name in run.names.values():
            other = seen.setdefault(name, run.files.url)
            if other != run.files.url:
                raise InputError(f"{other} and {run.files.url} both hold a configuration {name}; move one of them away")


def _merged(name: str, runs: Sequence[_Run]) -> pa.Table | None:
    """A table of every run that has it, with the configurations' names in the sweep."""
    found = []
    for run in runs:
        table = run.summary if name == "summary" else run.files.find_table(f"{name}.parquet")
        if table is not None:
            found.append(_renamed(table, run.names))
    if not found:
        return None
    try:
        return pa.concat_tables(found)
    except pa.ArrowInvalid as error:
        where = runs[0].files.at(f"{name}.parquet")
        raise InputError(
            f"{where} has other columns than that of another run: they were written by different versions of rat-ray; "
            "run all of them again"
        ) from error


def _renamed(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    index = table.schema.get_field_index("config")
    configs = [names.get(config, config) for config in table.column("config").to_pylist()]
    return table.set_column(index, table.schema.field("config"), pa.array(configs, pa.string()))


def _partitions(dataset: str, runs: Sequence[_Run]) -> dict[str, Batches]:
    found: dict[str, Batches] = {}
    for run in runs:
        partitions = find_dataset(run.files, dataset)
        found.update({name: partitions[config] for config, name in run.names.items() if config in partitions})
    return found


def _facts(runs: Sequence[_Run]) -> dict[str, Any]:
    first = runs[0].facts
    shared = (name for name in _COMMON if name in first and all(run.facts.get(name) == first[name] for run in runs))
    common = {name: first[name] for name in shared}
    notes = [f"{run.files.name}: {note}" for run in runs for note in run.facts.get("notes", [])]
    verdicts = [
        {**one, "config": run.names.get(one["config"], one["config"])}
        for run in runs
        for one in run.facts.get("verdicts", [])
    ]
    return {**common, "notes": notes, "verdicts": verdicts}
