"""The form language, and forms of a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rat_ray.annotate.abstention import LANGUAGES, Refusals, abstention, load_refusals, refusals_digest
from rat_ray.annotate.rules import Label
from rat_ray.errors import InputError


def fires(forms: str, answer: str) -> bool:
    return abstention(answer, "", Refusals.of(forms)).label == 1


@pytest.mark.parametrize(
    ("forms", "refused", "answered"),
    [
        ("the archive is silent", ["The archive is silent.", "THE  ARCHIVE is silent!"], ["The archive is", "archive"]),
        ("(a|the|) archive is silent", ["a archive is silent", "archive is silent"], ["my archive is silent"]),
        ("[the|this] archive", ["archive", "this archive"], ["the", "that archive"]),
        ("no (good|bad (or worse|)) news", ["no good news", "no bad news", "no bad or worse news"], ["no news"]),
        ("nothing on *", ["nothing on", "nothing on him", "nothing on him or her"], ["nothing", "on him"]),
        ("nothing on *2", ["nothing on", "nothing on a b"], ["nothing on a b c"]),
        ("nothing on *-except-but", ["nothing on him at all"], ["nothing on him except Paris", "nothing on but"]),
        ("nothing in file #", ["nothing in file 7", "nothing in file 12"], ["nothing in file", "nothing in file x"]),
        ("turn: but perhaps\nnothing *", ["nothing at all"], ["nothing perhaps Paris", "nothing but Paris"]),
        ("turn: ,it\nnothing *", ["nothing, him", "nothing on it"], ["nothing, it is Paris"]),
        ("@what = (file|files)\nno @what", ["no file", "no files"], ["no", "no what"]),
        ("will you tell me more?", ["Will you tell me more?"], ["Will you tell me more."]),
        ("l'été n’est pas là", ["L’ete n'est pas la", "l'été n'est pas là."], ["ete"]),
        ("das weiß kein Mensch für immer", ["DAS WEISS KEIN MENSCH FUER IMMER", "das weiß kein mensch fur immer"], []),
        ("don't ask", ["don’t ask", "dont ask", "Don't ask!"], ["do not ask"]),
        ("hier steht nichts", ["Hier steht nichts, [1]"], []),
        ("段落中没有提到", ["段落中没有提到。"], ["段落中"]),
        ("# a note\n\n  no way  ", ["no way"], ["a note"]),
    ],
)
def test_the_form_language(forms: str, refused: list[str], answered: list[str]) -> None:
    assert [answer for answer in refused if not fires(forms, answer)] == []
    assert [answer for answer in answered if fires(forms, answer)] == []


def test_kinds_of_forms() -> None:
    forms = "\n".join(
        [
            "no news",
            "lead: [dear] reader",
            "tail: from *2",
            "aside: stay tuned",
            "then: nor (old|new)",
            "more: he paused",
            "join: and because",
        ]
    )
    refused = ["No news.", "Dear reader, no news.", "No news from the front.", "No news. Stay tuned!"]
    refused += [
        "No news and because no news",
        "Stay tuned. No news.",
        "No news. Nor old.",
        "No news. He paused.",
        "Stay tuned. He paused. No news.",
    ]
    answered = [
        "Stay tuned.",
        "Reader",
        "From the front",
        "Nor old.",
        "He paused. No news.",
        "no news from a b c",
        "Stay tuned no news",
    ]
    assert [answer for answer in refused if not fires(forms, answer)] == []
    assert [answer for answer in answered if fires(forms, answer)] == []


def test_own_forms_are_added_to_those_of_the_languages(tmp_path: Path) -> None:
    own = tmp_path / "archive.txt"
    own.write_text("# of our prompts\nthe (archive|catalogue) is silent [on *]\n", "utf-8")
    text = load_refusals(["en"], [str(own)])
    refusals = Refusals.of(text)
    assert abstention("Sorry, the archive is silent on this [3].", "", refusals) == Label(1, "form:archive")
    assert abstention("I don't know. The catalogue is silent.", "", refusals) == Label(1, "form:en")
    assert abstention("Das weiß ich nicht.", "", refusals) == Label(0, "answer")
    assert abstention("The archive is silent.", "", Refusals.of(load_refusals())) == Label(0, "answer")
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    assert own.rename(moved / own.name).exists()
    assert refusals_digest(load_refusals(["en"], [str(moved / own.name)])) == refusals_digest(text)


def test_a_byte_order_mark_and_windows_lines_do_not_matter(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_bytes("\ufeffthe archive is silent\r\n#! en\r\nno news\r\n".encode())
    refusals = Refusals.of(load_refusals([], [str(own)]))
    assert abstention("The archive is silent.", "", refusals) == Label(1, "form:own")
    assert abstention("No news.", "", refusals) == Label(1, "form:own")


def test_forms_are_compiled_once_per_text() -> None:
    assert Refusals.of(load_refusals(["en"])) is Refusals.of(load_refusals(["en"]))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("no (news", "'\\(' is not closed"),
        ("no [news", "'\\[' is not closed"),
        ("no news)", "'\\)' closes nothing"),
        ("no (news]", "'\\(' is not closed"),
        ("no @newz", "@newz is not defined above.*did you mean 'news'"),
        ("led: no news", "'led' is no kind of form.*did you mean 'lead'"),
        ("*", "no words"),
        ("[no] *", "no words"),
        ("aside: (yes|)", "no words"),
        ("refuse:", "no words"),
        ("nothing on *0", "\\*0 must be \\*1 to \\*20"),
        ("nothing on *99999999", "must be"),
        ("turn: two-words", "single words"),
    ],
)
def test_a_form_that_cannot_be_read_names_file_and_line(tmp_path: Path, line: str, why: str) -> None:
    own = tmp_path / "own.txt"
    own.write_text(f"@news = news\nno news\n{line}\n", "utf-8")
    with pytest.raises(InputError, match=rf"own\.txt, line 3: .*{why}"):
        load_refusals(["en"], [str(own)])


def test_files_and_languages_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*none\.txt"):
        load_refusals(["en"], [str(tmp_path / "none.txt")])
    (tmp_path / "latin.txt").write_bytes("je préfère".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.txt.*UTF-8"):
        load_refusals(["en"], [str(tmp_path / "latin.txt")])
    with pytest.raises(InputError, match=r"'en_US'.*known: de, en"):
        load_refusals(["en_US"])
    (tmp_path / "en.txt").write_text("no news\n", "utf-8")
    with pytest.raises(InputError, match="'en' names two sets"):
        load_refusals(["en"], [str(tmp_path / "en.txt")])


def test_every_language_ships_its_forms() -> None:
    for language in LANGUAGES:
        assert load_refusals([language]).startswith(f"#! {language}\n")
    assert load_refusals([]) == ""
    assert abstention("I don't know", "", Refusals.of("")) == Label(0, "answer")
    assert abstention("Pass", "Pass", Refusals.of("")) == Label(1, "phrase")
