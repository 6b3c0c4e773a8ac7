"""rankine: learning to rank on large data, with linear and additive models.

Public names are imported on first use, so ``import rankine`` is fast and compiles nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankine._version import __version__
from rankine.core import errors
from rankine.core.errors import *  # noqa: F403 - all errors are public
from rankine.core.lazy_import import lazy_attributes

if TYPE_CHECKING:
    from rankine import distributed, logs, metrics, plot, tuning
    from rankine.data import Dataset
    from rankine.data.open import load, scan
    from rankine.data.splits import split_queries
    from rankine.evaluation.compare import compare
    from rankine.evaluation.cross_validation import cross_validate
    from rankine.evaluation.fusion import fuse
    from rankine.evaluation.pareto import pareto
    from rankine.logs.propensity import estimate_propensity
    from rankine.logs.simulation import shop_log
    from rankine.model import LinearModel, ModelBundle
    from rankine.rankers.additive import AdditiveRanker
    from rankine.rankers.domination import DominationRanker, domination_path
    from rankine.rankers.elastic import ElasticRanker
    from rankine.rankers.least_squares import LeastSquaresRanker
    from rankine.rankers.loaded import load_model
    from rankine.rankers.ranksvm import RankSVM
    from rankine.rankers.spd import SPDRanker
    from rankine.rankers.topics import fit_topics
    from rankine.reporting.run import report
    from rankine.reranking import Rules
    from rankine.samplers.pairs import sample_pairs
    from rankine.scoring import Scorer
    from rankine.tuning.run import tune

#: Public name -> module that defines it; a public module maps to its own name. The errors, which
#: cost nothing to import, are not listed here.
_PUBLIC = {
    "AdditiveRanker": "rankine.rankers.additive",
    "Dataset": "rankine.data",
    "DominationRanker": "rankine.rankers.domination",
    "ElasticRanker": "rankine.rankers.elastic",
    "LeastSquaresRanker": "rankine.rankers.least_squares",
    "LinearModel": "rankine.model",
    "ModelBundle": "rankine.model",
    "RankSVM": "rankine.rankers.ranksvm",
    "Rules": "rankine.reranking",
    "SPDRanker": "rankine.rankers.spd",
    "Scorer": "rankine.scoring",
    "compare": "rankine.evaluation.compare",
    "cross_validate": "rankine.evaluation.cross_validation",
    "distributed": "rankine.distributed",
    "domination_path": "rankine.rankers.domination",
    "estimate_propensity": "rankine.logs.propensity",
    "fit_topics": "rankine.rankers.topics",
    "fuse": "rankine.evaluation.fusion",
    "load": "rankine.data.open",
    "load_model": "rankine.rankers.loaded",
    "logs": "rankine.logs",
    "metrics": "rankine.metrics",
    "pareto": "rankine.evaluation.pareto",
    "plot": "rankine.plot",
    "report": "rankine.reporting.run",
    "sample_pairs": "rankine.samplers.pairs",
    "scan": "rankine.data.open",
    "shop_log": "rankine.logs.simulation",
    "split_queries": "rankine.data.splits",
    "tune": "rankine.tuning.run",
    "tuning": "rankine.tuning",
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
    "Rules",
    "SPDRanker",
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
    "load_model",
    "logs",
    "metrics",
    "pareto",
    "plot",
    "report",
    "sample_pairs",
    "scan",
    "shop_log",
    "split_queries",
    "tune",
    "tuning",
]
__all__ += errors.__all__

__getattr__ = lazy_attributes(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
