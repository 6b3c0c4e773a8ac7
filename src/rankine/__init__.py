"""rankine: large-scale linear learning to rank.

Names are imported on first use, so that ``import rankine`` is fast and compiles nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rankine._version import __version__

if TYPE_CHECKING:
    from rankine import metrics, plot
    from rankine.data import Dataset
    from rankine.data.open import load, scan
    from rankine.evaluation.compare import compare
    from rankine.evaluation.cross_validation import cross_validate
    from rankine.model import LinearModel, ModelBundle
    from rankine.rankers.additive import AdditiveRanker
    from rankine.rankers.domination import DominationRanker
    from rankine.rankers.domination_path import domination_path
    from rankine.rankers.elastic import ElasticRanker
    from rankine.rankers.least_squares import LeastSquaresRanker
    from rankine.rankers.pairs import sample_pairs
    from rankine.rankers.ranksvm import RankSVM
    from rankine.rankers.spd import SPDRanker
    from rankine.rankers.topics import fit_topics
    from rankine.report.run import report
    from rankine.scoring import Scorer
    from rankine.tune.run import tune

#: Public name -> module that holds it (a module that is public itself maps to itself).
_PUBLIC = {
    "AdditiveRanker": "rankine.rankers.additive",
    "Dataset": "rankine.data",
    "DominationRanker": "rankine.rankers.domination",
    "ElasticRanker": "rankine.rankers.elastic",
    "LeastSquaresRanker": "rankine.rankers.least_squares",
    "LinearModel": "rankine.model",
    "ModelBundle": "rankine.model",
    "RankSVM": "rankine.rankers.ranksvm",
    "SPDRanker": "rankine.rankers.spd",
    "Scorer": "rankine.scoring",
    "compare": "rankine.evaluation.compare",
    "cross_validate": "rankine.evaluation.cross_validation",
    "domination_path": "rankine.rankers.domination_path",
    "fit_topics": "rankine.rankers.topics",
    "load": "rankine.data.open",
    "metrics": "rankine.metrics",
    "plot": "rankine.plot",
    "report": "rankine.report",
    "sample_pairs": "rankine.rankers.pairs",
    "scan": "rankine.data.open",
    "tune": "rankine.tune",
}

__all__ = [
    "AdditiveRanker",
    "Dataset",
    "DominationRanker",
    "ElasticRanker",
    "LeastSquaresRanker",
    "LinearModel",
    "ModelBundle",
    "RankSVM",
    "SPDRanker",
    "Scorer",
    "__version__",
    "compare",
    "cross_validate",
    "domination_path",
    "fit_topics",
    "load",
    "metrics",
    "plot",
    "report",
    "sample_pairs",
    "scan",
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
