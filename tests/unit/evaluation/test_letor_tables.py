"""Tables of the LETOR protocol: means, ranks, published figures and files."""

import csv
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from error_checks import raises_at
from rankine.core.errors import (
    ParameterError,
    ParseError,
    SchemaError,
)
from rankine.evaluation.letor import (
    TABLE,
    FoldResult,
    LetorResult,
    MethodResult,
    TaskResult,
)
from rankine.evaluation.letor_tables import (
    _significance_marks,
    absent_tasks,
    add_baselines,
    average_ranks,
    letor_csv,
    letor_dict,
    letor_notes,
    letor_tables,
    per_query_csv,
    rank_tables,
    read_baselines,
    task_pairs,
)
from rankine.evaluation.tables import Table
from unit.evaluation.test_letor import folders, result  # noqa: F401 - fixtures

# ruff: noqa: F811 - tests take fixtures by their name


class TestBaselines:
    def test_shipped_figures_join_their_task(self, result):
        with_figures = add_baselines(result[0], read_baselines("published"))
        names = [m.name for m in with_figures.tasks[0].methods]
        assert names == ["spy", "AdaRank", "ListNet", "RankBoost", "SVMlight", "SVMrank"]
        svm = with_figures.tasks[0].methods[-1]
        assert svm.published
        assert svm.means["map"] == 0.4464
        folds = [fold.values["map"] for fold in svm.folds]
        assert np.mean(folds) == pytest.approx(0.4464, abs=1e-4)
        assert [fold.fold for fold in svm.folds] == [f"Fold{k}" for k in range(1, 6)]
        plain = letor_dict(with_figures)["tasks"][0]["methods"][-1]["folds"]
        assert [fold["validation"] for fold in plain] == [None] * 5
        assert "map-folds" not in svm.means

    def test_figures_belong_to_the_task_with_the_longest_name(self, result):
        figures = {"oh": {"Short": {"map": 0.1}}, "ohsumed": {"Long": {"map": 0.2}}}
        joined = add_baselines(result[0], figures)
        assert [m.name for m in joined.tasks[0].methods] == ["spy", "Long"]
        assert not joined.notes

    def test_every_shipped_mean_is_the_mean_of_its_folds(self):
        for task, methods in read_baselines("published").items():
            for name, values in methods.items():
                mean = np.mean(values["map-folds"])
                assert mean == pytest.approx(values["map"], abs=1.01e-4), (task, name)

    def test_baselines_in_another_encoding_are_refused(self, tmp_path):
        path = tmp_path / "run.csv"
        path.write_bytes("task,method,metric,value\nt,Café,map,0.5\n".encode("latin-1"))
        with pytest.raises(ParseError, match="UTF-8"):
            read_baselines(path)

    def test_a_run_can_be_the_baseline_of_the_next(self, tmp_path, result):
        path = tmp_path / "run.csv"
        path.write_text("".join(letor_csv(result[0])))
        joined = add_baselines(result[0], read_baselines(path))
        assert joined.tasks[0].methods[1].means == result[0].tasks[0].methods[0].means
        assert joined.tasks[0].methods[1].published

    def test_figures_of_other_tasks_are_told_not_swallowed(self, tmp_path, result):
        path = tmp_path / "other.toml"
        path.write_text("[trec]\nMine = { map = 0.5 }\n")
        missed = add_baselines(result[0], read_baselines(path))
        assert len(missed.tasks[0].methods) == 1
        assert any("trec" in note for note in letor_notes(missed))
        named = add_baselines(result[0], read_baselines(path), "ohsumed")
        assert named.tasks[0].methods[1].name == "Mine"
        with pytest.raises(ParameterError) as caught:
            add_baselines(result[0], read_baselines(path), "nosuch")
        assert caught.value.parameter == "baselines"
        with pytest.raises(ParameterError) as caught:
            add_baselines(result[0], read_baselines("published"), "ohsumed")
        assert caught.value.parameter == "baselines"

    def test_csv(self, tmp_path, result):
        path = tmp_path / "mine.csv"
        path.write_text("task,method,metric,value\nOHSUMED,Mine,map,0.5\n")
        joined = add_baselines(result[0], read_baselines(path))
        assert joined.tasks[0].methods[-1].means == {"map": 0.5}

    @pytest.mark.parametrize(
        ("name", "text", "error"),
        [
            ("a.csv", "task,value\nx,1\n", SchemaError),
            ("a.csv", "task,method,metric,value\nx,m,map,high\n", ParseError),
            ("a.toml", "[x\n", ParseError),
            ("a.toml", "[x]\nm = 3\n", SchemaError),
            ("a.toml", "[x]\nm = { map = 'high' }\n", SchemaError),
            ("a.toml", "[x]\nm = { map = true }\n", SchemaError),
            ("a.toml", "[x]\nm = { map-folds = [0.5, 'high'] }\n", SchemaError),
            ("a.csv", "", SchemaError),
            ("a.toml", "[x]\nm = { nosuch = 0.5 }\n", ParameterError),
        ],
    )
    def test_bad_tables_are_refused(self, tmp_path, name, text, error):
        (tmp_path / name).write_text(text)
        with pytest.raises(error):
            read_baselines(tmp_path / name)

    def test_the_line_of_a_bad_figure_is_told(self, tmp_path):
        (tmp_path / "a.csv").write_text("task,method,metric,value\nx,m,map,1\nx,m,p@1,high\n")
        with raises_at(ParseError, line=3):
            read_baselines(tmp_path / "a.csv")


