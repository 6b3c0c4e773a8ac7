"""Other values of every parameter of every ranker, for tests over all parameters."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rankine import shop_log
from rankine.model.shapes import SHAPES
from rankine.rankers.registry import ranker_class

DATA = shop_log(30, random_state=2, list_length=6)
DATA = replace(DATA, position=np.arange(DATA.n_rows) % 6 + 1)
VALID = shop_log(15, random_state=3, list_length=6)

#: A required gap of 2 for each step between labels.
GRADES = np.arange(DATA.y.max() + 1)
MARGINS = 2.0 * np.maximum(GRADES[:, None] - GRADES, 0.0)

#: Parameters of the first fit.
START = {
    "spd": {"n_steps": 300},
    "ranksvm": {"l2": 0.1, "tol": 1e-5},
    "least-squares": {"l2": 0.1, "tol": 1e-9},
    "domination": {"l1": 1.0, "l2": 0.1, "tol": 1e-6},
    "elastic": {"n_passes": 8},
    "additive": {"smooth": 1.0, "pairs": 2, "bins": 8, "tol": 1e-7, "max_iter": 500},
}
#: Other values of the parameters of every ranker, each as changes to ``START``.
SHARED = {
    "metric": [{"metric": "map"}],
    "scale": [{"scale": value} for value in ("none", "standard", "maxabs", "query")],
    "missing": [{"missing": value} for value in ("zero", "mean", "query_min", "indicator")],
    "early_stopping": [{"early_stopping": 1}],
    "warm_start": [{"warm_start": True}],
    "random_state": [{"random_state": 7}],
    "propensity": [{"propensity": [1.0, 0.6, 0.3]}],
    "max_weight": [{"propensity": [1.0, 0.6, 0.1], "max_weight": 2.0}],
    "position_offset": [{"position_offset": 3}],
    "n_threads": [{"n_threads": 2}],
    "tol": [{"tol": 1e-3}],
    "max_iter": [{"max_iter": 400}, {"max_iter": 2}],
}
CHANGES = {
    "spd": {
        "solver": [{"solver": name} for name in ("sgd_svm", "passive_aggressive", "romma",
                   "logistic", "hybrid", "perceptron", "margin_perceptron")],
        "loss": [{"loss": "squared_hinge"}],
        "sampling": [{"sampling": name} for name in ("uniform", "indexed", "rejection")],
        "ties": [{"ties": "zero"}],
        "l2": [{"l2": 0.1}],
        "aggressiveness": [{"solver": "passive_aggressive", "aggressiveness": 0.1}],
        "schedule": [{"schedule": "inverse"}],
        "schedule_c": [{"schedule": "inverse", "schedule_c": 3.0}],
        "n_steps": [{"n_steps": 77}],
        "n_passes": [{"n_passes": 2}],
        "average": [{"average": False}],
        "norm_guard": [{"solver": "romma", "l2": 10.0, "norm_guard": False}],
        "margin": [{"solver": "margin_perceptron", "margin": 0.3}],
        # Both end alike unless the first phase leaves the ball that pegasos projects onto.
        "hybrid_second": [{"solver": "hybrid", "l2": 50.0, "aggressiveness": 1.0,
                           "hybrid_second": "sgd_svm"}],
        "hybrid_steps": [{"solver": "hybrid", "hybrid_steps": 11}],
        "record_at": [{"record_at": [100, 310]}],
        "max_trials": [{"sampling": "rejection", "max_trials": 50}],
        "buffer_rows": [{"buffer_rows": 50, "sampling": "reservoir"}],
    },
    "ranksvm": {
        "l2": [{"l2": 1.0}, {"l2": [1.0, 0.01]}],
        "C": [{"l2": 2e-3, "C": 20.0}],
        "loss": [{"loss": "squared_hinge"}, {"loss": "logistic"}],
        "solver": [{"solver": "bundle"}, {"solver": "newton"}],
        "normalization": [{"normalization": "pair"}, {"normalization": "sum"}],
        "positive": [{"positive": True}],
        "oracle": [{"oracle": "levels"}, {"oracle": "pairs"}],
    },
    "least-squares": {
        "l2": [{"l2": 1.0}, {"l2": [1.0, 0.01]}, {"l2": "auto"}],
        "solver": [{"solver": "egdm"}, {"solver": "gdm"}, {"solver": "sgd", "tol": 1e-2}],
        "normalization": [{"normalization": "pair"}, {"normalization": "sum"}],
        "pairs": [{"pairs": "untied"}],
        "curvature": [{"solver": "egdm", "curvature": "power"}],
        "eta": [{"solver": "gdm", "eta": 0.01}],
        "momentum": [{"solver": "gdm", "momentum": 0.5}],
        "n_passes": [{"solver": "sgd", "n_passes": 200, "tol": 1e-2}],
    },
    "domination": {
        "l1": [{"l1": 4.0}, {"l1": None}],
        "l2": [{"l2": 2.0}, {"l2": None}],
        "solver": [{"solver": "cd_plain", "tol": 1e-2}],
        "normalization": [{"normalization": "query"}],
        "margin": [{"margin": 1.0}],
        "margin_scale": [{"margin": 1.0, "margin_scale": 3.0}],
        "margin_table": [{"margin_table": MARGINS}],
        "curvature": [{"curvature": "paper"}],
        "order": [{"order": "random"}],
        "tol": [{"tol": 0.3}],
        "max_nonzero": [{"l1": None, "max_nonzero": 2}],
    },
    "elastic": {
        "solver": [{"solver": name} for name in ("fobos", "psgd", "tgd")],
        "loss": [{"loss": "hinge"}],
        "objective": [{"objective": name} for name in ("pairwise", "pointwise", "map")],
        "delta": [{"delta": "target"}],
        "eta0": [{"eta0": 0.5}],
        "step_factor": [{"step_factor": 0.5}],
        "power": [{"adaptive": False, "power": 0.3}],
        "adaptive": [{"adaptive": False}],
        "l1": [{"l1": 0.05}],
        "l2": [{"l2": 0.5}],
        "theta": [{"solver": "psgd", "theta": 0.1}],
        "prune_every": [{"solver": "psgd", "prune_every": 3}],
        "margin": [{"loss": "hinge", "margin": 0.3}],
        "n_passes": [{"n_passes": 5}],
        "batch_lists": [{"batch_lists": 4}],
        "shuffle_buffer": [{"shuffle_buffer": 9}],
        "max_nonzero": [{"max_nonzero": 3}],
    },
    "additive": {
        "bins": [{"bins": 4}, {"bins": 32}],
        "pairs": [{"pairs": 0}, {"pairs": 1}, {"pairs": 9}, {"pairs": [(0, 1)]}],
        "smooth": [{"smooth": 30.0}, {"smooth": None}],
        "pair_smooth": [{"pair_smooth": 50.0}],
        "anchor": [{"anchor": 100.0}],
        "loss": [{"loss": "logistic"}, {"loss": "softmax"}],
        "normalization": [{"normalization": "pair"}],
        "shapes": [{"shapes": {j: shape}} for j in range(3) for shape in SHAPES],
        "categorical": [{"categorical": [0]}],
        "linear": [{"linear": [0]}],
        "reweight": [{"reweight": 1}],
        "early_stopping": [{"smooth": None, "early_stopping": 1}],
    },
}  # fmt: skip
#: Rankers whose result is the certified optimum of a problem.
EXACT = ("ranksvm", "least-squares", "domination", "additive")


def make(name, **changes):
    return ranker_class(name)(**{"random_state": 0, **START[name], **changes})


def parameters_of(name):
    return [field.name for field in fields(ranker_class(name)) if field.init]


def changes_of(name, parameter):
    return CHANGES[name].get(parameter) or SHARED[parameter]


def fit(ranker, **options):
    """Fit to ``DATA``, with held-out rows where early stopping needs them."""
    if ranker.early_stopping is not None:
        options["eval_set"] = VALID
    with warnings.catch_warnings():
        # A coarse tol still has a certificate, which is compared below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ranker.fit(DATA, **options)
