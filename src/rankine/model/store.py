"""Convert models to file content and back, and check the content."""

from __future__ import annotations

import io
import os
import stat
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.atomic import atomic_file
from rankine.core.errors import ModelError, ModelFormatError, attach_file_to_errors
from rankine.core.pipes import open_without_waiting
from rankine.core.specs import OutcomeCalibration, decode_transforms, encode_transforms
from rankine.core.stores import is_url, open_store
from rankine.core.strict_json import canonical_json
from rankine.model.bundle import ModelBundle
from rankine.model.container import check_start, pack, unpack
from rankine.model.covariance import CovarianceRecord, WeightCovariance
from rankine.model.linear import LinearModel
from rankine.model.training_state import TrainingState
from rankine.model.weights import MAX_PROBES, PackedNames, Probes, StoredModel

#: Number of first bytes that identify a model file.
START_BYTES = 64
#: Arrays of a ``TrainingState`` and their types; their tensors are called ``state_rows`` ...
_STATE_TENSORS = {
    "rows": np.int64,
    "values": np.float64,
    "factors": np.float64,
    "clock": np.float64,
}

M = TypeVar("M", bound=StoredModel)


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON document in the header of a model or bundle."""

    kind: str
    n_features: int
    base: int
    metric: str | None
    parameters: dict[str, Any]
    provenance: dict[str, Any]
    transforms: list[Any]
    probes: Any
    #: Absent in models without them, so that the digests of such models never change.
    calibration: OutcomeCalibration | msgspec.UnsetType = msgspec.UNSET
    covariance: CovarianceRecord | msgspec.UnsetType = msgspec.UNSET


def describe(model: LinearModel | ModelBundle) -> dict[str, Any]:
    """Return the JSON document of a model."""
    model_kind, probes = "bundle", None
    calibration: OutcomeCalibration | msgspec.UnsetType = msgspec.UNSET
    covariance: CovarianceRecord | msgspec.UnsetType = msgspec.UNSET
    if isinstance(model, LinearModel):
        model_kind, probes = "linear", msgspec.to_builtins(model.probes)
        if model.calibration is not None:
            calibration = model.calibration
        if model.covariance is not None:
            covariance = model.covariance.record
    document = Document(
        model_kind,
        model.n_features,
        model.base,
        model.metric,
        dict(model.parameters),
        dict(model.provenance),
        encode_transforms(model.transforms),
        probes,
        calibration,
        covariance,
    )
    builtins: dict[str, Any] = msgspec.to_builtins(document)
    return builtins


def encode(model: LinearModel | ModelBundle) -> tuple[list[Any], str]:
    """Return the parts of a model's file, in order, and its digest."""
    tensors: dict[str, NDArray[Any]] = {"indices": model.indices}
    if isinstance(model, LinearModel):
        tensors["values"] = model.values
        if model.state is not None:
            tensors |= {f"state_{name}": getattr(model.state, name) for name in _STATE_TENSORS}
        if model.covariance is not None:
            tensors["covariance_rows"] = model.covariance.rows
            tensors["covariance_factor"] = model.covariance.factor
    else:
        tensors["values"], tensors["starts"] = model.weights, model.starts
        tensors["topic_ends"], tensors["topics"] = model.topics.ends, model.topics.text
    if model.names is not None:
        tensors["name_ends"], tensors["names"] = model.names.ends, model.names.text
    return pack(describe(model), tensors)


def save(model: LinearModel | ModelBundle, path: str | os.PathLike[str]) -> None:
    """Write a model file atomically."""
    parts, _ = encode(model)
    with atomic_file(path) as file:
        for part in parts:
            file.write(part)


def load(path: str | os.PathLike[str], kind: type[M]) -> M:
    """Read a file that contains a model of this class (``StoredModel``: a model or a bundle)."""
    with attach_file_to_errors(os.fspath(path)), _open(path) as file:
        return decode(read_model_bytes(file), kind)


def _open(path: str | os.PathLike[str]) -> io.RawIOBase:
    """Open a file, or the object of a URL, unbuffered: a buffer would copy the content again."""
    if is_url(path):
        store, name = open_store(os.fspath(path))
        return store.open(name)
    return open(path, "rb", buffering=0, opener=open_without_waiting)


def load_any(path: str | os.PathLike[str]) -> LinearModel | ModelBundle:
    """Read a file that contains a model or a bundle."""
    return load(path, StoredModel)  # type: ignore[return-value]


def read_model_bytes(file: io.RawIOBase, max_bytes: int | None = None) -> bytes:
    """Read a model file. Other files are refused after their first bytes."""
    if isinstance(file, io.FileIO) and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise ModelFormatError("not a regular file", fix="Pass the path of a model file")
    size = file.seek(0, io.SEEK_END)
    if max_bytes is not None and size > max_bytes:
        raise ModelFormatError(f"the file is larger than {max_bytes} bytes", fix="Split the bundle")
    file.seek(0)
    check_start(file.read(START_BYTES) or b"", size)
    file.seek(0)
    return file.readall() or b""


