"""Prompt sets: loading, the sandbox, and how many passages fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from rat_ray.errors import InputError
from rat_ray.generate import open_engine
from rat_ray.generate.engine import EngineSettings, PromptedSettings
from rat_ray.generate.prompts import Prompts, load_prompts, one_line

CONF = Path(__file__).parents[2] / "conf" / "prompt"


@pytest.mark.parametrize("name", ["policy", "eager"])
def test_shipped_sets_render_every_shape_with_a_fixed_prefix(name: str) -> None:
    prompts = Prompts(load_prompts(name, CONF))
    assert sorted(prompts.names) == ["claim", "open", "two_hop"]
    for shape in prompts.names:
        one, two = (
            prompts.render(shape, question=question, passages=[], abstention_phrase="Pass!")
            for question in ("a?", "b?")
        )
        assert len(one) == len(two)
        assert one.replace("a?", "b?") == two
        assert ("Pass!" in one) == (name == "policy")
        assert not one.endswith((" ", "\n"))


def test_eager_never_mentions_abstention() -> None:
    assert all(
        "abstention" not in text and "not in the" not in text.lower() for text in load_prompts("eager", CONF).values()
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
        Prompts({"open": text}).render("open", question="a")


def test_a_passage_is_never_a_template() -> None:
    assert Prompts({"open": "{{ question }}"}).render("claim", question="{{ 7 * 7 }}") == "{{ 7 * 7 }}"


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
