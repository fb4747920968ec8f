"""The annotation stage's worker: rules and judges become columns, trusted sources fill r, a and t."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rat_ray import tables
from rat_ray.annotate.abstention import abstention_label, refusals_digest
from rat_ray.annotate.evidence import evidence_label
from rat_ray.annotate.match import match_label
from rat_ray.errors import InputError, did_you_mean
from rat_ray.generate.passages import PassageInput
from rat_ray.keys import digest_of
from rat_ray.seeds import rank_key

VARIABLES = ("r", "a", "t")
_Row = dict[str, Any]


def _evidence(question: _Row, answer: _Row, phrase: str) -> int | None:
    return evidence_label(question["evidence"], answer["context_ids"])


def _phrase(question: _Row, answer: _Row, phrase: str) -> int | None:
    return abstention_label(answer["answer"], phrase)


def _match(question: _Row, answer: _Row, phrase: str) -> int | None:
    abstained = abstention_label(answer["answer"], phrase)
    return match_label(answer["answer"], question["answers"], question.get("shape"), abstained)


# A rule labels one row that did not fail, from its question, its answer and the generator's abstention phrase.
RULES: dict[str, Callable[[_Row, _Row, str], int | None]] = {
    "r@evidence": _evidence,
    "a@phrase": _phrase,
    "t@match": _match,
}


@dataclass(frozen=True)
class LabelSettings:
    """Which sources label, and which of them are trusted.

    rules and judges: source columns such as `r@evidence` and `t@local`. trusted: per variable the sources' names in
    order, e.g. {"r": ["evidence"]}; the first that has a label fills it. budget: so many rows keep their trusted r and
    t, drawn at random by seed; the others' are hidden from the fit, never a. -1: all rows keep them.
    config, dataset, retriever, generator, abstention_phrase: of the configuration, filled by who runs it.
    refusals: the digest of the list of refusals, so that a changed list labels anew.
    """

    rules: list[str] = field(default_factory=lambda: list(RULES))
    judges: list[str] = field(default_factory=list, metadata={"user": False})
    trusted: dict[str, list[str]] = field(default_factory=dict)
    budget: int = -1
    seed: int = 0
    config: str = field(default="", metadata={"user": False})
    dataset: str = field(default="", metadata={"user": False})
    retriever: str = field(default="", metadata={"user": False})
    generator: str = field(default="", metadata={"user": False})
    abstention_phrase: str = field(default="", metadata={"user": False})
    refusals: str = field(default_factory=refusals_digest, metadata={"user": False})

    def validate(self) -> None:
        """Raise InputError for unknown rules and variables, and for trusted sources that label nothing here."""
        if self.budget < 1 and self.budget != -1:
            raise InputError(f"labels.budget={self.budget}: give how many items keep their labels, or -1 for all")
        for rule in self.rules:
            if rule not in RULES:
                raise InputError(f"labels.rules: {rule!r} is unknown{did_you_mean(rule, RULES)}")
        for variable in self.trusted:
            if variable not in VARIABLES:
                raise InputError(f"labels.trusted: {variable!r} is no variable; use r, a or t")

    def check_trusted(self) -> None:
        """Raise InputError for a trusted source that labels nothing here; `judges` must be filled in."""
        for variable, names in self.trusted.items():
            known = [source.partition("@")[2] for source in self.sources if source.startswith(f"{variable}@")]
            for name in names:
                if name not in known:
                    raise InputError(
                        f"labels.trusted.{variable}: no source {variable}@{name}{did_you_mean(name, known)}"
                    )

    @property
    def sources(self) -> list[str]:
        """The source columns of the annotations table, in order."""
        return list(dict.fromkeys([*self.rules, *self.judges]))


def trusted_sources(trusted: Mapping[str, Iterable[str]], variable: str) -> list[str]:
    """The trusted source columns of one variable in order, e.g. ["r@people", "r@evidence"]."""
    return [f"{variable}@{name}" for name in trusted.get(variable, [])]


def judge_columns(trusted: Mapping[str, Iterable[str]], columns: Iterable[str]) -> list[str]:
    """The source columns that serve as judges in a fit: all but the trusted ones, which would leak what is hidden."""
    filled = {source for variable in VARIABLES for source in trusted_sources(trusted, variable)}
    return [name for name in columns if name[:2] in {"r@", "a@", "t@"} and name not in filled]


class AnnotateWorker:
    """Writes one annotations row per question. inputs: answers (the whole table, to draw the budget from)."""

    def __init__(self, settings: LabelSettings, inputs: Mapping[str, PassageInput]) -> None:
        settings.validate()
        settings.check_trusted()
        self._settings = settings
        self._schema = tables.annotations_schema(settings.sources)
        self._kept = None if settings.budget == -1 else _draw(settings, inputs["answers"])

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        """rows: questions, answers, and one verdicts table per judge under its source's name, all aligned.

        Returns the annotations schema with `settings.sources`. A row that failed carries its error and no labels.
        """
        questions, answers = rows["questions"].to_pylist(), rows["answers"].to_pylist()
        verdicts = {name: rows[name].column("verdict").to_pylist() for name in self._settings.judges}
        table = [
            self._row(question, answer, {name: column[i] for name, column in verdicts.items()})
            for i, (question, answer) in enumerate(zip(questions, answers, strict=True))
        ]
        trusted = [s for variable in VARIABLES for s in trusted_sources(self._settings.trusted, variable)]
        metadata = {tables.TRUSTED: ",".join(trusted).encode()}
        return pa.Table.from_pylist(table, schema=self._schema).replace_schema_metadata(metadata)

    def _row(self, question: _Row, answer: _Row, verdicts: Mapping[str, int | None]) -> _Row:
        settings = self._settings
        row: _Row = {
            "config": settings.config,
            "dataset": settings.dataset,
            "retriever": settings.retriever,
            "generator": settings.generator,
            "question_id": question["question_id"],
            "context": None if answer["context_ids"] is None else digest_of(answer["context_ids"]),
            "error": answer["error"],
        }
        if answer["error"]:
            return row
        sources = {name: RULES[name](question, answer, settings.abstention_phrase) for name in settings.rules}
        sources.update(verdicts)
        return row | sources | self._trusted(question["question_id"], sources)

    def _trusted(self, question_id: str, sources: Mapping[str, int | None]) -> _Row:
        labels: _Row = {}
        for variable in VARIABLES:
            labels[variable], labels[f"{variable}_source"] = _first(sources, self._settings.trusted, variable)
        hidden = ["r", "t"] if self._kept is not None and question_id not in self._kept else []
        if labels["a"] == 1:
            hidden = [*hidden, "t"]
        for variable in hidden:
            labels[variable] = labels[f"{variable}_source"] = None
        return labels


def _first(
    sources: Mapping[str, int | None], trusted: Mapping[str, Iterable[str]], variable: str
) -> tuple[int | None, str | None]:
    for source in trusted_sources(trusted, variable):
        if sources.get(source) is not None:
            return sources[source], source
    return None, None


def _draw(settings: LabelSettings, answers: PassageInput) -> frozenset[str]:
    """The `budget` rows that keep their labels: a simple random sample of the rows without error."""
    table = answers.read(["question_id", "error"])
    pairs = zip(table.column("question_id").to_pylist(), table.column("error").to_pylist(), strict=True)
    ids = sorted((rank_key(settings.seed, question_id), question_id) for question_id, error in pairs if not error)
    return frozenset(question_id for _, question_id in ids[: settings.budget])
