"""Fixtures that several tests need."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rat_ray.store import Store
from tests import ray_nodes

ray_nodes.token_of_this_process()  # before anything imports Ray, which reads them then and never again


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, by name, what `.ci/run` has no time left for: RAT_TESTS_UNTIL is in seconds since 1970."""
    until = float(os.environ.get("RAT_TESTS_UNTIL", "inf"))
    if time.time() > until:
        pytest.skip("no time left in .ci/run; run it with: pytest -m slow")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store in a folder of the test's own."""
    made = Store(tmp_path / "store")
    made.prepare()
    return made


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real public data beside the checkout; tests that need it are skipped where it is absent."""
    folder = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    if not (folder / "README.md").is_file():
        pytest.skip(f"shared data absent: {folder}")
    return folder.resolve()
