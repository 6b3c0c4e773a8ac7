"""``path``: models of falling regularisation, for rankers that support it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.checks import check_count
from rankine.core.errors import ParameterError
from rankine.rankers.inputs import FitArguments
from rankine.rankers.path import RegularizationPath
from rankine.rankers.pipeline import FitPipeline
from rankine.solvers.base import Callback

if TYPE_CHECKING:
    from rankine.rankers.fitting import FitTask


class PathGrid(NamedTuple):
    """Strengths of a path: ``n_steps`` of them, geometric, down to ``min_ratio`` of the largest.

    A path ends before the first model with more than ``max_nonzero`` weights.
    """

    n_steps: int
    min_ratio: float
    max_nonzero: int | None = None

    def values(self, largest: float) -> NDArray[np.float64]:
        """Return the strengths, largest first."""
        return np.geomspace(largest, largest * self.min_ratio, self.n_steps)

    def allows(self, n_nonzero: int) -> bool:
        """Return whether a model with this number of weights belongs to the path."""
        return self.max_nonzero is None or n_nonzero <= self.max_nonzero


class PathMixin(FitPipeline):
    """``path``; a ranker declares ``capabilities.path`` and implements ``_solve_path``."""

    #: Grid by default.
    path_grid: ClassVar[PathGrid]

    def path(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        eval_set: Any = None,
        eval_qid: ArrayLike | None = None,
        eval_group: ArrayLike | None = None,
        n_steps: int | None = None,
        min_ratio: float | None = None,
        max_nonzero: int | None = None,
        callbacks: Sequence[Callback] = (),
        **options: Any,
    ) -> Any:
        """Solve for falling strengths, each from the one before; no fitted attribute changes.

        ``DominationRanker`` and ``ElasticRanker`` lower ``l1`` (for the solver PSGD ``theta``),
        ``AdditiveRanker`` lowers ``smooth`` from 1,000, for curves alone and then for an eighth, a
        third and all of ``pairs``.

        Parameters
        ----------
        X, y, qid, group, sample_weight, query_weight
            Training data, as in ``fit``.
        eval_set, eval_qid, eval_group
            Evaluation data for ``metric``.
        n_steps, min_ratio
            Number of strengths, and the smallest as a share of the largest; geometric. By default
            30 and 0.01 for ``DominationRanker``, 10 and 1e-3 for ``ElasticRanker``, 10 and 1e-6 for
            ``AdditiveRanker``.
        max_nonzero
            End the path before the first model with more non-zero weights; ``ElasticRanker``
            leaves larger models out.
        callbacks
            Called after every step; one that returns True ends the path.
        **options
            ``DominationRanker``: ``l1s``, the strengths to solve for in falling order.
            ``ElasticRanker``: ``solvers`` (default ``("rda", "fobos", "psgd")``) to compare, and
            ``max_latency``, a bound on the measured milliseconds to score an item that ``best``
            obeys.

        Returns
        -------
        RegularizationPath
            Weights, non-zeros, loss and metric of each step; ``rankine.plot.path`` draws it.
        """
        for name in options:
            if name not in self.capabilities.path_options:
                raise ParameterError(
                    f"the path of {type(self).__name__} has no such option",
                    parameter=name,
                    fix="Leave it out",
                )
        grid = PathGrid(
            self.path_grid.n_steps if n_steps is None else check_count("n_steps", n_steps),
            self.path_grid.min_ratio if min_ratio is None else min_ratio,
            max_nonzero,
        )
        if not 0 < grid.min_ratio <= 1:
            raise ParameterError(
                f"{min_ratio!r} is not in (0, 1]",
                parameter="min_ratio",
                fix="Pass 0 < min_ratio <= 1",
            )
        # Before any data is read.
        self._check_path_options(options)
        arguments = FitArguments(
            X=X,
            y=y,
            qid=qid,
            group=group,
            sample_weight=sample_weight,
            query_weight=query_weight,
            eval_set=eval_set,
            eval_qid=eval_qid,
            eval_group=eval_group,
            callbacks=callbacks,
        )
        return self._solve_path(self._prepare_task(arguments, "path"), grid, options)

    def _check_path_options(self, options: Mapping[str, Any]) -> None:
        """Raise for options of this ranker outside their domain, before any data is read."""

    @abstractmethod
    def _solve_path(
        self, task: FitTask, grid: PathGrid, options: Mapping[str, Any]
    ) -> RegularizationPath:
        """Solve for every strength of the grid."""
