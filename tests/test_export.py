"""The datasets of an `out`: one path reads all configurations, and a rerun leaves nothing of an earlier one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.errors import InputError
from rat_ray.export import read_annotated, unread_notes
from rat_ray.hive import read_dataset, write_dataset, write_tables
from rat_ray.keys import digest_of
from rat_ray.merging import merge_runs
from rat_ray.output import OutFiles, OutFolder, sweep_root
from rat_ray.stage import import_table
from rat_ray.store import StorageSettings, Store, Table
from tests.commandline import everything_under
from tests.helpers import read_partitions
from tests.servers import moto
from tests.test_stage import questions

# One line each; `OUT` is the folder of a run or of a sweep. README.md shows the same between its markers.
READERS = """\
duckdb.sql("SELECT * FROM read_parquet('OUT/annotations/*/*.parquet', hive_partitioning = true)")
pandas.read_parquet("OUT/annotations", dtype_backend="numpy_nullable")
polars.read_parquet("OUT/annotations", hive_partitioning=True)
spark.read.parquet("OUT/annotations")
"""
TRUSTED = {"r": ["evidence"], "a": ["phrase"], "t": ["match"]}


def stored(store: Store, key: str, pieces: list[int]) -> Table:
    whole = questions(sum(pieces))
    starts = [sum(pieces[:index]) for index in range(len(pieces))]
    batches = [whole.slice(start, size) for start, size in zip(starts, pieces, strict=True)]
    return import_table(store, "questions", digest_of(key), "q", tables.QUESTIONS, lambda: iter(batches))


def annotations(labels: Sequence[int | None], sources: Sequence[str] = (), config: str = "any") -> pa.Table:
    """Rows with these values of r, a and each source."""
    schema = tables.annotations_schema(list(sources))
    values: dict[str, list[Any]] = {name: [None] * len(labels) for name in schema.names}
    values |= {name: list(labels) for name in ("r", "a", *sources)}
    values |= {"config": [config] * len(labels), "question_id": [f"q{index}" for index in range(len(labels))]}
    return pa.table(values, schema=schema)


def write(out: OutFiles, parts: Mapping[str, Sequence[pa.Table]], dataset: str = "annotations") -> None:
    write_dataset(out, dataset, {name: lambda own=own: iter(own) for name, own in parts.items()})  # type: ignore[misc]


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# --- one dataset ----------------------------------------------------------------------------------------------------


def test_parts_of_an_earlier_run_do_not_stay_beside_the_new_ones(tmp_path: Path) -> None:
    store, out = Store(tmp_path / "store"), OutFolder(tmp_path / "out", {}, kind="evaluate")
    for key, pieces in [("many", [4, 4, 2]), ("one", [10])]:
        write_tables(out, "annotations", {"c": stored(store, key, pieces)})
        [table] = read_partitions(tmp_path / "out" / "annotations").values()
        assert table.column("question_id").to_pylist() == questions(10).column("question_id").to_pylist()


def test_nothing_but_the_partitions_of_this_run_lies_in_the_dataset(tmp_path: Path) -> None:
    out = OutFiles(tmp_path)
    write(out, {"old": [annotations([1]), annotations([0])], "kept": [annotations([1]), annotations([0])]})
    killed = tmp_path / "annotations" / "config=old" / f".tmp-{'0' * 32}"
    killed.write_bytes(b"half of a par")
    (tmp_path / "annotations" / "config=mine").mkdir()
    (tmp_path / "annotations" / "config=mine" / "notes.txt").write_text("a person's own")
    write(out, {"kept": [annotations([1])], "new": [annotations([1])]})
    assert files_of(tmp_path / "annotations") == [
        *("config=kept", "config=kept/part-00000.parquet"),
        *("config=mine", "config=mine/notes.txt"),
        *("config=new", "config=new/part-00000.parquet"),
    ]


def test_every_partition_has_the_columns_of_all_and_is_read_with_its_own(tmp_path: Path) -> None:
    out = OutFiles(tmp_path)
    first = annotations([1, None, 0], ["t@x"]).replace_schema_metadata({tables.TRUSTED: b"t@x"})
    parts = {"a": [first, first], "b": [annotations([None, 1], ["r@y", "t@x"])], "c": [annotations([])]}
    write(out, parts)
    schemas = [
        pa.parquet.read_schema(path).remove_metadata() for path in sorted((tmp_path / "annotations").rglob("*.parquet"))
    ]
    assert all(schema.equals(schemas[0]) for schema in schemas)
    assert schemas[0].field("r@y").type == pa.int8()
    assert "config" not in schemas[0].names
    read = read_dataset(out, "annotations")
    assert list(read) == ["a", "b", "c"]
    for name, tables_of in parts.items():
        assert read[name].equals(pa.concat_tables(tables_of).drop_columns(["config"])), name
    assert read["a"].schema.metadata == {tables.TRUSTED: b"t@x"}


def test_columns_of_two_types_are_refused(tmp_path: Path) -> None:
    old = annotations([1]).set_column(1, "dataset", pa.array([1.0]))
    with pytest.raises(InputError, match=r"'dataset' is string in one configuration and double in another"):
        write(OutFiles(tmp_path), {"a": [annotations([1])], "b": [old]})


# --- other tools ----------------------------------------------------------------------------------------------------


def readers() -> list[str]:
    """The lines of the README, which must be those that are tested."""
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    shown = re.search(r"<!-- readers -->\n```python\n(.*?)```", readme, re.DOTALL)
    if shown is not None:
        lines = [line.partition("  #")[0].strip() for line in shown[1].splitlines()]
        assert [line for line in lines if re.match(r"(duckdb|pandas|polars|spark)\.", line)] == READERS.splitlines()
    return READERS.splitlines()


def rows_of(tool: str, found: Any) -> tuple[set[tuple[Any, ...]], str]:
    """(config, question, r, t@x) of every row, and the type of r in the tool's words."""
    names = ["config", "question_id", "r", "t@x"]
    if tool == "duckdb":
        types = dict(zip(found.columns, found.types, strict=True))
        return set(found.select(", ".join(f'"{name}"' for name in names)).fetchall()), str(types["r"])
    if tool == "polars":
        return set(found.select(names).rows()), str(found.schema["r"])
    frame = found[names].astype(object)
    return set(frame.where(frame.notna(), None).itertuples(index=False, name=None)), str(found["r"].dtype)


