"""The cells of the replicated count table: what a posterior predictive check compares.

An item's pattern comes about in three steps: a; the verdicts that were asked for; the labels of r and t that were
asked for. What was asked for may depend on what came before (a, verdicts), so each step is replicated given the steps
before it, as observed: in blocks of items with the same a, verdicts and columns asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rat_ray.model.patterns import FIT, MISSING, TRUSTED, Code

LABELS, VERDICTS = "labels", "verdicts"
_MOST_CELLS = 2000  # more would cost more than the sampling
_MOST_JUDGES = 4


class Cells(NamedTuple):
    """labels: (cells, 3 + judges) of 0, 1 or MISSING; stratum, n (observed): (cells,); part: LABELS or VERDICTS.

    blocks: (blocks, 2), the first cell and the one after the last; block_n: items of each block.
    """

    labels: np.ndarray
    stratum: np.ndarray
    n: np.ndarray
    part: tuple[str, ...]
    blocks: np.ndarray
    block_n: np.ndarray


def cells_of(code: Code, judges: Sequence[str]) -> Cells:
    """The cells of a table's blocks, those included that no item fell into. Too many: labels only, or none."""
    kept = code.take((code.use == FIT) & (code.n > 0))
    parts = [(LABELS, _label_blocks(kept))]
    if 0 < len(judges) <= _MOST_JUDGES:
        parts.append((VERDICTS, _verdict_blocks(kept)))
    rows: list[tuple[str, int, tuple[int, ...], int]] = []
    blocks: list[tuple[int, int]] = []
    for part, found in parts:
        grown = [(part, stratum, cell, n) for stratum, block in found for cell, n in block.items()]
        if len(rows) + len(grown) > _MOST_CELLS:
            break
        for _, block in found:
            start = blocks[-1][1] if blocks else 0
            blocks.append((start, start + len(block)))
        rows += grown
    width = len(TRUSTED) + len(judges)
    n = np.array([row[3] for row in rows], dtype=np.int64)
    return Cells(
        labels=np.array([row[2] for row in rows], dtype=np.int8).reshape(-1, width),
        stratum=np.array([row[1] for row in rows], dtype=np.int32),
        n=n,
        part=tuple(row[0] for row in rows),
        blocks=np.array(blocks, dtype=np.int64).reshape(-1, 2),
        block_n=np.array([n[first:last].sum() for first, last in blocks], dtype=np.int64),
    )


Block = tuple[int, dict[tuple[int, ...], int]]  # the stratum; items per cell


def _label_blocks(code: Code) -> list[Block]:
    """r and t given a, the verdicts, and which of them are labelled."""
    asked = code.labels[:, [0, 2]] != MISSING
    given = np.column_stack([code.labels[:, 1], code.labels[:, len(TRUSTED) :]])
    cells = (
        ((r, int(a), t, *verdicts) for r in _values(has_r) for t in _values(has_t))
        for (a, *verdicts), (has_r, has_t) in zip(given.tolist(), asked.tolist(), strict=True)
    )
    return _blocks(code, code.labels, np.column_stack([given, asked]), cells)


def _verdict_blocks(code: Code) -> list[Block]:
    """The verdicts given a and which judges were asked; r and t are summed out."""
    seen = code.labels.copy()
    seen[:, [0, 2]] = MISSING
    asked = seen[:, len(TRUSTED) :] != MISSING
    cells = (
        ((MISSING, int(a), MISSING, *verdicts) for verdicts in itertools.product(*map(_values, flags)))
        for a, flags in zip(seen[:, 1].tolist(), asked.tolist(), strict=True)
    )
    return _blocks(code, seen, np.column_stack([seen[:, 1], asked]), cells)


def _values(asked: bool) -> tuple[int, ...]:
    return (0, 1) if asked else (MISSING,)


def _blocks(code: Code, seen: np.ndarray, keys: np.ndarray, cells: Iterator[Iterator[tuple[int, ...]]]) -> list[Block]:
    found: dict[tuple[int, ...], Block] = {}
    for key, stratum, mine, pattern, n in zip(
        keys.tolist(), code.stratum.tolist(), cells, seen.tolist(), code.n.tolist(), strict=True
    ):
        block = found.setdefault((stratum, *key), (stratum, {}))[1]
        if not block:
            block.update(dict.fromkeys(mine, 0))
        block[tuple(pattern)] += n
    return [block for block in found.values() if len(block[1]) > 1]


def shift(cells: Cells, groups: int) -> Cells:
    """The same cells with their strata counted from `groups` on."""
    return cells._replace(stratum=cells.stratum + groups)


def join_cells(several: Sequence[Cells]) -> Cells:
    """The cells of several tables, one after the other."""
    starts = np.cumsum([0, *(len(cells.n) for cells in several)])[:-1]
    return Cells(
        labels=np.concatenate([cells.labels for cells in several]),
        stratum=np.concatenate([cells.stratum for cells in several]),
        n=np.concatenate([cells.n for cells in several]),
        part=tuple(part for cells in several for part in cells.part),
        blocks=np.concatenate([cells.blocks + start for cells, start in zip(several, starts, strict=True)]),
        block_n=np.concatenate([cells.block_n for cells in several]),
    )
