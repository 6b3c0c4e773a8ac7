"""Logs of search engines joined with judgements; every damaged form is refused with its place."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import rankine
from error_checks import raises_at
from rankine.core.errors import DataError, EmptyDataError, ParseError, SchemaError
from rankine.data import json_documents
from rankine.evaluation.engine_logs import join_logged, read_judgments, read_logged


def hit(docid, **features):
    entries = [{"name": n} if v is None else {"name": n, "value": v} for n, v in features.items()]
    return {
        "_index": "tmdb",
        "_id": docid,
        "_score": 0.0,
        "fields": {"_ltrlog": [{"log_entry1": entries}]},
        "matched_queries": ["logged_featureset"],
    }


def elastic(*hits):
    total = {"value": len(hits), "relation": "eq"}
    return {
        "took": 3,
        "timed_out": False,
        "hits": {"total": total, "max_score": 0.0, "hits": [*hits]},
    }


def solr(**docs):
    found = [{"id": docid, "score": 1.0, "[features]": text} for docid, text in docs.items()]
    return {"responseHeader": {"status": 0, "QTime": 2}, "response": {"numFound": 2, "docs": found}}


ANSWERS = {
    "rambo": elastic(hit("7555", title=9.5, body=10.75), hit("1370", title=6.25, body=8.0)),
    "rocky": elastic(hit("1366", title=1.0, body=0.5)),
}
JUDGMENTS = "query,document,grade\nrambo,7555,4\nrambo,1370,3\nrocky,1366,4\nrocky,60375,1\n"


def jsonl(path, answers):
    lines = [json.dumps({"qid": qid, "response": answer}) for qid, answer in answers.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def judged(tmp_path):
    (tmp_path / "judgments.csv").write_text(JUDGMENTS)
    return tmp_path / "judgments.csv"


def test_jsonl_and_json_logs_give_the_same_data(tmp_path, judged):
    lines = join_logged(jsonl(tmp_path / "log.jsonl", ANSWERS), judged)
    for qid, answer in ANSWERS.items():
        (tmp_path / f"{qid}.json").write_text(json.dumps(answer, indent=1))
    files = join_logged([tmp_path / "rambo.json", tmp_path / "rocky.json"], judged)
    for found in (lines, files):
        assert found.data.X.tolist() == [[9.5, 10.75], [6.25, 8.0], [1.0, 0.5]]
        assert found.data.feature_names == ("title", "body")
        assert found.data.y.tolist() == [4, 3, 4]
        assert found.data.docid.tolist() == ["7555", "1370", "1366"]
        assert found.unlogged == [("rocky", "60375")]
        assert not found.unjudged


def test_solr_and_qrels(tmp_path):
    log = jsonl(tmp_path / "log.jsonl", {"1": solr(a="bm25=2.5,age=3.0", b="age=1.0", c="bm25=1")})
    (tmp_path / "qrels").write_text("1 0 a 2\n1 0 b 0\n")
    found = join_logged(log, tmp_path / "qrels")
    assert found.data.X.tolist() == [[2.5, 3.0], [0.0, 1.0]]  # the sparse form leaves zeros out
    assert found.unjudged == [("1", "c")]


def test_both_feature_formats_of_solr_are_read(tmp_path):
    log = jsonl(tmp_path / "log.jsonl", {"1": solr(a="bm25:2.5;a:b=3.0,", b="")})
    (tmp_path / "qrels").write_text("1 0 a 2\n1 0 b 0\n")
    found = join_logged(log, tmp_path / "qrels")
    assert found.data.feature_names == ("bm25", "a=b")  # the first colon is a sign of equality
    assert found.data.X.tolist() == [[2.5, 3.0], [0.0, 0.0]]


def test_features_that_a_hit_does_not_list_are_missing(tmp_path, judged):
    answers = {"rambo": elastic(hit("7555", title=9.5), hit("1370", body=8.0))}
    found = join_logged(jsonl(tmp_path / "log.jsonl", answers), judged)
    np.testing.assert_array_equal(found.data.X, [[9.5, np.nan], [np.nan, 8.0]])


@pytest.mark.parametrize("block", [1, 7, 300, 10**6])
def test_lines_are_numbered_whatever_the_block(tmp_path, monkeypatch, block):
    monkeypatch.setattr(json_documents, "_BLOCK", block)
    log = jsonl(tmp_path / "log.jsonl", {**ANSWERS, "last": elastic(hit("1"), hit("2"))})
    places = [hit.location[1] for hit in read_logged(log)]
    assert places == [1, 1, 2, 3, 3]
    log.write_text(f"\n{log.read_text()}")
    assert [hit.location[1] for hit in read_logged(log)] == [2, 2, 3, 4, 4]
    log.write_text(log.read_text() + "{")
    with raises_at(ParseError, line=5):
        list(read_logged(log))


def test_errors_in_json_files_have_no_line(tmp_path):
    (tmp_path / "rambo.json").write_text("[1]")
    with pytest.raises(ParseError) as caught:
        list(read_logged(tmp_path / "rambo.json"))
    assert caught.value.line is None
    (tmp_path / "7.json").write_text(json.dumps(solr(a="x=1")))
    (found,) = read_logged(tmp_path / "7.json")
    assert (found.qid, found.docid, found.features) == ("7", "a", {"x": 1.0})
    inner = {"qid": "rocky", "response": ANSWERS["rambo"]}
    (tmp_path / "rambo.json").write_text(json.dumps(inner))
    assert {hit.qid for hit in read_logged(tmp_path / "rambo.json")} == {"rocky"}


def test_a_feature_without_value(tmp_path, judged):
    answers = {"rambo": elastic(hit("7555", title=9.5, body=None))}
    log = jsonl(tmp_path / "log.jsonl", answers)
    (row,) = join_logged(log, judged).data.X
    assert row[0] == 9.5
    assert np.isnan(row[1])


GOOD = json.dumps({"qid": "rambo", "response": ANSWERS["rambo"]})
DAMAGED = {
    "half a line": (GOOD[:80], "not JSON"),
    "no object": ("[1]", "not a JSON object"),
    "no query": (json.dumps(ANSWERS["rambo"]), "no qid"),
    "no hits": ('{"qid": "x", "response": {"took": 1}}', "no hits.hits"),
    "time-out": ('{"qid": "x", "response": {"timed_out": true, "hits": {"hits": []}}}', "time-out"),
    "no log": ('{"qid": "x", "response": {"hits": {"hits": [{"_id": "7"}]}}}', "hit 0.*_ltrlog"),
    "text": (GOOD.replace("10.75", '"high"'), "'body' is 'high'"),
    "no name": (GOOD.replace('"name": "body", ', ""), "has no name"),
    "twice": (GOOD.replace('"name": "body"', '"name": "title"'), "'title' was logged twice"),
    "second": (GOOD.replace('"_id": "1370", ', ""), "hit 1 of query 'rambo': it has no _id"),
    "error": ('{"qid": "x", "response": {"error": {"code": 4}, "hits": {"hits": []}}}', "time-out"),
    "hits no list": ('{"qid": "x", "response": {"hits": {"hits": 3}}}', "no hits.hits"),
    "hits no object": ('{"qid": "x", "response": {"hits": []}}', "no hits.hits"),
    "docs no list": ('{"qid": "x", "response": {"response": {"docs": 1}}}', "no response.docs"),
    "query of truth": (GOOD.replace('"rambo"', "true"), "True is neither text"),
    "query of parts": (GOOD.replace('"rambo"', "1.5"), "1.5 is neither text"),
    "truth": (GOOD.replace("10.75", "true"), "'body' is True, not a number"),
    "endless": (GOOD.replace("10.75", '"inf"'), "'body' is 'inf', not a finite"),
    "log of one": (GOOD.replace('[{"log_entry1"', '[3, {"log_entry1"'), "has no name"),
    "name of one": (GOOD.replace('"name": "body"', '"name": 3'), "has no name"),
    "id of one": (GOOD.replace('"_id": "1370"', '"_id": 1370'), "hit 1.*no _id"),
    "extra": (
        GOOD.replace(
            '"name": "body", "value": 10.75', '"name": "extra_logging", "value": {"df": 3}'
        ),
        "extra_logging fields 'df' are not features.*Leave the entry extra_logging out",
    ),
    "solr": (json.dumps({"qid": 1, "response": solr(a="bm25")}), "not name=value"),
    "solr nameless": (json.dumps({"qid": 1, "response": solr(a="=3")}), "not name=value"),
    "solr colons": (json.dumps({"qid": 1, "response": solr(a="t:x:1")}), "'t' is 'x:1', not a"),
    "solr twice": (json.dumps({"qid": 1, "response": solr(a="x=1,x=2")}), "'x' was logged twice"),
    "solr no id": ('{"qid": 1, "response": {"response": {"docs": [{"[features]": ""}]}}}', "no id"),
    "solr nan": (json.dumps({"qid": 1, "response": solr(a="bm25=NaN")}), "not a finite number"),
    "solr none": (
        '{"qid": 1, "response": {"response": {"docs": [{"id": 1}]}}}',
        "no \\[features\\]",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_logs_are_refused_with_file_and_line(tmp_path, name):
    text, reason = DAMAGED[name]
    (tmp_path / "log.jsonl").write_text(f"{GOOD}\n\n{text}\n")
    with pytest.raises(ParseError, match=reason) as caught:
        list(read_logged(tmp_path / "log.jsonl"))
    assert "log.jsonl" in str(caught.value)
    assert "3" in str(caught.value)


def test_judgments_in_any_column_order_and_with_blank_lines(tmp_path):
    (tmp_path / "j.csv").write_text('Grade ,x, query,DOCUMENT\n2,0,a,b\n\n 1.5 ,0,"a,c", d\n')
    assert read_judgments(tmp_path / "j.csv") == {("a", "b"): 2.0, ("a,c", "d"): 1.5}


BAD_CSV = {
    "grade,document\n": (ParseError, ":1:.*no column 'query'|no column 'query'"),
    'query,document,grade\n"a,b,1\n': (ParseError, "this is not CSV"),
    "query,grade\n": (ParseError, "no column 'document'"),
    "query,document,grade\n\na,b,1,2\n": (ParseError, ":3:.*4 fields instead of 3"),
    "query,document,grade\na,b,1\na,b,2\na,b,3\n": (SchemaError, ":3:.*judged twice"),
    "query,document\n": (ParseError, "no column 'grade'"),
    "query,document,grade\na,b\n": (ParseError, "2 fields instead of 3"),
    "query,document,grade\na,b,high\n": (ParseError, "'high' is not a finite number"),
    "query,document,grade\na,b,1\na,b,2\n": (SchemaError, "judged twice"),
    "query,document,grade\n": (EmptyDataError, "no judgements"),
}


@pytest.mark.parametrize("text", BAD_CSV)
def test_damaged_judgments_are_refused(tmp_path, text):
    (tmp_path / "j.csv").write_text(text)
    kind, reason = BAD_CSV[text]
    with pytest.raises(kind, match=reason):
        read_judgments(tmp_path / "j.csv")


def test_a_log_without_matching_judgements_is_refused(tmp_path, judged):
    with pytest.raises(DataError, match="none of the 1 logged"):
        join_logged(jsonl(tmp_path / "a.jsonl", {"x": elastic(hit("1", a=1.0))}), judged)
    twice = {"rambo": elastic(hit("7555", a=1.0), hit("7555", a=1.0))}
    with raises_at(SchemaError, line=1):
        join_logged(jsonl(tmp_path / "b.jsonl", twice), judged)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(EmptyDataError):
        join_logged(tmp_path / "empty.jsonl", judged)


@pytest.mark.parametrize("out", ["train.parquet", "train.txt"])
def test_the_command(tmp_path, judged, out):
    from rankine.cli.main import app, find_commands

    find_commands()
    log, target = jsonl(tmp_path / "log.jsonl", ANSWERS), tmp_path / out
    words = ["convert", "--features", log, "--judgments", judged, target, "--json"]
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["rows"], told["judged_without_log"]) == (3, 1)
    assert told["unlogged"] == [["rocky", "60375"]]
    data = rankine.load(target, qid_type="str")
    assert data.docid.tolist() == ["7555", "1370", "1366"]
    np.testing.assert_allclose(data.X.toarray() if hasattr(data.X, "toarray") else data.X,
                               [[9.5, 10.75], [6.25, 8.0], [1.0, 0.5]])  # fmt: skip


def test_the_names_of_joined_features_are_written_where_text_has_none(tmp_path, judged):
    from rankine.cli.main import app, find_commands

    find_commands()
    log = jsonl(tmp_path / "log.jsonl", ANSWERS)
    words = ["convert", "--features", log, "--judgments", judged, tmp_path / "out.txt"]
    names = tmp_path / "names.txt"
    result = CliRunner().invoke(app, [*map(str, words), "--names-out", str(names)])
    assert result.exit_code == 0, result.output
    assert names.read_text().splitlines() == ["title", "body"]
