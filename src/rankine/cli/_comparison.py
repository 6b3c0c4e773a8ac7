"""What ``rankine compare`` reads and shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.cli._tables import show_tables
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.evaluation.compare import Comparison

__all__ = ["compare_files", "show"]


def compare_files(
    inputs: list[str], metrics: list[str], options: dict[str, Any], **settings: Any
) -> list[Comparison]:
    """Compare all inputs but the last on the last, once per metric."""
    from rankine.evaluation.compare import compare_contestants
    from rankine.evaluation.contestants import gather_contestants, is_run, read_judged
    from rankine.metrics import parse_metric

    if len(inputs) < 3:
        raise ParameterError(
            "two models or runs and a data file are needed",
            fix="Write: rankine compare A.rankine B.rankine DATA",
        )
    *systems, data = inputs
    chosen = [parse_metric(metric) for metric in metrics]
    if "n_features" not in options:
        options = {**options, **_model_width([s for s in systems if not is_run(s)])}
    contestants = gather_contestants(systems, read_judged(data, **options))
    return [compare_contestants(contestants, metric, **settings) for metric in chosen]


def _model_width(paths: list[str]) -> dict[str, int]:
    """Text files may lack the last features of the model: read as many as it has."""
    from rankine.model import LinearModel

    for path in paths:
        model = LinearModel.load(path)
        if model.feature_names is None:
            return {"n_features": model.n_features}
    return {}


def show(found: list[Comparison], *, latex: bool, markdown: bool) -> None:
    """Tables in the chosen form."""
    tables = [table for comparison in found for table in comparison.tables()]
    show_tables(tables, latex=latex, markdown=markdown)
