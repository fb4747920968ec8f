"""`rat-ray annotate`: from a finished run to files for people, and their labels back, through the command line."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import uuid
import xml.etree.ElementTree
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rat_ray import tables
from rat_ray.annotate.people import PeopleLabels, people_table, read_people
from rat_ray.annotate.people_cells import LONGEST, restore
from rat_ray.errors import StageError
from rat_ray.labelling.keep import LabelsFile
from rat_ray.merging import merge_runs
from rat_ray.store import StorageSettings
from tests.commandline import everything_under, refuse_here, succeed
from tests.labelling_runs import Line, line, r_item, t_item, usual, write_run
from tests.servers import Access, moto

ITEMS = ["variables=[r,a,t]", "n=1000", "out=sheets"]
NASTY = ["=1+1", "+49", "-5", "@me", "\tx", "＝1", " =1", "'=1", "''", "007", "3-4", "TRUE", "1e5", "March 1"]


def do(*arguments: str, cwd: Path) -> str:
    """As `succeed`, in this process."""
    from rat_ray.cli import main

    said, shouted = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(said), contextlib.redirect_stderr(shouted):
        code = main(["annotate", *arguments])
    assert code == 0, f"{arguments} ended with {code}:\n{said.getvalue()}\n{shouted.getvalue()}"
    return said.getvalue()


def refused(*arguments: str, cwd: Path) -> str:
    return refuse_here("annotate", *arguments, cwd=cwd)


def sheet(path: Path) -> list[dict[str, str]]:
    """A CSV file as it stands, cells as a spreadsheet sees them."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().split("\n") if text]


def fill(path: Path, to: Path, labels: Sequence[str], **cells: str) -> list[dict[str, str]]:
    """Save a sheet again, with labels in turn."""
    rows = [{**row, "label": labels[i % len(labels)], **cells} for i, row in enumerate(sheet(path))]
    with to.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def people(path: Path) -> dict[tuple[str, str, str], int | None]:
    table = pq.read_table(path)
    tables.check_table(table, tables.PEOPLE, str(path))
    return {(row["variable"], row["item"], row["annotator"]): row["label"] for row in table.to_pylist()}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    write_run(tmp_path / "run", usual(20))
    return tmp_path


# --- export -----------------------------------------------------------------------------------------------------------


def test_every_item_is_there_once_with_what_it_is_judged_by_and_nothing_that_sways(made: Path) -> None:
    printed = succeed("annotate", "export", "run=run", *ITEMS, cwd=made)
    assert "out: sheets" in printed
    given = [one for one in usual(20) if one["error"] is None]
    expected = Counter({("r", r_item(one)): 0 for one in given})
    expected.update(("r", r_item(one)) for one in given)
    expected.update(("a", t_item(one)) for one in given)
    expected.update(("t", t_item(one)) for one in given if one["a"] == 0)
    rows = sheet(made / "sheets" / "items.csv")
    assert {(row["variable"], row["item"]): int(row["serves"]) for row in rows} == dict(expected)
    assert len(rows) == len(expected)
    objects = lines_of(made / "sheets" / "items.jsonl")
    tasks = json.loads((made / "sheets" / "label_studio.json").read_text())
    by_item = {("r", r_item(one)): one for one in given} | {(v, t_item(one)): one for one in given for v in "at"}
    for row, whole, task in zip(rows, objects, tasks, strict=True):
        one = by_item[row["variable"], row["item"]]
        assert row["question"] == whole["question"] == one["question"]
        assert row["label"] == row["annotator"] == row["comment"] == ""
        assert whole["label"] is whole["annotator"] is whole["comment"] is None
        assert whole["answer"] == (None if row["variable"] == "r" else one["answer"])
        assert whole["accepted_answers"] == (one["accepted"] if row["variable"] == "t" else None)
        if row["variable"] == "r":
            numbered = [{"n": n, "title": t, "text": text} for n, (t, text) in enumerate(one["passages"], 1)]
            assert whole["passages"] == numbered
            assert row["passages"].startswith("[1] Numbers\nThe number")
            assert "\n\n[2]\nText" in row["passages"]
        else:
            assert whole["passages"] is None
        assert set(task) == {"data"}
        assert task["data"]["item"] == row["item"]
        assert all(isinstance(value, str) for value in task["data"].values())
        assert one["question"] in task["data"]["text"]
        shown = " ".join([*map(str, row.values()), *map(str, whole.values()), *task["data"].values()])
        assert not [word for word in ("evidence=", "match", "stratum", "t@", "r@") if word in shown]
    asked = {row["variable"]: row["ask"] for row in rows}
    assert asked["t"] == "Is the answer correct?"
    assert len(set(asked.values())) == 3


