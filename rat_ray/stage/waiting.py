"""Says from time to time which other job a table is waited for."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rat_ray.progress import console

SAY_EVERY_SECONDS = 60.0


class Waiting:
    """holders: by a table's key, who makes it, in words."""

    def __init__(self, title: str, quiet: bool = False) -> None:
        self.holders: dict[str, str] = {}
        self._title = title
        self._quiet = quiet
        self._said = float("-inf")

    def say(self, keys: Sequence[str]) -> None:
        """Name the holder of the first of these tables, at first and then once a minute."""
        now = time.monotonic()
        if self._quiet or now - self._said < SAY_EVERY_SECONDS:
            return
        self._said = now
        more = f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
        text = f"{self._title}: waiting, {self.holders[keys[0]]}{more}"
        console().print(text, highlight=False, markup=False, soft_wrap=True)
