"""History features of a raw log: every pass, ranker and split computes the same columns."""

from __future__ import annotations

import numpy as np
import pytest

import rankine
from error_checks import raises_at, raises_for
from rankine.core.errors import ParameterError, QueryOrderError, SchemaError
from rankine.core.specs import History
from rankine.history.state import HistoryState, load_state, save_state
from rankine.logs.schema import LogSchema, read_schema
from rankine.transforms.apply import score_dataset
from reference.history import DECLARATIONS, brute_force, history_of, random_log

NAMES = tuple(DECLARATIONS)
PROPENSITY = (1.0, 0.5, 0.25)

# Small logs have columns without any variation.
pytestmark = pytest.mark.filterwarnings("ignore:constant within lists")


def _log(seed=0, n_lists=60):
    return random_log(np.random.default_rng(seed), n_lists=n_lists)


def _scan(frame, history=None, **options):
    fields = {
        "query": "session", "label": "clicked", "numeric": ["weight"], "time": "ts",
        "outcome_time": "outcome_ts", "position": "position", "forget": 150,
        "history": DECLARATIONS if history is None else history, "propensity": PROPENSITY,
    }  # fmt: skip
    if "like" in options:
        fields = {}
    return rankine.logs.scan(frame, **(fields | options))


def _columns(data, names=NAMES):
    return np.column_stack([data.columns[name] for name in names])


@pytest.mark.parametrize("form", ["frame", "parquet", "csv", "jsonl"])
def test_a_log_of_any_format_gives_the_features_of_the_definition(form, tmp_path):
    frame = _log()
    # Numbers that are keys may be whole floats, as pandas has where some are missing.
    log, file = frame, tmp_path / f"log.{form}"
    if form != "frame":
        log = file
    if form == "parquet":
        frame.to_parquet(file)
    elif form == "csv":
        # Categories are whole numbers in CSV, since 1.0 may be a text.
        frame.astype({"brand": "Int64"}).to_csv(file, index=False)
    elif form == "jsonl":
        frame.to_json(file, orient="records", lines=True)
    data = _scan(log).load()
    np.testing.assert_allclose(
        _columns(data), brute_force(frame, history_of()), rtol=1e-12, atol=1e-12
    )


def test_blocks_and_files_do_not_change_a_bit(tmp_path):
    frame = _log()
    expected = _columns(_scan(frame).load())
    small = [_columns(block) for block in _scan(frame, block_rows=7)]
    np.testing.assert_array_equal(np.concatenate(small), expected)
    middle = int(np.flatnonzero(frame.session != frame.session.shift())[30])
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    frame[:middle].to_parquet(files[0])
    frame[middle:].to_parquet(files[1])
    np.testing.assert_array_equal(_columns(_scan(files).load()), expected)


def test_a_model_holds_the_definitions_and_reads_its_log_again(tmp_path):
    frame = _log(n_lists=200)
    parts = _scan(frame).split("time:0.6,0.2,0.2")
    model = rankine.RankSVM(missing="zero").fit(parts["train"]).to_model()
    path = tmp_path / "m.rankine"
    model.save(path)
    model = rankine.LinearModel.load(path)
    (spec,) = (spec for spec in model.transforms if isinstance(spec, History))
    assert spec.names == tuple(sorted(NAMES))
    assert spec.propensity == PROPENSITY
    assert set(spec.key_columns) == {"user", "brand", "item"}
    # The held-out part continues the history of the training part without a gap.
    test = parts["test"].load()
    again = _scan(frame, like=model).split("time:0.6,0.2,0.2")["test"].load()
    np.testing.assert_array_equal(_columns(test), _columns(again))
    np.testing.assert_array_equal(score_dataset(model, test), score_dataset(model, again))


def test_a_log_continues_another_one_or_a_state(tmp_path):
    frame = _log(n_lists=100)
    expected = _columns(_scan(frame).load())
    middle = int(np.flatnonzero(frame.session != frame.session.shift())[50])
    train, later = frame[:middle], frame[middle:].reset_index(drop=True)
    if later.ts.min() == train.ts.max():
        pytest.skip("the parts share an instant")
    first = _scan(train)
    model = rankine.RankSVM(missing="zero").fit(first).to_model()
    np.testing.assert_array_equal(_columns(_scan(later, like=first).load()), expected[middle:])
    np.testing.assert_array_equal(
        _columns(_scan(later, like=first.load()).load()), expected[middle:]
    )
    save_state(first.history_state(), tmp_path)
    for state in (tmp_path, load_state(tmp_path)):
        log = _scan(later, like=model, state=state)
        np.testing.assert_array_equal(_columns(log.load()), expected[middle:])
    with pytest.raises(ParameterError) as caught:
        _scan(later, like=model).load()
    assert caught.value.parameter == "state"
    with pytest.raises(QueryOrderError) as caught:
        _scan(train, like=model, state=tmp_path).load()
    assert caught.value.parameter == "state"


