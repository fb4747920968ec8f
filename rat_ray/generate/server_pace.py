"""How many requests are in work at once, and when the next may begin."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from rat_ray.generate.server_reply import Reply

FIRST_WAIT: Final = 0.5  # seconds before the first retry; doubled for each further one
LONGEST_WAIT: Final = 30.0


@dataclass(eq=False)
class _Job:
    """One try of one request; task: who does it now."""

    attempt: Callable[[], Coroutine[Any, Any, Reply]]
    done: asyncio.Future[Reply]
    task: asyncio.Task[None] | None = None


class Pace:
    """How many requests may be in work at once, and when the next may begin. Used by the loop's thread only.

    A 429 or 503 stops all of them for a while and halves their number; each answer then adds a little again.
    As many tasks as may be in work take one request after the other: a task that had to be woken for each of them
    would send it only after all replies that came with the last one are read.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(most)
        self._jobs: deque[_Job] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._opens = 0.0
        self._held = 0.0  # when it was stopped last
        self._level = 0  # how often it was stopped without an answer in between
        self._timer: asyncio.TimerHandle | None = None
        self.answered_at = 0.0

    async def do(self, attempt: Callable[[], Coroutine[Any, Any, Reply]], again: bool) -> Reply:
        """Do it when it is its turn; who was refused before goes first."""
        job = _Job(attempt, asyncio.get_running_loop().create_future())
        self._jobs.appendleft(job) if again else self._jobs.append(job)
        self._start()
        try:
            return await job.done
        except asyncio.CancelledError:
            if job.task is not None:
                job.task.cancel()
            raise

    def answered(self) -> None:
        """A request was answered, so that more may be sent."""
        self.answered_at = time.monotonic()
        self._level = 0
        self._limit = min(self._most, self._limit + 1 / self._limit)

    def hold(self, began: float, wait: float | None, narrower: bool) -> None:
        """Nothing is sent for `wait` seconds, or a while that grows. began: when the request was sent that failed.

        Requests that were in work together fail together: only the first of them counts.
        """
        now = time.monotonic()
        first = began >= self._held
        if first:
            self._held = now
            self._level += 1
            if narrower:
                self._limit = max(1.0, self._limit / 2)
        if wait is not None:
            self._opens = max(self._opens, now + wait)
        elif first:
            self._opens = max(self._opens, now + backoff(self._level))

    def _start(self) -> None:
        """Start tasks for the requests that wait, as many as may be, or come back when some may."""
        left = self._opens - time.monotonic()
        if self._jobs and left > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left, self._open)
        for _ in range(min(len(self._jobs), int(self._limit) - len(self._tasks)) if left <= 0 else 0):
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _open(self) -> None:
        self._timer = None
        self._start()

    async def _work(self) -> None:
        task = asyncio.current_task()
        while self._jobs and len(self._tasks) <= int(self._limit) and time.monotonic() >= self._opens:
            job = self._jobs.popleft()
            if job.done.done():  # nobody waits for it any more
                continue
            job.task = task
            try:
                reply = await job.attempt()
            except Exception as error:
                if not job.done.done():
                    job.done.set_exception(error)
                continue
            finally:
                job.task = None
            if not job.done.done():
                job.done.set_result(reply)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._start()


def backoff(tries: int) -> float:
    """Seconds before the next try, different ones for requests that failed together."""
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(tries - 1, 10))
    return longest * random.uniform(0.5, 1.0)
