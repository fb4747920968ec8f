"""Workers that write down each call and, where they are told to, wait, die or hang; and stages made of them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.stage import Runs, Stage, import_table
from rat_ray.store import Store, Table

Rows = Mapping[str, pa.Table]


def _no_key(default: Any) -> Any:
    return dataclasses.field(default=default, metadata={"key": False})


@dataclass(frozen=True)
class Trouble:
    """None of it enters the key, so that a disturbed and an undisturbed run make the same table.

    log: a file that gets one line per call. wait: seconds per call. poison: ids that kill the process, by this signal,
    or by os._exit for 0. hang_at: an id at which it sleeps for ever. greedy: an id at which
    it takes 5 GiB of memory. dies_at_start: its constructor kills the process. meet: calls that must be in one worker
    at once before any of them goes on.
    size: bytes of text per row.
    """

    log: str = _no_key("")
    wait: float = _no_key(0.0)
    poison: tuple[str, ...] = _no_key(())
    signal: int = _no_key(0)
    hang_at: str = _no_key("")
    greedy: str = _no_key("")
    dies_at_start: bool = _no_key(False)
    meet: int = _no_key(0)
    size: int = 8


class Call(NamedTuple):
    """One line of the log."""

    first: str
    rows: int
    pid: int


def calls(log: Path) -> list[Call]:
    """What the workers wrote down, in its order."""
    if not log.exists():
        return []
    lines = [line.split() for line in log.read_text().splitlines()]
    return [Call(first, int(rows), int(pid)) for first, rows, pid in lines]


class Worker:
    """What all of them do before they answer."""

    def __init__(self, settings: Trouble, inputs: Mapping[str, Any]) -> None:
        self.settings = settings
        self._meeting = threading.Barrier(settings.meet) if settings.meet else None
        if settings.dies_at_start:
            self._die()

    def begin(self, rows: Rows) -> list[str]:
        """Write the call down, make trouble, and give the ids."""
        [table] = rows.values()
        ids: list[str] = table.column("question_id").to_pylist()
        if self.settings.log:
            with Path(self.settings.log).open("a") as stream:
                stream.write(f"{ids[0] if ids else '-'} {len(ids)} {os.getpid()}\n")
        time.sleep(self.settings.wait)
        if self._meeting is not None:
            self._meeting.wait(timeout=60)
        if set(ids) & set(self.settings.poison):
            self._die()
        while self.settings.hang_at in ids:
            time.sleep(1)
        if self.settings.greedy in ids:
            taken = []
            for _ in range(50):
                taken.append(b"\1" * (100 << 20))
                time.sleep(0.1)
            time.sleep(30)
        return ids

    def text(self, name: str) -> str:
        """As many bytes as `size` says, that depend on the id only and cannot be compressed much."""
        blocks = -(-self.settings.size // 64)
        return "".join(hashlib.sha256(f"{name} {block}".encode()).hexdigest() for block in range(blocks))

    def _die(self) -> None:
        if self.settings.signal:
            os.kill(os.getpid(), self.settings.signal)
            time.sleep(60)
        os._exit(1)


class Same(Worker):
    """One verdict per question."""

    def __call__(self, rows: Rows) -> pa.Table:
        ids = self.begin(rows)
        count = len(ids)
        known = {
            "question_id": ids,
            "verdict": [1] * count,
            "raw": [self.text(name) for name in ids],
            "status": ["ok"] * count,
        }
        columns = {name: known.get(name, [None] * count) for name in tables.VERDICTS.names}
        return pa.table(columns, schema=tables.VERDICTS)


class RandomText(Same):
    """Another text at each call, as a language model may write."""

    def text(self, name: str) -> str:
        return os.urandom(16).hex()


class Sparse(Same):
    """Verdicts of which only the odd ranges have a text."""

    def text(self, name: str) -> Any:
        return super().text(name) if int(name[1:]) // 4 % 2 else None


class Inferred(Sparse):
    """The same, by a worker that leaves the types to Arrow."""

    def __call__(self, rows: Rows) -> pa.Table:
        return pa.table(super().__call__(rows).to_pydict())


class Bare(Worker):
    """Rows that cannot carry an error."""

    schema = pa.schema([pa.field("question_id", pa.string(), nullable=False), pa.field("text", pa.string())])

    def __call__(self, rows: Rows) -> pa.Table:
        ids = self.begin(rows)
        return pa.table({"question_id": ids, "text": [self.text(name) for name in ids]}, schema=self.schema)


class Lengths(Worker):
    """How long the text of each row is, and, as its start, how long all texts of the input `all` are."""

    def __init__(self, settings: Trouble, inputs: Mapping[str, Any]) -> None:
        super().__init__(settings, inputs)
        self.total = sum(_lengths(batch.column("raw")) for batch in inputs["all"].batches())

    def __call__(self, rows: Rows) -> pa.Table:
        ids = self.begin(rows)
        texts = rows["verdicts"].column("raw")
        lengths = [f"{_lengths(texts.slice(index, 1))} of {self.total}" for index in range(len(ids))]
        return pa.table({"question_id": ids, "text": lengths}, schema=Bare.schema)


def _lengths(texts: pa.ChunkedArray) -> int:
    return sum(len(text.as_py()) for text in texts)


class Groups(Bare):
    """Two rows per question."""

    def __call__(self, rows: Rows) -> pa.Table:
        once = super().__call__(rows)
        return pa.concat_tables([once, once]).sort_by("question_id")


class Counts(Worker):
    """How many ids end in which digit."""

    schema = pa.schema([pa.field("last", pa.string()), pa.field("n", pa.int64(), nullable=False)])

    def __call__(self, rows: Rows) -> pa.Table:
        last = sorted(name[-1] for name in self.begin(rows))
        digits = sorted(set(last))
        return pa.table({"last": digits, "n": [last.count(digit) for digit in digits]}, schema=self.schema)


class Whole(Worker):
    """Three numbers of the whole input."""

    schema = pa.schema([pa.field("name", pa.string()), pa.field("value", pa.string())])

    def __call__(self, rows: Rows) -> pa.Table:
        names = ["a", "b", "c"]
        text = " ".join(self.begin(rows))
        return pa.table({"name": names, "value": [self.text(name + text) for name in names]}, schema=self.schema)


class Files(Worker):
    """A folder with a text file per question, as an index has files."""

    def __call__(self, rows: Rows, folder: Path) -> int:
        ids = self.begin(rows)
        for name in ids:
            (folder / name).write_text(self.text(name))
        return len(ids)


@dataclass(frozen=True)
class _Kind:
    worker: type[Worker]
    schema: pa.Schema | None
    rows: str


KINDS = {
    "same": _Kind(Same, tables.VERDICTS, "same"),
    "random": _Kind(RandomText, tables.VERDICTS, "same"),
    "sparse": _Kind(Sparse, tables.VERDICTS, "same"),
    "inferred": _Kind(Inferred, tables.VERDICTS, "same"),
    "bare": _Kind(Bare, Bare.schema, "same"),
    "groups": _Kind(Groups, Groups.schema, "groups"),
    "counts": _Kind(Counts, Counts.schema, "counts"),
    "whole": _Kind(Whole, Whole.schema, "whole"),
    "files": _Kind(Files, None, "files"),
}


def stage_of(kind: str, source: Table, trouble: Trouble | None = None, together: int = 1, **resources: Any) -> Stage:
    """A stage of this kind over the questions, in ranges of 4 rows unless told otherwise."""
    one = KINDS[kind]
    return Stage(
        table=kind,
        label=kind,
        settings=trouble or Trouble(),
        worker=one.worker,
        over={"questions": source},
        schema=one.schema,
        rows=one.rows,
        expected_rows=3 if kind == "whole" else None,
        together=together,
        resources=Resources(**{"range_rows": 4, **resources}),
    )


def questions(store: Store, count: int) -> Table:
    """So many questions q0, q1, … as a committed table."""
    rows = {
        "question_id": [f"q{index}" for index in range(count)],
        "question": ["why?"] * count,
        "answers": [["because"]] * count,
        "evidence": [None] * count,
        "shape": [None] * count,
    }
    table = pa.table(rows, schema=tables.QUESTIONS)
    return import_table(store, "questions", f"{count}", "questions", tables.QUESTIONS, lambda: iter([table]))


def undisturbed(kind: str, folder: Path, rows: int, trouble: Trouble | None = None, **resources: Any) -> Table:
    """The table as one process makes it that nobody disturbs, in a store of its own on a disk with room."""
    store = Store(folder / "undisturbed")
    store.prepare()
    here = Runs(store, Cluster(ClusterSettings(use="never")), quiet=True)
    [table] = here.run([stage_of(kind, questions(store, rows), trouble, **resources)], "undisturbed")
    return table


def content(table: Table) -> Any:
    """What a table holds: its rows, or the files of its folders with what is in them."""
    if not table.files:
        return table.read()
    folders = table.folders()
    return [{path.name: path.read_text() for path in sorted(folder.iterdir())} for folder in folders]


def kill_now(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"waited in vain for {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def meanwhile(action: Callable[[], None]) -> Iterator[None]:
    """Run the action in a thread beside the block; what it raises is raised at the end of the block."""
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            action()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if raised:
        raise raised[0]
