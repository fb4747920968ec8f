"""Where the executable of a Stan program comes from: a ready one, or CmdStan compiles it, once per node."""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from rat_ray.errors import InputError, MissingExtraError
from rat_ray.model.engines import EngineSettings

INSTALL = (
    "install it with `python -m cmdstanpy.install_cmdstan` or `conda install -c conda-forge cmdstan`, point CMDSTAN "
    "to it, or set RAT_CMDSTAN_EXE (or engine.exe_file) to a ready executable of the program"
)


class Executable(NamedTuple):
    """ready: given by the user, so that what it was compiled from has to be checked."""

    path: Path
    ready: bool


def cmdstanpy() -> Any:
    """The package CmdStanPy. Raises MissingExtraError when it is not installed."""
    try:
        return importlib.import_module("cmdstanpy")
    except ImportError:
        raise MissingExtraError("cmdstanpy", "cmdstan") from None


def executable(settings: EngineSettings, program: Path) -> Executable:
    """The executable of this program: a ready one if one is named, else compiled now or earlier on this node.

    Raises InputError when there is neither, when a ready one does not run, or when the program does not compile.
    """
    given = ready(settings, program)
    return Executable(given, ready=True) if given else Executable(compiled(program), ready=False)


def ready(settings: EngineSettings, program: Path) -> Path | None:
    """The executable that the settings or RAT_CMDSTAN_EXE name, None when neither does.

    Raises InputError when it is absent or is no executable of CmdStan 2.27 or newer.
    """
    for name, value in (("engine.exe_file", settings.exe_file), ("RAT_CMDSTAN_EXE", os.environ.get("RAT_CMDSTAN_EXE"))):
        if value:
            return _checked(Path(value).expanduser().resolve(), program, f"{name} = {value!r}")
    return None


def cmdstan_folder() -> Path:
    """The installed CmdStan. Raises InputError, which says how to install it, when there is none."""
    try:
        return Path(cmdstanpy().cmdstan_path())
    except ValueError as error:
        why = f" (CMDSTAN = {os.environ['CMDSTAN']!r}: {error})" if os.environ.get("CMDSTAN") else ""
        raise InputError(f"engine.kind = cmdstan: CmdStan was not found{why}; {INSTALL}") from None


def compiled(program: Path) -> Path:
    """The program's executable in this node's cache; compiles it when it is not there.

    Of many processes at once one compiles and the others wait. What a killed compilation left is never taken for an
    executable: it is moved to its place only when it is whole.

    Raises InputError when CmdStan is absent or cannot compile the program.
    """
    cmdstan = cmdstan_folder()
    text = program.read_bytes()
    name = f"{program.stem}-{_digest(text, cmdstan)}"
    cache = cache_folder()
    target = cache / name / program.stem
    if target.exists():
        return target
    with _locked(cache / f"{name}.lock"):
        if target.exists():  # compiled while this process waited
            return target
        for left in cache.glob(f".{name}-*"):  # by a killed process: whoever compiles this program holds the lock
            shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache))
        try:
            source = folder / program.name
            source.write_bytes(text)
            made = _compile(source, program)
            target.parent.mkdir(exist_ok=True)
            os.replace(made, target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return target


def cache_folder() -> Path:
    """`cmdstan` in RAT_CACHE, by default ~/.cache/rat_ray/cmdstan; made when absent."""
    root = os.environ.get("RAT_CACHE")
    folder = (Path(root).expanduser() if root else Path.home() / ".cache" / "rat_ray") / "cmdstan"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the cache {folder}: {error.strerror}; set RAT_CACHE to a folder") from None
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The lock file is left where it is: to remove it while others wait for it would let two in."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, also by a killed process
        yield


def _compile(source: Path, program: Path) -> Path:
    try:
        return Path(cmdstanpy().compile_stan_file(str(source)))
    except (ValueError, RuntimeError, OSError) as error:
        text = str(error).replace(f"{source.parent}{os.sep}", "").strip()
        tail = "\n".join(text.splitlines()[-15:])
        raise InputError(
            f"CmdStan cannot compile {program}; it needs `make` and a C++ compiler. The end of its output:\n{tail}"
        ) from None


def _digest(text: bytes, cmdstan: Path) -> str:
    """The executable depends on the program, on CmdStan (version, its own settings, the libraries it links) and CPU."""
    local = cmdstan / "make" / "local"
    parts = [text, _version(cmdstan).encode(), str(cmdstan).encode(), platform.machine().encode()]
    parts.append(local.read_bytes() if local.is_file() else b"")
    return hashlib.sha256(b"\x1f".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]


def _version(cmdstan: Path) -> str:
    match = re.search(r"^CMDSTAN_VERSION := (\S+)", (cmdstan / "makefile").read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else ""


def _checked(path: Path, program: Path, where: str) -> Path:
    path = path / program.stem if path.is_dir() else path
    if not path.is_file():
        raise InputError(f"{where}: there is no executable {path}; compile {program} with CmdStan, or leave it empty")
    if not os.access(path, os.X_OK):
        raise InputError(f"{where}: {path} is not executable; chmod +x it, or compile {program} with CmdStan")
    stat = path.stat()
    why = _not_cmdstan(path, (stat.st_mtime_ns, stat.st_size))
    if why:
        raise InputError(f"{where}: {path} is no program that CmdStan 2.27 or newer compiled: {why}")
    return path


@lru_cache(maxsize=64)
def _not_cmdstan(path: Path, version: tuple[int, int]) -> str:
    """Empty when the file answers `info` as CmdStan's executables do. version: asked again when the file changed."""
    try:
        done = subprocess.run(
            [path, "info"], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=60
        )
    except subprocess.TimeoutExpired:
        return "`info` did not answer within 60 s"
    except OSError as error:
        return str(error.strerror)
    if re.search(r"^stan_version_major\s*=\s*\d", done.stdout, re.MULTILINE):
        return ""
    return f"`info` printed {(done.stderr or done.stdout).strip()[:300]!r} (exit code {done.returncode})"
