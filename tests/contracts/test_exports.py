"""Every export ranks random rows as the scorer does; found by registration."""

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import export_readers as readers

from rankine.core.errors import ExportError, MissingExtraError, ParameterError
from rankine.core.specs import Bins, GridAxis, Grids, ListRange
from rankine.export import ExportOptions, export, targets
from rankine.export.onnx import _MAX_BYTES
from rankine.model import LinearModel, ModelBundle
from rankine.scoring import Scorer

#: Names that break naive writers: quotes, comments, braces, scripts, escapes, other alphabets.
HOSTILE = [
    'a"b', "a'b", "a''; DROP TABLE t; --", "back\\slash", "new\nline", "tab\t",
    "<script>x</script>", "}} {{x}}", '{"type": 1}', "'''\"\"\"", "é ü 漢字 😀", "${jndi:ldap://x}",
    "\x1b[31m", "__import__", "%s %d", "a--b", "/* c */", "select", "A", " lead", "trail ", "-1",
    "constructor",
]  # fmt: skip
VESPA_NAMES = ["bm25(title)", "attribute(price)", "nativeRank", "fieldMatch(title).proximity",
               "query(w_x)", "closeness(field,embedding)"]  # fmt: skip


def make_model(names, seed=0, zeros=2):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=len(names)) * 10.0 ** rng.integers(-6, 4, len(names))
    w[:zeros] = 0.0
    return LinearModel.from_weights(w, names)


def random_rows(model, n=60, seed=1):
    """Values for the weighted features, a third of them zero."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, model.nnz)) * (rng.random((n, model.nnz)) < 0.67)


def assert_same_order(model, scores, X):
    """Every pair is ordered as the scorer orders it, but for ties within float32 rounding."""
    expected = Scorer(model.compact()).score(X)
    scale = np.abs(X) @ np.abs(model.values)
    gap = expected[:, None] - expected[None, :]
    slack = 1e-5 * (scale[:, None] + scale[None, :])
    found = np.asarray(scores, dtype=np.float64)[:, None] - np.asarray(scores)[None, :]
    clear = np.abs(gap) > slack
    assert clear.mean() > 0.5
    assert (np.sign(gap)[clear] == np.sign(found)[clear]).all()
    np.testing.assert_allclose(scores, expected, atol=float(slack.max()))


def read(target, model, result, X, tmp_path):
    names = readers.column_names(model)
    if target in ("elasticsearch", "opensearch"):
        return readers.read_ltr(result, names, X)
    if target == "solr":
        return readers.read_solr(result, names, X)
    if target == "vespa":
        form = readers.read_vespa_tensor if result.extra_files else readers.read_vespa_expression
        return form(result, names, X)
    if target == "xgboost":
        return readers.read_xgboost(result, names, X, model.indices)
    if target == "json":
        return readers.read_json(result, names, X)
    if target == "onnx":
        return readers.read_onnx(result, names, X, model.n_features, model.indices)
    if target == "python":
        return readers.read_python(result, names, X, tmp_path)
    if target == "sql":
        return run_sqlite(result, names, X)
    pytest.fail(f"no reader checks the export {target!r}: add one to export_readers.py")


def run_sqlite(result, names, X):
    create, insert, query = readers.sql_script(result, names, X)
    with sqlite3.connect(":memory:") as database:
        database.execute(create)
        database.execute(insert)
        return ordered(database.execute(query).fetchall(), X)


def ordered(rows, X):
    """Scores in row order; the engine's own order must agree with them."""
    scores = np.full(len(X), np.nan)
    for i, score in rows:
        scores[i] = score
    values = [score for _, score in rows]
    assert values == sorted(values, reverse=True)
    return scores


def test_the_targets_are_those_we_promise():
    assert set(targets()) >= {
        "elasticsearch", "opensearch", "solr", "vespa", "onnx", "sql", "json", "python",
    }  # fmt: skip


@pytest.mark.parametrize("target", targets())
def test_plain_names_rank_as_the_scorer_does(target, tmp_path):
    model = make_model(VESPA_NAMES, zeros=1)
    X = random_rows(model)
    assert_same_order(model, read(target, model, export(model, target), X, tmp_path), X)


