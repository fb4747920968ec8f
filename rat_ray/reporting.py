"""`rat-ray report`: write the report of a finished run again, from the files of its `out` folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from rat_ray.export import read_finished, report_input
from rat_ray.progress import console
from rat_ray.report import render
from rat_ray.report.table import print_table, result_table
from rat_ray.settings import build
from rat_ray.store import replace_file

if TYPE_CHECKING:
    from rat_ray.commands import Context


@dataclass(frozen=True)
class ReportSettings:
    """Everything behind `conf/report.yaml`."""

    run: str


SETTINGS = ReportSettings


def run(context: Context) -> str:
    """Render `report.html` of the folder anew and print its table."""
    job = build(ReportSettings, context.config)
    folder, facts = read_finished(job.run, "evaluate` or `rat-ray fit")
    page = render(report_input(folder, facts))
    replace_file(folder / "report.html", page.encode())
    screen = console()
    print_table(result_table(pq.read_table(folder / "summary.parquet")), screen)
    screen.print(f"report: {folder / 'report.html'}", highlight=False, markup=False, soft_wrap=True)
    return str(folder)
