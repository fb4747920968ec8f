"""A test executable in place of one that CmdStan compiled: it speaks CmdStan's command line and samples with stanli.

It is run as a program of its own, `cmdstan_cli.py PROGRAM.stan ARGUMENTS...`; `write_executable` makes a small shell
script that does so, which CmdStanPy takes for a compiled model. What is real: the arguments (a mistyped or misplaced
one is refused as CmdStan refuses it), the data file, the streams of the seed and the chain id, the Stan CSV, the
console output, the exit codes. What is not: the sampler is stanli's, and only what CmdStanPy asks for with
`method=sample` exists. Written against CmdStan 2.36 (src/cmdstan/command.hpp, arguments/) and CmdStanPy 1.3.2.

Two environment variables make one chain fail: CMDSTAN_CLI_FAIL=2 (the chain with id 2 finds no initial value) and
CMDSTAN_CLI_KILL=2 (it is killed).
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

VERSION = (2, 36, 0)

# The arguments in CmdStan's order: name -> default value, or the arguments below it. A list: a choice with its own
# arguments, the default first.
Tree = dict[str, Any]
GRAMMAR: Tree = {
    "method": [
        {
            "sample": {
                "num_samples": 1000,
                "num_warmup": 1000,
                "save_warmup": False,
                "thin": 1,
                "adapt": {
                    "engaged": True,
                    "gamma": 0.05,
                    "delta": 0.8,
                    "kappa": 0.75,
                    "t0": 10.0,
                    "init_buffer": 75,
                    "term_buffer": 50,
                    "window": 25,
                    "save_metric": False,
                },
                "algorithm": [
                    {
                        "hmc": {
                            "engine": [{"nuts": {"max_depth": 10}}],
                            "metric": [{"diag_e": {}, "dense_e": {}}],
                            "metric_file": "",
                            "stepsize": 1.0,
                            "stepsize_jitter": 0.0,
                        }
                    }
                ],
                "num_chains": 1,
            }
        }
    ],
    "id": 1,
    "data": {"file": ""},
    "init": "2",
    "random": {"seed": 0},
    "output": {
        "file": "output.csv",
        "diagnostic_file": "",
        "refresh": 100,
        "sig_figs": -1,
        "profile_file": "profile.csv",
        "save_cmdstan_config": False,
    },
    "num_threads": 1,
}
AT_LEAST = {"num_samples": 0, "num_warmup": 0, "thin": 1, "max_depth": 1, "num_chains": 1, "id": 0, "sig_figs": -1}
# stanli samples with the defaults of all the others.
HONOURED = {"num_samples", "num_warmup", "delta", "max_depth", "num_chains", "id", "seed", "refresh", "sig_figs"}


@dataclass
class Arguments:
    """The values by name (names occur once, `file` apart), which were given, and the files."""

    values: dict[str, Any] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)

    def __getitem__(self, path: str) -> Any:
        return self.values[path]


def write_executable(path: Path, program: Path) -> Path:
    """A shell script at `path` that is the executable of this Stan program."""
    words = [sys.executable, str(Path(__file__).resolve()), str(program.resolve())]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


def main(program: Path, words: list[str]) -> int:
    """What the compiled program does with these arguments; the exit code."""
    if words == ["info"]:
        print("\n".join(_version_lines()))
        print(
            "STAN_THREADS=false\nSTAN_MPI=false\nSTAN_OPENCL=false\nSTAN_NO_RANGE_CHECKS=false\nSTAN_CPP_OPTIMS=false"
        )
        return 0
    arguments = Arguments()
    _defaults(GRAMMAR, "", arguments)
    rest = _parse(GRAMMAR, "", list(words), arguments)
    if rest:
        _refuse(f"{rest[0]} is either mistyped or misplaced.")
    if "method" not in arguments.given:
        _refuse("A method must be specified!")
    print("\n".join(_settings(GRAMMAR, "", arguments, 0)))
    print()
    return _sample(program, arguments)


# The command line


def _defaults(tree: Tree, path: str, into: Arguments) -> None:
    for name, value in tree.items():
        if isinstance(value, dict):
            _defaults(value, f"{path}{name}.", into)
        elif isinstance(value, list):
            into.values[path + name] = next(iter(value[0]))
            for choice, below in value[0].items():
                _defaults(below, f"{path}{name}.{choice}.", into)
        else:
            into.values[path + name] = value


def _parse(tree: Tree, path: str, words: list[str], into: Arguments) -> list[str]:
    """Take words as long as they belong to this level; the others are left to the level above."""
    while words:
        name, equals, text = words[0].partition("=")
        if name not in tree or bool(equals) == isinstance(tree[name], dict):
            return words
        words = words[1:]
        into.given.add(path + name)
        below = tree[name]
        if isinstance(below, dict):
            words = _parse(below, f"{path}{name}.", words, into)
        elif isinstance(below, list):
            if text not in below[0]:
                _refuse(f"{text} is not a valid value for {name!r}; this test executable knows {list(below[0])}")
            into.values[path + name] = text
            words = _parse(below[0][text], f"{path}{name}.{text}.", words, into)
        else:
            into.values[path + name] = _value(name, text, below)
    return words


def _value(name: str, text: str, default: Any) -> Any:
    try:
        value = bool(int(text)) if isinstance(default, bool) else type(default)(text)
    except ValueError:
        value = None
    if value is None or value < AT_LEAST.get(name, value) or (name == "delta" and not 0.1 <= value < 1):
        _refuse(f'{text} is not a valid value for "{name}"')
    if name not in HONOURED | {"file", "profile_file", "num_threads"} and value != default:
        _refuse(f"{name}={text}: this test executable knows {name}={default} only")
    return value


def _refuse(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    print("Failed to parse command arguments, cannot run model.", file=sys.stderr)
    raise SystemExit(1)


def _settings(tree: Tree, path: str, arguments: Arguments, depth: int) -> list[str]:
    """All settings as CmdStan prints them, on the console and into each CSV."""
    lines = []
    indent = "  " * depth
    for name, value in tree.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}", *_settings(value, f"{path}{name}.", arguments, depth + 1)]
            continue
        now = arguments[path + name]
        shown = int(now) if isinstance(now, bool) else now
        default = " (Default)" if path + name not in arguments.given else ""
        lines.append(f"{indent}{name} = {shown}{default}")
        if isinstance(value, list):
            lines.append(f"{indent}  {now}")
            lines += _settings(value[0][now], f"{path}{name}.{now}.", arguments, depth + 2)
    return lines


# Sampling


def _sample(program: Path, arguments: Arguments) -> int:
    first, chains = arguments["id"], arguments["method.sample.num_chains"]
    for chain in range(first, first + chains):
        target = Path(arguments["output.file"])
        if chains > 1:
            target = target.with_name(f"{target.stem}_{chain}.csv")
        if not _chain(program, arguments, chain, target):
            return 1
    if "output.profile_file" in arguments.given:
        head = "name,thread_id,total_time,forward_time,reverse_time,chain_stack,no_chain_stack,autodiff_calls"
        Path(arguments["output.profile_file"]).write_text(f"{head},no_autodiff_calls\n", encoding="utf-8")
    return 0


def _chain(program: Path, arguments: Arguments, chain: int, target: Path) -> bool:
    import stanli

    warmup, samples = arguments["method.sample.num_warmup"], arguments["method.sample.num_samples"]
    lines = [*_version_lines(), f"model = {program.stem}_model", "start_datetime = 2026-01-01 00:00:00 UTC"]
    lines += [*_settings(GRAMMAR, "", arguments, 0), "stanc_version = stanc3 v2.36.0", "stancflags = "]
    if os.environ.get("CMDSTAN_CLI_KILL") == str(chain):
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.perf_counter()
    try:
        if os.environ.get("CMDSTAN_CLI_FAIL") == str(chain):
            raise RuntimeError(f"initialization failed: first error: the test asked chain {chain} to fail")
        text = Path(arguments["data.file"]).read_text(encoding="utf-8") if arguments["data.file"] else "{}"
        json.loads(text)
        model = stanli.Model(stan_code=program.read_text(encoding="utf-8"), data=text)
        # stanli numbers its chains from 1 and gives each CmdStan's stream of that id: the last is the one asked for.
        fit = model.sample(
            chains=chain,
            seed=arguments["random.seed"],
            warmup=warmup,
            samples=samples,
            delta=arguments["method.sample.adapt.delta"],
            max_depth=arguments["method.sample.algorithm.hmc.engine.nuts.max_depth"],
            metric=arguments["method.sample.algorithm.hmc.metric"],
            parallel_chains=1,
            refresh=0,
        )
    except (RuntimeError, ValueError) as error:
        _failed(str(error), program)
        return False
    seconds = time.perf_counter() - start
    print("\nGradient evaluation took 1e-05 seconds")
    print("1000 transitions using 10 leapfrog steps per transition would take 0.1 seconds.")
    print("Adjust your expectations accordingly!\n\n")
    total = warmup + samples
    print(f"Iteration: {1:>4} / {total} [  0%]  (Warmup)\nIteration: {total:>4} / {total} [100%]  (Sampling)")
    _write(target, lines, fit, arguments["output.sig_figs"], seconds)
    print(f"\n Elapsed Time: {seconds:.3f} seconds (Total)\n")
    return True


def _failed(message: str, program: Path) -> None:
    """As CmdStan says it: what happens at the initial values goes to stdout, the reason for the end to stderr."""
    where = f" (in '{program.name}', line 1, column 0 to column 1)"
    if "initialization failed" not in message:
        print(f"Exception: {message}{where}", file=sys.stderr)
        return
    why = message.partition("first error: ")[2] or message
    for _ in range(100):
        print("Rejecting initial value:\n  Error evaluating the log probability at the initial value.")
        print(f"Exception: {why}{where}")
    print("\nInitialization between (-2, 2) failed after 100 attempts. ")
    print(" Try specifying initial values, reducing ranges of constrained values, or reparameterizing the model.")
    sys.stdout.flush()
    print("Initialization failed.", file=sys.stderr)


def _write(target: Path, comments: list[str], fit: Any, sig_figs: int, seconds: float) -> None:
    """The Stan CSV of the last chain: settings, header, adaptation, draws, times."""
    import numpy as np
    import stanli

    digits = sig_figs if sig_figs > 0 else 6
    header = [*stanli.SAMPLER_COLUMNS, *(_dotted(name) for name in fit.names)]
    statistics = [fit[name].reshape(fit.n_chains, -1)[-1] for name in stanli.SAMPLER_COLUMNS]
    rows = np.column_stack([*statistics, fit.draws()[-1]])
    metric = np.asarray(fit.inv_metric[-1])
    kind = "Diagonal elements of inverse mass matrix" if metric.ndim == 1 else "Elements of inverse mass matrix"
    with target.open("w", encoding="utf-8") as file:
        file.writelines(f"# {line}\n" for line in comments)
        file.write(",".join(header) + "\n# Adaptation terminated\n")
        file.write(f"# Step size = {fit.step_size[-1]:.{digits}g}\n")
        file.write(f"# {kind}:\n")
        for line in np.atleast_2d(metric):
            file.write("# " + ", ".join(f"{value:.{digits}g}" for value in line) + "\n")
        file.writelines(",".join(f"{value:.{digits}g}" for value in row) + "\n" for row in rows)
        file.write(f"# \n#  Elapsed Time: {seconds / 2:.6f} seconds (Warm-up)\n")
        file.write(f"#                {seconds / 2:.6f} seconds (Sampling)\n")
        file.write(f"#                {seconds:.6f} seconds (Total)\n# \n")


def _dotted(name: str) -> str:
    """`theta[1,2]` as CmdStan writes it, theta.1.2."""
    return name.replace("[", ".").replace(",", ".").removesuffix("]")


def _version_lines() -> list[str]:
    return [f"stan_version_{name} = {part}" for name, part in zip(("major", "minor", "patch"), VERSION, strict=True)]


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
