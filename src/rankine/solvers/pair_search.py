"""Search for interacting pairs of columns by the best quadrant contrast of the curves' residuals.

At the optimum of the curves every row has a slope u_i = dR/ds_i and a curvature h_i. Their sums G
and H over the cells of a grid of two columns are derivatives of the risk with respect to the cells.
If the grid is cut at (r, s) into four quadrants, the best step in each is -G/H, and the part of the
gain that no curve of either column achieves is due to the interaction::

    gain(r, s) = z^2 / (2 sum_k 1 / (H_k + damping))
    z = f_11 - f_12 - f_21 + f_22,    f_k = -G_k / (H_k + damping)

(the weighted analysis of variance of a 2 x 2 table). A pair has the gain of its best cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.binned import pair_histograms
from rankine.kernels.compile import jit
from rankine.kernels.shards import map_shards

if TYPE_CHECKING:
    from rankine.kernels.binned import BinnedRows


#: Number of pairs whose histograms are in memory at a time.
BATCH = 64


@jit
def _best_contrast(cells: Any, damping: float) -> float:
    """Return the best gain over all cuts of one grid; replaces the sums by cumulative sums."""
    rows, columns = cells.shape[0], cells.shape[1]
    for v in range(2):
        for a in range(rows):
            for b in range(1, columns):
                cells[a, b, v] += cells[a, b - 1, v]
        for a in range(1, rows):
            for b in range(columns):
                cells[a, b, v] += cells[a - 1, b, v]
    best = 0.0
    g, h = cells[rows - 1, columns - 1, 0], cells[rows - 1, columns - 1, 1]
    for a in range(rows - 1):
        for b in range(columns - 1):
            g11, h11 = cells[a, b, 0], cells[a, b, 1]
            g12, h12 = cells[a, columns - 1, 0] - g11, cells[a, columns - 1, 1] - h11
            g21, h21 = cells[rows - 1, b, 0] - g11, cells[rows - 1, b, 1] - h11
            g22, h22 = g - g11 - g12 - g21, h - h11 - h12 - h21
            h11, h12, h21, h22 = h11 + damping, h12 + damping, h21 + damping, h22 + damping
            z = g11 / h11 - g12 / h12 - g21 / h21 + g22 / h22
            gain = 0.5 * z * z / (1.0 / h11 + 1.0 / h12 + 1.0 / h21 + 1.0 / h22)
            best = max(best, gain)
    return best


@jit
def _batch_gains(
    codes: Any,
    n_rows: int,
    pairs: Any,
    places: Any,
    side: int,
    values: Any,
    damping: float,
    out: Any,
) -> None:
    cells = np.zeros((pairs.shape[0], side, side, 2))
    pair_histograms(codes, n_rows, pairs, places, side, values, cells)
    for p in range(pairs.shape[0]):
        out[p] = _best_contrast(cells[p], damping)


def interaction_gains(
    rows: BinnedRows,
    pairs: NDArray[np.int64],
    places: NDArray[np.uint16],
    side: int,
    slope: NDArray[np.float64],
    curvature: NDArray[np.float64],
    damping: float,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Return the gain of every pair; ``places[j, c]`` is the grid index of cell c of column j."""
    values = np.stack([slope, curvature], axis=1)
    gains = np.zeros(len(pairs))
    cuts = [*range(0, len(pairs), BATCH), len(pairs)]
    map_shards(
        lambda a, b: _batch_gains(
            rows.codes, rows.n_rows, pairs[a:b], places, side, values, damping, gains[a:b]
        ),
        cuts,
        threads,
    )
    return gains
