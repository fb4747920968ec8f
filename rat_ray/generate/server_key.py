"""The key of a server, which is sent and never shown, and the proxy on the way to it."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import re
import urllib.parse
import urllib.request
from typing import Final

from rat_ray.errors import InputError

_SHORTEST: Final = 8  # characters; what is shorter ("EMPTY", "none") is no secret, and words of answers may be it
_NAMED: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}


class Key:
    """A key from the environment, which knows every spelling in which it must not be shown.

    Local servers are often given a word such as `EMPTY`: a key of fewer than 8 characters is not looked for.
    """

    __slots__ = ("_bytes", "_pattern", "headers")

    def __init__(self, variable: str) -> None:
        key = os.environ.get(variable, "").strip() if variable else ""
        if variable and not key:
            raise InputError(
                f"server.key_variable={variable!r}: no such environment variable here, or it is empty; export "
                f"{variable}=… wherever the job runs"
            )
        if not key.isascii() or not key.isprintable() or " " in key:
            raise InputError(f"the key in ${variable} holds characters that no key has (blanks, line breaks, …)")
        self.headers: dict[str, str] = {"Authorization": f"Bearer {key}"} if key else {}
        secret = key if len(key) >= _SHORTEST else ""
        encoded = base64.b64encode(secret.encode()).decode()
        plain = (secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/"), encoded)
        self._bytes = tuple(dict.fromkeys(one.encode() for one in plain if one))
        spelt = "".join(_spellings(character) for character in secret)
        self._pattern = re.compile(f"{spelt}|{re.escape(encoded)}", re.IGNORECASE) if secret else None

    def __repr__(self) -> str:
        return "Key(***)"

    def hidden(self, text: str) -> str:
        """The text with `***` for the key, however its characters are escaped."""
        return self._pattern.sub("***", text) if self._pattern else text

    def hidden_bytes(self, body: bytes) -> bytes:
        """The same for a body: a key that a server repeats in an answer must get into no table."""
        for spelling in self._bytes:
            body = body.replace(spelling, b"***")
        return body


def _spellings(character: str) -> str:
    """A pattern of a character as it is, after a backslash, and as URLs, JSON and HTML may write it."""
    code = ord(character)
    forms = [rf"\\*{re.escape(character)}", f"%{code:02x}", rf"\\+u{code:04x}", f"&#x0*{code:x};", f"&#0*{code};"]
    return f"(?:{'|'.join([*forms, *([_NAMED[character]] if character in _NAMED else [])])})"


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address; None for a server on this machine."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    if host == "localhost" or _is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    found = urllib.request.getproxies()
    return found.get(parts.scheme) or found.get("all")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
