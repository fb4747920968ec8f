"""From what a model wrote to its answer: reasoning, stop strings and special tokens are taken off, nothing else.

Code fences, quotes, markup and line breaks within an answer stay. All of it takes time linear in the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

INSIDE_REASONING = "the output ended inside its reasoning; raise max_tokens"

# `<think>` of most models, with the names that others use; Seed's has a prefix. Nested or of two kinds, it does not
# matter: the first closing tag ends a block, and one more closing tag says that the text before it was reasoning too.
_NAMES = r"(?:\w{1,8}:)?(?:think|thinking|thoughts?|reasoning|reason|reflection|analysis|scratchpad)"
TAGS = re.compile(
    rf"(?=[<\[◁])(?:(?P<open><\s?{_NAMES}(?:\s[^<>]{{0,100}})?>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|inner_prefix\|>"
    r"|<\|channel>\s?thought\b|<\|begin_of_thought\|>)"
    rf"|(?P<close><\s?/\s?{_NAMES}\s?>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|inner_suffix\|>|<channel\|>"
    r"|<\|end_of_thought\|>))",
    re.IGNORECASE,
)
# The channels of gpt-oss ("harmony"), with their special tokens and as they read where a server left those out.
_CHANNEL = re.compile(r"<\|channel\|>\s?(\w{1,20})[^<]{0,200}<\|message\|>")
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start)\|>")
_BARE_CHANNELS = ("analysis", "assistantfinal")
# What encloses a whole answer after reasoning, for models trained to write it so.
_WRAPPERS = re.compile(
    r"<(answer|response|output|final_answer)>|<\|(?:START_RESPONSE|begin_of_box|begin_of_solution)\|>", re.IGNORECASE
)
_UNWRAPPED = {
    "<|start_response|>": "<|END_RESPONSE|>",
    "<|begin_of_box|>": "<|end_of_box|>",
    "<|begin_of_solution|>": "<|end_of_solution|>",
}
# The end of a model's turn: what follows, if anything, is a turn that it made up.
_TURN_END = re.compile(
    r"<\|(?:im_end|endoftext|end_of_text|eot_id|eom_id|end|return|assistant_end|END_OF_TURN_TOKEN|end_of_turn|eos)\|>"
    r"|<end_of_turn>|<turn\|>|<｜end▁of▁sentence｜>|<eos>"
)
# Special tokens that are taken off at either end only, since a text may hold them for other reasons.
_LOOSE = ("<s>", "</s>", "<bos>", "<pad>", "<unk>", "[/INST]", "[EOS]", "[BOS]", "[PAD]", "<start_of_turn>", "<|turn>")
_FIRST = re.compile(
    rf"\s*(?!{_TURN_END.pattern})"
    r"(?:<\|start_header_id\|>\w{0,20}<\|end_header_id\|>|<\|[\w-]{1,40}\|>(?:assistant\b)?|<s>|<bos>|<pad>"
    r"|<start_of_turn>model\b|<\|turn>model\b)"
)
_LONGEST_TOKEN = 64


class Cleaned(NamedTuple):
    """answer: the cleaned text, which may be empty; None exactly where error says why there is none.

    reasoning: what the model wrote, or a server kept apart, before answering; None where there was none.
    """

    answer: str | None
    reasoning: str | None = None
    error: str | None = None


def clean(
    text: str, stop: Sequence[str] = (), reasoning: str | None = None, finish_reason: str | None = None
) -> Cleaned:
    """The answer in a model's text.

    Blocks of reasoning are taken off wherever they stand, also one whose opening tag the chat template wrote; then the
    text, its blanks stripped, ends at the first of the stop strings or at the end of the model's turn, should the
    engine not have stopped there. reasoning: what a server kept apart already. A block that does not close, or nothing
    but reasoning where finish_reason is `length`, is no answer; an empty answer otherwise is one.
    """
    outside, blocks, open_ended = _without_channels(text) or _without_blocks(text)
    thought = "\n\n".join(part for part in (reasoning, *blocks) if part and part.strip()) or None
    if open_ended:
        return Cleaned(None, thought, INSIDE_REASONING)
    answer = _ended(_began(outside), stop)
    if thought:
        answer = _ended(_unwrapped(_ended(_unwrapped(answer), ())), ())  # one may hold another: GLM's
    if not answer and thought and finish_reason == "length":
        return Cleaned(None, thought, INSIDE_REASONING)
    return Cleaned(answer, thought)


class _Parts(NamedTuple):
    outside: str
    blocks: list[str]
    open_ended: bool


def _without_blocks(text: str) -> _Parts:
    outside, blocks = [""], []
    inside, start = False, 0
    for tag in TAGS.finditer(text):
        if tag.lastgroup == "open":
            if not inside:
                outside.append(text[start : tag.start()])
                inside, start = True, tag.end()
            continue
        # A closing tag without its opening one: the template wrote that, or blocks are nested.
        blocks.append(text[start : tag.start()].strip())
        inside, start = False, tag.end()
    rest = text[start:]
    if inside:
        return _Parts("", [*blocks, rest.strip()], True)
    return _Parts("".join([*outside, rest]), blocks, False)


def _without_channels(text: str) -> _Parts | None:
    """None where the text has no channels."""
    bare = text.lstrip()
    first, last = _BARE_CHANNELS
    if bare.startswith(first) and last in bare:
        thought, _, answer = bare.removeprefix(first).partition(last)
        return _Parts(answer, [thought.strip()], False)
    channels = list(_channels(text))
    if not channels:
        return None
    answers = [content for name, content in channels if name == "final"]
    blocks = [content.strip() for name, content in channels if name != "final"]
    return _Parts("".join(answers), blocks, not answers)


def _channels(text: str) -> Iterator[tuple[str, str]]:
    """The channels' names and contents, in order."""
    position = 0
    if (first := _CHANNEL.search(text)) and first.start():
        # The chat template wrote the beginning of the first one.
        end = _CHANNEL_END.search(text, 0, first.start())
        yield "analysis", text[: end.start() if end else first.start()]
    while found := _CHANNEL.search(text, position):
        end = _CHANNEL_END.search(text, found.end())
        position = end.end() if end else len(text)
        yield found.group(1).lower(), text[found.end() : end.start() if end else position]


