"""What a judge study runs: its settings, and what one of its fits depends on."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rat_ray.errors import InputError, did_you_mean
from rat_ray.model import EngineSettings, Prior
from rat_ray.model.engines import program_digest
from rat_ray.model.patterns import check_judges
from rat_ray.model.verdicts import JUDGE_MODELS, check_judge_model
from rat_ray.tables import JUDGE_STUDY

_LOG = logging.getLogger(__name__)
# The columns that name a fit.
TASKS = pa.schema(
    [
        JUDGE_STUDY.field(name)
        for name in ("config", "judge", "judge_model", "judge_labels", "trusted_labels", "replicate")
    ]
)
TASK_IDS = tuple(TASKS.names)
ALL = "all"  # as a number of labels: as many as there are
JUDGED = ("r", "t")
MOST_TOGETHER = 8


@dataclass(frozen=True)
class PlantedJudge:
    """A judge made from the trusted labels. tpr, fpr: its rate of 1 where its variable is 1, or 0."""

    variable: str
    tpr: float
    fpr: float

    def validate(self) -> None:
        """Raise InputError for a variable that cannot be judged here, or a rate outside [0, 1]."""
        if self.variable not in JUDGED:
            raise InputError(f"variable={self.variable!r}: a planted judge labels one of {', '.join(JUDGED)}")
        for name, rate in (("tpr", self.tpr), ("fpr", self.fpr)):
            if not (math.isfinite(rate) and 0 <= rate <= 1):
                raise InputError(f"{name}={rate}: a rate is between 0 and 1")


@dataclass(frozen=True)
class JudgeStudySettings:
    """Everything behind `conf/judge_study/`.

    configurations: those to study, [] for all. judges: source columns such as t@gpt4, [] for every one that is not
    trusted and labels r or t. planted: more judges, by name, made from the trusted labels. together: also all judges at
    once. judge_labels, trusted_labels: numbers of items or "all"; 0 judge labels is always there, to compare with.
    alone_labels: further numbers of trusted labels, without a judge: how far the curve reaches that a judge is held
    against. draws: of each fit.
    """

    enabled: bool = False
    configurations: list[str] = field(default_factory=list)
    judges: list[str] = field(default_factory=list)
    planted: dict[str, PlantedJudge] = field(default_factory=dict)
    together: bool = False
    judge_models: list[str] = field(default_factory=lambda: list(JUDGE_MODELS))
    judge_labels: list[int | str] = field(default_factory=lambda: ["all"])
    trusted_labels: list[int | str] = field(default_factory=lambda: [10, 20, 40])
    alone_labels: list[int | str] = field(default_factory=lambda: [5, 15, 30, "all"])
    replicates: int = 20
    engine: str = "importance"
    draws: int = 2000

    def validate(self) -> None:
        """Raise InputError for a misspelt or doubled name, or a number that makes no sense."""
        check_judges(self.judges)
        if not self.judge_models or len(set(self.judge_models)) < len(self.judge_models):
            raise InputError(f"judge_models={self.judge_models}: name {' or '.join(JUDGE_MODELS)}, or both, once each")
        for model in self.judge_models:
            check_judge_model(model)
        for name in ("judge_labels", "trusted_labels", "alone_labels"):
            _check_numbers(name, getattr(self, name), optional=name == "alone_labels")
        for name, least in (("replicates", 1), ("draws", 8)):
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)}: at least {least}")
        self.engine_settings.validate()
        for name, judge in self.planted.items():
            judge.validate()
            if not name.strip() or any(sign in name for sign in "@+[]"):
                raise InputError(f"planted: {name!r} is no name for a judge: letters, digits, '-', '_' and '.'")

    @property
    def engine_settings(self) -> EngineSettings:
        """How each fit samples. Where R was never observed, NUTS needs the longer warm-up and the smaller steps."""
        return EngineSettings(kind=self.engine, chains=2, warmup=600, samples=self.draws // 2, adapt_delta=0.9)


@dataclass(frozen=True)
class JudgeFitSettings:
    """What the result of one fit depends on, besides its task and the annotations.

    trusted: the source columns that fill r, a and t, or {}: the columns r, a and t themselves. judges: the columns that
    are studied, planted ones included. quantities: those that the trusted labels settle. program: the digest of the
    Stan program.
    """

    config: str
    trusted: dict[str, list[str]]
    judges: list[str]
    planted: dict[str, PlantedJudge]
    quantities: list[str]
    engine: EngineSettings
    prior: Prior
    seed: int
    program: str = field(default_factory=program_digest)


def numbers_of(given: Sequence[int | str], most: int) -> list[int]:
    """The numbers of labels in ascending order, "all" replaced by the most there are."""
    return sorted({most if value == ALL else int(value) for value in given})


def planted_columns(planted: Mapping[str, PlantedJudge]) -> dict[str, PlantedJudge]:
    """The planted judges by the column that each would have."""
    return {f"{judge.variable}@{name}": judge for name, judge in planted.items()}


def warnings_of(planted: Mapping[str, PlantedJudge]) -> list[str]:
    """What is odd about planted judges, though possible."""
    return [
        f"judge_study.planted.{name}: tpr={judge.tpr:g} is not above fpr={judge.fpr:g}, so this judge says nothing or "
        "the contrary of what is true; judge_model=independent assumes that tpr is above fpr"
        for name, judge in planted.items()
        if judge.tpr <= judge.fpr
    ]


def _check_numbers(name: str, given: Sequence[int | str], optional: bool) -> None:
    if not given and not optional:
        raise InputError(f"{name}=[]: give numbers of labels, for example [50,200,all]")
    for value in given:
        if isinstance(value, str) and value != ALL:
            raise InputError(f"{name}: {value!r} is no number of labels{did_you_mean(value, [ALL])}")
        if isinstance(value, int) and value < 0:
            raise InputError(f"{name}: {value} labels: at least 0, or {ALL}")
    if len(set(given)) < len(given):
        raise InputError(f"{name}={list(given)}: a number occurs twice")
