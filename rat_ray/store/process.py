"""Which process this is, in words that another process on the same machine can check."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process. machine: boot and process namespace, empty where the system does not say; started: clock ticks."""

    host: str
    machine: str
    pid: int
    started: str

    @property
    def gone(self) -> bool:
        """Whether it is known to have ended: only where it ran on this machine, and this machine can tell."""
        return bool(self.machine) and self.machine == _machine() and _started(self.pid) != self.started


def this_process() -> Process:
    return Process(socket.gethostname(), _machine(), os.getpid(), _started(os.getpid()))


@lru_cache(maxsize=1)
def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    except OSError:
        return ""


def _started(pid: int) -> str:
    """The start time of a process, in ticks since boot; empty: there is none, or it is dead and not yet collected."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if words[0] in "ZX" else words[19]
