"""Options that several commands share."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rankine.cli import _console
from rankine.cli._options import split_list
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError
from rankine.model import LinearModel, ModelBundle
from rankine.model.bundle import select_model

pytestmark = pytest.mark.cli


def test_a_topic_selects_a_model_of_a_bundle_only():
    single = LinearModel.from_weights([1.0])
    bundle = ModelBundle.from_weights({"a": [1.0], "b": [2.0]})
    assert select_model(single, None) is single
    assert select_model(bundle, "b").values.tolist() == [2.0]
    for found, topic, reason in (
        (single, "a", "this is a single model"),
        (bundle, None, "this is a bundle of 2 models"),
        (bundle, "c", "the bundle has no topic 'c'"),
    ):
        with pytest.raises(ParameterError, match=reason):
            select_model(found, topic)


def test_lists_are_split_at_commas():
    assert split_list(None) == ()
    assert split_list(" a, b,,") == ("a", "b")


@pytest.mark.parametrize("words", [["-q", "inspect"], ["inspect", "-q"], ["inspect", "--quiet"]])
def test_quiet_is_accepted_before_and_after_the_command(words, tmp_path):
    LinearModel.from_weights([1.0, 2.0]).save(tmp_path / "m.rankine")
    find_commands()
    result = CliRunner().invoke(app, [*words, str(tmp_path / "m.rankine")])
    assert result.exit_code == 0, result.output
    assert _console.verbosity() == -1
