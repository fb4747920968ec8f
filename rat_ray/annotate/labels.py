"""The annotation stage's worker: rules, judges and people become columns, trusted sources fill r, a and t."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from rat_ray import tables
from rat_ray.annotate.abstention import Refusals, abstention
from rat_ray.annotate.items import answer_item, context_item, passage_digest
from rat_ray.annotate.label_settings import (
    PEOPLE,
    VARIABLES,
    LabelSettings,
    Rule,
    judge_columns,
    trusted_sources,
)
from rat_ray.annotate.people import PeopleLabels
from rat_ray.annotate.rules import MISSING, Item, Label
from rat_ray.keys import digest_of
from rat_ray.seeds import rank_key

__all__ = ["VARIABLES", "AnnotateWorker", "LabelSettings", "judge_columns", "trusted_sources"]
_Row = dict[str, Any]


class _Table(Protocol):
    def read(self, columns: list[str] | None = None) -> pa.Table:
        """The whole table."""
        ...


class AnnotateWorker:
    """Writes one annotations row per question.

    inputs: answers (the whole table, to draw the budget from); passages (those that were given to the generator);
    people (their labels), where there are any; evidence (the passages that the questions' evidence names), where a rule
    wants their titles.
    """

    def __init__(self, settings: LabelSettings, inputs: Mapping[str, _Table]) -> None:
        settings.validate()
        settings.check_trusted()
        self._settings = settings
        self._rules = settings.rule_list
        self._refusals = Refusals.of(settings.refusal_text)
        self._schema = tables.annotations_schema(settings.sources, settings.rules, settings.scored)
        self._kept = None if settings.budget == -1 else _draw(settings, inputs["answers"])
        self._passages = _Given(inputs["passages"])
        self._people = PeopleLabels(inputs["people"].read(), settings.resolve) if "people" in inputs else None
        self._titles = _titles(inputs["evidence"]) if "evidence" in inputs else {}

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
        metadata = {tables.TRUSTED: ",".join(self._trusted_columns()).encode()}
        return pa.Table.from_pylist(table, schema=self._schema).replace_schema_metadata(metadata)

    def _trusted_columns(self) -> list[str]:
        """The trusted columns, and those of the annotators whose labels are in them."""
        trusted = [s for variable in VARIABLES for s in trusted_sources(self._settings.trusted, variable)]
        theirs = [name for name in self._settings.people_columns if f"{name[0]}@{PEOPLE}" in trusted]
        return list(dict.fromkeys([*trusted, *theirs]))

    def _row(self, question: _Row, answer: _Row, verdicts: Mapping[str, int | None]) -> _Row:
        settings = self._settings
        ids = answer["context_ids"]
        row: _Row = {
            "config": settings.config,
            "dataset": settings.dataset or None,
            "retriever": settings.retriever or None,
            "generator": settings.generator or None,
            "question_id": question["question_id"],
            "context": None if ids is None else digest_of(ids),
            "error": answer["error"],
        }
        if answer["error"]:
            return row
        item = Item(
            question=question["question"],
            shape=question.get("shape"),
            answers=question["answers"],
            evidence=question["evidence"],
            answer=answer["answer"],
            context_ids=ids,
            context=None if ids is None else self._passages.texts(ids),
        )
        judged = {
            "r_item": None if ids is None else context_item(item.question, self._passages.digests(ids)),
            "t_item": None if item.answer is None else answer_item(item.question, item.answer),
        }
        labels = self._labels(item)
        sources: dict[str, int | None] = {source: label.label for source, label in labels.items()}
        how: _Row = {f"rule:{source}": label.rule for source, label in labels.items()}
        how |= {f"score:{source}": labels[source].score for source in settings.scored}
        sources |= verdicts
        sources |= self._by_people(judged)
        return row | judged | sources | how | self._trusted(question["question_id"], sources)

    def _labels(self, item: Item) -> dict[str, Label]:
        refusal = abstention(item.answer, self._settings.abstention_phrase, self._refusals)
        return {rule.source: self._label(rule, item, refusal) for rule in self._rules}

    def _label(self, rule: Rule, item: Item, refusal: Label) -> Label:
        if rule.rule is None:
            return refusal
        if rule.source.startswith("t@"):  # an abstention has no T
            return MISSING if refusal.label == 1 else rule.rule.label(item, rule.options)
        if rule.rule.titles:
            return rule.rule.label(item, rule.options, self._titles.get)
        return rule.rule.label(item, rule.options)

    def _by_people(self, judged: _Row) -> dict[str, int | None]:
        if self._people is None:
            return {}
        found: dict[str, int | None] = {}
        for column, (variable, annotator) in self._settings.people_columns.items():
            item = judged["r_item" if variable == "r" else "t_item"]
            if item is None:
                found[column] = None
            elif annotator:
                found[column] = self._people.by(annotator, variable, item)
            else:
                found[column] = self._people.label(variable, item)
        return found

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


class _Given:
    """The passages that were given: their texts, and their digests."""

    def __init__(self, source: _Table) -> None:
        table = source.read(["passage_id", "title", "text"])
        columns = (table.column(name).to_pylist() for name in ("passage_id", "title", "text"))
        self._texts = {name: (title, text) for name, title, text in zip(*columns, strict=True)}
        self._digests = {name: passage_digest(*both) for name, both in self._texts.items()}

    def texts(self, ids: Iterable[str]) -> list[tuple[str | None, str]]:
        return [self._texts[name] for name in ids]

    def digests(self, ids: Iterable[str]) -> list[str]:
        return [self._digests[name] for name in ids]


def _titles(source: _Table) -> dict[str, str]:
    table = source.read(["passage_id", "title"])
    pairs = zip(table.column("passage_id").to_pylist(), table.column("title").to_pylist(), strict=True)
    return {name: title for name, title in pairs if title}


def _first(
    sources: Mapping[str, int | None], trusted: Mapping[str, Iterable[str]], variable: str
) -> tuple[int | None, str | None]:
    for source in trusted_sources(trusted, variable):
        if sources.get(source) is not None:
            return sources[source], source
    return None, None


def _draw(settings: LabelSettings, answers: _Table) -> frozenset[str]:
    """The `budget` rows that keep their labels: a simple random sample of the rows without error."""
    table = answers.read(["question_id", "error"])
    pairs = zip(table.column("question_id").to_pylist(), table.column("error").to_pylist(), strict=True)
    ids = sorted((rank_key(settings.seed, question_id), question_id) for question_id, error in pairs if not error)
    return frozenset(question_id for _, question_id in ids[: settings.budget])
