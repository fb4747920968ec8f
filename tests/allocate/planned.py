"""Tables to plan for, with labels of the first items only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rat_ray.model.patterns import MISSING
from rat_ray.model.states import STATES
from rat_ray.tables import LABEL
from tests.statistical.truths import TRUTHS


def states(system: str, items: int, seed: int) -> np.ndarray:
    """(items, 3): r, a, t of 0 and 1, and MISSING for t of an abstention."""
    rng = np.random.default_rng(seed)
    full = STATES[rng.choice(len(STATES), size=items, p=TRUTHS[system].theta)].copy()
    full[full[:, 1] == 1, 2] = MISSING
    return full


def column(values: np.ndarray, known: np.ndarray) -> pa.Array:
    return pa.array(np.where(known, values, 0).astype(np.int8), type=LABEL, mask=~known | (values == MISSING))


def table(
    full: np.ndarray, r: np.ndarray | int, t: np.ndarray | int | None = None, contexts: Sequence[str] | None = None
) -> pa.Table:
    """A everywhere; R and T where these say so, or on the first so many items."""
    items = len(full)
    known = [np.arange(items) < one if isinstance(one, int) else one for one in (r, r if t is None else t)]
    columns = {
        "question_id": pa.array([f"q{i}" for i in range(items)]),
        "r": column(full[:, 0], known[0]),
        "a": column(full[:, 1], np.ones(items, dtype=bool)),
        "t": column(full[:, 2], known[1]),
    }
    return pa.table(columns | ({} if contexts is None else {"context": pa.array(list(contexts))}))
