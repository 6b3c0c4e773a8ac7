"""A raw log of up to 10^9 impressions through ``rankine train --ranker elastic --stream``.

    python -m benchmarks billion --full                          # 10^9 rows: 17 GB of disk
    python -m benchmarks.billion.training --rows 100000000 --folder DIR   # the log is kept there

The log (``benchmarks/billion/log.py``) is written first, file by file, every row drawn anew, its
CPU counted apart. Then three runs over the same files, alone on the machine:

- through the command line, killed with SIGKILL midway and resumed. Its newest checkpoint is thrown
  away before it is resumed: the resumed run must write the same state again;
- the same without a break (``--unbroken``, always in ``quick``): the model must have the same bits;
- Vowpal Wabbit on some of the same rows as text, logistic loss, one pass.

The quality is that of held-out lists whose labels are the chances of a click that the generator
knows: 1 is the order of the truth. Vowpal Wabbit is the package ``vowpalwabbit`` of the folder that
``RANKINE_VW_PACKAGE`` names, or of this Python.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import rankine
from benchmarks.billion import log as billion_log
from benchmarks.common.machine import save
from rankine.logs.source import read_for
from rankine.metrics import evaluate
from rankine.solvers.checkpoint import CheckpointFolder, read_checkpoint
from rankine.transforms.apply import score_dataset

#: Lists that are held out, far behind the last row of the longest log.
HELD_OUT, HELD_OUT_FROM = 2000, 10**12
#: Labels of held-out lists are chances: fractions need linear gains.
METRIC = "ndcg@10:gain=linear"
COMMAND = [sys.executable, "-c", "from rankine.cli.main import run; run()"]
IMPORTED = """
import resource, rankine, rankine.cli.main, rankine.logs, rankine.cli.train, pyarrow.parquet
rankine.ElasticRanker, rankine.LinearModel
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def log_file(folder, number, file_rows):
    return folder / f"log-{file_rows}-{number:04d}.parquet"


def write_file(path, first, count, judged):
    """Write a file unless it exists; return the CPU seconds of writing."""
    begun = time.process_time()
    if not path.exists():
        part = path.with_suffix(".part")
        billion_log.write(part, first, count, judged=judged)
        part.rename(path)
    return time.process_time() - begun


