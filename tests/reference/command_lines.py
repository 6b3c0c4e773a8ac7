"""Files and command lines for tests of every command, and how to run one in this process."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from tools.docs.cli_reference import commands

#: A command line of each command that succeeds on the files of ``write_files``.
LINES = {
    "calibrate": "logged.rankine held-out.parquet --outcome clicked --position position "
    "--out calibrated.rankine",
    "certify": "shaped.rankine --out certified.rankine",
    "clicks propensity": "log.parquet --item product_id --query session_id --search search "
    "--label clicked --min-rows 1 --n-resamples 5",
    "compare": "model.rankine additive.rankine test.txt --n-resamples 100",
    "convert": "train.txt out.parquet",
    "demo": "--n-queries 30 --out demo",
    "edit": "tables.rankine log.parquet --fixed edits.toml --out edited.rankine",
    "evaluate": "model.rankine test.txt --metric ndcg@10 --metric map",
    "explain": "logged.rankine log.parquet --qid s1",
    "export": "tables.rankine --to python --out model.py",
    "fuse": "a.run b.run --qrels qrels.txt --n-folds 2 --out fused.rankine",
    "history apply": "newer.parquet --state state",
    "history build": "newer.parquet --schema history.toml --state new-state --out built.parquet",
    "history show": "--state state --by product_id=p00001",
    "inspect": "model.rankine",
    "interleave analyse": "log.parquet --query session_id --label clicked --n-resamples 100",
    "interleave plan": "model.rankine additive.rankine test.txt --out mixed.parquet",
    "letor": "letor --ranker ranksvm:l2=0.1 --workers 1",
    "pareto": "log.parquet --query session_id --label clicked --numeric price,rating "
    "--goal clicked --goal rating --points 3 --out front",
    "path": "train.txt --valid test.txt --n-steps 3 --out path.rankine",
    "predict": "model.rankine test.txt --out scores.txt",
    "report": "model.rankine test.txt --out report.html",
    "retrain": "logged.rankine newer.parquet --out logged.rankine",
    "serve": "model.rankine --port 0",
    "sort": "train.txt sorted.txt",
    "train": "train.txt --ranker ranksvm --valid test.txt --out trained.rankine",
    "strengths": "pairs.csv --n-resamples 10",
    "tune": "train.txt --valid test.txt --trials 3 --ranker least-squares --out tuned.rankine",
    "warmup": "--ranker no-such-ranker",
    "watch": "logged.rankine log.parquet --threshold 9",
}
#: Further command lines, whose output has another form.
MORE_LINES = (
    "compare model.rankine additive.rankine third.rankine test.txt --n-resamples 100",
    "compare a.run b.run qrels.txt --n-resamples 100",
    (
        "evaluate logged.rankine log.parquet --counterfactual --propensity propensity.json "
        "--item product_id --position position --query session_id --label clicked"
    ),
    "explain additive.rankine test.txt --qid 51",
    "explain tables.rankine log.parquet --qid s1",
    "explain tables.rankine log.parquet --qid s1 --docs 1 2",
    "export model.rankine --to json --out model.json",
    "export fusion.rankine --to opensearch --out pipeline.json",
    "compare model.rankine additive.rankine test.txt --n-resamples 100 --per-query --json",
    "history show --state state",
    "inspect tables.rankine",
    "inspect logged.rankine --top 30",
    "inspect bundle.rankine",
    "inspect log.parquet",
    "inspect log.parquet --schema",
    "inspect train.txt",
    "inspect a.run",
    "inspect letor",
    "inspect .",
    "letor letor --ranker ranksvm:l2=0.1 --ranker least-squares:l2=0.1 --workers 1",
    "path train.txt --ranker elastic --valid test.txt --n-steps 2",
    "path train.txt --ranker additive --valid test.txt --n-steps 2",
    "predict model.rankine test.txt --trec",
    (
        "train log.parquet --schema schema.toml --ranker elastic --missing mean "
        "--split time:0.6,0.2,0.2 --out t"
    ),
    "train log.parquet --schema schema.toml --ranker additive --out t",
    "train pairs.csv --pairs winner,loser --ranker ranksvm --out t",
    "tune train.txt --trials 3 --folds 2 --ranker additive --set bins=8",
    "watch logged.rankine newer.parquet --threshold 9",
)


def shop_table(n_lists: int, seed: int) -> dict[str, Any]:
    """Return the columns of a click log, as a shop would write them."""
    rng = np.random.default_rng(seed)
    n_items = 8
    n = n_lists * n_items
    price = np.round(rng.lognormal(3, 1, n), 3)
    brand = rng.choice(["acme", "zeta", "blue", "a brand with a long name"], n)
    position = np.tile(np.arange(1, n_items + 1), n_lists)
    utility = 2.0 * (brand == "acme") - 0.5 * np.log(price) + rng.gumbel(size=n)
    clicked = (utility - 0.2 * position > np.quantile(utility, 0.6)).astype(np.int64)
    list_number = np.repeat(np.arange(n_lists), n_items)
    names = [f"s{k}" for k in list_number]
    products = rng.integers(0, 20, n)
    return {
        "session_id": names,
        "search": [f"words {k % 7}" for k in list_number],
        "user_id": [f"u{k % 5}" for k in list_number],
        "product_id": [f"p{k:05d}" for k in products],
        "device": [("phone", "desk")[k % 2] for k in list_number],
        "ts": 1_700_000_000 + 100_000 * seed + 60 * list_number,
        "position": position,
        "price": [None if rng.random() < 0.05 else float(p) for p in price],
        "rating": np.round(rng.uniform(1, 5, n), 1),
        "in_stock": rng.random(n) < 0.8,
        "brand": brand,
        "category": rng.choice(["shoes", "hats"], n),
        "team": rng.choice(["A", "B"], n),
        "clicked": clicked,
        "purchased": clicked * rng.integers(0, 2, n),
    }


def write_files(folder) -> None:
    """Write small files of every kind that a command reads."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import rankine
    from rankine.logs.build import build_history
    from rankine.logs.propensity import estimate_propensity
    from rankine.logs.schema import read_schema
    from rankine.logs.source import scan

    log = rankine.shop_log(60, random_state=4, list_length=8)
    log = replace(log, columns={}, position=None)
    for name, queries in (("train", range(50)), ("test", range(50, 60))):
        part = log.take_queries(np.array(queries))
        part.save(folder / f"{name}.parquet")
        replace(part, feature_names=None).save(folder / f"{name}.txt")
    train, test = (rankine.load(folder / f"{name}.txt") for name in ("train", "test"))
    for name, seed in (("log", 0), ("newer", 1), ("held-out", 2)):
        columns = shop_table(400 if name == "held-out" else 40, seed)
        if name == "held-out":  # lists that no model was trained on
            columns["session_id"] = [f"h{session}" for session in columns["session_id"]]
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    columns = {"query": "session_id", "label": "clicked"}
    click_log = scan(
        str(folder / "log.parquet"), numeric=["price", "rating"], one_hot=["brand", "category"],
        item="product_id", position="position", time="ts", **columns,
    )  # fmt: skip
    pairs = [("price", "brand"), ("price", "rating")]
    models = {
        "model": rankine.RankSVM().fit(train),
        "third": rankine.LeastSquaresRanker().fit(train),
        "additive": rankine.AdditiveRanker(bins=8, pairs=1).fit(train),
        "shaped": rankine.AdditiveRanker(bins=8, pairs=1, shapes={0: "increasing"}).fit(train),
        "logged": rankine.ElasticRanker(missing="indicator").fit(click_log),
        "tables": rankine.AdditiveRanker(pairs=pairs).fit(click_log),
    }
    for name, ranker in models.items():
        ranker.to_model().save(folder / f"{name}.rankine")
    topics = np.column_stack([train.y > 0, train.y > 1]).astype(float)
    rankine.fit_topics(train.X, topics, l1=0.01).save(folder / "bundle.rankine")
    estimate_propensity(
        str(folder / "log.parquet"), item="product_id", position="position", min_rows=1,
        n_resamples=0, **columns,
    ).save(folder / "propensity.json")  # fmt: skip
    (folder / "schema.toml").write_text(
        'query = "session_id"\nlabel = "clicked"\nitem = "product_id"\ntime = "ts"\n'
        'position = "position"\nnumeric = ["price", "rating"]\none_hot = ["brand"]\n'
    )
    declared = (
        '[history.clicks]\ncount = "clicked"\nby = "product_id"\nhalf_life = "30d"\n'
        '[history.click_rate]\nrate = "clicked"\nby = ["product_id", "device"]\n'
    )
    schema = (folder / "schema.toml").read_text() + declared
    (folder / "history.toml").write_text(schema)
    build_history(
        str(folder / "log.parquet"), str(folder / "built.parquet"),
        read_schema(folder / "history.toml"), state=str(folder / "state"),
    )  # fmt: skip
    _write_trec_files(folder, test)
    runs = [str(folder / "a.run"), str(folder / "b.run")]
    rankine.fuse(runs, str(folder / "qrels.txt"), n_folds=2).model.save(folder / "fusion.rankine")
    _write_letor_folder(folder / "letor", train)
    rng = np.random.default_rng(0)
    duels = [rng.choice(6, 2, replace=False, p=np.arange(1, 7) / 21) for _ in range(60)]
    lines = [f"item-{a},item-{b}" for a, b in duels]
    (folder / "pairs.csv").write_text("\n".join(["winner,loser", *lines]) + "\n")
    (folder / "bad.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:zero\n")
    (folder / "empty.txt").write_text("")
    (folder / "edits.toml").write_text('[[fixed]]\ncolumn = "price"\nvalue = 0.0\n')
    (folder / "limits.json").write_text('{"price": [1, 20.5]}')
    (folder / "names.txt").write_text("\n".join(log.feature_names) + "\n")
    (folder / "sizes.txt").write_text("8\n" * 10)


