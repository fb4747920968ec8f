"""Verdicts on claims: label names, negations, first words and last lines."""

from __future__ import annotations

import pytest

from rat_ray.annotate.claims import NEITHER, REFUTES, SUPPORTS, claim_verdict

SAID: dict[str | None, list[str]] = {
    SUPPORTS: [
        "SUPPORTS",
        "Supported",
        "support",
        "True.",
        "correct",
        "The claim is true",
        "The claim is without doubt true.",
        "It could not be more accurate",
        "Is it false? It is supported.",
        "Yes, he was.",
        "entailment",
        "ＳＵＰＰＯＲＴＳ",
        "SUP\u200bPORTS",
        "**SUPPORTS**",
        "It isn’t false",
        "not incorrect",
        "not wrong",
        "Not false.",
        "The evidence supports the claim.",
        "The passage does not refute but supports the claim",
        "SUPPORTS\nPassage 2 refutes another claim.",
        "True. It is false that he was born elsewhere.",
        "Verdict: **SUPPORTS** because nothing refutes it",
        "The first passage refutes a detail.\nVerdict: SUPPORTS",
        "Passage 1 does not support it, passage 2 does.\nLabel: supported",
        "Answer: SUPPORTS. This isn't wrong.",
        "Passage 1 is wrong about the year, but in sum the claim is true.",
        "SUPPORTS, and it is not so that the claim is false elsewhere",
    ],
    REFUTES: [
        "REFUTES as the claim is true of his brother only",
        "REFUTES",
        "refuted by passage 2",
        "hardly true",
        "far from true",
        "anything but accurate",
        "Contradictory",
        "The claim is falsified",
        "Is it true? No.",
        "Does passage 1 support the claim? REFUTES",
        "False",
        "incorrect",
        "contradiction",
        "CONTRADICT",
        "not true",
        "Not correct.",
        "It isn't true",
        "It's never correct",
        "The claim is not entirely accurate",
        "untrue",
        "No.",
        "disproved",
        "The claim is false, not true",
        "I would answer false",
        "It's unlikely to be true",
        "REFUTES\nThe passage supports that he was born in 1950.",
        "REFUTES: the passage supports the opposite of what is true here.",
        "The passages support that he was born there, but in 1951. Therefore the claim is false.",
        "Passage 1 supports x.\nVerdict: REFUTES",
        "It does not support but refutes the claim",
        "He was born in 1951.\nThis is what the passage supports.\nREFUTES",
    ],
    NEITHER: [
        "NOT ENOUGH INFO",
        "not_enough_info",
        "NotEnoughInfo",
        "NEI",
        "Label: NEI",
        "neutral",
        "unverifiable",
        "neither supports nor refutes",
        "Neither the passage supports nor refutes it",
        "neither supported nor refuted",
        "The passage does not support the claim",
        "The passage doesn’t support it",
        "not supported",
        "unsupported",
        "hardly supports it",
        "without support",
        "lacks support",
        "unable to verify",
        "I wouldn't say SUPPORTS",
        "It is not the case that the passages support the claim",
        "does not contradict",
        "cannot be verified",
        "It can’t be determined",
        "insufficient evidence",
        "no evidence",
        "There is not enough information to say whether the claim is true or false",
        "No passage supports this",
        "The claim is not supported by the passages.",
        "The passages never support this",
        "inconclusive",
        "There is no evidence that the claim is false",
        "It is unclear whether it is true",
        "could be true or false",
        "Neither supports nor refutes: passage 1 supports it, passage 2 refutes it.",
    ],
    None: ["Paris", "", "…", "The truest thing", "falsehood", "It is partially true", "half true", "supporter", "know"],
}


@pytest.mark.parametrize(("text", "verdict"), [(text, verdict) for verdict, texts in SAID.items() for text in texts])
def test_claim_verdicts(text: str, verdict: str | None) -> None:
    assert claim_verdict(text) == verdict


@pytest.mark.parametrize("verdict", [SUPPORTS, REFUTES, NEITHER])
def test_a_long_explanation_changes_no_verdict(verdict: str) -> None:
    explanation = "Passage 3 neither supports nor refutes what passage 4 calls true or false. " * 100
    assert claim_verdict(f"{verdict}\n{explanation}") == verdict
    assert claim_verdict(f"{explanation}\nVerdict: {verdict}") == verdict
    assert claim_verdict(f"{explanation}\n{verdict}") == verdict
