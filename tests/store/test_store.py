"""Parts and manifests: what is written is whole, what is partial is never a table."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from rat_ray import tables
from rat_ray.errors import InputError, StageError
from rat_ray.settings import build, conf_dir
from rat_ray.stage import import_table
from rat_ray.store import StorageSettings, Store, encode_part, parse_part, part_name, write_new
from tests.test_stage import questions


def test_part_names_can_be_read_back() -> None:
    part = parse_part(part_name(8, 16, 8, "0123456789abcdef"))
    assert part is not None
    assert (part.start, part.stop, part.rows, part.digest) == (8, 16, 8, "0123456789abcdef")
    assert parse_part("manifest.json") is None
    assert parse_part(".tmp-123") is None


def test_digest_is_of_the_rows_not_of_the_footer() -> None:
    table = questions(5)
    one, other = encode_part(table, {"rat_ray.key": "a"}), encode_part(table, {"rat_ray.key": "b" * 40})
    assert one[0] != other[0]
    assert one[1] == other[1]
    assert encode_part(questions(6), {})[1] != one[1]
    changed = table.set_column(0, tables.QUESTIONS.field(0), pa.array(["q0", "q1", "q2", "q3", "zz"]))
    assert encode_part(changed, {})[1] != one[1]


def test_digest_does_not_depend_on_how_the_rows_lie_in_memory() -> None:
    table = questions(10)
    pieces = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    assert encode_part(pieces, {})[1] == encode_part(table, {})[1]
    assert encode_part(questions(20).slice(0, 10), {})[1] == encode_part(table, {})[1]


def test_footer_names_key_range_and_rows(tmp_path: Path) -> None:
    store = Store(tmp_path)
    part = store.write_part("questions", "k", 8, 13, questions(5), tables.QUESTIONS)
    metadata = pq.ParquetFile(Path(store.where("questions", "k")) / part.name).schema_arrow.metadata
    assert metadata[b"rat_ray.key"] == b"k"
    assert metadata[b"rat_ray.range"] == b"8-13"
    assert metadata[b"rat_ray.rows"] == b"5"


def test_write_new_never_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "file"
    assert write_new(path, b"first")
    assert not write_new(path, b"second")
    assert path.read_bytes() == b"first"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_the_first_of_two_committers_wins(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = store.commit("t", "k", {"digest": "1", "rows": 0, "parts": [], "files": False})
    second = store.commit("t", "k", {"digest": "2", "rows": 9, "parts": [], "files": False})
    assert first.digest == second.digest == "1"


@pytest.mark.parametrize(("start", "stop"), [(0, 3), (2, 9), (5, 5), (9, 10), (0, 10)])
def test_read_range_spans_parts(tmp_path: Path, start: int, stop: int) -> None:
    store = Store(tmp_path)
    whole = questions(10)
    batches = [whole.slice(0, 4), whole.slice(4, 3), whole.slice(7)]
    table = import_table(store, "questions", "k", "q", tables.QUESTIONS, lambda: iter(batches))
    assert table.read_range(start, stop).equals(whole.slice(start, stop - start))


def test_reading_past_the_end_is_refused(tmp_path: Path) -> None:
    table = import_table(Store(tmp_path), "questions", "k", "q", tables.QUESTIONS, lambda: iter([questions(4)]))
    with pytest.raises(StageError, match="asked for"):
        table.read_range(2, 9)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    table = import_table(Store(tmp_path), "questions", "k", "q", tables.QUESTIONS, lambda: iter([questions(4)]))
    (Path(table.where) / table.parts[0].name).unlink()
    with pytest.raises(StageError, match="missing"):
        table.read()


@pytest.mark.parametrize("damage", ["cut", "empty", "one bit"])
def test_a_damaged_part_is_noticed_in_words(tmp_path: Path, damage: str) -> None:
    table = import_table(Store(tmp_path), "questions", "k", "q", tables.QUESTIONS, lambda: iter([questions(40)]))
    path = Path(table.where) / table.parts[0].name
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes({"cut": data[:-40], "empty": b"", "one bit": data}[damage])
    with pytest.raises(StageError, match=r"is damaged \(.*\); delete .*questions/k and run"):
        table.read()


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '{"digest": "1", "rows": 1, "files": false, "parts": [{}]}'])
def test_a_damaged_manifest_is_noticed_in_words(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path)
    write_new(Path(store.where("t", "k")) / "manifest.json", text.encode())
    with pytest.raises(StageError, match=r"manifest.json is damaged .*; delete"):
        store.find("t", "k")
    write_new(Path(store.where("t", "k")) / "ranges.json", text.encode())
    with pytest.raises(StageError, match=r"ranges.json is damaged .*; delete"):
        store.fix_ranges("t", "k", [(0, 1)])


PART = {"name": "p", "start": 0, "stop": 1, "rows": 1, "digest": "d"}
FACTS = {"digest": "d", "rows": 1, "files": False, "parts": [PART]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": "x"},
        {"rows": True},
        {"digest": None},
        {"files": 0},
        {"parts": "abc"},
        {"parts": {"a": 1}},
        {"parts": [{"name": "p"}]},
        {"parts": [{**PART, "start": "0"}]},
        {"parts": [{**PART, "more": 1}]},
    ],
)
def test_a_manifest_with_values_of_the_wrong_kind_is_damaged(tmp_path: Path, wrong: dict[str, object]) -> None:
    store = Store(tmp_path)
    assert store.commit("t", "right", FACTS).num_rows == 1
    with pytest.raises(StageError, match=r"k/manifest.json is damaged .*; delete"):
        store.commit("t", "k", {**FACTS, **wrong})


def test_a_manifest_that_is_a_folder_is_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    Path(store.where("t", "k"), "manifest.json").mkdir(parents=True)
    with pytest.raises(StageError, match=r"k/manifest.json is damaged .*; delete"):
        store.find("t", "k")


def test_what_cannot_be_listed_is_said_in_words(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "circle").symlink_to("circle")  # not even root can read it
    with pytest.raises(StageError, match=r"t/circle: cannot be read \(.*\)"):
        list(store.objects.walk())


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """Root reads everything, so it becomes somebody else for a while."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_what_may_not_be_read_is_said_in_words() -> None:
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is root's alone
        Path(folder).chmod(0o755)
        store = Store(folder)
        store.commit("t", "k", FACTS)
        manifest = Path(store.where("t", "k"), "manifest.json")
        manifest.chmod(0)
        with nobody(), pytest.raises(StageError, match=r"k/manifest.json: cannot be read \(Permission denied\)"):
            store.find("t", "k")
        (Path(folder) / "t").chmod(0)
        with nobody(), pytest.raises(StageError, match=r"/t: cannot be read \(Permission denied\)"):
            list(store.objects.walk())
        with nobody(), pytest.raises(StageError, match=r"/t: cannot be read \(Permission denied\)"):
            store.objects.children("t")
        (Path(folder) / "t").chmod(0o755)


