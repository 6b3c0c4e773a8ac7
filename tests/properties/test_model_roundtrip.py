"""Any model survives its file to the bit, and scores what plain arithmetic says."""

import math
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from properties.strategies import models
from rankine.model import LinearModel, ModelBundle


@settings(max_examples=60, deadline=None)
@given(models())
def test_files_hold_every_bit(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        again = LinearModel.load(path)
        assert path.read_bytes() == model.to_bytes() == again.to_bytes()
    assert again.digest == model.digest
    assert again.to_dense().tobytes() == (model.to_dense() + 0.0).tobytes()
    assert again.feature_names == model.feature_names
    assert again.parameters == model.parameters


@settings(max_examples=40, deadline=None)
@given(st.lists(models(), min_size=1, max_size=3))
def test_a_bundle_holds_its_models(found):
    width = max(model.n_features for model in found)
    weights = {
        f"topic {k}": np.pad(model.to_dense(), (0, width - model.n_features))
        for k, model in enumerate(found)
    }
    bundle = ModelBundle.from_bytes(ModelBundle.from_weights(weights).to_bytes())
    for name, wanted in weights.items():
        assert bundle[name].to_dense().tobytes() == (wanted + 0.0).tobytes()


@settings(max_examples=60, deadline=None)
@given(models(), st.randoms(use_true_random=False))
def test_an_explanation_adds_up_to_the_score(model, random):
    row = np.array([random.uniform(-2, 2) for _ in range(model.n_features)])
    terms = [w * x for w, x in zip(model.to_dense().tolist(), row.tolist(), strict=True)]
    if not math.isfinite(sum(map(abs, terms))):
        return
    explanation = model.explain(row)
    assert math.isclose(explanation.total, math.fsum(terms), rel_tol=1e-9, abs_tol=1e-300)
