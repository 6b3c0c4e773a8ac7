import csv
import json
import lzma
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import rankine
from rankine.core.errors import (
    EmptyDataError,
    FileKindError,
    ParameterError,
    ParseError,
    SchemaError,
)
from rankine.evaluation.letor import (
    TABLE,
    LetorFolder,
    MethodResult,
    TaskResult,
    _chains,
    run_letor,
    script_metric,
    settings,
)
from rankine.evaluation.letor_tables import (
    absent_tasks,
    add_baselines,
    average_ranks,
    letor_csv,
    letor_dict,
    letor_notes,
    letor_tables,
    letor_tasks,
    per_query_csv,
    read_baselines,
    task_pairs,
)
from rankine.metrics import evaluate

N_QUERIES = 6


def part_text(part, seed):
    rng = np.random.default_rng([seed, part])
    lines = []
    for q in range(N_QUERIES):
        for d in range(12):
            x = rng.normal(size=3)
            y = int(np.clip(np.round(x[0] + 0.5 * x[1] + rng.normal(0, 0.4)), 0, 2))
            features = " ".join(f"{j}:{v:.6f}" for j, v in enumerate(x, 1))
            lines.append(f"{y} qid:{part * 100 + q} {features} #docid = {part}-{q}-{d}\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same collection in both layouts, the second compressed."""
    root = tmp_path_factory.mktemp("letor")
    parts = {k: part_text(k, 0) for k in range(1, 6)}
    for fold in range(1, 6):
        folder = root / "ohsumed" / f"Fold{fold}"
        folder.mkdir(parents=True)
        order = [(fold - 1 + k) % 5 + 1 for k in range(5)]
        (folder / "train.txt").write_text("".join(parts[k] for k in order[:3]))
        (folder / "vali.txt").write_text(parts[order[3]])
        (folder / "test.txt").write_text(parts[order[4]])
    packed = root / "packed"
    packed.mkdir()
    for k, text in parts.items():
        with lzma.open(packed / f"S{k}.txt.xz", "wt") as file:
            file.write(text)
    plan = ["# fold train vali test\n"]
    for fold in range(1, 6):
        names = [f"S{(fold - 1 + k) % 5 + 1}" for k in range(5)]
        plan.append(f"Fold{fold} {','.join(names[:3])} {names[3]} {names[4]}\n")
    (packed / "FOLDS.txt").write_text("".join(plan))
    return root


class Spy(rankine.SPDRanker):
    """Ranks by one feature, and remembers what it was shown."""

    letor_grid = {"l2": [1.0, 2.0, 3.0]}  # noqa: RUF012
    seen: list = []  # noqa: RUF012

    def fit(self, X, *args, **kwargs):
        Spy.seen.append(("fit", self.l2, sorted(set(X.qid.tolist()))))
        self.n_features_in_ = X.n_features
        self.column_ = int(self.l2) - 1
        return self

    def predict(self, X, qid=None):
        Spy.seen.append(("predict", self.l2, sorted(set(X.qid.tolist()))))
        return X.X[:, self.column_]


@pytest.fixture(scope="module")
def result(folders):
    Spy.seen.clear()
    calls = []
    found = run_letor(
        [folders / "ohsumed"], {"spy": Spy()}, report=lambda *args: calls.append(args)
    )
    return found, list(Spy.seen), calls


def test_test_parts_are_seen_once_after_validation(result):
    _, seen, _ = result
    tried, tested = seen[: 5 * 6], seen[5 * 6 :]
    for fold in range(5):
        last = tested[3 * fold : 3 * fold + 3]
        events = [*tried[6 * fold : 6 * fold + 6], *last]
        assert [kind for kind, _, _ in events] == ["fit", "predict"] * 4 + ["predict"]
        for _, _, queries in events[:-1]:
            assert not set(queries) & set(last[-1][2])
    assert len(tested) == 5 * 3


def test_the_best_on_validation_is_tested(result, folders):
    found = result[0].tasks[0].methods[0]
    fold = next(LetorFolder(folders / "ohsumed").folds())
    by_column = [evaluate("letor4:map", fold.vali.y, fold.vali.X[:, c], fold.vali.qid)
                 for c in range(3)]  # fmt: skip
    best = int(np.argmax(by_column))
    assert found.folds[0].chosen == {"l2": best + 1.0}
    assert found.folds[0].validation == pytest.approx(max(by_column))
    for name in TABLE:
        expected = evaluate(f"letor4:{name}", fold.test.y, fold.test.X[:, best], fold.test.qid)
        assert found.folds[0].values[name] == pytest.approx(expected)
        assert found.means[name] == pytest.approx(np.mean([f.values[name] for f in found.folds]))


def test_progress_counts_every_fit(result):
    calls = result[2]
    assert [done for done, _, _ in calls] == list(range(21))  # 5 folds, 3 settings and the chosen
    assert {total for _, total, _ in calls} == {20}
    assert "Fold1" in calls[1][2]


def test_both_layouts_hold_the_same_folds(folders):
    one, other = LetorFolder(folders / "ohsumed"), LetorFolder(folders / "packed")
    assert (one.name, one.n_folds, other.n_folds) == ("ohsumed", 5, 5)
    for a, b in zip(one.folds(), other.folds(), strict=True):
        assert a.name == b.name
        for role in ("train", "vali", "test"):
            assert getattr(a, role).fingerprint == getattr(b, role).fingerprint


GRIDS = {
    "spd": {"l2": [1e-4, 1e-2]},
    "svm": {"l2": [1e-3, 1e-1], "loss": ["hinge", "squared_hinge"]},
}


@pytest.fixture(scope="module")
def learned(folders):
    rankers = {"spd": rankine.SPDRanker(n_steps=3000), "svm": rankine.RankSVM(scale="standard")}
    return run_letor([folders / "packed"], rankers, grids=GRIDS), rankers


def test_real_rankers_learn(learned):
    assert all(method.means["map"] > 0.7 for method in learned[0].tasks[0].methods)


def test_any_number_of_workers_gives_the_same_bits(learned, folders):
    calls = []
    found, rankers = learned
    again = run_letor([folders / "packed"], rankers, grids=GRIDS, workers=2,
                      report=lambda *given: calls.append(given))  # fmt: skip
    plain, other = letor_dict(found), letor_dict(again)
    for one in (plain, other):
        for method in one["tasks"][0]["methods"]:
            for fold in method["folds"]:
                del fold["seconds"]
    assert plain == other
    assert calls[-1][:2] == (5 * (2 + 1 + 4 + 1),) * 2


def test_what_is_tested_is_the_ranker_fitted_alone(learned, folders):
    """Warm starts and loose tolerances choose; they leave no trace in the result."""
    fold = LetorFolder(folders / "packed").fold(2)
    found = learned[0].tasks[0].methods[1].folds[2]
    alone = rankine.RankSVM(scale="standard", **found.chosen).fit(fold.train)
    scores = alone.predict(fold.test)
    assert found.values["map"] == evaluate("letor4:map", fold.test.y, scores, fold.test.qid)
    assert found.validation == evaluate(
        "letor4:map", fold.vali.y, alone.predict(fold.vali), fold.vali.qid
    )


def test_settings_that_differ_in_one_number_form_a_chain():
    listed = list(settings(None, {"l1": [0.1, 1.0, 10.0], "l2": [0.0, 1.0]}))
    chains = _chains(rankine.DominationRanker(), listed)
    assert [[s["l1"] for s in chain] for chain in chains] == [[10.0, 1.0, 0.1]] * 2
    assert sorted(repr(setting) for chain in chains for setting in chain) == sorted(
        map(repr, listed)
    )
    assert _chains(rankine.SPDRanker(), listed) == [[setting] for setting in listed]
    words = [{"loss": "hinge"}, {"loss": "squared_hinge"}]
    assert _chains(rankine.RankSVM(), words) == [[word] for word in words]


def test_values_of_queries_and_what_they_prove(learned):
    task = learned[0].tasks[0]
    for method in task.methods:
        for fold in method.folds:
            assert len(fold.ids) == N_QUERIES
            assert fold.values["map"] == pytest.approx(np.mean(fold.per_query["map"]))
    lines = list(csv.DictReader("".join(per_query_csv(learned[0])).splitlines()))
    assert len(lines) == 2 * 5 * N_QUERIES
    assert float(lines[0]["ndcg@10"]) == task.methods[0].folds[0].per_query["ndcg@10"][0]
    (pair,) = task_pairs(task, "map")
    one, other = (
        np.concatenate([fold.per_query["map"] for fold in method.folds]) for method in task.methods
    )
    assert (pair.a, pair.b) == ("spd", "svm")
    assert pair.difference == pytest.approx((other - one).mean())
    assert pair.t_test == pytest.approx(stats.ttest_rel(other, one).pvalue)
    assert letor_dict(learned[0])["tasks"][0]["pairs"][0]["verdict"] == pair.verdict
    assert pair.verdict in letor_tables(learned[0])[3].markdown()
    assert task_pairs(replace(task, methods=task.methods[:1]), "map") == []
    for n, count in ((1, 0), (2, 1)):  # judged queries, and pairs of methods that they compare
        few = [replace(m, folds=[replace(f, per_query={"map": f.per_query["map"][:1]})
                                 for f in m.folds[:n]]) for m in task.methods]  # fmt: skip
        assert len(task_pairs(replace(task, methods=few), "map")) == count


def test_scripts_by_label(folders, tmp_path):
    assert str(script_metric("ndcg@10", "letor3")) == "letor3:ndcg@10"
    assert str(script_metric("err", "letor4")) == "err"
    assert str(script_metric("mslr:map", "letor4")) == "mslr:map"
    folder = tmp_path / "web"
    (folder / "Fold1").mkdir(parents=True)
    for role in ("train", "vali", "test"):
        text = part_text(1, 5).replace("\n0 qid", "\n4 qid")
        (folder / "Fold1" / f"{role}.txt").write_text(text)
    found = run_letor([folder], {"spy": Spy()}, metric="ndcg@10")
    assert found.tasks[0].script == "mslr"
    with pytest.raises(ParameterError, match="letor9"):
        run_letor([folder], {"spy": Spy()}, script="letor9")
    with pytest.raises(ParameterError, match="grid"):
        run_letor([folder], {"spy": Spy()}, grids={"spy": {"l2": []}})


class TestFolders:
    def test_a_file_is_no_folder(self, folders):
        with pytest.raises(FileKindError):
            LetorFolder(folders / "packed" / "FOLDS.txt")

    def test_a_folder_without_folds(self, tmp_path):
        with pytest.raises(EmptyDataError, match="FOLDS"):
            LetorFolder(tmp_path)

    def test_a_fold_without_test_part(self, tmp_path):
        (tmp_path / "Fold1").mkdir()
        with pytest.raises(EmptyDataError, match=r"train.txt"):
            list(LetorFolder(tmp_path).folds())

    def test_a_plan_of_other_shape(self, tmp_path):
        (tmp_path / "FOLDS.txt").write_text("Fold1 S1 S2\n")
        with pytest.raises(ParseError, match="3 fields"):
            LetorFolder(tmp_path)
        (tmp_path / "FOLDS.txt").write_text("# nothing\n")
        with pytest.raises(EmptyDataError, match="no folds"):
            LetorFolder(tmp_path)

    def test_parts_of_different_width(self, tmp_path):
        (tmp_path / "Fold1").mkdir()
        for role, line in (("train", "1:1 5:2"), ("vali", "1:1"), ("test", "2:1")):
            (tmp_path / "Fold1" / f"{role}.txt").write_text(f"1 qid:1 {line}\n0 qid:1 1:2\n")
        fold = next(LetorFolder(tmp_path).folds())
        assert {part.n_features for part in fold[1:]} == {5}


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
        with pytest.raises(ParameterError, match="no folder"):
            add_baselines(result[0], read_baselines(path), "nosuch")
        with pytest.raises(ParameterError, match="tasks"):
            add_baselines(result[0], read_baselines("published"), "ohsumed")

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
            ("a.toml", "[x]\nm = { nosuch = 0.5 }\n", ParameterError),
        ],
    )
    def test_bad_tables_are_refused(self, tmp_path, name, text, error):
        (tmp_path / name).write_text(text)
        with pytest.raises(error):
            read_baselines(tmp_path / name)


