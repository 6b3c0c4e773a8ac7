"""Build the errors for bad lines of text from the faults that the tokenizer reports."""

from __future__ import annotations

import re

from rankine.core.errors import DataError, LimitError, ParseError, QueryOrderError
from rankine.core.safe_text import printable
from rankine.data.options import ReadOptions
from rankine.data.readers.letor_tokens import Fault

_SHOWN = 40
_DECIMAL = re.compile(rb"[+-]?(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?")
_NUMBER = "Write a decimal number such as 0.5, -3 or 1e-7"
_GROUP = "pass group (rows per query), or single_query if all rows are one query"


def explain(fault: Fault, line: bytes, offset: int, options: ReadOptions, number: int) -> DataError:
    """Return the error for ``line`` (without its line feed), which is wrong at byte ``offset``."""
    if fault == Fault.DUPLICATE:
        offset = _second_use(line)
    token = _token(line, offset)
    if fault in {Fault.INDEX_HIGH, Fault.DUPLICATE}:
        token = token.partition(b":")[0]
    error_type, reason, fix = _describe(fault, token, options)
    return error_type(reason, line=number, column=offset + 1, fix=fix)


def _describe(fault: Fault, token: bytes, options: ReadOptions) -> tuple[type[DataError], str, str]:
    """Return type, reason and fix of the error for a fault."""
    token_text = _show(token)
    if fault == Fault.CARRIAGE:
        return (
            ParseError,
            "a carriage return that is not followed by a line feed",
            "Convert the line endings to LF or CRLF",
        )
    if fault == Fault.QID_ABSENT:
        reason = "no query id"
        if token:
            reason += f" before {token_text}"
        return (
            QueryOrderError,
            reason,
            f"Write 'label qid:ID index:value ...' on every line, or {_GROUP}",
        )
    if fault == Fault.QID_UNEXPECTED:
        return (
            QueryOrderError,
            "a query id in a file whose queries were given by group or single_query",
            "Leave out group and single_query, or remove the ids",
        )
    if fault == Fault.QID_RANGE:
        return LimitError, f"query id {token_text} is not a 64-bit integer", "Set qid_type to 'str'"
    if fault == Fault.QID_UTF8:
        return ParseError, f"query id {token_text} is not UTF-8", "Convert the file to UTF-8"
    if fault == Fault.QID_BAD:
        if not token:
            return ParseError, "empty query id", "Write the id directly after 'qid:'"
        if options.qid_type == "str":
            return ParseError, f"query id {token_text} holds a control character", "Remove it"
        return ParseError, f"query id {token_text} is not an integer", "Set qid_type to 'str'"
    if fault == Fault.INDEX_LOW:
        return (
            ParseError,
            "feature index 0, but indices start at 1",
            "Set base to 0 if they start at 0",
        )
    if fault == Fault.INDEX_HIGH:
        return _index_too_high(token_text, options)
    if fault == Fault.DUPLICATE:
        return (
            ParseError,
            f"feature index {token_text} appears twice",
            "Write every feature once a row",
        )
    if fault == Fault.INDEX:
        return _bad_index(token, token_text)
    what = "value"
    if fault == Fault.LABEL:
        what = "label"
    return _bad_number(what, token, token_text)


def _index_too_high(shown: str, options: ReadOptions) -> tuple[type[DataError], str, str]:
    if options.n_features is not None:
        last = options.n_features - 1 + options.base
        reason = f"feature index {shown} is above {last}, the last of {options.n_features} features"
        return (
            LimitError,
            reason,
            "Increase n_features, or check base (first index)",
        )
    return (
        LimitError,
        f"feature index {shown} is above the limit of {options.max_features} features",
        "Renumber or hash the features, or check the file",
    )


def _bad_index(token: bytes, shown: str) -> tuple[type[DataError], str, str]:
    if token.startswith(b"qid:"):
        return (
            ParseError,
            "the query id must come right after the label",
            "Move it, and write it once",
        )
    if token.startswith((b"cost:", b"sid:")):
        return ParseError, f"{shown} is an SVMlight extension that is not read", "Remove it"
    if token.lstrip(b"0123456789") == b"":
        return ParseError, f"{shown} has no value", "Write 'index:value'"
    odd = _odd_byte(token)
    if odd:
        return ParseError, odd, "Check that the file is UTF-8 text in the LETOR format"
    return (
        ParseError,
        f"{shown} is not a feature 'index:value'",
        "Write 'index:value', index in digits",
    )


def _bad_number(what: str, token: bytes, shown: str) -> tuple[type[DataError], str, str]:
    lower = token.lower().lstrip(b"+-")
    if not token:
        return ParseError, f"empty {what}", _NUMBER
    if lower in {b"nan", b"null", b"na", b"none", b"?"}:
        fix = "Write NULL or NaN where a value is missing"
        if what == "label":
            fix = "Every row needs a number as label"
        return ParseError, f"{what} is missing ({shown})", fix
    if lower.startswith(b"inf"):
        return ParseError, f"{what} {shown} is infinite", "Write a finite number"
    odd = _odd_byte(token)
    if odd:
        return ParseError, odd, "Check that the file is UTF-8 text in the LETOR format"
    if _DECIMAL.fullmatch(token):  # a number that the tokenizer could not store
        return LimitError, f"{what} {shown} is too large for the chosen dtype", "Rescale it"
    if b"," in token:
        return ParseError, f"{what} {shown} holds a comma", "Use a point as decimal separator"
    if b":" in token and what == "label":
        return ParseError, f"the line starts with {shown}, not with a label", _NUMBER
    return ParseError, f"{what} {shown} is not a decimal number", _NUMBER


def _odd_byte(token: bytes) -> str:
    if b"\0" in token:
        return "a NUL byte: the file is binary, UTF-16, or damaged"
    try:
        text = token.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"bytes that are not UTF-8 ({token[error.start : error.start + 1]!r})"
    odd = next((c for c in text if not c.isprintable()), None)
    return f"character {odd!r} where only blanks separate tokens" if odd else ""


def _second_use(line: bytes) -> int:
    """Return the offset of the first index that appears for the second time."""
    indices: set[int] = set()
    offset = 0
    for token in line.partition(b"#")[0].replace(b"\t", b" ").split(b" "):
        index, colon, _ = token.partition(b":")
        if colon and index.isdigit():
            number = int(index)
            if number in indices:
                return offset
            indices.add(number)
        offset += len(token) + 1
    return offset


def _token(line: bytes, offset: int) -> bytes:
    """Return the token at ``offset``, up to a blank or a comment."""
    stop = offset
    while stop < len(line) and line[stop] not in b" \t#\r":
        stop += 1
    return line[offset:stop]


def _show(token: bytes) -> str:
    return f"'{printable(token[: 4 * _SHOWN].decode('utf-8', 'backslashreplace'), _SHOWN)}'"
