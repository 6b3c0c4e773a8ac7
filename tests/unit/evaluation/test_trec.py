import gzip

import numpy as np
import pytest

from error_checks import raises_at
from rankine.core.errors import DataError, EmptyDataError, ParseError, SchemaError
from rankine.evaluation.systems import is_qrels, is_run
from rankine.evaluation.trec import (
    evaluate_run,
    read_qrels,
    read_run,
    run_metric,
)
from rankine.metrics import parse_metric
from reference.trec_files import write_qrels, write_run

QRELS = "q1 0 a 2\nq1 0 b 0\nq1 0 c 1\nq2 0 a 1\nq3 0 z 0\n"
RUN = "q1 Q0 b 1 2.0 me\nq1 Q0 a 2 2.0 me\nq1 Q0 x 3 1.5 me\nq3 Q0 z 1 1 me\nq9 Q0 a 1 1 me\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "run").write_text(RUN)
    return tmp_path / "run", tmp_path / "qrels"


def test_values_follow_the_rules_of_trec_eval(files):
    result = evaluate_run(*files, ["mrr", "recall@3", "ndcg@3:gain=linear"], per_query=True)
    assert result.ids.tolist() == ["q1", "q2", "q3"]
    assert result.per_query["mrr"].tolist() == [0.5, 0.0, 0.0]  # b before a: descending ids
    assert result.per_query["recall@3"].tolist() == [0.5, 0.0, 0.0]  # c was not retrieved
    ideal = 2 + 1 / np.log2(3)
    assert result.per_query["ndcg@3:gain=linear"][0] == pytest.approx(2 / np.log2(3) / ideal)
    assert result.means["mrr"] == pytest.approx(0.5 / 3)
    assert result.counts == {
        "queries_missing_from_run": 1,
        "queries_without_judgements": 1,
        "documents_without_judgement": 1,
        "negative_judgements": 0,
    }


def test_negative_judgements_are_not_relevant(files):
    run, qrels = files
    qrels.write_text("q1 0 b -2\nq1 0 a 1\n")
    result = evaluate_run(run, qrels, ["ndcg@3:gain=linear", "mrr"])
    assert result.means["mrr"] == 0.5
    assert result.means["ndcg@3:gain=linear"] == pytest.approx(1 / np.log2(3))
    assert result.counts["negative_judgements"] == 1


def test_same_values_as_ir_measures(tmp_path):
    import ir_measures
    from ir_measures import AP, RR, P, R, nDCG

    rng = np.random.default_rng(4)
    qrels, run = [], []
    for q in range(25):
        judged = rng.choice(40, 15, replace=False)
        qrels += [(f"q{q}", f"d{d}", int(rng.integers(0, 3))) for d in judged]
        if q != 7:
            found = rng.choice(40, rng.integers(1, 25), replace=False)
            run += [(f"q{q}", f"d{d}", round(float(rng.normal()), 1)) for d in found]
    write_qrels(tmp_path / "qrels.gz", *zip(*qrels, strict=True))
    write_run(tmp_path / "run", *zip(*run, strict=True))
    named = {"ndcg@5:gain=linear": nDCG @ 5, "ndcg:gain=linear": nDCG, "map": AP, "map@5": AP @ 5,
             "p@5": P @ 5, "recall@5": R @ 5, "mrr": RR}  # fmt: skip
    expected = ir_measures.calc_aggregate(
        list(named.values()),
        [ir_measures.Qrel(*row) for row in qrels],
        [ir_measures.ScoredDoc(*row) for row in run],
    )
    found = evaluate_run(tmp_path / "run", tmp_path / "qrels.gz", list(named))
    for text, measure in named.items():
        assert found.means[text] == pytest.approx(expected[measure], abs=1e-9), text


def test_a_written_run_is_read_back(tmp_path):
    qid, docid, score = ["a", "b", "a"], ["x", "x", "y"], [0.1, 1e300, 0.1]
    write_run(tmp_path / "run.gz", qid, docid, score, tag="t", depth=1)
    run = read_run(tmp_path / "run.gz")
    assert (run.qid.tolist(), run.docid.tolist()) == (["a", "b"], ["y", "x"])
    assert run.score.tolist() == [0.1, 1e300]
    assert run.tag == "t"
    (tmp_path / "merged").write_text("a Q0 y 1 0.5 first\nb Q0 x 1 0.5 second\n")
    assert read_run(tmp_path / "merged").tag == "first"
    assert gzip.decompress((tmp_path / "run.gz").read_bytes()).startswith(b"a Q0 y 1 0.1 t\n")
    write_qrels(tmp_path / "qrels", qid, docid, [2, 0.5, 1])
    qrels = read_qrels(tmp_path / "qrels")
    assert qrels.label.tolist() == [2.0, 0.5, 1.0]
    assert (tmp_path / "qrels").read_text().startswith("a 0 x 2\n")


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("q1 Q0 a 1 0.5\n", ParseError, "5 fields instead of 6"),
        ("\nq1 Q0 a 1 nan me\n", ParseError, ":2:.*nan"),
        ("q1 Q0 a 1 1_0 me\n", ParseError, "field 5.*1_0|1_0.*field 5"),
        ("q1 Q0 a 1 1 me\n\nq1 Q0 b 1 x me\n", ParseError, ":3:"),
        ("q1 Q0 a 1 1e999 me\n", ParseError, "finite"),
        ("q1 Q0 a 1 1 me\nq1 Q0 a 2 0 me\n", SchemaError, "occurs twice"),
        ("\n \n", EmptyDataError, "no lines"),
        ("other Q0 a 1 1 me\n", DataError, "no query in common"),
    ],
)
def test_bad_runs_are_refused(files, text, error, match):
    run, qrels = files
    run.write_text(text)
    with pytest.raises(error, match=match):
        evaluate_run(run, qrels, ["map"])


def test_files_that_are_not_utf8_are_refused(files):
    run, qrels = files
    run.write_bytes(b"q1 Q0 a 1 1 me\n\xff\xfe\n")
    with raises_at(ParseError, line=2):
        evaluate_run(run, qrels, ["map"])


@pytest.mark.parametrize(
    ("line", "run", "qrels"),
    [
        ("q Q0 d 1 0.5 me", True, False),
        ("q q0 d 1 0.5 me", True, False),
        ("q 0 d 1 0.5 me", False, False),
        ("q Q0 d 1 0.5", False, False),
        ("q Q0 d 1", False, True),
        ("q 0 d 1", False, True),
        ("2 qid:1 d 1", False, False),
        ("2 0 d 1:0.5", False, False),
        ("  q 0 d 1\nq 0 e 1 2", False, True),
        ("2 qid:1 1:0.5 2:1", False, False),
        ("", False, False),
    ],
)
def test_runs_and_judgements_are_recognised_by_their_first_line(tmp_path, line, run, qrels):
    path = tmp_path / "file"
    path.write_text(line + "\n")
    assert (is_run(path), is_qrels(path)) == (run, qrels)


def test_ties_of_a_run_fall_by_document_id_unless_the_metric_says_otherwise():
    assert run_metric(parse_metric("ndcg@5")).ties == "docid"
    for told in ("ndcg@5:ties=worst", "ndcg@5:ties=expected", "pairwise_error"):
        assert run_metric(parse_metric(told)) == parse_metric(told)