def test_label_studios_configuration_names_what_the_tasks_hold(made: Path) -> None:
    do("export", "run=run", *ITEMS, cwd=made)
    tree = xml.etree.ElementTree.parse(made / "sheets" / "label_studio.xml")
    tasks = json.loads((made / "sheets" / "label_studio.json").read_text())
    used = {v[1:] for node in tree.iter() for v in node.attrib.values() if v.startswith("$")}
    assert used == {"ask", "text"}
    assert all(used <= set(task["data"]) for task in tasks)
    names = {node.get("name") for node in tree.iter() if node.get("name")}
    assert names == {"text", "label", "comment"}
    assert {node.get("toName") for node in tree.iter() if node.get("toName")} == {"text"}
    assert [node.get("value") for node in tree.iter("Choice")] == ["yes", "no", "unsure"]


def test_the_same_seed_draws_the_same_another_draws_others_and_labelled_items_are_left_out(made: Path) -> None:
    for name in ("one", "two"):
        do("export", "run=run", "n=6", f"out={name}", cwd=made)
    do("export", "run=run", "n=6", "seed=2", "out=three", cwd=made)
    one, two, three = (sheet(made / name / "items.csv") for name in ("one", "two", "three"))
    assert one == two
    assert Counter(row["variable"] for row in one) == {"r": 6, "t": 6}
    assert {row["item"] for row in one} != {row["item"] for row in three}
    asked = {v: {row["question_id"] for row in one if row["variable"] == v} for v in "rt"}
    assert asked["t"] & asked["r"], "answers get labels of R and T"
    fill(made / "one" / "items.csv", made / "anna.csv", ["1", "0", "unsure"])
    do("import", "run=run", "files=anna.csv", "people=people.parquet", cwd=made)
    do("export", "run=run", "n=6", "people=people.parquet", "out=next", cwd=made)
    following = {row["item"] for row in sheet(made / "next" / "items.csv")}
    decided = {item for (_, item, _), label in people(made / "people.parquet").items() if label is not None}
    assert len(decided) == 8
    assert not following & decided
    drawn = pq.read_table(made / "next" / "selection.parquet").to_pylist()
    [share] = {row["inclusion"] for row in drawn if row["variable"] == "r"}
    assert share == pytest.approx(6 / (19 - 4))
    facts = json.loads((made / "next" / "run.json").read_text())
    assert facts["labelled_before"] == {"r": 4, "t": 4}
    assert facts["settings"]["how"] == "random"
    assert facts["settings"]["seed"] == 1


def test_a_random_sample_takes_every_item_equally_often(tmp_path: Path) -> None:
    from rat_ray.labelling.run import LabelledRun
    from rat_ray.labelling.select import select
    from rat_ray.output import OutFiles

    write_run(tmp_path / "run", usual(12, ["only"]))
    run = LabelledRun(OutFiles(tmp_path / "run"))
    draws = 2000
    counts: Counter[tuple[str, str]] = Counter()
    for seed in range(draws):
        found = select(run, ["r", "t"], 3, None, [], {}, seed)
        counts.update((one.variable, one.item) for one in found.chosen)
    for variable, items in (("r", 11), ("t", 9)):
        taken = [count for (of, _), count in counts.items() if of == variable]
        assert len(taken) == items
        share = 3 / items
        deviation = (draws * share * (1 - share)) ** 0.5
        assert all(abs(count - draws * share) < 4.5 * deviation for count in taken)


def test_strata_get_equal_numbers_and_the_probabilities_are_written_down(made: Path) -> None:
    printed = do("export", "run=run", "n=12", "variables=t", "how=stratified", "out=sheets", cwd=made)
    drawn = pq.read_table(made / "sheets" / "selection.parquet").to_pylist()
    sizes = Counter(row["stratum"] for row in drawn)
    assert len(sizes) == 8
    assert all(f"t@match={m}" in " ".join(sizes) for m in (0, 1))
    assert max(sizes.values()) - min(sizes.values()) <= 1
    given = [one for one in usual(20) if one["error"] is None and one["a"] == 0]
    for row in drawn:
        words = dict(word.split("=") for word in row["stratum"].split(" "))
        alike = [one for one in given if all(str(one[name]) == value for name, value in words.items())]
        assert t_item(next(one for one in alike if one["question_id"] == row["question_id"])) == row["item"]
        assert row["inclusion"] == pytest.approx(sizes[row["stratum"]] / len(alike))
        assert row["stratum"] in printed
    do("export", "run=run", "n=12", "variables=t", "how=stratified", "by=t@match", "out=by", cwd=made)
    assert Counter(row["stratum"] for row in pq.read_table(made / "by" / "selection.parquet").to_pylist()) == {
        "t@match=0": 6,
        "t@match=1": 6,
    }


