"""The rule for A: whole kinds of cases, not only the examples."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata

import pytest

from rat_ray.annotate.abstention import Refusals, abstention, abstention_label, load_refusals, refusals_digest
from rat_ray.annotate.rules import MISSING, Label

PHRASE = "Not in the passages."
ALL = Refusals.of(load_refusals())


def label(answer: str | None, phrase: str = PHRASE) -> Label:
    return abstention(answer, phrase, ALL)


@pytest.mark.parametrize(
    "answer",
    [
        "Not in the passages.",
        "not in the passages",
        "NOT IN THE PASSAGES!",
        "“Not in the passages.”",
        "„Not in the passages.“",
        "«Not in the passages»",
        "'Not in the passages.'",
        "`Not in the passages.`",
        "(Not in the passages.)",
        "Not in the passages. [1]",
        "Not in the passages [1, 2] (passage 3).",
        "Not in the passages 【4†source】",
        "Not in the passages.¹",
        "Not in the\u200b pass\u00adages.",
        "\ufeffＮｏｔ ｉｎ the passages",
        "**Not in the passages.**",
        "> *Not in the passages.*",
        "### Answer\nNot in the passages.",
        "Answer: Not in the passages.",
        "**Final answer:** “Not in the passages”",
        "The answer is: not in the passages.",
        '{"answer": "Not in the passages."}',
        '```json\n{"answer": "Not in the passages."}\n```',
        "{'answer': 'Not in the passages.'}",
        "<answer>Not in the passages.</answer>",
        "\\boxed{Not in the passages.}",
        "Not in the passages. Not in the passages.",
        "Not in the passages Not in the passages",
        "Not in the passages.\n\nNot in the passages.",
        "1. Not in the passages.",
        "Sorry, not in the passages.",
        "Not in the passages. The passages discuss his career, but not his death.",
        "Not in the passages. Please provide more context.",
        "Hello! Not in the passages. Let me know if you have any other questions.",
        "Not in the passages. I apologize for the inconvenience.",
    ],
)
def test_the_prompts_own_phrase_comes_first_however_it_is_wrapped(answer: str) -> None:
    assert label(answer) == Label(1, "phrase")


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        ("I don’t know.", "form:en"),
        ("I don't know", "form:en"),
        ("I dont know!", "form:en"),
        ("I don´t know", "form:en"),
        ("I'm sorry, I don't know.", "form:en"),
        ("I do not know the answer to this question.", "form:en"),
        ("Unanswerable.", "form:en"),
        ("unknown", "form:en"),
        ("N/A", "form:en"),
        ("Cannot be determined from the documents.", "form:en"),
        ("The sources do not mention this [1].", "form:en"),
        ("The passages don’t say.", "form:en"),
        ("There is not enough information to answer.", "form:en"),
        ("Passages 1–5 do not mention the composer.", "form:en"),
        ("Das weiß ich nicht.", "form:de"),
        ("Das weiss ich nicht", "form:de"),
        ("Die Texte erwaehnen das nicht.", "form:de"),
        ("Die Texte erwähnen das nicht.", "form:de"),
        (unicodedata.normalize("NFD", "Die Texte erwähnen das nicht."), "form:de"),
        ("Dazu enthalten die Passagen keine Angaben [2].", "form:de"),
        ("Les passages ne précisent pas la date.", "form:fr"),
        ("LES PASSAGES NE PRECISENT PAS LA DATE", "form:fr"),
        (unicodedata.normalize("NFD", "Les passages ne précisent pas la date."), "form:fr"),
        ("Désolé, je ne sais pas.", "form:fr"),
        ("L’information n’est pas disponible dans les passages.", "form:fr"),
        ("Non è possibile rispondere alla domanda.", "form:it"),
        ("La risposta non e presente nei passaggi.", "form:it"),
        ("No lo sé.", "form:es"),
        ("No lo se", "form:es"),
        ("I don&#39;t know.", "form:en"),
        ("The passages don&#x27;t say.", "form:en"),
        ("I do\ufe0fn’t kn\u034fow", "form:en"),
        ("Unanswerable question.", "form:en"),
        ("It's unanswerable", "form:en"),
        ("NOANSWER", "form:en"),
        ("Undeterminable from the context.", "form:en"),
        ("Question cannot be answered.", "form:en"),
        ("Cannot be established on the basis of the documents.", "form:en"),
        ("Cannot be concluded from the articles [1][2].", "form:en"),
        ("Lässt sich aus den Dokumenten nicht bestimmen.", "form:de"),
        ("Non può essere determinato dai documenti.", "form:it"),
    ],
)
def test_a_refusal_in_each_language_and_spelling_says_which_form_fired(answer: str, rule: str) -> None:
    assert label(answer) == Label(1, rule)


@pytest.mark.parametrize("answer", ["", "  ", "…", "...", "-", "\u200b", "\n", '""', "**", '{"answer": null}', "{}"])
def test_saying_nothing_is_an_abstention(answer: str) -> None:
    assert label(answer) == Label(1, "empty")


@pytest.mark.parametrize("answer", ["€", "$", "5%", "0", "A", "[1]", "(3)", "東京", "Αθήνα", "C++", "Na", "None"])
def test_an_answer_may_be_short_or_made_of_signs(answer: str) -> None:
    assert label(answer) == Label(0, "answer")


@pytest.mark.parametrize(
    "answer",
    [
        "There is no evidence he married; the answer is Paris.",
        "I don't know the exact date, but it was in 1912.",
        "I don’t know. Paris.",
        "I don't know, Paris",
        "I don't know\nParis",
        "I don't know (Paris)",
        "The passages do not say, but it is Paris.",
        "The passages don't say, I'd go with Paris.",
        "The passages do not mention this, it is Paris.",
        "The passages do not say, so the best guess is Paris.",
        "While the passages do not say so, it is Paris.",
        "Not in the passages. Paris",
        "Not in the passages - Paris",
        "Not in the passages: Paris",
        "Not in the passages of Paris but in Rome",
        "Not in the passages, but it is Paris.",
        "Unknown. Actually, it was Tolstoy.",
        '{"answer": "Paris", "note": "Not in the passages."}',
        "Die Texte sagen das nicht, aber es ist Bern.",
        "Les passages ne le disent pas, mais la réponse est Paris.",
        "I passaggi non lo dicono, ma la risposta è Roma.",
        "No lo sé con certeza, pero creo que fue en 1912.",
    ],
)
def test_a_refusal_beside_an_answer_is_an_answer(answer: str) -> None:
    assert label(answer) == Label(0, "answer")


@pytest.mark.parametrize(
    "answer",
    [
        "I think it might be Paris",
        "Probably Paris, but I'm not sure.",
        "I'm not sure, but I think it's Paris.",
        "Unknown, possibly Shakespeare.",
        "The passages suggest that it was Berlin.",
        "Ich bin mir nicht sicher, aber ich glaube, es war Zürich.",
    ],
)
def test_a_hedged_answer_is_an_answer(answer: str) -> None:
    assert label(answer) == Label(0, "answer")


@pytest.mark.parametrize(
    "answer",
    [
        "Unknown (2011 film)",
        "The Unknown Soldier",
        "Unknown Pleasures",
        "The album is called I Don't Know How to Love Him",
        '"I Don\'t Know" is a song by Paul McCartney.',
        'She said "I don\'t know" and left.',
        "He told the court 'I do not know' three times.",
        'The witness answered: "I cannot say."',
        '"There is no information", said the minister.',
        "He did not know the answer",
        "The letter was not mentioned until 1890.",
        "It does not have a capital.",
        "He is unknown to most people.",
        "Er war unbekannt.",
        "no",
        "No.",
        "true",
    ],
)
def test_the_words_of_a_refusal_inside_an_answer_are_no_refusal(answer: str) -> None:
    assert label(answer) == Label(0, "answer")


@pytest.mark.parametrize(
    "answer",
    [
        "NOT ENOUGH INFO",
        "Not enough information.",
        "Verdict: NOT ENOUGH INFO",
        "NEI",
        "The claim cannot be verified.",
        "The passages neither support nor refute the claim.",
    ],
)
def test_not_enough_information_is_a_refusal(answer: str) -> None:
    assert label(answer) == Label(1, "form:en")
    assert label("SUPPORTS").label == label("REFUTES. The passage says 1991.").label == 0


@pytest.mark.parametrize(
    ("answer", "phrase", "expected"),
    [
        ("Pass", "pass!", Label(1, "phrase")),
        ("Pass", PHRASE, Label(0, "answer")),
        ("Pass", "", Label(0, "answer")),
        ("Not in the passages.", "", Label(1, "form:en")),
        ("NO_ANSWER", "<NO_ANSWER>", Label(1, "phrase")),
        ("Unanswerable", "unanswerable", Label(1, "phrase")),
        ("I pass. Ask somebody else. [2]", "I pass. Ask somebody else.", Label(1, "phrase")),
        ("Ask somebody else.", "I pass. Ask somebody else.", Label(0, "answer")),
        ("Je passe", "Je passe…", Label(1, "phrase")),
        ("-", "-", Label(1, "phrase")),
        ("The moon", "The moon is silent.", Label(0, "answer")),
        ("The moon is silent", "The moon is silent.", Label(1, "phrase")),
        ("Sorry: the moon is silent", "The moon is silent.", Label(1, "phrase")),
        ("The moon is silent. I don't know.", "The moon is silent.", Label(1, "phrase")),
        ("I don't know. The moon is silent.", "The moon is silent.", Label(1, "phrase")),
    ],
)
def test_any_phrase_can_be_the_prompts_own(answer: str, phrase: str, expected: Label) -> None:
    assert label(answer, phrase) == expected


def test_a_failed_row_is_missing() -> None:
    assert label(None) == MISSING
    assert abstention_label(None, PHRASE, ALL) is None
    assert abstention_label(None, PHRASE) is None
    assert abstention_label("I don't know", PHRASE) == abstention_label("I don't know", PHRASE, ALL) == 1
    assert abstention_label("Paris", PHRASE) == 0


@pytest.mark.parametrize(
    "answer", ["Please provide more context.", "I'm sorry.", "Could you clarify the question?", "Es tut mir leid."]
)
def test_an_apology_or_a_request_alone_declines_to_answer(answer: str) -> None:
    assert label(answer).label == 1


def test_what_changes_nothing_is_no_refusal_alone() -> None:
    assert label("The passages discuss his career.").label == 0
    assert label("Hello! Let me know if you have questions.").label == 0
    assert label("They do not list her.").label == 0
    assert label("The passages discuss his career. They do not list her.").label == 1


def test_an_answer_of_100_000_characters() -> None:
    assert label("Paris is the capital. " * 4500).label == 0
    assert label("I don't know. " * 7000) == Label(1, "form:en")
    assert label("I don't know. " * 7000 + "Paris").label == 0
    assert label("the passages do not say " * 4000).label in {0, 1}


ADVERSARIAL = r"""
from rat_ray.annotate.abstention import Refusals, abstention, load_refusals
refusals = Refusals.of(load_refusals())
pieces = ["not ", "there is no ", "the passages do not say anything and ", "the passages ", "nicht "]
pieces += ["I don't know, it ", "https://", "a ", "\\a"]
pieces += ['"', "'", " 'a", "'a ", "[", "[1", "(", "(a ", "( a b c d e f", "{", "{'answer':", "<", "<a"]
pieces += ["*", "_", "`", "```", " ", "\n", "\n a", "- ", ".", "a.b", "?", ":", "1. a\n", "# ", "@", ","]
pieces += ["\u00e9", "\u200b", "i\u0307", "\u0301"]
frames = [("", ""), ("", "x"), ("I don't know", "x"), ("{", "}"), ('"', '"'), ("The passages do not say ", " Paris")]
for piece in pieces:
    for start, end in frames:
        answer = start + piece * (100_000 // len(piece)) + end
        assert abstention(answer, "Not in the passages.", refusals).label in {0, 1}
print("done")
"""


def test_no_text_of_100_000_characters_takes_more_than_a_pass_over_it() -> None:
    """Some 240 of them; one that is tried in all ways would take days."""
    ended = subprocess.run(
        [sys.executable, "-c", ADVERSARIAL], capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.stdout == "done\n", ended.stderr


def test_texts_that_lead_to_ever_new_states_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rat_ray.annotate.forms._MOST_STATES", 5)
    few = Refusals.of(load_refusals(["en", "de"]) + "# so that it is compiled anew\n")
    for answer in ["I don't know.", "The passages do not say who it was.", "Paris", "Das weiß ich nicht."] * 2:
        assert abstention(answer, PHRASE, few).label == label(answer).label


@pytest.mark.parametrize("answer", ["The passages do not say.", "Paris", "I don't know. Paris.", "It is in the north."])
def test_a_glance_at_the_first_words_says_what_the_whole_rule_says(answer: str) -> None:
    """A leading zero-width space goes past every short cut."""
    assert label(answer) == label("\u200b" + answer) == label(f"\n{answer}\n")


def test_the_digest_follows_the_forms() -> None:
    assert refusals_digest() == refusals_digest(load_refusals())
    assert len(refusals_digest()) == 16
    assert refusals_digest(load_refusals(["en"])) != refusals_digest()
    assert json.loads(json.dumps(load_refusals())) == load_refusals()
