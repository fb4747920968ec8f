"""The one mechanism behind every stage: keys, ranges, workers, resume, and rows in = rows out.

`stage.py` says what a stage is, `runs.py` runs stages: what is missing is cut into units (`units.py`, `batch.py`), done
by a runner (`runner.py`) in this process or in a pool of workers on Ray, and committed. `recovery.py` decides what
becomes of rows that kill their worker. Ranges travel; rows go straight from Parquet to worker to Parquet.
"""

from rat_ray.stage.imports import import_rows, import_table
from rat_ray.stage.runs import Runs
from rat_ray.stage.stage import Stage, StageFailure, StageRecord, cut

__all__ = ["Runs", "Stage", "StageFailure", "StageRecord", "cut", "import_rows", "import_table"]
