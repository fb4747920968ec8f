"""A pool of Ray actors that does units of work and outlives dead processes and nodes.

Why not Ray Data's actor pool: it retries what killed a process without end, tells nobody which unit that was, and has
hung after faults (ray#41258, ray#51946). Here the driver hands out the units itself, one more per actor than it does at
once, and sees every death: a unit whose process died is tried alone, so that the blame is exact; a node's death is
nobody's fault.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from rat_ray.errors import StageError

U = TypeVar("U")  # a unit
R = TypeVar("R")  # its receipt
C = TypeVar("C", contravariant=True)

WAITING = 1  # units per actor beyond those that run, so that no actor idles between two
LOSSES = 20  # how often a unit may be lost with its node or its connection before the job ends
HEAD_SECONDS = 20.0  # for which the cluster's head may be silent
STARTS = 3  # how many actors in a row may fail to start
RESIZE_SECONDS = 5.0  # how often the pool looks whether the cluster has grown
REPORT_SECONDS = 60.0  # how often a stage without progress says so


class Recovery(Protocol[U, C]):
    """What becomes of units whose process died; see `rat_ray.stage.recovery`."""

    def died(self, unit: U, deaths: int, reason: str) -> list[U] | None:
        """The units to run instead of one that has killed `deaths` processes; None: try it again."""
        ...

    def finished(self, unit: U, receipt: C) -> list[U]:
        """The units that follow one that was done."""
        ...

    def unwanted(self, unit: U) -> bool:
        """Whether a unit need not be done any more, because what it belongs to was given up."""
        ...


class PoolSettings(NamedTuple):
    """options: of each actor (num_cpus, ...). size: how many actors the cluster holds now, asked from time to time.

    needs: what an actor asks for, in words. together: how many units an actor does at once.
    """

    options: dict[str, Any]
    size: Callable[[], int]
    stall_timeout: float
    needs: str
    together: int = 1


@dataclass
class _Work(Generic[U]):
    unit: U
    group: Hashable
    suspect: bool = False  # it, or what it was cut from, killed a process
    again: bool = False  # it was handed out before
    deaths: int = 0
    losses: int = 0


@dataclass(eq=False)
class _Member(Generic[U]):
    """One actor: its units in the order in which it does them, and what its last unit was like."""

    actor: Any
    starting: Any  # resolves to (node id, host) when the process is up
    node: str = ""
    host: str = ""
    running: dict[Any, _Work[U]] = field(default_factory=dict)
    since: float = 0.0
    group: Hashable = None


class _Worker:
    """The actor: makes its runner once, then does units, several at once where the pool says so."""

    def __init__(self, make_runner: Any) -> None:
        self._runner = make_runner()

    def where(self) -> tuple[str, str]:
        """The node's id and the host's address."""
        import ray

        return ray.get_runtime_context().get_node_id(), str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]

    def run(self, unit: Any, again: bool) -> Any:
        return self._runner(unit, again)


class Pool(Generic[U, R]):
    """Does units on actors; `receipts` yields what came of them. group: units of equal group follow each other."""

    def __init__(
        self,
        title: str,
        units: Sequence[U],
        group: Callable[[U], Hashable],
        make_runner: Any,
        recovery: Recovery[U, R],
        settings: PoolSettings,
    ) -> None:
        self._title = title
        self._make_runner = make_runner
        self._recovery = recovery
        self._settings = settings
        self._group = group
        self._queues: dict[Hashable, deque[_Work[U]]] = {}
        self._suspects: deque[_Work[U]] = deque()
        self._members: list[_Member[U]] = []
        self._failed_starts = 0
        self._resized = 0.0
        self._progress = time.monotonic()
        self._answered = time.monotonic()  # when the cluster's head last did
        self._worked: set[Hashable] = set()  # groups of which something was done
        for unit in units:
            self._enqueue(_Work(unit, group(unit)))

    def receipts(self) -> Iterator[R]:
        """The receipts as they come. The actors are gone when it ends, in whatever way.

        Raises: StageError when nothing happened for `stall_timeout` seconds, when actors cannot start, or from
        `Recovery.died`.
        """
        import ray

        runner = ray.put(self._make_runner)
        self._progress = self._answered = reported = time.monotonic()
        try:
            while self._outstanding():
                self._resize(ray, runner)
                self._assign()
                refs = [ref for member in self._members for ref in (*member.running, member.starting) if ref]
                ready, _ = ray.wait(refs, num_returns=1, timeout=1.0) if refs else ([], [])
                if not refs:
                    time.sleep(0.2)
                for ref in ready:
                    yield from self._take(ray, ref)
                now = time.monotonic()
                waited = now - self._progress
                if waited > self._settings.stall_timeout:
                    raise StageError(
                        f"{self._title}: {self._state(waited)}; given up after cluster.stall_timeout="
                        f"{self._settings.stall_timeout:g} s. What is complete is kept: run the same command again, "
                        "with a longer cluster.stall_timeout or a smaller range_rows if the ranges are only slow"
                    )
                if now - max(reported, self._progress) > REPORT_SECONDS:
                    reported = now
                    self._say(self._state(waited))
        finally:
            if time.monotonic() - self._answered < HEAD_SECONDS:  # without its head the cluster takes no orders
                for member in self._members:
                    ray.kill(member.actor)

    def drop(self, unwanted: Callable[[U], bool]) -> None:
        """Forget the units that were not handed out yet and are no longer wanted."""
        for name, queue in self._queues.items():
            self._queues[name] = deque(work for work in queue if not unwanted(work.unit))
        self._suspects = deque(work for work in self._suspects if not unwanted(work.unit))

    # --- handing out --------------------------------------------------------------------------------------------

    def _enqueue(self, work: _Work[U], first: bool = False) -> None:
        if work.suspect:
            self._suspects.appendleft(work)
            return
        queue = self._queues.setdefault(work.group, deque())
        queue.appendleft(work) if first else queue.append(work)

    def _outstanding(self) -> int:
        """Units that are queued or handed out."""
        running = sum(len(member.running) for member in self._members)
        return running + len(self._suspects) + sum(len(queue) for queue in self._queues.values())

    def _resize(self, ray: Any, runner: Any) -> None:
        """Start actors up to what the cluster holds now and the units need."""
        now = time.monotonic()
        if self._members and now - self._resized < RESIZE_SECONDS:
            return
        self._resized = now
        if not self._head_answers(ray, now):
            return
        wanted = min(self._settings.size(), self._outstanding())
        if wanted <= len(self._members):
            return
        fixed = {"max_restarts": 0, "max_task_retries": 0, "max_concurrency": self._settings.together}
        actor_class = ray.remote(_Worker).options(**fixed, **self._settings.options)
        for _ in range(wanted - len(self._members)):
            actor = actor_class.remote(runner)
            self._members.append(_Member(actor, actor.where.remote()))

    def _head_answers(self, ray: Any, now: float) -> bool:
        """Whether the head still listens. Raises StageError in time: Ray would end the process without a word."""
        host, _, port = str(ray.get_runtime_context().gcs_address).rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
        except (OSError, ValueError):
            if now - self._answered > HEAD_SECONDS:
                raise StageError(
                    f"{self._title}: the head of the cluster at {host}:{port} does not answer any more; what is "
                    "complete is kept: run the same command again when there is a cluster"
                ) from None
            return False
        self._answered = now
        return True

    def _assign(self) -> None:
        together = self._settings.together
        for depth in range(1, together + WAITING + 1):  # everybody gets a first unit before anybody gets a second
            if depth > together and sum(len(queue) for queue in self._queues.values()) < len(self._members):
                return  # the last units wait here for whoever is free first
            for member in self._members:
                while not member.starting and len(member.running) < depth:
                    work = self._next_for(member)
                    if work is None:
                        break
                    if not member.running:
                        member.since = time.monotonic()
                    member.group = work.group
                    again = work.again or work.deaths > 0
                    member.running[member.actor.run.remote(work.unit, again)] = work

    def _next_for(self, member: _Member[U]) -> _Work[U] | None:
        """The next unit: of the member's own group, else of the group with most units per actor.

        Suspects are done alone on their actor, so that it is known who killed it, and last, unless nothing of their
        group was ever done: then it may be no matter of theirs, which is found out first.
        """
        if any(work.suspect for work in member.running.values()):
            return None
        if self._suspects and not member.running and self._suspects[0].group not in self._worked:
            return self._suspects.popleft()
        own = self._queues.get(member.group)
        if own:
            return own.popleft()
        waiting = {name: queue for name, queue in self._queues.items() if queue}
        if waiting and not member.running:
            at = [other.group for other in self._members if other.running]
            return max(waiting.items(), key=lambda item: len(item[1]) / (1 + at.count(item[0])))[1].popleft()
        if not waiting and not member.running and self._suspects:
            return self._suspects.popleft()
        return None

    # --- taking back --------------------------------------------------------------------------------------------

    def _take(self, ray: Any, ref: Any) -> Iterator[R]:
        found = next((m for m in self._members if ref == m.starting or ref in m.running), None)
        if found is None:
            return  # of a member that was given up a moment ago
        try:
            value = ray.get(ref)
        except ray.exceptions.RayError as error:
            self._lost(ray, found, error)
            return
        if ref == found.starting:
            found.node, found.host = value
            found.starting = None
            self._failed_starts = 0
            self._progress = time.monotonic()
            return
        work = found.running.pop(ref)
        found.since = self._progress = time.monotonic()
        self._worked.add(work.group)
        for unit in self._recovery.finished(work.unit, value):
            self._enqueue(_Work(unit, self._group(unit)), first=True)
        yield value

    def _lost(self, ray: Any, member: _Member[U], error: Exception) -> None:
        """An actor is gone: blame the unit that it was doing, unless its node went with it, and put back the rest."""
        self._members.remove(member)
        self._resized = 0.0
        ray.kill(member.actor)  # where only the connection was lost
        reason = _reason(error)
        gone = _node_is_gone(ray, member.node, str(error))
        if member.starting and not gone:
            self._not_started(reason)
            return
        blamed = (ray.exceptions.ActorDiedError, ray.exceptions.OutOfMemoryError, ray.exceptions.RayTaskError)
        node_lost = gone or not isinstance(error, blamed)
        lost = list(member.running.values())
        if lost:
            self._progress = time.monotonic()
            what = f"the node {member.host} was lost" if node_lost else "a worker died"
            self._say(f"{what} at {lost[0].unit} ({reason})")
        at_work = lost[: self._settings.together]
        alone = len(at_work) == 1
        for work in lost[len(at_work) :]:
            self._put_back(work, reason, counts=False)
        for work in at_work:
            if node_lost:
                self._put_back(work, reason, counts=True)
                continue
            if not alone:  # any of them may have done it: each is tried alone
                work.suspect = work.again = True
                self._suspects.append(work)
                continue
            work.deaths += 1
            instead = self._recovery.died(work.unit, work.deaths, reason)
            if instead is None:
                work.suspect = True
                self._suspects.insert(1, work)  # after the one that is next, which may show whether anything works
                continue
            for unit in reversed(instead):
                self._enqueue(_Work(unit, work.group, suspect=True))
            if not instead:
                self.drop(self._recovery.unwanted)

    def _not_started(self, reason: str) -> None:
        """An actor did not come up. Others may work; where none does, `STARTS` in a row are enough."""
        self._resized = time.monotonic()  # no new one before the next look at the cluster
        self._failed_starts += 1
        self._say(f"a worker could not start ({reason})")
        if self._failed_starts >= STARTS and all(member.starting for member in self._members):
            raise StageError(f"{self._title}: {STARTS} workers in a row could not start: {reason}")

    def _put_back(self, work: _Work[U], reason: str, counts: bool) -> None:
        work.losses += int(counts)
        work.again = True
        if work.losses > LOSSES:
            raise StageError(f"{self._title}: {work.unit} was lost {work.losses} times with its node ({reason})")
        self._enqueue(work, first=True)

    def _say(self, text: str) -> None:
        print(f"{self._title}: {text}", file=sys.stderr, flush=True)

    def _state(self, seconds: float) -> str:
        """What the pool waits for, in words."""
        now = time.monotonic()
        busy = [member for member in self._members if member.running]
        starting = sum(1 for member in self._members if member.starting)
        words = [f"nothing was finished for {seconds:.0f} s"]
        for member in busy[:3]:
            unit = next(iter(member.running.values())).unit
            words.append(f"{unit} runs on {member.host} for {now - member.since:.0f} s")
        if len(busy) > 3:
            words.append(f"{len(busy) - 3} more run")
        if starting:
            words.append(f"{starting} workers wait for a node with {self._settings.needs}")
        return "; ".join(words)


def _node_is_gone(ray: Any, node: str, message: str) -> bool:
    """Whether the actor's node died or is dying."""
    if "node has died" in message or "node died" in message or "preempted" in message:
        return True
    alive = {one["NodeID"] for one in ray.nodes() if one["Alive"]}
    return bool(node) and node not in alive


def _reason(error: Exception) -> str:
    """What Ray says about a death, in one line, without its ids and its guesses."""
    text = " ".join(str(error).split())
    detail = re.search(r"Worker exit detail: (.*?)(?: Some common causes| Lease ID|$)", text)
    return (detail[1] if detail else text)[:300] or type(error).__name__
