"""What a loss answers, and where a pair loss makes itself known.

A pair loss is one file: a spec (NamedTuple), its answer to ``pair_loss`` and one registration::

    class Hinge(NamedTuple):
        margin: float = 1.0

    @pair_loss.implementation(Hinge)
    def _hinge(loss, z): ...

    register_pair_loss("hinge", Hinge)

From then on every ranker that draws or lists pairs knows it by its name. ``lift`` is the loss over
all pairs of many queries as a function of scores, in less than one step a pair; the exact solvers
take the losses that have one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rankine.core.errors import ParameterError
from rankine.kernels.dispatch import generic
from rankine.kernels.lists import ListWork
from rankine.kernels.rows import Rows


@generic
def pair_loss(loss: Any, z: float) -> Any:
    """Value, slope and curvature of a loss at a score difference.

    ``z = <w, x_a - x_b>`` where row a is preferred to row b, so losses fall as ``z`` grows.
    At a kink the slope is the one of the side of larger ``z``, and the curvature is that of the
    same side (a generalised second derivative).
    """


@generic
def needs_pairs(objective: Any) -> Any:
    """Whether a list with a single level teaches nothing."""


@generic
def list_loss(objective: Any, work: ListWork, n: int, cutoff: int, seed: int) -> Any:
    """Loss of a list at ``work.scores``; its derivative by each score goes to ``work.slopes``."""


@generic
def normal_times(
    laplacian: Any, rows: Rows, q: int, v: Any, offset: Any, factor: float, out: Any
) -> None:
    """out += factor X_q^T L_q (X_q v - offset); a query's rows are read while they are near."""


class PairLoss(NamedTuple):
    """A registered pair loss; the arguments of ``register_pair_loss``."""

    name: str
    spec_type: Callable[..., Any]
    smooth: bool
    lift: Callable[..., Any] | None

    @property
    def rounds(self) -> bool:
        """Whether its kinks can be rounded: the lift answers ``smoothed(width)``."""
        return hasattr(self.lift, "smoothed")

    def spec(self, margin: float = 1.0) -> Any:
        """The spec, with a margin where the loss has one."""
        has_margin = "margin" in getattr(self.spec_type, "_fields", ())
        return self.spec_type(float(margin)) if has_margin else self.spec_type()


#: Every registered pair loss by its name.
PAIR_LOSSES: dict[str, PairLoss] = {}


def register_pair_loss(
    name: str,
    spec_type: Callable[..., Any],
    *,
    smooth: bool = False,
    lift: Callable[..., Any] | None = None,
) -> None:
    """Make a pair loss known to every ranker that can use it.

    Parameters
    ----------
    name
        How users call it: ``loss="hinge"``.
    spec_type
        NamedTuple that answers ``pair_loss``; a field ``margin`` is set by rankers that have such
        a parameter.
    smooth
        Whether it has a continuous slope, so that Newton steps work.
    lift
        Its exact form over all pairs, None where none is known:
        ``lift(spec, queries, omega, counting, threads)`` answers ``evaluate(scores)`` (value and
        slopes by row) and, if smooth, ``curved(scores)``. ``rankine.losses.AllPairs`` serves every
        loss, in one step a pair.
    """
    PAIR_LOSSES[name] = PairLoss(name, spec_type, smooth, lift)


def pair_losses(*, lifted: bool = False) -> tuple[str, ...]:
    """Names of the known pair losses; ``lifted``: of those that exact solvers take."""
    return tuple(
        name for name, known in PAIR_LOSSES.items() if known.lift is not None or not lifted
    )


def pair_loss_named(name: str, *, lifted: bool = False) -> PairLoss:
    """A known pair loss, or ParameterError with the names to choose from."""
    names = pair_losses(lifted=lifted)
    if name not in names:
        raise ParameterError(
            f"loss={name!r} is not one of {', '.join(names)}", fix="Choose one of them"
        )
    return PAIR_LOSSES[name]


def pair_loss_spec(name: str, margin: float = 1.0) -> Any:
    """The spec of a known pair loss."""
    return pair_loss_named(name).spec(margin)
