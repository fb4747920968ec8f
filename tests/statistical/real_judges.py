"""Real judges with shared errors: does the 95 % interval of P(T=1) hold people's rate when few items have a label?

1,490 answers to 301 questions (EHSK/OpenQA-eval), each judged by people, GPT-4, text-davinci-003 and BEM. A split keeps
people's label on 50 or 150 items and hides the rest. `python -m tests.statistical.real_judges` writes its section of
docs/validation.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.stats import beta

from rat_ray.model import EngineSettings, Prior, patterns
from rat_ray.model.design import Options
from rat_ray.model.posterior import sample
from rat_ray.model.ppi import prediction_powered
from rat_ray.model.verdicts import INDEPENDENT, PANEL
from rat_ray.tables import LABEL

JUDGES = ("t@gpt4", "t@davinci", "t@bem")
BEM_THRESHOLD = 0.5
SIZES = (50, 150)
ENGINE = EngineSettings(chains=2, warmup=500, samples=750)
ITEMS_OF_DATA = "annotations/openqa_eval_nq301.jsonl"
LABELLED_ONLY, PPI = "labels only", "PPI++"
HEADING = "## Real judges"
NOTES = Path(__file__).resolve().parents[2] / "docs" / "validation.md"


@dataclass(frozen=True)
class Answers:
    """truth: (items,) people's labels; verdicts: (items, judges) of 0, 1, and -1 where the judge said nothing."""

    truth: np.ndarray
    verdicts: np.ndarray

    @property
    def rate(self) -> float:
        """People's rate of right answers."""
        return float(self.truth.mean())


class Interval(NamedTuple):
    """A 95 % interval."""

    mean: float
    low: float
    high: float


class Result(NamedTuple):
    """Over the splits. covered: how many intervals hold people's rate; width, rmse: means over the splits."""

    method: str
    labelled: int
    splits: int
    covered: int
    width: float
    bias: float
    rmse: float


def read_answers(path: Path) -> Answers:
    """The file's rows: the gold lists, some with broken quotes and one missing, are not needed."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    verdicts = [[row["judge_gpt4"], row["judge_davinci003"], _above(row["judge_bem_prob"])] for row in rows]
    return Answers(
        np.array([row["human_final"] for row in rows]),
        np.array([[-1 if verdict is None else verdict for verdict in row] for row in verdicts]),
    )


def _above(probability: float | None) -> int | None:
    return None if probability is None else int(probability > BEM_THRESHOLD)


def split(answers: Answers, labelled: int, seed: int) -> np.ndarray:
    """(items,) of booleans: the items that keep their label."""
    kept = np.random.default_rng([seed, labelled]).permutation(len(answers.truth))[:labelled]
    return np.isin(np.arange(len(answers.truth)), kept)


def counts_of(answers: Answers, kept: np.ndarray) -> pa.Table:
    """a = 0 throughout, r never observed."""
    items = len(answers.truth)
    columns = {
        "r": pa.nulls(items, LABEL),
        "a": pa.array(np.zeros(items), LABEL),
        "t": pa.array(answers.truth, LABEL, mask=~kept),
    }
    for index, judge in enumerate(JUDGES):
        said = answers.verdicts[:, index]
        columns[judge] = pa.array(np.maximum(said, 0), LABEL, mask=said < 0)
    return patterns(pa.table(columns), list(JUDGES))


def model_interval(counts: pa.Table, judge_model: str, prior: Prior) -> Interval:
    """Of the model's P(T=1), for new items like these."""
    options = Options(judge_model=judge_model, finite=False, replicate=False)
    sampled = sample(counts, prior, ENGINE, 1, "openqa", options)
    if sampled.failure:
        raise RuntimeError(sampled.failure)
    values = sampled.draws.column("p_t").to_numpy()
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(float(values.mean()), float(low), float(high))


def labels_interval(answers: Answers, kept: np.ndarray) -> Interval:
    """The labelled items alone: exact under a uniform prior."""
    right, size = int(answers.truth[kept].sum()), int(kept.sum())
    posterior = beta(1 + right, 1 + size - right)
    return Interval(float(posterior.mean()), float(posterior.ppf(0.025)), float(posterior.ppf(0.975)))


def ppi_interval(counts: pa.Table) -> Interval:
    """PPI++ with the judges' mean verdict."""
    found = prediction_powered(counts, "p_t")
    assert found is not None
    return Interval(found.mean, found.low, found.high)


Intervals = dict[str, Interval]


def one_split(answers: Answers, labelled: int, seed: int, priors: dict[str, Prior]) -> Intervals:
    """Every method on one split. priors: those of the panel, by the name that the table shows."""
    kept = split(answers, labelled, seed)
    counts = counts_of(answers, kept)
    found = {name: model_interval(counts, PANEL, prior) for name, prior in priors.items()}
    return {
        **found,
        INDEPENDENT: model_interval(counts, INDEPENDENT, Prior()),
        LABELLED_ONLY: labels_interval(answers, kept),
        PPI: ppi_interval(counts),
    }


