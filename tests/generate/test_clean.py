"""From raw output to answer: every form of reasoning, stop string and special token that models are known to write."""

from __future__ import annotations

import pytest

from rat_ray.generate.clean import INSIDE_REASONING, Cleaned, clean

LONG = 100_000


@pytest.mark.parametrize(
    ("text", "answer"), [(" a b \nc", "a b"), ("\n\n a", "a"), ("", ""), (" \n", ""), ("a\r\nb", "a")]
)
def test_with_a_line_break_as_stop_the_first_line_is_the_answer(text: str, answer: str) -> None:
    assert clean(text, ["\n"]) == Cleaned(answer)


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n", "\t \n\u00a0", "\n" * 1000, "<|im_end|>", "</s>", "<think></think>", "<think>\n\n</think>\n\n"],
)
def test_nothing_is_an_answer_too(text: str) -> None:
    assert clean(text) == Cleaned("")


@pytest.mark.parametrize(
    "text",
    [
        "<think>He painted it.</think>Paris",
        "<think>\nHe painted it.\n</think>\n\nParis",
        "<THINK>He painted it.</Think> Paris",
        "< think >He painted it.</ think > Paris",
        "<thinking>He painted it.</thinking>Paris",
        "<thinking duration='3'>He painted it.</thinking>Paris",
        "<thought>He painted it.</thought>Paris",
        "<reasoning>He painted it.</reasoning>\n<answer>Paris</answer>",
        "<reasoning>He painted it.</reasoning>\n<answer>Paris",
        "<scratchpad>He painted it.</scratchpad>Paris",
        "<seed:think>He painted it.</seed:think>Paris",
        "[THINK]He painted it.[/THINK]Paris",
        "◁think▷He painted it.◁/think▷Paris",
        "<|START_THINKING|>He painted it.<|END_THINKING|><|START_RESPONSE|>Paris<|END_RESPONSE|>",
        "<|inner_prefix|>He painted it.<|inner_suffix|>Paris<|assistant_end|>",
        "<|channel>thought\nHe painted it.<channel|>Paris<turn|>",
        "<|begin_of_thought|>He painted it.<|end_of_thought|>\n<|begin_of_solution|>Paris<|end_of_solution|>",
        "<think>He painted it.</think><answer><|begin_of_box|>Paris<|end_of_box|></answer>",
        "<|channel|>analysis<|message|>He painted it.<|end|><|start|>assistant<|channel|>final<|message|>Paris"
        "<|return|>",
        "<|start|>assistant<|channel|>analysis<|message|>He painted it.<|end|><|start|>assistant<|channel|>final"
        "<|message|>Paris",
        "He painted it.<|end|><|start|>assistant<|channel|>final<|message|>Paris",
        "analysisHe painted it.assistantfinalParis",
        "He painted it.</think>Paris",  # the chat template wrote the opening tag
        "\nHe painted it.\n</think>\n\nParis<|im_end|>",
        "<think>He painted it.</think></think>Paris",
        "<think>He painted it.</reasoning>Paris",
    ],
)  # fmt: skip
def test_reasoning_is_taken_off_and_kept(text: str) -> None:
    assert clean(text) == Cleaned("Paris", "He painted it.")


def test_a_block_in_the_middle_and_several() -> None:
    assert clean("It is <think>hm</think>Paris.") == Cleaned("It is Paris.", "hm")
    assert clean("<think>one</think>Paris<think>two</think>.") == Cleaned("Paris.", "one\n\ntwo")


def test_nested_blocks() -> None:
    assert clean("<think>a<think>b</think>c</think>Paris") == Cleaned("Paris", "a<think>b\n\nc")
    assert clean("<think>I was told to use <think> tags.</think>Paris") == Cleaned(
        "Paris", "I was told to use <think> tags."
    )


def test_other_answers_in_the_reasoning_do_not_show() -> None:
    cleaned = clean("<think>London? <answer>London</answer> No.</think>\n<answer>Paris</answer>")
    assert cleaned.answer == "Paris"
    assert "London" in str(cleaned.reasoning)


@pytest.mark.parametrize(
    "text",
    [
        "<think>He was born in", "<think>", "<Thinking>\nHe", "Paris <think>or is it", "<think>a</think><think>b",
        "[THINK]He was", "<|channel|>analysis<|message|>He was", "<|channel>thought\nHe was", "<seed:think>He",
        "<|channel|>analysis<|message|>He was<|end|><|start|>assistant<|channel|>commentary<|message|>so",
    ],
)  # fmt: skip
@pytest.mark.parametrize("stop", [(), ("\n",)])
def test_a_block_that_never_closes_is_an_error(text: str, stop: tuple[str, ...]) -> None:
    cleaned = clean(text, stop, None, "length")
    assert cleaned.answer is None
    assert cleaned.error == INSIDE_REASONING
    assert "raise max_tokens" in INSIDE_REASONING


