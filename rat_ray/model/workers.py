"""The model's stages: annotations -> patterns -> posterior -> summary, as workers of the one mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from rat_ray.model.diagnostics import DiagnosticsSettings
from rat_ray.model.engines import EngineSettings, program_digest
from rat_ray.model.patterns import check_judges, merge, patterns
from rat_ray.model.posterior import item_count, sample
from rat_ray.model.priors import Prior
from rat_ray.model.summary import summarise

SECONDS = b"rat_ray.seconds"  # in the metadata of a table of draws: the time of the sampling alone


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
    """What determines the draws, beside the patterns."""

    config: str = "all"
    prior: Prior = field(default_factory=Prior)
    engine: EngineSettings = field(default_factory=EngineSettings)
    seed: int = 1
    program: str = field(default_factory=program_digest)

    def validate(self) -> None:
        """Raise InputError for an impossible prior or engine setting."""
        self.prior.validate()
        self.engine.validate()


@dataclass(frozen=True)
class SummarySettings:
    """What determines the summary, beside the draws and the patterns."""

    config: str = "all"
    prior: Prior = field(default_factory=Prior)
    diagnostics: DiagnosticsSettings = field(default_factory=DiagnosticsSettings)

    def validate(self) -> None:
        """Raise InputError for an impossible prior or threshold."""
        self.prior.validate()
        self.diagnostics.validate()


@dataclass(frozen=True)
class FitSettings:
    """A whole fit. Each stage gets only the part that it depends on, so that a threshold never redoes the sampling."""

    judges: tuple[str, ...] = ()
    prior: Prior = field(default_factory=Prior)
    engine: EngineSettings = field(default_factory=EngineSettings)
    diagnostics: DiagnosticsSettings = field(default_factory=DiagnosticsSettings)
    seed: int = 1
    config: str = "all"

    def validate(self) -> None:
        """Raise InputError for any part that makes no sense."""
        for part in (self.patterns, self.posterior, self.summary):
            part.validate()

    @property
    def patterns(self) -> PatternsSettings:
        """The settings of the patterns stage."""
        return PatternsSettings(tuple(self.judges))

    @property
    def posterior(self) -> PosteriorSettings:
        """The settings of the posterior stage."""
        return PosteriorSettings(self.config, self.prior, self.engine, self.seed)

    @property
    def summary(self) -> SummarySettings:
        """The settings of the summary stage."""
        return SummarySettings(self.config, self.prior, self.diagnostics)


class PatternsWorker:
    """A range of annotations in, its count table out."""

    def __init__(self, settings: PatternsSettings, inputs: Mapping[str, Input]) -> None:
        settings.validate()
        self._settings = settings

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        return patterns(rows["annotations"], self._settings.judges)


class PosteriorWorker:
    """The count tables of one configuration (a pattern may occur in several ranges) in, its draws out."""

    def __init__(self, settings: PosteriorSettings, inputs: Mapping[str, Input]) -> None:
        settings.validate()
        self._settings = settings

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        mine = self._settings
        sampled = sample(merge([rows["patterns"]]), mine.prior, mine.engine, mine.seed, mine.config)
        return sampled.draws.replace_schema_metadata({SECONDS: f"{sampled.seconds:.6f}".encode()})


class SummaryWorker:
    """All draws of one configuration in, its summary out; the count tables are an input that is read whole."""

    def __init__(self, settings: SummarySettings, inputs: Mapping[str, Input]) -> None:
        settings.validate()
        self._settings = settings
        self._counts = merge([inputs["patterns"].read()])
        item_count(self._counts, settings.config)

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        draws, mine = rows["posterior"], self._settings
        seconds = (draws.schema.metadata or {}).get(SECONDS)
        return summarise(
            draws, self._counts, mine.prior, mine.diagnostics, mine.config, float(seconds) if seconds else None
        )
