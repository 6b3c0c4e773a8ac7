"""``rankine certify``: prove that scores rise or fall with columns as wanted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_tables
from rankine.cli._options import AsJson, ModelFile
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.model.shapes import ShapeProof

#: Exit code if a shape does not hold.
VIOLATED = 3

_EPILOG = """
[bold]Examples[/bold]

  rankine certify model.rankine

  rankine certify model.rankine --shape price=decreasing --shape rating=increasing

  rankine certify model.rankine --out certified.rankine && deploy certified.rankine
"""


@app.command(epilog=_EPILOG)
def certify(
    model: ModelFile,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            help="Prove that the effect of a column is increasing, decreasing, convex or concave, "
            "price=decreasing; repeatable (default: the shapes that the model was trained with).",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", help="If all shapes hold, write the model with the proofs to this file."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Prove over all cells of an additive model that scores have the wanted shapes.

    Pairs are included. The exit code is 3 if a shape does not hold, and the cell that violates
    it the most is named.
    """
    import rankine
    from rankine.model.shapes import certify

    check_output_paths(out=out)
    linear_model = rankine.LinearModel.load(model)
    shapes = parse_shapes(shape) if shape else None
    proofs = certify(linear_model, shapes)
    all_hold = all(proof.holds for proof in proofs)
    records = [proof.to_dict() for proof in proofs]
    written: dict[str, str | None] = {"out": None, "digest": None}
    if all_hold and out is not None:
        provenance = {**linear_model.provenance, "shapes": records}
        certified = replace(linear_model, provenance=provenance)
        certified.save(out)
        written = {"out": out, "digest": certified.digest}
    if json:
        _console.print_json({"model": model, "holds": all_hold, "proofs": records, **written})
    else:
        _print(proofs, written)
    if not all_hold:
        raise typer.Exit(VIOLATED)


def _print(proofs: list[ShapeProof], written: dict[str, str | None]) -> None:
    from rankine.evaluation.tables import Table

    rows = []
    for proof in proofs:
        result = "holds" if proof.holds else "violated"
        rows.append((proof.column, proof.shape, result, f"{proof.n_cells:,}"))
    print_tables([Table("", ("column", "shape", "result", "cells"), rows)])
    for proof in proofs:
        if not proof.holds:
            _console.print_result(
                f"{proof.column} is not {proof.shape}: {proof.change:.3g} {proof.cell}"
            )
    if written["digest"] is not None:
        _console.print_status(f"wrote {written['out']}, digest {written['digest'][:12]}")


def parse_shapes(texts: list[str]) -> dict[str, str]:
    """Parse ``["price=decreasing"]`` to a mapping from columns to shapes."""
    shapes = {}
    for text in texts:
        # A column's name may contain =, a shape's does not.
        column, equals, name = text.rpartition("=")
        if not equals or not column.strip():
            raise ParameterError(
                f"{text!r} is not column=shape",
                parameter="shape",
                fix="Write --shape price=decreasing",
            )
        shapes[column.strip()] = name.strip()
    return shapes
