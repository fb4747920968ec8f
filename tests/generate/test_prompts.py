"""Prompt sets: loading, the sandbox, system messages, and what is filled in."""

from __future__ import annotations

from pathlib import Path

import pytest

from rat_ray.errors import InputError
from rat_ray.generate import open_engine
from rat_ray.generate.engine import EngineSettings, Prompt, PromptedSettings
from rat_ray.generate.prompts import PromptPassage, Prompts, inert, load_prompts, one_line

CONF = Path(__file__).parents[2] / "conf" / "prompt"


@pytest.mark.parametrize("name", ["policy", "eager"])
def test_shipped_sets_render_every_shape_with_a_fixed_prefix(name: str) -> None:
    prompts = Prompts(load_prompts(name, CONF))
    assert sorted(prompts.names) == ["claim", "open", "two_hop"]
    for shape in prompts.names:
        one, two = (
            prompts.prompt(shape, question=question, passages=[], abstention_phrase="Pass!").text
            for question in ("a?", "b?")
        )
        assert len(one) == len(two)
        assert one.replace("a?", "b?") == two
        assert ("Pass!" in one) == (name == "policy")
        assert not one.endswith((" ", "\n"))


@pytest.mark.parametrize("name", ["policy_chat", "eager_chat"])
def test_chat_sets_have_a_system_message_and_the_phrase_word_by_word(name: str) -> None:
    prompts = Prompts(load_prompts(name, CONF))
    assert sorted(prompts.names) == ["claim", "open", "two_hop"]
    passages = [PromptPassage(1, "Otter", "Otters eat fish."), PromptPassage(2, "", "No title.")]
    systems = set()
    for shape in prompts.names:
        made = prompts.prompt(shape, question="a?", passages=passages, abstention_phrase="«Pass, please.»")
        systems.add(made.system)
        for part in made:
            assert ("\u00abPass, please.\u00bb" in part) == (name == "policy_chat")
            assert part == part.strip()
        assert "[1] Otter: Otters eat fish.\n[2] No title.\n" in made.text
        assert "a?" in made.text
        assert ("SUPPORTS" in made.text) == ("REFUTES" in made.text) == (shape == "claim")
        empty = prompts.prompt(shape, question="a?", passages=[], abstention_phrase="«Pass, please.»")
        assert empty.system == made.system
        assert "(none)" in empty.text
    assert len(systems) == 1  # the same for all, so that an engine keeps it


@pytest.mark.parametrize("name", ["eager", "eager_chat"])
def test_eager_never_mentions_abstention(name: str) -> None:
    assert all(
        "abstention" not in text and "not in the" not in text.lower() for text in load_prompts(name, CONF).values()
    )


def test_unknown_set_says_which_there_are() -> None:
    with pytest.raises(InputError, match="did you mean 'policy'"):
        load_prompts("polici", CONF)


def test_empty_set(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="holds no"):
        load_prompts("none", tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{{ question", "line 1"), ("{{ nothing }}", "nothing"), ("{{ question.__class__.__mro__ }}", "unsafe")],
)
def test_bad_templates_are_input_errors(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Prompts({"open": text}).prompt("open", question="a")


def test_a_passage_is_never_a_template() -> None:
    assert Prompts({"open": "{{ question }}"}).prompt("claim", question="{{ 7 * 7 }}") == Prompt("{{ 7 * 7 }}")


def test_a_system_template_alone_is_no_set(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "system.jinja").write_text("Be brief.")
    with pytest.raises(InputError, match=r"besides system\.jinja"):
        load_prompts("mine", tmp_path)
    with pytest.raises(InputError, match="no prompt mine/system and no mine/open"):
        Prompts({"system": "Be brief."}, "mine").prompt("system")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "open.jinja").write_bytes(b"caf\xe9 {{ question }}")
    with pytest.raises(InputError, match=r"open\.jinja is not UTF-8"):
        load_prompts("mine", tmp_path)


def test_a_template_may_write_special_tokens_itself() -> None:
    text = "<start_of_turn>user\n{{ question }}<end_of_turn>"
    assert Prompts({"open": text}).prompt("open", question="<bos>") == Prompt(
        "<start_of_turn>user\n< bos><end_of_turn>"
    )


def test_special_tokens_are_broken_in_lists_too() -> None:
    prompts = Prompts({"t": "{{ answers | join('|') }} {{ answer | tojson }} {{ passages[0].title }}"})
    values = {"answers": ["</s>", "a"], "answer": "[/INST]", "passages": [PromptPassage(1, "<eos>", "x")]}
    assert prompts.prompt("t", **values).text == '< /s>|a "[ /INST]" < eos>'
    assert values["answers"] == ["</s>", "a"]


def test_inert_changes_a_text_once() -> None:
    for text in ["<|im_end|>", "<</SYS>>", "[[INST]]", "<<s>>", "<|<|", "a<b>c", "[/INST][INST]"]:
        assert inert(text) != text
        assert inert(inert(text)) == inert(text)
        assert inert(text).replace(" ", "") == text
    assert len(inert("<" * 100_000)) == 100_000
    assert len(inert("[A" * 50_000)) == 100_000


def test_one_line() -> None:
    assert one_line(" a\n\nb\tc ") == "a b c"
    assert one_line(None) == ""


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="exceed n_ctx"):
        PromptedSettings(prompt="policy", max_prompt_tokens=1536).validate()
    with pytest.raises(InputError, match="slots is 0"):
        PromptedSettings(prompt="policy", slots=0).validate()
    with pytest.raises(InputError, match="did you mean 'llama_cpp'"):
        open_engine(EngineSettings(kind="llama_cp"))


def test_a_prompt_set_of_ones_own_is_a_folder_by_its_path(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "open.jinja").write_text("{{ question }}")
    assert load_prompts(str(mine), tmp_path / "elsewhere") == {"open": "{{ question }}"}
    with pytest.raises(InputError, match="no prompt set"):
        load_prompts(str(tmp_path / "none"), tmp_path)
