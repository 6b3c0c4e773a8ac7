"""Replace MLflow by the few functions that rankine's flavour calls, with files as storage.

It keeps a model as ``MLmodel`` (JSON), and scores it by the loader module that the model names.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace


class Model:
    """The content of an MLmodel file."""

    runs: Path

    def __init__(self, **held):
        self.flavors = held.get("flavors", {})
        self.metadata = held.get("metadata")
        self.signature = held.get("signature")

    def add_flavor(self, name, **options):
        self.flavors[name] = options

    def save(self, path):
        Path(path).write_text(json.dumps(vars(self)), encoding="utf-8")

    @classmethod
    def load(cls, folder):
        return cls(**json.loads((Path(folder) / "MLmodel").read_text(encoding="utf-8")))

    @classmethod
    def log(cls, artifact_path, name, flavor, model, **options):
        assert artifact_path is None
        folder = cls.runs / name
        flavor.save_model(model, str(folder), mlflow_model=cls(), **options)
        return SimpleNamespace(model_uri=str(folder))


def add_to_model(model, loader_module, **files):
    model.add_flavor("python_function", loader_module=loader_module, **files)


def load_pyfunc(folder):
    held = Model.load(folder).flavors["python_function"]
    for file in (held["conda_env"], held["python_env"]):
        assert (Path(folder) / file).is_file()
    return importlib.import_module(held["loader_module"])._load_pyfunc(f"{folder}/{held['data']}")


def save_example(model, example, folder):
    example.to_json(Path(folder) / "input_example.json")


def download(artifact_uri, dst_path=None):
    return artifact_uri if dst_path is None else shutil.copytree(artifact_uri, dst_path)


def install(monkeypatch, runs):
    """Replace ``mlflow`` until the test ends; models are logged in ``runs``."""
    Model.runs = runs
    parts = {
        "mlflow": {"start_run": nullcontext, "log_metric": lambda name, value: None},
        "mlflow.artifacts": {"download_artifacts": download},
        "mlflow.models": {"Model": Model},
        "mlflow.models.utils": {"_save_example": save_example},
        "mlflow.pyfunc": {"add_to_model": add_to_model, "load_model": load_pyfunc},
    }
    for name, held in parts.items():
        module = ModuleType(name)
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, name, module)
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, module)