@pytest.mark.parametrize("target", targets())
def test_hostile_names_are_escaped(target, tmp_path):
    model = make_model(HOSTILE)
    X = random_rows(model)
    result = export(model, target, ExportOptions(form="tensor" if target == "vespa" else None))
    assert_same_order(model, read(target, model, result, X, tmp_path), X)


@pytest.mark.parametrize("target", targets())
def test_a_model_of_two_thousand_weights(target, tmp_path):
    model = make_model([f"f{j}" for j in range(1900)])
    X = random_rows(model, n=12)
    assert_same_order(model, read(target, model, export(model, target), X, tmp_path), X)


@pytest.mark.parametrize("target", targets())
def test_per_list_scaling_is_refused_where_it_cannot_be_expressed(target, tmp_path):
    model = LinearModel.from_weights([1.0, -2.0], ["a", "b"], transforms=(ListRange(),))
    if target == "json":
        assert b'"list_range"' in export(model, target).content
    elif target in ("python", "sql"):
        X = np.random.default_rng(0).normal(size=(30, 2))
        scores = read(target, model, export(model, target), X, tmp_path)
        np.testing.assert_allclose(scores, Scorer(model).score(X), atol=1e-12)
    else:
        with pytest.raises(ExportError, match=r"within each list.*scale='standard'"):
            export(model, target)


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch", "solr", "vespa", "sql"])
def test_features_without_names_are_refused(target):
    model = LinearModel.from_weights([1.0, 2.0])
    with pytest.raises(ExportError, match="--feature-names"):
        export(model, target)
    assert export(model.renamed(["x", "y"]), target).content


@pytest.mark.parametrize("target", targets())
def test_models_that_rank_nothing_and_bundles_are_refused(target):
    with pytest.raises(ExportError, match="zero"):
        export(LinearModel.from_weights([0.0], ["a"]), target)
    with pytest.raises(ExportError, match="bundle"):
        export(ModelBundle.from_weights({"t": [1.0]}), target)
    for name in ("", "1a", "a b", "a}", "x" * 65, "a\n"):
        with pytest.raises(ParameterError) as caught:
            export(LinearModel.from_weights([1.0], ["a"]), target, ExportOptions(name=name))
        assert caught.value.parameter == "name"
    with pytest.raises(ParameterError) as caught:
        export(LinearModel.from_weights([1.0], ["a"]), "mainframe")
    assert caught.value.parameter == "to"


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch", "solr", "vespa"])
def test_weights_are_float32_and_those_that_vanish_are_left_out(target):
    model = LinearModel.from_weights([0.1, 1e-60, 2.0], ["x", "y", "z"])
    text = export(model, target).content.decode()
    assert "0.1" in text
    assert "0.10000000149" not in text
    assert not re.search(r"\by\b", text)
    with pytest.raises(ExportError, match="overflows"):
        export(LinearModel.from_weights([1e60], ["x"]), target)


def test_names_in_engines_carry_the_digest():
    model = make_model(["a", "b", "c"])
    for target in ("elasticsearch", "solr", "vespa", "sql"):
        text = export(model, target, ExportOptions(name="shop")).content.decode()
        assert f"shop_{model.digest[:12]}" in text


def test_vespa_refuses_names_that_would_break_the_profile():
    for name in ("a b", "x) } evil {", "1x", "a\nb", "f(", 'f("a"b")'):
        with pytest.raises(ExportError, match="--form tensor"):
            export(LinearModel.from_weights([1.0], [name]), "vespa")
    with pytest.raises(ParameterError) as caught:
        export(LinearModel.from_weights([1.0], ["a"]), "vespa", ExportOptions(form="x"))
    assert caught.value.parameter == "form"


def test_a_profile_without_terms_scores_zero():
    model = LinearModel.from_weights([1e-60], ["a"])
    assert "            0\n" in export(model, "vespa").content.decode()


