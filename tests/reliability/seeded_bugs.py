"""List bugs to plant in a copy of the package, and the trial that must notice each.

A bug replaces a text that occurs exactly once in its file; a test checks that it still does.
"""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """One seeded bug.

    Attributes
    ----------
    file
        Path in ``src/rankine``.
    old, new
        The text that is replaced, and its replacement.
    kind, count
        The trial that must notice it, and its number of cases.
    faults
        The faults of which the trial must count at least one.
    only
        The savers or solvers to try; empty for all.
    """

    file: str
    old: str
    new: str
    kind: str
    count: int
    faults: tuple[str, ...]
    only: str = ""


ATOMIC = "core/atomic.py"
CONTAINER = "model/container.py"
WEIGHTS = "model/weights.py"
TOKENS = "data/readers/letor_tokens.py"
RUN = "solvers/one_pass_run.py"
SOURCES = "rankers/sources.py"
SCALING = "transforms/scaling.py"
RANGE = "kernels/list_range.py"
BUGS: dict[str, Bug] = {
    "the fsync removed": Bug(
        ATOMIC, "            os.fsync(file.fileno())\n", "",
        "io-faults", 1, ("torn",), only="model",
    ),
    "renamed before the fsync": Bug(
        ATOMIC,
        "            os.fsync(file.fileno())\n        os.replace(temporary, target)",
        "            os.replace(temporary, target)\n            os.fsync(file.fileno())",
        "io-faults", 1, ("torn",), only="model",
    ),
    "the folder not flushed": Bug(
        ATOMIC, "    _flush_folder(target.parent)\n", "", "io-faults", 1, ("lost",), only="model",
    ),
    "the temporary file left behind": Bug(
        ATOMIC, "            temporary.unlink()", "            pass",
        "io-faults", 1, ("litter",), only="model",
    ),
    "an error of the disk swallowed": Bug(
        ATOMIC,
        "            temporary.unlink()\n        raise\n",
        "            temporary.unlink()\n        return\n",
        "io-faults", 1, ("accepted", "crashes", "torn"), only="model",
    ),
    "the model written in place": Bug(
        "model/store.py",
        "    with atomic_file(path) as file:\n",
        '    with open(path, "wb") as file:\n',
        "save-kills", 20, ("torn",),
    ),
    "the digest not checked": Bug(
        CONTAINER,
        "    computed = digest.hexdigest()\n    if computed.encode() != stored:\n",
        '    computed = stored.decode("latin-1")\n    if not stored:\n',
        "models", 2_000, ("accepted",),
    ),
    "a header in any form": Bug(
        CONTAINER,
        "    if data[8 : 8 + length] != _header(document, shapes, digest):\n",
        "    if not _header(document, shapes, digest):\n",
        "hostile-models", 2_000, ("accepted",),
    ),
    "bytes after the last tensor": Bug(
        CONTAINER, "    if position != len(data):\n", "    if position > len(data):\n",
        "hostile-models", 2_000, ("accepted",),
    ),
    "ends of names out of order": Bug(
        "model/weights.py",
        "int(ends[-1]) != size or (ends[1:] < ends[:-1]).any()",
        "int(ends[-1]) != size",
        "hostile-models", 10_000, ("accepted", "crashes"),
    ),
    "a weight that is NaN": Bug(
        WEIGHTS,
        "    if not np.isfinite(weights).all():\n", "    if np.isposinf(weights).any():\n",
        "hostile-models", 4_000, ("accepted",),
    ),
    "a position twice": Bug(
        WEIGHTS, "(positions[1:] > positions[:-1])", "(positions[1:] >= positions[:-1])",
        "hostile-models", 6_000, ("accepted",),
    ),
    "a name twice": Bug(
        "model/weights.py",
        "        if (hashes[1:] == hashes[:-1]).any() and",
        "        if (hashes[1:] < hashes[:-1]).any() and",
        "hostile-models", 30_000, ("accepted",),
    ),
    "a bundle with probes": Bug(
        "model/store.py",
        "    if canonical_json(describe(model)) != canonical_json(content.document):\n",
        "    if not content.document:\n",
        "hostile-models", 6_000, ("accepted",),
    ),
    "transforms that do not fit the weights": Bug(
        "model/linear.py",
        "        check_parts(self.transforms, self.n_features, self.parameters, self.provenance)\n",
        "",
        "used-models", 300, ("crashes", "hangs"),
    ),
    "sets of values decompressed without a limit": Bug(
        "core/log_summary.py", "limit + 1)", "1 << 30)",
        "used-models", 2_000, ("crashes",),
    ),
    "a checkpoint's digest not checked": Bug(
        "solvers/checkpoint.py",
        "    if digest != _digest(header, arrays):\n", "    if not digest:\n",
        "checkpoints", 300, ("accepted",),
    ),
    "a feature twice in a row": Bug(
        TOKENS, "                fault = Fault.DUPLICATE\n", "                fault = GOOD\n",
        "text", 3_000, ("accepted",),
    ),
    "the comparison with the largest index flipped": Bug(
        TOKENS, "        if column >= limit:\n", "        if column > limit:\n",
        "text", 4_000, ("accepted", "crashes", "misplaced"),
    ),
    "index 0 in a file that counts from 1": Bug(
        TOKENS, "        if column < 0:\n", "        if column < -1:\n",
        "text", 3_000, ("accepted", "misplaced", "crashes"),
    ),
    "a lone carriage return": Bug(
        TOKENS, "        if buf[pos + _1] != _LF:\n", "        if buf[pos + _1] == _CR:\n",
        "text", 1_500, ("accepted", "misplaced"),
    ),
    "a number rounded the wrong way": Bug(
        "kernels/numbers.py",
        "    mantissa = (mantissa + (mantissa & _1)) >> _1\n",
        "    mantissa = mantissa >> _1\n",
        "text", 3_000, ("misread",),
    ),
    "a line cut between two chunks": Bug(
        "data/readers/letor.py",
        "            buffer[: stop - last] = buffer[last:stop]\n            stop -= last\n",
        "            buffer[: stop - last] = buffer[last:stop]\n            stop = 0\n",
        "text", 500, ("misread", "accepted", "misplaced"),
    ),
    "a query that comes back": Bug(
        "data/scan.py", "            if repeated.any():\n",
        "            if repeated.sum() > len(ids):\n",
        "text", 3_000, ("accepted",),
    ),
    "a skipped row not counted": Bug(
        "data/readers/letor.py",
        'self.read_counts["skipped_rows"] = self.read_counts.get("skipped_rows", 0) + 1',
        'self.read_counts["skipped_rows"] = 1',
        "text", 3_000, ("misread",),
    ),
    "page checksums not verified": Bug(
        "data/readers/tables.py",
        "page_checksum_verification=True", "page_checksum_verification=False",
        "tables", 1_500, ("misread",),
    ),
    "the tie rule changed": Bug(
        "kernels/sorting.py",
        "        while rank > 0 and best[rank - unit] < value:\n",
        "        while rank > 0 and best[rank - unit] <= value:\n",
        "numbers", 60, ("misread",),
    ),
    "the tie rule of long lists changed": Bug(
        "kernels/sorting.py",
        "(i < middle and keys[i] <= keys[j]):\n            out[o]",
        "(i < middle and keys[i] < keys[j]):\n            out[o]",
        "numbers", 300, ("misread",),
    ),
    "a lazy update off by one": Bug(
        "updates/rda.py",
        "    return RdaStep(beta, t * optimizer.l1, 1.0",
        "    return RdaStep(beta, (t + 1.0) * optimizer.l1, 1.0",
        "numbers", 120, ("misread",),
    ),
    "a pair at the margin counted": Bug(
        "kernels/counting.py",
        "        while j < m and p[a] - p[j] > -margin:\n",
        "        while j < m and p[a] - p[j] >= -margin:\n",
        "numbers", 200, ("misread",),
    ),
    "resumed one list too late": Bug(
        RUN, "        self.learner.lists_seen = saved.step\n",
        "        self.learner.lists_seen = saved.step + 1\n",
        "determinism", 4, ("unequal",), only="elastic",
    ),
    "a resumed run forgets its clock": Bug(
        RUN, '        self.learner.clock[...] = saved.arrays["clock"]\n', "",
        "determinism", 4, ("unequal",), only="elastic",
    ),
    "sums cut by the number of threads": Bug(
        "kernels/shards.py",
        "    n_items = len(ends) - 1\n",
        "    n_items, n_shards = len(ends) - 1, n_threads()\n",
        "determinism", 8, ("unequal",), only="least-squares-egdm",
    ),
    "a body where none belongs": Bug(
        "serve/connection.py", 'if method in (b"GET", b"HEAD") and', 'if method == b"PUT" and',
        "http", 20, ("accepted",),
    ),
    "a key twice in a request": Bug(
        "serve/handlers.py",
        '        raise RequestError(400, "json", "a key is repeated in one object of the body")\n',
        "        pass\n",
        "http", 1_500, ("accepted",),
    ),
    "query weights of streams ignored": Bug(
        SOURCES, "resolve_query_weight(self._query_weight, block, allow_zero=True)",
        "resolve_query_weight(None, block, allow_zero=True)",
        "agreement", 60, ("unequal",), only="additive",
    ),
    "query weights in another order": Bug(
        "metrics/engine.py", "return [query_weight[q] for q in queries.ids.tolist()]",
        "return [query_weight[q] for q in sorted(queries.ids.tolist())]",
        "agreement", 60, ("unequal",), only="least-squares",
    ),
    "off by one at an empty list": Bug(
        "data/query_index.py", "np.concatenate([[0], np.cumsum(counts[counts > 0])])",
        "np.concatenate([[0], np.cumsum(counts)[: np.count_nonzero(counts)]])",
        "agreement", 20, ("unequal", "crashes"), only="least-squares",
    ),
    "a scale applied twice": Bug(
        SCALING, "            coef = coef * self.factors\n",
        "            coef = coef * self.factors * self.factors\n",
        "agreement", 60, ("unequal",), only="least-squares",
    ),
    "implicit zeros outside the range": Bug(
        RANGE, "if counts[slot] < n_list_rows:", "if counts[slot] < 0:",
        "agreement", 60, ("unequal",), only="least-squares",
    ),
    "lists taken in row order": Bug(
        RANGE, "    if order is None:\n", "    if order is None or len(order) > 1:\n",
        "agreement", 100, ("unequal",), only="least-squares",
    ),
    "weights forgotten in the deviations of sparse rows": Bug(
        SCALING, "x = rows.values[k] * factors[p]\n                sums[p] += weight[i] * x\n",
        "x = rows.values[k] * factors[p]\n                sums[p] += x\n",
        "agreement", 60, ("unequal",), only="least-squares",
    ),
    "a scale measured on the last block": Bug(
        SCALING, "                result = self._current\n", "                pass\n",
        "agreement", 60, ("unequal",), only="spd",
    ),
    "weights of a file reversed": Bug(
        "data/scan.py", "weight=self._weight[start:stop]", "weight=self._weight[start:stop][::-1]",
        "agreement", 60, ("unequal",), only="least-squares",
    ),
    "a partition twice in the sum": Bug(
        "distributed/worker_pool.py", "total = _add(subtotals.pop()[1], total)\n            size",
        "total = _add(_add(total, subtotals.pop()[1]), total)\n            size",
        "agreement", 60, ("unequal", "crashes"), only="least-squares",
    ),
    "queries counted instead of weighed": Bug(
        "losses/pair_queries.py", "/ (totals.query_weight * queries.pair_weight)",
        "/ (len(queries.query_weight) * queries.pair_weight)",
        "agreement", 24, ("unequal",), only="ranksvm",
    ),
    "a row's weight forgotten among pairs": Bug(
        "losses/least_squares.py",
        "remainder += (lap.weight[start + k] if lap.weighted else 1.0) * t[k]",
        "remainder += t[k]",
        "agreement", 24, ("unequal",), only="least-squares",
    ),
    "feature numbers of a request from 0": Bug(
        "serve/handlers.py", "np.fromiter(chain.from_iterable(columns), np.int64, total) - base",
        "np.fromiter(chain.from_iterable(columns), np.int64, total)",
        "agreement", 30, ("unequal",), only="least-squares",
    ),
    "weights of queries ignored by a metric": Bug(
        "metrics/engine.py", "weight = query_weights(queries, sample_weight, query_weight)",
        "weight = query_weights(queries, sample_weight, None)",
        "agreement", 60, ("unequal",), only="least-squares",
    ),
    "light queries rounded away beside a heavy one": Bug(
        "data/query_index.py", "        return level * sums_of_others(level, self.level_ptr)\n",
        "        whole = np.concatenate([[0.0], np.cumsum(level)])[self.level_ptr]\n"
        "        return level * (np.repeat(np.diff(whole), self.n_levels) - level)\n",
        "agreement", 40, ("unequal", "crashes"), only="additive",
    ),
    "weights of rows in the order of the file": Bug(
        "data/query_index.py", "np.add.reduceat(weight[self.order], self.level_starts[:-1])",
        "np.add.reduceat(weight, self.level_starts[:-1])",
        "agreement", 60, ("unequal", "crashes"), only="ranksvm",
    ),
    "weights of rows ignored in the draws of streams": Bug(
        "samplers/draw.py", "    index = build_pair_index(block, query_weight, ties=ties)\n",
        '    block = __import__("dataclasses").replace(block, weight=None)\n'
        "    index = build_pair_index(block, query_weight, ties=ties)\n",
        "agreement", 60, ("unequal",), only="spd",
    ),
    "zeros that are not stored are no smallest value": Bug(
        "transforms/missing.py", "    low[sparse] = np.fmin(low[sparse], 0.0)\n", "",
        "agreement", 120, ("unequal",), only="least-squares",
    ),
    "all lists are one in SQL": Bug(
        "export/sql.py", 'return f"OVER (PARTITION BY {_quoted(query)})"', 'return "OVER ()"',
        "agreement", 60, ("unequal",), only="least-squares",
    ),
    "a cross of columns the other way round": Bug(
        "transforms/categories.py", "text = _UNIT.join(map(str, value))",
        'text = _UNIT.join(map(str, value)) + ("" if str in map(type, value) else "0")',
        "agreement", 24, ("unequal",), only="log",
    ),
    "half a cross": Bug(
        "transforms/categories.py", 'elif value is None or None in value or "" in value:',
        'elif value is None or "" in value:',
        "agreement", 24, ("unequal",), only="log",
    ),
}  # fmt: skip


def plant(bug: Bug, source: str) -> str:
    """Return the source with the bug in it."""
    n_matches = source.count(bug.old)
    assert n_matches == 1, f"{bug.file}: {bug.old!r} occurs {n_matches} times"
    return source.replace(bug.old, bug.new)
