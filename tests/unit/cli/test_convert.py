import json

import numpy as np
import pytest
from typer.testing import CliRunner

import rankine
from error_checks import raises_for
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError, RankineError, SchemaError
from rankine.data import Dataset
from rankine.data.save import ConversionReport, _count_blocks, convert
from reference.npz import load_npz
from unit.logs.test_imports import METARANK, write_lines

pytestmark = pytest.mark.cli

LINES = "".join(
    f"{k % 3} qid:{k // 4} 1:{(k + 1) / 7!r} {2 + k % 3}:{-k - 0.5!r} #docid = D{k}\n"
    for k in range(40)
)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text(LINES)
    return path


@pytest.fixture(scope="module")
def run():
    find_commands()
    runner = CliRunner()

    def call(*arguments):
        result = runner.invoke(app, ["convert", *map(str, arguments)])
        if isinstance(result.exception, RankineError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result

    return call


BINARY = ("parquet", "arrow", "arrows")


@pytest.mark.parametrize(
    ("middle", "layout"),
    [(suffix, layout) for suffix in BINARY for layout in ("sparse", "columns")]
    + [("txt.gz", None), ("txt.zst", None), ("parquet", None)],
)
def test_text_comes_back_to_the_byte(run, text, tmp_path, middle, layout):
    first, last = tmp_path / f"middle.{middle}", tmp_path / "back.txt"
    run(text, first, *(() if layout is None else ("--layout", layout)))
    run(first, last)
    whole, direct = rankine.load(last), rankine.load(text)
    assert whole.fingerprint == direct.fingerprint
    assert whole.docid.tolist() == direct.docid.tolist()
    reference = tmp_path / "reference.txt"
    run(text, reference)
    assert last.read_bytes() == reference.read_bytes()


def test_json_counts(run, text, tmp_path):
    result = run(text, tmp_path / "out.parquet", "--json")
    assert len(result.stdout.splitlines()) == 1
    report = json.loads(result.stdout)
    assert (report["rows"], report["queries"], report["features"]) == (40, 10, 4)


def test_json_and_data_do_not_share_stdout(run, text):
    with raises_for("--json"):
        run(text, "-", "--json")
    assert run(text, "-").stdout.startswith("0 qid:0 ")


def test_names_travel(run, text, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("price\nrank\nage\nstock\n")
    out, back = tmp_path / "out.parquet", tmp_path / "back.names"
    run(text, out, "--feature-names", names, "--layout", "sparse")
    assert rankine.load(out).feature_names == ("price", "rank", "age", "stock")
    result = run(out, tmp_path / "back.txt")
    assert "--names-out" in result.stderr
    result = run(out, tmp_path / "back.txt", "--names-out", back)
    assert "--names-out" not in result.stderr
    assert back.read_text() == names.read_text()


def test_foreign_columns(run, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    log = tmp_path / "log.parquet"
    pq.write_table(
        pa.table(
            {
                "session": ["a", "a", "b"],
                "clicked": [1, 0, 1],
                "price": [1.0, 2.0, 3.0],
                "n": [1, 2, 3],
            }
        ),
        log,
    )
    out = tmp_path / "out.npz"
    run(log, out, "--query", "session", "--label", "clicked", "--features", "price")
    data = load_npz(out)
    assert data.feature_names == ("price",)
    assert data.qid.tolist() == ["a", "a", "b"]
    assert data.y.tolist() == [1, 0, 1]


def test_interleaved_queries_keep_their_order(tmp_path):
    path = tmp_path / "mixed.txt"
    path.write_text("1 qid:1 1:1\n0 qid:2 1:2\n0 qid:1 1:3\n")
    report = convert(path, tmp_path / "out.parquet")
    assert report.queries == 3
    assert rankine.load(tmp_path / "out.parquet").qid.tolist() == [1, 2, 1]


def test_bad_rows_are_counted(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text("1 qid:1 1:1\n0 qid:1 1:NaN\nx qid:1\n")
    report = convert(path, tmp_path / "out.parquet", on_bad_row="skip")
    assert (report.rows, report.skipped, report.missing) == (2, 1, 1)


def test_refusals_leave_no_file(text, tmp_path):
    with raises_for("target"):
        convert(text, text)
    for target, options in (
        ("out.parquet", {"write": {"compression": "zip"}}),
        ("out.parquet", {"write": {"layout": "wide"}}),
        ("out.parquet", {"write": {"zeros": True}}),
        ("out.parquet.gz", {}),
        ("out.xyz", {}),
        ("-", {"to": "parquet"}),
        ("out.parquet", {"names_out": tmp_path / "names"}),
    ):
        with pytest.raises(ParameterError):
            convert(text, tmp_path / target if target != "-" else "-", **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.txt"]
    with pytest.raises(SchemaError):
        convert(
            text,
            tmp_path / "x.txt",
            feature_names=["a\nb", "c", "d", "e"],
            names_out=tmp_path / "n",
        )


def test_a_bad_row_leaves_the_old_output(tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.parquet"
    out.write_bytes(b"old")
    source.write_text("1 qid:1 1:1\n" * 5 + "1 qid:1 1:oops\n")
    with pytest.raises(RankineError):
        convert(source, out)
    assert out.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.parquet"]


def test_blocks_without_rows_end_nothing():
    whole = Dataset.from_arrays(np.ones((4, 1)), np.zeros(4), [1, 1, 2, 3])
    rows = [whole.take(slice(*ends)) for ends in ((0, 2), (2, 2), (2, 4))]
    report = ConversionReport()
    written = list(_count_blocks(iter(rows), report))
    assert [block.n_rows for block in written] == [2, 2]
    assert report.queries == 3


def call(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, rankine.core.errors.RankineError):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def lists(tmp_path):
    """Two models and three lists, the last of them without a relevant row."""
    lines = ["2 qid:7 1:3 2:0", "0 qid:7 1:2 2:1", "1 qid:7 1:1 2:2", "0 qid:8 1:1 2:0"]
    lines += ["1 qid:8 1:0 2:1", "0 qid:9 1:1 2:1", "0 qid:9 1:2 2:0"]
    (tmp_path / "d.txt").write_text("".join(f"{line}\n" for line in lines))
    rankine.LinearModel.from_weights([1.0, 0.0], metric="map").save(tmp_path / "m.rankine")
    rankine.LinearModel.from_weights([1.0, 0.0]).save(tmp_path / "bare.rankine")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        (["sort", "out.txt"], None),
        (["sort", "a.txt", "-", "--json"], "--json"),
        (["convert", "out.txt"], None),
        (["convert", "a.txt", "-", "--json"], "--json"),
        (["convert", "a.txt", "b.txt", "--split", "time:0.5,0.5"], "--split"),
        (["convert", "b.txt", "--judgments", "j"], "--judgments"),
        (["convert", "a.txt", "b.txt", "--judgments", "j", "--features", "l"], "--judgments"),
    ],
)
def test_files_and_options_that_exclude_each_other_are_rejected(words, parameter):
    with pytest.raises(ParameterError) as caught:
        call(*words)
    assert caught.value.parameter == parameter


def test_converting_prints_skipped_rows_and_missing_values(lists):
    (lists / "bad.txt").write_text("1 qid:1 1:1\n0 qid:1 1:NaN\nx qid:1\n")
    out = lists / "out.parquet"
    told = call("convert", lists / "bad.txt", out, "--on-bad-row", "skip").stderr
    assert "2 rows x 1 features of 1 queries in" in told
    assert told.endswith("s, 1 bad rows skipped, 1 missing values\n")
    told = call("convert", lists / "d.txt", out).stderr
    assert "7 rows x 2 features of 3 queries in" in told
    assert told.endswith(" s\n")
    said = json.loads(call("convert", lists / "d.txt", out, "--json").stdout)
    assert (said["skipped_rows"], said["missing_values"]) == (0, 0)
    assert 0 <= said["seconds"] < 60


def test_joining_logs_prints_unmatched_documents(lists):
    def features(k):
        return {"_source": {}, "_id": f"d{k}", "fields": {"_ltrlog": [
            {"main": [{"name": "bm25", "value": float(k)}]}]}}  # fmt: skip

    responses = {"hits": {"hits": [features(k) for k in range(15)]}}
    (lists / "log.jsonl").write_text(json.dumps({"qid": "q1", "response": responses}) + "\n")
    lines = ["q1,d0,1", "q1,d1,0", *(f"q1,x{k},1" for k in range(10))]
    (lists / "judged.csv").write_text("\n".join(["query,document,grade", *lines]) + "\n")
    words = ["convert", "--features", lists / "log.jsonl", "--judgments", lists / "judged.csv"]
    names = lists / "names.txt"
    done = call(*words, lists / "out.parquet", "--names-out", names)
    assert names.read_text() == "bm25\n"
    first, unjudged, unlogged = done.stderr.splitlines()
    assert first.endswith("out.parquet: 2 rows x 1 features of 1 queries")
    assert unjudged.startswith("13 documents have no judgement: q1/")
    assert unjudged.endswith(", ...")
    assert unjudged.count("q1/") == 10
    assert unlogged.startswith("10 documents have no log: q1/")
    assert unlogged.count("q1/") == 10
    assert not unlogged.endswith("...")
    said = json.loads(call(*words, lists / "out.data", "--to", "parquet", "--json").stdout)
    assert (said["rows"], said["queries"], said["features"]) == (2, 1, 1)
    assert (said["logged_without_judgment"], said["judged_without_log"]) == (13, 10)
    assert rankine.load(lists / "out.data").n_rows == 2


def test_events_of_other_systems_become_a_log(run, tmp_path):
    source, target = write_lines(tmp_path / "events.jsonl", METARANK), tmp_path / "log.parquet"
    assert json.loads(run("--from", "metarank", source, target, "--json").stdout) == {
        "out": str(target), "rows": 3, "lists": 2, "outcomes": {"click": 1},
        "unmatched_outcomes": 0, "other_events": 1,
    }  # fmt: skip
    run("--from", "metarank", source, target)
    rankine.logs.scan(target, query="list_id", label="click", numeric=["price"])
    with raises_for("from_"):
        run("--from", "solr", source, target)
    with raises_for("from_"):
        run("--from", "ubi", source, tmp_path / "log.txt")
    with raises_for("--query"):
        run("--from", "ubi", source, target, "--query", "list_id")
