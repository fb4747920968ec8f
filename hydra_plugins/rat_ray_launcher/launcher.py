"""The launcher: composes every job of a multirun and hands them over together, so that what they share is made once."""

# No `from __future__ import annotations`: Hydra runs this file before it is in sys.modules, where dataclasses look.
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, configure_log, setup_globals
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict


@dataclass
class RatRayLauncherConf:
    """`hydra/launcher=rat_ray` has no settings: as many stages run at a time as the cluster holds."""

    _target_: str = "hydra_plugins.rat_ray_launcher.launcher.RatRayLauncher"


ConfigStore.instance().store(group="hydra/launcher", name="rat_ray", node=RatRayLauncherConf, provider="rat_ray")


class Returned(JobReturn):
    """A job's result. Hydra's own prints a line of its own for one that failed, where rat-ray says more."""

    @property
    def return_value(self) -> Any:
        """Where the results are. Raises what failed."""
        if self.status == JobStatus.FAILED:
            raise self._return_value
        return self._return_value

    @return_value.setter
    def return_value(self, value: Any) -> None:
        self._return_value = value


class RatRayLauncher(Launcher):
    """Gives all jobs of a batch at once to the task's `together`, which the command line of rat-ray has."""

    def __init__(self) -> None:
        super().__init__()
        self._config: DictConfig | None = None
        self._context: HydraContext | None = None
        self._task: Any = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra before the first batch."""
        if not hasattr(task_function, "together"):
            raise HydraException("hydra/launcher=rat_ray launches the commands of rat-ray only")
        self._config = config
        self._context = hydra_context
        self._task = task_function
        _compose_once(hydra_context.config_loader)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a batch of jobs. One that fails does not stop the others; it is returned as failed."""
        assert self._config is not None
        setup_globals()
        configure_log(self._config.hydra.hydra_logging, self._config.hydra.verbose)
        configs = [self._composed(initial_job_idx + index, overrides) for index, overrides in enumerate(job_overrides)]
        outcomes = self._task.together(configs)
        return [_returned(config, outcome) for config, outcome in zip(configs, outcomes, strict=True)]

    def _composed(self, index: int, overrides: Sequence[str]) -> DictConfig:
        assert self._context is not None
        assert self._config is not None
        config = self._context.config_loader.load_sweep_config(self._config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = str(index)
            config.hydra.job.num = index
        return config


def _compose_once(loader: ConfigLoader) -> None:
    """Keep what the sweeper composes, to see whether a job is legal, for the launcher, which asks for it next."""
    compose = loader.load_sweep_config
    waiting: dict[tuple[str, ...], DictConfig] = {}

    def load_sweep_config(master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        wanted = tuple(sweep_overrides)
        if wanted in waiting:
            return waiting.pop(wanted)
        waiting[wanted] = compose(master_config, sweep_overrides)
        return waiting[wanted]

    loader.load_sweep_config = load_sweep_config  # type: ignore[method-assign]


def _returned(config: DictConfig, outcome: Any) -> JobReturn:
    """What a sweeper gets of a job: where its results are, or what failed."""
    overrides = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    assert isinstance(overrides, list)
    returned = Returned(overrides=overrides, cfg=config, hydra_cfg=config, task_name=config.hydra.job.name)
    returned.status = JobStatus.FAILED if outcome.failed else JobStatus.COMPLETED
    returned.return_value = outcome.error if outcome.failed else outcome.out
    return returned
