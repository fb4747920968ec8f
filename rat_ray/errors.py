"""The errors that a user can cause, and how their messages suggest a way on."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

# `://` as it is typed or as Hydra escapes it; then what stands before an `@` in the host's place. A key may hold
# slashes: where what looks like a host goes on with a colon and no port, all up to the last `@` is taken for it.
_CREDENTIALS = re.compile(r"(\\*:\\*/\\*/)(?:[^/\s]*@|[^/\s]*:(?!\d+(?:/|\s))[^\s]*@)")


class InputError(Exception):
    """Bad input: files, labels or settings. The message names the place, the value and what to do.

    The command line prints it without a traceback and exits with code 2.
    """


class StageError(Exception):
    """A stage could not finish: rows were lost, a worker failed for good, or a part does not match its schema."""


class MissingExtraError(InputError):
    """A library of an optional extra is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; install it with: pip install 'rat_ray[{extra}]'")


def masked(text: str) -> str:
    """The text with `***` for whatever stands before the `@` of an address: `s3://***@bucket/x`."""
    return _CREDENTIALS.sub(r"\1***@", text)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the closest known word, or a list of all of them when none is close."""
    choices = sorted(set(known))
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    if not close:
        lowered = {choice.lower(): choice for choice in choices}
        close = [lowered[match] for match in difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)]
    if close:
        return f" (did you mean {close[0]!r}?)"
    if not choices:
        return ""
    return f" (known: {', '.join(choices)})"


def did_you_mean_inside(word: str, known: Iterable[str], groups: Mapping[str, Iterable[str]]) -> str:
    """As `did_you_mean`, unless a group beside has a setting of just this name: then that one."""
    inside = sorted(f"{group}.{word}" for group, names in groups.items() if word in names)
    return f" (did you mean {' or '.join(map(repr, inside))}?)" if inside else did_you_mean(word, known)
