"""How many tokens a prompt takes: asked of the server where it can tell, else estimated so that it is rather too many.

vLLM and SGLang tokenise prompts (and vLLM messages) at `/tokenize` beside `/v1`; llama.cpp at the same place under
other names, and messages in two steps. Hosted APIs have nothing of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from rat_ray.errors import InputError
from rat_ray.generate.engine import CHAT, Prompt
from rat_ray.generate.server_api import Model, asked, lacks_template
from rat_ray.generate.server_http import Http, together
from rat_ray.generate.server_pace import Pace
from rat_ray.generate.server_reply import LOST, GoneError, Reply

AT_ONCE: Final = 16  # requests; beside those for completions, which take much longer
_RETRIES_OF_A_LOOK: Final = 2  # some gateways answer 5xx to a path that they do not know
_CHAT_MARKS: Final = (
    24  # tokens that a chat template adds, where the server cannot tell: about 5 per message and a start
)
_PROBE: Final = Prompt("How many tokens?")
_WORDS: Final = re.compile(r"[A-Za-z]+")
_FREE: Final = re.compile(r"[A-Za-z]+| (?=[!-~])")  # words, and the blank before each, which is a part of its token
_FOUR_BYTES: Final = re.compile("[\U00010000-\U0010ffff]")

Counter = Callable[[Prompt], Coroutine[Any, Any, int]]


class TokenCounter:
    """Finds out at its first use what the server can tell, and keeps to it.

    Raises: InputError for a chat model without a chat template, GoneError for a server that is gone.
    """

    def __init__(self, http: Http, model: Model, root: str) -> None:
        self._http = http
        self._model = model
        self._root = root
        self._pace = Pace(AT_ONCE)
        self._way: Counter | None = None

    async def find(self) -> None:
        """Try the ways on a short prompt, the exact ones first."""
        if self._way is None:
            self._way = await self._found()

    @property
    def exact(self) -> bool:
        """Whether the server tells."""
        return self._way not in (None, self._estimated)

    async def count(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokens of each prompt, the start token and the chat template's own included."""
        await self.find()
        assert self._way is not None
        if self._way == self._estimated:
            return [self._estimate(prompt) for prompt in prompts]
        return await together([self._counted(self._way, prompt) for prompt in prompts])

    async def _counted(self, way: Counter, prompt: Prompt) -> int:
        try:
            return await way(prompt)
        except _CannotTellError:  # some refuse what is too long for the model
            return self._estimate(prompt)

    async def _found(self) -> Counter:
        if self._model.mode != CHAT:
            return self._plain if await self._works(self._plain) else self._estimated
        for way in (self._messages, self._templated, self._marked):
            if await self._works(way):
                return way
        return self._estimated

    async def _works(self, way: Counter) -> bool:
        try:
            return await way(_PROBE) > 0
        except _CannotTellError:
            return False

    async def _messages(self, prompt: Prompt) -> int:
        """vLLM's: the messages as its template renders them."""
        body = asked(self._model, prompt) | self._options | {"add_generation_prompt": True}
        return await self._tokens(body)

    async def _templated(self, prompt: Prompt) -> int:
        """llama.cpp's: first the template, then the tokens."""
        reply = await self._post("/apply-template", asked(self._model, prompt) | self._options)
        text = reply.content.get("prompt")
        if not isinstance(text, str):
            raise _CannotTellError
        return await self._tokens(_text_body(text))

    async def _marked(self, prompt: Prompt) -> int:
        return await self._plain(prompt) + _CHAT_MARKS

    async def _plain(self, prompt: Prompt) -> int:
        return await self._tokens(_text_body(prompt.whole))

    async def _estimated(self, prompt: Prompt) -> int:
        return self._estimate(prompt)

    def _estimate(self, prompt: Prompt) -> int:
        return estimate(prompt.whole) + (_CHAT_MARKS if self._model.mode == CHAT else 0)

    @property
    def _options(self) -> dict[str, Any]:
        options = self._model.chat_options
        return {"chat_template_kwargs": dict(options)} if options else {}

    async def _tokens(self, body: Mapping[str, Any]) -> int:
        content = (await self._post("/tokenize", body)).content
        count, tokens = content.get("count"), content.get("tokens")
        if isinstance(count, int) and count > 0:
            return count
        if isinstance(tokens, list) and tokens:
            return len(tokens)
        raise _CannotTellError

    async def _post(self, path: str, body: Mapping[str, Any]) -> Reply:
        named = {"model": self._model.name, **body}
        retries = _RETRIES_OF_A_LOOK if self._way is None else None
        reply = await self._http.ask(path, lambda: named, self._pace, retries, base=self._root)
        if reply.status == 200:
            return reply
        if reply.status == LOST:
            raise GoneError(f"{self._http}: no answer after {reply.tries} tries ({reply.reason})")
        if self._model.mode == CHAT and lacks_template(reply):
            raise InputError(no_template(self._model, reply))
        if self._way is not None and reply.passing:
            raise GoneError(f"{self._http}: tokens could not be counted after {reply.tries} tries ({reply.reason})")
        raise _CannotTellError


class _CannotTellError(Exception):
    """The server does not count tokens in this way."""


def no_template(model: Model, reply: Reply) -> str:
    """What to do about a model without a chat template."""
    return f"model {model.name!r} has no chat template; set mode: completion, with a prompt set for it ({reply.reason})"


def estimate(text: str) -> int:
    """Tokens of a text, rather too many: three Latin letters a token, one for each digit, sign and line break.

    Of other scripts: one per character of two bytes in UTF-8 (letters with accents, Greek, Cyrillic, Arabic, Hebrew),
    two per character of three (Chinese, Japanese, Korean, Thai, Indian scripts), four for an emoji. That is about 1.4
    times what Gemma's and Llama's tokenizers make of English, up to 4 times what they make of Russian.
    """
    words = sum((len(word) + 2) // 3 for word in _WORDS.findall(text))
    rest = _FREE.sub("", text)
    if rest.isascii():
        return 1 + words + len(rest)
    plain = len(rest.encode("ascii", "ignore"))
    others = len(rest.encode("utf-8", "surrogatepass")) - len(rest)  # bytes - 1 of each character beyond ASCII
    return 1 + words + plain + others + len(_FOUR_BYTES.findall(rest))


def _text_body(text: str) -> dict[str, Any]:
    """One request for both: vLLM and SGLang read the first two fields, llama.cpp the others."""
    return {
        "prompt": text,
        "add_special_tokens": True,
        "content": text,
        "add_special": True,
        "parse_special": True,
    }
