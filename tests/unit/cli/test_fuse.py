"""``rankine fuse``: tables, models and errors."""

import json

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from rankine.evaluation.fusion import (
    join_runs,
)
from reference.trec_files import write_qrels, write_run
from unit.evaluation.test_fusion import made


def test_the_command(tmp_path):
    from rankine.cli.main import app, find_commands

    runs, qrels = made(20)
    for name, found in runs.items():
        write_run(tmp_path / f"{name}.run", found.qid, found.docid, found.score)
    write_qrels(tmp_path / "qrels", *qrels)
    find_commands()
    files = [str(tmp_path / f"{name}.run") for name in runs]

    def call(*words):
        result = CliRunner().invoke(app, list(map(str, words)))
        assert result.exit_code == 0, result.output
        return result.stdout

    model, joined = tmp_path / "f.rankine", tmp_path / "joined.parquet"
    options = ("--qrels", tmp_path / "qrels", "--out", model, "--data-out", joined, "--json")
    found = json.loads(call("fuse", *files, *options))
    assert set(found["weights"]) == {"r0", "r1", "r2"}
    call("export", model, "--to", "opensearch", "-o", tmp_path / "p.json")
    call("export", model, "--to", "elasticsearch", "--form", "rrf", "-o", tmp_path / "e.json")
    columns = ("--columns", "retrieved", "--qid-type", "str")
    value = json.loads(call("evaluate", model, joined, "--metric", "ndcg@10", *columns, "--json"))
    data = join_runs(runs, qrels)
    scores = np.full(data.X.shape, np.nan)
    rows = np.repeat(np.arange(data.n_rows), np.diff(data.X.indptr))
    scores[rows, data.X.indices] = data.X.data
    table = {"qid": data.qid, "docid": data.docid, "label": data.y, **dict(zip(runs, scores.T))}  # noqa: B905
    wide = pd.DataFrame({**table, "retrieved": data.columns["retrieved"]})
    wide.to_parquet(tmp_path / "wide.parquet")  # null where a retriever lacks the document
    words = ("evaluate", model, tmp_path / "wide.parquet", "--metric", "ndcg@10", *columns)
    assert json.loads(call(*words, "--json"))["metrics"] == value["metrics"]
    call("report", model, joined, "-o", tmp_path / "page.html", *columns)
    assert "r1" in (tmp_path / "page.html").read_text()
