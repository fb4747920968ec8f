"""The program's columns from draws of the logits, as in `stan/rat.stan`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rat_ray.model.engines import StanData
from rat_ray.model.importance.density import times
from rat_ray.model.importance.points import Point
from rat_ray.model.states import information

Column = tuple[str, np.ndarray]


class Columns:
    """point: draws of equal weight. rng: for what is drawn given the parameters."""

    def __init__(self, data: StanData, point: Point, rng: np.random.Generator) -> None:
        self._data, self._point, self._rng = data, point, rng
        self._theta = point.theta
        self._draws = point.theta.shape[2]
        self._cells = [self._cell(b) for b in range(_whole(data["B"]))]
        self._like = [self._said(b) for b in range(_whole(data["B"]))]

    def all(self) -> list[Column]:
        """Names and (draws,) each."""
        return [
            *self._point.densities.items(),
            *self._parameters(),
            *self._results(),
            *self._finite(),
            *self._replicated(),
        ]

    def _parameters(self) -> Iterator[Column]:
        data, point = self._data, self._point
        on_yes, on_no = np.asarray(data["on_yes"]), np.asarray(data["on_no"])
        with np.errstate(divide="ignore"):
            for h, theta in enumerate(self._theta, start=1):
                logits = np.log(on_yes.T @ theta) - np.log(on_no.T @ theta)
                yield from ((f"z[{k},{h}]", values) for k, values in enumerate(logits, start=1))
        for h, theta in enumerate(self._theta, start=1):
            yield from ((f"theta[{s},{h}]", values) for s, values in enumerate(theta, start=1))
        others = slice(2 * _whole(data["I"]), None)
        logits = point.log_one[others] - point.log_zero[others]
        yield from ((f"z_rate[{q}]", values) for q, values in enumerate(logits, start=1))

    def _results(self) -> Iterator[Column]:
        data = self._data
        top, bottom = np.asarray(data["numerator"]), np.asarray(data["denominator"])
        for o in range(_whole(data["O"])):
            system = self._system(o)
            with np.errstate(divide="ignore", invalid="ignore"):
                yield from _numbered("ratio", (top @ system) / (bottom @ system), o)
                if data["informs"]:
                    yield from _numbered("bits", information(system), o)
                yield from _numbered("rate", self._rates(system), o)
                yield from _numbered("correlation", self._correlations(system), o)

    def _system(self, output: int) -> np.ndarray:
        """(states, draws). A stratum's share of new questions: Dirichlet(items), by independent gammas."""
        data = self._data
        mine = np.flatnonzero(np.asarray(data["output_of"]) == output + 1).tolist()
        if not np.asarray(data["mixed"])[output]:
            return np.asarray(self._theta[mine[0]])
        shares = np.asarray(data["share_n"])
        system = np.zeros(self._theta.shape[1:])
        for h in mine:
            if shares[h] > 0:
                system += self._rng.standard_gamma(shares[h], self._draws) * self._theta[h]
        return np.asarray(system / system.sum(axis=0))

    def _side(self, side: int, system: np.ndarray) -> np.ndarray:
        """(6, draws): the side's own states."""
        own = np.zeros((6, self._draws))
        np.add.at(own, np.asarray(self._data["side_state"])[side] - 1, system)
        return own

    def _rates(self, system: np.ndarray) -> np.ndarray:
        data = self._data
        found = np.empty((_whole(data["K"]), self._draws))
        for k in range(len(found)):
            parameter, side = int(np.asarray(data["rate_parameter"])[k]), int(np.asarray(data["rate_side"])[k]) - 1
            if parameter:
                found[k] = np.exp(self._point.log_one[parameter - 1])
                continue
            weight = np.asarray(data["rate_states"])[:, k, None] * self._side(side, system)
            said = np.einsum("c,csd->sd", np.asarray(data["rate_cells"])[:, k], self._cells[side])
            found[k] = (said * weight).sum(axis=0) / weight.sum(axis=0)
        return found

    def _correlations(self, system: np.ndarray) -> np.ndarray:
        data = self._data
        found = np.empty((_whole(data["M"]), self._draws))
        for m in range(len(found)):
            side = int(np.asarray(data["pair_side"])[m]) - 1
            first, second = np.asarray(data["pair_first"])[:, m], np.asarray(data["pair_second"])[:, m]
            one, two, both = (np.einsum("c,csd->sd", c, self._cells[side]) for c in (first, second, first * second))
            sign, weight = np.asarray(data["pair_sign"])[:, m, None], self._side(side, system)
            judged = sign**2 * weight
            together = (sign * weight * (both - one * two)).sum(axis=0)
            spread = (judged * one * (1 - one)).sum(axis=0) * (judged * two * (1 - two)).sum(axis=0)
            found[m] = together / np.sqrt(spread)
        return found

    def _finite(self) -> Iterator[Column]:
        data = self._data
        rows = np.asarray(data["finite_row"]) - 1
        if not len(rows):
            return
        output_of = np.asarray(data["output_of"]) - 1
        items = np.repeat(np.asarray(data["known"]).T[:, :, None], self._draws, axis=2)  # (outputs, states, draws)
        groups = (np.asarray(data["open_group"]) - 1).tolist()
        agree, n = np.asarray(data["open_agree"]), np.asarray(data["open_n"]).tolist()
        for u, group in enumerate(groups):
            weights = self._weights(agree[u], group, "open_verdicts", u)
            items[output_of[group]] += self._share_out(n[u], weights)
        top, bottom = np.asarray(data["numerator"])[rows], np.asarray(data["denominator"])[rows]
        for o, counted in enumerate(items):
            with np.errstate(divide="ignore", invalid="ignore"):
                yield from _numbered("finite", (top @ counted) / (bottom @ counted), o)

    def _replicated(self) -> Iterator[Column]:
        data = self._data
        groups = (np.asarray(data["cell_group"]) - 1).tolist()
        if not groups:
            return
        agree = np.asarray(data["cell_agree"])
        weights = np.stack(
            [self._weights(agree[row], group, "cell_verdicts", row).sum(axis=0) for row, group in enumerate(groups)]
        )
        found = np.empty_like(weights)
        starts, stops = np.asarray(data["block_start"]).tolist(), np.asarray(data["block_stop"]).tolist()
        for start, stop, n in zip(starts, stops, np.asarray(data["block_n"]).tolist(), strict=True):
            found[start - 1 : stop] = self._share_out(n, weights[start - 1 : stop])
        yield from ((f"replicated[{row}]", values) for row, values in enumerate(found, start=1))

    def _weights(self, agree: np.ndarray, group: int, verdicts: str, row: int) -> np.ndarray:
        """(states, draws): probability of each state and of the verdicts in it; 0 where it does not agree."""
        weights = agree[:, None] * self._theta[group]
        for side in range(len(self._cells)):
            verdict = int(np.asarray(self._data[verdicts])[side, row]) - 1
            own = np.asarray(self._data["side_state"])[side] - 1
            weights = weights * self._like[side][verdict][own]
        return np.asarray(weights)

    def _share_out(self, n: int, weights: np.ndarray) -> np.ndarray:
        """n items over (cells, draws) in proportion to the weights: a multinomial, cell by cell."""
        found = np.zeros_like(weights)
        used = np.flatnonzero(weights.any(axis=1)).tolist()
        left = np.full(self._draws, n)
        rest = weights[used].sum(axis=0)
        for cell in used[:-1]:
            with np.errstate(divide="ignore", invalid="ignore"):
                p = np.where(weights[cell] < rest, weights[cell] / rest, 1.0)
            taken = self._rng.binomial(left, np.where(weights[cell] > 0, p, 0.0))
            found[cell] = taken
            left = left - taken
            rest = rest - weights[cell]
        found[used[-1] if used else -1] += left
        return found

    def _cell(self, side: int) -> np.ndarray:
        """(C, 6, draws): the probability of each combination in each state."""
        data, point = self._data, self._point
        one, zero = np.asarray(data["says_one"])[side], np.asarray(data["says_zero"])[side]
        logs = times(one, point.log_one) + times(zero, point.log_zero)
        found = np.exp(logs).reshape(6, -1, self._draws).swapaxes(0, 1)
        return np.asarray(found * np.asarray(data["possible"])[side][:, :, None])

    def _said(self, side: int) -> np.ndarray:
        """(V, 6, draws): the same of the combinations in the patterns."""
        cell = self._cells[side]
        if not self._data["panel"]:
            return cell
        sums = np.asarray(self._data["sums"])[side]
        return times(sums, cell.reshape(len(cell), -1)).reshape(len(sums), 6, self._draws)


def _numbered(name: str, values: np.ndarray, output: int) -> Iterator[Column]:
    return ((f"{name}[{row},{output + 1}]", one) for row, one in enumerate(values, start=1))


def _whole(value: int | np.ndarray) -> int:
    return int(value)
