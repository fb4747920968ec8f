"""From a benchmark's drafts (questions with evidence as its owners give it) to a `Source` over one corpus.

    source = load_drafts(name, folder, settings.corpus, drafts, unmapped="missing", limit=0, numbering="fever")

reads the drafts, collects the ids and titles that they need, goes over the corpus once, maps, checks and digests.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray import tables
from rat_ray.datasets.checks import check_choice
from rat_ray.datasets.corpus import Corpus
from rat_ray.datasets.drafts import Draft, Needed
from rat_ray.datasets.evidence import MOST_SETS, Ids, any_of, by_numbers, by_texts, product, unique_sets
from rat_ray.datasets.lookup import Held, Lookup, Unmapped
from rat_ray.datasets.problems import UNMAPPED, Problems
from rat_ray.datasets.reading import RowError
from rat_ray.datasets.source import Source, combine, questions_digest_of
from rat_ray.datasets.titles import read_redirects
from rat_ray.datasets.wikipedia import CorpusSettings
from rat_ray.errors import InputError

__all__ = ["UNMAPPED_RULES", "Draft", "Mapper", "Needed", "check_unmapped", "load_drafts", "source_of"]

UNMAPPED_RULES: Final = ("missing", "drop")
FEW: Final = 5  # questions of which none is mapped by bad luck
_NO_NUMBERS: Final = (
    "pieces of evidence known by page only (the corpus has no such sentence numbers): any passage counts"
)


def check_unmapped(value: str, choices: tuple[str, ...] = UNMAPPED_RULES) -> None:
    """Raises InputError unless `dataset.unmapped` is one of the choices. For a benchmark's `validate`."""
    check_choice("dataset.unmapped", value, choices)


def load_drafts(
    name: str,
    folder: Path,
    corpus: CorpusSettings,
    drafts: Callable[[Problems], Iterable[Draft]],
    *,
    unmapped: str = "missing",
    limit: int = 0,
    numbering: str = "",
) -> Source:
    """The shared tail of every benchmark's `load`.

    name: settings.name. folder: of the dataset (from `resolve_folder`), which the corpus's file names are relative to.
    drafts: called once, with the Problems of this load: count what it leaves out in `problems.left_out[reason]`, other
    things worth a line in `problems.notes[what]`, and hand a `reading.RowError` for a broken row to
    `problems.broken(error)`, which raises it or, with on_error=skip, lists it and lets the reading go on
    (`Reader(path).records(problems.broken)` does so by itself). Ids that occur twice are found here.
    unmapped: what happens to a question with a piece of evidence that the corpus does not show. "missing": its evidence
    is unknown; "drop": the alternative sets that hold it are left out, while at least one is left. Counted and listed
    in either case.
    limit: keep the first n drafts; 0 keeps all. The rest are counted as "over the limit".
    numbering: the format of the dump that the drafts' sentence numbers count in ("fever", "hotpotqa", "kilt"). Over a
    corpus of another format numbers mean nothing: then texts decide, or without texts any passage of the page
    (counted in notes).

    The digests are of the contents (passages as read, questions as mapped), so no settings need to be given.
    Raises InputError for a broken row (on_error=stop), an id that occurs twice, an empty question, no question left.
    """
    check_unmapped(unmapped)
    corpus.validate()
    opened = corpus.open(folder)
    redirects_path = corpus.redirects_path(folder)
    problems = Problems(name, corpus.on_error)
    rows = _checked(drafts(problems), problems, limit)
    if not rows:
        reason = problems.last_error or dict(problems.left_out)
        raise InputError(f"dataset {name}: no question is left ({reason})")
    redirects = {}
    if redirects_path is not None:
        titles = {needed.title for needed in _pieces(rows) if needed.title}
        redirects = read_redirects(redirects_path, titles, problems.broken)
    lookup = Lookup(redirects)
    for needed in _pieces(rows):
        lookup.need(needed)
    count = opened.check(problems, lookup)
    mapper = Mapper(lookup, numbering != "" and opened.formats() == {numbering}, problems)
    evidence = [mapper.map(row, unmapped) for row in rows]
    return source_of(name, opened, count, rows, evidence, problems)