def task(name, **means):
    return TaskResult(
        name, "letor4", [MethodResult(m, {"map": value}) for m, value in means.items()]
    )


def test_average_ranks_equal_values_by_hand_and_friedman_equals_scipy():
    tasks = [task("t1", a=0.3, b=0.2, c=0.1), task("t2", a=0.5, b=0.5, c=0.4),
             task("t3", a=0.1, b=0.3, c=0.2)]  # fmt: skip
    ranks = average_ranks(tasks, "map")
    assert ranks.ranks == pytest.approx({"a": (1 + 1.5 + 3) / 3, "b": 1.5, "c": 8 / 3})
    test = stats.friedmanchisquare([0.3, 0.5, 0.1], [0.2, 0.5, 0.3], [0.1, 0.4, 0.2])
    assert (ranks.statistic, ranks.p_value) == pytest.approx((test.statistic, test.pvalue))


def test_friedman_needs_three_methods_two_tasks_and_a_difference():
    three = [task("t1", a=0.3, b=0.2, c=0.1), task("t2", a=0.5, b=0.5, c=0.4)]
    assert average_ranks(three, "map").p_value is not None
    flat = [task(name, a=0.3, b=0.3, c=0.3) for name in ("t1", "t2")]
    two = [task("t1", a=0.3, b=0.2), task("t2", a=0.5, b=0.1), task("t3", a=0.5, b=0.1)]
    for tasks in (three[:1], flat, two):
        assert average_ranks(tasks, "map").p_value is None
        assert average_ranks(tasks, "map").statistic is None
    assert average_ranks(flat, "map").ranks == {"a": 2.0, "b": 2.0, "c": 2.0}
    assert average_ranks([task("t1", a=0.3)], "map") is None


