"""What does the panel of judges cost? The same tables fitted under `panel` and under `independent`, in one run.

    python benchmarks/fit_panel.py

Two judges of T, and one of R with one of T: sampling under `panel` takes at most 3 times as long (bar). Three and four
judges are printed without a bar.
"""

from __future__ import annotations

import argparse
import os
import statistics

from count_tables import count_table

from rat_ray.model import Fit, fit

CASES = {
    "two of T": ("t@x", "t@y"),
    "one of R, one of T": ("r@x", "t@y"),
    "three (R, T, T)": ("r@x", "t@y", "t@z"),
    "four (R, R, T, T)": ("r@x", "r@w", "t@y", "t@z"),
}
WITH_BAR = ("two of T", "one of R, one of T")
MODELS = ("panel", "independent")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    tables = {name: count_table(judges) for name, judges in CASES.items()}
    runs: dict[tuple[str, str], list[Fit]] = {}
    for table in tables.values():
        for model in MODELS:
            fit(table, judge_model=model)  # warm
    for seed in range(1, options.repeats + 1):  # in turns, so that a busy machine slows all alike
        for name, table in tables.items():
            for model in MODELS:
                runs.setdefault((name, model), []).append(fit(table, judge_model=model, seed=seed))
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; medians of {options.repeats}")
    for name, table in tables.items():
        seconds = [statistics.median(one.seconds for one in runs[name, model]) for model in MODELS]
        rates = [statistics.median(_rate(one) for one in runs[name, model]) for model in MODELS]
        states = sorted({one.status.status for model in MODELS for one in runs[name, model]})
        print(
            f"{name:<20} {table.num_rows:>5} patterns: {seconds[0]:.3f} s and {seconds[1]:.3f} s; "
            f"ratio {seconds[0] / seconds[1]:.2f} ({'bar: 3' if name in WITH_BAR else 'no bar'}); effective draws of "
            f"P(G=1) per second {rates[0]:.0f} and {rates[1]:.0f}; status {', '.join(states)}"
        )


def _rate(one: Fit) -> float:
    return float(one.value("p_g", "ess_bulk") or 0.0) / one.seconds


if __name__ == "__main__":
    main()
