import csv
import json
import lzma
import os
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import rankine
from error_checks import raises_at, raises_for
from rankine.core.errors import (
    ClusterError,
    EmptyDataError,
    FileKindError,
    ParameterError,
    ParseError,
)
from rankine.evaluation import letor
from rankine.evaluation.compare import compare_values
from rankine.evaluation.letor import (
    TABLE,
    LetorFolder,
    _chains,
    _Protocol,
    run_letor,
    script_metric,
    settings,
)
from rankine.evaluation.letor_tables import (
    add_baselines,
    letor_dict,
    letor_notes,
    letor_tables,
    letor_tasks,
    per_query_csv,
    read_baselines,
    task_pairs,
)
from rankine.metrics import evaluate, parse_metric

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


@pytest.fixture
def result(folders):
    Spy.seen.clear()
    calls = []
    found = run_letor(
        [folders / "ohsumed"], {"spy": Spy()}, report=lambda *args: calls.append(args)
    )
    return found, list(Spy.seen), calls


def test_test_parts_are_evaluated_once_after_validation(result):
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


def test_seconds_are_those_of_all_fits_of_a_fold(folders, monkeypatch):
    """A clock that a fit moves by its l2, and the look at the clock by nothing."""
    now = [100.0]
    monkeypatch.setattr(letor.time, "perf_counter", lambda: now[0])

    class Slow(Spy):
        def fit(self, X, *args, **kwargs):
            now[0] += self.l2
            return super().fit(X, *args, **kwargs)

    found = run_letor([folders / "ohsumed"], {"spy": Slow()})
    for fold in found.tasks[0].methods[0].folds:
        assert fold.seconds == 1.0 + 2.0 + 3.0 + fold.chosen["l2"]


class Watched(Spy):
    """Tells of the parameters that it was fitted with."""

    fits: list = []  # noqa: RUF012

    def __init__(self, l2=1.0, tol=1e-4, n_threads=None, warm_start=False, random_state=None):
        self.l2, self.tol, self.n_threads = l2, tol, n_threads
        self.warm_start, self.random_state = warm_start, random_state

    def fit(self, X, *args, **kwargs):
        Watched.fits.append(self.get_params())
        return super().fit(X, *args, **kwargs)


def test_tuning_uses_a_larger_tolerance_and_warm_starts_and_the_final_fit_neither(
    folders, monkeypatch
):
    Watched.fits.clear()
    found = run_letor([folders / "ohsumed"], {"one": Watched(tol=1e-3)}, random_state=5)
    chain, chosen = Watched.fits[:3], Watched.fits[15]
    assert [fit["l2"] for fit in chain] == [3.0, 2.0, 1.0]
    assert all(fit["warm_start"] and fit["tol"] == letor.TUNING_TOLERANCE * 1e-3 for fit in chain)
    assert (chosen["warm_start"], chosen["tol"], chosen["random_state"]) == (False, 1e-3, 5)
    assert chosen["n_threads"] == 1
    assert len(found.notes) == 0
    for grid, warm in (([1.0, 2.0], True), ([1.0], False)):
        monkeypatch.setattr(Watched, "letor_grid", {"l2": grid})
        Watched.fits.clear()
        run_letor([folders / "ohsumed"], {"one": Watched(tol=1e-3)}, random_state=5)
        assert [fit["warm_start"] for fit in Watched.fits[: len(grid)]] == [warm] * len(grid)
    monkeypatch.undo()
    Watched.fits.clear()
    calls = []
    given = {"one": Watched(random_state=2, n_threads=3)}
    run_letor([folders / "ohsumed"], given, grids={"one": {"l2": [2.0]}},
              report=lambda *args: calls.append(args))  # fmt: skip
    assert len(Watched.fits) == 5  # there is nothing to choose
    assert [fit["random_state"] for fit in Watched.fits] == [2] * 5
    assert [fit["n_threads"] for fit in Watched.fits] == [3] * 5
    assert calls[-1][:2] == (5, 5)


@pytest.mark.parametrize(("workers", "cores", "n_threads"), [(1, 8, None), (2, 8, 4), (9, 8, 1),
                                                             (2, None, 1)])  # fmt: skip
