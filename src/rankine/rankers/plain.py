"""Parameters of a ranker as plain data, for model files."""

from __future__ import annotations

from typing import Any

from rankine.core.strict_json import plain

__all__ = ["plain_parameters"]


def plain_parameters(ranker: Any) -> dict[str, Any]:
    """Constructor parameters of a ranker in JSON-able form.

    The number of threads is left out: it changes no bit of a result, so it may change no digest.
    """
    chosen = ranker.get_params(deep=False)
    parameters: dict[str, Any] = plain(
        {name: value for name, value in chosen.items() if name != "n_threads"}
    )
    return parameters
