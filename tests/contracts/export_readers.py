"""Readers of exports: each parses what an engine would be given and scores rows as it would."""

import json
import re
import subprocess
import sys

import numpy as np


def column_names(model):
    return list(model.weight_names)


def float32_sum(weights, names, X):
    """Score in float32 throughout, term by term, as the engines do."""
    total = np.zeros(len(X), dtype=np.float32)
    for name, weight in weights.items():
        total += np.float32(weight) * X[:, names.index(name)].astype(np.float32)
    return total


def read_ltr(export, names, X):
    body = json.loads(export.content)
    assert set(body) == {"model"}
    assert set(body["model"]) == {"name", "model"}
    inner = body["model"]["model"]
    assert set(inner) == {"type", "definition"}
    assert inner["type"] == "model/linear"
    assert isinstance(inner["definition"], str)
    weights = json.loads(inner["definition"])
    assert all(isinstance(value, (int, float)) and value != 0 for value in weights.values())
    return float32_sum(weights, names, X)


def read_solr(export, names, X):
    body = json.loads(export.content)
    assert set(body) == {"store", "name", "class", "features", "params"}
    assert body["class"] == "org.apache.solr.ltr.model.LinearModel"
    weights = body["params"]["weights"]
    assert [feature["name"] for feature in body["features"]] == list(weights)
    assert all(set(feature) == {"name"} for feature in body["features"])
    return float32_sum(weights, names, X)


def read_vespa_expression(export, names, X):
    text = export.content.decode()
    assert text.count("{") == text.count("}")
    match = re.fullmatch(
        r"rank-profile \w+ inherits default \{\s*first-phase \{\s*expression \{(.*)\}\s*\}\s*\}\s*",
        text,
        re.DOTALL,
    )
    terms = re.findall(r"([+-]?)\s*([0-9.e+-]+) \* (\S+)", match[1])
    weights = {name: float(sign + size) for sign, size, name in terms}
    return float32_sum(weights, names, X)


def read_vespa_tensor(export, names, X):
    document = json.loads(export.content)
    assert set(document) == {"cells"}
    profile = export.extra_files[".profile"].decode()
    assert "tensor(f{})" in profile
    assert profile.count("{") == profile.count("}")
    return float32_sum(document["cells"], names, X)


def read_xgboost(export, names, X, indices):
    booster = json.loads(export.content)["learner"]["gradient_booster"]
    assert booster["name"] == "gblinear"
    weights = np.array(booster["model"]["weights"], dtype=np.float32)
    assert weights[-1] == 0.0, "no intercept"
    return float32_sum(dict(zip(names, weights[indices], strict=True)), names, X)


def read_json(export, names, X):
    document = json.loads(export.content)
    assert (document["format"], document["version"]) == ("rankine-linear", 1)
    assert document["transforms"] == []
    keys = document["names"] or [str(j + document["base"]) for j in document["indices"]]
    return X[:, [names.index(key) for key in keys]] @ np.array(document["weights"])


def read_onnx(export, names, X, n_features, indices):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        export.content, options, providers=["CPUExecutionProvider"]
    )
    assert [i.name for i in session.get_inputs()] == ["X"]
    assert session.get_inputs()[0].shape[1] == n_features
    kind = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    wide = np.zeros((len(X), n_features), dtype=kind)
    wide[:, indices] = X
    return session.run(["variable"], {"X": wide})[0][:, 0]


def read_python(export, names, X, tmp_path):
    """Run the file by itself, in isolated mode, with the rows on stdin."""
    path = tmp_path / "exported_model.py"
    path.write_bytes(export.content)
    rows = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    program = (
        "import json, sys, importlib.util as u; s = u.spec_from_file_location('m', sys.argv[1]); "
        "m = u.module_from_spec(s); s.loader.exec_module(m); rows = json.load(sys.stdin); "
        "print(json.dumps([m.scores(rows), m.rank(rows)]))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(path)],
        input=json.dumps(rows),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    scores, order = json.loads(done.stdout)
    assert order == sorted(range(len(scores)), key=lambda i: -scores[i])
    return np.array(scores)


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def sql_script(export, names, X):
    """A table of the rows, its creation, and the query that ranks it."""
    columns = ", ".join(f"{quoted(name)} double precision" for name in names)
    values = ", ".join(
        "(" + ", ".join([str(i), *("NULL" if x == 0 else repr(x) for x in row)]) + ")"
        for i, row in enumerate(X.tolist())
    )
    expression = export.content.decode()
    return (
        f"CREATE TABLE t (id integer, {columns})",
        f"INSERT INTO t VALUES {values}",  # noqa: S608 - our own rows
        f"SELECT id, \n{expression} AS score FROM t ORDER BY \n{expression} DESC, id",  # noqa: S608
    )


def read_trees(trees, ask):
    """Sums of trees, each a function ``ask(node) -> leaf value or (column, cut, left, right)``."""

    def walk(node, row):
        found = ask(node)
        while isinstance(found, tuple):
            name, goes_left, left, right = found
            found = ask(left if goes_left(row[name]) else right)
        return found

    return lambda rows: np.array([sum(walk(tree, row) for tree in trees) for row in rows])


def below(cut):
    return lambda x: x is None or np.float32(x) < np.float32(cut)


def at_most(cut):
    return lambda x: x is None or np.float32(x) <= np.float32(cut)


def ltr(content):
    body = json.loads(content)["model"]["model"]
    assert body["type"] == "model/xgboost+json"

    def ask(node):
        if "leaf" in node:
            return node["leaf"]
        left, right = node["children"]
        assert [node["yes"], node["no"], node["missing"]] == [
            left["nodeid"], right["nodeid"], left["nodeid"],
        ]  # fmt: skip
        return node["split"], below(node["split_condition"]), left, right

    return read_trees(json.loads(body["definition"]), ask)


def solr(content):
    body = json.loads(content)
    assert body["class"].endswith("MultipleAdditiveTreesModel")

    def ask(node):
        if "value" in node:
            return float(node["value"])
        assert node["missing"] == "left"
        return node["feature"], at_most(float(node["threshold"])), node["left"], node["right"]

    return read_trees([tree["root"] for tree in body["params"]["trees"]], ask)


def vespa(content):
    text = content.decode().split("expression {")[1].split("\n        }")[0]
    python = re.sub(r"\s+", " ", text).replace("if (", "choose(").replace("attribute(", "(")

    def choose(asks, yes, no):
        return yes if asks else no

    def score(row):
        names = {"choose": choose, "isNan": np.isnan}
        for name, value in row.items():
            names[name] = np.float32(np.nan if value is None else value)
        return float(eval(python, names))  # noqa: S307 - the expression under test

    return lambda rows: np.array([score(row) for row in rows])


def xgboost(content):
    learner = json.loads(content)["learner"]
    names = learner["feature_names"]

    def ask(at):
        tree, k = at
        cut = tree["split_conditions"][k]
        if tree["left_children"][k] < 0:
            return cut
        assert tree["default_left"][k] == 1
        children = ((tree, tree[f"{side}_children"][k]) for side in ("left", "right"))
        return names[tree["split_indices"][k]], below(cut), *children

    return read_trees([(t, 0) for t in learner["gradient_booster"]["model"]["trees"]], ask)


#: Engine -> a function of an export of tables, which gives a function of rows by name.
TREES = {
    "elasticsearch": ltr, "opensearch": ltr, "solr": solr, "vespa": vespa, "xgboost": xgboost,
}  # fmt: skip
