"""How every figure is set up and turned into a deterministic, self-contained SVG string."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from rat_ray.report.table import wrap_name

# Okabe and Ito's palette, which stays distinct for colour-blind readers.
BLUE, SKY, GREEN, ORANGE, VERMILLION, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
INK, GREY, BAND, PALE = "#222222", "#6b6b6b", "#c9ced4", "#f2f4f6"
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")
WIDTH = 11.0  # inches
ROW = 0.30  # inches that a configuration takes, and more per extra line of its name
LINE = 0.17

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",  # real text: small files, readable by screen readers, the page's own fonts
    "text.parse_math": False,  # a "$" in a name is a dollar sign
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
}


@contextmanager
def drawing(salt: str) -> Iterator[None]:
    """matplotlib with our settings only, whatever the reader's matplotlibrc says.

    salt: makes the ids in this figure differ from those of the other figures of the page, and equal in every run.
    """
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # The browser draws the text, so a sign that matplotlib's own font lacks is no problem.
        warnings.filterwarnings("ignore", message=r".*Glyph .* missing from font")
        matplotlib.rcdefaults()
        settings: Any = _SETTINGS | {"svg.hashsalt": salt}
        matplotlib.rcParams.update(settings)
        yield


def new_figure(height: float) -> Any:
    """An empty figure of the page's width, in the layout that keeps labels and legends off the data."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def to_svg(figure: Any, label: str) -> str:
    """The figure as one <svg> element: no prolog, no metadata, no ids that nothing refers to.

    label: what a screen reader says the figure is.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(figure)  # attaches itself; no pyplot, no global state
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    # Several figures share a page; only what they refer to may carry an id.
    used = set(re.findall(r"#([\w.-]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)


def label_lines(name: str, width: int = 34, most: int = 3) -> str:
    """A name for an axis: broken into lines, the end of a very long one replaced by an ellipsis."""
    lines = wrap_name(name, width)
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][: width - 1] + "…"]
    return "\n".join(lines)


def rows_height(labels: list[str]) -> float:
    """Inches that these labels need below each other, each in a row as high as the highest."""
    return len(labels) * (ROW + LINE * max(label.count("\n") for label in labels))


def name_rows(axes: Any, labels: list[str]) -> None:
    """Label the rows 0, 1, … from the top, with every other one shaded if there are several."""
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0)
    for row in range(1, len(labels), 2):
        axes.axhspan(row - 0.5, row + 0.5, color=PALE, linewidth=0, zorder=0)