def _write_trec_files(folder, test) -> None:
    rng = np.random.default_rng(2)
    rows = list(zip(test.qid.tolist(), test.docid.tolist(), test.y.tolist(), strict=True))
    lines = dict.fromkeys(("a.run", "b.run", "qrels.txt"), "")
    for qid, docid, label in rows:
        lines["qrels.txt"] += f"{qid} 0 {docid} {int(label)}\n"
        for name in ("a", "b"):
            score = label + rng.normal()
            lines[f"{name}.run"] += f"{qid} Q0 {docid} 0 {score:.4f} {name}\n"
    for name, text in lines.items():
        (folder / name).write_text(text)


def _write_letor_folder(folder, data) -> None:
    for fold in (1, 2):
        (folder / f"Fold{fold}").mkdir(parents=True)
        for k, name in enumerate(("train", "vali", "test")):
            queries = np.arange(6 * k, 6 * k + 6) + 12 * fold
            path = folder / f"Fold{fold}" / f"{name}.txt"
            replace(data.take_queries(queries), y=np.minimum(data.take_queries(queries).y, 2)).save(
                path
            )


def line_of(command: str) -> list[str]:
    """Return the arguments of a command line of a command.

    A command without an entry in ``LINES`` gets files by the names of its arguments.
    """
    if command in LINES:
        return [*command.split(), *LINES[command].split()]
    arguments = command.split()
    for parameter in commands()[command].params:
        if not parameter.required:
            continue
        value = "logged.rankine" if "model" in parameter.name else "log.parquet"
        if parameter.opts[0].startswith("-"):
            arguments += [max(parameter.opts, key=len), f"{parameter.name}.out"]
        else:
            arguments.append(value)
    return arguments


