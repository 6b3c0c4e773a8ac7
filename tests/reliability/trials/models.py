"""Read damaged and hostile model files: a typed error, and no other effect.

``damaged``: random edits of the bytes. The digest no longer matches, so all must be refused.
``hostile``: edits with knowledge of the format and a recomputed digest. A file that is accepted
must be a valid model that saves as the same bytes. An audit hook checks that reading a model does
not import, execute, open or connect to anything.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time

import numpy as np

from corpus.found_models import FOUND
from rankine.core.errors import ModelError
from rankine.core.specs import ListRange, LogColumns, OneHot
from rankine.model import LinearModel, ModelBundle
from rankine.model.store import decode_any, load_any
from reliability.harness.outcome import Job, Outcome, peak_mb

DIGEST_AT = 8 + len(b'{"__metadata__":{"digest":"')
#: Events of Python's audit hook that reading bytes must not cause.
FORBIDDEN = ("pickle.", "exec", "compile", "import", "os.", "subprocess.", "socket.", "open",
             "ctypes.", "marshal.", "shutil.", "urllib.", "winreg.", "mmap.")  # fmt: skip
#: Time limit in seconds for a model of a few kilobytes.
PATIENCE = 5.0
#: One case in this number is also read from a file.
BY_FILE = 50

events: list[str] = []
watching = [False]


def watch(event, _arguments):
    if watching[0] and event.startswith(FORBIDDEN):
        events.append(event)


sys.addaudithook(watch)


def good_files() -> list[bytes]:
    """Return small model files of every kind."""
    linear = LinearModel.from_weights(
        [0.5, 0.0, -2.0, 1e-9, 3.0],
        ["bm25", "age", "é", "<x>", "last"],
        transforms=(ListRange(),),
        metric="ndcg@10",
        parameters={"ranker": "spd", "l2": 1e-4, "nested": {"a": [1, 2, None]}},
        provenance={"rows": 12},
    )
    plain = LinearModel.from_weights(np.arange(8.0), base=0)
    bundle = ModelBundle.from_weights({"earn": [1.0, 0.0], "grain": [0.0, 2.0]}, ["a", "b"])
    shops = OneHot(column="shop", values=("north", "south"))
    columns = LogColumns(numeric=("price",), one_hot=(shops,), hashed=("brand",), hash_bits=3)
    log = LinearModel.from_weights(np.arange(1.0, 12.0), transforms=(columns, ListRange()))
    return [one.to_bytes() for one in (linear, plain, bundle, log)]


def read(data: bytes):
    """Decode a file while the audit hook is active."""
    watching[0] = True
    try:
        return decode_any(data)
    finally:
        watching[0] = False


def sign(data: bytes) -> bytes:
    """Return the bytes with a correct digest."""
    if len(data) < DIGEST_AT + 64:
        return data
    blank = data[:DIGEST_AT] + b"0" * 64 + data[DIGEST_AT + 64 :]
    return data[:DIGEST_AT] + hashlib.sha256(blank).hexdigest().encode() + data[DIGEST_AT + 64 :]


def damage(rng: random.Random, data: bytes) -> bytes:
    """Apply one to four random edits of the bytes."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found)) if found else 0
        edit = rng.randrange(7)
        if edit == 0 and found:
            found[at] ^= 1 << rng.randrange(8)
        elif edit == 1 and found:
            found[at] = rng.choice(b'\x00\xff"{}[]:,0123456789 \n\\a-')
        elif edit == 2:
            del found[at : at + rng.randint(1, 40)]
        elif edit == 3:
            found[at:at] = rng.randbytes(rng.randint(1, 16))
        elif edit == 4:
            found[at:at] = found[at : at + rng.randint(1, 40)]
        elif edit == 5:
            del found[at:]
        else:
            size = len(found)
            lengths = (0, 1, 8, size, max(size, 8) - 8, 2**20, 2**20 + 8, 2**31, 2**63, 2**64 - 1)
            found[:8] = rng.choice(lengths).to_bytes(8, "little")
    return bytes(found)


