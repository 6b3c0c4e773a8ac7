# ruff: noqa: E501 - prose
"""Write ``docs/reliability.md`` from the figures of the last runs: ``python -m reliability.page``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from reliability.faults import FAULTS
from reliability.harness.outcome import FAULTS as FAULT_KINDS
from reliability.harness.plan import KINDS
from reliability.seeded_bugs import BUGS

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"
PAGE = ROOT / "docs" / "reliability.md"
#: Figures of other libraries, measured in November 2026 on a machine with 2 cores: scikit-learn
#: 1.9.1, XGBoost 3.2.0, LightGBM 4.7.0, safetensors 0.8.0, Vowpal Wabbit 9.11.9, Optuna 5.0.0,
#: joblib 1.6.0.
PEERS = {
    "inputs": "scikit-learn accepted 6,755 of 37,953 invalid files, XGBoost 6,355 of 14,710; XGBoost misread 30",
    "models": "safetensors: no crash, but 20,696 of 168,000 changed files loaded with other weights; "
    "XGBoost (UBJ): 19 crashes and a hang in 139; LightGBM: 25 crashes in 63; "
    "Vowpal Wabbit loaded 2,897 of 11,672",
    "kills": "unreadable after a kill during a save: joblib 8 of 9, XGBoost 3 of 4, LightGBM 8 of 8, "
    "safetensors 0 of 10; Optuna left 19 trials in state RUNNING after 40 kills; no other library resumes "
    "training to the same bits",
    "workers": "XGBoost ends with an error, LightGBM hangs (more than 75 s)",
    "io": "disk full: joblib, XGBoost and LightGBM lose the old model, safetensors keeps it",
    "http": "JSON nested 200,000 levels deep: status 500 from uvicorn and granian with FastAPI; 2 MB of headers: 200 from "
    "uvicorn, 431 from granian",
    "slow": "uvicorn and granian keep a body sent byte by byte open for more than 40 s",
}
GROUPS = {
    "inputs": "mutated input files",
    "models": "mutated model files",
    "arrays": "hostile arrays passed to compiled code",
    "checkpoints": "damaged checkpoints",
    "kills": "SIGKILL during saving, training, tuning and serving",
    "workers": "Dask workers killed during training",
    "determinism": "repeated training runs",
    "io": "saves with a failing operation, a kill or a power cut",
    "memory": "runs with little free memory",
    "numbers": "numbers compared with their definitions",
    "agreement": "valid problems through every input and export",
    "http": "fuzzed requests",
    "reloads": "models replaced under load",
    "slow": "slow clients",
    "commands": "command lines with wrong values",
    "seeded": "seeded bugs (each must be noticed)",
}
#: Size of a run -> its title.
TITLES = {
    "standard": "Figures of `make reliability`",
    "checked": "Valid problems again, with bounds checks in the compiled code",
    "soak": "Figures of `make soak`",
}


def bound(cases: int) -> str:
    """Return the upper bound of the fault rate after no fault in ``cases``: 3/N at 95 %."""
    rate = 3 / cases
    if rate >= 0.2:
        return "too few cases"
    return f"< {100 * rate:.2g} %" if rate > 1e-4 else f"< {1e6 * rate:.2g} per million"


def faults_of(counts: dict) -> str:
    """Return the counts of faults as text; "0" if there was none."""
    faults = [f"{counts[name]} {name}" for name in FAULT_KINDS if counts.get(name)]
    return ", ".join(faults) or "0"


def read_results() -> dict[str, dict]:
    """Return the stored figures by size of run."""
    results = {}
    for size in TITLES:
        path = RESULTS / f"{size}.json"
        if path.exists():
            results[size] = json.loads(path.read_text(encoding="utf-8"))
    return results


def some_kinds(run: dict) -> str:
    """Return a remark if the run does not cover all kinds."""
    return "" if len(run["kinds"]) == len(KINDS) else " This run covers these kinds only:"


def totals(run: dict) -> list[str]:
    """Return the table of groups."""
    lines = [
        "| trials | cases | faults | fault rate (95 %) | other libraries |",
        "|---|---:|---:|---|---|",
    ]
    for group, what in GROUPS.items():
        if group not in run["groups"]:
            continue
        counts = run["groups"][group]
        faults = faults_of(counts)
        means = bound(counts["cases"]) if faults == "0" and group != "seeded" else ""
        lines.append(
            f"| {what} | {counts['cases']:,} | {faults} | {means} | {PEERS.get(group, '')} |"
        )
    return lines


def kinds(run: dict) -> list[str]:
    """Return the table of kinds."""
    lines = ["| kind | trial | cases | results | CPU s |", "|---|---|---:|---|---:|"]
    for name, figures in run["kinds"].items():
        outcomes = {**figures["outcomes"], **figures["measurements"]}
        shown = ", ".join(f"{key.replace('_', ' ')} {value:,}" for key, value in outcomes.items())
        lines.append(
            f"| `{name}` | {KINDS[name].what} | {figures['cases']:,} | {shown} | {figures['cpu_seconds']:.0f} |"
        )
    return lines


def mutants() -> list[str]:
    """Return the section about mutation tests, from the results of `make mutants`."""
    path = RESULTS / "mutants.json"
    if not path.exists():
        return []
    lines = [
        "",
        "## Mutation tests",
        "",
        "`make mutants` changes the source in one place (a sign, a comparison, an off-by-one, a removed",
        "raise or assignment ...) and runs the tests that execute it. Mutants without a visible effect are",
        "listed with the reason in `tools/equivalent_mutants.toml` and are not counted. *Score before* is the",
        "share of noticed mutants before tests were added for that seed, *score after* the share afterwards.",
        "",
        "| seed | mutants | tried | score before | lowest package | equivalent | score after | lowest package | not noticed |",
        "|---:|---:|---:|---:|---|---:|---:|---|---:|",
    ]
    for run in json.loads(path.read_text(encoding="utf-8")):
        cells = [str(run["seed"]), str(run["mutants"]), str(run["tried"])]
        for column in ("first_look", "after"):
            scores = dict(run[column])
            cells.append(f"{100 * scores.pop('all'):.1f} %")
            package = min(scores, key=scores.get)
            cells.append(f"{package} {100 * scores[package]:.0f} %")
        cells.insert(5, str(run["equivalent"]))
        lines.append(f"| {' | '.join(cells)} | {run['survived']} |")
    return lines


def faults_and_tests() -> list[str]:
    """Return the tables of faults, with what rankine does and the tests of it."""
    lines, number = [], 0
    for title, faults in FAULTS.items():
        lines += [
            "",
            f"### {title}",
            "",
            "| # | fault | what rankine does | tests |",
            "|---|---|---|---|",
        ]
        for fault in faults:
            number += 1
            tests = "; ".join(f"`{test.removeprefix('tests/')}`" for test in fault.tests)
            lines.append(f"| {number} | {fault.fault} | {fault.behaviour} | {tests} |")
    return lines


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# Reliability",
        "",
        "<!-- Written by tests/reliability/page.py from tests/reliability/results; do not edit. -->",
        "",
        "After reading this page you know how rankine behaves with invalid input, full disks, killed processes",
        "and hostile clients, how that was tested, and how to repeat the tests.",
        "",
        "Every input gives one of three results: the exact result; an error with a type, the location, the",
        "reason and a fix; or, if you ask for it, a result with a count of the skipped rows. Crashes, hangs,",
        "unbounded memory and silently changed numbers are faults.",
        "",
        "To repeat one case, name its kind, seed and number:",
        "",
        "```console",
        "PYTHONPATH=tests python -m reliability --only text --seed 20261115 --first 4711 --count 1",
        "```",
        "",
        "`make reliability` runs all trials, `make soak` runs many more with a new seed, and `make test` runs a",
        "short form of each. Inputs that failed once are kept in `tests/corpus` and are part of every run.",
        "",
        "The trials count these faults:",
        "",
        *(f"- **{name}**: {description}" for name, description in FAULT_KINDS.items()),
        "",
        "No fault in N cases means a fault rate below 3/N at 95 % confidence, for cases drawn in the same way.",
        "",
        "Each table names the digest of the sources that were tested. The current sources may be newer: compare",
        'it with `python -c "from rankine.kernels import sources; print(sources.source_digest())"`.',
    ]
    for size, run in read_results().items():
        lines += [
            "",
            f"## {TITLES[size]}",
            "",
            (
                f"rankine {run['rankine']}, sources `{run['source']}`, {run['date']}, seed {run['seed']}, "
                f"Python {run['python']}, {run['machine']}: {run['seconds']:,.0f} s, "
                f"{run['cpu_seconds']:,.0f} s of CPU time.{some_kinds(run)}"
            ),
            "",
            *totals(run),
            "",
            *kinds(run),
        ]
    lines += [
        "",
        "Arrow files and zstd data written by pyarrow have no checksum, so damage that leaves the file well",
        "formed cannot be detected. These files are counted as *no checksum*; for Arrow, rankine must read the",
        "same numbers as pyarrow. Parquet pages have checksums, which rankine writes and verifies.",
        "",
        "With 4 MB of free memory or less, the C library may end a process in which Arrow starts a thread",
        "(*ended by the loader*). No code of rankine runs after that, and no file changes.",
        "",
        "The other libraries were measured with smaller runs of the same kinds of trials in November 2026, on a",
        "machine of the same size: scikit-learn 1.9.1, XGBoost 3.2.0, LightGBM 4.7.0, safetensors 0.8.0, Vowpal",
        "Wabbit 9.11.9, Optuna 5.0.0, joblib 1.6.0, uvicorn 0.54.0, granian 2.8.7, FastAPI 0.162.4. Some of them",
        "document that they do not check their input.",
        "",
        "## Tests of the trials",
        "",
        f"{len(BUGS)} bugs are planted, one at a time, in a copy of the package. The trial of that code must",
        "notice each one:",
        "",
        *(f"- {name}: `{bug.kind}`" for name, bug in BUGS.items()),
        *mutants(),
        "",
        "## Faults and their tests",
        *faults_and_tests(),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stderr.write(f"wrote {PAGE}\n")
