"""Two writers at once, on servers that honour conditional writes and on servers that do not."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rat_ray import tables
from rat_ray.errors import InputError, StageError
from rat_ray.stage import import_table
from rat_ray.store import Holder, Lease, Store, Table
from tests.servers import Access, Swift
from tests.store.conftest import KEY, SECRET, MakeStore
from tests.store.proxy import Proxy
from tests.test_stage import questions


def written_alone(store: Store) -> Lease:
    from rat_ray.store.store import _written_alone

    return _written_alone[store]


def everything(store: Store) -> list[str]:
    return [entry.name for entry in store.objects.walk()]


def test_the_probe_finds_conditions(moto: Access, s3_store: MakeStore) -> None:
    store = s3_store(moto)
    store.objects.prepare()
    assert store.objects.conditional
    assert everything(store) == []


@pytest.mark.parametrize("attempt", range(3))
def test_the_probe_finds_out_swift(swift: Swift, s3_store: MakeStore, attempt: int) -> None:
    store = s3_store(swift.access)
    store.objects.prepare()
    assert not store.objects.conditional
    assert everything(store) == []


def test_the_probe_finds_a_server_that_ignores_conditions(careless: Proxy, s3_store: MakeStore) -> None:
    store = s3_store(Access(careless.url, KEY, SECRET))
    store.objects.prepare()
    assert not store.objects.conditional
    assert everything(store) == []
    assert len(careless.seen) < 20
    before = len(careless.seen)
    store.objects.prepare()
    assert len(careless.seen) == before


def test_creating_without_conditions_looks_first(careless: Proxy, s3_store: MakeStore) -> None:
    store = s3_store(Access(careless.url, KEY, SECRET))
    store.objects.prepare()
    assert store.objects.create("a", b"1")
    assert not store.objects.create("a", b"2")
    assert store.objects.get("a") == b"1"


PREPARE = """
import json, sys, time
from rat_ray.store import StorageSettings, Store
Store(sys.argv[1], StorageSettings(**json.loads(sys.argv[2]))).prepare()
print("ready", flush=True)
time.sleep(600)
"""


def prepared(store: Store) -> bool:
    try:
        store.prepare()
    except InputError:
        return False
    return True


@pytest.mark.parametrize("server", ["careless", pytest.param("swift", marks=pytest.mark.slow)])
def test_a_second_job_is_refused_without_conditions(
    server: str, request: pytest.FixtureRequest, s3_store: MakeStore
) -> None:
    found = request.getfixturevalue(server)
    store = s3_store(found.access if isinstance(found, Swift) else Access(found.url, KEY, SECRET))
    words = [store.root, json.dumps(vars(store.storage))]
    other = subprocess.Popen([sys.executable, "-c", PREPARE, *words], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    with pytest.raises(InputError, match=rf"process {other.pid} on .* does not honour conditional writes"):
        store.prepare()
    other.kill()
    other.communicate()
    while not prepared(store):  # the other is dead, which is known a few seconds later at the latest
        time.sleep(0.2)
    store.prepare()
    facts = {"digest": "1", "rows": 0, "parts": [], "files": False}
    assert store.commit("t", "k", facts).digest == "1"
    writer = written_alone(store)
    writer.lost = True
    with pytest.raises(StageError, match="took this one for dead"):
        store.commit("t", "k2", facts)
    assert store.find("t", "k2") is None
    writer.release()


def writers(store: Store) -> list[Table]:
    """Two writers of one table whose rows differ, as two language models' do, at once."""
    barrier = threading.Barrier(2)
    rows = [questions(40), questions(80).slice(40)]

    def write(number: int) -> Table:
        barrier.wait()
        batches = [rows[number].slice(start, 10) for start in range(0, 40, 10)]
        parts = [
            store.write_part("questions", "k", 10 * index, 10 * index + 10, batch, tables.QUESTIONS)
            for index, batch in enumerate(batches)
        ]
        barrier.wait()
        facts = {"digest": str(number), "rows": 40, "files": False, "parts": [part._asdict() for part in parts]}
        return store.commit("questions", "k", facts)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(write, range(2)))


@pytest.mark.parametrize("store", ["local", "moto"], indirect=True)
def test_two_writers_make_one_table(store: Store) -> None:
    store.objects.prepare()
    assert store.objects.conditional
    first, second = writers(store)
    assert first == second == store.find("questions", "k")
    assert first.read().equals(second.read())
    assert first.read().num_rows == 40
    assert first.read().column("question_id").to_pylist() in (
        questions(40).column("question_id").to_pylist(),
        questions(80).slice(40).column("question_id").to_pylist(),
    )


@pytest.mark.parametrize("server", ["careless", "swift"])
def test_a_second_writer_is_refused_without_conditions(
    server: str, request: pytest.FixtureRequest, s3_store: MakeStore
) -> None:
    found = request.getfixturevalue(server)
    store = s3_store(found.access if isinstance(found, Swift) else Access(found.url, KEY, SECRET))
    store.objects.prepare()
    assert not store.objects.conditional
    barrier = threading.Barrier(2)

    def write(number: int) -> Table | Holder:
        barrier.wait()
        writer = store.sole_writer(f"job {number}")
        barrier.wait()
        if isinstance(writer, Holder):
            return writer
        with writer:
            rows = questions(40 * number + 40).slice(40 * number)
            return import_table(store, "questions", "k", "q", tables.QUESTIONS, lambda: iter([rows]))

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(write, range(2)))
    made = [result for result in results if isinstance(result, Table)]
    others = [result for result in results if isinstance(result, Holder)]
    assert len(made) == len(others) == 1
    assert made[0].read().num_rows == 40
    assert made[0] == store.find("questions", "k")
    assert others[0].what == f"job {results.index(made[0])}"
    after = store.sole_writer("a third, when they are done")
    assert isinstance(after, Lease)
    after.release()
