"""The prompt sets that we ship must not give away the demo's questions: their examples are about other things."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from rat_ray.generate.prompts import load_prompts
from rat_ray.generate.worker import GeneratorPrompts, GeneratorSettings
from rat_ray.settings import build, conf_dir

DEMO = Path(__file__).parents[2] / "rat_ray" / "datasets" / "demo" / "questions.jsonl"
TEMPLATES = sorted((conf_dir() / "prompt").glob("*/*.jinja"))
COMMON = {"which", "what", "when", "where", "whose", "with", "from", "that", "this", "into", "does", "were", "have"}
COMMON |= {"many", "city", "country", "born", "inventor"}


def content_words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) > 3} - COMMON


def examples(template: Path) -> list[str]:
    found = re.findall(r"^(?:Question|Claim|Answer): (.+)$", template.read_text("utf-8"), re.MULTILINE)
    return [line for line in found if "{{" not in line]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_example_is_one_of_the_demo_questions(template: Path) -> None:
    shots = examples(template)
    assert len(shots) >= 2 or template.parent.name.endswith("_chat")  # instruct models are told, not shown
    demo = [json.loads(line)["question"] for line in DEMO.read_text("utf-8").splitlines()]
    for shot in shots:
        for question in demo:
            shared = content_words(shot) & content_words(question)
            smaller = min(len(content_words(shot)), len(content_words(question)))
            assert len(shared) < max(2, 0.6 * smaller), f"{shot!r} is close to {question!r}: {sorted(shared)}"


def filled(data: Any) -> Any:
    """What a configuration leaves to the user (`???`), given."""
    if isinstance(data, dict):
        return {name: filled(value) for name, value in data.items()}
    return "http://127.0.0.1/v1" if data == "???" else data


@pytest.mark.parametrize("name", sorted(path.stem for path in (conf_dir() / "generator").glob("*.yaml")))
def test_every_generator_has_a_prompt_set_that_goes_with_its_mode(name: str) -> None:
    data = yaml.safe_load((conf_dir() / "generator" / f"{name}.yaml").read_text("utf-8"))
    settings = build(GeneratorSettings, filled(data), "generator")
    texts = load_prompts(settings.prompt, conf_dir() / "prompt")
    chat = settings.mode == "chat"
    assert ("system" in texts) == chat
    assert ("\n" in settings.stops) != chat
    assert GeneratorPrompts(replace(settings, prompts=texts))("who?", "two_hop", []).text
