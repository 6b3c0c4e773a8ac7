"""Settings that the validation rows choose from: a few of each learner's most telling parameter.

The first two are what the quick size tries. Trees on a million hashed columns have one: they take
long.
"""

from __future__ import annotations

import itertools


def grid(name, values, **fixed):
    """Return the settings of one parameter."""
    return [{**fixed, name: value} for value in values]


TREE_RATES = (0.1, 0.3)
PASSES = [{"passes": passes, "rate": rate} for rate in (0.5, 0.1) for passes in (1, 10)]
OURS = {
    "rankine RankSVM": grid("l2", (2e-3, 2e-1, 2e-5), loss="squared_hinge"),
    "rankine SPD": grid("l2", (1e-3, 1e-2, 1e-4), n_steps=500_000),
    "rankine least squares": grid("l2", (2e-3, 2e-1, 2e-5)),
    "rankine ElasticRank": grid("eta0", (0.03, 0.1, 0.3), l1=0.0, l2=0.0),
    "rankine domination": grid("l1", (10.0, 100.0, 1.0)),
}
DENSE = {
    **OURS,
    "scikit-learn SGD on pairs": grid("alpha", (1e-3, 1e-4, 1e-2), pairs=500_000),
    "XGBoost trees": grid("eta", TREE_RATES, max_depth=6),
    "XGBoost gblinear": grid("eta", (0.1, 0.5)),
    "LightGBM lambdarank": grid("learning_rate", TREE_RATES, num_leaves=31),
    "Vowpal Wabbit": PASSES,
    "RLScore": grid("regparam", (1e2, 1.0, 1e4)),
    "dlib": grid("C", (10.0, 1000.0)),
}
SPARSE = {
    "rankine RankSVM": grid("l2", (2e-4, 2e-3, 2e-5), loss="squared_hinge"),
    "rankine SPD": grid("l2", (1e-5, 1e-4, 1e-3), n_steps=500_000),
    "rankine least squares": grid("l2", (2e-4, 2e-3, 2e-2)),
    "rankine ElasticRank": grid("eta0", (0.1, 0.2, 0.4), adaptive=True, l1=0.0, l2=0.0),
    "rankine domination": grid("l1", (10.0, 100.0, 1.0)),
    "scikit-learn SGD on pairs": grid("alpha", (1e-6, 1e-5, 1e-4), pairs=500_000),
    "XGBoost trees": grid("eta", TREE_RATES[1:], max_depth=6),
    "XGBoost gblinear": grid("eta", (0.1, 0.5)),
    "LightGBM lambdarank": grid("learning_rate", TREE_RATES[:1], num_leaves=31),
    "Vowpal Wabbit": PASSES,
    "RLScore": grid("regparam", (1.0, 1e2)),
    "dlib": grid("C", (10.0, 1000.0)),
}


def combined(**choices):
    """Return all settings of several parameters."""
    return [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())
    ]


#: Eight settings for everyone, on real sets; the usual ones come first.
EQUAL = {
    "rankine RankSVM": grid("l2", [2.0 * 10.0**k for k in (-3, -1, -5, -2, -4, 0, -6, 1)]),
    "rankine additive": combined(smooth=[1.0, 0.1, 0.3, 3.0], pairs=[0, 5]),
    "LightGBM lambdarank": combined(
        learning_rate=[0.1, 0.05], num_leaves=[31, 7], min_data_in_leaf=[20, 100]
    ),
    "XGBoost trees": combined(eta=[0.1, 0.05], max_depth=[6, 3], min_child_weight=[1, 20]),
    "CatBoost YetiRank": combined(learning_rate=[0.1, 0.05], depth=[6, 4], l2_leaf_reg=[1, 10]),
    "EBM": combined(interactions=[0, 5], learning_rate=[0.03, 0.01], max_leaves=[3, 2]),
}
