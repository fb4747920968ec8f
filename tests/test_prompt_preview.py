"""What a dry run shows of the prompts: every template once, with placeholders or a real question, and no engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rat_ray.annotate.judge import JudgeSettings
from rat_ray.errors import InputError
from rat_ray.generate.prompts import load_prompts
from rat_ray.generate.worker import GeneratorSettings
from rat_ray.prompt_preview import Example, first_prompts

CONF = Path(__file__).parents[1] / "conf" / "prompt"
PROMPTS = {
    "open": "{% for p in passages %}[{{ p.number }}] {{ p.title }}: {{ p.text }}\n{% endfor %}Question: {{ question }}",
    "claim": "Claim: {{ question }} or {{ abstention_phrase }}",
    "system": "Be brief.",
}
BASE = GeneratorSettings(prompt="mine", prompts=PROMPTS, passages=2, abstention_phrase="Pass.")
CHAT = GeneratorSettings(prompt="mine", prompts=PROMPTS, passages=1, mode="chat")
JUDGE = JudgeSettings(
    name="gpt", variables=("r", "t"), prompt="judged", mode="chat",
    prompts={"r": "{{ passages[0].title }}|{{ question }}", "t": "{{ answers | join('/') }}|{{ answer }}",
             "t_claim": "claim {{ answers | join('/') }}|{{ answer }}"},
)  # fmt: skip


def test_every_template_that_the_shapes_take_once() -> None:
    shown = first_prompts({"base": BASE, "chat": CHAT}, [JUDGE], ["claim", "open", "two_hop"])
    assert shown == [
        ("generator base, prompt mine/claim, mode completion, at most 2 passages and 1400 tokens",
         "Be brief.\n\nClaim: «question» or Pass."),
        ("generator base, prompt mine/open, mode completion, at most 2 passages and 1400 tokens",
         "Be brief.\n\n[1] «title of passage 1»: «text of passage 1»\n[2] «title of passage 2»: «text of passage 2»\n"
         "Question: «question»"),
        ("generator chat, prompt mine/claim, mode chat, at most 1 passages and 1400 tokens",
         "system:\nBe brief.\n\nuser:\nClaim: «question» or Not in the passages."),
        ("generator chat, prompt mine/open, mode chat, at most 1 passages and 1400 tokens",
         "system:\nBe brief.\n\nuser:\n[1] «title of passage 1»: «text of passage 1»\nQuestion: «question»"),
        ("judge r@gpt, prompt judged/r, mode chat", "user:\n«title of passage 1»|«question»"),
        ("judge t@gpt, prompt judged/t_claim, mode chat", "user:\nclaim «accepted answer»|«answer»"),
        ("judge t@gpt, prompt judged/t, mode chat", "user:\n«accepted answer»|«answer»"),
    ]  # fmt: skip


def test_no_shape_is_the_open_one() -> None:
    assert [text for _, text in first_prompts({"base": BASE}, [], [])] == [
        "Be brief.\n\n[1] «title of passage 1»: «text of passage 1»\n[2] «title of passage 2»: «text of passage 2»\n"
        "Question: «question»"
    ]


def test_a_real_question_stands_where_it_belongs() -> None:
    example = Example("who\nbuilt it", "open", [("Tower", "Built by\nEiffel. </s>")], ["Eiffel"])
    shown = first_prompts({"base": BASE}, [JUDGE], ["claim", "open"], example)
    assert [text for _, text in shown] == [
        "Be brief.\n\nClaim: «question» or Pass.",
        "Be brief.\n\n[1] Tower: Built by Eiffel. < /s>\nQuestion: who built it",
        "user:\nTower|who built it",
        "user:\nclaim «accepted answer»|«answer»",
        "user:\nEiffel|«answer»",
    ]
    unknown = first_prompts({"base": BASE}, [], ["claim"], Example("who", None, None))
    assert unknown[1][1].endswith("«text of passage 2»\nQuestion: who")


@pytest.mark.parametrize("name", ["policy", "eager", "careful", "policy_chat", "eager_chat"])
def test_the_shipped_sets_can_be_shown(name: str) -> None:
    mode = "chat" if name.endswith("_chat") else "completion"
    settings = GeneratorSettings(prompt=name, prompts=load_prompts(name, CONF), mode=mode)
    shown = first_prompts({name: settings}, [], ["claim", "two_hop", "open"])
    assert len(shown) == 3
    for _, text in shown:
        assert "«question»" in text
        assert "«text of passage 3»" in text
        assert text.startswith("system:\n") == (mode == "chat")


def test_a_bad_template_is_found_by_a_dry_run() -> None:
    bad = GeneratorSettings(prompt="mine", prompts={"open": "{{ qestion }}"})
    with pytest.raises(InputError, match="mine/open: 'qestion'"):
        first_prompts({"bad": bad}, [], [])


def test_no_model_library_is_loaded() -> None:
    first_prompts({"base": BASE}, [JUDGE], [])
    assert not {"vllm", "torch"} & set(sys.modules)
