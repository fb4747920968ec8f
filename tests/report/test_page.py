"""The report page: complete, escaped, self-contained, the same every time, and honest about what is missing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from rat_ray.report import figures
from rat_ray.report.allocation_figures import allocation_figure
from rat_ray.report.estimates import read_summary
from rat_ray.report.page import ReportInput, render
from rat_ray.tables import CHECKS
from tests.report.made_up import CONFIGS, MEANS, allocation, draws, full_report, patterns, summary

VOID = {"meta", "br", "wbr", "link", "img", "hr"}


class Reader(HTMLParser):
    """Checks that tags nest, and collects the text, the tables' rows and every attribute."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return "".join(self.words)


@pytest.fixture(scope="module")
def full_page() -> str:
    """The full report, rendered once for all who read it."""
    return render(full_report())


def test_the_full_report_holds_every_configuration_and_number(full_page: str) -> None:
    page = Reader(full_page)
    assert [row[0] for row in page.rows].count(CONFIGS[0]) >= 5
    assert [CONFIGS[0], ".61 [.51, .71]", ".32 [.22, .42]", ".23 [.13, .33]", ".56 [.46, .66]", ".47 [.37, .57]", "48",
            "ok"] in page.rows  # fmt: skip
    assert any(row[0] == CONFIGS[1] and row[5] == ".48 [.38, .58]" for row in page.rows if len(row) == 8)
    assert [CONFIGS[0], "101", "102", "103", "104", "105", "106", "621"] in page.rows
    assert [CONFIGS[1], "7", "0", "3", "11", "19", "23", "63"] in page.rows
    assert [CONFIGS[0], "t@local", ".88 [.78, .98]", ".29 [.19, .39]", "41", "3", "4", "0"] in page.rows
    assert [CONFIGS[0], "ok", "1.002", "1,500", "0", "48", "0.7"] in page.rows
    for expected in ("402 questions without qrels", "20260101", "3f9ac0de", "tau[1]", "uniform"):
        assert expected in page.text


def test_there_are_three_plots_and_nothing_is_loaded(full_page: str) -> None:
    text = full_page
    page = Reader(text)
    assert page.tags.count("svg") == 3
    assert not {"script", "link", "img", "iframe", "object", "image"} & set(page.tags)
    names = {name for name, value in page.attributes if value and re.match(r"\s*(https?:)?//", value)}
    assert names <= {"xmlns", "xmlns:xlink"}
    assert "@import" not in text
    assert not re.search(r"url\((?!['\"]?#)", text)


def test_references_within_the_plots_point_to_exactly_one_element(full_page: str) -> None:
    page = Reader(full_page)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    used = {value[1:] for name, value in page.attributes if name == "xlink:href" and value}
    assert used
    assert used <= set(ids)


def test_the_same_input_gives_the_same_page(full_page: str) -> None:
    assert render(full_report()) == full_page


def test_names_and_notes_are_escaped_everywhere() -> None:
    nasty = "<script>alert('$x_1$ & \"y\"')</script>"
    report = ReportInput(
        title=nasty,
        summary=summary([nasty], {"rho": {"status": "warn", "reason": nasty}}),
        draws=draws([nasty]),
        states={nasty: [1, 2, 3, 4, 5, 6]},
        full_values={nasty: {"p_g": 0.5}},
        allocation=allocation({(nasty, 10): [0.1, 0.2]}, config=nasty),
        verdict_counts=[(nasty, nasty, {nasty: 1})],
        notes=[nasty],
        provenance={nasty: nasty},
    )
    text = render(report)
    assert "<script" not in text
    page = Reader(text)
    assert "script" not in page.tags
    assert nasty in page.text


