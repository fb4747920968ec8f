"""Leases: two jobs that want the same stage pay once. They need no conditional write, only a consistent listing.

A claimant puts an object of its own into `<folder>/.lease/` and then lists the folder. Since both of two claimants put
before they list, at least one of them sees the other, and whoever sees another live claim takes its own back: at
most one holds the lease. A claim lives while it is written again and again (`heartbeat.py`); its age is measured by
the store's clock alone, against the longer of the two jobs' `lease_seconds`. A claim whose process is known to have
ended is dead at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import threading
import time
import uuid
from collections import Counter
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple

from rat_ray.errors import StageError
from rat_ray.store.objects import Entry, Objects, open_objects
from rat_ray.store.process import Process, this_process
from rat_ray.store.settings import LONGEST_LEASE, StorageSettings

LEASES, WRITERS = ".lease", ".writer"
_TRIES = 6
_RESOLUTION = 1.0  # seconds: S3 lists no finer times
_PATIENCE = 4.0  # of a heartbeat, in seconds: the next one comes soon


class Holder(NamedTuple):
    """Who has the lease that we wanted. since: its start in ISO 8601; age: seconds since its last sign of life."""

    host: str
    pid: int
    what: str
    since: str
    age: float

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.what}, since {self.since}, seen {self.age:.0f} s ago)"


class Lease:
    """A lease that is held until `release`, kept alive by the process's heartbeat."""

    def __init__(self, root: str, storage: StorageSettings, folder: str, what: str) -> None:
        self._patient = open_objects(root, storage)
        self._objects = open_objects(root, dataclasses.replace(storage, patience=min(_PATIENCE, storage.patience)))
        self._folder = folder
        self._seconds = storage.lease_seconds
        self._name = ""
        self._process = this_process()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._claim = json.dumps(
            {**self._process._asdict(), "what": what, "since": since, "seconds": self._seconds}
        ).encode()
        self._lock = threading.Lock()  # a beat must not write the claim again after its release
        self._written = 0.0
        self._released = False
        self.lost = False

    @property
    def interval(self) -> float:
        """Seconds between two heartbeats."""
        return self._seconds / 6

    def claim(self) -> list[_Refusal]:
        """Put the claim, under a new name. When others live, it is taken back, and they are the answer."""
        self._name = f"{self._folder}/{uuid.uuid4().hex}.json"
        try:
            began = _now()
            self._patient.put(self._name, self._claim)
            self._written = began
            others = self._others(self._patient, remove=True)
        except BaseException:
            with contextlib.suppress(StageError, OSError):  # it dies by its age, too
                self._objects.delete([self._name])
            raise
        if others:
            self._patient.delete([self._name])
        return others

    def beat(self) -> None:
        """Write the claim again, unless somebody removed it. Raises StageError for network errors."""
        with self._lock:
            if self._released or self.lost:
                return
            began = _now()
            late = began - self._written > self._seconds
            if self._entry(self._objects) is None:
                self.lost = True
                return
            self._objects.put(self._name, self._claim)
            # So late that others may take us for dead: whoever does so has claimed by now, or will see what we put.
            if late and self._others(self._objects, remove=False):
                self.lost = True
                self._objects.delete([self._name])
                return
            self._written = began

    def release(self) -> None:
        """Give it up. A store that is away is no error here: the claim dies by its age."""
        from rat_ray.store import heartbeat

        if self._process != this_process():  # a forked child holds nothing
            return
        heartbeat.stop(self)
        with self._lock:
            if self._released:
                return
            self._released = True
            with contextlib.suppress(StageError, OSError):
                self._objects.delete([self._name])

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _entry(self, objects: Objects) -> Entry | None:
        return next((entry for entry in objects.walk(self._name) if entry.name == self._name), None)

    def _others(self, objects: Objects, remove: bool) -> list[_Refusal]:
        """The other live claims; dead ones are removed on the way."""
        entries = list(objects.walk(f"{self._folder}/"))
        own = next((entry for entry in entries if entry.name == self._name), None)
        if own is None:  # removed by one who took us for dead: he has it, or had it
            return [_Refusal(Holder("?", 0, "another job", "?", 0.0), self._name, _now())]
        found: list[_Refusal] = []
        for entry in entries:
            if entry.name == self._name or not entry.name.endswith(".json"):
                continue
            holder = self._living(objects, entry, own.modified - entry.modified)
            if holder is not None:
                found.append(_Refusal(holder, entry.name, _now()))
            elif remove:
                objects.delete([entry.name])
        return found

    def _living(self, objects: Objects, entry: Entry, age: float) -> Holder | None:
        late = age > self._seconds + _RESOLUTION
        try:
            claim = json.loads(objects.get(entry.name))
            process = Process(str(claim["host"]), str(claim["machine"]), int(claim["pid"]), str(claim["started"]))
            what, since = str(claim["what"]), str(claim["since"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            return None if late else Holder("?", 0, "a claim that cannot be read", "?", age)
        dead = process.gone or (late and age > _seconds_of(claim) + _RESOLUTION)
        return None if dead else Holder(process.host, process.pid, what, since, max(0.0, age))


def claimed_seconds(objects: Objects, name: str) -> float:
    """For how long the claim of this name counts, as it says itself; 0 where it does not."""
    try:
        return _seconds_of(json.loads(objects.get(name)))
    except (FileNotFoundError, ValueError):
        return 0.0


def _seconds_of(claim: Any) -> float:
    value = claim.get("seconds") if isinstance(claim, dict) else None
    if not isinstance(value, int | float) or not value > 0:
        return 0.0
    return min(float(value), LONGEST_LEASE)


def take(root: str, storage: StorageSettings, folder: str, what: str, sightings: int = 2) -> Lease | Holder:
    """The lease of a folder, or who has it. Waits for one who is about to step back, as we do: seconds at most.

    sightings: a claim that is seen in so many attempts is a holder's; who steps back comes again under another name.
    """
    from rat_ray.store import heartbeat

    known = _known_holder(root, storage, folder)
    if known is not None:
        return known
    lease = Lease(root, storage, folder, what)
    seen: Counter[str] = Counter()
    attempt = 0
    while others := lease.claim():
        attempt += 1
        seen.update(other.name for other in others)
        surest = max(others, key=lambda other: seen[other.name])
        if seen[surest.name] == sightings or attempt == _TRIES:
            _refusals[root, folder] = surest
            return surest.holder
        time.sleep(random.uniform(0.1, 0.2) * 2 ** (attempt - 1))
    heartbeat.start(lease)
    return lease


class _Refusal(NamedTuple):
    """A holder, the name of his claim, and when we saw it, by our clock."""

    holder: Holder
    name: str
    when: float


_refusals: dict[tuple[str, str], _Refusal] = {}


def _known_holder(root: str, storage: StorageSettings, folder: str) -> Holder | None:
    """Who refused us a moment ago, if his claim is still there: one request for a job that asks again and again."""
    refusal = _refusals.pop((root, folder), None)
    if refusal is None or _now() - refusal.when > storage.lease_seconds / 12:
        return None
    if not any(entry.name == refusal.name for entry in open_objects(root, storage).walk(refusal.name)):
        return None
    _refusals[root, folder] = refusal
    return refusal.holder


def _now() -> float:
    """Seconds that go on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
