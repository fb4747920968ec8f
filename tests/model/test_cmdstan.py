"""The engine `cmdstan`, through the whole of CmdStanPy.

CmdStan cannot be installed on every machine, so what these tests run by default is `cmdstan_cli.py`: it speaks
CmdStan's command line, and stanli samples. CmdStanPy, the files, the processes and the errors are real; the compiler is
not, and each test of the compilation says what stands in for it. With CMDSTAN or RAT_CMDSTAN_EXE set (a folder of
executables named after their programs, or that of rat.stan alone) the same tests run on a real CmdStan.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from arviz_stats.base import array_stats

from rat_ray.errors import InputError, MissingExtraError
from rat_ray.model import EngineSettings, fit
from rat_ray.model.engines import check, cmdstan, cmdstan_exe, program_path, sample
from tests.model.cmdstan_cli import write_executable
from tests.model.tables import table

cmdstanpy = pytest.importorskip("cmdstanpy")

CONF = Path(__file__).resolve().parents[2] / "conf"
REAL_EXE, REAL_CMDSTAN = os.environ.get("RAT_CMDSTAN_EXE", ""), os.environ.get("CMDSTAN", "")
REAL = bool(REAL_EXE or REAL_CMDSTAN)
without_cmdstan = pytest.mark.skipif(REAL, reason="makes the test executable fail; a real CmdStan is in use")

# Every kind of data and column that CmdStan writes in a way of its own: empty ones, arrays of vectors, matrices.
PROGRAM = """
data {
  int<lower=0> N;
  array[N] int<lower=0, upper=1> y;
  int<lower=0> J;
  matrix[0, 2] no_rows;
  matrix[2, 0] no_columns;
  array[2] matrix[0, 3] no_rows_twice;
  array[0] matrix[2, 3] no_matrices;
  vector[J] nothing;
  array[0] int no_ints;
  array[2] vector[3] location;
  real tiny;
}
parameters {
  real<lower=0, upper=1> p;
  vector<lower=0, upper=1>[J] unused;
  array[2] vector[3] x;
  matrix[2, 2] m;
}
model {
  y ~ bernoulli(p);
  for (i in 1 : 2) {
    x[i] ~ normal(location[i], 1);
  }
  to_vector(m) ~ normal(0, 1);
}
generated quantities {
  real odds = p / (1 - p);
  real as_given = tiny;
  array[2] real random = normal_rng({0, 0}, 1);
}
"""
DATA: dict[str, int | np.ndarray] = {
    "N": 5,
    "y": np.array([0, 1, 1, 1, 0]),
    "J": 0,
    "no_rows": np.zeros((0, 2)),
    "no_columns": np.zeros((2, 0)),
    "no_rows_twice": np.zeros((2, 0, 3)),
    "no_matrices": np.zeros((0, 2, 3)),
    "nothing": np.zeros(0),
    "no_ints": np.zeros(0, dtype=int),
    "location": np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
    "tiny": np.array(1 / 3),
}
SHORT = {"chains": 2, "warmup": 150, "samples": 60}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "small.stan"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


@pytest.fixture
def settings_for(tmp_path: Path) -> Callable[..., EngineSettings]:
    """The settings that run a program: on a real CmdStan where there is one, else on the test executable."""

    def settings(program: Path, **more: Any) -> EngineSettings:
        mine = EngineSettings(kind="cmdstan", **{**SHORT, **more})
        if REAL_EXE:
            folder = Path(REAL_EXE).is_dir()
            if not (Path(REAL_EXE) / program.stem).is_file() if folder else program != program_path():
                pytest.skip(f"RAT_CMDSTAN_EXE has no executable of {program.name}")
            return mine
        if REAL_CMDSTAN:
            return mine
        return replace(mine, exe_file=str(write_executable(tmp_path / program.stem, program)))

    return settings


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Neither an executable nor CmdStan; the cache is in the test's folder."""
    monkeypatch.delenv("RAT_CMDSTAN_EXE", raising=False)
    monkeypatch.delenv("CMDSTAN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RAT_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[Path]]:
    """A memory disk and a folder for temporary files that nothing else uses; what lies there or in CmdStanPy's own."""
    places = [tmp_path / "memory", tmp_path / "temporary"]
    for place in places:
        place.mkdir()
    monkeypatch.setattr(cmdstan, "MEMORY_DISK", places[0])
    monkeypatch.setattr(tempfile, "tempdir", str(places[1]))
    monkeypatch.setenv("TMPDIR", str(places[1]))  # of the chains
    return lambda: [path for place in (*places, Path(cmdstanpy._TMPDIR)) for path in place.rglob("*")]


# The draws


def test_it_agrees_with_stanli(program: Path, settings_for: Callable[..., EngineSettings]) -> None:
    long = {"warmup": 400, "samples": 500}
    mine = sample(program, DATA, 7, settings_for(program, **long))
    other = sample(program, DATA, 7, EngineSettings(**{**SHORT, **long}))
    assert mine.names == other.names
    assert "x[1,3]" in mine.names
    assert mine.values.shape == (2, 500, len(mine.names))
    assert mine.seconds > 0
    for name in ("lp", "divergent", "treedepth", "energy"):
        assert getattr(mine, name).shape == (2, 500), name
    assert (mine.values[:, :, mine.names.index("as_given")] == 1 / 3).all()  # every digit of the data arrives
    for index, name in enumerate(mine.names):
        if name == "as_given":
            continue
        one, two = mine.values[:, :, index], other.values[:, :, index]
        error = np.hypot(
            array_stats.mcse(one, chain_axis=0, draw_axis=1), array_stats.mcse(two, chain_axis=0, draw_axis=1)
        )
        assert abs(one.mean() - two.mean()) < 4 * error, name


@without_cmdstan
def test_nothing_is_lost_on_the_way(program: Path, settings_for: Callable[..., EngineSettings]) -> None:
    """The test executable samples with stanli: through JSON, CSV and CmdStanPy come the same draws to the last bit."""
    mine = sample(program, DATA, 7, settings_for(program))
    other = sample(program, DATA, 7, EngineSettings(**SHORT))
    assert mine.names == other.names
    for name in ("values", "lp", "divergent", "treedepth", "energy"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(other, name), err_msg=name)


def test_the_draws_depend_on_the_seed_alone(program: Path, settings_for: Callable[..., EngineSettings]) -> None:
    settings = settings_for(program)
    first = sample(program, DATA, 3, settings)
    for same in (settings, replace(settings, parallel_chains=2), replace(settings, parallel_chains=8)):
        np.testing.assert_array_equal(sample(program, DATA, 3, same).values, first.values)
    assert not np.array_equal(sample(program, DATA, 4, settings).values, first.values)
    assert not np.array_equal(first.values[0], first.values[1])  # one seed, and each chain has its own stream


def test_one_chain(program: Path, settings_for: Callable[..., EngineSettings]) -> None:
    draws = sample(program, DATA, 3, settings_for(program, chains=1))
    assert draws.values.shape[:2] == draws.lp.shape == (1, 60)


def test_a_fit_of_the_rat_model(settings_for: Callable[..., EngineSettings]) -> None:
    """stan/rat.stan, whatever its data block is: only `fit` knows that."""
    rows = [(1, 0, 1)] * 30 + [(1, 0, 0)] * 10 + [(0, 1, None)] * 15 + [(0, 0, 0)] * 12 + [(None, 0, 1)] * 5
    long = {"warmup": 400, "samples": 400}
    mine = fit(table(rows), engine=settings_for(program_path(), **long), seed=5)
    other = fit(table(rows), engine=EngineSettings(**{**SHORT, **long}), seed=5)
    compared = 0
    for quantity in ("p_g", "p_t", "p_a", "rho"):
        error = np.hypot(mine.value(quantity, "mcse"), other.value(quantity, "mcse"))  # type: ignore[arg-type]
        assert abs(mine.value(quantity) - other.value(quantity)) < 4 * error, quantity  # type: ignore[operator]
        compared += 1
    assert compared == 4


# Files and logs


@pytest.mark.slow
def test_no_file_is_left(
    program: Path, settings_for: Callable[..., EngineSettings], disks: Callable[[], list[Path]]
) -> None:
    settings = settings_for(program, warmup=20, samples=10)
    for memory_disk in (cmdstan.MEMORY_DISK, Path("/absent")):
        cmdstan.MEMORY_DISK = memory_disk  # the fixture restores it
        for seed in range(1, 4):
            sample(program, DATA, seed, settings)
        with pytest.raises(RuntimeError, match="variable name=y"):
            sample(program, {**DATA, "N": 4}, 1, settings)
    assert disks() == []


def test_the_files_are_on_the_memory_disk_while_it_has_room(
    program: Path,
    settings_for: Callable[..., EngineSettings],
    disks: Callable[[], list[Path]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = settings_for(program, warmup=20, samples=10)
    seen: list[list[Path]] = []
    reader = cmdstanpy.CmdStanMCMC.__init__

    def spy(self: Any, runset: Any) -> None:
        seen.append([path for path in disks() if path.is_file()])
        reader(self, runset)

    monkeypatch.setattr(cmdstanpy.CmdStanMCMC, "__init__", spy)
    sample(program, DATA, 1, settings)
    monkeypatch.setattr(cmdstan, "COLUMNS", 10**15)
    sample(program, DATA, 1, settings)
    for files, disk in zip(seen, (cmdstan.MEMORY_DISK, Path(tempfile.gettempdir())), strict=True):
        assert sorted(path.suffix for path in files) == [".csv", ".csv", ".json", ".txt", ".txt"]
        assert {path.parent.parent for path in files} == {disk}


def test_what_a_killed_process_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cmdstan, "MEMORY_DISK", tmp_path)
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold_a_folder, args=(str(tmp_path), ready))
    process.start()
    assert ready.wait(60)
    (held,) = tmp_path.iterdir()
    os.utime(held, (0, 0))
    with cmdstan._private_folder(1):
        assert held.exists()  # its owner lives
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    young = tmp_path / f"{cmdstan.PREFIX}young"  # made a moment ago, not locked yet
    young.mkdir()
    with cmdstan._private_folder(1) as mine:
        assert set(tmp_path.iterdir()) == {mine, young}


def _hold_a_folder(parent: str, ready: Any) -> None:
    cmdstan.MEMORY_DISK = Path(parent)
    with cmdstan._private_folder(1):
        ready.set()
        time.sleep(120)


def test_it_is_quiet(
    program: Path,
    settings_for: Callable[..., EngineSettings],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = settings_for(program)
    caplog.set_level(logging.DEBUG, "cmdstanpy")
    with pytest.raises(RuntimeError):
        sample(program, {**DATA, "N": 4}, 1, settings)
    sample(program, DATA, 1, settings)
    assert capfd.readouterr() == ("", "")
    assert [record.message for record in caplog.records if record.name == "cmdstanpy"] == []
    logging.getLogger("cmdstanpy").warning("a user's own CmdStanPy logs as before")
    assert any("as before" in record.message for record in caplog.records)


def test_overlapping_fits_leave_the_logger_as_it_was() -> None:
    logger = logging.getLogger("cmdstanpy")
    first, second = cmdstan._quiet(), cmdstan._quiet()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert logger.disabled
    second.__exit__(None, None, None)
    assert not logger.disabled


# Errors


def test_a_failed_chain_says_why(program: Path, settings_for: Callable[..., EngineSettings]) -> None:
    with pytest.raises(
        RuntimeError, match=r"chain 1 of 2 failed \(exit code \d+\): (.|\n)*mismatch in dim.*variable name=y"
    ) as caught:
        sample(program, {**DATA, "N": 4}, 1, settings_for(program))
    for place in (str(cmdstan.MEMORY_DISK), tempfile.gettempdir(), cmdstan.PREFIX, "method = "):
        assert place not in str(caught.value).replace(str(program), program.name), place


@without_cmdstan
@pytest.mark.slow
def test_a_single_failed_chain_fails_the_fit(
    program: Path,
    settings_for: Callable[..., EngineSettings],
    disks: Callable[[], list[Path]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = settings_for(program)
    monkeypatch.setenv("CMDSTAN_CLI_FAIL", "2")
    with pytest.raises(
        RuntimeError, match=r"chain 2 of 2 failed \(exit code 1\): (.|\n)*asked chain 2 to fail"
    ) as caught:
        sample(program, DATA, 1, settings)
    assert "Initialization failed." in str(caught.value)
    assert len(str(caught.value).splitlines()) < 12  # CmdStan repeats itself a hundred times
    monkeypatch.delenv("CMDSTAN_CLI_FAIL")
    monkeypatch.setenv("CMDSTAN_CLI_KILL", "2")
    with pytest.raises(RuntimeError, match=r"chain 2 of 2 failed \(ended by SIGKILL.*memory.*\): it printed nothing"):
        sample(program, DATA, 1, settings)
    assert disks() == []


@without_cmdstan
def test_a_setting_that_cmdstan_refuses(program: Path, settings_for: Callable[..., EngineSettings]) -> None:
    with pytest.raises(RuntimeError, match=r'0\.05 is not a valid value for "delta"'):
        sample(program, DATA, 1, settings_for(program, adapt_delta=0.05))


def test_a_truncated_file_is_an_error(
    program: Path, settings_for: Callable[..., EngineSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that ran full. CmdStanPy's reader is real; the file is cut before it reads it."""
    reader = cmdstanpy.CmdStanMCMC.__init__

    def cut(self: Any, runset: Any) -> None:
        path = Path(runset.csv_files[1])
        path.write_bytes(path.read_bytes()[:-2000])
        reader(self, runset)

    monkeypatch.setattr(cmdstanpy.CmdStanMCMC, "__init__", cut)
    with pytest.raises(RuntimeError, match=r"output cannot be read.*small-.*csv.*MiB are free") as caught:
        sample(program, DATA, 1, settings_for(program))
    assert cmdstan.PREFIX not in str(caught.value)


@pytest.mark.slow
def test_an_executable_of_another_program_is_refused(
    program: Path, settings_for: Callable[..., EngineSettings], tmp_path: Path
) -> None:
    settings = settings_for(program)
    if not settings.exe_file:
        pytest.skip("CmdStan compiles the program itself: there is no ready executable")
    here = tmp_path / "changed" / program.name
    here.parent.mkdir()
    here.write_text(PROGRAM.replace("real odds", "real ratio"), encoding="utf-8")
    with pytest.raises(InputError, match=r"was not compiled from .*they differ in odds, ratio; compile it again"):
        sample(here, DATA, 1, settings)
    here.write_text(PROGRAM.replace("to_vector(m) ~ normal(0, 1)", "to_vector(m) ~ normal(0, 1.01)"), encoding="utf-8")
    with pytest.raises(InputError, match=r"was not compiled from .*log densities differ by"):
        sample(here, DATA, 1, settings)
    here.write_text(PROGRAM.replace("y ~ bernoulli(p)", "target += bernoulli_lpmf(y | p)"), encoding="utf-8")
    sample(here, DATA, 1, settings)  # the same density up to a constant


def test_without_cmdstan_the_error_says_how_to_install_it(nowhere: Path, program: Path) -> None:
    settings = EngineSettings(kind="cmdstan")
    for call in (lambda: check(settings), lambda: sample(program, DATA, 1, settings)):
        with pytest.raises(
            InputError, match=r"not found; .*python -m cmdstanpy.install_cmdstan.*conda.*RAT_CMDSTAN_EXE"
        ):
            call()


def test_a_wrong_cmdstan_folder(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMDSTAN", str(nowhere / "absent"))
    with pytest.raises(InputError, match=r"CMDSTAN = .*absent.*does not exist.*install_cmdstan"):
        check(EngineSettings(kind="cmdstan"))


def test_without_cmdstanpy(nowhere: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cmdstanpy", None)
    settings = EngineSettings(kind="cmdstan")
    for call in (lambda: check(settings), lambda: sample(program, DATA, 1, settings)):
        with pytest.raises(MissingExtraError, match=r"pip install 'rat_ray\[cmdstan\]'"):
            call()


def test_what_is_no_executable_of_cmdstan(nowhere: Path) -> None:
    def settings(path: Path) -> EngineSettings:
        return EngineSettings(kind="cmdstan", exe_file=str(path))

    file = nowhere / "rat"
    with pytest.raises(InputError, match=r"engine.exe_file = .*there is no executable .*rat; compile"):
        check(settings(file))
    file.write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(InputError, match=r"is not executable; chmod"):
        check(settings(file))
    file.chmod(0o755)
    with pytest.raises(InputError, match=r"no program that CmdStan .*compiled: `info` printed 'hello'"):
        check(settings(nowhere))  # a folder: the executable in it is named after the program
    file.write_bytes(b"\x7fELF garbage")
    with pytest.raises(InputError, match=r"no program that CmdStan .*compiled"):
        check(settings(file))
    with pytest.raises(InputError, match=r"engine.exe_file = 'x': only engine.kind=cmdstan"):
        EngineSettings(exe_file="x").validate()


def test_the_settings_come_before_the_environment(
    nowhere: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (write_executable(nowhere / name, program) for name in ("one", "two"))
    assert cmdstan_exe.ready(EngineSettings(kind="cmdstan"), program) is None
    monkeypatch.setenv("RAT_CMDSTAN_EXE", str(one))
    check(EngineSettings(kind="cmdstan"))
    assert cmdstan_exe.ready(EngineSettings(kind="cmdstan"), program) == one
    assert cmdstan_exe.ready(EngineSettings(kind="cmdstan", exe_file=str(two)), program) == two


def test_stanli_needs_no_check(nowhere: Path) -> None:
    check(EngineSettings())
    with pytest.raises(InputError, match="unknown"):
        check(EngineSettings(kind="cmdstn"))


# Compiling. Real: the cache, its key, the lock, the processes, CmdStanPy's look for CmdStan. Not real: the CmdStan
# folder (a makefile with a version and nothing else) and `compile_stan_file`, which writes the test executable.


@pytest.fixture
def no_compiler(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CmdStan that compiles nothing; each compilation leaves a file in the folder that is returned."""
    _pretend_cmdstan(nowhere, "2.36.0")
    monkeypatch.setenv("CMDSTAN", str(nowhere / "cmdstan"))
    compiled = nowhere / "compiled"
    compiled.mkdir()
    monkeypatch.setattr(cmdstanpy, "compile_stan_file", _Compiler(nowhere))
    return compiled


class _Compiler:
    """Stands in for `cmdstanpy.compile_stan_file`. The program is copied, since the source is gone afterwards."""

    def __init__(self, folder: Path, seconds: float = 0.0) -> None:
        self.folder, self.seconds = folder, seconds

    def __call__(self, source: str) -> str:
        number = len(list((self.folder / "compiled").iterdir()))
        program = self.folder / f"source{number}_{os.getpid()}" / Path(source).name
        program.parent.mkdir()
        program.write_bytes(Path(source).read_bytes())
        target = Path(source).with_suffix("")
        target.write_text("half of an executable")
        (self.folder / "compiled" / f"{number}_{os.getpid()}").touch()
        time.sleep(self.seconds)
        return str(write_executable(target, program))


def _pretend_cmdstan(folder: Path, version: str) -> None:
    (folder / "cmdstan").mkdir(exist_ok=True)
    (folder / "cmdstan" / "makefile").write_text(f"CMDSTAN_VERSION := {version}\n")


def test_a_program_is_compiled_once(no_compiler: Path, program: Path) -> None:
    settings = EngineSettings(kind="cmdstan", **SHORT)
    check(settings)
    assert list(no_compiler.iterdir()) == []
    first = sample(program, DATA, 1, settings)
    np.testing.assert_array_equal(sample(program, DATA, 1, settings).values, first.values)
    assert len(list(no_compiler.iterdir())) == 1
    cache = cmdstan_exe.cache_folder()
    assert cache == no_compiler.parent / "cache" / "cmdstan"
    assert [path.suffix for path in sorted(cache.iterdir())] == ["", ".lock"]  # no folder of the compilation


def test_another_program_or_cmdstan_is_compiled_anew(no_compiler: Path, program: Path) -> None:
    paths = [cmdstan_exe.compiled(program)]
    program.write_text(f"{PROGRAM}\n// changed\n", encoding="utf-8")
    paths.append(cmdstan_exe.compiled(program))
    _pretend_cmdstan(no_compiler.parent, "2.36.1")
    paths.append(cmdstan_exe.compiled(program))
    (no_compiler.parent / "cmdstan" / "make").mkdir()
    (no_compiler.parent / "cmdstan" / "make" / "local").write_text("STAN_THREADS=TRUE\n")
    paths.append(cmdstan_exe.compiled(program))
    assert len(set(paths)) == len(list(no_compiler.iterdir())) == 4
    assert {path.name for path in paths} == {"small"}


@pytest.mark.slow
def test_of_several_processes_one_compiles(no_compiler: Path, program: Path) -> None:
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    start = context.Barrier(3)
    processes = [
        context.Process(target=_compile_in_process, args=(no_compiler.parent, program, 1.0, start, found))
        for _ in range(3)
    ]
    for process in processes:
        process.start()
    paths = {found.get(timeout=40) for _ in processes}
    for process in processes:
        process.join()
    assert len(paths) == len(list(no_compiler.iterdir())) == 1
    assert "half" not in Path(paths.pop()).read_text()


def test_what_a_killed_compilation_left_is_no_executable(no_compiler: Path, program: Path) -> None:
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    start = context.Barrier(1)
    process = context.Process(target=_compile_in_process, args=(no_compiler.parent, program, 600.0, start, found))
    process.start()
    deadline = time.monotonic() + 60
    while not list(no_compiler.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    cache = cmdstan_exe.cache_folder()
    assert [path for path in cache.rglob("small") if path.is_file()]  # half of it, in the folder of the compilation
    path = cmdstan_exe.compiled(program)
    assert "half" not in path.read_text()
    assert [left for left in cache.iterdir() if left.name.startswith(".")] == []
    assert len(list(no_compiler.iterdir())) == 2


def _compile_in_process(folder: Path, program: Path, seconds: float, start: Any, found: Any) -> None:
    cmdstanpy.compile_stan_file = _Compiler(folder, seconds)
    start.wait(60)
    found.put(str(cmdstan_exe.compiled(program)))


def test_a_compilation_that_fails_says_why(nowhere: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CmdStanPy's own compilation, with a `make` that fails."""
    _pretend_cmdstan(nowhere, "2.36.0")
    monkeypatch.setenv("CMDSTAN", str(nowhere / "cmdstan"))
    make = nowhere / "make"
    make.write_text("#!/bin/sh\necho 'g++: command not found'\nexit 2\n")
    make.chmod(0o755)
    monkeypatch.setenv("MAKE", str(make))
    with pytest.raises(
        InputError, match=r"cannot compile .*small.stan; .*C\+\+ compiler(.|\n)*g\+\+: command not found"
    ):
        sample(program, DATA, 1, EngineSettings(kind="cmdstan", **SHORT))
    assert [path.suffix for path in cmdstan_exe.cache_folder().iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written(no_compiler: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = no_compiler.parent / "file"
    file.touch()
    monkeypatch.setenv("RAT_CACHE", str(file))
    with pytest.raises(InputError, match=r"cannot make the cache .*set RAT_CACHE"):
        sample(program, DATA, 1, EngineSettings(kind="cmdstan", **SHORT))


# Settings


def test_the_defaults_in_conf_are_the_defaults_in_the_code() -> None:
    conf = yaml.safe_load((CONF / "engine" / "cmdstan.yaml").read_text(encoding="utf-8"))
    assert conf == asdict(EngineSettings(kind="cmdstan"))


@without_cmdstan
def test_the_test_executable_refuses_what_cmdstan_refuses(program: Path, tmp_path: Path) -> None:
    import subprocess

    path = write_executable(tmp_path / "small", program)

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run([path, *words], capture_output=True, text=True, cwd=tmp_path)
        return done.returncode, done.stderr

    assert run("info") == (0, "")
    assert run("id=1", "output", "seed=3", "method=sample")[1].startswith("seed=3 is either mistyped or misplaced.")
    assert run("id=1")[1].startswith("A method must be specified!")
    assert run("method=sample", "num_samples=-1")[1].startswith('-1 is not a valid value for "num_samples"')
    assert run("data", "file=absent.json", "method=sample")[0] == 1