@pytest.mark.parametrize("tool", ["duckdb", "pandas", "polars"])
def test_one_line_reads_all_configurations_with_whole_numbers_and_nulls(tmp_path: Path, tool: str) -> None:
    module = pytest.importorskip(tool)
    none = annotations([None, None])  # a first part with nulls only gives a column no other type
    parts = {"bm25-x": [none, annotations([1, 0, None], ["t@x"])], "dense.y_1": [annotations([0])]}
    parts["bm25-x"][0] = annotations([None, None], ["t@x"])
    write(OutFiles(tmp_path), parts)
    [line] = [line for line in readers() if line.startswith(f"{tool}.")]
    rows, kind = rows_of(tool, eval(line.replace("OUT", str(tmp_path)), {tool: module}))
    assert kind in {"duckdb": ["TINYINT"], "pandas": ["Int8"], "polars": ["Int8"]}[tool]
    assert rows == {
        ("bm25-x", "q0", None, None),
        ("bm25-x", "q1", None, None),
        ("bm25-x", "q0", 1, 1),
        ("bm25-x", "q1", 0, 0),
        ("bm25-x", "q2", None, None),
        ("dense.y_1", "q0", 0, None),
    }


# --- a sweep --------------------------------------------------------------------------------------------------------


def finished(
    url: str, storage: StorageSettings, configs: Mapping[str, pa.Table], trusted: Any = TRUSTED, **facts: Any
) -> None:
    """A run in a sweep's folder, with annotations and a summary of these configurations."""
    out = OutFolder(url, {}, kind="evaluate", in_sweep=True, storage=storage)
    out.claim()
    write(out, {name: [rows] for name, rows in configs.items()})
    rows = [
        dict.fromkeys(tables.SUMMARY.names) | {"config": name, "quantity": "p_g", "status": "ok"} for name in configs
    ]
    out.write_table("summary.parquet", pa.Table.from_pylist(rows, schema=tables.SUMMARY))
    out.finish({"trusted": trusted, "notes": [f"a note on {name}" for name in configs], **facts})


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, StorageSettings]]:
    """Where a sweep writes: a folder, or a prefix on a real server."""
    if request.param == "folder":
        yield str(tmp_path / "sweep"), StorageSettings()
        return
    pytest.importorskip("boto3")
    with moto(tmp_path) as access, pytest.MonkeyPatch.context() as patch:
        for name, value in access.environment().items():
            patch.setenv(name, value)
        access.client().create_bucket(Bucket="bucket")
        yield "s3://bucket/a/sweep", access.storage(patience=10.0)