def test_weights_that_overflow_are_refused_where_they_do(monkeypatch):
    model = LinearModel.from_weights([1e60, 1.0], ["a", "b"])
    for target in ("onnx", "xgboost"):
        with pytest.raises(ExportError, match="overflows float32"):
            export(model, target)
    assert export(model, "onnx", ExportOptions(dtype="float64")).content
    assert _MAX_BYTES < 2**31  # where a protobuf message ends
    monkeypatch.setattr("rankine.export.onnx._MAX_BYTES", 8)
    small = LinearModel.from_weights([1.0, 2.0])
    assert export(small, "onnx").content
    with pytest.raises(ExportError, match=r"2 GiB.*2 features"):
        export(small, "onnx", ExportOptions(dtype="float64"))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"rankine\[onnx\]"):
        export(small, "onnx")


def test_xgboost_is_told_names_it_does_not_reserve():
    def learner(names):
        model = LinearModel.from_weights([1.0, 2.0], names, metric="map")
        return json.loads(export(model, "xgboost").content)["learner"]

    assert learner(["a", "b"])["feature_names"] == ["a", "b"]
    assert learner(["a", "b[0]"])["feature_names"] == learner(None)["feature_names"] == []
    assert learner(None)["learner_model_param"]["num_feature"] == "2"
    document = json.loads(export(LinearModel.from_weights([1.0]), "xgboost").content)
    assert document["version"] == [2, 0, 0]
    assert document["learner"]["gradient_booster"]["model"]["boosted_rounds"] == 1


def test_a_model_in_onnx_names_its_metric_and_its_inputs():
    import onnx

    for metric, names in (("map", ["a"]), (None, None)):
        model = LinearModel.from_weights([1.0], names, metric=metric)
        held = onnx.load_from_string(export(model, "onnx").content)
        props = {item.key: item.value for item in held.metadata_props}
        assert props["rankine_metric"] == (metric or "")
        assert ("feature_names" in props) == (names is not None)
        assert [item.name for item in held.graph.output] == ["variable"]
        assert [d.dim_value for d in held.graph.output[0].type.tensor_type.shape.dim] == [0, 1]
        assert {(one.domain, one.version) for one in held.opset_import} == {
            ("", 17), ("ai.onnx.ml", 3),
        }  # fmt: skip


def test_documents_are_laid_out_for_people():
    model = make_model(["a", "b", "c"])
    for target, indent, form in (("json", 1, None), ("solr", 2, None), ("vespa", 1, "tensor")):
        content = export(model, target, ExportOptions(form=form)).content.decode()
        assert content == json.dumps(json.loads(content), indent=indent) + "\n"


def test_solr_reads_the_store_that_is_named():
    model = LinearModel.from_weights([1.0], ["a"])
    assert json.loads(export(model, "solr").content)["store"] == "_DEFAULT_"
    for options in (ExportOptions(store="x"), ExportOptions(feature_set="x", store="y")):
        made = export(model, "solr", options)
        assert json.loads(made.content)["store"] == "x"
        assert bool(made.extra_files) == (options.feature_set is not None)
    (feature,) = json.loads(made.extra_files[".featureset.json"])
    assert feature["params"] == {"q": "{!func}0"}


def test_sql_refuses_names_that_a_database_would_cut_or_confuse():
    assert export(LinearModel.from_weights([1.0], ["x" * 63]), "sql").content
    for name in ("x" * 64, "é" * 32, "", "a\x00b"):
        with pytest.raises(ExportError):
            export(LinearModel.from_weights([1.0], [name]), "sql")
    with pytest.raises(ExportError, match="only in case"):
        export(LinearModel.from_weights([1.0, 2.0], ["Age", "age"]), "sql")


def test_onnx_in_float64_is_exact_to_rounding_and_carries_names(tmp_path):
    import onnx

    model = make_model(["a", "b", "c", "d"])
    result = export(model, "onnx", ExportOptions(dtype="float64"))
    X = random_rows(model)
    found = readers.read_onnx(result, None, X, model.n_features, model.indices)
    np.testing.assert_allclose(found, Scorer(model.compact()).score(X), rtol=1e-12, atol=1e-12)
    held = {item.key: item.value for item in onnx.load_from_string(result.content).metadata_props}
    assert held["feature_names"] == '["a", "b", "c", "d"]'
    assert held["rankine_digest"] == model.digest
    with pytest.raises(ParameterError) as caught:
        export(model, "onnx", ExportOptions(dtype="int8"))
    assert caught.value.parameter == "dtype"


