"""Exports of models of tables score as the scorer does, or refuse in one sentence."""

import json
import sqlite3
from contextlib import suppress
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from contracts.export_readers import tree_reader_of, tree_targets
from rankine import AdditiveRanker, Dataset, LinearModel, Scorer
from rankine.core.errors import ExportError, ParameterError
from rankine.core.specs import Bins, LogColumns, OneHot
from rankine.export import ExportOptions, export, targets

NAMES = ['price"', "rating", "brand", "noise"]


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(600, 4)), 2)
    X[:, 2] = rng.integers(0, 5, len(X))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = np.nan_to_num(X[:, 3])
    clean = np.nan_to_num(X)
    y = np.digitize(clean[:, 0] * clean[:, 1] + clean[:, 0] ** 2 + clean[:, 2] / 4, [0.3, 1.2])
    data = Dataset.from_arrays(X, y, np.repeat(np.arange(30), 20), feature_names=NAMES)
    ranker = AdditiveRanker(
        smooth=0.1, pairs=[(0, 1), (1, 2)], categorical=["brand"], linear=["noise"]
    ).fit(data)
    extra = X[:50].copy()
    extra[:, 2] = 77.0
    rows = np.concatenate([X, extra])
    model = ranker.to_model()
    return model, rows, Scorer(model).score(rows)


def named(rows):
    return [
        {name: None if np.isnan(v) else v for name, v in zip(NAMES, row, strict=True)}
        for row in rows.tolist()
    ]


def in_table(connect, text, rows, kind):
    quoted = ['"' + name.replace('"', '""') + '"' for name in NAMES]
    connect.execute(f"CREATE TABLE t (k INTEGER, {', '.join(f'{c} {kind}' for c in quoted)})")
    values = [[k, *row.values()] for k, row in enumerate(named(rows))]
    connect.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", values)
    return [s for (s,) in connect.execute(f"SELECT {text} FROM t ORDER BY k").fetchall()]  # noqa: S608


@pytest.mark.parametrize("engine", ["sqlite3", "duckdb"])
def test_sql(case, engine):
    model, rows, expected = case
    module = pytest.importorskip(engine)
    text = export(model, "sql").content.decode().split("\n", 1)[1]
    kind = "REAL" if module is sqlite3 else "DOUBLE"
    found = in_table(module.connect(":memory:"), text, rows, kind)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_python(case):
    model, rows, expected = case
    room = {}
    exec(export(model, "python").content, room)  # noqa: S102 - the file under test
    np.testing.assert_allclose(room["scores"](named(rows)), expected, atol=1e-12)


def test_json_holds_all_tables(case):
    model, _, _ = case
    told = json.loads(export(model, "json").content)
    assert [spec["type"] for spec in told["transforms"]] == ["bins", "grids"]
    assert told["weights"] == model.values.tolist()


@pytest.fixture(scope="module")
def tables(case):
    """The same tables without the linear column, over plain names."""
    model, rows, _ = case
    bins = msgspec.structs.replace(
        model.bins, linear=(), cuts=(*model.bins.cuts[:3], ()), names=("price", *NAMES[1:])
    )
    weights = model.to_dense()
    cells = sum(model.bins.n_cells)
    found = LinearModel.from_weights(
        np.concatenate([weights[:cells], np.zeros(2), weights[cells:-1]]),
        transforms=(bins, model.transforms[1]),
    )
    return found, rows, Scorer(found).score(rows)


@pytest.mark.parametrize("target", tree_targets())
def test_trees(tables, target, monkeypatch):
    model, rows, expected = tables
    monkeypatch.setattr(f"{__name__}.NAMES", ["price", *NAMES[1:]])
    monkeypatch.setattr("rankine.export.script.MAX_BYTES", 1 << 20)
    some = slice(-150, None)  # 100 of the training, 50 with an unseen category
    content = export(model, target).content
    found = tree_reader_of(target)(content)(named(rows[some]))
    if target == "solr":
        assert [one["name"] for one in json.loads(content)["features"]] == NAMES[:3]
    np.testing.assert_allclose(found, expected[some], atol=1e-5)


def test_vespa_adds_linear_columns(case):
    model, rows, expected = case
    plain = msgspec.structs.replace(model.bins, names=("price", *NAMES[1:]))
    content = export(replace(model, transforms=(plain, *model.transforms[1:])), "vespa").content
    some = slice(-150, None)
    found = tree_reader_of("vespa")(content)(
        [{**row, "price": row[NAMES[0]]} for row in named(rows[some])]
    )
    np.testing.assert_allclose(found, expected[some], atol=1e-5)


