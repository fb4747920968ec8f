"""Draws for ArviZ: the same numbers as an `xarray.DataTree`, ArviZ's InferenceData."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rat_ray.errors import MissingExtraError
from rat_ray.model.posterior import draws_array, quantities_of

_STATS = {"lp": "lp__", "diverging": "divergent__", "tree_depth": "treedepth__", "energy": "energy__"}


def to_arviz(draws: pa.Table) -> Any:
    """Groups posterior, sample_stats, log_prior and log_likelihood; (chain, draw) each.

    Raises MissingExtraError without arviz-base.
    """
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise MissingExtraError("arviz-base", "arviz") from error
    return from_dict(
        {
            "posterior": {name: _chains(draws, name) for name in quantities_of(draws)},
            "sample_stats": {name: _chains(draws, column) for name, column in _STATS.items()},
            "log_prior": {"prior": _chains(draws, "log_prior")},
            "log_likelihood": {"counts": _chains(draws, "log_likelihood")},
        }
    )


def _chains(draws: pa.Table, name: str) -> Any:
    return draws_array(draws, [name])[:, :, 0]
