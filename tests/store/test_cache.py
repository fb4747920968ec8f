"""Copies of index files on a node: once each, whoever asks and whoever is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rat_ray.errors import StageError
from rat_ray.store import Store, Table
from rat_ray.store.cache import cache_folder
from tests.servers import Access
from tests.store.conftest import KEY, SECRET, MakeStore
from tests.store.proxy import Proxy

READ = """
import json, sys
from rat_ray.store import StorageSettings, Store
store = Store(sys.argv[1], StorageSettings(**json.loads(sys.argv[2])))
print(store.find("index", "k").folders()[0], flush=True)
"""


def index(store: Store, key: str = "k") -> Table:
    scratch = store.scratch_folder("index", key)
    (scratch / "vectors").write_bytes(b"0123456789" * 700_000)
    (scratch / "ids").write_bytes(b"ids")
    part = store.write_folder("index", key, 0, 1, scratch)
    return store.commit("index", key, {"digest": "1", "rows": 1, "parts": [part._asdict()], "files": True})


def reader(store: Store) -> subprocess.Popen[str]:
    words = [store.root, json.dumps(vars(store.storage))]
    return subprocess.Popen([sys.executable, "-c", READ, *words], stdout=subprocess.PIPE, text=True)


def fetched(proxy: Proxy) -> int:
    return sum(line.startswith("GET") and line.endswith("/vectors") for line in proxy.seen)


def test_several_processes_fetch_it_once(proxy: Proxy, s3_store: MakeStore, tmp_path: Path) -> None:
    store = s3_store(Access(proxy.url, KEY, SECRET))
    index(store)
    node = Store(store.root, replace(store.storage, cache=str(tmp_path / "node2")))
    readers = [reader(node) for _ in range(3)]
    answers = {process.communicate(timeout=120)[0] for process in readers}
    assert len(answers) == 1
    assert (Path(answers.pop().strip()) / "vectors").stat().st_size == 7_000_000
    assert fetched(proxy) == 2  # its two pieces


def test_equal_content_is_shared_and_the_maker_has_it(proxy: Proxy, s3_store: MakeStore) -> None:
    store = s3_store(Access(proxy.url, KEY, SECRET))
    first, second = index(store), index(store, "k2")
    assert first.folders() == second.folders()
    assert fetched(proxy) == 0
    assert not list(Path(store.storage.cache).glob(".scratch*"))


def test_a_killed_reader_blocks_nobody(proxy: Proxy, s3_store: MakeStore, tmp_path: Path) -> None:
    store = s3_store(Access(proxy.url, KEY, SECRET))
    table = index(store)
    node = Store(store.root, replace(store.storage, cache=str(tmp_path / "node2")))
    proxy.fail("503", only="GET", ending="/vectors")
    process = reader(node)
    while not fetched(proxy):  # it has the lock, and is patient
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert list((tmp_path / "node2").glob(".unfinished-*"))
    proxy.fail("")
    found = node.find("index", "k")
    assert found is not None
    assert (found.folders()[0] / "vectors").read_bytes() == (table.folders()[0] / "vectors").read_bytes()
    assert not list((tmp_path / "node2").glob(".unfinished-*"))


def test_only_the_files_that_are_wanted_are_fetched(proxy: Proxy, s3_store: MakeStore, tmp_path: Path) -> None:
    store = s3_store(Access(proxy.url, KEY, SECRET))
    index(store)
    node = Store(store.root, replace(store.storage, cache=str(tmp_path / "node2")))
    found = node.find("index", "k")
    assert found is not None
    [some] = found.folders_of(0, 1, only=("ids",))
    assert [path.name for path in some.iterdir()] == ["ids"]
    assert fetched(proxy) == 0
    [whole] = found.folders()
    assert sorted(path.name for path in whole.iterdir()) == ["ids", "vectors"]
    with pytest.raises(StageError, match=r"it lists no \['other'\]"):
        found.folders_of(0, 1, only=("ids", "other"))


def test_a_damaged_copy_is_fetched_again(proxy: Proxy, s3_store: MakeStore) -> None:
    store = s3_store(Access(proxy.url, KEY, SECRET))
    table = index(store)
    (table.folders()[0] / "vectors").write_bytes(b"short")
    assert (table.folders()[0] / "vectors").stat().st_size == 7_000_000


def test_content_that_is_not_what_its_name_says(proxy: Proxy, s3_store: MakeStore, tmp_path: Path) -> None:
    store = s3_store(Access(proxy.url, KEY, SECRET))
    table = index(store)
    name = table.parts[0].name.removesuffix(".files")
    node = Store(store.root, replace(store.storage, cache=str(tmp_path / "node2")))
    found = node.find("index", "k")
    assert found is not None
    store.objects.put(f"index/k/{name}/ids", b"idz")
    with pytest.raises(StageError, match="not the content that its name says"):
        found.folders()
    store.objects.put(f"index/k/{name}/ids", b"i")
    with pytest.raises(StageError, match="not the size"):
        found.folders()
    store.objects.delete([f"index/k/{name}/ids"])
    with pytest.raises(StageError, match="missing"):
        found.folders()
    assert not list((tmp_path / "node2").glob("[!.]*"))


def test_what_killed_processes_left_is_removed(moto: Access, s3_store: MakeStore) -> None:
    store = s3_store(moto)
    words = [store.root, json.dumps(vars(store.storage))]
    code = READ.replace('find("index", "k").folders()[0]', 'scratch_folder("index", "k")')
    left = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert Path(left.stdout.strip()).is_dir()
    own = store.scratch_folder("index", "k")
    other = store.scratch_folder("index", "k")
    assert own.is_dir()
    assert other.is_dir()
    assert not Path(left.stdout.strip()).exists()


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder(str(tmp_path)) == tmp_path
    monkeypatch.setenv("RAT_CACHE", str(tmp_path))
    assert cache_folder("") == tmp_path / "store"
    monkeypatch.delenv("RAT_CACHE")
    assert cache_folder("") == Path.home() / ".cache" / "rat_ray" / "store"
