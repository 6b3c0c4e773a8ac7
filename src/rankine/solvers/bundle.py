"""Cuts of a convex risk, and the lower bound they prove."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.shards import add_rows, dot, rows_dot
from rankine.solvers.bundle_qp import maximise_dual, maximise_dual_positive

__all__ = ["Bundle"]

#: A cut without weight for this many rounds is dropped.
IDLE_ROUNDS = 60
#: Cuts may take this many bytes; beyond, the lightest are merged into one.
MAX_BYTES = 256 * 2**20


class Bundle:
    """Lower bounds R(w) >= <a_k, w> + b_k; they hold for every strength of regularisation.

    Starts with the free cut R >= 0. Cuts without weight are dropped after a while; when memory is
    short, the lightest are replaced by their weighted mean, which is a cut as well and keeps the
    current lower bound.
    """

    def __init__(self, n_features: int, *, positive: bool = False) -> None:
        self.positive = positive
        self.max_cuts = max(8, MAX_BYTES // (8 * max(n_features, 1)))
        self._cuts = np.zeros((4, n_features))
        self._gram = np.zeros((4, 4))
        self.n_cuts = 1
        self.b = np.zeros(1)
        self.alpha = np.ones(1)
        self._idle = np.zeros(1, dtype=np.int64)

    @property
    def cuts(self) -> NDArray[np.float64]:
        """The slopes a_k, one a row."""
        return self._cuts[: self.n_cuts]

    @property
    def gram(self) -> NDArray[np.float64]:
        """A A^T."""
        return self._gram[: self.n_cuts, : self.n_cuts]

    def add(self, slope: NDArray[np.float64], offset: float) -> None:
        """Add the cut <slope, w> + offset."""
        if self.n_cuts >= self.max_cuts:
            self._merge(self.n_cuts // 2)
        t = self.n_cuts
        if t == len(self._cuts):
            self._grow(max(t + 4, t + t // 2))
        self._cuts[t] = slope
        self.n_cuts = t + 1
        row = rows_dot(self.cuts, slope)
        self._gram[t, : t + 1] = row
        self._gram[: t + 1, t] = row
        self.b = np.append(self.b, offset)
        self.alpha = np.append(self.alpha, 0.0)
        self._idle = np.append(self._idle, 0)

    def solve(self, Lam: float, tol: float) -> tuple[NDArray[np.float64], float]:
        """Minimiser of Lam/2 |w|^2 + max over cuts, and a lower bound of that minimum."""
        if self.positive:
            self.alpha = maximise_dual_positive(self.cuts, self.b, Lam, self.alpha, tol)
        else:
            maximise_dual(self.gram, self.b, Lam, self.alpha, tol)
        self.alpha /= self.alpha.sum()
        pull = add_rows(self.cuts, self.alpha)
        w = -pull / Lam
        if self.positive:
            w = np.maximum(0.0, w)
        bound = float(dot(self.b, self.alpha) - 0.5 * Lam * dot(w, w))
        self._idle = np.where(self.alpha > 0, 0, self._idle + 1)
        self._keep(self._idle < IDLE_ROUNDS)
        return w, bound

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        if kept.all():
            return
        places = np.flatnonzero(kept)
        for target, source in enumerate(places):
            self._cuts[target] = self._cuts[source]
        self._gram[: len(places), : len(places)] = self._gram[np.ix_(places, places)]
        self.n_cuts = len(places)
        self.b, self.alpha, self._idle = self.b[kept], self.alpha[kept], self._idle[kept]

    def _merge(self, count: int) -> None:
        """Replace the ``count`` lightest cuts by their weighted mean (or drop them, if idle)."""
        lightest = np.sort(np.argsort(self.alpha, kind="stable")[:count])
        share = np.zeros(self.n_cuts)
        share[lightest] = self.alpha[lightest]
        total = float(share.sum())
        keep = np.ones(self.n_cuts, dtype=np.bool_)
        keep[lightest] = False
        if total > 0.0:
            slope, offset = add_rows(self.cuts, share / total), float(dot(self.b, share)) / total
        self._keep(keep)
        if total > 0.0:
            self.add(slope, offset)
            self.alpha[-1] = total

    def _grow(self, capacity: int) -> None:
        cuts, gram = np.zeros((capacity, self._cuts.shape[1])), np.zeros((capacity, capacity))
        cuts[: self.n_cuts] = self.cuts
        gram[: self.n_cuts, : self.n_cuts] = self.gram
        self._cuts, self._gram = cuts, gram