def test_a_summary_alone_is_enough() -> None:
    table = summary(["labels"])
    rates = [name.startswith(("tpr", "fpr")) for name in table["quantity"].to_pylist()]
    page = Reader(render(ReportInput("labels.csv", table.filter([not rate for rate in rates]))))
    assert ["labels", ".61 [.51, .71]", ".32 [.22, .42]", ".23 [.13, .33]", ".56 [.46, .66]", ".47 [.37, .57]", "48",
            "ok"] in page.rows  # fmt: skip
    assert page.tags.count("svg") == 1
    assert "full-table" not in page.text
    assert "Judges" not in page.text


def test_a_fit_of_labels_has_three_plots_too() -> None:
    report = ReportInput("labels.csv", summary(["labels"]), draws=draws(["labels"]), patterns={"labels": patterns()})
    page = Reader(render(report))
    assert page.tags.count("svg") == 3
    assert "1,717" in page.text
    assert "234" in page.text  # the two patterns that differ only in a judge's verdict
    assert "999" not in page.text  # failed rows are not in the fit
    without_draws = Reader(render(replace(report, draws={})))
    assert without_draws.tags.count("svg") == 3
    assert "How good the judges are" in without_draws.text


def test_other_estimates_and_checks_stand_beside_the_models(full_page: str) -> None:
    powered = {"ppi_mean": 0.701, "ppi_low": 0.655, "ppi_high": 0.747, "ppi_disagrees": 1}
    rows = [
        {"config": CONFIGS[0], "part": part, "pattern": pattern, "observed": 31.0, "mean": 12.5, "q2.5": 1.0}
        | {"q97.5": 20.0, "tail": tail}
        for part, pattern, tail in (("labels", "all", 0.42), ("verdicts", "all", 0.003), ("labels", "r=1 a=0 t=1", 0.9))
    ]
    report = replace(
        full_report(),
        summary=summary(changes={"p_g": powered}),
        predictive=pa.Table.from_pylist(rows, schema=CHECKS),
    )
    read = Reader(render(report))
    shown = [[cell.strip() for cell in row] for row in read.rows]
    assert [CONFIGS[0], "P(G=1)", ".47 [.37, .57]", "–", ".70 [.66, .75]", "yes"] in shown
    assert [CONFIGS[0], "verdicts", "31.0", "12.5", ".003"] in shown
    assert not [row for row in shown if "r=1 a=0 t=1" in row]  # single cells are in the file
    assert "Does the model reproduce the data?" in read.text
    assert "Does the model reproduce the data?" not in full_page


def test_a_prior_is_marked_in_the_tables_and_explained() -> None:
    page = Reader(render(replace(full_report(), summary=summary(changes={"alpha[0]": {"identified": "prior only"}}))))
    cells = [cell for row in page.rows for cell in row]
    assert ".32 [.22, .42]°" in cells
    assert ".32 [.22, .42]" not in cells
    assert ".320°" in cells
    assert "° prior only" in page.text
    assert "prior only or bounded" in page.text  # the plot's legend


def test_a_judges_rates_are_explained_where_no_label_tells_them() -> None:
    changes = {name: {"identified": "prior only"} for name in ("tpr[t@local]", "fpr[t@local]")}
    page = Reader(render(replace(full_report(), summary=summary(changes=changes))))
    assert ".88 [.78, .98]°" in [cell for row in page.rows for cell in row]
    assert page.text.count("° prior only") == 1, "below the judges, and not below results that are all known"


def test_no_states_are_counted_where_no_item_has_all_its_labels() -> None:
    page = Reader(
        render(
            replace(full_report(), states={config: [0] * 6 for config in CONFIGS}, patterns={CONFIGS[0]: patterns()})
        )
    ).text
    assert "The six states" not in page
    assert "Which labels were there" in page


def test_bounds_are_marked_and_told() -> None:
    changes = {"p_g": {"identified": "bounded", "low": 0.21, "high": 0.83}}
    page = Reader(render(replace(full_report(), summary=summary(changes=changes))))
    assert any(".47 [.37, .57]†" in row for row in page.rows)
    assert "P(G=1) lies between .21 and .83" in page.text
    assert "bounds set by the labels" in page.text


