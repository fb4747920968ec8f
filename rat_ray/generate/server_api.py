"""What OpenAI's API calls things: requests from prompts, completions from replies, and what a server does not take."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rat_ray.generate.engine import CHAT, Completion, Prompt, Sampling
from rat_ray.generate.server_reply import CERTIFICATE, Reply

# Parts of a request that some server or model refuses, each with how its refusal may call it.
_OPTIONAL: Final = {
    "max_tokens": ("max_tokens",),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "seed": ("seed",),
    "stop": ("stop",),
    "json_schema": ("json_schema",),
    "response_format": (
        "response_format",
        "json_schema",
        "structured output",
        "structured outputs",
        "grammar",
        "guided",
    ),
    "chat_template_kwargs": ("chat_template_kwargs",),
}
SYSTEM: Final = "system"
_NOT_TAKEN: Final = re.compile(
    r"unsupported|not support|n't support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|not available|"
    r"invalid (?:parameter|argument|field|schema)|extra (?:inputs|fields)|not implemented|only the default|instead",
    re.IGNORECASE,
)
_TOO_LONG: Final = re.compile(
    r"context (?:length|size|window)|too (?:large|long|many)|exceed|(?:maximum|at most) .*tokens", re.IGNORECASE
)
_NO_TEMPLATE: Final = re.compile(
    r"chat template (?:is|was)? ?(?:not|missing|no longer)|(?:no|without a|provide a|have a|set a?) chat.template|"
    r"default chat template|not support (?:the )?chat|chat completions? (?:api )?(?:is|are) not|not a chat model",
    re.IGNORECASE,
)
_NO_SYSTEM: Final = re.compile(
    r"system (?:role|message|prompt)s? (?:is |are )?not supported|n't support system", re.IGNORECASE
)
_MODERATED: Final = re.compile(
    r"moderation|flagged|content.(?:filter|policy|management)|safety|policy violation", re.IGNORECASE
)


class Model(NamedTuple):
    """What is asked: the name that the server knows it by, the mode, and what goes to its chat template."""

    name: str
    mode: str
    chat_options: Mapping[str, Any]

    @property
    def path(self) -> str:
        return "/chat/completions" if self.mode == CHAT else "/completions"


def request(model: Model, prompt: Prompt, sampling: Sampling, refused: Collection[str]) -> dict[str, Any]:
    """The body of a request, without what the server has refused before."""
    body: dict[str, Any] = {
        "model": model.name,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "seed": sampling.seed,
    }
    if sampling.top_p != 1:  # what every server does without being told
        body["top_p"] = sampling.top_p
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.schema:
        schema = json.loads(sampling.schema)
        named = {"name": "verdict", "strict": True, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
        if model.mode != CHAT:
            body["json_schema"] = schema  # llama.cpp's completions look for it here
    if model.chat_options and model.mode == CHAT:
        body["chat_template_kwargs"] = dict(model.chat_options)
    for name in refused:
        body.pop(name, None)
    if "max_tokens" in refused:
        body["max_completion_tokens"] = sampling.max_tokens
    return body | asked(model, prompt, SYSTEM not in refused)


def asked(model: Model, prompt: Prompt, system: bool = True) -> dict[str, Any]:
    """The prompt as the API wants it. system: whether the system's part may be a message of its own."""
    if model.mode != CHAT:
        return {"prompt": prompt.whole}
    if not prompt.system or not system:
        return {"messages": [{"role": "user", "content": prompt.whole}]}
    return {"messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.text}]}


def refusal(reply: Reply) -> str | None:
    """The part of the request that this 400 or 422 refuses, if it is one that can be left out or named otherwise."""
    if reply.status not in (400, 422, 501) or _TOO_LONG.search(reply.reason):
        return None
    body = reply.sent
    if len(body.get("messages", ())) > 1 and _NO_SYSTEM.search(reply.reason):
        return SYSTEM
    error = reply.content.get("error")
    parameter = str(error.get("param") or "") if isinstance(error, Mapping) else ""
    # The schema has so many ways to be wrong for a server that naming it is enough.
    present = [name for name in _OPTIONAL if name in body]
    present = [name for name in present if name == "response_format" or _NOT_TAKEN.search(reply.reason)]
    named = [name for name in present if parameter.partition(".")[0] == name]
    return next(iter(named or [name for name in present if _mentions(reply.reason, _OPTIONAL[name])]), None)


def _mentions(reason: str, words: Sequence[str]) -> bool:
    return any(re.search(rf"\b{word}\b", reason, re.IGNORECASE) for word in words)


def lacks_template(reply: Reply) -> bool:
    """Whether the reply says that the model cannot chat."""
    return reply.status in (400, 404, 422, 500, 501) and bool(_NO_TEMPLATE.search(reply.reason))


def concerns_all(reply: Reply) -> bool:
    """Whether the reply would be the same for every prompt: the key, the address or the model is wrong."""
    if reply.status == 403 and _MODERATED.search(reply.reason):
        return False
    return reply.status in (CERTIFICATE, 401, 402, 403, 404, 405, 407) or 300 <= reply.status < 400


def failed(error: str, finish_reason: str | None = None) -> Completion:
    """A row's error."""
    return Completion(None, finish_reason, None, None, error)


def completion(content: Mapping[str, Any], mode: str) -> Completion:
    """The completion in a reply with status 200; an error where there is no text in it. Never raises."""
    usage = content.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    tokens = (_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))
    choices = content.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping):
        return Completion(None, None, *tokens, "the server's reply holds no choice")
    finish = choice.get("finish_reason")
    finish = str(finish) if finish is not None else None
    if choice.get("error"):
        return Completion(None, finish, *tokens, f"the server's reply holds an error: {str(choice['error'])[:300]}")
    text, reasoning, refused = _said(choice, mode)
    error = _missing(text, reasoning, refused, finish)
    return Completion(None if error else text, finish, *tokens, error, reasoning)


