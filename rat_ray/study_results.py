"""What `rat-ray allocate` leaves behind: tables, figures, run.json, and a summary on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate import summarise
from rat_ray.allocate.agreement import Agreement, NutsCheck, agreement, nuts_check
from rat_ray.allocate.information import INFORMATION, Told, prediction
from rat_ray.allocate.judge_show import print_judges
from rat_ray.allocate.judge_summary import summarise as summarise_judges
from rat_ray.allocate.reach import reach
from rat_ray.allocate.show import print_information, print_nuts, print_reach, print_study
from rat_ray.allocate.summary import configs_of, paired, pooled_name
from rat_ray.export import PASSING
from rat_ray.keys import digest_of
from rat_ray.output import OutFolder
from rat_ray.progress import console
from rat_ray.report.allocation_figures import allocation_figure, information_figure
from rat_ray.report.judge_figures import judge_figure
from rat_ray.store import encode_part
from rat_ray.versions import code_digest

_FORMULAS, _MEASURES = ("bits_per_item", "bits_per_cost", "expected_sd"), ("rmse", "width")


class Results(NamedTuple):
    """allocation: `tables.ALLOCATION` of all configurations; judged: `tables.JUDGE_STUDY` where judges were studied."""

    allocation: pa.Table
    told: Mapping[str, Told]
    judged: pa.Table | None = None


def write_results(out: OutFolder, results: Results, facts: Mapping[str, Any]) -> None:
    """Write every file of `out`, run.json last, and print the tables. What an earlier run left just so stays."""
    found = _found(results)
    said = {"nuts_check": found.nuts._asdict(), "agreement": [one._asdict() for one in found.agreements]}
    parts = [results.allocation, found.information, *([] if results.judged is None else [results.judged])]
    lasting = {name: value for name, value in facts.items() if name not in PASSING}
    made_of = digest_of([code_digest(), [encode_part(part, {})[1] for part in parts], lasting])
    if not out.holds(made_of):
        _write(out, results, found)
    out.finish({**facts, **said}, made_of)
    screen = console()
    print_study(results.allocation, screen)
    print_reach(found.reached, screen)
    print_information(found.information, found.predicted, found.agreements[: len(_FORMULAS)], screen)
    if found.judged is not None:
        print_judges(found.judged, screen)
    print_nuts(found.nuts, screen)
    for text in (*facts["notes"], f"out: {out.url}"):
        screen.print(text, highlight=False, markup=False, soft_wrap=True)


class _Found(NamedTuple):
    """What follows from the results."""

    information: pa.Table
    predicted: pa.Table
    reached: pa.Table
    agreements: list[Agreement]
    nuts: NutsCheck
    judged: pa.Table | None


def _found(results: Results) -> _Found:
    allocation = results.allocation
    predicted = prediction(allocation, {config: one.theta for config, one in results.told.items()})
    return _Found(
        information=pa.concat_tables([INFORMATION.empty_table(), *(one.table for one in results.told.values())]),
        predicted=predicted,
        reached=reach(allocation),
        agreements=[agreement(predicted, measure, formula) for measure in _MEASURES for formula in _FORMULAS],
        nuts=nuts_check(allocation),
        judged=None if results.judged is None else summarise_judges(results.judged),
    )


def _write(out: OutFolder, results: Results, found: _Found) -> None:
    allocation = results.allocation
    out.write_table("allocation.parquet", allocation)
    out.write_table("allocation_summary.parquet", summarise(allocation))
    out.write_table("allocation_paired.parquet", paired(allocation))
    out.write_table("allocation_reach.parquet", found.reached)
    out.write_table("information.parquet", found.information)
    out.write_table("information_prediction.parquet", found.predicted)
    _write_figures(out, allocation, found.predicted)
    if results.judged is not None and found.judged is not None:
        out.write_table("judge_study.parquet", results.judged)
        _write_judges(out, found.judged)


def _write_judges(out: OutFolder, judged: pa.Table) -> None:
    """judge_summary.parquet, and a figure per configuration."""
    out.write_table("judge_summary.parquet", judged)
    for config in configs_of(judged):
        drawn = judge_figure(judged, config)
        if drawn is not None:
            out.write_text(f"figures/judges-{config}.svg", drawn)


def _write_figures(out: OutFolder, allocation: pa.Table, predicted: pa.Table) -> None:
    """allocation.svg over all configurations, and one of each in figures/ where there are several."""
    configs = configs_of(allocation)
    pooled = pooled_name(configs)
    out.write_text("allocation.svg", allocation_figure(allocation, None if pooled is None else [pooled]))
    for config in configs if pooled is not None else ():
        own = allocation.filter(pc.equal(allocation.column("config"), config))
        out.write_text(f"figures/allocation-{config}.svg", allocation_figure(own))
    informed = information_figure(predicted)
    if informed is not None:
        out.write_text("information.svg", informed)
