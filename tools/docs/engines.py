"""Make the table of what search engines have run: ``python -m tools.docs.engines``.

It runs ``tests/engines``, with the jars that ``make engines`` fetched, and stores what passed in
``tests/engines/results.json``. ``python -m tools.docs.generate`` writes the table from there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

from tools.docs.includes import ROOT

__all__ = ["RESULTS", "engine_table"]

RESULTS = ROOT / "tests" / "engines" / "results.json"
#: Folder of jars -> what runs there.
ENGINES = {
    "solr9": "Solr {}, embedded",
    "solr8": "Solr {}, embedded",
    "elasticsearch": "Elasticsearch {}: its reader and inference of `--to eland`",
    "lucene": "Lucene {}: expressions of `--to script`",
    "vespa": "Vespa {}: its evaluator of ranking expressions",
}
#: Kinds of models of the tests -> heading.
MODELS = {
    "linear": "weights",
    "scaled": "weights, scaled",
    "tensor": "weights as tensor",
    "raw": "columns of a log",
    "additive": "tables and pairs",
    "fusion": "fusion",
}


def engine_table() -> str:
    """Return the table of engines and kinds of models."""
    runs = json.loads(RESULTS.read_text(encoding="utf-8"))
    lines = [
        f"| engine | {' | '.join(MODELS.values())} |",
        f"|---|{'---|' * len(MODELS)}",
    ]
    for engine, title in ENGINES.items():
        versions = {run["version"] for run in runs if run["engine"] == engine}
        if not versions:
            continue
        models = {run["model"] for run in runs if run["engine"] == engine}
        cells = ["yes" if model in models else "" for model in MODELS]
        lines.append(f"| {title.format(' and '.join(sorted(versions)))} | {' | '.join(cells)} |")
    return "\n".join(lines)


def run_tests() -> list[dict[str, str]]:
    """Run the tests of engines; return engine, version and kind of model of each that passed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "tests/engines", f"--junitxml={report}"]
        command += ["-o", "junit_family=legacy"]
        subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - our own tests
        cases = ET.parse(report).iter("testcase")  # noqa: S314 - our own file
        runs = []
        for case in cases:
            properties = {item.get("name"): item.get("value") for item in case.iter("property")}
            if "engine" in properties and case.find("skipped") is None:
                runs.append(properties)
    return sorted(runs, key=lambda run: tuple(run.values()))


if __name__ == "__main__":
    RESULTS.write_text(json.dumps(run_tests(), indent=1) + "\n", encoding="utf-8")