def test_judges_are_no_stratum_unless_they_are_asked_for(tmp_path: Path) -> None:
    lines = [{**one, "t@local": i % 2} for i, one in enumerate(usual(20, ["only"]))]
    write_run(tmp_path / "run", lines, judges=["t@local"])
    do("export", "run=run", "n=8", "variables=t", "how=stratified", "out=usual", cwd=tmp_path)
    assert "t@local" not in str(pq.read_table(tmp_path / "usual" / "selection.parquet")["stratum"])
    do("export", "run=run", "n=8", "variables=t", "how=stratified", "by=t@local", "out=asked", cwd=tmp_path)
    strata = pq.read_table(tmp_path / "asked" / "selection.parquet")["stratum"].to_pylist()
    assert Counter(strata) == {"t@local=0": 4, "t@local=1": 4}


def test_two_annotators_share_the_work_and_a_part_goes_to_both(made: Path) -> None:
    do("export", "run=run", "n=10", "annotators=3", "overlap=0.3", "out=sheets", cwd=made)
    parts = [sheet(made / "sheets" / f"annotator-{n}.csv") for n in (1, 2, 3)]
    counts = Counter((row["variable"], row["item"]) for part in parts for row in part)
    whole = sheet(made / "sheets" / "items.csv")
    assert {(row["variable"], row["item"]) for row in whole} == set(counts)
    assert len(whole) == 20
    for variable in "rt":
        times = [count for (of, _), count in counts.items() if of == variable]
        assert Counter(times) == {1: 7, 2: 3}
        assert sorted(sum(row["variable"] == variable for row in part) for part in parts) == [4, 4, 5]
    for row in whole:
        who = [f"annotator-{n}" for n, part in enumerate(parts, 1) if row["item"] in {one["item"] for one in part}]
        assert row["assigned_to"].split(" ") == who
    assert len(lines_of(made / "sheets" / "annotator-2.jsonl")) == len(parts[1])
    assert len(json.loads((made / "sheets" / "annotator-2.label_studio.json").read_text())) == len(parts[1])


def test_texts_at_risk_are_safe_in_a_spreadsheet_and_come_back(tmp_path: Path) -> None:
    lines = [
        line("only", n, question_id=text, question=f"{text}{n}", answer=f"{text}\n{n}\x00", accepted=[text], a=0)
        for n, text in enumerate(NASTY)
    ]
    write_run(tmp_path / "run", lines)
    do("export", "run=run", *ITEMS, cwd=tmp_path)
    rows = sheet(tmp_path / "sheets" / "items.csv")
    for row in rows:
        for cell in row.values():
            assert cell.lstrip()[:1] not in set("=+-@＝＋－＠") or cell == ""
            assert not cell.startswith(("\t", "\r", "\n"))
            assert "\0" not in cell
    assert {restore(row["question_id"]) for row in rows} == set(NASTY)
    assert {row["question_id"] for row in rows} >= {"'=1+1", "'007", "'3-4", "'TRUE"}
    assert {row["question_id"] for row in lines_of(tmp_path / "sheets" / "items.jsonl")} == set(NASTY)
    for name, comment in (("anna", "'=nice"), ("bob", "=1")):
        fill(tmp_path / "sheets" / "items.csv", tmp_path / f"{name}.csv", ["1"], comment=comment)
    do("import", "run=run", "files=anna.csv,bob.csv", "people=people.csv", cwd=tmp_path)
    for _ in range(2):
        found = read_people([str(tmp_path / "people.csv")]).to_pylist()
        assert {row["question_id"] for row in found} == set(NASTY)
        assert {row["comment"] for row in found} == {"=nice", "=1"}
        assert all(
            not value.startswith(("=", "+", "-", "@"))
            for row in sheet(tmp_path / "people.csv")
            for value in row.values()
        )
        do("import", "run=run", "files=anna.csv,bob.csv", "people=people.csv", cwd=tmp_path)


def test_a_spreadsheet_may_rewrite_ids_the_runs_own_are_kept(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [line("only", 1, question_id="007"), line("only", 2, question_id="3-4")])
    do("export", "run=run", *ITEMS, cwd=tmp_path)
    rows = fill(tmp_path / "sheets" / "items.csv", tmp_path / "anna.csv", ["TRUE"], question_id="7")
    do("import", "run=run", "files=anna.csv", "people=people.parquet", cwd=tmp_path)
    assert set(pq.read_table(tmp_path / "people.parquet")["question_id"].to_pylist()) == {"007", "3-4"}
    assert len(people(tmp_path / "people.parquet")) == len(rows)


