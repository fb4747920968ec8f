"""What the patterns present can tell, before sampling: a quantity is identified, bounded, or known by its prior only.

A quantity is identified where its gradient lies in the row space of the Jacobian of the log pattern probabilities, at
a random interior point (the usual rank condition for local identification, Rothenberg 1971). Where it is not, a linear
program over all joint probabilities of states and verdicts that fit the patterns equally well gives bounds; ratios of
two linear functions are bounded by the transformation of Charnes and Cooper (1962). The bounds are estimates from the
observed shares, without their sampling error, and assume nothing of how a judge errs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.model.cells import VERDICTS, cells_of
from rat_ray.model.design import Design, Options, agreement, check_items, design_of, informative
from rat_ray.model.forward import Point, output_shares, pattern_probabilities, quantities
from rat_ray.model.patterns import CALIBRATION, FIT, MISSING, TRUSTED, Code, judges_of, to_code
from rat_ray.model.priors import Prior
from rat_ray.model.states import BITS, FINITE, STATES, UNDEFINED, finite_name
from rat_ray.model.verdicts import judged_states

IDENTIFIED, BOUNDED, PRIOR_ONLY = "identified", "bounded", "prior only"

_EM_STEPS = 5000
_MOST_JUDGES = 4  # whose verdicts the bounds use; of more, the trusted labels only
_ENDS = {"info": (0.0, 1.0), "cor": (-1.0, 1.0)}  # what is no ratio of sums lies between these
_BY_CHANCE = 0.01  # a rarer accident is taken for intention
_NARROW = 1e-3  # bounds closer than this leave nothing open
_STEP = 1e-30  # of complex-step differentiation, exact to rounding


class Known(NamedTuple):
    """identified: IDENTIFIED, BOUNDED or PRIOR_ONLY; low and high: the bounds of a bounded quantity."""

    identified: str
    low: float | None = None
    high: float | None = None


class Identification(NamedTuple):
    """rank of `parameters` free parameters, what is known of each quantity, and what follows in words."""

    rank: int
    parameters: int
    known: dict[str, Known]
    words: tuple[str, ...] = ()


def identify(counts: pa.Table, options: Options | None = None) -> Identification:
    """What can be known of every quantity from the patterns in the count table. Raises InputError for no items."""
    return identify_together({"the table": counts}, options)["the table"]


def identify_together(tables: Mapping[str, pa.Table], options: Options | None = None) -> dict[str, Identification]:
    """The same for several systems that share their judges' rates: what one calibrates, the others profit from.

    rank and parameters are of all systems together; bounds use each system's own patterns.
    """
    check_items({name: to_code(table) for name, table in tables.items()})
    judges = judges_of(next(iter(tables.values())))
    codes = {name: informative(to_code(table)) for name, table in tables.items()}
    more = {name: _with_the_other_value(code, judges) for name, code in codes.items()}
    asked = replace(options or Options(), finite=False, replicate=False, prior_only=False)
    design = design_of(more, judges, Prior(), asked)
    start = _interior_point(design)
    gradients, slopes = _jacobians(design, start)
    rank, basis = _row_space(slopes)
    labels = np.concatenate([code.labels for code in codes.values()])
    found = {}
    for output, (system, code) in enumerate(codes.items()):
        shares = output_shares(design, output)[design.groups.output_of == output]
        atoms = _atoms(design, code)
        known = {}
        for name, gradient in gradients[output].items():
            if not _has_items(name, design, code, labels):
                known[name] = Known(PRIOR_ONLY)
            elif _lies_in(gradient, basis):
                known[name] = Known(IDENTIFIED)
            else:
                known[name] = _bounds(design, name, code, atoms, shares)
        known |= {finite_name(name): known[name] for name in (*FINITE, "utility") if name in known}
        found[system] = Identification(rank, len(start), known, tuple(_words(code, known)))
    return found


def _interior_point(design: Design) -> np.ndarray:
    """Splits, then rates; tpr above fpr."""
    rng = np.random.default_rng(20_260_102)
    splits = rng.uniform(0.25, 0.75, design.tree.on_yes.shape[1] * len(design.groups.output_of))
    many, rates = design.layout.independent, len(design.layout.prior)
    high, low = rng.uniform(0.6, 0.9, many), rng.uniform(0.1, 0.4, many)
    return np.concatenate([splits, low, high, rng.uniform(0.1, 0.9, rates - 2 * many)])


def _point(design: Design, values: np.ndarray) -> Point:
    splits, groups = design.tree.on_yes.shape[1], len(design.groups.output_of)
    return Point(values[: splits * groups].reshape(splits, groups), values[splits * groups :])


def _jacobians(design: Design, start: np.ndarray) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """Per output the gradient of each quantity, and (patterns, parameters) of the pattern probabilities.

    By complex steps, exact to rounding.
    """
    moved = [_point(design, start + 1j * _STEP * step) for step in np.eye(len(start))]
    slopes = np.stack([pattern_probabilities(design, point).imag / _STEP for point in moved], axis=1)
    gradients = []
    for output in range(len(design.groups.names)):
        derived = [quantities(design, point, output) for point in moved]
        gradients.append({name: np.array([one[name].imag / _STEP for one in derived]) for name in derived[0]})
    return gradients, slopes


def _with_the_other_value(code: Code, judges: Sequence[str]) -> Code:
    """The patterns present, and those that might have occurred but did not.

    That is information too: all R = 1 says that rho is large. Where a column has one value only, the same patterns with
    its other value are added; then what was asked for and never seen.
    """
    undefined = [2, *(i for i, judge in enumerate(judges, start=len(TRUSTED)) if judge.startswith("t@"))]
    keys = np.column_stack([code.use, code.stratum, code.labels])
    for stratum in np.unique(code.stratum):
        for column in range(2, keys.shape[1]):
            rows = (keys[:, 1] == stratum) & (keys[:, column] != MISSING)
            if len(set(keys[rows, column].tolist())) != 1:
                continue
            flipped = keys[rows].copy()
            flipped[:, column] = 1 - flipped[:, column]
            abstained = flipped[:, 3] == 1
            flipped[np.ix_(abstained, [2 + i for i in undefined])] = MISSING
            keys = np.unique(np.concatenate([keys, flipped]), axis=0)
    keys = np.concatenate([keys, _never_seen(_as_code(keys, code), judges), _unlabelled_by_chance(code)])
    keys = np.unique(keys, axis=0)
    grown = _as_code(keys, code)
    # The shares of the strata are the table's own.
    share = np.bincount(code.stratum, weights=np.where(code.use == CALIBRATION, 0.0, code.stands_for))
    per_stratum = np.bincount(grown.stratum, minlength=len(share))
    return grown._replace(stands_for=(share / np.maximum(per_stratum, 1))[grown.stratum])


def _as_code(keys: np.ndarray, code: Code) -> Code:
    one = np.ones(len(keys), dtype=np.int64)
    return Code(keys[:, 2:].astype(np.int8), keys[:, 0], keys[:, 1], one, one.astype(float), code.strata)


def _unlabelled_by_chance(code: Code) -> np.ndarray:
    """Keys of labels that items with some a and verdicts might have, but that none of these few items happens to have.

    A rare combination of verdicts of which no item was labelled is no sign that such items are never labelled, as long
    as that is likely by chance, given how many with the same a were labelled.
    """
    found: list[list[int]] = []
    modelled = code.take(code.use == FIT)
    masks = modelled.labels[:, [0, 2]] != MISSING
    groups = np.column_stack([modelled.stratum, modelled.labels[:, 1]])
    for stratum, a in np.unique(groups, axis=0).tolist():
        mine = (groups == (stratum, a)).all(axis=1)
        verdicts = modelled.labels[:, len(TRUSTED) :]
        for mask in np.unique(masks[mine & masks.any(axis=1)], axis=0):
            has = mine & (masks == mask).all(axis=1)
            share = modelled.n[has].sum() / modelled.n[mine].sum()
            for said in np.unique(verdicts[mine], axis=0):
                same = mine & (verdicts == said).all(axis=1)
                if not (same & has).any() and (1 - share) ** modelled.n[same].sum() > _BY_CHANCE:
                    for r, t in itertools.product(*((0, 1) if asked else (MISSING,) for asked in mask.tolist())):
                        found.append([FIT, stratum, r, a, t, *said.tolist()])
    return np.array(found, dtype=np.int64).reshape(-1, 2 + code.labels.shape[1])


def _never_seen(code: Code, judges: Sequence[str]) -> np.ndarray:
    """Keys of the cells that no item fell into, though it might have: labels and verdicts that were asked for.

    Verdicts that nobody ever gave are known never to go with any labels, so they count as labelled.
    """
    cells = cells_of(code, judges)
    labels = cells.labels.copy()
    never = np.array(cells.part, dtype=object) == VERDICTS
    never &= cells.n == 0
    rows = [np.column_stack([np.full(len(labels), FIT), cells.stratum, labels])]
    for r, t in itertools.product((0, 1), repeat=2):
        complete = labels[never].copy()
        complete[:, 0] = r
        complete[:, 2] = np.where(complete[:, 1] == 0, t, MISSING)
        rows.append(np.column_stack([np.full(len(complete), FIT), cells.stratum[never], complete]))
    return np.concatenate(rows)


def _row_space(design: np.ndarray) -> tuple[int, np.ndarray]:
    """(rank, parameters): an orthonormal basis."""
    _, values, basis = np.linalg.svd(design, full_matrices=False)
    rank = int((values > 1e-9 * max(values[0], 1.0)).sum())
    return rank, np.asarray(basis[:rank])


def _lies_in(gradient: np.ndarray, basis: np.ndarray) -> bool:
    norm = np.linalg.norm(gradient)
    rest = gradient - basis.T @ (basis @ gradient)
    return bool(np.linalg.norm(rest) <= 1e-6 * norm)


def _has_items(name: str, design: Design, code: Code, judged: np.ndarray) -> bool:
    """Whether any item may be one of those that the quantity is a share of.

    judged: labels of all items whose verdicts tell of the judges' rates, (patterns, 3 + judges).
    """
    if name in design.ratios:
        modelled = code.labels[code.use != CALIBRATION]
        return bool(agreement(modelled)[:, design.ratios[name][1]].any())
    if name in BITS:
        return True
    judges = design.sides[0].judges
    every_two = itertools.combinations(range(len(judges)), 2)
    both = dict(zip((pair.name for pair in design.pairs), every_two, strict=False))  # pairs: of a panel only
    if name in both:
        return bool((judged[:, [len(TRUSTED) + j for j in both[name]]] != MISSING).all(axis=1).any())
    rate, _, rest = name.removesuffix("]").removesuffix(",a=1").partition("[")
    index = judges.index(rest)
    truth = judged_states(judges)[index]
    wanted = {"tpr": truth == 1, "fpr": truth == 0}.get(rate, STATES[:, 1] == 1)
    seen = judged[judged[:, len(TRUSTED) + index] != MISSING]
    return bool(agreement(seen)[:, wanted].any())


class _Atoms(NamedTuple):
    """States with a complete combination of verdicts each: the finest thing that a pattern is a set of.

    agree: (patterns, atoms) of booleans; state: (atoms,); verdicts: (atoms, judges), none where there are too many.
    estimate: (atoms, strata) of probabilities with the greatest likelihood.
    """

    agree: np.ndarray
    state: np.ndarray
    verdicts: np.ndarray
    estimate: np.ndarray


def _atoms(design: Design, code: Code) -> _Atoms:
    """The atoms, fitted by EM from equal shares.

    Where several fit equally well this is one of them; the pattern probabilities are the same for all.
    """
    verdicts = code.labels[:, len(TRUSTED) :]
    many = verdicts.shape[1] if verdicts.shape[1] <= _MOST_JUDGES else 0
    combinations = np.array(list(itertools.product((0, 1), repeat=many)), dtype=np.int8).reshape(2**many, many)
    side = design.sides[0] if design.sides else None
    # A judge of T says nothing of an abstention, unless it did where A is unknown.
    mute = np.zeros((len(STATES), many), dtype=bool)
    if side is not None:
        own = np.array([judge in side.own for judge in side.judges])[:many]
        mute = ((judged_states(side.judges)[:many] == UNDEFINED) & ~own[:, None]).T
    kept = [combinations[(combinations[:, mute[s]] == 0).all(axis=1)] for s in range(len(STATES))]
    atoms, index = np.concatenate(kept), np.repeat(np.arange(len(STATES)), [len(rows) for rows in kept])
    said = verdicts[:, None, :many]
    agree = ((said == MISSING) | (said == atoms) | mute[index]).all(axis=2) & agreement(code.labels)[:, index]
    estimate = np.full((len(atoms), len(code.strata)), 1 / len(atoms))
    for stratum in range(len(code.strata)):
        mine = (code.stratum == stratum) & (code.use != CALIBRATION)
        if mine.any():
            estimate[:, stratum] = _em(agree[mine], code.n[mine])
    return _Atoms(agree, index, atoms, estimate)


def _em(agree: np.ndarray, n: np.ndarray) -> np.ndarray:
    distinct, inverse = np.unique(agree, axis=0, return_inverse=True)
    share = np.bincount(inverse.reshape(-1), weights=n) / n.sum()
    found = np.full(agree.shape[1], 1 / agree.shape[1])
    for _ in range(_EM_STEPS):
        new = found * ((share / (distinct @ found)) @ distinct)
        if np.abs(new - found).max() < 1e-12:
            return np.asarray(new)
        found = new
    return found


def _parts(design: Design, name: str, atoms: _Atoms) -> tuple[np.ndarray, np.ndarray] | None:
    """The quantity as a ratio of two sums over atoms; None where it is not."""
    if name in design.ratios:
        top, bottom = (np.asarray(part, dtype=float)[atoms.state] for part in design.ratios[name])
        return top, bottom
    judge = {rate.name: rate for rate in design.rates}.get(name)
    if judge is None or not atoms.verdicts.shape[1]:
        return None
    number = design.sides[judge.side].judges.index(name.partition("[")[2].removesuffix("]").removesuffix(",a=1"))
    bottom = judge.states[atoms.state].astype(float)
    return bottom * (atoms.verdicts[:, number] == 1), bottom


def _labelled(code: Code) -> bool:
    return bool((code.labels != MISSING).any())


def _bounds(design: Design, name: str, code: Code, atoms: _Atoms, shares: np.ndarray) -> Known:
    """The least and greatest value over all probabilities of the atoms that give the fitted pattern probabilities."""
    parts = _parts(design, name, atoms)
    if parts is None:  # no ratio of sums: nothing better than its range is known
        return (
            Known(PRIOR_ONLY) if not _labelled(code) else Known(BOUNDED, *_ENDS.get(name.partition("[")[0], (0.0, 1.0)))
        )
    from scipy.optimize import linprog

    top, bottom = (np.outer(shares, part).reshape(-1) for part in parts)
    size, strata = atoms.estimate.shape
    # Variables: the atoms' probabilities in each stratum, scaled so that the denominator is 1, and the scale k.
    rows = [np.append(bottom, 0.0)[None, :]]
    for stratum in range(strata):
        mine = (code.stratum == stratum) & (code.use != CALIBRATION)
        agree = np.vstack([np.unique(atoms.agree[mine], axis=0).astype(float), np.ones(size)])
        block = np.zeros((len(agree), strata * size + 1))
        block[:, stratum * size : (stratum + 1) * size] = agree
        block[:, -1] = -agree @ atoms.estimate[:, stratum]
        rows.append(block)
    left = np.vstack(rows)
    right = np.append(1.0, np.zeros(len(left) - 1))
    ends = []
    for sign in (1, -1):
        found = linprog(np.append(sign * top, 0.0), A_eq=left, b_eq=right, bounds=(0, None), method="highs")
        if not found.success:
            return Known(PRIOR_ONLY)
        ends.append(float(sign * found.fun))
    values = parts[0][parts[1] > 0] / parts[1][parts[1] > 0]
    least, most = float(values.min()), float(values.max())
    low, high = (min(max(end, least), most) for end in ends)
    if high - low < _NARROW:
        return Known(IDENTIFIED)
    nothing = low < least + _NARROW and high > most - _NARROW
    return Known(PRIOR_ONLY) if nothing else Known(BOUNDED, low, high)


def _words(code: Code, known: Mapping[str, Known]) -> list[str]:
    """Why P(G=1) and P(T=1) are not identified, and what can be said of them all the same."""
    said = []
    why = _coverage(code.take(code.use != CALIBRATION))
    for name, symbol in (("p_g", "P(G=1)"), ("p_t", "P(T=1)")):
        one = known[name]
        if one.identified == BOUNDED and one.low is not None and one.high is not None:
            said.append(
                f"{why}: {symbol} lies between {one.low:.3f} and {one.high:.3f} whatever the missing labels are"
            )
        elif one.identified == PRIOR_ONLY:
            said.append(f"{why}: the labels say nothing of {symbol}, what is shown is the prior")
    return said


def _coverage(code: Code) -> str:
    r, a, t = (code.labels[:, i] != MISSING for i in range(3))
    answered = code.labels[:, 1] == 0
    if not r.any() and not t.any():
        return "neither R nor T is labelled"
    if not r.any():
        return "R is not labelled"
    if not t.any() and (answered | ~a).any():
        return "T is not labelled"
    if not (r & ~answered & a).any() and (a & ~answered).any():
        return "labels on answered items only"
    return "R and T are labelled on different items" if not (r & t).any() else "labels are missing"
