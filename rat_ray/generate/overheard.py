"""What child processes write to stderr, kept as it passes: some libraries say only there why they failed."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from typing import Final

_STDERR: Final = 2
_LINES: Final = 400
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_ERROR: Final = re.compile(r"(?:^|[ )])(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$")


class Overheard:
    """As a context: what this process and those it starts write to stderr goes on there, and the end of it is kept.

    Processes started inside are listened to for as long as they live; this process only inside.
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._before = -1

    def __enter__(self) -> Overheard:
        self._before = os.dup(_STDERR)
        reading, writing = os.pipe()
        os.dup2(writing, _STDERR)
        os.close(writing)
        threading.Thread(target=self._pass_on, args=(reading, os.dup(self._before)), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._before, _STDERR)
        os.close(self._before)

    def last_error(self) -> str:
        """The last exception that was written, its message cut at 300 letters; "" where there is none."""
        for line in reversed(tuple(self._lines)):
            found = _ERROR.search(line)
            if found:
                return f"{found[1]}: {found[2]}"[:300]
        return ""

    def forget(self) -> None:
        """Forget what was written so far."""
        self._lines.clear()

    def _pass_on(self, reading: int, onwards: int) -> None:
        with os.fdopen(reading, "rb") as source, os.fdopen(onwards, "wb", buffering=0) as target:
            for line in source:
                self._lines.append(_COLOURS.sub("", line.decode("utf-8", "replace")).rstrip())
                target.write(line)
