"""The annotation stage's worker: rules, judges and people become columns, trusted sources fill r, a and t."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Protocol

import pyarrow as pa

from rat_ray import tables
from rat_ray.annotate.abstention import Refusals, abstention
from rat_ray.annotate.items import answer_item, context_digest, context_item, passage_digest
from rat_ray.annotate.label_settings import (
    VARIABLES,
    LabelSettings,
    Rule,
    judge_columns,
    trusted_sources,
)
from rat_ray.annotate.people import PeopleLabels
from rat_ray.annotate.rules import MISSING, Item, Label
from rat_ray.seeds import rank_key

__all__ = ["VARIABLES", "AnnotateWorker", "LabelSettings", "judge_columns", "trusted_sources"]
_Row = dict[str, Any]
_OF_QUESTIONS = ["question_id", "question", "shape", "answers", "evidence"]
_OF_ANSWERS = ["context_ids", "answer", "error"]


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
        # What is the same for every row is worked out once: a core labels tens of thousands of rows a second.
        self._configuration: _Row = {
            "config": settings.config,
            "dataset": settings.dataset or None,
            "retriever": settings.retriever or None,
            "generator": settings.generator or None,
        }
        self._reads_texts = any(rule.rule is not None and rule.rule.texts for rule in self._rules)
        self._scored = frozenset(settings.scored)
        self._order = {variable: trusted_sources(settings.trusted, variable) for variable in VARIABLES}
        self._people_columns = settings.people_columns

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        """rows: questions, answers, and one verdicts table per judge under its source's name, all aligned.

        Returns the annotations schema with `settings.sources`. A row that failed carries its error and no labels.
        """
        asked = zip(*(rows["questions"].column(name).to_pylist() for name in _OF_QUESTIONS), strict=True)
        answered = zip(*(rows["answers"].column(name).to_pylist() for name in _OF_ANSWERS), strict=True)
        judged = zip(*(rows[name].column("verdict").to_pylist() for name in self._settings.judges), strict=True)
        verdicts = judged if self._settings.judges else repeat(())
        names = self._schema.names
        made = [
            tuple(map(self._row((*question, *answer), said).get, names))
            for question, answer, said in zip(asked, answered, verdicts, strict=False)
        ]
        columns = zip(*made, strict=True) if made else ((),) * len(names)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        metadata = {tables.TRUSTED: ",".join(self._no_judges()).encode()}
        return pa.table(arrays, schema=self._schema).replace_schema_metadata(metadata)

    def _no_judges(self) -> list[str]:
        """The source columns that are never judges in a fit: the trusted ones, and those that repeat others."""
        judges = set(judge_columns(self._settings.trusted, self._settings.sources))
        return [source for source in self._settings.sources if source not in judges]

    def _row(self, values: tuple[Any, ...], verdicts: Sequence[int | None]) -> _Row:
        """values: of _OF_QUESTIONS, then of _OF_ANSWERS."""
        question_id, question, shape, answers, evidence, ids, answer, error = values
        row = self._configuration.copy()
        row["question_id"] = question_id
        row["context"] = None if ids is None else context_digest(ids)
        row["error"] = error
        if error:
            return row
        context = self._passages.texts(ids) if self._reads_texts and ids is not None else None
        item = Item(question, shape, answers, evidence, answer, ids, context)
        row["r_item"] = None if ids is None else context_item(question, self._passages.digests(ids))
        row["t_item"] = None if answer is None else answer_item(question, answer)
        refusal = abstention(item.answer, self._settings.abstention_phrase, self._refusals)
        for rule in self._rules:
            label = self._label(rule, item, refusal)
            row[rule.source] = label.label
            row[f"rule:{rule.source}"] = label.rule
            if rule.source in self._scored:
                row[f"score:{rule.source}"] = label.score
        row.update(zip(self._settings.judges, verdicts, strict=True))
        if self._people is not None:
            row.update(self._by_people(row, self._people))
        self._trust(row)
        return row

    def _label(self, rule: Rule, item: Item, refusal: Label) -> Label:
        if rule.rule is None:
            return refusal
        if rule.source.startswith("t@"):  # an abstention has no T
            return MISSING if refusal.label == 1 else rule.rule.label(item, rule.options)
        if rule.rule.titles:
            return rule.rule.label(item, rule.options, self._titles.get)
        return rule.rule.label(item, rule.options)

    def _by_people(self, judged: _Row, people: PeopleLabels) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for column, (variable, annotator) in self._people_columns.items():
            item = judged["r_item" if variable == "r" else "t_item"]
            if item is None:
                found[column] = None
            elif annotator:
                found[column] = people.by(annotator, variable, item)
            else:
                found[column] = people.label(variable, item)
        return found

    def _trust(self, row: _Row) -> None:
        """Fills r, a and t from the first trusted source that has a label, but for what is hidden."""
        hidden = ("r", "t") if self._kept is not None and row["question_id"] not in self._kept else ()
        for variable, sources in self._order.items():
            if variable in hidden or (variable == "t" and row.get("a") == 1):
                continue
            for source in sources:
                if row.get(source) is not None:
                    row[variable], row[f"{variable}_source"] = row[source], source
                    break


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


def _draw(settings: LabelSettings, answers: _Table) -> frozenset[str]:
    """The `budget` rows that keep their labels: a simple random sample of the rows without error."""
    table = answers.read(["question_id", "error"])
    pairs = zip(table.column("question_id").to_pylist(), table.column("error").to_pylist(), strict=True)
    ids = sorted((rank_key(settings.seed, question_id), question_id) for question_id, error in pairs if not error)
    return frozenset(question_id for _, question_id in ids[: settings.budget])
