"""Planning the 27 configurations of experiment=paper: composing the settings, and declaring the graph.

Prints seconds of each, and their sum against the bar of 2 s: the best of a few rounds. `--sweep` composes 27 jobs of a
multirun instead of one job with 27 configurations.

    python benchmarks/plan_graph.py [--rounds 5] [--sweep]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from collections.abc import Sequence

from rat_ray import cli, commands, pipeline
from rat_ray.graph import Graph, Walk, plan_of
from rat_ray.store import Store

BAR = 2.0
SWEEP = [
    "-m",
    "dataset=fever,hotpotqa,natural_questions",
    "retriever=bm25,dense,hybrid",
    "generator=apertus_8b,gemma3_12b,qwen3_5_9b",
    "judge=gemma3_27b",
]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sweep", action="store_true")
    given = parser.parse_args()
    arguments = SWEEP if given.sweep else ["experiment=paper"]
    commands.known_settings("evaluate")  # imports what the command needs, which is no part of planning
    found = [measure(arguments) for _ in range(given.rounds)]
    composing, declaring, finding, total = (min(times) for times in zip(*found, strict=True))
    print(f"composing {composing:.2f} s, declaring {declaring:.2f} s, looking in the store {finding:.2f} s")
    print(f"planned in {total:.2f} s; the bar is {BAR:.0f} s for one job")


def measure(arguments: Sequence[str]) -> tuple[float, float, float, float]:
    """Seconds of composing, declaring and finding, and of all of `rat-ray evaluate … dry_run=true` but its imports."""
    spent = {"declare": 0.0, "find": 0.0}
    whole = pipeline.run_all

    def timed(contexts: Sequence[commands.Context]) -> object:
        began = time.perf_counter()
        plans = [pipeline.make_plan(context) for context in contexts]
        planned = time.perf_counter()
        union = Graph()
        for plan in plans:
            union.include(pipeline.Pipeline(plan, pipeline.Sources(pipeline.recall_source)).graph)
        declared = time.perf_counter()
        walk = Walk(union)
        walk.find(Store("/nonexistent"))
        assert sum(row.distinct for row in plan_of(union, walk)) >= 264
        spent["compose"] = planned - began
        spent["declare"] = declared - planned
        spent["find"] = time.perf_counter() - declared
        return [pipeline.Outcome("") for _ in contexts]

    pipeline.run_all = timed  # type: ignore[assignment]
    began = time.perf_counter()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            assert cli.main(["evaluate", *arguments, "dry_run=true"]) == 0
    finally:
        pipeline.run_all = whole
    total = time.perf_counter() - began
    return total - spent["declare"] - spent["find"], spent["declare"], spent["find"], total


if __name__ == "__main__":
    main()
