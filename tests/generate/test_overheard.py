"""What a child process writes to stderr is passed on and kept; its last exception is found in it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from rat_ray.generate.overheard import Overheard


def _child(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


def _until(found: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not found() and time.monotonic() < end:
        time.sleep(0.01)
    assert found()


def test_a_childs_last_error_is_kept_and_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    overheard, written = Overheard(), []
    with overheard:
        _child("raise RuntimeError('the first')").wait()
        _child("raise ValueError('no memory for the cache')").wait()

    def passed_on() -> bool:
        written.append(capfd.readouterr().err)
        return "no memory for the cache" in "".join(written)

    _until(passed_on)
    assert overheard.last_error() == "ValueError: no memory for the cache"
    os.write(2, b"after it\n")
    assert "after it" in capfd.readouterr().err


def test_a_child_is_listened_to_for_as_long_as_it_lives(capfd: pytest.CaptureFixture[str]) -> None:
    overheard = Overheard()
    with overheard:
        child = subprocess.Popen([sys.executable, "-c", "input(); raise KeyError('late')"], stdin=subprocess.PIPE)
    os.write(2, b"TypeError: this process, later\n")
    assert overheard.last_error() == ""
    child.communicate(b"\n")
    _until(lambda: overheard.last_error() == "KeyError: 'late'")
    capfd.readouterr()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("\x1b[31m(EngineCore pid=7)\x1b[0m ValueError: No memory", "ValueError: No memory"),
        ("torch.OutOfMemoryError: CUDA out of memory", "OutOfMemoryError: CUDA out of memory"),
        ("ERROR: all is lost", ""),
        ("OSError: " + "x" * 1000, "OSError: " + "x" * 291),
    ],
)
def test_how_an_error_is_known(line: str, error: str, capfd: pytest.CaptureFixture[str]) -> None:
    overheard = Overheard()
    with overheard:
        os.write(2, f"{line}\nand more\n".encode())
    _until(lambda: "and more" in overheard._lines)
    assert overheard.last_error() == error
    overheard.forget()
    assert overheard.last_error() == ""
    capfd.readouterr()
