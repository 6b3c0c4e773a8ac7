"""The MLflow flavour, on MLflow where it is installed, and on a stand-in for it."""

import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import played_mlflow
import pytest

import rankine
from error_checks import raises_for
from rankine import LinearModel
from rankine.core.errors import DigestError, MissingExtraError

pytestmark = pytest.mark.filterwarnings("ignore")  # mlflow's own

MODEL = LinearModel.from_weights([0.5, 0.0, -2.0], ["bm25", "age", "spam"], metric="map")
REAL = importlib.util.find_spec("mlflow") is not None


def forget():
    sys.modules.pop("rankine.mlflow", None)
    vars(rankine).pop("mlflow", None)


@pytest.fixture(params=["stand-in", "mlflow"])
def flavour(request, tmp_path, monkeypatch):
    if request.param == "stand-in":
        played_mlflow.install(monkeypatch, tmp_path / "runs")
    elif not REAL:
        pytest.skip("the extra mlflow is not installed")
    forget()
    yield importlib.import_module("rankine.mlflow")
    forget()


def test_a_model_survives_mlflow(flavour, tmp_path):
    folder = tmp_path / "new" / "m"
    flavour.save_model(MODEL, str(folder), metadata={"shop": "x"})
    assert flavour.load_model(str(folder)) == MODEL
    assert flavour.load_model(str(folder), str(tmp_path / "copy")) == MODEL
    described = flavour.Model.load(str(folder))
    assert described.flavors["rankine"]["digest"] == MODEL.digest
    assert described.flavors["rankine"]["nnz"] == 2
    assert described.metadata == {"shop": "x"}
    assert described.signature is None


def test_what_is_given_is_kept(flavour, tmp_path):
    described = flavour.Model()
    kept, given = {"a": 1}, ["rankine==0.0", "other>=1"]
    described.metadata, described.signature = kept, None
    flavour.save_model(MODEL, str(tmp_path / "m"), mlflow_model=described, pip_requirements=given)
    assert described.metadata == kept
    assert "rankine" in described.flavors
    assert (tmp_path / "m" / "requirements.txt").read_text().split() == given
    conda = (tmp_path / "m" / "conda.yaml").read_text()
    python = ".".join(map(str, sys.version_info[:3]))
    assert f"- python={python}\n" in conda
    assert conda.endswith("- pip:\n  - rankine==0.0\n  - other>=1\n")
    assert f"python: {python}\n" in (tmp_path / "m" / "python_env.yaml").read_text()
    flavour.save_model(MODEL, str(tmp_path / "n"))
    own = (tmp_path / "n" / "requirements.txt").read_text().split()
    assert own == flavour.get_default_pip_requirements() == [f"rankine=={rankine.__version__}"]


def test_a_signature_is_described(flavour, tmp_path):
    described = flavour.Model()
    signature = "columns" if not hasattr(flavour.mlflow, "__version__") else None
    flavour.save_model(MODEL, str(tmp_path / "m"), mlflow_model=described, signature=signature)
    assert described.signature == signature


def test_pyfunc_scores_frames_by_name(flavour, tmp_path):
    flavour.save_model(MODEL, str(tmp_path / "m"))
    loaded = flavour.pyfunc.load_model(str(tmp_path / "m"))
    frame = pd.DataFrame({"spam": [1.0, 0.0], "bm25": [1.0, 4.0]})
    np.testing.assert_array_equal(loaded.predict(frame), [-1.5, 2.0])


def test_a_model_is_logged_with_an_example(flavour, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    frame = pd.DataFrame({"bm25": [1.0], "spam": [0.0]})
    if hasattr(flavour.mlflow, "set_tracking_uri"):
        flavour.mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
        with flavour.mlflow.start_run():
            info = flavour.log_model(MODEL, "ranker", input_example=frame)
    else:
        info = flavour.log_model(MODEL, "ranker", input_example=frame)
        assert (tmp_path / "runs" / "ranker" / "input_example.json").is_file()
    assert flavour.load_model(info.model_uri) == MODEL


def test_a_full_folder_and_a_damaged_file_are_refused(flavour, tmp_path):
    (tmp_path / "m").mkdir()
    flavour.save_model(MODEL, str(tmp_path / "m"))  # an empty folder will do
    with raises_for("path"):
        flavour.save_model(MODEL, str(tmp_path / "m"))
    path = tmp_path / "m" / "model.rankine"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DigestError):
        flavour.load_model(str(tmp_path / "m"))


def test_without_mlflow_the_extra_is_named(monkeypatch):
    forget()
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError):
        importlib.import_module("rankine.mlflow")
    forget()


def test_the_page_of_the_documentation_runs(flavour, tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "mlflow.md"
    (block,) = re.findall(
        r"^```py\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"bm25": [1.0, 2.0], "age": [0.0, 1.0], "spam": [0.5, 0.0]})
    namespace = {"ranker": SimpleNamespace(to_model=lambda: MODEL), "frame": frame}
    exec(block, namespace)  # noqa: S102 - the page under test
    assert namespace["model"] == MODEL
    np.testing.assert_allclose(namespace["scores"], [-0.5, 1.0])