def task(name, **means):
    return TaskResult(
        name, "letor4", [MethodResult(m, {"map": value}) for m, value in means.items()]
    )


def test_average_ranks_by_hand_and_friedman_by_scipy():
    tasks = [task("t1", a=0.3, b=0.2, c=0.1), task("t2", a=0.5, b=0.5, c=0.4),
             task("t3", a=0.1, b=0.3, c=0.2)]  # fmt: skip
    ranks = average_ranks(tasks, "map")
    assert ranks.ranks == pytest.approx({"a": (1 + 1.5 + 3) / 3, "b": 1.5, "c": 8 / 3})
    test = stats.friedmanchisquare([0.3, 0.5, 0.1], [0.2, 0.5, 0.3], [0.1, 0.4, 0.2])
    assert (ranks.statistic, ranks.p_value) == pytest.approx((test.statistic, test.pvalue))


def test_absent_tasks_are_named_and_left_out_of_the_ranks():
    tasks = [task("t1", a=0.3, b=0.2), task("t2", a=0.5)]
    assert absent_tasks(tasks) == {"b": ["t2"]}
    ranks = average_ranks(tasks, "map")
    assert (ranks.tasks, ranks.p_value) == (["t1"], None)
    assert average_ranks(tasks[1:], "map") is None
    assert average_ranks(tasks, "mean-ndcg") is None


