"""Files of every format ever released load as they were saved.

``golden/`` holds one file per kind and format version; a file there is never replaced.
"""

from pathlib import Path

from rankine.core.specs import ListRange
from rankine.model import LinearModel, ModelBundle
from rankine.scoring import Scorer

GOLDEN = Path(__file__).parent / "golden"
DIGEST_LINEAR = "a814b61199cf3443e976e3c1f79e7f5160ceb37d0978076ee42291489fa97c71"
DIGEST_BUNDLE = "3720df79f09aa410eba1044dcd12663641918049e086a00ae7da927975c8a42e"


def test_linear_format_1():
    model = LinearModel.load(GOLDEN / "linear-1.safetensors")
    assert model.digest == DIGEST_LINEAR
    assert model.to_dense().tolist() == [0.5, 0.0, -2.0, 1e-9, 3.0]
    assert model.feature_names == ("bm25", "age", "é", "<x>", "last")
    assert model.transforms == (ListRange(),)
    assert model.metric == "ndcg@10"
    assert model.parameters == {"ranker": "spd", "lam": 1e-4}
    assert model.provenance == {"rows": 12}
    Scorer(model).self_test()
    made = LinearModel.from_weights(model.to_dense(), transforms=(ListRange(),))
    assert made.probes == model.probes, "probes are made up in the same way for ever"
    rows = [{"bm25": 2.0, "last": 1.0}, {"bm25": 4.0, "é": 1.0}, {"age": 3.0}]
    assert Scorer(model).score(rows).tolist() == [0.5 * 0.5 + 3.0, 0.5 - 2.0, 0.0]


def test_bundle_format_1():
    bundle = ModelBundle.load(GOLDEN / "bundle-1.safetensors")
    assert bundle.digest == DIGEST_BUNDLE
    assert bundle["earn"].to_dense().tolist() == [1.0, 0.0, 0.25]
    assert bundle["grain"].to_dense().tolist() == [0.0, 2.0, 0.0]