class Mapper:
    """Evidence as its owners give it to sets of passage ids, after the pass over the corpus.

    numbered: whether the sentence numbers of the drafts are those of the corpus.
    """

    def __init__(self, lookup: Lookup, numbered: bool, problems: Problems) -> None:
        self._lookup = lookup
        self._numbered = numbered
        self._problems = problems

    def map(self, draft: Draft, unmapped: str, among: Container[str] | None = None) -> list[list[str]] | None:
        """The question's evidence as tables.QUESTIONS has it.

        unmapped: "missing", "drop" or "stop"; see `load_drafts`, and "stop" raises InputError. Counts and lists.
        among: the passages that may be evidence for this question, where somebody has judged them; None: any.
        """
        if draft.evidence is None:
            return None
        sets: list[Ids] = []
        reasons: list[str] = []
        for needed in draft.evidence:
            try:
                sets += product([self._alternatives(piece, among) for piece in needed])
            except Unmapped as reason:
                reasons.append(str(reason))
        unique = [list(each) for each in unique_sets(sets)]
        if len(unique) > max(MOST_SETS, len(draft.evidence)):
            reasons.append(f"more than {MOST_SETS} alternative sets of passages")
            unique = []
        if not reasons:
            return unique
        told = "; ".join(dict.fromkeys(reasons))
        if unmapped == "stop":
            raise InputError(
                f"{draft.place}: question {draft.question_id!r}: its evidence cannot be found: {told}; add the corpus "
                "that holds it, or set dataset.unmapped=missing"
            )
        kept = unique if unmapped == "drop" and unique else None
        self._problems.unmapped(draft.place, draft.question_id, told, kept is None)
        return kept

    def _alternatives(self, needed: Needed, among: Container[str] | None) -> list[Ids]:
        held, by_id = self._lookup.find(needed)
        if among is not None and not by_id:
            held = [each for each in held if each.passage_id in among]
            if not held:
                raise Unmapped(f"no passage of {needed} is among those judged relevant")
        if needed.sentences and self._numbered:
            return by_numbers(held, needed.sentences)
        if needed.lost:
            raise Unmapped(needed.lost)
        if needed.texts:
            return self._with_texts(needed, held, by_id)
        if needed.sentences and len(held) > 1:
            self._problems.notes[_NO_NUMBERS] += 1
        return any_of(held)

    def _with_texts(self, needed: Needed, held: list[Held], by_id: bool) -> list[Ids]:
        """Sets of passages that hold the texts.

        A passage that the id names must hold them too: in a snapshot of another day the same number may be that of
        another passage of the page, which the title alone does not tell.
        """
        if not by_id or not needed.title:
            return by_texts(held, needed.texts)
        try:
            return by_texts(held, needed.texts)
        except Unmapped:
            others, _ = self._lookup.find(needed._replace(passage_id=""))
            return by_texts(others, needed.texts)


def source_of(
    name: str, corpus: Corpus, count: int, rows: list[Draft], evidence: list[list[list[str]] | None], problems: Problems
) -> Source:
    """The `Source` of these rows with their mapped evidence, over a corpus that was checked: `count` passages."""
    columns: dict[str, list[object]] = {
        field: list(evidence) if field == "evidence" else [getattr(row, field) for row in rows]
        for field in tables.QUESTIONS.names
    }
    _check_mapped(name, rows, evidence, problems)
    table = pa.table(columns, schema=tables.QUESTIONS)
    questions_digest = questions_digest_of(table)
    found = problems.table()
    return Source(
        name=name,
        digest=combine(corpus.digest, questions_digest),
        passages_digest=corpus.digest,
        questions_digest=questions_digest,
        num_passages=count,
        num_questions=table.num_rows,
        read_questions=lambda: table,
        stream=corpus.stream,
        left_out=dict(problems.left_out),
        notes=dict(problems.notes),
        problems=lambda: found,
    )


def _check_mapped(name: str, rows: list[Draft], evidence: list[list[list[str]] | None], problems: Problems) -> None:
    """Raises InputError where no question's evidence was found: another corpus, or its columns are mixed up."""
    given = [found for row, found in zip(rows, evidence, strict=True) if row.evidence]
    if len(given) < FEW or any(found is not None for found in given):
        return
    first = problems.table().filter(pc.field("kind") == UNMAPPED).slice(0, 1).to_pylist()
    example = "".join(f", e.g. {row['place']}: {row['detail']}" for row in first)
    raise InputError(
        f"dataset {name}: the evidence of none of its {len(given)} questions is in the corpus{example}; is it the "
        "corpus that goes with them, and are its title and text where they should be?"
    )


def _checked(drafts: Iterable[Draft], problems: Problems, limit: int) -> list[Draft]:
    kept: list[Draft] = []
    first: dict[str, object] = {}
    for draft in drafts:
        try:
            _check(draft, first)
        except RowError as error:
            problems.broken(error)
            continue
        first[draft.question_id] = draft.place
        if limit and len(kept) == limit:
            problems.left_out["over the limit"] += 1
            continue
        if draft.answers is None:
            problems.notes["questions without accepted answers"] += 1
        kept.append(draft)
    return kept


def _check(draft: Draft, first: dict[str, object]) -> None:
    if not draft.question.strip():
        raise RowError(draft.place, f"question {draft.question_id!r}: the text of the question is empty")
    if draft.question_id in first:
        raise RowError(
            draft.place, f"the question id {draft.question_id!r} stands at {first[draft.question_id]} already"
        )


def _pieces(rows: Iterable[Draft]) -> Iterable[Needed]:
    return (piece for row in rows for needed in row.evidence or [] for piece in needed)
