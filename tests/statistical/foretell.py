"""Do formulas foretell which labels a study finds best? Systems drawn at random; the table of docs/allocation.md.

    python tests/statistical/foretell.py out=FOLDER [setting=value ...]

9,600 fits, two minutes on two quiet cores. Settings of `rat-ray allocate` may follow.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from rat_ray.cli import main

SYSTEMS = 20
RANGES = {"rho": (0.2, 0.9), "alpha0": (0.05, 0.9), "alpha1": (0.01, 0.3), "tau0": (0.05, 0.4), "tau1": (0.3, 0.9)}


def settings() -> list[str]:
    rng = np.random.default_rng(7)
    made = []
    for index in range(SYSTEMS):
        drawn = {name: rng.uniform(low, high) for name, (low, high) in RANGES.items()}
        inside = ",".join(f"{name}: {value:.3f}" for name, value in drawn.items())
        made.append(f"simulation.systems.s{index:02d}={{{inside}}}")
    names = ",".join(f"s{index:02d}" for index in range(SYSTEMS))
    return [
        *("simulation=paper", "simulation.items=2500", "allocation=all_strategies", *made),
        *(f"allocation.configurations={names}", "allocation.quantities=p_g", "allocation.budgets=[100,400]"),
        *("allocation.replicates=40", "allocation.check_share=0.001"),
    ]


def table(out: Path) -> str:
    """The lines of docs/allocation.md."""
    found = json.loads((out / "run.json").read_text())["agreement"]
    lines = ["| formula | by | best strategy | R or T | ranks of strategies | of R / T |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {one['formula']} | {one['measure']} | {one['best']} of {one['configurations']} | "
        f"{one['r_or_t']} of {one['r_or_t_of']} | {one['within']:+.2f} | {one['across']:+.2f} |"
        for one in found
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    code = main(["allocate", *settings(), *sys.argv[1:]])
    if code == 0:
        print(table(Path(given.get("out", "rat-allocation"))))
    sys.exit(code)
