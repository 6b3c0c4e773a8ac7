"""Use hostile model files after loading them, also the parts that are read only when needed.

A file changed with knowledge of the format is refused when it is loaded, or everything that can be
done with the model works or raises a typed error, in bounded time and memory: scoring, explaining,
serving with its metrics, comparing a log with the training, continuing the training, exporting.
"""

from __future__ import annotations

import base64
import json
import random
import time
import warnings
import zlib

import msgspec
import numpy as np

import rankine
from rankine.core.errors import ModelError, RankineError
from rankine.core.specs import (
    Binned,
    Bins,
    GridAxis,
    Grids,
    ListRange,
    LogColumns,
    MissingValues,
    OneHot,
    RunScores,
)
from rankine.data.list_ids import pack_ids
from rankine.export.registry import export, targets
from rankine.logs.schema import schema_of
from rankine.model import LinearModel, ModelBundle
from rankine.model.show import bundle_summary, explanation_text, summary, summary_text
from rankine.model.store import decode_any
from rankine.reporting.origin import origin
from rankine.reporting.training import training, training_section
from rankine.scoring import Scorer
from rankine.serve.app import Service
from rankine.serve.connection import ConnectionPool, Request
from rankine.serve.limits import Limits
from rankine.serve.metrics import Metrics
from rankine.serve.registry import Registry, ServedModel
from rankine.serve.security import AccessPolicy
from rankine.transforms.drift import Drift, DriftMonitor, summarise, summary_of, value_hashers
from rankine.transforms.value_sets import ValueSet
from reliability.harness.outcome import Job, Outcome, peak_mb
from reliability.trials.models import VALUES, WORDS, build, parts

#: Largest growth of memory by one model, in MB: the tables may have MAX_CELLS entries of 8 bytes.
GROWTH_MB = 400.0
#: Time limit in seconds for everything that is done with one model.
PATIENCE = 20.0
#: Models with more columns are not given dense rows or trained on.
MAX_COLUMNS = 64
LISTS, LABELS = np.repeat([0, 1, 2], 4), np.tile([0, 1, 2, 0], 3)
DATA = rankine.Dataset.from_arrays(np.ones((12, 1)), LABELS, LISTS)
ELASTIC = rankine.ElasticRanker(n_passes=1, random_state=0)


def _bomb() -> str:
    """Return text of 600 kB that becomes 450 MB when it is decompressed."""
    compressor, zeros = zlib.compressobj(9), bytes(2**20)
    packed = b"".join(compressor.compress(zeros) for _ in range(450)) + compressor.flush()
    return "20:" + base64.b64encode(packed).decode("ascii")


BOMB = _bomb()
HEADERS = {b"host": b"localhost", b"content-type": b"application/json"}


def good_files() -> list[bytes]:
    """Return small models with everything that a file may contain."""
    rng = np.random.default_rng(5)
    shops = OneHot("shop", ("north", "south"))
    cuts = Binned("age", (1.0, 2.0))
    columns = LogColumns(
        ("price",), (shops,), ("brand",), (("shop", "brand"),), 4, ("id",), (cuts,)
    )
    tables = LogColumns(("price", "stock"), (shops,), tables=True)
    values = {
        "price": rng.normal(size=30), "stock": rng.normal(size=30), "age": rng.normal(size=30),
        "shop": [("north", "south", None)[k % 3] for k in range(30)],
        "brand": [f"brand {k % 7}" for k in range(30)],
    }  # fmt: skip

    schema = {"query": "id", "label": "y", "numeric": ["price"], "categorical": ["brand"],
              "one_hot": ["shop"], "binned": ["age"], "hash_bits": 4}  # fmt: skip

    def log(spec):
        sets = {hasher.column: ValueSet(hasher.hash_distinct(values))
                for hasher in value_hashers(spec)}  # fmt: skip
        summary = summarise(spec, values, rng.normal(size=30), 3, sets)
        ids = pack_ids(np.array(["a", "b", "c"]))
        return {"log": json.loads(msgspec.json.encode(summary)), "lists": ids}

    bins = Bins(((0.0, 1.0), (), (0.0, 1.0)), unordered=(2,), linear=(1,), names=tables.columns)
    grids = Grids((GridAxis(0, (0, 0, 1, 2)), GridAxis(2, (0, 1, 2, 3))), ((0, 1),))
    certificate = {"smooth": 0.5, "pair_smooth": 1.0, "anchor": 1e-3, "rounds": 1, "gap": 1e-9}
    trace = {"iteration": [1, 2], "objective": [3.0, 2.0], "gap": [1.0, 0.5]}
    run = {"n_iter": 4, "certificate": certificate, "trace": trace, "stop_reason": "converged"}
    n_cells = sum(bins.n_cells) + sum(grids.n_cells) + 1
    models = [
        LinearModel.from_weights(
            rng.normal(size=columns.n_features), transforms=(columns, ListRange()),
            provenance={**run, **log(columns)},
            parameters={"ranker": "elastic", "l1": 0.1, "log": schema},
        ),
        LinearModel.from_weights(
            rng.normal(size=n_cells), transforms=(tables, bins, grids),
            provenance={**run, **log(tables)}, parameters={"ranker": "additive"},
        ),
        LinearModel.from_weights(
            rng.normal(size=10), transforms=(Bins(((0.5,), (1.0, 2.0, 3.0), ())),),
            provenance=run, parameters={"ranker": "additive"},
        ),
        LinearModel.from_weights(
            [1.0, 0.0, 2.0], ["a", "b", "c"],
            transforms=(MissingValues("indicator", (0, 1), (0.5, 0.25)), ListRange()),
            provenance=run, parameters={"ranker": "ranksvm"},
        ),
        LinearModel.from_weights(
            [0.5, 0.25], ["bm25", "dense"], transforms=(RunScores(),),
            parameters={"rrf_weights": [1.0, 2.0], "ranker": "fusion"},
        ),
        ModelBundle.from_weights(
            {"earn": [1.0, 0.0], "grain": [0.0, 2.0]}, ["a", "b"], provenance=run
        ),
    ]  # fmt: skip
    models.append(ELASTIC.fit(rng.normal(size=(12, 3)), LABELS, qid=LISTS).to_model())
    return [model.to_bytes() for model in models]


