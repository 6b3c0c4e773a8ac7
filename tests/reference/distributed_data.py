"""Write generated lists to Parquet files whose row groups cut through queries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TRUE = np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.0])


def table(n_queries: int, seed: int, first_query: int = 0, text_ids: bool = False) -> pa.Table:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 12, n_queries)
    n_rows = int(sizes.sum())
    X = rng.normal(size=(n_rows, len(TRUE)))
    y = np.clip(np.round(X @ TRUE + 0.5 * rng.normal(size=n_rows)), 0, 3)
    qid = np.repeat(first_query + np.arange(n_queries), sizes)
    columns = {"label": y, "qid": [f"q{q:05d}" for q in qid] if text_ids else qid}
    return pa.table({**columns, **{f"f{j}": X[:, j] for j in range(X.shape[1])}})


def write_files(folder, n_files: int = 3, n_queries: int = 50, group: int = 40, **how):
    """Write files 0, 1, ... of consecutive queries."""
    for k in range(n_files):
        rows = table(n_queries, k, first_query=k * n_queries)
        pq.write_table(rows, folder / f"{k}.parquet", row_group_size=group, **how)
