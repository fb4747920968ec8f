"""Run the real command line, in a process of its own as a user does, or where many runs are refused in this one."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rat_ray", *arguments]


def rat_ray(*arguments: str, cwd: Path, timeout: float = 1200) -> subprocess.CompletedProcess[str]:
    """Run to the end; the caller looks at returncode, stdout and stderr."""
    return subprocess.run(command(*arguments), cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)


def succeed(*arguments: str, cwd: Path, timeout: float = 1200) -> str:
    """Run, insist on exit code 0, and give what was printed."""
    done = rat_ray(*arguments, cwd=cwd, timeout=timeout)
    assert done.returncode == 0, (
        f"{arguments} ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout


def refuse(*arguments: str, cwd: Path, timeout: float = 300) -> str:
    """Run, insist on bad input (exit code 2), one error line and no traceback, and give the message."""
    done = rat_ray(*arguments, cwd=cwd, timeout=timeout)
    assert done.returncode == 2, (
        f"{arguments} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert "error: " in done.stderr
    return done.stderr


def refuse_here(*arguments: str, cwd: Path) -> str:
    """As `refuse`, in this process: for the many settings that are refused before any work, and no test of the exit."""
    from rat_ray.cli import main

    said, shouted = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(said), contextlib.redirect_stderr(shouted):
        code = main(list(arguments))
    assert code == 2, f"{arguments} ended with {code}:\n{said.getvalue()[-2000:]}\n{shouted.getvalue()[-2000:]}"
    assert "Traceback" not in said.getvalue() + shouted.getvalue()
    assert "error: " in shouted.getvalue()
    return shouted.getvalue()


def everything_under(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and time of change, to see that nothing was touched."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
