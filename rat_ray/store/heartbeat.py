"""One thread per process that keeps all its leases alive."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING

from rat_ray.errors import InputError, StageError

if TYPE_CHECKING:
    from rat_ray.store.lease import Lease


class _Heart:
    def __init__(self) -> None:
        self._due: dict[Lease, float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def start(self, lease: Lease) -> None:
        with self._changed:
            self._due[lease] = time.monotonic() + lease.interval
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rat_ray-leases", daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self, lease: Lease) -> None:
        with self._changed:
            self._due.pop(lease, None)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            lease = self._next()
            if lease is None:
                return
            with contextlib.suppress(StageError, InputError, OSError):  # the store is away: the next beat tells
                lease.beat()
            with self._changed:
                if lease in self._due and not lease.lost:
                    self._due[lease] = time.monotonic() + lease.interval
                else:
                    self._due.pop(lease, None)

    def _next(self) -> Lease | None:
        """The lease whose beat is due, when it is; None when there are no leases any more, which ends the thread."""
        with self._changed:
            while self._due:
                lease = min(self._due, key=self._due.__getitem__)
                wait = self._due[lease] - time.monotonic()
                if wait <= 0:
                    return lease
                self._changed.wait(wait)
            self._thread = None
            return None


_heart = _Heart()


def _new_heart() -> None:
    global _heart
    _heart = _Heart()


os.register_at_fork(after_in_child=_new_heart)  # threads and locks do not survive a fork


def start(lease: Lease) -> None:
    """Keep it alive."""
    _heart.start(lease)


def stop(lease: Lease) -> None:
    """Let it be."""
    _heart.stop(lease)
