"""Export to Java: one source file with one class, without dependencies."""

from __future__ import annotations

import json
from importlib.resources import files

from rankine.export.features import refuse_fusion
from rankine.export.json import build_document
from rankine.export.registry import Export, ExportOptions, register
from rankine.model import LinearModel

#: Characters per string constant, of which Java allows 65,535 bytes.
_CHUNK = 32_000


@register("java")
def export_java(model: LinearModel, options: ExportOptions) -> Export:
    """Write a Java class without dependencies: ``scores(rows)`` and ``rank(rows, k)``."""
    refuse_fusion(model, "A Java class")
    class_name = options.name[0].upper() + options.name[1:]
    document = json.dumps(build_document(model, options), allow_nan=False)
    chunks = [document[start : start + _CHUNK] for start in range(0, len(document), _CHUNK)]
    # ASCII text whose JSON form is also a literal of Java.
    literals = ",\n".join(f"        {json.dumps(chunk)}" for chunk in chunks)
    title = (
        f"Ranking model {options.versioned(model)}, exported by rankine from the model with digest "
        f"{model.digest}."
    )
    source = files("rankine.export").joinpath("scorer.java").read_text(encoding="utf-8")
    replacements = {"@TITLE@": title, "@CLASS@": class_name, "@MODEL@": literals}
    for place, text in replacements.items():
        source = source.replace(place, text)
    return Export(source.encode("ascii"), remark=f"Java needs the file name {class_name}.java")