def _said(choice: Mapping[str, Any], mode: str) -> tuple[str | None, str | None, str | None]:
    """The text, the reasoning, and the words of a refusal that stands in place of a text."""
    if mode != CHAT:
        text = choice.get("text")
        return text if isinstance(text, str) else None, _text(choice, "reasoning_content", "reasoning"), None
    said = choice.get("message")
    if not isinstance(said, Mapping):
        return None, None, None
    text = said.get("content")
    reasoning = _text(said, "reasoning_content", "reasoning")
    if isinstance(text, list):
        parts = [part for part in text if isinstance(part, Mapping)]
        thoughts = [_flat(part.get("thinking")) for part in parts if part.get("type") == "thinking"]
        reasoning = reasoning or "".join(thoughts) or None
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str) and part.get("type") != "thinking"]
        text = "".join(texts) if texts else None
    return text if isinstance(text, str) else None, reasoning, _text(said, "refusal")


def _missing(text: str | None, reasoning: str | None, refused: str | None, finish: str | None) -> str | None:
    """Why there is no answer; None if there is one. An empty text is one only where the model chose to say nothing."""
    if text:
        return None
    if refused:
        return f"the model refused: {refused[:300]}"
    if finish == "content_filter":
        return "the server's content filter took the answer"
    if finish == "length":
        where = "inside its reasoning" if reasoning else "before any text"
        return f"the output ended {where}; raise max_tokens"
    if text == "" and finish is not None and finish != "error":
        return None
    return f"the server's reply holds no text (finish_reason {finish})"


def _text(source: Mapping[str, Any], *names: str) -> str | None:
    found = (source.get(name) for name in names)
    return next((text for text in found if isinstance(text, str) and text), None)


def _flat(part: Any) -> str:
    """A thinking part: a text, or a list of parts with texts."""
    if isinstance(part, str):
        return part
    texts: Sequence[Any] = part if isinstance(part, list) else ()
    return "".join(str(one.get("text", "")) for one in texts if isinstance(one, Mapping))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None