def test_a_missing_full_table_value_is_a_dash_and_the_rest_is_compared(full_page: str) -> None:
    page = Reader(full_page)
    assert ["", "P(A|R=0)", ".320", "[.220, .420]", "–", "–"] in page.rows
    assert [CONFIGS[0], "P(R=1)", ".610", "[.510, .710]", ".593", "yes"] in page.rows
    assert ["", "P(T=1)", ".560", "[.460, .660]", ".801", "no"] in page.rows
    assert "6 of 8 full-table values lie inside" in page.text
    assert not re.search(r"\bnan\b", page.text, re.IGNORECASE)


def test_a_configuration_without_full_table_values_has_dashes() -> None:
    report = replace(full_report(), full_values={CONFIGS[0]: {"p_g": 0.5}})
    page = Reader(render(report))
    assert [CONFIGS[1], "P(R=1)", ".620", "[.520, .720]", "–", "–"] in page.rows


def test_a_failed_fit_without_numbers_is_named_first_and_shown_as_dashes() -> None:
    nothing = {"mean": None, "q2.5": None, "q97.5": None, "status": "fail", "reason": "the sampler stopped",
               "r_hat": None, "ess_bulk": None, "divergences": None, "sd": None}  # fmt: skip
    table = summary(["broken"], dict.fromkeys(MEANS, nothing))
    page = Reader(render(ReportInput("labels.csv", table)))
    assert "1 of 1 fits need a look" in page.text
    assert "broken: fail (the sampler stopped)" in page.text
    assert ["broken", "–", "–", "–", "–", "–", "48", "fail"] in page.rows


@pytest.mark.parametrize("count", [4, 27])
def test_many_and_long_names_make_valid_figures(count: int) -> None:
    configs = [
        f"natural_questions-hybrid_reciprocal_rank-model-number-{index:02d}-with-a-budget" for index in range(count)
    ]
    table = read_summary(summary(configs))
    plots = [
        figures.interval_figure(table, {}),
        figures.judge_figure(table),
        figures.states_figure({config: [index, 1, 2, 3, 4, 50_000 * index] for index, config in enumerate(configs)}),
        figures.patterns_figure({config: patterns() for config in configs}),
        figures.density_figure(draws(configs), prior=(0.1, 0.5, 0.9)),
    ]
    for plot in plots:
        assert plot is not None
        words = " ".join(ET.fromstring(plot).itertext())
        for index in range(count):
            assert re.search(rf"number-\s*{index:02d}-", words)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.interval_figure([], {}),
        lambda: figures.judge_figure([]),
        lambda: figures.states_figure({"x": [0] * 6}),
        lambda: figures.patterns_figure({"x": patterns().slice(4)}),
        lambda: figures.density_figure({}),
    ],
)
def test_nothing_to_draw_is_no_figure(draw: Callable[[], str | None]) -> None:
    assert draw() is None


def test_a_study_without_estimates_says_so() -> None:
    words = "".join(ET.fromstring(allocation_figure(allocation({("uniform", 10): [None]}))).itertext())
    assert "No replicate of the allocation study gave an estimate" in words


def test_an_abstention_has_no_missing_answer_label() -> None:
    plot = figures.patterns_figure({"x": patterns()})
    assert plot is not None
    labels = re.sub(r"\s+", " ", " ".join(ET.fromstring(plot).itertext()))
    assert "R=0 A=1 T=–" in labels
    assert "R=? A=0 T=?" in labels


def test_the_readers_matplotlib_settings_change_nothing() -> None:
    import matplotlib

    expected = figures.states_figure({"x": [1, 2, 3, 4, 5, 6]})
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert figures.states_figure({"x": [1, 2, 3, 4, 5, 6]}) == expected
        assert matplotlib.rcParams["font.size"] == 30
