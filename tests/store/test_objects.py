"""What every place of a store can do, the same in a folder and on S3."""

from __future__ import annotations

import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rat_ray import tables
from rat_ray.errors import StageError
from rat_ray.stage import import_table
from rat_ray.store import Store
from rat_ray.store.objects import Entry
from tests.servers import Access
from tests.store.conftest import MakeStore
from tests.test_stage import questions


def test_what_is_put_is_there(store: Store) -> None:
    store.prepare()
    objects = store.objects
    objects.put("a/b/c", b"one")
    objects.put("a/b/c", b"two")
    assert objects.get("a/b/c") == b"two"
    with pytest.raises(FileNotFoundError, match="a/b/d"):
        objects.get("a/b/d")
    with pytest.raises(FileNotFoundError):
        objects.open("a/b/d")
    with pytest.raises(FileNotFoundError):
        objects.open("a/b/d", columns=True)


def test_create_does_so_once(store: Store) -> None:
    objects = store.objects
    assert objects.create("a", b"one")
    assert not objects.create("a", b"one")
    assert not objects.create("a", b"two")
    assert objects.get("a") == b"one"


@pytest.mark.parametrize("store", ["local", "moto"], indirect=True)
def test_one_of_many_creators_wins(store: Store) -> None:
    store.prepare()
    assert store.objects.conditional
    barrier = threading.Barrier(8)

    def create(number: int) -> bool:
        barrier.wait()
        return store.objects.create("a/x", str(number).encode())

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, range(8)))
    assert sum(won) == 1
    assert store.objects.get("a/x") == str(won.index(True)).encode()


def test_listing_is_sorted_and_by_prefix(store: Store) -> None:
    objects = store.objects
    names = ["t/k/part-1", "t/k/part-10", "t/k/part-2", "t/k-2/x", "t/k/sub/y", "u/z", ".writer/a.json", "t/.x/y"]
    for name in names:
        objects.put(name, name.encode())
    assert [entry.name for entry in objects.walk()] == sorted(names)
    assert [entry.name for entry in objects.walk("t/k/part-1")] == ["t/k/part-1", "t/k/part-10"]
    assert [entry.name for entry in objects.walk("t/k/")] == sorted(n for n in names if n.startswith("t/k/"))
    assert all(entry.size == len(entry.name) for entry in objects.walk())
    assert list(objects.walk("nothing/")) == []
    assert objects.children("") == ["t", "u"]
    assert objects.children("t") == ["k", "k-2"]
    assert objects.children("t/k") == ["part-1", "part-10", "part-2", "sub"]
    assert objects.children("nothing") == []


def test_the_places_clock_goes_on(store: Store) -> None:
    store.objects.put("a", b"")
    first = next(store.objects.walk("a")).modified
    store.objects.put("a", b"")
    assert next(store.objects.walk("a")).modified >= first > 1.7e9


def test_delete_of_more_than_a_batch(moto: Access, s3_store: MakeStore) -> None:
    test_delete_of_many_and_of_none(s3_store(moto), 1005)


@pytest.mark.parametrize("count", [0, 1, 12])
def test_delete_of_many_and_of_none(store: Store, count: int) -> None:
    objects = store.objects
    names = [f"d/{number}" for number in range(count)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: objects.put(name, b""), names))
    objects.put("e", b"")
    assert len(list(objects.walk())) == count + 1
    objects.delete([*names, "d/never"])
    assert [entry.name for entry in objects.walk()] == ["e"]


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "a//b", "", "a/", ".", "a/./b", "a\0b", "..", "a\\b"])
def test_no_name_leads_out_of_the_root(store: Store, name: str) -> None:
    objects = store.objects
    for action in (
        lambda: objects.put(name, b"x"),
        lambda: objects.create(name, b"x"),
        lambda: objects.get(name),
        lambda: objects.open(name),
        lambda: objects.delete([name]),
    ):
        with pytest.raises(StageError, match="not a name inside the store"):
            action()
    assert list(objects.walk()) == []


