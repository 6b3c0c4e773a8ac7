"""rankine: large-scale linear learning to rank.

Names are imported on first use, so that ``import rankine`` is fast and compiles nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rankine._version import __version__

if TYPE_CHECKING:
    from rankine import distributed, logs, metrics, plot
    from rankine.core.errors import (
        ChangedDataError,
        CheckpointError,
        ClusterError,
        CompressionError,
        DataError,
        DigestError,
        DivergenceError,
        EmptyDataError,
        ExportError,
        FeatureMismatchError,
        FileKindError,
        LabelError,
        LimitError,
        MissingExtraError,
        ModelError,
        ModelFormatError,
        ModelVersionError,
        NoPairsError,
        OverlapError,
        ParameterError,
        ParseError,
        QueryOrderError,
        RankineError,
        SchemaError,
    )
    from rankine.data import Dataset
    from rankine.data.open import load, scan
    from rankine.data.shop import shop_log
    from rankine.data.splits import split_queries
    from rankine.evaluation.compare import compare
    from rankine.evaluation.cross_validation import cross_validate
    from rankine.evaluation.fusion import fuse
    from rankine.logs.propensity import estimate_propensity
    from rankine.model import LinearModel, ModelBundle
    from rankine.rankers.additive import AdditiveRanker
    from rankine.rankers.domination import DominationRanker, domination_path
    from rankine.rankers.elastic import ElasticRanker
    from rankine.rankers.least_squares import LeastSquaresRanker
    from rankine.rankers.ranksvm import RankSVM
    from rankine.rankers.spd import SPDRanker
    from rankine.rankers.topics import fit_topics
    from rankine.report.run import report
    from rankine.samplers.pairs import sample_pairs
    from rankine.scoring import Scorer
    from rankine.tune.run import tune

#: Public name -> module that holds it (a module that is public itself maps to itself).
_PUBLIC = {
    "AdditiveRanker": "rankine.rankers.additive",
    "ChangedDataError": "rankine.core.errors",
    "CheckpointError": "rankine.core.errors",
    "ClusterError": "rankine.core.errors",
    "CompressionError": "rankine.core.errors",
    "DataError": "rankine.core.errors",
    "Dataset": "rankine.data",
    "DigestError": "rankine.core.errors",
    "DivergenceError": "rankine.core.errors",
    "DominationRanker": "rankine.rankers.domination",
    "ElasticRanker": "rankine.rankers.elastic",
    "EmptyDataError": "rankine.core.errors",
    "ExportError": "rankine.core.errors",
    "FeatureMismatchError": "rankine.core.errors",
    "FileKindError": "rankine.core.errors",
    "LabelError": "rankine.core.errors",
    "LeastSquaresRanker": "rankine.rankers.least_squares",
    "LimitError": "rankine.core.errors",
    "LinearModel": "rankine.model",
    "MissingExtraError": "rankine.core.errors",
    "ModelBundle": "rankine.model",
    "ModelError": "rankine.core.errors",
    "ModelFormatError": "rankine.core.errors",
    "ModelVersionError": "rankine.core.errors",
    "NoPairsError": "rankine.core.errors",
    "OverlapError": "rankine.core.errors",
    "ParameterError": "rankine.core.errors",
    "ParseError": "rankine.core.errors",
    "QueryOrderError": "rankine.core.errors",
    "RankSVM": "rankine.rankers.ranksvm",
    "RankineError": "rankine.core.errors",
    "SPDRanker": "rankine.rankers.spd",
    "SchemaError": "rankine.core.errors",
    "Scorer": "rankine.scoring",
    "compare": "rankine.evaluation.compare",
    "cross_validate": "rankine.evaluation.cross_validation",
    "distributed": "rankine.distributed",
    "domination_path": "rankine.rankers.domination",
    "estimate_propensity": "rankine.logs.propensity",
    "fit_topics": "rankine.rankers.topics",
    "fuse": "rankine.evaluation.fusion",
    "load": "rankine.data.open",
    "logs": "rankine.logs",
    "metrics": "rankine.metrics",
    "plot": "rankine.plot",
    "report": "rankine.report",
    "sample_pairs": "rankine.samplers.pairs",
    "scan": "rankine.data.open",
    "shop_log": "rankine.data.shop",
    "split_queries": "rankine.data.splits",
    "tune": "rankine.tune",
}

__all__ = [
    "AdditiveRanker",
    "ChangedDataError",
    "CheckpointError",
    "ClusterError",
    "CompressionError",
    "DataError",
    "Dataset",
    "DigestError",
    "DivergenceError",
    "DominationRanker",
    "ElasticRanker",
    "EmptyDataError",
    "ExportError",
    "FeatureMismatchError",
    "FileKindError",
    "LabelError",
    "LeastSquaresRanker",
    "LimitError",
    "LinearModel",
    "MissingExtraError",
    "ModelBundle",
    "ModelError",
    "ModelFormatError",
    "ModelVersionError",
    "NoPairsError",
    "OverlapError",
    "ParameterError",
    "ParseError",
    "QueryOrderError",
    "RankSVM",
    "RankineError",
    "SPDRanker",
    "SchemaError",
    "Scorer",
    "__version__",
    "compare",
    "cross_validate",
    "distributed",
    "domination_path",
    "estimate_propensity",
    "fit_topics",
    "fuse",
    "load",
    "logs",
    "metrics",
    "plot",
    "report",
    "sample_pairs",
    "scan",
    "shop_log",
    "split_queries",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'rankine' has no attribute {name!r}")
    module = importlib.import_module(_PUBLIC[name])
    value = module if _PUBLIC[name] == f"rankine.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