def write_sweep(folder: Path, **runs: Line) -> None:
    """A sweep of runs of one row each."""
    for name, one in runs.items():
        write_run(folder / name, [{**one, "config": name}], in_sweep=True)
        pq.write_table(pa.table({"config": [name]}), folder / name / "summary.parquet")
    assert merge_runs(str(folder)) is not None


def test_in_a_sweep_each_item_has_the_texts_of_its_own_run(tmp_path: Path) -> None:
    """Two logs may call different texts by one id."""
    first = line("a", 0, passages=[(None, "alpha")], passage_ids=["p1"])
    second = line("b", 1, passages=[("B", "beta")], passage_ids=["p1"])
    write_sweep(tmp_path / "sweep", **{"a": first, "a.b": second})
    succeed("annotate", "export", "run=sweep", "variables=[r]", "out=sheets", cwd=tmp_path)
    shown = {one["item"]: one["passages"] for one in lines_of(tmp_path / "sheets" / "items.jsonl")}
    assert shown[r_item(first)] == [{"n": 1, "title": None, "text": "alpha"}]
    assert shown[r_item(second)] == [{"n": 1, "title": "B", "text": "beta"}]
    for name in ("a", "a.b"):  # only what was merged is left: which text was it?
        (tmp_path / "sweep" / name / "passages.parquet").unlink()
    said = refused("export", "run=sweep", "variables=[r]", "out=more", cwd=tmp_path)
    assert "passage 'p1' of dataset 'demo' has two texts" in said


def test_a_long_text_is_cut_in_the_csv_only(tmp_path: Path) -> None:
    text = "long " * 20_000
    write_run(tmp_path / "run", [line("only", 1, passages=[("T", text)], answer=text)])
    do("export", "run=run", *ITEMS, cwd=tmp_path)
    rows = {row["variable"]: row for row in sheet(tmp_path / "sheets" / "items.csv")}
    assert len(rows["r"]["passages"]) <= LONGEST
    assert rows["r"]["passages"].endswith("the whole text is in items.jsonl]")
    assert rows["t"]["answer"].endswith("the whole text is in items.jsonl]")
    whole = {row["variable"]: row for row in lines_of(tmp_path / "sheets" / "items.jsonl")}
    assert whole["r"]["passages"][0]["text"] == text
    assert whole["t"]["answer"] == text


def test_unknown_and_missing_answers_and_empty_contexts_are_said_in_words(tmp_path: Path) -> None:
    write_run(
        tmp_path / "run",
        [
            line("only", 1, accepted=None, answer="", passages=[]),
            line("only", 2, accepted=[]),
            line("only", 3, a=None),
        ],
    )
    do("export", "run=run", *ITEMS, cwd=tmp_path)
    rows = {(row["variable"], row["question_id"]): row for row in sheet(tmp_path / "sheets" / "items.csv")}
    assert rows["t", "q1"]["accepted_answers"] == ""
    assert rows["t", "q1"]["answer"] == "(the answer is empty)"
    assert rows["r", "q1"]["passages"] == "(no passages were given)"
    assert rows["t", "q2"]["accepted_answers"] == "(no answer counts as right)"
    assert ("t", "q3") not in rows, "whether it is an answer is not known"
    assert ("a", "q3") in rows


def test_an_export_that_people_may_have_filled_in_is_never_written_over(made: Path) -> None:
    do("export", "run=run", "n=3", "out=sheets", cwd=made)
    fill(made / "sheets" / "items.csv", made / "sheets" / "items.csv", ["1"])
    before = everything_under(made / "sheets")
    assert "nothing was written" in do("export", "run=run", "n=3", "out=sheets", cwd=made)
    assert "other settings" in refused("export", "run=run", "n=4", "out=sheets", cwd=made)
    assert "holds the results of" in refused("export", "run=run", "out=run", cwd=made)
    assert everything_under(made / "sheets") == before


# --- import -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def sheets(made: Path) -> Path:
    do("export", "run=run", "n=8", "out=sheets", cwd=made)
    return made


