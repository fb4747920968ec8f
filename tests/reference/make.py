"""Make the reference posteriors anew: `python -m tests.reference.make [case ...]`, some minutes on one core.

They are data: make them again only where the model itself is meant to change, and say so in the change.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version

from rat_ray.model import EngineSettings
from rat_ray.model.engines import program_digest
from tests.reference.cases import make_cases, numbers_of, write_case, write_reference

LONG = EngineSettings(chains=4, warmup=2000, samples=10_000, adapt_delta=0.95)
SEED = 3


def main() -> None:
    """Sample every case, or those that are named."""
    cases = {case.name: case for case in make_cases()}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"some of {', '.join(cases)}")
    for name in parser.parse_args().cases or cases:
        write_case(cases[name])
        numbers = numbers_of(cases[name], LONG, SEED)
        how = {
            "engine": f"stanli {version('stanli')}",
            "program": program_digest(),
            "chains": LONG.chains,
            "warmup": LONG.warmup,
            "samples": LONG.samples,
            "adapt_delta": LONG.adapt_delta,
            "seed": SEED,
        }
        write_reference(name, how, numbers)
        print(f"{name}: {len(numbers)} quantities", flush=True)


if __name__ == "__main__":
    main()
