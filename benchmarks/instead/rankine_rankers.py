"""rankine's rankers, as the worker calls them."""

from __future__ import annotations

import tempfile
from pathlib import Path

NAMES = {
    "rankine RankSVM": "RankSVM",
    "rankine SPD": "SPDRanker",
    "rankine least squares": "LeastSquaresRanker",
    "rankine ElasticRank": "ElasticRanker",
    "rankine domination": "DominationRanker",
    "rankine additive": "AdditiveRanker",
}


def learner(name):
    """Return the training function of one of rankine's rankers."""

    def learn(X, y, qid, setting):
        import rankine
        from rankine import Scorer

        kind = getattr(rankine, NAMES[name])
        parameters = {key: value for key, value in setting.items() if key != "seed"}
        if "n_threads" in kind().get_params():
            parameters["n_threads"] = 1
        ranker = kind(random_state=setting["seed"], **parameters).fit(X, y, qid=qid)
        model = ranker.to_model()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.rankine"
            model.save(path)
            size = path.stat().st_size
        if model.transforms and kind is not rankine.AdditiveRanker:
            return lambda rows: rows @ ranker.coef_, size
        return Scorer(model).score, size

    return learn


def warm(name, X, y, qid, setting):
    """Train once before it counts: compiled code is cached, as any later run finds it."""
    learner(name)(X, y, qid, setting)[0](X[:100])
