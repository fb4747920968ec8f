"""NUTS by CmdStan through CmdStanPy: a compiled program, one process per chain, files on a memory disk."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rat_ray.errors import InputError
from rat_ray.model.engines import Draws, EngineSettings, StanData
from rat_ray.model.engines.cmdstan_exe import Executable, cmdstan_folder, cmdstanpy, executable, ready

MEMORY_DISK = Path("/dev/shm")
PREFIX = "rat_ray-cmdstan-"
DIGITS = 18  # 17 bring every double back exactly
COLUMNS = 500  # more than a program of rat_ray writes: how many are not known before sampling
_ABANDONED_S = 60.0  # a folder this young may be one whose owner has not locked it yet


def check(settings: EngineSettings, program: Path) -> None:
    """Raise InputError when CmdStan cannot run this program here, with what to do. It compiles nothing.

    MissingExtraError: no CmdStanPy.
    """
    cmdstanpy()
    if ready(settings, program) is None:
        cmdstan_folder()


def sample(program: Path, data: StanData, seed: int, settings: EngineSettings) -> Draws:
    """Draws of every parameter and generated quantity. seed: in [1, 2**31 - 1]; chain c has CmdStan's id c.

    Of a ready executable the draws are checked: their columns and log density must be this program's. `seconds` are
    those until the draws are in memory. No file of the fit is left, whatever happens.

    Raises RuntimeError when a chain fails, InputError as `check` does, for a program that does not compile and for an
    executable of another program.
    """
    chosen = executable(settings, program)
    with _private_folder(_bytes_needed(data, settings)) as folder, _quiet():
        file = folder / "data.json"
        cmdstanpy().write_stan_json(str(file), dict(data))
        start = time.perf_counter()
        names, columns = _run(chosen, file, seed, settings, folder)
        seconds = time.perf_counter() - start
    draws = _draws(names, columns, seconds, program)
    if chosen.ready:
        _check_program(chosen.path, program, data, seed, draws)
    return draws


def _run(
    chosen: Executable, file: Path, seed: int, settings: EngineSettings, folder: Path
) -> tuple[list[str], np.ndarray]:
    """CmdStan's columns, and (chains, draws, columns)."""
    try:
        fit = (
            cmdstanpy()
            .CmdStanModel(exe_file=str(chosen.path))
            .sample(
                data=str(file),
                chains=settings.chains,
                parallel_chains=min(settings.parallel_chains, settings.chains),
                threads_per_chain=1,
                force_one_process_per_chain=True,
                seed=seed,
                chain_ids=1,
                iter_warmup=settings.warmup,
                iter_sampling=settings.samples,
                save_warmup=False,
                adapt_delta=settings.adapt_delta,
                max_treedepth=settings.max_treedepth,
                metric=settings.metric,
                output_dir=str(folder),
                sig_figs=DIGITS,
                show_progress=False,
                show_console=False,
                refresh=settings.warmup + settings.samples,
            )
        )
        return list(fit.column_names), np.asarray(fit.draws()).transpose(1, 0, 2)
    except (RuntimeError, ValueError, OSError) as error:
        raise RuntimeError(_reason(error, folder, settings)) from None


def _draws(names: list[str], columns: np.ndarray, seconds: float, program: Path) -> Draws:
    if "divergent__" not in names:
        raise RuntimeError(f"{program.name} has no parameters: there is nothing to sample")
    position = {name: index for index, name in enumerate(names)}
    own = [name for name in names if not name.endswith("__")]  # no variable's name may end so

    def statistic(name: str) -> np.ndarray:
        return np.ascontiguousarray(columns[:, :, position[name]])

    return Draws(
        names=own,
        values=np.ascontiguousarray(columns[:, :, [position[name] for name in own]]),
        lp=statistic("lp__"),
        divergent=statistic("divergent__"),
        treedepth=statistic("treedepth__"),
        energy=statistic("energy__"),
        seconds=seconds,
    )


# Files


def _bytes_needed(data: StanData, settings: EngineSettings) -> int:
    """About what one fit writes: a number takes at most 25 characters."""
    numbers = sum(np.size(value) for value in data.values()) + settings.chains * settings.samples * COLUMNS
    return 25 * numbers


@contextmanager
def _private_folder(need: int) -> Iterator[Path]:
    """A folder of this fit alone, gone afterwards; on a memory disk where one has twice the room that is needed.

    Its owner holds a lock on it, so that the folder of a process that was killed can be told from one in use: a later
    fit removes it.
    """
    parent = _parent(need)
    _remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _parent(need: int) -> Path:
    """Twice the room: other fits run at the same time. (In a container /dev/shm has 64 MB unless told otherwise.)"""
    if os.access(MEMORY_DISK, os.W_OK | os.X_OK) and shutil.disk_usage(MEMORY_DISK).free > 2 * need:
        return MEMORY_DISK
    return Path(tempfile.gettempdir())


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            if time.time() - folder.stat().st_mtime < _ABANDONED_S:
                continue
            handle = os.open(folder, os.O_RDONLY)
        except OSError:  # another user's, or its owner removed it just now
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # in use
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


# CmdStanPy's logger


_quiet_lock = threading.Lock()
_quiet_fits = 0
_was_disabled = False


@contextmanager
def _quiet() -> Iterator[None]:
    """CmdStanPy logs nothing while any fit runs; its own switch loses the old state when two threads overlap."""
    global _quiet_fits, _was_disabled
    logger = logging.getLogger("cmdstanpy")
    with _quiet_lock:
        if _quiet_fits == 0:
            _was_disabled, logger.disabled = logger.disabled, True
        _quiet_fits += 1
    try:
        yield
    finally:
        with _quiet_lock:
            _quiet_fits -= 1
            if _quiet_fits == 0:
                logger.disabled = _was_disabled


