"""Progress per stage: bars on a terminal, plain lines in a log. Rows done, rows per second, time left."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

LINE_EVERY_SECONDS = 10.0


def duration(seconds: float) -> str:
    """`47s`, `3m05s` or `2h07m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


class StageProgress:
    """Counts the rows of one stage. `reused` rows were there before and do not count for the rate."""

    def __init__(self, label: str, total: int, reused: int, console: Console, unit: str = "rows") -> None:
        self.label = label
        self.unit = unit
        self.total = total
        self.reused = reused
        self.done = reused
        self._console = console
        self._started = time.monotonic()
        self._last_line = self._started
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> StageProgress:
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[state]}"),
                console=self._console,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total, completed=self.done, state=self._state())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif kind is None:
            self._line(self._state(final=True))

    def advance(self, rows: int) -> None:
        """Count rows that were just finished."""
        self.done += rows
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self.done, state=self._state(final=self.done >= self.total))
            return
        now = time.monotonic()
        if now - self._last_line >= LINE_EVERY_SECONDS and self.done < self.total:
            self._last_line = now
            self._line(self._state())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def _line(self, state: str) -> None:
        self._console.print(f"{self.label}: {state}", highlight=False, markup=False, soft_wrap=True)

    def _state(self, final: bool = False) -> str:
        fresh = self.done - self.reused
        rate = fresh / self.seconds if self.seconds > 0 else 0.0
        words = [f"{self.done:,}/{self.total:,} {self.unit}"]
        if fresh:
            words.append(f"{rate:,.1f} {self.unit}/s")
        if self.reused:
            words.append(f"{self.reused:,} reused")
        if final:
            words.append(f"took {duration(self.seconds)}")
        elif fresh and rate > 0:
            words.append(f"{duration((self.total - self.done) / rate)} left")
        return ", ".join(words)


def console() -> Console:
    """The console that progress and results go to: stdout, whatever is attached to it."""
    return Console(file=sys.stdout, soft_wrap=False)
