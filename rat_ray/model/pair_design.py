"""Two systems on the same questions: their joint pattern counts, and the joint fit's design.

The pair has 6 x 6 joint states, 18 where both had the same context on every question, since R is one variable then.
Each system's judges err as in its own fit, given its own state and independent of the other system's judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.errors import InputError
from rat_ray.model.design import Design, Groups, Options, agreement, side_of
from rat_ray.model.layout import Items
from rat_ray.model.patterns import FIT, MISSING, TRUSTED, Code, check_columns, check_judges, digits_of, resolve
from rat_ray.model.priors import Beta, Prior
from rat_ray.model.states import ABSTAINED, ALL, ANSWERED, FINITE, R0, R1, RATIOS, RIGHT, STATES, Tree, tree_of_pair
from rat_ray.tables import LABEL

SIDES = ("first", "second")
FLOOR = 0.1  # of a split's concentration: below it the sampler has a hard time with states that hardly occur


class PairCounts(NamedTuple):
    """Distinct joint patterns. codes: one per side, row by row; same: both had the same context; both: both have it.

    same, both: (patterns,) of booleans. A pattern of one system only has all of the other's labels missing.
    """

    codes: tuple[Code, Code]
    same: np.ndarray
    both: np.ndarray

    @property
    def items(self) -> int:
        """Questions that both systems have."""
        return int(self.codes[0].n[self.both].sum())

    @property
    def same_context(self) -> int:
        """Questions on which both had the same context."""
        return int(self.codes[0].n[self.same].sum())


def pair_counts(tables: Sequence[pa.Table], judges: Sequence[Sequence[str]], names: Sequence[str]) -> PairCounts:
    """Join two label tables by question_id and count. A question that one of them lacks informs the other only.

    Rows whose `error` is not null, and calibration rows, are left out. A column `context` that is the same for both
    says that both had the same passages. Raises InputError for missing or repeated ids, or labels of r that differ
    although the context is the same.
    """
    labels, ids, contexts = zip(*(_read(*one) for one in zip(tables, judges, names, strict=True)), strict=True)
    every = np.array(sorted({*ids[0], *ids[1]}), dtype=object)
    places = [{name: i for i, name in enumerate(mine)} for mine in ids]
    rows = np.array([[place.get(name, -1) for place in places] for name in every.tolist()]).reshape(-1, 2)
    both = (rows >= 0).all(axis=1)
    same = both & np.array(
        [contexts[0][i] is not None and contexts[0][i] == contexts[1][j] for i, j in rows.tolist()], dtype=bool
    )
    sides = [
        np.where((rows[:, side] >= 0)[:, None], labels[side][rows[:, side]], np.int8(MISSING)) for side in range(2)
    ]
    r = np.stack([side[:, 0] for side in sides])
    torn = np.flatnonzero(same & (r != MISSING).all(axis=0) & (r[0] != r[1]))
    if len(torn):
        raise InputError(
            f"question {every[torn[0]]!r}: {names[0]} and {names[1]} had the same context, but r is {r[0][torn[0]]} "
            f"and {r[1][torn[0]]} ({len(torn)} such questions); whether the evidence is there has one answer"
        )
    unique, n = np.unique(np.column_stack([*sides, same, both]), axis=0, return_counts=True)
    width = sides[0].shape[1]
    parts = (unique[:, :width], unique[:, width:-2])
    codes = [_code(part.astype(np.int8), n, mine) for part, mine in zip(parts, judges, strict=True)]
    return PairCounts((codes[0], codes[1]), unique[:, -2].astype(bool), unique[:, -1].astype(bool))


def pair_schema(judges: Sequence[Sequence[str]]) -> pa.Schema:
    """The table of joint patterns: `first:r` and so on, the same for the second, both, same_context, n."""
    labels = [f"{side}:{name}" for side, mine in zip(SIDES, judges, strict=True) for name in (*TRUSTED, *mine)]
    flags = [pa.field(name, LABEL, nullable=False) for name in ("both", "same_context")]
    return pa.schema([*(pa.field(name, LABEL) for name in labels), *flags, pa.field("n", pa.int64(), nullable=False)])


def pair_table(counts: PairCounts, judges: Sequence[Sequence[str]]) -> pa.Table:
    """Joint pattern counts as a table (`pair_schema`)."""
    digits = np.column_stack([code.labels for code in counts.codes])
    labels = [
        pa.array(np.where(column == MISSING, 0, column), type=LABEL, mask=column == MISSING) for column in digits.T
    ]
    flags = [pa.array(flag.astype(np.int8)) for flag in (counts.both, counts.same)]
    return pa.Table.from_arrays([*labels, *flags, pa.array(counts.codes[0].n)], schema=pair_schema(judges))


def read_pair_table(table: pa.Table, judges: Sequence[Sequence[str]]) -> PairCounts:
    """Joint pattern counts from their table."""
    n = table.column("n").to_numpy()
    codes = []
    for side, mine in zip(SIDES, judges, strict=True):
        columns = [digits_of(table.column(f"{side}:{name}"), name) for name in (*TRUSTED, *mine)]
        codes.append(_code(np.stack(columns, axis=1).astype(np.int8), n, mine))
    same, both = (table.column(name).to_numpy().astype(bool) for name in ("same_context", "both"))
    return PairCounts((codes[0], codes[1]), same, both)


def _read(table: pa.Table, judges: Sequence[str], name: str) -> tuple[np.ndarray, list[str], list[str | None]]:
    check_judges(judges)
    columns = [*TRUSTED, *judges]
    try:
        check_columns(table, ["question_id", *columns])
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    if "error" in table.schema.names:
        table = table.filter(pc.is_null(table.column("error")))
    if "use" in table.schema.names:
        use = pc.fill_null(table.column("use").cast(pa.string()), "fit")
        table = table.filter(pc.is_in(use, pa.array(["fit", ""])))
    if table.num_rows == 0:
        raise InputError(f"config {name!r}: there are no items to fit")
    ids = [str(value) for value in table.column("question_id").to_pylist()]
    if len(set(ids)) < len(ids):
        twice = next(value for value in ids if ids.count(value) > 1)
        raise InputError(f"config {name!r}: question {twice!r} occurs more than once; pairs need one row per question")
    labels = np.stack([digits_of(table.column(column), column) for column in columns], axis=1).astype(np.int8)
    has_context = "context" in table.schema.names
    contexts = table.column("context").to_pylist() if has_context else [None] * len(ids)
    return labels, ids, contexts


def _code(labels: np.ndarray, n: np.ndarray, judges: Sequence[str]) -> Code:
    use = np.full(len(n), FIT, dtype=np.int32)
    return resolve(Code(labels, use, np.zeros(len(n), dtype=np.int32), n, n.astype(float)), list(judges))


def pair_design(counts: PairCounts, judges: Sequence[Sequence[str]], prior: Prior, options: Options) -> Design:
    """The joint fit. Its ratios are named `first:p_g`, `second:p_g` and so on."""
    tree = tree_of_pair(bool(counts.same[counts.both].all()))
    first, second = tree.side_state
    agree = agreement(counts.codes[0].labels)[:, first] & agreement(counts.codes[1].labels)[:, second]
    agree &= ~counts.same[:, None] | (STATES[first, 0] == STATES[second, 0])
    n = counts.codes[0].n
    zero = np.zeros(len(n), dtype=np.int64)
    sides = [side_of(code, mine, prior, options.judge_model) for code, mine in zip(counts.codes, judges, strict=True)]
    own: dict[str, tuple[np.ndarray, np.ndarray]] = dict(RATIOS)
    finite = list(FINITE)
    if not options.policy.is_default:
        own["utility"] = (options.policy.utilities, ALL)
        finite.append("utility")
    ratios = {
        f"{side}:{name}": (np.asarray(top)[states], np.asarray(bottom)[states])
        for side, states in zip(SIDES, tree.side_state, strict=True)
        for name, (top, bottom) in own.items()
    }
    return Design(
        tree=tree,
        splits=np.array(split_priors(tree, prior)),
        items=Items(agree, tuple(code.labels[:, len(TRUSTED) :] for code in counts.codes), zero, n, zero),
        groups=Groups(np.zeros(1, dtype=int), np.array([float(n.sum())]), ("pair",)),
        sides=tuple(sides) if any(judges) else (),
        ratios=ratios,
        finite=tuple(f"{side}:{name}" for side in SIDES for name in finite) if options.finite else (),
        prior_only=options.prior_only,
    )


def split_priors(tree: Tree, prior: Prior) -> list[Beta]:
    """Each split's Beta: that of the system's own parameter, weakened by the prior share of the other system's branch.

    So each system alone has about the prior of its own fit (for a Dirichlet prior of the states exactly so, but for the
    floor), and what the two have in common is left to the data.
    """
    found = []
    for split in range(tree.on_yes.shape[1]):
        yes, below = tree.on_yes[:, split], tree.on_yes[:, split] | tree.on_no[:, split]
        side = _split_side(tree, yes, below)
        here = [tree.side_state[k][below] for k in range(2)]
        a, b = _own_beta(np.unique(here[side]), np.unique(tree.side_state[side][yes]), prior)
        share = _share(np.unique(here[1 - side]), prior)
        if _same_context(tree) and len(np.unique(STATES[here[1 - side], 0])) == 1:
            share /= _share(np.flatnonzero(STATES[:, 0] == STATES[here[1 - side][0], 0]), prior)
        found.append((max(a * share, min(a, FLOOR)), max(b * share, min(b, FLOOR))))
    return found


def _same_context(tree: Tree) -> bool:
    return bool((STATES[tree.side_state[0], 0] == STATES[tree.side_state[1], 0]).all())


def _split_side(tree: Tree, yes: np.ndarray, below: np.ndarray) -> int:
    """Which system's variable the split decides: the one whose states differ between the two sides."""
    no = below & ~yes
    for side in range(2):
        if not set(tree.side_state[side][yes].tolist()) & set(tree.side_state[side][no].tolist()):
            return side
    raise AssertionError("a split decides a variable")