def write_log(folder, n_rows, file_rows):
    """Write the log and the held-out lists in separate processes; return the CPU seconds."""
    held_out = HELD_OUT * billion_log.LIST_ROWS
    jobs = [(folder / "held-out.parquet", HELD_OUT_FROM, held_out, True)]
    jobs += [
        (log_file(folder, k, file_rows), k * file_rows, file_rows, False)
        for k in range(n_rows // file_rows)
    ]
    with get_context("spawn").Pool(os.cpu_count()) as pool:
        return sum(pool.starmap(write_file, jobs, 1))


def training(folder, files, kept, every):
    """Return the arguments of ``rankine train``."""
    return [
        "train", *map(str, files), "--ranker", "elastic", "--stream", "--query", "session",
        "--label", "clicked", "--categorical", ",".join(billion_log.CATEGORICAL),
        "--numeric", ",".join(billion_log.NUMERIC), "--valid", str(folder / "held-out.parquet"),
        "--checkpoint", str(kept), "--every", str(every), "--out", str(kept / "model.rankine"),
        "--metric", METRIC, "--json",
    ]  # fmt: skip


class Run:
    """A process, and what it took: wall and CPU seconds, peak memory, output."""

    def __init__(self, command, **options):
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )

    def ended(self):
        """Return whether the process has ended, without reaping it."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, flags) is not None

    def finish(self, *, killed=False):
        """Wait for the end."""
        out, errors = self.process.stdout.read(), self.process.stderr.read()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode != (-signal.SIGKILL if killed else 0):
            raise SystemExit(f"ended with status {self.process.returncode}\n{errors[-2000:]}")
        self.out = out
        self.figures = {
            "wall_s": round(time.perf_counter() - self.begun, 1),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
            "peak_mb": round(usage.ru_maxrss / 1024, 1),
        }
        return self


def train(folder, files, kept, every):
    """Train without interruption."""
    return Run([*COMMAND, *training(folder, files, kept, every)]).finish()


def train_broken(folder, files, kept, every, n_lists):
    """Train, kill the process halfway and resume; return both runs and what was checked."""
    command = [*COMMAND, *training(folder, files, kept, every)]
    first = Run(command)
    checkpoints = CheckpointFolder(kept, every)
    while step_of(checkpoints.latest_path()) < n_lists // 2:
        if first.ended():
            raise SystemExit(f"it ended before its half\n{first.process.stderr.read()[-2000:]}")
        time.sleep(0.05)
    first.process.kill()
    first.finish(killed=True)
    newest = checkpoints.latest_path()
    thrown = state_of(newest)
    newest.unlink()
    again = None
    second = Run([*command, "--resume"])
    while again is None and not second.ended():
        if newest.exists():
            again = state_of(newest) == thrown
        time.sleep(0.01)
    second.finish()
    return first, second, {"killed_at_list": step_of(newest), "same_checkpoint": again}


def state_of(path):
    """Return the whole content of a checkpoint, for comparison."""
    checkpoint = read_checkpoint(path)
    arrays = {name: array.tobytes() for name, array in checkpoint.arrays.items()}
    return checkpoint.step, json.dumps(checkpoint.metadata, sort_keys=True), arrays


def step_of(path):
    """Lists that a checkpoint has seen."""
    return 0 if path is None else int(path.stem.split("-")[1])


def quality(kept, n_lists):
    """Return the metric on the held-out lists after every tenth of the stream."""
    evaluations = CheckpointFolder(kept, 1).latest().metadata["monitor"]["evals"]
    return [
        {"rows": billion_log.LIST_ROWS * row["step"], "ndcg@10": row["value"]}
        for row in evaluations
        if row["step"] % max(n_lists // 10, 1) == 0
    ]


def agreement(folder, model):
    """Compare the model's order of the held-out lists with the true order."""
    data = read_for(model, str(folder / "held-out.parquet"))
    by_list = (HELD_OUT, billion_log.LIST_ROWS)
    truth, model_scores = data.y.reshape(by_list), score_dataset(model, data).reshape(by_list)
    first, second = np.triu_indices(billion_log.LIST_ROWS, 1)
    right = (truth[:, first] > truth[:, second]) == (
        model_scores[:, first] > model_scores[:, second]
    )
    random = evaluate(f"{METRIC}:ties=expected", data.y, np.zeros(data.n_rows), data.qid)
    return {"random_ndcg@10": float(random), "pairs_as_the_truth": float(right.mean())}


# ------------------------------------------------------------------------------ Vowpal Wabbit
def write_text(path, n_rows):
    """Write rows in Vowpal Wabbit's format, one namespace per column."""
    names = list(billion_log.CATEGORICAL)
    with path.open("w", encoding="ascii") as file:
        for first in range(0, n_rows, billion_log.GROUP_ROWS):
            count = min(billion_log.GROUP_ROWS, n_rows - first)
            codes, numbers, _, clicked = billion_log.rows(first, count)
            columns = [*codes.tolist(), *numbers.tolist(), clicked.tolist()]
            for brand, shop, category, price, rating, age, click in zip(*columns, strict=True):
                file.write(
                    f"{1 if click else -1} |b {names[0]}-{brand} |s {names[1]}-{shop} "
                    f"|c {names[2]}-{category} |n price:{price:.7g} rating:{rating:.7g} "
                    f"age:{age:.7g}\n"
                )


