"""One Python file without dependencies: ``score(row)``, ``scores(rows)``, ``rank(rows, k)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankine.export.registry import Export, ExportOptions, register, require_features

if TYPE_CHECKING:
    from rankine.model import LinearModel

__all__: list[str] = []

_SCORE = '''

def score(row):
    """Score of one dictionary of features; an absent feature counts as 0, others are ignored."""
    return fsum(WEIGHTS[name] * value for name, value in row.items() if name in WEIGHTS)


def scores(rows):
    """Scores of a list of rows, in order."""
    return [score(row) for row in rows]
'''

_SCORE_LISTS = '''

def scores(rows):
    """Scores of one list of rows, in order: each feature is divided by its range in the list.

    An absent feature counts as 0; features that the model does not know are ignored.
    """
    halves = {}
    for name in WEIGHTS:
        column = [float(row.get(name, 0.0)) for row in rows]
        if column:
            halves[name] = max(column) * 0.5 - min(column) * 0.5
    return [
        fsum(
            WEIGHTS[name] * (value * 0.5 / halves[name])
            for name, value in row.items()
            if name in WEIGHTS and halves[name] > 0
        )
        for row in rows
    ]
'''

_RANK = '''

def rank(rows, k=None):
    """Positions of the rows, best first, at most k; equal scores keep their order."""
    found = scores(rows)
    return sorted(range(len(found)), key=lambda i: -found[i])[:k]
'''


@register("python")
def python(model: LinearModel, options: ExportOptions) -> Export:
    """Write the module; names are ASCII literals, whatever they hold."""
    require_features(model, "A Python file")
    lines = [
        f'"""Linear ranking model {options.versioned(model)}, {model.nnz} weights.',
        "",
        f"Exported by rankine from the model with digest {model.digest}.",
        '"""',
        "",
        "from math import fsum",
        "",
        "WEIGHTS = {",
        *(
            f"    {name!a}: {weight!r},"
            for name, weight in zip(model.weight_names, model.values.tolist(), strict=True)
        ),
        "}",
    ]
    body = _SCORE_LISTS if model.transforms else _SCORE
    return Export(("\n".join(lines) + "\n" + body + _RANK).encode("ascii"))
