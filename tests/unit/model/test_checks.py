"""Transforms, weights and provenance of a model fit each other, or the model is refused."""

import numpy as np
import pytest

from rankine.core.errors import ModelError
from rankine.core.specs import (
    Binned,
    Bins,
    GridAxis,
    Grids,
    History,
    HistoryFeature,
    ListRange,
    LogColumns,
    MissingValues,
    OneHot,
    RunScores,
)
from rankine.model import LinearModel, ModelBundle
from rankine.model.checks import MAX_CELLS, MAX_ROUNDS, MAX_RUNS, MAX_TABLE_COLUMNS, read_progress
from rankine.scoring import Scorer

SHOP = OneHot("shop", ("a", "b"))
RAW = LogColumns(("x",), (SHOP,), ("brand",), (), 3, (), (Binned("age", (1.0,)),))
PLACES = LogColumns(("x",), (SHOP,), tables=True)
BINS = Bins(((0.5,), (0.0, 1.0)), unordered=(1,))
GRIDS = Grids((GridAxis(0, (0, 1, 2)), GridAxis(1, (0, 1, 2, 2))), ((0, 1),))
PAST = History(("h",), (HistoryFeature(("shop",), age=True),), "q", "t")


def model(n_features, *transforms, **provenance):
    return LinearModel(
        n_features,
        np.arange(min(n_features, 3)),
        np.ones(min(n_features, 3)),
        transforms,
        provenance=provenance,
    )


@pytest.mark.parametrize(
    ("n_features", "transforms"),
    [
        (3, ()),
        (3, (ListRange(),)),
        (3, (MissingValues("mean", (0, 2), (1.0, 2.0)), ListRange())),
        (14, (RAW,)),
        (14, (RAW, MissingValues("zero"), ListRange())),
        (7, (BINS,)),
        (7, (PLACES, BINS)),
        (16, (PLACES, BINS, GRIDS)),
        (6, (Bins(((0.5,), (), ()), linear=(2,)),)),
        (2, (RunScores(),)),
    ],
)
def test_models_that_fit(n_features, transforms):
    fitting = model(n_features, *transforms)
    Scorer(fitting)
    assert LinearModel.from_bytes(fitting.to_bytes()) == fitting
    for wrong in (n_features - 1, n_features + 1):
        if any(isinstance(spec, (LogColumns, Bins)) for spec in transforms):
            with pytest.raises(ModelError):
                model(wrong, *transforms)


@pytest.mark.parametrize(
    ("n_features", "transforms", "reason"),
    [
        (3, (ListRange(), ListRange()), "cannot run these transforms together: ListRange, ListR"),
        (3, (ListRange(), RunScores()), "cannot run"),
        (7, (BINS, ListRange()), "cannot run"),
        (9, (GRIDS,), "cannot run"),
        (3, (PAST,), "cannot run"),
        (2, (MissingValues("mean", (0, 2), (1.0, 2.0)),), "column 2 of 2"),
        (14, (LogColumns(("x",)),), "the encoding of a log has 1 columns, not 14"),
        (2, (PLACES,), "the encoding of a log has 2 columns"),
        (7, (LogColumns(("x", "y")), BINS), "the encoding of a log"),
        (8, (PLACES, Bins(((0.5,), (0.0, 1.0, 2.0)), unordered=(1,))), "'shop' has no value"),
        (6, (PLACES, Bins(((0.5,), (0.5,)), unordered=(1,))), "'shop' has no value"),
        (6, (PLACES, Bins(((0.5,), (-1.0,)), unordered=(1,))), "'shop' has no value"),
        (16, (BINS, Grids((GRIDS.axes[0],) * 2, ((0, 1),))), "listed twice"),
        (25, (BINS, Grids(GRIDS.axes, ((0, 1), (0, 1)))), "listed twice"),
        (16, (BINS, Grids((GridAxis(2, (0,)),), ())), "does not fit column 2"),
        (16, (BINS, Grids((GridAxis(0, (0, 1)),), ())), "does not fit column 0"),
        (3, (Bins(((), ()), linear=(0,)), Grids((GridAxis(0, ()),), ())), "does not fit column 0"),
        (8, (BINS,), "have 7 entries for 8 weights"),
        (MAX_RUNS + 1, (RunScores(),), f"{MAX_RUNS + 1} retrievers"),
        (3, (Bins(((),) * (MAX_TABLE_COLUMNS + 1)),), f"of {MAX_TABLE_COLUMNS + 1} columns"),
    ],
)
def test_models_that_do_not_fit_are_refused(n_features, transforms, reason):
    with pytest.raises(ModelError, match=reason) as caught:
        model(n_features, *transforms)
    assert caught.value.fix
    with pytest.raises(ModelError, match=reason):
        ModelBundle.from_weights({"a": np.ones(n_features)}, transforms=transforms)


def test_tables_have_a_limit():
    axis = tuple(range(256))
    bins = Bins((tuple(map(float, range(254))),) * 24)
    grids = Grids(
        tuple(GridAxis(j, axis) for j in range(24)),
        tuple((a, b) for b in range(24) for a in range(b)),
    )
    n_cells = sum(bins.n_cells) + sum(grids.n_cells)
    assert n_cells > MAX_CELLS
    with pytest.raises(ModelError, match=f"{n_cells} entries"):
        model(n_cells, bins, grids)


@pytest.mark.parametrize(
    "provenance",
    [
        {"n_iter": -1},
        {"n_iter": 2**63},
        {"n_iter": "4"},
        {"n_iter": 4.5},
        {"certificate": "text"},
        {"certificate": {"rounds": MAX_ROUNDS + 1}},
        {"certificate": {"rounds": 2**53}},
        {"certificate": {"smooth": -1.0}},
        {"certificate": {"smooth": "x"}},
        {"log": {"lists": "many"}},
    ],
)
def test_a_damaged_provenance_is_refused(provenance):
    with pytest.raises(ModelError, match="the provenance in the model cannot be read"):
        model(3, **provenance)


@pytest.mark.parametrize("log", [0, "text", {"categorical": 5}, {"query": 5}, {"history": [1]}])
def test_the_schema_of_a_log_has_its_types(log):
    with pytest.raises(ModelError, match="the parameters in the model cannot be read"):
        LinearModel.from_weights([1.0], parameters={"log": log})
    assert LinearModel.from_weights([1.0], parameters={"log": {"query": None, "numeric": 5}})


def test_a_provenance_may_have_other_entries():
    assert read_progress({}).n_iter == 0
    progress = read_progress({"n_iter": 4, "certificate": {"gap": 1e-9, "rounds": MAX_ROUNDS}})
    assert (progress.n_iter, progress.certificate.rounds) == (4, MAX_ROUNDS)
    assert progress.certificate.smooth is None
    assert model(3, note="text", trace=[1]).provenance == {"note": "text", "trace": [1]}


def test_a_summary_names_the_columns_of_the_log_as_they_are_read():
    scores = {"missing": 0.0, "shares": [1.0], "cuts": []}
    groups = {"missing": 0.0, "shares": [0.0] * 16, "cuts": None}

    def log(**columns):
        return {"lists": 1, "rows": 2, "columns": columns, "scores": scores}

    assert model(14, RAW, log=log(x=scores, shop=groups, age=scores, brand=groups))
    for columns in ({"y": scores}, {"x": groups}, {"age": groups}, {"shop": scores}):
        with pytest.raises(ModelError, match="summary of the training log does not fit column"):
            model(14, RAW, log=log(**columns))
    assert model(3, log=log(y=scores))  # nothing reads it
