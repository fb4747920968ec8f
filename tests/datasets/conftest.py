"""What all tests of datasets share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is remembered of files that do not change stays within a test: other code may have found it."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("RAT_CACHE", str(folder))
    return folder
