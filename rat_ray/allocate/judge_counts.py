"""Counts of patterns for thousands of fits on the same items: which labels are shown changes, the patterns do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rat_ray.allocate.judge_population import A, JudgedItems
from rat_ray.model.patterns import FIT, MISSING, TRUSTED, Code

_BASE = 3  # digits 0, 1 and MISSING


class Counter:
    """Counts what is shown of the items. Every pattern that can occur is in its list, in a fixed order."""

    def __init__(self, items: JudgedItems, judges: Sequence[str]) -> None:
        verdicts = [items.verdicts[judge] for judge in judges]
        shown = np.column_stack([items.labels, *verdicts]).astype(np.int64)
        trusted, many = len(TRUSTED), len(judges)
        powers = _BASE ** np.arange(trusted + many - 1, -1, -1)
        hidden = np.full_like(shown, MISSING)
        hidden[:, A] = shown[:, A]
        self._trusted_shown, self._trusted_hidden = (
            (one[:, :trusted] * powers[:trusted]).sum(axis=1) for one in (shown, hidden)
        )
        self._said, self._silent = ((one[:, trusted:] * powers[trusted:]).sum(axis=1) for one in (shown, hidden))
        possible = [
            labels + verdict
            for labels in (self._trusted_shown, self._trusted_hidden)
            for verdict in (self._said, self._silent)
        ]
        self._codes = np.unique(np.concatenate(possible))
        self._labels = (self._codes[:, None] // powers % _BASE).astype(np.int8)
        self._zeros = np.zeros(len(self._codes), dtype=np.int32)

    def __call__(self, labelled: np.ndarray, judged: np.ndarray) -> Code:
        """labelled, judged: indices of the items whose trusted labels, and whose verdicts, are shown."""
        labels, verdicts = self._trusted_hidden.copy(), self._silent.copy()
        labels[labelled] = self._trusted_shown[labelled]
        verdicts[judged] = self._said[judged]
        places = np.searchsorted(self._codes, labels + verdicts)
        n = np.bincount(places, minlength=len(self._codes))
        return Code(self._labels, self._zeros + FIT, self._zeros, n, n.astype(float))