def _own_beta(below: np.ndarray, yes: np.ndarray, prior: Prior) -> Beta:
    betas = dict(zip(("rho", "alpha0", "alpha1", "tau0", "tau1"), prior.splits, strict=True))
    decided = {"rho": R1, "alpha0": R0 & ABSTAINED, "alpha1": R1 & ABSTAINED, "tau0": R0 & RIGHT, "tau1": R1 & RIGHT}
    within = {"rho": ALL, "alpha0": R0, "alpha1": R1, "tau0": R0 & ANSWERED, "tau1": R1 & ANSWERED}
    for name, beta in betas.items():
        if set(below.tolist()) == set(np.flatnonzero(within[name]).tolist()):
            assert set(yes.tolist()) == set(np.flatnonzero(decided[name]).tolist())
            return beta
    raise AssertionError("a split is one of a system's own")


def _share(states: np.ndarray, prior: Prior) -> float:
    """The prior mean of P(state in states)."""
    rho, a0, a1, t0, t1 = (a / (a + b) for a, b in prior.splits)
    theta = [
        (1 - rho) * a0,
        (1 - rho) * (1 - a0) * (1 - t0),
        (1 - rho) * (1 - a0) * t0,
        rho * a1,
        rho * (1 - a1) * (1 - t1),
        rho * (1 - a1) * t1,
    ]
    return float(sum(theta[state] for state in states.tolist()))
