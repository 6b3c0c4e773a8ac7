"""Draw the convergence plots of the rankers' pages: ``python -m tools.docs.pictures [NAME ...]``.

Every curve is a real run on data made here. The drawings are kept in ``docs/pictures``; they are
made again when a solver changes. Lines and text take the colours of the page they stand in.
"""

from __future__ import annotations

import io
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import rankine
from rankine.logs.simulation import SHOP, shop_log
from rankine.metrics import evaluate, random_expectation
from tools.docs.figures import figure
from tools.docs.includes import ROOT

__all__ = ["PICTURES", "Picture", "draw"]

_INK, _GRID = "#010203", "#040506"  # stand-ins that become the page's own colours
_COLOURS = ("#5c6bc0", "#f4511e", "#009688", "#ab47bc")  # readable on white and on slate
_INKS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rankine",
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _GRID,
}
_PAGE_COLOURS = {
    _INK: "var(--md-default-fg-color, #777)",
    _GRID: "var(--md-default-fg-color--lightest, #7773)",
}


@dataclass(frozen=True)
class Picture:
    """Curves, how their axes are named and whether they are logarithmic."""

    x: str
    y: str
    curves: dict[str, tuple[Sequence[float], Sequence[float]]]
    log_x: bool = False
    log_y: bool = True
    levels: dict[str, float] | None = None


def spd(small: bool = False) -> Picture:
    """Distance to the optimum against steps."""
    log = shop_log(40 if small else 400)
    l2 = 1e-3
    exact = rankine.RankSVM(l2=l2, scale="standard", tol=1e-8).fit(log).solution_.objective
    settings = {
        "pegasos, averaged": {"solver": "pegasos", "average": True},
        "pegasos, last step": {"solver": "pegasos", "average": False},
        "passive-aggressive": {"solver": "passive_aggressive", "average": True},
        "hybrid": {"solver": "hybrid", "average": True},
    }
    steps = [10**k for k in range(2, 4 if small else 7)]
    curves = {}
    for name, chosen in settings.items():
        reached = []
        if chosen["solver"] != "passive_aggressive":  # which has no l2
            chosen["l2"] = l2
        for n in steps:
            ranker = rankine.SPDRanker(
                n_steps=n, record_at=[n], scale="standard", random_state=0, **chosen
            )
            reached.append(ranker.fit(log).record_[-1]["objective"] / exact - 1)
        curves[name] = (steps, reached)
    return Picture("pairs drawn", "J / minimum - 1", curves, log_x=True)


def ranksvm(small: bool = False) -> Picture:
    """Certified gap against iterations."""
    log = shop_log(40 if small else 400)
    curves = {}
    for loss, name in (("hinge", "hinge"), ("squared_hinge", "squared hinge")):
        ranker = rankine.RankSVM(l2=2e-4, loss=loss, scale="standard", tol=1e-6).fit(log)
        curves[name] = _trace(ranker, "iteration", "gap")
    return Picture("iteration", "certified gap", curves)


def additive(small: bool = False) -> Picture:
    """Certified gap against Newton steps, for stiff and loose tables."""
    log = shop_log(40 if small else 400)
    curves = {}
    for smooth, pairs in ((1.0, 0), (0.1, 0), (1.0, 5), (0.1, 5)):
        ranker = rankine.AdditiveRanker(smooth=smooth, pairs=pairs, tol=1e-6).fit(log)
        curves[f"smooth={smooth:g}, {pairs} pairs"] = _trace(ranker, "iteration", "gap")
    return Picture("Newton step", "certified gap", curves)


def least_squares(small: bool = False) -> Picture:
    """Residual against products with the data."""
    log = shop_log(40 if small else 400)
    curves = {}
    for solver, name in (("cg", "conjugate gradients"), ("egdm", "eGDM"), ("gdm", "momentum")):
        ranker = rankine.LeastSquaresRanker(solver=solver, l2=2e-4, tol=1e-8).fit(log)
        x, y = _trace(ranker, "iteration", "residual")
        curves[name] = (x[:120], y[:120])
    return Picture("iteration", "relative residual", curves)