def test_labels_of_several_formats_are_joined_and_agreement_is_told(sheets: Path) -> None:
    rows = fill(sheets / "sheets" / "items.csv", sheets / "anna.csv", ["1", "0", "unsure", ""])
    objects = lines_of(sheets / "sheets" / "items.jsonl")
    said = [{**one, "label": 1, "annotator": "Bob"} for one in objects]
    (sheets / "x.jsonl").write_text("".join(json.dumps(one) + "\n" for one in said))
    tasks = json.loads((sheets / "sheets" / "label_studio.json").read_text())
    for number, task in enumerate(tasks):
        result = [{"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": ["no"]}}]
        one = {"completed_by": 3, "result": result, "was_cancelled": number == 0, "updated_at": "2026-11-30T10:00:00Z"}
        task["annotations"] = [one]
    (sheets / "export.json").write_text(json.dumps(tasks))
    given = ["files=[anna.csv,x.jsonl,export.json]", "labels=people.parquet"]
    printed = succeed("annotate", "import", "run=run", *given, cwd=sheets)
    found = people(sheets / "people.parquet")
    assert Counter(who for _, _, who in found) == {"anna": 12, "Bob": 16, "3": 15}
    for index, row in enumerate(rows):
        key = (row["variable"], row["item"])
        assert found.get((*key, "anna"), "blank") == [1, 0, None, "blank"][index % 4]
        assert found[(*key, "Bob")] == 1
        assert found.get((*key, "3"), "cancelled") == ("cancelled" if index == 0 else 0)
    assert "Krippendorff's alpha" in printed
    assert "1 cancelled annotations" in printed
    assert "people: people.parquet (43 judgements, resolved by majority)" in printed
    counted = next(text for text in printed.splitlines() if text.startswith("r "))
    assert counted.split() == ["r", "23", "19", "0", "0", "2", "2", "0", "0"]
    files = {path.name for path in sheets.iterdir()}
    do("import", "run=run", *given, cwd=sheets)
    assert people(sheets / "people.parquet") == found
    assert {path.name for path in sheets.iterdir()} == files


def test_the_first_and_the_latest_label_go_by_when_they_came(sheets: Path) -> None:
    item = sheet(sheets / "sheets" / "items.csv")[0]["item"]
    for who, label in (("zoe", 1), ("anna", 0)):
        (sheets / f"{who}.csv").write_text(f"item,variable,label\n{item},r,{label}\n")
        do("import", "run=run", f"files={who}.csv", "people=people.csv", cwd=sheets)
    table = read_people([str(sheets / "people.csv")])
    assert table["annotator"].to_pylist() == ["zoe", "anna"]
    assert None not in table["time"].to_pylist()
    assert PeopleLabels(table, "first").label("r", item) == 1
    assert PeopleLabels(table, "latest").label("r", item) == 0


def test_unknown_items_are_left_out_and_named(sheets: Path) -> None:
    rows = fill(sheets / "sheets" / "items.csv", sheets / "anna.csv", ["1"])
    text = f"item,variable,label\nt-elsewhere,t,1\n{rows[0]['item']},t,1\n{rows[0]['item']},r,1\n"
    (sheets / "bob.csv").write_text(text)
    printed = do("import", "run=run", "files=bob.csv", "people=people.parquet", cwd=sheets)
    assert "2 items are not in this run, and were left out: bob.csv, row 2, bob.csv, row 3" in printed
    assert people(sheets / "people.parquet") == {("r", rows[0]["item"], "bob"): 1}
    (sheets / "bob.csv").write_text("item,variable,label\nt-elsewhere,t,1\n")
    assert "nor is any other" in refused("import", "run=run", "files=bob.csv", "people=x.parquet", cwd=sheets)
    assert not (sheets / "x.parquet").exists()


def test_an_item_that_is_there_twice(sheets: Path) -> None:
    [first, *_] = sheet(sheets / "sheets" / "items.csv")
    head = "item,variable,label\n"
    (sheets / "anna.csv").write_text(head + f"{first['item']},r,1\n" * 3)
    printed = do("import", "run=run", "files=anna.csv", "people=people.parquet", cwd=sheets)
    assert "2 labels were given twice, and count once: anna.csv, row 3, anna.csv, row 4" in printed
    (sheets / "anna.csv").write_text(head + f"{first['item']},r,1\n{first['item']},r,no\n")
    message = refused("import", "run=run", "files=anna.csv", "people=people.parquet", cwd=sheets)
    assert "anna.csv, row 3: anna says 0 of r" in message
    assert "1 at anna.csv, row 2" in message


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_labels_that_are_there_stay_unless_replace_is_given(sheets: Path, ending: str) -> None:
    rows = sheet(sheets / "sheets" / "items.csv")
    kept, changed, opened, added = (row["item"] for row in rows[:4])
    head = "item,variable,label\n"
    (sheets / "anna.csv").write_text(f"{head}{kept},r,1\n{changed},r,1\n{opened},r,unsure\n")
    given = ["run=run", "files=anna.csv", f"people=deep/people.{ending}"]
    do("import", *given, cwd=sheets)

    def labels() -> dict[str, int | None]:
        found = read_people([str(sheets / "deep" / f"people.{ending}")]).to_pylist()
        return {row["item"]: row["label"] for row in found}

    assert labels() == {kept: 1, changed: 1, opened: None}
    before = everything_under(sheets / "deep")
    for value in ("0", "unsure"):
        (sheets / "anna.csv").write_text(f"{head}{kept},r,\n{changed},r,{value}\n{opened},r,0\n{added},r,1\n")
        message = refused("import", *given, cwd=sheets)
        assert "1 labels are there with another value: replace=true" in message
        assert everything_under(sheets / "deep") == before
    printed = do("import", *given, "replace=true", cwd=sheets)
    assert labels() == {kept: 1, changed: None, opened: 0, added: 1}
    assert next(text for text in printed.splitlines() if text.startswith("r ")).split()[:5] == ["r", "4", "2", "0", "1"]
    (sheets / "anna.csv").write_text(f"{head}{opened},r,0\n")
    do("import", *given, "annotator=bob", cwd=sheets)
    assert labels().keys() == {kept, changed, opened, added}


