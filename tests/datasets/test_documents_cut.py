"""Where documents are cut, and that ids stay over edits elsewhere."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rat_ray.datasets.documents.cut import Cutter, Passage, stretches, tail, title_of
from rat_ray.datasets.documents.markdown import read_markdown
from rat_ray.datasets.documents.parts import Block, Document, Section
from rat_ray.datasets.documents.text import read_text

Chance = random.Random


def sentence(chance: Chance) -> str:
    words = ["".join(chance.choices("abcdefghijklmno", k=chance.randint(2, 9))) for _ in range(chance.randint(5, 20))]
    return " ".join(words).capitalize() + "."


def paragraph(chance: Chance, most: int) -> str:
    return " ".join(sentence(chance) for _ in range(chance.randint(1, most)))


def cut(text: str, size: int = 1000, overlap: int = 0, name: str = "a.txt") -> list[Passage]:
    return list(Cutter(size, overlap).passages(read_text(text.encode(), "utf-8"), name, "a"))


def ids(passages: list[Passage]) -> list[str]:
    return [passage.passage_id for passage in passages]


def insert(chance: Chance, most: int, paragraphs: list[str]) -> list[str]:
    at = chance.randrange(len(paragraphs) + 1)
    return [*paragraphs[:at], paragraph(chance, most), *paragraphs[at:]]


def remove(chance: Chance, most: int, paragraphs: list[str]) -> list[str]:
    at = chance.randrange(len(paragraphs))
    return [*paragraphs[:at], *paragraphs[at + 1 :]]


def reword(chance: Chance, most: int, paragraphs: list[str]) -> list[str]:
    at = chance.randrange(len(paragraphs))
    changed = paragraphs[at].replace(paragraphs[at].split()[0], "Altogether", 1)
    return [*paragraphs[:at], changed, *paragraphs[at + 1 :]]


@pytest.mark.parametrize("most", [1, 6], ids=["a sentence each", "up to six sentences"])
@pytest.mark.parametrize("edit", [insert, remove, reword])
def test_an_edit_in_the_middle_changes_few_ids(edit: Callable[..., list[str]], most: int) -> None:
    """Without headings, one section of 150 paragraphs: the worst case. Cut from the front, all after it could move."""
    changed, total = [], 0
    for seed in range(25):
        chance = Chance(seed)
        paragraphs = [paragraph(chance, most) for _ in range(150)]
        before = ids(cut("\n\n".join(paragraphs)))
        after = ids(cut("\n\n".join(edit(chance, most, paragraphs))))
        changed.append(len(set(before) - set(after)))
        total += len(before)
    assert sum(changed) / len(changed) <= 2, changed
    assert max(changed) <= 6, changed
    assert total / 25 > 15  # of which the few are few


@pytest.mark.parametrize("most", [1, 6])
def test_with_overlap_an_edit_changes_the_passage_behind_it_as_well(most: int) -> None:
    changed = []
    for seed in range(20):
        chance = Chance(seed)
        paragraphs = [paragraph(chance, most) for _ in range(150)]
        before = ids(cut("\n\n".join(paragraphs), overlap=150))
        after = ids(cut("\n\n".join(reword(chance, most, paragraphs)), overlap=150))
        changed.append(len(set(before) - set(after)))
    assert sum(changed) / len(changed) <= 3, changed
    assert max(changed) <= 7, changed


def test_under_headings_an_edit_stays_in_its_section() -> None:
    chance = Chance(1)
    sections = [[paragraph(chance, 4) for _ in range(5)] for _ in range(20)]

    def passages() -> set[tuple[str, str]]:
        text = "".join(f"# Section {at}\n\n" + "\n\n".join(texts) + "\n\n" for at, texts in enumerate(sections))
        document = read_markdown(text.encode(), "utf-8", True)
        return {(passage.passage_id, passage.title) for passage in Cutter(1000, 100).passages(document, "a.md", "a")}

    before = passages()
    sections[7].insert(2, "A paragraph that was not there.")
    assert {title for _, title in before - passages()} <= {"Section 0 > Section 7"}


def test_the_id_is_the_path_and_a_hash_of_the_text() -> None:
    first, again = cut("One text."), cut("Another.\n\n" + "x" * 1000 + "\n\nOne text.")
    assert ids(first)[0].startswith("a.txt#")
    assert len(ids(first)[0]) == len("a.txt#") + 12
    assert ids(first)[0] in ids(again)
    assert ids(cut("One text.", name="b/a.txt"))[0] == ids(first)[0].replace("a.txt", "b/a.txt")


def test_equal_texts_in_one_document_are_counted() -> None:
    document = Document("T", [Section((str(at),), [Block("Same.")]) for at in range(3)])
    found = ids(list(Cutter(100, 0).passages(document, "a", "a")))
    assert found == [found[0], f"{found[0]}-2", f"{found[0]}-3"]


@pytest.mark.parametrize("overlap", [0, 60])
@pytest.mark.parametrize("most", [1, 4, 30])
def test_passages_fit_and_nothing_is_lost(most: int, overlap: int) -> None:
    chance = Chance(3)
    text = "\n\n".join(paragraph(chance, most) for _ in range(40))
    passages = cut(text, size=300, overlap=overlap)
    assert max(len(passage.text) for passage in passages) <= 300
    words = [word for passage in passages for word in passage.text.split()]
    if not overlap:
        assert words == text.split()
    else:
        assert set(words) == set(text.split())
        assert len(words) > len(text.split())


def test_passages_are_not_slivers() -> None:
    chance = Chance(4)
    lengths = [len(passage.text) for passage in cut("\n\n".join(paragraph(chance, 4) for _ in range(400)))]
    assert sum(lengths) / len(lengths) > 550
    assert sum(length < 200 for length in lengths) / len(lengths) < 0.05


def test_long_paragraphs_are_cut_at_sentences_also_where_lines_are_wrapped() -> None:
    chance = Chance(5)
    words = paragraph(chance, 1).split()
    lines, line = [], ""
    for word in " ".join([*words, *(sentence(chance) for _ in range(40))]).split():
        if len(line) + 1 + len(word) > 72:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    text = "\n".join([*lines, line])
    passages = cut(text, size=500)
    assert len(passages) > 5
    assert all(passage.text.endswith(".") for passage in passages)
    assert all(passage.text in text for passage in passages)  # as it stands in the file, wrapping and all


def test_lines_of_a_log_are_kept_whole() -> None:
    lines = [f"2024-05-{day:02} 12:00 host{day % 7} did what number {day * day}" for day in range(1, 29)]
    passages = cut("\n".join(lines), size=200)
    assert [line for passage in passages for line in passage.text.split("\n")] == lines


def test_a_word_longer_than_a_passage_is_cut() -> None:
    passages = cut("字" * 950 + "\n\n" + "x" * 250, size=100)
    assert max(len(passage.text) for passage in passages) <= 100
    assert "".join(passage.text for passage in passages).replace("\n", "") == "字" * 950 + "x" * 250


def test_long_lists_and_code_of_markdown_are_cut_between_items() -> None:
    items = [f"- item number {at} of the list" for at in range(60)]
    document = read_markdown("\n".join(items).encode(), "utf-8", True)
    passages = list(Cutter(200, 0).passages(document, "a.md", "a"))
    assert [line for passage in passages for line in passage.text.split("\n")] == items


def test_one_line_over_and_over_takes_no_square_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    boundary = Cutter._boundary

    def counted(self: Cutter, first: int, end: int, starts: list[int], ranks: list[bytes]) -> int:
        nonlocal looked_at
        looked_at += end - first
        return boundary(self, first, end, starts, ranks)

    monkeypatch.setattr(Cutter, "_boundary", counted)
    passages = cut("\n\n".join(["The same line."] * 20_000), size=200)
    assert len(passages) > 1_500
    assert len(set(ids(passages))) == len(passages)
    assert looked_at < 20_000 * 16  # with the first of equals instead of the middle: some 40 million


def test_long_text_goes_to_the_splitter_in_stretches() -> None:
    def found(text: str, most: int) -> list[str]:
        listed = list(stretches(text, most))
        assert "".join(stretch for _, stretch in listed) == text
        assert all(text[at : at + len(stretch)] == stretch for at, stretch in listed)
        return [stretch for _, stretch in listed]

    assert found("One two. Three four. Five", 22) == ["One two. Three four. ", "Five"]
    assert found("aa bb cc dd ee", 9) == ["aa bb cc", " dd ee"]
    assert found("aaaa. bbb\nccc. dd ee", 14) == ["aaaa. bbb", "\nccc. dd ee"]
    assert found("字" * 25, 10) == ["字" * 10, "字" * 10, "字" * 5]
    assert found("", 10) == [""]


@pytest.mark.parametrize("unit", ["字", "x", "lower case. "])
def test_no_input_to_the_splitter_is_long(unit: str) -> None:
    given: list[int] = []

    class Counted:
        def __init__(self, splitter: Any) -> None:
            self.splitter = splitter

        def chunk_indices(self, text: str) -> list[tuple[int, str]]:
            given.append(len(text))
            found: list[tuple[int, str]] = self.splitter.chunk_indices(text)
            return found

    cutter = Cutter(500, 0)
    cutter._prose = Counted(cutter._prose)  # type: ignore[assignment]
    text = unit * (100_000 // len(unit))
    passages = list(cutter.passages(read_text(text.encode(), "utf-8"), "a", "a"))
    assert "".join(passage.text for passage in passages).replace(" ", "") == text.replace(" ", "")
    assert sum(given) == len(text.rstrip())
    assert max(given) <= 4_000


def test_overlap_begins_with_a_sentence_if_one_fits() -> None:
    assert tail("One. Two three. Four five.", 15) == "Four five."
    assert tail("One two three four", 10) == "four"
    assert tail("短い文。次の文。", 5) == "次の文。"
    assert tail("abcdefgh", 3) == "fgh"
    assert tail("short", 30) == "short"
    passages = cut("\n\n".join(f"Paragraph {at} says this. And ends so." for at in range(20)), size=150, overlap=25)
    assert all(passage.text.startswith("And ends so.\n\nParagraph") for passage in passages[1:])


@pytest.mark.parametrize(
    ("title", "path", "expected"),
    [
        ("Guide", (), "Guide"),
        ("Guide", ("Guide", "Install"), "Guide > Install"),
        ("Install – Guide", ("Install",), "Install – Guide"),
        ("Guide", ("Part", "Install"), "Guide > Part > Install"),
    ],
)
def test_titles(title: str, path: tuple[str, ...], expected: str) -> None:
    assert title_of(title, path) == expected


def test_a_document_without_a_title_has_its_files_name() -> None:
    document = Document("", [Section((), [Block("Text.")])])
    assert [passage.title for passage in partial(Cutter(100, 0).passages, document)("b/a.txt", "a")] == ["a"]
