"""The jobs of a command: which go together, where each wrote, and which configurations failed and why."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rat_ray.errors import InputError, StageError, masked
from rat_ray.progress import console


class Failed(NamedTuple):
    """A configuration without results. bad_input: the data or settings are wrong. early: found before any work."""

    name: str
    message: str
    bad_input: bool
    early: bool = False

    @classmethod
    def by(cls, name: str, error: Exception, early: bool = False) -> Failed:
        """The failure that an exception means."""
        return cls(masked(name), masked(str(error)), isinstance(error, InputError), early)


class Outcome(NamedTuple):
    """One job. out: where its results are; "": there are none. configurations: how many it had."""

    out: str
    failed: tuple[Failed, ...] = ()
    configurations: int = 1

    @property
    def error(self) -> Exception:
        """What to raise where a job must fail as a whole."""
        return (InputError if exit_code([self]) == 2 else StageError)(complaint([self]))


def failures(outcomes: Sequence[Outcome]) -> list[Failed]:
    """Of all jobs."""
    return [failed for outcome in outcomes for failed in outcome.failed]


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0: all is well. 2: everything that failed was bad input, found before any work (or by a job that did nothing
    else). 1: something failed at work."""
    found = failures(outcomes)
    if not found:
        return 0
    alone = len(outcomes) == 1 and not outcomes[0].out
    return 2 if all(failed.bad_input and (failed.early or alone) for failed in found) else 1


def complaint(outcomes: Sequence[Outcome]) -> str:
    """What failed, for stderr; "" where nothing did. Where all failed for one reason it is that, and no more."""
    found, total = failures(outcomes), _total(outcomes)
    if not found:
        return ""
    if _one_reason(outcomes):
        return found[0].message
    return f"{_counted(found, total)}, the first is {found[0].name}: {found[0].message}"


def print_refused(outcomes: Sequence[Outcome], others: int) -> None:
    """What was refused before any work, at once on stderr: the others of a sweep may take hours."""
    if not others:
        return
    for failed in failures(outcomes):
        reason = failed.message.strip().splitlines()[0]
        print(f"refused, the other jobs go on: {failed.name}: {reason}", file=sys.stderr, flush=True)


def print_failures(outcomes: Sequence[Outcome]) -> None:
    """The configurations that failed, a line each, under the tables of those that did not."""
    found = failures(outcomes)
    if not found or _one_reason(outcomes):
        return
    screen = console()
    screen.print(f"{_counted(found, _total(outcomes))}:", highlight=False, markup=False, soft_wrap=True)
    for failed in found:
        reason = failed.message.strip().splitlines()[0]
        screen.print(f"  {failed.name}: {reason}", highlight=False, markup=False, soft_wrap=True)


def _one_reason(outcomes: Sequence[Outcome]) -> bool:
    """Whether nothing has results, and all for the same reason."""
    return not any(outcome.out for outcome in outcomes) and len({one.message for one in failures(outcomes)}) == 1


def _total(outcomes: Sequence[Outcome]) -> int:
    return sum(outcome.configurations for outcome in outcomes)


def _counted(found: Sequence[Failed], total: int) -> str:
    return f"{len(found)} of {total} configuration{'' if total == 1 else 's'} failed"


def check_folders(places: Sequence[str]) -> None:
    """Raise InputError where two jobs of a sweep would write to one folder or prefix."""
    counted = Counter(place if "://" in place else str(Path(place).expanduser().resolve()) for place in places)
    doubled = [place for place, count in counted.items() if count > 1]
    if doubled:
        raise InputError(
            f"{counted[doubled[0]]} jobs of this sweep would write to {doubled[0]}: is a value listed twice, or out= "
            "the same for all? Every job needs a folder of its own"
        )


def grouped(places: Mapping[int, Hashable]) -> list[list[int]]:
    """The jobs (by their numbers) of each place, in the order of their first."""
    found: dict[Hashable, list[int]] = {}
    for index, place in places.items():
        found.setdefault(place, []).append(index)
    return list(found.values())
