"""Generic functions that losses implement, and the registry of pair losses.

A pair loss is one source file: a specification (a NamedTuple), its implementation of ``pair_loss``
and one registration::

    class Hinge(NamedTuple):
        margin: float = 1.0

    @pair_loss.implementation(Hinge)
    def _hinge(loss, z): ...

    register_pair_loss("hinge", Hinge)

Every ranker that trains on pairs then accepts ``loss="hinge"``. Solvers that need the loss summed
over all pairs (``RankSVM``) also require ``exact_sum``, a class that computes this sum from scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rankine.core.checks import check_choice
from rankine.kernels.dispatch import generic
from rankine.kernels.lists import ListWork
from rankine.kernels.rows import Rows


@generic
def pair_loss(loss: Any, z: float) -> Any:
    """Return value, slope and curvature of a loss at the score difference ``z``.

    ``z = <w, x_a - x_b>`` where row a is preferred to row b, so losses fall as ``z`` grows.
    At a kink the slope is the right-hand derivative, and the curvature is taken on the same side
    (a generalised second derivative).
    """


@generic
def gap_power(loss: Any) -> Any:
    """Return (p, m, limit) of a loss that is (m - z)^p where z < limit, and 0 elsewhere.

    Lists sum such losses with p = 1 or 2 by sorting. p = 0 stands for every other loss.
    """


@gap_power.implementation(object)
def _no_power(_loss: Any) -> Any:
    return 0, 0.0, 0.0


@generic
def needs_pairs(objective: Any) -> Any:
    """Return whether the objective sums over pairs of levels, so that one level gives no loss."""


@generic
def list_loss(objective: Any, work: ListWork, n: int, cutoff: int, seed: int) -> Any:
    """Return the loss of a list at ``work.scores``.

    Writes its derivatives to ``work.slopes``, and to ``work.zero_loss`` the loss at scores of 0.
    """


@generic
def add_normal_product(
    laplacian: Any, rows: Rows, q: int, v: Any, y: Any, residual: bool, factor: float, out: Any
) -> None:
    """Add factor X_q^T L_q X_q v of query q to ``out``.

    If ``residual``, X_q v - y_q takes the place of X_q v. Both products read the query's rows while
    they are in the processor's cache.
    """


class PairLoss(NamedTuple):
    """A registered pair loss; see ``register_pair_loss`` for the fields."""

    name: str
    spec_type: Callable[..., Any]
    smooth: bool
    exact_sum: Callable[..., Any] | None

    @property
    def can_be_smoothed(self) -> bool:
        """Whether the exact sum has ``smoothed(width)``, a sum of the loss without its kinks."""
        return hasattr(self.exact_sum, "smoothed")

    @property
    def has_query_curvature(self) -> bool:
        """Whether the exact sum has ``query_curvature``, which intervals of weights need."""
        return hasattr(self.exact_sum, "query_curvature")

    def spec(self, margin: float = 1.0) -> Any:
        """Create the specification; ``margin`` is ignored by losses without that field."""
        if "margin" in getattr(self.spec_type, "_fields", ()):
            return self.spec_type(float(margin))
        return self.spec_type()


#: Registered pair losses by name.
PAIR_LOSSES: dict[str, PairLoss] = {}


def register_pair_loss(
    name: str,
    spec_type: Callable[..., Any],
    *,
    smooth: bool = False,
    exact_sum: Callable[..., Any] | None = None,
) -> None:
    """Register a pair loss, so that rankers accept it by name.

    Parameters
    ----------
    name
        Value of the rankers' parameter ``loss``, for example ``"hinge"``.
    spec_type
        NamedTuple for which ``pair_loss`` is implemented. Rankers with a parameter ``margin`` set
        the field of that name.
    smooth
        Whether the slope is continuous, so that Newton's method applies.
    exact_sum
        Class that sums the loss over all pairs, None if it has no exact form. Instances
        ``exact_sum(spec, queries, omega, counting, threads)`` have

        * ``queries``: the ``PairQueries``, as they were passed;
        * ``evaluate(scores)``: value of the sum, and its slopes by row;
        * ``evaluate_with_curvature(scores)``, if the loss is smooth: the same and the curvature, an
          object with ``times(values)`` and ``diagonal()``, for Newton's method;
        * ``smoothed(width)``, if the kinks can be smoothed: a smooth sum below this one;
        * ``query_curvature(scores, width)``, if weights shall have intervals: the curvature within
          each query, of kinks smoothed over ``width``.

        ``omega`` holds the factor of each query, with its weight; ``counting`` is the parameter
        ``oracle`` of ``RankSVM``. ``rankine.losses.AllPairsRisk`` works for every loss: it calls
        ``pair_loss`` for each pair. A class with a closed form computes the loss itself, and the
        contract tests compare it with the sum over listed pairs.
    """
    PAIR_LOSSES[name] = PairLoss(name, spec_type, smooth, exact_sum)


def pair_loss_names(*, exact: bool = False) -> tuple[str, ...]:
    """Return the names of the registered pair losses.

    With ``exact``, only those that have an exact sum over all pairs.
    """
    losses = PAIR_LOSSES.values()
    return tuple(loss.name for loss in losses if loss.exact_sum is not None or not exact)


def find_pair_loss(name: str, *, exact: bool = False) -> PairLoss:
    """Return the pair loss of that name; see ``pair_loss_names`` for ``exact``.

    Raises
    ------
    ParameterError
        The name is unknown; the message lists the known names.
    """
    return PAIR_LOSSES[check_choice("loss", name, pair_loss_names(exact=exact))]


def pair_loss_spec(name: str, margin: float = 1.0) -> Any:
    """Create the specification of a registered pair loss."""
    return find_pair_loss(name).spec(margin)
