"""Heavy-tailed proposals around the mode.

Along each axis of the Cholesky factor of the normal approximation's covariance there are two kinds of shapes:

* a split t (Geweke 1989): a multivariate t whose scale differs on either side of the mode, so that a skewed posterior
  (a rate near 0 or 1 that few labels tell) is covered on its long side without wasting draws on the short one;
* the logit of a Beta with the axis' own mode and curvature, or with less: the posterior's own shape where many rates
  are told by a handful of labels each, and in many dimensions far closer to it than a t.

Fits without judges are close enough to normal for the split t alone, whose draws cost a tenth. Others get a mixture,
with the same share of each shape in every ten draws (each draw's density is the mixture's: Veach, Guibas 1995).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, gammaln, log_ndtr, ndtri_exp

from rat_ray.model.importance.density import ONE_THREAD, log_density, times
from rat_ray.model.importance.laplace import Laplace
from rat_ray.model.importance.margins import from_margins, to_margins
from rat_ray.model.importance.structure import Counts, Structure
from rat_ray.model.importance.weights import systematic

FREEDOM = 7.0  # degrees of freedom of the t
FEW = 6  # parameters for which the t alone will do
_PROBES = np.array([0.75, 1.5, 2.5, 4.0])  # standard deviations from the mode where the skew is looked at
_NARROWEST, _WIDEST = 0.5, 6.0
_T = -1.0
# Of ten draws in a row: the t, or how much of the curvature the Betas have.
_TEN = np.array([_T, 0.95, 0.7, 0.95, 0.7, _T, 0.7, 0.95, 0.7, 0.95])
_FLATTEST, _STEEP = 0.1, 0.9
_KERNELS, _WIDTH = 100, 0.8
_STEEPEST = 30.0  # logit of a Beta's mode
_TINY = 1e-300


class Proposal(NamedTuple):
    """up, down: (D,), the scales of the t on each axis above and below the mode.

    tails: (2, D), how fast the density falls at least towards 0 and 1: the powers of what is known for certain.
    """

    at: Laplace
    tails: np.ndarray
    up: np.ndarray
    down: np.ndarray


class Kernels(NamedTuple):
    """A mixture of t's of probits with one covariance, root @ root'. centres: (D, kernels), in units of the root, less
    `mean`.
    """

    structure: Structure
    mean: np.ndarray
    root: np.ndarray
    centres: np.ndarray


class Proposed(NamedTuple):
    """u: (D, draws); log_q: (draws,), up to a constant."""

    u: np.ndarray
    log_q: np.ndarray


def proposal_at(at: Laplace, structure: Structure, counts: Counts) -> Proposal:
    """The scale of each side of each axis: as far as the density falls like a normal one of that scale, at most."""
    size = structure.parameters
    sides = np.concatenate([at.root, -at.root], axis=1)  # (D, 2 D)
    u = at.mode[:, None] + (sides[:, :, None] * _PROBES).reshape(size, -1)
    fall = at.lp - log_density(u, structure, counts).reshape(2 * size, len(_PROBES))
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = _PROBES / np.sqrt(2 * np.maximum(fall, 1e-12))
    widest = np.clip(np.nan_to_num(scale.max(axis=1), nan=1.0), _NARROWEST, _WIDEST)
    tails = np.maximum(counts.powers[: 2 * size].reshape(2, size), 0.0)
    return Proposal(at, tails, widest[:size], widest[size:])


def kernels_at(u: np.ndarray, weights: np.ndarray, structure: Structure, rng: np.random.Generator) -> Kernels:
    """A second proposal from weighted draws of a first one, after West (1993): it follows a curved posterior.

    The centres are drawn towards the mean so that the mixture has the covariance of the weighted draws. All this on the
    probit scale: a rate that might be 0 for all that is known has a long tail as a logit, and a normal one as a probit.
    """
    probits = _probits(to_margins(u, structure))
    mean = times(probits, weights[:, None])[:, 0]
    apart = probits - mean[:, None]
    root = np.linalg.cholesky(times(apart * weights, np.ascontiguousarray(apart.T)))
    chosen = apart[:, systematic(weights, _KERNELS, rng)]
    return Kernels(structure, mean, root, np.linalg.solve(root, chosen) * np.sqrt(1 - _WIDTH**2))


def propose(proposal: Proposal | Kernels, draws: int, rng: np.random.Generator) -> Proposed:
    """Draws and their log density."""
    if isinstance(proposal, Kernels):
        return _draw_kernels(proposal, draws, rng)
    if len(proposal.up) <= FEW:
        z, log_q = _draw_t(proposal, draws, rng)
    else:
        z, log_q = _draw_mixture(proposal, draws, rng)
    u = proposal.at.root @ z
    u += proposal.at.mode[:, None]
    return Proposed(u, log_q)


def _draw_t(proposal: Proposal, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(D, draws) along the axes, in standard deviations, and the log density up to a constant."""
    size = len(proposal.up)
    z = rng.standard_normal((size, draws))
    stretch = FREEDOM / rng.chisquare(FREEDOM, draws)
    squared = np.einsum("ij,ij->j", z, z) * stretch
    up = z > 0
    z *= np.where(up, proposal.up[:, None], proposal.down[:, None])
    z *= np.sqrt(stretch)
    # Each side has half of the mass whatever its scale, so its density is divided by its own scale.
    log_q = -0.5 * (FREEDOM + size) * np.log1p(squared / FREEDOM)
    log_q -= np.log(proposal.up / proposal.down) @ up
    return z, log_q


