"""Write scores as a Parquet table of ids, scores and ranks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankine.core.atomic import atomic_file
from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset
from rankine.data.writers import to_arrow
from rankine.kernels.sorting import list_ranks

#: Columns of every table of scores.
_NAMES = ("qid", "docid", "score", "rank", "probability")


class ScoredRows(NamedTuple):
    """Rows with their scores; ranks, if rules decide, are 0 for removed rows."""

    data: Dataset
    scores: NDArray[np.float64]
    ranks: NDArray[np.int64] | None = None
    probabilities: NDArray[np.float64] | None = None


def write_scores(
    scored: Iterable[ScoredRows],
    path: str | os.PathLike[str],
    keep: Sequence[str] = (),
) -> None:
    """Write one row per scored row, in row order: ``qid``, ``docid``, ``score``, ``rank``.

    Further columns to ``keep`` follow the ids. ``docid`` is null where a row has none. Rank 1 is
    the best row of its list; rows of equal scores are ranked in row order. Removed rows have none.
    ``probability`` follows if it was computed.
    """
    for name in keep:
        if name in _NAMES:
            raise ParameterError(
                f"{name!r} is a column of the result", parameter="columns", fix="Leave it out"
            )
    writer: Any = None
    with ExitStack() as files:
        file = files.enter_context(atomic_file(path))
        for rows in scored:
            table = _score_table(rows, keep)
            if writer is None:
                writer = pq.ParquetWriter(file, table.schema, write_page_checksum=True)
                files.enter_context(writer)
            writer.write_table(table)


def _score_table(rows: ScoredRows, keep: Sequence[str]) -> pa.Table:
    data, scores, ranks, probabilities = rows
    index = data.queries
    docids: Any = pa.nulls(data.n_rows, pa.string())
    if data.item_ids is not None:
        docids = to_arrow(np.asarray(data.item_ids))
        if pa.types.is_string(docids.type):
            docids = pc.if_else(pc.equal(docids, ""), None, docids)
    if ranks is None:
        ranks = index.scatter(list_ranks(index.gather(scores), index.starts))
    arrays = {"qid": to_arrow(data.qid), "docid": docids}
    arrays |= {name: to_arrow(np.asarray(data.columns[name])) for name in keep}
    arrays |= {"score": pa.array(scores), "rank": pa.array(ranks, mask=ranks == 0)}
    if probabilities is not None:
        arrays["probability"] = pa.array(probabilities)
    return pa.table(arrays)
