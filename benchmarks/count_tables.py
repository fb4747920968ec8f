"""Count tables for the benchmarks: the expected number of items of every pattern that can occur, at least one each."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa

RHO, ALPHA, TAU = 0.7, (0.5, 0.15), (0.25, 0.8)  # P(R=1), P(A=1 | R), P(T=1 | A=0, R)
FPR, TPR = (0.15, 0.2, 0.1, 0.25), (0.85, 0.88, 0.8, 0.9)  # of the judges, in their order

Pattern = tuple[int | None, ...]


def count_table(judges: Sequence[str], items: int = 2000, labelled: float = 0.3, judged: float = 0.9) -> pa.Table:
    """r and t are labelled together, on a share of the items; a always; every judge gives a verdict on most items.

    With one judge of R and one of T these are 54 patterns: 5 ways to label r and t where the system answered times 9
    ways to judge, and 3 times 3 where it abstained (verdicts on T are set aside there).
    """
    expected: dict[Pattern, float] = defaultdict(float)
    for r, a, is_labelled in itertools.product((0, 1), repeat=3):
        for t in (None,) if a else (0, 1):
            chance = _state(r, a, t) * (labelled if is_labelled else 1 - labelled)
            labels = (r, a, t) if is_labelled else (None, a, None)
            for verdicts in itertools.product((0, 1, None), repeat=len(judges)):
                share = chance
                seen: list[int | None] = []
                for index, (judge, verdict) in enumerate(zip(judges, verdicts, strict=True)):
                    truth = r if judge.startswith("r@") else t
                    share *= _verdict(index, truth, verdict, judged)
                    seen.append(None if truth is None else verdict)
                expected[(*labels, *seen)] += items * share
    columns = zip(*expected, strict=True)
    return pa.table(
        {
            **{name: pa.array(list(c), pa.int8()) for name, c in zip(("r", "a", "t", *judges), columns, strict=True)},
            "use": pa.array(["fit"] * len(expected)),
            "n": pa.array([max(1, round(share)) for share in expected.values()], pa.int64()),
        }
    )


def _state(r: int, a: int, t: int | None) -> float:
    answered = 1.0 if t is None else (TAU[r] if t else 1 - TAU[r])
    return (RHO if r else 1 - RHO) * (ALPHA[r] if a else 1 - ALPHA[r]) * answered


def _verdict(judge: int, truth: int | None, verdict: int | None, judged: float) -> float:
    """The probability of a judge's verdict; where there is nothing to judge, any verdict, which is then set aside."""
    if verdict is None:
        return 1 - judged
    one = 0.5 if truth is None else (TPR[judge] if truth else FPR[judge])
    return judged * (one if verdict else 1 - one)
