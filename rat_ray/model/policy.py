"""What each outcome is worth: a table of utilities over the six states, beside G."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rat_ray.errors import InputError
from rat_ray.model.states import ALL, FINITE, FOLLOWS, RATIOS

_MOST = 1e6


@dataclass(frozen=True)
class Policy:
    """Utilities of abstaining, answering wrongly and answering rightly, where retrieval failed (r0) and where not (r1).

    The default is G itself: abstain iff retrieval failed, and answer rightly otherwise.
    """

    name: str = "abstain_iff_failed"
    r0_abstained: float = 1.0
    r0_wrong: float = 0.0
    r0_right: float = 0.0
    r1_abstained: float = 0.0
    r1_wrong: float = 0.0
    r1_right: float = 1.0

    def validate(self) -> None:
        """Raise InputError for a utility that is no number."""
        for name, value in zip(_NAMES, self.utilities, strict=True):
            if not (math.isfinite(value) and abs(value) <= _MOST):
                raise InputError(f"policy.{name} = {value}: a number from {-_MOST:g} to {_MOST:g} is expected")

    @property
    def utilities(self) -> np.ndarray:
        """(6,) in the order of the states."""
        return np.array([getattr(self, name) for name in _NAMES], dtype=float)

    @property
    def is_default(self) -> bool:
        """Whether the expected utility is P(G=1), which is reported anyway."""
        return bool(np.array_equal(self.utilities, FOLLOWS.astype(float)))


def quantities_of(policy: Policy) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], list[str]]:
    """One system's ratios, the utility among them where it is not P(G=1), and which are also reported as shares."""
    if policy.is_default:
        return dict(RATIOS), list(FINITE)
    return {**RATIOS, "utility": (policy.utilities, ALL)}, [*FINITE, "utility"]


_NAMES = ("r0_abstained", "r0_wrong", "r0_right", "r1_abstained", "r1_wrong", "r1_right")
