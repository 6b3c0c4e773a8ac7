"""Public names that are imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rankine


def test_names_are_modules_or_what_the_modules_define():
    assert rankine.plot.__name__ == "rankine.plot"
    assert rankine.Dataset.__name__ == "Dataset"
    assert callable(rankine.report)
    assert callable(rankine.tune)
    assert callable(rankine.logs.simulate)


def test_other_names_are_attribute_errors():
    with pytest.raises(AttributeError, match=r"'rankine' has no attribute 'nothing'"):
        _ = rankine.nothing
    with pytest.raises(AttributeError, match=r"'rankine.tuning' has no attribute"):
        _ = rankine.tuning.nothing


def test_functions_stay_functions_when_modules_of_their_package_are_imported():
    code = (
        "import rankine, rankine.tuning.run, rankine.reporting.run;"
        "assert callable(rankine.tune) and callable(rankine.report)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_rankine_imports_no_numerical_library():
    code = "import sys, rankine; print({'numba', 'scipy', 'sklearn'} & set(sys.modules))"
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert output.strip() == "set()"
