"""The stored results of engines are those of the versions that ``fetch.sh`` fetches."""

import json
import re

from tools.docs.engines import ENGINES, MODELS, RESULTS

from engines.java_engines import FOLDER


def test_results_name_the_versions_that_are_fetched():
    fetched = dict(
        re.findall(
            r"^fetch (\w+) \S+?:([\d.]+)(?:\s|$)", (FOLDER / "fetch.sh").read_text(), re.MULTILINE
        )
    )
    assert set(fetched) == set(ENGINES)
    runs = json.loads(RESULTS.read_text())
    assert {(run["engine"], run["version"]) for run in runs} == set(fetched.items())
    assert {run["model"] for run in runs} == set(MODELS)
