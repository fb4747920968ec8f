"""`rat-ray report`: write the report of a finished run again, from the files of its `out`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rat_ray.export import read_finished, write_report
from rat_ray.progress import console
from rat_ray.report.table import print_table, result_table
from rat_ray.settings import build
from rat_ray.store import StorageSettings

if TYPE_CHECKING:
    from rat_ray.commands import Context


@dataclass(frozen=True)
class ReportSettings:
    """Everything behind `conf/report.yaml`."""

    run: str
    storage: StorageSettings


SETTINGS = ReportSettings


def run(context: Context) -> str:
    """Render `report.html` of the folder anew and print its table."""
    job = build(ReportSettings, context.config)
    out, facts = read_finished(job.run, "evaluate` or `rat-ray fit", job.storage)
    write_report(out, facts)
    screen = console()
    print_table(result_table(out.read_table("summary.parquet")), screen)
    screen.print(f"report: {out.at('report.html')}", highlight=False, markup=False, soft_wrap=True)
    return out.url
