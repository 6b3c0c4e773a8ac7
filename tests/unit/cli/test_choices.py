"""Help lists what is registered, without an edit in the command line."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rankine.cli._choices import parameter_meanings
from rankine.cli.main import app, find_commands
from rankine.export import targets
from rankine.losses import pair_loss_names
from rankine.metrics.metric import DEFINITIONS
from rankine.rankers.registry import RANKERS, ranker_class

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


def test_the_meaning_of_a_parameter_is_its_first_sentence():
    class Ranker:
        """Rank.

        Parameters
        ----------
        a
            Probability of position 1, 2, ... of a list, as in Lee et al. 2014. Not more.
        b, c
            See ``BaseRanker``. More.
        """

    assert parameter_meanings(Ranker) == {
        "a": "Probability of position 1, 2, ... of a list, as in Lee et al. 2014"
    }


@pytest.mark.parametrize("name", RANKERS)
def test_every_parameter_of_a_ranker_has_a_meaning(name):
    meanings = parameter_meanings(ranker_class(name))
    for parameter in ranker_class(name)().get_params(deep=False):
        assert len(meanings[parameter].split()) > 1 or parameter == "random_state"
        assert meanings[parameter].count("(") == meanings[parameter].count(")")
