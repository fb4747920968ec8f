"""What came back from a server with OpenAI's API, and its errors in the forms that the several servers have."""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rat_ray.errors import StageError

LOST: Final = 0  # in place of an HTTP status: no answer came
BUSY: Final = (429, 503)  # the whole engine waits
AWAY: Final = (LOST, 502, 503, 504)  # the server, or the one behind a gateway, may be gone
CERTIFICATE: Final = -1  # in place of an HTTP status: the server is not the one that it says to be
UNREADABLE: Final = 599  # in place of 200: a body that is no JSON object
_MAYBE_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")  # surrogates, escaped or as bytes


class GoneError(StageError):
    """The server answers nobody, after all retries."""


class Reply(NamedTuple):
    """What came back. content: the parsed JSON object, {} if there was none. reason: in words, without the key.

    status: the HTTP status, that inside a 200 which holds an error, or one of this module's own.
    wait: for how many seconds the server asks to be left alone. tries: how often it was asked, for the first time
    at began. sent: the last body.
    """

    status: int
    content: Mapping[str, Any]
    reason: str = ""
    wait: float | None = None
    refused: bool = False  # nobody listens there
    tries: int = 1
    began: float = 0.0
    sent: Mapping[str, Any] = {}

    @property
    def passing(self) -> bool:
        """Whether another try may help."""
        return self.status == LOST or self.status in (408, 409, 429) or (self.status >= 500 and self.status != 501)


def message(content: Mapping[str, Any]) -> str:
    """A server's own words about an error: OpenAI's, vLLM's, llama.cpp's and FastAPI's forms. "": none."""
    error = content.get("error")
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("code") or error.get("type")
    if error:
        return str(error)
    detail = content.get("detail")
    if isinstance(detail, list):
        return "; ".join(_field_error(one) for one in detail)
    return str(detail or content.get("message") or "")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds for which a server asks to be left alone: given as milliseconds, seconds or a date; None: not said."""
    for name, scale in (("Retry-After-Ms", 0.001), ("Retry-After", 1.0)):
        value = headers.get(name, "").strip()
        try:
            return max(0.0, float(value) * scale)
        except ValueError:
            pass
    try:
        date = email.utils.parsedate_to_datetime(headers.get("Retry-After", ""))
    except ValueError:
        return None
    return max(0.0, date.timestamp() - time.time())


def _field_error(one: Any) -> str:
    if not isinstance(one, Mapping):
        return str(one)
    place = one.get("loc")
    where = ".".join(map(str, place)) if isinstance(place, list) else ""
    return f"{where}: {one.get('msg', '')}"


def json_object(body: bytes) -> Mapping[str, Any] | None:
    """The parsed object, or None where the body is none. Half a character, as of a cut emoji, becomes U+FFFD: no table
    could hold it."""
    try:
        content = json.loads(body)
        if _MAYBE_HALF.search(body):
            whole = (
                json.dumps(content, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            )
            content = json.loads(whole)
    except (ValueError, RecursionError):  # bytes that are no text raise a ValueError too
        return None
    return content if isinstance(content, dict) else None


def error_code(content: Mapping[str, Any]) -> int | None:
    """The status inside an error that came with 200, as gateways send it."""
    error = content.get("error")
    if not isinstance(error, Mapping):
        return None
    code = error.get("code")
    return code if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600 else None


def plain(body: bytes) -> str:
    """The beginning of a page or text, without its tags."""
    return re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", body[:5000].decode("utf-8", "replace"), flags=re.S | re.I)