def trial(
    answers: Answers, splits: int, priors: dict[str, Prior], out: Path | None = None, sizes: Sequence[int] = SIZES
) -> list[Result]:
    """Every method on the same splits. out: a file of the splits that are done, one JSON line each, to go on with."""
    done = _read_done(out)
    for labelled, seed in itertools.product(sizes, range(splits)):
        if (labelled, seed) in done:
            continue
        done[labelled, seed] = one_split(answers, labelled, seed, priors)
        if out is not None:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps([labelled, seed, done[labelled, seed]]) + "\n")
    found = []
    for labelled in sizes:
        mine = [done[labelled, seed] for seed in range(splits)]
        found += [_result(name, labelled, [one[name] for one in mine], answers.rate) for name in mine[0]]
    return found


def _read_done(out: Path | None) -> dict[tuple[int, int], Intervals]:
    if out is None or not out.is_file():
        return {}
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return {(size, seed): {name: Interval(*one) for name, one in found.items()} for size, seed, found in lines}


def _result(method: str, labelled: int, intervals: Sequence[Interval], rate: float) -> Result:
    mean, low, high = np.array(intervals).T
    return Result(
        method=method,
        labelled=labelled,
        splits=len(intervals),
        covered=int(((low <= rate) & (rate <= high)).sum()),
        width=float((high - low).mean()),
        bias=float((mean - rate).mean()),
        rmse=math.sqrt(float(((mean - rate) ** 2).mean())),
    )


def table_of(results: Sequence[Result]) -> str:
    """Markdown."""
    lines = ["| labels | method | coverage of 95 % | mean width | bias | RMSE |", "|---|---|---|---|---|---|"]
    for one in results:
        share = one.covered / one.splits
        error = math.sqrt(share * (1 - share) / one.splits)
        lines.append(
            f"| {one.labelled} | {one.method} | {share:.3f} ± {error:.3f} | {one.width:.3f} | {one.bias:+.3f} "
            f"| {one.rmse:.3f} |"
        )
    return "\n".join(lines)


def section(answers: Answers, results: Sequence[Result]) -> str:
    """The section of docs/validation.md."""
    splits = results[0].splits
    return f"""{HEADING}

{len(answers.truth):,} answers to 301 Natural Questions (EHSK/OpenQA-eval), each judged by people
(P(T=1) = {answers.rate:.3f}), GPT-4 (13 verdicts missing), text-davinci-003 and BEM (above {BEM_THRESHOLD}; one
missing). People's labels are kept on 50 or 150 answers drawn at random, the verdicts on all, in {splits} splits;
every answer counts as answered (a = 0), and R was never observed. Coverage: the share of splits whose 95 % interval
holds people's rate, with its Monte Carlo error. `panel` and `independent` are the two models of the judges' errors
under the default priors; `labels only` is the exact Beta interval of the labelled answers; PPI++ is that of
`rat_ray.model.ppi`.

{table_of(results)}

The bar is .90 for `panel` at both sizes. The three judges share errors: `independent` takes their agreement for
certainty, and its interval misses people's rate.

Made by `python -m tests.statistical.real_judges --splits {splits}` (some 15 minutes on one core).
"""


def write_section(path: Path, text: str) -> None:
    """Put the section at the end of the file, or in the place of an older one."""
    before = path.read_text(encoding="utf-8") if path.is_file() else "# Validation\n"
    start = before.find(f"{HEADING}\n")
    after = ""
    if start >= 0:
        end = before.find("\n## ", start)
        after = "" if end < 0 else before[end + 1 :]
        before = before[:start]
    path.write_text(f"{before.rstrip()}\n\n{text}" + (f"\n{after}" if after else ""), encoding="utf-8")


def main() -> None:
    """Run every split, and print the table or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=NOTES.parents[2] / "shared" / "data" / ITEMS_OF_DATA)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--leans", type=float, nargs="*", default=[], help="further values of prior.panel_lean")
    parser.add_argument("--out", type=Path, help="keeps the splits that are done, so that a stopped run can go on")
    parser.add_argument("--dry", action="store_true", help="print the table and leave docs/validation.md alone")
    arguments = parser.parse_args()
    answers = read_answers(arguments.data)
    priors = {PANEL: Prior()}
    priors |= {f"{PANEL}, panel_lean = {lean:g}": replace(Prior(), panel_lean=lean) for lean in arguments.leans}
    text = section(answers, trial(answers, arguments.splits, priors, arguments.out))
    print(text)
    if not arguments.dry:
        write_section(NOTES, text)


if __name__ == "__main__":
    main()
