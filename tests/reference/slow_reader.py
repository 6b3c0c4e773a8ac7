"""Read LETOR text in plain Python, slowly and strictly, as a reference for the fast reader."""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
INTEGER = re.compile(rb"[+-]?[0-9]+")
DOCID = re.compile(rb"docid[ \t]*=[ \t]*([^ \t]*)")
MISSING = {b"nan", b"null"}


class RefusedError(ValueError):
    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


@dataclass
class Row:
    label: float
    qid: int | str | None
    features: dict[int, float]
    docid: bytes
    line: int = 0


def read(
    data: bytes, *, base: int = 1, qid_type: str = "int",
    has_qid: bool = True, max_features: int = 2**31 - 1, skip: bool = False,
) -> list[Row]:  # fmt: skip
    *lines, last = data.split(b"\n")
    texts = [line.removesuffix(b"\r") for line in lines] + ([last] if last else [])
    rows = []
    for k, text in enumerate(texts, 1):
        try:
            row = read_line(text, base, qid_type, has_qid, max_features)
        except (ValueError, OverflowError, IndexError) as error:
            if skip:
                continue
            raise RefusedError(k) from error
        if row is not None:
            row.line = k
            rows.append(row)
    return rows


def comes_back(rows: list[Row]) -> int | None:
    """Return the line where a query appears again later; None if there is none."""
    left: set[int | str | None] = set()
    for before, row in zip(rows[:-1], rows[1:], strict=True):
        if row.qid != before.qid:
            left.add(before.qid)
            if row.qid in left:
                return row.line
    return None


def read_line(text, base, qid_type, has_qid, max_features):
    require(b"\r" not in text)
    body, _, comment = text.partition(b"#")
    tokens = [token for token in re.split(rb"[ \t]+", body) if token]
    if not tokens:
        return None
    label = number(tokens.pop(0))
    qid = None
    if has_qid:
        require(tokens[0].startswith(b"qid:"))
        qid = query(tokens.pop(0)[4:], qid_type)
    features: dict[int, float] = {}
    for token in tokens:
        index, colon, value = token.partition(b":")
        require(colon and re.fullmatch(rb"[0-9]+", index))
        column = int(index) - base
        require(0 <= column < max_features and column not in features)
        features[column] = float("nan") if value.lower() in MISSING else number(value)
    return Row(label, qid, features, docid(comment))


def number(token: bytes) -> float:
    require(NUMBER.fullmatch(token))
    value = float(token)
    require(abs(value) != float("inf"))
    return value


def query(token: bytes, qid_type: str) -> int | str:
    if qid_type == "str":
        text = token.decode("utf-8")
        require(token and all(c > 31 and c != 127 for c in token))
        return text
    require(INTEGER.fullmatch(token))
    value = int(token)
    require(-(2**63) <= value < 2**63)
    return value


def docid(comment: bytes) -> bytes:
    text = comment.strip(b" \t")
    found = DOCID.match(text)
    return found.group(1) if found else re.split(rb"[ \t]", text)[0]


def require(condition) -> None:
    if not condition:
        raise ValueError