# What went wrong


def _reason(error: Exception, folder: Path, settings: EngineSettings) -> str:
    """The first failed chain, how it ended and what it printed; without the paths of the folder that is gone."""
    codes = re.search(r"retcodes=\[([-\d, ]*)\]", str(error))
    failed = [
        (number, int(code)) for number, code in enumerate(codes[1].split(",") if codes else [], start=1) if int(code)
    ]
    if not failed:  # the chains ended well, and their files cannot be read
        room = shutil.disk_usage(folder).free
        cause = f": {error.__cause__}" if error.__cause__ else ""
        text = f"CmdStan's output cannot be read: {error}{cause} ({room // 2**20} MiB are free on its disk)"
        return _without(folder, text)
    chain, code = failed[0]
    said = [_said(path) for path in folder.glob(f"*_{chain - 1}-stdout.txt")]
    text = said[0] if said and said[0] else "it printed nothing"
    return _without(folder, f"CmdStan: chain {chain} of {settings.chains} failed ({_ended(code)}): {text}")


def _without(folder: Path, text: str) -> str:
    return text.replace(f"{folder}{os.sep}", "").replace(str(folder), "")


def _ended(code: int) -> str:
    """How a process ended, from Python's return code; CmdStanPy has -1 for one that was never started."""
    if code >= 0:
        return f"exit code {code}"
    if code == -1:
        return "it could not be started, or its terminal went away"
    name = signal.Signals(-code).name if -code in {int(known) for known in signal.Signals} else f"signal {-code}"
    return f"ended by {name}" + ("; was the machine out of memory?" if name == "SIGKILL" else "")


def _said(console: Path) -> str:
    """A chain's messages: its console output without the settings that CmdStan repeats, progress and repetitions."""
    text = console.read_text(encoding="utf-8", errors="replace")
    # Errors come through another channel and may stand before or after the settings.
    text = re.sub(r"^method = .*?(\n\n|\Z)", "", text, count=1, flags=re.MULTILINE | re.DOTALL)
    chatter = re.compile(r"Iteration:|Gradient evaluation took|\d+ transitions using|Adjust your expectations")
    lines = [line.rstrip() for line in text.splitlines()]
    kept = list(dict.fromkeys(line for line in lines if line and not chatter.match(line)))
    if len(kept) > 10:
        kept = [*kept[:5], "…", *kept[-5:]]
    return "\n".join(kept)


# Is it the same program?


def _check_program(path: Path, program: Path, data: StanData, seed: int, draws: Draws) -> None:
    """Refuse the draws of an executable whose columns or log density differ from the program's.

    stanli runs the program as it stands; the log density of several draws must be CmdStan's, up to one constant. A
    generated quantity of the same name with another formula is not noticed.
    """
    import stanli

    from rat_ray.model.engines import stanli as stanli_engine

    model = stanli.Model(mir=stanli_engine.compiled(program.read_text(encoding="utf-8")), data=dict(data))
    names = list(model.sample(chains=1, seed=seed, warmup=1, samples=1, refresh=0).names)
    what = f"{path} was not compiled from {program} as it is now"
    todo = "compile it again, or leave engine.exe_file and RAT_CMDSTAN_EXE empty"
    if names != draws.names:
        differ = sorted(set(names) ^ set(draws.names)) or ["the order of the columns"]
        raise InputError(f"{what}: they differ in {', '.join(differ[:5])}; {todo}")
    gaps = _density_gaps(model, draws)
    typical = float(np.median(gaps)) if len(gaps) else 0.0
    # The median: unconstraining a draw next to a bound loses digits, and one such draw must not refuse a fit.
    apart = float(np.median(np.abs(gaps - typical))) if len(gaps) else 0.0
    if apart > 1e-4 + 1e-9 * float(np.abs(draws.lp).max()):
        raise InputError(f"{what}: their log densities differ by {apart:.3g} at the same points; {todo}")


def _density_gaps(model: Any, draws: Draws) -> np.ndarray:
    """CmdStan's log density minus stanli's at nine draws of the first chain, without those on a bound."""
    rows = np.unique(np.linspace(0, draws.lp.shape[1] - 1, 9).astype(int))
    gaps = []
    for row in rows:
        point = dict(zip(draws.names, draws.values[0, row].tolist(), strict=True))
        try:
            density, _ = model.log_prob_grad(_unconstrained(model, point))
        except (ValueError, RuntimeError):  # rounded onto the bound of its support
            continue
        gaps.append(draws.lp[0, row] - density)
    found: np.ndarray = np.asarray([gap for gap in gaps if np.isfinite(gap)], dtype=float)
    return found


def _unconstrained(model: Any, point: Mapping[str, float]) -> np.ndarray:
    """The free vector of a draw. Columns of one variable come in Stan's order, the first index fastest."""
    values: dict[str, float | list[float]] = {}
    for name in model.constrained_names:
        variable, bracket, _ = name.partition("[")
        if bracket:
            values.setdefault(variable, []).append(point[name])  # type: ignore[union-attr]
        else:
            values[variable] = point[name]
    while True:
        try:
            free: np.ndarray = model.unconstrain(values)
            return free
        except ValueError as error:
            # A parameter of size zero has no column, and stanli wants it all the same.
            empty = re.search(r"no starting value for parameter (\w+)", str(error))
            if not empty or empty[1] in values:
                raise
            values[empty[1]] = []
