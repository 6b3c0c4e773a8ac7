"""MLflow flavour: save, log and load models, and score them as a pyfunc.

Needs the extra ``mlflow`` (mlflow-skinny is enough). The artifact is the model file itself, so
that loading runs no pickle.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankine._version import __version__
from rankine.core.errors import MissingExtraError, ParameterError
from rankine.model import LinearModel
from rankine.scoring import Scorer

try:
    import mlflow
    from mlflow import pyfunc
    from mlflow.models import Model
except ImportError as error:
    raise MissingExtraError(
        "the MLflow flavour needs mlflow", fix="pip install 'rankine[mlflow]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "FLAVOR_NAME",
    "get_default_pip_requirements",
    "load_model",
    "log_model",
    "save_model",
]

FLAVOR_NAME = "rankine"
_FILE = "model.rankine"


def get_default_pip_requirements() -> list[str]:
    """Return the requirements of an environment that scores the model."""
    return [f"rankine=={__version__}"]


def save_model(
    model: LinearModel,
    path: str,
    *,
    mlflow_model: Any = None,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Write an MLflow model folder.

    Parameters
    ----------
    model
        Model to save; for a ranker, pass ``ranker.to_model()``.
    path
        New or empty folder.
    mlflow_model, signature, input_example, pip_requirements, metadata
        As in the other flavours of MLflow.
    """
    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise ParameterError(
            f"folder {path!r} is not empty", parameter="path", fix="Name a new folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    description = Model() if mlflow_model is None else mlflow_model
    if signature is not None:
        description.signature = signature
    if metadata is not None:
        description.metadata = metadata
    if input_example is not None:
        from mlflow.models.utils import _save_example

        _save_example(description, input_example, str(folder))
    model.save(folder / _FILE)
    requirements = list(pip_requirements or get_default_pip_requirements())
    _write_environment(folder, requirements)
    description.add_flavor(
        FLAVOR_NAME, rankine_version=__version__, data=_FILE, digest=model.digest, nnz=model.nnz
    )
    pyfunc.add_to_model(
        description,
        loader_module="rankine.mlflow",
        data=_FILE,
        conda_env="conda.yaml",
        python_env="python_env.yaml",
    )
    description.save(str(folder / "MLmodel"))


def log_model(model: LinearModel, name: str, **options: Any) -> Any:
    """Save a model as an artifact of the current run; ``options`` are passed to ``Model.log``."""
    return Model.log(
        artifact_path=None, name=name, flavor=sys.modules[__name__], model=model, **options
    )


def load_model(model_uri: str, dst_path: str | None = None) -> LinearModel:
    """Load and check the model file of an MLflow model."""
    local = mlflow.artifacts.download_artifacts(artifact_uri=model_uri, dst_path=dst_path)
    return LinearModel.load(Path(local) / _FILE)


class _Pyfunc:
    """Model in the interface of ``mlflow.pyfunc``."""

    def __init__(self, model: LinearModel) -> None:
        self._scorer = Scorer(model)

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:  # noqa: ARG002
        """Return the scores of one list of rows. MLflow passes ``params``, which are not used."""
        return self._scorer.score(model_input)


def _load_pyfunc(path: str) -> _Pyfunc:
    return _Pyfunc(LinearModel.load(path))


def _write_environment(folder: Path, requirements: list[str]) -> None:
    """Write the three files in which MLflow looks for an environment."""
    python = ".".join(map(str, sys.version_info[:3]))
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    (folder / "python_env.yaml").write_text(
        f"python: {python}\nbuild_dependencies: []\ndependencies:\n- -r requirements.txt\n",
        encoding="utf-8",
    )
    listed = "".join(f"  - {line}\n" for line in requirements)
    (folder / "conda.yaml").write_text(
        f"name: rankine\nchannels:\n- conda-forge\ndependencies:\n- python={python}\n- pip\n"
        f"- pip:\n{listed}",
        encoding="utf-8",
    )
