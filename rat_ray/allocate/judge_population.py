"""The items of a judge study: trusted labels, verdicts, and the shares and rates that they have in the whole table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate.judge_settings import JUDGED, PlantedJudge, planted_columns
from rat_ray.allocate.population import trusted_columns
from rat_ray.errors import InputError, did_you_mean
from rat_ray.model.patterns import (
    FIT,
    MISSING,
    TRUSTED,
    Code,
    check_columns,
    digits_of,
    resolve,
    source_columns,
    trusted_sources,
)
from rat_ray.seeds import rank_key

R, A, T = range(len(TRUSTED))
_UNIT = 2.0**64  # of rank_key


@dataclass(frozen=True)
class JudgedItems:
    """Items with a known A and no error. labels: (items, 3), r, a and t of 0, 1 or MISSING; t is MISSING where a = 1.

    verdicts: (items,) per judge, MISSING where there is none, as for T of an abstention.
    """

    question_ids: Sequence[str]
    labels: np.ndarray
    verdicts: Mapping[str, np.ndarray]

    @property
    def size(self) -> int:
        return len(self.question_ids)

    @property
    def known(self) -> tuple[bool, bool]:
        """Whether there is any trusted label of R, and of T."""
        return bool((self.labels[:, R] != MISSING).any()), bool((self.labels[:, T] != MISSING).any())

    @property
    def complete(self) -> np.ndarray:
        """(items,): has a trusted label of whatever is ever labelled, and one at all."""
        r, t = self.labels[:, R] != MISSING, self.labels[:, T] != MISSING
        answered = self.labels[:, A] == 0
        has_r, has_t = self.known
        if has_r and has_t:
            return np.asarray(r & (t | ~answered))
        return np.asarray(r if has_r else t)

    @property
    def is_full(self) -> bool:
        """Whether the trusted labels are complete, so that shares can be counted."""
        has_r, has_t = self.known
        unknown = self.labels == MISSING
        answered = self.labels[:, A] == 0
        return not ((has_r and unknown[:, R].any()) or (has_t and unknown[answered, T].any()))

    @property
    def quantities(self) -> list[str]:
        """What the trusted labels settle."""
        has_r, has_t = self.known
        named = {"p_g": has_r and has_t, "p_t": has_t, "rho": has_r}
        return [name for name, settled in named.items() if settled]

    def said(self, judges: Sequence[str]) -> np.ndarray:
        """Indices of the items with a verdict of any of the judges."""
        return np.flatnonzero(np.any([self.verdicts[judge] != MISSING for judge in judges], axis=0))


class Rates(NamedTuple):
    """A judge's rate of 1 where its variable is 1, and 0; None where there is no such item with a verdict."""

    tpr: float | None
    fpr: float | None


def read_items(
    annotations: pa.Table,
    trusted: Mapping[str, Sequence[str]],
    judges: Sequence[str],
    planted: Mapping[str, PlantedJudge],
    seed: int,
    config: str,
) -> JudgedItems:
    """The items of one configuration, with the verdicts of these columns and planted ones.

    Verdicts of a planted judge depend on the seed, its name, the configuration and the items' ids alone. Raises
    InputError for a column that is missing, and for labels that are no labels.
    """
    columns = trusted_columns(trusted)
    check_columns(annotations, [name for names in columns.values() for name in names])
    rows = annotations
    if "error" in rows.schema.names:
        rows = rows.filter(pc.is_null(rows.column("error")))
    plain = [judge for judge in judges if judge not in planted_columns(planted)]
    labels = np.stack([_first_label(rows, columns[variable]) for variable in TRUSTED], axis=1)
    labels[labels[:, A] == 1, T] = MISSING  # whatever a rule says of the text of an abstention
    verdicts = [digits_of(rows.column(judge), judge) for judge in plain]
    kept = labels[:, A] != MISSING
    n = np.ones(int(kept.sum()), dtype=np.int64)
    flat = np.zeros(len(n), dtype=np.int32)
    code = Code(np.column_stack([labels, *verdicts])[kept].astype(np.int8), flat + FIT, flat, n, n.astype(float))
    resolved = resolve(code, plain).labels
    ids = [one for one, keep in zip(_ids(rows), kept.tolist(), strict=True) if keep]
    found = {judge: resolved[:, len(TRUSTED) + index] for index, judge in enumerate(plain)}
    items = JudgedItems(ids, resolved[:, : len(TRUSTED)], found)
    for name, judge in planted_columns(planted).items():
        if name in judges:
            found[name] = _plant(items, name, judge, seed, config)
    return replace(items, verdicts=found)


