"""The annotations table: trusted labels, the budget, judges, and the full-table values."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rat_ray import tables
from rat_ray.annotate.full import full_table_values, state_counts
from rat_ray.annotate.labels import AnnotateWorker, LabelSettings, judge_columns
from rat_ray.errors import InputError
from rat_ray.model import read_labels
from tests.helpers import MemoryInput

TRUSTED = {"r": ["evidence"], "a": ["phrase"], "t": ["match"]}
SETTINGS = LabelSettings(
    judges=["r@local", "t@local"], trusted=TRUSTED, config="c", dataset="demo", retriever="bm25", generator="g",
    abstention_phrase="Pass.",
).resolved()  # fmt: skip
# answer, context, expected r, a, t; every question's evidence is p1 and its answer Paris
ROWS = [
    ("Pass.", ["p2"], 0, 1, None),
    ("Rome", ["p2"], 0, 0, 0),
    ("Paris", ["p2"], 0, 0, 1),
    ("I don’t know", ["p1"], 1, 1, None),
    ("Rome", ["p1"], 1, 0, 0),
    ("Paris", ["p1", "p2"], 1, 0, 1),
]
REPEATS = 5
PASSAGES = pa.Table.from_pylist(
    [{"passage_id": name, "title": f"Title {name}", "text": f"Text of {name}."} for name in ("p1", "p2")],
    schema=tables.PASSAGES,
)


def make_rows() -> dict[str, pa.Table]:
    questions, answers, verdicts = [], [], []
    for i in range(REPEATS * len(ROWS)):
        answer, context = ROWS[i % len(ROWS)][:2]
        qid = f"q{i:02d}"
        questions.append({"question_id": qid, "question": "Where?", "answers": ["Paris"], "evidence": [["p1"]]})
        answers.append({"question_id": qid, "context_ids": context, "answer": answer})
        verdicts.append({"question_id": qid, "verdict": i % 2, "raw": "x", "status": "ok"})
    questions.append({"question_id": "failed", "question": "Where?", "answers": ["Paris"], "evidence": [["p1"]]})
    answers.append({"question_id": "failed", "error": "too long"})
    verdicts.append({"question_id": "failed", "status": "not_asked"})
    judged = pa.Table.from_pylist(verdicts, schema=tables.VERDICTS)
    return {
        "questions": pa.Table.from_pylist(questions, schema=tables.QUESTIONS),
        "answers": pa.Table.from_pylist(answers, schema=tables.ANSWERS),
        "r@local": judged,
        "t@local": judged,
    }


def annotate(settings: LabelSettings) -> pa.Table:
    rows = make_rows()
    table = worker_of(settings, rows)(rows)
    schema = tables.annotations_schema(settings.sources, settings.rules, settings.scored)
    tables.check_table(table, schema, "annotations")
    return table


def worker_of(settings: LabelSettings, rows: dict[str, pa.Table], people: pa.Table | None = None) -> AnnotateWorker:
    given = {"answers": MemoryInput(rows["answers"]), "passages": MemoryInput(PASSAGES)}
    return AnnotateWorker(settings, given if people is None else given | {"people": MemoryInput(people)})


def test_trusted_sources_fill_labels_and_say_so() -> None:
    table = annotate(SETTINGS).to_pylist()
    assert len(table) == REPEATS * len(ROWS) + 1
    for row, (_, _, r, a, t) in zip(table, ROWS, strict=False):
        assert (row["r"], row["a"], row["t"]) == (r, a, t)
        assert (row["r_source"], row["a_source"]) == ("r@evidence", "a@phrase")
        assert row["t_source"] == (None if t is None else "t@match")
    assert [row["r@local"] for row in table[:4]] == [0, 1, 0, 1]


def test_failed_row_carries_its_error_and_no_label() -> None:
    row = annotate(SETTINGS).to_pylist()[-1]
    assert row["error"] == "too long"
    assert all(
        row[name] is None for name in ["r", "a", "t", "r_source", "r@evidence", "a@phrase", "t@match", "r@local"]
    )


@pytest.mark.parametrize("budget", [1, 24, 30, 1000])
def test_budget_hides_r_and_t_but_never_a(budget: int) -> None:
    whole, table = annotate(SETTINGS), annotate(dataclasses.replace(SETTINGS, budget=budget, seed=3))
    answered = REPEATS * len(ROWS)
    assert sum(label is not None for label in table.column("r").to_pylist()) == min(budget, answered)
    for before, after in zip(whole.to_pylist(), table.to_pylist(), strict=True):
        assert after["a"] == before["a"]
        assert after["r"] in {None, before["r"]}
        assert (after["r"] is None) == (after["r_source"] is None)
        assert (after["t"] is None) == (after["t_source"] is None)
        assert after["t"] == (before["t"] if after["r"] is not None else None)
    for name in SETTINGS.sources:
        assert table.column(name).equals(whole.column(name))


def test_budget_depends_on_the_seed_only() -> None:
    def kept(seed: int) -> list[int | None]:
        return annotate(dataclasses.replace(SETTINGS, budget=10, seed=seed)).column("r").to_pylist()

    assert kept(1) == kept(1)
    assert kept(1) != kept(2)


def test_a_part_of_the_rows_gets_the_labels_of_the_whole() -> None:
    settings = dataclasses.replace(SETTINGS, budget=10)
    rows = make_rows()
    part = {name: table.slice(7, 9) for name, table in rows.items()}
    worker = worker_of(settings, rows)
    assert worker(part).equals(worker(rows).slice(7, 9))


def test_a_trusted_source_is_never_a_judge() -> None:
    columns = annotate(SETTINGS).column_names
    assert judge_columns(TRUSTED, columns) == ["r@local", "t@local"]
    assert judge_columns({"r": ["local"], "a": ["phrase"]}, columns) == ["r@evidence", "t@match", "t@local"]


def test_first_trusted_source_with_a_label_wins() -> None:
    row = annotate(dataclasses.replace(SETTINGS, trusted={"r": ["local", "evidence"]})).to_pylist()[1]
    assert (row["r"], row["r_source"], row["a"], row["a_source"]) == (1, "r@local", None, None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rules": ["r@evidense"]}, "did you mean 'r@evidence'"),
        ({"trusted": {"r": ["evidenc"]}}, "did you mean 'evidence'"),
        ({"trusted": {"q": ["evidence"]}}, "'q' is no variable"),
        ({"trusted": {"t": ["evidence"]}}, "no source t@evidence"),
        ({"budget": 0}, "labels.budget=0"),
        ({"rules": ["t@strict"]}, "labels.rules: 't@strict' is unknown"),
        ({"options": {"t@f1": {}}}, "'t@f1' is none of labels.rules"),
        ({"rules": ["t@x"], "options": {"t@x": {"kind": "exat"}}}, "did you mean 'exact'"),
        ({"rules": ["t@f1"], "options": {"t@f1": {"at_last": 0.9}}}, "did you mean 'at_least'"),
        ({"rules": ["a@phrase"], "options": {"a@phrase": {"x": 1}}}, "a@phrase has no options"),
        ({"rules": ["t@match", "t@match"]}, "is there twice"),
        ({"resolve": "median"}, "labels.resolve='median'"),
        ({"trusted": {"t": ["people"]}}, "give labels.people"),
        ({"rules": ["t@people"], "options": {"t@people": {"kind": "match"}}}, "taken for labels of people"),
        ({"rules": ["t@people.x"], "options": {"t@people.x": {"kind": "match"}}}, "labels.rules: 't@people.x'"),
        ({"judges": ["t@people"]}, "judge.name: 't@people'"),
        ({"rules": ["t@a,b"], "options": {"t@a,b": {"kind": "match"}}}, "'t@a,b': give a name of letters"),
        ({"rules": ["t@"], "options": {"t@": {"kind": "match"}}}, "'t@': give a name of letters"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, object], words: str) -> None:
    settings = dataclasses.replace(SETTINGS, **change)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words):
        worker_of(settings, {"answers": tables.ANSWERS.empty_table()})


def test_the_table_names_its_trusted_sources_even_where_all_their_labels_are_hidden() -> None:
    made = annotate(dataclasses.replace(SETTINGS, budget=1))
    named = made.schema.metadata[tables.TRUSTED].decode().split(",")
    assert named == ["r@evidence", "a@phrase", "t@match"]


def test_full_table_values_read_what_the_budget_hides() -> None:
    table = annotate(dataclasses.replace(SETTINGS, budget=1))
    values = full_table_values(table, TRUSTED)
    assert values == {
        "rho": 0.5, "alpha[0]": pytest.approx(1 / 3), "alpha[1]": pytest.approx(1 / 3), "tau[0]": 0.5, "tau[1]": 0.5,
        "p_g": pytest.approx(1 / 3), "p_t": pytest.approx(1 / 3), "p_a": pytest.approx(1 / 3),
    }  # fmt: skip
    assert set(state_counts(table, TRUSTED).values()) == {REPEATS}


def test_full_table_values_are_missing_without_rows() -> None:
    table = annotate(SETTINGS)
    assert set(full_table_values(table.slice(0, 0), TRUSTED).values()) == {None}
    assert full_table_values(table.slice(0, 1), TRUSTED)["tau[0]"] is None
    assert full_table_values(table, {})["rho"] is None


STRICT = {"t@strict": {"kind": "f1", "at_least": 1.0}, "t@lax": {"kind": "f1", "at_least": 0.4}}


def test_one_rule_stands_twice_under_its_own_options_with_its_reason_and_score() -> None:
    settings = dataclasses.replace(SETTINGS, rules=["a@phrase", "t@match", *STRICT], options=STRICT, trusted={})
    rows = make_rows()
    rows["answers"] = rows["answers"].set_column(
        rows["answers"].schema.get_field_index("answer"), "answer", pa.array(["Paris it"] * rows["answers"].num_rows)
    )
    row = worker_of(settings, rows)(rows).to_pylist()[0]
    assert (row["t@strict"], row["t@lax"]) == (0, 1)
    assert row["score:t@strict"] == row["score:t@lax"] == pytest.approx(2 / 3)
    assert row["rule:t@strict"]
    assert row["rule:a@phrase"] == "answer"


def people(*rows: tuple[str, str, int | None, str]) -> pa.Table:
    """variable, item, label, annotator."""
    names = ("variable", "item", "label", "annotator")
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=tables.PEOPLE)


def test_peoples_labels_are_tied_to_what_was_judged_and_come_first() -> None:
    made = annotate(SETTINGS).to_pylist()
    context, answer = made[1]["r_item"], made[1]["t_item"]
    assert made[0]["r_item"] != context or ROWS[0][1] == ROWS[1][1], "the same passages, the same item"
    assert made[4]["t_item"] == answer, "the same answer to the same question, whatever the context"
    given = people(
        ("r", context, 1, "anna"), ("t", answer, 1, "anna"), ("t", answer, 1, "bob"), ("a", "t-gone", 1, "bob")
    )
    trusted = {"r": ["people", "evidence"], "a": ["people", "phrase"], "t": ["people"]}
    settings = dataclasses.replace(SETTINGS, trusted=trusted).with_people({"r", "a", "t"}, ["anna", "bob"])
    rows = make_rows()
    table = worker_of(settings, rows, given)(rows)
    found = table.to_pylist()
    for row, before in zip(found, made, strict=True):
        mine = before["r_item"] == context and before["r"] is not None
        assert row["r@people"] == row["r@people.anna"] == (1 if mine else None)
        assert row["r@people.bob"] is None
        assert (row["r"], row["r_source"]) == ((1, "r@people") if mine else (before["r"], before["r_source"]))
        right = before["t_item"] == answer
        assert row["t@people"] == row["t@people.bob"] == (1 if right else None)
        assert (row["t"], row["t_source"]) == ((1, "t@people") if right else (None, None))
        assert row["t@match"] == before["t@match"], "a rule that is not trusted is a judge"
    assert judge_columns(trusted, settings.sources) == ["t@match", "r@local", "t@local"]
    named = table.schema.metadata[tables.TRUSTED].decode().split(",")
    assert {"t@people", "t@people.anna", "t@people.bob"} <= set(named), "so that no later fit takes them for judges"
    assert "t@match" not in named


def test_one_annotators_labels_are_no_judge_of_a_later_fit_even_where_people_are(tmp_path: Path) -> None:
    """They are in the people's column already, and would count twice."""
    item = annotate(SETTINGS).to_pylist()[1]["t_item"]
    given = people(("t", item, 1, "anna"), ("t", item, 1, "bob"))
    settings = dataclasses.replace(SETTINGS, trusted=TRUSTED).with_people({"t"}, ["anna", "bob"])
    rows = make_rows()
    pq.write_table(worker_of(settings, rows, given)(rows), tmp_path / "annotations.parquet")
    read = read_labels(tmp_path / "annotations.parquet")
    assert "t@people" in read.judges
    assert read.judges == judge_columns(settings.trusted, settings.sources)


def test_people_are_no_judges_in_parts_where_any_part_of_theirs_is_trusted() -> None:
    columns = ["t@match", "t@people", "t@people.anna", "t@people.bob", "r@people"]
    assert judge_columns({"t": ["people"]}, columns) == ["t@match", "r@people"]
    assert judge_columns({"t": ["people.anna"]}, columns) == ["t@match", "r@people"]
    assert judge_columns({"t": ["match"]}, columns) == ["t@people", "r@people"]


def test_without_labels_of_people_the_rules_alone_are_trusted() -> None:
    settings = dataclasses.replace(SETTINGS, trusted={"r": ["people", "evidence"]}).with_people([], [])
    settings.check_trusted()
    assert settings.trusted == {"r": ["evidence"]}
    assert settings.sources == SETTINGS.sources