def decode(data: bytes, kind: type[M]) -> M:
    """Return the model of this class that a file's content describes."""
    model = decode_any(data)
    if isinstance(model, kind):
        return model
    if isinstance(model, LinearModel):
        raise ModelFormatError("this is a single model", fix="Load it with LinearModel.load")
    raise ModelFormatError(
        f"this is a bundle of {len(model)} models", fix="Load it with ModelBundle.load"
    )


def decode_any(data: bytes) -> LinearModel | ModelBundle:
    """Return the model or bundle that a file's content describes."""
    content = unpack(data)
    try:
        document = msgspec.convert(content.document, Document, strict=True)
        if document.kind == "linear":
            model: LinearModel | ModelBundle = _linear(document, content.tensors)
        elif document.kind == "bundle":
            model = _bundle(document, content.tensors)
        else:
            raise ModelFormatError(f"unknown model kind {document.kind[:40]!r}")
    except msgspec.ValidationError as error:
        raise ModelFormatError(
            f"malformed model document: {error}", fix="The file was not written by rankine"
        ) from error
    except ModelFormatError:
        raise
    except ModelError as error:
        raise ModelFormatError(error.reason, fix=error.fix) from error
    # If the model describes itself by the same document, saving it again gives the same file, and
    # the digest of the file is that of the model.
    if canonical_json(describe(model)) != canonical_json(content.document):
        raise ModelFormatError("the model document is not in canonical form")
    # The digest is known: without this it would be computed again on first use.
    model.__dict__["digest"] = content.digest
    return model


def _shared_fields(document: Document) -> tuple[Any, str | None, Any, Any, int]:
    """Return the fields that models and bundles share, in the order of their constructors."""
    return (
        decode_transforms(document.transforms),
        document.metric,
        document.parameters,
        document.provenance,
        document.base,
    )


def _linear(document: Document, tensors: dict[str, NDArray[Any]]) -> LinearModel:
    expected: dict[str, Any] = {"indices": np.int64, "values": np.float64}
    state = None
    if "state_rows" in tensors:
        expected |= {f"state_{name}": dtype for name, dtype in _STATE_TENSORS.items()}
    covariance = None
    if document.covariance is not msgspec.UNSET:
        expected |= {"covariance_rows": np.int64, "covariance_factor": np.float64}
    _check_tensors(tensors, expected)
    if document.covariance is not msgspec.UNSET:
        covariance = WeightCovariance(
            tensors["covariance_rows"], tensors["covariance_factor"], document.covariance
        )
    if "state_rows" in tensors:
        state = TrainingState(**{name: tensors[f"state_{name}"] for name in _STATE_TENSORS})
    probes = None if document.probes is None else _probes(document)
    return LinearModel(
        document.n_features,
        tensors["indices"],
        tensors["values"],
        *_shared_fields(document),
        probes,
        _names(tensors),
        state,
        None if document.calibration is msgspec.UNSET else document.calibration,
        covariance,
    )


def _bundle(document: Document, tensors: dict[str, NDArray[Any]]) -> ModelBundle:
    _check_tensors(
        tensors,
        {
            "indices": np.int64,
            "values": np.float64,
            "starts": np.int64,
            "topics": np.uint8,
            "topic_ends": np.int64,
        },
    )
    return ModelBundle(
        PackedNames(tensors["topics"], tensors["topic_ends"]),
        document.n_features,
        tensors["starts"],
        tensors["indices"],
        tensors["values"],
        *_shared_fields(document),
        _names(tensors),
    )


def _check_tensors(tensors: dict[str, NDArray[Any]], expected: dict[str, Any]) -> None:
    """Check that exactly these tensors exist, with or without names, each of its type."""
    # Names are optional; all other tensors are required.
    if "names" in tensors:
        expected = {**expected, "names": np.uint8, "name_ends": np.int64}
    if set(tensors) != set(expected):
        raise ModelFormatError(f"tensors are {sorted(tensors)}, expected {sorted(expected)}")
    for name, dtype in expected.items():
        if tensors[name].dtype != dtype:
            raise ModelFormatError(f"tensor {name!r} has type {tensors[name].dtype}")


def _names(tensors: dict[str, NDArray[Any]]) -> PackedNames | None:
    if "names" not in tensors:
        return None
    return PackedNames(tensors["names"], tensors["name_ends"])


def _probes(document: Document) -> Probes:
    probes = msgspec.convert(document.probes, Probes, strict=True)
    if len(probes.rows) != len(probes.scores) or not 0 < len(probes.rows) <= MAX_PROBES:
        raise ModelFormatError(f"probes must be 1 to {MAX_PROBES} rows with a score each")
    for probe in probes.rows:
        indices = probe.indices
        in_range = all(0 <= j < document.n_features for j in indices)
        increasing = all(a < b for a, b in zip(indices[:-1], indices[1:], strict=True))
        if len(indices) != len(probe.values) or not in_range or not increasing:
            raise ModelFormatError("a probe's positions are out of range or out of order")
    return probes