@pytest.mark.parametrize("linear", [True, False])
def test_onnx(case, tables, linear):
    onnxruntime = pytest.importorskip("onnxruntime")
    model, rows, expected = case if linear else tables
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        export(model, "onnx").content, options, providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(["variable"], {"X": rows.astype(np.float32)})
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-5)
    with pytest.raises(ParameterError) as caught:
        export(model, "onnx", ExportOptions(dtype="float64"))
    assert caught.value.parameter == "dtype"


def test_xgboost_loads_and_predicts_the_same(tables, tmp_path):
    peer = pytest.importorskip("xgboost")
    model, rows, expected = tables
    (tmp_path / "model.json").write_bytes(export(model, "xgboost").content)
    booster = peer.Booster(model_file=str(tmp_path / "model.json"))
    matrix = peer.DMatrix(rows, feature_names=list(model.column_names))
    found = booster.predict(matrix, output_margin=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch", "solr", "xgboost", "eland"])
def test_trees_have_no_linear_columns(case, target):
    with pytest.raises(ExportError):
        export(case[0], target)


def test_a_category_that_is_no_float32_is_refused():
    model = LinearModel.from_weights(
        [1.0, 0.0, 0.0], transforms=(Bins(((16777217.0,),), (0,), names=("id",)),)
    )
    with pytest.raises(ExportError, match="16777217"):
        export(model, "xgboost")


def small(weights, cuts=((1.0,),), unordered=(), names=("a",), grids=None):
    specs = (Bins(cuts, unordered, names=names), *([] if grids is None else [grids]))
    return LinearModel.from_weights(weights, transforms=specs)


def test_categories_that_are_neighbours_in_float32_stay_apart():
    values = (8388608.0, 8388609.0, 8388611.0)
    model = small([1.0, 2.0, 3.0, 4.0, 5.0], (values,), (0,))
    rows = [*values, 8388610.0, 0.0, None]
    expected = [1.0, 2.0, 3.0, 4.0, 4.0, 5.0]
    for target in ("elasticsearch", "xgboost", "solr", "eland"):
        score = tree_reader_of(target)(export(model, target).content)
        assert score([{"a": x} for x in rows]).tolist() == expected


def test_several_columns_may_stay_linear():
    bins = Bins(((1.0,), (), ()), (), (1, 2), ("a", "b", "c"))
    model = LinearModel.from_weights([1.0, 2.0, 3.0, 10.0, -5.0], transforms=(bins,))
    room = {}
    exec(export(model, "python").content, room)  # noqa: S102 - the file under test
    assert room["scores"]([{"a": 0.0, "b": 1.0, "c": 2.0}, {"b": 2.0}]) == [1.0, 23.0]
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE t (a REAL, b REAL, c REAL)")
    base.execute("INSERT INTO t VALUES (0.0, 1.0, 2.0)")
    text = export(model, "sql").content.decode()
    assert base.execute(f"SELECT {text} FROM t").fetchall() == [(1.0,)]  # noqa: S608


def test_leaves_in_onnx_lead_nowhere(tables):
    onnx = pytest.importorskip("onnx")
    graph = onnx.load_from_string(export(tables[0], "onnx").content).graph
    held = {one.name: onnx.helper.get_attribute_value(one) for one in graph.node[0].attribute}
    leaves = [k for k, mode in enumerate(held["nodes_modes"]) if mode == b"LEAF"]
    assert 0 < len(leaves) == len(held["target_weights"]) < len(held["nodes_modes"])
    for name in ("featureids", "truenodeids", "falsenodeids", "missing_value_tracks_true"):
        assert {held[f"nodes_{name}"][k] for k in leaves} == {0}
    assert held["n_targets"] == 1
    assert set(held["target_ids"]) == {0}


def test_tables_of_zeros_have_no_tree():
    model = small([0.0, 0.0, 0.0, 1.0, 2.0, 3.0], ((1.0,), (5.0,)), names=("a", "b"))
    learner = json.loads(export(model, "xgboost").content)["learner"]
    assert len(learner["gradient_booster"]["model"]["trees"]) == 1
    assert [one["name"] for one in json.loads(export(model, "solr").content)["features"]] == ["b"]


def test_what_trees_cannot_hold_is_refused():
    with pytest.raises(ExportError, match="overflows float32 in XGBoost"):
        export(small([1e60, 0.0, 1.0]), "xgboost")
    for target in ("xgboost", "solr", "elasticsearch", "opensearch", "onnx", "eland"):
        with pytest.raises(ExportError, match=r"cut 1e\+60 of column 'a'"):
            export(small([1.0, 2.0, 3.0], ((1e60,),)), target)
        with pytest.raises(ExportError, match="cut -1e-150 of column 'a'"):
            export(small([1.0, 2.0, 3.0], ((-1e-150,),)), target)
    for target in ("elasticsearch", "opensearch", "solr", "vespa", "sql", "eland"):
        with pytest.raises(ExportError):
            export(small([1.0, 2.0, 3.0], names=None), target)
    with pytest.raises(ParameterError) as caught:
        export(small([1.0, 2.0, 3.0]), "vespa", ExportOptions(form="tensor"))
    assert caught.value.parameter == "form"
    assert export(small([1.0, 2.0, 3.0]), "vespa", ExportOptions(form="expression")).content
    with pytest.raises(ExportError):
        export(small([1.0, 2.0, 3.0], names=("a b",)), "vespa")
    spec = LogColumns((), (OneHot("brand", ("x", "y")),), tables=True)
    bins = Bins(((0.0, 1.0),), (0,), names=("brand",))
    texts = LinearModel.from_weights([1.0, 2.0, 3.0, 4.0], transforms=(spec, bins))
    with pytest.raises(ExportError, match="'brand' of this model holds texts"):
        export(texts, "xgboost")
    room = {}
    exec(export(texts, "python").content, room)  # noqa: S102 - the file under test
    rows = [{"brand": value} for value in ("x", "y", "z", "", None)]
    assert room["scores"](rows) == [1.0, 2.0, 3.0, 4.0, 4.0]
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE t (brand TEXT)")
    base.executemany("INSERT INTO t VALUES (?)", [(row["brand"],) for row in rows])
    text = export(texts, "sql").content.decode()
    found = [score for (score,) in base.execute(f"SELECT {text} FROM t")]  # noqa: S608
    assert found == [1.0, 2.0, 3.0, 4.0, 4.0]


def test_trees_of_xgboost_are_whole(tables):
    model, _, _ = tables
    learner = json.loads(export(model, "xgboost").content)["learner"]
    held = learner["gradient_booster"]["model"]
    trees = held["trees"]
    assert held["iteration_indptr"] == list(range(len(trees) + 1))
    assert held["tree_info"] == [0] * len(trees)
    assert held["gbtree_model_param"]["num_trees"] == str(len(trees))
    for k, tree in enumerate(trees):
        n = int(tree["tree_param"]["num_nodes"])
        assert tree["id"] == k
        assert tree["tree_param"]["num_feature"] == "4"
        columns = [value for value in tree.values() if isinstance(value, list) and value]
        assert {len(column) for column in columns} == {n}
        assert tree["parents"][0] == 2**31 - 1
        for node in range(n):
            left, right = tree["left_children"][node], tree["right_children"][node]
            assert (left < 0) == (right < 0)
            assert tree["default_left"][node] == (left >= 0)
            assert tree["split_type"][node] == 0
            if left >= 0:
                assert right == left + 1
                assert tree["parents"][left] == tree["parents"][right] == node
            else:
                assert left == right == -1
                assert tree["split_indices"][node] == 0
                assert tree["base_weights"][node] == tree["split_conditions"][node]
        leaves = sum(left < 0 for left in tree["left_children"])
        assert n == 2 * leaves - 1


def test_trees_are_balanced_and_ask_no_idle_question():
    """A curve of n steps needs about log n questions; equal neighbours need none."""
    cuts = tuple(map(float, range(64)))

    def depth(node):
        return 0 if "leaf" in node else 1 + max(map(depth, node["children"]))

    def tree(weights):
        content = json.loads(export(small(weights, (cuts,)), "elasticsearch").content)
        (found,) = json.loads(content["model"]["model"]["definition"])
        return found

    assert depth(tree(list(map(float, range(66))))) <= 1 + 7
    flat = tree([*[2.0] * 65, 1.0])
    assert depth(flat) == 1
    numbers = []

    def walk(node):
        numbers.append(node["nodeid"])
        assert node.get("depth", 0) == 0
        for child in node.get("children", ()):
            walk(child)

    walk(tree(list(map(float, range(66)))))
    assert len(set(numbers)) == len(numbers)


def test_every_target_writes_tables(tables):
    assert set(targets()) == {
        *tree_targets(),
        "sql",
        "python",
        "javascript",
        "java",
        "json",
        "onnx",
    }


@pytest.mark.parametrize("target", targets())
def test_a_column_of_one_value_that_may_be_missing(target):
    """Found by the agreement suite: such a column has no cut, and trees could not be made of it."""
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(size=60), np.where(rng.random(60) < 0.4, np.nan, 1.0)], axis=1)
    y = np.isnan(X[:, 1]) + (X[:, 0] > 0)
    data = Dataset.from_arrays(X, y, np.repeat(np.arange(6), 10), feature_names=["a", "b"])
    model = AdditiveRanker(smooth=0.1, pairs=0).fit(data).to_model()
    with suppress(ExportError):
        assert export(model, target).content
