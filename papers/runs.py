"""Run, store and draw one table or figure of a paper.

A result is a module such as ``papers/sculley/figure1.py`` with

    TITLE                     heading on the results page
    SMOKE, QUICK, FULL        keyword arguments of ``measure``; the tests run SMOKE
    measure(**parameters)     plain data with at least ``seeds`` and ``repetitions``; the list
                              ``absent`` names the peers and data sets that the machine lacks
    words(results)            Markdown: what was run, the table, and a comparison with the paper
    draw(results)             a figure (optional)

``python -m papers sculley.figure1`` runs it. The stored JSON is the only source of the figure and
of the section on the page. A missing value stops the run.

The modules of ``benchmarks/instead`` (rankine compared with what a user would pick instead) have
the same form and a page of their own.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import pkgutil
import time
from pathlib import Path

import benchmarks
from benchmarks.common.machine import RESULTS, describe, write
from benchmarks.common.provenance import record

import papers

ROOT = Path(__file__).parent.parent
ASSETS = ROOT / "docs" / "assets" / "results"
#: Significant digits kept in the files.
DIGITS = 6


class MissingResultError(Exception):
    """A result, or a part of one, is not there."""


def paper_names():
    """Return the names of all results of papers, as ``folder.module``."""
    folders = sorted(path.parent for path in Path(papers.__path__[0]).glob("*/__init__.py"))
    return [name for folder in folders for name in _names_in(folder)]


def comparison_names():
    """Return the names of the comparisons with other libraries, as ``instead.module``."""
    return _names_in(Path(benchmarks.__path__[0]) / "instead")


def names():
    """Return the names of all results that have a section on a page."""
    return paper_names() + comparison_names()


def _names_in(folder):
    """Return the names of the results whose modules are in a folder, as ``folder.module``."""
    modules = pkgutil.iter_modules([str(folder)], f"{folder.name}.")
    return [module.name for module in modules if hasattr(module_of(module.name), "measure")]


def package_of(name):
    """Return the package that holds a result and runs it with ``python -m``."""
    return "benchmarks" if name.startswith("instead.") else "papers"


def module_of(name):
    """Import the module of a result."""
    return importlib.import_module(f"{package_of(name)}.{name}")


def parameters_of(name, size):
    """Return the arguments of ``measure`` at a size: "smoke", "quick" or "full"."""
    return getattr(module_of(name), size.upper())


def run(name, size, changes=()):
    """Measure one result at one of its sizes, write its JSON and figure, show its words.

    ``changes`` replaces some of the parameters of that size.
    """
    module = module_of(name)
    parameters = {**parameters_of(name, size), **dict(changes)}
    begun, cpu = time.monotonic(), time.process_time()
    measured = module.measure(**parameters)
    stored = {
        "result": name,
        "size": size,
        "machine": describe(),
        "measured": {**record(name), "size": size},
        "parameters": parameters,
        "wall_seconds": time.monotonic() - begun,
        "cpu_seconds": time.process_time() - cpu,
        **measured,
    }
    path = store(name, stored)
    results = read(name, path.parent)
    if hasattr(module, "draw"):
        folder = ASSETS if path.parent == RESULTS else path.parent
        draw(name, results, folder)
    print(module.markdown(results))


def store(name, results):
    """Write a complete result; refuse one with holes."""
    for key in ("seeds", "repetitions"):
        if key not in results:
            raise MissingResultError(f"{name} does not state its {key}")
    return write(name, _plain(results, name))


def read(name, folder=RESULTS):
    """Read a stored result."""
    path = folder / f"{name}.json"
    if not path.is_file():
        raise MissingResultError(
            f"{path.name} is missing: run python -m {package_of(name)} {name} --full"
        )
    return json.loads(path.read_text(encoding="utf-8"))


def _plain(value, where):
    """Convert to JSON data with rounded numbers; raise for a missing value and name its place."""
    if isinstance(value, dict):
        return {str(key): _plain(part, f"{where}.{key}") for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, f"{where}[{k}]") for k, part in enumerate(value)]
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), where)
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        raise MissingResultError(f"{where} is {value}")
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def digest(results):
    """Return the digest of a result that its figure carries."""
    text = json.dumps(results, sort_keys=True).encode()
    return "sha256:" + hashlib.sha256(text).hexdigest()[:32]


def draw(name, results, folder=ASSETS):
    """Draw a stored result."""
    from benchmarks.common.drawing import save_figure

    save_figure(module_of(name).draw(results), folder / f"{name}.svg", digest(results))


def table(header, rows, *, left=1, bold=()):
    """Format a Markdown table from cells of text."""
    from rankine.evaluation.tables import Table

    return Table("", header, rows, left, frozenset(bold)).markdown().rstrip()
