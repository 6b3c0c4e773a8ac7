"""Run tables and figures of the five papers.

    python -m papers                          # all of them at their quick size
    python -m papers sculley.figure1 --full   # one table or figure at its full size
    python -m papers sculley tas              # all results of two papers

Smoke and quick results go to ``benchmarks/results/quick``, which git ignores; the pages of the
documentation show results of the full size only.
"""

from __future__ import annotations

import sys
from functools import partial

from benchmarks import runner

from papers import runs


def tasks_of(size, changes):
    """Map the name of every result to the function that runs it."""
    return {name: partial(runs.run, name, size, changes) for name in runs.paper_names()}


if __name__ == "__main__":
    sys.exit(runner.main("papers", __doc__, tasks_of))
