"""Fixtures that several tests need."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real public data beside the checkout; tests that need it are skipped where it is absent."""
    folder = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    if not (folder / "README.md").is_file():
        pytest.skip(f"shared data absent: {folder}")
    return folder.resolve()
