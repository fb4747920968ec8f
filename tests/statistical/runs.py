"""Long simulations in parallel that can be stopped and continued: one line of JSON per finished job.

A job's key holds a digest of everything that is sampled (`fit_digest`), so that results of an older model in the same
file are not taken for the present one's.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rat_ray.model.design import Design
from rat_ray.model.engines import EngineSettings, program_digest

Job = TypeVar("Job")
Record = dict[str, Any]


def fit_digest(design: Design, engine: EngineSettings) -> str:
    """Of the program, its data and the engine's settings: with the seed, all that decides the draws."""
    digest = hashlib.sha256(f"{program_digest()} {engine}".encode())
    for name, value in sorted(design.data().items()):
        array = np.ascontiguousarray(value)
        digest.update(f"{name} {array.dtype.kind} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:16]


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
    Raises RuntimeError when the Stan program is changed meanwhile: its data would be those of the old one.
    """
    program = program_digest()
    keys = [key(job) for job in jobs]
    found = {} if path is None else {record["key"]: record for record in read(path)}
    left = [number for number, name in enumerate(keys) if name not in found]
    start = time.perf_counter()
    with ExitStack() as stack:
        file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = "".join(json.dumps(record) + "\n" for record in found.values())
            path.write_text(whole, encoding="utf-8")
            file = stack.enter_context(path.open("a", encoding="utf-8"))
        results = _results([jobs[number] for number in left], work, processes, stack)
        for done, (number, result) in enumerate(zip(left, results, strict=True), start=1):
            if program_digest() != program:
                raise RuntimeError("the Stan program was changed during the run: start again, finished jobs are kept")
            record = {"key": keys[number], **result}
            found[keys[number]] = record
            if file is not None:
                file.write(json.dumps(record) + "\n")
                file.flush()
            if report_every and (done % report_every == 0 or done == len(left)):
                print(f"{done} of {len(left)}, {time.perf_counter() - start:.0f} s", flush=True)
    return [found[name] for name in keys]


def _results(jobs: Sequence[Job], work: Callable[[Job], Record], processes: int, stack: ExitStack) -> Iterator[Record]:
    """In the order of the jobs."""
    if processes == 1:
        return map(work, jobs)
    pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(processes))
    return pool.imap(work, jobs, chunksize=2)


def replace_block(path: Path, name: str, text: str) -> None:
    """Put text between the marks `<!-- NAME -->` and `<!-- /NAME -->`. Raises ValueError where they are missing."""
    first, last = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, _, rest = path.read_text(encoding="utf-8").partition(first)
    _, found, after = rest.partition(last)
    if not found:
        raise ValueError(f"{path}: the marks {first.strip()} and {last.strip()} are expected")
    path.write_text(f"{before}{first}\n{text}\n{last}{after}", encoding="utf-8")
