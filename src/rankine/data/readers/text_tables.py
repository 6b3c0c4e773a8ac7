"""Read CSV and JSON lines as Arrow batches, with types that follow from the use of a column.

Text does not say what its values are. Categories are read as they are written, numbers as float64.
The first 16 MiB decide the types of all other columns, whatever the size of blocks; a later value
of another type is an error.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json
from pyarrow import types as pt

from rankine.core.column_values import CATEGORY_FIX
from rankine.core.errors import ParseError, SchemaError
from rankine.data.compression import ByteStream
from rankine.data.options import ReadOptions
from rankine.data.readers.values import wrap_arrow_errors
from rankine.data.sources import Prefixed, read_fully

#: Bytes of text whose values decide the types of its columns, and bytes of a batch of text.
TEXT_BLOCK = 2**24
#: Texts that count as missing where Arrow infers a type.
_NULLS = csv.ConvertOptions().null_values
_DECIMAL_FRACTION = r"^-?\d+\.\d+$"
_CAPITALISED_BOOLEAN = r"^(True|False|TRUE|FALSE)$"


def read_csv(
    stream: ByteStream, options: ReadOptions, delimiter: str
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of a CSV file, and its batches."""
    parsing = csv.ParseOptions(delimiter=delimiter)
    file, sample = _read_sample(stream)

    def parse_sample(types: dict[str, pa.DataType], names: list[str] | None) -> pa.Table:
        return csv.read_csv(
            pa.BufferReader(sample),
            csv.ReadOptions(use_threads=False, block_size=len(sample) + 1),
            parsing,
            csv.ConvertOptions(column_types=types, include_columns=names),
        )

    with wrap_arrow_errors("text as csv", ParseError):
        inferred = parse_sample({}, None).schema
        types = _number_types(inferred, options)
        exact = [name for name in _text_names(options) if name in inferred.names]
        texts: Any = {}
        if exact:
            texts = parse_sample(dict.fromkeys(exact, pa.string()), exact)
        integers = []
        for name in exact:
            column, inferred_type = texts[name], inferred.field(name).type
            if name in options.categories:
                _refuse_ambiguous(column, inferred_type, name)
                types[name] = pa.string()
            elif pt.is_integer(inferred_type) or name in _id_names(options):
                types[name] = pa.string()
                if pt.is_integer(inferred_type) and _as_integers(column) is not None:
                    integers.append(name)
        reader = csv.open_csv(
            file,
            csv.ReadOptions(use_threads=False, block_size=TEXT_BLOCK),
            parsing,
            csv.ConvertOptions(column_types=types),
        )
    return _with_integers(reader.schema, reader, integers)


def read_json(
    stream: ByteStream, options: ReadOptions
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of a file of JSON lines, and its batches."""
    file, sample = _read_sample(stream)
    with wrap_arrow_errors("text as json", ParseError):
        reading = json.ReadOptions(use_threads=False, block_size=len(sample) + 1)
        inferred = json.read_json(pa.BufferReader(sample), reading).schema
        types = _number_types(inferred, options)
        for name in {*options.categories, *_id_names(options)}:
            # Arrow takes text that looks like a time for a time.
            if name in inferred.names and _is_time_or_null(inferred.field(name).type):
                types[name] = pa.string()
        parsing = json.ParseOptions(explicit_schema=pa.schema(list(types.items())))
        reading = json.ReadOptions(use_threads=False, block_size=TEXT_BLOCK)
        if hasattr(json, "open_json"):
            reader = json.open_json(file, reading, parsing)
        else:  # before pyarrow 20
            reader = json.read_json(file, reading, parsing).to_reader()
    return reader.schema, iter(reader)


class _ReadableStream(io.RawIOBase):
    """A ``ByteStream`` with the interface of a Python file, which Arrow reads from."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._stream.readinto(memoryview(buffer).cast("B"))


def _read_sample(stream: ByteStream) -> tuple[Any, bytes]:
    """Return the file, and the whole lines among its first bytes."""
    file: Any = _ReadableStream(stream)
    first_bytes = read_fully(file, TEXT_BLOCK)
    sample = first_bytes
    if len(first_bytes) == TEXT_BLOCK and b"\n" in first_bytes:
        sample = first_bytes[: first_bytes.rindex(b"\n") + 1]
    return Prefixed(first_bytes, file), sample


def _id_names(options: ReadOptions) -> set[str]:
    return {name for name in (options.query, options.docid) if name is not None}


def _text_names(options: ReadOptions) -> list[str]:
    """Return the columns whose text must not change: categories, ids and further columns."""
    exact = {*options.categories, *options.columns, *_id_names(options)}
    return sorted(exact - set(options.numbers))


def _number_types(inferred: pa.Schema, options: ReadOptions) -> dict[str, pa.DataType]:
    """Return float64 for columns of numbers that start with integers or without values."""
    types = {}
    for name in options.numbers:
        if name in inferred.names:
            inferred_type = inferred.field(name).type
            if pt.is_integer(inferred_type) or pt.is_null(inferred_type):
                types[name] = pa.float64()
    return types


def _is_time_or_null(data_type: pa.DataType) -> bool:
    return bool(pt.is_timestamp(data_type) or pt.is_null(data_type))


def _refuse_ambiguous(texts: pa.ChunkedArray, inferred_type: pa.DataType, name: str) -> None:
    """Refuse categories whose text would differ from that of the same values in typed files."""
    values = texts.filter(pc.invert(pc.is_in(texts, pa.array(_NULLS))))
    written, ambiguous = "times", pt.is_timestamp(inferred_type)
    if pt.is_floating(inferred_type):
        written = "numbers with a decimal point"
        ambiguous = pc.all(pc.match_substring_regex(values, _DECIMAL_FRACTION)).as_py()
    elif pt.is_boolean(inferred_type):  # in lower case, text and booleans are the same category
        written = "True and False"
        ambiguous = pc.any(pc.match_substring_regex(values, _CAPITALISED_BOOLEAN)).as_py()
    if ambiguous:
        raise SchemaError(
            f"the schema uses column {name!r} as categories, and CSV does not tell whether its "
            f"{written} are text",
            fix=f"{CATEGORY_FIX}: 1 instead of 1.0, true instead of True, or any text in Parquet",
            column=name,
        )


def _as_integers(texts: Any) -> Any:
    """Return text as integers; None where some text is not the usual form of its integer."""
    try:
        integers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    if not integers.cast(pa.string()).equals(texts):
        return None
    return integers


def _with_integers(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], names: list[str]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Convert columns of text that were integers in the sample."""
    for name in names:
        position = schema.get_field_index(name)
        schema = schema.set(position, pa.field(name, pa.int64()))
    return schema, _convert_integers(schema, batches, names)


def _convert_integers(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], names: list[str]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = list(batch.columns)
        for name in names:
            position = schema.get_field_index(name)
            texts = columns[position]
            integers = _as_integers(texts)
            if integers is None:
                text = next(text for text in texts if _as_integers(pa.array([text])) is None)
                raise SchemaError(
                    f"{text.as_py()!r} in column {name!r} is not an integer as the values before",
                    fix="Store the column as text in Parquet, or write integers in one form",
                    column=name,
                )
            columns[position] = integers
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
