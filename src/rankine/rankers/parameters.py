"""What the parameters of a ranker mean: which have an effect, scaling, missing values, clicks."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rankine.core.errors import ParameterError
from rankine.rankers.clicks import PositionCorrection, QueryDivisor
from rankine.rankers.registry import Condition
from rankine.rankers.scale_choice import CHOOSE, choose_scale
from rankine.transforms.clicks import check_offset, inverse_propensity
from rankine.transforms.missing import check_rule, rule_of
from rankine.transforms.scaling import Scaling, check_scale, fit_scaling

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.model import LinearModel

#: Conditions that every ranker has in addition to its ``no_effect_with``.
_NO_EFFECT_WITH: Mapping[str, Condition] = {"max_weight": {"propensity": (None,)}}


class ParametersMixin(ABC):
    """Checks of parameters, and what follows from several of them."""

    scale: str | None
    missing: str
    warm_start: bool
    propensity: Sequence[float] | None
    max_weight: float
    position_offset: int | None
    scaling_: Scaling
    no_effect_with: ClassVar[Mapping[str, Condition]]
    takes_missing: ClassVar[bool]
    scales: ClassVar[bool]

    @abstractmethod
    def _check(self) -> None:
        """Raise for parameters outside their domain."""

    def _divisor(self) -> QueryDivisor:
        """Return what the loss of each query is divided by; click correction depends on it."""
        return QueryDivisor.NOTHING

    def _check_effects(self, varied: tuple[str, ...] = ()) -> None:
        """Raise for a parameter that has no effect with the values of the others.

        What depends on a parameter of several values (``varied``) may have an effect with some.
        """
        parameters = inspect.signature(type(self).__init__).parameters
        defaults = {name: parameter.default for name, parameter in parameters.items()}
        for name, condition in {**_NO_EFFECT_WITH, **self.no_effect_with}.items():
            if name not in defaults:  # a subclass may have its own constructor
                continue
            value = getattr(self, name)
            is_off = not isinstance(value, bool) and value == 0
            if is_off or value is defaults[name] or value == defaults[name]:
                continue
            others = {other: getattr(self, other) for other in condition}
            if not others.keys().isdisjoint(varied):
                continue
            if all(_is_one_of(others[other], values) for other, values in condition.items()):
                settings = " and ".join(f"{other}={value!r}" for other, value in others.items())
                raise ParameterError(
                    f"it has no effect with {settings}",
                    parameter=name,
                    fix=f"Leave it out, or change {' or '.join(others)}",
                )

    def fit_scaling(self, data: Dataset) -> Scaling:
        """Return the scaling and missing-value rule of a fit to these rows."""
        rule = self._missing(raw_log=data.encoding is not None)
        scale = self._scale()
        if scale == CHOOSE:
            ranker: Any = self
            scale = choose_scale(ranker, data)
        return fit_scaling(scale, data, rule)

    def _scale(self) -> str | None:
        """Return the kind of scaling; None where the size of columns does not matter."""
        if not self.scales:
            return None
        if self.scale == CHOOSE:
            return CHOOSE
        return check_scale(self.scale)

    def _missing(self, *, raw_log: bool = False, start_model: LinearModel | None = None) -> str:
        """Return the rule for missing values: for a raw log "auto", or the earlier fit's rule."""
        rule = check_rule(self.missing)
        if rule == "auto":
            if self.takes_missing:
                return "bin"
            if raw_log and start_model is not None:
                return rule_of(start_model.missing)
            if raw_log and self.warm_start and hasattr(self, "scaling_"):
                return rule_of(self.scaling_.missing)
            if raw_log:
                return "auto"
            # Silent replacement of missing features would hide faults in the data.
            return "error"
        if self.takes_missing and rule != "error":
            raise ParameterError(
                f"{rule!r} is not needed: {type(self).__name__} has a cell for missing values in "
                "every table",
                parameter="missing",
                fix="Use 'auto', or 'error' to refuse missing values",
            )
        return rule

    def _click_correction(self) -> PositionCorrection:
        """Return how rows are corrected for their positions."""
        weights: Any = ()
        if self.propensity is not None:
            weights = inverse_propensity(self.propensity, self.max_weight)
        return PositionCorrection(weights, check_offset(self.position_offset), self._divisor())


def _is_one_of(value: Any, values: Sequence[Any]) -> bool:
    """Return whether a parameter has one of these values; 0 in ``values`` includes empty arrays."""
    if value is None or isinstance(value, (str, bool, int)):
        return value in values
    return not np.size(value) and 0 in values
