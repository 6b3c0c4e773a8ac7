"""Sets have another order in each process: they are refused wherever order means something."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine import (
    AdditiveRanker,
    Dataset,
    ElasticRanker,
    LinearModel,
    ParameterError,
    RankSVM,
    SPDRanker,
    logs,
)
from rankine.evaluation.interleave import team_draft
from rankine.evaluation.letor import run_letor
from rankine.evaluation.trec import Qrels
from rankine.logs.clicks import read_clicks
from rankine.logs.schema import LogSchema
from rankine.rankers.registry import Choice
from rankine.tuning.spaces import Space

NAMES = ["alpha", "beta", "gamma", "delta"]
SET = frozenset(NAMES)


@pytest.fixture(scope="module")
def data() -> Dataset:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    return Dataset.from_arrays(X, y, np.repeat(np.arange(6), 10), feature_names=NAMES)


@pytest.fixture(scope="module")
def path(data, tmp_path_factory) -> str:
    columns = dict(zip(NAMES, data.X.T, strict=True))
    found = tmp_path_factory.mktemp("sets") / "rows.parquet"
    pq.write_table(pa.table({"qid": data.qid, "label": data.y, **columns}), found)
    return str(found)


def _log(path, **columns):
    return logs.scan(path, **{"query": "qid", "label": "label", "numeric": ["alpha"], **columns})


READS = {
    "numeric": lambda path: _log(path, numeric=SET),
    "categorical": lambda path: _log(path, categorical={"beta", "gamma"}),
    "one_hot": lambda path: _log(path, one_hot={"beta", "gamma"}),
    "binned": lambda path: _log(path, binned={"beta", "gamma"}),
    "crosses": lambda path: _log(path, crosses={"beta*gamma", "gamma*delta"}),
    "crosses of sets": lambda path: _log(path, crosses=[{"beta", "gamma"}]),
    "columns of logs": lambda path: _log(path, columns={"beta", "gamma"}),
    "numeric of a schema": lambda _: LogSchema("qid", numeric=SET),
    "features": lambda path: rankine.load(path, features=SET),
    "columns": lambda path: rankine.scan(path, columns={"beta", "gamma"}),
    "feature_names": lambda path: rankine.load(path, feature_names=SET),
    "group": lambda path: rankine.load(path, query=None, group={20, 40}),
    "paths": lambda path: rankine.load({path}),
    "columns of clicks": lambda path: read_clicks(path, query="qid", columns={"beta", "gamma"}),
    "features of em": lambda path: rankine.estimate_propensity(path, method="em", features=SET),
    "folders": lambda path: run_letor({path}, {"spd": SPDRanker()}),
    "runs": lambda path: rankine.fuse({path, "other"}, Qrels(["1"], ["a"], [1.0])),
}
USES = {
    "eval_names": lambda data: RankSVM().fit(data, eval_set=[data, data], eval_names={"a", "b"}),
    "pairs": lambda data: AdditiveRanker(pairs={(0, 1), (2, 3)}).fit(data),
    "linear": lambda data: AdditiveRanker(linear={"beta", "gamma"}).fit(data),
    "record_at": lambda data: SPDRanker(record_at={10, 20}).fit(data),
    "solvers": lambda data: ElasticRanker().path(data, solvers={"rda", "fobos"}),
    "feature_names": lambda data: Dataset.from_arrays(data.X, data.y, feature_names=SET),
    "feature_names of pairs": lambda data: Dataset.from_pairs(
        data.X, -data.X, feature_names=SET
    ),
    "feature names": lambda _: LinearModel.from_weights(np.ones(4), feature_names=SET),
    "topics": lambda data: rankine.fit_topics(data.X, np.eye(60)[:, :2], topics={"a", "b"}),
    "systems": lambda data: rankine.compare({"one", "two"}, data),
    "metric": lambda data: rankine.report(
        RankSVM().fit(data), data, metric={"ndcg@10", "map"}
    ),
    "loss": lambda _: Space({"ranksvm": RankSVM()}, {"loss": {"hinge", "squared_hinge"}}),
    "options": lambda _: Choice({"hinge", "squared_hinge"}).values,
    "rankings": lambda _: team_draft([["a", "b"], {"a", "b"}], 2, key=1),
}  # fmt: skip


@pytest.mark.parametrize("what", READS)
def test_sets_of_columns_and_files_are_refused(what, path) -> None:
    with pytest.raises(ParameterError, match="a set has no order") as caught:
        READS[what](path)
    assert caught.value.parameter == what.split(" of ")[0]


@pytest.mark.parametrize("what", USES)
def test_sets_of_names_and_choices_are_refused(what, data) -> None:
    with pytest.raises(ParameterError, match="a set has no order") as caught:
        USES[what](data)
    assert caught.value.parameter == what.split(" of ")[0]


def test_views_of_mappings_have_an_order(path) -> None:
    assert rankine.load(path, features=dict.fromkeys(NAMES[::-1]).keys()).feature_names == tuple(
        NAMES[::-1]
    )
