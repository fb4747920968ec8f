"""The model's stages: annotations -> patterns -> posterior -> summary, as workers of the one mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from rat_ray.model.checks import check_counts_table
from rat_ray.model.compare import compare_counts
from rat_ray.model.design import Options
from rat_ray.model.diagnostics import DiagnosticsSettings
from rat_ray.model.engines import EngineSettings, program_digest
from rat_ray.model.fit import judged_quantities
from rat_ray.model.identify import identify_together
from rat_ray.model.pair_design import read_pair_table
from rat_ray.model.patterns import check_judges, merge, patterns
from rat_ray.model.policy import Policy
from rat_ray.model.posterior import Sampled, item_count, sample_together
from rat_ray.model.priors import Prior
from rat_ray.model.summary import summarise
from rat_ray.model.verdicts import PANEL, check_judge_model

# In the metadata of a table of draws: the time of the sampling alone, why there are no draws, whether it was a retry,
# what sampled in the end, and Pareto k of importance weights.
SECONDS, FAILURE, RETRIED = b"rat_ray.seconds", b"rat_ray.failure", b"rat_ray.retried"
SAMPLER, PARETO_K = b"rat_ray.sampler", b"rat_ray.pareto_k"


class Input(Protocol):
    """A committed table that is not cut into ranges; the part of `rat_ray.stage.Input` that is used here."""

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """The whole table."""
        ...


@dataclass(frozen=True)
class PatternsSettings:
    """judges: the source columns to use as judges (`r@NAME`, ...), the same for every range."""

    judges: tuple[str, ...] = ()

    def validate(self) -> None:
        """Raise InputError for a name that is not a judge's."""
        check_judges(self.judges)


@dataclass(frozen=True)
class PosteriorSettings:
    """What determines the draws, beside the patterns. retry: the thresholds of a failed fit, which is sampled again."""

    config: str = "all"
    prior: Prior = field(default_factory=Prior)
    engine: EngineSettings = field(default_factory=EngineSettings)
    judge_model: str = PANEL
    policy: Policy = field(default_factory=Policy)
    retry: DiagnosticsSettings = field(default_factory=DiagnosticsSettings)
    seed: int = 1
    together: tuple[str, ...] = ()  # configurations that share their judges' rates, this one included
    program: str = field(default_factory=program_digest)

    def validate(self) -> None:
        """Raise InputError for an impossible prior, engine setting, judge model or policy."""
        self.prior.validate()
        self.engine.validate()
        self.policy.validate()
        check_judge_model(self.judge_model)


@dataclass(frozen=True)
class SummarySettings:
    """What determines the summary, beside the draws and the patterns."""

    config: str = "all"
    prior: Prior = field(default_factory=Prior)
    judge_model: str = PANEL
    policy: Policy = field(default_factory=Policy)
    diagnostics: DiagnosticsSettings = field(default_factory=DiagnosticsSettings)
    max_treedepth: int = 10
    together: tuple[str, ...] = ()

    def validate(self) -> None:
        """Raise InputError for an impossible prior or threshold."""
        self.prior.validate()
        self.diagnostics.validate()


@dataclass(frozen=True)
class ChecksSettings:
    """What determines the checks, beside the draws and the patterns."""

    config: str = "all"


@dataclass(frozen=True)
class FitSettings:
    """A whole fit. Each stage gets only the part that it depends on, so that a threshold never redoes the sampling."""

    judges: tuple[str, ...] = ()
    prior: Prior = field(default_factory=Prior)
    engine: EngineSettings = field(default_factory=EngineSettings)
    diagnostics: DiagnosticsSettings = field(default_factory=DiagnosticsSettings)
    judge_model: str = PANEL
    policy: Policy = field(default_factory=Policy)
    seed: int = 1
    config: str = "all"
    together: tuple[str, ...] = ()

    def validate(self) -> None:
        """Raise InputError for any part that makes no sense."""
        for part in (self.patterns, self.posterior, self.summary):
            part.validate()
        check_judge_model(self.judge_model, self.judges)

    @property
    def options(self) -> Options:
        """What shapes the fit beside its prior."""
        return Options(judge_model=self.judge_model, policy=self.policy)

    @property
    def patterns(self) -> PatternsSettings:
        """The settings of the patterns stage."""
        return PatternsSettings(tuple(self.judges))

    @property
    def posterior(self) -> PosteriorSettings:
        """The settings of the posterior stage."""
        return PosteriorSettings(
            config=self.config,
            prior=self.prior,
            engine=self.engine,
            judge_model=self.judge_model,
            policy=self.policy,
            retry=self.diagnostics.failures_only(),
            seed=self.seed,
            together=self.together,
        )

    @property
    def summary(self) -> SummarySettings:
        """The settings of the summary stage."""
        return SummarySettings(
            config=self.config,
            prior=self.prior,
            judge_model=self.judge_model,
            policy=self.policy,
            diagnostics=self.diagnostics,
            max_treedepth=self.engine.max_treedepth,
            together=self.together,
        )

    @property
    def checks(self) -> ChecksSettings:
        """The settings of the checks stage."""
        return ChecksSettings(self.config)


