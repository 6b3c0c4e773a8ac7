"""Help lists what is registered, without an edit in the command line."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rankine.cli.main import app, find_commands
from rankine.export import targets
from rankine.losses import pair_loss_names
from rankine.metrics.metric import DEFINITIONS
from rankine.rankers.registry import RANKERS

pytestmark = pytest.mark.cli
find_commands()


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("train", [*RANKERS, *pair_loss_names(), *DEFINITIONS]),
        ("evaluate", list(DEFINITIONS)),
        ("export", list(targets())),
        ("letor", list(RANKERS)),
        ("tune", list(RANKERS)),
    ],
)
def test_help_lists_every_registered_name(command, names):
    done = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "300"})
    assert done.exit_code == 0
    for name in names:
        assert name in done.stdout, name
    assert "{" not in done.stdout.replace('{"price"', "").partition("Options")[2]
