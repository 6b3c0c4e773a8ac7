"""Peak memory of a fit, above the interpreter with rankine imported, in units of the data."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import json, resource, sys
import numpy as np
import rankine
from benchmarks.common.workloads import rcv1_like
name, parameters, rows = json.loads(sys.argv[1])
ranker = getattr(rankine, name)(n_threads=1, **parameters)

def now():
    status = open("/proc/self/status").read()
    return {key: int(status.split(key + ":")[1].split()[0]) / 1024 for key in ("VmRSS", "VmHWM")}

imported = now()["VmRSS"]
X, _, y = rcv1_like(rows)
qid = np.zeros(rows, dtype=np.int64)
data = sum(a.nbytes for a in (X.data, X.indices, X.indptr, y, qid)) / 2**20
left = now()["VmRSS"] - imported - data  # what generating the workload left behind
open("/proc/self/clear_refs", "w").write("5")
ranker.fit(X, y, qid=qid)
print(now()["VmHWM"] - imported - max(left, 0.0), data)
"""


def peak_and_data(name, parameters, rows):
    """Measure the MiB that a fit needs above the imported interpreter, and the MiB of its data.

    The peak includes the data, and the compiled code that a first fit loads (Linux).
    """
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([name, parameters, rows])],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    peak, data = map(float, out.split())
    return peak, data


def peak_above_import(name, parameters, rows):
    """Return (peak - imported interpreter) / data."""
    peak, data = peak_and_data(name, parameters, rows)
    return peak / data
