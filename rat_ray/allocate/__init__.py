"""Where to spend the next label: a study by simulation on a table whose trusted labels are complete."""

from __future__ import annotations

from rat_ray.allocate.population import check
from rat_ray.allocate.settings import TASKS, AllocationSettings, StudySettings, tasks
from rat_ray.allocate.show import print_study
from rat_ray.allocate.strategies import STRATEGIES
from rat_ray.allocate.study import StudyWorker, study_stage
from rat_ray.allocate.summary import STUDY_SUMMARY, summarise

__all__ = [
    "STRATEGIES",
    "STUDY_SUMMARY",
    "TASKS",
    "AllocationSettings",
    "StudySettings",
    "StudyWorker",
    "check",
    "print_study",
    "study_stage",
    "summarise",
    "tasks",
]
