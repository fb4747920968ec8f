"""Two systems on the same questions: their joint pattern counts, and the joint fit's design.

The pair has 6 x 6 joint states; 18 where both had the same context on every question, since R is one variable then;
18 + 36 where they had it on some.
Each system's judges err as in its own fit, given its own state and independent of the other system's judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.linalg import block_diag

from rat_ray.errors import InputError, did_you_mean
from rat_ray.model.design import Design, Groups, Options, agreement, side_of
from rat_ray.model.layout import Items
from rat_ray.model.patterns import (
    FIT,
    MISSING,
    TRUSTED,
    USES,
    Code,
    check_columns,
    check_judges,
    digits_of,
    resolve,
    trusted_sources,
)
from rat_ray.model.policy import quantities_of
from rat_ray.model.priors import Beta, Prior
from rat_ray.model.states import ABSTAINED, ALL, ANSWERED, R0, R1, RIGHT, STATES, Tree, tree_of_pair
from rat_ray.model.strata import MOST_STRATA, read_strata
from rat_ray.tables import LABEL

SIDES = ("first", "second")
FLOOR = 0.3  # of a split's concentration: below it the sampler has a hard time with states that hardly occur


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


class _Side(NamedTuple):
    """One system's rows: labels (rows, 3 + judges), ids, contexts, strata and what each row stands for."""

    labels: np.ndarray
    ids: list[str]
    contexts: list[str | None]
    strata: list[str | None]
    weights: np.ndarray


def pair_counts(tables: Sequence[pa.Table], judges: Sequence[Sequence[str]], names: Sequence[str]) -> PairCounts:
    """Join two label tables by question_id and count. A question that one of them lacks informs the other only.

    Rows whose `error` is not null, and calibration rows, are left out. A column `context` that is the same for both
    says that both had the same passages: a label of r then holds for both. Strata that differ make a stratum for each
    combination. Raises InputError for missing or repeated ids, another `use` than fit, calibration or failed, unusable
    strata, a judge that fills trusted labels, or labels of r that differ although the context is the same.
    """
    sides = [_read(*one) for one in zip(tables, judges, names, strict=True)]
    every = sorted({*sides[0].ids, *sides[1].ids})
    places = [{name: i for i, name in enumerate(side.ids)} for side in sides]
    rows = np.array([[place.get(name, -1) for place in places] for name in every]).reshape(-1, 2)
    present = rows >= 0
    both = present.all(axis=1)
    contexts = [[side.contexts[i] for i in rows[:, k].tolist()] for k, side in enumerate(sides)]
    same = both & np.array([one is not None and one == two for one, two in zip(*contexts, strict=True)], dtype=bool)
    labels = [np.where(present[:, k, None], side.labels[rows[:, k]], np.int8(MISSING)) for k, side in enumerate(sides)]
    _check_r(every, same, np.stack([side[:, 0] for side in labels]), names)
    for mine, other in (labels, labels[::-1]):  # with the same context a label of r is both's
        open_ = same & (mine[:, 0] == MISSING)
        mine[open_, 0] = other[open_, 0]
    strata, place = _common_strata(sides, rows)
    weights = np.where(present[:, 0], sides[0].weights[rows[:, 0]], sides[1].weights[rows[:, 1]])
    unique, inverse = np.unique(np.column_stack([*labels, same, both, place]), axis=0, return_inverse=True)
    n = np.bincount(inverse.reshape(-1), minlength=len(unique))
    stands_for = np.bincount(inverse.reshape(-1), weights=weights, minlength=len(unique))
    width = labels[0].shape[1]
    codes = [
        _code(part, n, stands_for, unique[:, -1], strata, mine)
        for part, mine in zip((unique[:, :width], unique[:, width:-3]), judges, strict=True)
    ]
    return PairCounts((codes[0], codes[1]), unique[:, -3].astype(bool), unique[:, -2].astype(bool))


def _check_r(ids: list[str], same: np.ndarray, r: np.ndarray, names: Sequence[str]) -> None:
    torn = np.flatnonzero(same & (r != MISSING).all(axis=0) & (r[0] != r[1]))
    if len(torn):
        raise InputError(
            f"question {ids[torn[0]]!r}: {names[0]} and {names[1]} had the same context, but r is {r[0][torn[0]]} "
            f"and {r[1][torn[0]]} ({len(torn)} such questions); whether the evidence is there has one answer"
        )


