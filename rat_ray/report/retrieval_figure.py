"""Recall against the number of passages, a line per retriever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rat_ray.report.estimates import Estimate, number
from rat_ray.report.style import MARKERS, SERIES, drawing, label_lines, new_figure, to_svg

_PANELS = {"recall_any": "any of the evidence", "recall_full": "the full evidence"}


class Curve(NamedTuple):
    """One retriever on one dataset. estimates: by measure and k."""

    name: str
    dataset: str
    estimates: Mapping[tuple[str, int | None], Estimate]


def recall_figure(curves: Sequence[Curve]) -> str | None:
    """Any and full recall with 95 % bands, a pair of panels per dataset; k on a logarithmic axis."""
    drawn = [curve for curve in curves if any(_points(curve, measure) for measure in _PANELS)]
    if not drawn:
        return None
    datasets = list(dict.fromkeys(curve.dataset for curve in drawn))
    with drawing("recall"):
        figure = new_figure(0.8 + 3.0 * len(datasets))
        grid = figure.subplots(len(datasets), len(_PANELS), squeeze=False, sharey=True)
        for dataset, panels in zip(datasets, grid, strict=True):
            mine = [curve for curve in drawn if curve.dataset == dataset]
            for axes, (measure, words) in zip(panels, _PANELS.items(), strict=True):
                _panel(axes, mine, measure)
                axes.set_title(f"{label_lines(dataset, 60, 1)}: {words} within k", loc="left")
            panels[-1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        for axes in grid[-1]:
            axes.set_xlabel("k, passages from the top of the list")
        return to_svg(figure, "Recall of the evidence against the number of passages, per retriever")


def _panel(axes: Any, curves: Sequence[Curve], measure: str) -> None:
    ticks: set[int] = set()
    for index, curve in enumerate(curves):
        points = _points(curve, measure)
        ks = [k for k, _ in points]
        ticks.update(ks)
        colour = SERIES[index % len(SERIES)]
        low, high = [one.q_low for _, one in points], [one.q_high for _, one in points]
        axes.fill_between(ks, low, high, color=colour, alpha=0.18, lw=0)
        name = label_lines(curve.name.removeprefix(f"{curve.dataset} "), 26)
        axes.plot(ks, [one.mean for _, one in points], color=colour, lw=1.6, ms=5,
                  marker=MARKERS[index % len(MARKERS)], label=name)  # fmt: skip
    axes.set_xscale("log")
    axes.minorticks_off()
    shown = sorted(ticks)
    axes.set_xticks(shown, [str(k) for k in shown])
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], [number(tick) for tick in (0, 0.25, 0.5, 0.75, 1)])
    axes.grid(axis="both")


def _points(curve: Curve, measure: str) -> list[tuple[int, Estimate]]:
    found = [
        (k, one)
        for (name, k), one in curve.estimates.items()
        if name == measure and k is not None and one.mean is not None
    ]
    return sorted(found, key=lambda pair: pair[0])