def test_tables_show_best_means_folds_and_ranks():
    folds = [FoldResult(f"Fold{k}", {"l2": 0.1 * k, "loss": "hinge"}, 0.5, {"map": 0.1 * k}, 0.0)
             for k in (1, 2)]  # fmt: skip
    bare = [replace(fold, chosen={}) for fold in folds]
    own = MethodResult("own", {"map": 0.15, "ndcg@1": 0.4}, folds)
    plain = MethodResult("plain", {"map": 0.15, "ndcg@1": 0.25}, bare)
    paper = MethodResult("paper", {"map": 0.1}, folds, published=True)
    means = MethodResult("means", {"map": 0.12}, published=True)
    named = [TaskResult(f"t{k}", "letor4", [own, plain, paper, means]) for k in (1, 2)]
    found = LetorResult("map", named, ["a note"])
    gains, others, by_fold, *rest = letor_tables(found)
    at = gains.header.index("NDCG@1"), others.header.index("MAP")
    assert gains.bold == {(0, at[0])}
    assert others.bold == {(0, at[1]), (1, at[1])}
    assert gains.rows[2][at[0]] == ""
    assert by_fold.header == ["", "Fold1", "Fold2", "mean", "chosen on validation"]
    assert [row[0] for row in by_fold.rows] == ["own", "plain", "paper"]
    assert [row[4] for row in by_fold.rows] == ["l2=0.1 loss=hinge; l2=0.2 loss=hinge", "", ""]
    assert by_fold.rows[0][1:4] == ["0.1000", "0.2000", "0.1500"]
    ranks = rest[-1]
    assert len(rest) == 4
    by = {row[0]: row[1:] for row in ranks.rows}
    assert by["MAP"][:5] == ["1.50", "1.50", "4.00", "3.00", "2"]
    assert by["NDCG@1"] == ["1.00", "2.00", "", "", "2", ""]
    assert len(rank_tables(replace(found, tasks=named[:1]))) == 0
    plain = letor_dict(found)["tasks"][0]["methods"][0]["folds"][0]
    assert plain == {"fold": "Fold1", "chosen": {"l2": 0.1, "loss": "hinge"}, "validation": 0.5,
                     "values": {"map": 0.1}, "seconds": 0.0}  # fmt: skip
    assert letor_notes(found)[0] == "a note"


def test_queries_without_a_value_are_left_out_of_pairs_and_empty_in_files():
    folds = [
        FoldResult("Fold1", {}, 0.5, {}, 0.0, [7, 8, 9, 10],
                   {name: np.array([np.nan, *values]) for name in TABLE})
        for values in ((0.5, 0.25, 0.5), (0.5, 0.75, 1.0))
    ]  # fmt: skip
    methods = [MethodResult(name, {}, [fold]) for name, fold in zip("ab", folds, strict=True)]
    found = TaskResult("t", "letor4", methods)
    (pair,) = task_pairs(found, "err")  # not in the tables: MAP decides
    assert pair.difference == pytest.approx(1 / 3)
    assert (pair.wins, pair.ties, pair.losses) == (2, 1, 0)
    assert pair == task_pairs(found, "map")[0]
    text = "".join(per_query_csv(LetorResult("map", [found], [])))
    lines = list(csv.DictReader(text.splitlines()))
    assert [line["map"] for line in lines[:4]] == ["", "0.5", "0.25", "0.5"]
    assert [line["query"] for line in lines] == ["7", "8", "9", "10"] * 2


def test_latex_marks_the_methods_that_are_significantly_worse():
    table = Table("t", ("", "mean"), [["x", "0.1"], ["y", "0.2"], ["svm", "0.3"], ["z", "0.25"]])
    verdicts = [("x", "y", 0.1, True), ("x", "z", 0.15, True), ("y", "z", 0.05, False),
                ("z", "y", -0.05, True)]  # fmt: skip
    pairs = [
        SimpleNamespace(a=a, b=b, difference=difference, significant=significant)
        for a, b, difference, significant in verdicts
    ]
    lines = replace(table, marks=_significance_marks(table, pairs)).latex().splitlines()
    mark = r"\textsuperscript"
    assert lines[7:11] == [
        rf"x{mark}{{a}} & 0.1 \\",
        rf"y{mark}{{b}} & 0.2{mark}{{a}} \\",
        r"svm & 0.3 \\",  # published: not compared
        rf"z{mark}{{c}} & 0.25{mark}{{ab}} \\",
    ]
    assert "significantly worse" in lines[2]


def test_tasks_without_figures_are_named_and_left_out_of_the_ranks():
    tasks = [task("t1", a=0.3, b=0.2), task("t2", a=0.5)]
    assert absent_tasks(tasks) == {"b": ["t2"]}
    ranks = average_ranks(tasks, "map")
    assert (ranks.tasks, ranks.p_value) == (["t1"], None)
    assert average_ranks(tasks[1:], "map") is None
    assert average_ranks(tasks, "mean-ndcg") is None
