"""What a judge's output says: yes, no, or nothing that can be relied on.

A verdict that is not given in just the form that was asked for is missing, never guessed. Three forms:

word: the output's first word is yes or no, as base models answer. `no-one`, `yes and no`, `yes/no` are no verdict.
line: the last line with a word in it is `VERDICT: yes` or `VERDICT: no` and nothing else (bold, a heading, a code fence
    around it, a full stop do no harm), or the output is that one word. Another such line that says the opposite: no
    verdict, as one of them may be quoted from what was judged.
json: the output is one JSON object, alone or in one code fence, with the key `verdict` (for T also `correct`) on its
    first level: true, false, or one of the words. Keys given twice must agree; what is not strict JSON is no verdict.

Words are yes, no, true, false, for T also correct, incorrect: compared whole, after Unicode normalisation.
An output that was cut by its limit is no verdict in the forms line and json; in word only if its first word may go on.
Reasoning is taken off before: one block at the beginning, or all up to a closing tag alone on its line, as some chat
templates write the opening one. Any other such tag, or a channel that does not begin the output, may be quoted from
what was judged: in word, that is no verdict, nor is output with reasoning that was cut by its limit.
"""

from __future__ import annotations

import json
import re
from typing import Any

from rat_ray.annotate.text import plain
from rat_ray.generate.clean import TAGS, clean

WORD, LINE, JSON = "word", "line", "json"
FORMATS = (WORD, LINE, JSON)
# So few output tokens could not hold a whole verdict, or not show that it is whole.
LEAST_TOKENS = {WORD: 2, LINE: 4, JSON: 8}

_MEANINGS = {"yes": 1, "true": 1, "no": 0, "false": 0}
_T_MEANINGS = {**_MEANINGS, "correct": 1, "incorrect": 0}
_CUT = frozenset({"length", "max_tokens", "content_filter", "abort", "error"})
_ASKED = {
    "r": "whether the passages hold the answer to the question",
    "a": "whether the answer declines to answer the question",
    "t": "whether the answer is right",
}

_FIRST_WORD = re.compile(r"[\W_]*(yes|no)(?![^\W_]|[-'][^\W_])")
_OTHER_WORD = re.compile(r"[\W_]*(?:(?:and|or)\b[\W_]*)?(yes|no)(?![^\W_])")
_ORNAMENTS = re.compile(r"[*_#]")
_LINE = re.compile(r"(?:(?:final )?(verdict) ?: ?)?([a-z]+) ?[.!]?")
_NO_WORD = re.compile(r"[\W_]+")
_TAG_NAME = re.compile(r"<\s?/?\s?([\w:]+)[^|]*>")  # `<think>` and its like; of others the halves share no name
# gpt-oss writes its reasoning and its answer into channels, the last of which is `final`.
_CHANNEL = re.compile(r"<\|channel\|>\s?(\w{0,20})")
_BEFORE_CHANNEL = re.compile(r"\s*(?:<\|start\|>\s?(?:assistant)?\s*)?")
_AFTER_CHANNEL = re.compile(r"<\|end\|>\s?(?:<\|start\|>\s?(?:assistant)?)?\s?\Z")
_LONGEST_CHANNEL_END = 40


def schema(variable: str) -> str:
    """The JSON schema (its text) of a verdict on r, a or t, for engines that hold the output to one."""
    verdict = {"type": "string", "enum": ["yes", "no"], "description": _ASKED[variable]}
    return json.dumps(
        {
            "type": "object",
            "properties": {"verdict": verdict},
            "required": ["verdict"],
            "additionalProperties": False,
        }
    )


def parse_verdict(
    text: str, format: str = WORD, finish_reason: str | None = None, variable: str = "", reasoning: str | None = None
) -> int | None:
    """1 for yes, 0 for no, None where the output holds no verdict in this format (see the module).

    finish_reason: as the engine gave it. reasoning: what a server kept apart of the output.
    """
    cut = finish_reason in _CUT
    answer = _outside_reasoning(text, format, reasoning, cut)
    if answer is None:
        return None
    if format == WORD:
        return _word(answer, cut, text[-1:].isspace())
    if cut:
        return None
    meanings = _T_MEANINGS if variable == "t" else _MEANINGS
    if format == LINE:
        return _line(answer, meanings)
    return _json(answer, meanings, ("verdict", "correct") if variable == "t" else ("verdict",))