def _began(text: str) -> str:
    """Without the special tokens that some engines leave before an answer."""
    position = 0
    while found := _FIRST.match(text, position):
        position = found.end()
    return text[position:]


def _ended(text: str, stop: Sequence[str]) -> str:
    """Up to the first stop string or turn's end; without the blanks and special tokens at the end."""
    text = text.strip()
    ends = [text.find(string) for string in stop if string]
    turn = _TURN_END.search(text)
    if turn:
        ends.append(turn.start())
    text = text[: min((end for end in ends if end >= 0), default=len(text))]
    end = len(text)
    while (shorter := _before_token(text, end)) < end:
        end = shorter
    return text[:end]


def _before_token(text: str, end: int) -> int:
    """Where text[:end] ends without a blank or one special token at its end; end itself if there is none."""
    if end and text[end - 1].isspace():
        return end - 1
    for token in _LOOSE:
        if text.endswith(token, 0, end):
            return end - len(token)
    if text.endswith(("|>", "｜>"), 0, end):
        start = max(text.rfind(mark, max(0, end - _LONGEST_TOKEN), end) for mark in ("<|", "<｜"))
        inner = text[start + 2 : end - 2]
        if start >= 0 and inner and not any(char.isspace() or char in "<>" for char in inner):
            return start
    return end


def _unwrapped(text: str) -> str:
    """What `<answer>…</answer>` and the like enclose, where they enclose all of it; the closing tag may lack."""
    found = _WRAPPERS.match(text)
    if not found:
        return text
    closing = _UNWRAPPED.get(found.group().lower()) or f"</{found.group(1)}>"
    end = re.compile(re.escape(closing), re.IGNORECASE).search(text, found.end())
    if end is None:
        return text[found.end() :].strip()
    return text if text[end.end() :].strip() else text[found.end() : end.start()].strip()
