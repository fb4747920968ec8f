"""Relevance judgements: BEIR's TSV (with a header) or TREC's four columns, plain or gzipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Place, Reader, RowError, clean_id
from rat_ray.errors import InputError, did_you_mean

_HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "query-id": ("query-id", "query_id", "qid", "question_id", "question-id", "topic"),
    "corpus-id": ("corpus-id", "corpus_id", "pid", "passage_id", "passage-id", "doc_id", "docid", "docno"),
    "score": ("score", "rel", "relevance", "label"),
}


Relevant = dict[str, dict[str, int]]


class _Columns(NamedTuple):
    query: int
    passage: int
    score: int
    width: int


def read_qrels(path: Path, questions: set[str], min_score: int, problems: Problems) -> Relevant:
    """Reads and checks one file: question id -> passage ids with a score of at least min_score -> their line.

    Questions without any are not in it. Rows of questions that are not among `questions` are counted in notes and
    otherwise ignored. Raises InputError for a malformed row and two scores for one pair, unless problems skips it.
    """
    columns: _Columns | None = None
    scores: dict[tuple[str, str], float] = {}
    relevant: Relevant = {}
    strangers: set[str] = set()
    for place, text in Reader(path).lines(problems.broken):
        cells = _cells(text)
        if columns is None:
            columns, is_header = _columns(cells, place)
            if is_header:
                continue
        try:
            query, passage, score = _row(cells, columns, place)
            if query not in questions:
                problems.notes["qrels rows of questions that are not in the questions file"] += 1
                strangers.add(query)
                continue
            _check_score(scores.setdefault((query, passage), score), score, query, passage, place)
        except RowError as error:
            problems.broken(error)
            continue
        if score >= min_score:
            relevant.setdefault(query, {}).setdefault(passage, place.line)
    if strangers and not scores:
        raise InputError(
            f"{path}: none of its {len(strangers)} questions is in the questions file, e.g. {min(strangers)!r}; "
            "do both use the same ids?"
        )
    return relevant


def check_known(path: Path, relevant: Relevant, known: Callable[[str], bool]) -> None:
    """Raises InputError when a relevant passage is in no corpus."""
    unknown = [
        f"{passage!r} (line {line}, question {query!r})"
        for query, lines in relevant.items()
        for passage, line in lines.items()
        if not known(passage)
    ]
    if unknown:
        raise InputError(
            f"{path}: {len(unknown)} relevant passages are in no corpus: {', '.join(unknown[:5])}"
            f"{', …' if len(unknown) > 5 else ''}; add the corpus that holds them to `corpora`, remove the rows, or "
            "set dataset.unmapped=missing"
        )


def _check_score(before: float, score: float, query: str, passage: str, place: Place) -> None:
    if before != score:
        raise RowError(place, f"question {query!r}, passage {passage!r}: scored {before:g} before, {score:g} here")


def _cells(text: str) -> list[str]:
    text = text.strip("\r\n")
    return [cell.strip() for cell in (text.split("\t") if "\t" in text else text.split())]


def _columns(cells: list[str], place: Place) -> tuple[_Columns, bool]:
    """The columns' positions from the first row, and whether that row is a header."""
    if _number(cells[-1]) is not None:
        if len(cells) == 4:
            return _Columns(0, 2, 3, 4), False
        if len(cells) == 3:
            return _Columns(0, 1, 2, 3), False
        raise InputError(f"{place}: expected 3 (BEIR) or 4 (TREC) columns, found {len(cells)}: {cells}")
    positions = {}
    for wanted, names in _HEADERS.items():
        matches = [index for index, cell in enumerate(cells) if cell.lower() in names]
        if not matches:
            raise InputError(
                f"{place}: the header has no column {wanted!r}{did_you_mean(wanted, cells)}; "
                "BEIR's header is query-id, corpus-id, score, separated by tabs"
            )
        positions[wanted] = matches[0]
    return _Columns(positions["query-id"], positions["corpus-id"], positions["score"], len(cells)), True


def _row(cells: list[str], columns: _Columns, place: Place) -> tuple[str, str, float]:
    if len(cells) != columns.width:
        raise RowError(place, f"expected {columns.width} columns as in the first row, found {len(cells)}: {cells}")
    score = _number(cells[columns.score])
    if score is None:
        raise RowError(place, f"the score must be a number, found {cells[columns.score]!r}")
    query = clean_id(cells[columns.query], place, "the question id")
    return query, clean_id(cells[columns.passage], place, "the passage id"), score


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value else None
