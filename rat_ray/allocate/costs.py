"""What a label costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from rat_ray.errors import InputError


@dataclass(frozen=True)
class Costs:
    """In any unit: of one R label, and of one T label. A joint label costs both, R alone where the system abstained."""

    r: float = 1.0
    t: float = 1.0

    def validate(self, prefix: str = "cost") -> None:
        """Raise InputError for a cost that is not a positive number. prefix: the setting's name."""
        for name in (field.name for field in fields(self)):
            cost = getattr(self, name)
            if not (math.isfinite(cost) and cost > 0):
                raise InputError(f"{prefix}.{name}={cost}: a label's cost is a positive number")
