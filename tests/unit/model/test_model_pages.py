"""The pages about models, explanations and exports: their examples run."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs
DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    "page", ["model-file.md", "how-to/explain.md", "how-to/export.md", "how-to/score.md"]
)
def test_python_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    scope: dict = {}
    for block in blocks:
        exec(block, scope)  # noqa: S102 - our own pages


def test_the_explanation_shown_is_the_one_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "how-to/explain.md").read_text()
    example = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    exec(example[1], {})  # noqa: S102
    assert capsys.readouterr().out == example[2]


def test_the_export_page_names_every_target():
    from rankine.export import targets

    text = (DOCS / "how-to/export.md").read_text()
    for target in targets():
        assert f"`{target}`" in text
