"""``rankine certify``: proofs, violations, exit codes and the stored proof."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from rankine import AdditiveRanker, Dataset, LinearModel
from rankine.cli.certify import parse_shapes
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError

pytestmark = pytest.mark.cli
find_commands()


def run(*words):
    done = CliRunner().invoke(app, ["certify", *map(str, words)])
    return done.exit_code, done.stdout


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    data = Dataset.from_arrays(
        X,
        np.digitize(-X[:, 0] + X[:, 1] ** 2, [-1, 0, 1]),
        np.repeat(np.arange(40), 10),
        feature_names=["price", "a=b"],
    )
    ranker = AdditiveRanker(smooth=0.1, pairs=[(0, 1)], shapes={"price": "decreasing"})
    path = tmp_path_factory.mktemp("models") / "m.rankine"
    ranker.fit(data).to_model().save(path)
    return path


def test_shapes_of_the_training_are_proved_and_stored(model_file, tmp_path):
    out = tmp_path / "certified.rankine"
    code, text = run(model_file, "--out", out)
    assert code == 0
    assert "price" in text
    assert "holds" in text
    certified = LinearModel.load(out)
    original = LinearModel.load(model_file)
    np.testing.assert_array_equal(certified.to_dense(), original.to_dense())
    (proof,) = certified.provenance["shapes"]
    assert (proof["column"], proof["shape"], proof["holds"]) == ("price", "decreasing", True)


def test_a_violation_names_its_cell_and_fails(model_file, tmp_path):
    out = tmp_path / "certified.rankine"
    words = [model_file, "--shape", "price=decreasing", "--shape", "a=b=increasing", "--out", out]
    code, text = run(*words)
    assert code == 3
    assert "violated" in text
    assert "a=b is not increasing" in text
    assert not out.exists()
    code, text = run(*words, "--json")
    answer = json.loads(text)
    assert code == 3
    assert (answer["holds"], answer["out"]) == (False, None)
    assert [proof["holds"] for proof in answer["proofs"]] == [True, False]


@pytest.mark.parametrize("text", ["price", "=increasing"])
def test_shapes_without_a_column_or_a_name_are_refused(text):
    with pytest.raises(ParameterError) as caught:
        parse_shapes([text])
    assert caught.value.parameter == "shape"
