"""Rank documents in pipelines of PyTerrier.

Needs the extra ``ir``. The transformer reads the frames that PyTerrier's stages exchange.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rankine.core.errors import MissingExtraError, SchemaError
from rankine.model import LinearModel
from rankine.scoring import Scorer

try:
    import pyterrier
except ImportError as error:
    raise MissingExtraError(
        "the transformer needs PyTerrier", fix="pip install 'rankine[ir]'"
    ) from error

__all__ = ["ModelTransformer"]


class ModelTransformer(pyterrier.Transformer):
    """Score and rank the documents of every query with a model.

    Parameters
    ----------
    model
        A ``LinearModel``, or the path of a model file.

    Notes
    -----
    A frame has the columns ``qid`` and ``docno``, and either ``features``, an array per row as
    ``**`` and ``FeaturesBatchRetrieve`` make it, in the order of training; or a column for each
    feature of the model.

    In a pipeline::

        retrieve >> (bm25 ** pl2) >> ModelTransformer("ranker.rankine")
    """

    def __init__(self, model: LinearModel | str | Path) -> None:
        super().__init__()
        if not isinstance(model, LinearModel):
            model = LinearModel.load(model)
        self.scorer = Scorer(model, unknown="zero")

    def transform(self, frame: Any) -> Any:
        """Return the frame with columns ``score`` and ``rank``, best documents first."""
        missing = [name for name in ("qid", "docno") if name not in frame.columns]
        if missing:
            raise SchemaError(
                f"the frame has no column {missing[0]!r}", fix="Rank the results of a retriever"
            )
        # Lists are consecutive rows, in the order in which queries first appear.
        frame = frame.sort_values("qid", kind="stable", key=_order_of_appearance)
        frame = frame.reset_index(drop=True)
        group = frame.groupby("qid", sort=False).size().to_numpy()
        if len(frame) == 0:
            scores = np.zeros(0)
        elif "features" in frame.columns:
            scores = self.scorer.score(np.stack(frame["features"].to_list()), group=group)
        else:
            columns = {name: frame[name].to_numpy() for name in self._columns(frame)}
            scores = self.scorer.score(columns, group=group)
        return pyterrier.model.add_ranks(frame.assign(score=scores))

    def _columns(self, frame: Any) -> list[str]:
        names = [name for name in self.scorer.required if name in frame.columns]
        if not names:
            raise SchemaError(
                "the frame has neither 'features' nor a column of the model",
                fix=f"The model reads {', '.join(self.scorer.required[:10])}",
            )
        return names


def _order_of_appearance(queries: Any) -> Any:
    return queries.map({query: k for k, query in enumerate(dict.fromkeys(queries))})