def domination(small: bool = False) -> Picture:
    """Duality gap against sweeps."""
    X, y = _texts(200 if small else 3000)
    curves = {}
    for curvature, name in (("newton", "rankine"), ("paper", "the paper's fixed curvature")):
        ranker = rankine.DominationRanker(curvature=curvature, tol=1e-8, max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the paper's curvature may not arrive: that is shown
            ranker.fit(X, y, qid=np.zeros(len(y), dtype=int))
        curves[name] = _trace(ranker, "sweep", "gap")
    return Picture("sweeps", "duality gap", curves)


def elastic(small: bool = False) -> Picture:
    """Held-out NDCG after 1, 2, 4 ... lists, between chance and the shoppers' own taste."""
    n_train, n_test = (16, 20) if small else (4096, 2000)
    log = shop_log(n_train + n_test)
    test = log.take_queries(np.arange(n_train, n_train + n_test))
    stops = [2**k for k in range(int(np.log2(n_train)) + 1)]
    curves = {}
    for solver in ("rda", "fobos", "psgd", "tgd"):
        ranker = rankine.ElasticRanker(solver=solver, scale="query", random_state=0)
        reached = []
        for start, stop in zip([0, *stops], stops, strict=False):
            ranker.partial_fit(log.take_queries(np.arange(start, stop)))
            reached.append(evaluate("ndcg@10", test.y, ranker.predict(test), test.qid))
        curves[solver.upper()] = (stops, reached)
    taste = test.X @ np.array(list(SHOP.values()))
    levels = {
        "the shoppers' own weights": float(evaluate("ndcg@10", test.y, taste, test.qid)),
        "random order": float(random_expectation("ndcg@10", test.y, test.qid)),
    }
    return Picture("lists seen", "held-out NDCG@10", curves, True, False, levels)


def many_machines(_small: bool = False) -> Picture:
    """Seconds of a round against workers, and those of the scheduler alone, from the result."""
    curves = {}
    for rows, found in figure("partitions_simulated", "rounds").items():
        workers, rounds, scheduler = zip(*found, strict=True)
        curves[f"10^{len(rows) - 1} rows"] = (workers, rounds)
        curves[f"10^{len(rows) - 1}, scheduler alone"] = (workers, scheduler)
    return Picture("workers", "seconds a round", curves, log_x=True)


PICTURES: dict[str, Callable[[bool], Picture]] = {
    "spd": spd,
    "ranksvm": ranksvm,
    "additive": additive,
    "least-squares": least_squares,
    "domination": domination,
    "elastic": elastic,
    "many-machines": many_machines,
}


def _trace(ranker: Any, x: str, y: str) -> tuple[list[float], list[float]]:
    records = [record for record in ranker.solution_.trace if y in record]
    return [record[x] for record in records], [record[y] for record in records]


def _texts(n: int) -> tuple[Any, np.ndarray[Any, Any]]:
    """Documents of about 40 words from a Zipf law; a hundredth, with its own words, is relevant."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    words = rng.zipf(1.3, size=(n, 40)) % 4000
    relevant = rng.random(n) < 0.01
    words[relevant, :6] = 4000 + rng.integers(0, 30, size=(int(relevant.sum()), 6))
    rows = np.repeat(np.arange(n), 40)
    counts = sparse.csr_matrix((np.ones(n * 40), (rows, words.ravel())), shape=(n, 4030))
    counts.data = np.log1p(counts.data)
    return counts, relevant.astype(float)


def draw(picture: Picture) -> str:
    """The picture as SVG that takes its ink from the page."""
    import matplotlib as mpl
    from benchmarks.common.drawing import axis, label_lines, line, panels

    with mpl.rc_context(_INKS):
        figure, (axes,) = panels(width=6.4, height=3.2)
        for (name, (x, y)), colour in zip(picture.curves.items(), _COLOURS, strict=False):
            line(axes, x, y, name, colour, marker="")
        axis(axes, picture.x, picture.y, logx=picture.log_x, logy=picture.log_y)
        axes.minorticks_off()
        label_lines(axes)
        for name, level in (picture.levels or {}).items():
            axes.axhline(level, color=_INK, linewidth=0.8, linestyle=":")
            place = axes.get_yaxis_transform()
            words = axes.text(0.01, level, name, transform=place, va="bottom", fontsize=8.5)
            words.set_in_layout(False)
        target = io.StringIO()
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None})
    return _for_pages(target.getvalue())


def _for_pages(svg: str) -> str:
    """Only the drawing, its stand-in colours replaced, its numbers short, its ids its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"(\d+\.\d{2})\d+", r"\1", svg)
    svg = re.sub(r"font: (\d+)px [^;\"]*", r"font: \1px sans-serif", svg)
    for stand_in, colour in _PAGE_COLOURS.items():
        svg = svg.replace(stand_in, colour)
    return "\n".join(line for line in svg.splitlines() if line.strip()) + "\n"


def main() -> None:
    """Draw what was asked for, or everything."""
    folder = ROOT / "docs" / "pictures"
    folder.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        path = folder / f"{name}.svg"
        path.write_text(draw(PICTURES[name](False)), encoding="utf-8")
        print(path.relative_to(ROOT), path.stat().st_size)  # noqa: T201 - what a script says


if __name__ == "__main__":
    main()