class Ended(NamedTuple):
    """How a command ended.

    Attributes
    ----------
    code
        Exit code; None if an exception left the command line.
    """

    code: int | None
    out: str
    err: str
    error: BaseException | None


class _Stream(io.TextIOWrapper):
    """Standard output in memory, which may claim to be a terminal."""

    def __init__(self, data: bytes = b"", *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8", write_through=True)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


def run(arguments: list[str], *, columns: int | None = None, stdin: bytes = b"") -> Ended:
    """Run a command line in this process; with ``columns``, as on a terminal of this width.

    A server stops as soon as it is ready.
    """
    from rankine.cli import main, serve

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    out, err = _Stream(terminal=columns is not None), _Stream(terminal=columns is not None)
    environment = {"TERM": "xterm", "COLUMNS": str(columns or 80)}
    saved = dict(os.environ), sys.argv, sys.stdin, serve._print_started
    os.environ.update(environment)
    sys.argv, sys.stdin, serve._print_started = ["rankine", *arguments], _Stream(stdin), stop
    code, error = None, None
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            main.run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException as failure:
        error = failure
    finally:
        os.environ.clear()
        os.environ.update(saved[0])
        _, sys.argv, sys.stdin, serve._print_started = saved
    return Ended(code, out.text(), err.text(), error)