def parts(data: bytes):
    """Return the header, document and payload of a good file."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["model"]), data[8 + length :]


def build(header, document, payload, *, canonical=True, document_text=None) -> bytes:
    """Build a file from edited parts, with a correct length and digest."""
    header = {name: dict(entry) for name, entry in header.items()}
    separators = (",", ":") if canonical else (", ", ": ")
    header["__metadata__"]["model"] = (
        json.dumps(document, sort_keys=True, separators=separators)
        if document_text is None
        else document_text
    )
    header["__metadata__"]["digest"] = "0" * 64
    text = json.dumps(header, sort_keys=canonical, separators=separators).encode()
    text += b" " * (-len(text) % 8)
    return sign(len(text).to_bytes(8, "little") + text + payload)


VALUES = [None, True, -1, 0, 1, 2, 5, 7, 2**31, 2**53, 2**63, 2**64, 10**30, 0.5, 1e308, -0.0, "",
          "linear", "bundle", "x" * 300, [], {}, [[]], [0], [0, 0], [1, 2], {"type": "list_range"},
          [{"type": "list_range"}], [{"type": "eval", "code": "1"}], {"rows": [], "scores": []},
          [{"type": "log_columns", "hash_bits": 60, "hashed": ["a"]}],
          [{"type": "log_columns", "numeric": ["a", "a"]}],
          {"rows": [{"indices": [0], "values": [1.0]}], "scores": [1.0]},
          {"rows": [{"indices": [0], "values": [1]}], "scores": [1.0]},
          {"rows": [{"indices": [9], "values": [1.0]}], "scores": [1.0]},
          {"rows": [{"indices": [0, 0], "values": [1.0, 1.0]}], "scores": [1.0]},
          "../../etc/passwd", "\ud800", "\x00"]  # fmt: skip
WORDS = [0, 1, 2, 3, 5, 8, -1, 2**31, 2**62, 2**63 - 1, -(2**63)]
ENTRY_VALUES = ["F64", "I64", "U8", "F32", "I8", [2], [0], [2**40], [1, 2], [0, 8], [8, 0], *VALUES]
TEXTS = [{"canonical": False}, {"document_text": "[" * 100_000},
         {"document_text": '{"a":1,"a":1}'}, {"document_text": '{"n":NaN}'},
         {"document_text": "1" * 5000}, {"document_text": '{"n":1e999}'}]  # fmt: skip


def restructure(rng: random.Random, data: bytes) -> bytes:
    """Apply one to three edits with knowledge of the format; the digest is correct afterwards."""
    header, document, payload = parts(data)
    payload, settings = bytearray(payload), {}
    for _ in range(rng.randint(1, 3)):
        edit = rng.randrange(11)
        tensors = [name for name in header if name != "__metadata__"]
        word = 8 * rng.randrange(max(len(payload) // 8, 1))
        if edit == 0:
            document[rng.choice([*document, "extra"])] = rng.choice(VALUES)
        elif edit == 1:
            document.pop(rng.choice([*document, "x"]), None)
        elif edit == 2 and tensors:
            field = rng.choice(["dtype", "shape", "data_offsets", "extra"])
            header[rng.choice(tensors)][field] = rng.choice(ENTRY_VALUES)
        elif edit == 3 and tensors:
            header.pop(rng.choice(tensors))
        elif edit == 4:
            header[rng.choice(["extra", "names", "starts", "indices"])] = {
                "data_offsets": [0, 8], "dtype": rng.choice(["I64", "F64", "U8"]), "shape": [1],
            }  # fmt: skip
        elif edit == 5:
            payload[word : word + 8] = rng.choice(WORDS).to_bytes(8, "little", signed=True)
        elif edit == 6:
            value = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e308])
            payload[word : word + 8] = np.float64(value).tobytes()
        elif edit == 7:
            payload = payload[: rng.randrange(len(payload) + 1)]
        elif edit == 8:
            document["probes"] = rng.choice([value for value in VALUES if isinstance(value, dict)])
        elif edit == 9:
            payload += rng.randbytes(rng.randint(1, 24))
        else:
            settings = rng.choice(TEXTS)
    if rng.random() < 0.2:
        raw = bytearray(build(header, document, bytes(payload)))
        raw[rng.randrange(8, len(raw))] = rng.choice(b'\x00\xff"{}[]:,0123456789 \\a-')
        return sign(bytes(raw))
    return build(header, document, bytes(payload), **settings)


def flaw(model, data: bytes) -> str:
    """Describe what is wrong with a model that was accepted; empty if nothing is."""
    rows = [model] if isinstance(model, LinearModel) else list(model.values())
    for row in rows:
        if not (np.isfinite(row.values).all() and (row.values != 0).all()):
            return "weights that are no finite non-zeros"
        inside = row.nnz == 0 or (row.indices[0] >= 0 and row.indices[-1] < row.n_features)
        if not (inside and (np.diff(row.indices) > 0).all()):
            return "positions out of order or range"
        if len(row.weight_names) != row.nnz:
            return "names that do not fit"
    if model.names is not None:
        if not (np.diff(model.names.ends, prepend=0) >= 0).all():
            return "ends of names out of order"
        if "".join(model.names.strings).encode() != model.names.text.tobytes():
            return "names that are not the bytes"
        if len(set(model.names.strings)) != len(model.names.strings):
            return "a name twice"
    return "" if model.to_bytes() == data else "saves as other bytes"


def damaged(job: Job) -> Outcome:
    """Read byte mutants: every one must be refused."""
    return _trial(job, damage, lambda _model, _data: "accepted")


def hostile(job: Job) -> Outcome:
    """Read mutants that know the format and have a correct digest."""
    return _trial(job, restructure, flaw)


def _trial(job: Job, change, find_flaw) -> Outcome:
    outcome = Outcome()
    files = good_files()
    _warm(files)
    before = peak_mb()
    events.clear()
    if job.first == 0:
        for data in FOUND:
            _read(outcome, data, flaw, f"found before: {data!r}")
    for case, rng in job.cases(outcome):
        data = change(rng, rng.choice(files))
        if data in files:
            outcome.counts["unchanged"] += 1
            continue
        _read(outcome, data, find_flaw, f"{job.name(case)}: {data!r}")
        if case % BY_FILE == 0:
            _by_file(outcome, job, data, job.name(case))
    outcome.require(not events, "accepted", f"audit events {sorted(set(events))}")
    outcome.keep_maximum("audit_events", len(events))
    outcome.keep_maximum("memory_growth_mb", peak_mb() - before)
    return outcome


def _warm(files) -> None:
    """Import what is imported on first use."""
    for data in [*files, files[0][:-1], b"", sign(files[0][:-8])]:
        try:
            read(data)
        except ModelError:
            continue


def _read(outcome: Outcome, data: bytes, find_flaw, message: str) -> None:
    began = time.perf_counter()
    try:
        model = read(data)
    except ModelError as error:
        outcome.counts["refused"] += 1
        outcome.require(error.reason and error.fix, "misplaced", f"{message}: {error}")
    except Exception as error:
        outcome.fail("crashes", f"{message}: {error!r}")
    else:
        wrong = find_flaw(model, data)
        outcome.require(not wrong, "accepted", f"{message}: {wrong}")
        outcome.counts["valid"] += not wrong
    outcome.require(time.perf_counter() - began < PATIENCE, "hangs", message)


def _by_file(outcome: Outcome, job: Job, data: bytes, message: str) -> None:
    """Read the same bytes from a file; the error must name it."""
    path = job.folder / "model"
    path.write_bytes(data)
    try:
        load_any(path)
    except ModelError as error:
        outcome.require(error.file == str(path), "misplaced", f"{message}: {error}")
    except Exception as error:
        outcome.fail("crashes", f"{message} by file: {error!r}")