def change(rng: random.Random, data: bytes) -> bytes:
    """Change one to three values anywhere in the document, the header or the tensors."""
    header, document, payload = parts(data)
    payload = bytearray(payload)
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.85:
            edit(
                rng,
                document[
                    rng.choice(
                        ["transforms", "transforms", "provenance", "provenance", "parameters"]
                    )
                ],
            )
        elif rng.random() < 0.5:
            document["n_features"] = rng.choice([0, 1, 2**22, 2**24, 2**31 - 1])
        elif len(payload) >= 8:
            word = 8 * rng.randrange(len(payload) // 8)
            payload[word : word + 8] = rng.choice(WORDS).to_bytes(8, "little", signed=True)
    try:
        return build(header, document, bytes(payload))
    except ValueError:  # an edit made a value hold itself, which has no JSON
        return data


NUMBERS = [-1, 0, 1, 2, 3, 7, 15, 16, 17, 255, 256, 2**20, 2**26, 2**31, 2**53, 2**62, 2**63,
           10**30, -0.5, 0.5, 1.5, 1e-300, 1e300]  # fmt: skip
TEXTS = ["", "price", "shop", "brand", "mean", "zero", "query_min", "x" * 300, "eJwDAAAAAAE=",
         "eJztwQEBAAAAgJD+r+4ICgAAAAAAAAAAAAAAGHQAAQ==", "\x00", "<b>"]  # fmt: skip


def edit(rng: random.Random, node) -> None:
    """Change, remove, repeat or add one value in nested lists and objects."""
    for _ in range(rng.randint(0, 6)):
        inner = list(node.values()) if isinstance(node, dict) else list(node)
        inner = [value for value in inner if isinstance(value, (dict, list)) and value]
        if not inner:
            break
        node = rng.choice(inner)
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    if not keys:
        return
    key, action = rng.choice(keys), rng.randrange(8)
    if action == 0:
        del node[key]
    elif action == 1 and isinstance(node, list):
        node.extend(node[: rng.choice([1, 2, 300])])
    elif action == 2 and isinstance(node, dict):
        node[rng.choice(TEXTS)] = node[key]
    elif action == 3:
        node[key] = rng.choice(VALUES)
    elif isinstance(node[key], str) and ":" in node[key] and rng.random() < 0.3:
        at = rng.randrange(len(node[key]))
        node[key] = node[key][:at] + rng.choice("A0=:z") + node[key][at + 1 :]
    elif isinstance(node[key], str):
        node[key] = rng.choice(TEXTS)
    else:
        node[key] = rng.choice(NUMBERS)
    if isinstance(node, dict) and isinstance(node.get(key), str) and action == 7:
        node[key] = BOMB


def rows_of(model: LinearModel) -> list[dict]:
    """Return four rows in the form that the model reads."""
    names = (model.column_names or model.weight_names)[:8]
    raw = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    if raw is None:
        return [{name: float(i + j) for j, name in enumerate(names)} for i in range(4)]
    return [
        {name: (i if name in raw.numeric else "north") for name in raw.columns} for i in range(4)
    ]


def uses(model):
    """List what can be done with a model: a name and a function without arguments."""
    single = model
    if isinstance(model, ModelBundle):
        yield "summary", lambda: summary_text(bundle_summary(model))
        single = next(iter(model.values()), None)
    else:
        yield "summary", lambda: (summary_text(summary(model)), model._repr_html_())
        yield "origin", lambda: (origin(model, DATA), training_section(training(model)))
    yield "serve", lambda: serve(model)
    if single is None:
        return
    yield "score", lambda: score(single)
    yield "watch", lambda: watch(single)
    yield "schema", lambda: schema_of(single)
    yield "train", lambda: train(single)
    for target in targets():
        yield f"export to {target}", lambda target=target: export(single, target)


def score(model: LinearModel) -> None:
    """Score and explain rows of every form."""
    scorer = Scorer(model, unknown="zero")
    scorer.self_test()
    forms = [rows_of(model)]
    if model.n_columns <= MAX_COLUMNS:
        forms.append(np.arange(3.0 * model.n_columns).reshape(3, -1))
    for rows in forms:
        try:
            scorer.rank(rows)
            explanation_text(scorer.explainer(rows).pair(0, 1))
        except RankineError:
            continue


def watch(model: LinearModel) -> None:
    """Compare a small log with the training log."""
    summary_of_log = summary_of(model)
    spec = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    if summary_of_log is not None and spec is not None:
        monitor = DriftMonitor(summary_of_log, spec)
        rows = rows_of(model)
        columns = {name: [row[name] for row in rows] for name in spec.columns}
        monitor.add(columns, len(rows), np.arange(4.0))
        Drift.from_monitor(monitor).to_dict()


def train(model: LinearModel) -> None:
    """Continue the training of the model, from its weights or tables."""
    if not 0 < model.n_columns <= MAX_COLUMNS:
        return
    X = np.arange(12.0 * model.n_columns).reshape(12, -1) % 7
    ranker = ELASTIC
    if model.bins is not None:
        ranker = rankine.AdditiveRanker(max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker.fit(X, LABELS, qid=LISTS, coef_init=model)


def serve(model) -> None:
    """Test and serve a model; no request may fail with status 500."""
    served = ServedModel("m", model)
    name, topic = "m", None
    if isinstance(model, ModelBundle):
        if len(model) == 0:
            return
        topic = next(iter(model))
        name = f"m/{topic}"
    scorer = served.scorer(topic)
    scorer.self_test()
    registry = Registry()
    registry.put(served)
    service = Service(
        registry, ConnectionPool(Limits(), Metrics(), None), AccessPolicy("127.0.0.1")
    )
    rows = rows_of(scorer.model)
    form = "raw" if scorer._log_columns is not None else "features"
    for fields in ({}, {"explain": True, "k": 2}, {"unknown": "zero"}):
        items = [{form: row} for row in rows]
        body = json.dumps({"model": name, "items": items, **fields}).encode()
        _reply(service, Request(b"POST", b"/v1/rank", HEADERS, body, close=False))
    for path in (b"/metrics", b"/v1/models", b"/v1/models/" + name.encode()):
        _reply(service, Request(b"GET", path, HEADERS, b"", close=False))


def _reply(service: Service, request: Request) -> None:
    reply = service.handle(request, on_event_loop=False)
    if reply is None or reply.status >= 500:
        raise RuntimeError(f"{request.target!r}: {reply}")


def trial(job: Job) -> Outcome:
    """Load changed models, and use those that are accepted."""
    outcome = Outcome()
    files = good_files()
    for data in files:
        for name, use in uses(decode_any(data)):
            _use(outcome, name, use, f"unchanged: {data!r}")
    for case, rng in job.cases(outcome):
        data = change(rng, rng.choice(files))
        message = f"{job.name(case)}: {data[:4000]!r}"
        before, began = peak_mb(), time.perf_counter()
        try:
            model = decode_any(data)
        except ModelError:
            outcome.counts["refused"] += 1
        except Exception as error:
            outcome.fail("crashes", f"{message}: {error!r}")
        else:
            outcome.counts["valid"] += 1
            for name, use in uses(model):
                _use(outcome, name, use, message)
        outcome.require(time.perf_counter() - began < PATIENCE, "hangs", message)
        grown = peak_mb() - before
        outcome.keep_maximum("memory_growth_mb", grown)
        outcome.require(grown < GROWTH_MB, "crashes", f"{message}: {grown:.0f} MB")
    return outcome


def _use(outcome: Outcome, name: str, use, message: str) -> None:
    try:
        use()
        outcome.counts["used"] += 1
    except RankineError:
        outcome.counts["refused in use"] += 1
    except Exception as error:
        outcome.fail("crashes", f"{name} of {message}: {error!r}")
