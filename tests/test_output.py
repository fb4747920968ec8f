"""The `out` folder belongs to one job."""

from __future__ import annotations

from pathlib import Path

import pytest

from rat_ray.errors import InputError
from rat_ray.output import OutFolder, read_run


def test_of_two_jobs_at_once_the_first_gets_the_folder(tmp_path: Path) -> None:
    first = OutFolder(tmp_path / "out", {"seed": 1}, kind="fit")

    class Second(OutFolder):
        def check(self) -> None:
            super().check()
            first.claim()  # comes in between the check and the claim

    with pytest.raises(InputError, match=r"other settings \(seed\)"):
        Second(tmp_path / "out", {"seed": 2}, kind="fit").claim()
    run = read_run(tmp_path / "out")
    assert run is not None
    assert run["settings"] == {"seed": 1}


def test_a_folder_in_the_place_of_run_json_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(InputError, match="not made by rat-ray"):
        OutFolder(tmp_path, {}, kind="fit").check()