def test_a_missing_folder_of_files_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    scratch = store.scratch_folder("index", "k")
    (scratch / "file").write_bytes(b"123")
    part = store.write_folder("index", "k", 0, 1, scratch)
    facts = {"digest": "1", "rows": 1, "parts": [part._asdict()], "files": True}
    table = store.commit("index", "k", facts)
    (table.folders()[0] / "file").write_bytes(b"12")
    with pytest.raises(StageError, match="3 bytes are expected"):
        table.folders()
    (Path(table.where) / part.name.removesuffix(".files") / "file").unlink()
    with pytest.raises(StageError, match="/file is named by a manifest and is missing"):
        table.folders()


def test_rows_that_do_not_match_the_schema_are_not_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(StageError, match="columns differ"):
        store.write_part("questions", "k", 0, 4, questions(4).drop_columns(["shape"]), tables.QUESTIONS)
    nan = pa.table({"x": pa.array([float("nan")])})
    with pytest.raises(StageError, match="NaN"):
        store.write_part("x", "k", 0, 1, nan, nan.schema)
    assert store.parts("questions", "k") == []


def test_null_columns_keep_their_type_over_parts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    known = questions(2).set_column(4, tables.QUESTIONS.field("shape"), pa.array(["claim", "open"]))
    table = import_table(store, "questions", "k", "q", tables.QUESTIONS, lambda: iter([questions(2), known]))
    assert table.read().column("shape").to_pylist() == [None, None, "claim", "open"]


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("gs://bucket/prefix", "give a folder or s3://bucket/prefix"),
        ("s3://", "no bucket"),
        ("s3://b/prefix", "no bucket"),
        ("s3:///prefix", "no bucket"),
        ("s3://bucket/a/../b", "empty words or dots"),
        ("s3://bucket//b", "empty words or dots"),
        ("s3://key:planted@bucket/b", "holds no credentials"),
    ],
)
def test_an_address_that_no_store_can_have(address: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as raised:
        Store(address)
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"endpoint": "localhost:9000"}, "did you mean 'http://localhost:9000'"),
        ({"endpoint": "minio.example.org"}, "did you mean 'https://minio.example.org'"),
        ({"endpoint": "s3://bucket"}, "a place for store="),
        ({"endpoint": "http://"}, "names no server"),
        ({"endpoint": "http://me:planted@host"}, "holds no credentials"),
        ({"region": "EU_central-1"}, "did you mean 'eu-central-1'"),
        ({"multipart_mb": 1}, "multipart_mb=1: must be between 5 and 5000"),
        ({"connections": 0}, "connections=0"),
        ({"lease_seconds": 1.0}, "lease_seconds=1"),
        ({"patience": float("inf")}, "patience=inf"),
        ({"patience": float("nan")}, "patience=nan"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=re.escape(why)) as raised:
        StorageSettings(**settings).validate()
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize("group", ["local", "s3"])
def test_each_choice_of_the_group_is_the_defaults(group: str) -> None:
    text = (conf_dir() / "storage" / f"{group}.yaml").read_text()
    assert build(StorageSettings, yaml.safe_load(text)) == StorageSettings()


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_disk_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def no_links(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", no_links)
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: write_new(tmp_path / "a" / "file", str(n).encode()), range(20)))
    assert sum(won) == 1
    assert (tmp_path / "a" / "file").read_text() == str(won.index(True))
    assert Store(tmp_path).objects.children("a") == ["file"]
