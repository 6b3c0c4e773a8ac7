"""The domination loss (Stevens, Bengio, Singer): every better item above all worse ones at once.

    L(w) = sum_q v_q sum_{i in q} a_i log(1 + sum_{j in D(i)} a_j e^{rho_j - rho_i})

with D(i) the items of i's query that have a smaller label, rho_i = <w, x_i> - s_i, s the separable
margin (a required gap s_i - s_j) and a the row weights: a row of weight k counts like k copies of
it. v_q is the query's weight, divided by its dominating weight for ``normalization="query"``.

* ``task``: required gaps, rows, levels and terms of one task
* ``state``: running sums at the current weights; value, dual and slopes by row
* ``coordinates``: derivatives along one weight, for coordinate descent
"""

from rankine.losses.domination import coordinates as _coordinates  # noqa: F401 - registers itself
from rankine.losses.domination.state import Domination, DominationRisk, domination_risk
from rankine.losses.domination.task import (
    DominationOptions,
    DominationTask,
    build_domination_task,
)

__all__ = [
    "Domination",
    "DominationOptions",
    "DominationRisk",
    "DominationTask",
    "build_domination_task",
    "domination_risk",
]