def _common_strata(sides: Sequence[_Side], rows: np.ndarray) -> tuple[tuple[str | None, ...], np.ndarray]:
    """The names of the strata, and the stratum of each question: that of both, or `one+other` where they differ."""
    found: list[str | None] = []
    for places in rows.tolist():
        mine = dict.fromkeys(side.strata[place] for side, place in zip(sides, places, strict=True) if place >= 0)
        names = [name for name in mine if name is not None]
        found.append("+".join(names) if names else None)
    strata = tuple(sorted(set(found), key=str))
    if len(strata) > MOST_STRATA:
        raise InputError(f"the two tables make {len(strata)} strata together; at most {MOST_STRATA} make sense")
    numbers = {name: number for number, name in enumerate(strata)}
    return strata, np.array([numbers[name] for name in found], dtype=np.int64)


def pair_schema(judges: Sequence[Sequence[str]]) -> pa.Schema:
    """The table of joint patterns: `first:r` and so on, the same for the second, both, same_context, stratum, n."""
    labels = [f"{side}:{name}" for side, mine in zip(SIDES, judges, strict=True) for name in (*TRUSTED, *mine)]
    return pa.schema(
        [
            *(pa.field(name, LABEL) for name in labels),
            *(pa.field(name, LABEL, nullable=False) for name in ("both", "same_context")),
            pa.field("stratum", pa.string()),
            pa.field("n", pa.int64(), nullable=False),
            pa.field("stands_for", pa.float64(), nullable=False),
        ]
    )


def pair_table(counts: PairCounts, judges: Sequence[Sequence[str]]) -> pa.Table:
    """Joint pattern counts as a table (`pair_schema`)."""
    first = counts.codes[0]
    digits = np.column_stack([code.labels for code in counts.codes])
    labels = [
        pa.array(np.where(column == MISSING, 0, column), type=LABEL, mask=column == MISSING) for column in digits.T
    ]
    flags = [pa.array(flag.astype(np.int8)) for flag in (counts.both, counts.same)]
    strata = pa.array([first.strata[number] for number in first.stratum.tolist()], pa.string())
    rest = [strata, pa.array(first.n), pa.array(first.stands_for)]
    return pa.Table.from_arrays([*labels, *flags, *rest], schema=pair_schema(judges))


def read_pair_table(table: pa.Table, judges: Sequence[Sequence[str]]) -> PairCounts:
    """Joint pattern counts from their table."""
    texts = table.column("stratum").to_pylist()
    strata = tuple(sorted(set(texts), key=str))
    stratum = np.array([strata.index(text) for text in texts], dtype=np.int64)
    n, stands_for = table.column("n").to_numpy(), table.column("stands_for").to_numpy()
    codes = []
    for side, mine in zip(SIDES, judges, strict=True):
        columns = [digits_of(table.column(f"{side}:{name}"), name) for name in (*TRUSTED, *mine)]
        codes.append(_code(np.stack(columns, axis=1), n, stands_for, stratum, strata, mine))
    same, both = (table.column(name).to_numpy().astype(bool) for name in ("same_context", "both"))
    return PairCounts((codes[0], codes[1]), same, both)


def _read(table: pa.Table, judges: Sequence[str], name: str) -> _Side:
    check_judges(judges)
    columns = [*TRUSTED, *judges]
    try:
        check_columns(table, ["question_id", *columns])
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    leaked = sorted(trusted_sources(table) & set(judges))
    if leaked:
        raise InputError(f"{name}: {', '.join(leaked)} fills trusted labels and cannot be a judge in the same fit")
    table = _informing(table, name)
    if table.num_rows == 0:
        raise InputError(f"config {name!r}: there are no items to fit")
    values = table.column("question_id").to_pylist()
    if None in values:
        raise InputError(f"config {name!r}: row {values.index(None) + 1} of those to fit has no question_id")
    ids = [str(value) for value in values]
    if len(set(ids)) < len(ids):
        twice = next(value for value, times in Counter(ids).items() if times > 1)
        raise InputError(f"config {name!r}: question {twice!r} occurs more than once; pairs need one row per question")
    labels = np.stack([digits_of(table.column(column), column) for column in columns], axis=1).astype(np.int8)
    has_context = "context" in table.schema.names
    contexts = table.column("context").to_pylist() if has_context else [None] * len(ids)
    try:
        strata = read_strata(table)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    place = np.zeros(len(ids), dtype=int) if strata.place is None else strata.place
    weights = np.ones(len(ids)) if strata.weight is None else strata.weight
    return _Side(labels, ids, contexts, [strata.names[number] for number in place.tolist()], weights)


def _informing(table: pa.Table, name: str) -> pa.Table:
    """The rows that inform a fit of the system: neither failed nor for calibration."""
    if "error" in table.schema.names:
        table = table.filter(pc.is_null(table.column("error")))
    if "use" not in table.schema.names:
        return table
    use = pc.fill_null(table.column("use").cast(pa.string()), USES[FIT])
    use = pc.if_else(pc.equal(use, ""), USES[FIT], use)
    wrong = [value for value in pc.unique(use).to_pylist() if value not in USES]
    if wrong:
        raise InputError(f"{name}: column 'use' holds {wrong[0]!r}{did_you_mean(wrong[0], USES)}; blank means fit")
    return table.filter(pc.equal(use, USES[FIT]))