def test_threads_are_shared_among_workers_where_rows_are_many(
    folders, monkeypatch, workers, cores, n_threads
):
    folder = LetorFolder(folders / "ohsumed")
    fold = folder.fold(0)
    protocol = _Protocol([folder], {"one": Watched()}, "map", None, workers)
    monkeypatch.setattr(letor.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(letor, "MIN_VALUES_FOR_THREADS", fold.train.nnz)
    assert protocol._ranker("one", fold).n_threads == n_threads
    monkeypatch.setattr(letor, "MIN_VALUES_FOR_THREADS", fold.train.nnz + 1)
    assert protocol._ranker("one", fold).n_threads == 1


def test_a_killed_worker_is_an_error(folders):
    folder = LetorFolder(folders / "ohsumed")
    dead = Future()
    dead.set_exception(BrokenProcessPool())
    with letor._TrialRunner(_Protocol([folder], {}, "map", None, 1), 1, 1, None) as work:
        work.pool = SimpleNamespace(submit=lambda *_: dead, shutdown=lambda **_: None)
        with raises_for("workers", ClusterError):
            work.run([letor._Trial(0, 0, "one", [{}])], _Protocol.test)


def test_a_worker_runs_trials_of_the_protocol_it_was_started_with(folders, monkeypatch):
    monkeypatch.setattr(letor, "_WORKER_PROTOCOL", [])
    folder = LetorFolder(folders / "ohsumed")
    protocol = _Protocol([folder], {"one": Spy()}, "map", None, 2)
    trial = letor._Trial(0, 1, "one", [{"l2": 1.0}])
    letor._start_worker(replace(protocol, metric="ndcg@1"))
    letor._start_worker(protocol)
    found, seconds = letor._run_in_worker(_Protocol.try_settings, trial)
    assert found == protocol.try_settings(trial)
    assert 0 < seconds < 60


def test_a_grid_may_contain_a_setting_twice(folders):
    grid = {"one": {"l2": [2.0, 2.0]}}
    found = run_letor([folders / "ohsumed"], {"one": Spy()}, grids=grid)
    assert {fold.chosen["l2"] for fold in found.tasks[0].methods[0].folds} == {2.0}


@pytest.mark.parametrize("metric", ["map", "pairwise-error"])
def test_the_first_of_equal_settings_is_chosen_and_smaller_errors_are_better(folders, metric):
    grid = {"one": {"l2": [2.0, 1.0, 3.0, 1.5]}}  # 1.0 and 1.5 rank by the same feature
    found = run_letor([folders / "ohsumed"], {"one": Spy()}, metric=metric, grids=grid)
    assert {fold.chosen["l2"] for fold in found.tasks[0].methods[0].folds} == {1.0}


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


@pytest.fixture
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


def test_the_tested_ranker_equals_one_fitted_outside_the_protocol(learned, folders):
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


def test_values_per_query_and_pairwise_tests(learned):
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
    given = (["spd", "svm"], np.column_stack([one, other]), parse_metric("map"), [(0, 1)])
    assert pair == compare_values(*given, 0.95, 0.01, 10_000, 0)[1][0]
    assert pair.t_test == pytest.approx(stats.ttest_rel(other, one).pvalue)
    assert letor_dict(learned[0])["tasks"][0]["pairs"][0]["verdict"] == pair.verdict
    assert pair.verdict in letor_tables(learned[0])[3].markdown()
    assert task_pairs(replace(task, methods=task.methods[:1]), "map") == []
    for n, count in ((1, 0), (2, 1)):  # judged queries, and pairs of methods that they compare
        few = [replace(m, folds=[replace(f, per_query={"map": f.per_query["map"][:1]})
                                 for f in m.folds[:n]]) for m in task.methods]  # fmt: skip
        assert len(task_pairs(replace(task, methods=few), "map")) == count


def test_the_script_is_chosen_by_the_largest_label(folders, tmp_path):
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
    for role in ("train", "vali", "test"):  # one part holds a label above 2, or none
        for name in ("train", "vali", "test"):
            label = "3" if name == role else "2"
            text = part_text(1, 5).replace("\n0 qid", f"\n{label} qid")
            (folder / "Fold1" / f"{name}.txt").write_text(text)
        assert run_letor([folder], {"spy": Spy()}).tasks[0].script == "mslr"
    text = part_text(1, 5).replace("\n0 qid", "\n2 qid")
    (folder / "Fold1" / "test.txt").write_text(text)
    assert run_letor([folder], {"spy": Spy()}).tasks[0].script == "letor4"
    assert run_letor([folder], {"spy": Spy()}, script="letor3").tasks[0].script == "letor3"
    with pytest.raises(ParameterError) as caught:
        run_letor([folder], {"spy": Spy()}, script="letor9")
    assert caught.value.parameter == "script"
    with pytest.raises(ParameterError) as caught:
        run_letor([folder], {"spy": Spy()}, grids={"spy": {"l2": []}})
    assert caught.value.parameter == "grids"


class TestFolders:
    def test_a_file_is_no_folder(self, folders):
        with pytest.raises(FileKindError):
            LetorFolder(folders / "packed" / "FOLDS.txt")

    def test_a_folder_without_folds(self, tmp_path):
        with pytest.raises(EmptyDataError):
            LetorFolder(tmp_path)

    def test_a_fold_without_test_part(self, tmp_path):
        (tmp_path / "Fold1").mkdir()
        with pytest.raises(EmptyDataError):
            list(LetorFolder(tmp_path).folds())

    def test_a_plan_of_other_shape(self, tmp_path):
        (tmp_path / "FOLDS.txt").write_text("Fold1 S1 S2\n")
        with raises_at(ParseError, line=1):
            LetorFolder(tmp_path)
        (tmp_path / "FOLDS.txt").write_text("# nothing\n")
        with pytest.raises(EmptyDataError):
            LetorFolder(tmp_path)

    def test_parts_without_folds(self, tmp_path):
        (tmp_path / "train.txt").write_text(part_text(1, 0))
        with pytest.raises(EmptyDataError):
            LetorFolder(tmp_path)
        (tmp_path / "test.txt").write_text(part_text(2, 0))
        folder = LetorFolder(tmp_path)
        (fold,) = folder.folds()
        assert (fold.name, fold.train.n_queries, fold.vali.n_queries) == ("split", 5, 1)
        assert fold.vali.qid.tolist() == [105] * 12  # the last of the training queries
        assert set(fold.test.qid.tolist()) == set(range(200, 206))
        (tmp_path / "VALI.txt").write_text(part_text(3, 0))
        (fold,) = LetorFolder(tmp_path).folds()
        assert [part.n_queries for part in fold[1:]] == [6, 6, 6]
        assert fold.vali.qid[0] == 300
        (tmp_path / "train.txt").unlink()
        with pytest.raises(EmptyDataError):
            LetorFolder(tmp_path)

    def test_twelve_queries_hold_two_out(self, tmp_path):
        text = part_text(1, 0) + part_text(2, 0)
        (tmp_path / "train.txt").write_text(text)
        (tmp_path / "test.txt").write_text(part_text(3, 0))
        (fold,) = LetorFolder(tmp_path).folds()
        assert (fold.train.n_queries, fold.vali.n_queries) == (10, 2)

    def test_numbered_sets(self, tmp_path):
        for k in (1, 2):
            for number, role in enumerate(("train", "valid", "test")):
                (tmp_path / f"set{k}.{role}.txt").write_text(part_text(10 * k + number, 0))
        found = list(LetorFolder(tmp_path).folds())
        assert [fold.name for fold in found] == ["set1", "set2"]
        assert [fold.test.qid[0] for fold in found] == [1200, 2200]

    def test_a_plan_with_blank_lines_and_remarks(self, tmp_path, monkeypatch):
        for k in range(1, 4):
            (tmp_path / f"S{k}.txt").write_text(part_text(k, 0))
        (tmp_path / "FOLDS.txt").write_text("\n# a remark\nOne S1 S2 S3 # so\n\nTwo S2 S3 S1\n")
        folder = LetorFolder(tmp_path)
        assert [folder.fold_name(k) for k in range(folder.n_folds)] == ["One", "Two"]
        assert folder.fold(1).test.qid[0] == 100
        monkeypatch.setattr(letor, "load", None)  # parts that folds share are read once
        assert [fold.vali.qid[0] for fold in folder.folds()] == [200, 300]
        (tmp_path / "FOLDS.txt").write_text("One S1 S2 S3\n\nTwo S2\n")
        with raises_at(ParseError, line=3):
            LetorFolder(tmp_path)

    def test_parts_of_different_width(self, tmp_path):
        (tmp_path / "Fold1").mkdir()
        for role, line in (("train", "1:1 5:2"), ("vali", "1:1"), ("test", "2:1")):
            (tmp_path / "Fold1" / f"{role}.txt").write_text(f"1 qid:1 {line}\n0 qid:1 1:2\n")
        fold = next(LetorFolder(tmp_path).folds())
        assert {part.n_features for part in fold[1:]} == {5}


def test_report(result):
    full = add_baselines(result[0], read_baselines("published"))
    tables = letor_tables(full)
    assert [len(table.header) for table in tables] == [12, 12, 8]
    assert [len(table.header) for table in letor_tables(result[0])] == [12, 12, 8]
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
def test_least_squares_reaches_the_map_of_svmrank_on_ohsumed():
    if "RANKINE_DATA" not in os.environ:
        pytest.skip("RANKINE_DATA names no folder of real data")
    folder = os.path.join(os.environ["RANKINE_DATA"], "ohsumed_letor3_querylevelnorm")  # noqa: PTH118
    found = run_letor([folder], {"ls": rankine.LeastSquaresRanker()})
    assert found.tasks[0].methods[0].means["map"] > 0.4464 - 0.003