def vowpal_wabbit(folder, n_rows):
    """Measure Vowpal Wabbit on the first rows, or return why it is absent."""
    where = os.environ.get("RANKINE_VW_PACKAGE")
    if where is None and importlib.util.find_spec("vowpalwabbit") is None:
        return {"absent": "vowpalwabbit (pip install it, or name its folder in RANKINE_VW_PACKAGE)"}
    text = folder / f"vw-{n_rows}.txt"
    if not text.exists():
        write_text(text, n_rows)
    options = f"--loss_function logistic -b 20 -d {text} --no_stdin"
    path = os.pathsep.join(filter(None, [where, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "vowpalwabbit", *shlex.split(options)]
    run = Run(command, env={**os.environ, "PYTHONPATH": path}).finish()
    return {
        "rows": n_rows,
        "command": f"vw {options.replace(str(folder) + '/', '')}",
        **run.figures,
        "cpu_us_a_row": 1e6 * run.figures["cpu_s"] / n_rows,
    }


# ------------------------------------------------------------------------------ all of it
def measure(n_rows, file_rows, folder, *, unbroken, peer_rows):
    """Write, train, kill, resume, compare."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = write_log(folder, n_rows, file_rows)
    files = [log_file(folder, k, file_rows) for k in range(n_rows // file_rows)]
    n_lists = n_rows // billion_log.LIST_ROWS
    every = max(n_lists // 50, 1)
    folders = {name: Path(tempfile.mkdtemp(dir=folder)) for name in ("warm", "broken", "unbroken")}
    train(folder, files[:1], folders["warm"], every)  # compiles
    imported = int(Run([sys.executable, "-c", IMPORTED]).finish().out) / 1024
    peer = vowpal_wabbit(folder, min(peer_rows, n_rows))
    print(peer, flush=True)
    first, second, broken = train_broken(folder, files, folders["broken"], every, n_lists)
    model = rankine.LinearModel.load(folders["broken"] / "model.rankine")
    arguments = training(Path("log"), [Path("log/log-*.parquet")], Path("kept"), every)
    results = {
        "rows": n_rows,
        "lists": n_lists,
        "files": len(files),
        "bytes_a_row": sum(file.stat().st_size for file in files) / n_rows,
        "log": "every row drawn anew, written before; no file is read twice",
        "generator_cpu_s": round(written, 1),
        "command": shlex.join(["rankine", *arguments]),
        "until_killed": first.figures,
        "resumed": second.figures,
        **broken,
        "digest": json.loads(second.out)["digest"],
        "wall_s": first.figures["wall_s"] + second.figures["wall_s"],
        "cpu_s": first.figures["cpu_s"] + second.figures["cpu_s"],
        "peak_mb": max(first.figures["peak_mb"], second.figures["peak_mb"]),
        "imported_mb": round(imported, 1),
        "quality": quality(folders["broken"], n_lists),
        **agreement(folder, model),
        "vowpal_wabbit": peer,
    }
    results["above_import_mb"] = round(results["peak_mb"] - imported, 1)
    save("billion", results)
    if unbroken:
        whole = train(folder, files, folders["unbroken"], every)
        results["unbroken"] = {
            **whole.figures,
            "million_rows_a_second": n_rows / 1e6 / whole.figures["wall_s"],
            "cpu_us_a_row": 1e6 * whole.figures["cpu_s"] / n_rows,
            "same_model": json.loads(whole.out)["digest"] == results["digest"],
        }
        if "cpu_us_a_row" in peer:
            share = results["unbroken"]["cpu_us_a_row"] / peer["cpu_us_a_row"]
            results["unbroken"]["cpu_of_vowpal_wabbit"] = share
        save("billion", results)
    print(json.dumps(results, indent=1))


def smoke():
    """Run the smallest size, as the tests do."""
    with tempfile.TemporaryDirectory() as folder:
        measure(2_000, 1_000, folder, unbroken=True, peer_rows=1_000)


def quick():
    """Measure a million rows."""
    with tempfile.TemporaryDirectory() as folder:
        measure(1_000_000, 250_000, folder, unbroken=True, peer_rows=1_000_000)


def full():
    """Measure 10^9 rows."""
    with tempfile.TemporaryDirectory() as folder:
        measure(10**9, 10**7, folder, unbroken=True, peer_rows=10**7)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--file-rows", type=int, default=10**7)
    parser.add_argument("--peer-rows", type=int, default=10**7)
    parser.add_argument("--folder", default="billion")
    parser.add_argument("--unbroken", action="store_true")
    options = parser.parse_args()
    measure(
        options.rows,
        options.file_rows,
        options.folder,
        unbroken=options.unbroken,
        peer_rows=options.peer_rows,
    )


if __name__ == "__main__":
    main()