def _outside_reasoning(text: str, format: str, reasoning: str | None, cut: bool) -> str | None:
    """What was written besides reasoning; None where it cannot be told apart."""
    if "<|channel|>" in text:
        return _final_channel(text, format, reasoning, cut)
    tags = list(TAGS.finditer(text))
    if not tags:
        return clean(text, (), reasoning).answer
    kinds = [tag.lastgroup for tag in tags]
    begins = not text[: tags[0].start()].strip()
    alone = [_alone(text, tag) for tag in tags]
    if (kinds == ["open", "close"] and begins and _pair(*tags)) or (kinds == ["close"] and (begins or alone[0])):
        # A closing tag that is quoted within the reasoning shows as such only by the one that follows.
        cleaned = clean(text)
        return None if cut and format == WORD and cleaned.reasoning else clean(text, (), reasoning).answer
    # Tags within lines are quoted; where a verdict is the first word, it is open whether they are.
    quoted = format != WORD and not begins and not any(alone)
    return text if quoted else None


def _final_channel(text: str, format: str, reasoning: str | None, cut: bool) -> str | None:
    """What stands in the one channel `final`, which must be the last; None where channels may be quoted."""
    channels = list(_CHANNEL.finditer(text))
    first = channels[0].start()
    if not _BEFORE_CHANNEL.fullmatch(text, 0, first):
        if format == WORD:
            return None
        if _AFTER_CHANNEL.search(text, max(0, first - _LONGEST_CHANNEL_END), first) is None:
            return text
        # The chat template wrote the beginning of the channel before.
    names = [channel.group(1).lower() for channel in channels]
    if names.count("final") != 1 or names[-1] != "final" or (cut and format == WORD):
        return None
    return clean(text, (), reasoning).answer


def _pair(opening: re.Match[str], closing: re.Match[str]) -> bool:
    """Whether a closing tag may belong to an opening one: of `<think>` only `</think>`."""
    first, last = _TAG_NAME.match(opening.group()), _TAG_NAME.match(closing.group())
    if first is None or last is None:
        return first is last
    return first.group(1).lower() == last.group(1).lower()


def _alone(text: str, tag: re.Match[str]) -> bool:
    before, after = text[: tag.start()].rpartition("\n")[2], text[tag.end() :].partition("\n")[0]
    return not before.strip() and not after.strip()


def _word(text: str, cut: bool, ended: bool) -> int | None:
    """ended: whether a blank after the text shows that its last word is whole."""
    said = plain(text)
    match = _FIRST_WORD.match(said)
    if match is None:
        return None
    rest = said[match.end() :]
    if cut and _may_go_on(rest, ended):
        return None
    other = _OTHER_WORD.match(rest)
    if other is not None and other.group(1) != match.group(1):
        return None
    return _MEANINGS[match.group(1)]


def _may_go_on(rest: str, ended: bool) -> bool:
    """Whether the cut end after a first word leaves open what that word or its verdict would have become."""
    words = _NO_WORD.sub(" ", rest).strip()
    if rest in ("", "-", "'"):
        return not ended
    return words in ("and", "or") or (not words and ("/" in rest or "|" in rest))


def _line(text: str, meanings: dict[str, int]) -> int | None:
    lines = [line for line in map(plain, re.split(r"\r\n|\r|\n", text)) if re.search(r"[^\W_]", line)]
    found = [_verdict_of(line, meanings, alone=len(lines) == 1) for line in lines]
    said = {verdict for verdict in found if verdict is not None}
    return found[-1] if len(said) == 1 else None


def _verdict_of(line: str, meanings: dict[str, int], alone: bool) -> int | None:
    match = _LINE.fullmatch(" ".join(_ORNAMENTS.sub(" ", line).split()))
    return meanings.get(match.group(2)) if match is not None and (match.group(1) or alone) else None


def _json(text: str, meanings: dict[str, int], keys: tuple[str, ...]) -> int | None:
    try:
        # An object comes back as the list of its pairs, so that keys given twice are seen.
        pairs = json.loads(_unfenced(text.strip()), object_pairs_hook=_Pairs, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    if not isinstance(pairs, _Pairs):
        return None
    said = {_meaning(value, meanings) for key, value in pairs if plain(key) in keys}
    return said.pop() if len(said) == 1 else None


def _unfenced(text: str) -> str:
    first, _, rest = text.partition("\n")
    return rest[:-3] if first.strip().lower() in ("```", "```json") and rest.endswith("```") else text


class _Pairs(list[tuple[str, Any]]):
    """A JSON object's keys and values as they stand there; a JSON list is a plain list."""


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _meaning(value: Any, meanings: dict[str, int]) -> int | None:
    if isinstance(value, bool):
        return int(value)
    return meanings.get(plain(value)) if isinstance(value, str) else None
