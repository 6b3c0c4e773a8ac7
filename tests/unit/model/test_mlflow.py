import numpy as np
import pytest

mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # mlflow's own

from rankine import LinearModel  # noqa: E402
from rankine.core.errors import DigestError, ParameterError  # noqa: E402
from rankine.mlflow import load_model, save_model  # noqa: E402

MODEL = LinearModel.from_weights([0.5, 0.0, -2.0], ["bm25", "age", "spam"], metric="map")


def test_a_model_survives_mlflow(tmp_path):
    save_model(MODEL, str(tmp_path / "m"), metadata={"shop": "x"})
    assert load_model(str(tmp_path / "m")) == MODEL
    described = mlflow.models.Model.load(str(tmp_path / "m"))
    assert described.flavors["rankine"]["digest"] == MODEL.digest
    assert described.metadata == {"shop": "x"}
    assert "rankine==" in (tmp_path / "m" / "requirements.txt").read_text()


def test_pyfunc_scores_frames_by_name(tmp_path):
    import pandas as pd

    save_model(MODEL, str(tmp_path / "m"))
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    frame = pd.DataFrame({"spam": [1.0, 0.0], "bm25": [1.0, 4.0]})
    np.testing.assert_array_equal(loaded.predict(frame), [-1.5, 2.0])


def test_a_model_is_logged_with_an_example(tmp_path, monkeypatch):
    import pandas as pd

    from rankine.mlflow import log_model

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    frame = pd.DataFrame({"bm25": [1.0], "spam": [0.0]})
    with mlflow.start_run():
        info = log_model(MODEL, "ranker", input_example=frame)
    assert load_model(info.model_uri) == MODEL


def test_a_full_folder_and_a_damaged_file_are_refused(tmp_path):
    save_model(MODEL, str(tmp_path / "m"))
    with pytest.raises(ParameterError, match="not empty"):
        save_model(MODEL, str(tmp_path / "m"))
    path = tmp_path / "m" / "model.rankine"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DigestError):
        load_model(str(tmp_path / "m"))
