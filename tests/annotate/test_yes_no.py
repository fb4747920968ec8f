"""Yes and no as answers, and as letters within words."""

from __future__ import annotations

import pytest

from rat_ray.annotate.yes_no import NO, YES, gold_yes_no, yes_no

SAID: dict[str | None, list[str]] = {
    YES: [
        "Yes",
        "yes.",
        "“Yes.”",
        "**Yes**",
        "  YES\n",
        "Yes, it is.",
        "Yes it is",
        "Yes Paris is",
        "yeah",
        "Yep!",
        "True.",
        "Correct, both are.",
        "Of course",
        "Of course.",
        "Certainly",
        "The answer is yes.",
        "The answer to this is: yes",
        "Both are American. So, yes.",
        "I think so, yes",
        "Final answer: Yes",
        "I would say yes",
        "1. Yes",
        "Ja",
        "Oui",
        "Yes. However, no passage says so.",
        "Ｙｅｓ",
        "Ye\u200bs",
        "Sì",
        "Sí, los dos",
        "<b>Yes</b>",
        "\\boxed{yes}",
    ],
    NO: [
        "No",
        "no.",
        "No, it is not.",
        "No they are not",
        "NO\nbecause the other is",
        "nope",
        "Nope, never",
        "Not really",
        "Certainly not.",
        "Of course not",
        "Not at all",
        "The answer is no.",
        "Answer: No",
        "After all that: no",
        "False",
        "One is French.\nNo",
        "So no.",
        "No; one is French",
        "No - one is French",
        "No—one is French",
        "Nein",
        "No, not yes",
        "Neither, so no.",
        "\\boxed{\\text{no}}",
        "After all: \\boxed{no}",
        "<answer>no</answer>",
    ],
    None: [
        "yesterday",
        "Yesterday, yes and no",
        "I don't know",
        "I don’t know",
        "know",
        "Norway",
        "no-one",
        "No one knows",
        "No evidence",
        "No 10 Downing Street",
        "Nothing",
        "Yes and no",
        "yes or no",
        "No and yes",
        "True crime",
        "Right of way",
        "Noël",
        "Paris",
        "",
        "…",
        "eyes",
        'He said: "No" to that',
        "There is no such thing",
        "Noel Coward",
        "The answer is not given",
        "casino",
        "No. 5",
        "sic",
    ],
}


@pytest.mark.parametrize(("text", "said"), [(text, said) for said, texts in SAID.items() for text in texts])
def test_what_says_yes_or_no(text: str, said: str | None) -> None:
    assert yes_no(text) == said


@pytest.mark.parametrize(
    ("gold", "expected"),
    [
        ("yes", YES),
        ("No.", NO),
        ("YES", YES),
        ("true", YES),
        ("False", NO),
        ("Norway", None),
        ("no one", None),
        ("", None),
    ],
)
def test_accepted_answers_that_are_yes_or_no(gold: str, expected: str | None) -> None:
    assert gold_yes_no(gold) == expected


def test_an_answer_of_100_000_characters() -> None:
    assert yes_no("know " * 20_000) is None
    assert yes_no("answer " * 14_000) is None
    assert yes_no("Yes " + "x" * 100_000) == YES
    assert yes_no("know, " * 16_000 + "no.") == NO
