"""Files line by line: what they are packed in, where they break, and what is skipped."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rat_ray.datasets.problems import LISTED, Problems
from rat_ray.datasets.reading import Place, Reader, RowError, resolve_file, resolve_files
from rat_ray.errors import InputError

ROWS = [{"id": str(number), "text": f"Malmö {number * 7919}"} for number in range(3000)]
PLAIN = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_what_a_file_is_packed_in_is_seen_from_its_bytes(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "rows.txt"
    path.write_bytes(pack(PLAIN))
    read = list(Reader(path).records())
    assert [record for _, record in read] == ROWS
    assert read[41][0] == Place(path, 42)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_packed_data_that_break_off(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "rows.jsonl.gz"
    data = pack(PLAIN)
    path.write_bytes(data[: len(data) // 2])
    problems = Problems("x", "skip")
    with pytest.raises(InputError, match=r"rows\.jsonl\.gz: the compressed data break off .* after line \d+"):
        list(Reader(path).records(problems.broken))


def test_packed_data_that_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "rows.bz2"
    data = bytearray(bz2.compress(PLAIN))
    data[len(data) // 2] ^= 255
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="damaged"):
        list(Reader(path).lines())


def test_skipping_goes_on_behind_each_broken_row_and_lists_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": \n{"a": "Malm\xf6"}\n[1]\n\n{"a": "\\ud800"}\n{"a": 2}\n')
    problems = Problems("set", "skip")
    assert [record for _, record in Reader(path).records(problems.broken)] == [{"a": 1}, {"a": 2}]
    rows = problems.table().to_pylist()
    assert [(row["place"], row["kind"], row["dataset"]) for row in rows] == [
        (f"{path}:{line}", "skipped", "set") for line in (2, 3, 4, 6)
    ]
    for word, row in zip(["JSON", "UTF-8", "object", "surrogate"], rows, strict=True):
        assert word in row["detail"]
    assert sum(problems.notes.values()) == 4


def test_a_file_of_broken_rows_is_not_empty(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\xff\n")
    assert list(Reader(path).lines(lambda _: None)) == []


def test_all_problems_are_counted_and_the_first_are_listed() -> None:
    problems = Problems("set", "skip")
    for line in range(LISTED + 5):
        problems.broken(RowError(Place(Path("f"), line), "x"))
    assert problems.table().num_rows == LISTED
    assert list(problems.notes.values()) == [LISTED + 5]


def test_names_are_found_packed_or_not_and_folders_mean_their_data(tmp_path: Path) -> None:
    for name in ("b/wiki_01.bz2", "a/wiki_00.bz2", "a/notes.md", "a/.hidden.jsonl", "corpus.jsonl.bz2"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert resolve_file(tmp_path, "corpus.jsonl", "k").name == "corpus.jsonl.bz2"
    assert resolve_file(tmp_path, "none.jsonl", "k", otherwise="corpus.jsonl").name == "corpus.jsonl.bz2"
    found = resolve_files(tmp_path, ["corpus.jsonl", "."], "k")
    assert [str(path.relative_to(tmp_path)) for path in found] == [
        "corpus.jsonl.bz2",
        "a/wiki_00.bz2",
        "b/wiki_01.bz2",
        "corpus.jsonl.bz2",
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"k=empty: the folder .* holds no file named \*\.jsonl"):
        resolve_files(tmp_path, ["empty"], "k")


def test_names_that_look_like_globs(tmp_path: Path) -> None:
    folder = tmp_path / "run[1]"
    folder.mkdir()
    for name in ("corpus[1].jsonl", "corpus1.jsonl.gz", "corpus2.jsonl", "a[b].jsonl.gz"):
        (folder / name).write_bytes(PLAIN)

    def found(name: str) -> list[str]:
        return [path.name for path in resolve_files(folder, [name], "corpora")]

    assert found("corpus[1].jsonl") == ["corpus[1].jsonl"]
    assert found("corpus[12].jsonl*") == ["corpus1.jsonl.gz", "corpus2.jsonl"]
    assert found("a[b].jsonl") == ["a[b].jsonl.gz"]
    assert found(str(folder / "corpus2.jsonl")) == ["corpus2.jsonl"]
    with pytest.raises(InputError, match="no file matches"):
        found("nothing*.jsonl")


def test_hidden_files_and_folders_are_no_data(tmp_path: Path) -> None:
    for name in ("wiki/1.jsonl", "wiki/.1.jsonl", "wiki/.ipynb_checkpoints/1.jsonl", "wiki/b/2.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(PLAIN)
    found = resolve_files(tmp_path, ["wiki"], "corpora")
    assert [str(path.relative_to(tmp_path)) for path in found] == ["wiki/1.jsonl", "wiki/b/2.jsonl"]


def test_a_folder_where_a_file_is_expected(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").mkdir()
    with pytest.raises(InputError, match=r"questions\.jsonl is a folder; give the file in it"):
        resolve_file(tmp_path, "questions.jsonl", "dataset.questions")
    (tmp_path / "questions.jsonl.gz").write_bytes(PLAIN)
    assert resolve_file(tmp_path, "questions.jsonl", "dataset.questions").name == "questions.jsonl.gz"


def test_a_name_that_is_not_utf_8_can_be_listed(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    Path(folder).mkdir()
    path = Path(folder) / "rows.jsonl"
    path.write_bytes(b"broken\n" + PLAIN)
    problems = Problems("x", "skip")
    assert len(list(Reader(path).records(problems.broken))) == len(ROWS)
    assert problems.table()["place"].to_pylist() == [f"{tmp_path}/caf\\xe9/rows.jsonl:1"]
