"""Random seeds that depend on names only, never on workers, batches or restarts."""

from __future__ import annotations

import hashlib


def seed_for(seed: int, *names: str | int) -> int:
    """A seed in [1, 2**31 - 1] from the run's seed and the names of what is drawn.

    The same names give the same seed on any machine, whatever else runs beside it.
    """
    text = "\x1f".join([str(seed), *(str(name) for name in names)])
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") % (2**31 - 2) + 1


def rank_key(seed: int, *names: str | int) -> int:
    """A 64-bit number to rank items by: the k smallest are a simple random sample of size k."""
    text = "\x1f".join([str(seed), *(str(name) for name in names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
