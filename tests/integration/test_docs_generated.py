"""The pages in the repository hold their generated parts, as the code is now."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from tools.docs.api_reference import api_reference, split_docstring
from tools.docs.cli_reference import commands
from tools.docs.generate import pages
from tools.docs.includes import ROOT

from rankine.rankers.registry import RANKERS, ranker_class

pytestmark = pytest.mark.docs


WRITE = """
import json
from tools.docs.generate import fill_in, pages
print(json.dumps({str(path): fill_in(path) for path in pages()}))
"""


@pytest.fixture(scope="module")
def written_pages():
    """Write all pages in another process: here, other tests may have registered a metric."""
    done = subprocess.run(
        [sys.executable, "-c", WRITE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", list(pages()), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_is_up_to_date(path, written_pages):
    text = path.read_text(encoding="utf-8")
    assert written_pages[str(path)] == text, "run python -m tools.docs.generate"


def test_the_pages_are_those_of_commands_rankers_and_decisions():
    names = {path.relative_to(ROOT / "docs").as_posix() for path in pages()}
    rankers = {f"rankers/{name}.md" for name in RANKERS}
    assert names >= {"cli.md", "adr/index.md", *rankers}
    cli_page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert all(f"## rankine {name} " in cli_page for name in commands())


@pytest.mark.parametrize("name", RANKERS)
def test_every_parameter_and_method_is_described(name):
    cls = ranker_class(name)
    text = api_reference(f"rankine.{cls.__name__}")
    listed = text.partition("**Parameters**")[2].partition("**Attributes**")[0]
    described = {each for names in re.findall(r"^- `([\w, ]+)`:", listed, re.MULTILINE)
                 for each in names.split(", ")}  # fmt: skip
    assert described == set(cls().get_params(deep=False))
    for method in ("fit", "predict", "rank", "score", "explain", "explain_pair", "to_model"):
        assert f"{{ #rankine.{cls.__name__}.{method} }}" in text
    assert "``" not in re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert ":math:" not in text


def test_the_reference_of_a_module_holds_its_public_names():
    text = api_reference("rankine.updates")
    assert re.search(r"^### rankine\.updates\.UPDATES .*\n\n.*Keys: `'rda'`, ", text, re.MULTILINE)
    assert "### rankine.updates.make_update { #rankine.updates.make_update }" in text
    assert "attach_file_to_errors" not in api_reference("rankine.core.errors")


def test_signatures_and_properties_show_types():
    text = api_reference("rankine.Dataset")
    assert "    y: NDArray[np.float64],\n" in text
    assert "**Properties**\n\n- `queries` (`QueryIndex`): " in text
    assert "take(rows: " in text


def test_the_reference_of_mlflow_needs_no_mlflow():
    assert "### rankine.mlflow.log_model " in api_reference("rankine.mlflow")


def test_sections_of_a_docstring():
    summary, sections = split_docstring("Do it.\n\nMore.\n\nParameters\n----------\nx\n    A.\ny\n")
    assert summary == "Do it.\n\nMore."
    assert sections == {"Parameters": "x\n    A.\ny"}
