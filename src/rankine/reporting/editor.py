"""The page on which curves of a model are edited: what it shows, and what its buttons do."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from markupsafe import Markup

from rankine._version import __version__
from rankine.core.edits import FixedEntry
from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset
from rankine.evaluation.compare import compare_systems
from rankine.evaluation.systems import load_systems
from rankine.metrics import parse_metric
from rankine.model import LinearModel
from rankine.model.edits import edits_of, fixed_cells
from rankine.model.tables import Tables, find_tables
from rankine.reporting.html import environment

#: Queries whose change is shown, and items of each list.
N_QUERIES, DEPTH = 5, 5
#: Suffix of the files that the page writes.
SUFFIX = ".rankine"
#: Smaller differences of a metric come from sums in another order.
SMALLEST_LOSS = 1e-12
_N_RESAMPLES = 200


class CellEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cell of a column's curve and its value; None frees the cell."""

    column: int
    cell: int
    value: float | None


class EditSession:
    """A model that a person edits: its curves, the last solution and what it changed.

    Parameters
    ----------
    model
        Model of an additive ranker.
    make_ranker
        Returns a ranker with the settings of the model.
    train, held_out
        Rows to learn from, and rows on which the metric is shown; None: those to learn from.
    out
        File name that the page proposes. It may exist already.
    """

    def __init__(
        self,
        model: LinearModel,
        make_ranker: Callable[[], Any],
        train: Dataset,
        held_out: Dataset | None,
        out: str | None = None,
    ) -> None:
        tables = find_tables(model)
        if tables is None:
            raise ParameterError(
                "the model has no curves", parameter="model", fix="Train with --ranker additive"
            )
        self.model = model
        self.out = out
        self._make_ranker = make_ranker
        self._train, self._held_out = train, held_out
        self._tables = tables
        self._fixed = fixed_cells(edits_of(model.provenance), tables)
        #: What was solved last: the cells that were changed, and the ranker.
        self._solved: tuple[tuple[CellEdit, ...], Any] | None = None

    def state(self) -> dict[str, Any]:
        """Return the curves of the model, largest range first, and what else the page shows."""
        tables = self._tables
        curves = [
            self._curve(tables, term.columns[0]) for term in tables.terms if len(term.columns) == 1
        ]
        judged = self._train if self._held_out is None else self._held_out
        return {
            "digest": self.model.digest[:12],
            "metric": self.model.metric or "ndcg@10",
            "lists": judged.n_queries,
            "held_out": self._held_out is not None,
            "out": self.out or "",
            "curves": sorted(curves, key=lambda curve: -curve["range"]),
        }

    def _curve(self, tables: Tables, j: int) -> dict[str, Any]:
        start = sum(tables.bins.n_cells[:j])
        cells = range(tables.bins.n_cells[j])
        values = [float(tables.weights[start + cell]) for cell in cells]
        shapes = self.model.parameters.get("shapes") or {}
        name = tables.column_name(j)
        return {
            "column": j,
            "name": name,
            "ordered": j not in tables.bins.unordered,
            "shape": shapes.get(name) or shapes.get(str(j)),
            "paired": j in tables.axis_cells,
            "labels": [tables.cell_label(j, cell) for cell in cells],
            "values": values,
            "fixed": [start + cell in self._fixed for cell in cells],
            "range": max(values) - min(values),
        }

    def solve(self, cells: Sequence[CellEdit]) -> dict[str, Any]:
        """Solve with changed cells; return the curves and what changes."""
        ranker = self._edit(cells)
        self._solved = (tuple(cells), ranker)
        model = self._edited_model(ranker)
        after = find_tables(model)
        assert after is not None  # noqa: S101 - it is the same kind of model
        record = ranker.edits_[-1]
        return {
            "curves": {
                str(term.columns[0]): term.values.tolist()
                for term in after.terms
                if len(term.columns) == 1
            },
            **{name: record.get(name) for name in ("objective_before", "objective_after", "gap")},
            **self._effect(model),
        }

    def save(self, cells: Sequence[CellEdit], out: str, by: str, note: str) -> dict[str, Any]:
        """Write the model with changed cells to a named file."""
        path = self._output_path(out)
        names = {"by": by.strip() or None, "note": note.strip() or None}
        if self._solved is None or self._solved[0] != tuple(cells):
            raise ParameterError(
                "the entries have changed since they were solved", fix="Solve again, then save"
            )
        ranker = self._solved[1]
        model = self._edited_model(ranker)
        edits = [*model.provenance["edits"]]
        edits[-1] = {**edits[-1], **{name: text for name, text in names.items() if text}}
        model = replace(model, provenance={**model.provenance, "edits": edits})
        model.save(path)
        return {"out": str(path), "digest": model.digest}

    def _edit(self, cells: Sequence[CellEdit]) -> Any:
        ranker = self._make_ranker()
        eval_set = {} if self._held_out is None else {"eval_set": self._held_out}
        return ranker.edit(self._entries(cells), self._train, coef_init=self.model, **eval_set)

    def _edited_model(self, ranker: Any) -> LinearModel:
        model: LinearModel = replace(ranker.to_model(), base=self.model.base)
        return model

    def _entries(self, cells: Sequence[CellEdit]) -> list[FixedEntry]:
        """Return entries of the changed cells; neighbours of equal value become one range."""
        n_cells = self._tables.bins.n_cells
        for edit in cells:
            if not (0 <= edit.column < len(n_cells) and 0 <= edit.cell < n_cells[edit.column]):
                raise ParameterError(
                    f"the model has no cell {edit.cell} of column {edit.column}",
                    fix="Reload the page",
                )
        entries: list[FixedEntry] = []
        ordered = sorted(cells, key=lambda edit: (edit.column, edit.cell))
        first = 0
        for k, edit in enumerate(ordered):
            following = ordered[k + 1] if k + 1 < len(ordered) else None
            if following is not None and self._continues(edit, following):
                continue
            entries.append(self._entry(ordered[first], edit))
            first = k + 1
        return entries

    def _continues(self, edit: CellEdit, following: CellEdit) -> bool:
        """Return whether the next changed cell extends the range of this one."""
        bins = self._tables.bins
        return (
            edit.column not in bins.unordered
            and following == CellEdit(edit.column, edit.cell + 1, edit.value)
            and following.cell <= len(bins.cuts[edit.column])
        )

    def _entry(self, first: CellEdit, last: CellEdit) -> FixedEntry:
        """Return the entry from one cell of a column to another."""
        tables, j = self._tables, first.column
        cuts = tables.bins.cuts[j]
        fields: dict[str, Any] = {"column": j, "value": first.value, "free": first.value is None}
        if first.cell == len(cuts) + 1:
            fields["missing"] = True
        elif j not in tables.bins.unordered:
            fields["from"] = cuts[first.cell - 1] if first.cell > 0 else None
            fields["to"] = cuts[last.cell] if last.cell < len(cuts) else None
        elif first.cell == len(cuts):
            fields["other"] = True
        else:
            number = cuts[first.cell]
            fields["category"] = tables.texts[j][int(number)] if j in tables.texts else number
        return msgspec.convert(fields, FixedEntry)

    def _effect(self, model: LinearModel) -> dict[str, Any]:
        """Return the metric before and after, and the queries that lose most."""
        judged = self._train if self._held_out is None else self._held_out
        metric = parse_metric(self.model.metric or "ndcg@10")
        systems = load_systems({"before": self.model, "after": model}, judged)
        comparison = compare_systems(
            systems,
            metric,
            confidence=0.95,
            margin=0.01,
            n_resamples=_N_RESAMPLES,
            random_state=0,
            n_changed=0,
            depth=DEPTH,
        )
        before, after = comparison.values.T
        gain = metric.sign * (after - before)
        (pair,) = comparison.pairs
        means = {system.name: system.mean for system in comparison.systems}
        position = {query: k for k, query in enumerate(systems[0].queries.ids.tolist())}
        worst = [
            k for k in np.argsort(gain, kind="stable")[:N_QUERIES].tolist() if gain[k] < -1e-12
        ]
        queries = []
        for k in worst:
            query = comparison.ids.tolist()[k]
            lists = {
                name: [
                    {"item": str(item["doc"]), "label": float(item["label"])}
                    for item in system.ranking(position[query], DEPTH)
                ]
                for name, system in zip(("before", "after"), systems, strict=True)
            }
            queries.append(
                {
                    "query": str(query),
                    "text": systems[0].text(position[query]),
                    "value_before": float(before[k]),
                    "value_after": float(after[k]),
                    **lists,
                }
            )
        return {
            "metric_before": means["before"],
            "metric_after": means["after"],
            "low": pair.low,
            "high": pair.high,
            "better": pair.wins,
            "worse": pair.losses,
            "queries": queries,
        }

    def _output_path(self, out: str) -> Path:
        """Return the file to write; refuse everything but a new model file and ``out`` itself."""
        path = Path(out)
        if "\0" in out or not out.endswith(SUFFIX) or path.name == SUFFIX:
            raise ParameterError(
                f"{out!r} is not the name of a model file", fix=f"Name a file that ends in {SUFFIX}"
            )
        if path.is_symlink():
            raise ParameterError(f"{out} is a link", fix="Name another file")
        if path.exists() and (out != self.out or not path.is_file()):
            raise ParameterError(f"{out} exists already", fix="Name another file")
        if not os.access(path.absolute().parent, os.W_OK):
            raise ParameterError(
                f"{path.absolute().parent} is not a folder that can be written to",
                fix="Name another file",
            )
        return path


@cache
def editor_page() -> tuple[bytes, str]:
    """Return the page, which holds no data, and its content security policy."""
    read = {
        name: files("rankine.reporting").joinpath(f"templates/{name}").read_text(encoding="utf-8")
        for name in ("style.css", "editor.css", "editor.js")
    }
    style = f"\n{read['style.css']}{read['editor.css']}"
    script = f"\n{read['editor.js']}"
    html = environment.get_template("editor.html").render(
        style=Markup(style),  # noqa: S704 - files of this package
        script=Markup(script),  # noqa: S704
        version=__version__,
    )
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return html.encode(), policy


def _source(text: str) -> str:
    """Return the source expression that allows one inline element."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def read_cells(request: Mapping[str, Any]) -> tuple[CellEdit, ...]:
    """Return the changed cells of a request, each once."""
    try:
        cells = msgspec.convert(request.get("cells"), tuple[CellEdit, ...], strict=True)
    except msgspec.ValidationError as error:
        raise ParameterError(f"cells: {error}", fix="Reload the page") from error
    if not cells or len({(edit.column, edit.cell) for edit in cells}) != len(cells):
        raise ParameterError(
            "no cell is changed, or one is changed twice", fix="Change at least one"
        )
    return cells
