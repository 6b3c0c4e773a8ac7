"""Read judgements of ``ir_datasets`` and join them with frames of features.

Needs the extra ``ir``. A collection is downloaded by ir_datasets when it is read first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankine.core.errors import MissingExtraError, ParameterError, SchemaError
from rankine.data import Dataset
from rankine.evaluation.trec import Qrels

__all__ = ["read_judged", "read_qrels"]


def read_qrels(dataset: Any) -> Qrels:
    """Read the judgements of a collection; query and document ids are texts.

    Parameters
    ----------
    dataset
        Name of a collection, such as ``"vaswani"``, or a dataset of ir_datasets.
    """
    if isinstance(dataset, str):
        try:
            import ir_datasets
        except ImportError as error:
            raise MissingExtraError(
                "reading collections needs ir_datasets", fix="pip install 'rankine[ir]'"
            ) from error
        dataset = ir_datasets.load(dataset)
    if not dataset.has_qrels():
        raise ParameterError(
            "the collection has no judgements",
            parameter="dataset",
            fix="Name a part with judgements, such as msmarco-passage/dev/small",
        )
    entries = list(dataset.qrels_iter())
    return Qrels(
        np.array([str(entry.query_id) for entry in entries]),
        np.array([str(entry.doc_id) for entry in entries]),
        np.array([entry.relevance for entry in entries], dtype=np.float64),
    )


def read_judged(frame: Any, dataset: Any) -> Dataset:
    """Join a frame of retrieved documents with judgements, to train on.

    Parameters
    ----------
    frame
        Frame of PyTerrier: ``qid``, ``docno`` and ``features``, an array per row. A document
        without a judgement has label 0, as in evaluation.
    dataset
        As for ``read_qrels``.
    """
    for name in ("qid", "docno", "features"):
        if name not in frame.columns:
            raise SchemaError(
                f"the frame has no column {name!r}",
                column=name,
                fix="Compute features with PyTerrier's ** operator",
            )
    qrels = read_qrels(dataset)
    labels = dict(
        zip(zip(qrels.qid.tolist(), qrels.docid.tolist(), strict=True), qrels.label, strict=True)
    )
    queries = [str(query) for query in frame["qid"]]
    documents = [str(document) for document in frame["docno"]]
    y = [labels.get(pair, 0.0) for pair in zip(queries, documents, strict=True)]
    X = np.stack(frame["features"].to_list())
    return Dataset.from_arrays(X, np.array(y), np.array(queries))