def test_who_labelled_is_the_columns_then_the_settings_then_the_files_name(sheets: Path) -> None:
    first, second = (row["item"] for row in sheet(sheets / "sheets" / "items.csv")[:2])
    (sheets / "x.csv").write_text(f"item,variable,label,annotator\n{first},r,1,cleo\n{second},r,0,\n")
    do("import", "run=run", "files=x.csv", "people=one.parquet", cwd=sheets)
    assert {who for *_, who in people(sheets / "one.parquet")} == {"cleo", "x"}
    do("import", "run=run", "files=x.csv", "annotator=dora", "people=two.parquet", cwd=sheets)
    assert {who for *_, who in people(sheets / "two.parquet")} == {"cleo", "dora"}
    for folder in ("anna", "bob"):
        (sheets / folder).mkdir()
        (sheets / folder / "items.csv").write_text(f"item,variable,label\n{first},r,1\n")
    given = ["files=[anna/items.csv,bob/items.csv]", "people=three.parquet"]
    assert "both would be the labels of 'items'" in refused("import", "run=run", *given, cwd=sheets)
    do("import", "run=run", "files=anna/items.csv", "annotator=Anna", "people=three.parquet", cwd=sheets)
    printed = do("import", "run=run", "files=bob/items.csv", "annotator=anna", "people=three.parquet", cwd=sheets)
    assert "'Anna' and 'anna' count as 2 annotators" in printed


