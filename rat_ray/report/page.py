"""The report: one HTML file that needs nothing else, neither scripts nor a network."""

from __future__ import annotations

from collections.abc import Sequence

from rat_ray.report import beside, checks, findings, retrieval
from rat_ray.report.content import ReportInput
from rat_ray.report.estimates import Configuration, read_summary
from rat_ray.report.html import bullets, document, paragraph, section, text

__all__ = ["ReportInput", "render"]


def render(report: ReportInput) -> str:
    """The report as one self-contained HTML page; the same input gives the same text."""
    configurations = read_summary(report.summary)
    parts = [
        f"<h1>{text(report.title)}</h1>",
        paragraph(_lead(configurations)),
        checks.warnings(configurations),
        findings.results(report, configurations),
        findings.against_full(report, configurations),
        beside.other_estimates(configurations),
        retrieval.retrieval(report, configurations),
        findings.six_states(report),
        findings.observed_patterns(report),
        findings.third_figure(report, configurations),
        checks.judges(report, configurations),
        checks.diagnostics(configurations),
        beside.predictive(report),
        section(
            "What was read and what was left out",
            bullets(report.notes) if report.notes else paragraph("Nothing was reported."),
        ),
        checks.background(report, configurations),
    ]
    return document(report.title, "\n".join(part for part in parts if part))


def _lead(configurations: Sequence[Configuration]) -> str:
    many = len(configurations)
    what = "one configuration" if many == 1 else f"{many} configurations"
    return (
        f"How {what} of a retrieval-augmented system behaved: did retrieval find the evidence (R), did the system "
        "abstain (A), was its answer right (T), and did it do what it should (G): abstain when the evidence was "
        "missing, answer rightly when it was there."
    )
