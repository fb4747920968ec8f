"""What a reader of a fit must know, in words: what failed, what contradicts the model."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.model.asking import chosen_by_the_other
from rat_ray.model.checks import OVERALL
from rat_ray.model.identify import Identification

TAIL = 0.01  # a replicated discrepancy as great as the observed one is rarer: the model does not reproduce the data
_SYMBOLS = {"p_g": "P(G=1)", "p_t": "P(T=1)"}
_CAUSES = {
    "verdicts": "judges may share errors: compare judge_model=panel",
    "labels": "judges may share errors, or labels were chosen by something that is not in the fit",
}


def notes_on(
    known: Identification,
    counts: pa.Table,
    retried: bool,
    taken_over: bool = False,
    pareto_k: float | None = None,
) -> list[str]:
    """What the labels leave open, and how the fit came about. taken_over: by NUTS, from the engine `importance`."""
    said = [*known.words, *_one_sided(counts), *_chosen(counts)]
    if retried:
        said.append("sampled again with adapt_delta 0.99, since the first draws failed the diagnostics")
    if taken_over:
        why = "it found no usable proposal" if pareto_k is None else f"Pareto k {pareto_k:.2f}"
        said.append(f"sampled by NUTS, since importance weights would not do here ({why})")
    calibration = pc.sum(counts.filter(pc.field("use") == "calibration").column("n")).as_py()
    if calibration:
        said.append(f"{calibration} rows inform the judges' rates only")
    return said


def _one_sided(counts: pa.Table) -> list[str]:
    """Labels that some items have and that are all alike: they may have been given only where they are so."""
    said = []
    fitted = counts.filter(pc.field("use") == "fit")
    answered = fitted.filter(pc.fill_null(pc.equal(fitted.column("a"), 0), True))
    for name, asked in (("r", fitted), ("t", answered)):
        items = pc.sum(asked.column("n")).as_py() or 0
        labelled = asked.filter(pc.is_valid(pc.field(name)))
        known = pc.sum(labelled.column("n")).as_py() or 0
        values = pc.unique(labelled.column(name)).to_pylist()
        if 0 < known < items and len(values) == 1:
            said.append(
                f"{name} is labelled on {known} of {items} items and is {values[0]} on all of them: the fit takes the "
                f"others to be like them; where {name} was labelled because it is {values[0]}, it is wrong"
            )
    return said


def _chosen(counts: pa.Table) -> list[str]:
    said = []
    for name in chosen_by_the_other(counts):
        other = "r" if name == "t" else "t"
        said.append(
            f"{name} is labelled on some items because of their {other}, as `rat-ray plan` does: the fit allows for "
            "that; the prediction-powered estimate and the predictive check of the labels do not, and are left out"
        )
    return said


def warnings_of(summary: pa.Table, checks: pa.Table) -> list[str]:
    """Warnings of one configuration's fit, from its summary and its posterior predictive checks."""
    said = []
    rows = summary.to_pylist()
    if rows and rows[0]["status"] == "fail":
        said.append(f"WARNING: the fit failed: {rows[0]['reason']}")
    elif rows and rows[0]["status"] == "warn":
        said.append(f"the fit is marked warn: {rows[0]['reason']}")
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