def test_reasoning_that_a_server_kept_apart() -> None:
    assert clean("Paris", (), "He painted it.", "stop") == Cleaned("Paris", "He painted it.")
    assert clean("<think>b</think>Paris", (), "a") == Cleaned("Paris", "a\n\nb")
    assert clean("", (), "He was born in", "length") == Cleaned(None, "He was born in", INSIDE_REASONING)
    assert clean(" \n", (), "He was born in", "stop") == Cleaned("", "He was born in")
    assert clean("Par", (), "He was born in", "length") == Cleaned("Par", "He was born in")
    assert clean("", (), None, "length") == Cleaned("")
    assert clean("Paris", (), "  ") == Cleaned("Paris")


def test_stop_strings_end_the_text_even_where_the_engine_did_not_honour_them() -> None:
    assert clean("Paris\nQuestion: who?", ["\n"]).answer == "Paris"
    assert clean("Paris Question: who? ###", ["###", "Question:"]).answer == "Paris"
    assert clean("Paris###", ["###"]).answer == "Paris"
    assert clean("### Paris", ["###"]).answer == ""
    assert clean("a (b) [c]", ["[c]", "(x)"]).answer == "a (b)"  # texts, not patterns
    assert clean("Paris", [""]).answer == "Paris"
    assert clean("<think>a###b</think>Paris###more", ["###"]) == Cleaned("Paris", "a###b")


@pytest.mark.parametrize(
    "end",
    [
        "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<end_of_turn>", "</s>", "<eos>", "<|end|>", "<turn|>",
        "<|assistant_end|>", "<｜end▁of▁sentence｜>", "<|return|>", "</s></s>\n</s>", "<pad><pad>", " <|im_end|>\n",
        "<|im_end|>\n<|im_start|>user\nAnd London?", "<end_of_turn>\n<start_of_turn>user\nAnd?", "<|whatever_7|>",
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnd?", "[EOS]",
    ],
)  # fmt: skip
def test_special_tokens_at_the_end(end: str) -> None:
    assert clean(f"Paris{end}") == Cleaned("Paris")


@pytest.mark.parametrize(
    "start",
    ["<s>", "<bos>", "<|im_start|>assistant\n", "<start_of_turn>model\n", "<|assistant|>", "<s> <|assistant|>\n",
     "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|turn>model\n"],
)  # fmt: skip
@pytest.mark.parametrize("stop", [(), ("\n",)])
def test_special_tokens_at_the_beginning(start: str, stop: tuple[str, ...]) -> None:
    assert clean(f"{start}Paris", stop) == Cleaned("Paris")


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint('<b>')\n```", "**Paris** [1]", "Line one\n\nLine two", "a < b > c | d", "“Paris”", "x |> f",
        "if a <| b", "I think so", "The analysis shows assistants", "<answer>Paris</answer>", "analysis of variance",
        "see <br> and <table>", "thinking> of it", "e = [1, 2]", "<b>Paris</b>", "Not in the passages.", "<|>",
        "a |>", "<| a |>",
    ],
)  # fmt: skip
def test_everything_else_stays(text: str) -> None:
    assert clean(text) == Cleaned(text)


def test_a_fence_after_reasoning_stays_whole() -> None:
    assert clean("<think>code</think>\n```\n<answer>1</answer>\n```\n").answer == "```\n<answer>1</answer>\n```"
    assert clean("<think>x</think><answer>Paris</answer> and more").answer == "<answer>Paris</answer> and more"


def test_letters_that_grow_in_lower_case_do_not_move_the_closing_tag() -> None:
    assert clean("<think>x</think><answer>İİİ İstanbul</ANSWER>").answer == "İİİ İstanbul"


@pytest.mark.parametrize(
    "piece",
    ["word ", "<think>", "</think>", "<think>x</think>", "<", " ", "\n", "<|im_end|>", "</s>", "<|", "|>", "<think ",
     "< ", "<|channel|>", "<|channel|>analysis", "<|channel|>final<|message|>x", "</answer>", "<|a", "a:",
     "<a:", "\u00a0<s>"],
)  # fmt: skip
def test_a_million_characters_of_anything_end(piece: str) -> None:
    """Anything worse than linear in the length would take minutes here."""
    text = "<think>a</think>" + piece * (10 * LONG // len(piece)) + "<answer"
    cleaned = clean(text, ["STOP", "\r"], None, "stop")
    assert (cleaned.answer is None) == (cleaned.error is not None)
    assert len(cleaned.answer or "") + len(cleaned.reasoning or "") <= len(text)


def test_a_long_answer_stays_whole() -> None:
    answer = ("Paris is a city. " * (LONG // 17)).strip()
    assert clean(f"<think>{answer}</think>{answer}</s>") == Cleaned(answer, answer)
