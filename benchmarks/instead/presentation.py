"""Tables, figures and text of the comparisons."""

from __future__ import annotations

from papers.runs import module_of, table

from benchmarks.common.drawing import COLOURS, axis, free_places, panels, point_to
from benchmarks.common.timing import median_and_range
from benchmarks.instead.comparison import TREES

HEADER = (
    "learner",
    "NDCG@10",
    "against ours",
    "train CPU s",
    "times the fastest",
    "peak MB above the rows",
    "model bytes",
    "us a candidate",
    "chosen",
)
HOW = (
    "Each learner's settings are trained in separate processes with one thread; NDCG@10 on the "
    "validation rows chooses one, and its scores of the test rows are what the table shows, best "
    "first. *Against ours* is the mean difference to the ranker of ours that validation prefers, "
    "with its standard error over the queries. Dense features are divided by their standard "
    "deviation for everyone. Seconds are CPU time of training from rows in memory (imports "
    "excluded, and rankine's compilation, which later runs find cached; Vowpal Wabbit reads its "
    "text). Peak memory is what training adds to the loaded rows. Latency is per candidate in "
    "requests of 100 rows (Vowpal Wabbit: one call on text)."
)


def is_ours(name):
    """Whether a learner is rankine's."""
    return name.startswith("rankine")


def markdown(results, what):
    """Return the whole section."""
    rows = results["rows"]
    sizes = ", ".join(
        f"{part['rows']:,} rows of {part['queries']:,} queries ({name})"
        for name, part in rows.items()
    )
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    parts = [
        f"{what} {sizes}. {HOW} Peers: {versions}.",
        table(HEADER, _rows(results), bold={(0, 1)}),
    ]
    if results["refused"]:
        reasons = "; ".join(f"{name}: {why}" for name, why in results["refused"].items())
        parts.append(f"Without figures: {reasons}.")
    parts.append(verdict(results["learners"], results["ours"]))
    return "\n\n".join(parts)


def headline(results):
    """Compare the trees that validation prefers with rankine's best ranker, in one sentence."""
    learners, train = results["learners"], results["rows"]["train"]["rows"]
    tree = preferred(learners, [name for name in learners if name in TREES])
    title = module_of(results["result"]).TITLE
    return (
        f"{title}, {train:,} training rows, all tuned: {tree} minus {results['ours']} "
        f"{_gap_cell(learners[tree]['against_ours'])} NDCG@10."
    )


def by_quality(learners):
    """Return the names, best on test rows first."""
    return sorted(learners, key=lambda name: -learners[name]["test"])


def _rows(results):
    learners = results["learners"]
    fastest = min(figures["cpu_seconds"]["median"] for figures in learners.values())
    rows = []
    for name in by_quality(learners):
        figures = learners[name]
        setting = ", ".join(f"{k}={v}" for k, v in figures["setting"].items())
        rows.append(
            [
                name,
                f"{figures['test']:.4f}",
                "reference" if name == results["ours"] else _gap_cell(figures["against_ours"]),
                median_and_range(figures["cpu_seconds"], ".3g"),
                f"{figures['cpu_seconds']['median'] / fastest:.1f}",
                f"{figures['peak_mb']['median']:.0f}",
                f"{figures['model_bytes']['median']:,.0f}",
                median_and_range(figures["us_per_candidate"], ".2g"),
                setting,
            ]
        )
    return rows


def _gap_cell(gap):
    return f"{gap['mean']:+.4f} +- {gap['standard_error']:.4f}"


def preferred(learners, names):
    """Return the learner with the best validation value."""
    return max(names, key=lambda name: learners[name]["validation"])


def verdict(learners, reference):
    """Describe who wins by how much: trees, other linear learners, time and latency."""
    trees = [name for name in learners if name in TREES]
    other_linear = [name for name in learners if not is_ours(name) and name not in TREES]
    sentences = [f"Of ours the validation rows prefer {reference}."]
    if trees:
        tree = preferred(learners, trees)
        gap = learners[tree]["against_ours"]
        apart = abs(gap["mean"]) > 2 * gap["standard_error"]
        lead = (
            f"**Trees win on quality here**: {tree} is ahead by"
            if gap["mean"] > 0 and apart
            else f"Trees lose on quality here: {tree} is at"
            if apart
            else f"Trees and linear rankers cannot be told apart on these queries: {tree} is at"
        )
        sentences.append(
            f"{lead} {_gap(gap)} NDCG@10, for {_times(learners, tree, reference, 'cpu_seconds')} "
            f"times the training time, {_times(learners, tree, reference, 'us_per_candidate')} "
            f"times the latency and a model {_times(learners, tree, reference, 'model_bytes')} "
            "times as large."
        )
    if other_linear:
        linear = preferred(learners, other_linear)
        gap = learners[linear]["against_ours"]
        sentences.append(
            f"Of the other linear learners they prefer {linear}: {_gap(gap)} NDCG@10 against ours, "
            f"for {_times(learners, linear, reference, 'cpu_seconds')} times the training time "
            f"and {_times(learners, linear, reference, 'us_per_candidate')} times the latency."
        )
    return " ".join(sentences)


def _gap(gap):
    return f"{gap['mean']:+.4f} (standard error {gap['standard_error']:.4f})"


def _times(learners, name, reference, figure):
    ratio = learners[name][figure]["median"] / learners[reference][figure]["median"]
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def colour_of(name):
    """Return the colour of rankine's rankers, of trees or of the others."""
    return COLOURS[0] if is_ours(name) else COLOURS[1] if name in TREES else COLOURS[5]


def draw(results):
    """Draw quality against training time and against latency."""
    figure, axes = panels(2, 1, width=5.0, height=3.8)
    learners = results["learners"]
    colours = {name: colour_of(name) for name in learners}
    for ax, figure_name, label in (
        (axes[0], "cpu_seconds", "training, CPU seconds"),
        (axes[1], "us_per_candidate", "latency, microseconds a candidate"),
    ):
        points = [
            (n, figures[figure_name]["median"], figures["test"]) for n, figures in learners.items()
        ]
        for name, x, y in points:
            ax.plot([x], [y], "o", color=colours[name], markersize=6)
        axis(ax, label, "NDCG@10 on test rows", logx=True)
        _name_points(ax, points, colours)
    return figure


def _name_points(ax, points, colours):
    """Write names next to their points without covering a point or another name."""
    left, right = ax.get_xlim()
    ax.set_xlim(left / 1.2, right * (right / left) ** 0.3)
    ax.margins(y=0.12)
    ax.set_ylim(ax.get_ylim())
    to_share = ax.transScale + ax.transLimits
    places = [tuple(to_share.transform((x, y))) for _, x, y in points]
    names = [name for name, _, _ in points]
    for name, place, at in zip(names, places, free_places(names, places), strict=True):
        point_to(ax, name, place, at, colours[name])