def _density_of_t(z: np.ndarray, proposal: Proposal) -> np.ndarray:
    size = len(z)
    up = z > 0
    squared = np.square(z / np.where(up, proposal.up[:, None], proposal.down[:, None])).sum(axis=0)
    constant = gammaln((FREEDOM + size) / 2) - gammaln(FREEDOM / 2) - size / 2 * np.log(FREEDOM * np.pi)
    constant -= np.log(proposal.down).sum()
    whole = constant - 0.5 * (FREEDOM + size) * np.log1p(squared / FREEDOM)
    return np.asarray(whole - np.log(proposal.up / proposal.down) @ up)


def _draw_kernels(proposal: Kernels, draws: int, rng: np.random.Generator) -> Proposed:
    centres = proposal.centres
    size, kernels = centres.shape
    freedom = FREEDOM + (FREEDOM + size) % 2  # so that the density is a whole power
    stretch = np.sqrt(freedom / rng.chisquare(freedom, draws))
    z = centres[:, np.resize(np.arange(kernels), draws)]
    z += _WIDTH * stretch * rng.standard_normal((size, draws))
    log_q = np.empty(draws)
    power = (freedom + size) / 2
    norms = 1 + (centres**2).sum(axis=0)[:, None] / (freedom * _WIDTH**2)
    pull = centres.T * (-2 / (freedom * _WIDTH**2))
    step = max(16, ONE_THREAD // (kernels * size) // 16 * 16)
    for start in range(0, draws, step):
        some = z[:, start : start + step]
        far = pull @ some
        far += norms
        far += np.square(some).sum(axis=0) / (freedom * _WIDTH**2)
        np.maximum(far, 1.0, out=far)
        np.reciprocal(far, out=far)
        log_q[start : start + step] = np.log(np.ones(kernels) @ _whole_power(far, int(power)))
    probits = proposal.mean[:, None] + times(proposal.root, z)
    yes, no = log_ndtr(probits), log_ndtr(-probits)
    log_q += (yes + no + 0.5 * probits**2).sum(axis=0)  # d probit / d logit = p (1 - p) / density, up to a constant
    u, turned = from_margins(yes - no, proposal.structure)
    return Proposed(u, log_q + turned)


def _probits(u: np.ndarray) -> np.ndarray:
    """Of logits."""
    size = np.abs(u)
    return np.asarray(np.where(u < 0, 1.0, -1.0) * ndtri_exp(-size - np.log1p(np.exp(-size))))


def _whole_power(x: np.ndarray, power: int) -> np.ndarray:
    """x ** power by squaring: many times as fast as numpy's power."""
    found = np.ones_like(x)
    while power:
        if power & 1:
            found *= x
        power >>= 1
        if power:
            x = x * x
    return found


class _Betas(NamedTuple):
    """Logits of Betas, less their modes, in units of the axes. a, b, mode, unit: (D, 1)."""

    a: np.ndarray
    b: np.ndarray
    mode: np.ndarray
    unit: np.ndarray

    def draw(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        one, other = (rng.standard_gamma(shape, (len(shape), draws)) for shape in (self.a, self.b))
        logit = np.log(np.maximum(one, _TINY)) - np.log(np.maximum(other, _TINY))
        return np.asarray((logit - self.mode) / self.unit)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        logit = z * self.unit + self.mode
        yes = np.minimum(logit, 0) - np.log(1 + np.exp(-np.abs(logit)))
        constant = np.log(self.unit).sum() - betaln(self.a, self.b).sum()
        return np.asarray(constant + self.a[:, 0] @ yes + self.b[:, 0] @ (yes - logit))


def _betas(proposal: Proposal, most: float) -> _Betas:
    """a b / (a + b) is the curvature of the logit's density at its mode, log(a / b).

    most: of the curvature; less for the flatter Betas where the posterior's tails fall more slowly than a Beta's.
    """
    unit = np.diag(proposal.at.root)[:, None]
    mode = np.clip(proposal.at.mode, -_STEEPEST, _STEEPEST)[:, None]
    a = np.maximum(1 / unit**2 * (1 + np.exp(mode)), 1e-6)
    b = np.maximum(1 / unit**2 * (1 + np.exp(-mode)), 1e-6)
    share = np.full_like(a, most)
    if most < _STEEP:
        tails = np.minimum(proposal.tails[0][:, None] / a, proposal.tails[1][:, None] / b)
        share = np.clip(tails, _FLATTEST, most)
    a, b = share * a, share * b
    return _Betas(a, b, np.log(a / b), unit)


def _draw_mixture(proposal: Proposal, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    shapes = np.unique(_TEN).tolist()
    of_draw = np.resize(_TEN, draws)
    z = np.empty((len(proposal.up), draws))
    betas = {shape: _betas(proposal, shape) for shape in shapes if shape != _T}
    for shape in shapes:
        mine = of_draw == shape
        many = int(mine.sum())
        z[:, mine] = _draw_t(proposal, many, rng)[0] if shape == _T else betas[shape].draw(many, rng)
    logs = []
    for shape in shapes:
        density = _density_of_t(z, proposal) if shape == _T else betas[shape].log_density(z)
        logs.append(density + np.log((shape == _TEN).mean()))
    return z, np.asarray(np.logaddexp.reduce(logs))
