"""What of a finished run people can judge: its distinct items, and the texts that go with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.errors import InputError, did_you_mean
from rat_ray.hive import Batches, find_dataset, read_dataset
from rat_ray.output import OutFiles

ITEM_COLUMN: Final = {"r": "r_item", "a": "t_item", "t": "t_item"}  # A and T are judged on the same answer
_PASSAGES = "passages.parquet"
_Id = tuple[str, str]  # of a passage: its dataset and its id there
_Content = tuple[str | None, str]  # title and text


class Place(NamedTuple):
    """One row of a run: a question in a configuration, and what it is known as there.

    known: the values of the columns that were asked for beside it, by column.
    """

    config: str
    dataset: str
    question_id: str
    known: Mapping[str, Any]


class Texts(NamedTuple):
    """What an item is judged by. accepted: None where it is not known which answers are right; [] where none is.

    passages: title and text in the order of the prompt.
    """

    question: str
    answer: str | None
    accepted: list[str] | None
    passages: list[tuple[str | None, str]]


class LabelledRun:
    """The annotations of a run, by what was judged. Reads its `out` and nothing else."""

    def __init__(self, out: OutFiles) -> None:
        """Raises InputError where there are no annotations, or they are of an earlier version."""
        self._out = out
        self._annotations = read_dataset(out, "annotations")
        self._parts = _parts(out)
        if not self._annotations:
            raise InputError(f"run={out.url}: no annotations/ in it; give the out folder of a `rat-ray evaluate`")
        for name, table in self._annotations.items():
            missing = [column for column in ("r_item", "t_item") if column not in table.schema.names]
            if missing:
                raise InputError(
                    f"run={out.url}: {name} has no column {missing[0]}: it was made by an earlier version of rat-ray; "
                    "run the same `rat-ray evaluate` again"
                )

    @property
    def configurations(self) -> list[str]:
        """Their names, sorted."""
        return sorted(self._annotations)

    def columns(self) -> list[str]:
        """The columns that any configuration has, in order."""
        names = [name for table in self._annotations.values() for name in table.schema.names]
        return list(dict.fromkeys(names))

    def check(self, configurations: Iterable[str]) -> None:
        """Raise InputError for a configuration that the run has not."""
        for name in configurations:
            if name not in self._annotations:
                raise InputError(
                    f"configurations: run={self._out.url} has no {name!r}{did_you_mean(name, self._annotations)}"
                )

    def items(
        self, variable: str, configurations: Sequence[str] = (), columns: Sequence[str] = ()
    ) -> dict[str, list[Place]]:
        """Every item of a variable with the rows that it serves. Rows that failed have none; of T, only what was given
        as an answer (by the trusted A, else by the first source of A that knows). configurations: empty: all.
        """
        found: dict[str, list[Place]] = {}
        for config, table in self._annotations.items():
            if configurations and config not in configurations:
                continue
            for item, abstained, row in _rows(table, ITEM_COLUMN[variable], columns):
                if item is not None and not row["error"] and (variable != "t" or abstained == 0):
                    known = {name: row.get(name) for name in columns} | {"config": config, "a": abstained}
                    place = Place(config, row["dataset"] or "", row["question_id"], known)
                    found.setdefault(item, []).append(place)
        return found

    def places_of(self, items: Iterable[str]) -> dict[tuple[str, str], Place]:
        """Which of these items the run has, by variable and item, with a row that each serves.

        An answer may turn out to be one although a rule took it for an abstention: T has every answer here.
        """
        wanted = pa.array(sorted(set(items)), pa.string())
        found: dict[tuple[str, str], Place] = {}
        for variable, column in ITEM_COLUMN.items():
            for config, table in self._annotations.items():
                for item, _, row in _rows(table.filter(pc.is_in(table.column(column), wanted)), column, ()):
                    if item is not None:
                        found.setdefault((variable, item), Place(config, row["dataset"] or "", row["question_id"], {}))
        return found

    def texts(self, places: Iterable[Place], passages: bool) -> dict[tuple[str, str], Texts]:
        """By configuration and question id. Raises InputError where the run holds no answers/ or lacks a passage."""
        wanted: dict[str, dict[str, Place]] = {}
        for place in places:
            wanted.setdefault(place.config, {})[place.question_id] = place
        answers = find_dataset(self._out, "answers")
        rows = {
            (config, row["question_id"]): row
            for config in wanted
            for row in self._answers(config, answers.get(config), wanted[config])
        }
        for config, of in wanted.items():
            for question_id in of:
                if (config, question_id) not in rows:
                    raise InputError(f"{self._out.at('answers')}: no answer to question {question_id!r} of {config}")
        given = {key: row["context_ids"] or [] if passages else [] for key, row in rows.items()}
        needed: dict[str, set[tuple[str, str]]] = {}
        for (config, name), ids in given.items():
            needed.setdefault(config, set()).update((wanted[config][name].dataset, one) for one in ids)
        contents = self._passages({config: of for config, of in needed.items() if of})
        found = {}
        for (config, name), row in rows.items():
            dataset = wanted[config][name].dataset
            context = [contents[config][dataset, passage_id] for passage_id in given[config, name]]
            found[config, name] = Texts(row["question"], row["answer"], row["accepted"], context)
        return found

    def _answers(self, config: str, batches: Batches | None, question_ids: Iterable[str]) -> list[dict[str, Any]]:
        if batches is None:
            raise InputError(
                f"{self._out.at('answers')}: nothing of {config}; where run= is a sweep, give the folder of one of its "
                "runs; a run of an earlier version of rat-ray has no answers/: run it again"
            )
        ids = pa.array(sorted(question_ids), pa.string())
        names = ["question_id", "question", "accepted", "answer", "context_ids"]
        found = []
        for batch in batches():
            _check_columns(self._out.at("answers"), batch, names)
            found += batch.filter(pc.is_in(batch.column("question_id"), ids)).select(names).to_pylist()
        return found

    def _passages(self, needed: Mapping[str, set[_Id]]) -> dict[str, dict[_Id, _Content]]:
        """Title and text by dataset and id, per configuration. In a sweep each configuration's own folder knows them
        best: two logs may call different texts by one id.
        """
        folders = {config: self._folder_of(config) for config in needed}
        found: dict[str, dict[_Id, _Content]] = {}
        for files in dict.fromkeys(folders.values()):
            of = [config for config, folder in folders.items() if folder is files]
            contents = _contents(files, {one for config in of for one in needed[config]})
            found |= dict.fromkeys(of, contents)
        return found

    def _folder_of(self, config: str) -> OutFiles:
        for name in self._parts:
            if config == name or config.startswith(f"{name}."):
                return self._parts[name]
        return self._out


def _parts(out: OutFiles) -> dict[str, OutFiles]:
    """The folders of a sweep's runs that hold passages, by name, longer names first."""
    facts = out.run() or {}
    if facts.get("kind") != "sweep":
        return {}
    names = sorted(map(str, facts.get("configurations", [])), key=len, reverse=True)
    folders = {name: out.inside(name) for name in names}
    return {name: files for name, files in folders.items() if _PASSAGES in files}


