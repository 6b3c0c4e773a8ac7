"""Small pieces of work that touch every kernel a user meets."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["warm_parts"]


def warm_parts(rankers: list[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Names and functions; calling a function compiles (or loads) what its name says."""
    import numpy as np
    from scipy import sparse

    import rankine
    from rankine.data.shop import shop_log
    from rankine.metrics import evaluate_on
    from rankine.rankers.registry import ranker_class
    from rankine.serve.warm import compile_kernels

    data = shop_log(12, random_state=1, list_length=8)
    text = b"1 qid:1 1:0.5 2:1 # a\n0 qid:1 2:0.25 # b\n"
    yield "reader", lambda: rankine.load(io.BytesIO(text))

    def fit(kind: Any, X: Any) -> Callable[[], object]:
        return lambda: kind(random_state=0).fit(X, data.y, qid=data.qid)

    def measure(metric: str) -> Callable[[], object]:
        return lambda: evaluate_on(data, scores=data.X[:, 0], metric=metric)

    for name in rankers:
        kind = ranker_class(name)
        for storage, matrix in (("dense", data.X), ("sparse", sparse.csr_array(data.X))):
            for dtype in (np.float64, np.float32):
                yield f"{name} {storage} {np.dtype(dtype).name}", fit(kind, matrix.astype(dtype))
    yield "serving", compile_kernels
    flat = rankine.LinearModel.from_weights(np.ones(data.n_features))
    yield "report", lambda: rankine.report(flat, data)
    for metric in ("ndcg@10", "map", "recall@5", "mrr", "pairwise_error"):
        yield f"metric {metric}", measure(metric)
