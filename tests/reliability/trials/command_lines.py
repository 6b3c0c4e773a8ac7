"""Run command lines with wrong and unusual values of options.

Each line is a valid one of a command with one to three changes: another value of an option, another
file, an argument left out. It must succeed, or end with one sentence that names a fix.
"""

from __future__ import annotations

import os
import re
import shutil
from functools import cache
from pathlib import Path

from tools.docs.cli_reference import commands

from reference.command_lines import MORE_LINES, line_of, run, write_files
from reliability.harness.outcome import Job, Outcome

#: Files of the folder in which the lines run.
FILES = (
    "train.txt", "test.txt", "train.parquet", "log.parquet", "newer.parquet", "pairs.csv", "a.run",
    "qrels.txt", "model.rankine", "additive.rankine", "logged.rankine", "tables.rankine",
    "bundle.rankine", "fusion.rankine", "propensity.json", "schema.toml", "limits.json",
    "names.txt", "sizes.txt", "bad.txt", "empty.txt", "letor", ".", "no-such-file", "no/such/file",
    "-", "",
)  # fmt: skip
COLUMNS = (
    "price", "rating", "brand", "category", "session_id", "product_id", "search", "device", "team",
    "position", "ts", "clicked", "in_stock", "clicked + 4*purchased", "price,rating", "brand*price",
    "no_such_column", "price,price", "clicked +", "1", "é", "a b",
)  # fmt: skip
NUMBERS = (
    "0", "1", "2", "5", "-1", "0.5", "1e-3", "-0.5", "nan", "inf", "-inf", "1e400", "three", "",
    "1_0", "0x10", "1,5", "100000", "99999999999999999999",
)  # fmt: skip
TEXTS = (
    "ndcg@10", "map", "ndcg@0", "ndcg@x", "nope", "auto", "none", "mean", "error", "indicator",
    "query_min", "letor4:map", "ndcg@10,map", "min_max", "sql", "python", "opensearch", "float32",
    "int", "json", "letor", "time:0.6,0.2,0.2", "time:2,-1", "9us", "s1", "51", "A", "NULL", "[]",
    "{}", "a=b", "=", ",", "*", "*.parquet", "\udcff", "x" * 300, "--", "-x", "../x", "%s", "[red]",
)  # fmt: skip
SETTINGS = (
    "l2=0.1", "l2=-1", "l2=x", "l2=", "l2", "=1", "l1=nan", "pairs=3", "pairs=price*brand",
    'pairs=[("price","brand")]', "pairs=[", "pairs=price", "shapes=price:decreasing", "shapes=1:9",
    "shapes=price", "loss=logistic", "loss=nope", "scale=nope", "n_steps=10", "n_steps=-1",
    "n_steps=1e3", "bins=1", "bins=4", "bins=1e9", "random_state=-1", "random_state=x", "C=1",
    "solver=rda", "eta0=0", "eta0=1e9", "max_iter=0", "tol=-1", "metric=nope", "smooth=[1,2]",
    "categorical=brand", "objective=softmax", "early_stopping=0", "callbacks=1", "l2=1..2",
    "l2=2..1", "l2=1e-6..1e-2:log", "l2=0..1:log", "scale=none,standard", "l2=a..b", "l2=,",
)  # fmt: skip
#: Values that are set in every line, so that it ends soon.
_LIMITS = {
    "--trials": "2", "--n-resamples": "100", "--n-queries": "20", "--workers": "1",
    "--jobs": "1", "--timeout": "20", "--every": "50", "--n-steps": "3", "--n-passes": "1",
}  # fmt: skip
#: Numbers that a run of these would be long for.
_LONG = {"100000", "99999999999999999999", "1e-3"}
#: Commands that take longer than others, and are drawn less often.
_SLOW = {"path", "tune", "letor", "demo", "fuse"}
#: Commands whose exit code 3 says that a check failed.
_CHECKS = {"compare", "watch", "retrain"}
_MISSING_FIX = re.compile(r"\[[a-z-]+\]$")


@cache
def base_lines() -> list[list[str]]:
    """Return valid lines of all commands."""
    return [line_of(name) for name in commands()] + [line.split() for line in MORE_LINES]


