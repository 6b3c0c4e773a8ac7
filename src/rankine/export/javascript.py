"""Export to JavaScript: one ES module without dependencies, for browsers and Node."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from rankine.export.features import refuse_fusion
from rankine.export.json import build_document
from rankine.export.registry import Export, ExportOptions, register
from rankine.model import LinearModel


@cache
def scorer_source() -> str:
    """Return the JavaScript function that makes a scorer of a model in the JSON format."""
    return files("rankine.export").joinpath("scorer.js").read_text(encoding="utf-8")


@register("javascript")
def export_javascript(model: LinearModel, options: ExportOptions) -> Export:
    """Write an ES module without dependencies: ``scores(rows)`` and ``rank(rows, k)``."""
    refuse_fusion(model, "A JavaScript module")
    # ASCII, so that the module does not depend on the encoding it is served with.
    document = json.dumps(build_document(model, options), allow_nan=False)
    text = (
        f"// Ranking model {options.versioned(model)}, exported by rankine from the model with\n"
        f"// digest {model.digest}.\n\n"
        f"const MODEL = {document};\n\n"
        f"{scorer_source()}\n"
        "export const { scores, rank } = rankineScorer(MODEL);\n"
    )
    return Export(text.encode("ascii"))
