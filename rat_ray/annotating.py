"""`rat-ray annotate export` and `rat-ray annotate import`: items of a run to people, and their labels back."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console

from rat_ray.allocate.costs import Costs
from rat_ray.allocate.plan_goal import parse_goal
from rat_ray.annotate.people import VARIABLES, check_rule, judgements
from rat_ray.errors import InputError, did_you_mean
from rat_ray.export import read_finished
from rat_ray.keys import key_of
from rat_ray.labelling.collect import collect
from rat_ray.labelling.keep import LabelsFile, check_written, read_back
from rat_ray.labelling.run import LabelledRun, rule_columns
from rat_ray.labelling.select import PLANNER, Chosen, Selection, assign, check_how, select
from rat_ray.labelling.sheets import LABEL_STUDIO, SEPARATORS, Shown, csv_text, jsonl_text, label_studio_text
from rat_ray.labelling.show import import_lines, labels_lines, selection_lines
from rat_ray.model import EngineSettings, Policy, Prior
from rat_ray.model.verdicts import PANEL
from rat_ray.output import OutFiles, OutFolder
from rat_ray.progress import console
from rat_ray.settings import build, check_given
from rat_ray.store import StorageSettings

if TYPE_CHECKING:
    from rat_ray.commands import Context

ACTIONS = ("export", "import")
KIND = "annotate export"
_README = """\
Items for people to label, from {run}. What R, A and T mean, with hard cases: docs/annotators.md of rat_ray.

items.csv            for a spreadsheet: fill in the column label (1 or yes, 0 or no, unsure; blank: not done), and
                     annotator and comment if you like. Leave the other columns alone, and sort whole rows only.
                     Some cells begin with an apostrophe, so that the spreadsheet neither runs nor rewrites them.
items.jsonl          the same, texts whole.
label_studio.json    the same as tasks for Label Studio, with label_studio.xml as the project's labelling interface.
annotator-N.*        with several annotators: what each of them labels.
selection.parquet    which items were drawn from which stratum, and with which probability; with how=planner in which
                     order, and why. Not for annotators.
run.json             how they were drawn.

