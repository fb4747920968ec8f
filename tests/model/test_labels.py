"""Label files: what is read, and every bad input with its message."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest

from rat_ray.errors import InputError
from rat_ray.model import Columns, EngineSettings, fit, read_labels
from rat_ray.tables import LABEL, TRUSTED, annotations_schema

GOOD = """question_id,r,a,t,t@gpt4,comment
q1,1,0,1,1,fine
q2,0,1,,,
q3,1.0,0.0,0.0,yes,x
q4,TRUE,no,NA,No,"two
lines"
q5,null,NaN,,,
"""


def _file(folder: Path, text: str, name: str = "labels.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_csv_in_all_spellings(tmp_path: Path) -> None:
    labels = read_labels(_file(tmp_path, GOOD))
    table = labels.table
    assert table.schema.names == ["config", "question_id", "r", "a", "t", "t@gpt4"]
    assert all(table.schema.field(name).type == LABEL for name in ("r", "a", "t", "t@gpt4"))
    assert table["r"].to_pylist() == [1, 0, 1, 1, None]
    assert table["a"].to_pylist() == [0, 1, 0, 0, None]
    assert table["t"].to_pylist() == [1, None, 0, None, None]
    assert table["t@gpt4"].to_pylist() == [1, None, 1, 0, None]
    assert table["config"].to_pylist() == ["all"] * 5
    assert labels.judges == ["t@gpt4"]
    assert labels.ignored == ["comment"]
    assert labels.notes.lines() == []


def test_every_format_reads_the_same(tmp_path: Path) -> None:
    expected = read_labels(_file(tmp_path, GOOD)).table
    with gzip.open(tmp_path / "labels.csv.gz", "wt") as file:
        file.write(GOOD)
    _file(tmp_path, GOOD.replace(",", "\t"), "labels.tsv")
    _file(tmp_path, "\ufeff" + GOOD.replace("r,a,t", " r , a , t "), "bom.csv")
    rows = [
        {**row, "r": row["r"] if row["r"] is None else bool(row["r"])}
        for row in expected.drop_columns("config").to_pylist()
    ]
    rows[0]["r"], rows[1]["a"] = 1.0, "1"
    _file(tmp_path, "\n".join(json.dumps(row) for row in rows) + "\n\n", "labels.jsonl")
    typed = expected.drop_columns("config")
    for name, kind in (("r", pa.float64()), ("a", pa.bool_()), ("t", pa.string())):
        typed = typed.set_column(typed.schema.get_field_index(name), name, typed[name].cast(kind))
    pq.write_table(typed, tmp_path / "labels.parquet")
    for name in ("labels.csv.gz", "labels.tsv", "bom.csv", "labels.jsonl", "labels.parquet"):
        assert read_labels(tmp_path / name).table.equals(expected), name


def test_nan_from_pandas_in_parquet_is_missing(tmp_path: Path) -> None:
    values = pa.array([1.0, float("nan"), 0.0])
    pq.write_table(pa.table({"r": values, "a": values, "t": pa.nulls(3)}), tmp_path / "x.parquet")
    table = read_labels(tmp_path / "x.parquet").table
    assert table["r"].to_pylist() == [1, None, 0]
    assert table["t"].to_pylist() == [None] * 3
    assert table["question_id"].to_pylist() == ["1", "2", "3"]


def test_renamed_columns_and_groups(tmp_path: Path) -> None:
    text = "id,full,a,t,model,k\n1,1,0,1,org/m 1,3\n1,0,1,,org/m 1,5\n2,1,0,0,b,3\n"
    columns = Columns(r="full", question_id="id")
    assert read_labels(_file(tmp_path, text), columns, by=["model", "k"]).table["config"].to_pylist() == [
        "model-org_m_1.k-3",
        "model-org_m_1.k-5",
        "model-b.k-3",
    ]
    by_model = read_labels(_file(tmp_path, text.replace("\n1,0", "\n3,0")), columns, by=["model"])
    assert by_model.table["config"].to_pylist() == ["org_m_1", "org_m_1", "b"]
    assert by_model.ignored == ["k"]
    by_k = read_labels(_file(tmp_path, text.replace("\n2", "\n3")), columns, by=["k"])
    assert by_k.table["config"].to_pylist() == ["k-3", "k-5", "k-3"]  # never all digits


def test_what_t_means_where_the_system_abstained(tmp_path: Path) -> None:
    text = "r,a,t,t@x,r@y\n1,1,0,1,1\n1,1,,0,1\n0,0,0,1,0\n1,,1,1,\n"
    labels = read_labels(_file(tmp_path, text))
    assert labels.table["t"].to_pylist() == [None, None, 0, 1]
    assert labels.table["a"].to_pylist() == [1, 1, 0, 0]
    assert labels.table["t@x"].to_pylist() == [None, None, 1, 1]
    assert labels.table["r@y"].to_pylist() == [1, 1, 0, None]
    assert labels.notes.t_not_applicable == 1
    assert labels.notes.verdicts_set_aside == 2
    assert labels.notes.a_implied == 1
    assert [line.split(":")[0] for line in labels.notes.lines()] == [
        "t = 0 where a = 1 is read as missing",
        "verdicts on T where a = 1 are set aside",
        "a is blank and t known, so a = 0",
    ]


def test_t_zero_where_a_is_blank(tmp_path: Path) -> None:
    path = _file(tmp_path, "question_id,r,a,t\nq1,1,0,1\nq2,1,,0\n")
    with pytest.raises(InputError, match=r"t = 0 where a is blank on 1 row.*t_zero=wrong.*Ids: q2"):
        read_labels(path)
    labels = read_labels(path, t_zero="wrong")
    assert labels.table["a"].to_pylist() == [0, 0]
    assert labels.table["t"].to_pylist() == [1, 0]
    assert labels.notes.a_implied == 1
    with pytest.raises(InputError, match=r"t_zero = 'wrnog' is unknown \(did you mean 'wrong'"):
        read_labels(path, t_zero="wrnog")


HEADER = "question_id,r,a,t,r@j\n"
BAD = {
    "empty file": ("", r"labels.csv: the file is empty"),
    "only blank lines": ("\n\n", r"labels.csv: the file is empty"),
    "header without rows": (HEADER, r"labels.csv: the file has a header but no rows"),
    "column missing": ("question_id,r,a\n1,1,0\n", r"required column 't' is missing"),
    "column misspelt": ("R,a,t\n1,1,0\n", r"required column 'r' is missing \(did you mean 'R'\?\).*columns.r=NAME"),
    "column twice": ("r,a,t,a\n1,1,0,0\n", r"the header names 'a' more than once"),
    "wrong delimiter": ("r;a;t\n1;1;0\n", r"the header 'r;a;t' is one column; cells are separated by commas"),
    "ragged row": ("r,a,t\n1,0\n", r"labels.csv: cannot be read: .*Expected 3 columns, got 2"),
    "duplicate id": (
        HEADER + "7,1,0,1,\n8,1,0,1,\n7,0,1,,\n",
        r"the question id '7' occurs more than once \(rows 1, 3; 1",
    ),
    "blank id": (HEADER + "7,1,0,1,\n ,1,0,1,\n", r"row 2 \(line 3\): question_id is blank"),
    "not a label": (
        HEADER + "7,1,0,1,\n8,1,maybe,1,\n9,1,maybe,1,\n",
        r"row 2 \(line 3\), id '8': a is 'maybe' \(and 1 more",
    ),
    "label 2": (
        HEADER + "7,2,0,1,\n",
        r"row 1 \(line 2\), id '7': r is '2'; a label is 0/1, 0.0/1.0, true/false or yes/no",
    ),
    "quote left open": (
        'question_id,r,a,t,note\nq1,1,0,1,"x\nq2,1,0,0,y\nq3,1,0,1,z\n',
        r"the row from line 2 on: its quotes \(\"\) do not pair up",
    ),
    "quote left open and closed by another": (
        'question_id,r,a,t,note\nq1,1,0,1,"x\nq2,1,0,0,"y"\nq3,1,0,1,z\n',
        r"the row from line 2 on: its quotes",
    ),
    "not a verdict": (HEADER + "7,1,0,1,good\n", r"id '7': r@j is 'good'"),
    "contradiction": (
        HEADER + "7,1,1,1,\n8,1,0,1,\n9,1,1,1,\n",
        r"t = 1 with a = 1 on 2 row\(s\).*correct a or t of: 7, 9$",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_in_words(tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(InputError, match=message):
        read_labels(_file(tmp_path, text))


def test_lines_are_named_as_an_editor_counts_them(tmp_path: Path) -> None:
    text = 'question_id,note,r,a,t\n\nq1,"two\nlines",1,0,1\nq2,,x,0,1\n'
    with pytest.raises(InputError, match=r"row 2 \(line 5\), id 'q2': r is 'x'"):
        read_labels(_file(tmp_path, text))
    rows = '{"r": 1, "a": 0, "t": 1}\n\n{"r": 1, "a": 0, "t": "often"}\n'
    with pytest.raises(InputError, match=r"row 2 \(line 3\), id '2': t is 'often'"):
        read_labels(_file(tmp_path, rows, "labels.jsonl"))


def test_long_cells_are_read_and_named(tmp_path: Path) -> None:
    text = "question_id,note,r,a,t\nq1," + "x" * 3_000_000 + ",1,0,1\nq2,,{},0,1\n"
    assert read_labels(_file(tmp_path, text.format(0))).table["r"].to_pylist() == [1, 0]
    with pytest.raises(InputError, match=r"row 2 \(line 3\), id 'q2': r is 'y+; a label is"):
        read_labels(_file(tmp_path, text.format("y" * 500)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"r": 1, "r": 0, "a": 0, "t": 1}', "line 1: not JSON: the key 'r' stands twice"),
        ('{"r": [1], "a": 0, "t": 1}', r"line 1: r is \[1\]; a text or number is expected"),
        ('{"question_id": {"x": 1}, "r": 1, "a": 0, "t": 1}', "line 1: question_id is"),
        ('{"question_id": NaN, "r": 1, "a": 0, "t": 1}', "question_id is blank"),
        ('{"question_id": "\\ud800", "r": 1, "a": 0, "t": 1}', "line 1: not JSON: .*surrogates"),
        ('{"r": 1, "a": 0, "t": 1, "note": ' + "1" * 5000 + "}", "line 1: not JSON: "),
        ('{"r": 1, "a": 0, "t": 1, "note": ' + "[" * 99_999 + "}", "line 1: not JSON: "),
        ('{"question_id": 1, "r": 1, "a": 0, "t": 1}\n{"question_id": 1.0, "r": 1, "a": 0, "t": 1}', "id '1' occurs"),
    ],
)
def test_json_that_is_no_label_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_labels(_file(tmp_path, text + "\n", "labels.jsonl"))


def test_what_pandas_leaves_in_parquet(tmp_path: Path) -> None:
    """Categories that no row has, ids and groups with NaN, whole numbers as doubles in some of the files."""
    label = pa.array([1.0, 0.0, float("nan")])
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 0, 1], pa.int8()), pa.array(["1", "0", "unclear"]))
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"r": unused, "a": [0, 0, 0], "t": label}), path)
    assert read_labels(path).table["r"].to_pylist() == [1, 1, 0]
    pq.write_table(pa.table({"question_id": label, "r": label, "a": [0, 0, 0], "t": label}), path)
    with pytest.raises(InputError, match="row 3: question_id is blank"):
        read_labels(path)
    pq.write_table(pa.table({"m": label, "r": label, "a": [0, 0, 0], "t": label}), path)
    with pytest.raises(InputError, match="row 3, id '3': the column 'm' of by= is blank"):
        read_labels(path, by=["m"])
    pq.write_table(pa.table({"question_id": [1e300, 2e300, 3.0], "r": label, "a": [0, 0, 0], "t": label}), path)
    assert read_labels(path).table["question_id"].to_pylist() == ["1e+300", "2e+300", "3"]
    folder = tmp_path / "folder"
    folder.mkdir()
    pq.write_table(pa.table({"question_id": [1, 2], "r": [1, 0], "a": [0, 0], "t": [1, 0]}), folder / "whole.parquet")
    pq.write_table(pa.table({"question_id": [3, 4, 5], "r": label, "a": [0, 0, 0], "t": label}), folder / "x.parquet")
    assert read_labels(folder).table["r"].to_pylist() == [1, 0, 1, 0, None]
    pq.write_table(pa.table({"r": [b"1", b"\xff"], "a": [0, 0], "t": [1, 1]}), path)
    with pytest.raises(InputError, match="column 'r' holds bytes that are not UTF-8"):
        read_labels(path)
    pq.write_table(pa.table({"m": [[1]], "r": [1], "a": [0], "t": [1]}), path)
    with pytest.raises(InputError, match="the column 'm' of by= is list"):
        read_labels(path, by=["m"])


def test_damaged_compression_and_bytes_elsewhere(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress((HEADER + "".join(f"q{i},1,0,1,\n" for i in range(5000))).encode()))
    packed[500:520] = b"\xff" * 20
    for name in ("damaged.csv.gz", "damaged.jsonl.gz"):
        (tmp_path / name).write_bytes(bytes(packed))
        with pytest.raises(InputError, match="cannot be read"):
            read_labels(tmp_path / name)
    rows = b"".join(b"q%d,1,0,1,ok\n" % i for i in range(5000))
    (tmp_path / "latin.csv").write_bytes(b"question_id,r,a,t,note\n" + rows + b"x,1,0,1,\xe9\ny,z,0,1,\n")
    with pytest.raises(InputError, match="row 5002, id 'y': r is 'z'"):
        read_labels(tmp_path / "latin.csv")


def test_long_names_of_configs_are_cut_and_stay_distinct(tmp_path: Path) -> None:
    one, two = "x" * 300 + "1", "x" * 300 + "2"
    table = read_labels(_file(tmp_path, f"r,a,t,m\n1,0,1,{one}\n1,0,1,{two}\n1,0,1,b\n"), by=["m"]).table
    names = table["config"].to_pylist()
    assert len(set(names)) == 3
    assert max(map(len, names)) < 200
    assert names[2] == "b"


def test_the_number_1_and_the_text_1_are_the_same_id(tmp_path: Path) -> None:
    rows = '{"question_id": 1, "r": 1, "a": 0, "t": 1}\n{"question_id": "1", "r": 1, "a": 0, "t": 1}\n'
    with pytest.raises(InputError, match="the question id '1' occurs more than once"):
        read_labels(_file(tmp_path, rows, "labels.jsonl"))


def test_an_id_may_recur_in_another_config_only(tmp_path: Path) -> None:
    path = _file(tmp_path, "question_id,r,a,t,m\n1,1,0,1,x\n1,1,0,1,y\n")
    assert read_labels(path, by=["m"]).table.num_rows == 2
    with pytest.raises(InputError, match="tell configs apart with by="):
        read_labels(path)
    path = _file(tmp_path, "question_id,r,a,t,m\n1,1,0,1,x\n2,1,0,1,y\n2,1,0,1,y\n")
    with pytest.raises(InputError, match="'2' occurs more than once in config 'y'"):
        read_labels(path, by=["m"])


def test_bad_paths_and_settings(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing.csv: there is no such file"):
        read_labels(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match=r"the ending '.xlsx' is unknown"):
        read_labels(_file(tmp_path, "x", "labels.xlsx"))
    with pytest.raises(InputError, match=r"broken.parquet: cannot be read as Parquet"):
        read_labels(_file(tmp_path, "this is no Parquet", "broken.parquet"))
    with pytest.raises(InputError, match=r"broken.csv.gz: cannot be read"):
        read_labels(_file(tmp_path, "this is no gzip", "broken.csv.gz"))
    with pytest.raises(InputError, match=r"rows.jsonl, line 1: not JSON"):
        read_labels(_file(tmp_path, "r,a,t\n", "rows.jsonl"))
    with pytest.raises(InputError, match=r"rows.jsonl, line 1: an object such as"):
        read_labels(_file(tmp_path, "[1]\n", "rows.jsonl"))
    (tmp_path / "latin.csv").write_bytes("r,a,t,ü\n1,0,é,1\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin.csv: cannot be read"):
        read_labels(tmp_path / "latin.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"the folder holds no .parquet file"):
        read_labels(tmp_path / "folder")
    pq.write_table(
        pa.table({"r": pa.array([], LABEL), "a": pa.array([], LABEL), "t": pa.array([], LABEL)}), tmp_path / "e.parquet"
    )
    with pytest.raises(InputError, match=r"e.parquet: the file has a header but no rows"):
        read_labels(tmp_path / "e.parquet")
    good = _file(tmp_path, GOOD)
    with pytest.raises(InputError, match=r"the column 'modle' of by= is missing"):
        read_labels(good, by=["modle"])
    with pytest.raises(
        InputError, match=r"'questionid' \(columns.question_id\) is missing \(did you mean 'question_id'"
    ):
        read_labels(good, Columns(question_id="questionid"))
    with pytest.raises(InputError, match="'r' cannot be 2 of r, a, t"):
        read_labels(good, Columns(a="r"))
    blank = _file(tmp_path, "r,a,t,m\n1,0,1,x\n1,0,1,\n")
    with pytest.raises(InputError, match=r"row 2 \(line 3\), id '2': the column 'm' of by= is blank"):
        read_labels(blank, by=["m"])
    same = _file(tmp_path, "r,a,t,m\n1,0,1,a/b\n1,0,1,a b\n")
    with pytest.raises(InputError, match="'a/b' and 'a b' would both be named 'a_b'"):
        read_labels(same, by=["m"])


def _annotations(config: str, rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    schema = annotations_schema(["r@evidence", "t@match", "r@local"])
    labels = {name: rng.integers(0, 2, rows).tolist() for name in ("r", "a", "r@evidence", "t@match", "r@local")}
    hidden = [index % 2 == 0 for index in range(rows)]
    r = [None if hide else label for hide, label in zip(hidden, labels["r"], strict=True)]
    columns = {
        **labels,
        "r": r,
        "t": [None] * rows,
        "config": [config] * rows,
        "question_id": [f"q{index}" for index in range(rows)],
        "r_source": [None if hide else "evidence" for hide in hidden],
        "error": ["out of memory", *[None] * (rows - 1)],
    }
    return pa.table({f.name: pa.array(columns.get(f.name, [None] * rows), f.type) for f in schema}, schema=schema)


def test_our_own_annotations_as_a_folder(tmp_path: Path) -> None:
    for config in ("bm25.a", "dense.a"):
        folder = tmp_path / "annotations" / f"config={config}"
        folder.mkdir(parents=True)
        pq.write_table(_annotations(config, 20).drop_columns("config"), folder / "part-0.parquet")
    labels = read_labels(tmp_path / "annotations")
    assert labels.table.num_rows == 40
    assert sorted(set(labels.table["config"].to_pylist())) == ["bm25.a", "dense.a"]
    assert labels.judges == ["t@match", "r@local"]
    assert labels.ignored == ["r@evidence"]  # it is trusted, so it would leak what was hidden
    assert labels.notes.trusted == ("r@evidence",)
    assert labels.table["error"].null_count == 38
    one = labels.table.filter(pa.compute.equal(labels.table["config"], "bm25.a"))
    result = fit(one, labels.judges, engine=EngineSettings(chains=2, warmup=100, samples=100))
    assert result.items == 19  # the row that failed is left out


def test_a_trusted_source_is_refused_as_a_judge() -> None:
    with pytest.raises(InputError, match="r@evidence fills trusted labels and cannot be a judge in the same fit"):
        fit(_annotations("c", 20), judges=["r@evidence"])


def test_a_label_table_fits(tmp_path: Path) -> None:
    labels = read_labels(_file(tmp_path, GOOD))
    engine = EngineSettings(chains=2, warmup=100, samples=100)
    result = fit(labels.table, labels.judges, engine=engine, judge_model="independent")
    assert result.items == 5
    draws = result.draws
    assert (draws["tpr[t@gpt4]"].to_numpy() > draws["fpr[t@gpt4]"].to_numpy()).all()


def test_a_trusted_source_whose_labels_are_all_hidden_is_still_no_judge(tmp_path: Path) -> None:
    rows = {
        "config": ["x", "x"],
        "question_id": ["1", "2"],
        "r": [1, 0],
        "a": [1, 0],
        "t": pa.array([None, None], pa.int8()),
        "r_source": ["r@evidence", "r@evidence"],
        "a_source": ["a@phrase", "a@phrase"],
        "t_source": pa.array([None, None], pa.string()),
        "t@match": pa.array([None, 1], pa.int8()),
        "t@local": pa.array([None, 1], pa.int8()),
    }
    path = tmp_path / "annotations.parquet"
    pq.write_table(pa.table(rows).replace_schema_metadata({TRUSTED: b"r@evidence,a@phrase,t@match"}), path)
    assert read_labels(path).judges == ["t@local"]
