"""Continue the training of a model: read a log as it was trained, with its ranker and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.cli._options import make_ranker
from rankine.cli._reading import ModelReadingOptions
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.model import LinearModel


def open_like_training(
    paths: list[str], model: LinearModel, reading: ModelReadingOptions, columns: Sequence[str]
) -> Any:
    """Open a new log as the model's training was read."""
    from rankine.logs.clicks import coec_formula

    schema = reading.log_schema(model)
    if schema is None:
        return reading.open(paths, n_features=model.n_columns, base=model.base, columns=columns)
    if schema.label is not None and coec_formula(schema.label) is not None:
        raise ParameterError(
            "clicks over expected clicks are estimated from more than one day",
            parameter="label",
            fix="Train on all days with rankine train --warm-start MODEL --label coec",
        )
    return reading.open(paths, stream=True, like=model, log_schema=schema, columns=columns)


def ranker_of_model(model: LinearModel) -> Any:
    """Return a ranker with the settings that a model was trained with."""
    from rankine.rankers.registry import RANKERS, ranker_class
    from rankine.rankers.warm_start import settings_of

    name = model.parameters.get("ranker")
    if name not in RANKERS:
        raise ParameterError(
            "the model file names no ranker",
            parameter="model",
            fix="Use rankine train --warm-start MODEL --ranker NAME",
        )
    names = set(ranker_class(name)().get_params(deep=False))
    # The newest lists judge the result, so they cannot stop the training.
    return make_ranker(name, settings_of(model, names - {"warm_start", "early_stopping"}))
