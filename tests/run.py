"""Run everything ``make test`` promises, group by group, and print what each group took."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
#: Tests that start many processes of their own run apart from the others.
_APART = "reliability or dask"
_SLOW = re.compile(r"^\s*([\d.]+)s (?:call|setup)\s+(\S+)")
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|error|errors|xfailed)")


def pytest(marker: str, *extra: str) -> list[str]:
    return [
        str(BIN / "pytest"),
        "-q",
        "-n",
        os.environ.get("RANKINE_TEST_WORKERS", "2"),
        "--dist",
        "worksteal",
        "--durations=10",
        "--durations-min=1",
        "-m",
        marker,
        *extra,
    ]


def groups(full: bool) -> list[tuple[str, list[str], dict[str, str]]]:
    """Name, command and further environment of every group, in order."""
    found = [
        ("lint", [str(BIN / "ruff"), "check", "."], {}),
        ("format", [str(BIN / "ruff"), "format", "--check", "."], {}),
        ("spelling", [str(BIN / "codespell")], {}),
        ("pages", [str(BIN / "rumdl"), "check", "--quiet", "."], {}),
        ("types", [str(BIN / "mypy")], {}),
        ("import contracts", [str(BIN / "lint-imports")], {}),
        ("tests", pytest(f"not ({_APART}) and not full"), {}),
        ("kernels, JIT off", pytest("kernels and not full"), {"NUMBA_DISABLE_JIT": "1"}),
        ("reliability and dask", pytest(f"({_APART}) and not full"), {}),
    ]
    if full:
        found.append(("full", pytest("full", "--timeout", "3600"), {}))
    return found


def run(
    command: list[str], extra: dict[str, str], counts: dict[str, int], slow: list[tuple[float, str]]
) -> int:
    """Run one command, passing its output on and adding up what pytest counted and timed."""
    environment = {**os.environ, **extra}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    last = ""
    assert process.stdout is not None
    for line in process.stdout:
        sys.stdout.write(line)
        last = line if line.strip() else last
        if found := _SLOW.match(line):
            slow.append((float(found[1]), found[2]))
    sys.stdout.flush()
    if "pytest" in command[0]:
        for number, word in _COUNT.findall(last):
            key = "failed" if word.startswith("error") else word
            counts[key] = counts.get(key, 0) + int(number)
    return process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the long tests too")
    parser.add_argument("--only", help="only groups whose name contains this")
    options = parser.parse_args()
    counts: dict[str, int] = {"passed": 0, "failed": 0, "skipped": 0}
    times: list[tuple[str, float, str]] = []
    slow: list[tuple[float, str]] = []
    broken = False
    for name, command, extra in groups(options.full):
        if options.only and options.only not in name:
            continue
        print(f"\n=== {name}", flush=True)
        started = time.monotonic()
        code = run(command, extra, counts, slow)
        empty = code == 5 and "pytest" in command[0]
        verdict = "no tests" if empty else "ok" if code == 0 else f"FAILED ({code})"
        broken |= code != 0 and not empty
        times.append((name, time.monotonic() - started, verdict))
    print("\n=== the slowest ten tests")
    for seconds, test in sorted(slow, reverse=True)[:10]:
        print(f"{seconds:7.1f} s  {test}")
    print("\n=== time by group")
    for name, seconds, verdict in times:
        print(f"{seconds:7.1f} s  {name}: {verdict}")
    print(f"{sum(seconds for _, seconds, _ in times):7.1f} s  in all")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
