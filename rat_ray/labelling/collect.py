"""What came back from annotators: checked against the run, and joined with the labels that were there before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from rat_ray.annotate.people import Judgement, join, judgements, label_text, people_table
from rat_ray.annotate.people_files import PeopleFile
from rat_ray.errors import InputError
from rat_ray.labelling.run import Place

_SHOWN = 5  # places named in one message
_CHANGEABLE = re.compile(r"[^a-z0-9]")  # by a code page, a spreadsheet or an editor
_COMPARED = 300  # letters and digits of a question


@dataclass
class Counts:
    """What was found, per variable."""

    read: Counter[str] = field(default_factory=Counter)
    blank: Counter[str] = field(default_factory=Counter)
    unsure: Counter[str] = field(default_factory=Counter)
    doubled: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)
    same: Counter[str] = field(default_factory=Counter)
    replaced: Counter[str] = field(default_factory=Counter)


class Collected(NamedTuple):
    """table: all labels, with the schema tables.PEOPLE, new ones last. notes: in words, what a reader must know."""

    table: pa.Table
    counts: Counts
    notes: list[str]


def collect(
    files: Sequence[PeopleFile],
    known: Mapping[tuple[str, str], Place],
    questions: Mapping[tuple[str, str], str],
    before: Sequence[Judgement],
    annotator: str,
    replace: bool,
    now: str,
) -> Collected:
    """known: the run's items, by variable and item. questions: their questions' texts, as far as they are known.
    before: the labels that are there. annotator: who it was where no column says so; empty: the file's name. now: the
    time of labels that have none.

    Raises InputError for labels that contradict one another or, without replace, those that are there; for questions
    that stand beside another item; for files of which nothing belongs to the run.
    """
    _check_names(files, annotator)
    counts, notes = Counts(), [note for file in files for note in file.notes]
    found = [one for file in files for one in judgements(file, annotator)]
    counts.read.update(one.variable for one in found)
    unknown = [one for one in found if (one.variable, one.item) not in known]
    counts.unknown.update(one.variable for one in unknown)
    if unknown:
        notes.append(f"{len(unknown)} items are not in this run, and were left out: {_places(unknown)}")
    if found and len(unknown) == len(found):
        raise InputError(
            f"{unknown[0].place}: {unknown[0].item!r:.80} is not in the run, and nor is any other; were the items "
            "exported from another run? An answer that was generated anew is another item"
        )
    _check_questions([one for one in found if (one.variable, one.item) in questions], questions)
    ours = [one for one in found if (one.variable, one.item) in known]
    counts.blank.update(one.variable for one in ours if not one.answered)
    joined = join(one for one in ours if one.answered)
    counts.doubled.update(one.variable for one in joined.doubled)
    if joined.doubled:
        notes.append(f"{len(joined.doubled)} labels were given twice, and count once: {_places(joined.doubled)}")
    skipped = sum(file.skipped for file in files)
    if skipped:
        notes.append(f"{skipped} cancelled annotations of Label Studio were left out")
    merged = {one.key: one for one in before}
    _check_overwrites(joined.judgements, merged, replace)
    for key, one in joined.judgements.items():
        counts.unsure[one.variable] += one.label is None
        old = merged.get(key)
        kind = (
            counts.new
            if old is None or old.label is None
            else counts.same
            if old.label == one.label
            else counts.replaced
        )
        kind[one.variable] += one.label is not None or kind is counts.replaced
        if old is None or old.label != one.label:
            place = known[one.variable, one.item]
            merged[key] = one._replace(question_id=place.question_id, time=one.time or now)
        elif one.comment and one.comment not in (old.comment or ""):
            merged[key] = old._replace(comment="\n".join(filter(None, (old.comment, one.comment))))
    notes += _similar_names(merged)
    return Collected(people_table(merged.values()), counts, notes)


def _check_names(files: Sequence[PeopleFile], annotator: str) -> None:
    """Two files that would give one name are hardly by one person."""
    if annotator.strip():
        return
    unnamed: dict[str, str] = {}
    for file in files:
        if all(row.cells.get("annotator", "").strip() for row in file.rows):
            continue
        other = unnamed.setdefault(file.name, file.path)
        if other != file.path:
            raise InputError(
                f"{other} and {file.path}: both would be the labels of {file.name!r}; fill in the column annotator, "
                "rename a file after its annotator, or import one after the other with annotator=NAME"
            )


def _check_questions(found: Sequence[Judgement], questions: Mapping[tuple[str, str], str]) -> None:
    """A spreadsheet that was sorted by some of its columns gives every label to another item."""
    every = set(questions.values())
    for one in found:
        question = questions[one.variable, one.item]
        # Code pages leave nothing of some scripts to compare; a question of another item is another question.
        moved = one.question != question and one.question in every
        if one.question and (moved or _letters(one.question) != _letters(question)):
            raise InputError(
                f"{one.place}: the question beside {one.item} is {one.question!r:.80}, and not {question!r:.80}; were "
                "some columns sorted without the others? Take the column question out to import it all the same"
            )


def _letters(text: str) -> str:
    return _CHANGEABLE.sub("", text.lower())[:_COMPARED]


def _check_overwrites(
    new: Mapping[tuple[str, str, str], Judgement], old: Mapping[tuple[str, str, str], Judgement], replace: bool
) -> None:
    others = [one for key, one in new.items() if key in old and old[key].label not in (None, one.label)]
    if others and not replace:
        first = others[0]
        raise InputError(
            f"{first.place}: {first.annotator} says {label_text(first.label)} of {first.variable} of {first.item}, and "
            f"the labels that are there say {label_text(old[first.key].label)}; {len(others)} labels are there with "
            "another value: replace=true replaces them; if another person labelled now, give annotator=NAME. Nothing "
            "was written"
        )


def _similar_names(keys: Mapping[tuple[str, str, str], Judgement]) -> list[str]:
    spelt: dict[str, set[str]] = {}
    for *_, name in keys:
        spelt.setdefault(name.casefold(), set()).add(name)
    return [
        f"{' and '.join(map(repr, sorted(names)))} count as {len(names)} annotators"
        for _, names in sorted(spelt.items())
        if len(names) > 1
    ]


def _places(found: Sequence[Judgement]) -> str:
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(one.place for one in found[:_SHOWN]) + more
