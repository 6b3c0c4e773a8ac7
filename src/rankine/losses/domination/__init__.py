"""The domination loss (Stevens, Bengio, Singer): every better item above all worse ones at once.

    L(w) = sum_q v_q sum_{i in q} a_i log(1 + sum_{j in D(i)} a_j e^{rho_j - rho_i})

with D(i) the items of i's query that have a smaller label, rho_i = <w, x_i> - s_i, s the separable
margin (a required gap s_i - s_j) and a the row weights: a row of weight k counts like k copies of
it. v_q is the query's weight, divided by its dominating weight for ``normalization="query"``.

* ``levels``: rows, levels and terms of one task, as the kernels read them
* ``margins``: what a user may say about required gaps, checked
* ``state``: sums kept up to date while weights move
* ``coordinates``: answers to the questions of a coordinate solver
* ``bounds``: value of the loss, and of its dual
* ``rows``: slopes by rows, for solvers that see the data in parts
"""

from rankine.losses.domination import coordinates as _answers  # noqa: F401 - registers itself
from rankine.losses.domination.state import (
    Domination,
    dual_value,
    loss_value,
    move_to,
    new_scratch,
    new_state,
    row_slopes,
    set_scores,
)
from rankine.losses.domination.task import (
    Levels,
    build_levels,
    check_margins,
    resolve_margin,
    resolve_table,
)

__all__ = [
    "Domination",
    "Levels",
    "build_levels",
    "check_margins",
    "dual_value",
    "loss_value",
    "move_to",
    "new_scratch",
    "new_state",
    "resolve_margin",
    "resolve_table",
    "row_slopes",
    "set_scores",
]
