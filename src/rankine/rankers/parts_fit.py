"""``fit`` on partitions: measure, scale, prepare, and say afterwards what was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.core.errors import ParameterError
from rankine.kernels.random import resolve_seed
from rankine.rankers.monitor import Monitor

if TYPE_CHECKING:
    from rankine.rankers.base import BaseRanker, Prepared

__all__ = ["is_partitioned", "prepare_parts", "training_facts"]


def is_partitioned(X: Any) -> bool:
    """Whether these are partitions; asked without importing what they need."""
    return hasattr(X, "pieces") and hasattr(X, "runner")


def prepare_parts(
    ranker: BaseRanker,
    data: Any,
    y: Any = None,
    qid: Any = None,
    group: Any = None,
    sample_weight: Any = None,
    query_weight: Any = None,
    eval_set: Any = None,
    eval_qid: Any = None,
    coef_init: Any = None,
    callbacks: Any = (),
) -> Prepared:
    """Check what ``fit`` was given and read the partitions once."""
    from rankine.metrics import parse_metric
    from rankine.rankers.base import Prepared
    from rankine.rankers.parts_job import PartsJob

    given = {"y": y, "qid": qid, "group": group, "sample_weight": sample_weight}
    for name, value in {**given, "query_weight": query_weight}.items():
        if value is not None:
            raise ParameterError(
                f"partitions hold their own labels, query ids and weights; {name}= was given too",
                fix="Name the columns when scanning: rankine.distributed.scan(..., weight=...)",
            )
    parse_metric(ranker.metric)
    ranker.n_features_in_ = data.n_features
    ranker._set_names(data.feature_names)
    seed = resolve_seed(ranker.random_state)
    job = PartsJob.start(ranker, data, seed)
    start = ranker._start(coef_init, job.scaling, data.n_features)
    valid = ranker._eval_data(eval_set, eval_qid)
    watched = None if valid is None else job.scaling.apply(valid)
    patience = getattr(ranker, "early_stopping", None)
    monitor = None if watched is None else Monitor(ranker.metric, watched, patience)
    chosen = tuple(callbacks) if monitor is None else (monitor, *callbacks)
    return Prepared(job.ready(start, watched, chosen), job.scaling, job, monitor)


def training_facts(data: Any) -> dict[str, Any]:
    """What a model remembers about its training data, a ``Dataset`` or partitions."""
    if hasattr(data, "facts"):
        facts: dict[str, Any] = data.facts()
        return facts
    return {
        "rows": data.n_rows,
        "queries": data.n_queries,
        "queries_used": len(data.labels.usable),
        "pairs": data.labels.n_pairs,
        "sources": list(data.sources),
    }