Back with: rat-ray annotate import run={run} files=[...] people=people.parquet
"""


@dataclass(frozen=True)
class AnnotateSettings:
    """Everything behind `conf/annotate.yaml`."""

    run: str
    storage: StorageSettings
    action: str | None = None
    people: str | None = None
    out: str = "rat-annotate"
    n: int = 100
    variables: list[str] = field(default_factory=lambda: ["r", "t"])
    how: str = "random"
    by: list[str] | None = None
    seed: int = 1
    configurations: list[str] = field(default_factory=list)
    annotators: int = 1
    overlap: float = 0.2
    separator: str = ","
    files: list[str] = field(default_factory=list)
    annotator: str = ""
    resolve: str = "majority"
    replace: bool = False
    # how=planner, as for `rat-ray plan`
    goal: str | None = None
    quantity: str = "p_g"
    width: float | str | None = None
    interval: str = "new"
    a: str | None = None
    b: str | None = None
    level: float | str | None = None
    chance: float = 0.8
    cost: Costs = field(default_factory=Costs)
    budget: float | None = None
    strategies: list[str] = field(default_factory=list)
    base: int = 50
    futures: int = 100
    judges: list[str] | None = None
    judge_model: str = PANEL
    prior: Prior = field(default_factory=Prior)
    policy: Policy = field(default_factory=Policy)
    engine: EngineSettings = field(default_factory=EngineSettings)

    def validate(self) -> None:
        """Raise InputError for settings that do not go together."""
        if self.action not in ACTIONS:
            wrong = (
                "" if self.action is None else f"action={self.action}: unknown{did_you_mean(self.action, ACTIONS)}; "
            )
            raise InputError(f"{wrong}say `rat-ray annotate export` or `rat-ray annotate import`")
        check_given(run=self.run, out=self.out)
        own = {"export": _EXPORT, "import": _IMPORT}
        for action, names in own.items():
            for name in names if action != self.action else ():
                if getattr(self, name) != _DEFAULTS[name]:
                    raise InputError(f"{name}= goes with `rat-ray annotate {action}`")
        self._validate_export() if self.action == "export" else self._validate_import()

    def _validate_export(self) -> None:
        for variable in self.variables:
            if variable not in VARIABLES:
                raise InputError(f"variables: {variable!r} is no variable; use r, a or t")
        if not self.variables or len(set(self.variables)) < len(self.variables):
            raise InputError(
                f"variables={self.variables}: give each of r, a and t at most once, and one of them at least"
            )
        check_how(self.how)
        if self.how == PLANNER:
            self._validate_planner()
        for name in _PLANNER if self.how != PLANNER else ():
            if getattr(self, name) != _DEFAULTS[name]:
                raise InputError(f"{name}= goes with how=planner")
        if self.by is not None and self.how != "stratified":
            raise InputError("by= goes with how=stratified")
        if self.n < 1:
            raise InputError(f"n={self.n}: give how many items of each variable to draw")
        if self.annotators < 1:
            raise InputError(f"annotators={self.annotators}: give how many people label")
        if not 0 <= self.overlap <= 1:
            raise InputError(f"overlap={self.overlap}: give the share of items that two people label, from 0 to 1")
        if self.separator not in SEPARATORS:
            raise InputError(f"separator={self.separator!r}: use ',' or ';', which German spreadsheets expect")

    def _validate_planner(self) -> None:
        from rat_ray.planner import check_look, goal_of

        parse_goal(goal_of(self))
        check_look(self.cost, self.budget, self.base, self.n, self.futures)
        if self.variables != _DEFAULTS["variables"]:
            raise InputError("variables=: with how=planner the planner says what to label, R or T of each item")

    def _validate_import(self) -> None:
        check_rule(self.resolve)
        if not self.files:
            raise InputError("files: must be given, for example files=[anna.csv,bob.jsonl]")
        if self.people is None:
            raise InputError("people: must be given, for example people=people.parquet: the file that keeps the labels")
        check_written(self.people)
        if os.path.normpath(self.people) in map(os.path.normpath, self.files):
            raise InputError(f"people={self.people}: is one of files=, and would be written over; give another file")


SETTINGS = AnnotateSettings
_EXPORT = ("out", "n", "variables", "how", "by", "seed", "configurations", "annotators", "overlap", "separator")
_IMPORT = ("files", "annotator", "resolve", "replace")
_PLANNER = (
    *("goal", "quantity", "width", "interval", "a", "b", "level", "chance", "cost", "budget", "strategies", "base"),
    *("futures", "judges", "judge_model"),
)
_DEFAULTS = {
    one.name: one.default_factory() if one.default_factory is not dataclasses.MISSING else one.default
    for one in dataclasses.fields(AnnotateSettings)
    if one.name in (*_EXPORT, *_IMPORT, *_PLANNER)
}


def run(context: Context) -> str:
    """Write the items to label next, or read labels back; print what was done and the path."""
    job = build(AnnotateSettings, context.config)
    files, facts = read_finished(job.run, "evaluate", job.storage)
    found = LabelledRun(files)
    screen = console()
    return _export(job, found, facts, screen) if job.action == "export" else _import(job, found, screen)


# --- export -----------------------------------------------------------------------------------------------------------


def _export(job: AnnotateSettings, run: LabelledRun, facts: dict[str, Any], screen: Console) -> str:
    run.check(job.configurations)
    settings = {name: getattr(job, name) for name in (*_EXPORT, "run", "people") if name != "out"}
    if job.how == PLANNER:
        settings |= {name: key_of(getattr(job, name)) for name in (*_PLANNER, "prior", "policy")}
    made_of = {"run_settings": facts.get("settings_digest"), "run_written_from": facts.get("made_of")}
    out = OutFolder(job.out, {**settings, **made_of}, KIND, storage=job.storage)
    out.check()
    if (out.run() or {}).get("status") == "complete":  # somebody may have begun to fill it in
        _say(
            screen, [f"out: {out.url} holds this export already; nothing was written, give another out= for a new one"]
        )
        return out.url
    if job.how == PLANNER:
        from rat_ray.planner import planned_selection  # which needs all of the statistics

        planned = planned_selection(job, screen)
        if planned is None:
            return out.url
        selection = planned
    else:
        selection = _drawn(job, run, facts)
    shown = _shown(job, run, selection.chosen)
    out.claim()
    _write_sheets(out, "", shown, job.separator)
    if job.annotators > 1:
        for person in range(1, job.annotators + 1):
            mine = [one for one in shown if person in one.assigned_to]
            _write_sheets(out, f"annotator-{person}", mine, job.separator)
    out.write_text("label_studio.xml", LABEL_STUDIO)
    out.write_text("README.txt", _README.format(run=job.run))
    out.write_table("selection.parquet", _selection_table(selection))
    drawn = {"strata": [one._asdict() for one in selection.strata], "labelled_before": selection.labelled}
    columns = _strata(job, run, facts) if job.how == "stratified" else None
    out.finish({**drawn, "columns": columns, "items": len(shown), "strategy": selection.strategy})
    _say(screen, selection_lines(selection))
    _say(screen, [f"out: {out.url}"])
    return out.url


def _drawn(job: AnnotateSettings, run: LabelledRun, facts: dict[str, Any]) -> Selection:
    strata = _strata(job, run, facts) if job.how == "stratified" else None
    before = [] if job.people is None else LabelsFile(job.people, job.storage).read(must=True)
    labelled = {v: {one.item for one in before if one.variable == v and one.label is not None} for v in VARIABLES}
    return select(run, job.variables, job.n, strata, job.configurations, labelled, job.seed)


def _strata(job: AnnotateSettings, run: LabelledRun, facts: dict[str, Any]) -> dict[str, list[str]]:
    """The columns to balance over, per variable."""
    known = ["config", *run.columns()]
    for name in job.by or []:
        if name not in known:
            raise InputError(f"by: the annotations have no column {name!r}{did_you_mean(name, known)}")
    if job.by is not None:
        return dict.fromkeys(job.variables, job.by)
    return {variable: ["config", "a", *rule_columns(run, facts, variable)] for variable in job.variables}


def _shown(job: AnnotateSettings, run: LabelledRun, chosen: Sequence[Chosen]) -> list[Shown]:
    texts = run.texts([one.place for one in chosen if one.variable != "r"], passages=False)
    contexts = run.texts([one.place for one in chosen if one.variable == "r"], passages=True)
    people = assign(chosen, job.annotators, job.overlap, job.seed)
    found = []
    for one, who in zip(chosen, people, strict=True):
        of = contexts if one.variable == "r" else texts
        found.append(Shown(one, of[one.place.config, one.place.question_id], who))
    return found


def _write_sheets(out: OutFiles, name: str, shown: Sequence[Shown], separator: str) -> None:
    out.write_text(f"{name or 'items'}.csv", csv_text(shown, separator))
    out.write_text(f"{name or 'items'}.jsonl", jsonl_text(shown))
    out.write_text(f"{name}.label_studio.json" if name else "label_studio.json", label_studio_text(shown))


def _selection_table(selection: Selection) -> pa.Table:
    own = {"place": None, "strategy": selection.strategy}
    rows = [
        {**one._asdict(), **own, "config": one.place.config, "question_id": one.place.question_id}
        for one in selection.chosen
    ]
    text, names = pa.string(), ("variable", "item", "config", "question_id", "stratum")
    fields = [
        *((name, text) for name in names),
        ("inclusion", pa.float64()),
        ("serves", pa.int64()),
        ("order", pa.int64()),
        *([("strategy", text), ("why", text)] if selection.strategy else []),
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


# --- import -----------------------------------------------------------------------------------------------------------


def _import(job: AnnotateSettings, run: LabelledRun, screen: Console) -> str:
    assert job.people is not None
    found = [read_back(path, job.storage) for path in dict.fromkeys(job.files)]
    kept = LabelsFile(job.people, job.storage)
    before = kept.read()
    said = [one for file in found for one in judgements(file)]
    known = run.places_of(one.item for one in said)
    asked = {(v, i): known[v, i] for v, i in sorted({one.key[:2] for one in said if one.question}) if (v, i) in known}
    texts = run.texts(asked.values(), passages=False)
    questions = {key: texts[place.config, place.question_id].question for key, place in asked.items()}
    made = collect(
        found, known, questions, before, job.annotator, job.replace, datetime.now(UTC).isoformat(timespec="seconds")
    )
    kept.write(made.table)
    lines = import_lines(made.counts)
    _say(screen, [*lines, "", *labels_lines(made.table, job.resolve), *made.notes])
    _say(screen, [f"people: {job.people} ({made.table.num_rows:,} judgements, resolved by {job.resolve})"])
    return job.people


def _say(screen: Console, lines: Iterable[str]) -> None:
    for line in lines:
        screen.print(line, highlight=False, markup=False, soft_wrap=True)
