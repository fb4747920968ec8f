"""People's labels: what is read from files as spreadsheets and Label Studio leave them, and what is refused."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rat_ray import tables
from rat_ray.annotate.people import RESOLVE, PeopleLabels, agreement, parse_label, people_table, read_people
from rat_ray.annotate.people_files import read_file
from rat_ray.errors import InputError

HEAD = "item,variable,question_id,label,annotator,comment"
Said = tuple[str, str, int | None, str]


def write(folder: Path, name: str, text: str, encoding: str = "utf-8") -> str:
    (folder / name).write_bytes(text.encode(encoding))
    return str(folder / name)


def said(*rows: Said, times: Sequence[str | None] = ()) -> pa.Table:
    """A table of variable, item, label, annotator."""
    given = [*times, *[None] * (len(rows) - len(times))]
    lines = [
        {"variable": v, "item": i, "label": label, "annotator": who, "time": time}
        for (v, i, label, who), time in zip(rows, given, strict=True)
    ]
    return pa.Table.from_pylist(lines, schema=tables.PEOPLE)


def triples(table: pa.Table) -> list[Said]:
    tables.check_table(table, tables.PEOPLE, "people")
    return [(row["variable"], row["item"], row["label"], row["annotator"]) for row in table.to_pylist()]


# --- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "label"),
    [
        *(
            (text, (True, 1))
            for text in ["1", "1.0", "1,00", " yes ", "YES", "TRUE", "true", "WAHR", "ja", "oui", "VRAI"]
        ),
        *((text, (True, 0)) for text in ["0", "0.00", "0,0", "no", "No", "FALSE", "FALSCH", "nein", "non", "FAUX"]),
        *((text, (True, None)) for text in ["unsure", "Unsure", "?", "skip"]),
        *((text, (False, None)) for text in ["", "  ", "null", "NaN", "n/a"]),
        *((text, None) for text in ["2", "-1", "01", "yesno", "yes!", "maybe", "#NAME?", "1.5", "10", "t", "correct"]),
    ],
)
def test_what_is_a_label(written: str, label: tuple[bool, int | None] | None) -> None:
    assert parse_label(written) == label


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_a_table_as_spreadsheets_save_it(tmp_path: Path, delimiter: str, encoding: str, end: str) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator=end)
    writer.writerow([*HEAD.split(","), "", ""])
    writer.writerow(["t-1", "t", "'=1+1", "1.0", "Zoë", 'naïve, "so";\nto say', "", ""])
    writer.writerow(["t-2", "T ", "'-5", "FALSCH", "", "'=2", "", ""])
    writer.writerow(["", "", "", "", "", "", "", ""])
    writer.writerow(["r-3", "r", "q'3", "", "", "", "", ""])
    path = write(tmp_path, "anna.csv", stream.getvalue(), encoding)
    found = read_people([path])
    assert triples(found) == [("t", "t-1", 1, "Zoë"), ("t", "t-2", 0, "anna")]
    assert found["question_id"].to_pylist() == ["=1+1", "-5"]
    assert found["comment"].to_pylist()[0].replace("\r\n", "\n") == 'naïve, "so";\nto say'
    notes = read_file(path).notes
    assert bool(notes) == (encoding == "cp1252")


def test_excels_hint_of_the_separator_is_no_header(tmp_path: Path) -> None:
    path = write(tmp_path, "anna.csv", "sep=;\r\nitem;variable;label\r\nt-1;t;1\r\n")
    assert triples(read_people([path])) == [("t", "t-1", 1, "anna")]


def test_json_lines_parquet_and_gzip_say_the_same(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"variable": "r", "item": "r-1", "label": 1, "annotator": "anna", "comment": "=x", "passages": [{"n": 1}]},
        {"variable": "t", "item": "t-1", "label": "no", "annotator": None},
        {"variable": "t", "item": "t-2", "label": None},
        {"variable": "t", "item": "t-3", "label": True},
        {"variable": "a", "item": "t-3", "label": "unsure"},
    ]
    expected = [("r", "r-1", 1, "anna"), ("t", "t-1", 0, "bob"), ("t", "t-3", 1, "bob"), ("a", "t-3", None, "bob")]
    lines = "\n".join(json.dumps(row) for row in rows) + "\n\n"
    assert triples(read_people([write(tmp_path, "bob.jsonl", lines)])) == expected
    (tmp_path / "bob.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    found = read_people([str(tmp_path / "bob.jsonl.gz")])
    assert triples(found) == expected
    assert found["comment"].to_pylist()[0] == "=x"
    for labels in ([1, 0, None, 1, None], [1.0, 0.0, float("nan"), 1.0, float("nan")], ["1", "0", "", "yes", "?"]):
        names = [row.get("annotator") or "bob" for row in rows]
        columns = {
            "variable": list("rttta"),
            "item": [row["item"] for row in rows],
            "label": labels,
            "annotator": names,
        }
        pq.write_table(pa.table(columns), tmp_path / "bob.parquet")
        found = triples(read_people([str(tmp_path / "bob.parquet")]))
        assert [one for one in found if one[2] is not None] == expected[:3]


def test_a_saved_table_is_read_back_as_it_was(tmp_path: Path) -> None:
    made = said(("r", "r-1", 1, "anna"), ("t", "t-1", None, "anna"), ("t", "t-1", 0, "bob"))
    pq.write_table(made, tmp_path / "people.parquet")
    assert triples(read_people([str(tmp_path / "people.parquet")])) == triples(made), "unsure too"


def task(item: str, annotations: list[dict[str, Any]], variable: str = "t") -> dict[str, Any]:
    data = {
        "item": item,
        "variable": variable,
        "question_id": "=1",
        "ask": "?",
        "question": "Who?",
        "text": "ANSWER\nx",
    }
    return {"id": 7, "data": data, "annotations": annotations, "predictions": [annotation("yes", 99)]}


def annotation(
    choice: str | None, who: Any, comment: list[str] | str | None = None, cancelled: bool = False
) -> dict[str, Any]:
    result: list[dict[str, Any]] = []
    if choice is not None:
        value: dict[str, Any] = {"choices": [choice]}
        result.append({"from_name": "label", "to_name": "text", "type": "choices", "value": value})
    if comment is not None:
        value = {"text": comment}
        result.append({"from_name": "comment", "to_name": "text", "type": "textarea", "value": value})
    when = {"created_at": "2026-11-01T10:00:00.5Z", "updated_at": "2026-11-02T12:00:00+02:00"}
    return {"id": 1, "completed_by": who, "result": result, "was_cancelled": cancelled, "ground_truth": False, **when}


def test_label_studios_export(tmp_path: Path) -> None:
    tasks = [
        task("t-1", [annotation("yes", 3, ["=why", "not"]), annotation("no", {"id": 4, "email": "bob@example.org"})]),
        task("t-2", [annotation("unsure", 3), annotation(None, 4, cancelled=True)]),
        task("t-3", [annotation(None, 3)]),
        task("t-4", []),
        task("r-5", [annotation("no", {"id": 5}, "so it is")], "r"),
    ]
    path = write(tmp_path, "export.json", json.dumps(tasks))
    found = read_people([path])
    assert triples(found) == [
        ("t", "t-1", 1, "3"),
        ("t", "t-1", 0, "bob@example.org"),
        ("t", "t-2", None, "3"),
        ("r", "r-5", 0, "5"),
    ], "predictions of models are no labels"
    assert found["comment"].to_pylist() == ["=why\nnot", None, None, "so it is"]
    assert found["time"].to_pylist()[0] == "2026-11-02T10:00:00+00:00"
    assert read_file(path).skipped == 1


def test_label_studios_flat_export(tmp_path: Path) -> None:
    row = {
        "item": "t-1",
        "variable": "t",
        "label": "yes",
        "comment": ["a", "b"],
        "annotator": 3,
        "id": 1,
        "lead_time": 2.5,
    }
    path = write(tmp_path, "export.json", json.dumps([{**row, "updated_at": "2026-11-02T12:00:00Z"}]))
    found = read_people([path])
    assert triples(found) == [("t", "t-1", 1, "3")]
    assert found["comment"].to_pylist() == ["a\nb"]
    assert found["time"].to_pylist() == ["2026-11-02T12:00:00+00:00"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "a.csv: the file is empty"),
        ("a.xlsx", "x", r"a.xlsx: the ending '.xlsx' is unknown"),
        ("a.csv", "item,variable,lable\n", r"a.csv: there is no column 'label' \(did you mean 'lable'\?\)"),
        ("a.csv", "item,variable,label,label\n", "names 'label' more than once"),
        ("a.csv", "item,variable,label\nt-1,q,1\n", r"a.csv, row 2: variable is 'q'; give r, a or t"),
        ("a.csv", "item,variable,label\n\nt-1,t,2\n", r"a.csv, row 3: label is '2'"),
        ("a.csv", "item,variable,label\n,t,1\n", r"a.csv, row 2: item is blank"),
        ("a.csv", "item,variable,label\nt-1,t,1,rest\n", r"a.csv, row 2: 4 cells under a header of 3"),
        ("a.csv", 'item,variable,label\nt-1,t,1\n"t-2,t,1\nt-3,t,1\n', "the row from line 3 on: its quotes"),
        ("a.jsonl", '{"item": "t-1"\n', r"a.jsonl, line 1: not JSON"),
        ("a.jsonl", "[1]\n", r"a.jsonl, line 1: an object such as"),
        ("a.jsonl", '{"item": "t-1", "variable": "t", "label": [1]}\n', r"line 1: label is \[1\]"),
        ("a.jsonl", '{"item": "t-1", "variable": "t", "label": 1, "comment": "\\ud800"}\n', "which is no text"),
        ("a.jsonl", '{"item": "t-1", "variable": "t", "label": 0.5}\n', r"line 1: label is '0.5'"),
        ("a.json", "{}", "a list is expected"),
        ("a.json", json.dumps([task("t-1", [annotation("perhaps", 1)])]), r"a.json, task 1: label is 'perhaps'"),
        ("a.json", '[{"annotations": [], "data": 1}]', r"task 1: data and annotations are expected"),
        ("a.json", '[{"annotations": [{"result": [{"from_name": "label"}]}], "data": {}}]', "a result without a value"),
        ("a.json", '[{"annotations": [{"result": 5}], "data": {}}]', "a result without a value"),
        ("a.parquet", "x", "cannot be read as Parquet"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_people([write(tmp_path, name, text)])


def test_a_time_that_no_calendar_holds_stays_as_it_is_and_an_apostrophe_is_no_part_of_an_item(tmp_path: Path) -> None:
    times = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "soon"]
    rows = "".join(f"'t-{number},t,1,{time}\n" for number, time in enumerate(times))
    found = read_people([write(tmp_path, "a.csv", f"item,variable,label,time\n{rows}")])
    assert found["time"].to_pylist() == times
    assert found["item"].to_pylist() == ["t-0", "t-1", "t-2"]
    assert PeopleLabels(found, "latest").label("t", "t-0") == 1


def test_two_choices_are_no_label(tmp_path: Path) -> None:
    both = annotation("yes", 1)
    both["result"][0]["value"]["choices"] = ["yes", "no"]
    with pytest.raises(InputError, match=r"task 1: the label is .* one choice is expected"):
        read_people([write(tmp_path, "a.json", json.dumps([task("t-1", [both])]))])


def test_a_file_that_is_not_there_and_one_of_no_known_text(tmp_path: Path) -> None:
    for ending in ("csv", "jsonl", "parquet"):
        with pytest.raises(InputError, match="it is not there"):
            read_people([str(tmp_path / f"a.{ending}")])
    (tmp_path / "a.csv").write_bytes(b"item,variable,label\n\x81\x8d\xff,t,1")
    with pytest.raises(InputError, match="neither UTF-8 nor Windows-1252"):
        read_people([str(tmp_path / "a.csv")])
    (tmp_path / "a.jsonl").write_bytes(codecs.BOM_UTF16_LE + "{}".encode("utf-16-le"))
    with pytest.raises(InputError, match="not UTF-8"):
        read_people([str(tmp_path / "a.jsonl")])


def test_an_annotator_has_one_label_per_item(tmp_path: Path) -> None:
    one = write(tmp_path, "one.csv", "item,variable,label,annotator\nt-1,t,1,anna\nt-1,t,1.0,anna\nt-1,t,0,bob\n")
    assert triples(read_people([one])) == [("t", "t-1", 1, "anna"), ("t", "t-1", 0, "bob")]
    for other in ("0", "unsure"):
        two = write(
            tmp_path, "two.jsonl", json.dumps({"item": "t-1", "variable": "t", "label": other, "annotator": "anna"})
        )
        with pytest.raises(InputError, match=r"two.jsonl, line 1: anna says .* of t-1, and 1 at .*one.csv, row 2"):
            read_people([one, two])


# --- several people ---------------------------------------------------------------------------------------------------

PANEL = [
    ("t", "agreed", 1, "anna"),
    ("t", "agreed", 1, "bob"),
    ("t", "split", 1, "anna"),
    ("t", "split", 0, "bob"),
    ("t", "most", 0, "anna"),
    ("t", "most", 0, "bob"),
    ("t", "most", 1, "cleo"),
    ("t", "unsure", None, "anna"),
    ("t", "unsure", 1, "bob"),
    ("t", "nothing", None, "anna"),
    ("r", "agreed", 0, "anna"),
]


@pytest.mark.parametrize(
    ("rule", "split", "most"), [("majority", None, 0), ("unanimous", None, None), ("first", 1, 0), ("latest", 0, 1)]
)
def test_how_several_labels_become_one(rule: str, split: int | None, most: int | None) -> None:
    labels = PeopleLabels(said(*PANEL), rule)
    assert labels.label("t", "split") == split
    assert labels.label("t", "most") == most
    assert labels.label("t", "agreed") == 1
    assert labels.label("r", "agreed") == 0
    assert labels.label("a", "agreed") is None
    assert labels.label("t", "unsure") == 1
    assert labels.label("t", "nothing") is None
    assert labels.label("t", "never seen") is None
    assert labels.label("t", None) is None
    assert labels.by("bob", "t", "split") == 0
    assert labels.by("bob", "t", "never seen") is None
    assert labels.by("cleo", "t", "split") is None
    assert labels.annotators == ["anna", "bob", "cleo"]
    assert rule in RESOLVE


def test_first_and_latest_go_by_time_where_it_is_known() -> None:
    rows = [("t", "x", 1, "anna"), ("t", "x", 0, "bob")]
    times = ["2026-11-02T12:00:00+02:00", "2026-11-02T09:59:00+00:00"]  # bob's is the earlier
    assert PeopleLabels(said(*rows, times=times), "first").label("t", "x") == 0
    assert PeopleLabels(said(*rows, times=times), "latest").label("t", "x") == 1


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'majority'"):
        PeopleLabels(said(), "majorty")


def test_agreement_of_two_and_of_three() -> None:
    found = agreement(said(*PANEL))
    assert found["r"] == ("r", 1, 0, None, None)
    assert found["t"][:3] == ("t", 4, 3)
    assert found["t"].raw == pytest.approx((1 + 0 + 1 / 3) / 3)
    # By hand: coincidences within items, each pair weighing 1/(labels - 1).
    observed = (0 + 2 + (2 * 2) / 2) / 7
    ones, zeros = 4, 3
    expected = 2 * ones * zeros / (7 * 6)
    assert found["t"].alpha == pytest.approx(1 - observed / expected)
    assert "a" not in found


def test_alpha_is_not_defined_where_all_say_the_same() -> None:
    same = said(("t", "x", 1, "anna"), ("t", "x", 1, "bob"), ("t", "y", 0, "anna"))
    assert agreement(same)["t"] == ("t", 2, 1, 1.0, None)


def test_agreement_does_not_depend_on_who_came_first() -> None:
    assert agreement(said(*reversed(PANEL)))["t"].alpha == pytest.approx(agreement(said(*PANEL))["t"].alpha)


def test_an_empty_table_is_a_table() -> None:
    assert people_table([]).schema == tables.PEOPLE
    assert agreement(people_table([])) == {}
    assert PeopleLabels(people_table([])).annotators == []