def command_of(arguments: list[str]) -> str:
    """Return the name of the command of a line, in one or two words."""
    two_words = " ".join(arguments[:2])
    return two_words if two_words in commands() else arguments[0]


def draw_value(rng, parameter) -> str:
    """Draw a value for an option or argument: of its kind, of another, or of none."""
    name = str(parameter.name)
    if name in ("set_", "space") and rng.random() < 0.8:
        return rng.choice(SETTINGS)
    listed = re.findall(r"[a-z0-9_-]{3,}", parameter.help or "")
    pools = [NUMBERS, TEXTS, FILES, COLUMNS, tuple(listed) or TEXTS]
    is_number = re.search(r"\b(int|float)\b", str(parameter.type_descriptor.annotation))
    favourite = NUMBERS if is_number else rng.choice(pools)
    pool = favourite if rng.random() < 0.7 else rng.choice(pools)
    values = [value for value in pool if max(parameter.opts, key=len) not in _LIMITS
              or value not in _LONG]  # fmt: skip
    return rng.choice(values or ["1"])


def draw(rng) -> list[str]:
    """Draw a command line."""
    arguments = list(rng.choice(base_lines()))
    while arguments[0] in _SLOW and rng.random() < 0.75:
        arguments = list(rng.choice(base_lines()))
    name = command_of(arguments)
    parameters = commands()[name].params
    options = [p for p in parameters if p.opts[0].startswith("-") and p.name != "verbose"]
    n_words = len(name.split())
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change = rng.random()
        if change < 0.75:
            option = rng.choice(options)
            arguments.append(max(option.opts, key=len))
            if not option.is_flag and rng.random() < 0.98:
                arguments += [draw_value(rng, option) for _ in range(option.nargs)]
        elif change < 0.9 and len(arguments) > n_words:
            place = rng.randrange(n_words, len(arguments))
            if not arguments[place].startswith("-"):
                arguments[place] = rng.choice(FILES)
        elif len(arguments) > n_words:
            del arguments[rng.randrange(n_words, len(arguments))]
    return limited(arguments, {max(p.opts, key=len) for p in options})


def limited(arguments: list[str], options: set[str]) -> list[str]:
    """Add options that keep a run short, unless the line sets them."""
    more: list[str] = []
    for option, value in _LIMITS.items():
        needs = option in ("--trials", "--jobs", "--workers", "--n-queries")
        if needs and option in options and option not in arguments:
            more += [option, value]
    return [*arguments, *more]


def fault_of(arguments: list[str], ended) -> str | None:
    """Return what is wrong with the end of a command; None if nothing is."""
    command = command_of(arguments)
    if ended.error is not None:
        return f"{type(ended.error).__name__}: {ended.error}"
    if "Traceback" in ended.err or "Warning:" in ended.err:
        return f"prints a traceback or a Python warning: {ended.err[-600:]}"
    if ended.code == 0 or (ended.code == 3 and command in _CHECKS):
        return None
    if command == "serve" and ended.code == 130:  # ready, and stopped
        return None
    if ended.code != 2:
        return f"exit code {ended.code}: {ended.err[-300:]}"
    last_line = ended.err.splitlines()[-1] if ended.err else ""
    if not last_line.startswith("rankine: error: ") or ended.err.count("rankine: error: ") != 1:
        return f"the error is not one sentence: {ended.err[-600:]}"
    if _MISSING_FIX.search(last_line):
        return f"the error names no fix: {last_line}"
    return None


@cache
def _files(folder):
    source = folder / "files"
    source.mkdir()
    write_files(source)
    return source


def trial(job: Job) -> Outcome:
    """Run command lines, each in a folder of its own."""
    outcome = Outcome()
    source, work = _files(job.folder), job.folder / "lines"
    stdin = (source / "test.txt").read_bytes()
    home = Path.cwd()
    for case, rng in job.cases(outcome):
        arguments = draw(rng)
        shutil.copytree(source, work)
        os.chdir(work)
        try:
            ended = run(arguments, stdin=stdin)
        finally:
            os.chdir(home)
            shutil.rmtree(work)
        outcome.counts[f"exit code {ended.code}"] += 1
        fault = fault_of(arguments, ended)
        if fault is not None:
            outcome.fail("crashes", f"{job.name(case)}: rankine {' '.join(arguments)}\n{fault}")
    return outcome
