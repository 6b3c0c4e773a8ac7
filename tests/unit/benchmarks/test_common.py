"""Which benchmarks a command runs, peers that are named or absent, and data that is missing."""

from __future__ import annotations

import pytest
from benchmarks.common.peers import absent_packages, absent_programs, program
from benchmarks.common.real_data import data_folder, letor_folders
from benchmarks.runner import select

TASKS = {"spd": 1, "sculley.figure1": 2, "sculley.table1": 3, "sculley.table1_imdb": 4}


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ([], list(TASKS)),
        (["sculley.table1"], ["sculley.table1"]),
        (["sculley"], ["sculley.figure1", "sculley.table1", "sculley.table1_imdb"]),
        (["sculley.figure1", "spd"], ["sculley.figure1", "spd"]),
    ],
)
def test_a_name_is_a_benchmark_or_a_folder(wanted, kept):
    assert list(select(TASKS, wanted)) == kept


def test_an_unknown_name_is_an_error_that_lists_the_known():
    with pytest.raises(SystemExit, match=r"sculley\.figure1"):
        select(TASKS, ["figure9"])


def test_absent_peers_are_named_with_their_variable(monkeypatch):
    monkeypatch.delenv("RANKINE_SVM_RANK", raising=False)
    assert absent_programs("RANKINE_SVM_RANK") == [
        "SVMrank's svm_rank_learn (name it in RANKINE_SVM_RANK)"
    ]
    assert absent_packages("numpy", "no_such_package") == ["no_such_package (pip install it)"]


def test_a_peer_that_is_named_but_not_there_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKINE_SVM_RANK", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="RANKINE_SVM_RANK"):
        program("RANKINE_SVM_RANK")


def test_real_data_that_is_not_there_is_an_error(monkeypatch, tmp_path):
    monkeypatch.delenv("RANKINE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="RANKINE_DATA"):
        data_folder()
    monkeypatch.setenv("RANKINE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="no LETOR folder"):
        letor_folders()


def test_every_letor_folder_is_found_and_absent_tasks_are_named(monkeypatch, tmp_path):
    for name in ("MQ2007", "own_collection"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "FOLDS.txt").write_text("Fold1 S1 S2 S3\n")
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("RANKINE_DATA", str(tmp_path))
    folders, absent = letor_folders()
    assert [folder.name for folder in folders] == ["MQ2007", "own_collection"]
    assert "mq2007" not in absent
    assert "ohsumed" in absent
