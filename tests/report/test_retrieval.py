"""The section on retrieval and its console table: every figure from a made-up table is found where it belongs."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
from rich.console import Console

from rat_ray.report.page import render
from rat_ray.report.retrieval import print_retrieval, read_retrieval
from rat_ray.retrieve.measures import retrieval_rows, summarise
from rat_ray.tables import RELEVANCE
from tests.report.made_up import CONFIGS, full_report, summary

KS = (1, 2, 3, 5, 10, 20, 100)


def relevance(ranks: list[int | None], full: list[int | None], **counts: int) -> pa.Table:
    """Measured questions with these ranks, and so many of each other status."""
    rows: list[dict[str, Any]] = [
        {
            "status": "measured",
            "rank_any": first,
            "rank_full": whole,
            "passages": 20,
            "rr": 0.0 if first is None else 1 / first,
            "ndcg@10": 0.25,
        }
        for first, whole in zip(ranks, full, strict=True)
    ]
    rows += [{"status": status} for status, count in counts.items() for _ in range(count)]
    return pa.Table.from_pylist([{"question_id": f"q{i}", **row} for i, row in enumerate(rows)], schema=RELEVANCE)


def made_up(depth: int = 20, retriever: str = "bm25", dataset: str = "demo", **more: Any) -> pa.Table:
    """Of 98 questions 49 have evidence at rank 1 and 24 more at 2; 29 have all of it at rank 3, 19 more at 20."""
    ranks = [1] * 49 + [2] * 24 + [None] * 25
    full = [3] * 29 + [20] * 19 + [None] * 50
    found = summarise(relevance(ranks, full, **more), depth, KS)  # type: ignore[arg-type]
    return pa.concat_tables(
        retrieval_rows(config, dataset, retriever, used, found) for config, used in zip(CONFIGS, (3, 5), strict=True)
    )


def empty(config: str) -> pa.Table:
    """A dataset whose evidence nobody knows."""
    return retrieval_rows(config, "own", "bm25", 3, summarise(relevance([], [], unknown=12), 20, KS))


def section(retrieval: pa.Table | None) -> str:
    html = render(replace(full_report(), retrieval=retrieval))
    match = re.search(r"<section>\n<h2>What retrieval found</h2>.*?</section>", html, re.DOTALL)
    return match[0] if match else ""


def rows_of(html: str) -> list[list[str]]:
    """The cells of every table row, as text."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", html, re.DOTALL)
    return [[re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd][^>]*>.*?</t[hd]>", row)] for row in rows]


def printed(table: pa.Table, width: int, terminal: bool = True) -> list[str]:
    out = io.StringIO()
    print_retrieval(table, Console(file=out, width=width, force_terminal=terminal))
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()


def test_recall_stands_under_its_k_and_a_cut_list_is_a_dash() -> None:
    rows = rows_of(section(made_up()))
    assert rows[0] == ["retriever", "evidence", "k = 1", "k = 2", "k = 3", "k = 5", "k = 10", "k = 20", "k = 100"]
    assert [cell.split(" ")[0] for cell in rows[1]] == ["demo", "any", ".50", ".74", ".74", ".74", ".74", ".74", "–"]
    assert [cell.split(" ")[0] for cell in rows[2]] == ["", "full", ".01", ".01", ".30", ".30", ".30", ".49", "–"]
    assert rows[1][2] == ".50 [.40, .60]"


def test_full_recall_at_the_k_in_use_stands_beside_p_r() -> None:
    rows = rows_of(section(made_up()))
    start = rows.index(["configuration", "retriever", "k in use", "full at k", "P(R=1)"])
    assert rows[start + 1 :] == [
        [CONFIGS[0], "bm25", "3", ".30 [.21, .39]", ".61 [.51, .71]"],
        [CONFIGS[1], "bm25", "5", ".30 [.21, .39]", ".62 [.52, .72]"],
    ]


def test_a_prior_is_marked_beside_recall_too() -> None:
    report = replace(full_report(), summary=summary(changes={"rho": {"identified": "prior only"}}))
    assert section(made_up()).count("°") == 0
    html = render(replace(report, retrieval=made_up()))
    assert html[html.index("What retrieval found") :].count(".61 [.51, .71]°") == 1


def test_configurations_that_searched_alike_share_a_row_and_others_do_not() -> None:
    [one] = read_retrieval(made_up())
    assert one.used == dict(zip(CONFIGS, (3, 5), strict=True))
    other = summarise(relevance([1] * 50 + [None] * 48, [1] * 50 + [None] * 48), 20, KS)
    table = pa.concat_tables([made_up(), retrieval_rows("tuned", "demo", "bm25", 3, other)])
    assert [one.name for one in read_retrieval(table)] == [f"demo bm25 ({', '.join(CONFIGS)})", "demo bm25 (tuned)"]


def test_runs_of_a_sweep_with_other_ks_in_use_are_one_retriever() -> None:
    found = relevance([1, 4, None], [1, 4, None])
    table = pa.concat_tables(
        retrieval_rows(f"k{k}", "demo", "bm25", k, summarise(found, 20, (1, 2, k))) for k in (3, 4)
    )
    [one] = read_retrieval(table)
    assert [one.at("recall_full", k) is not None for k in (1, 2, 3, 4, 5)] == [True, True, True, True, False]


def test_questions_that_were_not_measured_are_counted() -> None:
    html = section(made_up(unknown=3, absent=2, failed=1))
    assert (
        "demo bm25: not measured: 3 (evidence unknown), 2 (evidence known to be absent), 1 (retrieval failed)" in html
    )
    assert "not measured" not in section(made_up())


def test_without_known_evidence_the_section_says_so_and_the_console_nothing() -> None:
    html = section(empty(CONFIGS[0]))
    assert "nothing to measure retrieval by" in html
    assert "own bm25: not measured: 12 (evidence unknown)" in html
    assert "<table>" not in html
    assert printed(empty(CONFIGS[0]), 100) == []


def test_without_a_table_there_is_no_section() -> None:
    assert section(None) == ""
    assert section(made_up().slice(0, 0)) == ""


def test_the_figure_has_a_line_per_retriever_and_a_pair_of_panels_per_dataset() -> None:
    parts = [made_up(), made_up(retriever="dense"), made_up(dataset="other"), empty("e")]
    svg = re.sub(r"\s+", " ", re.findall(r"<svg.*?</svg>", section(pa.concat_tables(parts)), re.DOTALL)[0])
    titles = re.findall(r">(\w+: [^<]* within k)<", svg)
    assert titles == [
        f"{dataset}: {words} within k"
        for dataset in ("demo", "other")
        for words in ("any of the evidence", "the full evidence")
    ]
    assert re.findall(r">(bm25|dense)<", svg) == ["bm25", "dense", "bm25"]


def test_the_points_of_the_figure_are_as_high_as_the_means() -> None:
    svg = re.findall(r"<svg.*?</svg>", section(made_up()), re.DOTALL)[0]
    blue = [float(place) for place in re.findall(r'<use [^>]*y="([^"]*)" style="fill: #0072b2', svg)]
    points = [place for place in blue if place != max(blue)]  # without the sign at the foot of the panels
    some, whole = points[:6], points[6:12]
    step = (some[0] - some[1]) / 24  # .50 and .74: 50 and 74 of the 100 that the two of the prior make of 98
    assert [round((some[0] - place) / step) for place in some] == [0, 24, 24, 24, 24, 24]
    assert [round((whole[0] - place) / step) for place in whole] == [0, 0, 29, 29, 29, 48]


def test_a_retriever_of_one_passage_has_a_figure_too() -> None:
    assert "<svg" in section(made_up(depth=1))


def test_names_are_text() -> None:
    assert "<b>" not in section(made_up(retriever="<b>bold</b>"))


def test_a_terminal_of_100_columns_holds_intervals_and_one_of_60_means() -> None:
    lines = printed(made_up(depth=100), 100)
    assert max(map(len, lines)) <= 100
    assert lines[1].split() == ["k", "1", "3*", "5*", "10", "20", "100"]
    assert lines[-1] == "* as many as a generator is given"
    assert lines[3].startswith("demo bm25, 98 questions: MRR .62 [")
    assert lines[4].startswith("any   .50 [.40, .60] .74 [")
    narrow = printed(made_up(depth=100), 60)
    assert max(map(len, narrow[1:3] + narrow[4:])) <= 60
    assert narrow[5].split() == ["full", ".01", ".30", ".30", ".30", ".49", ".49"]


def test_at_the_usual_depth_80_columns_are_enough_and_k_100_is_left_out() -> None:
    lines = printed(made_up(), 80)
    assert lines[1].split() == ["k", "1", "3*", "5*", "10", "20"]
    assert max(map(len, lines[1:])) <= 80
    assert "[" in lines[4]


def test_a_plain_log_is_whole_and_an_ascii_console_gets_no_error() -> None:
    assert "[.40, .60]" in printed(made_up(), 20, terminal=False)[4]
    raw = io.BytesIO()
    table = pa.concat_tables([made_up(depth=100), made_up(depth=20, retriever="dense")])
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii", write_through=True), width=120)
    print_retrieval(table, console)
    text = raw.getvalue().decode("ascii")
    assert text.splitlines()[-3].split()[-1] == "-"
    assert text.splitlines()[-1].startswith("- beyond the end of the list")
    assert "?" not in text