def judges_of(
    annotations: pa.Table,
    trusted: Mapping[str, Sequence[str]],
    named: Sequence[str],
    planted: Mapping[str, PlantedJudge],
    config: str,
) -> list[str]:
    """The judges to study: those named, or every source column of R and T that is not trusted; then the planted ones.

    Raises InputError for a name without a column, a trusted source, a judge of A, and where no judge is left.
    """
    what = f"judge study of config {config!r}"
    there = source_columns(annotations.schema.names)
    given = {name for names in trusted_columns(trusted).values() for name in names} | trusted_sources(annotations)
    free = [name for name in there if name not in given and name[0] in JUDGED]
    for judge in named:
        if judge in given:
            raise InputError(
                f"{what}: {judge} is a trusted source, so it cannot be a judge as well; judges here: {_list(free)}"
            )
        if judge not in there:
            raise InputError(f"{what}: there is no column {judge!r}{did_you_mean(judge, free)}; judges: {_list(free)}")
        if judge[0] not in JUDGED:
            raise InputError(
                f"{what}: {judge} judges A, which a study takes as known everywhere: it has nothing to add"
            )
    made = planted_columns(planted)
    for name in made:
        if name in there:
            raise InputError(f"{what}: a planted judge would be the column {name!r}, which is there; rename it")
    found = [*(named or free), *made]
    if not found:
        raise InputError(
            f"{what}: no column of the table is a judge (source columns: {_list(there)}; trusted: "
            f"{_list(sorted(given))}); "
            "run with judge=…, or plant one: judge_study.planted.NAME={variable: t, tpr: .9, fpr: .1}"
        )
    return found


def order_of(question_ids: Sequence[str], chosen: np.ndarray, seed: int, *names: str | int) -> np.ndarray:
    """The chosen indices in a random order that depends on the seed, the names and the items' ids alone."""
    keys = {index: (rank_key(seed, *names, question_ids[index]), question_ids[index]) for index in chosen.tolist()}
    return np.array(sorted(keys, key=lambda index: keys[index]), dtype=np.int64)


def shares_of(items: JudgedItems) -> dict[str, float]:
    """The plain share of each quantity. items: with all trusted labels."""
    r, a, t = items.labels.T
    follows = np.where(r == 1, t == 1, a == 1)
    shares = {"p_g": follows.mean(), "p_t": (t == 1).mean(), "rho": (r == 1).mean()}
    return {name: float(shares[name]) for name in items.quantities}


def rates_of(items: JudgedItems, judge: str) -> Rates:
    """The judge's plain rates among all items with its verdict and a trusted label."""
    truth, verdict = items.labels[:, TRUSTED.index(judge[0])], items.verdicts[judge]
    said = verdict != MISSING
    ones, zeros = verdict[said & (truth == 1)], verdict[said & (truth == 0)]
    return Rates(*(float(one.mean()) if len(one) else None for one in (ones, zeros)))


def _first_label(rows: pa.Table, names: Sequence[str]) -> np.ndarray:
    found = np.full(rows.num_rows, MISSING, dtype=np.int8)
    for name in names:
        found = np.where(found == MISSING, digits_of(rows.column(name), name), found).astype(np.int8)
    return found


def _ids(rows: pa.Table) -> list[str]:
    if "question_id" in rows.schema.names:
        return [str(one) for one in rows.column("question_id").to_pylist()]
    return [str(index) for index in range(rows.num_rows)]


def _plant(items: JudgedItems, name: str, judge: PlantedJudge, seed: int, config: str) -> np.ndarray:
    truth = items.labels[:, TRUSTED.index(judge.variable)]
    draws = np.array([rank_key(seed, "planted", config, name, one) for one in items.question_ids], dtype=float) / _UNIT
    said = draws < np.where(truth == 1, judge.tpr, judge.fpr)
    return np.where(truth == MISSING, MISSING, said).astype(np.int8)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
