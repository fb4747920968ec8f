"""Where to spend the next label: studies of strategies and judges, and the planner."""

from __future__ import annotations

from rat_ray.allocate.checks import check
from rat_ray.allocate.costs import Costs
from rat_ray.allocate.settings import TASKS, AllocationSettings, StudySettings, System, tasks
from rat_ray.allocate.show import print_study
from rat_ray.allocate.simulated import SimulationSettings
from rat_ray.allocate.strategies import STRATEGIES
from rat_ray.allocate.study import StudyWorker, study_stage
from rat_ray.allocate.summary import STUDY_SUMMARY, summarise

__all__ = [
    "STRATEGIES",
    "STUDY_SUMMARY",
    "TASKS",
    "AllocationSettings",
    "Costs",
    "SimulationSettings",
    "StudySettings",
    "StudyWorker",
    "System",
    "check",
    "print_study",
    "study_stage",
    "summarise",
    "tasks",
]
