"""Texts in a spreadsheet: nothing that is run or rewritten, and back as they were."""

from __future__ import annotations

import csv
import io
import itertools
import random

import pytest

from rat_ray.annotate.people_cells import LONGEST, protect, restore, shorten

FORMULAS = [
    "=1+1",
    '=cmd|"/c calc"!A1',
    "+49 44 123",
    "-5",
    "-",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "\ttext",
    "\rtext",
    "\ntext",
    "  =1+1",
    "\u00a0=1+1",
    "\u200b=1+1",
    "\ufeff=1+1",
    "\x00=1+1",
    "＝1+1",
    "＋1",
    "－1",
    "＠SUM(A1)",
    "\u3000＝1+1",
]
# What Excel, LibreOffice or Sheets show as another number, date or truth value.
REWRITTEN = [
    "007",
    "1.10",
    "1e5",
    "3-4",
    "10/12",
    "2020-01-05",
    "1/2",
    "12:30",
    "5 pm",
    "1,000",
    "50%",
    "$5",
    "1234567890123456",
]
REWRITTEN += ["TRUE", "false", "Wahr", "FALSCH", "March 1", "1 March 2020", "SEPT2", "DEC1", "Mai 5", "5. Mai", " 007 "]
HARMLESS = [
    "Paris",
    "",
    "17",
    "0",
    "12 apples",
    "what is 3-4?",
    "It was in March 1999 that he left.",
    "maybe",
    "'tis",
    "''",
    "'",
    "a=b",
]
TEXTS = [
    *FORMULAS,
    *REWRITTEN,
    *HARMLESS,
    "zürich, «naïve» “quotes” 漢字 🎉",
    'a "b", c;d\te',
    "one\ntwo\r\nthree\rfour",
    "'=1",
    "''=1",
]


def test_a_formula_or_value_is_led_by_an_apostrophe_and_other_texts_are_left_alone() -> None:
    for text in [*FORMULAS, *REWRITTEN]:
        assert protect(text) == f"'{text}", repr(text)
    for text in HARMLESS:
        assert protect(text) == text


def test_every_text_comes_back_also_one_that_was_protected_before() -> None:
    for text in TEXTS:
        protected = text
        for _ in range(4):
            assert restore(protect(protected)) == protected
            protected = protect(protected)
        for _ in range(4):
            protected = restore(protected) if protected != text else text
        assert protected == text


def test_short_texts_of_dangerous_signs_all_come_back() -> None:
    signs = "='+-@1\t\r\n ＝e.a\u200b"
    for length in range(4):
        for letters in itertools.product(signs, repeat=length):
            text = "".join(letters)
            assert restore(protect(text)) == text
            assert protect(text).lstrip(" \u200b")[:1] not in set("=+-@＝"), repr(text)


def test_random_texts_go_through_a_csv_file_unchanged() -> None:
    rng = random.Random(6)
    alphabet = "=+-@＝＋－＠'\"\t\r\n ,;1aé漢🎉"
    texts = ["".join(rng.choices(alphabet, k=rng.randrange(12))) for _ in range(3000)]
    for delimiter in ",;\t":
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, delimiter=delimiter, lineterminator="\r\n")
        writer.writerows([[protect(text), "x"] for text in texts])
        stream.seek(0)
        assert [restore(row[0]) for row in csv.reader(stream, delimiter=delimiter)] == texts


def test_a_cell_that_a_spreadsheet_freed_of_its_apostrophe_is_read_all_the_same() -> None:
    """Google Sheets takes the apostrophe for its own."""
    for text in [*FORMULAS, *REWRITTEN]:
        assert restore(protect(text)[1:]) == text


@pytest.mark.parametrize("sign", ["x", "é", "🎉"])
def test_a_long_text_is_cut_with_a_mark_and_never_inside_a_character(sign: str) -> None:
    units = len(sign.encode("utf-16-le")) // 2
    whole = sign * (LONGEST // units)
    assert shorten(whole, "items.jsonl") == whole
    cut = shorten(whole + sign, "items.jsonl")
    assert "cut here" in cut
    assert "items.jsonl" in cut
    assert LONGEST - units < len(cut.encode("utf-16-le")) // 2 <= LONGEST
    assert set(cut[: cut.index("\n[…")]) == {sign}
