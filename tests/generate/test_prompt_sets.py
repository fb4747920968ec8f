"""The prompt sets that we ship must not give away the demo's questions: their examples are about other things."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rat_ray.settings import conf_dir

DEMO = Path(__file__).parents[2] / "rat_ray" / "datasets" / "demo" / "questions.jsonl"
TEMPLATES = sorted((conf_dir() / "prompt").glob("*/*.jinja"))
COMMON = {"which", "what", "when", "where", "whose", "with", "from", "that", "this", "into", "does", "were", "have"}
COMMON |= {"many", "city", "country", "born", "inventor"}


def content_words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) > 3} - COMMON


def examples(template: Path) -> list[str]:
    found = re.findall(r"^(?:Question|Claim): (.+)$", template.read_text("utf-8"), re.MULTILINE)
    return [line for line in found if "{{" not in line]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_example_is_one_of_the_demo_questions(template: Path) -> None:
    shots = examples(template)
    assert len(shots) >= 2
    demo = [json.loads(line)["question"] for line in DEMO.read_text("utf-8").splitlines()]
    for shot in shots:
        for question in demo:
            shared = content_words(shot) & content_words(question)
            smaller = min(len(content_words(shot)), len(content_words(question)))
            assert len(shared) < max(2, 0.6 * smaller), f"{shot!r} is close to {question!r}: {sorted(shared)}"
