"""What a reader of a fit must know, in words: what failed, what contradicts the model."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.model.checks import OVERALL
from rat_ray.model.identify import Identification

TAIL = 0.01  # a replicated discrepancy as great as the observed one is rarer: the model does not reproduce the data
_SYMBOLS = {"p_g": "P(G=1)", "p_t": "P(T=1)"}
_CAUSES = {
    "verdicts": "judges may share errors: compare judge_model=panel",
    "labels": "judges may share errors, or labels were chosen by something that is not in the fit",
}


def notes_on(known: Identification, counts: pa.Table, retried: bool) -> list[str]:
    """What the labels leave open, and how the fit came about."""
    said = [*known.words]
    if retried:
        said.append("sampled again with adapt_delta 0.99, since the first draws failed the diagnostics")
    calibration = pc.sum(counts.filter(pc.field("use") == "calibration").column("n")).as_py()
    if calibration:
        said.append(f"{calibration} rows inform the judges' rates only")
    return said


def warnings_of(summary: pa.Table, checks: pa.Table) -> list[str]:
    """Warnings of one configuration's fit, from its summary and its posterior predictive checks."""
    said = []
    rows = summary.to_pylist()
    if rows and rows[0]["status"] == "fail":
        said.append(f"WARNING: the fit failed: {rows[0]['reason']}")
    for row in rows:
        if row["ppi_disagrees"] == 1:
            model = _interval(row["mean"], row["q2.5"], row["q97.5"])
            powered = _interval(row["ppi_mean"], row["ppi_low"], row["ppi_high"])
            said.append(
                f"WARNING: {_SYMBOLS[row['quantity']]}: the model says {model}, the labels with prediction-powered "
                f"judges {powered}; look at the judges before you believe either"
            )
    for row in checks.to_pylist():
        if row["pattern"] == OVERALL and row["tail"] < TAIL:
            said.append(
                f"WARNING: posterior predictive check of the {row['part']}: counts as uneven as those observed have "
                f"probability {row['tail']:.3f} under the fitted model; {_CAUSES[row['part']]}"
            )
    return said


def _interval(mean: float, low: float, high: float) -> str:
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"
