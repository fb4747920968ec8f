"""Long simulations in parallel that can be stopped and continued: one line of JSON per finished job."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

Job = TypeVar("Job")
Record = dict[str, Any]


def read(path: Path) -> list[Record]:
    """The finished jobs' records; a last line without its end, written when the run was killed, is left out."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def run(
    jobs: Sequence[Job],
    key: Callable[[Job], str],
    work: Callable[[Job], Record],
    path: Path | None = None,
    processes: int = 1,
    report_every: int = 0,
) -> list[Record]:
    """The records of all jobs, in the order of the jobs; those in the file already are not run again.

    work: importable by a spawned process; what it returns gets the job's key. path: where records are appended.
    """
    found = {} if path is None else {record["key"]: record for record in read(path)}
    left = [job for job in jobs if key(job) not in found]
    start = time.perf_counter()
    with ExitStack() as stack:
        file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = "".join(json.dumps(record) + "\n" for record in found.values())
            path.write_text(whole, encoding="utf-8")
            file = stack.enter_context(path.open("a", encoding="utf-8"))
        for number, (job, record) in enumerate(_results(left, work, processes, stack), start=1):
            found[key(job)] = {"key": key(job), **record}
            if file is not None:
                file.write(json.dumps(found[key(job)]) + "\n")
                file.flush()
            if report_every and (number % report_every == 0 or number == len(left)):
                print(f"{number} of {len(left)}, {time.perf_counter() - start:.0f} s", flush=True)
    return [found[key(job)] for job in jobs]


def _results(
    jobs: Sequence[Job], work: Callable[[Job], Record], processes: int, stack: ExitStack
) -> Iterator[tuple[Job, Record]]:
    if processes == 1:
        return ((job, work(job)) for job in jobs)
    pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(processes))
    # Results come in the order of the jobs, so that each can be given to its own.
    return zip(jobs, pool.imap(work, jobs, chunksize=2), strict=True)
