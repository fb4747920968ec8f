"""Corpora in their owners' formats: what passages come out, and how a wrong file is told."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rat_ray.datasets.drafts import Needed
from rat_ray.datasets.fieldnames import FieldNames
from rat_ray.datasets.formats import detect, tsv_rows
from rat_ray.datasets.lookup import Lookup
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.wikipedia import CorpusSettings
from rat_ray.errors import InputError

TSV = (
    "id\ttext\ttitle\n"
    '1\t"Aaron ( or ; ""Ahärôn"") is a prophet."\tAaron\n'
    '2\tBowie\'s "Heroes" is an album.\t"""Heroes"" (David Bowie album)"\n'
    "3\tAC/DC are a band.\tAC/DC\n"
)
FEVER: list[dict[str, Any]] = [
    {"id": "", "text": "", "lines": ""},
    {
        "id": "Soul_Food_-LRB-film-RRB-",
        "text": "Soul Food is a film . It is -LRB- also -RRB- a hit .",
        "lines": "0\tSoul Food is a film .\tfilm\tFilm\n1\t\n2\tIt is -LRB- also -RRB- a hit .\n"
        "3\tThird .\n4\tFourth .\n5\t",
    },
    {"id": "Void", "text": "", "lines": ""},
]
KILT: list[dict[str, Any]] = [
    {
        "_id": "290",
        "wikipedia_id": "290",
        "wikipedia_title": "A",
        "text": ["A\n", "A is a letter.\n", "Section::::History.\n", "It is old.\n", "BULLET::::- First of all.\n"],
    }
]
HOTPOT: list[dict[str, Any]] = [
    {"id": "12", "url": ["x"], "title": "Simon &amp; Garfunkel", "text": ["They are a duo.", " ", " They sing."]},
    {
        "id": "13",
        "title": "Oslo",
        "text": [["Oslo"], ['Oslo is a <a href="x%20y">city</a>.', " It is cold."], ["More."]],
    },
]


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


CONTENTS = {
    "dpr": TSV,
    "fever": lines(FEVER),
    "kilt": lines(KILT),
    "hotpotqa": lines(HOTPOT),
    "jsonl": lines([{"_id": "x", "title": "Oslo", "text": "A city."}]),
}


def corpus(folder: Path, text: str | bytes, **more: Any) -> CorpusSettings:
    path = folder / "corpus"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return CorpusSettings(files=[str(path)], **more)


def rows(settings: CorpusSettings, problems: Problems | None = None) -> list[tuple[str, str | None, str]]:
    opened = settings.open(Path("/"))
    opened.check(problems or Problems("x", settings.on_error), Lookup())
    table = pa.concat_tables(opened.stream())
    return list(zip(*(table[name].to_pylist() for name in ("passage_id", "title", "text")), strict=True))


def refused(settings: CorpusSettings, *parts: str) -> None:
    with pytest.raises(InputError) as caught:
        rows(settings)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


