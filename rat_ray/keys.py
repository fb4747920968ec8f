"""Settings and content as hashes: what a stage's key is made of."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

# Made once: `json.dumps` with options makes an encoder at every call, which labels feel, at three digests a row.
_encode: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


def key_of(settings: Any) -> Any:
    """The JSON form of settings, without the fields that say only where or how fast work runs."""
    if dataclasses.is_dataclass(settings) and not isinstance(settings, type):
        kept = (f for f in dataclasses.fields(settings) if f.metadata.get("key", True))
        return {f.name: key_of(getattr(settings, f.name)) for f in kept}
    if isinstance(settings, Mapping):
        return {str(name): key_of(value) for name, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [key_of(value) for value in settings]
    if settings is None or isinstance(settings, str | int | float | bool):
        return settings
    raise TypeError(f"settings may not hold a {type(settings).__name__}")


def digest_of(content: Any) -> str:
    """The hash of a JSON-like value, independent of the order of its keys."""
    return hashlib.sha256(_encode(content).encode()).hexdigest()[:32]
