"""Read damaged compressed text: it must be refused or give the original rows.

gzip, bzip2 and xz have checksums, so changed rows must never come out. A zstd frame written by
pyarrow has none: damage may decode to other text, which is then read by the same strict grammar.
Such files are counted separately (``no checksum``).
"""

from __future__ import annotations

import io

import rankine
from rankine.core.errors import DataError
from reference.byte_mutants import mutate
from reliability.harness.outcome import Job, Outcome
from reliability.trials.text import PACKERS

TEXT = b"".join(
    b"%d qid:%d 1:%d.5 7:-0.25 %d:1e-3 # doc%d\n" % (k % 3, k // 4, k, 8 + k % 5, k)
    for k in range(40)
)
SEEDS = {name: pack(TEXT) for name, pack in PACKERS.items() if name != "plain"}
FIRST_MEMBER = PACKERS["gz"](TEXT[: TEXT.index(b"\n") + 1])
SEEDS["two members"] = FIRST_MEMBER + PACKERS["gz"](TEXT[TEXT.index(b"\n") + 1 :])


def digest(data: bytes) -> str:
    """Return the fingerprint of the rows of a file."""
    return rankine.load(io.BytesIO(data), dense=False).fingerprint


def trial(job: Job) -> Outcome:
    """Cut the files at every byte (first batch), then damage them at random."""
    outcome = Outcome()
    good = digest(TEXT)
    if job.first == 0:
        cuts = [(name, data[:k]) for name, data in SEEDS.items() for k in range(1, len(data))]
        for name, data in cuts:
            _read(outcome, data, None, name, f"{name} cut at {len(data)}")
        outcome.counts["cuts"] += len(cuts)
    for case, rng in job.cases(outcome):
        name = rng.choice(list(SEEDS))
        data = mutate(SEEDS[name], rng, tail=40)
        _read(outcome, data, good, name, f"{job.name(case)} {name}: {data!r}")
    return outcome


def _read(outcome: Outcome, data: bytes, good: str | None, name: str, message: str) -> None:
    try:
        fingerprint = digest(data)
    except DataError as error:
        placed = error.fix and (error.file or error.code == "empty")
        outcome.require(placed, "misplaced", f"{message}: {error}")
        outcome.counts["refused"] += 1
        return
    except Exception as error:
        outcome.fail("crashes", f"{message}: {error!r}")
        return
    if fingerprint == good or data == FIRST_MEMBER:  # which is a whole file by itself
        outcome.counts["same"] += 1
    elif name == "zst" and good is not None:
        outcome.counts["no checksum"] += 1
    else:
        outcome.fail("accepted" if good is None else "misread", message)


def warm() -> None:
    """Load the compiled reader before children are forked."""
    digest(TEXT)