def test_report(result):
    full = add_baselines(result[0], read_baselines("published"))
    tables = letor_tables(full)
    assert [len(table.header) for table in tables] == [12, 12, 8]
    assert "| spy |" in tables[0].markdown()
    plain = json.loads(json.dumps(letor_dict(full)))
    assert len(plain["tasks"][0]["methods"][0]["folds"]) == 5
    notes = letor_notes(full)
    assert any("mq2008" in note and "ohsumed" not in note for note in notes)
    assert "ohsumed" in letor_tasks()


@pytest.mark.cli
def test_command(folders, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from rankine.cli.main import app, find_commands

    find_commands()
    monkeypatch.setattr(sys.modules["rankine.cli.letor"], "EVERY", 0.0)
    arguments = ["letor", str(folders / "ohsumed"), str(folders / "packed"), "--ranker",
                 "spd:n_steps=500,l2=0.01", "--ranker", "ranksvm:l2=0.2"]  # fmt: skip
    names = arguments[4::2]
    arguments += ["--workers", "1"]
    values = tmp_path / "values.csv"
    shown = CliRunner().invoke(
        app, [*arguments, "--baselines", "published", "--per-query", str(values)]
    )
    assert shown.exit_code == 0, shown.output
    assert "MeanNDCG" in shown.stdout
    assert "Average rank" in shown.stdout
    assert "…" not in shown.stdout
    assert "; ;" not in shown.stdout  # nothing was searched
    assert "SVMrank has no figures for packed" in shown.stderr
    assert "1 of 20 fits, about" in shown.stderr  # nothing is searched: 2 x 5 folds, 2 rankers
    plain = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert [m["name"] for m in plain["tasks"][0]["methods"]] == names
    assert len(values.read_text().splitlines()) == 1 + 2 * 2 * 5 * N_QUERIES
    means = CliRunner().invoke(app, [*arguments, "--csv"]).stdout.splitlines()
    assert means[0] == "task,method,metric,value"
    assert len(means) == 1 + 2 * 2 * len(TABLE)
    both = CliRunner().invoke(app, [*arguments, "--csv", "--json"])
    assert isinstance(both.exception, ParameterError)
    twice = CliRunner().invoke(app, [*arguments, "--ranker", names[0]])
    assert isinstance(twice.exception, ParameterError)


@pytest.mark.data
@pytest.mark.full
def test_least_squares_is_level_with_svmrank_on_ohsumed():
    if "RANKINE_DATA" not in os.environ:
        pytest.skip("RANKINE_DATA names no folder of real data")
    folder = os.path.join(os.environ["RANKINE_DATA"], "ohsumed_letor3_querylevelnorm")  # noqa: PTH118
    found = run_letor([folder], {"ls": rankine.LeastSquaresRanker()})
    assert found.tasks[0].methods[0].means["map"] > 0.4464 - 0.003