def test_columns_that_were_sorted_apart_are_noticed(sheets: Path) -> None:
    rows = sheet(sheets / "sheets" / "items.csv")[:3]
    questions = [row["question"] for row in rows]
    for row, question in zip(rows, [*questions[1:], questions[0]], strict=True):
        row |= {"question": question, "label": "1"}
    with (sheets / "anna.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    message = refused("import", "run=run", "files=anna.csv", "people=people.parquet", cwd=sheets)
    assert "were some columns sorted without the others?" in message
    assert not (sheets / "people.parquet").exists()


def test_questions_without_a_latin_letter_are_told_apart_too(tmp_path: Path) -> None:
    """A code page may leave nothing of them; what it leaves whole must be the item's own."""
    write_run(tmp_path / "run", [line("only", 1, question="谁写的？"), line("only", 2, question="何时？")])
    do("export", "run=run", *ITEMS, cwd=tmp_path)
    rows = [row for row in sheet(tmp_path / "sheets" / "items.csv") if row["variable"] == "r"]
    head, first, second = "item,variable,question,label", *rows
    text = f"{head}\n{first['item']},r,{second['question']},1\n{second['item']},r,{first['question']},0\n"
    (tmp_path / "anna.csv").write_text(text)
    message = refused("import", "run=run", "files=anna.csv", "people=people.parquet", cwd=tmp_path)
    assert "were some columns sorted without the others?" in message


def test_one_annotator_however_a_file_system_spells_the_name_and_comments_are_added(sheets: Path) -> None:
    item = sheet(sheets / "sheets" / "items.csv")[0]["item"]
    head = "item,variable,label,comment\n"
    given = ["run=run", "people=people.parquet"]
    composed, parted = "Jos\u00e9.csv", "Jose\u0301.csv"
    for name, comment in ((composed, ""), (parted, "odd"), (composed, "very"), (composed, "odd")):
        (sheets / name).write_text(f"{head}{item},r,1,{comment}\n")
        do("import", *given, f"files=['{name}']", cwd=sheets)
    [row] = pq.read_table(sheets / "people.parquet").to_pylist()
    assert (row["annotator"], row["label"], row["comment"]) == ("Jos\u00e9", 1, "odd\nvery")


@pytest.mark.parametrize("name", ["items.csv", "items.jsonl"])
def test_a_sheet_of_items_is_not_written_over_with_labels(sheets: Path, name: str) -> None:
    fill(sheets / "sheets" / "items.csv", sheets / "anna.csv", ["1"])
    before = (sheets / "sheets" / name).read_bytes()
    said = refused("import", "run=run", "files=anna.csv", f"people=sheets/{name}", cwd=sheets)
    assert "holds items to label, which would be written over" in said
    assert (sheets / "sheets" / name).read_bytes() == before


def test_a_question_in_a_lossy_code_page_is_still_the_question(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [line("only", 1, question="¿Quién escribió “Łódź” — 漢字?")])
    do("export", "run=run", *ITEMS, cwd=tmp_path)
    rows = sheet(tmp_path / "sheets" / "items.csv")
    text = "item;variable;question;label\n" + "".join(
        f'{r["item"]};{r["variable"]};"{r["question"]}";1\n' for r in rows
    )
    (tmp_path / "anna.csv").write_bytes(text.encode("cp1252", errors="replace"))
    printed = do("import", "run=run", "files=anna.csv", "people=people.parquet", cwd=tmp_path)
    assert "read as Windows-1252" in printed
    assert len(people(tmp_path / "people.parquet")) == len(rows)


def test_what_another_import_wrote_meanwhile_is_not_lost(sheets: Path) -> None:
    fill(sheets / "sheets" / "items.csv", sheets / "anna.csv", ["1"])
    do("import", "run=run", "files=anna.csv", "people=people.parquet", cwd=sheets)
    ours = LabelsFile(str(sheets / "people.parquet"), StorageSettings())
    new = LabelsFile(str(sheets / "new.parquet"), StorageSettings())
    table = people_table(ours.read())
    assert new.read() == []
    do("import", "run=run", "files=anna.csv", "annotator=bob", "people=people.parquet", cwd=sheets)
    do("import", "run=run", "files=anna.csv", "people=new.parquet", cwd=sheets)
    for file in (ours, new):
        with pytest.raises(StageError, match="another process has written it meanwhile"):
            file.write(table.slice(0, 1))
    assert len(people(sheets / "people.parquet")) == 2 * table.num_rows
    assert len(people(sheets / "new.parquet")) == table.num_rows


def test_a_killed_import_leaves_the_old_labels(sheets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(sheets / "sheets" / "items.csv", sheets / "anna.csv", ["1"])
    do("import", "run=run", "files=anna.csv", "people=people.parquet", cwd=sheets)
    before = people(sheets / "people.parquet")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rat_ray.store.local.os.replace", killed)
    from rat_ray.cli import main

    with contextlib.chdir(sheets):
        code = main(["annotate", "import", "run=run", "files=anna.csv", "annotator=bob", "people=people.parquet"])
    assert code == 130
    assert people(sheets / "people.parquet") == before
    assert not [path.name for path in sheets.iterdir() if path.name.startswith(".tmp")]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["exprt", "run=run"], "did you mean 'export'"),
        (["run=run"], "say `rat-ray annotate export` or `rat-ray annotate import`"),
        (["action=imprt", "run=run"], "did you mean 'import'"),
        (["export"], "run: must be given"),
        (["export", "run=run", "how=planner"], "goal: must be given; a goal is one of"),
        (["export", "run=run", "how=randm"], "did you mean 'random'"),
        (["export", "run=run", "variables=[r,x]"], "'x' is no variable"),
        (["export", "run=run", "variables=[r,r]"], "at most once"),
        (["export", "run=run", "variables=[]"], "one of them at least"),
        (["export", "run=run", "n=0"], "n=0"),
        (["export", "run=run", "annotators=0"], "annotators=0"),
        (["export", "run=run", "overlap=1.5"], "overlap=1.5"),
        (["export", "run=run", "separator=x"], "separator='x'"),
        (["export", "run=run", "by=a"], "by= goes with how=stratified"),
        (["export", "run=run", "how=stratified", "by=t@mtch"], "did you mean 't@match'"),
        (["export", "run=run", "how=stratified", "n=3"], "each needs an item"),
        (["export", "run=run", "configurations=[bm25-smal]"], "did you mean 'bm25-small'"),
        (["export", "run=run", "people=missing.parquet"], "missing.parquet"),
        (["export", "run=run", "files=[a.csv]"], "files= goes with `rat-ray annotate import`"),
        (["export", "run=nowhere"], "no run.json there"),
        (["export", "run=run", "annotator=x", "seeed=1"], "did you mean 'seed'"),
        (["import", "run=run", "people=p.parquet"], "files: must be given"),
        (["import", "run=run", "files=a.csv"], "people: must be given"),
        (["import", "run=run", "files=a.csv", "people=p.xlsx"], "ends in .parquet, .csv, .jsonl"),
        (["import", "run=run", "files=[a.csv,./p.csv]", "people=p.csv"], "people=p.csv: is one of files="),
        (["import", "run=run", "files=a.xlsx", "people=p.csv"], "files: a.xlsx ends in none of"),
        (["import", "run=run", "files=a.csv", "people=p.csv"], "a.csv: cannot be read (it is not there)"),
        (["import", "run=run", "files=a.csv", "people=p.csv", "resolve=majorty"], "did you mean 'majority'"),
        (["import", "run=run", "files=a.csv", "people=p.csv", "n=5"], "n= goes with `rat-ray annotate export`"),
    ],
)
def test_bad_settings_are_refused_and_nothing_is_written(
    tmp_path_factory: pytest.TempPathFactory, arguments: list[str], message: str
) -> None:
    folder = tmp_path_factory.mktemp("refused")
    write_run(folder / "run", usual(6))
    before = everything_under(folder)
    assert message in refused(*arguments, cwd=folder)
    assert everything_under(folder) == before
    assert {path.name for path in folder.iterdir()} == {"run"}