def test_a_sweep_has_the_datasets_and_tables_of_all_its_runs(place: tuple[str, StorageSettings]) -> None:
    url, storage = place
    plain, judged = annotations([1, 0]), annotations([None, 1], ["t@x"])
    finished(f"{url}/bm25-a", storage, {"bm25-a": plain}, budget=-1)
    finished(f"{url}/dense", storage, {"a": judged, "b": plain}, budget=3)
    OutFolder(f"{url}/unfinished", {}, kind="evaluate", in_sweep=True, storage=storage).claim()
    for _ in range(2):
        merged = merge_runs(url, storage)
        assert merged is not None
        root, summary, folders = merged
        assert folders == ["bm25-a", "dense"]
        assert summary.column("config").to_pylist() == ["bm25-a", "dense.a", "dense.b"]
        assert root.read_table("summary.parquet").equals(summary)
        assert root.files("annotations") == [
            f"annotations/config={name}/part-00000.parquet" for name in ("bm25-a", "dense.a", "dense.b")
        ]
    out, facts, read = read_annotated(url, storage)
    assert list(read) == ["bm25-a", "dense.a", "dense.b"]
    assert read["dense.a"].equals(judged.drop_columns(["config"]))
    assert read["dense.b"].schema.names == plain.drop_columns(["config"]).schema.names
    assert facts["trusted"] == TRUSTED
    assert "budget" not in facts, "the runs do not agree on it"
    assert facts["notes"][0] == "bm25-a: a note on bm25-a"
    assert out.url == url


def test_a_sweep_is_written_again_only_where_something_changed(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    storage = StorageSettings()
    for name in ("a", "b"):
        finished(f"{sweep}/{name}", storage, {name: annotations([1])})

    def merged() -> dict[str, tuple[int, int]]:
        assert merge_runs(str(sweep)) is not None
        found = everything_under(sweep)
        return {name: found[name] for name in found if name.split("/")[0] in ("annotations", "summary.parquet")}

    first = merged()
    assert merged() == first
    (sweep / "annotations" / "config=a" / "part-00000.parquet").write_bytes(b"damaged")
    repaired = merged()
    assert repaired.keys() == first.keys()
    assert repaired["annotations/config=a/part-00000.parquet"] != first["annotations/config=a/part-00000.parquet"]
    finished(f"{sweep}/b", storage, {"b": annotations([0])})
    merged()
    [row] = read_partitions(sweep / "annotations")["b"].column("r").to_pylist()
    assert row == 0


def test_only_one_sweep_merges_at_a_time(place: tuple[str, StorageSettings]) -> None:
    url, storage = place
    finished(f"{url}/a", storage, {"a": annotations([1])})
    root = sweep_root(url, storage)
    root.claim()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(merge_runs, str(url), storage).result()  # the process is up, and takes milliseconds from now on
        finished(f"{url}/b", storage, {"b": annotations([1])})
        with root.alone("a test"):
            waiting = pool.submit(merge_runs, str(url), storage)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=3)
            finished(f"{url}/c", storage, {"c": annotations([1])})
        merged = waiting.result(timeout=60)
    assert merged is not None
    assert merged[2] == ["a", "b", "c"], "it looked for runs when its turn had come"
    facts = root.run()
    assert facts is not None
    assert facts["status"] == "complete"


def test_runs_that_trust_different_labels_are_no_single_run(tmp_path: Path) -> None:
    sweep = str(tmp_path / "sweep")
    for name, trusted in [("a", TRUSTED), ("b", {**TRUSTED, "t": []})]:
        finished(f"{sweep}/{name}", StorageSettings(), {name: annotations([1])}, trusted)
    assert merge_runs(sweep) is not None
    with pytest.raises(InputError, match="trust different labels"):
        read_annotated(sweep, StorageSettings())


def test_two_runs_that_would_share_a_name_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    finished(f"{sweep}/a", StorageSettings(), {"b": annotations([1]), "c": annotations([1])})
    finished(f"{sweep}/a.b", StorageSettings(), {"z": annotations([1])})
    with pytest.raises(InputError, match=r"both hold a configuration a\.b"):
        merge_runs(str(sweep))
    assert not (sweep / "annotations").exists()


def test_a_folder_without_runs_is_no_sweep(tmp_path: Path) -> None:
    assert merge_runs(str(tmp_path)) is None
    assert not list(tmp_path.iterdir())


def test_verdicts_that_are_missing_are_counted_in_words() -> None:
    def one(**counts: int) -> dict[str, Any]:
        return {"config": "mine", "judge": "r@local", "counts": counts}

    assert unread_notes([one(ok=5, not_asked=2)]) == []
    assert unread_notes([one(ok=2, unparsed=3, error=1, not_asked=4)]) == [
        "mine: 3 of 6 verdicts of r@local could not be read (missing)",
        "mine: 1 of 6 verdicts of r@local failed (missing)",
    ]
