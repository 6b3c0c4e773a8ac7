"""Probabilities against their formula, and their place in the model file."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from rankine import LinearModel, Scorer
from rankine.core.errors import ModelError, ModelFormatError, ParameterError
from rankine.core.specs import OutcomeCalibration
from rankine.model.container import pack
from rankine.model.store import decode, describe
from rankine.scoring.probability import OutcomeProbabilities

pytestmark = pytest.mark.kernels
SPEC = OutcomeCalibration(
    outcome="clicked",
    position="position",
    scores=(-1.0, 0.0, 0.5),
    logits=(-3.0, -1.0, 0.5),
    tails=(0.5, 2.0),
    examination=(1.0, 0.6, 0.3),
)
MODEL = replace(LinearModel.from_weights([1.0]), calibration=SPEC)


def expected(scores, positions):
    x = scores - scores.mean()
    logits = np.interp(x, SPEC.scores, SPEC.logits)
    logits = np.where(x < -1.0, -3.0 + 0.5 * (x + 1.0), logits)
    logits = np.where(x > 0.5, 0.5 + 2.0 * (x - 0.5), logits)
    return np.array(SPEC.examination)[np.minimum(positions, 3) - 1] / (1 + np.exp(-logits))


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0, 1e300])
def test_probabilities_follow_the_formula(scale):
    rng = np.random.default_rng(0)
    scores, positions = scale * rng.normal(size=60), np.tile(np.arange(1, 11), 6)
    found = OutcomeProbabilities(SPEC)(scores, np.arange(0, 61, 10), positions)
    with np.errstate(over="ignore"):
        parts = zip(np.split(scores, 6), np.split(positions, 6), strict=True)
        exact = np.concatenate([expected(s, k) for s, k in parts])
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-300)


def test_empty_lists_and_models_without_calibration():
    assert OutcomeProbabilities(SPEC)(np.zeros(0)).tolist() == []
    with pytest.raises(ModelError, match="calibrate"):
        Scorer(LinearModel.from_weights([1.0])).probability([[1.0]])
    with pytest.raises(ParameterError) as caught:
        Scorer(MODEL).probability([[1.0], [2.0]], [1])
    assert caught.value.parameter == "positions"


def test_a_model_file_keeps_its_calibration(tmp_path):
    plain = LinearModel.from_weights([1.0])
    MODEL.save(tmp_path / "m.rankine")
    again = LinearModel.load(tmp_path / "m.rankine")
    assert again.calibration == SPEC
    assert again.digest == MODEL.digest != plain.digest
    assert replace(again, calibration=None).digest == plain.digest
    assert "P(clicked)" in again.summary()["calibration"]


@pytest.mark.parametrize(
    "changes",
    [
        {"scores": (0.0, 0.0, 1.0)},
        {"logits": (0.0, 1.0)},
        {"logits": (0.0, 2.0, 1.0)},
        {"tails": (0.0, 1.0)},
        {"examination": (1.5,)},
        {"examination": ()},
        {"position": None},
    ],
)
def test_damaged_calibrations_are_refused(changes):
    with pytest.raises(ValueError, match=r"calibration|probability"):
        msgspec.structs.replace(SPEC, **changes)
    document = describe(MODEL)
    document["calibration"] |= msgspec.to_builtins(changes)
    tensors = {"indices": MODEL.indices, "values": MODEL.values}
    data = b"".join(bytes(part) for part in pack(document, tensors)[0])
    with pytest.raises(ModelFormatError):
        decode(data, LinearModel)
