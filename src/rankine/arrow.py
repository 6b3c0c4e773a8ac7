"""Score Arrow record batches where they are: in Spark, Ray Data, Dask, DuckDB or Polars."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from rankine.core.errors import DataError, ParameterError, SchemaError
from rankine.data.dataset import Dataset
from rankine.data.frames import frame_batches
from rankine.data.readers.column_plan import SPARSE
from rankine.data.scan import Scan
from rankine.data.sources import Source, is_table
from rankine.kernels.sorting import list_ranks
from rankine.logs.schema import schema_of
from rankine.logs.source import LogScan, read_for
from rankine.model import LinearModel
from rankine.scoring import Scorer
from rankine.transforms.apply import score_dataset

__all__ = ["ArrowScorer", "scorer"]

#: Columns that are neither features nor kept unless they are named.
_ROLES = ("label", "docid", "weight", "position", "qid")


def scorer(
    model: LinearModel | str | Path, *, query: str | None = None, keep: Sequence[str] = ()
) -> ArrowScorer:
    """Return a function that scores Arrow record batches with a model.

    The function has the form that engines expect. It can be pickled, so that a cluster can send it
    to its workers. Scores have the bits of ``rankine predict``.

    Parameters
    ----------
    model
        A ``LinearModel``, or the path of a model file.
    query
        Column of query ids. The rows of a list must be together, and a list may continue in the
        next batch; the result then has a column ``rank``, 1 for the best row of each list. Default:
        the query column of a model of a raw log; every row on its own for other models.
    keep
        Columns to copy to the result; they may have any type.

    Returns
    -------
    ArrowScorer
        A function of batches. An iterator of record batches gives an iterator of record batches; a
        ``RecordBatchReader`` gives a ``RecordBatchReader``; a table or a frame gives a
        ``pyarrow.Table``. Columns are the query ids, the kept columns, ``score`` and ``rank``.

    Examples
    --------
    >>> import pyarrow as pa, rankine, rankine.arrow
    >>> model = rankine.LinearModel.from_weights([1.0, -2.0], ["bm25", "spam"])
    >>> score = rankine.arrow.scorer(model, query="search", keep=["sku"])
    >>> table = pa.table({"search": [7, 7, 8], "sku": ["a", "b", "c"],
    ...                   "bm25": [1.0, 3.0, 2.0], "spam": [0.0, 0.0, 1.0]})
    >>> score(table).to_pydict()  # doctest: +NORMALIZE_WHITESPACE
    {'search': [7, 7, 8], 'sku': ['a', 'b', 'c'], 'score': [1.0, 3.0, 0.0], 'rank': [2, 1, 1]}
    """
    if not isinstance(model, LinearModel):
        model = LinearModel.load(model)
    return ArrowScorer(model, query, tuple(keep))


class ArrowScorer:
    """Score record batches; see ``scorer``."""

    def __init__(self, model: LinearModel, query: str | None, keep: tuple[str, ...]) -> None:
        log = schema_of(model)
        if log is not None and query is None:
            query = log.query
        if model.history is not None:
            raise ParameterError(
                "the model reads history features, which depend on all earlier rows of a log",
                parameter="model",
                fix="Score the log with rankine predict, or rank with rankine serve --state",
            )
        # Batches of an engine end anywhere, so lists must be recognised by their ids.
        if query is None and Scorer(model).treats_lists_separately:
            raise ParameterError(
                "scores of this model depend on the other rows of the list",
                parameter="query",
                fix="Name the column of query ids",
            )
        self.__name__ = "score"  # engines name a step after its function
        self.model = model
        self.query = query
        self.keep = tuple(name for name in keep if name != query)
        self._columns = self.keep if query is None else (query, *self.keep)
        results = ("score",) if query is None else ("score", "rank")
        for k, name in enumerate(self.keep):
            if name in results or name in self.keep[:k]:
                reason = f"{name!r} is named twice"
                if name in results:
                    reason = f"{name!r} is a column of the result"
                raise ParameterError(reason, parameter="keep", fix="Rename it, or leave it out")

    def __call__(self, data: Any) -> Any:
        """Score an iterator of record batches, a ``RecordBatchReader``, a table or a frame."""
        if hasattr(data, "read_next_batch"):
            schema = self.schema(data.schema)
            return pa.RecordBatchReader.from_batches(schema, self._score(data.schema, data))
        if is_table(data) or hasattr(data, "iloc"):
            with frame_batches(data) as (schema, read):
                scored = self._score(schema, read(schema.names))
                return pa.Table.from_batches(scored, self.schema(schema))
        return self._score_iterator(data)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the result for batches of ``schema``."""
        fields = []
        for name in self._columns:
            if schema.get_field_index(name) < 0:
                parameter = "query" if name == self.query else "keep"
                raise SchemaError(
                    f"the batches have no column {name!r}, only {', '.join(schema.names[:12])}",
                    parameter=parameter,
                    fix="Name the right column",
                    column=name,
                )
            fields.append(schema.field(name))
        fields.append(pa.field("score", pa.float64(), nullable=False))
        if self.query is not None:
            fields.append(pa.field("rank", pa.int32(), nullable=False))
        return pa.schema(fields)

    def _score_iterator(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        iterator = iter(batches)
        first = next(iterator, None)
        # A partition of an engine may be empty.
        if first is not None:
            yield from self._score(first.schema, chain([first], iterator))

    def _score(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns of the result, batch by batch, without copying the kept columns."""
        result_schema = self.schema(schema)
        # Reading no rows finds what is wrong with the columns before any row is read.
        stream = self._open(schema)
        #: Batches of the kept columns whose rows are not scored yet.
        pending: deque[pa.RecordBatch] = deque()
        rows = (batch for batch in _check_batches(batches, schema) if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return

        failure: list[BaseException] = []

        def recorded() -> Iterator[pa.RecordBatch]:
            try:
                for batch in chain([first], rows):
                    pending.append(batch.select(list(self._columns)))
                    yield batch
            except BaseException as error:
                failure.append(error)
                raise

        # Arrow hides the class of an error in a reader; ``failure`` keeps the engine's own.
        reader = pa.RecordBatchReader.from_batches(schema, recorded())
        for block in self._blocks(stream, reader, failure):
            results = [score_dataset(self.model, block)]
            if self.query is not None:
                results.append(list_ranks(results[0], block.queries.starts))
            start = 0
            while start < block.n_rows:
                stop = min(start + pending[0].num_rows, block.n_rows)
                # Blocks end with a list and batches anywhere: a batch may belong to two blocks.
                part = pending.popleft()
                if part.num_rows > stop - start:
                    pending.appendleft(part.slice(stop - start))
                    part = part.slice(0, stop - start)
                columns = [*part.columns, *(pa.array(values[start:stop]) for values in results)]
                yield pa.RecordBatch.from_arrays(columns, schema=result_schema)
                start = stop

    def _open(self, schema: pa.Schema) -> Scan | LogScan:
        """Open a table of these columns without rows, as the model reads them."""
        options: dict[str, Any] = {}
        if schema_of(self.model) is None:
            options = dict.fromkeys(("label", "docid", "weight", "position"))
            options["features"] = self._features(schema)
            if options["features"] == SPARSE:
                options["n_features"] = self.model.n_columns
        stream: Scan | LogScan = read_for(
            self.model, schema.empty_table(), stream=True, query=self.query, **options
        )
        return stream

    def _features(self, schema: pa.Schema) -> tuple[str, ...]:
        """Return the columns of features."""
        names = self.model.column_names
        has_names = names is not None and set(names) <= set(schema.names)
        # A model may have features called indices and values, which then are columns.
        if set(SPARSE) <= set(schema.names) and not has_names:
            return SPARSE
        if names is not None:
            return names
        others = {*_ROLES, *self._columns}
        names = tuple(name for name in schema.names if name not in others)
        if len(names) != self.model.n_columns:
            raise SchemaError(
                f"the batches have {len(names)} columns that are neither the query nor kept, and "
                f"the model reads {self.model.n_columns} features without names",
                parameter="keep",
                fix="Keep the other columns, or name the features: model.renamed([...])",
            )
        return names

    def _blocks(
        self, stream: Scan | LogScan, reader: pa.RecordBatchReader, failure: list[BaseException]
    ) -> Iterator[Dataset]:
        """Yield blocks of whole lists, or of any rows if there are no lists.

        An error of the engine, which ``failure`` then holds, is raised unchanged.
        """
        raw: Any = stream
        if isinstance(stream, LogScan):
            raw = stream.raw
        source = Source("<record batches>", table=reader)
        scan = Scan([source], raw.options, raw.n_features, raw.feature_names)
        blocks = scan.blocks() if self.query is not None else scan.raw_blocks()
        if isinstance(stream, LogScan):
            blocks = map(stream.log_encoding().encode, blocks)
        try:
            yield from blocks
        except DataError:
            if failure:
                raise failure[0] from None
            raise


def _check_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield batches; refuse one whose columns differ from the first one's."""
    for k, batch in enumerate(batches):
        if not batch.schema.equals(schema):
            raise SchemaError(
                f"batch {k} has other columns or types than the first",
                fix="Cast the columns to one type before scoring",
            )
        yield batch
