# ruff: noqa: E501 - prose
"""Write ``docs/reliability.md`` from the figures of the last runs: ``python -m reliability.page``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from reliability.faults import FAULTS
from reliability.harness.outcome import FAULTS as COUNTED
from reliability.harness.plan import KINDS
from reliability.seeded_bugs import BUGS

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"
PAGE = ROOT / "docs" / "reliability.md"
#: Measured by us, November 2026, one machine of 2 cores: scikit-learn 1.9.1, XGBoost 3.2.0,
#: LightGBM 4.7.0, safetensors 0.8.0, Vowpal Wabbit 9.11.9, Optuna 5.0.0, joblib 1.6.0.
PEERS = {
    "inputs": "scikit-learn took 6,755 of 37,953 bad files without a word, XGBoost 6,355 of 14,710 "
    "and misread 30",
    "models": "safetensors: 0 crashes but 20,696 of 168,000 changed files taken, with other "
    "weights; XGBoost (UBJ) 19 crashes and a hang in 139; LightGBM 25 crashes in 63; "
    "Vowpal Wabbit took 2,897 of 11,672",
    "kills": "unreadable after a kill in a save: joblib 8 of 9, XGBoost 3 of 4, LightGBM 8 of 8, "
    "safetensors 0 of 10; Optuna left 19 trials running for ever after 40 kills; no peer resumes "
    "training to the same bits",
    "workers": "XGBoost ends with an error, LightGBM hangs (more than 75 s)",
    "io": "disk full: the old model is lost by joblib, XGBoost and LightGBM, kept by safetensors",
    "http": "200,000-deep JSON: 500 by uvicorn and granian with FastAPI; 2 MB of headers: 200 by "
    "uvicorn, 431 by granian",
    "slow": "a body sent in drips is still open after 40 s at uvicorn and granian",
}
GROUPS = {
    "inputs": "mutated input files",
    "models": "mutated model files",
    "checkpoints": "damaged checkpoints",
    "kills": "SIGKILLs in saves, training, tuning and serving",
    "workers": "Dask workers killed in training",
    "determinism": "determinism runs",
    "io": "failing, fatal and last operations of saves",
    "memory": "runs with little memory left",
    "numbers": "numbers against their definitions",
    "agreement": "valid problems, in every way in and out",
    "http": "fuzzed requests",
    "reloads": "models replaced under load",
    "slow": "slow clients",
    "seeded": "seeded bugs (each must be noticed)",
}
#: Size of a run -> its title.
TITLES = {
    "standard": "Figures of `make reliability`",
    "checked": "Valid problems once more, with every index of the compiled code checked",
    "soak": "Figures of `make soak`",
}


def bound(cases: int) -> str:
    """What 0 faults in so many cases mean: a rate below 3/N, at 95 %."""
    rate = 3 / cases
    if rate >= 0.2:
        return "too few to say"
    return f"< {100 * rate:.2g} %" if rate > 1e-4 else f"< {1e6 * rate:.2g} per million"


def faults_of(counts: dict) -> str:
    """Faults that happened, or none."""
    found = [f"{counts[name]} {name}" for name in COUNTED if counts.get(name)]
    return ", ".join(found) or "0"


def read_results() -> dict[str, dict]:
    """Size -> figures."""
    found = {}
    for size in TITLES:
        path = RESULTS / f"{size}.json"
        if path.exists():
            found[size] = json.loads(path.read_text(encoding="utf-8"))
    return found


def some_kinds(run: dict) -> str:
    """A word where not all kinds were tried."""
    return "" if len(run["kinds"]) == len(KINDS) else " Only these kinds were tried so often yet:"


def totals(run: dict) -> list[str]:
    """The table of groups."""
    lines = ["| trials | cases | faults | 0 means | peers, measured |", "|---|---:|---:|---|---|"]
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
    """The table of kinds."""
    lines = ["| kind | what | cases | came out as | CPU s |", "|---|---|---:|---|---:|"]
    for name, one in run["kinds"].items():
        outcomes = {**one["outcomes"], **one["facts"]}
        shown = ", ".join(f"{key.replace('_', ' ')} {value:,}" for key, value in outcomes.items())
        lines.append(
            f"| `{name}` | {one['what']} | {one['cases']:,} | {shown} | {one['cpu_seconds']:.0f} |"
        )
    return lines


def mutants() -> list[str]:
    """The tests themselves on trial: what `make mutants` found."""
    path = RESULTS / "mutants.json"
    if not path.exists():
        return []
    lines = [
        "",
        "## The tests on trial",
        "",
        "`make mutants` changes the source in one place (a sign, a comparison, an off-by-one, a removed",
        "raise or assignment ...) and runs the tests that reach it. Mutants that change nothing a user",
        "could see stand with the reason in `tools/equivalent_mutants.toml` and count neither way. *First",
        "look* is the score of a seed before any test was written for what it showed.",
        "",
        "| seed | mutants | tried | first look | its lowest room | equivalent | after | its lowest room | left |",
        "|---:|---:|---:|---:|---|---:|---:|---|---:|",
    ]
    for run in json.loads(path.read_text(encoding="utf-8")):
        cells = [str(run["seed"]), str(run["mutants"]), str(run["tried"])]
        for column in ("first_look", "after"):
            rooms = dict(run[column])
            cells.append(f"{100 * rooms.pop('all'):.1f} %")
            room = min(rooms, key=rooms.get)
            cells.append(f"{room} {100 * rooms[room]:.0f} %")
        cells.insert(5, str(run["equivalent"]))
        lines.append(f"| {' | '.join(cells)} | {run['survived']} |")
    return lines


def promises() -> list[str]:
    """The table of faults, promises and proofs."""
    lines, number = [], 0
    for title, faults in FAULTS.items():
        lines += [
            "",
            f"### {title}",
            "",
            "| # | fault | promise | proved by |",
            "|---|---|---|---|",
        ]
        for fault in faults:
            number += 1
            tests = "; ".join(f"`{test.removeprefix('tests/')}`" for test in fault.tests)
            lines.append(f"| {number} | {fault.fault} | {fault.promise} | {tests} |")
    return lines


def page() -> str:
    """The whole page."""
    lines = [
        "# Reliability",
        "",
        "<!-- Written by tests/reliability/page.py from tests/reliability/results; do not edit. -->",
        "",
        "Any input gives exactly one of: the exact result; a typed error that names the place, the",
        "reason and the fix; or, only when asked, a result and a count of what was skipped. Never a",
        "crash, a hang, memory without bound, or a number changed in silence. This page holds what was",
        "tried to make that untrue, and how often it succeeded.",
        "",
        "`make reliability` makes these trials anew, `make soak` makes many more with a fresh seed, and",
        "`make test` a short form of each. Every case is drawn from the seed and its number, so",
        "`python -m reliability --only KIND --seed SEED --first CASE --count 1` makes it again. What once",
        "failed stays in `tests/corpus` and is tried by every run.",
        "",
        "*Faults* are: " + "; ".join(f"**{name}**: {what}" for name, what in COUNTED.items()) + ".",
        "No fault in N cases means a rate below 3/N at 95 % confidence, for cases drawn like these.",
    ]
    for size, run in read_results().items():
        lines += [
            "",
            f"## {TITLES[size]}",
            "",
            (
                f"rankine {run['rankine']}, sources `{run['source']}`, {run['date']}, seed {run['seed']}, "
                f"Python {run['python']}, {run['machine']}: {run['seconds']:,.0f} s, of which "
                f"{run['cpu_seconds']:,.0f} s of CPU.{some_kinds(run)}"
            ),
            "",
            *totals(run),
            "",
            *kinds(run),
        ]
    lines += [
        "",
        "Arrow files, and zstd data as pyarrow writes them, carry no checksum: damage that leaves them",
        "well formed is read as what the file now says (*no checksum* above; for Arrow, equal to what",
        "pyarrow reads). Parquet pages are written with checksums, which are verified.",
        "",
        "With 4 MB or less to spare the C library itself may end a process in which Arrow starts a thread",
        "(*ended by the loader*); nothing of rankine's runs after that, and no file is touched.",
        "",
        "Peers were measured with the same kinds of trials on a machine of the same size in November 2026:",
        "scikit-learn 1.9.1, XGBoost 3.2.0, LightGBM 4.7.0, safetensors 0.8.0, Vowpal Wabbit 9.11.9,",
        "Optuna 5.0.0, joblib 1.6.0, uvicorn 0.54.0, granian 2.8.7, FastAPI 0.162.4. Their runs were",
        "smaller, and a peer's laxity is sometimes its documented choice.",
        "",
        "## The harness on trial",
        "",
        f"{len(BUGS)} bugs are planted, one at a time, in a copy of the package; the trial that each",
        "concerns must notice it:",
        "",
        *(f"- {name}: `{bug.kind}`" for name, bug in BUGS.items()),
        *mutants(),
        "",
        "## Faults, promises, proofs",
        *promises(),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stderr.write(f"wrote {PAGE}\n")