def test_candidates_without_outcomes_are_only_read(tmp_path):
    frame = _log(n_lists=100)
    log = _scan(frame)
    model = rankine.RankSVM(missing="zero").fit(log).to_model()
    state = log.history_state()
    outcomes = ["clicked", "bought", "price", "weight", "outcome_ts"]
    later = frame.tail(5).assign(ts=frame.ts.max() + 1000, weight=1.0)
    candidates = later.drop(columns=set(outcomes) - {"weight"})
    with pytest.raises(SchemaError):  # one of the outcomes is there, the others are missing
        _scan(candidates, like=model, label=None, state=state).load()
    history = {"ctr": {"rate": "clicked", "by": "item"}}
    log = _scan(frame, history)
    model = rankine.RankSVM().fit(log).to_model()
    scan = rankine.logs.source.read_for(model, candidates, state=log.history_state(), stream=True)
    assert (scan.load().columns["ctr"] > 0).all()
    assert scan.history_state().counts == log.history_state().counts


def test_a_log_out_of_order_names_the_command_that_sorts_it(tmp_path):
    frame = _log().iloc[::-1]
    file = tmp_path / "log.parquet"
    frame.to_parquet(file)
    with pytest.raises(QueryOrderError) as caught:
        _scan(file).load()
    assert caught.value.file == str(file)
    assert f"rankine sort {file}" in caught.value.fix
    assert "--query session --by-time ts" in caught.value.fix


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ({"by": "item"}, r"\[history.x\]: exactly one of"),
        ({"count": "clicked +", "by": "item"}, r"\[history.x\]: count: cannot read"),
        ({"count": "clicked", "by": "item", "half_life": "7 moons"}, r"\[history.x\]: half_life"),
        ({"count": "clicked", "by": "item", "cout": 1}, r"\[history.x\]"),
        ({"rate": "clicked", "by": "item", "over": "examination"}, r"\[history.x\]: over"),
    ],
)
def test_errors_name_the_entry(declaration, message):
    with pytest.raises(ParameterError, match=message):
        _scan(_log(), {"x": declaration}, propensity=())


@pytest.mark.parametrize("declaration", [
    {"count": "clicked", "by": ["user", "nothing"]}, {"count": "nothing", "by": "user"},
    {"mean": "price", "weight": "nothing", "by": "user"},
])  # fmt: skip
def test_an_absent_column_names_the_entry(declaration):
    with raises_at(SchemaError, column="nothing") as caught:
        _scan(_log(), {"x": declaration})
    assert caught.value.column == "nothing"


def test_names_and_times_are_checked():
    frame = _log()
    history = {"ctr": {"rate": "clicked", "by": "item"}}
    with pytest.raises(ParameterError) as caught:
        _scan(frame, history, time=None)
    assert caught.value.parameter == "time"
    with raises_at(SchemaError, column="brand"):
        _scan(frame, {"brand": history["ctr"]})
    with pytest.raises(ParameterError) as caught:
        _scan(frame, {}, outcome_time=None)
    assert caught.value.parameter == "forget"
    with pytest.raises(ParameterError) as caught:
        _scan(frame, {}, outcome_time=None, forget=None, state=HistoryState(history_of()))
    assert caught.value.parameter == "state"
    with pytest.raises(ParameterError) as caught:
        _scan(frame, history).to_partitions()
    assert "history build" in caught.value.fix


def test_a_schema_is_written_and_read(tmp_path):
    schema = LogSchema.make({
        "query": "session", "time": "ts", "delay": "1h", "binned": ["ctr"],
        "history": {"ctr": {"rate": "a b" and "clicked", "by": ["item", "the user"]},
                    "paid £": {"mean": "price", "by": "user", "half_life": "7d"}},
    })  # fmt: skip
    file = tmp_path / "s.toml"
    file.write_text(schema.to_toml(), encoding="utf-8")
    assert read_schema(file) == schema
    assert schema.numbers == ("paid £",)
    file.write_text('query = "q"\ntime = "t"\n[history.x]\nby = "item"\n')
    with raises_for("history") as caught:
        read_schema(file)
    assert caught.value.file == str(file)
