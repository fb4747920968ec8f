"""Checks that the settings and rows of several datasets share."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from rat_ray.errors import InputError, did_you_mean


def check_name(name: str) -> None:
    """Raises InputError for a name that cannot be part of a configuration's name."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name) or name.isdigit():
        raise InputError(f"dataset.name={name!r}: use letters, digits, '_', '.', '-', and not digits only")


def check_limit(limit: int) -> None:
    """Raises InputError for a negative number."""
    if limit < 0:
        raise InputError(f"dataset.limit={limit}: give how many questions to keep, or 0 for all")


def check_choice(key: str, value: str, choices: Sequence[str]) -> None:
    """Raises InputError for a value that is none of the choices."""
    if value not in choices:
        raise InputError(f"{key}={value!r}: unknown{did_you_mean(value, [choice for choice in choices if choice])}")


def is_text(value: object) -> bool:
    """Whether a value of JSON, or a text, can be written as UTF-8: a lone surrogate cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