def test_duckdb_ranks_as_the_scorer_does():
    duckdb = pytest.importorskip("duckdb")
    for names in (HOSTILE, [f"f{j}" for j in range(300)]):
        model = make_model(names)
        X = random_rows(model, n=20)
        create, insert, query = readers.sql_script(export(model, "sql"), names[2:], X)
        with duckdb.connect(":memory:") as database:
            database.execute(create)
            database.execute(insert)
            assert_same_order(model, ordered(database.execute(query).fetchall(), X), X)


@pytest.fixture(scope="module")
def postgres():
    """A private PostgreSQL server on a socket in a folder of its own."""
    found = shutil.which("postgres")
    if found is None:
        pytest.skip("no PostgreSQL server is installed")
    programs = Path(os.path.realpath(found)).parent
    import tempfile

    with tempfile.TemporaryDirectory(prefix="rk", dir="/tmp") as folder:
        account = {}
        if os.geteuid() == 0:
            account = {"user": "nobody"}
            shutil.chown(folder, "nobody")
        data = f"{folder}/d"
        quiet = {"check": True, "capture_output": True, "cwd": folder, **account}
        subprocess.run(
            [programs / "initdb", "-D", data, "-A", "trust", "-N", "-E", "UTF8",
             "--locale=C", "-U", "tester"],
            **quiet,
        )  # fmt: skip
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=",
             "-c", "fsync=off", "-c", "shared_buffers=16MB"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **account,
        )  # fmt: skip
        try:
            for _ in range(100):
                with socket.socket(socket.AF_UNIX) as probe:
                    if probe.connect_ex(f"{folder}/.s.PGSQL.5432") == 0:
                        break
                time.sleep(0.1)
            yield [str(programs / "psql"), "-X", "-q", "-A", "-t", "-h", folder, "-U", "tester",
                   "-d", "postgres", "-v", "ON_ERROR_STOP=1"]  # fmt: skip
        finally:
            server.terminate()
            server.wait(30)


def table_model():
    """A curve, categories and a grid; no value is 0."""
    bins = Bins(((-1.0, 0.5, 1.0), (1.0, 2.0)), (1,), names=("price", "brand"))
    grids = Grids((GridAxis(0, (0, 0, 1, 1, 2)), GridAxis(1, (0, 1, 1, 2))), ((0, 1),))
    weights = np.random.default_rng(0).normal(size=5 + 4 + 9)
    return LinearModel.from_weights(weights, transforms=(bins, grids))


def test_postgresql_ranks_as_the_scorer_does(postgres):
    for model in (make_model(HOSTILE), make_model([f"f{j}" for j in range(300)]), table_model()):
        tables = model.bins is not None
        names = list(model.column_names) if tables else readers.column_names(model)
        X = random_rows(model, n=20)[:, : len(names)]
        if tables:
            X[:, 1] = np.arange(20) % 4
        create, insert, query = readers.sql_script(export(model, "sql"), names, X)
        script = f"SET extra_float_digits = 3;DROP TABLE IF EXISTS t;{create};{insert};{query};"
        for _ in range(20):
            done = subprocess.run(
                postgres, input=script, capture_output=True, text=True, timeout=60, check=False
            )
            if "starting up" not in done.stderr:
                break
            time.sleep(0.2)
        assert done.returncode == 0, done.stderr
        rows = [line.split("|") for line in done.stdout.split()]
        found = ordered([(int(i), float(score)) for i, score in rows], X)
        if tables:  # the script writes NULL for 0
            expected = Scorer(model).score(np.where(X == 0, np.nan, X))
            np.testing.assert_allclose(found, expected, atol=1e-12)
        else:
            assert_same_order(model, found, X)