def _contents(files: OutFiles, needed: set[_Id]) -> dict[_Id, _Content]:
    """Title and text of passages, by dataset and id. Raises InputError for one that is not there, or is two."""
    where, table = files.at(_PASSAGES), files.read_table(_PASSAGES)
    _check_columns(where, table, ["dataset", "passage_id", "title", "text"])
    ids = pa.array(sorted({passage_id for _, passage_id in needed}), pa.string())
    found: dict[_Id, _Content] = {}
    for row in table.filter(pc.is_in(table.column("passage_id"), ids)).to_pylist():
        key, content = (row["dataset"] or "", row["passage_id"]), (row["title"], row["text"])
        if found.setdefault(key, content) != content and key in needed:
            raise InputError(
                f"{where}: passage {key[1]!r} of dataset {key[0]!r} has two texts, of different runs of a sweep; give "
                "the folder of one of them as run="
            )
    for dataset, passage_id in sorted(needed):
        if (dataset, passage_id) not in found:
            raise InputError(f"{where}: no passage {passage_id!r} of dataset {dataset!r}")
    return found


def _rows(
    table: pa.Table, item: str, columns: Sequence[str]
) -> Iterable[tuple[str | None, int | None, dict[str, Any]]]:
    """The item, whether it was an abstention (None: not known), and the row's columns."""
    sources = ["a", *(name for name in table.schema.names if name.startswith("a@"))]
    names = dict.fromkeys(["question_id", "dataset", "error", item, *sources, *columns])
    for row in table.select([name for name in names if name in table.schema.names]).to_pylist():
        abstained = next((row[name] for name in sources if row[name] is not None), None)
        yield row[item], abstained, row


def _check_columns(where: str, table: pa.Table, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.schema.names:
            raise InputError(f"{where}: no column {name!r}: made by an earlier version of rat-ray; run it again")


def rule_columns(run: LabelledRun, facts: Mapping[str, Any], variable: str) -> list[str]:
    """The columns that a stratified sample is balanced over by default: rules of R and T, not judges (they may be
    what the labels are to correct, and are asked for by name).
    """
    judges = {str(one["judge"]) for one in facts.get("verdicts", [])}
    kinds = ("r@",) if variable == "r" else ("r@", "t@")
    names = [name for name in run.columns() if name.startswith(kinds) and name not in judges]
    return [name for name in names if name[2:].partition(".")[0] != "people"]
