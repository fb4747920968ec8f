"""Names: safe, and never two alike."""

from __future__ import annotations

from pathlib import Path

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rat_ray.naming import reads_as_value, safe_name, swept_suffix


def test_every_job_of_a_sweep_has_its_own_suffix() -> None:
    swept = ["dataset", "retriever", "retriever.depth"]
    first = swept_suffix(["dataset=fever", "retriever=bm25", "++retriever.depth=3", "++seed=1"], swept)
    assert first == "-dataset_fever-retriever.depth_3", "the retriever is in the configuration's name already"
    assert swept_suffix(["dataset=demo", "retriever=bm25", "++retriever.depth=3"], swept) != first
    assert swept_suffix(["dataset=fever", "retriever=bm25", "++retriever.depth=5"], swept) != first


def test_names_are_safe_and_differ() -> None:
    texts = ["a b", "a-b", "a/b", "17", "x" * 200, "x" * 201, "..", ""]
    names = [safe_name(text) for text in texts]
    assert len(set(names)) == len(texts)
    for name in names:
        assert not set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
        assert not name.isdigit()


VALUES = [
    *(
        "17",
        "00012",
        "-5",
        "+5",
        "1.5",
        "1.",
        ".5",
        "1e5",
        "-1E-5",
        "0x1F",
        "0b1",
        "2024-01-01",
        "2024-1-1x",
        "-5-01-01",
    ),
    *("20240101T000000", "202401T00", "true", "FALSE", "null", "None", "NaN", "-inf", "Infinity", "NaT", "epoch"),
    "__HIVE_DEFAULT_PARTITION__",
]
WORDS = ["8b", "12-30", "v1.5", "1.5b", "bm25-gemma3_270m", "k-3", "1_000", "a.1", "nullable", "trueish", "infra"]


def test_names_that_read_as_values_are_changed_and_no_others() -> None:
    assert [safe_name(text) for text in WORDS] == WORDS
    made = [safe_name(text) for text in VALUES]
    assert all(name != text for name, text in zip(made, VALUES, strict=True))
    assert not [name for name in made if reads_as_value(name)]
    assert len(set(made)) == len(VALUES)


@pytest.mark.parametrize("text", VALUES + WORDS)
def test_tools_read_the_name_of_a_partition_as_the_text_that_it_is(tmp_path: Path, text: str) -> None:
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    name = safe_name(text)
    folder = tmp_path / f"config={name}"
    folder.mkdir()
    pq.write_table(pa.table({"x": [1]}), folder / "part-00000.parquet")
    by_duckdb = duckdb.sql(f"SELECT config FROM read_parquet('{tmp_path}/*/*.parquet', hive_partitioning = true)")
    assert by_duckdb.fetchall() == [(name,)]
    assert polars.read_parquet(tmp_path, hive_partitioning=True)["config"].to_list() == [name]
    assert pandas.read_parquet(tmp_path)["config"].to_list() == [name]