def test_a_run_of_an_earlier_version_is_named(made: Path) -> None:
    for part in (made / "run" / "annotations").rglob("*.parquet"):
        pq.write_table(pq.read_table(part, partitioning=None).drop_columns(["r_item"]), part)
    assert "earlier version of rat-ray" in refused("export", "run=run", cwd=made)


def test_nothing_is_left_to_label(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [line("only", 1)])
    do("export", "run=run", *ITEMS, cwd=tmp_path)
    fill(tmp_path / "sheets" / "items.csv", tmp_path / "anna.csv", ["1"])
    do("import", "run=run", "files=anna.csv", "people=people.csv", cwd=tmp_path)
    assert "3 items have a label already" in refused(
        "export", "run=run", *ITEMS[:2], "out=x", "people=people.csv", cwd=tmp_path
    )


# --- S3 ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    pytest.importorskip("boto3")
    with moto(tmp_path_factory.mktemp("moto")) as started, pytest.MonkeyPatch.context() as patch:
        for name, value in started.environment().items():
            patch.setenv(name, value)
        started.client().create_bucket(Bucket="bucket")
        yield started


def test_runs_sheets_and_labels_may_lie_on_s3(server: Access, tmp_path: Path) -> None:
    root = f"s3://bucket/{uuid.uuid4().hex}"
    lines: list[Line] = usual(8)
    write_run(f"{root}/run", lines, server.storage(patience=10.0, multipart_mb=5))
    do("export", f"run={root}/run", f"out={root}/sheets", "n=4", *server.overrides(), cwd=tmp_path)
    prefix = root.removeprefix("s3://bucket/")
    body = server.client().get_object(Bucket="bucket", Key=f"{prefix}/sheets/items.jsonl")["Body"].read()
    rows = [{**json.loads(text), "label": 1, "annotator": "anna"} for text in body.decode().splitlines()]
    filled = "".join(json.dumps(row) + "\n" for row in rows).encode()
    server.client().put_object(Bucket="bucket", Key=f"{prefix}/anna.jsonl", Body=filled)
    given = [f"run={root}/run", f"files={root}/anna.jsonl", f"people={root}/labels/people.parquet", *server.overrides()]
    do("import", *given, cwd=tmp_path)
    assert "(8 judgements" in do("import", *given, cwd=tmp_path)
    whole = server.client().get_object(Bucket="bucket", Key=f"{prefix}/labels/people.parquet")["Body"].read()
    assert pq.read_table(pa.BufferReader(whole))["label"].to_pylist() == [1] * 8
    wrong = [text.replace("anna.jsonl", "bob.jsonl") for text in given]
    assert f"{root}/bob.jsonl: there is no such file; files= names it" in refused("import", *wrong, cwd=tmp_path)
    bad = json.dumps({**rows[0], "label": 5}).encode()
    server.client().put_object(Bucket="bucket", Key=f"{prefix}/anna.jsonl", Body=bad)
    assert f"{root}/anna.jsonl, line 1: label is '5'" in refused("import", *given, cwd=tmp_path)
    evaluated = ["evaluate", "dataset=logs", "dataset.path=no.jsonl", "judge=none", "dry_run=true"]
    labels = f"labels.people=[{root}/labels/people.parquet,{root}/anna.jsonl]"
    said = refuse_here(*evaluated, labels, *server.overrides(), cwd=tmp_path)
    assert f"{root}/anna.jsonl, line 1: label is '5'" in said, "they are read from where import keeps them"
    said = refuse_here(*evaluated, f"labels.people=[{root}/bob.jsonl]", *server.overrides(), cwd=tmp_path)
    assert f"{root}/bob.jsonl: there is no such file; labels.people= names it" in said
    assert list(tmp_path.iterdir()) == []
