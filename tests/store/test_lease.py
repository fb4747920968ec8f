"""Leases: one holder, none after its death, and no deadlock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rat_ray.store import Holder, Lease, StorageSettings, Store
from rat_ray.store.lease import LEASES
from tests.servers import Access
from tests.store.conftest import KEY, SECRET, MakeStore
from tests.store.proxy import Proxy

HOLD = """
import sys, time
from rat_ray.store import Lease, StorageSettings, Store
store = Store(sys.argv[1], StorageSettings(endpoint=sys.argv[2], path_style=True, lease_seconds=float(sys.argv[3])))
lease = store.lease("t", "k", "the other job")
print(type(lease).__name__, flush=True)
time.sleep(600)
"""


def hold(store: Store) -> subprocess.Popen[str]:
    """Another process that holds the lease."""
    words = [store.root, store.storage.endpoint, str(store.storage.lease_seconds)]
    other = subprocess.Popen([sys.executable, "-c", HOLD, *words], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline().strip() == "Lease"
    return other


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def wait_for(condition: Any, seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it does not come about"
        time.sleep(0.05)


def held(store: Store, key: str = "k") -> Lease:
    lease = store.lease("t", key, "this job")
    assert isinstance(lease, Lease), lease
    return lease


def claims(store: Store) -> list[str]:
    return [entry.name for entry in store.objects.walk("t/k/.lease/")]


def test_one_holds_it_and_the_next_after_release(store: Store) -> None:
    with held(store):
        for _ in range(2):  # the second time from what is remembered
            refused = store.lease("t", "k", "another")
            assert isinstance(refused, Holder)
            assert refused.pid == os.getpid()
            assert refused.what == "this job"
            assert "this job" in str(refused)
        held(store, "other").release()
        assert len(claims(store)) == 1
    assert claims(store) == []
    held(store).release()


def test_it_is_no_table_and_no_part(store: Store) -> None:
    with held(store):
        writer = store.sole_writer("this job")
        assert isinstance(writer, Lease)
        assert store.objects.children("") == ["t"]
        assert store.objects.children("t/k") == []
        assert store.parts("t", "k") == []
        assert store.find("t", "k") is None
        writer.release()


def test_of_many_at_once_at_most_one_holds_it(store: Store) -> None:
    counts: Counter[str] = Counter()
    for key in ("a", "b"):
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda number: store.lease("t", key, str(number)), range(6)))  # noqa: B023
        leases = [lease for lease in found if isinstance(lease, Lease)]
        counts[key] = len(leases)
        for lease in leases:
            lease.release()
        held(store, key).release()  # nobody's claim is left over
    assert max(counts.values()) == 1


def test_a_killed_holder_on_this_machine_is_dead_at_once(store: Store) -> None:
    other = hold(store)
    refused = store.lease("t", "k", "this job")
    assert isinstance(refused, Holder)
    assert (refused.pid, refused.what) == (other.pid, "the other job")
    end(other)
    wait_for(lambda: isinstance(store.lease("t", "k", "this job"), Lease), seconds=30)  # not the 60 s of the lease
    assert len(claims(store)) == 1


@pytest.mark.parametrize("store", ["local", "moto"], indirect=True)
def test_a_silent_holder_elsewhere_expires(store: Store) -> None:
    store = Store(store.root, replace(store.storage, lease_seconds=4.0))
    name = f"t/k/{LEASES}/{'0' * 32}.json"
    claim = '{"host": "far", "machine": "m", "pid": 1, "started": "1", "what": "its job", "since": "then"}'
    store.objects.put(name, claim.encode())
    refused = store.lease("t", "k", "this job")
    assert isinstance(refused, Holder)
    assert (refused.host, refused.what, refused.since) == ("far", "its job", "then")
    wait_for(lambda: isinstance(store.lease("t", "k", "this job"), Lease))
    assert name not in claims(store)


@pytest.mark.parametrize("store", ["local", "moto"], indirect=True)
def test_a_claim_counts_for_as_long_as_its_own_job_says(store: Store) -> None:
    patient = Store(store.root, replace(store.storage, lease_seconds=60.0))
    hasty = Store(store.root, replace(store.storage, lease_seconds=1.0))
    with held(patient) as lease:  # its next heartbeat comes in 10 s
        time.sleep(4)
        refused = hasty.lease("t", "k", "another")
        assert isinstance(refused, Holder)
        assert refused.age > 2
        assert len(claims(store)) == 1
        assert not lease.lost


@pytest.mark.parametrize("said", ["NaN", "-5", "true", '"60"', "null", "1e400"])
def test_what_no_setting_can_be_is_not_believed(tmp_path: Path, said: str) -> None:
    store = Store(tmp_path, StorageSettings(lease_seconds=5.0))
    name = f"t/k/{LEASES}/{'0' * 32}.json"
    claim = '{"host": "far", "machine": "m", "pid": 1, "started": "1", "what": "its job", "since": "then", "seconds": '
    store.objects.put(name, f"{claim}{said}}}".encode())
    then = time.time() - 90_000  # longer than any lease
    os.utime(tmp_path / name, (then, then))
    with held(store):
        assert name not in claims(store)


@pytest.mark.parametrize("store", ["local", "moto"], indirect=True)
def test_a_claim_that_cannot_be_read_expires_too(store: Store) -> None:
    store = Store(store.root, replace(store.storage, lease_seconds=4.0))
    store.objects.put(f"t/k/{LEASES}/x.json", b"{")
    assert isinstance(store.lease("t", "k", "this job"), Holder)
    wait_for(lambda: isinstance(store.lease("t", "k", "this job"), Lease))


@pytest.mark.parametrize("store", ["local", "moto"], indirect=True)
def test_a_holder_that_works_keeps_it(store: Store) -> None:
    store = Store(store.root, replace(store.storage, lease_seconds=3.0))
    lease = held(store)
    other = Store(store.root, replace(store.storage, patience=119.0))
    limit = time.monotonic() + 7
    while time.monotonic() < limit:
        assert isinstance(other.lease("t", "k", "another"), Holder)
        sum(range(200_000))  # the main thread computes
        time.sleep(0.3)
    assert not lease.lost
    lease.release()


@pytest.mark.parametrize("store", ["local", "moto"], indirect=True)
def test_a_holder_notices_that_its_claim_was_removed(store: Store) -> None:
    store = Store(store.root, replace(store.storage, lease_seconds=1.5))
    lease = held(store)
    store.objects.delete(claims(store))
    wait_for(lambda: lease.lost)
    assert claims(store) == []
    with held(store):
        lease.release()
        assert len(claims(store)) == 1


@pytest.mark.parametrize("store", ["local", "moto"], indirect=True)
def test_a_stopped_holder_loses_it_and_does_not_come_back(store: Store) -> None:
    store = Store(store.root, replace(store.storage, lease_seconds=3.0))
    other = hold(store)
    os.kill(other.pid, signal.SIGSTOP)
    wait_for(lambda: isinstance(store.lease("t", "k", "this job"), Lease))
    mine = claims(store)
    os.kill(other.pid, signal.SIGCONT)
    time.sleep(2)  # a few of its heartbeats
    assert claims(store) == mine
    end(other)


def test_heartbeats_outlive_a_server_that_is_away(proxy: Proxy, moto: Access, s3_store: MakeStore) -> None:
    store = s3_store(Access(proxy.url, KEY, SECRET), lease_seconds=12.0)
    lease = held(store)
    before = next(store.objects.walk("t/k/.lease/")).modified
    proxy.fail("close")
    time.sleep(5)
    proxy.fail("")
    wait_for(lambda: next(store.objects.walk("t/k/.lease/")).modified > before)
    assert not lease.lost
    lease.release()


def test_release_of_a_server_that_is_away_is_no_error(proxy: Proxy, s3_store: MakeStore) -> None:
    store = s3_store(Access(proxy.url, KEY, SECRET), patience=1.0)
    with held(store):
        proxy.fail("close")


def test_a_forked_child_takes_nothing_along(tmp_path: Path) -> None:
    store = Store(tmp_path)
    lease = held(store)
    child = os.fork()
    if child == 0:
        lease.release()  # not the child's
        os._exit(0 if len(claims(store)) == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(claims(store)) == 1
    lease.release()


@pytest.mark.parametrize("store", ["local", "moto"], indirect=True)
def test_many_leases_live_by_one_thread(store: Store) -> None:
    store = Store(store.root, replace(store.storage, lease_seconds=30.0))
    leases = [held(store, f"k{number}") for number in range(30)]
    assert sum(thread.name == "rat_ray-leases" for thread in threading.enumerate()) == 1
    for lease in leases:
        lease.release()
    assert [entry for entry in store.objects.walk("t/") if "/.lease/" in entry.name] == []
