"""Systems to compare in one common form: labels and scores of each query's documents.

A system may be a model file, a TREC run file, a ``LinearModel``, a fitted ranker, a ``Run`` or an
array of scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import reject_sets
from rankine.core.errors import ParameterError, SchemaError
from rankine.core.safe_text import mask_secrets
from rankine.core.stores import is_file
from rankine.data.compression import open_stream
from rankine.data.dataset import Dataset, check_finite, concat
from rankine.data.options import ReadOptions
from rankine.data.query_index import QueryIndex, id_texts
from rankine.data.sources import find_sources
from rankine.evaluation.trec import Qrels, Run, judged_lists, read_qrels, read_run, run_metric
from rankine.kernels.sorting import rank_order, rank_order_by_key
from rankine.metrics import Metric, data_columns, evaluate
from rankine.metrics.gains import docid_key

if TYPE_CHECKING:
    from rankine.model import LinearModel


@dataclass(frozen=True, eq=False)
class ScoredSystem:
    """The labels and scores that a named system gives every document.

    ``by_docid``: ties are ordered by descending document id (as in TREC runs) instead of by row.
    ``items`` and ``texts``: the item and the text of the query of each row, or None.
    """

    name: str
    y: NDArray[np.float64]
    score: NDArray[np.float64]
    queries: QueryIndex
    columns: Mapping[str, Any]
    by_docid: bool
    items: Any = None
    texts: Any = None

    def values(self, metric: Metric) -> NDArray[np.float64]:
        """Return the metric of each query."""
        rule = run_metric(metric) if self.by_docid else metric
        return evaluate(
            rule, self.y, self.score, self.queries, per_query=True, columns=self.columns
        )

    def text(self, query: int) -> str:
        """Return what was searched for, or an empty text."""
        return "" if self.texts is None else str(self.texts[self.queries.rows_of(query)[0]])

    def ranking(self, query: int, depth: int) -> list[dict[str, Any]]:
        """Return id (or row), label and score of the first documents of a query."""
        rows = self.queries.rows_of(query)
        retrieved = self.columns.get("retrieved")
        # Documents that a run did not retrieve have no rank in it.
        if retrieved is not None:
            rows = rows[np.asarray(retrieved)[rows].astype(bool)]
        docid = self.columns.get("docid", self.items)
        if self.by_docid:
            key = docid_key({"docid": np.asarray(docid)[rows]}, len(rows))
            order = rank_order_by_key(self.score[rows], key)
        else:
            order = rank_order(self.score[rows])
        return [
            {
                "doc": f"row {row}" if docid is None else str(docid[row]),
                "label": float(self.y[row]),
                "score": float(self.score[row]),
            }
            for row in rows[order[:depth]].tolist()
        ]


def load_systems(
    systems: Sequence[Any] | Mapping[str, Any], judged: Dataset | Qrels
) -> list[ScoredSystem]:
    """Score all systems on the same judged queries."""
    by_name = dict(systems) if isinstance(systems, Mapping) else name_systems(systems)
    loaded = {name: _load(system) for name, system in by_name.items()}
    with_runs = any(isinstance(system, Run) for system in loaded.values())
    # Runs break ties by document id; then all systems do, so that they differ by scores alone.
    if with_runs and isinstance(judged, Dataset) and judged.docid is None:
        raise SchemaError(
            "a run identifies documents by id, but the data has no document ids",
            fix="Pass data with docids (# comments, or a docid column), or a qrels file",
        )
    return [_score_system(name, system, judged, with_runs) for name, system in loaded.items()]


def load_judged_data(path: Any, systems: Sequence[Any] = (), **options: Any) -> Dataset | Qrels:
    """Read labelled data with the features of the models among ``systems``, or a qrels file."""
    from rankine.data.open import load
    from rankine.model import LinearModel

    if is_qrels(path):
        return read_qrels(path)
    models = [system for system in map(_load, systems) if isinstance(system, LinearModel)]
    if models:
        return load_for_models(models, path, **options)
    return load(path, **options)


def select_reader(models: Sequence[LinearModel]) -> tuple[LinearModel, tuple[str, ...]]:
    """Return the model to read data with, of a raw log if any, and the columns all models need."""
    from rankine.transforms.log_columns import columns_of

    # Models of a raw log encode the columns themselves, so that they decide how the file is read.
    of_logs = [model for model in models if columns_of(model) is not None]
    if not of_logs:
        return models[0], ()
    histories = [model.history for model in of_logs]
    computed = {name for history in histories if history is not None for name in history.names}
    # The model with most history features reads the log, so that the others find theirs.
    n_features = [0 if history is None else len(history.names) for history in histories]
    reader = of_logs[n_features.index(max(n_features))]
    names = (name for model in of_logs for name in columns_of(model).columns)  # type: ignore[union-attr]
    return reader, tuple(name for name in dict.fromkeys(names) if name not in computed)


def load_for_models(models: Sequence[LinearModel], data: Any, **options: Any) -> Dataset:
    """Return data in memory that all models can score, from a ``Dataset``, a stream or files."""
    from rankine.logs.source import read_for

    if isinstance(data, Dataset):
        return data
    if hasattr(data, "blocks"):
        return concat(data.blocks())
    reader, columns = select_reader(models)
    all_columns = (*options.pop("columns", ()), *columns)
    dataset: Dataset = read_for(reader, data, columns=all_columns, **options)
    return dataset


def is_run(path: Any) -> bool:
    """Whether the first line of a file is ``qid Q0 docid rank score tag``."""
    fields = _first_fields(path)
    return len(fields) == 6 and fields[1].upper() == b"Q0"


def is_qrels(path: Any) -> bool:
    """Whether the first line of a file is ``qid 0 docid relevance``."""
    # A line of LETOR text has a colon in its second field.
    fields = _first_fields(path)
    return len(fields) == 4 and b":" not in fields[1] and b":" not in fields[3]


def _first_fields(path: Any) -> list[bytes]:
    if not isinstance(path, (str, Path)) or not is_file(path):
        return []
    with open_stream(find_sources(path)[0], ReadOptions.make()) as stream:
        buffer = bytearray(4096)
        count = stream.readinto(memoryview(buffer))
    return bytes(buffer[:count]).lstrip().split(b"\n")[0].split()


def name_systems(systems: Sequence[Any]) -> dict[str, Any]:
    """Give every system a distinct name."""
    reject_sets(systems=systems)
    by_name: dict[str, Any] = {}
    # A name that is taken gets a number, so that no system replaces another one.
    for k, system in enumerate(systems):
        if isinstance(system, (str, Path)):
            name = mask_secrets(Path(system).name)
        elif isinstance(system, Run):
            name = system.tag
        elif hasattr(system, "get_params"):
            name = type(system).__name__
        else:
            name = f"system {k + 1}"
        base, copies = name, 1
        while name in by_name:
            copies += 1
            name = f"{base} ({copies})"
        by_name[name] = system
    return by_name


def _load(system: Any) -> Any:
    if not isinstance(system, (str, Path)):
        return system
    if is_run(system):
        return read_run(system)
    from rankine.model import LinearModel

    return LinearModel.load(system)


def _score_system(name: str, system: Any, judged: Dataset | Qrels, with_runs: bool) -> ScoredSystem:
    if isinstance(system, Run):
        qrels: Any = judged
        if isinstance(judged, Dataset):
            # Runs have text ids; those of the data are compared in the same form.
            qrels = Qrels(id_texts(judged.qid), id_texts(judged.docid), judged.y)
        lists = judged_lists(system, qrels)
        return ScoredSystem(name, lists.y, lists.score, lists.queries, lists.columns, by_docid=True)
    if not isinstance(judged, Dataset):
        raise ParameterError(
            f"{name} needs features, but a qrels file has none",
            fix="Pass labelled data instead of qrels, or a run instead of the model",
        )
    score = np.asarray(_scores(system, judged), dtype=np.float64)
    if score.shape != (judged.n_rows,):
        raise SchemaError(
            f"{name} has scores of shape {score.shape} for {judged.n_rows} rows",
            fix="Pass one score per row",
        )
    check_finite(score, f"score of {name}")
    return ScoredSystem(
        name,
        judged.y,
        score,
        judged.queries,
        data_columns(judged),
        with_runs,
        judged.item_ids,
        judged.query_texts,
    )


def _scores(system: Any, data: Dataset) -> Any:
    from rankine.model import LinearModel
    from rankine.transforms.apply import score_dataset

    if isinstance(system, LinearModel):
        return score_dataset(system, data)
    if hasattr(system, "predict"):
        return system.predict(data)
    return system
