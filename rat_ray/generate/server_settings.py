"""How a server with OpenAI's API is reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rat_ray.errors import InputError, masked

_ENDPOINTS = ("/chat/completions", "/completions", "/models", "/chat")


@dataclass(frozen=True)
class ServerSettings:
    """url: up to and with `/v1`. key_variable: the environment variable that holds the key; "": none is sent.

    timeout: seconds for one request. retries: of a request that met 408, 409, 429, 5xx, a timeout or a lost connection.
    """

    url: str = field(default="", metadata={"key": False})
    key_variable: str = field(default="", metadata={"key": False})
    timeout: float = field(default=120.0, metadata={"key": False})
    retries: int = field(default=6, metadata={"key": False})

    def validate(self) -> None:
        """Raise InputError for what cannot reach a server. Asks none."""
        shown = masked(self.url)
        try:
            parts = urlsplit(self.url)
            _ = parts.port  # raises for a number that is none
        except ValueError as error:
            raise InputError(f"server.url={shown!r}: {error}") from None
        if "@" in parts.netloc:
            raise InputError(
                f"server.url={shown!r} holds a user or a key; put the key into an environment variable and name it in "
                "server.key_variable"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            example = f", e.g. http://{shown.rstrip('/')}" if shown and "://" not in shown else ""
            raise InputError(
                f"server.url={shown!r}: give the server's address with http:// or https://, up to /v1"
                f"{example or ', e.g. http://127.0.0.1:8000/v1'}"
            )
        if parts.query or parts.fragment:
            raise InputError(f"server.url={shown!r}: nothing may follow the path; give it up to /v1")
        for end in _ENDPOINTS:
            if parts.path.rstrip("/").endswith(end):
                raise InputError(f"server.url={shown!r}: leave out {end!r}; give the address up to /v1")
        if not 0 < self.timeout < float("inf"):
            raise InputError(f"server.timeout is {self.timeout}; it must be above 0 seconds")
        if self.retries < 0:
            raise InputError(f"server.retries is {self.retries}; it must be at least 0")

    @property
    def base(self) -> str:
        """The address without a slash at its end."""
        return self.url.rstrip("/")

    @property
    def root(self) -> str:
        """The address without `/v1`, where servers have what OpenAI's API has not."""
        return self.base.removesuffix("/v1")