def test_a_table_reads_back_whole_and_by_columns(store: Store) -> None:
    whole = questions(500)
    batches = [whole.slice(0, 100), whole.slice(100, 1), whole.slice(101)]
    made = import_table(store, "questions", "k", "q", tables.QUESTIONS, lambda: iter(batches))
    table = pickle.loads(pickle.dumps(made))
    assert table.read().equals(whole)
    assert table.read(["question"]).equals(whole.select(["question"]))
    assert table.read_range(99, 102).equals(whole.slice(99, 3))
    assert store.find("questions", "k") == made
    assert store.find("questions", "other") is None


def test_a_few_columns_of_a_large_part(store: Store) -> None:
    rows = pa.table(
        {"n": pa.array(range(200_000), pa.int64()), "text": [f"{n * 7919 % 100_003}" for n in range(200_000)]}
    )
    part = store.write_part("x", "k", 0, 200_000, rows, rows.schema)
    source = store.objects.open(f"x/k/{part.name}", columns=True)
    with pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=True) as file:
        assert file.read(["n"]).equals(rows.select(["n"]))
        assert file.read(["text"]).equals(rows.select(["text"]))


def test_an_empty_object_is_a_damaged_part_and_no_riddle(store: Store) -> None:
    made = import_table(store, "questions", "k", "q", tables.QUESTIONS, lambda: iter([questions(4)]))
    store.objects.put(f"questions/k/{made.parts[0].name}", b"")
    for columns in (None, ["question"]):
        with pytest.raises(StageError, match="is damaged"):
            made.read(columns)


def index_part(store: Store, content: bytes = b"index") -> dict[str, object]:
    scratch = store.scratch_folder("index", "k")
    (scratch / "deep").mkdir()
    (scratch / "deep" / "a.bin").write_bytes(content)
    (scratch / "empty").write_bytes(b"")
    part = store.write_folder("index", "k", 0, 3, scratch)
    assert not scratch.exists()
    return {"digest": "1", "rows": 3, "parts": [part._asdict()], "files": True}


def test_a_folder_of_files_reads_back(store: Store) -> None:
    table = store.commit("index", "k", index_part(store))
    folder = table.folders()[0]
    assert (folder / "deep" / "a.bin").read_bytes() == b"index"
    assert (folder / "empty").read_bytes() == b""
    assert table.folders()[0] == folder


def test_the_same_folder_twice_is_one_part(store: Store) -> None:
    assert index_part(store) == index_part(store)
    assert store.commit("index", "k", index_part(store)).folders()[0].is_dir()


@pytest.mark.parametrize("file", ["../x", "/etc/passwd", "a/../../x", "", "a\0b"])
def test_a_list_of_files_leads_nowhere_else(store: Store, file: str, tmp_path: Path) -> None:
    facts = index_part(store)
    table = store.commit("index", "k", facts)
    store.objects.put(f"index/k/{table.parts[0].name}", f"{{{json.dumps(file)}: 1}}".encode())
    with pytest.raises(StageError, match="not a name inside"):
        table.folders()


def test_a_list_of_files_that_is_none_is_said(store: Store) -> None:
    table = store.commit("index", "k", index_part(store))
    for text in (b"[1]", b"{", b'{"a": "x"}', b'{"a": null}'):
        store.objects.put(f"index/k/{table.parts[0].name}", text)
        with pytest.raises(StageError, match="is damaged"):
            table.folders()


def test_rows_that_cannot_be_encoded_leave_nothing(store: Store) -> None:
    wrong = questions(3).drop_columns(["question"])
    with pytest.raises(StageError):
        store.write_part("questions", "k", 0, 3, wrong, tables.QUESTIONS)
    assert list(store.objects.walk()) == []


def test_a_link_to_nothing_is_no_file_of_a_folder(store: Store) -> None:
    scratch = store.scratch_folder("index", "k")
    (scratch / "a").write_bytes(b"1")
    (scratch / "b").symlink_to(scratch / "nowhere")
    part = store.write_folder("index", "k", 0, 1, scratch)
    table = store.commit("index", "k", {"digest": "1", "rows": 1, "parts": [part._asdict()], "files": True})
    assert [path.name for path in table.folders()[0].iterdir() if path.is_file()] == ["a"]


def test_entries_name_the_object(store: Store) -> None:
    store.objects.put("a/b", b"123")
    entry = next(store.objects.walk("a/b"))
    assert isinstance(entry, Entry)
    assert entry[:2] == ("a/b", 3)