@dataclass(frozen=True)
class CompareSettings:
    """What determines a comparison, beside the joint patterns."""

    first: str = "first"
    second: str = "second"
    judges_first: tuple[str, ...] = ()
    judges_second: tuple[str, ...] = ()
    prior: Prior = field(default_factory=Prior)
    engine: EngineSettings = field(default_factory=EngineSettings)
    diagnostics: DiagnosticsSettings = field(default_factory=DiagnosticsSettings)
    judge_model: str = PANEL
    policy: Policy = field(default_factory=Policy)
    seed: int = 1
    program: str = field(default_factory=program_digest)

    def validate(self) -> None:
        """Raise InputError for an impossible prior, setting, judge model or policy."""
        for part in (self.prior, self.engine, self.diagnostics, self.policy):
            part.validate()
        for judges in (self.judges_first, self.judges_second):
            check_judges(judges)
            check_judge_model(self.judge_model, judges)


class PatternsWorker:
    """A range of annotations in, its count table out."""

    def __init__(self, settings: PatternsSettings, inputs: Mapping[str, Input]) -> None:
        settings.validate()
        self._settings = settings

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        return patterns(rows["annotations"], self._settings.judges)


class PosteriorWorker:
    """The count tables of one configuration (a pattern may occur in several ranges) in, its draws out.

    Where judges are shared, the other configurations' count tables are inputs, and the draws of this one come out.
    """

    def __init__(self, settings: PosteriorSettings, inputs: Mapping[str, Input]) -> None:
        settings.validate()
        self._settings = settings
        self._others = {name: merge([table.read()]) for name, table in inputs.items()}

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        mine = self._settings
        own = merge([rows["patterns"]])
        tables = _together(mine.config, mine.together, own, self._others)
        options = Options(judge_model=mine.judge_model, policy=mine.policy)
        for name, table in tables.items():
            item_count(table, name)
        judged = judged_quantities(identify_together(tables, options))
        sampled = sample_together(tables, mine.prior, mine.engine, mine.seed, options, judged, mine.retry)[mine.config]
        return sampled.draws.replace_schema_metadata(_metadata(sampled))

    @staticmethod
    def lost(settings: PosteriorSettings, rows: Mapping[str, pa.Table], reason: str, schema: pa.Schema) -> pa.Table:
        """A failed fit, in place of one that killed its process: as many draws, all missing."""
        chains, samples = settings.engine.chains, settings.engine.samples
        head = {
            "config": pa.repeat(pa.scalar(settings.config, pa.string()), chains * samples),
            "chain": pa.array([chain for chain in range(chains) for _ in range(samples)], pa.int16()),
            "draw": pa.array([draw for _ in range(chains) for draw in range(samples)], pa.int32()),
        }
        columns = [head.get(field.name, pa.nulls(chains * samples, field.type)) for field in schema]
        said = {SECONDS: b"0", FAILURE: reason.encode()}
        return pa.Table.from_arrays(columns, schema=schema).replace_schema_metadata(said)


def _together(
    config: str, together: tuple[str, ...], own: pa.Table, others: Mapping[str, pa.Table]
) -> dict[str, pa.Table]:
    """The count tables of one fit, in an order that is the same for each of its configurations."""
    return {name: others.get(name, own) for name in together} or {config: own}


def _metadata(sampled: Sampled) -> dict[bytes, bytes]:
    said = {SECONDS: f"{sampled.seconds:.6f}".encode()}
    if sampled.failure:
        said[FAILURE] = sampled.failure.encode()
    if sampled.retried:
        said[RETRIED] = b"1"
    if sampled.sampler:
        said[SAMPLER] = sampled.sampler.encode()
    if sampled.pareto_k is not None:
        said[PARETO_K] = repr(sampled.pareto_k).encode()
    return said


class SummaryWorker:
    """All draws of one configuration in, its summary out; the count tables are an input that is read whole.

    Where judges are shared, the other configurations' count tables are inputs by their names.
    """

    def __init__(self, settings: SummarySettings, inputs: Mapping[str, Input]) -> None:
        settings.validate()
        self._settings = settings
        self._counts = merge([inputs["patterns"].read()])
        item_count(self._counts, settings.config)
        others = {name: merge([table.read()]) for name, table in inputs.items() if name in settings.together}
        tables = _together(settings.config, settings.together, self._counts, others)
        self._options = Options(judge_model=settings.judge_model, policy=settings.policy)
        self._known = identify_together(tables, self._options)[settings.config]

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        draws, mine = rows["posterior"], self._settings
        said = draws.schema.metadata or {}
        seconds, failure, sampler, pareto_k = (said.get(name) for name in (SECONDS, FAILURE, SAMPLER, PARETO_K))
        return summarise(
            draws,
            self._counts,
            mine.prior,
            mine.diagnostics,
            mine.config,
            float(seconds) if seconds else None,
            self._known,
            self._options,
            max_treedepth=mine.max_treedepth,
            failure=failure.decode() if failure else None,
            sampler=sampler.decode() if sampler else None,
            pareto_k=float(pareto_k) if pareto_k else None,
        )


class ChecksWorker:
    """All draws of one configuration in, its posterior predictive checks out."""

    def __init__(self, settings: ChecksSettings, inputs: Mapping[str, Input]) -> None:
        self._config = settings.config
        self._counts = merge([inputs["patterns"].read()])

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        return check_counts_table(rows["posterior"], self._counts, self._config)


class CompareWorker:
    """The joint patterns of two configurations in (`pair_design.pair_schema`), their comparison out."""

    def __init__(self, settings: CompareSettings, inputs: Mapping[str, Input]) -> None:
        settings.validate()
        self._settings = settings

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        mine = self._settings
        judges = (mine.judges_first, mine.judges_second)
        return compare_counts(
            read_pair_table(rows["pairs"], judges),
            judges,
            mine.prior,
            mine.engine,
            mine.seed,
            (mine.first, mine.second),
            mine.diagnostics,
            Options(judge_model=mine.judge_model, policy=mine.policy),
        ).summary
