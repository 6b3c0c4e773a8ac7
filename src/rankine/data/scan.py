"""Files as a re-iterable stream of query-aligned blocks."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from rankine.core.errors import EmptyDataError, FileKindError, ParameterError, SchemaError
from rankine.data.align import QueryGuard, align
from rankine.data.fingerprint import fingerprint
from rankine.data.formats import choose_format, reader_of
from rankine.data.side_files import SideData

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rankine.data.dataset import Dataset
    from rankine.data.formats import Format
    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = ["Scan"]


class Scan:
    """A data set read block by block, as often as needed, in memory that does not grow with it.

    Iterating yields ``Dataset`` blocks of about ``block_rows`` rows that never cut a query. A file
    that changed since the first pass is a ChangedDataError.

    Attributes
    ----------
    sources
        Names of the files.
    n_features
        Width of every block. When it was not given it is found by a first pass.
    """

    def __init__(self, sources: list[Source], options: ReadOptions) -> None:
        self._sources = sources
        self.options = options
        self.sources = tuple(source.name for source in sources)

    @cached_property
    def n_features(self) -> int:
        """Width of every block."""
        if self.options.n_features is not None:
            return self.options.n_features
        once = next((s for s in self._sources if not s.rereadable), None)
        if once is not None:
            raise ParameterError(
                f"{once.name} can be read only once, so its width cannot be found beforehand",
                fix="Pass n_features",
            )
        return max(int(self._reader(s).measure(s, self.options)) for s in self._sources)

    @cached_property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features: as given, else as the first file says, else None."""
        if self.options.feature_names is not None:
            return tuple(cast("Sequence[str]", self.options.feature_names))
        first = self._sources[0]
        find = getattr(self._reader(first), "feature_names", None)
        return find(first, self.options) if find is not None and first.rereadable else None

    def blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """One pass over the files in query-aligned blocks."""
        options = replace(self.options, block_rows=block_rows or self.options.block_rows)
        guard = QueryGuard(options.max_queries) if options.has_query_ids else None
        n_rows = 0
        for block in align(self.raw_blocks(block_rows), options, guard):
            n_rows += block.n_rows
            yield block
        if n_rows == 0:
            raise EmptyDataError("no rows in " + ", ".join(self.sources[:3]), fix="Check the path")

    def raw_blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """One pass in blocks as the readers make them: queries may be cut and may come back."""
        options = replace(
            self.options,
            n_features=self.n_features,
            block_rows=block_rows or self.options.block_rows,
        )
        side = SideData(options)
        for source in self._sources:
            for block in self._reader(source).read_blocks(source, options):
                yield self._named(side.attach(block))
        side.finish()

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all rows, by one pass; that of the same data in memory."""
        return fingerprint(self.raw_blocks())

    def __iter__(self) -> Iterator[Dataset]:
        return self.blocks()

    def _named(self, block: Dataset) -> Dataset:
        """The block with the stream's feature names; a file with other names is refused."""
        if self.options.feature_names is not None:
            return replace(block, feature_names=self.feature_names)
        if self._sources[0].rereadable and block.feature_names != self.feature_names:
            raise SchemaError(
                f"the features are not called as in {self.sources[0]}",
                file=block.sources[-1] if block.sources else None,
                fix="Choose the same columns in the same order with features=[...]",
            )
        return block

    @cached_property
    def whole(self) -> tuple[str, ...]:
        """Files of formats that are read whole or not at all."""
        return tuple(s.name for s in self._sources if not self._format(s).streams)

    def _format(self, source: Source) -> Format:
        return choose_format(source, self.options.format, source.head())

    def _reader(self, source: Source) -> Any:
        form = self._format(source)
        if not form.streams:
            raise FileKindError(
                f"{form.name} files are read whole, not as a stream",
                file=source.name,
                fix="Load it, or convert it first: rankine convert IN OUT.parquet",
            )
        return reader_of(form)

    def __repr__(self) -> str:
        return f"Scan({', '.join(self.sources[:3])}{', ...' if len(self.sources) > 3 else ''})"
