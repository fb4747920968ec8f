"""Titles as dumps and people write them, and redirects."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from rat_ray.datasets.reading import RowError
from rat_ray.datasets.titles import STEPS, chain, folded_title, read_redirects, readable_title, title_key
from rat_ray.errors import InputError


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Soul_Food_-LRB-film-RRB-", "Soul Food (film)"),
        ("Star_Trek-COLON-_Discovery", "Star Trek: Discovery"),
        ("AC-SLASH-DC", "AC/DC"),
        ("-LSB-REC-RSB-", "[REC]"),
        ("Simon &amp; Garfunkel", "Simon & Garfunkel"),
        ("  iPod  nano ", "IPod nano"),
        (unicodedata.normalize("NFD", "Beyoncé"), "Beyoncé"),
        ("élan", "Élan"),
    ],
)
def test_spellings_of_one_title_have_one_key(written: str, meant: str) -> None:
    assert title_key(written) == title_key(meant) == meant


@pytest.mark.parametrize(
    ("one", "other"), [("E²", "E2"), ("Iran–Iraq War", "Iran-Iraq War"), ("Sea of Love", "Sea Of Love")]
)
def test_titles_that_differ_are_told_apart_first_and_levelled_second(one: str, other: str) -> None:
    assert title_key(one) != title_key(other)
    assert folded_title(title_key(one)) == folded_title(title_key(other))


@pytest.mark.parametrize(("one", "other"), [("Léon", "Leon"), ("Oslo", "Oslo (film)"), ("Straße", "Strase")])
def test_titles_that_are_never_levelled(one: str, other: str) -> None:
    assert folded_title(title_key(one)) != folded_title(title_key(other))


def test_quotes_and_what_is_not_seen_are_levelled() -> None:
    assert folded_title("Ocean\u2019s\u200e Eleven") == folded_title("Ocean's Eleven")


def test_a_title_for_people_keeps_its_first_letter() -> None:
    assert readable_title("iPod_-LRB-5th_generation-RRB-") == "iPod (5th generation)"
    assert readable_title("Well-known") == "Well-known"


def redirects(folder: Path, *rows: str) -> Path:
    path = folder / "redirects.tsv"
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


def test_redirects_are_followed_and_only_those_needed_are_kept(tmp_path: Path) -> None:
    path = redirects(tmp_path, "B\tC", "A_1\tB", "X\tY", "C\tA 1")
    known = read_redirects(path, ["a 1"])
    assert known == {"A 1": "B", "B": "C", "C": "A 1"}
    assert chain("A 1", known) == ["A 1", "B", "C"]  # and round it would go
    assert chain("Z", known) == ["Z"]


def test_redirects_end_after_a_few_steps(tmp_path: Path) -> None:
    path = redirects(tmp_path, *(f"T{number}\tT{number + 1}" for number in range(9)))
    assert chain("T0", read_redirects(path, ["T0"])) == [f"T{number}" for number in range(STEPS + 1)]


def test_a_row_that_is_no_redirect(tmp_path: Path) -> None:
    path = redirects(tmp_path, "A\tB", "A B")
    with pytest.raises(InputError, match=r"redirects\.tsv:2: expected two titles"):
        read_redirects(path, ["A"])
    skipped: list[RowError] = []
    assert read_redirects(path, ["A"], skipped.append) == {"A": "B"}
    assert [error.place.line for error in skipped] == [2]
