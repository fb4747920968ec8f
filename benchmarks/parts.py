"""10,000 small parts: what listing and committing a table costs, on disk and on moto's S3 server.

    PYTHONPATH=. python benchmarks/parts.py [--parts 10000]      # two minutes, most of it writing the parts

Bars for 10,000: at most 2 s on local disk and 15 s on moto, of the time between the last part and the table
(`Store.parts`, `Store.commit`, which reads the manifest back). The ratio is to a bare listing in the same run
(os.scandir with stat; boto3's paginator). Names tell range, rows and digest, so no part is opened.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rat_ray import tables
from rat_ray.stage.batch import describe
from rat_ray.store import StorageSettings, Store, part_name
from tests import servers


def seconds(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def fill(store: Store, count: int) -> float:
    names = [f"questions/k/{part_name(n, n + 1, 1, f'{n:016x}')}" for n in range(count)]
    with ThreadPoolExecutor(4) as pool:
        return seconds(lambda: list(pool.map(lambda name: store.objects.put(name, b"small"), names)))


def measure(where: str, store: Store, count: int, bare: Callable[[], int], bar: float) -> None:
    """Print one line; the bare listing runs before and after."""
    writing = fill(store, count)
    before = seconds(bare)
    began = time.perf_counter()
    parts = store.parts("questions", "k")
    listed = time.perf_counter() - began
    assert len(parts) == count
    assert store.commit("questions", "k", describe("questions", "k", "q", tables.QUESTIONS, parts)).num_rows == count
    total = time.perf_counter() - began
    plain = (before + seconds(bare)) / 2
    print(
        f"{where}: {count} parts written in {writing:.1f} s; listed {listed:.2f} s, listed and committed {total:.2f} s "
        f"(bar {bar:.0f} s), {total / plain:.1f} times a bare listing ({plain:.2f} s)"
    )


def on_disk(folder: Path, count: int) -> None:
    store = Store(folder / "store")
    measure("disk", store, count, lambda: sum(e.stat().st_size for e in os.scandir(folder / "store/questions/k")), 2)


def on_moto(folder: Path, count: int) -> None:
    with servers.moto(folder) as access:
        os.environ.update(access.environment())
        client = access.client()
        client.create_bucket(Bucket="bucket")
        store = Store("s3://bucket/x", access.storage(cache=str(folder / "cache")))

        def bare() -> int:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix="x/questions/k/")
            return sum(found["Size"] for page in pages for found in page.get("Contents", ()))

        measure("moto", store, count, bare, 15)


def leases_on_moto(folder: Path, count: int = 81) -> None:
    """What 81 stages at once cost in leases."""
    with servers.moto(folder) as access:
        os.environ.update(access.environment())
        access.client().create_bucket(Bucket="bucket")
        store = Store("s3://bucket/x", StorageSettings(endpoint=access.endpoint, path_style=True))
        found: list[Any] = []
        taking = seconds(lambda: found.extend(store.lease("t", f"k{n}", "benchmark") for n in range(count)))
        beating = seconds(lambda: [lease.beat() for lease in found])
        releasing = seconds(lambda: [lease.release() for lease in found])
        print(
            f"moto: {count} leases taken in {taking:.2f} s, one heartbeat of all {beating:.2f} s, "
            f"released in {releasing:.2f} s"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--parts", type=int, default=10_000)
    count = options.parse_args().parts
    with tempfile.TemporaryDirectory() as name:
        on_disk(Path(name), count)
        on_moto(Path(name), count)
        leases_on_moto(Path(name))


if __name__ == "__main__":
    main()