def _code(
    labels: np.ndarray,
    n: np.ndarray,
    stands_for: np.ndarray,
    stratum: np.ndarray,
    strata: tuple[str | None, ...],
    judges: Sequence[str],
) -> Code:
    use = np.full(len(n), FIT, dtype=np.int32)
    return resolve(Code(labels.astype(np.int8), use, stratum.astype(np.int32), n, stands_for, strata), judges)


def pair_design(counts: PairCounts, judges: Sequence[Sequence[str]], prior: Prior, options: Options) -> Design:
    """The joint fit. Its ratios are named `first:p_g`, `second:p_g` and so on."""
    tree, alike = pair_tree(counts)
    first, second = tree.side_state
    agree = agreement(counts.codes[0].labels)[:, first] & agreement(counts.codes[1].labels)[:, second]
    agree &= ~counts.both[:, None] | (counts.same[:, None] == alike)
    code = counts.codes[0]
    share = np.bincount(code.stratum, weights=code.stands_for, minlength=len(code.strata))
    weighted = not np.array_equal(code.stands_for, code.n)
    sides = [side_of(code, mine, prior, options.judge_model) for code, mine in zip(counts.codes, judges, strict=True)]
    own, finite = quantities_of(options.policy)
    ratios = {
        f"{side}:{name}": (np.asarray(top)[states], np.asarray(bottom)[states])
        for side, states in zip(SIDES, tree.side_state, strict=True)
        for name, (top, bottom) in own.items()
    }
    return Design(
        tree=tree,
        splits=np.array(split_priors(tree, alike, prior)),
        items=Items(
            agree=agree,
            verdicts=tuple(one.labels[:, len(TRUSTED) :] for one in counts.codes),
            group=code.stratum.astype(np.int64),
            n=code.n,
            n_given=np.zeros(len(code.n), dtype=np.int64),
        ),
        groups=Groups(np.zeros(len(share), dtype=int), share * (code.n.sum() / share.sum()), ("pair",)),
        sides=tuple(sides) if any(judges) else (),
        ratios=ratios,
        finite=tuple(f"{side}:{name}" for side in SIDES for name in finite) if options.finite and not weighted else (),
        prior_only=options.prior_only,
    )


def pair_tree(counts: PairCounts) -> tuple[Tree, np.ndarray]:
    """The pair's states, and which of them, (states,), are those of a question with the same context.

    Where only some questions had the same context, the first split says whether a question had: R is one variable on
    these, and may differ more often on the others than over all.
    """
    same = counts.same[counts.both]
    if same.all() or not same.any():
        tree = tree_of_pair(bool(same.all()))
        return tree, np.full(len(tree.on_yes), bool(same.all()))
    one, two = tree_of_pair(True), tree_of_pair(False)
    alike = np.arange(len(one.on_yes) + len(two.on_yes)) < len(one.on_yes)
    return Tree(
        np.column_stack([alike, block_diag(one.on_yes, two.on_yes).astype(bool)]),
        np.column_stack([~alike, block_diag(one.on_no, two.on_no).astype(bool)]),
        np.concatenate([one.side_state, two.side_state], axis=1),
    ), alike


def split_priors(tree: Tree, alike: np.ndarray, prior: Prior) -> list[Beta]:
    """Each split's Beta: that of the system's own parameter, weakened by the prior share of the other system's branch.

    So each system alone has about the prior of its own fit (for a Dirichlet prior of the states exactly so, but for the
    floor), and what the two have in common is left to the data. tree, alike: of `pair_tree`.
    """
    found = []
    mixed = bool(alike.any() and not alike.all())
    for split in range(tree.on_yes.shape[1]):
        yes, below = tree.on_yes[:, split], tree.on_yes[:, split] | tree.on_no[:, split]
        if mixed and below.all():
            found.append((sum(prior.rho) / 2, sum(prior.rho) / 2))
            continue
        side = _split_side(tree, yes, below)
        here = [tree.side_state[k][below] for k in range(2)]
        a, b = _own_beta(np.unique(here[side]), np.unique(tree.side_state[side][yes]), prior)
        share = _share(np.unique(here[1 - side]), prior) * (0.5 if mixed else 1.0)
        if alike[below].all() and len(np.unique(STATES[here[1 - side], 0])) == 1:
            share /= _share(np.flatnonzero(STATES[:, 0] == STATES[here[1 - side][0], 0]), prior)
        share = max(share, min(1.0, FLOOR / min(a, b)))  # of both: the mean stays that of the system's own prior
        found.append((a * share, b * share))
    return found


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
