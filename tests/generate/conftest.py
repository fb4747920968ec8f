"""The misbehaving server of the tests of kind `openai`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rat_ray.generate import server_pace
from tests.generate.llm_server import LlmServer, llm_server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries begin at once."""
    monkeypatch.setattr(server_pace, "FIRST_WAIT", 0.01)


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as running:
        yield running
