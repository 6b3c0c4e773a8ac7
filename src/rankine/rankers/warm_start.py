"""Warm starts: what a fit takes from the model that it starts from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, ParameterError, SchemaError
from rankine.core.specs import ListRange, MissingValues
from rankine.model import LinearModel
from rankine.model.checks import read_progress
from rankine.rankers.parameters import ParametersMixin
from rankine.rankers.scale_choice import CHOOSE
from rankine.transforms.log_columns import columns_of
from rankine.transforms.missing import rule_of
from rankine.transforms.scaling import Scaling

if TYPE_CHECKING:
    from rankine.model.training_state import TrainingState
    from rankine.rankers.inputs import FittedColumns
    from rankine.rankers.sources import TrainingSource


@dataclass(frozen=True)
class EarlierRun:
    """A run of one-pass learning that a fit continues.

    Attributes
    ----------
    state
        Where it ended.
    missing
        Its rule for missing values, with the learned weights of indicators.
    eta0
        Its step size.
    """

    state: TrainingState
    missing: MissingValues | None
    eta0: float

    @property
    def n_numbers(self) -> int:
        """How many numbers the update kept for each weight."""
        return len(self.state.values) // max(len(self.state.rows), 1)

    def scaling(self, n_features: int) -> Scaling:
        """Return the scaling of the run, with the factor NaN for columns that it did not meet."""
        factors = np.full(n_features, np.nan)
        of_features = self.state.rows < n_features
        factors[self.state.rows[of_features]] = self.state.factors[of_features]
        return Scaling("none", factors, missing=self.missing)

    def renumbered(self, scaling: Scaling, n_features: int) -> EarlierRun:
        """Return the run with rows for this scaling, which may have more missing indicators."""
        if self.missing is None or self.missing.rule != "indicator" or scaling.missing is None:
            return self
        columns = np.array(self.missing.columns, dtype=np.int64)
        rows = self.state.rows.copy()
        n_earlier = len(columns)
        is_indicator = (rows >= n_features) & (rows < n_features + n_earlier)
        is_later = rows >= n_features + n_earlier
        places = np.searchsorted(scaling.missing.columns, columns)
        rows[is_indicator] = n_features + places[rows[is_indicator] - n_features]
        rows[is_later] += scaling.n_indicators - n_earlier
        return replace(self, state=replace(self.state, rows=rows))


class WarmStartMixin(ParametersMixin):
    """What a fit continues from: a model, weights or the last fit."""

    system: ClassVar[str]
    takes_tables: ClassVar[bool]
    coef_: NDArray[np.float64]
    n_iter_: int
    n_features_in_: int
    log_record_: Any
    _fitted_parameters: dict[str, Any]

    def _check_start_model(self, model: LinearModel, columns: FittedColumns) -> None:
        """Raise for a model whose weights cannot start this fit; name the setting that differs."""
        if model.bins is not None:
            raise FeatureMismatchError(
                f"the model to start from was trained by {_trained_by(model)} and has tables, "
                f"{type(self).__name__} has weights of features",
                fix="Train with the ranker of the model",
                parameter="ranker",
            )
        if model.n_features != columns.n_features:
            raise FeatureMismatchError(
                f"the model to start from has {model.n_features} features, the data "
                f"{columns.n_features}",
                fix=f"Read the data with n_features={model.n_features}",
            )
        columns.require_names(model.feature_names)
        raw_log = columns_of(model) is not None
        rule = self._missing(raw_log=raw_log, start_model=model)
        _require_equal("missing", rule, rule_of(model.missing))
        by_list = any(isinstance(spec, ListRange) for spec in model.transforms)
        scale = self._scale()
        if scale != CHOOSE and by_list != (scale == "query"):
            expected = "query" if by_list else model.parameters.get("scale", "auto")
            _require_equal("scale", scale, expected)

    def _check_last_fit(self, columns: FittedColumns, source: TrainingSource) -> None:
        """Raise unless ``warm_start`` can continue the last fit; name the setting that differs."""
        if columns.n_features != self.n_features_in_:
            raise FeatureMismatchError(
                f"the last fit had {self.n_features_in_} features, the data {columns.n_features}",
                fix="Pass the columns of the last fit, or set warm_start=False",
                parameter="warm_start",
            )
        columns.require_names(getattr(self, "feature_names_in_", None))
        if source.log_record is not None and self.log_record_ is not None:
            source.log_record.check_start(self.log_record_.encoding)
        if self.takes_tables:
            return
        last = self._fitted_parameters
        rule = self._missing(raw_log=source.log_record is not None)
        _require_equal("missing", rule, rule_of(self.scaling_.missing))
        scale = self._scale()
        if "query" in (scale, last["scale"]):
            _require_equal("scale", scale, last["scale"])

    def _earlier_run(self, model: LinearModel | None) -> EarlierRun | None:  # noqa: ARG002
        """Return the run that a fit continues: the run of a model, or the last fit."""
        return None

    def _start(
        self, coef_init: Any, columns: FittedColumns, scaling: Scaling
    ) -> tuple[NDArray[np.float64] | None, int]:
        """Return weights to start from, in scaled units, and the steps that led to them.

        ``coef_init`` comes before a warm start; None for both starts at 0.
        """
        n_steps = 0
        learned: MissingValues | None = None
        if coef_init is None:
            if not self._starts_warm():
                return None, 0
            coef_init, n_steps = self.coef_, int(self.n_iter_)
            learned = self.scaling_.missing
        elif isinstance(coef_init, LinearModel):
            learned = coef_init.missing
            if coef_init.parameters.get("ranker") == self.system:
                n_steps = read_progress(coef_init.provenance).n_iter
            coef_init = coef_init.to_dense()
        weights = np.asarray(coef_init, dtype=np.float64)
        if weights.shape != (columns.n_features,):
            raise SchemaError(
                f"the shape is {weights.shape} for {columns.n_features} features",
                parameter="coef_init",
                fix="Pass one weight per feature",
            )
        return scaling.unfold(weights, learned).copy(), n_steps

    def _starts_warm(self) -> bool:
        """Return whether a fit without ``coef_init`` starts from the last one."""
        return self.warm_start and hasattr(self, "coef_")


def _require_equal(parameter: str, value: Any, expected: Any) -> None:
    if value != expected:
        raise FeatureMismatchError(
            f"the model to start from was trained with {parameter}={expected!r}, and this fit has "
            f"{parameter}={value!r}",
            fix=f"Use {parameter}={expected!r}, or train without a model to start from",
            parameter=parameter,
        )


def _trained_by(model: LinearModel) -> str:
    return repr(str(model.parameters.get("ranker", "another program")))


def settings_of(model: LinearModel, names: Iterable[str]) -> dict[str, Any]:
    """Return those parameters of a model's training that are in ``names``."""
    settings = {name: model.parameters[name] for name in names if name in model.parameters}
    for name, value in settings.items():
        # How ``provenance.plain`` names a value that it does not store.
        if isinstance(value, str) and value.startswith(("<", "array of shape")):
            raise ParameterError(
                f"the model to start from does not store this setting ({value})",
                parameter=name,
                fix="Give it again",
            )
    return settings


def training_entry(model: LinearModel, name: str) -> Any:
    """Return an entry of the training in a model's provenance; None if there is none."""
    training = model.provenance.get("training")
    return training.get(name) if isinstance(training, Mapping) else None