@pytest.mark.parametrize("format", CONTENTS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_the_format_is_seen_from_the_first_rows(tmp_path: Path, format: str, pack: Any) -> None:
    settings = corpus(tmp_path, pack(CONTENTS[format].encode()))
    assert detect(tmp_path / "corpus") == format
    assert settings.open(tmp_path).formats() == {format}
    assert rows(settings) == rows(corpus(tmp_path, CONTENTS[format], format=format))


def test_dpr(tmp_path: Path) -> None:
    expected = [
        ("1", "Aaron", 'Aaron ( or ; "Ahärôn") is a prophet.'),
        ("2", '"Heroes" (David Bowie album)', 'Bowie\'s "Heroes" is an album.'),
        ("3", "AC/DC", "AC/DC are a band."),
    ]
    assert rows(corpus(tmp_path, TSV)) == expected
    assert rows(corpus(tmp_path, TSV.replace("\n", "\r\n"))) == expected


def test_tsv_columns_in_any_order_under_other_names_and_without_a_title(tmp_path: Path) -> None:
    assert rows(corpus(tmp_path, "title\tid\tcontents\nOslo\t7\tA city.\n")) == [("7", "Oslo", "A city.")]
    assert rows(corpus(tmp_path, "pid\ttext\n7\tA city.\n")) == [("7", None, "A city.")]
    names = FieldNames(text="body")
    assert rows(corpus(tmp_path, "id\tbody\ttext\n7\tA city.\tx\n", fields=names)) == [("7", None, "A city.")]


def test_tsv_rows_are_those_of_the_csv_module(tmp_path: Path) -> None:
    texts = ["a", "", '"', '""', ' "a"', "a\nb", '"a"b', 'x "y" z', '"\n', "a\tb", "\u2028", 'a"', '""a']
    cells = [[one, other, str(len(one))] for one in texts for other in texts]
    buffer = io.StringIO()
    csv.writer(buffer, delimiter="\t", lineterminator="\n").writerows(cells)
    unquoted = ['a"b\tc"\n', '"a"b\tc"\n', '"a""\tb"\tc\n', '"a\n\n"\tb\tc\n']
    text = buffer.getvalue() + "".join(unquoted)
    (tmp_path / "f").write_text(text, newline="")
    read = list(tsv_rows(tmp_path / "f", Problems("x")))
    expected = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t"))
    expected[-1] = ["a\n", "b", "c"]  # of blank lines in a cell the reader of lines leaves one
    assert [row for _, row in read] == expected
    starts = [1]
    for row in read[:-1]:
        starts.append(starts[-1] + 1 + sum(cell.count("\n") for cell in row[1]))
    assert [place.line for place, _ in read] == starts


def test_tsv_headers_that_are_wrong(tmp_path: Path) -> None:
    refused(corpus(tmp_path, "id\ttxet\ttitle\n1\ta\tb\n"), "corpus:1", "no column 'text'", "did you mean 'txet'?")
    refused(corpus(tmp_path, "1\ta b\tc\n"), "corpus:1", "no column 'id'", "header is id, text, title")
    names = FieldNames(title="titel")
    refused(corpus(tmp_path, TSV, fields=names), "no column 'titel'", "did you mean 'title'?", "fields.title")


@pytest.mark.parametrize(
    ("bad", "parts"),
    [
        ("4\tonly two\n", ("corpus:5", "expected 3 columns as in the header, found 2")),
        ("4\ta\tb\tc\n", ("corpus:5", "found 4")),
        (" \ta\tb\n", ("corpus:5", "the passage id is empty")),
        ('4\t"never closed\tb\n', ("corpus:5", "found 2")),
        ('4\t"' + "never closed " * 20_000 + "\tb\n", ("corpus:5", "field larger than field limit")),
        ("1\ta\tb\n", ("corpus:5", "'1'", "second time", "corpus:2")),
    ],
)
def test_tsv_rows_that_are_broken(tmp_path: Path, bad: str, parts: tuple[str, ...]) -> None:
    settings = corpus(tmp_path, TSV + bad)
    refused(settings, *parts)
    if "second time" in parts:
        return
    problems = Problems("x", "skip")
    assert [row[0] for row in rows(replace(settings, on_error="skip"), problems)] == ["1", "2", "3"]
    assert problems.table()["place"].to_pylist() == [f"{tmp_path / 'corpus'}:5"]


@pytest.mark.parametrize(
    ("bad", "lost"),
    [
        ('4\t"He said\tB\n', 3),  # to the end of the file
        ('4\tfoo\t"B\n', 3),  # the same, in the last column: the row would be as wide as the header
        ('4\tfoo\t"B\n' + '9\t"q" y\tD\n', 1),  # up to another mark, and as wide
        ('4\t"He said\tB\n9\tx"\n', 1),  # well quoted, but narrower
        ('4\t"He said\tB\n9\tand left."\tD\n', 1),  # well quoted and as wide, but each line is a row
        ('4\tfoo\t"B\n9\ta\tC\n"\n', 2),  # the same, up to a line that is none
    ],
)
def test_a_quotation_mark_that_is_never_closed_swallows_no_other_row(tmp_path: Path, bad: str, lost: int) -> None:
    settings = corpus(tmp_path, TSV + bad + "5\ta\tb\n6\tc\td\n7\te\tf\n")
    refused(settings, "corpus:5", "is a quotation mark never closed?", f"take in {lost} lines more")
    problems = Problems("x", "skip")
    kept = [row[0] for row in rows(replace(settings, on_error="skip"), problems)]
    assert [name for name in kept if name != "9"] == ["1", "2", "3", "5", "6", "7"]
    assert "rows of a TSV that go over several lines (quoted)" not in problems.notes
    assert problems.skipped + len(kept) == 6 + bad.count("\n")


def test_rows_of_several_lines_are_read_and_counted(tmp_path: Path) -> None:
    problems = Problems("x")
    kept = rows(corpus(tmp_path, TSV + '4\t"a\tb\nc\n\tx\ty"\tT\n5\ta\tb\n'), problems)
    assert kept[3:] == [("4", "T", "a\tb\nc\n\tx\ty"), ("5", "b", "a")]
    assert problems.notes == {"rows of a TSV that go over several lines (quoted)": 1}


def test_one_sentence_number_twice_on_a_page_is_an_id_twice(tmp_path: Path) -> None:
    page = {"id": "A", "text": "", "lines": "0\tOne.\n0\tTwo."}
    refused(corpus(tmp_path, lines([page]), passages="sentences", window=1, stride=1), "'A#0'", "second time")


def test_fever_pages(tmp_path: Path) -> None:
    problems = Problems("x")
    whole = "Soul Food is a film . It is ( also ) a hit . Third . Fourth ."
    expected = [("Soul_Food_-LRB-film-RRB-", "Soul Food (film)", whole), ("Void", "Void", "")]
    assert rows(corpus(tmp_path, lines(FEVER)), problems) == expected
    assert problems.notes == {"rows of the corpus without an id (no page, left out)": 1}
    assert rows(corpus(tmp_path, lines(FEVER), passages="introduction")) == expected


@pytest.mark.parametrize(
    ("window", "stride", "expected"),
    [
        (1, 1, ["#0", "#2", "#3", "#4"]),
        (3, 3, ["#0-3", "#4"]),
        (3, 1, ["#0-3", "#2-4"]),
        (2, 1, ["#0-2", "#2-3", "#3-4"]),
    ],
)
def test_windows_of_sentences(tmp_path: Path, window: int, stride: int, expected: list[str]) -> None:
    settings = corpus(tmp_path, lines(FEVER), passages="sentences", window=window, stride=stride)
    found = rows(settings)
    assert [name.removeprefix("Soul_Food_-LRB-film-RRB-") for name, _, _ in found] == expected
    assert all(title == "Soul Food (film)" and text for _, title, text in found)


def test_kilt_pages(tmp_path: Path) -> None:
    settings = corpus(tmp_path, lines(KILT))
    assert rows(settings) == [("290", "A", "A is a letter.\nIt is old.\nFirst of all.")]
    assert rows(replace(settings, passages="introduction")) == [("290", "A", "A is a letter.")]
    windows = rows(replace(settings, passages="sentences", window=2, stride=2))
    assert windows == [("290#1-3", "A", "A is a letter.\nIt is old."), ("290#4", "A", "First of all.")]


def test_hotpotqa_abstracts_and_whole_pages(tmp_path: Path) -> None:
    settings = corpus(tmp_path, lines(HOTPOT))
    assert rows(settings) == [
        ("12", "Simon & Garfunkel", "They are a duo. They sing."),
        ("13", "Oslo", "Oslo is a city. It is cold. More."),
    ]
    assert [row[2] for row in rows(replace(settings, passages="introduction"))] == [
        "They are a duo. They sing.",
        "Oslo is a city. It is cold.",
    ]
    single = replace(settings, passages="sentences", window=1, stride=1)
    assert [row[0] for row in rows(single)] == ["12#0", "12#2", "13#0", "13#1", "13#2"]


@pytest.mark.parametrize(
    ("format", "row", "parts"),
    [
        ("fever", {"id": "A", "lins": ""}, ("corpus:1", "no field 'lines'", "did you mean 'lins'?")),
        ("fever", {"id": "A", "lines": ["0"]}, ("corpus:1", "'A'", "lines must be a string")),
        ("fever", {"id": None, "lines": "x"}, ("corpus:1", "page id must be a string")),
        (
            "kilt",
            {"wikipedia_id": "1", "wikipedia_titel": "A"},
            ("'wikipedia_title'", "did you mean 'wikipedia_titel'?"),
        ),
        ("kilt", {"wikipedia_id": "1", "wikipedia_title": "A", "text": "x"}, ("'1'", "must be a list of strings")),
        ("hotpotqa", {"id": "1", "title": "A", "text": ["a", 1]}, ("'1'", "must be a list of strings")),
        ("hotpotqa", {"id": "1", "title": 3, "text": ["a"]}, ("'1'", "title must be a string")),
    ],
)
def test_broken_pages(tmp_path: Path, format: str, row: dict[str, Any], parts: tuple[str, ...]) -> None:
    settings = corpus(tmp_path, lines([row]), format=format)
    refused(settings, *parts)
    refused(replace(settings, on_error="skip"), "no row could be read", *parts[1:])
    good = corpus(tmp_path, lines([row, *{"fever": FEVER, "kilt": KILT, "hotpotqa": HOTPOT}[format]]), format=format)
    assert rows(replace(good, on_error="skip"))


def test_one_snapshot_has_one_digest_in_whatever_format(tmp_path: Path) -> None:
    def digest(text: str, **more: Any) -> str:
        opened = corpus(tmp_path, text, **more).open(tmp_path)
        opened.check(Problems("x"), Lookup())
        return opened.digest

    tsv = digest("id\ttext\ttitle\n1\tA city.\tOslo\n")
    assert digest(lines([{"title": "Oslo", "pid": 1, "text": "A city."}])) == tsv
    assert digest(lines([{"id": "1", "title": "Oslo", "text": ["A", "city."]}])) == tsv
    assert digest("id\ttext\ttitle\n1\tA city.O\tslo\n") != tsv
    assert digest("id\ttext\n1\tA city.\n") != digest("id\ttext\ttitle\n1\tA city.\t\n")


def test_a_folder_is_one_corpus_and_its_files_may_be_split_anyhow(tmp_path: Path) -> None:
    def digest() -> tuple[int, str]:
        opened = CorpusSettings(files=["wiki-pages"]).open(tmp_path)
        return opened.check(Problems("x"), Lookup()), opened.digest

    pages = [{"id": f"P{number}", "text": "x", "lines": f"0\tSentence {number} ."} for number in range(4)]
    (tmp_path / "wiki-pages").mkdir()
    (tmp_path / "wiki-pages" / "wiki-001.jsonl").write_text(lines(FEVER[:1] + pages))
    whole = digest()
    (tmp_path / "wiki-pages" / "wiki-001.jsonl").write_text(lines(FEVER[:1] + pages[:1]))
    (tmp_path / "wiki-pages" / "wiki-002.jsonl.gz").write_bytes(gzip.compress(lines(pages[1:]).encode()))
    assert digest() == whole == (4, whole[1])


def test_a_file_that_holds_no_page_at_all(tmp_path: Path) -> None:
    refused(corpus(tmp_path, lines(FEVER[:1])), "corpus", "no passage")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"format": "dprr"}, "did you mean 'dpr'?"),
        ({"passages": "pages"}, "did you mean 'page'?"),
        ({"window": 0}, "corpus.window=0"),
        ({"stride": 0}, "corpus.stride=0"),
        ({"stride": 4}, "corpus.stride=4"),
        ({"on_error": "skp"}, "did you mean 'skip'?"),
    ],
)
def test_settings_that_cannot_be_meant(change: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(CorpusSettings(), **change).validate()
    assert part in str(caught.value)


def test_what_a_corpus_is_known_by(tmp_path: Path) -> None:
    one = CorpusSettings(files=["wiki.tsv"], redirects="r.tsv")
    other = CorpusSettings(files=[str(tmp_path / "wiki.tsv")])
    assert one.about(str(tmp_path)) == other.about("/elsewhere")
    assert one.about(str(tmp_path)) != replace(one, passages="introduction").about(str(tmp_path))
    (tmp_path / "wiki.tsv").write_text(TSV)
    (tmp_path / "r.tsv").write_text("A\tB\n")
    assert [path.name for path in one.paths(tmp_path)] == ["wiki.tsv", "r.tsv"]
    assert Needed(title="A", passage_id="1") != Needed(title="A")
