"""Programs to compare with, named by the user; those that are absent are named in the result."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys

#: Environment variable -> the program it names the path of.
PROGRAMS = {
    "RANKINE_SOFIA_ML": "sofia-ml",
    "RANKINE_SVM_RANK": "SVMrank's svm_rank_learn",
    "RANKINE_SVM_LIGHT": "SVM-light's svm_learn",
    "RANKINE_LIBLINEAR_RANKSVM": "liblinear-ranksvm's train",
    "RANKINE_VW": "Vowpal Wabbit's vw",
}


#: Names the Python that has the peers' packages; without it, this Python.
PYTHON = "RANKINE_PEERS_PYTHON"


def peers_python(*packages):
    """Return the Python that has the peers' packages, or None if one of ``packages`` is absent."""
    python = os.environ.get(PYTHON, sys.executable)
    if packages:
        code = "import " + ", ".join(packages)
        if subprocess.run([python, "-c", code], capture_output=True, check=False).returncode:
            return None
    return python


def program(variable):
    """Return the path of a peer's program, or None."""
    path = os.environ.get(variable)
    if path is None:
        return None
    executable = shutil.which(path)
    if executable is None:
        raise FileNotFoundError(f"{variable}={path} is not a program")
    return executable


def absent_programs(*variables):
    """List the programs that are absent, with the variables that name them."""
    return [
        f"{PROGRAMS[variable]} (name it in {variable})"
        for variable in variables
        if program(variable) is None
    ]


def absent_packages(*names):
    """List the Python packages that are not installed."""
    return [f"{name} (pip install it)" for name in names if importlib.util.find_spec(name) is None]
