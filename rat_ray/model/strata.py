"""Strata: how a fit stays valid where the choice of what to label depended on something that is not in the fit.

Within a stratum the choice must not depend on what is unknown; state probabilities are fitted per stratum, the judges'
rates are common, and a quantity is that of the strata put together by their shares. Inclusion probabilities make strata
too: given the probability with which an item was chosen, the choice says nothing more (Rosenbaum and Rubin 1983; for
samples Little 2004).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.errors import InputError

STRATUM, INCLUSION, STANDS_FOR = "stratum", "inclusion", "stands_for"
MOST_STRATA = 200  # parameters grow with them; more is a column that was meant for something else
_MOST_LEVELS = 10  # of inclusion probabilities: more distinct ones are cut into as many groups of equal size


class Strata(NamedTuple):
    """place: (rows,) into names, None where there is one stratum; weight: (rows,) of items that a row stands for."""

    names: tuple[str | None, ...] = (None,)
    place: np.ndarray | None = None
    weight: np.ndarray | None = None


def read_strata(table: pa.Table) -> Strata:
    """The strata of a label table from its column `stratum` or `inclusion`, whichever is there and not all null.

    inclusion: the probability, above 0 and at most 1, with which the row's item was chosen to be labelled. Where every
    row has a label of r or t, the items that were not chosen are not in the table, and a row stands for 1 / inclusion.

    A column `stands_for` beside `stratum` says it instead (what `read_labels` makes of inclusion probabilities).

    Raises InputError where both are there, a row has none, a probability is none, or there are too many strata.
    """
    present = [name for name in (STRATUM, INCLUSION) if _is_given(table, name)]
    if not present:
        return Strata()
    if len(present) == 2:
        raise InputError("the table has both 'stratum' and 'inclusion'; give the one by which labels were chosen")
    name = present[0]
    if table.column(name).null_count:
        row = int(np.flatnonzero(pc.is_null(table.column(name)).to_numpy())[0]) + 1
        raise InputError(f"column {name!r}: row {row} is blank; where one row has a {name}, every row needs one")
    return _by_name(table) if name == STRATUM else _by_inclusion(table)


def _is_given(table: pa.Table, name: str) -> bool:
    return name in table.schema.names and table.column(name).null_count < table.num_rows


def _by_name(table: pa.Table) -> Strata:
    encoded = table.column(STRATUM).cast(pa.string()).combine_chunks().dictionary_encode()
    values = encoded.dictionary.to_pylist()
    if len(values) > MOST_STRATA:
        raise InputError(
            f"column 'stratum' has {len(values)} different values; at most {MOST_STRATA} strata make sense: "
            "join some of them"
        )
    names = sorted(values)
    place = np.array([names.index(value) for value in values], dtype=np.int32)
    weight = table.column(STANDS_FOR).to_numpy() if _is_given(table, STANDS_FOR) else None
    return Strata(tuple(names), place[encoded.indices.to_numpy()], weight)


def _by_inclusion(table: pa.Table) -> Strata:
    try:
        chance = table.column(INCLUSION).cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"column 'inclusion': probabilities are expected ({error})") from error
    wrong = np.flatnonzero(~((chance > 0) & (chance <= 1)))
    if len(wrong):
        raise InputError(
            f"column 'inclusion': row {int(wrong[0]) + 1} is {chance[wrong[0]]:g}; the probability with which the item "
            "was chosen is above 0 and at most 1"
        )
    levels, index = np.unique(chance, return_inverse=True)
    if len(levels) > _MOST_LEVELS:
        edges = np.quantile(chance, np.linspace(0, 1, _MOST_LEVELS + 1)[1:-1])
        index = np.unique(np.searchsorted(edges, chance, side="right"), return_inverse=True)[1]
    means = np.bincount(index, weights=chance) / np.bincount(index)
    names = tuple(f"inclusion-{number}-{mean:.4g}" for number, mean in enumerate(means))
    every = bool(pc.all(pc.or_(pc.is_valid(table.column("r")), pc.is_valid(table.column("t")))).as_py())
    return Strata(names, index.reshape(-1).astype(np.int32), 1 / chance if every else None)


def strata_columns(table: pa.Table) -> dict[str, pa.Array]:
    """The strata of a label table as columns (`stratum`, and `stands_for` where rows stand for more), none without."""
    strata = read_strata(table)
    if strata.place is None:
        return {}
    found = {STRATUM: pa.array(strata.names, pa.string()).take(pa.array(strata.place))}
    return found if strata.weight is None else {**found, STANDS_FOR: pa.array(strata.weight)}
