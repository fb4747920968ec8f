"""A folder of documents as a dataset: which files are read, what is refused, and what stays over edits."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from rat_ray import datasets, tables
from rat_ray.datasets import documents
from rat_ray.datasets.documents import DocumentsSettings, load
from rat_ray.datasets.documents.folder import Found, Globs
from rat_ray.datasets.documents.parts import Unreadable
from rat_ray.datasets.documents.reader import DocumentFolder
from rat_ray.datasets.problems import Problems
from rat_ray.errors import InputError, MissingExtraError
from tests.datasets.document_files import write_encrypted_pdf, write_pdf

QUESTIONS: list[dict[str, Any]] = [
    {"id": "q1", "question": "How long may an item be kept?", "answers": ["28 days"]},
    {"id": "q2", "question": "Who pays the postage?"},
]
RULES = "# House rules\n\nBe kind.\n\n## Loans\n\nItems are lent for 28 days.\n\n## Fines\n\nThere are none.\n"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "docs"
    (made / "deep" / "Größe").mkdir(parents=True)
    (made / "rules.md").write_text(RULES)
    (made / "deep" / "page.HTML").write_text("<title>Opening hours</title><h1>Hours</h1><p>From nine to five.")
    (made / "deep" / "Größe" / "žluť.txt").write_text("Ein Absatz.\n\nNoch einer.\n")
    write_pdf(made / "letter.pdf", [["Dear reader,", "all is well."]], title="A letter")
    (made / "notes.csv").write_text("not,included\n")
    write_questions(made)
    return made


def write_questions(folder: Path, rows: list[dict[str, Any]] = QUESTIONS) -> None:
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def settings_of(folder: Path, **changes: Any) -> DocumentsSettings:
    return replace(DocumentsSettings(path=str(folder)), **changes)


def passages(settings: DocumentsSettings) -> list[dict[str, str]]:
    table = pa.concat_tables(datasets.load(settings).passages())
    tables.check_table(table, tables.PASSAGES, "passages")
    rows: list[dict[str, str]] = table.to_pylist()
    return rows


def ids(settings: DocumentsSettings) -> list[str]:
    return [row["passage_id"] for row in passages(settings)]


def refused(settings: DocumentsSettings, *parts: str) -> None:
    with pytest.raises(InputError) as caught:
        datasets.load(settings)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


# --- what is read -------------------------------------------------------------------------------------------------


def test_a_folder_becomes_passages_and_questions(folder: Path) -> None:
    source = datasets.load(settings_of(folder))
    rows = pa.concat_tables(source.passages()).to_pylist()
    assert [(row["passage_id"].split("#")[0], row["title"], row["text"]) for row in rows] == [
        ("deep/Größe/žluť.txt", "žluť", "Ein Absatz.\n\nNoch einer."),
        ("deep/page.HTML", "Opening hours > Hours", "From nine to five."),
        ("letter.pdf", "A letter", "Dear reader, all is well."),
        ("rules.md", "House rules", "Be kind."),
        ("rules.md", "House rules > Loans", "Items are lent for 28 days."),
        ("rules.md", "House rules > Fines", "There are none."),
    ]
    assert source.num_passages == 6
    tables.check_table(source.questions(), tables.QUESTIONS, "questions")
    assert source.questions().to_pylist() == [
        {"question_id": "q1", "question": QUESTIONS[0]["question"], "answers": ["28 days"]}
        | {"evidence": None, "shape": None},
        {"question_id": "q2", "question": QUESTIONS[1]["question"], "answers": None}
        | {"evidence": None, "shape": None},
    ]
    assert source.notes == {"documents read": 4, "questions without accepted answers": 1}
    assert source.problems().num_rows == 0


def test_a_dataset_is_known_again_without_reading(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
    settings = settings_of(folder)
    assert datasets.recall_source(settings) is None
    source = datasets.load(settings)
    known = datasets.recall_source(settings)
    assert known is not None
    assert known.digest == source.digest
    assert pa.concat_tables(known.passages()) == pa.concat_tables(source.passages())
    (folder / "more.txt").write_text("One more.")
    assert datasets.recall_source(settings) is None
    assert datasets.load(settings).num_passages == 7


def test_another_version_of_a_library_voids_what_was_remembered(folder: Path) -> None:
    found = {path.parent.name for path in documents.source_files(settings_of(folder))}
    assert {"semantic_text_splitter", "selectolax", "markdown_it", "pypdfium2"} <= found


def test_the_settings_in_conf_are_the_defaults(folder: Path) -> None:
    written = yaml.safe_load((Path(__file__).parents[2] / "conf" / "dataset" / "documents.yaml").read_text())
    defaults = DocumentsSettings()
    for key, value in written.items():
        if key not in ("path", "fields"):
            assert getattr(defaults, key) == value, key
    assert set(written) == set(defaults.__dataclass_fields__)


def test_globs_choose_files(folder: Path) -> None:
    (folder / "deep" / "note.txt").write_text("A note.")
    (folder / "README").write_text("Read me.")

    def files(**changes: list[str]) -> list[str]:
        return sorted({name.split("#")[0] for name in ids(settings_of(folder, **changes))})

    assert files(include=["*.txt"]) == ["deep/Größe/žluť.txt", "deep/note.txt"]
    assert files(include=["deep/*.txt"]) == ["deep/note.txt"]
    assert files(include=["deep/**/*.txt"]) == ["deep/Größe/žluť.txt", "deep/note.txt"]
    assert files(include=["*.txt", "README"], exclude=["Größe"]) == ["README", "deep/note.txt"]
    assert files(exclude=["deep/Gr*", "*.pdf"]) == ["deep/note.txt", "deep/page.HTML", "rules.md"]
    assert files(exclude=["deep", "*.pdf"]) == ["rules.md"]
    assert files(include=["*"], exclude=["*.csv"]) == [
        "README", "deep/Größe/žluť.txt", "deep/note.txt", "deep/page.HTML", "letter.pdf", "rules.md",
    ]  # fmt: skip
    refused(settings_of(folder, include=["*.rst"]), "no file matches dataset.include=['*.rst']")


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.md", "a/b/C.MD", True),
        ("a?.md", "ab.md", True),
        ("[!a]*.md", "a.md", False),
        ("[ab].md", "b.md", True),
        ("a/*.md", "a/b/c.md", False),
        ("a/**", "a/b/c.md", True),
        ("**/c.md", "c.md", True),
        ("./a.md", "a.md", True),
        ("*.md", "a.md/b.txt", False),
        ("a.md", "axmd", False),
        ("[", "[", True),
    ],
)
def test_globs(pattern: str, path: str, matches: bool) -> None:
    assert Globs("dataset.include", [pattern]).match(path) is matches


def test_hidden_files_and_links_are_not_read(folder: Path, tmp_path: Path) -> None:
    before = ids(settings_of(folder))
    (folder / ".secret.txt").write_text("no")
    (folder / ".git").mkdir()
    (folder / ".git" / "a.txt").write_text("no")
    (tmp_path / "outside.txt").write_text("no")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    (folder / "circle").symlink_to(folder)
    (folder / "itself.txt").symlink_to("itself.txt")
    (folder / "broken.txt").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.txt")
    assert ids(settings_of(folder)) == before
    assert datasets.load(settings_of(folder)).notes["symbolic links not followed"] == 3
    (tmp_path / "link").symlink_to(folder)  # the folder itself may be one
    assert ids(settings_of(tmp_path / "link")) == before


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp1252", "shift_jis"])
def test_text_in_any_encoding_can_be_read(tmp_path: Path, encoding: str) -> None:
    write_questions(tmp_path)
    (tmp_path / "a.txt").write_bytes("One line.".encode(encoding))
    source = datasets.load(settings_of(tmp_path, encoding=encoding))
    assert [row["text"] for batch in source.passages() for row in batch.to_pylist()] == ["One line."]


# --- ids and digests ----------------------------------------------------------------------------------------------


def test_nothing_depends_on_where_the_folder_is(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "elsewhere")
    one, other = datasets.load(settings_of(folder)), datasets.load(settings_of(tmp_path / "elsewhere"))
    assert one.digest == other.digest
    cut = datasets.load(settings_of(folder, by_heading=False))
    assert cut.passages_digest != one.passages_digest
    assert cut.questions_digest == one.questions_digest
    renamed = datasets.load(settings_of(folder, limit=1))
    assert renamed.passages_digest == one.passages_digest
    assert renamed.left_out == {"over the limit": 1}


def test_ids_of_other_documents_and_sections_stay(folder: Path) -> None:
    before = ids(settings_of(folder))
    (folder / "rules.md").write_text(RULES.replace("## Fines", "A renewal is free.\n\n## Fines and fees"))
    (folder / "a.txt").write_text("A document that was not there.")
    (folder / "letter.pdf").unlink()
    after = ids(settings_of(folder))
    assert [name.split("#")[0] for name in before if name not in after] == ["letter.pdf", "rules.md"]
    assert [name.split("#")[0] for name in after if name not in before] == ["a.txt", "rules.md"]


def test_names_that_differ_in_case_or_normal_form_only_are_two_documents(tmp_path: Path) -> None:
    for name in ("A.txt", "a.txt", "\u00e9.txt", "e\u0301.txt"):
        (tmp_path / name).write_text("The same text.")
    write_questions(tmp_path)
    assert len(set(ids(settings_of(tmp_path)))) == 4


def test_a_document_that_changes_while_it_is_in_use_is_told(folder: Path) -> None:
    source = load(settings_of(folder))
    (folder / "rules.md").write_text("# Other\n\nWords.\n")
    with pytest.raises(InputError, match="has changed since"):
        list(source.passages())


# --- questions ----------------------------------------------------------------------------------------------------


def test_evidence_that_names_passages_is_kept(folder: Path) -> None:
    names = ids(settings_of(folder))
    write_questions(folder, [{"id": 1, "question": "?", "evidence": [names[4]]}, {"id": 2, "question": "?"}])
    table = datasets.load(settings_of(folder)).questions()
    assert table["evidence"].to_pylist() == [[[names[4]]], None]


def test_evidence_that_names_no_passage_stops_or_is_missing(folder: Path) -> None:
    names = ids(settings_of(folder))
    write_questions(folder, [{"id": 1, "question": "?", "evidence": [[names[4]], [names[3]]]}])
    (folder / "rules.md").write_text(RULES.replace("28 days", "four weeks"))
    refused(settings_of(folder), "questions.jsonl:1", names[4], "dataset.unmapped=missing")
    missing = datasets.load(settings_of(folder, unmapped="missing"))
    assert missing.questions()["evidence"].to_pylist() == [None]
    assert missing.problems()["kind"].to_pylist() == ["unmapped"]
    dropped = datasets.load(settings_of(folder, unmapped="drop"))
    assert dropped.questions()["evidence"].to_pylist() == [[[names[3]]]]


# --- bad input ----------------------------------------------------------------------------------------------------


def spoil(folder: Path, what: str) -> None:
    path = folder / "bad.txt"
    if what == "utf-8":
        path.write_bytes(b"fine\n\xff")
    elif what == "binary":
        path.write_bytes(b"GIF89a\x00\x01")
    elif what == "empty":
        path.write_text(" \n")
    elif what == "empty html":
        (folder / "bad.html").write_text("<script>go()</script>")
    elif what == "empty markdown":
        (folder / "bad.md").write_text("---\ntitle: Nothing\n---\n")
    elif what == "no pdf":
        (folder / "bad.pdf").write_bytes(b"<html>not found</html>")
    elif what == "cut pdf":
        write_pdf(folder / "bad.pdf", [["Text."]])
        (folder / "bad.pdf").write_bytes((folder / "bad.pdf").read_bytes()[:300])
    elif what == "encrypted":
        write_encrypted_pdf(folder / "bad.pdf")
    else:
        Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff.txt")).write_text("Text.")


BAD = {
    "utf-8": "not valid UTF-8 at byte 6",
    "binary": "NUL",
    "empty": "no text",
    "empty html": "no text",
    "empty markdown": "no text",
    "no pdf": "not a PDF",
    "cut pdf": "not a PDF",
    "encrypted": "encrypted",
    "name": "its name is not UTF-8",
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_document_stops_or_is_skipped(folder: Path, what: str) -> None:
    good = ids(settings_of(folder))
    spoil(folder, what)
    refused(settings_of(folder), f"{folder}/bad", BAD[what], "dataset.on_error=skip")
    source = datasets.load(settings_of(folder, on_error="skip"))
    assert pa.concat_tables(source.passages())["passage_id"].to_pylist() == good
    assert source.notes["documents skipped (on_error=skip)"] == 1
    tables.check_table(source.problems(), tables.PROBLEMS, "problems")
    (row,) = source.problems().to_pylist()
    assert (row["dataset"], row["kind"]) == ("documents", "skipped")
    assert row["place"].startswith(f"{folder}/bad")
    assert BAD[what] in row["detail"]


@pytest.mark.parametrize("name", ["gone.txt", "gone.pdf"])
def test_a_file_that_goes_or_may_not_be_read_is_told(folder: Path, name: str) -> None:
    reader = DocumentFolder(folder, settings_of(folder), folder / "questions.jsonl")
    with pytest.raises(Unreadable, match="No such file or directory"):
        reader._read(Found(folder / name, name))


def test_one_document_is_read_at_a_time(folder: Path) -> None:
    (folder / "zzz.txt").write_bytes(b"\xff")
    reader = DocumentFolder(folder, settings_of(folder), folder / "questions.jsonl")
    stream = reader.passages(Problems("documents"))
    assert [next(stream).passage_id.split("#")[0] for _ in range(6)][-1] == "rules.md"
    with pytest.raises(InputError, match=r"zzz\.txt"):
        next(stream)


def test_pdf_files_of_images_stop_nothing_and_are_told(folder: Path) -> None:
    write_pdf(folder / "scan.pdf", [[], []])
    write_pdf(folder / "half.pdf", [["Text."], []])
    source = datasets.load(settings_of(folder))
    assert source.notes["PDF files without any text (images only), left out"] == 1
    assert source.notes["PDF pages without text (blank or images)"] == 1
    assert [(row["place"], row["detail"]) for row in source.problems().to_pylist()] == [
        (f"{folder}/half.pdf, page 2", "this page has no text"),
        (f"{folder}/scan.pdf", "none of its 2 pages has text (scanned images?); run it through OCR"),
    ]


def test_a_folder_without_a_single_passage_is_refused(tmp_path: Path) -> None:
    write_questions(tmp_path)
    refused(settings_of(tmp_path), "no file matches dataset.include")
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    refused(settings_of(tmp_path, on_error="skip"), "bad.txt", "not valid UTF-8")
    (tmp_path / "bad.txt").unlink()
    write_pdf(tmp_path / "scan.pdf", [[]])
    refused(settings_of(tmp_path), "no passage", str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"path": ""}, ("dataset.path is not set",)),
        ({"path": "/no/such/folder"}, ("no such folder",)),
        ({"questions": "question.jsonl"}, ("question.jsonl", "did you mean 'questions.jsonl'")),
        ({"size": 20}, ("dataset.size=20", "at least 50")),
        ({"overlap": 501}, ("dataset.overlap=501", "0 to 500")),
        ({"overlap": -1}, ("dataset.overlap=-1",)),
        ({"encoding": "utf9"}, ("dataset.encoding='utf9'",)),
        ({"encoding": "base64"}, ("dataset.encoding='base64'",)),
        ({"on_error": "skipp"}, ("dataset.on_error", "did you mean 'skip'")),
        ({"unmapped": "mising"}, ("dataset.unmapped", "did you mean 'missing'")),
        ({"shape": "twohop"}, ("dataset.shape", "did you mean 'two_hop'")),
        ({"limit": -1}, ("dataset.limit=-1",)),
        ({"name": "a b"}, ("dataset.name='a b'",)),
        ({"include": ["/etc/*"]}, ("dataset.include", "'/etc/*'")),
        ({"exclude": ["../x"]}, ("dataset.exclude", "'../x'")),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    folder: Path, changes: dict[str, Any], parts: tuple[str, ...]
) -> None:
    refused(settings_of(folder, **changes), *parts)


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("semantic_text_splitter", "semantic-text-splitter"),
        ("markdown_it", "markdown-it-py"),
        ("selectolax.lexbor", "selectolax"),
        ("pypdfium2", "pypdfium2"),
    ],
)
def test_without_the_extra_its_name_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"{package} is not installed.*rat_ray\[documents\]"):
        load(settings_of(folder))
