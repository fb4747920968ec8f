"""The result table: numbers, marks, and what it looks like on narrow terminals and in plain logs."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from rat_ray.report.estimates import number
from rat_ray.report.table import format_table, print_table, result_table, wrap_name
from tests.report.made_up import CONFIGS, Changes, summary


def printed(width: int, terminal: bool, changes: Changes | None = None) -> str:
    out = io.StringIO()
    print_table(result_table(summary(changes=changes)), Console(file=out, width=width, force_terminal=terminal))
    return out.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.674, ".67"), (1.0, "1.0"), (0.999, "1.0"), (0.0, ".00"), (-0.001, ".00"), (-0.05, "-.05"), (2.345, "2.35"),
     (10.0, "10.00"), (None, "–"), (float("nan"), "–")],
)  # fmt: skip
def test_a_number_is_short_and_missing_is_a_dash(value: float | None, text: str) -> None:
    assert number(value) == text


def test_a_row_per_configuration_in_headline_order() -> None:
    rows = result_table(summary())
    assert [row.config for row in rows] == CONFIGS
    means = [estimate.mean for estimate in rows[0].estimates if estimate is not None]
    assert means == [0.61, 0.32, 0.23, 0.56, 0.47]
    assert rows[0].items == 48


def test_the_worst_status_of_a_fit_is_shown_even_from_another_quantity() -> None:
    assert [row.status for row in result_table(summary(changes={"tau[0]": {"status": "warn"}}))] == ["warn", "warn"]
    both = {"tau[0]": {"status": "fail"}, "tau[1]": {"status": "warn"}}
    assert result_table(summary(changes=both))[0].status == "fail"


def test_a_terminal_of_100_columns_holds_every_line_and_whole_numbers() -> None:
    text = printed(100, True, {"alpha[0]": {"identified": "prior only"}})
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    table = [line for line in plain.splitlines() if not line.startswith("°")]
    assert max(len(line) for line in table) <= 100
    for cell in (".61 [.51, .71]", ".32 [.22, .42]°", ".48 [.38, .58]"):
        assert cell in plain


def test_a_plain_log_has_no_colours_and_one_line_per_configuration() -> None:
    text = printed(40, False, {"p_g": {"status": "fail"}})
    assert "\x1b" not in text
    lines = text.splitlines()
    assert len(lines) == 3 + len(CONFIGS)
    for config, line in zip(CONFIGS, lines[3:], strict=True):
        assert line.startswith(config)
        assert line.endswith("fail")


def test_a_prior_is_never_printed_like_a_finding() -> None:
    text = printed(120, False, {"alpha[0]": {"identified": "prior only"}, "p_g": {"identified": "bounded"}})
    assert ".32 [.22, .42]°" in text
    assert ".47 [.37, .57]†" in text
    assert "° prior only" in text
    assert "† bounded" in text
    assert "°" not in printed(120, False)


def test_an_ascii_console_gets_other_signs_instead_of_an_error() -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii", write_through=True), width=120)
    print_table(
        result_table(summary(changes={"alpha[0]": {"identified": "prior only"}, "p_t": {"mean": None}})), console
    )
    text = raw.getvalue().decode("ascii")
    assert ".32 [.22, .42]*" in text
    assert "* prior only" in text
    assert "?" not in text


def test_names_break_behind_separators_and_lose_nothing() -> None:
    assert wrap_name("demo-hybrid-gemma_plain", 14) == ["demo-hybrid-", "gemma_plain"]
    assert wrap_name("a" * 30, 14) == ["a" * 14, "a" * 14, "aa"]
    assert "".join(wrap_name(" odd  name--with__all/of.them ", 9)) == " odd  name--with__all/of.them "


def test_markup_in_a_name_is_text() -> None:
    out = io.StringIO()
    print_table(result_table(summary(["[red]x[/red]"])), Console(file=out, width=120))
    assert "[red]x[/red]" in out.getvalue()


def test_no_rows_is_a_heading_only() -> None:
    assert len(format_table([])) == 2
